//! The consumer's progress: which version it has reached, and whether it has processed the initial list.
//!
//! - **In:** the versions of pushed changes; which objects are taken, acknowledged and requeued.
//! - **Out:** the numbers of the changes, the reached version, the versions that batches carry, and whether the queue is synced.
//! - **Knows nothing of:** deltas.

use super::version_tracker::VersionTracker;
use crate::{Origin, ResourceVersion};

#[derive(Default)]
pub(super) struct Progress {
    tracker: VersionTracker,

    /// The oldest change that the consumer receives as a version without a delta: a relist, a bookmark, or the delete of an unknown object.
    pending: Option<ChangeRef>,

    /// The number of the newest version that a batch has carried.
    announced: u64,

    /// The number of the initial list.
    initial_list: Option<u64>,

    /// How many objects of the initial list were not processed yet; `None` until the first change.
    ///
    /// INV-Q3: if `Some`, the number of references that are counted.
    initial_left: Option<usize>,
}

/// A reference to a change. The consumer has not reached the version of the change while a reference to it exists.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChangeRef {
    pub(super) number: u64,
    /// True if the queue is not synced while the reference exists: the object is part of the initial list, and was not processed once.
    is_counted: bool,
}

impl Progress {
    /// Called for each pushed change: a list that is pushed after the first change is not the initial list.
    pub(super) fn stop_expecting_initial_list(&mut self) {
        self.initial_left.get_or_insert(0);
    }

    /// Numbers a change. The caller then adds a reference to it.
    pub(super) fn push(&mut self, version: Option<ResourceVersion>) -> ChangeRef {
        ChangeRef { number: self.tracker.push(version), is_counted: false }
    }

    /// Numbers a relist. The consumer receives its version even if it changes no object.
    pub(super) fn push_relist(&mut self, version: ResourceVersion) -> ChangeRef {
        let is_initial = self.initial_left.is_none();
        self.stop_expecting_initial_list();
        let change = ChangeRef { is_counted: is_initial, ..self.push(Some(version)) };
        if is_initial {
            self.initial_list = Some(change.number);
        }
        self.add_pending(change);
        change
    }

    /// Numbers a change that the consumer receives as a version without a delta.
    pub(super) fn push_version(&mut self, version: Option<ResourceVersion>) {
        let change = self.push(version);
        self.add_pending(change);
    }

    fn add_pending(&mut self, change: ChangeRef) {
        match self.pending.take() {
            Some(mut pending) => {
                self.join(&mut pending, change);
                self.pending = Some(pending);
            }
            None => self.pending = Some(self.add(change)),
        }
    }

    /// Adds the reference of an object that waits from now on.
    pub(super) fn add(&mut self, change: ChangeRef) -> ChangeRef {
        self.tracker.update(change.number, |tracked| tracked.waiting += 1);
        self.count(change);
        change
    }

    /// Adds a change to an object that waits already. The object still refers to its oldest change.
    pub(super) fn join(&mut self, waiting: &mut ChangeRef, change: ChangeRef) {
        waiting.is_counted |= change.is_counted;
        self.count(change);
    }

    /// Marks an object as in flight.
    pub(super) fn take(&mut self, change: ChangeRef) {
        self.tracker.update(change.number, |tracked| {
            tracked.waiting -= 1;
            tracked.in_flight += 1;
        });
    }

    pub(super) fn take_pending(&mut self) -> Option<ChangeRef> {
        self.pending.take().inspect(|pending| self.take(*pending))
    }

    /// Acknowledges an object in flight.
    pub(super) fn acknowledge(&mut self, change: ChangeRef) {
        self.discount(change);
        self.tracker.update(change.number, |tracked| tracked.in_flight -= 1);
    }

    /// Marks an object in flight as waiting again; returns its new reference.
    pub(super) fn requeue(&mut self, change: ChangeRef) -> ChangeRef {
        self.discount(change);
        self.tracker.update(change.number, |tracked| {
            tracked.in_flight -= 1;
            tracked.waiting += 1;
        });
        ChangeRef { is_counted: false, ..change }
    }

    /// Combines the references of a requeued object and of its deltas that wait already: the object refers to the older change.
    pub(super) fn combine(&mut self, requeued: ChangeRef, waiting: ChangeRef) -> ChangeRef {
        self.tracker.update(requeued.number.max(waiting.number), |tracked| tracked.waiting -= 1);
        // A requeued reference is not counted.
        ChangeRef { number: requeued.number.min(waiting.number), is_counted: waiting.is_counted }
    }

    pub(super) fn requeue_pending(&mut self, pending: ChangeRef) {
        let requeued = self.requeue(pending);
        self.pending = Some(match self.pending.take() {
            Some(waiting) => self.combine(requeued, waiting),
            None => requeued,
        });
    }

    /// Returns the version that the consumer has reached when everything in flight is acknowledged, if no batch has carried it.
    pub(super) fn announce(&mut self) -> Option<ResourceVersion> {
        let reached = self.tracker.reached_when_done().filter(|reached| reached.number > self.announced)?;
        self.announced = reached.number;
        Some(reached.version.clone())
    }

    /// Called after a batch is settled. If a part of the batch was requeued, the consumer may not have reached a version that was announced;
    /// this version is announced again.
    pub(super) fn batch_settled(&mut self) {
        if !self.is_anything_in_flight() {
            self.announced = self.announced.min(self.tracker.reached().map_or(0, |reached| reached.number));
        }
    }

    /// Returns true if a version waits that the consumer can take now.
    pub(super) fn has_version(&self) -> bool {
        let is_unannounced = self.tracker.reached().is_some_and(|reached| reached.number > self.announced);
        self.pending.is_some() || (is_unannounced && !self.is_anything_in_flight())
    }

    pub(super) fn is_anything_in_flight(&self) -> bool {
        self.tracker.in_flight > 0
    }

    pub(super) fn is_synced(&self) -> bool {
        self.initial_left == Some(0)
    }

    /// Returns whether deltas with these numbers belong to the initial list.
    pub(super) fn origin(&self, mut numbers: impl Iterator<Item = u64>) -> Origin {
        match numbers.any(|number| Some(number) == self.initial_list) {
            true => Origin::InitialList,
            false => Origin::Live,
        }
    }

    pub(super) fn reached(&self) -> Option<&ResourceVersion> {
        self.tracker.reached().map(|reached| &reached.version)
    }

    pub(super) fn free_memory(&mut self) {
        self.tracker.free_memory();
    }

    fn count(&mut self, change: ChangeRef) {
        if change.is_counted {
            self.initial_left = self.initial_left.map(|left| left + 1);
        }
    }

    fn discount(&mut self, change: ChangeRef) {
        if change.is_counted {
            self.initial_left = self.initial_left.map(|left| left - 1);
        }
    }

    /// `waiting` are the references of waiting objects; `in_flight` are the references of open batches.
    #[cfg(test)]
    pub(super) fn check_invariants(&self, waiting: Vec<ChangeRef>, in_flight: &[ChangeRef]) {
        let waiting: Vec<_> = waiting.into_iter().chain(self.pending).collect();
        let counted = waiting.iter().chain(in_flight).filter(|change| change.is_counted).count();
        assert_eq!(self.initial_left.unwrap_or_default(), counted, "INV-Q3");
        let numbers = |refs: &[ChangeRef]| refs.iter().map(|change| change.number).collect();
        self.tracker.check_invariants(numbers(&waiting), numbers(in_flight));
    }
}
