//! The state of the server without HTTP, locks, waiting and clocks: kinds, objects, and the operations on them.
//!
//! - **In:** one operation at a time, with the current time.
//! - **Out:** the objects for the response, or the error that kube-apiserver sends.
//!
//! `applications` are server-side applies, `definitions` adds and removes kinds with their definitions, `garbage` deletes objects with
//! their owners, `namespaces` deletes objects with their namespace, `patches` applies patches and scales, `pods` evicts and binds pods.

mod applications;
mod definitions;
mod garbage;
pub(crate) mod namespaces;
mod patches;
mod pods;

use std::sync::Arc;

use crate::{
    apply,
    collector::Collector,
    error::ApiError,
    list::{ListQuery, Page},
    objects::{
        Key, Object, custom, defaults,
        encoded::{Change, Encoded},
        rules,
        rules::{Birth, DeleteTerms, Deletion, Part, Trust, Updated},
        validate, views,
    },
    registry::{
        Registry, Served, definition,
        kind::{Kind, Origin, Scope},
    },
    storage::{CollectionId, HistoryLimits, Storage},
    world::namespaces::NamespaceCheck,
};

pub(crate) use crate::objects::rules::Run;

/// The kinds and objects of the server.
pub(crate) struct World {
    pub(crate) registry: Registry,
    pub(crate) storage: Storage,
    /// The random generator of uids and generated names.
    chance: fastrand::Rng,
    namespace_check: NamespaceCheck,
    /// Whether managed fields are kept up to date.
    pub(crate) tracks_fields: bool,
    /// `None` without garbage collection.
    collector: Option<Collector>,
}

/// The result of an update.
pub(crate) enum Stored {
    /// The object did not exist.
    Created(Arc<Encoded>),
    Updated(Arc<Encoded>),
}

impl Stored {
    pub(crate) fn into_object(self) -> Arc<Encoded> {
        match self {
            Self::Created(object) | Self::Updated(object) => object,
        }
    }
}

/// The result of a delete.
pub(crate) enum Deleted {
    /// The object has finalizers and stays, in this state.
    Waits(Arc<Encoded>),
    /// The object is deleted; this was its last state.
    Gone(Arc<Encoded>),
}

impl World {
    pub(crate) fn new(history: HistoryLimits, seed: u64, namespace_check: NamespaceCheck) -> Self {
        let chance = fastrand::Rng::with_seed(seed);
        let (registry, storage) = (Registry::default(), Storage::new(history));
        Self { registry, storage, chance, namespace_check, tracks_fields: true, collector: None }
    }

    /// Serves a kind. Removes a kind of the same group and plural first.
    pub(crate) fn add_kind(&mut self, kind: Kind) {
        self.end_kind(&kind.group, &kind.plural);
        self.add_version(kind);
    }

    /// Serves a kind in addition to other versions of it.
    pub(crate) fn add_version(&mut self, kind: Kind) {
        let collection = self.storage.add_collection(kind.clone());
        self.registry.add(kind, collection);
        self.note_added_kind();
    }

    /// Stops serving a kind: its objects are deleted and its watches end. Returns false if there is no such kind.
    pub(crate) fn remove_kind(&mut self, name: &str) -> bool {
        let Some(kind) = self.registry.find(name).map(|served| Arc::clone(&served.kind)) else { return false };
        self.end_kind(&kind.group, &kind.plural);
        true
    }

    /// Removes a kind in all its versions, and deletes its objects.
    fn end_kind(&mut self, group: &str, plural: &str) {
        for served in self.registry.remove_all_versions(group, plural) {
            self.record_end_of(&served);
            self.storage.end_collection(served.collection);
        }
        self.finish_namespace_deletions();
    }

    pub(crate) fn get(&self, served: &Served, key: &Key) -> Result<&Arc<Encoded>, ApiError> {
        let collection = self.storage.collection(served.collection).ok_or(ApiError::UnknownPath)?;
        collection.get(key).ok_or_else(|| ApiError::not_found(&served.kind, key.name()))
    }

    pub(crate) fn create(
        &mut self,
        served: &Served,
        namespace: &str,
        mut object: Object,
        now: &str,
        run: Run,
    ) -> Result<Arc<Encoded>, ApiError> {
        rules::check_request_namespace(&served.kind, namespace, &object)?;
        self.check_namespace(served, namespace, object.text("name"))?;
        if let Some(author) = object.author.take().filter(|_| self.tracks_fields) {
            if !object.text("name").is_empty() {
                defaults::normalize(&served.kind, &mut object);
            }
            object.managed = apply::updated(&served.kind, None, &object, &author);
        }
        if definition::defines(&served.kind) {
            definition::check_new(&served.kind, &object)?;
        }
        self.create_as(served, namespace, object, now, run, Trust::Client)
    }

