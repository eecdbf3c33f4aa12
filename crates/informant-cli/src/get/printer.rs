//! Formats the found objects in each output format.

use std::{cell::Cell, fmt::Write};

use informant::{Cached, error::DecodeError};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Format, Found, index::IndexBy, server_table::ServerTable};
use crate::{
    objects::{PrintableObject, Reader, columns::Columns},
    output,
    output::{Paint, Table, YamlError, in_one_line, paint::Color, print_message, sanitized},
    selection::Selected,
};

/// Formats objects.
pub struct Printer {
    reader: Reader,
    /// `pod`, `deployment.apps`.
    singular: String,
    cells: Cells,
    index: Option<IndexBy>,
    has_headers: bool,
    has_skipped: Cell<bool>,
}

/// The cells of a table.
pub enum Cells {
    OfServer(ServerTable),
    /// Those of the columns that this program knows.
    Known(Columns),
    /// The output is no table.
    None,
}

impl Printer {
    pub fn new(selected: &Selected, cells: Cells, index: Option<IndexBy>, has_headers: bool) -> Self {
        Self {
            reader: selected.reader,
            singular: selected.kind.singular_with_group(),
            cells,
            index,
            has_headers,
            has_skipped: Cell::new(false),
        }
    }

    /// Returns true if an object could not be printed.
    pub fn has_skipped(&self) -> bool {
        self.has_skipped.get()
    }

    /// Prints a message for each object that cannot be printed. Such objects are absent from an index by field.
    pub fn check<O: PrintableObject>(&self, objects: &[Cached<O>]) {
        objects.iter().for_each(|object| drop(self.value(object)));
    }

    /// Formats the found objects. Tables and names of no objects are empty.
    pub fn print<O: PrintableObject>(&self, format: Format, found: &Found<O>) -> Result<String, YamlError> {
        Ok(match format {
            Format::Table | Format::Wide => self.table(found),
            Format::Name => self.names(found),
            Format::Json => self.document(found).map(|document| format!("{document:#}\n")).unwrap_or_default(),
            Format::Yaml => {
                self.document(found).map(|document| output::yaml(&document)).transpose()?.unwrap_or_default()
            }
        })
    }

    /// Returns an object as JSON; if it cannot be decoded, prints a message and returns `None`.
    fn value<O: PrintableObject>(&self, object: &Cached<O>) -> Option<Value> {
        let skip = |error: DecodeError| {
            self.has_skipped.set(true);
            print_message(&format!("skipped an object that cannot be decoded: {}", in_one_line(&error)));
        };
        self.reader.value(object).map_err(skip).ok()
    }

    /// One object by itself; several as a `List`, as in `kubectl`; those of an index grouped by value.
    fn document<O: PrintableObject>(&self, found: &Found<O>) -> Option<Value> {
        let values =
            |objects: &[Cached<O>]| -> Value { objects.iter().filter_map(|object| self.value(object)).collect() };
        match found {
            Found::One(object) => self.value(object),
            Found::Several(objects) => Some(json!({"apiVersion": "v1", "kind": "List", "items": values(objects)})),
            Found::ByValue(lookups) => {
                let index = self.index.as_ref().map(ToString::to_string);
                let lookups = lookups.iter().map(|(value, objects)| json!({"value": value, "items": values(objects)}));
                Some(json!({"index": index, "lookups": lookups.collect::<Value>()}))
            }
        }
    }

    fn table<O: PrintableObject>(&self, found: &Found<O>) -> String {
        let rows = rows(found);
        let has_values = rows.first().is_some_and(|(value, _)| value.is_some());
        let value_header = self.index.as_ref().filter(|_| has_values).map(IndexBy::header);
        let headers = match &self.cells {
            Cells::OfServer(table) => table.headers.clone(),
            Cells::Known(columns) => columns.headers().collect(),
            Cells::None => Vec::new(),
        };
        let table = Table::new(value_header.into_iter().chain(headers));
        let mut table = if self.has_headers { table } else { table.without_headers() };
        let now = Timestamp::now();
        for (value, object) in rows {
            let cells = match &self.cells {
                Cells::OfServer(table) => table.cells(object.key()).map(<[_]>::to_vec),
                Cells::Known(columns) => {
                    self.value(object).map(|read| columns.cells(object.key(), &read, now).collect())
                }
                Cells::None => None,
            };
            let Some(cells) = cells else { continue };
            table.add(value.map(str::to_owned).into_iter().chain(cells), None);
        }
        table.take(Paint::new(Color::Never))
    }

    fn names<O: PrintableObject>(&self, found: &Found<O>) -> String {
        let mut text = String::new();
        for (value, object) in rows(found) {
            let value = value.map(|value| format!("{}\t", sanitized(value))).unwrap_or_default();
            // Writing to a `String` cannot fail.
            let _ = writeln!(text, "{value}{}/{}", self.singular, sanitized(object.key().name()));
        }
        text
    }
}

/// All found objects, each with its index value if they are grouped by value.
fn rows<O>(found: &Found<O>) -> Vec<(Option<&str>, &Cached<O>)> {
    match found {
        Found::One(object) => vec![(None, object)],
        Found::Several(objects) => objects.iter().map(|object| (None, object)).collect(),
        Found::ByValue(lookups) => {
            let all = lookups.iter().flat_map(|(value, objects)| objects.iter().map(move |object| (value, object)));
            all.map(|(value, object)| (Some(value.as_str()), object)).collect()
        }
    }
}
