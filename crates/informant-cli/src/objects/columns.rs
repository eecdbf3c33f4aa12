//! The columns and cells of an object in a table; the same ones that `kubectl get` prints.

use informant::Key;
use informant_apiserver::columns;
use jiff::Timestamp;
use serde_json::Value;

/// The table columns of a kind.
pub struct Columns {
    has_namespaces: bool,
    columns: Vec<Column>,
}

enum Column {
    OfKind(columns::Column),
    Labels,
}

/// Which columns a table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// The columns of `-o table`.
    Normal,
    /// All columns, for `-o wide`.
    Wide,
}

impl Columns {
    /// For objects of which only the metadata is cached, adds a column with the labels.
    pub fn new(of_kind: Vec<columns::Column>, is_metadata_only: bool, width: Width, has_namespaces: bool) -> Self {
        let shown = of_kind.into_iter().filter(|column| width == Width::Wide || !column.is_wide());
        let labels = is_metadata_only.then_some(Column::Labels);
        Self { has_namespaces, columns: shown.map(Column::OfKind).chain(labels).collect() }
    }

    pub fn headers(&self) -> impl Iterator<Item = String> {
        let namespace = self.has_namespaces.then(|| "NAMESPACE".to_owned());
        namespace.into_iter().chain(self.columns.iter().map(Column::header))
    }

    pub fn cells(&self, key: &Key, object: &Value, now: Timestamp) -> impl Iterator<Item = String> {
        let namespace = self.has_namespaces.then(|| key.namespace().unwrap_or_default().to_owned());
        let cells = self.columns.iter().map(move |column| column.cell(object, now));
        namespace.into_iter().chain(cells)
    }
}

impl Column {
    fn header(&self) -> String {
        match self {
            Self::OfKind(column) => column.name().to_uppercase(),
            Self::Labels => "LABELS".to_owned(),
        }
    }

    fn cell(&self, object: &Value, now: Timestamp) -> String {
        match self {
            Self::OfKind(column) => shown(column.cell(object, now)),
            Self::Labels => labels(object),
        }
    }
}

/// The text of a cell; of several lines, only the first one, as in `kubectl`.
pub fn shown(cell: Value) -> String {
    match cell {
        Value::String(text) => match text.find(['\n', '\r', '\u{c}']) {
            Some(end) => format!("{}...", &text[..end]),
            None => text,
        },
        Value::Null => String::new(),
        cell @ (Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => cell.to_string(),
    }
}

fn labels(object: &Value) -> String {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let pairs =
        labels.into_iter().flatten().map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()));
    let pairs = pairs.collect::<Vec<_>>().join(",");
    if pairs.is_empty() { "<none>".to_owned() } else { pairs }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The header and the cell of each column.
    fn shown(
        columns: Vec<columns::Column>,
        is_metadata_only: bool,
        width: Width,
        object: &Value,
    ) -> Vec<(String, String)> {
        let columns = Columns::new(columns, is_metadata_only, width, true);
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let cells: Vec<_> = columns.cells(&Key::namespaced("shop", "web"), object, now).collect();
        assert_eq!(columns.headers().count(), cells.len());
        columns.headers().zip(cells).collect()
    }

    fn texts(shown: &[(String, String)]) -> String {
        shown.iter().map(|(header, cell)| format!("{header}: {cell}")).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn every_kind_shows_its_name_and_wide_tables_have_at_least_as_many_columns() {
        let metadata = json!({"name": "web", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "web"}});
        let object = json!({ "metadata": metadata });
        for kind in crate::kinds::built_in_kinds() {
            let of_kind = || columns::of(&kind.resource.group, &kind.resource.kind);
            let usual = shown(of_kind(), false, Width::Normal, &object);
            let wide = shown(of_kind(), false, Width::Wide, &object);
            assert!(usual.len() <= wide.len() && wide.iter().any(|(header, cell)| header == "NAME" && cell == "web"));
        }
        let metadata = shown(columns::of_metadata(), true, Width::Normal, &object);
        assert_eq!(texts(&metadata), "NAMESPACE: shop, NAME: web, AGE: 60s, LABELS: app=web");
    }

    #[test]
    fn a_cell_has_the_first_line_of_a_text() {
        assert_eq!(super::shown(json!("one\ntwo")), "one...");
        assert_eq!(super::shown(json!("one")), "one");
    }

    #[test]
    fn a_cell_is_empty_where_kubectl_prints_nothing() {
        let claim = json!({"metadata": {"name": "web"}, "status": {"phase": "Pending"}});

        let usual = shown(columns::of("", "PersistentVolumeClaim"), false, Width::Normal, &claim);

        assert_eq!(
            texts(&usual),
            "NAMESPACE: shop, NAME: web, STATUS: Pending, VOLUME: , CAPACITY: , ACCESS MODES: , STORAGECLASS: , \
             VOLUMEATTRIBUTESCLASS: <unset>, AGE: <unknown>"
        );
        let without_labels = shown(columns::of_metadata(), true, Width::Normal, &json!({}));
        assert_eq!(texts(&without_labels), "NAMESPACE: shop, NAME: , AGE: <unknown>, LABELS: <none>");
    }
}
