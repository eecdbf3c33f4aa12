//! Reads the values of one field of an object, by its path.
//!
//! - **In:** a [`FieldPath`], and JSON as text or as a `serde_json::Value`.
//! - **Out:** the strings, numbers and booleans at that path, as text.
//! - **Knows nothing of:** kinds, indexes.
//!
//! Everything beside the path is skipped, not decoded.

use std::fmt;

use kube::core::{DynamicObject, ObjectMeta, PartialObjectMeta, TypeMeta};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::{FieldPath, Lazy};

/// An object whose fields can be read by their path, because its JSON is at hand.
///
/// These object types have it: [`Lazy`], `DynamicObject`, and `PartialObjectMeta` (metadata, `apiVersion` and `kind` only). A typed object
/// such as `Pod` is decoded already: its fields are read in Rust.
///
/// ```
/// use informant::{Lazy, object::{FieldValues, Scanner}};
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
        values_in(&mut serde_json::Deserializer::from_str(self.json()), path.as_names())
    }
}

impl FieldValues for DynamicObject {
    fn field_values(&self, path: &FieldPath) -> Vec<String> {
        let names = path.as_names();
        header_values(self.types.as_ref(), &self.metadata, names).unwrap_or_else(|| values_in(&self.data, names))
    }
}

impl<K> FieldValues for PartialObjectMeta<K> {
    fn field_values(&self, path: &FieldPath) -> Vec<String> {
        header_values(self.types.as_ref(), &self.metadata, path.as_names()).unwrap_or_default()
    }
}

/// The value of one label, from the JSON of all labels; the other labels are skipped.
pub(super) fn label_value(labels: &str, key: &str) -> Option<String> {
    if labels.is_empty() {
        return None;
    }
    values_in(&mut serde_json::Deserializer::from_str(labels), &[key.to_owned()]).pop()
}

/// The values of a field of the metadata, of `apiVersion` or of `kind`; `None` if the path leads to another part of the object.
fn header_values(types: Option<&TypeMeta>, metadata: &ObjectMeta, names: &[String]) -> Option<Vec<String>> {
    let (first, rest) = names.split_first()?;
    match (first.as_str(), rest) {
        ("metadata", _) => {
            Some(serde_json::to_value(metadata).map_or_else(|_| Vec::new(), |metadata| values_in(&metadata, rest)))
        }
        ("apiVersion", []) => Some(types.map(|types| types.api_version.clone()).into_iter().collect()),
        ("kind", []) => Some(types.map(|types| types.kind.clone()).into_iter().collect()),
        _ => None,
    }
}

/// The values below these names.
fn values_in<'de>(json: impl Deserializer<'de>, names: &[String]) -> Vec<String> {
    let mut values = Vec::new();
    match (Below { names, values: &mut values }).deserialize(json) {
        Ok(()) => values,
        // The JSON was checked when it was scanned, so only a number that no type can hold gets here.
        Err(_) => Vec::new(),
    }
}

/// Collects the values below some names of the value that it visits.
struct Below<'p, 'v> {
    names: &'p [String],
    values: &'v mut Vec<String>,
}

impl Below<'_, '_> {
    /// Adds a scalar, unless there are names left: a scalar has no members.
    fn add(self, text: &(impl ToString + ?Sized)) {
        if self.names.is_empty() {
            self.values.push(text.to_string());
        }
    }
}

impl<'de> DeserializeSeed<'de> for Below<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Below<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        self.add(&value);
        Ok(())
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.add(&value);
        Ok(())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.add(&value);
        Ok(())
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        self.add(&serde_json::Value::from(value));
        Ok(())
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<(), E> {
        self.add(value);
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(), A::Error> {
        let Self { names, values } = self;
        while items.next_element_seed(Below { names, values: &mut *values })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let Self { names, values } = self;
        let (first, rest) = match names.split_first() {
            Some((first, rest)) => (Some(first.as_str()), rest),
            None => (None, names),
        };
        while let Some(is_first) = members.next_key_seed(IsName(first))? {
            match is_first {
                true => members.next_value_seed(Below { names: rest, values: &mut *values })?,
                false => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Compares a member's name without a copy of it.
struct IsName<'p>(Option<&'p str>);

impl<'de> DeserializeSeed<'de> for IsName<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for IsName<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a member")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<bool, E> {
        Ok(self.0 == Some(name))
    }
}
