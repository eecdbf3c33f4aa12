//! Defaults: fills in the fields that an object lacks.
//!
//! - **In:** an object as JSON, and its schema.
//! - **Out:** the object with the defaults of the schema; errors of defaults that the schema itself does not allow.

use serde_json::{Map, Value};

use crate::schema::structural::{
    Schema, Violation, embedded, path::Path, prune::is_pruned, rules, validate::validate, violation::shown,
};

/// Fills in the defaults of an object. A null becomes the default, unless it is allowed.
pub(crate) fn fill_in(fields: &mut Map<String, Value>, schema: &Schema) {
    for (name, property) in &schema.properties {
        if let Some(default) = &property.default {
            match fields.get_mut(name) {
                Some(value) if value.is_null() && !property.nullable => *value = default.clone(),
                Some(_) => {}
                None => drop(fields.insert(name.clone(), default.clone())),
            }
        }
    }
    for (name, value) in fields {
        match (schema.properties.get(name), schema.additional()) {
            (Some(property), _) => fill_in_value(value, property),
            (None, Some(additional)) => fill_in_element(value, additional),
            (None, None) => {}
        }
    }
}

fn fill_in_value(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(fields) => fill_in(fields, schema),
        Value::Array(items) => {
            if let Some(of_items) = schema.item() {
                items.iter_mut().for_each(|item| fill_in_element(item, of_items));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Fills in the defaults of an item of a list or of a map.
fn fill_in_element(value: &mut Value, schema: &Schema) {
    if let (Value::Null, false, Some(default)) = (&*value, schema.nullable, &schema.default) {
        *value = default.clone();
    }
    fill_in_value(value, schema);
}

/// Adds the violations of defaults by their own schemas. Maps are left out, because defaults of their values have no effect.
pub(super) fn check(schema: &Schema, path: &Path<'_>, found: &mut Vec<Violation>) {
    if let Some(default) = &schema.default {
        check_default(schema, default, &path.field("default"), found);
    }
    if let Some(of_items) = schema.item() {
        check(of_items, &path.field("items"), found);
    }
    for (name, property) in &schema.properties {
        check(property, &path.field("properties").key(name), found);
    }
}

fn check_default(schema: &Schema, default: &Value, path: &Path<'_>, found: &mut Vec<Violation>) {
    if !is_pruned(default, schema) {
        found.push(Violation::invalid(path, &shown(default), "must not have unknown fields"));
    }
    let before = found.len();
    embedded::check(schema, default, path, found);
    if found.len() == before {
        let mut violations = validate(schema, default, None, &Path::root(""));
        if violations.is_empty() {
            rules::run(schema, default, None, &Path::root(""), &mut violations);
        }
        found.extend(violations.into_iter().map(|violation| violation.below(path)));
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_absent_takes_its_default_also_inside_of_a_default() {
        let schema = Schema::deserialize(json!({"properties": {
            "spec": {"default": {}, "properties": {
                "size": {"default": 3},
                "ports": {"items": {"properties": {"protocol": {"default": "TCP"}}}},
                "labels": {"additionalProperties": {"properties": {"a": {"default": "b"}}}},
                "any": {"nullable": true, "default": "x"},
                "none": {"default": "y"},
            }},
        }}))
        .unwrap();
        let filled_in = |object: Value| {
            let Value::Object(mut fields) = object else { panic!("it is an object") };
            fill_in(&mut fields, &schema);
            Value::from(fields)
        };

        assert_eq!(filled_in(json!({})), json!({"spec": {"size": 3, "any": "x", "none": "y"}}));
        let given = json!({"spec": {"size": 0, "ports": [{}, {"protocol": "UDP"}], "labels": {"k": {}}, "any": null, "none": null}});
        let expected = json!({"spec": {
            "size": 0, "ports": [{"protocol": "TCP"}, {"protocol": "UDP"}], "labels": {"k": {"a": "b"}}, "any": null, "none": "y",
        }});
        assert_eq!(filled_in(given), expected);
    }
}
