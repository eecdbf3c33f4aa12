//! `informant watch`: every change of a kind, as a shared informer hears of it.
//!
//! `printer` says what is written of an event; here is when it begins and ends.

mod printer;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap::ValueEnum;
use futures_util::FutureExt;
use futures_util::StreamExt;
use informant::Event;
use informant::EventStream;
use informant::Origin;
use informant::SharedInformer;

use self::printer::Printer;
use crate::Outcome;
use crate::arguments::AskedWrongly;
use crate::arguments::resync_period;
use crate::figures::Figures;
use crate::figures::FiguresOptions;
use crate::interrupt;
use crate::interrupt::Interrupt;
use crate::objects::Form;
use crate::output::Stdout;
use crate::output::in_one_line;
use crate::output::paint::Color;
use crate::output::say;
use crate::output::stdout;
use crate::output::stdout::Audience;
use crate::progress::Progress;
use crate::selection::OnObjects;
use crate::selection::Selected;
use crate::selection::Selection;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  informant watch pods -A
  informant watch deploy -n shop -o diff
  informant watch pod/web -o yaml
  informant watch nodes -o json --no-object | jq -r '[.type, .key] | @tsv'
  informant watch widgets.example.com --until-synced -o name
  informant watch pods --server http://127.0.0.1:8080

