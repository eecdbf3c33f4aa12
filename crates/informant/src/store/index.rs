//! [`Index`], the handle for lookups in one index.
//!
//! - **In:** a value.
//! - **Out:** the objects that have it.
//! - **Knows nothing of:** writes.

use std::{fmt, marker::PhantomData, sync::Arc};

use super::{
    Lookup, LookupValue, Snapshot, UnknownIndex,
    cache::Cache,
    compute::AnyIndexFunction,
    table::{Table, TableIndex},
};
use crate::{Cached, Key, object::Erased};

/// Finds the objects of a cache by the values that an index function returns for them. Cheap to clone.
///
/// `V` is the type of these values. A lookup takes the same type, or a string if the values are strings, uids or keys; see
/// [`LookupValue`]. Ready-made index functions are in [`informant::index`](crate::index).
///
/// ```
/// use informant::{Cached, Key, object::Identity};
/// use informant::store::Indexer;
///
/// struct Service { ports: Vec<u16> }
///
/// let services = Indexer::new();
/// let by_port = services.add_index("port", |service: &Cached<Service>| service.ports.clone()).unwrap();
/// let web = Identity::of_key(Key::namespaced("shop", "web"));
/// services.upsert(Cached::new(web, Service { ports: vec![80, 443] }));
///
/// assert_eq!(by_port.get(&443).len(), 1);
/// assert_eq!(by_port.get(&22).len(), 0);
/// ```
pub struct Index<O, V = String> {
    cache: Arc<Cache>,
    /// The position of the index in the table.
    ///
    /// INV-S5: indexes are never removed or moved, so the position stays valid.
    position: usize,
    function: AnyIndexFunction,
    types: PhantomData<fn(V, O) -> O>,
}

impl<O, V> Index<O, V> {
    pub(super) fn new(cache: Arc<Cache>, position: usize, function: AnyIndexFunction) -> Self {
        Self { cache, position, function, types: PhantomData }
    }

    /// The index's name.
    pub fn name(&self) -> &str {
        &self.function.name
    }

    /// The objects with this value, in no particular order.
    pub fn get<Q: LookupValue<V> + ?Sized>(&self, value: &Q) -> Vec<Cached<O>> {
        // Called before the table lock is taken: `text` may be users' code.
        let text = value.text();
        Cached::all_typed(self.read(|table, index| table.by_value(index, &text)))
    }

    /// Returns a lookup of a value, to be combined with lookups in other indexes; see [`Lister::by_indexes`](super::Lister::by_indexes).
    ///
    /// ```
    /// # use informant::{Cached, Key, object::Identity};
    /// # use informant::store::Indexer;
    /// # struct Service { ports: Vec<u16>, team: &'static str }
    /// # let services = Indexer::new();
    /// let by_port = services.add_index("port", |service: &Cached<Service>| service.ports.clone())?;
    /// let by_team = services.add_index("team", |service: &Cached<Service>| Some(service.team))?;
    /// # let web = Identity::of_key(Key::namespaced("shop", "web"));
    /// # services.upsert(Cached::new(web, Service { ports: vec![80, 443], team: "shop" }));
    ///
    /// let found = services.lister().by_indexes([by_port.lookup(&443), by_team.lookup("shop")])?;
    /// assert_eq!(found.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lookup<Q: LookupValue<V> + ?Sized>(&self, value: &Q) -> Lookup {
        Lookup::new(Arc::clone(&self.function.name), value.text().into_owned())
    }

    /// The objects with this value in a snapshot of the same cache, in no particular order.
    ///
    /// # Errors
    ///
    /// When the snapshot was taken before the index was added.
    pub fn get_in<Q: LookupValue<V> + ?Sized>(
        &self,
        snapshot: &Snapshot<O>,
        value: &Q,
    ) -> Result<Vec<Cached<O>>, UnknownIndex> {
        snapshot.by_index(self.name(), &value.text())
    }

    /// The keys of the objects with this value, sorted.
    pub fn keys<Q: LookupValue<V> + ?Sized>(&self, value: &Q) -> Vec<Key> {
        let text = value.text();
        self.read(|table, index| table.keys_by_value(index, &text))
    }

    /// The number of objects with this value.
    pub fn count<Q: LookupValue<V> + ?Sized>(&self, value: &Q) -> usize {
        let text = value.text();
        self.read(|_, index| index.buckets.count(&text))
    }

    /// The values of all objects, each once, as text.
    pub fn values(&self) -> Vec<Arc<str>> {
        self.read(|_, index| index.buckets.texts().cloned().collect())
    }

    fn read<R>(&self, read: impl FnOnce(&Table, &TableIndex) -> R) -> R {
        self.cache.read(|table| read(table, table.index_at(self.position).expect("INV-S5")))
    }
}

impl Index<Erased> {
    /// Restores the types, as [`Cached::typed`] does.
    pub(crate) fn typed<O, V>(self) -> Index<O, V> {
        Index::new(self.cache, self.position, self.function)
    }
}

impl<O, V> Clone for Index<O, V> {
    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.cache), self.position, self.function.clone())
    }
}

impl<O, V> fmt::Debug for Index<O, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index({} by {})", self.cache.resource, self.name())
    }
}
