//! What `conformance/run` does: informant against a real kube-apiserver and etcd, with the faults that they can have.
//!
//! | module | contents |
//! | --- | --- |
//! | `cases` | the faults, each with its bar |
//! | `stage` | what a case happens on: servers, proxy, writer, client |
//! | `servers`, `proxy`, `tls` | etcd and kube-apiserver; the proxy between them and the client |
//! | `client`, `protocol` | the client process with its informers, and how the tests question it |
//! | `suites` | the project's test suites against the real server |
//! | `report` | the table of results |
//! | `process` | processes that end with the tests |

#![cfg(target_os = "linux")]

mod cases;
mod client;
mod process;
mod protocol;
mod proxy;
mod report;
mod servers;
mod stage;
mod suites;
mod tls;

use std::{
    fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Parser, Subcommand};
use tokio::{
    process::Command,
    signal::unix::{SignalKind, signal},
    time::timeout,
};

use self::{
    cases::Case,
    report::Table,
    stage::{Failure, Measured, Stage},
};

/// Where servers keep their data and logs, and where the results are written; has the programs in `bin`.
const FOLDER: &str = "target/conformance";

/// A recovery that takes longer than this fails `--quick`: noise of the machine cannot cause it.
const QUICK_BAR: Duration = Duration::from_secs(30);

/// `--quick` fails if it takes longer than this.
const QUICK_DEADLINE: Duration = Duration::from_secs(25 * 60);

/// A case fails if it takes longer than this.
const CASE_DEADLINE: Duration = Duration::from_secs(15 * 60);

/// Runs informant against a real kube-apiserver and etcd, with the faults that they can have.
#[derive(Parser)]
#[command(name = "conformance/run", bin_name = "conformance/run")]
struct Arguments {
    /// Run a part that fits into CI: the suites in one mode, and a few cases without bars that a noisy machine could break
    #[arg(long)]
    quick: bool,
    /// Run this case only; can be repeated
    #[arg(long = "case", value_name = "NAME", conflicts_with = "quick")]
    cases: Vec<String>,
    /// List the cases
    #[arg(long)]
    list: bool,
    /// The seed of random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(subcommand)]
    part: Option<Part>,
}

/// Parts of a run that are processes of their own.
#[derive(Subcommand)]
enum Part {
    /// The client of a case
    #[command(hide = true)]
    Client {
        kubeconfig: PathBuf,
        #[arg(long)]
        history_may_change: bool,
    },
    /// Starts a program that ends with its parent
    #[command(hide = true)]
    Launch {
        parent: u32,
        #[arg(last = true)]
        program: Vec<String>,
    },
}

/// A suite by its name, and whether the server streams lists.
const SUITES: [(&str, bool); 2] = [("suites-streamed", true), ("suites-ordinary", false)];

