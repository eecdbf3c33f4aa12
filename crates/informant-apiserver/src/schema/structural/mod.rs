//! Structural schemas: the schemas of custom kinds.
//!
//! - **In:** the `openAPIV3Schema` of a version in a custom resource definition; the objects of that version as JSON.
//! - **Out:** errors of the schema (`check`); objects without unknown fields (`prune`), with defaults (`defaults`), and their errors
//!   (`validate`, `lists`, `embedded`) in the words of kube-apiserver.
//! - **Knows nothing of:** kinds, requests, storage.

mod check;
mod defaults;
mod embedded;
mod formats;
mod lists;
mod number;
mod path;
mod pattern;
mod prune;
mod read;
#[cfg(not(feature = "cel"))]
#[path = "no_rules.rs"]
mod rules;
#[cfg(feature = "cel")]
mod rules;
mod validate;
mod version;
mod violation;

use std::collections::BTreeMap;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::Value;

use crate::schema::structural::{pattern::Pattern, read::given};

pub(crate) use crate::schema::structural::{read::SchemaOr, version::VersionSchema, violation::Violation};

/// One node of a schema, with the names of OpenAPI.
///
/// Strings are empty and lists are empty if the schema does not have them.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Schema {
    /// `object`, `array`, `string`, `integer`, `number` or `boolean`; empty for any type.
    #[serde(rename = "type", deserialize_with = "given")]
    pub(crate) type_name: String,
    #[serde(deserialize_with = "given")]
    pub(crate) format: String,
    #[serde(deserialize_with = "given")]
    pub(crate) nullable: bool,
    pub(crate) default: Option<Value>,

    #[serde(deserialize_with = "given")]
    pub(crate) properties: BTreeMap<String, Schema>,
    pub(crate) additional_properties: Option<SchemaOr>,
    pub(crate) items: Option<SchemaOr>,

    #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
    preserve_unknown_fields: Option<bool>,
    #[serde(rename = "x-kubernetes-embedded-resource", deserialize_with = "given")]
    pub(crate) is_embedded_resource: bool,
    #[serde(rename = "x-kubernetes-int-or-string", deserialize_with = "given")]
    pub(crate) is_int_or_string: bool,
    /// `atomic`, `set` or `map`.
    #[serde(rename = "x-kubernetes-list-type")]
    pub(crate) list_type: Option<String>,
    #[serde(rename = "x-kubernetes-list-map-keys", deserialize_with = "given")]
    pub(crate) list_map_keys: Vec<String>,
    /// `atomic` or `granular`.
    #[serde(rename = "x-kubernetes-map-type")]
    pub(crate) map_type: Option<String>,
    #[serde(rename = "x-kubernetes-validations", deserialize_with = "given")]
    pub(crate) rules: Vec<Rule>,

    #[serde(rename = "enum", deserialize_with = "given")]
    enumeration: Vec<Value>,
    #[serde(deserialize_with = "given")]
    required: Vec<String>,
    pattern: Option<Pattern>,
    max_length: Option<i64>,
    min_length: Option<i64>,
    max_items: Option<i64>,
    min_items: Option<i64>,
    max_properties: Option<i64>,
    min_properties: Option<i64>,
    maximum: Option<f64>,
    #[serde(deserialize_with = "given")]
    exclusive_maximum: bool,
    minimum: Option<f64>,
    #[serde(deserialize_with = "given")]
    exclusive_minimum: bool,
    multiple_of: Option<f64>,
    #[serde(deserialize_with = "given")]
    all_of: Vec<Schema>,
    #[serde(deserialize_with = "given")]
    any_of: Vec<Schema>,
    #[serde(deserialize_with = "given")]
    one_of: Vec<Schema>,
    not: Option<Box<Schema>>,

    // Parts that only `check` reads, to refuse them.
    #[serde(deserialize_with = "given")]
    title: String,
    #[serde(deserialize_with = "given")]
    description: String,
    #[serde(deserialize_with = "given")]
    unique_items: bool,
    #[serde(rename = "$ref")]
    reference: Option<IgnoredAny>,
    #[serde(rename = "$schema")]
    dialect: Option<IgnoredAny>,
    id: Option<IgnoredAny>,
    definitions: Option<IgnoredAny>,
    dependencies: Option<IgnoredAny>,
    pattern_properties: Option<IgnoredAny>,
    additional_items: Option<IgnoredAny>,

    /// This schema, or a schema of a field in it, has rules.
    #[serde(skip)]
    has_rules: bool,
}

/// A CEL rule: an entry of `x-kubernetes-validations`.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Rule {
    #[serde(deserialize_with = "given")]
    pub(crate) rule: String,
    #[serde(deserialize_with = "given")]
    pub(crate) message: String,
    #[serde(deserialize_with = "given")]
    pub(crate) message_expression: String,
    pub(crate) reason: Option<String>,
    #[serde(deserialize_with = "given")]
    pub(crate) field_path: String,
    pub(crate) optional_old_self: Option<bool>,
    #[serde(skip)]
    compilation: rules::Compilation,
}

impl Schema {
    pub(crate) fn preserves_unknown_fields(&self) -> bool {
        self.preserve_unknown_fields == Some(true)
    }

    /// The schema of the items of a list.
    pub(crate) fn item(&self) -> Option<&Self> {
        self.items.as_ref().and_then(SchemaOr::schema)
    }

    /// The schema of a field: that of the property, or that of all additional properties.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        self.properties.get(name).or_else(|| self.additional())
    }

    /// The schema of fields that are not in `properties`.
    pub(crate) fn additional(&self) -> Option<&Self> {
        self.additional_properties.as_ref().and_then(SchemaOr::schema)
    }

    /// Sets `has_rules` here and below.
    fn mark_rules(&mut self) -> bool {
        let mut has_rules = !self.rules.is_empty();
        for property in self.properties.values_mut() {
            has_rules |= property.mark_rules();
        }
        for inner in [&mut self.items, &mut self.additional_properties].into_iter().flatten() {
            if let SchemaOr::Schema(schema) = inner {
                has_rules |= schema.mark_rules();
            }
        }
        self.has_rules = has_rules;
        has_rules
    }

    /// Returns true if this schema, or a schema of a field in it, has the property.
    fn any(&self, has: &impl Fn(&Self) -> bool) -> bool {
        let mut children = self.properties.values().chain(self.item()).chain(self.additional());
        has(self) || children.any(|child| child.any(has))
    }
}
