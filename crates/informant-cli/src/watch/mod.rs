//! `informant watch`: every change of a kind, as a shared informer hears of it.
//!
//! `printer` says what is written of an event; here is when it begins and ends.

mod printer;

use std::error::Error;
use std::time::Duration;

use clap::Args;
use clap::ValueEnum;
use futures_util::FutureExt;
use futures_util::StreamExt;
use informant::Event;
use informant::EventStream;
use informant::Lazy;
use informant::Origin;
use informant::SharedInformer;
use kube::core::DynamicObject;
use kube::core::PartialObjectMeta;

use self::printer::Printer;
use crate::interrupt::interrupted;
use crate::metrics::MetricsOptions;
use crate::objects::Form;
use crate::output::Progress;
use crate::output::Stdout;
use crate::output::paint::Color;
use crate::output::stdout::Reader;
use crate::selection::Held;
use crate::selection::Selected;
use crate::selection::Selection;

/// What can be chosen.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  informant watch pods -A
  informant watch deploy -n shop -o diff
  informant watch pod/web -o yaml
  informant watch nodes -o json --no-object | jq -r '[.type, .key] | @tsv'
  informant watch certificates.cert-manager.io --until-synced -o name
  informant watch pods --server http://127.0.0.1:8080    # without credentials

Each line of JSON is an event:
  {\"type\":\"ADDED|UPDATED|DELETED|SYNC|SYNCED\",\"key\":\"NAMESPACE/NAME\",\"resourceVersion\":\"…\",
   \"initial\":true if it was there when the watch began,
   \"missed\":true if it was deleted while the watch was down, and this is the last that was known of it,
   \"object\":{…}}
SYNC tells of an object again (--resync), SYNCED that everything which was there has been told.

Ctrl-C ends it, with exit code 0.")]
pub struct Options {
    #[command(flatten)]
    selection: Selection,
    /// What is written of each event
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Leaves objects out of lines of JSON
    #[arg(long)]
    no_object: bool,
    /// Says nothing of what is there when it begins
    #[arg(long)]
    no_initial: bool,
    /// Ends after so many events of objects
    #[arg(long, value_name = "EVENTS", value_parser = clap::value_parser!(u64).range(1..))]
    exit_after: Option<u64>,
    /// Ends when all that is there has been told
    #[arg(long)]
    until_synced: bool,
    /// Tells of every object again, this often, such as 30s; a second at least
    #[arg(long, value_name = "DURATION", value_parser = crate::duration)]
    resync: Option<Duration>,
    /// Merges the events of an object when more than so many wait to be written [default: all are written]
    #[arg(long, value_name = "EVENTS")]
    merge_above: Option<usize>,
    /// When colours are used
    #[arg(long, value_enum, default_value_t = Color::Auto, value_name = "WHEN")]
    color: Color,
    #[command(flatten)]
    metrics: MetricsOptions,
}

/// What is written of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A row of what people look at first
    Table,
    /// A line of JSON
    Json,
    /// A document of YAML
    Yaml,
    /// The name, as kubectl writes it
    Name,
    /// What changed, field by field
    Diff,
}

/// As much as is written at once.
const CHUNK: usize = 64 * 1024;

pub async fn run(options: Options) -> Result<bool, Box<dyn Error>> {
    if options.no_object && options.output != Format::Json {
        crate::asked_wrongly("watch", "--no-object is for lines of JSON: say -o json, too");
    }
    match options.selection.held() {
        Held::Lazy => run_as::<Lazy<DynamicObject>>(options).await,
        Held::Decoded => run_as::<DynamicObject>(options).await,
        Held::LazyMetadata => run_as::<Lazy<PartialObjectMeta<DynamicObject>>>(options).await,
        Held::DecodedMetadata => run_as::<PartialObjectMeta<DynamicObject>>(options).await,
    }
}

async fn run_as<O: Form>(options: Options) -> Result<bool, Box<dyn Error>> {
    let mut metrics = options.metrics.serve().await?;
    let selected = options.selection.find("watch", options.resync).await?;
    let informer = selected.informer::<O>()?;
    let subscribe = informer.subscribe().named("watch");
    let events = match options.merge_above {
        Some(events) => subscribe.coalesce_above(events).stream()?,
        None => subscribe.stream()?,
    };
    selected.factory.start();
    metrics.ready_when_synced(&selected.factory);
    let progress = Progress::of(selected.factory.clone());
    let telling = Telling {
        printer: Printer::new(&selected, O::IS_OF_METADATA, options.output, options.no_object, options.color),
        tells_initial: !options.no_initial,
        left: options.exit_after,
        until_synced: options.until_synced,
    };
    let outcome = tokio::select! {
        biased;
        outcome = interrupted() => outcome.map_err(Into::into),
        outcome = telling.tell(&informer, events, &progress) => outcome,
        error = failed(&selected) => Err(error),
        error = metrics.broken() => Err(error.into()),
    };
    progress.stop().await;
    selected.stop().await?;
    metrics.stop().await;
    outcome.map(|()| true)
}

/// Waits for the first list to fail for good; forever, if it does not.
async fn failed(selected: &Selected) -> Box<dyn Error> {
    match selected.synced().await {
        Err(error) => error.into(),
        Ok(()) => std::future::pending().await,
    }
}

/// What is told, and until when.
struct Telling {
    printer: Printer,
    tells_initial: bool,
    /// How many events are still to be told, if that is limited.
    left: Option<u64>,
    until_synced: bool,
}

impl Telling {
    /// Writes events until there is enough of them, or nobody reads any more.
    async fn tell<O: Form>(
        mut self,
        informer: &SharedInformer<O>,
        mut events: EventStream<O>,
        progress: &Progress,
    ) -> Result<(), Box<dyn Error>> {
        let mut stdout = Stdout::new();
        while let Some(event) = events.next().await {
            let mut is_enough = self.hear(informer, &event);
            // What waits already is written together.
            while !is_enough && self.printer.len() < CHUNK {
                let Some(Some(event)) = events.next().now_or_never() else { break };
                is_enough = self.hear(informer, &event);
            }
            let text = self.printer.take();
            if !text.is_empty() {
                progress.make_room();
                if stdout.write(&text).await? == Reader::Gone {
                    return Ok(());
                }
            }
            if is_enough {
                return Ok(());
            }
        }
        Err("the informer has stopped".into())
    }

    /// Says whether this was enough.
    fn hear<O: Form>(&mut self, informer: &SharedInformer<O>, event: &Event<O>) -> bool {
        if let Event::Synced = event {
            self.printer.synced(informer.last_version().as_ref());
            return self.until_synced;
        }
        if let (Event::Added { origin: Origin::InitialList, .. }, false) = (event, self.tells_initial) {
            return false;
        }
        self.printer.event(event);
        self.left = self.left.map(|left| left.saturating_sub(1));
        self.left == Some(0)
    }
}
