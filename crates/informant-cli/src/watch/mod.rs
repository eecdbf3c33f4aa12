//! `informant watch`: prints the events of a shared informer.
//!
//! `printer` formats events; this module decides when the command starts and ends.

mod printer;

use std::{error::Error, process::ExitCode, time::Duration};

use clap::{Args, ValueEnum};
use futures_util::FutureExt;
use informant::{Event, EventStream, Origin, SharedInformer};

use self::printer::Printer;
use crate::{
    Outcome,
    arguments::{UsageError, resync_period},
    interrupt,
    interrupt::Interrupt,
    metrics_server::{MetricsOptions, MetricsServer},
    objects::PrintableObject,
    output::{Stdout, in_one_line, paint::Color, print_message, stdout, stdout::StdoutState},
    progress::Progress,
    selection::{ObjectCommand, Selected, Selection},
};

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  informant watch pods -A
  informant watch deploy -n shop -o diff
  informant watch pod/web -o yaml
  informant watch nodes -o json --no-object | jq -r '[.type, .key] | @tsv'
  informant watch widgets.example.com --until-synced -o name
  informant watch pods --server http://127.0.0.1:8080

With -o json, each line is one event with these fields:
  type             ADDED, UPDATED, DELETED, SYNC or SYNCED
  key              NAMESPACE/NAME; NAME for kinds without namespaces
  resourceVersion  the version of the object
  initial          true if the object existed before the watch started
  missed           true if the object was deleted while the watch was down and
                   the deletion was found by a relist
  object           the object; for DELETED, its last known state
SYNC repeats an unchanged object (--resync). SYNCED is printed once, after all
objects that existed when the watch started; its key and object are null.

Ctrl-C ends the command with exit code 0. With --until-synced or --exit-after,
the exit code is 1 if an object could not be printed, and 130 after Ctrl-C.")]
pub struct Options {
    #[command(flatten)]
    selection: Selection,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Omit the header row of tables
    #[arg(long)]
    no_headers: bool,
    /// Omit the object from JSON events (with -o json)
    #[arg(long)]
    no_object: bool,
    /// Print existing objects only when they change
    #[arg(long)]
    no_initial: bool,
    /// Exit after printing this many events
    #[arg(long, value_name = "EVENTS", value_parser = clap::value_parser!(u64).range(1..))]
    exit_after: Option<u64>,
    /// Exit when all existing objects have been printed
    #[arg(long)]
    until_synced: bool,
    /// Print every object again at this interval, such as 30s (a resync)
    #[arg(long, value_name = "DURATION", value_parser = resync_period)]
    resync: Option<Duration>,
    /// When more than this many events wait to be printed, coalesce those of the same object into one [default: print every event]
    #[arg(long, value_name = "EVENTS")]
    coalesce_above: Option<usize>,
    /// When to use colors
    #[arg(long, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,
    #[command(flatten)]
    metrics: MetricsOptions,
}

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One table row per event
    Table,
    /// One table row per event, with more columns
    Wide,
    /// One line of JSON per event
    Json,
    /// One YAML document per event
    Yaml,
    /// RESOURCE/NAME of the object, as in kubectl
    Name,
    /// The fields that changed, with old and new values
    Diff,
}

impl Format {
    fn is_table(self) -> bool {
        match self {
            Self::Table | Self::Wide => true,
            Self::Json | Self::Yaml | Self::Name | Self::Diff => false,
        }
    }
}

/// Events are collected into one write until it has about this many bytes.
const CHUNK: usize = 64 * 1024;

/// The informer stopped before the command ended.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Ended(String);

pub async fn run(options: Options, interrupt: Interrupt) -> Outcome {
    options.selection.check()?;
    if options.no_object && options.output != Format::Json {
        return Err(UsageError("--no-object requires -o json".to_owned()).into());
    }
    options.selection.object_type().run(options, interrupt).await
}

impl ObjectCommand for Options {
    async fn run<O: PrintableObject>(self, interrupt: Interrupt) -> Outcome {
        let mut metrics = self.metrics.serve().await?;
        let outcome = self.watch::<O>(&mut metrics, interrupt).await;
        metrics.stop().await;
        outcome
    }
}

