//! Values of JSON as the interpreter of rules sees them.
//!
//! - **In:** a value, and its schema, which decides about times, durations, bytes and the names of fields.
//! - **Out:** a value of the interpreter.

use std::{collections::HashMap, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use chrono::{DateTime, NaiveDate, TimeDelta};
use kube_cel::cel::{
    Value as Cel,
    objects::{Key, Map as CelMap},
};
use serde_json::{Map, Value};

use crate::schema::structural::{Schema, number::Number};

/// Whether a value is an object with metadata, of which rules see only the names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Resource {
    Root,
    None,
}

/// Converts a value. `longest` becomes the length of its longest list or map, if that is larger.
pub(super) fn convert(value: &Value, schema: Option<&Schema>, resource: Resource, longest: &mut usize) -> Cel {
    match value {
        Value::Null => Cel::Null,
        Value::Bool(value) => Cel::Bool(*value),
        Value::Number(number) => match (Number::read(number), schema.map_or("", |schema| &schema.type_name)) {
            (number, "number") => Cel::Float(number.as_float()),
            #[expect(clippy::cast_possible_truncation, reason = "the schema demands an integer")]
            (number, "integer") if number.is_integer() => Cel::Int(number.as_float() as i64).or_exact(number),
            (Number::Int(int), _) => Cel::Int(int),
            (Number::Float(float), _) => Cel::Float(float),
        },
        Value::String(text) => {
            schema.and_then(|schema| of_format(schema, text)).unwrap_or_else(|| Cel::String(Arc::new(text.clone())))
        }
        Value::Array(items) => {
            *longest = items.len().max(*longest);
            let of_items = schema.and_then(Schema::item);
            let items = items.iter().map(|item| convert(item, of_items, resource_at(of_items), longest));
            Cel::List(Arc::new(items.collect()))
        }
        Value::Object(fields) => object(fields, schema, resource, longest),
    }
}

trait OrExact {
    fn or_exact(self, number: Number) -> Self;
}

impl OrExact for Cel {
    /// The integer itself, if it is one: a float cannot hold all of them.
    fn or_exact(self, number: Number) -> Self {
        match number {
            Number::Int(int) => Self::Int(int),
            Number::Float(_) => self,
        }
    }
}

fn resource_at(schema: Option<&Schema>) -> Resource {
    if schema.is_some_and(|schema| schema.is_embedded_resource) { Resource::Root } else { Resource::None }
}

fn object(fields: &Map<String, Value>, schema: Option<&Schema>, resource: Resource, longest: &mut usize) -> Cel {
    *longest = fields.len().max(*longest);
    let is_map = schema.is_none_or(|schema| schema.additional_properties.is_some());
    let mut map = HashMap::with_capacity(fields.len());
    for (name, value) in fields {
        if resource == Resource::Root && name == "metadata" {
            let names = ["name", "generateName"].into_iter();
            let kept = names.filter_map(|name| Some((name.to_owned(), value.get(name)?.clone()))).collect();
            map.insert(key(name.clone()), convert(&Value::Object(kept), None, Resource::None, longest));
            continue;
        }
        let inner = schema.and_then(|schema| schema.field(name));
        let name = if is_map { name.clone() } else { escaped(name) };
        map.insert(key(name), convert(value, inner, resource_at(inner), longest));
    }
    Cel::Map(CelMap { map: Arc::new(map) })
}

fn key(name: String) -> Key {
    Key::String(Arc::new(name))
}

/// The value of a string with a format that rules see as another type.
fn of_format(schema: &Schema, text: &str) -> Option<Cel> {
    if schema.type_name != "string" {
        return None;
    }
    match &*schema.format {
        "date-time" | "datetime" => DateTime::parse_from_rfc3339(&text.to_uppercase()).ok().map(Cel::Timestamp),
        "date" => {
            let midnight = text.parse::<NaiveDate>().ok()?.and_hms_opt(0, 0, 0)?;
            Some(Cel::Timestamp(midnight.and_utc().fixed_offset()))
        }
        "duration" => duration(text).map(Cel::Duration),
        "byte" => STANDARD.decode(text).ok().map(Arc::new).map(Cel::Bytes),
        _ => None,
    }
}

/// Reads a duration of Go, such as `1h30m`.
fn duration(text: &str) -> Option<TimeDelta> {
    const UNITS: [(&str, f64); 7] =
        [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 6e10), ("h", 3.6e12)];
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut nanos = 0.0;
    while !rest.is_empty() && rest != "0" {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
        let unit_end =
            rest[digits..].find(|letter: char| letter.is_ascii_digit()).map_or(rest.len(), |end| digits + end);
        let (_, factor) = UNITS.iter().find(|(unit, _)| *unit == &rest[digits..unit_end])?;
        nanos += rest[..digits].parse::<f64>().ok()? * factor;
        rest = &rest[unit_end..];
    }
    #[expect(clippy::cast_possible_truncation, reason = "a fraction of a nanosecond does not count")]
    Some(TimeDelta::nanoseconds((sign * nanos) as i64))
}

/// The words that cannot be names of fields in rules.
const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// The name of a field in rules.
fn escaped(name: &str) -> String {
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    let escapes = [("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")];
    match escapes.iter().any(|(plain, _)| name.contains(plain)) {
        true => escapes.iter().fold(name.to_owned(), |name, (plain, escape)| name.replace(plain, escape)),
        false => name.to_owned(),
    }
}

/// The name of a field as it is in objects.
pub(super) fn unescaped(name: &str) -> String {
    let inner = name.strip_prefix("__").and_then(|name| name.strip_suffix("__"));
    if let Some(reserved) = inner.filter(|inner| RESERVED.contains(inner)) {
        return reserved.to_owned();
    }
    let escapes = [("__slash__", "/"), ("__dash__", "-"), ("__dot__", "."), ("__underscores__", "__")];
    escapes.iter().fold(name.to_owned(), |name, (escape, plain)| name.replace(escape, plain))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_fields_are_escaped_and_back() {
        for (name, shown) in [
            ("namespace", "__namespace__"),
            ("a.b", "a__dot__b"),
            ("x-y/z", "x__dash__y__slash__z"),
            ("a__b", "a__underscores__b"),
            ("a_b", "a_b"),
        ] {
            assert_eq!((escaped(name).as_str(), unescaped(shown).as_str()), (shown, name));
        }
    }

    #[test]
    fn durations_are_read_as_in_go() {
        assert_eq!(duration("1h30m"), Some(TimeDelta::minutes(90)));
        assert_eq!(duration("-1.5s"), Some(TimeDelta::milliseconds(-1500)));
        assert_eq!((duration("0"), duration("1"), duration("x")), (Some(TimeDelta::zero()), None, None));
    }
}
