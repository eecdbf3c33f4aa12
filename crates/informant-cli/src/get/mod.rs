//! `informant get`: objects from the cache of a synced informer; by an index, if one is wanted.
//!
//! `index` says what objects are found by, `printer` how they are written.

mod index;
mod printer;

use std::error::Error;

use clap::Args;
use clap::ValueEnum;
use informant::Cached;
use informant::Lazy;
use informant::SharedInformer;
use kube::core::DynamicObject;
use kube::core::PartialObjectMeta;
use std::sync::Arc;

use self::index::IndexBy;
use self::printer::Printer;
use crate::interrupt::interrupted;
use crate::objects::Form;
use crate::output::Progress;
use crate::output::Stdout;
use crate::selection::Held;
use crate::selection::Selected;
use crate::selection::Selection;
use crate::selection::note;

/// What can be chosen.
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  informant get pods -A
  informant get deploy web -n shop -o yaml
  informant get pods -A --index field=spec.nodeName
  informant get pods -A --index field=spec.nodeName --value node-1
  informant get pods -A --index label=app.kubernetes.io/name --value web -o json
  informant get pods -A --index namespace

An index has each object under every value that it has there, as in field=spec.containers.image. A dot within a name is
written \\. and a backslash \\\\.")]
pub struct Options {
    #[command(flatten)]
    selection: Selection,
    /// How objects are written
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// Looks objects up by an index: label=KEY, field=PATH or namespace
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
    /// A document of JSON
    Json,
    /// A document of YAML
    Yaml,
    /// The name, as kubectl writes it
    Name,
}

/// Objects in the order of their keys.
type Objects<O> = Vec<Arc<Cached<O>>>;

/// What was found.
enum Found<O> {
    One(Arc<Cached<O>>),
    Several(Objects<O>),
    /// By each value of an index.
    ByValue(Vec<(String, Objects<O>)>),
}

/// Why nothing can be shown.
#[derive(Debug, thiserror::Error)]
enum GetError {
    #[error("{resource} {name:?} not found{}", .namespace.as_ref().map(|namespace| format!(" in namespace {namespace:?}")).unwrap_or_default())]
    NotFound { resource: String, name: String, namespace: Option<String> },
}

pub async fn run(options: Options) -> Result<bool, Box<dyn Error>> {
    match options.selection.held() {
        Held::Lazy => run_as::<Lazy<DynamicObject>>(options).await,
        Held::Decoded => run_as::<DynamicObject>(options).await,
        Held::LazyMetadata => run_as::<Lazy<PartialObjectMeta<DynamicObject>>>(options).await,
        Held::DecodedMetadata => run_as::<PartialObjectMeta<DynamicObject>>(options).await,
    }
}

async fn run_as<O: Form>(options: Options) -> Result<bool, Box<dyn Error>> {
    let selected = options.selection.find("get", None).await?;
    let informer = selected.informer::<O>()?;
    if let Some(index) = &options.index {
        index.add_to(&informer, selected.reader)?;
    }
    selected.factory.start();
    let progress = Progress::of(selected.factory.clone());
    let synced = tokio::select! {
        synced = selected.synced() => synced.map(|()| true),
        outcome = interrupted() => {
            outcome?;
            Ok(false)
        }
    };
    progress.stop().await;
    // The cache stays as it is.
    selected.stop().await?;
    if !synced? {
        return Ok(false);
    }
    let found = find(&informer, &selected, options.index.as_ref(), options.value.as_deref())?;
    let printer = Printer::new::<O>(&selected, options.index.as_ref());
    let text = printer.print(options.output, &found);
    if text.is_empty() {
        note("informant: there are none");
    }
    // Whoever does not read it has had enough.
    let _ = Stdout::new().write(text.as_bytes()).await?;
    Ok(true)
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
    let Some(index) = index else {
        let objects = sorted(lister.list());
        let Some(name) = &selected.name else { return Ok(Found::Several(objects)) };
        return match <[_; 1]>::try_from(objects) {
            Ok([one]) => Ok(Found::One(one)),
            Err(several) if !several.is_empty() => Ok(Found::Several(several)),
            Err(_) => {
                let (resource, namespace) = (selected.kind.resource.plural.clone(), selected.namespace.clone());
                Err(GetError::NotFound { resource, name: name.clone(), namespace }.into())
            }
        };
    };
    let found = lister.index(&index.to_string())?;
    if let Some(value) = value {
        return Ok(Found::Several(sorted(found.get(value))));
    }
    let mut values = found.values();
    values.sort();
    Ok(Found::ByValue(values.iter().map(|value| (value.to_string(), sorted(found.get(&**value)))).collect()))
}
