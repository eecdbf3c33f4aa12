//! The command `informant`: one file or folder for each command.
//!
//! - **In:** arguments.
//! - **Out:** results on stdout, everything else on stderr; exit code 0 if it worked, 1 if not, 2 if it was asked wrongly.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what a command is for")]

mod apiserver;
mod cluster;
mod demo;
mod get;
mod interrupt;
mod kinds;
mod metrics;
mod objects;
mod output;
mod selection;
mod watch;

use std::error::Error;
use std::fmt::Display;
use std::process::ExitCode;
use std::time::Duration;

use clap::ArgAction;
use clap::CommandFactory;
use clap::Parser;
use clap::Subcommand;
use clap_complete::Shell;
use tracing_subscriber::filter::LevelFilter;

/// Shared informers for Kubernetes, to see and to use.
#[derive(Parser)]
#[command(name = "informant", version, propagate_version = true, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Says on stderr what happens; twice for more, three times for everything
    #[arg(short, long, global = true, action = ArgAction::Count)]
    verbose: u8,
}

#[derive(Subcommand)]
enum Command {
    /// Shows informers at work, through trouble, without a cluster; at the end everything is compared with the server.
    Demo(demo::Options),
    /// Follows a kind of a cluster: every change, as a shared informer hears of it.
    Watch(watch::Options),
    /// Shows objects from the cache of a synced informer, also by an index.
    Get(get::Options),
    /// Serves an API like that of Kubernetes, without a cluster, for programs to be tried on; with load and faults if wanted.
    Apiserver(apiserver::Options),
    /// Writes completions for a shell: `informant completions bash > /etc/bash_completion.d/informant`.
    Completions {
        /// Which shell
        shell: Shell,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    log(arguments.verbose);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("informant: no runtime can be started: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(run(arguments));
    // A reader of stdout who does not read any more must not keep it from ending.
    runtime.shutdown_background();
    code
}

async fn run(arguments: Arguments) -> ExitCode {
    let outcome = match arguments.command {
        Command::Demo(options) => demo::run(options).await,
        Command::Watch(options) => watch::run(options).await,
        Command::Get(options) => get::run(options).await,
        Command::Apiserver(options) => apiserver::run(options).await,
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Arguments::command(), "informant", &mut std::io::stdout());
            Ok(true)
        }
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("informant: {}", in_one_line(&*error));
            ExitCode::FAILURE
        }
    }
}

fn log(verbose: u8) {
    let level = match verbose {
        0 => LevelFilter::OFF,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        3.. => LevelFilter::TRACE,
    };
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_ansi(false).init();
}

/// An error and what stands behind it; but for what was said already, as errors of others often do.
fn in_one_line(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source()).take(16);
    let mut said = String::new();
    for cause in causes.map(ToString::to_string) {
        if said.is_empty() {
            said = cause;
        } else if !said.ends_with(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Ends with the code for that, and says why.
fn asked_wrongly(command: &str, why: impl Display) -> ! {
    let mut arguments = Arguments::command();
    // So that its usage is that of the command.
    arguments.build();
    let kind = clap::error::ErrorKind::ArgumentConflict;
    match arguments.find_subcommand_mut(command) {
        Some(command) => command.error(kind, why).exit(),
        None => arguments.error(kind, why).exit(),
    }
}

/// A time as people write it: `10s`, `2m`.
fn duration(text: &str) -> Result<Duration, String> {
    let duration: Duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    match duration {
        Duration::ZERO => Err("it takes some time".into()),
        duration => Ok(duration),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_fit_together() {
        Arguments::command().debug_assert();
    }
}
