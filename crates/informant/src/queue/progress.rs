//! The consumer's progress: which version it has reached, and whether it has processed the initial list.
//!
//! - **In:** the versions of queued changes; which changes are taken, acknowledged and requeued.
//! - **Out:** the reached version, the versions that batches carry, and whether the queue is synced.
//! - **Knows nothing of:** deltas, and how the two kinds of queue store them.

use super::version_tracker::{VersionId, VersionTracker};
use crate::{Origin, ResourceVersion};

#[derive(Default)]
pub(super) struct Progress {
    tracker: VersionTracker,

    /// The versions of relists and bookmarks, and of deletes of unknown objects, which the consumer receives without a delta.
    pending: Vec<VersionRef>,

    /// The number of the newest version that a batch has carried.
    announced: u64,

    /// How many changes of the initial list were not processed yet; `None` until the first change.
    ///
    /// INV-Q3: if `Some`, the number of version references with `Initial::Counted`.
    initial_left: Option<usize>,
}

/// A reference to a version. The consumer has not reached the version while a reference to it exists. The reference may also delay the end
/// of the initial list.
#[derive(Debug, Clone, Copy)]
pub(super) struct VersionRef {
    /// The version of the oldest change.
    id: VersionId,
    initial: Initial,
    /// True if all changes of a relist or a resync refer to this version.
    is_shared: bool,
    /// True if this is the version of a relist after a history change.
    history_changed: bool,
}

/// Whether a change belongs to the initial list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Initial {
    No,
    /// Yes, and the queue is not synced before it is processed.
    Counted,
    /// Yes, but it was requeued once, so the queue can be synced before it is processed.
    Attempted,
}

/// The version of a delta that is pushed.
pub(super) enum Version {
    /// The delta has a version of its own; `None` if processing the delta does not advance the reached version, for example because the
    /// object existed before the watch began.
    Own(Option<ResourceVersion>),
    /// The delta is part of a relist or a resync.
    Shared(VersionRef),
}

impl Progress {
    /// Called for each pushed change: a list that is pushed after the first change is not the initial list.
    pub(super) fn stop_expecting_initial_list(&mut self) {
        self.initial_left.get_or_insert(0);
    }

    /// Adds the version of a relist. The consumer receives it even if the list changes no object.
    pub(super) fn begin_relist(&mut self, version: ResourceVersion, history_changed: bool) -> VersionRef {
        let initial = if self.initial_left.is_none() { Initial::Counted } else { Initial::No };
        self.stop_expecting_initial_list();
        let id = self.tracker.push(Some(version));
        let version_ref = VersionRef { id, initial, is_shared: true, history_changed };
        self.add_reference(version_ref);
        self.pending.push(version_ref);
        VersionRef { history_changed: false, ..version_ref }
    }

    /// Adds a resync, which has no version. The caller must then push at least one change that belongs to the resync.
    pub(super) fn begin_resync(&mut self) -> VersionRef {
        let id = self.tracker.push(None);
        VersionRef { id, initial: Initial::No, is_shared: true, history_changed: false }
    }

    /// Adds a version without a delta.
    pub(super) fn push_version(&mut self, version: Option<ResourceVersion>) {
        match self.pending.last() {
            // Versions that follow each other are combined, so that a slow consumer has one to process, not thousands.
            Some(pending) if self.tracker.is_newest(pending.id) => self.tracker.replace_newest(version),
            Some(_) | None => {
                let version_ref = self.add(Version::Own(version));
                self.pending.push(version_ref);
            }
        }
    }

    /// Adds a waiting delta.
    pub(super) fn add(&mut self, version: Version) -> VersionRef {
        let version_ref = match version {
            Version::Shared(version_ref) => version_ref,
            Version::Own(version) => {
                let id = self.tracker.push(version);
                VersionRef { id, initial: Initial::No, is_shared: false, history_changed: false }
            }
        };
        self.add_reference(version_ref);
        version_ref
    }

    /// Adds a delta to waiting deltas of the same object, which keep their reference to the older version.
    pub(super) fn add_to(&mut self, waiting: &mut VersionRef, version: Version) {
        match version {
            Version::Own(version) => self.tracker.replace_newest(version),
            Version::Shared(newer) if waiting.initial == Initial::No && newer.initial == Initial::Counted => {
                waiting.initial = Initial::Counted;
                self.add_to_initial(Initial::Counted);
            }
            Version::Shared(_) => {}
        }
    }

    /// Marks waiting deltas as in flight.
    pub(super) fn take(&mut self, version_ref: VersionRef) {
        self.tracker.move_to_in_flight(version_ref.id);
    }

