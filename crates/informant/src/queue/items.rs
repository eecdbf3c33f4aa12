//! Holds the deltas of each object between push and acknowledgement, like client-go's `DeltaFIFO`.
//!
//! - **In:** deltas of single objects.
//! - **Out:** all waiting deltas of one object at a time; the object that has waited longest is first. An object that changes while it is in flight goes to the
//!   end when it is acknowledged or requeued.
//! - **Knows nothing of:** relists and other changes that concern all objects.

use std::collections::VecDeque;

use derive_where::derive_where;
use smallvec::SmallVec;

use super::{
    ItemOutcome, ObjectChanges,
    progress::{ChangeRef, Progress},
};
use crate::{
    Cached, Key,
    delta::{Delta, Deltas},
    slots::{Hashed, Slot, Slots},
};

#[derive_where(Default)]
pub(super) struct Items<O> {
    /// Objects in pop order.
    ///
    /// INV-Q1: exactly the objects that have waiting deltas and are not in flight, each once.
    queue: VecDeque<Slot>,

    /// INV-Q2: each item has waiting deltas, is in flight, or both.
    items: Slots<Item<O>>,

    /// The largest number of items since there was none.
    peak: usize,
}

struct Item<O> {
    key: Key,
    waiting: Option<WaitingDeltas<O>>,
    /// The newest delta in flight.
    ///
    /// INV-Q4: `Some` exactly for the objects of open batches.
    in_flight: Option<Delta<O>>,
}

struct WaitingDeltas<O> {
    deltas: Deltas<O>,
    change: ChangeRef,
}

impl<O> Items<O> {
    /// Appends a delta that is part of a change. Returns an object that is not needed any more.
    pub(super) fn push(&mut self, delta: Delta<O>, change: ChangeRef, progress: &mut Progress) -> Option<Cached<O>> {
        let slot = self.find(delta.key());
        match slot.and_then(|slot| self.items.get_mut(slot)) {
            Some(Item { waiting: Some(waiting), .. }) => {
                progress.join(&mut waiting.change, change);
                return waiting.deltas.push(change.number, delta);
            }
            // The object is in flight. It joins `queue` when its batch is acknowledged or requeued.
            Some(item) => item.waiting = Some(WaitingDeltas::new(delta, progress.add(change))),
            None => {
                let key = delta.key().clone();
                let waiting = Some(WaitingDeltas::new(delta, progress.add(change)));
                self.queue.push_back(self.items.insert(Item { key, waiting, in_flight: None }));
                self.peak = self.peak.max(self.items.len());
            }
        }
        None
    }

    /// Takes the objects that have waited longest, and marks them as in flight.
    pub(super) fn take(&mut self, at_most: usize, progress: &mut Progress) -> Vec<ObjectChanges<O>> {
        let count = self.queue.len().min(at_most);
        let mut taken = Vec::with_capacity(count);
        for slot in self.queue.drain(..count) {
            let item = self.items.get_mut(slot).expect("INV-Q1");
            let WaitingDeltas { deltas, change } = item.waiting.take().expect("INV-Q1");
            progress.take(change);
            item.in_flight = Some(deltas.newest().clone());
            let origin = progress.origin(deltas.numbered().iter().map(|(number, _)| *number));
            taken.push(ObjectChanges { deltas, origin, change, slot });
        }
        taken
    }

    /// Acknowledges or requeues objects in flight. Returns objects that are not needed any more.
    ///
    /// Drops the queue's own references to the objects in flight. `taken` has references to the same objects, so no object is freed here.
    pub(super) fn settle(
        &mut self,
        taken: &[ObjectChanges<O>],
        outcome: &dyn Fn(usize) -> ItemOutcome,
        progress: &mut Progress,
    ) -> Vec<Cached<O>> {
        let (mut discarded, mut acknowledged) = (Vec::new(), SmallVec::with_capacity(taken.len()));
        for (position, ObjectChanges { deltas, change, slot, .. }) in taken.iter().enumerate() {
            let rest = match outcome(position) {
                ItemOutcome::Done => None,
                ItemOutcome::Requeue { processed } => deltas.rest(processed),
            };
            match rest {
                None => {
                    acknowledged.push(*change);
                    self.end_flight(*slot, |newer| newer);
                }
                Some(deltas) => {
                    let requeued = WaitingDeltas { deltas, change: progress.requeue(*change) };
                    self.end_flight(*slot, |newer| Some(requeued.put_before(newer, progress, &mut discarded)));
                }
            }
        }
        progress.acknowledge_all(acknowledged);
        discarded
    }

