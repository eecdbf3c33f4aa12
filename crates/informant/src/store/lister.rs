//! [`Lister`] and [`NamespaceLister`], the readers of the cache.
//!
//! - **In:** keys, names, namespaces, label selectors, index values.
//! - **Out:** shared objects.
//! - **Knows nothing of:** writers.

use std::{
    fmt,
    marker::PhantomData,
    sync::{Arc, atomic::Ordering},
};

use derive_where::derive_where;

use super::{
    AnyIndexFunction, Index, LabelSelector, Lookup,
    cache::{Cache, Objects},
    table::Table,
};
use crate::{
    Cached, Key, ResourceVersion,
    error::{IndexError, NotFound},
    object::{Erased, Labelled},
};

/// Reads the cache of one kind. Cheap to clone.
///
/// Every call reads one consistent state and returns the shared objects, in no particular order. To read the same state several times,
/// take a [`snapshot`](Self::snapshot).
///
/// ```
/// use informant::{Lazy, pipeline::{Indexer, Scanner}};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let indexer = Indexer::new();
/// let json = br#"{"metadata":{"namespace":"shop","name":"web","labels":{"app":"web"}}}"#;
/// indexer.upsert(Scanner::of_kind::<Pod>().scan(json)?.decode::<Lazy<Pod>>()?);
///
/// let pods = indexer.lister();
/// assert!(pods.get(&"shop/web".parse()?).is_some());
/// assert_eq!(pods.namespace("shop").list().len(), 1);
/// assert_eq!(pods.select("app=web, tier notin (db)".parse()?).len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias("Store", "cache"))]
#[derive_where(Clone)]
pub struct Lister<O> {
    objects: Objects,
    object_type: PhantomData<fn(O) -> O>,
}

/// Reads the objects of one namespace.
#[derive_where(Clone, Debug)]
pub struct NamespaceLister<O> {
    lister: Lister<O>,
    namespace: Arc<str>,
}

impl<O> Lister<O> {
    pub(super) fn new(cache: Arc<Cache>) -> Self {
        Self::of(Objects::current(cache))
    }

    fn of(objects: Objects) -> Self {
        Self { objects, object_type: PhantomData }
    }

    /// The object with this key.
    pub fn get(&self, key: &Key) -> Option<Cached<O>> {
        self.objects.read(|table| table.get(key).cloned()).map(Cached::typed)
    }

    /// The object with this key, or an error that names it.
    ///
    /// # Errors
    ///
    /// When the cache does not have the object.
    pub fn require(&self, key: &Key) -> Result<Cached<O>, NotFound> {
        self.get(key).ok_or_else(|| self.not_found(key.clone()))
    }

    /// All objects.
    pub fn list(&self) -> Vec<Cached<O>> {
        Cached::all_typed(self.objects.read(Table::list))
    }

    /// The objects whose labels match: `lister.select("app=web".parse()?)`, or `lister.select(selector.into())` with a selector of `kube`.
    ///
    /// It reads the labels of every object. If a program often asks for the objects with the same label value, an [index](crate::index::label)
    /// finds them without reading all labels.
    #[doc(alias = "list_matching")]
    pub fn select(&self, selector: LabelSelector) -> Vec<Cached<O>>
    where
        O: Labelled + 'static,
    {
        select(selector, || self.list())
    }

    /// The keys of all objects.
    pub fn keys(&self) -> Vec<Key> {
        self.objects.read(|table| table.iter().map(|object| object.key().clone()).collect())
    }

    /// The number of objects.
    pub fn len(&self) -> usize {
        self.objects.read(Table::len)
    }

    /// Whether the cache has no objects.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The reached version: all changes up to it are in the cache. `None` before the first list.
    pub fn version(&self) -> Option<ResourceVersion> {
        self.objects.read(|table| table.version().cloned())
    }

    /// A reader of one namespace. An empty name means all namespaces.
    pub fn namespace(&self, namespace: impl Into<Arc<str>>) -> NamespaceLister<O> {
        NamespaceLister { lister: self.clone(), namespace: namespace.into() }
    }

    /// The index with this name: `lister.index("node")?.get("node-1")`.
    ///
    /// # Errors
    ///
    /// When there is no such index.
    pub fn index(&self, name: &str) -> Result<Index<O>, IndexError> {
        let (name, position) = self.objects.read(|table| table.find_index(name))?;
        Ok(Index::new(name, self.objects.clone(), position))
    }

    /// Whether an index with the name of this function has, or may have, another function.
    pub(crate) fn has_other_index(&self, function: &AnyIndexFunction) -> bool {
        self.objects.read(|table| table.index(&function.name).is_ok_and(|index| !index.function.is_same(function)))
    }

