//! Selectors: select objects by namespace, label and field.
//!
//! - **In:** the texts of `labelSelector` and `fieldSelector`, and the kind that they are for.
//! - **Out:** true if a state of an object matches.
//! - **Knows nothing of:** requests, versions.

mod fields;
mod labels;

use serde_json::Value;

use crate::{
    error::ApiError,
    objects::{Key, encoded::Encoded},
    registry::{kind::Kind, selectable::SelectableField},
};

pub(crate) use fields::selected_name;

use fields::FieldRequirement;
use labels::LabelRequirement;

/// The conditions that an object must fulfil.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Selector {
    /// The namespace; empty for all.
    pub(crate) namespace: String,
    labels: Vec<LabelRequirement>,
    fields: Vec<FieldRequirement>,
}

impl Selector {
    pub(crate) fn new(kind: &Kind, namespace: &str, labels: &str, fields: &str) -> Result<Self, ApiError> {
        let labels = labels::parse(labels).map_err(ApiError::BadRequest)?;
        let fields = fields::parse(kind, fields).map_err(ApiError::BadRequest)?;
        Ok(Self { namespace: namespace.into(), labels, fields })
    }

    /// Returns true if the selector depends on more than the namespace.
    pub(crate) fn looks_inside(&self) -> bool {
        !self.labels.is_empty() || !self.fields.is_empty()
    }

    pub(crate) fn matches(&self, key: &Key, object: &Encoded) -> bool {
        key.is_in(&self.namespace) && self.labels_match(object) && self.fields_match(key, object)
    }

    fn labels_match(&self, object: &Encoded) -> bool {
        if self.labels.is_empty() {
            return true;
        }
        let labels = labels::of(object.metadata());
        self.labels.iter().all(|requirement| requirement.matches(&labels))
    }

    fn fields_match(&self, key: &Key, object: &Encoded) -> bool {
        // Name and namespace are the most frequent fields, and need no decoding.
        let mut decoded = None;
        self.fields.iter().all(|requirement| match requirement.field() {
            SelectableField::Name => requirement.matches(Some(key.name())),
            SelectableField::Namespace => requirement.matches(Some(key.namespace())),
            SelectableField::Scalar { paths, absent } => {
                let value =
                    decoded.get_or_insert_with(|| serde_json::from_slice(&object.object()).unwrap_or(Value::Null));
                requirement.matches(fields::scalar_at(value, paths, absent).as_deref())
            }
        })
    }
}
