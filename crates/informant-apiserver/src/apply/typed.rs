//! Checks what a client applies against the type of its kind.
//!
//! - **In:** an applied value, and its type.
//! - **Out:** the errors, in the words of kube-apiserver.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::element::Element;
use crate::schema::{ListKind, Scalar, Shape, Type};

/// The errors of a value; each names its place.
pub(super) fn errors(of: Type<'_>, value: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    check(of, value, "", &mut errors);
    errors
}

fn check(of: Type<'_>, value: &Value, path: &str, errors: &mut Vec<String>) {
    let mut complain = |why: String| errors.push(if path.is_empty() { why } else { format!("{path}: {why}") });
    match (of.shape, value) {
        (Shape::Any | Shape::Whole | Shape::Metadata, _) | (_, Value::Null) => {}
        (Shape::Map { .. }, Value::Object(map)) => check_map(of, map, path, errors),
        (Shape::List { kind, .. }, Value::Array(list)) => check_list(of, kind, list, path, errors),
        (Shape::Map { .. }, _) => complain(format!("expected map, got &{{{}}}", go(value))),
        (Shape::List { .. }, _) => complain(format!("expected list, got &{{{}}}", go(value))),
        (Shape::Scalar(scalar), _) => complain_of_scalar(*scalar, value, complain),
    }
}

fn complain_of_scalar(scalar: Scalar, value: &Value, complain: impl FnOnce(String)) {
    match scalar {
        Scalar::String | Scalar::Bytes if !value.is_string() => {
            complain(format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(value)));
        }
        Scalar::Int | Scalar::Long | Scalar::Number if !value.is_number() => {
            complain(format!("expected numeric (int or float), got {}", go_type(value)));
        }
        Scalar::Bool if !value.is_boolean() => complain(format!("expected boolean, got &{{{}}}", go(value))),
        Scalar::Time | Scalar::Quantity | Scalar::IntOrString | Scalar::Any
            if value.is_array() || value.is_object() =>
        {
            complain(format!("expected any scalar, got &{{{}}}", go(value)));
        }
        Scalar::String
        | Scalar::Bytes
        | Scalar::Int
        | Scalar::Long
        | Scalar::Number
        | Scalar::Bool
        | Scalar::Time
        | Scalar::Quantity
        | Scalar::IntOrString
        | Scalar::Any => {}
    }
}

fn check_map(of: Type<'_>, map: &Map<String, Value>, path: &str, errors: &mut Vec<String>) {
    for (name, value) in map {
        let path = format!("{path}.{name}");
        let Some((inner, _)) = of.field(name) else {
            // kube-apiserver looks no further in this map.
            errors.push(format!("{path}: field not declared in schema"));
            return;
        };
        check(inner, value, &path, errors);
    }
}

fn check_list(of: Type<'_>, kind: &ListKind, list: &[Value], path: &str, errors: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (place, item) in list.iter().enumerate() {
        let step = match Element::of_item(kind, place, item) {
            Ok(step) => step,
            Err(why) => return errors.push(format!("{path}: element {place}: {why}")),
        };
        if seen.contains(&step) {
            errors.push(format!("{path}: duplicate entries for key {step}"));
        }
        check(of.items(), item, &format!("{path}{step}"), errors);
        seen.insert(step);
    }
}

/// A value as Go prints it.
fn go(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(list) => format!("[{}]", list.iter().map(go).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let fields = map.iter().map(|(name, value)| format!("{name}:{}", go(value))).collect::<Vec<_>>();
            format!("map[{}]", fields.join(" "))
        }
    }
}

/// A value as Go prints it with its types.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".into(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
        Value::Array(list) => {
            format!("[]interface {{}}{{{}}}", list.iter().map(go_syntax).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let fields = map.iter().map(|(name, value)| format!("{name:?}:{}", go_syntax(value)));
            format!("map[string]interface {{}}{{{}}}", fields.collect::<Vec<_>>().join(", "))
        }
    }
}

fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}
