//! How what was found is written, in each format.

use std::fmt::Write;

use informant::Cached;
use serde_json::Value;
use serde_json::json;

use super::Format;
use super::Found;
use super::index::IndexBy;
use crate::objects::Form;
use crate::objects::Reader;
use crate::objects::columns;
use crate::objects::columns::Column;
use crate::output;
use crate::output::Paint;
use crate::output::Table;
use crate::output::paint::Color;
use crate::selection::Selected;

/// Writes objects.
pub struct Printer {
    reader: Reader,
    /// `pod`, `deployment.apps`.
    singular: String,
    columns: Vec<Column>,
    has_namespaces: bool,
    index: Option<IndexBy>,
}

impl Printer {
    pub fn new<O: Form>(selected: &Selected, index: Option<&IndexBy>) -> Self {
        Self {
            reader: selected.reader,
            singular: selected.kind.singular_with_group(),
            columns: columns::of(&selected.kind, O::IS_OF_METADATA),
            // The index says it.
            has_namespaces: selected.spans_namespaces() && index != Some(&IndexBy::Namespace),
            index: index.cloned(),
        }
    }

    /// The text; empty if there is nothing, and the format has no words for that.
    pub fn print<O: Form>(&self, format: Format, found: &Found<O>) -> String {
        match format {
            Format::Table => self.table(found),
            Format::Name => self.names(found),
            Format::Json => {
                // What was read as JSON can be written as JSON.
                let mut text = serde_json::to_string_pretty(&self.document(found)).unwrap_or_default();
                text.push('\n');
                text
            }
            Format::Yaml => output::yaml(&self.document(found)),
        }
    }

    /// One object by itself, several in a list as `kubectl` has it, and those of an index by their values.
    fn document<O: Form>(&self, found: &Found<O>) -> Value {
        let values = |objects: &[std::sync::Arc<Cached<O>>]| {
            objects.iter().map(|object| self.reader.value(object)).collect::<Vec<_>>()
        };
        match found {
            Found::One(object) => self.reader.value(object),
            Found::Several(objects) => json!({"apiVersion": "v1", "kind": "List", "items": values(objects)}),
            Found::ByValue(buckets) => {
                let index = self.index.as_ref().map(ToString::to_string);
                let lookup = |(value, objects): &(String, Vec<_>)| json!({"value": value, "items": values(objects)});
                json!({"index": index, "lookups": buckets.iter().map(lookup).collect::<Vec<_>>()})
            }
        }
    }

    fn table<O: Form>(&self, found: &Found<O>) -> String {
        let rows = rows(found);
        if rows.is_empty() {
            return String::new();
        }
        let is_by_value = matches!(found, Found::ByValue(_));
        let value_header = self.index.as_ref().filter(|_| is_by_value).map(IndexBy::header);
        let namespace_header = self.has_namespaces.then(|| "NAMESPACE".to_owned());
        let headers = value_header.into_iter().chain(namespace_header).chain(["NAME".to_owned()]);
        let mut table = Table::new(headers.chain(self.columns.iter().map(|column| column.header.to_owned())));
        for (value, object) in rows {
            let key = object.key();
            let namespace = self.has_namespaces.then(|| key.namespace().unwrap_or_default().to_owned());
            let read = self.reader.value(object);
            let cells = value.map(str::to_owned).into_iter().chain(namespace).chain([key.name().to_owned()]);
            table.add(cells.chain(self.columns.iter().map(|column| column.cell(&read))), None);
        }
        table.take(Paint::new(Color::Never))
    }

    fn names<O: Form>(&self, found: &Found<O>) -> String {
        let mut text = String::new();
        for (value, object) in rows(found) {
            let value = value.map(|value| format!("{}\t", output::harmless(value))).unwrap_or_default();
            // Writing to a string does not fail.
            let _ = writeln!(text, "{value}{}/{}", self.singular, object.key().name());
        }
        text
    }
}

/// All objects, each with the value under which it was found.
fn rows<O>(found: &Found<O>) -> Vec<(Option<&str>, &Cached<O>)> {
    match found {
        Found::One(object) => vec![(None, object)],
        Found::Several(objects) => objects.iter().map(|object| (None, &**object)).collect(),
        Found::ByValue(buckets) => buckets
            .iter()
            .flat_map(|(value, objects)| objects.iter().map(|object| (Some(value.as_str()), &**object)))
            .collect(),
    }
}