impl Options {
    async fn watch<O: PrintableObject>(self, metrics: &mut MetricsServer, mut interrupt: Interrupt) -> Outcome {
        let ends_by_itself = self.until_synced || self.exit_after.is_some();
        let interrupted = if ends_by_itself { ExitCode::from(interrupt::CODE) } else { ExitCode::SUCCESS };
        // Ctrl-C also ends the search for the cluster and the kind.
        let selecting = async {
            let selected = self.selection.find(self.resync).await?;
            let columns = if self.output.is_table() { selected.columns::<O>().await } else { Vec::new() };
            Ok::<_, Box<dyn Error>>((selected, columns))
        };
        let (selected, columns) = tokio::select! {
            found = selecting => found?,
            () = interrupt.received() => return Ok(interrupted),
        };
        let informer = selected.informer::<O>()?;
        let subscribe = informer.subscribe().named("watch");
        let events = match self.coalesce_above {
            Some(events) => subscribe.coalesce_above(events).stream()?,
            None => subscribe.stream()?,
        };
        selected.factory.start();
        metrics.set_factory(&selected.factory);
        let progress = Progress::of(selected.factory.clone());
        let loop_state = EventLoop {
            printer: Printer::new::<O>(&selected, columns, self.output, self.color, !self.no_object, !self.no_headers),
            prints_initial: !self.no_initial,
            remaining: self.exit_after,
            until_synced: self.until_synced,
            has_initial: false,
            has_skipped: false,
        };
        let outcome = tokio::select! {
            biased;
            () = interrupt.received() => Ok(interrupted),
            // Detects a closed pipe even if no event arrives.
            () = stdout::closed() => Ok(ExitCode::SUCCESS),
            outcome = loop_state.run(&selected, &informer, events, &progress) => outcome,
            error = first_list_failed(&selected) => Err(error),
            error = metrics.failed() => Err(error.into()),
        };
        progress.stop().await;
        let stopped = selected.stop().await;
        let code = outcome?;
        stopped?;
        Ok(code)
    }
}

/// Waits until the first list fails permanently; waits forever if it succeeds.
async fn first_list_failed(selected: &Selected) -> Box<dyn Error> {
    match selected.synced().await {
        Err(error) => error.into(),
        Ok(()) => std::future::pending().await,
    }
}

/// Prints events until the command has printed enough.
struct EventLoop {
    printer: Printer,
    /// Whether existing objects are printed.
    prints_initial: bool,
    /// How many events are still to be printed, if that is limited.
    remaining: Option<u64>,
    until_synced: bool,
    /// Whether the first list had an object.
    has_initial: bool,
    /// Whether an event could not be printed.
    has_skipped: bool,
}

impl EventLoop {
    /// Prints events until enough have been printed, or stdout is closed.
    async fn run<O: PrintableObject>(
        mut self,
        selected: &Selected,
        informer: &SharedInformer<O>,
        mut events: EventStream<O>,
        progress: &Progress,
    ) -> Outcome {
        let mut stdout = Stdout::new();
        while let Some(event) = events.next().await {
            let (mut is_enough, mut is_synced) = (self.print(informer, &event), matches!(event, Event::Synced));
            // Events that are already waiting are written together.
            while !is_enough && self.printer.len() < CHUNK {
                let Some(Some(event)) = events.next().now_or_never() else { break };
                is_enough = self.print(informer, &event);
                is_synced |= matches!(event, Event::Synced);
            }
            let text = self.printer.take();
            if !text.is_empty() {
                progress.clear();
                if stdout.write(text.as_bytes()).await? == StdoutState::Closed {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            if is_synced && !self.has_initial && informer.quarantined().is_empty() {
                if self.until_synced && selected.name.is_some() {
                    return Err(selected.not_found().into());
                }
                progress.clear();
                let suffix = if is_enough { "" } else { " yet; waiting" };
                print_message(&format!("no {}{suffix}", selected.description()));
            }
            if is_enough {
                let is_complete = !self.has_skipped && informer.quarantined().is_empty();
                return Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE });
            }
        }
        let why =
            informer.status().problem().map_or_else(|| "the informer has stopped".to_owned(), |why| why.to_string());
        Err(Ended(why).into())
    }

    /// Formats one event; returns true if enough events have been printed.
    fn print<O: PrintableObject>(&mut self, informer: &SharedInformer<O>, event: &Event<O>) -> bool {
        if let Event::Synced = event {
            self.printer.synced(informer.last_version().as_ref());
            return self.until_synced;
        }
        if let Event::Added { origin: Origin::InitialList, .. } = event {
            self.has_initial = true;
            if !self.prints_initial {
                return false;
            }
        }
        if let Err(error) = self.printer.event(event) {
            self.has_skipped = true;
            print_message(&format!("skipped an event that cannot be printed: {}", in_one_line(&*error)));
        }
        self.remaining = self.remaining.map(|remaining| remaining.saturating_sub(1));
        self.remaining == Some(0)
    }
}