Each line of JSON is an event:
  {\"type\": \"ADDED\", \"UPDATED\", \"DELETED\", \"SYNC\" or \"SYNCED\",
   \"key\": \"NAMESPACE/NAME\", or \"NAME\" of kinds without namespaces,
   \"resourceVersion\": \"…\",
   \"initial\": true if it was there when the watch began,
   \"missed\": true if it was deleted while the watch was down,
   \"object\": its newest known state}
SYNC tells of an unchanged object again (--resync). SYNCED comes once, after
everything that was there when the watch began; it is about no object, so
key and object are null.

Ctrl-C ends it, with exit code 0. With --until-synced or --exit-after it ends
by itself, with 1 if it could not show everything; Ctrl-C is 130 then.")]
pub struct Options {
    #[command(flatten)]
    selection: Selection,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Leave the head of a table out
    #[arg(long)]
    no_headers: bool,
    /// Leave objects out of lines of JSON
    #[arg(long)]
    no_object: bool,
    /// Skip objects that already exist, until they change
    #[arg(long)]
    no_initial: bool,
    /// Exit after so many events of objects
    #[arg(long, value_name = "EVENTS", value_parser = clap::value_parser!(u64).range(1..))]
    exit_after: Option<u64>,
    /// Exit once all existing objects have been printed
    #[arg(long)]
    until_synced: bool,
    /// Print every object again, this often, such as 30s
    #[arg(long, value_name = "DURATION", value_parser = resync_period)]
    resync: Option<Duration>,
    /// When output falls behind by more than so many events, keep only the latest of each object [default: print all]
    #[arg(long, value_name = "EVENTS")]
    coalesce_above: Option<usize>,
    /// When to use colours
    #[arg(long, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,
    #[command(flatten)]
    figures: FiguresOptions,
}

/// What is written of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A row of what people look at first
    Table,
    /// A row with more of it
    Wide,
    /// A line of JSON
    Json,
    /// A document of YAML
    Yaml,
    /// The name, as kubectl prints it
    Name,
    /// What changed, field by field
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

/// As much as is written at once.
const CHUNK: usize = 64 * 1024;

/// The informer has ended before the command.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Ended(String);

pub async fn run(options: Options, interrupt: Interrupt) -> Outcome {
    options.selection.check()?;
    if options.no_object && options.output != Format::Json {
        return Err(AskedWrongly("--no-object is for lines of JSON: say -o json, too".to_owned()).into());
    }
    options.selection.held().run(options, interrupt).await
}

impl OnObjects for Options {
    async fn run<O: Form>(self, interrupt: Interrupt) -> Outcome {
        let mut figures = self.figures.serve().await?;
        let outcome = self.follow::<O>(&mut figures, interrupt).await;
        figures.stop().await;
        outcome
    }
}

impl Options {
    async fn follow<O: Form>(self, figures: &mut Figures, mut interrupt: Interrupt) -> Outcome {
        let ends_by_itself = self.until_synced || self.exit_after.is_some();
        let interrupted = if ends_by_itself { ExitCode::from(interrupt::CODE) } else { ExitCode::SUCCESS };
        // Also while it looks for the cluster.
        let selecting = async {
            let selected = self.selection.find(self.resync).await?;
            let columns = if self.output.is_table() { selected.columns::<O>().await } else { Vec::new() };
            Ok::<_, Box<dyn Error>>((selected, columns))
        };
        let (selected, columns) = tokio::select! {
            found = selecting => found?,
            () = interrupt.happened() => return Ok(interrupted),
        };
        let informer = selected.informer::<O>()?;
        let subscribe = informer.subscribe().named("watch");
        let events = match self.coalesce_above {
            Some(events) => subscribe.coalesce_above(events).stream()?,
            None => subscribe.stream()?,
        };
        selected.factory.start();
        figures.tell_of_factory(&selected.factory);
        let progress = Progress::of(selected.factory.clone());
        let following = Following {
            printer: Printer::new::<O>(&selected, columns, self.output, self.color, !self.no_object, !self.no_headers),
            tells_initial: !self.no_initial,
            left: self.exit_after,
            until_synced: self.until_synced,
            has_initial: false,
            has_left_out: false,
        };
        let outcome = tokio::select! {
            biased;
            () = interrupt.happened() => Ok(interrupted),
            // Also if nothing happens that would be written.
            () = stdout::gone() => Ok(ExitCode::SUCCESS),
            outcome = following.tell(&selected, &informer, events, &progress) => outcome,
            error = failed(&selected) => Err(error),
            error = figures.broken() => Err(error.into()),
        };
        progress.stop().await;
        let stopped = selected.stop().await;
        let code = outcome?;
        stopped?;
        Ok(code)
    }
}

/// Waits for the first list to fail for good; forever, if it does not.
async fn failed(selected: &Selected) -> Box<dyn Error> {
    match selected.synced().await {
        Err(error) => error.into(),
        Ok(()) => std::future::pending().await,
    }
}

/// What is told, and until when.
struct Following {
    printer: Printer,
    tells_initial: bool,
    /// How many events are still to be told, if that is limited.
    left: Option<u64>,
    until_synced: bool,
    /// Whether there was something in the first list.
    has_initial: bool,
    /// Whether an event could not be told.
    has_left_out: bool,
}

impl Following {
    /// Writes events until there is enough of them, or nobody reads any more.
    async fn tell<O: Form>(
        mut self,
        selected: &Selected,
        informer: &SharedInformer<O>,
        mut events: EventStream<O>,
        progress: &Progress,
    ) -> Outcome {
        let mut stdout = Stdout::new();
        while let Some(event) = events.next().await {
            let (mut is_enough, mut is_synced) = (self.hear(informer, &event), matches!(event, Event::Synced));
            // What waits already is written together.
            while !is_enough && self.printer.len() < CHUNK {
                let Some(Some(event)) = events.next().now_or_never() else { break };
                is_enough = self.hear(informer, &event);
                is_synced |= matches!(event, Event::Synced);
            }
            let text = self.printer.take();
            if !text.is_empty() {
                progress.make_room();
                if stdout.write(text.as_bytes()).await? == Audience::Gone {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            if is_synced && !self.has_initial && informer.quarantined().is_empty() {
                if self.until_synced && selected.name.is_some() {
                    return Err(selected.not_found().into());
                }
                progress.make_room();
                let outlook = if is_enough { "" } else { " yet; waiting" };
                say(&format!("no {}{outlook}", selected.description()));
            }
            if is_enough {
                let is_whole = !self.has_left_out && informer.quarantined().is_empty();
                return Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE });
            }
        }
        let why =
            informer.status().problem().map_or_else(|| "the informer has ended".to_owned(), |why| why.to_string());
        Err(Ended(why).into())
    }

    /// Says whether this was enough.
    fn hear<O: Form>(&mut self, informer: &SharedInformer<O>, event: &Event<O>) -> bool {
        if let Event::Synced = event {
            self.printer.synced(informer.last_version().as_ref());
            return self.until_synced;
        }
        if let Event::Added { origin: Origin::InitialList, .. } = event {
            self.has_initial = true;
            if !self.tells_initial {
                return false;
            }
        }
        if let Err(error) = self.printer.event(event) {
            self.has_left_out = true;
            say(&format!("an event is left out: {}", in_one_line(&*error)));
        }
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.left == Some(0)
    }
}
