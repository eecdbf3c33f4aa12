//! What is written of an event, in each format.

use std::fmt::Write;

use informant::Cached;
use informant::Deleted;
use informant::Event;
use informant::Origin;
use informant::ResourceVersion;
use serde::Serialize;

use super::Format;
use crate::objects::Form;
use crate::objects::Reader;
use crate::objects::columns;
use crate::objects::columns::Column;
use crate::output;
use crate::output::Paint;
use crate::output::Table;
use crate::output::paint::Color;
use crate::output::table::Painting;
use crate::selection::Selected;

/// Writes events into a text, which somebody takes.
pub struct Printer {
    format: Format,
    has_objects: bool,
    reader: Reader,
    paint: Paint,
    /// `pod`, `deployment.apps`.
    singular: String,
    columns: Vec<Column>,
    has_namespaces: bool,
    table: Table,
    text: String,
}

/// An event as a line of JSON has it, but for the object.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Line<'a> {
    r#type: &'a str,
    key: Option<&'a str>,
    resource_version: Option<&'a str>,
    initial: bool,
    missed: bool,
}

impl Printer {
    pub fn new(selected: &Selected, is_of_metadata: bool, format: Format, no_object: bool, color: Color) -> Self {
        let columns = columns::of(&selected.kind, is_of_metadata);
        let has_namespaces = selected.spans_namespaces();
        let namespace = has_namespaces.then_some("NAMESPACE");
        let headers = ["EVENT"].into_iter().chain(namespace).chain(["NAME"]);
        Self {
            format,
            has_objects: !no_object,
            reader: selected.reader,
            paint: Paint::new(color),
            singular: selected.kind.singular_with_group(),
            table: Table::new(headers.chain(columns.iter().map(|column| column.header))),
            columns,
            has_namespaces,
            text: String::new(),
        }
    }

    /// How much waits to be taken; of a table, roughly.
    pub fn len(&self) -> usize {
        self.text.len() + self.table.len()
    }

    /// What was written since the last time.
    pub fn take(&mut self) -> Vec<u8> {
        let mut text = std::mem::take(&mut self.text);
        if self.format == Format::Table {
            text.push_str(&self.table.take(self.paint));
        }
        text.into_bytes()
    }

    /// All that was there has been told.
    pub fn synced(&mut self, version: Option<&ResourceVersion>) {
        match self.format {
            Format::Json => {
                let resource_version = version.map(ResourceVersion::as_str);
                let line = Line { r#type: "SYNCED", key: None, resource_version, initial: false, missed: false };
                self.json(&line, self.has_objects.then_some("null"));
            }
            Format::Yaml => self.line(format_args!("# SYNCED {}", version.map_or("", ResourceVersion::as_str))),
            Format::Table | Format::Name | Format::Diff => {}
        }
    }

    pub fn event<O: Form>(&mut self, event: &Event<O>) {
        let Some(object) = event.object() else { return };
        match self.format {
            Format::Table => self.row(event, object),
            Format::Json => {
                let (initial, missed) = (is_initial(event), is_missed(event));
                let (key, resource_version) = (Some(object.key().as_str()), Some(object.version().as_str()));
                let line = Line { r#type: name(event), key, resource_version, initial, missed };
                let json = self.has_objects.then(|| self.reader.json(object));
                self.json(&line, json.as_deref());
            }
            Format::Yaml => {
                let value = self.reader.value(object);
                self.line(format_args!("---\n# {} {}{}", name(event), headline(object), remark(event)));
                self.text.push_str(&output::yaml(&value));
            }
            Format::Name => self.line(format_args!("{}/{}", self.singular.clone(), object.key().name())),
            Format::Diff => self.diff(event, object),
        }
    }

    fn row<O: Form>(&mut self, event: &Event<O>, object: &Cached<O>) {
        let value = self.reader.value(object);
        let key = object.key();
        let namespace = self.has_namespaces.then(|| key.namespace().unwrap_or_default().to_owned());
        let first = format!("{}{}", name(event), if is_missed(event) { " (missed)" } else { "" });
        let cells = [first].into_iter().chain(namespace).chain([key.name().to_owned()]);
        let cells = cells.chain(self.columns.iter().map(|column| column.cell(&value)));
        self.table.add(cells, Some(painting(event)));
    }

    fn diff<O: Form>(&mut self, event: &Event<O>, object: &Cached<O>) {
        let paint = self.paint;
        let what = painting(event)(paint, name(event));
        let Event::Updated { old, new } = event else {
            return self.line(format_args!("{what} {}{}", headline(object), remark(event)));
        };
        let changes = self.reader.changes(old, new);
        let nothing = if changes.is_empty() { " (nothing but its version)" } else { "" };
        self.line(format_args!("{what} {} {} → {}{nothing}", new.key(), old.version(), new.version()));
        for change in &changes {
            self.line(format_args!("  {}", change.told(paint)));
        }
    }

    fn json(&mut self, line: &Line<'_>, object: Option<&str>) {
        // Texts and truth values can be written.
        let line = serde_json::to_string(line).unwrap_or_default();
        match object {
            // The object is JSON already; it stands where the last brace was.
            Some(object) => {
                let without_brace = line.strip_suffix('}').unwrap_or(&line);
                self.line(format_args!("{without_brace},\"object\":{object}}}"));
            }
            None => self.line(format_args!("{line}")),
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "{line}");
    }
}

fn name<O>(event: &Event<O>) -> &'static str {
    match event {
        Event::Added { .. } => "ADDED",
        Event::Updated { .. } => "UPDATED",
        Event::Resynced(_) => "SYNC",
        Event::Deleted(_) => "DELETED",
        Event::Synced => "SYNCED",
    }
}

fn painting<O>(event: &Event<O>) -> Painting {
    match event {
        Event::Added { .. } => Paint::green,
        Event::Updated { .. } => Paint::yellow,
        Event::Resynced(_) | Event::Synced => Paint::faint,
        Event::Deleted(_) => Paint::red,
    }
}

fn is_initial<O>(event: &Event<O>) -> bool {
    matches!(event, Event::Added { origin: Origin::InitialList, .. })
}

fn is_missed<O>(event: &Event<O>) -> bool {
    matches!(event, Event::Deleted(Deleted::Missed { .. }))
}

fn headline<O>(object: &Cached<O>) -> String {
    format!("{} {}", object.key(), object.version())
}

fn remark<O>(event: &Event<O>) -> &'static str {
    match (is_initial(event), is_missed(event)) {
        (true, _) => " (initial)",
        (_, true) => " (missed)",
        (false, false) => "",
    }
}
