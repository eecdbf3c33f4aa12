//! One index as plain data: the slots of each value, and the values of each slot.

use std::{hash::BuildHasher, sync::Arc};

use hashbrown::{DefaultHashBuilder, HashSet, HashTable};
use smallvec::SmallVec;

use crate::slots::{Slot, grown};

/// Names a value within one index.
type ValueId = u32;

/// Lists longer than this are searched with a hash table.
const FEW: usize = 16;

/// The slots of each value, and the values of each slot.
#[derive(Default)]
pub(super) struct Buckets {
    /// The values of each slot, by its number; slots beyond the end have none.
    ///
    /// INV-X1: a slot has a value exactly if the value's bucket has the slot.
    values_of: Vec<SmallVec<[ValueId; 4]>>,

    /// INV-X2: no bucket is empty.
    buckets: Vec<Option<Bucket>>,

    /// Numbers of `buckets` that are not in use.
    free: Vec<ValueId>,

    /// INV-X3: finds exactly the buckets that are in use, by their text.
    by_text: HashTable<ValueId>,

    hasher: DefaultHashBuilder,
}

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
        let mut values: SmallVec<[ValueId; 4]> = texts.map(|text| self.find_or_add(text)).collect();
        remove_repeated(&mut values);
        let position = slot as usize;
        if self.values_of.len() <= position {
            self.values_of.resize_with(position + 1, SmallVec::new);
        }
        let old = std::mem::take(&mut self.values_of[position]);
        only_in(&values, &old).for_each(|id| self.bucket_mut(id).slots.insert(slot));
        only_in(&old, &values).for_each(|id| self.remove_slot(id, slot));
        self.values_of[position] = values;
    }

    /// Returns the number of values that can be added without an allocation of the tables.
    fn room(&self) -> usize {
        let for_buckets = self.buckets.capacity() - self.buckets.len() + self.free.len();
        for_buckets.min(self.by_text.capacity() - self.by_text.len())
    }

    /// Returns true if this number of values, of slots below `end`, can be added without an allocation of the tables.
    pub(super) fn has_room(&self, end: usize, values: usize) -> bool {
        values <= self.room() && end <= self.values_of.capacity()
    }

    /// Returns a copy in which this number of values, of slots below `end`, can be added without an allocation of the tables.
    pub(super) fn copy_with_room(&self, end: usize, values: usize) -> Self {
        let slots = self.values_of.len();
        let more_slots = grown(self.values_of.capacity() - slots, end.saturating_sub(slots), slots);
        let mut values_of = Vec::with_capacity(self.values_of.capacity().max(slots + more_slots));
        values_of.extend_from_slice(&self.values_of);
        let more_values = grown(self.room(), values, self.buckets.len());
        let mut buckets = Vec::with_capacity(self.buckets.capacity().max(self.buckets.len() + more_values));
        buckets.extend_from_slice(&self.buckets);
        let (mut by_text, hasher) = (self.by_text.clone(), self.hasher.clone());
        by_text.reserve(more_values, |&id| hash_of(&hasher, &buckets, id));
        Self { values_of, buckets, free: self.free.clone(), by_text, hasher }
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
        self.buckets.iter().flatten().map(|bucket| &bucket.text)
    }

    /// Returns the values of a slot.
    pub(super) fn values(&self, slot: Slot) -> impl Iterator<Item = &str> + Clone {
        let values = self.values_of.get(slot as usize).map(SmallVec::as_slice).unwrap_or_default();
        values.iter().map(|&id| &*self.bucket(id).text)
    }

    fn find(&self, text: &str) -> Option<ValueId> {
        let hash = self.hasher.hash_one(text);
        self.by_text.find(hash, |&id| &*self.bucket(id).text == text).copied()
    }

    fn find_or_add(&mut self, text: &str) -> ValueId {
        if let Some(id) = self.find(text) {
            return id;
        }
        let bucket = Some(Bucket { text: text.into(), slots: SlotSet::Few(SmallVec::new()) });
        let id = match self.free.pop() {
            Some(id) => {
                self.buckets[id as usize] = bucket;
                id
            }
            None => {
                self.buckets.push(bucket);
                ValueId::try_from(self.buckets.len() - 1).expect("an index has less than 2^32 values")
            }
        };
        let Self { by_text, buckets, hasher, .. } = self;
        by_text.insert_unique(hasher.hash_one(text), id, |&id| hash_of(hasher, buckets, id));
        id
    }

    /// Removes a slot from a bucket, and the bucket if it is then empty.
    fn remove_slot(&mut self, id: ValueId, slot: Slot) {
        let bucket = self.bucket_mut(id);
        bucket.slots.remove(slot);
        if bucket.slots.len() > 0 {
            return;
        }
        let hash = self.hasher.hash_one(&*self.bucket(id).text);
        if let Ok(entry) = self.by_text.find_entry(hash, |&other| other == id) {
            entry.remove();
        }
        self.buckets[id as usize] = None;
        self.free.push(id);
    }

    fn bucket(&self, id: ValueId) -> &Bucket {
        self.buckets[id as usize].as_ref().expect("INV-X1")
    }

    fn bucket_mut(&mut self, id: ValueId) -> &mut Bucket {
        self.buckets[id as usize].as_mut().expect("INV-X1")
    }

    /// Also returns the values of each slot below `end`.
    #[cfg(test)]
    pub(super) fn check_invariants(&self, end: usize) -> Vec<Vec<&str>> {
        for (id, bucket) in self.buckets.iter().enumerate() {
            let Some(bucket) = bucket else { continue };
            assert!(bucket.slots.len() > 0, "INV-X2");
            assert_eq!(self.find(&bucket.text), Some(id as ValueId), "INV-X3");
            for slot in bucket.slots.iter() {
                assert!(self.values_of[slot as usize].contains(&(id as ValueId)), "INV-X1");
            }
        }
        assert_eq!(self.by_text.len() + self.free.len(), self.buckets.len(), "INV-X3");
        assert!(self.values_of.iter().skip(end).all(SmallVec::is_empty), "INV-X1");
        for (slot, values) in (0..).zip(&self.values_of) {
            assert!(values.iter().all(|&id| self.bucket(id).slots.iter().any(|other| other == slot)), "INV-X1");
        }
        (0..).take(end).map(|slot| self.values(slot).collect()).collect()
    }
}

