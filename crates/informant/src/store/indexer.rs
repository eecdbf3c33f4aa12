//! [`Indexer`], the writer of the cache.
//!
//! - **In:** batches of writes, relists, index functions.
//! - **Out:** the objects that were replaced; listers and indexes for readers.
//! - **Knows nothing of:** queues, handlers.

use std::{
    cell::RefCell,
    fmt,
    marker::PhantomData,
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use hashbrown::HashMap;
use parking_lot::ReentrantMutex;

use super::{
    Applied, Index, IndexFunction, IndexPanic, IndexValue, IndexValues, Lister, NAMESPACE_INDEX, WriteBatch,
    cache::Cache,
    compute::{AnyIndexFunction, ComputedValues},
    table::{Table, TableIndex},
};
use crate::{Cached, Key, delta::Relist, object::Erased};

/// Writes the cache of one kind. Readers use its [`lister`](Self::lister).
///
/// ```
/// use informant::{Cached, Key, object::Identity};
/// use informant::store::Indexer;
///
/// struct Pod { node: Option<&'static str> }
///
/// let pods = Indexer::new();
/// let by_node = pods.add_index("node", |pod: &Cached<Pod>| pod.node).unwrap();
/// let web = Identity::of_key(Key::namespaced("shop", "web"));
/// pods.upsert(Cached::new(web, Pod { node: Some("node-1") }));
///
/// assert_eq!(by_node.get("node-1").len(), 1);
/// assert_eq!(pods.lister().by_index("node", "node-1").unwrap().len(), 1);
/// ```
pub struct Indexer<O> {
    cache: Arc<Cache>,
    /// Locked for a whole write, including its index functions, which run before any reader has to wait.
    ///
    /// The lock is reentrant so that an index function that writes does not deadlock: the cell detects it, and the write panics.
    writer: ReentrantMutex<RefCell<Writer>>,
    object_type: PhantomData<fn(O) -> O>,
}

/// Changes the cache, for one thread at a time. The object type is erased.
struct Writer {
    cache: Arc<Cache>,
    /// INV-S4: the functions of the table's indexes, in the same order.
    functions: Vec<AnyIndexFunction>,
    /// Buffers for the index values of a batch.
    computed: ComputedValues,
    /// The time that index functions may take for each thousand objects (rounded up) before a warning is logged.
    slow_after: Duration,
}

/// Settings of an [`Indexer`].
pub struct IndexerBuilder<O> {
    resource: Arc<str>,
    has_namespace_index: bool,
    objects: PhantomData<fn(O) -> O>,
}

/// An index with that name exists already.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "an index named {name:?} exists already; choose another name, or read the existing one with `lister.index({name:?})`"
)]
pub struct DuplicateIndex {
    /// The name.
    pub name: Arc<str>,
}

impl<O> Indexer<O> {
    /// Creates an empty cache with an index by namespace.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder for an empty cache.
    pub fn builder() -> IndexerBuilder<O> {
        IndexerBuilder { resource: "objects".into(), has_namespace_index: true, objects: PhantomData }
    }

    /// Returns a reader of this cache. It shows every write from the moment at which the writing call returns.
    pub fn lister(&self) -> Lister<O> {
        Lister::new(Arc::clone(&self.cache))
    }

    /// Marks the cache as stopped; see [`Lister::has_stopped`].
    pub(crate) fn stop(&self) {
        self.cache.has_stopped.store(true, Ordering::Release);
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
    /// # Errors
    ///
    /// When an index with that name exists.
    pub fn add_index<V: IndexValue, I: IndexValues<Value = V>>(
        &self,
        name: &str,
        values: impl Fn(&Cached<O>) -> I + Send + Sync + 'static,
    ) -> Result<Index<O, V>, DuplicateIndex> {
        self.add_function(IndexFunction::new(name, values).into_any())
    }

    pub(crate) fn add_function<V>(&self, function: AnyIndexFunction) -> Result<Index<O, V>, DuplicateIndex> {
        let (position, _) = self.with_writer(|writer| writer.add_indexes(vec![function.clone()]))?;
        Ok(Index::new(Arc::clone(&self.cache), position, function))
    }

    /// Adds several indexes, all or none, and returns the panics of their functions on stored objects.
    ///
    /// # Errors
    ///
    /// When an index with one of the names exists; then none is added.
    pub fn add_indexes(
        &self,
        functions: impl IntoIterator<Item = IndexFunction<O>>,
    ) -> Result<Vec<IndexPanic>, DuplicateIndex> {
        self.add_any_functions(functions.into_iter().map(IndexFunction::into_any).collect())
    }

    pub(crate) fn add_any_functions(
        &self,
        functions: Vec<AnyIndexFunction>,
    ) -> Result<Vec<IndexPanic>, DuplicateIndex> {
        self.with_writer(|writer| writer.add_indexes(functions)).map(|(_, panics)| panics)
    }

    /// Waits for other writers, and calls `write` while no other thread writes.
    fn with_writer<R>(&self, write: impl FnOnce(&mut Writer) -> R) -> R {
        let writer = self.writer.lock();
        let Ok(mut writer) = writer.try_borrow_mut() else {
            panic!("an index function must not write to the cache that it indexes")
        };
        write(&mut writer)
    }
}

impl Writer {
    fn apply(&mut self, batch: WriteBatch<Erased>) -> Applied<Erased> {
        let begun = Instant::now();
        let upserts = self.computed.fill(batch.upserts(), &self.functions);
        self.warn_if_slow(&self.functions, batch.len(), begun.elapsed());
        let (writes, computed) = (upserts + batch.removed.len(), &self.computed);
        let apply = |table: &mut Table| (table.apply(batch, computed), table.len());
        let ((replacements, _unused), objects) = self.cache.change(writes, computed.len(), apply);
        Applied { replacements, index_panics: std::mem::take(&mut self.computed.panics), objects }
    }

