//! Namespaces: an object is created only in an existing namespace, and deleting a namespace deletes its objects.
//!
//! - **In:** the namespace of an object to create; the namespace of a deleted object; the name of a namespace to delete.
//! - **Out:** an error if the namespace is missing or being deleted; the deletes of its objects; the delete of the empty namespace.
//! - **Knows nothing of:** the content of a namespace object (`objects::defaults`).

use serde_json::json;

use crate::{
    error::{ApiError, Cause},
    objects::{Key, propagation::Propagation, rules, rules::DeleteTerms},
    registry::{
        Served,
        kind::{Kind, Scope},
    },
    storage::Collection,
    world::{Run, World},
};

/// The namespaces in which clients can create objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamespaceCheck {
    /// Namespaces that exist and are not being deleted.
    Existing,
    /// All namespaces, including missing ones.
    None,
}

/// Namespaces that count as existing even if they are not stored.
const ALWAYS_PRESENT: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Namespaces that cannot be deleted, as in kube-apiserver.
const UNDELETABLE: [&str; 3] = ["default", "kube-public", "kube-system"];

/// Rejects the delete of a namespace that every cluster needs.
pub(super) fn check_deletable(namespaces: &Kind, name: &str) -> Result<(), ApiError> {
    match UNDELETABLE.contains(&name) {
        true => Err(ApiError::forbidden(namespaces, name, "this namespace may not be deleted")),
        false => Ok(()),
    }
}

impl World {
    /// Checks that an object can be created in a namespace.
    pub(crate) fn check_namespace(&self, served: &Served, namespace: &str, name: &str) -> Result<(), ApiError> {
        if self.namespace_check == NamespaceCheck::None || served.kind.scope == Scope::Cluster {
            return Ok(());
        }
        let Some(namespaces) = self.registry.find("namespaces") else { return Ok(()) };
        let found = match self.get(namespaces, &Key::new("", namespace)) {
            Ok(found) => found.decode(),
            Err(_) if ALWAYS_PRESENT.contains(&namespace) => return Ok(()),
            Err(error) => return Err(error),
        };
        if !found.is_being_deleted() {
            return Ok(());
        }
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        let cause = Cause {
            reason: "NamespaceTerminating",
            field: "metadata.namespace".into(),
            message: format!("namespace {namespace} is being terminated"),
        };
        let kind = Box::new((*served.kind).clone());
        Err(ApiError::Forbidden { kind, name: name.to_owned(), why, cause: Some(cause) })
    }

    /// Deletes all objects of a namespace. Objects with finalizers are only marked; the namespace stays until the last one is removed.
    pub(super) fn empty_namespace(&mut self, name: &str, now: &str) -> Result<(), ApiError> {
        let terms = DeleteTerms::of(Propagation::Background);
        for (served, keys) in self.content_of(name) {
            for key in keys {
                match self.delete(&served, key, &terms, now, Run::Real) {
                    // The other view of an event was deleted before.
                    Ok(_) | Err(ApiError::NotFound { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        self.finish_namespace_deletion(name);
        Ok(())
    }

    /// Removes the finalizer `kubernetes` from a namespace that is being deleted and has no objects left. This deletes the namespace,
    /// unless it has other finalizers.
    pub(super) fn finish_namespace_deletion(&mut self, name: &str) {
        let Some(namespaces) = self.registry.find("namespaces").cloned() else { return };
        let key = Key::new("", name);
        let Ok(old) = self.get(&namespaces, &key).cloned() else { return };
        let before = old.decode();
        if !before.is_being_deleted() || self.has_content(name) {
            return;
        }
        let mut released = before.clone();
        let mut spec = released.field("spec");
        let finalizers = spec["finalizers"].as_array().into_iter().flatten();
        spec["finalizers"] = finalizers.filter(|finalizer| **finalizer != json!("kubernetes")).cloned().collect();
        released.set_field("spec", &spec);
        // Does not fail: the update adds no finalizer, and namespaces are served.
        if let Ok(updated) = rules::settle(&namespaces.kind, &before, released) {
            let _ = self.carry_out(&namespaces, key, old, updated, Run::Real);
        }
    }

    /// Calls [`finish_namespace_deletion`](Self::finish_namespace_deletion) for all namespaces.
    pub(super) fn finish_namespace_deletions(&mut self) {
        let namespaces = self.registry.find("namespaces").and_then(|served| self.storage.collection(served.collection));
        let names: Vec<_> = namespaces.into_iter().flat_map(Collection::objects).map(|(key, _)| key.clone()).collect();
        for key in names {
            self.finish_namespace_deletion(key.name());
        }
    }

    /// The keys of all objects in a namespace, by kind.
    fn content_of(&self, namespace: &str) -> Vec<(Served, Vec<Key>)> {
        let keys =
            |(served, found): (&Served, &Collection)| (served.clone(), found.keys_in(namespace).cloned().collect());
        self.namespaced_collections().map(keys).collect()
    }

    fn has_content(&self, namespace: &str) -> bool {
        self.namespaced_collections().any(|(_, collection)| collection.keys_in(namespace).next().is_some())
    }

    fn namespaced_collections(&self) -> impl Iterator<Item = (&Served, &Collection)> {
        let served = self.registry.served().filter(|served| served.kind.scope == Scope::Namespaced);
        served.filter_map(|served| Some((served, self.storage.collection(served.collection)?)))
    }
}
