//! Reads the values of one field of an object, by its path.
//!
//! - **In:** a [`FieldPath`], and JSON as text or as a `serde_json::Value`.
//! - **Out:** the strings, numbers and booleans at that path, as text.
//! - **Knows nothing of:** kinds, indexes.
//!
//! In JSON, everything beside the path is skipped. `PartialObjectMeta` and the metadata of a `DynamicObject` are written as JSON at each call.

use std::marker::PhantomData;

use kube::core::{DynamicObject, PartialObjectMeta};
use serde_json::Value;

use super::{
    FieldPath, Lazy,
    walk::{MemberAction, Walk, Walked},
};

/// An object whose fields can be read by their path, because it is held as JSON or can be written as JSON at little cost.
///
/// These object types have it: [`Lazy`], `DynamicObject`, and `PartialObjectMeta` (metadata, `apiVersion` and `kind` only). A typed object
/// such as `Pod` is decoded already: its fields are read in Rust.
///
/// ```
/// use informant::{Lazy, index::FieldValues, pipeline::Scanner};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let json = br#"{"metadata":{"name":"web"},"spec":{"containers":[{"ports":[{"containerPort":80},{"containerPort":443}]}]}}"#;
/// let pod = Scanner::of_kind::<Pod>().scan(json)?.decode::<Lazy<Pod>>()?;
///
/// assert_eq!(pod.field_values(&"spec.containers.ports.containerPort".parse()?), ["80", "443"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "the fields of `{Self}` cannot be read by a path",
    label = "needs an object type whose JSON is at hand",
    note = "`Lazy<K>`, `DynamicObject` and `PartialObjectMeta<K>` have it",
    note = "for a typed object, write the index function as a closure: `|pod| pod.spec.as_ref()?.node_name.clone()`"
)]
pub trait FieldValues {
    /// The values at a path, in the order of the JSON: strings without quotes, booleans and numbers as `serde_json` writes them. A missing field,
    /// `null` and an object have no value. An array, on the way or at the end, stands for each of its items.
    fn field_values(&self, path: &FieldPath) -> Vec<String>;
}

impl<K> FieldValues for Lazy<K> {
    fn field_values(&self, path: &FieldPath) -> Vec<String> {
        self.held
            .noted(&path.names)
            .unwrap_or_else(|| self.json().map_or_else(|_| Vec::new(), |json| values_in_json(&json, &path.names)))
    }
}

impl FieldValues for DynamicObject {
    fn field_values(&self, path: &FieldPath) -> Vec<String> {
        match path.names[0].as_str() {
            "apiVersion" | "kind" | "metadata" => {
                let (types, metadata) = (self.types.clone(), self.metadata.clone());
                PartialObjectMeta::<Self> { types, metadata, _phantom: PhantomData }.field_values(path)
            }
            _ => values_in(&self.data, &path.names),
        }
    }
}

impl<K> FieldValues for PartialObjectMeta<K> {
    fn field_values(&self, path: &FieldPath) -> Vec<String> {
        serde_json::to_value(self).map_or_else(|_| Vec::new(), |object| values_in(&object, &path.names))
    }
}

/// The value of one label, from the JSON of all labels; the other labels are skipped.
pub(super) fn label_value(labels: &str, key: &str) -> Option<String> {
    if labels.is_empty() {
        return None;
    }
    values_in_json(labels, &[key.to_owned()]).pop()
}

/// The values below these names of a decoded value.
fn values_in(value: &Value, names: &[String]) -> Vec<String> {
    let mut values = Vec::new();
    add_values(value, names, &mut values);
    values
}

fn add_values(value: &Value, names: &[String], values: &mut Vec<String>) {
    match (value, names) {
        (Value::Array(items), _) => items.iter().for_each(|item| add_values(item, names, values)),
        (Value::Object(members), [first, rest @ ..]) => {
            members.get(first).into_iter().for_each(|member| add_values(member, rest, values));
        }
        (Value::String(text), []) => values.push(text.clone()),
        (Value::Bool(_) | Value::Number(_), []) => values.push(value.to_string()),
        (Value::Object(_) | Value::String(_) | Value::Bool(_) | Value::Number(_) | Value::Null, _) => {}
    }
}

/// As [`values_in`], for JSON that was scanned, or a part of it.
pub(super) fn values_in_json(json: &str, names: &[String]) -> Vec<String> {
    let mut values = Vec::new();
    match add_values_in_json(&mut Walk::new(json.as_bytes()), names, &mut values) {
        Ok(()) => values,
        // Impossible: the JSON was checked when it was scanned.
        Err(_) => Vec::new(),
    }
}

fn add_values_in_json(walk: &mut Walk<'_>, names: &[String], values: &mut Vec<String>) -> Walked<()> {
    match (walk.peek(), names) {
        (Some(b'['), _) => walk.elements(|walk| add_values_in_json(walk, names, values)),
        (Some(b'{'), [first, rest @ ..]) => walk.members(|walk, name| {
            match *walk.resolve(&name)? == **first {
                true => add_values_in_json(walk, rest, values)?,
                // The scan has checked the value.
                false => drop(walk.unchecked_value()),
            }
            Ok(MemberAction::Keep)
        }),
        (Some(b'"'), []) => {
            let text = walk.string()?;
            values.push(walk.resolve(&text)?.into_owned());
            Ok(())
        }
        (Some(b'-' | b'0'..=b'9' | b't' | b'f'), []) => {
            let start = walk.offset();
            walk.value(0)?;
            // A number that no type can hold is no value.
            let scalar = serde_json::from_slice::<Value>(walk.since(start));
            values.extend(scalar.map(|scalar| scalar.to_string()));
            Ok(())
        }
        (Some(_) | None, _) => walk.value(0),
    }
}
