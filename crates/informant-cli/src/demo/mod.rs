//! `informant demo`: a server, a load, informers and handlers; faults on the way, and at the end a comparison of everything.
//!
//! `world` is what runs, `follower` a handler that folds what it hears, `faults` what goes wrong, `picture` all figures of a moment
//! (`times`: how old each event is), `show` when they are written, `screen` what a terminal shows of them, `verify` whether all is as
//! it should be.

mod faults;
mod follower;
mod picture;
mod screen;
mod show;
mod times;
mod verify;
mod world;

use std::error::Error;
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use tokio::time::Instant;
use tokio::time::Interval;
use tokio::time::MissedTickBehavior;
use tokio::time::interval;
use tokio::time::sleep_until;

use self::faults::Faults;
use self::show::Show;
use self::verify::Verdict;
use self::world::World;
use crate::Outcome;
use crate::arguments;
use crate::figures::Figures;
use crate::figures::FiguresOptions;
use crate::interrupt;
use crate::interrupt::Interrupt;
use crate::output::stdout::Audience;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  informant demo
  informant demo --faults storm --pods 2000 --rate 1000 --duration 1m
  informant demo --json --seed 7 | tail -1

At its end, or at Ctrl-C, every cache and what every handler has heard are
compared with the server; exit code 1 if they differ.")]
pub struct Options {
    /// How long it runs, such as 10s or 2m
    #[arg(long, default_value = "10s", value_parser = duration)]
    duration: Duration,
    /// Number of pods at first
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pods: u32,
    /// Changes in a second
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// Seed of load and faults
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// What goes wrong on the way
    #[arg(long, value_enum, default_value_t = Faults::Some)]
    faults: Faults,
    /// Print a line of JSON each second, and one at the end
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    figures: FiguresOptions,
}

fn duration(text: &str) -> Result<Duration, String> {
    match arguments::duration(text)? {
        duration if duration > Duration::from_secs(24 * 3600) => Err("must be at most 24h".into()),
        duration => Ok(duration),
    }
}

pub async fn run(options: Options, interrupt: Interrupt) -> Outcome {
    let mut figures = options.figures.serve().await?;
    let outcome = perform(&options, &mut figures, interrupt).await;
    figures.stop().await;
    outcome
}

/// Runs until the time is over or somebody interrupts it; then says whether everything is as it should be.
async fn perform(options: &Options, figures: &mut Figures, mut interrupt: Interrupt) -> Outcome {
    let mut world = tokio::select! {
        world = World::start(options) => world?,
        // There is nothing to verify yet.
        () = interrupt.happened() => return Ok(ExitCode::from(interrupt::CODE)),
    };
    informant_apiserver::describe_metrics();
    figures.tell_of_factory(&world.factory);
    let mut show = Show::new(options.json);
    let run = tokio::select! {
        run = go_on(options, &mut world, &mut show, &mut interrupt) => run,
        broken = figures.broken() => Err(broken.into()),
    };
    let ended = match run {
        Ok(Audience::Reads) => verify(&mut world, &mut show).await,
        // Who has gone does not want to know.
        Ok(Audience::Gone) => Ok(true),
        Err(error) => Err(error),
    };
    let stopped = world.stop().await;
    let is_good = ended?;
    stopped?;
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Shows what happens until it is time to end.
async fn go_on(
    options: &Options,
    world: &mut World,
    show: &mut Show,
    interrupt: &mut Interrupt,
) -> Result<Audience, Box<dyn Error>> {
    let end = Instant::now() + options.duration;
    let half = Instant::now() + options.duration / 2;
    let mut ticks = ticks(show);
    loop {
        tokio::select! {
            biased;
            () = interrupt.happened() => return Ok(Audience::Reads),
            () = sleep_until(end) => return Ok(Audience::Reads),
            () = sleep_until(half), if !world.has_late() => world.join_late()?,
            _ = ticks.tick() => {
                let picture = world.picture();
                // Nobody may read it.
                tokio::select! {
                    shown = show.picture(&picture) => if shown? == Audience::Gone {
                        return Ok(Audience::Gone);
                    },
                    () = interrupt.happened() => return Ok(Audience::Reads),
                }
            }
            broken = world.broken() => return Err(broken),
        }
    }
}

/// Lets everything settle, and compares it with the server.
async fn verify(world: &mut World, show: &mut Show) -> Result<bool, Box<dyn Error>> {
    if !world.has_late() {
        world.join_late()?;
    }
    world.calm();
    let mut ticks = ticks(show);
    let mut verdict = pin!(Verdict::of(world));
    let verdict = loop {
        tokio::select! {
            biased;
            verdict = &mut verdict => break verdict,
            _ = ticks.tick() => if show.picture(&world.picture()).await? == Audience::Gone {
                return Ok(true);
            },
        }
    };
    let is_good = verdict.is_good();
    let _ = show.end(&world.picture(), &verdict).await?;
    Ok(is_good)
}

fn ticks(show: &Show) -> Interval {
    let mut ticks = interval(show.pause());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}