    fn create_as(
        &mut self,
        served: &Served,
        namespace: &str,
        object: Object,
        now: &str,
        run: Run,
        trust: Trust,
    ) -> Result<Arc<Encoded>, ApiError> {
        if trust == Trust::Client {
            self.check_open(served, object.text("name"))?;
        }
        let birth = Birth { uid: self.uid(), now, suffix: self.suffix() };
        let (key, object) = rules::create(&served.kind, namespace, object, birth, trust, run)?;
        if self.get(served, &key).is_ok() {
            return Err(ApiError::already_exists(&served.kind, key.name()));
        }
        self.write(served, key, Change::Added, object, run)
    }

    pub(crate) fn update(
        &mut self,
        served: &Served,
        key: Key,
        mut object: Object,
        part: Part,
        now: &str,
        run: Run,
    ) -> Result<Stored, ApiError> {
        let old = match self.get(served, &key) {
            Ok(old) => old.clone(),
            Err(ApiError::NotFound { .. }) if served.kind.creates_on_update => {
                if !object.text("uid").is_empty() {
                    let why = format!(
                        "Precondition failed: UID in precondition: {}, UID in object meta: ",
                        object.text("uid")
                    );
                    return Err(ApiError::conflict(&served.kind, key.name(), why));
                }
                object.metadata.remove("resourceVersion");
                return self.create(served, key.namespace(), object, now, run).map(Stored::Created);
            }
            Err(error) => return Err(error),
        };
        object.author = object.author.take().filter(|_| self.tracks_fields);
        let before = old.decode();
        if definition::defines(&served.kind) {
            definition::check_change(&served.kind, &before, &object, part)?;
        }
        if part == Part::Main && validate::pod(&served.kind, &before).is_ok() {
            validate::pod(&served.kind, &object)?;
        }
        let updated = rules::update(&served.kind, &key, &before, object, part)?;
        self.carry_out(served, key, old, updated, run).map(Stored::Updated)
    }

    /// Creates or replaces an object, including its status, without a check of its version.
    pub(crate) fn put(&mut self, served: &Served, mut object: Object, now: &str) -> Result<Arc<Encoded>, ApiError> {
        if served.kind.scope == Scope::Cluster {
            object.metadata.remove("namespace");
        }
        let namespace = object.text("namespace").to_owned();
        if served.kind.scope == Scope::Namespaced && namespace.is_empty() {
            return Err(ApiError::BadRequest(format!(
                "cannot store a {} without metadata.namespace: the kind is namespaced",
                served.kind.kind
            )));
        }
        let mut object = custom::normalized(&served.kind, object);
        let key = Key::new(&namespace, object.text("name"));
        let Ok(old) = self.get(served, &key).cloned() else {
            object.metadata.remove("resourceVersion");
            return self.create_as(served, &namespace, object, now, Run::Real, Trust::Owner);
        };
        let updated = rules::put(&served.kind, &key, &old.decode(), object)?;
        self.carry_out(served, key, old, updated, Run::Real)
    }

    fn carry_out(
        &mut self,
        served: &Served,
        key: Key,
        old: Arc<Encoded>,
        updated: Updated,
        run: Run,
    ) -> Result<Arc<Encoded>, ApiError> {
        match updated {
            Updated::Same => Ok(old),
            Updated::Changed(object) => self.write(served, key, Change::Modified, object, run),
            // Watches receive the last stored state, and the client receives the object that it sent.
            Updated::Gone(sent) => {
                self.write(served, key, Change::Deleted, old.decode(), run)?;
                Ok(Arc::new(Encoded::new(&served.kind, Change::Modified, &sent)))
            }
        }
    }

    pub(crate) fn delete(
        &mut self,
        served: &Served,
        key: Key,
        terms: &DeleteTerms,
        now: &str,
        run: Run,
    ) -> Result<Deleted, ApiError> {
        if definition::defines(&served.kind) {
            return self.delete_definition(served, key, terms, now, run);
        }
        let old = self.get(served, &key)?.clone();
        if served.kind.is_namespace() {
            namespaces::check_deletable(&served.kind, key.name())?;
        }
        let deletion = rules::delete(&served.kind, &key, &old.decode(), terms, now)?;
        let name = key.name().to_owned();
        let deleted = match deletion {
            Deletion::Same => Deleted::Waits(old),
            Deletion::Marked(object) => Deleted::Waits(self.write(served, key, Change::Modified, object, run)?),
            Deletion::Gone(object) => Deleted::Gone(self.write(served, key, Change::Deleted, object, run)?),
        };
        if served.kind.is_namespace() && run == Run::Real {
            self.empty_namespace(&name, now)?;
        }
        Ok(deleted)
    }

