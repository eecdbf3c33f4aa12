//! Adds and removes kinds when their definitions are created and deleted.
//!
//! - **In:** created, changed and deleted definitions; deleted objects.
//! - **Out:** kinds that are served; definitions that stay until the finalizers of their objects are removed.
//! - **Knows nothing of:** the content of a definition (`registry::definition`).

use std::sync::Arc;

use crate::{
    error::ApiError,
    objects::{
        Key,
        encoded::Encoded,
        rules,
        rules::{DeleteTerms, Part},
    },
    registry::{
        Served, definition,
        kind::{Kind, Origin},
    },
    storage::{Backup, Collection},
    world::{Run, World},
};

impl World {
    /// Serves the kind of a definition. Does not replace built-in kinds.
    pub(super) fn define(&mut self, kind: Kind) {
        match self.registry.exactly(&kind.group, &kind.plural) {
            Some(before) if before.kind.origin == Origin::BuiltIn || *before.kind == kind => {}
            Some(before) if before.kind.scope == kind.scope => {
                before.collection = self.storage.move_collection(before.collection, kind.clone());
                before.kind = Arc::new(kind);
                if let Some(collector) = &mut self.collector {
                    collector.kind_added();
                }
            }
            Some(_) | None => self.add_kind(kind),
        }
    }

    /// Stops serving the kind of a deleted definition.
    pub(super) fn undefine(&mut self, name: &str) {
        if let Some(served) = self.defined(name) {
            self.end_kind(&served.kind.group, &served.kind.plural);
        }
    }

    /// Restores a backup. Adds and removes kinds, so that they match the definitions in the backup.
    pub(crate) fn restore(&mut self, backup: &Backup) {
        if let Some(definitions) = self.registry.find(definition::RESOURCE).cloned() {
            let now = self.storage.collection(definitions.collection).map(Collection::objects);
            let names: Vec<_> = now.into_iter().flatten().map(|(key, _)| key.name().to_owned()).collect();
            let then: Vec<_> = backup.objects_of(&definitions.kind).map(|object| object.decode()).collect();
            for name in names.iter().filter(|name| then.iter().all(|definition| definition.text("name") != **name)) {
                self.undefine(name);
            }
            for kind in then.iter().filter_map(|object| definition::read(&definitions.kind, object).ok()) {
                self.define(kind);
            }
        }
        self.storage.restore(backup);
        self.restart_collector();
    }

    /// Deletes the objects of a definition. Returns true if some of them have finalizers and stay.
    pub(super) fn delete_defined(&mut self, name: &str, now: &str) -> Result<bool, ApiError> {
        let Some(served) = self.defined(name) else { return Ok(false) };
        let objects = self.storage.collection(served.collection).map(Collection::objects);
        let keys: Vec<_> = objects.into_iter().flatten().map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.delete(&served, key, &DeleteTerms::default(), now, Run::Real)?;
        }
        Ok(!self.is_empty(&served))
    }

    /// After the delete of an object: removes the finalizer of its definition if that is being deleted and has no objects left.
    pub(super) fn release_definition(&mut self, served: &Served) -> Result<(), ApiError> {
        if !self.is_empty(served) {
            return Ok(());
        }
        let Some((definitions, old)) = self.definition_that_goes(&served.kind) else { return Ok(()) };
        let (before, key) = (old.decode(), Key::new("", &served.kind.resource()));
        let released = definition::released(&before);
        let updated = rules::update(&definitions.kind, &key, &before, released, Part::Main)?;
        self.carry_out(&definitions, key, old, updated, Run::Real).map(drop)
    }

    /// Rejects new objects while their definition is being deleted.
    pub(super) fn check_open(&self, served: &Served, name: &str) -> Result<(), ApiError> {
        match self.definition_that_goes(&served.kind) {
            Some(_) => {
                let why = "create not allowed while custom resource definition is terminating";
                Err(ApiError::forbidden(&served.kind, name, why))
            }
            None => Ok(()),
        }
    }

    /// The definition of a kind if it is being deleted and still has objects, with the kind of definitions.
    fn definition_that_goes(&self, kind: &Kind) -> Option<(Served, Arc<Encoded>)> {
        if kind.origin == Origin::BuiltIn {
            return None;
        }
        let definitions = self.registry.find(definition::RESOURCE)?;
        let found = self.get(definitions, &Key::new("", &kind.resource())).ok()?;
        let definition = found.decode();
        (definition.is_being_deleted() && definition::waits(&definition)).then(|| (definitions.clone(), found.clone()))
    }

    /// The kind of the definition with this name.
    fn defined(&mut self, name: &str) -> Option<Served> {
        let (plural, group) = name.split_once('.')?;
        self.registry.exactly(group, plural).filter(|served| served.kind.origin == Origin::Custom).cloned()
    }

    fn is_empty(&self, served: &Served) -> bool {
        self.storage.collection(served.collection).is_none_or(|collection| collection.all().is_empty())
    }
}
