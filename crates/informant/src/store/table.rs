//! The cache without locks: objects by key, and their indexes. All rules of this stage are here.

use std::sync::Arc;

use super::{
    buckets::Buckets,
    compute::{AnyIndexFunction, ComputedValues},
    index::Lookup,
    write::{Replacement, WriteBatch},
};
use crate::{
    Cached, Key, ResourceVersion,
    error::IndexError,
    object::Erased,
    slots::{Hashed, Slot, Slots},
};

/// One state of the cache: all objects, their indexes and the reached version.
#[derive(Default)]
pub(crate) struct Table {
    /// The objects. An object keeps its slot when it is updated, so an update changes an index only if its values change.
    objects: Slots<Cached<Erased>>,

    /// The first one is the index by namespace.
    ///
    /// INV-S3: an empty slot has no values in any index.
    indexes: Vec<TableIndex>,

    version: Option<ResourceVersion>,
}

/// The position of the index by namespace.
const BY_NAMESPACE: usize = 0;

/// One index: its function and its values.
pub(super) struct TableIndex {
    pub(super) function: AnyIndexFunction,
    pub(super) buckets: Buckets,
}

/// Reading. A [`Lister`](super::Lister) calls these functions under the table lock, or without one if it is a snapshot, so they
/// never run users' code.
impl Table {
    /// Inlined into the typed lister: a call would make a lookup about a tenth slower.
    #[inline]
    pub(crate) fn get(&self, key: &Key) -> Option<&Cached<Erased>> {
        self.objects.get(self.find(key)?)
    }

    #[inline]
    fn find(&self, key: &Key) -> Option<Slot> {
        self.objects.find(key.table_hash(), |object| object.key() == key)
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns all objects, in no order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Cached<Erased>> {
        self.objects.iter()
    }

    pub(super) fn list(&self) -> Vec<Cached<Erased>> {
        let mut list = Vec::with_capacity(self.len());
        list.extend(self.iter().cloned());
        list
    }

    pub(super) fn version(&self) -> Option<&ResourceVersion> {
        self.version.as_ref()
    }

    /// Returns the name and the position of the index with a name.
    pub(super) fn find_index(&self, name: &str) -> Result<(Arc<str>, usize), IndexError> {
        let names = || self.indexes.iter().map(|index| &index.function.name);
        match names().position(|existing| **existing == *name) {
            Some(position) => Ok((Arc::clone(&self.indexes[position].function.name), position)),
            None => Err(IndexError::Unknown { name: name.to_owned(), existing: names().cloned().collect() }),
        }
    }

    pub(super) fn index(&self, name: &str) -> Result<&TableIndex, IndexError> {
        self.find_index(name).map(|(_, position)| &self.indexes[position])
    }

    /// Returns the index at a position; `None` if this state is older than the index.
    pub(super) fn index_at(&self, position: usize) -> Option<&TableIndex> {
        self.indexes.get(position)
    }

    /// Returns the objects of a namespace, in no order, or all objects if its name is empty.
    pub(super) fn in_namespace(&self, namespace: &str) -> Vec<Cached<Erased>> {
        match namespace {
            "" => self.list(),
            _ => self.by_value(&self.indexes[BY_NAMESPACE], namespace),
        }
    }

    /// Returns the objects that have all of these values, each in its index, in no order; without any value, all objects.
    pub(super) fn by_indexes(&self, lookups: &[Lookup]) -> Result<Vec<Cached<Erased>>, IndexError> {
        let wanted = lookups.iter().map(|lookup| Ok((&self.index(&lookup.index)?.buckets, lookup.value.as_str())));
        let wanted = wanted.collect::<Result<Vec<_>, IndexError>>()?;
        // Starts with the rarest value, so that the other values are checked for few objects.
        let Some((rarest, value)) = wanted.iter().min_by_key(|(buckets, value)| buckets.count(value)) else {
            return Ok(self.list());
        };
        let has_all =
            |slot: &Slot| wanted.iter().all(|(buckets, value)| buckets.values(*slot).any(|has| has == *value));
        Ok(self.objects_at(rarest.slots(value).filter(has_all)).cloned().collect())
    }

    /// Returns the objects that have a value in an index, in no order.
    pub(super) fn by_value(&self, index: &TableIndex, value: &str) -> Vec<Cached<Erased>> {
        let mut objects = Vec::with_capacity(index.buckets.count(value));
        index.buckets.slots(value).for_each(|slot| objects.extend(self.objects.get(slot).cloned()));
        objects
    }

    /// Returns the keys of the objects that have a value in an index, in no order.
    pub(super) fn keys_by_value(&self, index: &TableIndex, value: &str) -> Vec<Key> {
        self.objects_at(index.buckets.slots(value)).map(Cached::key).cloned().collect()
    }

    fn objects_at(&self, slots: impl Iterator<Item = Slot>) -> impl Iterator<Item = &Cached<Erased>> {
        slots.filter_map(|slot| self.objects.get(slot))
    }

    /// Returns the objects of this number of slots, from the slot `first` on, and the slot behind them if there are more.
    #[cfg(feature = "packing")]
    pub(super) fn in_slots(&self, first: usize, slots: usize) -> (Vec<Cached<Erased>>, Option<usize>) {
        let (objects, next) = self.objects.part(first, slots);
        (objects.cloned().collect(), next)
    }

    /// Returns about how many bytes the tables take, without the objects.
    pub(super) fn bytes(&self) -> usize {
        self.objects.bytes() + self.indexes.iter().map(|index| index.buckets.bytes()).sum::<usize>()
    }

    /// Returns the slots in use and their objects.
    pub(super) fn occupied(&self) -> impl Iterator<Item = (Slot, &Cached<Erased>)> {
        self.objects.occupied()
    }
}

/// Writing.
impl Table {
    /// Makes an empty table with an index by namespace.
    pub(super) fn new(by_namespace: AnyIndexFunction) -> Self {
        Self { indexes: vec![TableIndex::new(by_namespace)], ..Self::default() }
    }

