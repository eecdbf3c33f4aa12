//! [`Indexer`], the [writer](super::writer) of a cache behind a lock, with the type of its objects.
//!
//! - **In:** batches of writes, relists, index functions.
//! - **Out:** the objects that were replaced; listers and indexes for readers.
//! - **Knows nothing of:** queues, handlers.

use std::{cell::RefCell, sync::Arc};

use derive_where::derive_where;
use parking_lot::ReentrantMutex;

use super::{
    Applied, Index, IndexFunction, IndexValue, IndexValues, Lister, WRITES_INSIDE_INDEX_FUNCTION, WriteBatch, Writer,
};
use crate::{Cached, Key, delta::Relist, error::IndexError};

/// Writes the cache of one kind. Readers use its [`lister`](Self::lister).
///
/// ```
/// use informant::{Cached, Identity, Key, pipeline::Indexer};
///
/// struct Pod { node: Option<&'static str> }
///
/// let pods = Indexer::new();
/// let by_node = pods.add_index("node", |pod: &Cached<Pod>| pod.node).unwrap();
/// let web = Identity::of_key(Key::namespaced("shop", "web"));
/// pods.upsert(Cached::new(web, Pod { node: Some("node-1") }));
///
/// assert_eq!(by_node.get("node-1").len(), 1);
/// assert_eq!(pods.lister().index("node").unwrap().get("node-1").len(), 1);
/// ```
#[derive_where(Debug)]
pub struct Indexer<O> {
    lister: Lister<O>,
    /// Locked for a whole write, including its index functions, which run before any reader has to wait.
    ///
    /// The lock is reentrant so that an index function that writes does not deadlock: the cell detects it, and the write panics.
    #[derive_where(skip(Debug))]
    writer: ReentrantMutex<RefCell<Writer>>,
}

impl<O> Indexer<O> {
    /// Creates an empty cache with an index by namespace.
    pub fn new() -> Self {
        Self::of_resource("objects")
    }

    /// As [`new`](Self::new), with the name of the objects in errors, such as "pods".
    pub fn of_resource(resource: impl Into<Arc<str>>) -> Self {
        let writer = Writer::new(resource.into());
        Self { lister: writer.lister(), writer: ReentrantMutex::new(RefCell::new(writer)) }
    }

    /// Returns a reader of this cache. It shows every write from the moment at which the writing call returns.
    pub fn lister(&self) -> Lister<O> {
        self.lister.clone()
    }

    /// Stores an object, and returns the object with the same key that it replaced. The cache's version does not change.
    pub fn upsert(&self, object: Cached<O>) -> Option<Cached<O>> {
        let mut batch = WriteBatch::with_capacity(1);
        batch.upsert(object);
        self.apply(batch).replacements.pop()?.old
    }

    /// Removes an object, and returns it. The cache's version does not change.
    pub fn remove(&self, key: &Key) -> Option<Cached<O>> {
        let mut batch = WriteBatch::with_capacity(1);
        batch.remove(key.clone());
        self.apply(batch).replacements.pop()?.old
    }

    /// Applies all writes of a batch at once: a reader sees either none of them or all of them.
    pub fn apply(&self, batch: WriteBatch<O>) -> Applied<O> {
        self.with_writer(|writer| writer.apply(batch.erase())).typed()
    }

    /// Replaces the content of the cache with a relist, at once. The result contains the removed objects first,
    /// then the listed objects in the order of the relist.
    ///
    /// If a key is listed twice, only the last object counts. If the relist contains an object as quarantined, the cache keeps the
    /// state that it has. A listed object that is the cached one itself ([`Cached::ptr_eq`]) is not indexed again.
    pub fn replace(&self, relist: &Relist<O>) -> Applied<O> {
        self.with_writer(|writer| writer.replace(relist)).typed()
    }

    /// Adds an index and fills it from the stored objects, while readers go on. Returns a handle for lookups;
    /// [`Lister::index`] finds the index by its name.
    ///
    /// The function returns the [values](IndexValues) of an object: an `Option`, an array, a `Vec`, or any other iterator of owned
    /// values. If every object has exactly one value, return `Some(value)`.
    /// [`informant::index`](crate::index) has ready-made ones, and [`index::text`](crate::index::text) for strings borrowed from the object.
    ///
    /// The function may read the cache, but not write to it. It must not block: batches are applied one after the other, and each waits for
    /// its index functions. If they take more than 100 ms for a batch (for each thousand objects of a larger batch), a warning is logged. If
    /// the function panics, the object is stored without values in this index; the panic is logged, and reported by
    /// [`apply`](Self::apply) and [`add_indexes`](Self::add_indexes).
    ///
    /// If the same function was added under the same name before, returns the existing index. Two functions are the same if they have the
    /// same type and capture nothing: a closure that a program evaluates twice, or a named function.
    ///
    /// # Errors
    ///
    /// When an index with that name exists, and its function may be another one.
    pub fn add_index<V: IndexValue, I: IndexValues<Value = V>>(
        &self,
        name: &str,
        values: impl Fn(&Cached<O>) -> I + Send + Sync + 'static,
    ) -> Result<Index<O, V>, IndexError> {
        let function = IndexFunction::new(name, values).into_any();
        self.with_writer(|writer| writer.add_index(function))
    }

    /// Adds several indexes, all or none, and returns the panics of their functions on stored objects.
    ///
    /// # Errors
    ///
    /// When an index with one of the names exists, and its function may be another one; then none is added.
    pub fn add_indexes(
        &self,
        functions: impl IntoIterator<Item = IndexFunction<O>>,
    ) -> Result<Vec<IndexError>, IndexError> {
        let functions = functions.into_iter().map(IndexFunction::into_any).collect();
        self.with_writer(|writer| writer.add_indexes(functions))
    }

    /// Waits for other writers, and calls `write` while no other thread writes.
    fn with_writer<R>(&self, write: impl FnOnce(&mut Writer) -> R) -> R {
        let writer = self.writer.lock();
        let Ok(mut writer) = writer.try_borrow_mut() else { panic!("{WRITES_INSIDE_INDEX_FUNCTION}") };
        write(&mut writer)
    }
}

#[cfg(test)]
impl<O> Indexer<O> {
    pub(super) fn check_invariants(&self) {
        self.with_writer(|writer| {
            let table = self.lister.table();
            table.check_invariants();
            for (position, function) in writer.functions.iter().enumerate() {
                assert!(
                    table.index_at(position).is_some_and(|index| Arc::ptr_eq(&index.function.values, &function.values)),
                    "INV-S4"
                );
            }
        });
    }
}

impl<O> Default for Indexer<O> {
    fn default() -> Self {
        Self::new()
    }
}
