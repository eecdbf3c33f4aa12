//! The consumer's progress: which version it has reached, and whether it has processed the initial list.
//!
//! - **In:** the versions of pushed changes; which objects are taken, acknowledged and requeued.
//! - **Out:** the numbers of the changes, the reached version, the versions that batches carry, and whether the queue is synced.
//! - **Knows nothing of:** deltas.

use std::collections::VecDeque;

use crate::{Origin, ResourceVersion};
use smallvec::SmallVec;

/// The changes that the consumer has not reached yet, with the number of references to each.
///
/// Each object that waits, and each object that is in flight, refers to exactly one change: the oldest one of the object. A change without an object
/// has one reference, too. A version is reached when neither its change nor an earlier one is referred to.
#[derive(Default)]
pub(super) struct Progress {
    /// INV-M1: numbers rise, and after each push every change is referred to.
    changes: VecDeque<TrackedChange>,

    /// How many changes were pushed.
    pushed: u64,

    /// INV-M2: the sum of `in_flight` over `changes`.
    in_flight: usize,

    reached: Option<NumberedVersion>,

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

/// One change, and how many objects refer to it.
struct TrackedChange {
    number: u64,
    /// The version of this change, or of a later one that is reached together with it; `None` for a change without a version, such as a resync.
    version: Option<NumberedVersion>,
    waiting: u32,
    in_flight: u32,
}

/// A version, and the number of the change that has it. Versions can repeat and even go backwards; numbers rise.
#[derive(Clone)]
struct NumberedVersion {
    number: u64,
    version: ResourceVersion,
}

/// A reference to a change. The consumer has not reached the version of the change while a reference to it exists.
#[derive(Debug, Clone, Copy)]
pub(super) struct ChangeRef {
    pub(super) number: u64,
    /// True if the queue is not synced while the reference exists: the object is part of the initial list, and was not processed once.
    is_counted: bool,
}

impl Progress {
    /// Called for each pushed change of an object: a list that is pushed later is not the initial list.
    pub(super) fn stop_expecting_initial_list(&mut self) {
        self.initial_left.get_or_insert(0);
    }