    /// Applies writes in order. `computed` has the index values of all upserts. Returns the result of each write: no object is dropped in
    /// this function, during which readers may have to wait.
    pub(super) fn apply(&mut self, batch: WriteBatch<Erased>, computed: &ComputedValues) -> Vec<Replacement<Erased>> {
        let WriteBatch { mut writes, removed, version, .. } = batch;
        if version.is_some() {
            self.version = version;
        }
        let (mut removed, mut row) = (removed.into_iter(), 0);
        for write in &mut writes {
            match (&write.old, &write.new) {
                (Some(kept), _) => write.new = Some(kept.clone()),
                (None, Some(object)) => {
                    write.old = self.upsert(object, computed, row);
                    row += 1;
                }
                (None, None) => write.old = self.remove(&removed.next().expect("INV-W1")),
            }
        }
        writes
    }

    /// Adds indexes that already hold the values of all slots in use.
    pub(super) fn add_indexes(&mut self, indexes: Vec<TableIndex>) {
        self.indexes.extend(indexes);
    }

    /// Returns true if a batch of this size can be applied in place without making readers wait for long: it is small, absolutely or relative to
    /// the number of objects, and no large table has to grow for it.
    pub(super) fn is_quick(&self, writes: usize, values: usize) -> bool {
        const FEW: usize = 4096;
        const LARGE: usize = 16 * 1024;
        let has_room = || {
            let (end, mut indexes) = (self.objects.end() + writes, self.indexes.iter());
            writes <= self.objects.room() && indexes.all(|index| index.buckets.has_room(end, values))
        };
        let is_small = self.len() + values < LARGE;
        writes + values <= FEW.max(self.len() / 16) && (is_small || has_room()) && !self.objects.is_sparse()
    }

    /// Returns a copy of the tables, not of the objects, with room for a batch of this size. If most slots are empty, the copy has no empty slots.
    pub(super) fn copy(&self, writes: usize, values: usize) -> Self {
        if self.objects.is_sparse() {
            return self.compacted();
        }
        let end = self.objects.end() + writes;
        let copy_index = |index: &TableIndex| TableIndex {
            function: index.function.clone(),
            buckets: index.buckets.copy_with_room(end, values),
        };
        Self {
            objects: self.objects.copy_with_room(writes),
            indexes: self.indexes.iter().map(copy_index).collect(),
            version: self.version.clone(),
        }
    }

