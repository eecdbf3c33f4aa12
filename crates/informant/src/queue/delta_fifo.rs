//! The ordering that groups deltas by object, like client-go's `DeltaFIFO`.
//!
//! - **In:** deltas of single objects.
//! - **Out:** all waiting deltas of one object at a time; the object that has waited longest is first. An object that changes while it is in flight goes to the
//!   end when it is acknowledged or requeued.
//! - **Knows nothing of:** relists and other changes that concern all objects.

use std::collections::VecDeque;

use super::{
    ItemOutcome, ObjectChanges,
    progress::{Progress, Version, VersionRef},
    rules::{Ordering, Outcomes},
};
use crate::{
    Cached, Key,
    delta::{Delta, Deltas},
    slots::{Keyed, Slot, Slots},
};

pub(super) struct DeltaFifo<O> {
    /// Objects in pop order.
    ///
    /// INV-Q1: exactly the objects that have waiting deltas and are not in flight, each once.
    order: VecDeque<Slot>,

    /// INV-Q2: each entry has waiting deltas, is in flight, or both.
    entries: Slots<Entry<O>>,

    /// The largest number of entries since the queue was last empty.
    peak: usize,
}

struct Entry<O> {
    key: Key,
    waiting: Option<WaitingDeltas<O>>,
    /// The newest delta in flight.
    ///
    /// INV-Q4: `Some` exactly for the objects of open batches.
    in_flight: Option<Delta<O>>,
}

struct WaitingDeltas<O> {
    deltas: Deltas<O>,
    version_ref: VersionRef,
}

impl<O> DeltaFifo<O> {
    fn entry(&self, key: &Key) -> Option<&Entry<O>> {
        self.entries.get(self.entries.find(key)?)
    }

    /// Marks an object as no longer in flight. If deltas of the object wait now, the object goes to the end of the queue.
    fn end_flight(&mut self, slot: Slot, waiting: impl FnOnce(Option<WaitingDeltas<O>>) -> Option<WaitingDeltas<O>>) {
        let entry = self.entries.get_mut(slot).expect("INV-Q4");
        entry.in_flight = None;
        entry.waiting = waiting(entry.waiting.take());
        if entry.waiting.is_some() {
            self.order.push_back(slot);
        } else {
            self.entries.remove(slot);
        }
    }
}

impl<O: Send + Sync> Ordering<O> for DeltaFifo<O> {
    fn push(&mut self, delta: Delta<O>, version: Version, progress: &mut Progress) -> Option<Cached<O>> {
        let slot = self.entries.find(delta.key());
        match slot.and_then(|slot| self.entries.get_mut(slot)) {
            Some(Entry { waiting: Some(waiting), .. }) => {
                progress.add_to(&mut waiting.version_ref, version);
                return waiting.deltas.push(delta);
            }
            // The object is in flight. It is added to `order` when its batch is acknowledged or requeued.
            Some(entry) => {
                entry.waiting = Some(WaitingDeltas { deltas: delta.into(), version_ref: progress.add(version) });
            }
            None => {
                let key = delta.key().clone();
                let waiting = Some(WaitingDeltas { deltas: delta.into(), version_ref: progress.add(version) });
                self.order.push_back(self.entries.insert(Entry { key, waiting, in_flight: None }));
                self.peak = self.peak.max(self.entries.len());
            }
        }
        None
    }

    fn take(&mut self, at_most: usize, progress: &mut Progress) -> Vec<ObjectChanges<O>> {
        let count = self.order.len().min(at_most);
        let mut items = Vec::with_capacity(count);
        for slot in self.order.drain(..count) {
            let entry = self.entries.get_mut(slot).expect("INV-Q1");
            let WaitingDeltas { deltas, version_ref } = entry.waiting.take().expect("INV-Q1");
            progress.take(version_ref);
            entry.in_flight = Some(deltas.newest().clone());
            items.push(ObjectChanges { deltas, version_ref, slot: Some(slot) });
        }
        items
    }

