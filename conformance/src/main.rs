//! The command behind `conformance/run`: informant against a real kube-apiserver and etcd, with the faults that they can have.
//!
//! | module | contents |
//! | --- | --- |
//! | `cases` | the faults, each with its bar |
//! | `stage` | what a case happens on: servers, proxy, writer, client |
//! | `servers`, `proxy`, `tls` | etcd and kube-apiserver; the proxy between them and the client |
//! | `client`, `protocol` | the client process with its informers, and how the tests question it |
//! | `suites` | the project's test suites against the real server |
//! | `report` | the table of results |
//! | `process` | processes that never outlive the tests |

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

use anyhow::{Context, Result, bail};
use clap::{Parser, Subcommand};
use tokio::signal::unix::{SignalKind, signal};

use self::{
    cases::{Case, Plan},
    report::Table,
    stage::{Failure, Measured, Stage},
};

/// A recovery that takes longer than this fails `--quick`: noise of the machine cannot cause it.
const QUICK_BAR: Duration = Duration::from_secs(30);

/// `--quick` fails if it takes longer than this.
const QUICK_DEADLINE: Duration = Duration::from_secs(25 * 60);

/// Runs informant against a real kube-apiserver and etcd, with the faults that they can have.
#[derive(Parser)]
#[command(name = "conformance/run")]
struct Arguments {
    /// Run a part that fits into CI: the suites in one mode, and a few cases without bars that a noisy machine could break
    #[arg(long)]
    quick: bool,
    /// Run this case only; can be repeated
    #[arg(long = "case", value_name = "NAME", conflicts_with = "quick")]
    cases: Vec<String>,
    /// Run the suites only
    #[arg(long, conflicts_with_all = ["quick", "cases"])]
    suites: bool,
    /// List the cases
    #[arg(long)]
    list: bool,
    /// The seed of random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where servers keep their data and logs, and where the results are written; has the programs in `bin`
    #[arg(long, default_value = "target/conformance", value_name = "FOLDER")]
    folder: PathBuf,
    #[command(subcommand)]
    part: Option<Part>,
}

/// Parts of a run that are processes of their own.
#[derive(Subcommand)]
enum Part {
    /// The client of a case
    #[command(hide = true)]
    Client { kubeconfig: PathBuf },
    /// Starts a program that ends with its parent
    #[command(hide = true)]
    Launch {
        parent: u32,
        #[arg(last = true)]
        program: Vec<String>,
    },
}

#[tokio::main]
#[expect(clippy::print_stderr, reason = "errors of a command go to standard error")]
async fn main() -> ExitCode {
    match start().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("conformance: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn start() -> Result<()> {
    let arguments = Arguments::parse();
    match &arguments.part {
        Some(Part::Client { kubeconfig }) => return client::run(kubeconfig).await,
        Some(Part::Launch { parent, program }) => return process::launch(*parent, program),
        None => {}
    }
    let mut cases = cases::all();
    if arguments.list {
        for case in &cases {
            say(&format!("{:24} {} (bar: {} s)", case.name, case.what, case.bar.as_secs()));
        }
        return Ok(());
    }
    if let Some(unknown) = arguments.cases.iter().find(|name| cases.iter().all(|case| case.name != **name)) {
        bail!("there is no case {unknown}; `--list` shows them");
    }
    cases.retain(|case| match arguments.quick {
        true => case.is_quick && case.known_failure.is_none(),
        false if arguments.suites => false,
        false => arguments.cases.is_empty() || arguments.cases.iter().any(|name| name == case.name),
    });
    let mut table = Table::default();
    let mut terminated = signal(SignalKind::terminate())?;
    let deadline = if arguments.quick { QUICK_DEADLINE } else { Duration::MAX };
    let outcome = tokio::select! {
        outcome = tokio::time::timeout(deadline, run(&arguments, &cases, &mut table)) => match outcome {
            Ok(outcome) => outcome,
            Err(_) => Err(anyhow::anyhow!("the run took longer than {} minutes", deadline.as_secs() / 60)),
        },
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
        _ = terminated.recv() => Err(anyhow::anyhow!("terminated")),
    };
    let results = arguments.folder.join("results.md");
    let markdown = table.markdown();
    fs::write(&results, &markdown).with_context(|| format!("writing {}", results.display()))?;
    say(&format!("\n{markdown}\nwritten to {}", results.display()));
    outcome?;
    if table.failed() > 0 {
        bail!("{} failed", table.failed());
    }
    Ok(())
}

async fn run(arguments: &Arguments, cases: &[Case], table: &mut Table) -> Result<()> {
    let folder = std::path::absolute(&arguments.folder)?;
    let programs = folder.join("bin");
    if arguments.cases.is_empty() {
        for streams_lists in if arguments.quick { &[true][..] } else { &[true, false] } {
            let name = if *streams_lists { "suites, streamed lists" } else { "suites, ordinary lists" };
            say(&format!("{name} …"));
            let result = suites::run(&programs, &folder.join("suites"), *streams_lists).await;
            table.add_suite(name, result.map_err(|error| format!("{error:#}")));
            say(table.last_line().trim_end());
        }
    }
    for (number, case) in cases.iter().enumerate() {
        let start = Instant::now();
        say(&format!("{} of {}: {}: {} …", number + 1, cases.len(), case.name, case.what));
        let bar = if arguments.quick { QUICK_BAR.max(case.bar) } else { case.bar };
        let mut plan = Plan { is_quick: arguments.quick, rng: fastrand::Rng::with_seed(arguments.seed) };
        let outcome = run_case(case, &mut plan, &programs, &folder.join(case.name), arguments.seed).await;
        table.add(case, bar, arguments.quick, outcome);
        say(&format!("{} ({} s)", table.last_line().trim_end(), start.elapsed().as_secs()));
    }
    Ok(())
}

async fn run_case(
    case: &Case,
    plan: &mut Plan,
    programs: &Path,
    folder: &Path,
    seed: u64,
) -> Result<Measured, (Failure, Measured)> {
    let started = Stage::start(programs, folder, seed).await;
    let mut stage = started.map_err(|failure| (failure, Measured::default()))?;
    let outcome = case.run(&mut stage, plan).await;
    match (outcome, stage.finish().await) {
        (Ok(()), Ok(measured)) => Ok(measured),
        (Err(failure), Ok(measured)) => Err((failure, measured)),
        // A client that broke explains more than its failure to stop.
        (Err(failure @ Failure::Broken(_)), Err(_)) | (_, Err(failure)) => Err((failure, Measured::default())),
    }
}

#[expect(clippy::print_stdout, reason = "the table and the progress are the output of this command")]
fn say(text: &str) {
    println!("{text}");
}
