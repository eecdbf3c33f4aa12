//! The status of a custom resource definition, and the finalizer that keeps it until its objects are deleted.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{objects::Object, registry::kind::Kind};

/// Sets the status of a definition whose kind is served.
pub(crate) fn establish(definition: &mut Object, kind: &Kind) {
    // The kind is served from the creation of its definition.
    let since = definition.metadata.get("creationTimestamp").cloned().unwrap_or_default();
    let condition = |name: &str, reason: &str, message: &str| {
        let mut condition = json!({"type": name, "status": "True", "reason": reason, "message": message});
        condition["lastTransitionTime"] = since.clone();
        condition
    };
    let mut names = json!({
        "plural": kind.plural,
        "singular": kind.singular,
        "kind": kind.kind,
        "listKind": kind.list_kind,
    });
    for (field, values) in [("shortNames", &kind.short_names), ("categories", &kind.categories)] {
        if !values.is_empty() {
            names[field] = json!(values);
        }
    }
    let mut conditions = vec![
        condition("NamesAccepted", "NoConflicts", "no conflicts found"),
        condition("Established", "InitialNamesAccepted", "the initial names have been accepted"),
    ];
    match (definition.is_being_deleted(), waits(definition)) {
        (true, true) => {
            conditions.push(condition("Terminating", "InstanceDeletionInProgress", "its objects are being deleted"));
        }
        (true, false) => {
            let mut done = condition("Terminating", "InstanceDeletionCompleted", "removed all instances");
            done["status"] = json!("False");
            conditions.push(done);
        }
        (false, _) => {}
    }
    let mut stored = stored_versions(definition);
    if !stored.iter().any(|version| *version == kind.version) {
        stored.push(kind.version.to_string());
    }
    let status = json!({"acceptedNames": names, "conditions": conditions, "storedVersions": stored});
    definition.rest.insert("status".to_owned(), Bytes::from(status.to_string()));
}

/// The versions in which objects of a definition may be stored.
pub(crate) fn stored_versions(definition: &Object) -> Vec<String> {
    let stored = definition.field("status")["storedVersions"].take();
    stored.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// The finalizer of a definition that is being deleted and still has objects.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Adds the finalizer for the objects of a definition.
pub(crate) fn wait(definition: &mut Object) {
    if !waits(definition) {
        let finalizers = [definition.finalizers(), vec![CLEANUP]].concat();
        definition.set("finalizers", json!(finalizers));
    }
}

/// Returns true if a definition has the finalizer for its objects.
pub(crate) fn waits(definition: &Object) -> bool {
    definition.finalizers().contains(&CLEANUP)
}

/// The definition without the finalizer for its objects.
pub(crate) fn released(definition: &Object) -> Object {
    let mut released = definition.clone();
    let others: Vec<_> = definition.finalizers().into_iter().filter(|finalizer| *finalizer != CLEANUP).collect();
    released.set("finalizers", json!(others));
    released
}
