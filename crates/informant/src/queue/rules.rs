//! The rules of a queue, without lock, clock or waiting: turns changes into deltas of single objects, and deltas into batches.
//!
//! - **In:** changes; which batches are taken, and which of their items are acknowledged or requeued.
//! - **Out:** deltas, to the queue's [`Ordering`]; taken items with their version.
//! - **Knows nothing of:** how an ordering stores deltas.

use hashbrown::{HashMap, HashSet};

use super::{
    ItemOutcome, KnownObjects, ObjectChanges,
    progress::{Progress, Version, VersionRef},
};
use crate::{
    Cached, Deleted, Key, ResourceVersion,
    delta::{Change, Delta, Deltas, Relist},
};

pub(super) struct Rules<O> {
    ordering: Box<dyn Ordering<O>>,
    progress: Progress,
    /// True if listed objects are queued as `Replaced`; false for `Sync`.
    emits_replaced: bool,
    is_closed: bool,
    /// Objects that are not needed any more. The caller drops them after it has released the lock.
    discarded: Vec<Cached<O>>,
}

/// Stores deltas between push and acknowledgement, and decides which of them are taken next.
pub(super) trait Ordering<O>: Send + Sync {
    /// Appends a delta. Returns an object that is not needed any more.
    fn push(&mut self, delta: Delta<O>, version: Version, progress: &mut Progress) -> Option<Cached<O>>;

    /// Takes items and marks them as in flight. Takes those first that have waited longest.
    fn take(&mut self, at_most: usize, progress: &mut Progress) -> Vec<ObjectChanges<O>>;

    /// Acknowledges or requeues items in flight. Moves items that it still needs out of `items`; the caller drops the rest. Returns objects that are not
    /// needed any more.
    fn settle(
        &mut self,
        items: &mut Vec<ObjectChanges<O>>,
        outcomes: &Outcomes,
        progress: &mut Progress,
    ) -> Vec<Cached<O>>;

    /// Returns false if nothing may be taken, because a batch is in flight.
    fn may_take(&self) -> bool;

    /// Returns true if a producer should wait.
    fn is_full(&self) -> bool;

    /// Returns the version of the oldest delta that waits, if versions of bookmarks and relists must wait for it.
    fn oldest_version(&self) -> Option<VersionRef>;

    /// Returns whether a delete of this object is queued; `None` if that depends on whether the consumer knows the object.
    fn queues_delete(&self, key: &Key) -> Option<bool>;

    /// Returns the newest delta of an object that waits or is in flight.
    fn newest(&self, key: &Key) -> Option<&Delta<O>>;

    /// Returns the newest delta of each object that waits or is in flight. May also return older ones, before the newest.
    fn newest_of_each(&self) -> Box<dyn Iterator<Item = &Delta<O>> + '_>;

    /// Returns the number of items that can be taken.
    fn len(&self) -> usize;

    /// Returns the waiting deltas of each object: first the deltas that can be taken, in the order in which they are taken.
    fn waiting(&self) -> Box<dyn Iterator<Item = (&Deltas<O>, VersionRef)> + '_>;

    /// Frees memory that an empty queue does not need. Returns true if it did.
    fn free_memory(&mut self) -> bool;

    #[cfg(test)]
    fn check_invariants(&self);
}

/// The content of a batch.
pub(super) struct BatchContent<O> {
    pub(super) items: Vec<ObjectChanges<O>>,
    /// The versions in the batch that belong to no item, such as the versions of bookmarks.
    pub(super) pending_versions: Vec<VersionRef>,
    pub(super) version: Option<ResourceVersion>,
    pub(super) history_changed: bool,
}

/// One outcome for each item of a batch, in the same order.
pub(super) enum Outcomes {
    AllDone,
    AllRequeued,
    Each(Vec<ItemOutcome>),
}

impl Outcomes {
    pub(super) fn of(&self, position: usize) -> ItemOutcome {
        match self {
            Self::AllDone => ItemOutcome::Done,
            Self::AllRequeued => ItemOutcome::Requeue { processed: 0 },
            Self::Each(outcomes) => outcomes[position],
        }
    }

    /// Returns true if a version that belongs to no item goes back to the queue. That of a relist of a changed history does so with any item: the item
    /// may be part of the relist, and the next batch that contains it must carry the history change again.
    fn requeue(&self, version: VersionRef) -> bool {
        match self {
            Self::AllDone => false,
            Self::AllRequeued => true,
            Self::Each(outcomes) => {
                version.history_changed() && outcomes.iter().any(|outcome| *outcome != ItemOutcome::Done)
            }
        }
    }
}