    fn replace<O>(&mut self, relist: &Relist<O>) -> Applied<Erased> {
        let table = self.cache.snapshot();
        let is_missing = relist.missing();
        let last: HashMap<&Key, usize> = relist.objects.iter().map(Cached::key).zip(0..).collect();
        let mut batch = WriteBatch::with_capacity(relist.objects.len());
        for missing in table.iter().filter(|object| is_missing(object.typed_ref())) {
            batch.remove(missing.key().clone());
        }
        let listed = relist.objects.iter().map(Cached::erase_ref).enumerate();
        for (_, object) in listed.filter(|(position, object)| last.get(object.key()) == Some(position)) {
            match table.get(object.key()) {
                Some(stored) if Cached::ptr_eq(stored, object) => batch.keep(stored.clone()),
                Some(_) | None => batch.upsert(object.clone()),
            }
        }
        batch.at(relist.version.clone());
        // A held snapshot would make the write copy the table.
        drop(table);
        self.apply(batch)
    }

    /// Returns the position of the first added index, and the panics of index functions on stored objects.
    fn add_indexes(&mut self, added: Vec<AnyIndexFunction>) -> Result<(usize, Vec<IndexPanic>), DuplicateIndex> {
        for (position, function) in added.iter().enumerate() {
            let mut others = self.functions.iter().chain(&added[..position]);
            if others.any(|other| other.name == function.name) {
                return Err(DuplicateIndex { name: Arc::clone(&function.name) });
            }
        }
        let table = self.cache.snapshot();
        let begun = Instant::now();
        let computed = ComputedValues::new(table.iter(), &added);
        self.warn_if_slow(&added, table.len(), begun.elapsed());
        let mut indexes: Vec<_> = added.iter().cloned().map(TableIndex::new).collect();
        for (row, (slot, _)) in table.occupied().enumerate() {
            for (column, index) in indexes.iter_mut().enumerate() {
                index.buckets.set(slot, computed.values(row, column));
            }
        }
        drop(table);
        self.cache.change(0, 0, |table| table.add_indexes(indexes));
        let position = self.functions.len();
        self.functions.extend(added);
        Ok((position, computed.panics))
    }