/// Runs the command with the arguments of this process.
#[expect(clippy::print_stderr, reason = "errors of a command go to standard error")]
pub async fn run() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match &arguments.part {
        Some(Part::Client { kubeconfig, history_may_change }) => client::run(kubeconfig, *history_may_change).await,
        Some(Part::Launch { parent, program }) => process::launch(*parent, program),
        None => run_tests(&arguments).await,
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("conformance: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run_tests(arguments: &Arguments) -> Result<()> {
    let mut cases = cases::all();
    let names: Vec<_> = SUITES.iter().map(|(name, _)| *name).chain(cases.iter().map(|case| case.name)).collect();
    if let Some(unknown) = arguments.cases.iter().find(|name| !names.contains(&&***name)) {
        bail!("there is no case {unknown}; `--list` shows them");
    }
    if arguments.list {
        for (name, streams_lists) in SUITES {
            let lists = if streams_lists { "streamed" } else { "ordinary" };
            say(&format!("{name:24} the project's suites against the real server, with {lists} lists"));
        }
        for case in &cases {
            say(&format!("{:24} {} (bar: {} s)", case.name, case.what, case.bar.as_secs()));
        }
        return Ok(());
    }
    let is_named = |name: &str| arguments.cases.is_empty() || arguments.cases.iter().any(|wanted| wanted == name);
    let mut suites = SUITES.to_vec();
    if arguments.quick {
        suites.truncate(1);
        cases.retain(|case| case.is_quick);
    } else {
        suites.retain(|(name, _)| is_named(name));
        cases.retain(|case| is_named(case.name));
    }

    fs::create_dir_all(FOLDER)?;
    // The kernel unlocks it when this process ends.
    let lock = fs::File::create(Path::new(FOLDER).join("lock"))?;
    if lock.try_lock().is_err() {
        bail!("another run uses {FOLDER}");
    }
    let title = title(arguments.seed).await;
    let mut table = Table::default();
    let mut terminated = signal(SignalKind::terminate())?;
    let deadline = if arguments.quick { QUICK_DEADLINE } else { Duration::MAX };
    let outcome = tokio::select! {
        outcome = timeout(deadline, run_all(arguments, &suites, &cases, &mut table)) => {
            outcome.unwrap_or_else(|_| Err(anyhow!("the run took longer than {} minutes", deadline.as_secs() / 60)))
        }
        _ = tokio::signal::ctrl_c() => Err(anyhow!("interrupted")),
        _ = terminated.recv() => Err(anyhow!("terminated")),
    };
    if let (Err(error), Some(running)) = (&outcome, table.running().map(str::to_owned)) {
        table.add_failure(&running, &format!("{error:#}"));
        say(&server_log(&running));
    }
    let part = match (arguments.quick, arguments.cases.is_empty()) {
        (true, _) => "-quick",
        (false, true) => "",
        (false, false) => "-of-cases",
    };
    let file = Path::new(FOLDER).join(format!("results{part}.md"));
    let markdown = format!("{title}\n\n{}", table.markdown());
    fs::write(&file, &markdown).with_context(|| format!("writing {}", file.display()))?;
    say(&format!("\n{markdown}\nwritten to {}", file.display()));
    outcome?;
    if table.failed() > 0 {
        bail!("{} failed", table.failed());
    }
    Ok(())
}

async fn run_all(arguments: &Arguments, suites: &[(&str, bool)], cases: &[Case], table: &mut Table) -> Result<()> {
    let folder = std::path::absolute(FOLDER)?;
    let programs = folder.join("bin");
    for (name, streams_lists) in suites {
        say(&format!("{name} …"));
        table.start(name);
        let result = timeout(CASE_DEADLINE, suites::run(&programs, &folder.join(name), *streams_lists)).await;
        let result = result.unwrap_or_else(|_| Err(anyhow!("the suites took longer than 15 minutes")));
        table.add_suite(name, result.map_err(|error| format!("{error:#}")));
        say(table.last_line().trim_end());
    }
    for (number, case) in cases.iter().enumerate() {
        let start = Instant::now();
        say(&format!("{} of {}: {}: {} …", number + 1, cases.len(), case.name, case.what));
        table.start(case.name);
        let bar = if arguments.quick { QUICK_BAR } else { case.bar };
        let (outcome, measured) = run_case(case, &programs, &folder.join(case.name), arguments).await;
        let has_passed = table.add(case, bar, arguments.quick, outcome, measured);
        say(&format!("{} ({} s)", table.last_line().trim_end(), start.elapsed().as_secs()));
        if !has_passed {
            say(&server_log(case.name));
        }
    }
    Ok(())
}

/// Runs a case on a stage of its own.
async fn run_case(
    case: &Case,
    programs: &Path,
    folder: &Path,
    arguments: &Arguments,
) -> (Result<(), Failure>, Measured) {
    let run = async {
        let started = Stage::start(programs, folder, case.changes_history, arguments.quick, arguments.seed).await;
        let mut stage = match started {
            Ok(stage) => stage,
            Err(failure) => return (Err(failure), Measured::default()),
        };
        let outcome = case.run(&mut stage).await;
        match (outcome, stage.finish().await) {
            (outcome, Ok(measured)) => (outcome, measured),
            // A client that broke explains more than its failure to stop.
            (Err(failure @ Failure::Broken(_)), Err(_)) | (_, Err(failure)) => (Err(failure), Measured::default()),
        }
    };
    timeout(CASE_DEADLINE, run).await.unwrap_or_else(|_| {
        let minutes = CASE_DEADLINE.as_secs() / 60;
        let failure = Failure::Broken(format!("the case took longer than {minutes} minutes"));
        (Err(failure), Measured::default())
    })
}

/// What is tested, and when.
async fn title(seed: u64) -> String {
    let bin = format!("{FOLDER}/bin");
    let date = line("date", &["-u", "+%Y-%m-%d"]).await;
    let commit = line("git", &["describe", "--always", "--dirty"]).await;
    let server = line(&format!("{bin}/kube-apiserver"), &["--version"]).await;
    let etcd = line(&format!("{bin}/etcd"), &["--version"]).await;
    format!("{date}, commit {commit}, {server}, {etcd}, seed {seed}")
}

/// The first line that a command prints.
async fn line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).kill_on_drop(true).output();
    let output = timeout(Duration::from_secs(10), output).await.ok().and_then(Result::ok);
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}

/// The end of the server's log in a case.
fn server_log(case: &str) -> String {
    let log = Path::new(FOLDER).join(case).join("kube-apiserver.log");
    format!("{} ends with:\n{}", log.display(), process::tail(&log, 20))
}

#[expect(clippy::print_stdout, reason = "the table and the progress are the output of this command")]
fn say(text: &str) {
    println!("{text}");
}
