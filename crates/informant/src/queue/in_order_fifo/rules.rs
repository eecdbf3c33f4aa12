//! The rules of the in-order queue, without lock, clock or waiting.

use std::{collections::VecDeque, num::NonZeroUsize};

use hashbrown::{HashMap, HashSet};

use super::{
    super::{
        KnownObjects, is_far_too_large,
        receipt::sealed::{Batch, Outcomes},
        watched::QueueState,
    },
    InOrderChange, ItemOutcome,
};
use crate::{
    Cached, Deleted, Key, Origin, ResourceVersion,
    delta::{Delta, QueuedChange, Relist},
};

pub(super) struct State<O> {
    /// INV-R1: numbers rise from the front to the back.
    items: VecDeque<Item<O>>,

    /// The number of the next item.
    next: u64,

    /// The largest number of items since the queue was last empty.
    peak: usize,

    in_flight: Option<InFlight<O>>,

    /// The end of the initial list: items with smaller numbers belong to it. `None` until the first change.
    initial_end: Option<u64>,

    /// All items with smaller numbers were acknowledged or requeued at least once.
    attempted: u64,

    /// Numbers and versions of acknowledged items that are not reached, because an earlier item was requeued.
    ///
    /// INV-R2: numbers rise, and between two of them an item waits or is in flight.
    done: VecDeque<(u64, ResourceVersion)>,

    reached: Option<ResourceVersion>,

    /// The largest number of changes in a batch.
    batch_size: NonZeroUsize,

    is_closed: bool,

    /// Objects that are not needed any more. The caller drops them after it has released the lock.
    discarded: Vec<Cached<O>>,
}

/// One queued change.
pub(super) struct Item<O> {
    pub(super) number: u64,
    /// The version that is reached when this item and all items before it are acknowledged.
    pub(super) version: Option<ResourceVersion>,
    /// True if the item is a relist after a history change, or the last change of one.
    pub(super) history_changed: bool,
    pub(super) change: QueuedChange<O>,
}

/// The queue's record of the open receipt.
struct InFlight<O> {
    /// The newest delta of each object; empty if the queue has no known objects, because the deltas are not needed then.
    deltas: Vec<Delta<O>>,
}

impl<O> State<O> {
    pub(super) fn new(batch_size: NonZeroUsize) -> Self {
        Self {
            items: VecDeque::new(),
            next: 0,
            peak: 0,
            in_flight: None,
            initial_end: None,
            attempted: 0,
            done: VecDeque::new(),
            reached: None,
            batch_size,
            is_closed: false,
            discarded: Vec::new(),
        }
    }

    /// Queues a change of one object.
    pub(super) fn push_delta(&mut self, delta: Delta<O>) {
        self.initial_end.get_or_insert(0);
        let version = delta.version().cloned();
        self.push(QueuedChange::One(delta), version);
    }

    /// Queues a change of one object; its version does not count as reached.
    pub(super) fn push_unordered(&mut self, delta: Delta<O>) {
        self.initial_end.get_or_insert(0);
        self.push(QueuedChange::One(delta), None);
    }

    /// Queues a delete whose final state could not be decoded. With known objects, it becomes a missed delete with the newest state; without, the
    /// consumer finds the state in its cache.
    pub(super) fn delete_unread(
        &mut self,
        key: &Key,
        version: Option<ResourceVersion>,
        known: Option<&dyn KnownObjects<O>>,
    ) {
        let change = known.map_or(Some(QueuedChange::Lost(key.clone())), |known| {
            let last_known = match self.queued_deltas().filter(|delta| delta.key() == key).last() {
                Some(newest) => Some(newest.object().clone()).filter(|_| !newest.is_deleted()),
                None => known.get(key),
            };
            last_known.map(|last_known| QueuedChange::One(Delta::Deleted(Deleted::Missed { last_known })))
        });
        self.initial_end.get_or_insert(0);
        match change {
            Some(change) => self.push(change, version),
            None => version.into_iter().for_each(|version| self.bookmark(version)),
        }
    }

    /// Queues a relist: without known objects as one change; with known objects as deletes of all objects that it lacks, then the listed objects.
    pub(super) fn replace(&mut self, relist: Relist<O>, known: Option<&dyn KnownObjects<O>>) {
        match known {
            None => {
                let version = Some(relist.version.clone());
                self.push(QueuedChange::ReplacedAll(relist), version);
            }
            Some(known) => self.replace_each(relist, known),
        }
        let end = self.next;
        self.initial_end.get_or_insert(end);
    }

