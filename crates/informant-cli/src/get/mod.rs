//! `informant get`: prints objects from the cache of a synced informer, optionally looked up by an index.
//!
//! `index` is the index of `--index`; `server_table` the server's own table of the objects; `printer` formats objects.

mod index;
mod printer;
mod server_table;

use std::{error::Error, process::ExitCode};

use clap::{Args, ValueEnum};
use informant::{Cached, SharedInformer};

use self::{
    index::IndexBy,
    printer::{Cells, Printer},
    server_table::ServerTable,
};
use crate::{
    Outcome, interrupt,
    interrupt::Interrupt,
    objects::{
        PrintableObject,
        columns::{Columns, Width},
    },
    output::{Stdout, print_message},
    progress::Progress,
    selection::{ObjectCommand, Selected, Selection},
};

#[derive(Args, Debug)]
#[command(after_help = "Examples:
  informant get pods -A
  informant get deploy web -n shop -o yaml
  informant get pods -A --index field=spec.nodeName
  informant get pods -A --index field=spec.nodeName --value node-1
  informant get pods -A --index label=app --value web -o json
  informant get pods -A --index namespace -o name

--index without --value prints all objects, grouped by their index values. An
object with several values, as in field=spec.containers.image, appears under
each of them. In a PATH, write \\. for a dot within a name, and \\\\ for a
backslash.

Objects that cannot be decoded are skipped with a message on stderr; the exit
code is then 1.")]
pub struct Options {
    #[command(flatten)]
    selection: Selection,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Omit the header row of tables
    #[arg(long)]
    no_headers: bool,
    /// Look up objects by an index: label=KEY, field=PATH or namespace
    #[arg(long, value_name = "INDEX")]
    index: Option<IndexBy>,
    /// Print only objects with this index value
    #[arg(long, requires = "index")]
    value: Option<String>,
}

/// The output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// One table row per object
    Table,
    /// One table row per object, with more columns
    Wide,
    /// One JSON document: an object or a List
    Json,
    /// One YAML document: an object or a List
    Yaml,
    /// RESOURCE/NAME of each object, as in kubectl
    Name,
}

/// Objects, sorted by key.
type Objects<O> = Vec<Cached<O>>;

/// The result of a lookup.
enum Found<O> {
    One(Cached<O>),
    Several(Objects<O>),
    /// The objects under each value of an index.
    ByValue(Vec<(String, Objects<O>)>),
}

pub async fn run(options: Options, interrupt: Interrupt) -> Outcome {
    options.selection.check()?;
    options.selection.object_type().run(options, interrupt).await
}

impl ObjectCommand for Options {
    async fn run<O: PrintableObject>(self, mut interrupt: Interrupt) -> Outcome {
        let interrupted = Ok(ExitCode::from(interrupt::CODE));
        let selected = tokio::select! {
            found = self.selection.find(None) => found?,
            () = interrupt.received() => return interrupted,
        };
        let informer = selected.informer::<O>()?;
        if let Some(index) = &self.index {
            index.add_to(&informer, selected.reader)?;
        }
        selected.factory.start();
        let progress = Progress::of(selected.factory.clone());
        let synced = tokio::select! {
            synced = selected.synced() => Some(synced),
            () = interrupt.received() => None,
        };
        progress.stop().await;
        // The cache stays readable after the stop.
        let stopped = selected.stop().await;
        let Some(synced) = synced else { return interrupted };
        synced?;
        stopped?;
        // A message was printed for each quarantined object when its decoding failed.
        let has_undecoded = !informer.quarantined().is_empty();
        if selected.name.is_some() && informer.lister().is_empty() {
            return if has_undecoded { Ok(ExitCode::FAILURE) } else { Err(selected.not_found().into()) };
        }
        let found = find(&informer, &selected, self.index.as_ref(), self.value.as_deref())?;
        let cells = tokio::select! {
            cells = cells(self.output, &selected, &informer, self.index.as_ref()) => cells,
            () = interrupt.received() => return interrupted,
        };
        let printer = Printer::new(&selected, cells, self.index.clone(), !self.no_headers);
        if let Some(IndexBy::Field(_)) = self.index {
            printer.check(&informer.lister().list());
        }
        let text = printer.print(self.output, &found)?;
        let is_complete = !has_undecoded && !printer.has_skipped();
        if text.is_empty() && is_complete {
            // If there are objects, but none under this index, the message names the index.
            let index = self.index.as_ref().filter(|_| !informer.lister().is_empty());
            let under = index.map(|index| match &self.value {
                Some(value) => format!(" under {index} {value:?}"),
                None => format!(" under any value of {index}"),
            });
            print_message(&format!("no {}{}", selected.description(), under.unwrap_or_default()));
        }
        let mut stdout = Stdout::new();
        tokio::select! {
            // A closed pipe is not an error: the reader has seen enough.
            written = stdout.write(text.as_bytes()) => drop(written?),
            () = interrupt.received() => return interrupted,
        }
        Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The cells of tables: those of the server, or else those that this program knows.
async fn cells<O: PrintableObject>(
    format: Format,
    selected: &Selected,
    informer: &SharedInformer<O>,
    index: Option<&IndexBy>,
) -> Cells {
    let width = match format {
        Format::Wide => Width::Wide,
        Format::Table => Width::Normal,
        Format::Json | Format::Yaml | Format::Name => return Cells::None,
    };
    let lister = informer.lister();
    // An index by namespace already has a column for it.
    let has_namespaces = selected.spans_namespaces() && index != Some(&IndexBy::Namespace);
    if let Some(version) = informer.last_version().filter(|_| !O::IS_METADATA_ONLY && !lister.is_empty()) {
        let table = ServerTable::of(selected, version.as_str(), width, has_namespaces).await;
        let is_complete = |table: &ServerTable| lister.keys().iter().all(|key| table.cells(key).is_some());
        if let Some(table) = table.filter(is_complete) {
            return Cells::OfServer(table);
        }
    }
    let columns = selected.columns::<O>().await;
    Cells::Known(Columns::new(columns, O::IS_METADATA_ONLY, width, has_namespaces))
}

fn find<O: PrintableObject>(
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
    // Several namespaces may have an object of this name. The result is then always a list, so that scripts can rely on it.
    match &objects[..] {
        [one] if selected.name.is_some() && !selected.spans_namespaces() => Ok(Found::One(one.clone())),
        [..] => Ok(Found::Several(objects)),
    }
}
