//! Values in numbered slots, which are found by hash or by number.
//!
//! - **In:** values with a hash, such as that of their key.
//! - **Out:** the number of a value's slot, and the value of a slot.
//! - **Knows nothing of:** what the values are.
//!
//! Queues, the cache and its indexes use it. The number of a slot takes four bytes, needs no hash to find the value, and stays the same while the value
//! changes, so that queue orders, batches and indexes can refer to it.

use hashbrown::HashTable;

use derive_where::derive_where;

/// The number of a slot.
pub(crate) type Slot = u32;

/// A value with a hash for hash tables. The hash must not change while the value is in a slot.
pub(crate) trait Hashed {
    fn table_hash(&self) -> u64;
}

/// Values in numbered slots, found by number or by hash.
#[derive_where(Default)]
pub(crate) struct Slots<T> {
    values: Vec<Option<T>>,

    /// INV-S1: exactly the empty slots.
    free: Vec<Slot>,

    /// INV-S2: finds exactly the slots in use, by the hashes of their values.
    by_hash: HashTable<Slot>,
}

impl<T: Hashed> Slots<T> {
    /// Returns the slot of the value that has this hash and that `is_wanted` accepts.
    #[inline]
    pub(crate) fn find(&self, hash: u64, is_wanted: impl Fn(&T) -> bool) -> Option<Slot> {
        self.by_hash.find(hash, |&slot| is_wanted(value_at(&self.values, slot))).copied()
    }

    /// Puts a value into a free slot. No equal value may be in another slot.
    pub(crate) fn insert(&mut self, value: T) -> Slot {
        let hash = value.table_hash();
        let slot = match self.free.pop() {
            Some(slot) => {
                self.values[slot as usize] = Some(value);
                slot
            }
            None => {
                self.values.push(Some(value));
                Slot::try_from(self.values.len() - 1).expect("there are less than 2^32 values")
            }
        };
        let values = &self.values;
        self.by_hash.insert_unique(hash, slot, |&slot| value_at(values, slot).table_hash());
        slot
    }

    /// Removes the value of a slot.
    pub(crate) fn remove(&mut self, slot: Slot) -> Option<T> {
        let value = self.values[slot as usize].take()?;
        if let Ok(entry) = self.by_hash.find_entry(value.table_hash(), |&other| other == slot) {
            entry.remove();
        }
        self.free.push(slot);
        Some(value)
    }

    pub(crate) fn get(&self, slot: Slot) -> Option<&T> {
        self.values.get(slot as usize)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, slot: Slot) -> Option<&mut T> {
        self.values[slot as usize].as_mut()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_hash.len()
    }

    /// Returns the number of slots, in use or not.
    pub(crate) fn end(&self) -> usize {
        self.values.len()
    }

    /// Returns true if so few slots are in use that a copy without empty slots is worth its cost.
    pub(crate) fn is_sparse(&self) -> bool {
        const SMALL: usize = 4096;
        self.values.len() > SMALL && self.len() < self.values.len() / 8
    }

    /// Returns the number of slots that fit without an allocation.
    pub(crate) fn capacity(&self) -> usize {
        self.values.capacity()
    }

    /// Returns the number of values that can be added without an allocation.
    pub(crate) fn room(&self) -> usize {
        let in_slots = self.values.capacity() - self.values.len() + self.free.len();
        in_slots.min(self.by_hash.capacity() - self.by_hash.len())
    }

    /// Returns a copy in which this number of values can be added without an allocation.
    pub(crate) fn copy_with_room(&self, added: usize) -> Self
    where
        T: Clone,
    {
        let added = grown(self.room(), added, self.values.len());
        let mut values = Vec::with_capacity(self.values.capacity().max(self.values.len() + added));
        values.extend_from_slice(&self.values);
        let mut by_hash = self.by_hash.clone();
        by_hash.reserve(added, |&slot| value_at(&values, slot).table_hash());
        Self { values, free: self.free.clone(), by_hash }
    }

    /// Returns the number of bytes of the tables, without what the values own.
    pub(crate) fn bytes(&self) -> usize {
        let values = self.values.capacity() * size_of::<Option<T>>();
        values + self.free.capacity() * size_of::<Slot>() + self.by_hash.allocation_size()
    }

