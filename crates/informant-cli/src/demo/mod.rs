//! `informant demo`: a server, a load, informers and handlers; faults on the way, and at the end a comparison of everything.
//!
//! `world` is what runs, `follower` a handler that folds what it hears, `faults` what goes wrong, `picture` all figures of a moment
//! (`times` says how old news is), `show` how they are told, `verify` whether all is as it should be.

mod faults;
mod follower;
mod picture;
mod show;
mod times;
mod verify;
mod world;

use std::error::Error;
use std::pin::pin;
use std::time::Duration;

use clap::Args;
use tokio::time::Instant;
use tokio::time::MissedTickBehavior;
use tokio::time::interval;
use tokio::time::sleep_until;

use self::faults::Faults;
use self::show::Show;
use self::verify::Verdict;
use self::world::World;
use crate::interrupt::interrupted;
use crate::metrics::MetricsOptions;

/// What can be chosen.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  informant demo
  informant demo --faults storm --pods 2000 --rate 1000 --duration 1m
  informant demo --json --seed 7 | tail -1")]
pub struct Options {
    /// How long changes are made, such as 10s or 2m
    #[arg(long, default_value = "10s", value_parser = duration)]
    duration: Duration,
    /// How many pods there are at first
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pods: u32,
    /// How many changes are made in a second
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// What load and faults follow from; the same seed makes the same changes
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// What goes wrong on the way
    #[arg(long, value_enum, default_value_t = Faults::Some)]
    faults: Faults,
    /// One line of JSON for each second, and one at the end
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    metrics: MetricsOptions,
}

fn duration(text: &str) -> Result<Duration, String> {
    match crate::duration(text)? {
        duration if duration > Duration::from_secs(24 * 3600) => Err("a day is enough".into()),
        duration => Ok(duration),
    }
}

/// Runs until the time is over or somebody interrupts it; says whether everything is as it should be.
pub async fn run(options: Options) -> Result<bool, Box<dyn Error>> {
    let mut metrics = options.metrics.serve().await?;
    let mut world = World::start(&options).await?;
    metrics.ready_when_synced(&world.factory);
    let mut show = Show::new(options.json);
    let end = Instant::now() + options.duration;
    let half = Instant::now() + options.duration / 2;
    let mut ticks = interval(show.pause());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut interrupted = pin!(interrupted());
    loop {
        tokio::select! {
            biased;
            outcome = &mut interrupted => {
                outcome?;
                break;
            }
            () = sleep_until(end) => break,
            () = sleep_until(half), if !world.has_late() => world.join_late()?,
            _ = ticks.tick() => show.picture(&world.picture())?,
            broken = world.broken() => return Err(broken),
            broken = metrics.broken() => return Err(broken.into()),
        }
    }
    if !world.has_late() {
        world.join_late()?;
    }
    world.calm();
    let verdict = Verdict::of(&world).await;
    show.end(&world.picture(), &verdict)?;
    world.stop().await?;
    metrics.stop().await;
    Ok(verdict.is_good())
}
