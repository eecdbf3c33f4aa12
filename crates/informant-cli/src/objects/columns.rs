//! What a table shows of an object: what `kubectl get` shows of the usual kinds, and of custom ones whether they are ready.

use informant::Key;
use informant_apiserver::columns;
use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::Kind;

/// The columns of a kind.
pub struct Columns {
    has_namespaces: bool,
    columns: Vec<Column>,
}

enum Column {
    OfKind(columns::Column),
    /// The condition of that name.
    Ready,
    Labels,
}

/// How much of an object is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Width {
    /// What people look at first.
    Usual,
    Wide,
}

impl Columns {
    /// Of metadata alone there is less to show.
    pub fn new(kind: &Kind, is_of_metadata: bool, width: Width, has_namespaces: bool) -> Self {
        let (group, name) = (&*kind.resource.group, &*kind.resource.kind);
        let of_kind = if is_of_metadata { columns::of_metadata() } else { columns::of(group, name) };
        let shown = of_kind.into_iter().filter(|column| width == Width::Wide || !column.is_wide());
        let mut columns: Vec<_> = shown.map(Column::OfKind).collect();
        // Of those of Kubernetes itself, the others have no such condition.
        let is_custom = group.contains('.') && !group.ends_with(".k8s.io");
        if is_custom && !is_of_metadata {
            columns.insert(1, Column::Ready);
        }
        if is_of_metadata {
            columns.push(Column::Labels);
        }
        Self { has_namespaces, columns }
    }

    pub fn headers(&self) -> impl Iterator<Item = String> {
        let namespace = self.has_namespaces.then(|| "NAMESPACE".to_owned());
        namespace.into_iter().chain(self.columns.iter().map(Column::header))
    }

    pub fn cells(&self, key: &Key, object: &Value, now: Timestamp) -> impl Iterator<Item = String> {
        let namespace = self.has_namespaces.then(|| key.namespace().unwrap_or_default().to_owned());
        let cells = self.columns.iter().map(move |column| {
            let cell = column.cell(object, now);
            // Whoever counts columns finds each of them.
            if cell.is_empty() { "<none>".to_owned() } else { cell }
        });
        namespace.into_iter().chain(cells)
    }
}

impl Column {
    fn header(&self) -> String {
        match self {
            Self::OfKind(column) => column.name().to_uppercase(),
            Self::Ready => "READY".to_owned(),
            Self::Labels => "LABELS".to_owned(),
        }
    }

    fn cell(&self, object: &Value, now: Timestamp) -> String {
        match self {
            Self::OfKind(column) => match column.cell(object, now) {
                Value::String(text) => text,
                cell @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
                    cell.to_string()
                }
            },
            Self::Ready => ready(object).to_owned(),
            Self::Labels => labels(object),
        }
    }
}

fn ready(object: &Value) -> &str {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let ready = conditions.into_iter().find(|condition| condition["type"] == "Ready");
    ready.and_then(|condition| condition["status"].as_str()).unwrap_or_default()
}

fn labels(object: &Value) -> String {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let pairs =
        labels.into_iter().flatten().map(|(name, value)| format!("{name}={}", value.as_str().unwrap_or_default()));
    pairs.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use kube::core::ApiResource;
    use kube::core::GroupVersionKind;
    use serde_json::json;

    use super::*;

    /// The header and the cell of each column.
    fn shown(kind: &Kind, is_of_metadata: bool, width: Width, object: &Value) -> Vec<(String, String)> {
        let columns = Columns::new(kind, is_of_metadata, width, true);
        let now: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        let cells: Vec<_> = columns.cells(&Key::namespaced("shop", "web"), object, now).collect();
        assert_eq!(columns.headers().count(), cells.len());
        columns.headers().zip(cells).collect()
    }

    fn texts(shown: &[(String, String)]) -> String {
        shown.iter().map(|(header, cell)| format!("{header}: {cell}")).collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn every_kind_is_shown_and_nothing_is_empty() {
        let metadata = json!({"name": "web", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "web"}});
        let object = json!({ "metadata": metadata });
        for kind in crate::kinds::built_in_kinds() {
            let (usual, wide) = (shown(&kind, false, Width::Usual, &object), shown(&kind, false, Width::Wide, &object));
            assert!(usual.iter().chain(&wide).all(|(_, cell)| !cell.is_empty()), "{usual:?}");
            assert!(usual.len() <= wide.len() && wide.iter().any(|(header, cell)| header == "NAME" && cell == "web"));
            let metadata = shown(&kind, true, Width::Usual, &object);
            assert_eq!(texts(&metadata), "NAMESPACE: shop, NAME: web, AGE: 60s, LABELS: app=web");
        }
    }

    #[test]
    fn of_custom_kinds_is_said_whether_they_are_ready() {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
        let kind = Kind::custom(resource);
        let ready =
            json!({"metadata": {"name": "web"}, "status": {"conditions": [{"type": "Ready", "status": "False"}]}});

        let usual = shown(&kind, false, Width::Usual, &ready);

        assert_eq!(texts(&usual), "NAMESPACE: shop, NAME: web, READY: False, AGE: <unknown>");
    }
}
