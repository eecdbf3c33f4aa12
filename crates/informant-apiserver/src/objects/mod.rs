//! The rules for creating, updating and deleting objects.
//!
//! - **In:** the object in a request, the stored state, the time, a new uid.
//! - **Out:** the state to store, or the error that kube-apiserver sends.
//! - **Knows nothing of:** versions of the whole server, other objects, HTTP.

pub(crate) mod custom;
pub(crate) mod defaults;
pub(crate) mod encoded;
mod key;
pub(crate) mod patch;
pub(crate) mod propagation;
pub(crate) mod rules;
pub(crate) mod scale;
pub(crate) mod unknown;
pub(crate) mod validate;
pub(crate) mod views;

use std::collections::BTreeMap;

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::{
    apply::Author,
    error::ApiError,
    objects::unknown::UnknownFields,
    registry::kind::{Kind, Origin},
    schema,
};

pub(crate) use key::Key;

/// A decoded object. `kind` and `apiVersion` are those of its collection.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Object {
    /// Without `managedFields`.
    pub(crate) metadata: Map<String, Value>,
    /// `managedFields` as JSON; empty if there are none. Most requests only copy them.
    pub(crate) managed: Bytes,
    /// The client that sent the object, whose fields are tracked; `None` for the server itself, and for the test that runs it.
    pub(crate) author: Option<Author>,
    /// All other fields, such as `spec` and `status`, as compact JSON: most rules only compare them.
    pub(crate) rest: BTreeMap<String, Bytes>,
}

impl Object {
    /// Reads and checks the body of a request.
    pub(crate) fn read(kind: &Kind, body: &[u8]) -> Result<Self, ApiError> {
        Self::read_noting(kind, body, &mut UnknownFields::default())
    }

    /// Reads and checks the body of a request, and notes its unknown fields.
    pub(crate) fn read_noting(kind: &Kind, body: &[u8], unknown: &mut UnknownFields) -> Result<Self, ApiError> {
        let mut value: Value = serde_json::from_slice(body)
            .map_err(|error| ApiError::BadRequest(format!("the object provided is not valid JSON: {error}")))?;
        if kind.origin == Origin::Custom {
            for field in ["kind", "apiVersion"] {
                if value.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
                    return Err(ApiError::BadRequest(format!("the object provided has no {field}")));
                }
            }
        }
        unknown.note(decode(kind, &mut value)?);
        custom::read(kind, &mut value, unknown)?;
        Self::checked(kind, value)
    }

    /// Checks the result of a server-side apply.
    pub(crate) fn of_apply(kind: &Kind, mut value: Value) -> Result<Self, ApiError> {
        decode(kind, &mut value)?;
        custom::complete(kind, &mut value);
        Self::checked(kind, value)
    }

    fn checked(kind: &Kind, value: Value) -> Result<Self, ApiError> {
        let mut object = Self::check(kind, value)?;
        validate::types(&object.metadata)?;
        validate::normalize(&mut object.metadata);
        Ok(object)
    }

    /// Creates an object of this kind from JSON. Checks the type, the metadata and the depth, but not the other fields.
    pub(crate) fn check(kind: &Kind, mut value: Value) -> Result<Self, ApiError> {
        let Value::Object(fields) = &value else {
            return Err(ApiError::BadRequest("the object provided is not a JSON object".into()));
        };
        for (field, expected) in [("kind", kind.kind.to_string()), ("apiVersion", kind.api_version())] {
            match fields.get(field) {
                None => {}
                Some(Value::String(given)) if given.is_empty() || *given == expected => {}
                Some(given) => {
                    return Err(ApiError::BadRequest(format!(
                        "the {field} in the data ({given}) does not match the expected {field} ({expected})"
                    )));
                }
            }
        }
        if !matches!(fields.get("metadata"), None | Some(Value::Null | Value::Object(_))) {
            return Err(ApiError::BadRequest("metadata is not a JSON object".into()));
        }
        // The server wrote the managed fields, or reads them with the limit of its parser.
        let managed = value.get_mut("metadata").and_then(Value::as_object_mut);
        let managed = managed.and_then(|metadata| metadata.remove("managedFields")).unwrap_or_default();
        // Deeper objects could be stored, but not decoded.
        if validate::depth(&value) > validate::DEEPEST {
            return Err(ApiError::BadRequest(format!("the object is nested deeper than {} levels", validate::DEEPEST)));
        }
        let is_list = managed.as_array().is_some_and(|list| list.iter().all(Value::is_object));
        if !managed.is_null() && !is_list {
            return Err(ApiError::BadRequest(format!("metadata.managedFields is not a list of objects: {managed}")));
        }
        let mut object = Self::from_value(value);
        if !managed.is_null() {
            object.managed = managed.to_string().into();
        }
        for field in ["name", "namespace", "generateName", "uid", "resourceVersion"] {
            if !matches!(object.metadata.get(field), None | Some(Value::Null | Value::String(_))) {
                return Err(ApiError::BadRequest(format!("metadata.{field} is not a string")));
            }
        }
        Ok(object)
    }

    pub(crate) fn from_value(value: Value) -> Self {
        let Value::Object(mut rest) = value else { return Self::default() };
        rest.remove("kind");
        rest.remove("apiVersion");
        let mut metadata = match rest.remove("metadata") {
            Some(Value::Object(metadata)) => metadata,
            _ => Map::new(),
        };
        let managed = metadata.remove("managedFields").filter(|managed| !managed.is_null());
        let managed = managed.map(|managed| managed.to_string().into()).unwrap_or_default();
        let rest = rest.into_iter().map(|(field, value)| (field, value.to_string().into())).collect();
        Self { metadata, managed, rest, ..Self::default() }
    }

    /// A string field of the metadata; empty if it is absent.
    pub(crate) fn text(&self, field: &str) -> &str {
        self.metadata.get(field).and_then(Value::as_str).unwrap_or_default()
    }

    pub(crate) fn set(&mut self, field: &str, value: impl Into<Value>) {
        self.metadata.insert(field.into(), value.into());
    }

    /// A field outside of the metadata as a map; empty if it is absent.
    pub(crate) fn field(&self, name: &str) -> Value {
        let value = self.rest.get(name).and_then(|json| serde_json::from_slice(json).ok());
        value.filter(Value::is_object).unwrap_or_else(|| Value::Object(Map::new()))
    }

    /// Replaces a field outside of the metadata.
    pub(crate) fn set_field(&mut self, name: &str, value: &Value) {
        self.rest.insert(name.into(), Bytes::from(value.to_string()));
    }

    pub(crate) fn finalizers(&self) -> Vec<&str> {
        let list = self.metadata.get("finalizers").and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    pub(crate) fn is_being_deleted(&self) -> bool {
        self.metadata.get("deletionTimestamp").is_some_and(|time| !time.is_null())
    }
}

/// Decodes an object of a built-in kind, and returns the paths of its unknown fields.
fn decode(kind: &Kind, value: &mut Value) -> Result<Vec<String>, ApiError> {
    schema::decode(kind, value).map_err(|problem| {
        let Kind { kind, version, .. } = kind;
        ApiError::BadRequest(format!("{kind} in version {version:?} cannot be handled as a {kind}: {problem}"))
    })
}
