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
mod violation;

use std::collections::BTreeMap;

use serde::{Deserialize, de::IgnoredAny};
use serde_json::{Map, Value};

use crate::error::Cause;
use crate::schema::structural::{path::Path, pattern::Pattern, read::given};
use crate::schema::{Types, custom};

pub(crate) use crate::schema::structural::{read::SchemaOr, violation::Violation};

/// The schema of one version of a custom kind.
pub(crate) struct VersionSchema {
    /// As it is in the definition. Two schemas are equal if their sources are.
    source: Value,
    pub(crate) root: Schema,
    /// The types of the fields, for the clients that own them.
    pub(crate) types: Types,
    /// A part of the schema is that of an embedded resource.
    has_embedded: bool,
}

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

impl VersionSchema {
    pub(crate) fn read(source: &Value) -> Result<Self, serde_json::Error> {
        let mut root = Schema::deserialize(source)?;
        root.mark_rules();
        let has_embedded = root.any(&|schema| schema.is_embedded_resource);
        Ok(Self { source: source.clone(), types: custom::read(source), has_embedded, root })
    }

    /// Brings an object into the form in which kube-apiserver reads it: without unknown fields and nulls, with defaults. Returns the
    /// paths of the unknown fields, or an error if an embedded resource cannot be decoded.
    pub(crate) fn normalize(&self, object: &mut Map<String, Value>) -> Result<Vec<String>, String> {
        let unknown = prune::prune(object, &self.root);
        prune::remove_nulls_of_fields(object, Some(&self.root));
        defaults::fill_in(object, &self.root);
        if self.has_embedded {
            for (name, value) in object {
                if let Some(property) = self.root.properties.get(name) {
                    embedded::normalize(value, property, &Path::root("").field(name))?;
                }
            }
        }
        Ok(unknown)
    }

    pub(crate) fn fill_in_defaults(&self, object: &mut Map<String, Value>) {
        defaults::fill_in(object, &self.root);
    }

    /// Removes the unknown fields of an object.
    pub(crate) fn prune(&self, object: &mut Map<String, Value>) {
        prune::prune(object, &self.root);
        prune::remove_nulls_of_fields(object, Some(&self.root));
    }

    /// The errors of the schema, for its definition. `path` is its place in the definition.
    pub(crate) fn check_definition(&self, path: &str, has_status: bool) -> Vec<Cause> {
        let violations = check::check(&self.root, path, has_status);
        violations.into_iter().map(|violation| violation.into_cause("")).collect()
    }

    /// The violations of the schema by a whole object that may replace another one.
    pub(crate) fn check(&self, object: &Value, old: Option<&Value>) -> Vec<Violation> {
        let root = Path::root("");
        let mut found = validate::validate(&self.root, object, old, &root);
        self.check_parts(object, old, &mut found);
        let is_blocked = found.iter().any(Violation::blocks_rules);
        self.run_rules(object, old, is_blocked, &mut found);
        found
    }

    /// The violations by an object of which only the status changes. The flag says whether they are below `status`.
    pub(crate) fn check_status(&self, object: &Value, old: &Value) -> (Vec<Violation>, Vec<Violation>) {
        let status = self.root.properties.get("status").zip(object.get("status"));
        let of_status =
            status.map(|(schema, status)| validate::validate(schema, status, old.get("status"), &Path::root("")));
        let of_status = of_status.unwrap_or_default();
        let mut found = Vec::new();
        self.check_parts(object, Some(old), &mut found);
        let is_blocked = of_status.iter().chain(&found).any(Violation::blocks_rules);
        self.run_rules(object, Some(old), is_blocked, &mut found);
        (of_status, found)
    }

    /// Adds the violations of embedded resources, sets and maps. Duplicates that were there before are allowed.
    fn check_parts(&self, object: &Value, old: Option<&Value>, found: &mut Vec<Violation>) {
        let root = Path::root("");
        if self.has_embedded {
            embedded::check(&self.root, object, &root, found);
        }
        let mut duplicates = Vec::new();
        lists::find_duplicates(&self.root, object, &root, &mut duplicates);
        if !duplicates.is_empty() {
            let mut before = Vec::new();
            if let Some(old) = old {
                lists::find_duplicates(&self.root, old, &root, &mut before);
            }
            if before.is_empty() {
                found.append(&mut duplicates);
            }
        }
    }

    /// Adds the violations of CEL rules, which are not run for an object whose structure is wrong.
    fn run_rules(&self, object: &Value, old: Option<&Value>, is_blocked: bool, found: &mut Vec<Violation>) {
        let root = Path::root("");
        if self.root.has_rules && is_blocked && rules::ARE_RUN {
            let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete \
                       validation";
            found.push(Violation::invalid(&root, "null", why));
        } else {
            rules::run(&self.root, object, old, &root, found);
        }
    }

    /// The default of the status of a new object.
    pub(crate) fn default_status(&self) -> Option<&Value> {
        self.root.properties.get("status")?.default.as_ref()
    }
}

impl PartialEq for VersionSchema {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for VersionSchema {}

impl std::fmt::Debug for VersionSchema {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "VersionSchema({})", self.source)
    }
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
