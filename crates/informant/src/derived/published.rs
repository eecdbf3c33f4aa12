//! The entries that readers see.
//!
//! - **In:** commits, one at a time.
//! - **Out:** single entries, and snapshots of all.
//! - **Knows nothing of:** objects and informers.

use std::{borrow::Borrow, fmt, hash::Hash, sync::Arc};

use derive_where::derive_where;
use parking_lot::RwLock;

use super::{
    entries::{Holders, Table, Transition},
    lingering::LingeringEntries,
};
use crate::ResourceVersion;

/// All entries of a [`DerivedMap`](super::DerivedMap) at one moment. Cheap to clone; while it is held, the next change copies the map's table.
#[derive_where(Clone)]
pub struct DerivedSnapshot<K, V> {
    table: Arc<Table<K, V>>,
    generation: u64,
    /// Empty until the entries of the initial lists are in the table.
    versions: Arc<[ResourceVersion]>,
}

/// The current entries, and those that linger.
pub(super) struct Published<K, V> {
    current: RwLock<DerivedSnapshot<K, V>>,
    lingering: LingeringEntries<K, V>,
}

/// More writes than this are made in a copy of the table, so that readers do not wait for them; also those for which the table must grow or shrink.
const QUICK_WRITES: usize = 1000;

/// Whether a table has room for so many more entries than it has that most of its memory should be freed.
fn is_sparse<K, V>(table: &Table<K, V>) -> bool {
    table.capacity() > 2 * QUICK_WRITES && table.len() < table.capacity() / 8
}

impl<K: Clone + Eq + Hash, V> Published<K, V> {
    pub(super) fn new(lingering: LingeringEntries<K, V>) -> Self {
        let current = DerivedSnapshot { table: Arc::default(), generation: 0, versions: Arc::default() };
        Self { current: RwLock::new(current), lingering }
    }

    /// Whether the entries of the initial lists were written.
    pub(super) fn is_filled(&self) -> bool {
        !self.current.read().versions.is_empty()
    }

    pub(super) fn snapshot(&self) -> DerivedSnapshot<K, V> {
        self.current.read().clone()
    }

    /// Reads the current table. `read` runs under the lock.
    pub(super) fn read<R>(&self, read: impl FnOnce(&Table<K, V>) -> R) -> R {
        read(&self.current.read().table)
    }

    /// Writes a commit, at once. The caller makes one call at a time.
    pub(super) fn write(
        &self,
        writes: Vec<(K, Option<Holders<V>>)>,
        transitions: &[(K, Transition<V>)],
        versions: Arc<[ResourceVersion]>,
    ) {
        // Before they leave the table, so that a reader finds them in one or the other.
        self.lingering.keep_removed(transitions);
        // Declared before the lock is taken, and so dropped after it is released: readers do not wait for that.
        let previous;
        let mut replaced = Vec::with_capacity(writes.len());
        let is_added = |(_, transition): &&(K, Transition<V>)| transition.before.is_none();
        let added = transitions.iter().filter(is_added).count();
        let is_quick = |table: &&mut Table<K, V>| {
            writes.len() <= QUICK_WRITES && table.capacity() - table.len() >= added && !is_sparse(table)
        };
        let mut current = self.current.write();
        match Arc::get_mut(&mut current.table).filter(is_quick) {
            Some(table) => apply(table, writes, &mut replaced),
            None if writes.is_empty() => {}
            None => {
                // Changes a copy. Readers go on with the current table.
                previous = Arc::clone(&current.table);
                drop(current);
                let mut copy = Table::clone(&previous);
                copy.reserve(added);
                apply(&mut copy, writes, &mut replaced);
                if is_sparse(&copy) {
                    copy.shrink_to(2 * copy.len());
                }
                current = self.current.write();
                current.table = Arc::new(copy);
            }
        }
        current.generation += u64::from(!transitions.is_empty());
        current.versions = versions;
    }

    /// Returns the entry, or the one that lingers.
    pub(super) fn get_lingering<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<Arc<V>>
    where
        K: Borrow<Q>,
    {
        self.read(|table| Some(Arc::clone(table.get(key)?.winner()))).or_else(|| self.lingering.get(key))
    }
}

fn apply<K: Eq + Hash, V>(
    table: &mut Table<K, V>,
    writes: Vec<(K, Option<Holders<V>>)>,
    replaced: &mut Vec<Option<Holders<V>>>,
) {
    for (key, holders) in writes {
        replaced.push(match holders {
            Some(holders) => table.insert(key, holders),
            None => table.remove(&key),
        });
    }
}

