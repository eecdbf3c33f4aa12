//! The types of a custom kind, from the schema in its definition.
//!
//! - **In:** an `openAPIV3Schema`, as JSON.
//! - **Out:** its types, as far as they decide who owns which values.
//! - **Knows nothing of:** validation, defaults, pruning.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::{Field, ListKind, MapKey, Place, Scalar, Shape, Types};

/// The types of a kind without a schema.
pub(super) static UNKNOWN: LazyLock<Types> = LazyLock::new(|| read(&Value::Null));

/// The types of a schema. What it does not say may be anything.
pub(crate) fn read(schema: &Value) -> Types {
    let mut types = Types::default();
    let keeps_unknown = keeps_unknown(schema, schema.get("properties").is_none());
    let (mut fields, values) = map(&mut types, schema, keeps_unknown);
    for (name, shape) in [
        ("metadata", Shape::Metadata),
        ("kind", Shape::Scalar(Scalar::String)),
        ("apiVersion", Shape::Scalar(Scalar::String)),
    ] {
        fields.retain(|field| *field.name != *name);
        let place = types.add(shape);
        fields.push(Field { name: name.into(), place, is_always_there: false, strategy: None });
    }
    fields.sort_by(|one, other| one.name.cmp(&other.name));
    types.add(Shape::Map { name: Box::default(), fields, values, is_atomic: false });
    types
}

/// Whether maps may have fields that their schema does not name; a schema says so for all that is in it.
fn keeps_unknown(schema: &Value, outside: bool) -> bool {
    outside || schema["x-kubernetes-preserve-unknown-fields"] == true
}

fn add(types: &mut Types, schema: &Value, keeps_unknown_outside: bool) -> Place {
    let keeps_unknown = keeps_unknown(schema, keeps_unknown_outside);
    let shape = match schema["type"].as_str() {
        Some("object") => {
            let (mut fields, values) = map(types, schema, keeps_unknown);
            if schema["x-kubernetes-embedded-resource"] == true {
                fields.retain(|field| &*field.name != "metadata");
                let place = types.add(Shape::Metadata);
                fields.push(Field { name: "metadata".into(), place, is_always_there: false, strategy: None });
                fields.sort_by(|one, other| one.name.cmp(&other.name));
            }
            let is_atomic = schema["x-kubernetes-map-type"] == "atomic";
            Shape::Map { name: Box::default(), fields, values, is_atomic }
        }
        Some("array") => {
            let items = add(types, &schema["items"], keeps_unknown);
            Shape::List { items, kind: list_kind(schema) }
        }
        Some("string") if schema["format"].as_str().is_none_or(|format| ["", "byte"].contains(&format)) => {
            Shape::Scalar(Scalar::String)
        }
        Some("string") => Shape::Scalar(Scalar::Any),
        Some("integer" | "number") => Shape::Scalar(Scalar::Number),
        Some("boolean") => Shape::Scalar(Scalar::Bool),
        Some(_) | None => Shape::Any,
    };
    types.add(shape)
}

fn map(types: &mut Types, schema: &Value, keeps_unknown: bool) -> (Vec<Field>, Option<Place>) {
    let properties = schema["properties"].as_object();
    let mut fields = Vec::new();
    for (name, property) in properties.into_iter().flatten() {
        let place = add(types, property, keeps_unknown);
        fields.push(Field { name: name.as_str().into(), place, is_always_there: false, strategy: None });
    }
    fields.sort_by(|one, other| one.name.cmp(&other.name));
    let more = &schema["additionalProperties"];
    let allows_more = *more == true || keeps_unknown || properties.is_none_or(Map::is_empty);
    let values = match more.is_object() {
        true => Some(add(types, more, keeps_unknown)),
        false => allows_more.then(|| types.add(Shape::Any)),
    };
    (fields, values)
}

fn list_kind(schema: &Value) -> ListKind {
    let key = |name: &Value| {
        let name = name.as_str().unwrap_or_default();
        let default = &schema["items"]["properties"][name]["default"];
        MapKey { name: name.into(), default: Some(default).filter(|default| !default.is_null()).cloned() }
    };
    match schema["x-kubernetes-list-type"].as_str() {
        Some("set") => ListKind::Set,
        Some("map") => {
            let keys = schema["x-kubernetes-list-map-keys"].as_array();
            ListKind::Map(keys.into_iter().flatten().map(key).collect())
        }
        Some(_) | None => ListKind::Atomic,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_schema_says_which_values_belong_together() {
        let port = json!({"type": "object", "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}}});
        let ports = json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "protocol"], "items": port});
        let spec = json!({"type": "object", "properties": {
            "ports": ports,
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}},
        }});

        let types = read(&json!({"type": "object", "properties": {"spec": spec}}));

        let spec = types.root().field("spec").unwrap().0;
        let Shape::List { kind: ListKind::Map(keys), .. } = spec.field("ports").unwrap().0.shape else {
            panic!("a list")
        };
        assert_eq!(keys[1], MapKey { name: "protocol".into(), default: Some("TCP".into()) });
        assert_eq!(spec.field("free").unwrap().0.field("b").unwrap().0.shape, &Shape::Any);
        assert!(spec.field("unknown").is_none());
        assert!(types.root().field("metadata").unwrap().0.field("ownerReferences").is_some());
    }

    #[test]
    fn without_a_schema_only_the_metadata_is_known() {
        let root = UNKNOWN.root();

        assert!(root.field("metadata").unwrap().0.field("unknown").is_none());
        assert_eq!(root.field("spec").unwrap().0.shape, &Shape::Any);
    }
}
