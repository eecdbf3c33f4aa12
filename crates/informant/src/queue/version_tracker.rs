//! Computes which version the consumer has reached: the newest version up to which no change waits or is in flight.

use std::collections::VecDeque;

use crate::ResourceVersion;

/// Identifies a tracked version. Versions that are pushed later have larger ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct VersionId(u64);

/// A version that was pushed, and its number. Versions can repeat and even go backwards; their numbers rise.
#[derive(Debug, Clone)]
pub(super) struct PushedVersion {
    pub(super) number: u64,
    pub(super) version: ResourceVersion,
}

/// The pushed versions that are not reached yet, with the number of references to each.
///
/// Each object that waits, and each object that is in flight, refers to exactly one version: the version of its oldest change. A version that
/// was pushed without an object has one reference, too. A version is reached when neither it nor an earlier version is referred to.
#[derive(Debug, Default)]
pub(super) struct VersionTracker {
    /// INV-M1: ids rise, and the first version is referred to.
    versions: VecDeque<TrackedVersion>,
    next: u64,
    /// The number of versions that were pushed.
    pushed: u64,
    /// INV-M2: the sum of `in_flight` over `versions`.
    in_flight: usize,
    /// INV-M3: the number of `versions` without a reference.
    unreferenced: usize,
    reached: Option<PushedVersion>,
}

/// One version, and how many objects refer to it.
#[derive(Debug)]
struct TrackedVersion {
    id: VersionId,
    /// `None` for changes without a version, such as the changes of a resync.
    version: Option<PushedVersion>,
    waiting: u32,
    in_flight: u32,
}

impl VersionTracker {
    /// Appends a version. The caller must then add a reference to it.
    pub(super) fn push(&mut self, version: Option<ResourceVersion>) -> VersionId {
        let id = VersionId(self.next);
        self.next += 1;
        let version = self.number(version);
        self.versions.push_back(TrackedVersion { id, version, waiting: 0, in_flight: 0 });
        self.unreferenced += 1;
        id
    }

    /// Replaces the newest version by a newer one, for a change of an object that refers to a version already.
    pub(super) fn replace_newest(&mut self, version: Option<ResourceVersion>) {
        let version = self.number(version);
        if let (Some(newest), Some(version)) = (self.versions.back_mut(), version) {
            newest.version = Some(version);
        }
    }

    pub(super) fn is_newest(&self, id: VersionId) -> bool {
        self.versions.back().is_some_and(|newest| newest.id == id)
    }

    /// Adds a reference of a waiting object.
    pub(super) fn add_waiting(&mut self, id: VersionId) {
        self.change(id, |tracked| tracked.waiting += 1);
    }

    /// Turns a reference of a waiting object into a reference of an object in flight.
    pub(super) fn move_to_in_flight(&mut self, id: VersionId) {
        self.in_flight += 1;
        self.change(id, |tracked| {
            tracked.waiting -= 1;
            tracked.in_flight += 1;
        });
    }

    /// Turns a reference of an object in flight into a reference of a waiting object, because the object was requeued.
    pub(super) fn move_to_waiting(&mut self, id: VersionId) {
        self.in_flight -= 1;
        self.change(id, |tracked| {
            tracked.in_flight -= 1;
            tracked.waiting += 1;
        });
    }

    /// Removes the reference of a waiting object that now refers to an older version.
    pub(super) fn replace_by_older(&mut self, id: VersionId) {
        self.change(id, |tracked| tracked.waiting -= 1);
        self.advance();
    }

    /// Removes the reference of an object in flight, because the object was acknowledged.
    pub(super) fn remove_in_flight(&mut self, id: VersionId) {
        self.in_flight -= 1;
        self.change(id, |tracked| tracked.in_flight -= 1);
        self.advance();
    }

    pub(super) fn is_anything_in_flight(&self) -> bool {
        self.in_flight > 0
    }

    pub(super) fn reached(&self) -> Option<&PushedVersion> {
        self.reached.as_ref()
    }

