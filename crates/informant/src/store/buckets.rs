//! One index as plain data: the slots of each value, and the values of each slot.

use std::{
    hash::BuildHasher,
    sync::{Arc, LazyLock},
};

use hashbrown::{DefaultHashBuilder, HashMap};
use smallvec::SmallVec;

use crate::slots::{Hashed, Slot, Slots, grown};

/// The number of a value's bucket, which names the value within one index.
type ValueId = Slot;

/// The slots of each value, and the values of each slot.
#[derive(Default)]
pub(super) struct Buckets {
    /// The value of each slot, by its number; slots beyond the end have none. [`entries`](Self::entries) returns all values of a slot.
    ///
    /// INV-X1: a slot has a value exactly if the value's bucket has the slot, at the place that is noted in the slot's entries.
    values_of: Vec<BucketEntry>,

    /// The values of the slots that have several.
    ///
    /// INV-X3: exactly the slots whose entry is `BucketEntry::SEVERAL`, each with at least two values.
    several: HashMap<Slot, Box<[BucketEntry]>>,

    /// INV-X2: no bucket is empty.
    buckets: Slots<Bucket>,

    /// INV-X4: what [`owned_bytes`](Bucket::owned_bytes) returns for all buckets together, and the bytes of the boxes in `several`.
    owned: usize,
}

/// A value, and the slots of the objects that have it.
#[derive(Clone)]
struct Bucket {
    text: Arc<str>,
    /// In no order. Most values of a typical index have few objects.
    slots: SmallVec<[Slot; 4]>,
}

/// The place of a slot in the bucket of one of its values.
#[derive(Clone, Copy, PartialEq, Eq)]
struct BucketEntry {
    value: ValueId,
    /// The position in the slots of the bucket, so that a slot is removed without a search.
    position: u32,
}

impl BucketEntry {
    /// Stands for no value. No value has this number, because no index has four billion values.
    const NONE: Self = Self { value: ValueId::MAX, position: 0 };
    /// Stands for the values in `several`.
    const SEVERAL: Self = Self { value: ValueId::MAX - 1, position: 0 };
}

