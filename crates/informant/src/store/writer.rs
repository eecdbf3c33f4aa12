//! Writes the cache: runs the index functions, then changes the table.
//!
//! - **In:** batches of writes, relists, index functions; one thread at a time.
//! - **Out:** the objects that were replaced; listers and indexes for readers.
//! - **Knows nothing of:** object types, and the lock that keeps other threads from writing.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use hashbrown::HashMap;

use super::{
    Applied, Index, Lister, NAMESPACE_INDEX, WriteBatch,
    cache::{Cache, Objects},
    compute::{AnyIndexFunction, ComputedValues},
    table::{Table, TableIndex},
};
use crate::{
    Cached, Key,
    delta::Relist,
    error::IndexError,
    object::{Erased, ObjectMemory},
};

/// Changes the cache of one kind. The object type is erased.
pub(crate) struct Writer {
    pub(super) cache: Arc<Cache>,
    /// INV-S4: the functions of the table's indexes, in the same order.
    pub(super) functions: Vec<AnyIndexFunction>,
    /// Buffers for the index values of a batch.
    computed: ComputedValues,
    /// The time that index functions may take for each thousand objects (rounded up) before a warning is logged.
    slow_after: Duration,
}

impl Writer {
    /// Creates the writer of an empty cache. `resource` is the name of the objects in errors.
    pub(crate) fn new(resource: Arc<str>) -> Self {
        Self::counted_in(None, resource)
    }

    /// As [`new`](Self::new), and counts the bytes of the tables there.
    pub(crate) fn counted_in(memory: Option<Arc<ObjectMemory>>, resource: Arc<str>) -> Self {
        let by_namespace = AnyIndexFunction::by_namespace();
        let (table, functions) = (Table::new(by_namespace.clone()), vec![by_namespace]);
        let (computed, slow_after) = (ComputedValues::default(), Duration::from_millis(100));
        Self { cache: Arc::new(Cache::new(table, resource, memory)), functions, computed, slow_after }
    }

    /// Returns a reader of the cache.
    pub(crate) fn lister<O>(&self) -> Lister<O> {
        Lister::new(Arc::clone(&self.cache))
    }

    /// Applies all writes of a batch at once.
    pub(crate) fn apply(&mut self, batch: WriteBatch<Erased>) -> Applied<Erased> {
        let begun = Instant::now();
        let upserts = self.computed.fill(batch.upserts(), &self.functions);
        self.warn_if_slow(&self.functions, batch.len(), begun.elapsed());
        let (writes, computed) = (upserts + batch.removed.len(), &self.computed);
        let apply = |table: &mut Table| (table.apply(batch, computed), table.len());
        let (replacements, objects) = self.cache.change(writes, computed.len(), apply);
        let index_panics = std::mem::take(&mut self.computed.panics);
        self.computed.clear();
        Applied { replacements, index_panics, objects }
    }

    /// Replaces the content of the cache with a relist, at once.
    pub(super) fn replace<O>(&mut self, relist: &Relist<O>) -> Applied<Erased> {
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

    /// Adds an index unless it exists, and returns a handle of it.
    pub(crate) fn add_index<O, V>(&mut self, function: AnyIndexFunction) -> Result<Index<O, V>, IndexError> {
        let name = Arc::clone(&function.name);
        self.add_indexes(vec![function])?;
        let position = self.functions.iter().position(|other| other.name == name).expect("INV-S4");
        Ok(Index::new(name, Objects::current(Arc::clone(&self.cache)), position))
    }

    /// Adds those of several indexes that do not exist, or none if another index has one of the names. Returns the panics of their
    /// functions on stored objects.
    pub(crate) fn add_indexes(&mut self, functions: Vec<AnyIndexFunction>) -> Result<Vec<IndexError>, IndexError> {
        let mut added: Vec<AnyIndexFunction> = Vec::with_capacity(functions.len());
        for function in functions {
            match self.functions.iter().chain(&added).find(|other| other.name == function.name) {
                None => added.push(function),
                Some(existing) if existing.is_same(&function) => {}
                Some(_) => return Err(IndexError::Exists { name: function.name }),
            }
        }
        let table = self.cache.snapshot();
        let begun = Instant::now();
        let mut computed = ComputedValues::default();
        computed.fill(table.iter(), &added);
        self.warn_if_slow(&added, table.len(), begun.elapsed());
        let mut indexes: Vec<_> = added.iter().cloned().map(TableIndex::new).collect();
        for (row, (slot, _)) in table.occupied().enumerate() {
            for (column, index) in indexes.iter_mut().enumerate() {
                index.buckets.set(slot, computed.values(row, column));
            }
        }
        drop(table);
        self.cache.change(0, 0, |table| table.add_indexes(indexes));
        self.functions.extend(added);
        Ok(computed.panics)
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
            // Without a parent: an informer's task calls this in a span that names the informer, other callers without one.
            tracing::warn!(
                parent: None,
                informer = &*self.cache.resource,
                indexes,
                count = objects,
                elapsed_ms = took.as_millis(),
                "index functions are slow, and changes wait for them; an index function must not block"
            );
        }
    }
}

