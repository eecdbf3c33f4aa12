//! [`Index`], the handle for lookups in one index: of a cache, or of the caches of a view.
//!
//! - **In:** a value.
//! - **Out:** the objects that have it.
//! - **Knows nothing of:** writes.

use std::{fmt, marker::PhantomData, sync::Arc};

use derive_where::derive_where;

use super::{
    LookupValue,
    cache::Objects,
    table::{Table, TableIndex},
};
use crate::{Cached, Key, object::Erased};

/// Finds the objects of a cache, a [snapshot](super::Lister::snapshot) or a [view](crate::View) by the values that an index function returns for them. Cheap
/// to clone.
///
/// `V` is the type of these values. A lookup takes the same type, or a string if the values are strings, uids or keys; see
/// [`LookupValue`]. Ready-made index functions are in [`informant::index`](crate::index).
///
/// ```
/// use informant::{Cached, Identity, Key, pipeline::Indexer};
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
#[derive_where(Clone)]
pub struct Index<O, V = String> {
    name: Arc<str>,
    /// One for each member of a view, otherwise one.
    parts: Arc<[IndexPart]>,
    types: PhantomData<fn(V, O) -> O>,
}

/// A value to look up in an index, for [lookups in several indexes at once](super::Lister::by_indexes). Created by [`Index::lookup`],
/// or from the name of the index and the value, as text: `("node", "node-1").into()`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Lookup {
    /// The name of the index.
    pub(super) index: Arc<str>,
    /// The value as text.
    pub(super) value: String,
}

/// The index in one table.
#[derive(Clone)]
struct IndexPart {
    objects: Objects,
    /// The position of the index in the table.
    ///
    /// INV-S5: indexes are never removed or moved, so the position stays valid.
    position: usize,
}

impl<O, V> Index<O, V> {
    pub(super) fn new(name: Arc<str>, objects: Objects, position: usize) -> Self {
        Self { name, parts: Arc::new([IndexPart { objects, position }]), types: PhantomData }
    }

    /// The index's name.
    pub fn name(&self) -> &str {
        &self.name
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
    /// # use informant::{Cached, Identity, Key, pipeline::Indexer};
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
        Lookup { index: Arc::clone(&self.name), value: value.text().into_owned() }
    }

    /// The keys of the objects with this value, sorted.
    pub fn keys<Q: LookupValue<V> + ?Sized>(&self, value: &Q) -> Vec<Key> {
        let text = value.text();
        let mut keys = self.read(|table, index| table.keys_by_value(index, &text));
        keys.sort_unstable();
        keys
    }

    /// The number of objects with this value.
    pub fn count<Q: LookupValue<V> + ?Sized>(&self, value: &Q) -> usize {
        let text = value.text();
        self.parts.iter().map(|part| part.read(|_, index| index.buckets.count(&text))).sum()
    }

    /// The values of all objects, each once, as text, sorted.
    pub fn values(&self) -> Vec<Arc<str>> {
        let mut values = self.read(|_, index| index.buckets.texts().cloned().collect());
        values.sort_unstable();
        values.dedup();
        values
    }

    /// Reads all parts.
    fn read<T>(&self, read: impl Fn(&Table, &TableIndex) -> Vec<T>) -> Vec<T> {
        let results = self.parts.iter().map(|part| part.read(&read));
        let all = results.reduce(|mut all, more| {
            all.extend(more);
            all
        });
        all.unwrap_or_default()
    }
}

impl Lookup {
    /// Converts the arguments of a read. That may run users' code, so it is done before the table lock is taken.
    pub(crate) fn collect(lookups: impl IntoIterator<Item = impl Into<Self>>) -> Vec<Self> {
        lookups.into_iter().map(Into::into).collect()
    }
}

impl From<(&str, &str)> for Lookup {
    fn from((index, value): (&str, &str)) -> Self {
        Self { index: index.into(), value: value.into() }
    }
}

impl IndexPart {
    fn read<R>(&self, read: impl FnOnce(&Table, &TableIndex) -> R) -> R {
        self.objects.read(|table| read(table, table.index_at(self.position).expect("INV-S5")))
    }
}

impl Index<Erased> {
    /// Restores the types, as [`Cached::typed`] does.
    pub(crate) fn typed<O, V>(self) -> Index<O, V> {
        let Self { name, parts, types: _ } = self;
        Index { name, parts, types: PhantomData }
    }

    /// Combines the indexes of one name of the members of a view.
    pub(crate) fn combine<O, V>(members: &[Self]) -> Index<O, V> {
        let name = members.first().map(|index| Arc::clone(&index.name)).unwrap_or_default();
        let parts = members.iter().flat_map(|index| index.parts.iter().cloned()).collect();
        Index { name, parts, types: PhantomData }
    }
}

impl<O, V> fmt::Debug for Index<O, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Index({})", self.name)
    }
}
