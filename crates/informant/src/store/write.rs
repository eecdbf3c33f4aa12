//! [`WriteBatch`], the writes that are applied at once, and [`Applied`], their result.

use std::marker::PhantomData;

use derive_where::derive_where;

use crate::{Cached, Key, ResourceVersion, error::IndexError, object::Erased};

/// Writes to a cache that become visible together.
///
/// ```
/// use informant::{Cached, Identity, Key, pipeline::{Indexer, WriteBatch}};
///
/// let stock = Indexer::new();
/// let apples = Key::namespaced("shop", "apples");
/// let mut batch = WriteBatch::new();
/// batch.upsert(Cached::new(Identity::of_key(apples.clone()), 12));
/// batch.at("7".into());
///
/// let applied = stock.apply(batch);
///
/// assert!(applied.replacements[0].old.is_none());
/// assert_eq!(*stock.lister().get(&apples).unwrap(), 12);
/// assert_eq!(stock.lister().version(), Some("7".into()));
/// ```
#[derive_where(Debug, Default)]
pub struct WriteBatch<O> {
    /// `new` is the object that a write stores; `None` if it removes one. Applying the batch sets `old` to the replaced object. If `old` is
    /// set before the batch is applied, the cache has that object, and the write changes nothing.
    pub(super) writes: Vec<Replacement<Erased>>,
    /// INV-W1: the keys of the writes that remove an object, in the same order.
    pub(super) removed: Vec<Key>,
    pub(super) version: Option<ResourceVersion>,
    object_type: PhantomData<fn(O) -> O>,
}

/// The result of a batch.
#[derive_where(Debug)]
pub struct Applied<O> {
    /// The result of each write, in the order of the writes.
    pub replacements: Vec<Replacement<O>>,
    /// The panics of index functions. Their objects are stored, but these indexes do not find them.
    pub index_panics: Vec<IndexError>,
    /// The number of objects in the cache after the batch.
    pub objects: usize,
}

/// The result of one write: the objects with its key before and after it.
#[derive_where(Debug)]
pub struct Replacement<O> {
    /// The object before the write.
    pub old: Option<Cached<O>>,
    /// The object after the write.
    pub new: Option<Cached<O>>,
}

impl<O> WriteBatch<O> {
    /// Returns an empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns an empty batch with room for this number of writes.
    pub fn with_capacity(writes: usize) -> Self {
        Self { writes: Vec::with_capacity(writes), ..Self::default() }
    }

    /// Stores an object, replacing the one with the same key.
    pub fn upsert(&mut self, object: Cached<O>) {
        self.writes.push(Replacement { old: None, new: Some(object.erase()) });
    }

    /// Removes the object with a key, if there is one.
    pub fn remove(&mut self, key: Key) {
        self.writes.push(Replacement { old: None, new: None });
        self.removed.push(key);
    }

    /// Sets the version that the cache has when the batch is applied. Default: the version does not change.
    pub fn at(&mut self, version: ResourceVersion) {
        self.version = Some(version);
    }

    /// Adds a write that changes nothing: its result is the object that the cache has already, which is not indexed again.
    pub(crate) fn keep(&mut self, stored: Cached<Erased>) {
        self.writes.push(Replacement { old: Some(stored), new: None });
    }

    /// Returns the number of writes.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Returns true if there are no writes.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Erases the object type.
    pub(super) fn erase(self) -> WriteBatch<Erased> {
        let Self { writes, removed, version, object_type: _ } = self;
        WriteBatch { writes, removed, version, object_type: PhantomData }
    }

    /// Returns the objects that the batch stores.
    pub(super) fn upserts(&self) -> impl Iterator<Item = &Cached<Erased>> {
        self.writes.iter().filter_map(|write| write.new.as_ref())
    }
}

impl Applied<Erased> {
    /// Restores the object type, as [`Cached::typed`] does.
    pub(super) fn typed<O>(self) -> Applied<O> {
        let typed = |Replacement { old, new }: Replacement<_>| Replacement {
            old: old.map(Cached::typed),
            new: new.map(Cached::typed),
        };
        let Self { replacements, index_panics, objects } = self;
        Applied { replacements: replacements.into_iter().map(typed).collect(), index_panics, objects }
    }
}