fn hash_of(hasher: &DefaultHashBuilder, buckets: &[Option<Bucket>], id: ValueId) -> u64 {
    hasher.hash_one(&*buckets[id as usize].as_ref().expect("INV-X3").text)
}

/// Removes repeated values, and keeps the order of the others.
fn remove_repeated(values: &mut SmallVec<[ValueId; 4]>) {
    if values.len() > FEW {
        let mut seen = HashSet::<ValueId>::new();
        values.retain(|id| seen.insert(*id));
        return;
    }
    let mut position = 1;
    while position < values.len() {
        match values[..position].contains(&values[position]) {
            true => {
                values.remove(position);
            }
            false => position += 1,
        }
    }
}

/// Returns the values of one list that another does not have.
fn only_in<'a>(list: &'a [ValueId], other: &'a [ValueId]) -> impl Iterator<Item = ValueId> + use<'a> {
    let many: Option<HashSet<ValueId>> = (other.len() > FEW).then(|| other.iter().copied().collect());
    let is_in_other = move |id: &ValueId| match &many {
        Some(many) => many.contains(id),
        None => other.contains(id),
    };
    list.iter().copied().filter(move |id| !is_in_other(id))
}

impl SlotSet {
    fn insert(&mut self, slot: Slot) {
        match self {
            Self::Few(slots) if slots.len() < FEW => slots.push(slot),
            Self::Few(slots) => {
                let slots = slots.iter().copied().chain([slot]).collect();
                *self = Self::Many(Box::new(slots));
            }
            Self::Many(slots) => {
                slots.insert(slot);
            }
        }
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
                // Half of the bound, so that a set at the bound is not converted with every write.
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
