//! Garbage collection: what the collector decides is carried out here, with the ordinary operations of the world.
//!
//! - **In:** each written object; the end of an operation.
//! - **Out:** deleted and changed objects.
//! - **Knows nothing of:** when an object is garbage (`collector`).

use std::sync::Arc;

use serde_json::Value;

use crate::{
    apply,
    apply::Author,
    collector::{Action, Collector, Node, Step, Uid},
    error::ApiError,
    objects::{Key, Object, encoded::Change, propagation, rules, rules::DeleteTerms},
    registry::{
        Registry, Served,
        kind::{Kind, Origin},
    },
    storage::Collection,
    world::{Run, World},
};

impl World {
    /// Switches garbage collection on.
    pub(crate) fn start_collector(&mut self) {
        let mut collector = Collector::default();
        for (served, key, object) in self.collectable_objects() {
            collector.applied(Node::new(served.kind.clone(), key.clone(), &object));
        }
        self.collector = Some(collector);
    }

    /// After all objects have been replaced: starts again with the objects that are stored now.
    pub(super) fn restart_collector(&mut self) {
        if self.collects_garbage() {
            self.start_collector();
        }
    }

    pub(crate) fn collects_garbage(&self) -> bool {
        self.collector.is_some()
    }

    pub(crate) fn has_garbage(&self) -> bool {
        self.collector.as_ref().is_some_and(Collector::has_work)
    }

    /// Deletes and changes objects until no further one needs it.
    pub(crate) fn collect_garbage(&mut self, now: &str) {
        while self.has_garbage() {
            let registry = &self.registry;
            let steps = self.collector.as_mut().map(|collector| {
                collector.next(|reference| kind_of(registry, &reference.api_version, &reference.kind))
            });
            for step in steps.into_iter().flatten() {
                // A step fails only if an earlier one has deleted the object.
                let _ = self.carry_out_step(step, now);
            }
        }
    }

    fn carry_out_step(&mut self, step: Step, now: &str) -> Result<(), ApiError> {
        let served =
            self.registry.versions(&step.kind.group, &step.kind.plural).next().cloned().ok_or(ApiError::UnknownPath)?;
        let old = self.get(&served, &step.key)?.clone();
        let before = old.decode();
        let mut next = before.clone();
        match step.action {
            Action::Delete(propagation) => {
                return self.delete(&served, step.key, &DeleteTerms::of(propagation), now, Run::Real).map(drop);
            }
            Action::Disown(owners) => change_list(&mut next, "ownerReferences", |list| {
                list.retain(|owner| !owners.iter().any(|uid| owner["uid"] == **uid));
            }),
            Action::Unblock => change_list(&mut next, "ownerReferences", |list| {
                for owner in list.iter_mut().filter(|owner| owner["blockOwnerDeletion"] == true) {
                    owner["blockOwnerDeletion"] = false.into();
                }
            }),
            Action::RemoveFinalizer(finalizer) => {
                change_list(&mut next, "finalizers", |list| list.retain(|one| one != finalizer));
            }
        }
        if self.tracks_fields {
            let manager = "kube-controller-manager".to_owned();
            let author = Author { manager, subresource: None, time: now.to_owned() };
            next.managed = apply::updated(&served.kind, Some(&before), &next, &author);
        }
        let updated = rules::settle(&served.kind, &before, next)?;
        self.carry_out(&served, step.key, old, updated, Run::Real).map(drop)
    }

    /// The object as the collector needs it; `None` without garbage collection, and for kinds that take no part in it.
    pub(super) fn node(&self, served: &Served, key: &Key, object: &Object) -> Option<Node> {
        let is_needed = self.collects_garbage() && propagation::takes_part(&served.kind);
        is_needed.then(|| Node::new(served.kind.clone(), key.clone(), object))
    }

    /// Reports a written object to the collector.
    pub(super) fn record(&mut self, change: Change, node: Option<Node>) {
        let (Some(collector), Some(node)) = (&mut self.collector, node) else { return };
        match change {
            Change::Added | Change::Modified => collector.applied(node),
            Change::Deleted => collector.deleted(node.uid()),
        }
    }

    /// Reports a new kind, or a new version of one, to the collector.
    pub(super) fn note_added_kind(&mut self) {
        if let Some(collector) = &mut self.collector {
            collector.kind_added();
        }
    }

    /// Reports all objects of a kind that is about to be removed as deleted.
    pub(super) fn record_end_of(&mut self, served: &Served) {
        let Some(collector) = &mut self.collector else { return };
        let objects = self.storage.collection(served.collection).map(Collection::objects);
        for (_, object) in objects.into_iter().flatten() {
            collector.deleted(&Uid::from(object.decode().text("uid")));
        }
    }

    /// All objects that take part in garbage collection.
    fn collectable_objects(&self) -> impl Iterator<Item = (&Served, &Key, Object)> {
        let is_stored = |served: &&Served| {
            let mut versions = self.registry.versions(&served.kind.group, &served.kind.plural);
            served.kind.origin == Origin::BuiltIn
                || versions.next().is_some_and(|first| first.collection == served.collection)
        };
        let served = self.registry.served().filter(|served| propagation::takes_part(&served.kind)).filter(is_stored);
        let collections = served.filter_map(|served| Some((served, self.storage.collection(served.collection)?)));
        collections.flat_map(|(served, collection)| {
            collection.objects().map(move |(key, object)| (served, key, object.decode()))
        })
    }
}

/// The kind that an owner reference names.
fn kind_of(registry: &Registry, api_version: &str, kind: &str) -> Option<Arc<Kind>> {
    let mut served = registry.served().map(|served| &served.kind);
    served.find(|served| *served.kind == *kind && served.api_version() == api_version).cloned()
}

/// Changes a list in the metadata, and removes it if it is then empty.
fn change_list(object: &mut Object, field: &str, change: impl FnOnce(&mut Vec<Value>)) {
    let Some(Value::Array(list)) = object.metadata.get_mut(field) else { return };
    change(list);
    if list.is_empty() {
        object.metadata.remove(field);
    }
}
