//! One index as plain data: the slots of each value, and the values of each slot.

use std::{
    hash::BuildHasher,
    sync::{Arc, LazyLock},
};

use hashbrown::{DefaultHashBuilder, HashSet};
use smallvec::SmallVec;

use crate::slots::{Hashed, Slot, Slots, grown};

/// The number of a value's bucket, which names the value within one index.
type ValueId = Slot;

/// Sets of more slots than this are hash tables.
const FEW: usize = 16;

/// The slots of each value, and the values of each slot.
#[derive(Default)]
pub(super) struct Buckets {
    /// The values of each slot, by its number; slots beyond the end have none.
    ///
    /// INV-X1: a slot has a value exactly if the value's bucket has the slot.
    values_of: Vec<SmallVec<[ValueId; 4]>>,

    /// INV-X2: no bucket is empty.
    buckets: Slots<Bucket>,
}

/// A value, and the slots of the objects that have it.
#[derive(Clone)]
struct Bucket {
    text: Arc<str>,
    slots: SlotSet,
}

/// A set of slots that costs little when it is small: most values of a typical index have few objects.
#[derive(Clone)]
enum SlotSet {
    Few(SmallVec<[Slot; 4]>),
    Many(Box<HashSet<Slot>>),
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
        for &id in &old {
            self.bucket_mut(id).slots.remove(slot);
        }
        for text in texts {
            let id = self.find_or_add(text);
            // A repeated value is in its bucket already.
            if self.bucket_mut(id).slots.insert(slot) {
                self.values_of[position].push(id);
            }
        }
        for id in old {
            if self.bucket(id).slots.len() == 0 {
                self.buckets.remove(id);
            }
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
        self.find(text).into_iter().flat_map(|id| self.bucket(id).slots.iter())
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
        values.iter().map(|&id| &*self.bucket(id).text)
    }

    fn find(&self, text: &str) -> Option<ValueId> {
        self.buckets.find_hashed(hash_of(text), |bucket| *bucket.text == *text)
    }

    fn find_or_add(&mut self, text: &str) -> ValueId {
        let bucket = || Bucket { text: text.into(), slots: SlotSet::Few(SmallVec::new()) };
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
            assert!(bucket.slots.len() > 0, "INV-X2");
            assert_eq!(self.find(&bucket.text), Some(id), "INV-X1");
            for slot in bucket.slots.iter() {
                assert!(self.values_of[slot as usize].contains(&id), "INV-X1");
            }
        }
        assert!(self.values_of.iter().skip(end).all(SmallVec::is_empty), "INV-X1");
        for (slot, values) in (0..).zip(&self.values_of) {
            assert!(values.iter().all(|&id| self.bucket(id).slots.iter().any(|other| other == slot)), "INV-X1");
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

impl SlotSet {
    /// Returns false if the set has the slot already.
    fn insert(&mut self, slot: Slot) -> bool {
        match self {
            Self::Few(slots) if slots.contains(&slot) => return false,
            Self::Few(slots) if slots.len() < FEW => slots.push(slot),
            Self::Few(slots) => {
                let slots = slots.iter().copied().chain([slot]).collect();
                *self = Self::Many(Box::new(slots));
            }
            Self::Many(slots) => return slots.insert(slot),
        }
        true
    }

    fn remove(&mut self, slot: Slot) {
        match self {
            Self::Few(slots) => {
                if let Some(position) = slots.iter().position(|&other| other == slot) {
                    slots.swap_remove(position);
                }
            }
            Self::Many(slots) => {
                slots.remove(&slot);
                // Shrinks only at half of `FEW`, so that a set with about `FEW` slots is not converted with every write.
                if slots.len() <= FEW / 2 {
                    *self = Self::Few(slots.iter().copied().collect());
                } else if slots.len() < slots.capacity() / 8 {
                    slots.shrink_to_fit();
                }
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Few(slots) => slots.len(),
            Self::Many(slots) => slots.len(),
        }
    }

    fn iter(&self) -> impl Iterator<Item = Slot> {
        let (few, many) = match self {
            Self::Few(slots) => (Some(slots.iter()), None),
            Self::Many(slots) => (None, Some(slots.iter())),
        };
        few.into_iter().flatten().chain(many.into_iter().flatten()).copied()
    }
}