    /// The objects that have all of these values, each in its index:
    /// `by_indexes([("namespace", "shop"), ("node", "node-1")])`, or with handles `by_indexes([by_node.lookup("node-1"), …])`. Their order
    /// does not matter: the lookup starts with the rarest value. Without any value, it returns all objects.
    ///
    /// # Errors
    ///
    /// When there is no such index.
    pub fn by_indexes(
        &self,
        lookups: impl IntoIterator<Item = impl Into<Lookup>>,
    ) -> Result<Vec<Cached<O>>, IndexError> {
        let lookups = Lookup::collect(lookups);
        self.objects.read(|table| table.by_indexes(&lookups)).map(Cached::all_typed)
    }

    /// A lister of the current state: later changes of the cache do not affect it.
    ///
    /// Taking it copies a pointer. While it, or an index of it, is held, the next write copies the tables (not the objects): some milliseconds for
    /// 100,000 objects. So take one for several reads that belong together, not for each read, and drop it soon. It does not have indexes that
    /// were added later.
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
    pub fn snapshot(&self) -> Self {
        Self::of(self.objects.snapshot())
    }

    /// The current state, for reads that clone no objects.
    pub(crate) fn table(&self) -> Arc<Table> {
        self.objects.table()
    }

    /// Whether the informer has stopped, so that the cache shows its last state for ever.
    pub fn has_stopped(&self) -> bool {
        self.objects.cache.has_stopped.load(Ordering::Acquire)
    }

    /// Whether the cache holds the first list of its informer; true for a cache without an informer.
    pub(crate) fn is_synced(&self) -> bool {
        self.objects.cache.is_synced.load(Ordering::Acquire)
    }

    /// Records whether the cache holds the first list.
    pub(crate) fn set_synced(&self, is_synced: bool) {
        self.objects.cache.is_synced.store(is_synced, Ordering::Release);
    }

    /// Marks the cache as stopped.
    pub(crate) fn stop(&self) {
        self.objects.cache.has_stopped.store(true, Ordering::Release);
    }

    fn not_found(&self, key: Key) -> NotFound {
        NotFound {
            resource: Arc::clone(&self.objects.cache.resource),
            cluster: None,
            key,
            is_synced: self.is_synced(),
            has_stopped: self.has_stopped(),
        }
    }
}

impl<O> NamespaceLister<O> {
    /// The object with a name. If the namespace is empty, the cluster-scoped object with that name.
    pub fn get(&self, name: &str) -> Option<Cached<O>> {
        self.lister.get(&Key::namespaced(&self.namespace, name))
    }

    /// The object with a name, or an error that names it.
    ///
    /// # Errors
    ///
    /// When the cache does not have the object.
    pub fn require(&self, name: &str) -> Result<Cached<O>, NotFound> {
        self.get(name).ok_or_else(|| self.lister.not_found(Key::namespaced(&self.namespace, name)))
    }

    /// All objects of the namespace.
    pub fn list(&self) -> Vec<Cached<O>> {
        Cached::all_typed(self.lister.objects.read(|table| table.in_namespace(&self.namespace)))
    }

    /// The objects of the namespace whose labels match; see [`Lister::select`].
    #[doc(alias = "list_matching")]
    pub fn select(&self, selector: LabelSelector) -> Vec<Cached<O>>
    where
        O: Labelled + 'static,
    {
        select(selector, || self.list())
    }
}

/// Returns the objects whose labels match. Reads the labels after `list` has returned, without a lock: reading them may run users' code, and no
/// reader or writer must wait for that.
fn select<O: Labelled + 'static>(selector: LabelSelector, list: impl FnOnce() -> Vec<Cached<O>>) -> Vec<Cached<O>> {
    if selector.matches_nothing() {
        return Vec::new();
    }
    let mut objects = list();
    if !selector.matches_everything() {
        objects.retain(move |object| selector.matches(&object.object().label_map()));
    }
    objects
}

impl Lister<Erased> {
    /// A lister of the same cache with an object type, as [`Cached::typed`] gives one.
    pub(crate) fn typed<O>(&self) -> Lister<O> {
        Lister::of(self.objects.clone())
    }

    /// The objects of this number of slots, from the slot `first` on, and the slot behind them if there are more.
    #[cfg(feature = "packing")]
    pub(crate) fn in_slots(&self, first: usize, slots: usize) -> (Vec<Cached<Erased>>, Option<usize>) {
        self.objects.read(|table| table.in_slots(first, slots))
    }
}

impl<O> fmt::Debug for Lister<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stopped = if self.has_stopped() { ", stopped" } else { "" };
        write!(f, "Lister({}, {}{stopped})", self.objects.cache.resource, self.len())
    }
}