impl<O> Rules<O> {
    pub(super) fn new(ordering: Box<dyn Ordering<O>>, emits_replaced: bool) -> Self {
        Self { ordering, progress: Progress::default(), emits_replaced, is_closed: false, discarded: Vec::new() }
    }

    /// Queues a change.
    pub(super) fn push(&mut self, change: Change<O>, known: Option<&dyn KnownObjects<O>>) {
        match change {
            Change::Delta(Delta::Deleted(deleted)) => self.delete(deleted, known),
            Change::Delta(delta) => {
                let version = delta.version().cloned();
                self.push_delta(delta, version);
            }
            Change::Existing(object) => self.push_delta(Delta::Added(object), None),
            Change::DeletedUnread { key, version } => {
                let last_known = match self.ordering.newest(&key) {
                    Some(newest) => Some(newest.object().clone()).filter(|_| !newest.is_deleted()),
                    None => known.and_then(|known| known.get(&key)),
                };
                self.progress.stop_expecting_initial_list();
                match last_known {
                    Some(last_known) => self.push_delta(Delta::Deleted(Deleted::Missed { last_known }), version),
                    None => self.progress.push_version(version),
                }
            }
            Change::Relist(relist) => self.replace(relist, known),
            Change::Bookmark(version) => self.progress.push_version(Some(version)),
            Change::Resync => known.into_iter().for_each(|known| self.resync(known)),
        }
    }

    fn push_delta(&mut self, delta: Delta<O>, version: Option<ResourceVersion>) {
        self.progress.stop_expecting_initial_list();
        self.push_with(delta, Version::Own(version));
    }

    fn push_with(&mut self, delta: Delta<O>, version: Version) {
        self.discarded.extend(self.ordering.push(delta, version, &mut self.progress));
    }

    /// Queues a delete. If the object neither waits nor is in flight nor known, queues only the version of the delete.
    fn delete(&mut self, deleted: Deleted<O>, known: Option<&dyn KnownObjects<O>>) {
        let is_queued = self.ordering.queues_delete(deleted.key()).unwrap_or_else(|| {
            let cached = known.and_then(|known| known.get(deleted.key()));
            let is_known = cached.is_some();
            self.discarded.extend(cached);
            is_known
        });
        let delta = Delta::Deleted(deleted);
        let version = delta.version().cloned();
        if is_queued {
            self.push_delta(delta, version);
        } else {
            self.progress.stop_expecting_initial_list();
            self.discarded.push(delta.into_object());
            self.progress.push_version(version);
        }
    }

    /// Queues a relist: missed deletes of the objects that it lacks, then the listed objects. If an object is listed twice, its last state
    /// counts.
    fn replace(&mut self, mut relist: Relist<O>, known: Option<&dyn KnownObjects<O>>) {
        // Called before the queue is changed: `known` is users' code, and may panic.
        let missing = self.missing_from(&relist, known);
        self.discarded.extend(relist.remove_duplicates());
        let version = self.progress.begin_relist(relist.version, relist.history_changed);
        for last_known in missing {
            self.push_with(Delta::Deleted(Deleted::Missed { last_known }), Version::Shared(version));
        }
        for object in relist.objects {
            let delta = if self.emits_replaced { Delta::Replaced(object) } else { Delta::Sync(object) };
            self.push_with(delta, Version::Shared(version));
        }
    }

    /// Returns the newest states of all objects that wait, are in flight or are known, and that the list does not contain. Objects in
    /// the queue are first.
    fn missing_from(&mut self, relist: &Relist<O>, known: Option<&dyn KnownObjects<O>>) -> Vec<Cached<O>> {
        let is_missing = relist.missing();
        let mut known = known.map(KnownObjects::list).unwrap_or_default();
        let newest: HashMap<&Key, &Delta<O>> =
            self.ordering.newest_of_each().map(|delta| (delta.key(), delta)).collect();
        let mut seen = HashSet::new();
        let queued = self.ordering.newest_of_each().filter(|delta| seen.insert(delta.key()));
        let queued = queued.filter_map(|delta| newest.get(delta.key()).filter(|newest| !newest.is_deleted()));
        let mut missing: Vec<_> =
            queued.map(|newest| newest.object()).filter(|object| is_missing(object)).cloned().collect();
        missing.extend(known.extract_if(.., |object| is_missing(object) && !newest.contains_key(object.key())));
        drop((newest, seen));
        self.discarded.append(&mut known);
        missing
    }

