//! Tables: rows of cells in place of objects, as `kubectl get` requests them.
//!
//! - **In:** objects, pages of them, lines of a watch; the time.
//! - **Out:** the same as `Table` documents.
//! - **Knows nothing of:** the content of cells (`columns`).
//!
//! Each object is decoded for its row, which costs more than sending the object. Tables are small and rare, so this does not matter.

use bytes::Bytes;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    columns,
    columns::Column,
    http::answer::list_metadata,
    list::Page,
    objects::encoded::Encoded,
    registry::kind::{Kind, Origin},
};

/// The part of the object that each row includes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IncludeObject {
    None,
    Metadata,
    Object,
}

/// Writes tables of a kind.
pub(crate) struct Tables {
    columns: Vec<Column>,
    include: IncludeObject,
    /// In a watch, only the first table has the columns.
    has_sent_columns: bool,
}

impl Tables {
    pub(crate) fn new(kind: &Kind, include: IncludeObject) -> Self {
        let columns = match kind.origin {
            Origin::BuiltIn => columns::of(&kind.group, &kind.kind),
            Origin::Custom => columns::of_definition(&kind.columns),
        };
        Self { columns, include, has_sent_columns: false }
    }

    /// A table of one object.
    pub(crate) fn one(&self, object: &Encoded, now: Timestamp) -> Value {
        let object = read(&object.object());
        let version = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
        table(&version, &self.definitions(), &[self.row(&object, now)])
    }

    /// A table of a page.
    pub(crate) fn page(&self, page: &Page, now: Timestamp) -> Value {
        let rows = page.objects.iter().map(|object| self.row(&read(&object.object()), now)).collect::<Vec<_>>();
        table(&list_metadata(page), &self.definitions(), &rows)
    }

    /// The line of a watch with a table of one row in place of the object. Errors are not changed.
    pub(crate) fn line(&mut self, line: Bytes, now: Timestamp) -> Bytes {
        let mut event = read(&line);
        if event["type"] == "ERROR" {
            return line;
        }
        let object = event["object"].take();
        let version = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
        let columns = if self.has_sent_columns { Value::Null } else { self.definitions() };
        self.has_sent_columns = true;
        event["object"] = table(&version, &columns, &[self.row(&object, now)]);
        format!("{event}\n").into()
    }

    fn definitions(&self) -> Value {
        let definition = |column: &Column| {
            json!({
                "name": column.name(),
                "type": column.content(),
                "format": column.format(),
                "description": column.description(),
                "priority": column.priority(),
            })
        };
        self.columns.iter().map(definition).collect()
    }

    fn row(&self, object: &Value, now: Timestamp) -> Value {
        let cells: Value = self.columns.iter().map(|column| column.cell(object, now)).collect();
        match self.include {
            IncludeObject::None => json!({"cells": cells, "object": null}),
            IncludeObject::Object => json!({"cells": cells, "object": object}),
            IncludeObject::Metadata => {
                let metadata = &object["metadata"];
                let object =
                    json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata});
                json!({"cells": cells, "object": object})
            }
        }
    }
}

fn table(metadata: &Value, columns: &Value, rows: &[Value]) -> Value {
    json!({
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows,
    })
}

/// Decodes JSON that the server encoded.
fn read(json: &[u8]) -> Value {
    serde_json::from_slice(json).unwrap_or_default()
}