    fn replace_each(&mut self, relist: Relist<O>, known: &dyn KnownObjects<O>) {
        let before = self.next;
        for last_known in self.missing_from(&relist, known) {
            self.push(QueuedChange::One(Delta::Deleted(Deleted::Missed { last_known })), None);
        }
        for object in relist.objects {
            self.push(QueuedChange::One(Delta::Replaced(object)), None);
        }
        match self.items.back_mut() {
            Some(last) if self.next > before => {
                last.version = Some(relist.version.clone()).filter(|version| !version.is_empty());
                last.history_changed = relist.history_changed;
            }
            Some(_) | None => {
                self.push(QueuedChange::Bookmark(relist.version.clone()), Some(relist.version.clone()));
                self.items.back_mut().into_iter().for_each(|last| last.history_changed = relist.history_changed);
            }
        }
    }

    /// Returns the newest states of all objects that wait, are in flight or are known, and that the list does not have: first those
    /// in the queue, in queue order.
    fn missing_from(&mut self, relist: &Relist<O>, known: &dyn KnownObjects<O>) -> Vec<Cached<O>> {
        let is_missing = relist.missing();
        let mut known = known.list();
        let newest = self.newest_queued();
        let mut seen = HashSet::new();
        let queued = self.queued_deltas().filter(|delta| seen.insert(delta.key()));
        let queued = queued.filter_map(|delta| newest.get(delta.key()).filter(|newest| !newest.is_deleted()));
        let queued = queued.map(|newest| newest.object()).filter(|object| is_missing(object)).cloned();
        let mut missing: Vec<_> = queued.collect();
        missing.extend(known.extract_if(.., |object| is_missing(object) && !newest.contains_key(object.key())));
        drop((newest, seen));
        self.discarded.append(&mut known);
        missing
    }

    /// Queues a resync: without known objects as one change; with known objects as a `Sync` of each object that neither waits nor is in flight.
    pub(super) fn resync(&mut self, known: Option<&dyn KnownObjects<O>>) {
        let Some(known) = known else { return self.push(QueuedChange::SyncAll, None) };
        let mut idle = known.list();
        let queued: HashSet<&Key> = self.queued_deltas().map(Delta::key).collect();
        let busy: Vec<_> = idle.extract_if(.., |object| queued.contains(object.key())).collect();
        drop(queued);
        self.discarded.extend(busy);
        for object in idle {
            self.push(QueuedChange::One(Delta::Sync(object)), None);
        }
    }