    /// Returns the version that is reached once everything in flight is acknowledged.
    pub(super) fn reached_when_done(&self) -> Option<&PushedVersion> {
        let cleared = self.versions.iter().take_while(|tracked| tracked.waiting == 0);
        cleared.filter_map(|tracked| tracked.version.as_ref()).last().or(self.reached())
    }

    /// Frees the memory of an empty tracker.
    pub(super) fn free_memory(&mut self) {
        if self.versions.is_empty() {
            self.versions = VecDeque::new();
        }
    }

    fn number(&mut self, version: Option<ResourceVersion>) -> Option<PushedVersion> {
        let version = version.filter(|version| !version.is_empty())?;
        self.pushed += 1;
        Some(PushedVersion { number: self.pushed, version })
    }

    fn change(&mut self, id: VersionId, change: impl FnOnce(&mut TrackedVersion)) {
        let position = self.position(id);
        let tracked = &mut self.versions[position];
        let was_referenced = tracked.is_referenced();
        change(tracked);
        match (was_referenced, tracked.is_referenced()) {
            (true, false) => self.unreferenced += 1,
            (false, true) => self.unreferenced -= 1,
            (true, true) | (false, false) => {}
        }
    }

    fn position(&self, id: VersionId) -> usize {
        // Usually no version between the first and this one was removed, so that the position is the difference of the ids.
        let guess = self.versions.front().map_or(0, |first| (id.0 - first.id.0) as usize);
        match self.versions.get(guess) {
            Some(tracked) if tracked.id == id => guess,
            Some(_) | None => self.versions.partition_point(|tracked| tracked.id < id),
        }
    }

    /// Removes the versions at the front that are reached.
    fn advance(&mut self) {
        while let Some(first) = self.versions.front_mut().filter(|first| !first.is_referenced()) {
            if let Some(version) = first.version.take() {
                self.reached = Some(version);
            }
            self.versions.pop_front();
            self.unreferenced -= 1;
        }
        if self.unreferenced > 64 && self.unreferenced > self.versions.len() / 2 {
            self.remove_unreferenced();
        }
    }

    /// Removes versions without a reference, which otherwise pile up behind a version that keeps a reference for a long time. The consumer reaches
    /// them together with the version before them, so they replace that version.
    fn remove_unreferenced(&mut self) {
        let mut referenced = VecDeque::<TrackedVersion>::with_capacity(self.versions.len() - self.unreferenced);
        for tracked in self.versions.drain(..) {
            match referenced.back_mut() {
                Some(before) if !tracked.is_referenced() => before.version = tracked.version.or(before.version.take()),
                Some(_) | None => referenced.push_back(tracked),
            }
        }
        self.versions = referenced;
        self.unreferenced = 0;
    }

    /// `waiting` and `in_flight` are the references of all objects.
    #[cfg(test)]
    pub(super) fn check_invariants(&self, mut waiting: Vec<VersionId>, mut in_flight: Vec<VersionId>) {
        let references = |count: fn(&TrackedVersion) -> u32| {
            let ids = self.versions.iter().flat_map(|tracked| std::iter::repeat_n(tracked.id, count(tracked) as usize));
            ids.collect::<Vec<_>>()
        };
        waiting.sort();
        in_flight.sort();
        assert_eq!(references(|tracked| tracked.waiting), waiting, "each waiting object refers to one version");
        assert_eq!(references(|tracked| tracked.in_flight), in_flight, "each object in flight refers to one version");
        assert!(self.versions.front().is_none_or(TrackedVersion::is_referenced), "INV-M1");
        assert!(self.versions.iter().is_sorted_by(|a, b| a.id < b.id), "INV-M1");
        assert_eq!(self.in_flight, in_flight.len(), "INV-M2");
        assert_eq!(
            self.unreferenced,
            self.versions.iter().filter(|tracked| !tracked.is_referenced()).count(),
            "INV-M3"
        );
    }
}

impl TrackedVersion {
    fn is_referenced(&self) -> bool {
        self.waiting + self.in_flight > 0
    }
}