    /// Logs a warning if index functions took so long for the objects of one batch that they must have blocked: the cache and its
    /// handlers wait for them. The time is measured per batch, so the warning names all indexes of the cache.
    fn warn_if_slow(&self, functions: &[AnyIndexFunction], objects: usize, took: Duration) {
        if !is_slow(objects, took, self.slow_after) {
            return;
        }
        let user_indexes = functions.iter().map(|function| &*function.name).filter(|name| *name != NAMESPACE_INDEX);
        let indexes = user_indexes.collect::<Vec<_>>().join(", ");
        if !indexes.is_empty() {
            tracing::warn!(
                informer = &*self.cache.resource,
                indexes,
                count = objects,
                elapsed_ms = took.as_millis(),
                "index functions are slow, and changes wait for them; an index function must not block"
            );
        }
    }
}

#[cfg(test)]
impl<O> Indexer<O> {
    pub(super) fn check_invariants(&self) {
        self.with_writer(|writer| {
            let table = self.cache.snapshot();
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

impl<O> IndexerBuilder<O> {
    /// Sets the name of the objects in errors, such as "pods". Default: "objects".
    pub fn resource(mut self, resource: impl Into<Arc<str>>) -> Self {
        self.resource = resource.into();
        self
    }

    /// Sets whether there is an index by namespace; without it, listing a namespace reads all objects. Default: yes.
    pub fn namespace_index(mut self, has_namespace_index: bool) -> Self {
        self.has_namespace_index = has_namespace_index;
        self
    }

    /// Makes the cache.
    pub fn build(self) -> Indexer<O> {
        let functions: Vec<_> = self.has_namespace_index.then(AnyIndexFunction::by_namespace).into_iter().collect();
        let mut table = Table::default();
        table.add_indexes(functions.iter().cloned().map(TableIndex::new).collect());
        let cache = Arc::new(Cache::new(table, self.resource));
        let (computed, slow_after) = (ComputedValues::default(), Duration::from_millis(100));
        let writer = Writer { cache: Arc::clone(&cache), functions, computed, slow_after };
        Indexer { cache, writer: ReentrantMutex::new(RefCell::new(writer)), object_type: PhantomData }
    }
}

/// Whether index functions took at least `slow_after` for each thousand objects, rounded up.
fn is_slow(objects: usize, took: Duration, slow_after: Duration) -> bool {
    let thousands = u32::try_from(objects / 1000).unwrap_or(u32::MAX).saturating_add(1);
    took >= slow_after.saturating_mul(thousands)
}

impl<O> Default for Indexer<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O> fmt::Debug for Indexer<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (len, version) = self.cache.read(|table| (table.len(), table.version().cloned()));
        let resource = &self.cache.resource;
        f.debug_struct("Indexer").field("resource", resource).field("len", &len).field("version", &version).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::{io, sync::atomic::AtomicUsize};

    use parking_lot::Mutex;

    use super::*;
    use crate::object::Identity;

    /// The log as text.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn object(name: &str) -> Cached<()> {
        Cached::new(Identity::of_key(Key::cluster_scoped(name)), ())
    }

    /// Any time counts as slow, so nothing has to block.
    #[test]
    fn slow_index_functions_are_warned_of_by_name_and_the_index_by_namespace_is_not() {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).without_time().with_ansi(false);
        let _guard = tracing::subscriber::set_default(subscriber.finish());
        let logged = || String::from_utf8(std::mem::take(&mut *lines.0.lock())).unwrap();
        let indexer = Indexer::builder().resource("pods").build();
        indexer.with_writer(|writer| writer.slow_after = Duration::ZERO);

        indexer.upsert(object("a"));
        assert_eq!(logged(), "", "no function of a user ran");

        indexer.add_index("node", |_: &Cached<()>| ["n1"]).unwrap();
        let warning = logged();
        assert!(warning.contains("WARN") && warning.contains(r#"informer="pods" indexes="node" count=1"#), "{warning}");

        indexer.add_index("app", |_: &Cached<()>| ["web"]).unwrap();
        logged();
        indexer.upsert(object("b"));
        let warning = logged();
        assert!(warning.contains(r#"indexes="node, app""#), "{warning}");
        assert_eq!(warning.lines().count(), 1);
    }

    /// Counts itself when it is dropped, if no reader has to wait meanwhile.
    struct CountsDrop(Arc<Cache>, Arc<AtomicUsize>);

    impl Drop for CountsDrop {
        fn drop(&mut self) {
            if self.0.is_readable() {
                self.1.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    #[test]
    fn a_received_object_whose_state_is_stored_already_is_dropped_without_the_table_lock() {
        let indexer = Indexer::new();
        let drops = Arc::new(AtomicUsize::new(0));
        let object = || CountsDrop(Arc::clone(&indexer.cache), Arc::clone(&drops));
        let identity = Identity::new("shop/web", "u1", 15);
        indexer.upsert(Cached::new(identity.clone(), object()));

        let mut batch = WriteBatch::new();
        batch.upsert(Cached::new(identity, object()));
        batch.keep_same_states();
        indexer.apply(batch);

        assert_eq!(drops.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_batch_may_take_a_tenth_of_a_second_for_each_thousand_objects() {
        let indexer = Indexer::<()>::new();
        let limit = indexer.with_writer(|writer| writer.slow_after);
        let is_slow = |objects, milliseconds| is_slow(objects, Duration::from_millis(milliseconds), limit);

        assert_eq!([is_slow(1, 99), is_slow(1, 100), is_slow(999, 100)], [false, true, true]);
        assert_eq!([is_slow(20_000, 2099), is_slow(20_000, 2100)], [false, true]);
    }
}