    /// Returns the values, in no order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.values.iter().flatten()
    }

    /// Returns the values of this number of slots, from the slot `first` on, and the slot behind them if there are more.
    #[cfg(feature = "packing")]
    pub(crate) fn part(&self, first: usize, slots: usize) -> (impl Iterator<Item = &T>, Option<usize>) {
        let end = (first + slots).min(self.values.len());
        let values = self.values.get(first..end).unwrap_or_default().iter().flatten();
        (values, (end < self.values.len()).then_some(end))
    }

    /// Returns the slots in use and their values.
    pub(crate) fn occupied(&self) -> impl Iterator<Item = (Slot, &T)> {
        (0..).zip(&self.values).filter_map(|(slot, value)| Some((slot, value.as_ref()?)))
    }

    #[cfg(test)]
    pub(crate) fn check_invariants(&self) {
        use std::collections::BTreeSet;

        let free: BTreeSet<_> = self.free.iter().copied().collect();
        let empty = (0..).zip(&self.values).filter(|(_, value)| value.is_none());
        assert_eq!(free, empty.map(|(slot, _)| slot).collect(), "INV-S1");
        assert_eq!(free.len(), self.free.len(), "INV-S1");
        assert_eq!(self.by_hash.len() + self.free.len(), self.values.len(), "INV-S2");
        for (slot, value) in self.occupied() {
            assert_eq!(self.find(value.table_hash(), |other| std::ptr::eq(other, value)), Some(slot), "INV-S2");
        }
    }
}

/// Returns by how many values a table of `size` values must grow before `added` values are added: 0 if it has room for them, otherwise at least half of
/// its size, so that it grows rarely.
pub(crate) fn grown(room: usize, added: usize, size: usize) -> usize {
    if added <= room { 0 } else { added.max(size / 2) }
}

fn value_at<T>(values: &[Option<T>], slot: Slot) -> &T {
    values[slot as usize].as_ref().expect("INV-S2")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Key;

    impl Hashed for Key {
        fn table_hash(&self) -> u64 {
            self.table_hash()
        }
    }

    fn find(slots: &Slots<Key>, name: &str) -> Option<Slot> {
        let key = Key::cluster_scoped(name);
        slots.find(key.table_hash(), |other| *other == key)
    }

    fn filled(count: usize) -> Slots<Key> {
        let mut slots = Slots::default();
        (0..count)
            .for_each(|number| assert_eq!(slots.insert(Key::cluster_scoped(&number.to_string())) as usize, number));
        slots
    }

    fn capacities(slots: &Slots<Key>) -> (usize, usize) {
        (slots.values.capacity(), slots.by_hash.num_buckets())
    }

    #[test]
    fn slots_do_not_grow_while_they_have_room() {
        for (count, removed) in [(1, 0), (100, 0), (100, 30), (5000, 0), (5000, 3000)] {
            let mut slots = filled(count);
            (0..removed).for_each(|slot| drop(slots.remove(slot)));
            let (before, room) = (capacities(&slots), slots.room());

            for number in 0..room {
                slots.insert(Key::cluster_scoped(&format!("new-{number}")));
            }
            assert_eq!(capacities(&slots), before, "{count}");
            slots.check_invariants();
            // Removed values may leave more room than `room` guarantees.
            slots.insert(Key::cluster_scoped("one more"));
            assert!(removed > 0 || capacities(&slots) != before, "{count}");
        }
    }

    #[test]
    fn a_copy_of_slots_has_room_for_the_added_values_and_half_as_many_more() {
        let slots = filled(1000);

        let copy = slots.copy_with_room(slots.room() + 1);

        assert!(copy.room() >= 500, "room for {}", copy.room());
        copy.check_invariants();
        assert_eq!(copy.len(), 1000);
        assert_eq!(capacities(&slots.copy_with_room(slots.room())), capacities(&slots), "no more than needed");
    }

    #[test]
    fn the_slot_of_a_removed_value_is_reused() {
        let mut slots = filled(3);
        let slot = find(&slots, "1").unwrap();

        assert_eq!(slots.remove(slot), Some(Key::cluster_scoped("1")));
        assert_eq!(slots.remove(slot), None);

        assert_eq!(find(&slots, "1"), None);
        assert_eq!(slots.insert(Key::cluster_scoped("new")), slot);
        assert_eq!(slots.get(slot), Some(&Key::cluster_scoped("new")));
        slots.check_invariants();
    }
}