    /// Deletes all objects of a list, and returns the list.
    pub(crate) fn delete_collection(
        &mut self,
        served: &Served,
        query: &ListQuery,
        terms: &DeleteTerms,
        now: &str,
        run: Run,
    ) -> Result<Page, ApiError> {
        let page = query.run(&self.storage, served.collection)?;
        for object in &page.objects {
            let old = object.decode();
            let key = Key::new(old.text("namespace"), old.text("name"));
            match self.delete(served, key, terms, now, run) {
                // A page at an older version may contain objects that are already deleted.
                Ok(_) | Err(ApiError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(page)
    }

    fn write(
        &mut self,
        served: &Served,
        key: Key,
        change: Change,
        mut object: Object,
        run: Run,
    ) -> Result<Arc<Encoded>, ApiError> {
        let is_definition = definition::defines(&served.kind);
        let defined = is_definition.then(|| definition::read(&served.kind, &object).ok()).flatten();
        if let Some(kind) = defined.as_ref().and_then(|kinds| kinds.first()) {
            definition::establish(&mut object, kind);
        }
        if run == Run::Dry {
            return Ok(Arc::new(Encoded::new(&served.kind, change, &object)));
        }
        let namespace = key.namespace().to_owned();
        let (stored, object) = self.stored_as(served, object);
        let views = self.views_of(served, &stored, &object);
        let node = self.node(&stored, &key, &object);
        let mut written =
            self.storage.write(stored.collection, key.clone(), change, object).ok_or(ApiError::UnknownPath)?;
        self.record(change, node);
        for (collection, object) in views {
            let view = self.storage.write_view(collection, key.clone(), change, object);
            if let Some(view) = view.filter(|_| collection == served.collection) {
                written = view;
            }
        }
        if change == Change::Deleted && !namespace.is_empty() {
            self.finish_namespace_deletion(&namespace);
        }
        match (change, is_definition.then_some(key), defined) {
            (Change::Deleted, Some(key), _) => self.undefine(key.name()),
            (Change::Deleted, None, _) => self.release_definition(served)?,
            (Change::Added | Change::Modified, _, Some(kinds)) => self.define(kinds),
            (Change::Added | Change::Modified, _, None) => {}
        }
        Ok(written)
    }

    /// The version of a kind in which objects are stored, and an object in that version.
    fn stored_as(&self, served: &Served, object: Object) -> (Served, Object) {
        let kind = &served.kind;
        let stored = (kind.origin == Origin::Custom).then(|| self.registry.versions(&kind.group, &kind.plural).next());
        match stored.flatten() {
            Some(stored) if stored.collection != served.collection => {
                (stored.clone(), custom::normalized(&stored.kind, object))
            }
            Some(_) | None => (served.clone(), object),
        }
    }

    /// A stored object in the other versions of its kind or as another kind, with their collections.
    fn views_of(&self, served: &Served, stored: &Served, object: &Object) -> Vec<(CollectionId, Object)> {
        if served.kind.origin == Origin::BuiltIn {
            return self.view_of(&served.kind, object).into_iter().collect();
        }
        let versions = self.registry.versions(&served.kind.group, &served.kind.plural);
        let others = versions.filter(|version| version.collection != stored.collection);
        others.map(|version| (version.collection, custom::pruned(&version.kind, object.clone()))).collect()
    }

    /// The object as the other kind shows it, and the collection of that kind.
    fn view_of(&self, kind: &Kind, object: &Object) -> Option<(CollectionId, Object)> {
        let other_kind = views::other_kind_of(kind)?;
        let served = self.registry.at(other_kind.group, other_kind.version, other_kind.plural)?;
        // A kind that a test registered has its own objects.
        if served.kind.origin != Origin::BuiltIn {
            return None;
        }
        Some((served.collection, other_kind.convert(object)))
    }

    /// A random uid. The same seed gives the same uids.
    fn uid(&mut self) -> String {
        let random = self.chance.u128(..);
        // Version 4, variant 1.
        let marked = random & !(0xf << 76) & !(0b11 << 62) | (0x4 << 76) | (0b10 << 62);
        let text = format!("{marked:032x}");
        [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
    }

    /// The random suffix of a generated name, without vowels so that it forms no words.
    fn suffix(&mut self) -> String {
        const LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
        (0..5).map(|_| char::from(LETTERS[self.chance.usize(..LETTERS.len())])).collect()
    }
}

/// Checks that the object has the name in the path.
pub(crate) fn check_name(object: &Object, key: &Key) -> Result<(), ApiError> {
    let (named, name) = (object.text("name"), key.name());
    match named == name {
        true => Ok(()),
        false => Err(ApiError::BadRequest(format!(
            "the name of the object ({named}) does not match the name on the URL ({name})"
        ))),
    }
}
