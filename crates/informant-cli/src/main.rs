//! The command-line program `informant`: one module per subcommand, and the modules that they share.
//!
//! - **In:** command-line arguments.
//! - **Out:** results on stdout, messages and logs on stderr; exit code 0 for success, 1 for failure, 2 for invalid arguments,
//!   130 if the command was interrupted before it completed.

mod advice;
mod apiserver;
mod arguments;
mod cluster;
mod demo;
mod get;
mod interrupt;
mod kinds;
mod metrics_server;
mod objects;
mod output;
mod progress;
mod requests;
mod selection;
mod watch;

use std::{error::Error, process::ExitCode};

use clap::{ArgAction, CommandFactory, Parser, Subcommand, error::ErrorKind};
use clap_complete::Shell;
use tracing_subscriber::filter::LevelFilter;

use self::{
    arguments::UsageError,
    interrupt::{Interrupt, Interrupts},
    output::{Stdout, in_one_line, print_message},
};

/// Watch and look up Kubernetes objects through shared informers
#[derive(Parser)]
#[command(
    name = "informant",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "A shared informer lists the objects of a resource, follows their changes with a\n\
    watch, and keeps an indexed local copy of them.\n\n\
    Exit codes:\n  \
    0    success\n  \
    1    failure\n  \
    2    invalid arguments\n  \
    130  interrupted before the command completed"
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Log to stderr: -v for info, -vv for debug, -vvv for trace
    #[arg(short, long, global = true, action = ArgAction::Count, display_order = 900)]
    verbose: u8,
}

#[derive(Subcommand)]
enum Command {
    /// Run informers through simulated faults without a cluster, then verify every cache
    Demo(demo::Options),
    /// Watch a resource and print every add, update and delete
    Watch(watch::Options),
    /// List objects, or look them up by label, field or namespace
    Get(get::Options),
    /// Run an in-memory Kubernetes API server, with optional load and faults
    Apiserver(apiserver::Options),
    /// Print a completion script for a shell
    #[command(
        after_help = "Examples:\n  source <(informant completions bash)\n  informant completions fish > ~/.config/fish/completions/informant.fish"
    )]
    Completions {
        /// Shell to generate the script for
        shell: Shell,
    },
}

/// The exit code of a command, or the error that ended it.
type Outcome = Result<ExitCode, Box<dyn Error>>;

fn main() -> ExitCode {
    // One line, like every other message; no backtrace.
    std::panic::set_hook(Box::new(|panic| print_message(&format!("internal error, please report it: {panic}"))));
    let arguments = Arguments::try_parse().unwrap_or_else(|error| advice::with_advice(error).exit());
    init_logging(arguments.verbose);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            print_message(&format!("cannot start the async runtime: {error}"));
            return ExitCode::FAILURE;
        }
    };
    let name = arguments.command.name();
    let outcome = runtime.block_on(async {
        let (interrupts, interrupt) = Interrupts::new()?;
        tokio::select! {
            twice = interrupts.twice() => Ok(twice.map(|()| ExitCode::from(interrupt::CODE))?),
            outcome = run(arguments.command, interrupt) => outcome,
        }
    });
    // A write to stdout may be blocked because its reader has stopped reading; do not wait for it.
    runtime.shutdown_background();
    outcome.unwrap_or_else(|error| report_error(name, &*error))
}

async fn run(command: Command, interrupt: Interrupt) -> Outcome {
    match command {
        Command::Demo(options) => demo::run(options, interrupt).await,
        Command::Watch(options) => watch::run(options, interrupt).await,
        Command::Get(options) => get::run(options, interrupt).await,
        Command::Apiserver(options) => apiserver::run(options, interrupt).await,
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "informant", &mut text);
            // A closed pipe is not an error: the reader has seen enough.
            let _ = Stdout::new().write(&text).await?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

impl Command {
    fn name(&self) -> &'static str {
        match self {
            Self::Demo(_) => "demo",
            Self::Watch(_) => "watch",
            Self::Get(_) => "get",
            Self::Apiserver(_) => "apiserver",
            Self::Completions { .. } => "completions",
        }
    }
}

fn init_logging(verbose: u8) {
    let level = match verbose {
        0 => LevelFilter::OFF,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        3.. => LevelFilter::TRACE,
    };
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_ansi(false).init();
}

/// Prints an error to stderr; for invalid arguments, also the usage of the subcommand.
fn report_error(command: &str, error: &(dyn Error + 'static)) -> ExitCode {
    if !error.is::<UsageError>() {
        print_message(&in_one_line(error));
        return ExitCode::FAILURE;
    }
    let mut arguments = Arguments::command();
    // Without this, the usage would lack the name of the program.
    arguments.build();
    let command =
        arguments.find_subcommand_mut(command).map(|command| command.error(ErrorKind::ArgumentConflict, error));
    // If stderr cannot be written to, there is nowhere to report it.
    let _ = command.map(|error| error.print());
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_argument_definitions_are_valid() {
        Arguments::command().debug_assert();
    }
}
