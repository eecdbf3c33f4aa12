//! The command `informant`: one file or folder for each command.
//!
//! - **In:** arguments.
//! - **Out:** results on stdout, everything else on stderr; exit code 0 if it worked, 1 if not, 2 if it was asked wrongly.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what a command is for")]

mod demo;

use std::error::Error;
use std::process::ExitCode;

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
    /// Writes completions for a shell: `informant completions bash > /etc/bash_completion.d/informant`.
    Completions {
        /// Which shell
        shell: Shell,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    log(arguments.verbose);
    let outcome = match arguments.command {
        Command::Demo(options) => demo::run(options).await,
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

/// An error and what stands behind it.
fn in_one_line(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source()).take(16);
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