    /// Numbers a change. The caller then adds the references to it, and calls [`end_push`](Self::end_push).
    pub(super) fn push(&mut self, version: Option<ResourceVersion>) -> ChangeRef {
        self.pushed += 1;
        let number = self.pushed;
        let version = version.filter(|version| !version.is_empty()).map(|version| NumberedVersion { number, version });
        self.changes.push_back(TrackedChange { number, version, waiting: 0, in_flight: 0 });
        ChangeRef { number, is_counted: false }
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

    /// Removes the newest change if no object refers to it: then its objects refer to older changes, and it is reached together with the change
    /// before it.
    pub(super) fn end_push(&mut self) {
        self.remove_if_unreferenced(self.changes.len().saturating_sub(1));
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
        let position = self.position(change);
        self.changes[position].waiting += 1;
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
        let position = self.position(change);
        let tracked = &mut self.changes[position];
        tracked.waiting -= 1;
        tracked.in_flight += 1;
        self.in_flight += 1;
    }

    pub(super) fn take_pending(&mut self) -> Option<ChangeRef> {
        self.pending.take().inspect(|pending| self.take(*pending))
    }

    /// Acknowledges objects in flight. Begins with the oldest change, so that each change is removed at the front, or close to it: then few others
    /// are moved.
    pub(super) fn acknowledge_all(&mut self, mut changes: SmallVec<[ChangeRef; 1]>) {
        changes.sort_unstable_by_key(|change| change.number);
        changes.into_iter().for_each(|change| self.acknowledge(change));
    }

    pub(super) fn acknowledge(&mut self, change: ChangeRef) {
        self.discount(change);
        let position = self.position(change);
        self.changes[position].in_flight -= 1;
        self.in_flight -= 1;
        self.remove_if_unreferenced(position);
    }

    /// Marks an object in flight as waiting again; returns its new reference.
    pub(super) fn requeue(&mut self, change: ChangeRef) -> ChangeRef {
        self.discount(change);
        let position = self.position(change);
        let tracked = &mut self.changes[position];
        tracked.in_flight -= 1;
        tracked.waiting += 1;
        self.in_flight -= 1;
        ChangeRef { is_counted: false, ..change }
    }

    /// Combines the references of a requeued object and of its deltas that wait already: the object refers to the older change.
    pub(super) fn combine(&mut self, requeued: ChangeRef, waiting: ChangeRef) -> ChangeRef {
        let (older, newer) = if requeued.number < waiting.number { (requeued, waiting) } else { (waiting, requeued) };
        let position = self.position(newer);
        self.changes[position].waiting -= 1;
        self.remove_if_unreferenced(position);
        // A requeued reference is not counted.
        ChangeRef { number: older.number, is_counted: waiting.is_counted }
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
        let cleared = self.changes.iter().take_while(|tracked| tracked.waiting == 0);
        let reached = cleared.filter_map(|tracked| tracked.version.as_ref()).last().or(self.reached.as_ref());
        let reached = reached.filter(|reached| reached.number > self.announced)?;
        self.announced = reached.number;
        Some(reached.version.clone())
    }

    /// Called after a batch is settled. If a part of the batch was requeued, the consumer may not have reached a version that was announced;
    /// this version is announced again.
    pub(super) fn batch_settled(&mut self) {
        if !self.is_anything_in_flight() {
            self.announced = self.announced.min(self.reached.as_ref().map_or(0, |reached| reached.number));
        }
    }

    /// Returns true if a version waits that the consumer can take now.
    pub(super) fn has_version(&self) -> bool {
        let is_unannounced = self.reached.as_ref().is_some_and(|reached| reached.number > self.announced);
        self.pending.is_some() || (is_unannounced && !self.is_anything_in_flight())
    }

    pub(super) fn is_anything_in_flight(&self) -> bool {
        self.in_flight > 0
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
        self.reached.as_ref().map(|reached| &reached.version)
    }

    /// Frees the memory that is not needed while no change is tracked.
    pub(super) fn free_memory(&mut self) {
        if self.changes.is_empty() {
            self.changes = VecDeque::new();
        }
    }

    fn position(&self, change: ChangeRef) -> usize {
        // Usually no change between the first and this one was removed, so that the position is the difference of the numbers.
        let guess = self.changes.front().map_or(0, |first| (change.number - first.number) as usize);
        match self.changes.get(guess) {
            Some(tracked) if tracked.number == change.number => guess,
            Some(_) | None => self.changes.partition_point(|tracked| tracked.number < change.number),
        }
    }

    /// Removes a change that no object refers to. It is reached together with the change before it, whose version it replaces; if it is the first
    /// one, it is reached now.
    fn remove_if_unreferenced(&mut self, position: usize) {
        let is_unreferenced = |tracked: &&TrackedChange| tracked.waiting + tracked.in_flight == 0;
        if self.changes.get(position).filter(is_unreferenced).is_none() {
            return;
        }
        if position == 0 {
            let removed = self.changes.pop_front();
            self.reached = removed.and_then(|removed| removed.version).or(self.reached.take());
        } else {
            let removed = self.changes.remove(position);
            let before = &mut self.changes[position - 1];
            before.version = removed.and_then(|removed| removed.version).or(before.version.take());
        }
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
    pub(super) fn check_invariants(&self, mut waiting: Vec<ChangeRef>, in_flight: &[ChangeRef]) {
        waiting.extend(self.pending);
        let counted = waiting.iter().chain(in_flight).filter(|change| change.is_counted).count();
        assert_eq!(self.initial_left.unwrap_or_default(), counted, "INV-Q3");
        let expected = |refs: &[ChangeRef]| {
            let mut numbers: Vec<_> = refs.iter().map(|change| change.number).collect();
            numbers.sort();
            numbers
        };
        let references = |count: fn(&TrackedChange) -> u32| {
            let numbers = self.changes.iter();
            let numbers = numbers.flat_map(|tracked| std::iter::repeat_n(tracked.number, count(tracked) as usize));
            numbers.collect::<Vec<_>>()
        };
        assert_eq!(
            references(|tracked| tracked.waiting),
            expected(&waiting),
            "each waiting object refers to one change"
        );
        assert_eq!(
            references(|tracked| tracked.in_flight),
            expected(in_flight),
            "each object in flight refers to one change"
        );
        assert!(self.changes.iter().all(|tracked| tracked.waiting + tracked.in_flight > 0), "INV-M1");
        assert!(self.changes.iter().is_sorted_by(|a, b| a.number < b.number), "INV-M1");
        assert_eq!(self.in_flight, in_flight.len(), "INV-M2");
    }
}