impl<K: Eq + Hash, V> DerivedSnapshot<K, V> {
    /// The value of a key, as [`DerivedMap::get`](super::DerivedMap::get) returns it.
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<&Arc<V>>
    where
        K: Borrow<Q>,
    {
        Some(self.table.get(key)?.winner())
    }

    /// The values of a key, as [`DerivedMap::get_all`](super::DerivedMap::get_all) returns them.
    pub fn get_all<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Vec<Arc<V>>
    where
        K: Borrow<Q>,
    {
        self.table.get(key).map_or_else(Vec::new, Holders::values)
    }

    /// All keys with their values, in no particular order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&K, &Arc<V>)> {
        self.table.iter().map(|(key, holders)| (key, holders.winner()))
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// The number of changes of the map before this moment; all changes of one batch count as one.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// For each informer, each once, first those of the map and then those of [`with`](super::Derive::with), the newest version in the last batch of its events that
    /// the map has processed; empty if there was none. The informer itself may have reached a newer version, by a bookmark. There are none before the map
    /// is [synced](super::DerivedMap::synced).
    pub fn versions(&self) -> &[ResourceVersion] {
        &self.versions
    }
}

impl<K: fmt::Debug, V: fmt::Debug> fmt::Debug for DerivedSnapshot<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.table.iter().map(|(key, holders)| (key, holders.winner()))).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        cell::{Cell, RefCell},
        sync::Weak,
        time::Duration,
    };

    use super::*;
    use crate::{
        Key,
        derived::entries::{Commit, DerivedObjects},
    };

    /// Derives one entry for each of these numbers, in one commit, and returns the address of the table.
    fn write<K: Clone + Eq + Hash + From<u32>>(
        published: &Published<K, u32>,
        objects: &mut DerivedObjects<K, u32>,
        numbers: std::ops::Range<u32>,
    ) -> usize {
        for number in numbers {
            let key = Key::cluster_scoped(&number.to_string());
            objects.set(0, &key, &ResourceVersion::default(), [(number.into(), number)].into_iter().collect());
        }
        let Commit { writes, transitions } = published.read(|table| objects.commit(table, None));
        published.write(writes, &transitions, Arc::default());
        Arc::as_ptr(&published.snapshot().table) as usize
    }

    #[test]
    fn a_commit_changes_the_table_in_place_unless_it_is_large_or_the_table_must_grow_or_a_snapshot_is_held() {
        let (published, mut objects) =
            (Published::<u32, u32>::new(LingeringEntries::new(Duration::ZERO, 0)), DerivedObjects::default());
        let first = write(&published, &mut objects, 0..10_000);
        let room = u32::try_from(published.read(|table| table.capacity() - table.len())).unwrap();
        assert!(room > 2000, "room for small and for large commits");

        assert_eq!(write(&published, &mut objects, 10_000..10_001), first, "small");
        let large = write(&published, &mut objects, 10_001..11_002);
        assert_ne!(large, first);
        let held = published.snapshot();
        assert_ne!(write(&published, &mut objects, 11_002..11_003), large, "a snapshot is held");
        assert_eq!((held.len(), published.read(Table::len)), (11_002, 11_003));
        drop(held);
        let mut last = 0;
        let mut next = 11_003;
        while published.read(|table| table.capacity() > table.len()) {
            last = write(&published, &mut objects, next..next + 1);
            next += 1;
        }
        assert_ne!(write(&published, &mut objects, next..next + 1), last, "it must grow");
    }

    thread_local! {
        static PUBLISHED: RefCell<Weak<Published<Probe, u32>>> = RefCell::default();
        static WAS_LOCKED: Cell<bool> = Cell::default();
    }

    /// A key that notes whether the table was locked when it was dropped.
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct Probe(u32);

    impl From<u32> for Probe {
        fn from(number: u32) -> Self {
            Self(number)
        }
    }

    impl Drop for Probe {
        fn drop(&mut self) {
            if let Some(published) = PUBLISHED.with_borrow(Weak::upgrade) {
                WAS_LOCKED.set(WAS_LOCKED.get() || published.current.try_read().is_none());
            }
        }
    }

    #[test]
    fn readers_do_not_wait_while_the_previous_table_is_dropped() {
        let published = Arc::new(Published::new(LingeringEntries::new(Duration::ZERO, 0)));
        PUBLISHED.set(Arc::downgrade(&published));
        let mut objects = DerivedObjects::default();

        write(&published, &mut objects, 0..2000);
        write(&published, &mut objects, 2000..4000);

        assert!(!WAS_LOCKED.get());
    }
}
