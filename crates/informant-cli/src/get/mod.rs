//! `informant get`: objects from the cache of a synced informer; by an index, if one is wanted.
//!
//! `index` says what objects are found by, `printer` how they are written.

mod index;
mod printer;

use std::error::Error;
use std::process::ExitCode;

use clap::Args;
use clap::ValueEnum;
use informant::Cached;
use informant::SharedInformer;

use self::index::IndexBy;
use self::printer::Printer;
use crate::Outcome;
use crate::interrupt;
use crate::interrupt::Interrupt;
use crate::objects::Form;
use crate::objects::columns::Width;
use crate::output::Stdout;
use crate::output::say;
use crate::progress::Progress;
use crate::selection::OnObjects;
use crate::selection::Selected;
use crate::selection::Selection;

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  informant get pods -A
  informant get deploy web -n shop -o yaml
  informant get pods -A --index field=spec.nodeName
  informant get pods -A --index field=spec.nodeName --value node-1
  informant get pods -A --index label=app --value web -o json
  informant get pods -A --index namespace -o name

An index has each object under every value that it has there, also those of
lists, as in field=spec.containers.image. A dot within a name is written \\.
and a backslash \\\\.

Objects that cannot be read are left out and said; the exit code is 1 then.")]
pub struct Options {
    #[command(flatten)]
    selection: Selection,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Leave the head of a table out
    #[arg(long)]
    no_headers: bool,
    /// Look objects up by an index: label=KEY, field=PATH or namespace
    #[arg(long, value_name = "INDEX")]
    index: Option<IndexBy>,
    /// Only what the index has under this value
    #[arg(long, requires = "index")]
    value: Option<String>,
}

/// How objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A row of what people look at first
    Table,
    /// A row with more of it
    Wide,
    /// A document of JSON
    Json,
    /// A document of YAML
    Yaml,
    /// The name, as kubectl prints it
    Name,
}

impl Format {
    fn is_table(self) -> bool {
        match self {
            Self::Table | Self::Wide => true,
            Self::Json | Self::Yaml | Self::Name => false,
        }
    }
}

/// Objects in the order of their keys.
type Objects<O> = Vec<Cached<O>>;

/// What was found.
enum Found<O> {
    One(Cached<O>),
    Several(Objects<O>),
    /// By each value of an index.
    ByValue(Vec<(String, Objects<O>)>),
}

pub async fn run(options: Options, interrupt: Interrupt) -> Outcome {
    options.selection.check()?;
    options.selection.held().run(options, interrupt).await
}

impl OnObjects for Options {
    async fn run<O: Form>(self, mut interrupt: Interrupt) -> Outcome {
        let interrupted = Ok(ExitCode::from(interrupt::CODE));
        let selecting = async {
            let selected = self.selection.find(None).await?;
            let columns = if self.output.is_table() { selected.columns::<O>().await } else { Vec::new() };
            Ok::<_, Box<dyn Error>>((selected, columns))
        };
        let (selected, columns) = tokio::select! {
            found = selecting => found?,
            () = interrupt.happened() => return interrupted,
        };
        let informer = selected.informer::<O>()?;
        if let Some(index) = &self.index {
            index.add_to(&informer, selected.reader)?;
        }
        selected.factory.start();
        let progress = Progress::of(selected.factory.clone());
        let synced = tokio::select! {
            synced = selected.synced() => Some(synced),
            () = interrupt.happened() => None,
        };
        progress.stop().await;
        // The cache stays as it is.
        let stopped = selected.stop().await;
        let Some(synced) = synced else { return interrupted };
        synced?;
        stopped?;
        // Of those it was said already that they are left out.
        let has_unread = !informer.quarantined().is_empty();
        if selected.name.is_some() && informer.lister().is_empty() {
            return if has_unread { Ok(ExitCode::FAILURE) } else { Err(selected.not_found().into()) };
        }
        let found = find(&informer, &selected, self.index.as_ref(), self.value.as_deref())?;
        let width = if self.output == Format::Wide { Width::Wide } else { Width::Usual };
        let printer = Printer::new::<O>(&selected, columns, self.index.clone(), width, !self.no_headers);
        if let Some(IndexBy::Field(_)) = self.index {
            printer.check(&informer.lister().list());
        }
        let text = printer.print(self.output, &found)?;
        let is_whole = !has_unread && !printer.has_left_out();
        if text.is_empty() && is_whole {
            // Whoever looks in an index wants to know whether that is why.
            let index = self.index.as_ref().filter(|_| !informer.lister().is_empty());
            let under = index.map(|index| match &self.value {
                Some(value) => format!(" under {index} {value:?}"),
                None => format!(" under any value of {index}"),
            });
            say(&format!("no {}{}", selected.description(), under.unwrap_or_default()));
        }
        let mut stdout = Stdout::new();
        tokio::select! {
            // Whoever does not read it has had enough.
            written = stdout.write(text.as_bytes()) => drop(written?),
            () = interrupt.happened() => return interrupted,
        }
        Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn find<O: Form>(
    informer: &SharedInformer<O>,
    selected: &Selected,
    index: Option<&IndexBy>,
    value: Option<&str>,
) -> Result<Found<O>, Box<dyn Error>> {
    let lister = informer.lister();
    let sorted = |mut objects: Objects<O>| {
        objects.sort_by(|one, other| one.key().cmp(other.key()));
        objects
    };
    if let Some(index) = index {
        let index = lister.index(&index.to_string())?;
        if let Some(value) = value {
            return Ok(Found::Several(sorted(index.get(value))));
        }
        let mut values = index.values();
        values.sort();
        let lookups = values.iter().map(|value| (value.to_string(), sorted(index.get(&**value))));
        return Ok(Found::ByValue(lookups.collect()));
    }
    let objects = sorted(lister.list());
    // Across namespaces there may be several of one name; then also one is a list, so that programs can rely on it.
    match &objects[..] {
        [one] if selected.name.is_some() && !selected.spans_namespaces() => Ok(Found::One(one.clone())),
        [..] => Ok(Found::Several(objects)),
    }
}