impl Buckets {
    /// Replaces the values of a slot.
    pub(super) fn set<'a>(&mut self, slot: Slot, texts: impl Iterator<Item = &'a str> + Clone) {
        if self.values(slot).eq(texts.clone()) {
            return;
        }
        let old: SmallVec<[_; 2]> = self.entries(slot).into();
        self.set_entries(slot, &[]);
        old.iter().for_each(|entry| self.remove_from_bucket(*entry));
        let mut new: SmallVec<[BucketEntry; 2]> = SmallVec::new();
        for text in texts {
            let value = self.find_or_add(text);
            // A repeated value is in its bucket already.
            if new.iter().all(|entry| entry.value != value) {
                new.push(BucketEntry { value, position: self.bucket(value).slots.len() as u32 });
                self.change_bucket(value, |slots| slots.push(slot));
            }
        }
        self.set_entries(slot, &new);
        for entry in old {
            if self.bucket(entry.value).slots.is_empty() {
                let removed = self.buckets.remove(entry.value);
                self.owned -= removed.map_or(0, |bucket| bucket.owned_bytes());
            }
        }
    }

    fn entries(&self, slot: Slot) -> &[BucketEntry] {
        match self.values_of.get(slot as usize) {
            None | Some(&BucketEntry::NONE) => &[],
            Some(&BucketEntry::SEVERAL) => &self.several[&slot],
            Some(only) => std::slice::from_ref(only),
        }
    }

    fn set_entries(&mut self, slot: Slot, entries: &[BucketEntry]) {
        let entry = match entries {
            [] => BucketEntry::NONE,
            [only] => *only,
            [_, _, ..] => BucketEntry::SEVERAL,
        };
        if self.values_of.len() <= slot as usize {
            self.values_of.resize(slot as usize + 1, BucketEntry::NONE);
        }
        let old = std::mem::replace(&mut self.values_of[slot as usize], entry);
        let removed = match old {
            BucketEntry::SEVERAL => self.several.remove(&slot),
            _ => None,
        };
        self.owned -= removed.map_or(0, |entries| size_of_val(&*entries));
        if entry == BucketEntry::SEVERAL {
            self.several.insert(slot, entries.into());
            self.owned += size_of_val(entries);
        }
    }

    /// Removes a slot from a bucket. The last slot of the bucket takes its place.
    fn remove_from_bucket(&mut self, BucketEntry { value, position }: BucketEntry) {
        self.change_bucket(value, |slots| {
            slots.swap_remove(position as usize);
            if slots.len() < slots.capacity() / 8 {
                slots.shrink_to_fit();
            }
        });
        if let Some(moved) = self.bucket(value).slots.get(position as usize).copied() {
            let entries = match &mut self.values_of[moved as usize] {
                &mut BucketEntry::SEVERAL => &mut **self.several.get_mut(&moved).expect("INV-X3"),
                only => std::slice::from_mut(only),
            };
            let mut entries = entries.iter_mut();
            entries.find(|entry| entry.value == value).expect("INV-X1").position = position;
        }
    }

    /// Returns true if this number of values, of slots below `end`, can be added without an allocation of the tables.
    pub(super) fn has_room(&self, end: usize, values: usize) -> bool {
        let has_room_for_several = self.several.is_empty() || values <= self.room_for_several();
        values <= self.buckets.room() && end <= self.values_of.capacity() && has_room_for_several
    }

    fn room_for_several(&self) -> usize {
        self.several.capacity() - self.several.len()
    }

    /// Returns a copy in which this number of values, of slots below `end`, can be added without an allocation of the tables. For more than a thousand
    /// values there is room only if the index has that many already: the values of a list are mostly equal to each other, and the copy may grow.
    pub(super) fn copy_with_room(&self, end: usize, values: usize) -> Self {
        let values = values.min(self.buckets.len().max(1000));
        let slots = self.values_of.len();
        let more_slots = grown(self.values_of.capacity() - slots, end.saturating_sub(slots), slots);
        let mut values_of = Vec::with_capacity(self.values_of.capacity().max(slots + more_slots));
        values_of.extend_from_slice(&self.values_of);
        let mut several = self.several.clone();
        if !several.is_empty() {
            several.reserve(grown(self.room_for_several(), values, several.len()));
        }
        let buckets = self.buckets.copy_with_room(values);
        let boxes: usize = several.values().map(|entries| size_of_val(&**entries)).sum();
        // The slots of a copied bucket have no room to spare.
        let owned = boxes + buckets.iter().map(Bucket::owned_bytes).sum::<usize>();
        Self { values_of, several, buckets, owned }
    }

    /// Returns how many bytes the index takes.
    pub(super) fn bytes(&self) -> usize {
        let entries = self.values_of.capacity() * size_of::<BucketEntry>() + self.several.allocation_size();
        entries + self.buckets.bytes() + self.owned
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
        self.entries(slot).iter().map(|entry| &*self.bucket(entry.value).text)
    }

    fn find(&self, text: &str) -> Option<ValueId> {
        self.buckets.find(hash_of(text), |bucket| *bucket.text == *text)
    }

    fn find_or_add(&mut self, text: &str) -> ValueId {
        self.find(text).unwrap_or_else(|| {
            let bucket = Bucket { text: text.into(), slots: SmallVec::new() };
            self.owned += bucket.owned_bytes();
            self.buckets.insert(bucket)
        })
    }

    fn bucket(&self, id: ValueId) -> &Bucket {
        self.buckets.get(id).expect("INV-X1")
    }

    /// Changes the slots of a bucket.
    fn change_bucket(&mut self, id: ValueId, change: impl FnOnce(&mut SmallVec<[Slot; 4]>)) {
        let bucket = self.buckets.get_mut(id).expect("INV-X1");
        let before = bucket.owned_bytes();
        change(&mut bucket.slots);
        self.owned = self.owned + bucket.owned_bytes() - before;
    }

    /// Checks the invariants, and returns the values of each slot below `end`.
    #[cfg(test)]
    pub(super) fn check_invariants(&self, end: usize) -> Vec<Vec<&str>> {
        self.buckets.check_invariants();
        for (id, bucket) in self.buckets.occupied() {
            assert!(!bucket.slots.is_empty(), "INV-X2");
            assert_eq!(self.find(&bucket.text), Some(id), "INV-X1");
            for (position, &slot) in (0..).zip(&bucket.slots) {
                assert!(self.entries(slot).contains(&BucketEntry { value: id, position }), "INV-X1");
            }
        }
        assert!(self.values_of.iter().skip(end).all(|entry| *entry == BucketEntry::NONE), "INV-X1");
        for slot in (0..).take(self.values_of.len()) {
            let entries = self.entries(slot);
            assert!(entries.iter().all(|entry| self.bucket(entry.value).slots.contains(&slot)), "INV-X1");
            assert_eq!(self.several.contains_key(&slot), entries.len() > 1, "INV-X3");
        }
        let boxes: usize = self.several.values().map(|entries| size_of_val(&**entries)).sum();
        assert_eq!(self.owned, boxes + self.buckets.iter().map(Bucket::owned_bytes).sum::<usize>(), "INV-X4");
        (0..).take(end).map(|slot| self.values(slot).collect()).collect()
    }
}

impl Bucket {
    /// Returns the number of bytes of the allocations of the bucket.
    fn owned_bytes(&self) -> usize {
        let slots = if self.slots.spilled() { self.slots.capacity() * size_of::<Slot>() } else { 0 };
        self.text.len() + 2 * size_of::<usize>() + slots
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
