//! Default values that Kubernetes adds to objects of a few kinds.
//!
//! - **In:** an object that is about to be stored.
//! - **Out:** the same object with the values below.
//! - **Knows nothing of:** the stored object that it replaces.
//!
//! | kind | added |
//! | --- | --- |
//! | Namespace | the label `kubernetes.io/metadata.name`, the finalizer `kubernetes` in the spec, the phase `Active` |
//! | Pod | the phase `Pending` |
//! | Secret | `stringData` as `data`, the type `Opaque` |

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value, json};

use crate::{
    objects::Object,
    registry::kind::{Kind, Origin},
};

/// The label that every namespace has.
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Adds the defaults of a new object.
pub(crate) fn fill_in_new(kind: &Kind, object: &mut Object) {
    if kind.origin != Origin::BuiltIn {
        return;
    }
    match (&*kind.group, &*kind.plural) {
        ("", "namespaces") => {
            add_finalizer(object);
            fill_in_field(object, "status", "phase", json!("Active"));
        }
        ("", "pods") => fill_in_field(object, "status", "phase", json!("Pending")),
        _ => {}
    }
    normalize(kind, object);
}

/// Sets what a write cannot change: the name label of a namespace; the type of a Secret, and `data` from its `stringData`.
pub(crate) fn normalize(kind: &Kind, object: &mut Object) {
    if kind.origin != Origin::BuiltIn {
        return;
    }
    match (&*kind.group, &*kind.plural) {
        ("", "namespaces") => {
            let name = object.text("name").to_owned();
            let mut labels = object.metadata.get("labels").and_then(Value::as_object).cloned().unwrap_or_default();
            labels.insert(NAME_LABEL.into(), name.into());
            object.set("labels", labels);
        }
        ("", "secrets") => {
            encode_string_data(object);
            if object.rest.get("type").is_none_or(|given| [b"null", &b"\"\""[..]].contains(&&**given)) {
                object.set_field("type", &json!("Opaque"));
            }
        }
        _ => {}
    }
}

fn fill_in_field(object: &mut Object, field: &str, name: &str, value: Value) {
    let mut map = object.field(field);
    if map.get(name).is_none_or(Value::is_null) {
        map[name] = value;
        object.set_field(field, &map);
    }
}

/// Adds the finalizer `kubernetes` to the spec of a namespace, if it is missing.
fn add_finalizer(namespace: &mut Object) {
    let mut spec = namespace.field("spec");
    let mut finalizers = spec["finalizers"].as_array().cloned().unwrap_or_default();
    if !finalizers.contains(&json!("kubernetes")) {
        finalizers.push(json!("kubernetes"));
        spec["finalizers"] = finalizers.into();
        namespace.set_field("spec", &spec);
    }
}

/// Moves the values of `stringData` to `data`, encoded as base64.
fn encode_string_data(secret: &mut Object) {
    let Some(texts) = secret.rest.remove("stringData") else { return };
    let texts: Map<String, Value> = serde_json::from_slice(&texts).unwrap_or_default();
    if texts.is_empty() {
        return;
    }
    let mut data = secret.field("data");
    for (name, text) in texts {
        data[name] = STANDARD.encode(text.as_str().unwrap_or_default()).into();
    }
    secret.set_field("data", &data);
}
