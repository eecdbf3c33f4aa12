//! One index as plain data: the slots of each value, and the values of each slot.

use std::{
    hash::BuildHasher,
    sync::{Arc, LazyLock},
};

use hashbrown::DefaultHashBuilder;
use smallvec::SmallVec;

use crate::slots::{Hashed, Slot, Slots, grown};

/// The number of a value's bucket, which names the value within one index.
type ValueId = Slot;

/// The slots of each value, and the values of each slot.
#[derive(Default)]
pub(super) struct Buckets {
    /// The values of each slot, by its number; slots beyond the end have none.
    ///
    /// INV-X1: a slot has a value exactly if the value's bucket has the slot, at the place that is noted here.
    values_of: Vec<SmallVec<[BucketEntry; 2]>>,

    /// INV-X2: no bucket is empty.
    buckets: Slots<Bucket>,
}

/// A value, and the slots of the objects that have it.
#[derive(Clone)]
struct Bucket {
    text: Arc<str>,
    /// In no order. Most values of a typical index have few objects.
    slots: SmallVec<[Slot; 4]>,
}

/// The place of a slot in the bucket of one of its values.
#[derive(Clone, Copy)]
struct BucketEntry {
    value: ValueId,
    /// The position in the slots of the bucket, so that a slot is removed without a search.
    position: u32,
}

impl Buckets {
    /// Replaces the values of a slot.
    pub(super) fn set<'a>(&mut self, slot: Slot, texts: impl Iterator<Item = &'a str> + Clone) {
        if self.values(slot).eq(texts.clone()) {
            return;
        }
        let position = slot as usize;
        if self.values_of.len() <= position {
            self.values_of.resize_with(position + 1, SmallVec::new);
        }
        let old = std::mem::take(&mut self.values_of[position]);
        old.iter().for_each(|entry| self.remove_from_bucket(*entry));
        for text in texts {
            let value = self.find_or_add(text);
            // A repeated value is in its bucket already.
            if self.values_of[position].iter().all(|entry| entry.value != value) {
                let slots = &mut self.bucket_mut(value).slots;
                let entry = BucketEntry { value, position: slots.len() as u32 };
                slots.push(slot);
                self.values_of[position].push(entry);
            }
        }
        for entry in old {
            if self.bucket(entry.value).slots.is_empty() {
                self.buckets.remove(entry.value);
            }
        }
    }

    /// Removes a slot from a bucket. The last slot of the bucket takes its place.
    fn remove_from_bucket(&mut self, BucketEntry { value, position }: BucketEntry) {
        let slots = &mut self.bucket_mut(value).slots;
        slots.swap_remove(position as usize);
        if slots.len() < slots.capacity() / 8 {
            slots.shrink_to_fit();
        }
        if let Some(moved) = slots.get(position as usize).copied() {
            let mut entries = self.values_of[moved as usize].iter_mut();
            entries.find(|entry| entry.value == value).expect("INV-X1").position = position;
        }
    }

    /// Returns true if this number of values, of slots below `end`, can be added without an allocation of the tables.
    pub(super) fn has_room(&self, end: usize, values: usize) -> bool {
        values <= self.buckets.room() && end <= self.values_of.capacity()
    }

    /// Returns a copy in which this number of values, of slots below `end`, can be added without an allocation of the tables.
    pub(super) fn copy_with_room(&self, end: usize, values: usize) -> Self {
        let slots = self.values_of.len();
        let more_slots = grown(self.values_of.capacity() - slots, end.saturating_sub(slots), slots);
        let mut values_of = Vec::with_capacity(self.values_of.capacity().max(slots + more_slots));
        values_of.extend_from_slice(&self.values_of);
        Self { values_of, buckets: self.buckets.copy_with_room(values) }
    }

    /// Removes all values of a slot.
    pub(super) fn clear(&mut self, slot: Slot) {
        self.set(slot, std::iter::empty());
    }

    /// Returns the slots that have a value, in no order.
    pub(super) fn slots(&self, text: &str) -> impl Iterator<Item = Slot> {
        self.find(text).into_iter().flat_map(|id| self.bucket(id).slots.iter().copied())
    }

    /// Returns the number of slots that have a value.
    pub(super) fn count(&self, text: &str) -> usize {
        self.find(text).map_or(0, |id| self.bucket(id).slots.len())
    }

    /// Returns the values of all slots.
    pub(super) fn texts(&self) -> impl Iterator<Item = &Arc<str>> {
        self.buckets.iter().map(|bucket| &bucket.text)
    }

    /// Returns the values of a slot.
    pub(super) fn values(&self, slot: Slot) -> impl Iterator<Item = &str> + Clone {
        let values = self.values_of.get(slot as usize).map(SmallVec::as_slice).unwrap_or_default();
        values.iter().map(|entry| &*self.bucket(entry.value).text)
    }

    fn find(&self, text: &str) -> Option<ValueId> {
        self.buckets.find(hash_of(text), |bucket| *bucket.text == *text)
    }

    fn find_or_add(&mut self, text: &str) -> ValueId {
        let bucket = || Bucket { text: text.into(), slots: SmallVec::new() };
        self.find(text).unwrap_or_else(|| self.buckets.insert(bucket()))
    }

    fn bucket(&self, id: ValueId) -> &Bucket {
        self.buckets.get(id).expect("INV-X1")
    }

    fn bucket_mut(&mut self, id: ValueId) -> &mut Bucket {
        self.buckets.get_mut(id).expect("INV-X1")
    }

    /// Checks the invariants, and returns the values of each slot below `end`.
    #[cfg(test)]
    pub(super) fn check_invariants(&self, end: usize) -> Vec<Vec<&str>> {
        self.buckets.check_invariants();
        for (id, bucket) in self.buckets.occupied() {
            assert!(!bucket.slots.is_empty(), "INV-X2");
            assert_eq!(self.find(&bucket.text), Some(id), "INV-X1");
            for (position, &slot) in (0..).zip(&bucket.slots) {
                let mut entries = self.values_of[slot as usize].iter();
                assert!(entries.any(|entry| (entry.value, entry.position) == (id, position)), "INV-X1");
            }
        }
        assert!(self.values_of.iter().skip(end).all(SmallVec::is_empty), "INV-X1");
        for (slot, entries) in (0..).zip(&self.values_of) {
            assert!(entries.iter().all(|entry| self.bucket(entry.value).slots.contains(&slot)), "INV-X1");
        }
        (0..).take(end).map(|slot| self.values(slot).collect()).collect()
    }
}

impl Hashed for Bucket {
    fn table_hash(&self) -> u64 {
        hash_of(&self.text)
    }
}

fn hash_of(text: &str) -> u64 {
    // A random seed: values come from users of the cluster, who must not be able to choose colliding ones.
    static SEED: LazyLock<DefaultHashBuilder> = LazyLock::new(DefaultHashBuilder::default);
    SEED.hash_one(text)
}
