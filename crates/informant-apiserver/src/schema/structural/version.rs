//! [`VersionSchema`]: all that is done with the schema of a version.
//!
//! - **In:** the schema as it is in the definition; objects of the version as JSON.
//! - **Out:** normalized objects; violations.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::{
    error::Cause,
    schema::{
        Types, custom,
        structural::{Schema, Violation, check, defaults, embedded, lists, path::Path, prune, rules, validate},
    },
};

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

impl VersionSchema {
    pub(crate) fn read(source: &Value) -> Result<Self, serde_json::Error> {
        let mut root = Schema::deserialize(source)?;
        root.mark_rules();
        let has_embedded = root.any(&|schema| schema.is_embedded_resource);
        Ok(Self { source: source.clone(), types: custom::read(source), has_embedded, root })
    }

    /// The schema as it is in the definition.
    pub(crate) fn source(&self) -> &Value {
        &self.source
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

    /// Removes the unknown fields of an object and fills in defaults; nulls stay.
    pub(crate) fn complete(&self, object: &mut Map<String, Value>) {
        prune::prune(object, &self.root);
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
