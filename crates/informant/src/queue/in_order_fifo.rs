//! The ordering that keeps every delta in its place, like client-go's `RealFIFO`.
//!
//! - **In:** deltas of single objects.
//! - **Out:** the same deltas in the same order, in batches. Only one batch is in flight at a time.
//! - **Knows nothing of:** relists and other changes that concern all objects.

use std::{collections::VecDeque, num::NonZeroUsize};

use hashbrown::HashSet;

use super::{
    ItemOutcome, ObjectChanges,
    progress::{Progress, Version, VersionRef},
    rules::{Ordering, Outcomes, is_far_too_large},
};
use crate::{
    Cached, Key,
    delta::{Delta, Deltas},
};

pub(super) struct InOrderFifo<O> {
    /// INV-R1: each item has one delta, and the versions of the items were pushed in the order of the items.
    items: VecDeque<ObjectChanges<O>>,

    /// The deltas of the batch in flight; `None` if no batch is in flight.
    in_flight: Option<Vec<Delta<O>>>,

    /// The largest number of items since the queue was last empty.
    peak: usize,

    /// The largest number of deltas in a batch.
    batch_size: NonZeroUsize,
}

impl<O> InOrderFifo<O> {
    pub(super) fn new(batch_size: NonZeroUsize) -> Self {
        Self { items: VecDeque::new(), in_flight: None, peak: 0, batch_size }
    }

    /// Returns how many items from the head form a batch: all items of a relist or a resync, otherwise at most `at_most`. A batch contains each
    /// object at most once.
    fn batch_len(&self, at_most: usize) -> usize {
        let Some(head) = self.items.front().map(|head| head.version_ref) else { return 0 };
        let mut keys = HashSet::with_capacity(self.items.len().min(at_most));
        let alike = self.items.iter().enumerate().take_while(|(position, item)| {
            let fits = match head.is_shared() {
                true => item.version_ref.is_shared_with(head),
                false => *position < at_most && !item.version_ref.is_shared(),
            };
            fits && keys.insert(item.key())
        });
        alike.count()
    }

    fn deltas(&self) -> impl Iterator<Item = &Delta<O>> {
        self.in_flight.iter().flatten().chain(self.items.iter().flat_map(|item| item.deltas.iter()))
    }
}

impl<O: Send + Sync> Ordering<O> for InOrderFifo<O> {
    fn push(&mut self, delta: Delta<O>, version: Version, progress: &mut Progress) -> Option<Cached<O>> {
        let version_ref = progress.add(version);
        self.items.push_back(ObjectChanges { deltas: delta.into(), version_ref, slot: None });
        self.peak = self.peak.max(self.items.len());
        None
    }

    fn take(&mut self, at_most: usize, progress: &mut Progress) -> Vec<ObjectChanges<O>> {
        let count = match at_most {
            1 => self.items.len().min(1),
            _ => self.batch_len(at_most.min(self.batch_size.get())),
        };
        let items: Vec<_> = self.items.drain(..count).collect();
        items.iter().for_each(|item| progress.take(item.version_ref));
        self.in_flight = Some(items.iter().map(|item| item.deltas.newest().clone()).collect());
        items
    }

    fn settle(
        &mut self,
        items: &mut Vec<ObjectChanges<O>>,
        outcomes: &Outcomes,
        progress: &mut Progress,
    ) -> Vec<Cached<O>> {
        // These are references to objects in `items`, so dropping them frees no object.
        self.in_flight = None;
        let mut requeued = Vec::new();
        for (position, mut item) in std::mem::take(items).into_iter().enumerate() {
            match outcomes.of(position) {
                ItemOutcome::Requeue { processed: 0 } => {
                    item.version_ref = progress.requeue(item.version_ref);
                    requeued.push(item);
                }
                ItemOutcome::Requeue { processed: _ } | ItemOutcome::Done => {
                    progress.acknowledge(item.version_ref);
                    items.push(item);
                }
            }
        }
        requeued.into_iter().rev().for_each(|item| self.items.push_front(item));
        Vec::new()
    }

    fn may_take(&self) -> bool {
        self.in_flight.is_none()
    }

    /// Returns true if a batch is in flight and two more wait.
    fn is_full(&self) -> bool {
        self.in_flight.is_some() && self.items.len() >= self.batch_size.get().saturating_mul(2)
    }

    fn oldest_version(&self) -> Option<VersionRef> {
        self.items.front().map(|item| item.version_ref)
    }

    fn queues_delete(&self, _: &Key) -> Option<bool> {
        Some(true)
    }

    fn newest(&self, key: &Key) -> Option<&Delta<O>> {
        self.deltas().filter(|delta| delta.key() == key).last()
    }

    fn newest_of_each(&self) -> Box<dyn Iterator<Item = &Delta<O>> + '_> {
        Box::new(self.deltas())
    }

    fn len(&self) -> usize {
        self.items.len()
    }

    fn waiting(&self) -> Box<dyn Iterator<Item = (&Deltas<O>, VersionRef)> + '_> {
        Box::new(self.items.iter().map(|item| (&item.deltas, item.version_ref)))
    }

    fn free_memory(&mut self) -> bool {
        if !self.items.is_empty() {
            return false;
        }
        let is_far_too_large = is_far_too_large(self.items.capacity(), std::mem::take(&mut self.peak));
        if is_far_too_large {
            self.items = VecDeque::new();
        }
        is_far_too_large
    }

    #[cfg(test)]
    fn check_invariants(&self) {
        let mut versions = self.items.iter().map(|item| item.version_ref);
        assert!(versions.by_ref().is_sorted_by(|one, next| !next.is_before(*one)), "INV-R1");
        assert!(self.items.iter().all(|item| item.deltas.len() == 1), "INV-R1");
    }
}
