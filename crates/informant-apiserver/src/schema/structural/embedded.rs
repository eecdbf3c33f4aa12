//! Embedded resources: objects inside of objects, with a type and metadata of their own (`x-kubernetes-embedded-resource`).
//!
//! - **In:** an object as JSON, and its schema.
//! - **Out:** the object with known metadata only; errors of the embedded types and metadata.

use serde_json::{Map, Value};

use crate::{
    error::ApiError,
    objects::{Object, validate, validate::is_dns_label},
    registry::kind::Kind,
    schema::structural::{Schema, Violation, path::Path, violation::shown},
};

const NO_KIND: &str = "may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric \
    characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', \
    regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

/// Removes unknown fields from the metadata of embedded resources. Fails if a type or metadata cannot be decoded.
pub(super) fn normalize(value: &mut Value, schema: &Schema, path: &Path<'_>) -> Result<(), String> {
    if let (Value::Object(fields), true) = (&mut *value, schema.is_embedded_resource) {
        for name in ["apiVersion", "kind"] {
            if let Some(wrong) = fields.get(name).filter(|value| !value.is_string()) {
                return Err(format!("{}: Invalid value: {}: must be a string", path.field(name), shown(wrong)));
            }
        }
        match fields.get_mut("metadata") {
            Some(Value::Object(metadata)) => {
                validate::types(metadata).map_err(|error| format!("{}: {error}", path.field("metadata")))?;
                validate::normalize(metadata);
            }
            Some(Value::Null) | None => {}
            Some(wrong) => {
                return Err(format!("{}: Invalid value: {wrong}: must be an object", path.field("metadata")));
            }
        }
    }
    match value {
        Value::Object(fields) => fields.iter_mut().try_for_each(|(name, value)| match schema.field(name) {
            Some(schema) => normalize(value, schema, &path.field(name)),
            None => Ok(()),
        }),
        Value::Array(items) => match schema.item() {
            Some(schema) => {
                let mut items = items.iter_mut().enumerate();
                items.try_for_each(|(index, item)| normalize(item, schema, &path.index(index)))
            }
            None => Ok(()),
        },
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

/// Adds the violations of the embedded resources in a value.
pub(super) fn check(schema: &Schema, value: &Value, path: &Path<'_>, found: &mut Vec<Violation>) {
    match value {
        Value::Object(fields) => {
            if schema.is_embedded_resource {
                check_resource(fields, path, found);
            }
            for (name, value) in fields {
                if let Some(property) = schema.properties.get(name) {
                    check(property, value, &path.field(name), found);
                } else if let Some(additional) = schema.additional() {
                    check(additional, value, &path.key(name), found);
                }
            }
        }
        Value::Array(items) => {
            let Some(of_items) = schema.item() else { return };
            for (index, item) in items.iter().enumerate() {
                check(of_items, item, &path.index(index), found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn check_resource(fields: &Map<String, Value>, path: &Path<'_>, found: &mut Vec<Violation>) {
    for name in ["apiVersion", "kind"] {
        let path = path.field(name);
        match fields.get(name) {
            None => found.push(Violation::required(&path, "")),
            Some(Value::String(text)) if text.is_empty() => {
                found.push(Violation::invalid(&path, "\"\"", "must not be empty"));
            }
            Some(Value::String(text)) if name == "apiVersion" && text.matches('/').count() > 1 => {
                let why = format!("unexpected GroupVersion string: {text}");
                found.push(Violation::invalid(&path, &format!("{text:?}"), &why));
            }
            Some(Value::String(text)) if name == "kind" && !is_kind(text) => {
                found.push(Violation::invalid(&path, &format!("{text:?}"), NO_KIND));
            }
            Some(Value::String(_)) => {}
            Some(wrong) => found.push(Violation::invalid(&path, &shown(wrong), "must be a string")),
        }
    }
    let Some(metadata) = fields.get("metadata").and_then(Value::as_object) else { return };
    let object = Object { metadata: metadata.clone(), ..Object::default() };
    if let Err(ApiError::Invalid { causes, .. }) = validate::metadata(&Kind::new("", "", "", ""), &object) {
        for cause in causes {
            found.push(Violation::new(cause.reason, &path.field(&cause.field), cause.message));
        }
    }
}

fn is_kind(text: &str) -> bool {
    text.len() <= 63 && is_dns_label(&text.to_lowercase()) && !text.starts_with(|first: char| first.is_ascii_digit())
}
