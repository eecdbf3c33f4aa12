//! The rules of a queue, without lock, clock or waiting: turns changes into deltas of single objects, and deltas into batches.
//!
//! - **In:** changes; which batches are taken, and which of their items are acknowledged or requeued.
//! - **Out:** deltas with their numbers, to [`Items`]; taken items with their version.
//! - **Knows nothing of:** how deltas are stored.

use super::{
    ItemOutcome, KnownObjects, ObjectChanges,
    items::Items,
    progress::{ChangeRef, Progress},
};
use crate::{
    Cached, Deleted, ResourceVersion,
    delta::{Change, Delta, Relist},
};

pub(super) struct Rules<O> {
    pub(super) items: Items<O>,
    pub(super) progress: Progress,
    /// True if a relist of a changed history waits.
    history_changed: bool,
    /// True if listed objects are queued as `Replaced`; false for `Sync`.
    emits_replaced: bool,
    pub(super) is_closed: bool,
    /// Objects that are not needed any more. The caller drops them after it has released the lock.
    discarded: Vec<Cached<O>>,
}

/// The content of a batch.
pub(super) struct BatchContent<O> {
    pub(super) items: Vec<ObjectChanges<O>>,
    /// The oldest change of the batch that belongs to no item, such as a bookmark.
    pub(super) pending: Option<ChangeRef>,
    pub(super) version: Option<ResourceVersion>,
    pub(super) history_changed: bool,
}

impl<O> Rules<O> {
    pub(super) fn new(emits_replaced: bool) -> Self {
        Self {
            items: Items::default(),
            progress: Progress::default(),
            history_changed: false,
            emits_replaced,
            is_closed: false,
            discarded: Vec::new(),
        }
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
                let last_known = match self.items.newest(&key) {
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
        self.progress.end_push();
    }

    fn push_delta(&mut self, delta: Delta<O>, version: Option<ResourceVersion>) {
        self.progress.stop_expecting_initial_list();
        let change = self.progress.push(version);
        self.push_part(delta, change);
    }

    /// Queues a delta that is part of a change.
    fn push_part(&mut self, delta: Delta<O>, change: ChangeRef) {
        self.discarded.extend(self.items.push(delta, change, &mut self.progress));
    }

    /// Queues a delete. If the object neither waits nor is in flight nor known, queues only the version of the delete.
    fn delete(&mut self, deleted: Deleted<O>, known: Option<&dyn KnownObjects<O>>) {
        // If the newest waiting delta is a delete as well, the two are combined.
        let is_queued = self.items.waiting(deleted.key()).is_some()
            || match self.items.newest(deleted.key()) {
                Some(in_flight) => !in_flight.is_deleted(),
                None => {
                    let cached = known.and_then(|known| known.get(deleted.key()));
                    let is_known = cached.is_some();
                    self.discarded.extend(cached);
                    is_known
                }
            };
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
        self.history_changed |= relist.history_changed;
        let change = self.progress.push_relist(relist.version);
        for last_known in missing {
            self.push_part(Delta::Deleted(Deleted::Missed { last_known }), change);
        }
        for object in relist.objects {
            let delta = if self.emits_replaced { Delta::Replaced(object) } else { Delta::Sync(object) };
            self.push_part(delta, change);
        }
    }

    /// Returns the newest states of all objects that wait, are in flight or are known, and that the list does not contain. Objects in
    /// the queue are first.
    fn missing_from(&mut self, relist: &Relist<O>, known: Option<&dyn KnownObjects<O>>) -> Vec<Cached<O>> {
        let is_missing = relist.missing();
        let mut known = known.map(KnownObjects::list).unwrap_or_default();
        let queued = self.items.newest_of_each().filter(|newest| !newest.is_deleted()).map(Delta::object);
        let mut missing: Vec<_> = queued.filter(|object| is_missing(object)).cloned().collect();
        let items = &self.items;
        missing.extend(known.extract_if(.., |object| is_missing(object) && items.newest(object.key()).is_none()));
        self.discarded.append(&mut known);
        missing
    }

    /// Queues all known objects as `Sync`, except for objects that wait or are in flight.
    fn resync(&mut self, known: &dyn KnownObjects<O>) {
        let mut idle = known.list();
        let items = &self.items;
        self.discarded.extend(idle.extract_if(.., |object| items.newest(object.key()).is_some()));
        if idle.is_empty() {
            return;
        }
        let change = self.progress.push(None);
        for object in idle {
            self.push_part(Delta::Sync(object), change);
        }
    }

    /// Takes the items that have waited longest, and the versions that belong to no item; `None` if there are neither.
    pub(super) fn take(&mut self, at_most: usize) -> Option<BatchContent<O>> {
        if self.items.len() == 0 && !self.progress.has_version() {
            return None;
        }
        let is_alone = !self.progress.is_anything_in_flight();
        let items = self.items.take(at_most, &mut self.progress);
        let pending = self.progress.take_pending();
        let version = if is_alone { self.progress.announce() } else { None };
        let history_changed = std::mem::take(&mut self.history_changed);
        Some(BatchContent { items, pending, version, history_changed })
    }

    /// Acknowledges or requeues each item of a batch, by its position, and the change that belongs to no item. The caller drops the items after it
    /// has released the lock.
    ///
    /// A relist of a changed history is requeued with any item, which may be part of the relist: the next batch that contains the item must carry
    /// the history change again.
    pub(super) fn settle(
        &mut self,
        taken: &mut BatchContent<O>,
        item_outcome: &dyn Fn(usize) -> ItemOutcome,
        pending_outcome: ItemOutcome,
    ) {
        let is_requeued = |position| item_outcome(position) != ItemOutcome::Done;
        let requeues_pending =
            pending_outcome != ItemOutcome::Done || (taken.history_changed && (0..taken.items.len()).any(is_requeued));
        self.history_changed |= taken.history_changed && requeues_pending;
        match taken.pending.take() {
            Some(pending) if requeues_pending => self.progress.requeue_pending(pending),
            Some(pending) => self.progress.acknowledge(pending),
            None => {}
        }
        self.discarded.extend(self.items.settle(&taken.items, item_outcome, &mut self.progress));
        self.progress.batch_settled();
        if self.items.free_memory() {
            self.progress.free_memory();
        }
    }

    /// Returns true if the queue is closed and empty, with nothing in flight that could be requeued.
    pub(super) fn is_exhausted(&self) -> bool {
        let is_idle = self.items.len() == 0 && !self.progress.is_anything_in_flight();
        self.is_closed && is_idle && !self.progress.has_version()
    }

    /// Takes the objects that the last call displaced.
    pub(super) fn take_discarded(&mut self) -> Vec<Cached<O>> {
        std::mem::take(&mut self.discarded)
    }

    /// `in_flight` are the references of all open batches.
    #[cfg(test)]
    pub(super) fn check_invariants(&self, in_flight: &[ChangeRef]) {
        self.items.check_invariants();
        self.progress.check_invariants(self.items.change_refs(), in_flight);
    }
}
