//! What the garbage collector knows of one object.
//!
//! - **In:** the kind, key and metadata of an object.
//! - **Out:** its uid, its owner references, and how far its deletion is.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::{
    collector::{Action, Step},
    objects::{
        Key, Object,
        propagation::{FOREGROUND, ORPHAN},
    },
    registry::kind::Kind,
};

pub(crate) type Uid = Box<str>;

/// An object, as far as the garbage collector needs it.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(super) kind: Arc<Kind>,
    pub(super) key: Key,
    pub(super) uid: Uid,
    pub(super) references: Vec<Reference>,
    pub(super) is_being_deleted: bool,
    /// The object has the finalizer `orphan`.
    pub(super) orphans: bool,
    /// The object has the finalizer `foregroundDeletion`.
    pub(super) is_foreground: bool,
}

/// An owner reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) api_version: Box<str>,
    pub(crate) kind: Box<str>,
    pub(super) name: Box<str>,
    pub(super) uid: Uid,
    /// `blockOwnerDeletion`.
    pub(super) blocks: bool,
}

impl Node {
    pub(crate) fn new(kind: Arc<Kind>, key: Key, object: &Object) -> Self {
        let references = object.metadata.get("ownerReferences").and_then(Value::as_array);
        let references = references.into_iter().flatten().filter_map(Value::as_object).map(Reference::new);
        let finalizers = object.finalizers();
        Self {
            kind,
            key,
            uid: object.text("uid").into(),
            references: references.collect(),
            is_being_deleted: object.is_being_deleted(),
            orphans: finalizers.contains(&ORPHAN),
            is_foreground: finalizers.contains(&FOREGROUND),
        }
    }

    pub(crate) fn uid(&self) -> &Uid {
        &self.uid
    }

    /// Returns true if the object is being deleted and its dependents are to lose it first.
    pub(super) fn is_orphaning(&self) -> bool {
        self.is_being_deleted && self.orphans
    }

    /// Returns true if the object is being deleted and its dependents are to be deleted first.
    pub(super) fn is_waiting_for_dependents(&self) -> bool {
        self.is_being_deleted && self.is_foreground
    }

    pub(super) fn step(&self, action: Action) -> Step {
        Step { kind: self.kind.clone(), key: self.key.clone(), action }
    }
}

impl Reference {
    fn new(fields: &Map<String, Value>) -> Self {
        let text = |field| fields.get(field).and_then(Value::as_str).unwrap_or_default().into();
        Self {
            api_version: text("apiVersion"),
            kind: text("kind"),
            name: text("name"),
            uid: text("uid"),
            blocks: fields.get("blockOwnerDeletion").and_then(Value::as_bool).unwrap_or_default(),
        }
    }
}
