//! What is written to the cache at once, and what that replaced.

use std::fmt;
use std::sync::Arc;

use super::IndexPanic;
use crate::Cached;
use crate::Key;
use crate::ResourceVersion;

/// Writes that become visible together.
///
/// ```
/// use std::sync::Arc;
/// use informant::{Cached, Identity, Key};
/// use informant::store::{Indexer, WriteBatch};
///
/// let stock = Indexer::new();
/// let apples = Key::namespaced("shop", "apples");
/// let mut batch = WriteBatch::new();
/// batch.upsert(Arc::new(Cached::new(Identity::of_key(apples.clone()), 12)));
/// batch.at("7".into());
///
/// let applied = stock.apply(batch);
///
/// assert!(applied.replacements[0].old.is_none());
/// assert_eq!(**stock.lister().get(&apples).unwrap(), 12);
/// assert_eq!(stock.lister().version(), Some("7".into()));
/// ```
pub struct WriteBatch<O> {
    pub(super) writes: Vec<Write<O>>,
    pub(super) version: Option<ResourceVersion>,
    /// An object of the uid and version of the stored one is not written: the stored one stays.
    pub(super) keeps_same_states: bool,
}

pub(super) enum Write<O> {
    Upsert(Arc<Cached<O>>),
    Remove(Key),
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
    pub old: Option<Arc<Cached<O>>>,
    /// What is there now.
    pub new: Option<Arc<Cached<O>>>,
}

impl<O> WriteBatch<O> {
    /// A batch that does nothing.
    pub fn new() -> Self {
        Self::with_capacity(0)
    }

    /// A batch that does nothing, with room for so many writes.
    pub fn with_capacity(writes: usize) -> Self {
        Self { writes: Vec::with_capacity(writes), version: None, keeps_same_states: false }
    }

    /// Stores an object in place of what has its key.
    pub fn upsert(&mut self, object: Arc<Cached<O>>) {
        self.writes.push(Write::Upsert(object));
    }

    /// Removes the object of a key; nothing happens if there is none.
    pub fn remove(&mut self, key: Key) {
        self.writes.push(Write::Remove(key));
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

    pub(super) fn upserts(&self) -> impl Iterator<Item = &Cached<O>> {
        self.writes.iter().filter_map(|write| match write {
            Write::Upsert(object) => Some(&**object),
            Write::Remove(_) => None,
        })
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