    /// Returns a copy without empty slots.
    fn compacted(&self) -> Self {
        let mut copy = Self { version: self.version.clone(), ..Self::default() };
        copy.indexes = self.indexes.iter().map(|index| TableIndex::new(index.function.clone())).collect();
        for (old, object) in self.objects.occupied() {
            let new = copy.objects.insert(object.clone());
            for (index, copied) in self.indexes.iter().zip(&mut copy.indexes) {
                copied.buckets.set(new, index.buckets.values(old));
            }
        }
        copy
    }

    /// Stores an object, and returns the object that it replaces.
    fn upsert(&mut self, object: &Cached<Erased>, computed: &ComputedValues, row: usize) -> Option<Cached<Erased>> {
        let stored = self.find(object.key()).and_then(|slot| Some((slot, self.objects.get_mut(slot)?)));
        let (slot, old) = match stored {
            Some((slot, stored)) => (slot, Some(std::mem::replace(stored, object.clone()))),
            None => (self.objects.insert(object.clone()), None),
        };
        for (column, index) in self.indexes.iter_mut().enumerate() {
            index.buckets.set(slot, computed.values(row, column));
        }
        old
    }

    fn remove(&mut self, key: &Key) -> Option<Cached<Erased>> {
        let slot = self.find(key)?;
        for index in &mut self.indexes {
            index.buckets.clear(slot);
        }
        let removed = self.objects.remove(slot);
        if self.objects.len() == 0 {
            // The empty tables may still have the capacity for many objects.
            self.objects = Slots::default();
            self.indexes.iter_mut().for_each(|index| index.buckets = Buckets::default());
        }
        removed
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        self.objects.check_invariants();
        for index in &self.indexes {
            let values = index.buckets.check_invariants(self.objects.end());
            let mut slots = (0..).zip(values);
            assert!(slots.all(|(slot, values)| values.is_empty() || self.objects.get(slot).is_some()), "INV-S3");
        }
    }
}

impl<O> Hashed for Cached<O> {
    fn table_hash(&self) -> u64 {
        self.key().table_hash()
    }
}

impl TableIndex {
    pub(super) fn new(function: AnyIndexFunction) -> Self {
        Self { function, buckets: Buckets::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::object::Identity;

    fn table_of(count: usize) -> Table {
        let mut table = Table::default();
        let objects =
            (0..count).map(|number| Cached::new(Identity::of_key(Key::cluster_scoped(&number.to_string())), ()));
        let mut batch = WriteBatch::new();
        objects.for_each(|object| batch.upsert(object.erase()));
        table.apply(batch, &ComputedValues::default());
        table
    }

    // Decision 6: large lists are applied to a copy
    #[test]
    fn a_batch_is_quick_if_it_is_small_absolutely_or_relative_to_the_table() {
        assert!(table_of(0).is_quick(4096, 0));
        assert!(!table_of(0).is_quick(4097, 0));
        assert!(!table_of(0).is_quick(1, 4096), "values count as writes do");
        assert!(table_of(100_000).is_quick(5000, 1000));
        assert!(!table_of(100_000).is_quick(6000, 1000));
    }

    // Decision 7
    #[test]
    fn a_batch_for_which_a_large_table_must_grow_is_not_quick() {
        let table = table_of(20_000);
        let room = table.objects.room();

        assert!(table.is_quick(room.min(1000), 0));
        assert!(!table_of(20_000 + room).is_quick(1, 0));
    }

    // Decision 7
    #[test]
    fn a_copy_of_a_full_table_has_room_for_many_more_writes() {
        let mut table = table_of(20_000);
        table.add_indexes(vec![TableIndex::new(AnyIndexFunction::by_namespace())]);
        let mut copies = 0;
        for _ in 0..100_000 {
            if !table.is_quick(1, 1) {
                table = table.copy(1, 1);
                copies += 1;
            }
            assert!(table.is_quick(1, 1) || table.objects.is_sparse());
        }
        assert_eq!(copies, 1, "the same write again and again needs no more room");
    }

    // Decision 7
    #[test]
    fn a_batch_for_which_a_sparse_table_is_compacted_is_not_quick() {
        let mut table = table_of(20_000);
        assert!(table.is_quick(1, 0));

        (1000..20_000).for_each(|number| drop(table.remove(&Key::cluster_scoped(&number.to_string()))));

        assert!(!table.is_quick(1, 0));
        let copy = table.copy(1, 0);
        copy.check_invariants();
        assert_eq!((copy.len(), copy.objects.end()), (1000, 1000));
    }
}
