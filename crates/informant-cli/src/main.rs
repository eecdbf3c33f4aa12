//! The command `informant`: one file or folder for each command.
//!
//! - **In:** arguments.
//! - **Out:** results on stdout, everything else on stderr; exit code 0 if it worked, 1 if not, 2 if it was asked wrongly.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what a command is for")]

mod demo;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;
use clap::Subcommand;

/// Shared informers for Kubernetes, to see and to use.
#[derive(Parser)]
#[command(name = "informant", version, propagate_version = true, arg_required_else_help = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shows informers at work, through trouble, without a cluster; at the end everything is compared with the server.
    Demo(demo::Options),
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.command {
        Command::Demo(options) => demo::run(options).await,
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

/// An error and what stands behind it.
fn in_one_line(error: &dyn Error) -> String {
    let causes = std::iter::successors(Some(error), |error| (*error).source()).take(16);
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
