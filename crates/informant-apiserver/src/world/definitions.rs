//! Kinds come and go with their definitions, and with kinds their objects.
//!
//! - **In:** that a definition is there, is to go, or is gone; that an object is gone.
//! - **Out:** kinds that are served or not, and definitions that wait for the finalizers of their objects.
//! - **Knows nothing of:** what is in a definition (`registry::definition`).

use std::sync::Arc;

use crate::error::ApiError;
use crate::objects::Key;
use crate::objects::encoded::Encoded;
use crate::objects::rules;
use crate::objects::rules::Part;
use crate::objects::rules::Preconditions;
use crate::registry::Served;
use crate::registry::definition;
use crate::registry::kind::Kind;
use crate::registry::kind::Origin;
use crate::storage::Backup;
use crate::storage::Collection;
use crate::world::Run;
use crate::world::World;

impl World {
    /// There is a definition of this kind. Built-in ones stay what they are.
    pub(super) fn define(&mut self, kind: Kind) {
        match self.registry.exactly(&kind.group, &kind.plural) {
            Some(before) if before.kind.origin == Origin::BuiltIn || *before.kind == kind => {}
            Some(before) if before.kind.scope == kind.scope => {
                before.collection = self.storage.move_collection(before.collection, kind.clone());
                before.kind = Arc::new(kind);
            }
            Some(_) | None => self.add_kind(kind),
        }
    }

    /// The definition of this name is gone, whatever was in it.
    pub(super) fn undefine(&mut self, name: &str) {
        if let Some(served) = self.defined(name) {
            self.end_kind(&served.kind.group, &served.kind.plural);
        }
    }

    /// Goes to the state of a backup; kinds come and go with their definitions.
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
    }

    /// Deletes the objects of a definition; says whether some of them wait for their finalizers.
    pub(super) fn delete_defined(&mut self, name: &str, now: &str) -> Result<bool, ApiError> {
        let Some(served) = self.defined(name) else { return Ok(false) };
        let objects = self.storage.collection(served.collection).map(Collection::objects);
        let keys: Vec<_> = objects.into_iter().flatten().map(|(key, _)| key.clone()).collect();
        for key in keys {
            self.delete(&served, key, &Preconditions::default(), now, Run::Real)?;
        }
        Ok(!self.is_empty(&served))
    }

    /// An object is gone: its definition may have waited for that.
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

    /// While a definition waits for its objects to go, none comes.
    pub(super) fn check_open(&self, served: &Served, name: &str) -> Result<(), ApiError> {
        match self.definition_that_goes(&served.kind) {
            Some(_) => {
                let why = "create not allowed while custom resource definition is terminating";
                Err(ApiError::forbidden(&served.kind, name, why))
            }
            None => Ok(()),
        }
    }

    /// The definition of a kind, if it is being deleted and waits for its objects, and what definitions are.
    fn definition_that_goes(&self, kind: &Kind) -> Option<(Served, Arc<Encoded>)> {
        if kind.origin == Origin::BuiltIn {
            return None;
        }
        let definitions = self.registry.find(definition::RESOURCE)?;
        let found = self.get(definitions, &Key::new("", &kind.resource())).ok()?;
        let definition = found.decode();
        (definition.is_being_deleted() && definition::waits(&definition)).then(|| (definitions.clone(), found.clone()))
    }

    /// The kind that the definition of this name defines.
    fn defined(&mut self, name: &str) -> Option<Served> {
        let (plural, group) = name.split_once('.')?;
        self.registry.exactly(group, plural).filter(|served| served.kind.origin == Origin::Custom).cloned()
    }

    fn is_empty(&self, served: &Served) -> bool {
        self.storage.collection(served.collection).is_none_or(|collection| collection.all().is_empty())
    }
}