    /// Queues all known objects as `Sync`, except for objects that wait or are in flight.
    fn resync(&mut self, known: &dyn KnownObjects<O>) {
        let mut idle = known.list();
        let queued: HashSet<&Key> = self.ordering.newest_of_each().map(Delta::key).collect();
        let busy: Vec<_> = idle.extract_if(.., |object| queued.contains(object.key())).collect();
        drop(queued);
        self.discarded.extend(busy);
        if idle.is_empty() {
            return;
        }
        let version = self.progress.begin_resync();
        for object in idle {
            self.push_with(Delta::Sync(object), Version::Shared(version));
        }
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Takes the items that have waited longest, and the versions that belong to no item; `None` if there are neither.
    pub(super) fn take(&mut self, at_most: usize) -> Option<BatchContent<O>> {
        if !self.ordering.may_take() || (self.ordering.len() == 0 && !self.progress.has_version()) {
            return None;
        }
        let is_alone = !self.progress.is_anything_in_flight();
        let items = self.ordering.take(at_most, &mut self.progress);
        let pending_versions = self.progress.take_pending(self.ordering.oldest_version());
        let version = if is_alone { self.progress.announce() } else { None };
        let history_changed = pending_versions.iter().any(|pending| pending.history_changed());
        Some(BatchContent { items, pending_versions, version, history_changed })
    }

    /// Acknowledges or requeues each item of a batch. Moves requeued items out of it; the caller drops the rest after it has released the lock.
    pub(super) fn settle(&mut self, taken: &mut BatchContent<O>, outcomes: &Outcomes) {
        let versions = std::mem::take(&mut taken.pending_versions);
        let (requeued, done): (Vec<_>, Vec<_>) = versions.into_iter().partition(|version| outcomes.requeue(*version));
        done.into_iter().for_each(|version| self.progress.acknowledge(version));
        self.progress.requeue_pending(&requeued);
        self.discarded.extend(self.ordering.settle(&mut taken.items, outcomes, &mut self.progress));
        self.progress.batch_settled();
        if self.ordering.free_memory() {
            self.progress.free_memory();
        }
    }

    /// Returns true if the queue is closed and empty, with nothing in flight that could be requeued.
    pub(super) fn is_exhausted(&self) -> bool {
        let is_idle = self.ordering.may_take() && !self.progress.is_anything_in_flight();
        self.is_closed && is_idle && self.ordering.len() == 0 && !self.progress.has_version()
    }

    pub(super) fn is_synced(&self) -> bool {
        self.progress.is_synced()
    }

    pub(super) fn is_full(&self) -> bool {
        self.ordering.is_full()
    }

    pub(super) fn reached(&self) -> Option<&ResourceVersion> {
        self.progress.reached()
    }

    pub(super) fn len(&self) -> usize {
        self.ordering.len()
    }

    pub(super) fn waiting_keys(&self) -> Vec<Key> {
        let mut seen = HashSet::new();
        self.ordering.waiting().map(|(deltas, _)| deltas.key()).filter(|key| seen.insert(*key)).cloned().collect()
    }

    pub(super) fn waiting(&self, key: &Key) -> Option<Deltas<O>> {
        let mut waiting = self.ordering.waiting().map(|(deltas, _)| deltas).filter(|deltas| deltas.key() == key);
        let mut all = waiting.next()?.clone();
        // Returns clones: dropping them frees no object.
        waiting.for_each(|deltas| all.append(deltas.clone(), &mut Vec::new()));
        Some(all)
    }

    /// Takes the objects that the last call displaced.
    pub(super) fn take_discarded(&mut self) -> Vec<Cached<O>> {
        std::mem::take(&mut self.discarded)
    }

    /// `in_flight` are the version references of all open batches.
    #[cfg(test)]
    pub(super) fn check_invariants(&self, in_flight: &[VersionRef]) {
        self.ordering.check_invariants();
        self.progress
            .check_invariants(self.ordering.waiting().map(|(_, version_ref)| version_ref).collect(), in_flight);
    }
}

/// Returns true if an empty queue should shrink: its `capacity` is more than eight times the `peak` of waiting items since it was last empty. A
/// queue with bursts of equal size keeps its capacity.
pub(super) fn is_far_too_large(capacity: usize, peak: usize) -> bool {
    const SMALL: usize = 4096;
    capacity > SMALL && capacity / 8 > peak
}
