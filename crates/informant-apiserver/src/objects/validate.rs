//! Validation of names, metadata and pods.
//!
//! - **In:** an object from a client.
//! - **Out:** the error that kube-apiserver sends for an invalid one.

use serde_json::{Map, Value};

use crate::{
    error::{ApiError, Cause},
    objects::{
        Object,
        propagation::{FOREGROUND, ORPHAN},
    },
    registry::kind::{Kind, Names, Origin},
};

/// The deepest nesting of objects. `serde_json` can decode 128 levels, and a watch event adds some.
pub(crate) const DEEPEST: usize = 120;

/// The number of nested levels of a value.
pub(crate) fn depth(value: &Value) -> usize {
    match value {
        Value::Array(values) => 1 + values.iter().map(depth).max().unwrap_or(0),
        Value::Object(fields) => 1 + fields.values().map(depth).max().unwrap_or(0),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// The known fields of metadata.
const FIELDS: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Removes nulls, empty values and unknown fields from metadata.
pub(crate) fn normalize(metadata: &mut Map<String, Value>) {
    for field in ["labels", "annotations"] {
        for value in metadata.get_mut(field).and_then(Value::as_object_mut).into_iter().flat_map(Map::values_mut) {
            if value.is_null() {
                *value = Value::String(String::new());
            }
        }
    }
    metadata.retain(|field, value| {
        let is_empty = match value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(values) => values.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            Value::Bool(_) | Value::Number(_) => false,
        };
        FIELDS.contains(&field.as_str()) && !is_empty
    });
}

/// The paths of the unknown fields in the metadata of an object.
pub(crate) fn unknown_fields(metadata: Option<&Value>) -> Vec<String> {
    let names = metadata.and_then(Value::as_object).into_iter().flat_map(Map::keys);
    names.filter(|name| !FIELDS.contains(&name.as_str())).map(|name| format!("metadata.{name}")).collect()
}

/// Checks the types of the fields of metadata.
pub(crate) fn types(metadata: &Map<String, Value>) -> Result<(), ApiError> {
    for (field, value) in metadata {
        let good = match field.as_str() {
            "name" | "namespace" | "generateName" | "uid" | "resourceVersion" | "selfLink" | "creationTimestamp"
            | "deletionTimestamp" => value.is_string(),
            "labels" | "annotations" => {
                value.as_object().is_some_and(|map| map.values().all(|text| text.is_string() || text.is_null()))
            }
            "finalizers" => value.as_array().is_some_and(|list| list.iter().all(Value::is_string)),
            "ownerReferences" => value.as_array().is_some_and(|list| list.iter().all(is_owner)),
            "generation" | "deletionGracePeriodSeconds" => value.is_i64(),
            _ => true,
        };
        if !good && !value.is_null() {
            return Err(ApiError::BadRequest(format!(
                "metadata.{field} of the object in the request has the wrong type: {value}"
            )));
        }
    }
    Ok(())
}

/// Returns true if the fields of an owner reference have the right types.
fn is_owner(owner: &Value) -> bool {
    let Value::Object(fields) = owner else { return false };
    fields.iter().all(|(field, value)| match field.as_str() {
        "controller" | "blockOwnerDeletion" => value.is_boolean() || value.is_null(),
        "apiVersion" | "kind" | "name" | "uid" => value.is_string() || value.is_null(),
        _ => true,
    })
}

/// Checks the name of an object against the rules of its kind.
pub(crate) fn name(kind: &Kind, name: &str) -> Result<(), ApiError> {
    let (good, why) = match kind.names {
        Names::Subdomain => (
            is_subdomain(name),
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
             and must start and end with an alphanumeric character",
        ),
        Names::Label => (
            name.len() <= 63 && is_dns_label(name),
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', \
             and must start and end with an alphanumeric character",
        ),
        Names::PathSegment => (
            !["", ".", ".."].contains(&name) && !name.contains(['/', '%']),
            "may not be '.', '..' or contain '/' or '%'",
        ),
    };
    if good {
        return Ok(());
    }
    Err(ApiError::invalid(kind, name, Cause::invalid("metadata.name", &format!("{name:?}"), why)))
}

/// Rejects a pod without containers, or with a container that lacks a name or an image.
pub(crate) fn pod(kind: &Kind, object: &Object) -> Result<(), ApiError> {
    if kind.origin != Origin::BuiltIn || !kind.is_pod() {
        return Ok(());
    }
    let spec = object.field("spec");
    let containers = spec["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut causes = Vec::new();
    if containers.is_empty() {
        causes.push(Cause::required("spec.containers", ""));
    }
    for (position, container) in containers.iter().enumerate() {
        for field in ["name", "image"] {
            if container[field].as_str().is_none_or(str::is_empty) {
                causes.push(Cause::required(format!("spec.containers[{position}].{field}"), ""));
            }
        }
    }
    error_from(kind, object, causes)
}

/// Checks labels, annotations, finalizers, owner references and the generation.
pub(crate) fn metadata(kind: &Kind, object: &Object) -> Result<(), ApiError> {
    let mut causes = Vec::new();
    let labels = object.metadata.get("labels").and_then(Value::as_object);
    for (label, value) in labels.into_iter().flatten() {
        if !is_label(label) {
            let why = "a label's name must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                       with an alphanumeric character; a DNS subdomain and '/' may stand before it";
            causes.push(Cause::invalid("metadata.labels", &format!("{label:?}"), why));
        }
        if !value.as_str().is_some_and(is_label_value) {
            let why = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', \
                       and must start and end with an alphanumeric character";
            causes.push(Cause::invalid("metadata.labels", &value.to_string(), why));
        }
    }
    let annotations = object.metadata.get("annotations").and_then(Value::as_object);
    for annotation in annotations.into_iter().flat_map(Map::keys).filter(|name| !is_label(&name.to_lowercase())) {
        let why = "the name of an annotation must follow the rules for names of labels";
        causes.push(Cause::invalid("metadata.annotations", &format!("{annotation:?}"), why));
    }
    for (position, finalizer) in object.finalizers().into_iter().enumerate() {
        // For custom kinds and definitions, kube-apiserver only sends a warning.
        let is_checked = kind.origin == Origin::BuiltIn && kind.group != "apiextensions.k8s.io";
        let is_known = finalizer.contains('/') || [ORPHAN, FOREGROUND, "kubernetes"].contains(&finalizer);
        if is_checked && !is_known {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            let field = format!("metadata.finalizers[{position}]");
            causes.push(Cause::invalid(field, &format!("{finalizer:?}"), why));
        }
    }
    if [ORPHAN, FOREGROUND].iter().all(|finalizer| object.finalizers().contains(finalizer)) {
        let why = format!("finalizer {ORPHAN} and {FOREGROUND} cannot be both set");
        let finalizers = object.metadata.get("finalizers").map(Value::to_string).unwrap_or_default();
        causes.push(Cause::invalid("metadata.finalizers", &finalizers, &why));
    }
    check_owners(object, &mut causes);
    let generation = object.metadata.get("generation").and_then(Value::as_i64).unwrap_or(0);
    if generation < 0 {
        let why = "must be greater than or equal to 0";
        causes.push(Cause::invalid("metadata.generation", &generation.to_string(), why));
    }
    error_from(kind, object, causes)
}

/// Returns an error with these causes; `Ok` if there are none.
fn error_from(kind: &Kind, object: &Object, causes: Vec<Cause>) -> Result<(), ApiError> {
    if causes.is_empty() {
        return Ok(());
    }
    Err(ApiError::Invalid { kind: kind.clone().into(), name: object.text("name").into(), causes })
}

/// Checks that each owner reference is complete, and that at most one of them is the controller.
fn check_owners(object: &Object, causes: &mut Vec<Cause>) {
    let owners = object.metadata.get("ownerReferences").and_then(Value::as_array);
    let mut controller: Option<String> = None;
    for (position, owner) in owners.into_iter().flatten().enumerate() {
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(field).is_empty() {
                let field = format!("metadata.ownerReferences[{position}].{field}");
                causes.push(Cause::required(field, "must not be empty"));
            }
        }
        if text("apiVersion") == "v1" && text("kind") == "Event" {
            let field = format!("metadata.ownerReferences[{position}]");
            causes.push(Cause::invalid(field, &owner.to_string(), "/v1, Kind=Event is disallowed from being an owner"));
        }
        if owner["controller"] == true {
            let this = format!("{}/{}", text("kind"), text("name"));
            match &controller {
                Some(first) => {
                    let why = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
                    );
                    let all = object.metadata.get("ownerReferences").map(Value::to_string).unwrap_or_default();
                    causes.push(Cause::invalid("metadata.ownerReferences", &all, &why));
                }
                None => controller = Some(this),
            }
        }
    }
}

/// Returns true for the name of a label: a name, optionally after a subdomain and `/`.
pub(crate) fn is_label(label: &str) -> bool {
    let (prefix, name) = label.split_once('/').map_or((None, label), |(prefix, name)| (Some(prefix), name));
    prefix.is_none_or(is_subdomain) && !name.is_empty() && is_label_value(name)
}

/// Returns true for the value of a label: empty, or at most 63 letters, digits, `-`, `_` and `.` with a letter or digit at both ends.
pub(crate) fn is_label_value(value: &str) -> bool {
    let good = |letter: u8| letter.is_ascii_alphanumeric() || b"-_.".contains(&letter);
    let ends = [value.bytes().next(), value.bytes().last()];
    value.len() <= 63 && value.bytes().all(good) && ends.iter().flatten().all(u8::is_ascii_alphanumeric)
}

fn is_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_label)
}

pub(crate) fn is_dns_label(text: &str) -> bool {
    let good = |letter: u8| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == b'-';
    !text.is_empty() && text.bytes().all(good) && !text.starts_with('-') && !text.ends_with('-')
}
