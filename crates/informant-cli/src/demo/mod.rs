//! `informant demo`: runs an API server, a load, informers and handlers, injects faults, and compares all caches with the server at the
//! end.
//!
//! - `scenario`: the server, the load, the informers and the handlers.
//! - `faults`: the faults that the server injects.
//! - `recorder`: a handler that records the state of each object from the events that it receives.
//! - `version_times`: when the server reached which version; the lag of a handler is computed from it.
//! - `stats`: a snapshot of all counters.
//! - `rates`: events per second, over the last seconds and over the whole run.
//! - `renderer`: prints stats as lines, as JSON or on a terminal; `screen` lays them out for a terminal.
//! - `verify`: compares caches and handlers with the server.

mod faults;
mod rates;
mod recorder;
mod renderer;
mod scenario;
mod screen;
mod stats;
mod verify;
mod version_times;

use std::{error::Error, pin::pin, process::ExitCode, time::Duration};

use clap::Args;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep_until};

use self::{faults::FaultLevel, renderer::Renderer, scenario::Scenario, verify::Verdict};
use crate::{
    Outcome, arguments, interrupt,
    interrupt::Interrupt,
    metrics_server::{MetricsOptions, MetricsServer},
    output::stdout::StdoutState,
};

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  informant demo
  informant demo --faults storm --pods 2000 --rate 1000 --duration 1m
  informant demo --json --seed 7 | tail -1

The demo runs an API server in this process, changes pods and nodes in it, and
injects faults. When it ends, or at Ctrl-C, it compares every cache, and the
objects that every handler knows from its events, with the server. The exit
code is 1 if they differ.")]
pub struct Options {
    /// How long to run, such as 10s or 2m
    #[arg(long, default_value = "10s", value_parser = duration)]
    duration: Duration,
    /// Number of pods at the start
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pods: u32,
    /// Changes per second
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rate: u32,
    /// Seed of the random load and faults
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Faults to inject
    #[arg(long, value_enum, default_value_t = FaultLevel::Some)]
    faults: FaultLevel,
    /// Print one line of JSON per second, and the result as the last line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    metrics: MetricsOptions,
}

fn duration(text: &str) -> Result<Duration, String> {
    match arguments::duration(text)? {
        duration if duration > Duration::from_secs(24 * 3600) => Err("must be at most 24h".into()),
        duration => Ok(duration),
    }
}

pub async fn run(options: Options, interrupt: Interrupt) -> Outcome {
    let mut metrics = options.metrics.serve().await?;
    let outcome = run_and_verify(&options, &mut metrics, interrupt).await;
    metrics.stop().await;
    outcome
}

/// Runs until the time is over or the command is interrupted; then compares all caches with the server.
async fn run_and_verify(options: &Options, metrics: &mut MetricsServer, mut interrupt: Interrupt) -> Outcome {
    let mut scenario = tokio::select! {
        scenario = Scenario::start(options) => scenario?,
        // There is nothing to verify before the informers have started.
        () = interrupt.received() => return Ok(ExitCode::from(interrupt::CODE)),
    };
    informant_apiserver::describe_metrics();
    metrics.set_factory(&scenario.factory);
    let mut renderer = Renderer::new(options.json);
    let run = tokio::select! {
        run = run_until_end(options, &mut scenario, &mut renderer, &mut interrupt) => run,
        error = metrics.failed() => Err(error.into()),
    };
    let ended = match run {
        Ok(StdoutState::Open) => verify(&mut scenario, &mut renderer).await,
        // Without a reader there is no use in the verification.
        Ok(StdoutState::Closed) => Ok(true),
        Err(error) => Err(error),
    };
    let stopped = scenario.stop().await;
    let is_verified = ended?;
    stopped?;
    Ok(if is_verified { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints stats until the time is over, the command is interrupted, or stdout is closed.
async fn run_until_end(
    options: &Options,
    scenario: &mut Scenario,
    renderer: &mut Renderer,
    interrupt: &mut Interrupt,
) -> Result<StdoutState, Box<dyn Error>> {
    let end = Instant::now() + options.duration;
    let half = Instant::now() + options.duration / 2;
    let mut ticks = ticks(renderer);
    loop {
        tokio::select! {
            biased;
            () = interrupt.received() => return Ok(StdoutState::Open),
            () = sleep_until(end) => return Ok(StdoutState::Open),
            () = sleep_until(half), if !scenario.has_late_handler() => scenario.add_late_handler()?,
            _ = ticks.tick() => {
                let stats = scenario.stats();
                // The write may block because the reader has stopped reading.
                tokio::select! {
                    shown = renderer.stats(&stats) => if shown? == StdoutState::Closed {
                        return Ok(StdoutState::Closed);
                    },
                    () = interrupt.received() => return Ok(StdoutState::Open),
                }
            }
            error = scenario.load_failed() => return Err(error),
        }
    }
}

/// Stops the load and the faults, waits until all handlers have caught up, and compares them with the server.
async fn verify(scenario: &mut Scenario, renderer: &mut Renderer) -> Result<bool, Box<dyn Error>> {
    if !scenario.has_late_handler() {
        scenario.add_late_handler()?;
    }
    scenario.stop_load_and_faults();
    let mut ticks = ticks(renderer);
    let mut verdict = pin!(Verdict::of(scenario));
    let verdict = loop {
        tokio::select! {
            biased;
            verdict = &mut verdict => break verdict,
            _ = ticks.tick() => if renderer.stats(&scenario.stats()).await? == StdoutState::Closed {
                return Ok(true);
            },
        }
    };
    let is_verified = verdict.is_verified();
    let _ = renderer.end(&scenario.stats(), &verdict).await?;
    Ok(is_verified)
}

fn ticks(renderer: &Renderer) -> Interval {
    let mut ticks = interval(renderer.interval());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    ticks
}
