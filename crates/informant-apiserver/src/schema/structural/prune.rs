//! Pruning: removes the fields that a schema does not have.
//!
//! - **In:** an object as JSON, and its schema.
//! - **Out:** the object without unknown fields; the paths of those fields.

use serde_json::{Map, Value};

use crate::schema::structural::Schema;

/// The fields that every object has, whether or not its schema has them.
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes the unknown fields of an object, and returns their paths, sorted.
pub(crate) fn prune(object: &mut Map<String, Value>, schema: &Schema) -> Vec<String> {
    let mut pruner = Pruner::default();
    pruner.fields(object, Some(schema), Level::Root);
    pruner.unknown.sort();
    pruner.unknown
}

/// Returns true if pruning would change a value that stands at this schema.
pub(super) fn is_pruned(value: &Value, schema: &Schema) -> bool {
    let mut pruner = Pruner::default();
    pruner.value(&mut value.clone(), Some(schema));
    pruner.unknown.is_empty()
}

/// Removes each null whose schema is neither nullable nor has a default.
pub(crate) fn remove_nulls(value: &mut Value, schema: Option<&Schema>) {
    match value {
        Value::Object(fields) => remove_nulls_of_fields(fields, schema),
        Value::Array(items) => {
            let schema = schema.and_then(Schema::item);
            items.iter_mut().for_each(|item| remove_nulls(item, schema));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

pub(crate) fn remove_nulls_of_fields(fields: &mut Map<String, Value>, schema: Option<&Schema>) {
    fields.retain(|name, value| {
        let schema = schema.and_then(|schema| schema.field(name));
        let goes = value.is_null() && schema.is_some_and(|schema| !schema.nullable && schema.default.is_none());
        if !goes {
            remove_nulls(value, schema);
        }
        !goes
    });
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    /// The object that a client sends.
    Root,
    Inner,
}

#[derive(Default)]
struct Pruner {
    /// The path of the current value.
    path: String,
    unknown: Vec<String>,
}

impl Pruner {
    fn value(&mut self, value: &mut Value, schema: Option<&Schema>) {
        match value {
            Value::Object(fields) => self.fields(fields, schema, Level::Inner),
            Value::Array(items) => {
                let preserved = schema.is_some_and(Schema::preserves_unknown_fields);
                let of_items = schema.and_then(Schema::item);
                for (index, item) in items.iter_mut().enumerate() {
                    match (preserved, of_items) {
                        (true, None) => {}
                        (true | false, _) => self.inside(&format!("[{index}]"), |pruner| pruner.value(item, of_items)),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn fields(&mut self, fields: &mut Map<String, Value>, schema: Option<&Schema>, level: Level) {
        let is_resource = level == Level::Root || schema.is_some_and(|schema| schema.is_embedded_resource);
        let preserved = schema.is_some_and(Schema::preserves_unknown_fields);
        fields.retain(|name, value| {
            if is_resource && schema.is_some() && META_FIELDS.contains(&name.as_str()) {
                return true;
            }
            let property = schema.and_then(|schema| schema.properties.get(name));
            let additional = schema.and_then(|schema| schema.additional_properties.as_ref());
            if property.is_none() && additional.is_none() {
                if !preserved {
                    let separator = if self.path.is_empty() { "" } else { "." };
                    self.unknown.push(format!("{}{separator}{name}", self.path));
                }
                return preserved;
            }
            let inner = property.or_else(|| schema.and_then(Schema::additional));
            let separator = if self.path.is_empty() { "" } else { "." };
            self.inside(separator, |pruner| pruner.inside(name, |pruner| pruner.value(value, inner)));
            true
        });
    }

    /// Runs a step with a longer path.
    fn inside(&mut self, step: &str, run: impl FnOnce(&mut Self)) {
        let length = self.path.len();
        self.path.push_str(step);
        run(self);
        self.path.truncate(length);
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    fn pruned(schema: &Value, object: Value) -> (Value, Vec<String>) {
        let Value::Object(mut fields) = object else { panic!("it is an object") };
        let unknown = prune(&mut fields, &Schema::deserialize(schema).unwrap());
        (fields.into(), unknown)
    }

    #[test]
    fn unknown_fields_go_and_are_named() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "properties": {
                "size": {"type": "integer"},
                "parts": {"type": "array", "items": {"type": "object", "properties": {"name": {"type": "string"}}}},
                "labels": {"type": "object", "additionalProperties": {"type": "object", "properties": {"a": {"type": "string"}}}},
            }},
        }});
        let object = json!({
            "kind": "Widget", "metadata": {"name": "a"}, "other": 1,
            "spec": {"size": 1, "colour": "red", "parts": [{"name": "x", "y": 1}], "labels": {"k": {"a": "b", "c": "d"}}},
        });

        let (kept, unknown) = pruned(&schema, object);

        let spec = json!({"size": 1, "parts": [{"name": "x"}], "labels": {"k": {"a": "b"}}});
        assert_eq!(kept, json!({"kind": "Widget", "metadata": {"name": "a"}, "spec": spec}));
        assert_eq!(unknown, ["other", "spec.colour", "spec.labels.k.c", "spec.parts[0].y"]);
    }

    #[test]
    fn preserved_fields_stay_but_known_fields_in_them_are_pruned() {
        let schema = json!({"type": "object", "properties": {
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                "known": {"type": "object", "properties": {"a": {"type": "string"}}},
            }},
        }});

        let (kept, unknown) = pruned(&schema, json!({"spec": {"x": {"y": 1}, "known": {"a": "b", "c": "d"}}}));

        assert_eq!(kept, json!({"spec": {"x": {"y": 1}, "known": {"a": "b"}}}));
        assert_eq!(unknown, ["spec.known.c"]);
    }

    #[test]
    fn nulls_go_unless_they_are_allowed_or_become_a_default() {
        let schema = json!({"type": "object", "properties": {
            "a": {"type": "string"}, "b": {"type": "string", "nullable": true}, "c": {"type": "string", "default": "x"},
        }});
        let mut object = json!({"a": null, "b": null, "c": null, "unknown": null});

        remove_nulls(&mut object, Some(&Schema::deserialize(&schema).unwrap()));

        assert_eq!(object, json!({"b": null, "c": null, "unknown": null}));
    }
}
