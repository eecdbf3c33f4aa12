//! Objects of custom kinds: what the schema of their version demands.
//!
//! - **In:** objects from clients, and stored objects.
//! - **Out:** objects without unknown fields and with defaults; the error that kube-apiserver sends for an invalid one.
//! - **Knows nothing of:** how a schema is read and applied (`schema::structural`).

use serde_json::{Map, Value, json};

use crate::{
    error::{ApiError, Cause},
    objects::{Object, rules::Part, scale, unknown::UnknownFields, validate},
    registry::kind::{Kind, Origin},
    schema::structural::VersionSchema,
};

/// Brings the body of a request into the form of its schema, and notes unknown fields.
pub(crate) fn read(kind: &Kind, value: &mut Value, unknown: &mut UnknownFields) -> Result<(), ApiError> {
    let (Origin::Custom, Value::Object(fields)) = (kind.origin, value) else { return Ok(()) };
    let mut paths = validate::unknown_fields(fields.get("metadata"));
    if let Some(schema) = &kind.schema {
        paths.extend(schema.normalize(fields).map_err(ApiError::BadRequest)?);
    }
    unknown.note(paths);
    Ok(())
}

/// Brings the result of a server-side apply into the form of its schema.
pub(crate) fn complete(kind: &Kind, value: &mut Value) {
    if let (Some(schema), Value::Object(fields)) = (&kind.schema, value) {
        schema.complete(fields);
    }
}

/// An object as its version stores it: without unknown fields, with defaults.
pub(crate) fn normalized(kind: &Kind, object: Object) -> Object {
    // An embedded resource that cannot be decoded stays as it is.
    converted(kind, object, |schema, fields| drop(schema.normalize(fields)))
}

/// An object that is stored in another version, as this one shows it: without the fields that it does not know.
pub(crate) fn pruned(kind: &Kind, object: Object) -> Object {
    converted(kind, object, VersionSchema::prune)
}

fn converted(kind: &Kind, object: Object, convert: impl FnOnce(&VersionSchema, &mut Map<String, Value>)) -> Object {
    let Some(schema) = &kind.schema else { return object };
    let mut fields = rest(&object);
    convert(schema, &mut fields);
    Object { rest: Object::from_value(fields.into()).rest, ..object }
}

/// Adds the default of the status to a new object, which has none.
pub(crate) fn fill_in_status(kind: &Kind, object: &mut Object) {
    let default = kind.schema.as_ref().and_then(|schema| schema.default_status());
    if let (Some(default), false) = (default, object.rest.contains_key("status")) {
        object.set_field("status", default);
        *object = normalized(kind, std::mem::take(object));
    }
}

/// Rejects a new object that its schema does not allow.
pub(crate) fn check_new(kind: &Kind, object: &Object) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    if let Some(schema) = &kind.schema {
        let violations = schema.check(&whole(kind, object), None);
        causes.extend(violations.into_iter().map(|violation| violation.into_cause("")));
    }
    scale::check(kind, object, Part::Main, &mut causes);
    error(kind, object, causes)
}

/// Rejects a change that the schema does not allow. What was invalid before and does not change is allowed.
pub(crate) fn check_changed(kind: &Kind, old: &Object, new: &Object, part: Part) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    if let Some(schema) = kind.schema.as_ref().filter(|_| old != new) {
        let (before, after) = (whole(kind, old), whole(kind, new));
        match part {
            Part::Main => {
                let violations = schema.check(&after, Some(&before));
                causes.extend(violations.into_iter().map(|violation| violation.into_cause("")));
            }
            Part::Status | Part::Field { .. } => {
                let (of_status, others) = schema.check_status(&after, &before);
                causes.extend(of_status.into_iter().map(|violation| violation.into_cause("status")));
                causes.extend(others.into_iter().map(|violation| violation.into_cause("")));
            }
        }
    }
    scale::check(kind, new, part, &mut causes);
    error(kind, new, causes)
}

fn error(kind: &Kind, object: &Object, causes: Vec<Cause>) -> Result<(), ApiError> {
    match causes.is_empty() {
        true => Ok(()),
        false => Err(ApiError::Invalid { kind: kind.clone().into(), name: object.text("name").into(), causes }),
    }
}

/// The fields outside of the metadata.
fn rest(object: &Object) -> Map<String, Value> {
    // The server encoded them, so decoding does not fail.
    let field = |json: &[u8]| serde_json::from_slice(json).unwrap_or_default();
    object.rest.iter().map(|(name, json)| (name.clone(), field(json))).collect()
}

/// The object with its type and metadata.
fn whole(kind: &Kind, object: &Object) -> Value {
    let mut fields = rest(object);
    fields.insert("apiVersion".to_owned(), json!(kind.api_version()));
    fields.insert("kind".to_owned(), json!(kind.kind));
    fields.insert("metadata".to_owned(), object.metadata.clone().into());
    fields.into()
}
