//! A process that the tests start: in a process group of its own, and with its output in a file.
//!
//! The processes of a group end when their [`Process`] is dropped. If the tests are killed, the kernel ends the first one: see
//! [`launch`].

use std::{
    fs::File,
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal};
use tokio::process::{Child, Command};

/// The program that runs, even if its file was replaced meanwhile.
const THIS_PROGRAM: &str = "/proc/self/exe";

/// A running process.
pub struct Process {
    name: String,
    child: Child,
    pid: Pid,
    /// Its standard error, and its standard output unless that is a pipe.
    log: PathBuf,
}

/// The CPU time and the memory that a process uses.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    pub cpu: Duration,
    pub resident_bytes: u64,
}

impl Process {
    /// Starts a program without standard input.
    pub fn start(program: &Path, arguments: &[String], log: &Path) -> Result<Self> {
        let name = program.file_name().unwrap_or(program.as_os_str()).to_string_lossy().into_owned();
        Self::start_named(name, program, arguments, log, false)
    }

    /// Starts a part of this program, with pipes for its standard input and output.
    pub fn start_part(name: &str, arguments: &[String], log: &Path) -> Result<Self> {
        let arguments: Vec<_> = std::iter::once(name.to_owned()).chain(arguments.iter().cloned()).collect();
        Self::start_named(name.to_owned(), Path::new(THIS_PROGRAM), &arguments, log, true)
    }

    fn start_named(name: String, program: &Path, arguments: &[String], log: &Path, is_piped: bool) -> Result<Self> {
        let output = File::options().create(true).append(true).open(log)?;
        let mut command = Command::new(THIS_PROGRAM);
        command.arg("launch").arg(std::process::id().to_string()).arg("--").arg(program).args(arguments);
        command.process_group(0);
        if is_piped {
            command.stdin(Stdio::piped()).stdout(Stdio::piped());
        } else {
            command.stdin(Stdio::null()).stdout(output.try_clone()?);
        }
        let child = command.stderr(output).spawn().with_context(|| format!("starting {name}"))?;
        let pid = child.id().and_then(|id| Pid::from_raw(id.cast_signed())).context("a started process has an id")?;
        Ok(Self { name, child, pid, log: log.to_owned() })
    }

    /// The pipes of a process that was started with [`start_part`](Self::start_part).
    pub fn take_pipes(&mut self) -> Result<(tokio::process::ChildStdin, tokio::process::ChildStdout)> {
        self.child.stdin.take().zip(self.child.stdout.take()).context("the process has no pipes")
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        rustix::process::kill_process_group(self.pid, signal)
            .with_context(|| format!("sending {signal:?} to {}", self.name))
    }

    /// Fails with the end of the log if the process has ended.
    pub fn check(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => bail!("{} ended ({status}); its log ends with:\n{}", self.name, tail(&self.log, 15)),
        }
    }

    /// Ends the process at once.
    pub async fn kill(mut self) -> Result<()> {
        self.signal(Signal::KILL)?;
        self.child.wait().await?;
        Ok(())
    }

    /// Asks the process to end, and waits until it has ended.
    pub async fn terminate(mut self, within: Duration) -> Result<()> {
        self.signal(Signal::TERM)?;
        let ended = tokio::time::timeout(within, self.child.wait()).await;
        ended.with_context(|| format!("{} did not end within {within:?} of SIGTERM", self.name))??;
        Ok(())
    }

    /// Waits until the process has ended by itself, and fails if it did not succeed.
    pub async fn succeed(mut self) -> Result<()> {
        let status = self.child.wait().await?;
        if !status.success() {
            bail!("{} failed ({status}); its log ends with:\n{}", self.name, tail(&self.log, 15));
        }
        Ok(())
    }

    pub fn usage(&self) -> Result<Usage> {
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", self.pid.as_raw_nonzero()));
        // The fields after the name, which is in brackets: user time and system time are the 14th and the 15th of the line.
        let stat = read("stat")?;
        let (_, fields) = stat.rsplit_once(')').context("reading /proc/PID/stat")?;
        let ticks: u64 = fields.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse().unwrap_or(0)).sum();
        let statm = read("statm")?;
        let pages: u64 = statm.split_whitespace().nth(1).and_then(|pages| pages.parse().ok()).context("statm")?;
        let per_second = rustix::param::clock_ticks_per_second();
        let page = rustix::param::page_size() as u64;
        Ok(Usage { cpu: Duration::from_millis(ticks * 1000 / per_second), resident_bytes: pages * page })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // After the end of the process, its id may belong to another one.
        if self.child.id().is_some() {
            let _ = self.signal(Signal::KILL);
        }
    }
}

/// Replaces this process by a program, which the kernel kills when the process `parent` ends.
///
/// The tests start every program through this, as `conformance launch PARENT -- PROGRAM …`. The kernel watches the thread that started
/// the process, so that must be the main thread or a worker of the runtime, which live as long as the tests.
pub fn launch(parent: u32, program: &[String]) -> Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let current = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get().cast_unsigned());
    if current != Some(parent) {
        bail!("the parent ended before the process was started");
    }
    let (program, arguments) = program.split_first().context("no program")?;
    let error = std::process::Command::new(program).args(arguments).exec();
    Err(error).with_context(|| format!("starting {program}"))
}

/// The last lines of a file.
pub fn tail(path: &Path, lines: usize) -> String {
    let text = std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let all: Vec<_> = text.lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}
