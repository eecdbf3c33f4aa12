//! Adds and removes kinds when their definitions are created and deleted.
//!
//! - **In:** created, changed and deleted definitions; deleted objects.
//! - **Out:** kinds that are served; definitions that stay until the finalizers of their objects are removed.
//! - **Knows nothing of:** the content of a definition (`registry::definition`).

use std::sync::Arc;

use crate::{
    error::ApiError,
    objects::{
        Key, custom,
        encoded::{Change, Encoded},
        rules,
        rules::{DeleteTerms, Deletion, Part},
    },
    registry::{
        Served, definition,
        kind::{Kind, Origin},
    },
    storage::{Backup, Collection},
    world::{Deleted, Run, World},
};

impl World {
    /// Serves the kinds of a definition, the stored version first. Does not replace built-in kinds.
    ///
    /// If the definition changed, each version gets a new collection, and watches of the old ones end.
    pub(super) fn define(&mut self, kinds: Vec<Kind>) {
        let Some(stored) = kinds.first().cloned() else { return };
        let before: Vec<_> = self.registry.versions(&stored.group, &stored.plural).cloned().collect();
        let same = before.len() == kinds.len() && before.iter().zip(&kinds).all(|(before, kind)| *before.kind == *kind);
        match before.first() {
            Some(before) if before.kind.origin == Origin::BuiltIn || same => {}
            Some(first) if first.kind.scope == stored.scope => {
                let mut source = first.collection;
                let mut versions = Vec::new();
                for kind in kinds {
                    // The other versions are made from the one that is stored.
                    let convert = if versions.is_empty() { custom::normalized } else { custom::pruned };
                    let collection = self.storage.copy_collection(source, kind.clone(), convert);
                    if versions.is_empty() {
                        source = collection;
                    }
                    versions.push((kind, collection));
                }
                self.registry.replace(&stored.group, &stored.plural, versions);
                self.note_added_kind();
                before.iter().for_each(|served| self.storage.close_collection(served.collection));
            }
            Some(_) | None => {
                self.end_kind(&stored.group, &stored.plural);
                kinds.into_iter().for_each(|kind| self.add_version(kind));
            }
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
            for kinds in then.iter().filter_map(|object| definition::read(&definitions.kind, object).ok()) {
                self.define(kinds);
            }
        }
        self.storage.restore(backup);
        self.restart_collector();
    }

    /// Deletes a definition: marks it, deletes its objects, and removes it when none of them is left.
    pub(super) fn delete_definition(
        &mut self,
        definitions: &Served,
        key: Key,
        terms: &DeleteTerms,
        now: &str,
        run: Run,
    ) -> Result<Deleted, ApiError> {
        let old = self.get(definitions, &key)?.clone();
        let mut waiting = old.decode();
        // The first delete deletes the objects, and has no other effect.
        let terms = match waiting.is_being_deleted() {
            true => terms,
            false => &DeleteTerms { propagation: None, ..terms.clone() },
        };
        definition::wait(&mut waiting);
        let marked = match rules::delete(&definitions.kind, &key, &waiting, terms, now)? {
            Deletion::Same => return Ok(Deleted::Waits(old)),
            Deletion::Marked(object) | Deletion::Gone(object) => object,
        };
        let name = key.name().to_owned();
        let marked = self.write(definitions, key, Change::Modified, marked, run)?;
        if run == Run::Real {
            match self.defined(&name) {
                Some(served) => {
                    self.delete_all(&served, now)?;
                    self.release_definition(&served)?;
                }
                None => self.release(&name)?,
            }
        }
        Ok(Deleted::Waits(marked))
    }

    fn delete_all(&mut self, served: &Served, now: &str) -> Result<(), ApiError> {
        let objects = self.storage.collection(served.collection).map(Collection::objects);
        let keys: Vec<_> = objects.into_iter().flatten().map(|(key, _)| key.clone()).collect();
        keys.into_iter().try_for_each(|key| self.delete(served, key, &DeleteTerms::default(), now, Run::Real).map(drop))
    }

    /// After the delete of an object: removes the finalizer of its definition if that is being deleted and has no objects left.
    pub(super) fn release_definition(&mut self, served: &Served) -> Result<(), ApiError> {
        match served.kind.origin == Origin::Custom && self.is_empty(served) {
            true => self.release(&served.kind.resource()),
            false => Ok(()),
        }
    }

    /// Removes the finalizer of a definition that is being deleted.
    fn release(&mut self, name: &str) -> Result<(), ApiError> {
        let Some((definitions, old)) = self.definition_that_goes(name) else { return Ok(()) };
        let (before, key) = (old.decode(), Key::new("", name));
        let released = definition::released(&before);
        let updated = rules::update(&definitions.kind, &key, &before, released, Part::Main)?;
        self.carry_out(&definitions, key, old, updated, Run::Real).map(drop)
    }

    /// Rejects new objects while their definition is being deleted.
    pub(super) fn check_open(&self, served: &Served, name: &str) -> Result<(), ApiError> {
        let is_custom = served.kind.origin == Origin::Custom;
        match is_custom && self.definition_that_goes(&served.kind.resource()).is_some() {
            true => {
                let why = "create not allowed while custom resource definition is terminating";
                Err(ApiError::forbidden(&served.kind, name, why))
            }
            false => Ok(()),
        }
    }

    /// The definition with this name if it is being deleted and still has objects, with the kind of definitions.
    fn definition_that_goes(&self, name: &str) -> Option<(Served, Arc<Encoded>)> {
        let definitions = self.registry.find(definition::RESOURCE)?;
        let found = self.get(definitions, &Key::new("", name)).ok()?;
        let definition = found.decode();
        (definition.is_being_deleted() && definition::waits(&definition)).then(|| (definitions.clone(), found.clone()))
    }

    /// The kind of the definition with this name.
    fn defined(&self, name: &str) -> Option<Served> {
        let (plural, group) = name.split_once('.')?;
        self.registry.versions(group, plural).next().filter(|served| served.kind.origin == Origin::Custom).cloned()
    }

    fn is_empty(&self, served: &Served) -> bool {
        self.storage.collection(served.collection).is_none_or(|collection| collection.all().is_empty())
    }
}