    /// Queues a bookmark.
    pub(super) fn bookmark(&mut self, version: ResourceVersion) {
        self.push(QueuedChange::Bookmark(version.clone()), Some(version));
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Takes a batch of at most `at_most` changes from the head; `None` if the queue is empty or a receipt is open.
    ///
    /// `remembers` is true if the queue must be able to find the deltas in flight, which it needs with known objects.
    pub(super) fn take(&mut self, at_most: usize, remembers: bool) -> Option<Batch<InOrderChange<O>, ()>> {
        if self.in_flight.is_some() {
            return None;
        }
        let count = self.batch_len(at_most);
        if count == 0 {
            return None;
        }
        let origin = self.origin_of(self.items[0].number);
        let items: Vec<_> = self.items.drain(..count).map(|item| InOrderChange { origin, item }).collect();
        if self.items.is_empty() {
            if is_far_too_large(self.items.capacity(), self.peak) {
                self.items = VecDeque::new();
            }
            self.peak = 0;
        }
        let deltas = items.iter().filter_map(|taken| taken.item.change.delta());
        self.in_flight = Some(InFlight { deltas: if remembers { deltas.cloned().collect() } else { Vec::new() } });
        let version = self.reached_after(&items);
        let history_changed = items.iter().any(|taken| taken.item.history_changed);
        Some(Batch { items, pending_versions: (), version, history_changed })
    }

    /// Returns how many changes from the head form a batch. A batch has each object at most once, changes either only of the initial list or only
    /// after it, and a change that concerns all objects by itself.
    fn batch_len(&self, at_most: usize) -> usize {
        let Some(head) = self.items.front() else { return 0 };
        let origin = self.origin_of(head.number);
        let mut keys = HashSet::new();
        let alike = self.items.iter().take(at_most).take_while(|item| {
            self.origin_of(item.number) == origin && item.change.key().is_some_and(|key| keys.insert(key))
        });
        alike.count().max(1)
    }

    /// Returns the version that is reached when these items are acknowledged, if it is a new one.
    fn reached_after(&self, taken: &[InOrderChange<O>]) -> Option<ResourceVersion> {
        // An item that was acknowledged while an earlier one was requeued is reached together with the earlier one.
        let done =
            self.done.iter().rev().find(|(number, _)| self.items.front().is_none_or(|head| head.number > *number));
        let newest = taken.iter().rev().find_map(|taken| Some((taken.item.number, taken.item.version.as_ref()?)));
        match (done, newest) {
            (Some((done, version)), Some((newest, _))) if *done > newest => Some(version.clone()),
            (_, Some((_, version))) | (Some((_, version)), None) => Some(version.clone()),
            (None, None) => None,
        }
    }

    /// Acknowledges or requeues each item of the open receipt. Moves the requeued items out of `items`.
    ///
    /// Drops the queue's own references to the objects in flight. `items` has references to the same objects, so no object is freed here.
    pub(super) fn settle(&mut self, items: &mut Vec<InOrderChange<O>>, outcomes: &Outcomes) {
        self.in_flight = None;
        let mut returned = Vec::new();
        for (position, taken) in std::mem::take(items).into_iter().enumerate() {
            self.attempted = self.attempted.max(taken.item.number + 1);
            match outcomes.of(position) {
                ItemOutcome::Requeue { processed: 0 } => returned.push(taken.item),
                ItemOutcome::Requeue { processed: _ } | ItemOutcome::Done => {
                    self.done.extend(taken.item.version.clone().map(|version| (taken.item.number, version)));
                    items.push(taken);
                }
            }
        }
        returned.into_iter().rev().for_each(|item| self.items.push_front(item));
        self.advance();
    }

    /// Computes which versions of acknowledged items are reached, and removes versions that a newer one replaces.
    fn advance(&mut self) {
        let mut done: Vec<_> = std::mem::take(&mut self.done).into();
        done.sort_by_key(|(number, _)| *number);
        let mut waiting = self.items.iter().map(|item| item.number).peekable();
        for (number, version) in done {
            let mut is_behind_another = false;
            while waiting.next_if(|waiting| *waiting < number).is_some() {
                is_behind_another = true;
            }
            match self.done.back_mut() {
                None if !is_behind_another => self.reached = Some(version),
                Some(before) if !is_behind_another => *before = (number, version),
                Some(_) | None => self.done.push_back((number, version)),
            }
        }
    }

    /// Returns true if a producer should wait: a receipt is open, and two more batches are queued.
    pub(super) fn is_full(&self) -> bool {
        self.in_flight.is_some() && self.items.len() >= self.batch_size.get().saturating_mul(2)
    }

    pub(super) fn batch_size(&self) -> usize {
        self.batch_size.get()
    }

    /// Returns true if the queue is closed and empty, with no open receipt whose items could be requeued.
    pub(super) fn is_exhausted(&self) -> bool {
        self.is_closed && self.items.is_empty() && self.in_flight.is_none()
    }

    pub(super) fn is_synced(&self) -> bool {
        self.initial_end.is_some_and(|end| self.attempted >= end)
    }

    pub(super) fn reached(&self) -> Option<&ResourceVersion> {
        self.reached.as_ref()
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    fn origin_of(&self, number: u64) -> Origin {
        match self.initial_end {
            Some(end) if number < end => Origin::InitialList,
            Some(_) | None => Origin::Live,
        }
    }

    fn push(&mut self, change: QueuedChange<O>, version: Option<ResourceVersion>) {
        let version = version.filter(|version| !version.is_empty());
        let history_changed = match &change {
            QueuedChange::ReplacedAll(relist) => relist.history_changed,
            QueuedChange::One(_) | QueuedChange::Lost(_) | QueuedChange::SyncAll | QueuedChange::Bookmark(_) => false,
        };
        self.items.push_back(Item { number: self.next, version, history_changed, change });
        self.next += 1;
        self.peak = self.peak.max(self.items.len());
    }

    fn queued_deltas(&self) -> impl Iterator<Item = &Delta<O>> {
        let in_flight = self.in_flight.iter().flat_map(|in_flight| &in_flight.deltas);
        in_flight.chain(self.items.iter().filter_map(|item| item.change.delta()))
    }

    /// Returns the newest delta of each object that waits or is in flight.
    fn newest_queued(&self) -> HashMap<&Key, &Delta<O>> {
        self.queued_deltas().map(|delta| (delta.key(), delta)).collect()
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self) {
        assert!(self.items.iter().is_sorted_by(|a, b| a.number < b.number), "INV-R1");
        assert!(self.items.iter().all(|item| item.number < self.next), "INV-R1");
        let mut before = 0;
        for (number, _) in &self.done {
            assert!(before <= *number, "INV-R2");
            assert!(
                self.in_flight.is_some() || self.items.iter().any(|item| (before..*number).contains(&item.number)),
                "INV-R2"
            );
            before = *number;
        }
    }
}

impl<O> QueueState for State<O> {
    type Discarded = Vec<Cached<O>>;

    fn take_discarded(&mut self) -> Vec<Cached<O>> {
        std::mem::take(&mut self.discarded)
    }
}