    /// Drops the queue's own references to the objects in flight. `items` has references to the same objects, so no object is freed here.
    fn settle(
        &mut self,
        items: &mut Vec<ObjectChanges<O>>,
        outcomes: &Outcomes,
        progress: &mut Progress,
    ) -> Vec<Cached<O>> {
        let mut discarded = Vec::new();
        for (position, item) in items.iter().enumerate() {
            let slot = item.slot.expect("INV-Q4");
            let rest = match outcomes.of(position) {
                ItemOutcome::Done => None,
                ItemOutcome::Requeue { processed } => item.deltas.rest(processed),
            };
            match rest {
                None => {
                    progress.acknowledge(item.version_ref);
                    self.end_flight(slot, |newer| newer);
                }
                Some(rest) => {
                    let version_ref = progress.requeue(item.version_ref);
                    let requeued = WaitingDeltas { deltas: rest, version_ref };
                    self.end_flight(slot, |newer| Some(requeued.put_before(newer, progress, &mut discarded)));
                }
            }
        }
        discarded
    }

    fn may_take(&self) -> bool {
        true
    }

    fn is_full(&self) -> bool {
        false
    }

    fn oldest_version(&self) -> Option<VersionRef> {
        None
    }

    fn queues_delete(&self, key: &Key) -> Option<bool> {
        match self.entry(key)? {
            // If the newest waiting delta is a delete as well, the two are combined.
            Entry { waiting: Some(_), .. } => Some(true),
            Entry { waiting: None, in_flight, .. } => in_flight.as_ref().map(|newest| !newest.is_deleted()),
        }
    }

    fn newest(&self, key: &Key) -> Option<&Delta<O>> {
        self.entry(key)?.newest()
    }

    fn newest_of_each(&self) -> Box<dyn Iterator<Item = &Delta<O>> + '_> {
        Box::new(self.entries.iter().filter_map(Entry::newest))
    }

    fn len(&self) -> usize {
        self.order.len()
    }

    fn waiting(&self) -> Box<dyn Iterator<Item = (&Deltas<O>, VersionRef)> + '_> {
        let in_line = self.order.iter().filter_map(|&slot| self.entries.get(slot));
        let held_back = self.entries.iter().filter(|entry| entry.in_flight.is_some());
        let waiting = in_line.chain(held_back).filter_map(|entry| entry.waiting.as_ref());
        Box::new(waiting.map(|waiting| (&waiting.deltas, waiting.version_ref)))
    }

    fn free_memory(&mut self) -> bool {
        if self.entries.len() > 0 {
            return false;
        }
        let is_far_too_large = super::rules::is_far_too_large(self.entries.capacity(), std::mem::take(&mut self.peak));
        if is_far_too_large {
            *self = Self::default();
        }
        is_far_too_large
    }

    #[cfg(test)]
    fn check_invariants(&self) {
        self.entries.check_invariants();
        let mut in_line: Vec<_> = self.order.iter().copied().collect();
        in_line.sort();
        let takeable =
            self.entries.occupied().filter(|(_, entry)| entry.waiting.is_some() && entry.in_flight.is_none());
        assert_eq!(in_line, takeable.map(|(slot, _)| slot).collect::<Vec<_>>(), "INV-Q1");
        for entry in self.entries.iter() {
            assert!(entry.newest().is_some(), "INV-Q2");
            let mut deltas = entry.waiting.iter().flat_map(|waiting| waiting.deltas.iter());
            assert!(deltas.all(|delta| *delta.key() == entry.key), "INV-D1");
        }
    }
}

impl<O> WaitingDeltas<O> {
    /// Puts these requeued deltas before newer ones. If there are newer ones, only the deletes of the requeued deltas are kept, because the newer
    /// deltas replace the others.
    fn put_before(self, newer: Option<Self>, progress: &mut Progress, discarded: &mut Vec<Cached<O>>) -> Self {
        let Some(newer) = newer else { return self };
        let version_ref = progress.combine(self.version_ref, newer.version_ref);
        let deltas = match self.deltas.deletes() {
            None => newer.deltas,
            Some(mut deletes) => {
                deletes.append(newer.deltas, discarded);
                deletes
            }
        };
        Self { deltas, version_ref }
    }
}

impl<O> Entry<O> {
    fn newest(&self) -> Option<&Delta<O>> {
        self.waiting.as_ref().map(|waiting| waiting.deltas.newest()).or(self.in_flight.as_ref())
    }
}

impl<O> Keyed for Entry<O> {
    fn key(&self) -> &Key {
        &self.key
    }
}

impl<O> Default for DeltaFifo<O> {
    fn default() -> Self {
        Self { order: VecDeque::new(), entries: Slots::default(), peak: 0 }
    }
}
