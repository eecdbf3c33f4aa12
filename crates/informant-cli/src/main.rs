//! The command `informant`: a folder for each of its commands, on top of what they share.
//!
//! - **In:** arguments.
//! - **Out:** results on stdout, everything else on stderr; exit code 0 if it worked, 1 if not, 2 if it was asked wrongly, 130 if
//!   it was interrupted before it was done.

mod advice;
mod apiserver;
mod arguments;
mod cluster;
mod demo;
mod figures;
mod get;
mod interrupt;
mod kinds;
mod objects;
mod output;
mod progress;
mod selection;
mod watch;

use std::error::Error;
use std::process::ExitCode;

use clap::ArgAction;
use clap::CommandFactory;
use clap::Parser;
use clap::Subcommand;
use clap::error::ErrorKind;
use clap_complete::Shell;
use tracing_subscriber::filter::LevelFilter;

use self::arguments::AskedWrongly;
use self::interrupt::Interrupt;
use self::interrupt::Interrupts;
use self::output::Stdout;
use self::output::in_one_line;
use self::output::say;

/// Shared informers for Kubernetes, to see and to use
#[derive(Parser)]
#[command(
    name = "informant",
    version,
    propagate_version = true,
    arg_required_else_help = true,
    after_help = "Exit codes: 0 if it worked, 1 if not, 2 if it was asked wrongly, 130 if it was\n\
    interrupted before it was done."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    /// Log to stderr; twice for more, three times for everything
    #[arg(short, long, global = true, action = ArgAction::Count, display_order = 900)]
    verbose: u8,
}

#[derive(Subcommand)]
enum Command {
    /// See informers at work, through trouble, without a cluster; at the end everything is checked
    Demo(demo::Options),
    /// Watch a resource: print every add, update and delete
    Watch(watch::Options),
    /// List objects, or look them up by label, field or namespace
    Get(get::Options),
    /// Run an API server like that of Kubernetes, without a cluster; with load and faults on demand
    Apiserver(apiserver::Options),
    /// Print completions for a shell
    #[command(
        after_help = "Examples:\n  source <(informant completions bash)\n  informant completions fish > ~/.config/fish/completions/informant.fish"
    )]
    Completions {
        /// Which shell
        shell: Shell,
    },
}

/// How a command ended, if it did what it is for.
type Outcome = Result<ExitCode, Box<dyn Error>>;

fn main() -> ExitCode {
    // In one line, as everything that is said, and without the screens of a backtrace.
    std::panic::set_hook(Box::new(|panic| say(&format!("please report this: {panic}"))));
    let arguments = Arguments::try_parse().unwrap_or_else(|error| advice::with_advice(error).exit());
    log(arguments.verbose);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            say(&format!("no runtime can be started: {error}"));
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
    // Somebody may have stopped to read stdout, and does not keep it from ending.
    runtime.shutdown_background();
    outcome.unwrap_or_else(|error| complain(name, &*error))
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
            // Whoever does not read it has had enough.
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

fn log(verbose: u8) {
    let level = match verbose {
        0 => LevelFilter::OFF,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        3.. => LevelFilter::TRACE,
    };
    tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_ansi(false).init();
}

/// Says why it failed; of what was asked wrongly also how it is asked.
fn complain(command: &str, error: &(dyn Error + 'static)) -> ExitCode {
    if !error.is::<AskedWrongly>() {
        say(&in_one_line(error));
        return ExitCode::FAILURE;
    }
    let mut arguments = Arguments::command();
    // So that its usage is that of the command.
    arguments.build();
    let command =
        arguments.find_subcommand_mut(command).map(|command| command.error(ErrorKind::ArgumentConflict, error));
    // There is nobody to tell that it failed.
    let _ = command.map(|error| error.print());
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arguments_fit_together() {
        Arguments::command().debug_assert();
    }
}
