//! The stage of a case: the servers, the proxy, a writer, and the client process with its informers.

mod client_process;
mod scopes;
mod writer;

use std::{
    collections::BTreeSet,
    fmt, fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use futures_util::future::try_join_all;
use serde_json::json;
use tokio::time::sleep;

pub use self::scopes::{GROUP, NAMESPACES, SCOPES, STAMP, define_widgets, delete_widgets, set_permissions};
use self::{client_process::ClientProcess, writer::Writer};
use crate::{
    protocol::{Contents, Report, State, digest},
    proxy::Proxy,
    servers::{ApiServer, Authority, Etcd, Folders},
    tls,
};

/// Everything that a case needs. Dropping it ends all processes.
pub struct Stage {
    pub etcd: Etcd,
    pub server: ApiServer,
    pub proxy: Proxy,
    pub writer: Writer,
    pub client: ClientProcess,
    /// Issued the certificates of the servers and of the proxy.
    pub authority: Authority,
    pub folders: Folders,
    /// Whether faults are repeated less often.
    pub is_quick: bool,
    /// The random choices of the case.
    pub rng: fastrand::Rng,
    /// What the case has measured so far.
    pub measured: Measured,
    /// The number of requests and the length of the client's log before the first fault.
    baseline: (u64, usize),
}

/// A cache that is not right after this time counts as wrong for good.
const PATIENCE: Duration = Duration::from_secs(100);

/// What a case measures.
#[derive(Default)]
pub struct Measured {
    /// The time from the end of each fault until the client was right.
    pub recoveries: Vec<Duration>,
    /// The client's CPU time while it could reach no server, and how long that was.
    pub cpu_while_down: (Duration, Duration),
    /// The problems that the client reported, each once.
    pub problems: Vec<String>,
    /// A further figure, for the table.
    pub note: Option<String>,
    /// The client's resident memory before the first fault and at the end.
    pub resident_bytes: (u64, u64),
    /// The requests that the client sent since the first fault, and its log.
    pub requests: u64,
    pub log: String,
}

/// Why a case failed.
#[derive(Clone, Debug)]
pub enum Failure {
    /// A cache or a handler still differed from the server after a long time.
    Wrong(String),
    /// The client was right, but later than the bar allows.
    Late(String),
    /// Something else: a malformed history, a panic, a server that did not start.
    Broken(String),
}

impl Stage {
    /// Starts the servers, the proxy, the client and the writer, and waits until the client is right.
    pub async fn start(
        programs: &Path,
        case: &Path,
        history_may_change: bool,
        is_quick: bool,
        seed: u64,
    ) -> Result<Self, Failure> {
        let folders = Folders::create(programs, case)?;
        let authority = Authority::new("conformance")?;
        let etcd = Etcd::start(&folders).await?;
        let server = ApiServer::start("kube-apiserver", &folders, &authority, &etcd, &[]).await?;
        scopes::prepare(&server.admin).await?;
        let acceptor = tls::acceptor(&authority.issue()?)?;
        let proxy = Proxy::start(server.address(), acceptor, tls::connector(&authority)?).await?;
        let writer = Writer::start(server.admin.clone(), seed).await;
        let kubeconfig = write_kubeconfig(&folders, &proxy, &authority)?;
        let client = ClientProcess::start(&folders, &kubeconfig, history_may_change)?;
        let mut stage = Self {
            etcd,
            server,
            proxy,
            writer,
            client,
            authority,
            folders,
            is_quick,
            rng: fastrand::Rng::with_seed(seed),
            measured: Measured::default(),
            baseline: (0, 0),
        };
        stage.writer.run_for(Duration::from_secs(3)).await?;
        stage.be_right_before_the_fault().await?;
        stage.measured.resident_bytes.0 = stage.client.usage()?.resident_bytes;
        stage.measured.problems.clear();
        stage.baseline = (stage.proxy.requests(), stage.client.log()?.len());
        Ok(stage)
    }

    /// Stops the client, and returns what was measured.
    pub async fn finish(mut self) -> Result<Measured, Failure> {
        self.measured.resident_bytes.1 = self.client.usage()?.resident_bytes;
        self.measured.requests = self.proxy.requests() - self.baseline.0;
        let mut log = self.client.stop().await?;
        let panics: Vec<_> = log.lines().filter(|line| line.contains("panicked")).collect();
        if !panics.is_empty() {
            return Err(Failure::Broken(format!("the client panicked: {}", panics.join("; "))));
        }
        self.measured.log = log.split_off(self.baseline.1);
        Ok(self.measured)
    }

    /// Cuts the client off and writes, so that it misses changes. Its new connections are held until the case releases them.
    pub async fn write_behind_the_client(&mut self, duration: Duration) -> Result<()> {
        self.proxy.set(|proxy| proxy.holds_new_connections = true);
        self.proxy.cut();
        self.writer.run_for(duration).await
    }

    /// Waits for some time while the client can reach no server, and measures the CPU time that it uses.
    pub async fn wait_while_down(&mut self, duration: Duration) -> Result<(), Failure> {
        let end = Instant::now() + duration;
        while let Some(left) = end.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()) {
            let (start, before) = (Instant::now(), self.client.usage()?);
            sleep(left.min(Duration::from_secs(5))).await;
            self.measured.cpu_while_down.0 += self.client.usage()?.cpu - before.cpu;
            self.measured.cpu_while_down.1 += start.elapsed();
            let report = self.client.report().await?;
            self.note_problems(&report);
        }
        Ok(())
    }

    /// Writes, waits until the client is right, and measures the time since the end of a fault.
    ///
    /// The writes are needed: a cache that is not updated any more can equal the server by chance.
    pub async fn recover(&mut self, end_of_fault: Instant) -> Result<(), Failure> {
        self.writer.run_for(Duration::from_millis(500)).await?;
        self.recover_without_writes(end_of_fault).await
    }

    /// Waits until the client is right, and measures the time since the end of a fault. Then writes again; if the client does not follow
    /// these writes at once, the time until then counts.
    pub async fn recover_without_writes(&mut self, end_of_fault: Instant) -> Result<(), Failure> {
        self.become_right().await?;
        let recovery = end_of_fault.elapsed();
        self.writer.run_for(Duration::from_secs(1)).await?;
        let end_of_writes = Instant::now();
        self.become_right().await?;
        let follows_at_once = end_of_writes.elapsed() < Duration::from_secs(1);
        self.measured.recoveries.push(if follows_at_once { recovery } else { end_of_fault.elapsed() });
        Ok(())
    }

    /// Waits until the client is right. If it is not, the case is broken: its fault is not the cause.
    pub async fn be_right_before_the_fault(&mut self) -> Result<(), Failure> {
        self.become_right().await.map_err(|failure| Failure::Broken(format!("before the fault: {failure}")))
    }

    /// Waits until each cache equals a fresh list, and the events of each handler add up to its cache.
    pub async fn become_right(&mut self) -> Result<(), Failure> {
        let start = Instant::now();
        loop {
            // Fails while the server is down.
            let lists = try_join_all(SCOPES.iter().map(|scope| scope.list(&self.server.admin))).await;
            let report = self.client.report().await?;
            self.note_problems(&report);
            if !report.violations.is_empty() {
                return Err(Failure::Broken(format!("malformed history: {}", report.violations.join("; "))));
            }
            let wrong = lists.map(|lists| {
                let scopes = SCOPES.iter().zip(lists);
                scopes.filter(|(scope, list)| !is_right(&report, scope.name, list)).collect::<Vec<_>>()
            });
            if wrong.as_ref().is_ok_and(Vec::is_empty) {
                return Ok(());
            }
            if start.elapsed() > PATIENCE {
                let wrong = wrong.context("listing on the server")?;
                let mut text = format!("{} of {} informers; ", wrong.len(), SCOPES.len());
                if let Some((scope, list)) = wrong.first() {
                    text += &difference(scope.name, list, &self.client.contents(scope.name).await?);
                }
                return Err(Failure::Wrong(text));
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    fn note_problems(&mut self, report: &Report) {
        for problem in &report.problems {
            if !self.measured.problems.iter().any(|known| cause(known) == cause(problem)) {
                self.measured.problems.push(problem.clone());
            }
        }
    }

    /// A path for a file of this case.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folders.case.join(name)
    }

    /// Replaces the token that the client reads from its file.
    pub fn write_token(&self, token: &str) -> Result<()> {
        Ok(fs::write(self.file(TOKEN_FILE), token)?)
    }
}

const TOKEN_FILE: &str = "token";

fn write_kubeconfig(folders: &Folders, proxy: &Proxy, authority: &Authority) -> Result<PathBuf> {
    let authority_file = folders.case.join("ca.crt");
    fs::write(&authority_file, &authority.pem)?;
    let token = folders.case.join(TOKEN_FILE);
    fs::write(&token, "client-0")?;
    // JSON is YAML.
    let kubeconfig = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "stage", "cluster": {
            "server": format!("https://{}", proxy.address()),
            "certificate-authority": authority_file,
        }}],
        "users": [{"name": "client", "user": {"tokenFile": token}}],
        "contexts": [{"name": "stage", "context": {"cluster": "stage", "user": "client"}}],
        "current-context": "stage",
    });
    let path = folders.case.join("kubeconfig");
    fs::write(&path, kubeconfig.to_string())?;
    Ok(path)
}

