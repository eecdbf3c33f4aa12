//! [`Snapshot`], one state of the cache for several reads.

use std::{fmt, marker::PhantomData, sync::Arc};

use derive_where::derive_where;

use super::{Index, LabelSelector, Lookup, index::Objects, lister::select, table::Table};
use crate::{Cached, Key, ResourceVersion, error::IndexError, object::Labelled};

/// The objects, indexes and version of the cache at one moment. Later changes of the cache do not affect it.
///
/// Taking one copies a pointer. While it is held, the next write copies the tables (not the objects): some milliseconds
/// for 100,000 objects. So take one for several reads that belong together, not for each read, and drop it soon.
///
/// ```
/// use informant::{Cached, Identity, Key, pipeline::Indexer};
///
/// let stock = Indexer::new();
/// stock.upsert(Cached::new(Identity::of_key(Key::namespaced("shop", "apples")), 12));
/// let before = stock.lister().snapshot();
///
/// stock.remove(&Key::namespaced("shop", "apples"));
///
/// assert_eq!(before.index("namespace").unwrap().get("shop").len(), 1);
/// assert!(stock.lister().is_empty());
/// ```
#[derive_where(Clone)]
pub struct Snapshot<O> {
    table: Arc<Table>,
    object_type: PhantomData<fn(O) -> O>,
}

impl<O> Snapshot<O> {
    pub(super) fn new(table: Arc<Table>) -> Self {
        Self { table, object_type: PhantomData }
    }

    /// The object with this key.
    pub fn get(&self, key: &Key) -> Option<&Cached<O>> {
        self.table.get(key).map(Cached::typed_ref)
    }

    /// All objects, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Cached<O>> {
        self.table.iter().map(Cached::typed_ref)
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The reached version: all changes up to it are in the snapshot. `None` before the first list.
    pub fn version(&self) -> Option<&ResourceVersion> {
        self.table.version()
    }

    /// The objects of one namespace. An empty name means all namespaces.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Cached<O>> {
        Cached::all_typed(self.table.in_namespace(namespace))
    }

    /// The index with this name, as it was when the snapshot was taken. Holding it costs as much as holding the snapshot.
    ///
    /// # Errors
    ///
    /// When the index was added after the snapshot was taken, or does not exist.
    pub fn index(&self, name: &str) -> Result<Index<O>, IndexError> {
        let (name, position) = self.table.find_index(name)?;
        Ok(Index::new(name, Objects::Snapshot(Arc::clone(&self.table)), position))
    }

    /// The objects that match all of these pairs of index and value; see [`Lister::by_indexes`](super::Lister::by_indexes).
    ///
    /// # Errors
    ///
    /// When an index was added after the snapshot was taken, or does not exist.
    pub fn by_indexes(
        &self,
        lookups: impl IntoIterator<Item = impl Into<Lookup>>,
    ) -> Result<Vec<Cached<O>>, IndexError> {
        self.table.by_indexes(&Lookup::collect(lookups)).map(Cached::all_typed)
    }

    /// The objects whose labels match; see [`Lister::select`](super::Lister::select).
    pub fn select(&self, selector: LabelSelector) -> Vec<Cached<O>>
    where
        O: Labelled + 'static,
    {
        select(selector, || Cached::all_typed(self.table.list()))
    }
}

impl<O> fmt::Debug for Snapshot<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("len", &self.len()).field("version", &self.version()).finish()
    }
}
