//! What is written to the cache at once, and what that replaced.

use std::fmt;
use std::marker::PhantomData;

use super::IndexPanic;
use crate::Cached;
use crate::Key;
use crate::ResourceVersion;
use crate::object::Erased;

/// Writes that become visible together.
///
/// ```
/// use informant::{Cached, Key, object::Identity};
/// use informant::store::{Indexer, WriteBatch};
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
pub struct WriteBatch<O> {
    /// What each write stores; `None` if it removes an object. When it is applied, what it replaces is put beside it.
    pub(super) writes: Vec<Replacement<Erased>>,
    /// INV-W1: the keys of the writes that remove an object, in the same order.
    pub(super) removed: Vec<Key>,
    pub(super) version: Option<ResourceVersion>,
    /// An object of the uid and version of the stored one is not written: the stored one stays.
    pub(super) keeps_same_states: bool,
    object_type: PhantomData<fn(O) -> O>,
}

/// What a batch has done.
pub struct Applied<O> {
    /// What each write replaced, in the order of the writes.
    pub replacements: Vec<Replacement<O>>,
    /// Index functions that panicked. Their objects are stored all the same; those indexes do not find them.
    pub index_panics: Vec<IndexPanic>,
}

/// One write: what was there before, and what is there now.
pub struct Replacement<O> {
    /// What was there before.
    pub old: Option<Cached<O>>,
    /// What is there now.
    pub new: Option<Cached<O>>,
}

impl<O> WriteBatch<O> {
    /// A batch that does nothing.
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// A batch that does nothing, with room for so many writes.
    pub fn with_capacity(writes: usize) -> Self {
        Self {
            writes: Vec::with_capacity(writes),
            removed: Vec::new(),
            version: None,
            keeps_same_states: false,
            object_type: PhantomData,
        }
    }

    /// Stores an object in place of what has its key.
    pub fn upsert(&mut self, object: Cached<O>) {
        self.writes.push(Replacement { old: None, new: Some(object.erase()) });
    }

    /// Removes the object of a key; nothing happens if there is none.
    pub fn remove(&mut self, key: Key) {
        self.writes.push(Replacement { old: None, new: None });
        self.removed.push(key);
    }

    /// Says which version the cache has when the batch is applied. Without this it keeps its version.
    pub fn at(&mut self, version: ResourceVersion) {
        self.version = Some(version);
    }

    /// Leaves an object alone if what is to be stored in its place is the same state of it: same uid, same version.
    pub(crate) fn keep_same_states(&mut self) {
        self.keeps_same_states = true;
    }

    /// How many writes there are.
    pub fn len(&self) -> usize {
        self.writes.len()
    }

    /// Whether there are no writes.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Erases the object type.
    pub(super) fn erase(self) -> WriteBatch<Erased> {
        let Self { writes, removed, version, keeps_same_states, object_type: _ } = self;
        WriteBatch { writes, removed, version, keeps_same_states, object_type: PhantomData }
    }

    /// The objects that it stores.
    pub(super) fn upserts(&self) -> impl Iterator<Item = &Cached<Erased>> {
        self.writes.iter().filter_map(|write| write.new.as_ref())
    }
}

impl Applied<Erased> {
    /// Gives the objects a type again, as [`Cached::typed`] does.
    pub(super) fn typed<O>(self) -> Applied<O> {
        let typed = |Replacement { old, new }: Replacement<_>| Replacement {
            old: old.map(Cached::typed),
            new: new.map(Cached::typed),
        };
        Applied { replacements: self.replacements.into_iter().map(typed).collect(), index_panics: self.index_panics }
    }
}

impl<O> Default for WriteBatch<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O> fmt::Debug for WriteBatch<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteBatch").field("writes", &self.writes.len()).field("version", &self.version).finish()
    }
}

impl<O> fmt::Debug for Applied<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { replacements, index_panics } = self;
        f.debug_struct("Applied").field("replacements", replacements).field("index_panics", index_panics).finish()
    }
}

impl<O> fmt::Debug for Replacement<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replacement").field("old", &self.old).field("new", &self.new).finish()
    }
}
