//! Helpers that decode schemas from JSON.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};

use crate::schema::structural::Schema;

/// Decodes a field that may be `null`, which means that it is absent.
pub(super) fn given<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Option::deserialize(deserializer).map(Option::unwrap_or_default)
}

/// The value of `items` or `additionalProperties`.
#[derive(Debug)]
pub(crate) enum SchemaOr {
    Schema(Box<Schema>),
    Bool(bool),
    /// A schema for each item of a list, which Kubernetes does not support.
    List,
}

impl SchemaOr {
    pub(crate) fn schema(&self) -> Option<&Schema> {
        match self {
            Self::Schema(schema) => Some(schema),
            Self::Bool(_) | Self::List => None,
        }
    }
}

impl<'de> Deserialize<'de> for SchemaOr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(SchemaOrVisitor)
    }
}

struct SchemaOrVisitor;

impl<'de> Visitor<'de> for SchemaOrVisitor {
    type Value = SchemaOr;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a schema or a boolean")
    }

    fn visit_bool<E>(self, value: bool) -> Result<SchemaOr, E> {
        Ok(SchemaOr::Bool(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<SchemaOr, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(SchemaOr::List)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<SchemaOr, A::Error> {
        Schema::deserialize(MapAccessDeserializer::new(map)).map(Box::new).map(SchemaOr::Schema)
    }
}