/// The part of a problem that does not depend on the informer: `Expired, 410`, or the text behind the last "failed" without numbers.
fn cause(problem: &str) -> String {
    let is_answer = |part: &&str| part.contains(", ") && part.ends_with(|last: char| last.is_ascii_digit());
    let answer = problem.split(['(', ')']).find(is_answer);
    let text = answer.unwrap_or_else(|| problem.rsplit("failed: ").next().unwrap_or(problem));
    text.chars().filter(|letter| !letter.is_ascii_digit()).collect()
}

fn is_right(report: &Report, name: &str, list: &Contents) -> bool {
    let right = digest(list);
    report
        .informers
        .get(name)
        .is_some_and(|informer| informer.cache == right && informer.handlers.iter().all(|handler| *handler == right))
}

/// Describes how an informer differs from the server, with a few objects as examples.
fn difference(name: &str, list: &Contents, contents: &[Contents]) -> String {
    let parts = ["cache", "handler", "coalescing handler", "stream"];
    let Some((part, contents)) = parts.iter().zip(contents).find(|(_, contents)| *contents != list) else {
        return format!("{name} became right just now");
    };
    let keys: BTreeSet<_> = list.keys().chain(contents.keys()).collect();
    let differing: Vec<_> = keys.into_iter().filter(|key| list.get(*key) != contents.get(*key)).collect();
    let show = |state: Option<&State>| {
        state.map_or("absent".into(), |state| format!("version {} stamp {}", state.version, state.stamp))
    };
    let examples: Vec<_> = differing
        .iter()
        .take(2)
        .map(|key| format!("{key} is {}, on the server {}", show(contents.get(*key)), show(list.get(*key))))
        .collect();
    format!("the {part} of {name} has {} wrong of {}: {}", differing.len(), list.len(), examples.join("; "))
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Wrong(what) => write!(f, "wrong: {what}"),
            Self::Late(what) => write!(f, "late: {what}"),
            Self::Broken(what) => write!(f, "broken: {what}"),
        }
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Broken(format!("{error:#}"))
    }
}