    /// Marks an object as no longer in flight. If deltas of the object wait now, the object goes to the end of the queue.
    fn end_flight(&mut self, slot: Slot, waiting: impl FnOnce(Option<WaitingDeltas<O>>) -> Option<WaitingDeltas<O>>) {
        let item = self.items.get_mut(slot).expect("INV-Q4");
        item.in_flight = None;
        item.waiting = waiting(item.waiting.take());
        if item.waiting.is_some() {
            self.queue.push_back(slot);
        } else {
            self.items.remove(slot);
        }
    }

    fn get(&self, key: &Key) -> Option<&Item<O>> {
        self.items.get(self.find(key)?)
    }

    #[inline]
    fn find(&self, key: &Key) -> Option<Slot> {
        self.items.find(key.table_hash(), |item| item.key == *key)
    }

    /// Returns the waiting deltas of an object.
    pub(super) fn waiting(&self, key: &Key) -> Option<&Deltas<O>> {
        self.get(key)?.waiting.as_ref().map(|waiting| &waiting.deltas)
    }

    /// Returns the newest delta of an object that waits or is in flight.
    pub(super) fn newest(&self, key: &Key) -> Option<&Delta<O>> {
        self.get(key)?.newest()
    }

    /// Returns the newest delta of each object that waits or is in flight.
    pub(super) fn newest_of_each(&self) -> impl Iterator<Item = &Delta<O>> {
        self.items.iter().filter_map(Item::newest)
    }

    /// Returns the number of objects that can be taken.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns the keys of the objects with waiting deltas: first those that can be taken, in the order in which they are taken.
    pub(super) fn waiting_keys(&self) -> impl Iterator<Item = &Key> {
        let in_queue = self.queue.iter().filter_map(|&slot| self.items.get(slot));
        let held_back = self.items.iter().filter(|item| item.in_flight.is_some() && item.waiting.is_some());
        in_queue.chain(held_back).map(|item| &item.key)
    }

    /// Frees memory that an empty queue does not need. Returns true if it did.
    pub(super) fn free_memory(&mut self) -> bool {
        if self.items.len() > 0 {
            return false;
        }
        let is_far_too_large = is_far_too_large(self.items.capacity(), std::mem::take(&mut self.peak));
        if is_far_too_large {
            *self = Self::default();
        }
        is_far_too_large
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        self.items.check_invariants();
        let mut in_queue: Vec<_> = self.queue.iter().copied().collect();
        in_queue.sort();
        let takeable = self.items.occupied().filter(|(_, item)| item.waiting.is_some() && item.in_flight.is_none());
        assert_eq!(in_queue, takeable.map(|(slot, _)| slot).collect::<Vec<_>>(), "INV-Q1");
        for item in self.items.iter() {
            assert!(item.newest().is_some(), "INV-Q2");
            let mut deltas = item.waiting.iter().flat_map(|waiting| waiting.deltas.iter());
            assert!(deltas.all(|delta| *delta.key() == item.key), "INV-D1");
        }
    }

    /// Returns the references of the waiting objects.
    #[cfg(test)]
    pub(super) fn change_refs(&self) -> Vec<ChangeRef> {
        self.items.iter().filter_map(|item| Some(item.waiting.as_ref()?.change)).collect()
    }
}

impl<O> WaitingDeltas<O> {
    fn new(delta: Delta<O>, change: ChangeRef) -> Self {
        Self { deltas: Deltas::new(change.number, delta), change }
    }

    /// Puts these requeued deltas before newer ones. If there are newer ones, only the deletes of the requeued deltas are kept, because the newer
    /// deltas replace the others.
    fn put_before(self, newer: Option<Self>, progress: &mut Progress, discarded: &mut Vec<Cached<O>>) -> Self {
        let Some(newer) = newer else { return self };
        let change = progress.combine(self.change, newer.change);
        Self { deltas: newer.deltas.put_after_deletes_of(self.deltas, discarded), change }
    }
}

impl<O> Item<O> {
    fn newest(&self) -> Option<&Delta<O>> {
        self.waiting.as_ref().map(|waiting| waiting.deltas.newest()).or(self.in_flight.as_ref())
    }
}

impl<O> Hashed for Item<O> {
    fn table_hash(&self) -> u64 {
        self.key.table_hash()
    }
}

/// Returns true if an empty queue should shrink: its `capacity` is more than eight times the `peak` of items since it was last empty. A queue with
/// bursts of equal size keeps its capacity.
fn is_far_too_large(capacity: usize, peak: usize) -> bool {
    const SMALL: usize = 4096;
    capacity > SMALL && capacity / 8 > peak
}