/// Whether index functions took at least `slow_after` for each thousand objects, rounded up.
fn is_slow(objects: usize, took: Duration, slow_after: Duration) -> bool {
    let thousands = u32::try_from(objects / 1000).unwrap_or(u32::MAX).saturating_add(1);
    took >= slow_after.saturating_mul(thousands)
}

#[cfg(test)]
mod tests {
    use std::io;

    use parking_lot::Mutex;

    use super::*;
    use crate::{
        object::{HeldMemory, Identity},
        store::IndexFunction,
    };

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

    fn object(name: &str) -> Cached<Erased> {
        Cached::new(Identity::of_key(Key::cluster_scoped(name)), ()).erase()
    }

    fn upsert(object: Cached<Erased>) -> WriteBatch<Erased> {
        let mut batch = WriteBatch::new();
        batch.upsert(object);
        batch
    }

    /// Any time counts as slow, so nothing has to block.
    #[test]
    fn slow_index_functions_are_warned_of_by_name_and_the_index_by_namespace_is_not() {
        let lines = Lines::default();
        let log = lines.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || log.clone()).without_time().with_ansi(false);
        let _guard = tracing::subscriber::set_default(subscriber.finish());
        let logged = || String::from_utf8(std::mem::take(&mut *lines.0.lock())).unwrap();
        let mut writer = Writer::new("pods".into());
        writer.slow_after = Duration::ZERO;
        let index = |name, value| IndexFunction::new(name, move |_: &Cached<()>| [value]).into_any();

        writer.apply(upsert(object("a")));
        assert_eq!(logged(), "", "no function of a user ran");

        writer.add_indexes(vec![index("node", "n1")]).unwrap();
        let warning = logged();
        assert!(warning.contains("WARN") && warning.contains(r#"informer="pods" indexes="node" count=1"#), "{warning}");

        writer.add_indexes(vec![index("app", "web")]).unwrap();
        logged();
        writer.apply(upsert(object("b")));
        let warning = logged();
        assert!(warning.contains(r#"indexes="node, app""#), "{warning}");
        assert_eq!(warning.lines().count(), 1);
    }

    #[test]
    fn a_batch_may_take_a_tenth_of_a_second_for_each_thousand_objects() {
        let limit = Writer::new("pods".into()).slow_after;
        let is_slow = |objects, milliseconds| is_slow(objects, Duration::from_millis(milliseconds), limit);

        assert_eq!([is_slow(1, 99), is_slow(1, 100), is_slow(999, 100)], [false, true, true]);
        assert_eq!([is_slow(20_000, 2099), is_slow(20_000, 2100)], [false, true]);
    }

    #[test]
    fn tables_are_counted_from_the_first_write_until_they_are_freed() {
        let memory = Arc::new(ObjectMemory::new(|_, _| HeldMemory::Estimate(0)));
        let mut writer = Writer::counted_in(Some(Arc::clone(&memory)), "pods".into());
        let object = object("a");
        writer.apply(upsert(object.clone()));
        let before = memory.bytes();

        writer.add_indexes(vec![IndexFunction::new("node", |_: &Cached<()>| ["n1"]).into_any()]).unwrap();

        assert!(memory.bytes() > before && before > 0, "{before} and {} bytes", memory.bytes());
        drop(writer);
        assert_eq!(memory.bytes(), 0, "although {object:?} is held");
    }
}
