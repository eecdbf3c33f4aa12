//! Formats events in each output format.

use std::{
    error::Error,
    fmt::{Arguments, Write},
};

use informant::{Cached, Deleted, Event, Origin, ResourceVersion, error::DecodeError};
use informant_apiserver::columns::Column;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::Value;

use super::Format;
use crate::{
    objects::{
        PrintableObject, Reader,
        columns::{Columns, Width},
        diff::{Change, Path},
    },
    output,
    output::{Paint, Table, paint::Color, sanitized, table::ColorFn},
    selection::Selected,
};

/// Formats events into a buffer, which the caller takes.
pub struct Printer {
    format: Format,
    has_objects: bool,
    reader: Reader,
    paint: Paint,
    /// `pod`, `deployment.apps`.
    singular: String,
    columns: Columns,
    /// The buffer for all formats but tables.
    text: String,
    rows: Table,
}

/// The fields of a JSON event, without the object.
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
    pub fn new<O: PrintableObject>(
        selected: &Selected,
        columns: Vec<Column>,
        format: Format,
        color: Color,
        has_objects: bool,
        has_headers: bool,
    ) -> Self {
        let width = if format == Format::Wide { Width::Wide } else { Width::Normal };
        let columns = Columns::new(columns, O::IS_METADATA_ONLY, width, selected.spans_namespaces());
        // Padded to the width of UPDATED and DELETED, so that the column does not grow.
        let rows = Table::new(["EVENT  ".to_owned()].into_iter().chain(columns.headers()));
        Self {
            format,
            has_objects,
            reader: selected.reader,
            paint: Paint::new(color),
            singular: selected.kind.singular_with_group(),
            rows: if has_headers { rows } else { rows.without_headers() },
            columns,
            text: String::new(),
        }
    }

    /// The size in bytes of the text that has not been taken; approximate for tables.
    pub fn len(&self) -> usize {
        self.text.len() + self.rows.len()
    }

    /// Takes the text that was formatted since the last call.
    pub fn take(&mut self) -> String {
        match self.format {
            Format::Table | Format::Wide => self.rows.take(self.paint),
            Format::Json | Format::Yaml | Format::Name | Format::Diff => std::mem::take(&mut self.text),
        }
    }

    /// Formats the event that follows the last existing object.
    pub fn synced(&mut self, version: Option<&ResourceVersion>) {
        let version = version.map(ResourceVersion::as_str);
        match self.format {
            Format::Json => {
                let (initial, missed) = (false, false);
                let line = Line { r#type: "SYNCED", key: None, resource_version: version, initial, missed };
                self.json(&line, self.has_objects.then_some("null"));
            }
            Format::Yaml => self.line(format_args!("# SYNCED {}", version.unwrap_or_default())),
            Format::Table | Format::Wide | Format::Name | Format::Diff => {}
        }
    }

    /// Formats one event.
    ///
    /// # Errors
    ///
    /// If the object cannot be printed; then nothing is added for the event.
    pub fn event<O: PrintableObject>(&mut self, event: &Event<O>) -> Result<(), Box<dyn Error>> {
        let Some(object) = event.object() else { return Ok(()) };
        match self.format {
            Format::Table | Format::Wide => self.row(event, object)?,
            Format::Json => {
                let (initial, missed) = (is_initial(event), is_missed(event));
                let (key, resource_version) = (Some(object.key().as_str()), Some(object.version().as_str()));
                let line = Line { r#type: name(event), key, resource_version, initial, missed };
                let json = self.has_objects.then(|| self.reader.json(object)).transpose()?;
                self.json(&line, json.as_deref());
            }
            Format::Yaml => {
                let yaml = output::yaml(&self.reader.value(object)?)?;
                self.line(format_args!("---\n# {} {}{}", name(event), headline(object), remark(event)));
                self.text.push_str(&yaml);
            }
            Format::Name => {
                let name = format!("{}/{}", self.singular, sanitized(object.key().name()));
                self.line(format_args!("{name}"));
            }
            Format::Diff => self.diff(event, object)?,
        }
        Ok(())
    }

    fn row<O: PrintableObject>(&mut self, event: &Event<O>, object: &Cached<O>) -> Result<(), DecodeError> {
        let value = self.reader.value(object)?;
        let first = format!("{}{}", name(event), if is_missed(event) { " (missed)" } else { "" });
        let cells = self.columns.cells(object.key(), &value, Timestamp::now());
        self.rows.add([first].into_iter().chain(cells), Some(painting(event)));
        Ok(())
    }

    fn diff<O: PrintableObject>(&mut self, event: &Event<O>, object: &Cached<O>) -> Result<(), DecodeError> {
        let what = painting(event)(self.paint, name(event));
        let Event::Updated { old, new } = event else {
            self.line(format_args!("{what} {}{}", headline(object), remark(event)));
            return Ok(());
        };
        let changes = self.reader.changes(old, new)?;
        let note = if changes.is_empty() { " (only its version changed)" } else { "" };
        let key = new.key().to_string();
        self.line(format_args!("{what} {} {} → {}{note}", sanitized(&key), old.version(), new.version()));
        for change in &changes {
            let line = self.change(change);
            self.line(format_args!("  {line}"));
        }
        Ok(())
    }

    /// Formats a change in one line: the old value in red, the new one in green.
    fn change(&self, change: &Change) -> String {
        let paint = self.paint;
        let path = paint.bold(&sanitized(&Path(&change.path).to_string()));
        let shown = |value: &Value, color: ColorFn| color(paint, &sanitized(&value.to_string()));
        match (&change.old, &change.new) {
            (Some(old), Some(new)) => format!("~ {path}: {} → {}", shown(old, Paint::red), shown(new, Paint::green)),
            (Some(old), None) => format!("{} {path}: {}", paint.red("-"), shown(old, Paint::red)),
            (None, Some(new)) => format!("{} {path}: {}", paint.green("+"), shown(new, Paint::green)),
            (None, None) => path,
        }
    }

    /// Appends the object, which is already JSON, in place of the last brace, so that it need not be parsed.
    fn json(&mut self, line: &Line<'_>, object: Option<&str>) {
        // Cannot fail: the line has only strings and booleans.
        let line = serde_json::to_string(line).unwrap_or_default();
        match object {
            Some(object) => {
                let without_brace = line.strip_suffix('}').unwrap_or(&line);
                self.line(format_args!("{without_brace},\"object\":{object}}}"));
            }
            None => self.line(format_args!("{line}")),
        }
    }

    fn line(&mut self, line: Arguments<'_>) {
        // Writing to a `String` cannot fail.
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

fn painting<O>(event: &Event<O>) -> ColorFn {
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
    sanitized(&format!("{} {}", object.key(), object.version())).into_owned()
}

fn remark<O>(event: &Event<O>) -> &'static str {
    match (is_initial(event), is_missed(event)) {
        (true, _) => " (initial)",
        (_, true) => " (missed)",
        (false, false) => "",
    }
}