    /// Marks versions that have no delta as in flight: all of them, or only those before the version `end`.
    pub(super) fn take_pending(&mut self, end: Option<VersionRef>) -> Vec<VersionRef> {
        let is_taken = |pending: &mut VersionRef| end.is_none_or(|end| pending.is_before(end));
        let taken: Vec<_> = self.pending.extract_if(.., is_taken).collect();
        taken.iter().for_each(|pending| self.take(*pending));
        taken
    }

    /// Acknowledges deltas in flight.
    pub(super) fn acknowledge(&mut self, version_ref: VersionRef) {
        self.subtract_from_initial(version_ref.initial);
        self.tracker.remove_in_flight(version_ref.id);
    }

    /// Marks deltas that are in flight as waiting again; returns their new reference.
    pub(super) fn requeue(&mut self, version_ref: VersionRef) -> VersionRef {
        self.subtract_from_initial(version_ref.initial);
        self.tracker.move_to_waiting(version_ref.id);
        let initial = match version_ref.initial {
            Initial::No => Initial::No,
            Initial::Counted | Initial::Attempted => Initial::Attempted,
        };
        VersionRef { initial, ..version_ref }
    }

    /// Combines requeued deltas with `newer` deltas that wait: all of them then refer to the older version.
    pub(super) fn combine(&mut self, requeued: VersionRef, newer: VersionRef) -> VersionRef {
        self.tracker.replace_by_older(newer.id);
        let initial = if newer.initial == Initial::Counted { newer.initial } else { requeued.initial };
        VersionRef { initial, ..requeued }
    }

    pub(super) fn requeue_pending(&mut self, pending: &[VersionRef]) {
        for version_ref in pending {
            let version_ref = self.requeue(*version_ref);
            self.pending.push(version_ref);
        }
        self.pending.sort_by_key(|pending| pending.id);
    }

    /// Returns the version that the consumer has reached when everything in flight is acknowledged, if no batch has carried it.
    pub(super) fn announce(&mut self) -> Option<ResourceVersion> {
        let pushed = self.tracker.reached_when_done().filter(|pushed| pushed.number > self.announced)?;
        self.announced = pushed.number;
        Some(pushed.version.clone())
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
        !self.pending.is_empty() || (is_unannounced && !self.is_anything_in_flight())
    }

    pub(super) fn is_anything_in_flight(&self) -> bool {
        self.tracker.is_anything_in_flight()
    }

    pub(super) fn is_synced(&self) -> bool {
        self.initial_left == Some(0)
    }

    pub(super) fn reached(&self) -> Option<&ResourceVersion> {
        self.tracker.reached().map(|reached| &reached.version)
    }

    pub(super) fn free_memory(&mut self) {
        self.tracker.free_memory();
    }

    fn add_reference(&mut self, version_ref: VersionRef) {
        self.tracker.add_waiting(version_ref.id);
        self.add_to_initial(version_ref.initial);
    }

    fn add_to_initial(&mut self, initial: Initial) {
        match initial {
            Initial::Counted => self.initial_left = self.initial_left.map(|left| left + 1),
            Initial::No | Initial::Attempted => {}
        }
    }

    fn subtract_from_initial(&mut self, initial: Initial) {
        match initial {
            Initial::Counted => self.initial_left = self.initial_left.map(|left| left - 1),
            Initial::No | Initial::Attempted => {}
        }
    }

    /// `waiting` are the references of waiting deltas; `in_flight` are the references of deltas and versions in open batches.
    #[cfg(test)]
    pub(super) fn check_invariants(&self, waiting: Vec<VersionRef>, in_flight: &[VersionRef]) {
        let waiting: Vec<_> = waiting.into_iter().chain(self.pending.iter().copied()).collect();
        let is_counted = |version_ref: &&VersionRef| version_ref.initial == Initial::Counted;
        let counted = waiting.iter().chain(in_flight).filter(is_counted).count();
        assert_eq!(self.initial_left.unwrap_or_default(), counted, "INV-Q3");
        let ids = |refs: &[VersionRef]| refs.iter().map(|version_ref| version_ref.id).collect();
        self.tracker.check_invariants(ids(&waiting), ids(in_flight));
    }
}

impl VersionRef {
    pub(super) fn origin(self) -> Origin {
        match self.initial {
            Initial::No => Origin::Live,
            Initial::Counted | Initial::Attempted => Origin::InitialList,
        }
    }

    pub(super) fn history_changed(self) -> bool {
        self.history_changed
    }

    /// Returns true if the version was pushed before the other one.
    pub(super) fn is_before(self, other: Self) -> bool {
        self.id < other.id
    }

    /// Returns true if the two changes are parts of the same relist or resync.
    pub(super) fn is_shared_with(self, other: Self) -> bool {
        self.is_shared && self.id == other.id
    }

    /// Returns true if the change is part of a relist or a resync.
    pub(super) fn is_shared(self) -> bool {
        self.is_shared
    }
}
