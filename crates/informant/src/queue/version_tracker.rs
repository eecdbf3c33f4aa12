//! Computes which version the consumer has reached: the newest version up to which no change waits or is in flight.

use std::collections::VecDeque;

use crate::ResourceVersion;

/// A version, and the number of the change that has it. Versions can repeat and even go backwards; numbers rise.
#[derive(Debug, Clone)]
pub(super) struct NumberedVersion {
    pub(super) number: u64,
    pub(super) version: ResourceVersion,
}

/// The changes that are not reached yet, with the number of references to each.
///
/// Each object that waits, and each object that is in flight, refers to exactly one change: the oldest one of the object. A change without an object
/// has one reference, too. A version is reached when neither its change nor an earlier one is referred to.
#[derive(Debug, Default)]
pub(super) struct VersionTracker {
    /// INV-M1: numbers rise, and the first change is referred to.
    changes: VecDeque<TrackedChange>,
    /// How many changes were pushed.
    pushed: u64,
    /// INV-M2: the sum of `in_flight` over `changes`.
    pub(super) in_flight: usize,
    /// INV-M3: the number of `changes` without a reference.
    unreferenced: usize,
    reached: Option<NumberedVersion>,
}

/// One change, and how many objects refer to it.
#[derive(Debug)]
pub(super) struct TrackedChange {
    number: u64,
    /// The version of this change, or of a later one that is reached together with it; `None` for a change without a version, such as a resync.
    version: Option<NumberedVersion>,
    pub(super) waiting: u32,
    pub(super) in_flight: u32,
}

impl VersionTracker {
    /// Appends a change, and returns its number. The caller must then add a reference to it, or an older change is referred to.
    pub(super) fn push(&mut self, version: Option<ResourceVersion>) -> u64 {
        self.combine_newest();
        self.pushed += 1;
        let number = self.pushed;
        let version = version.filter(|version| !version.is_empty()).map(|version| NumberedVersion { number, version });
        self.changes.push_back(TrackedChange { number, version, waiting: 0, in_flight: 0 });
        self.unreferenced += 1;
        number
    }

    pub(super) fn reached(&self) -> Option<&NumberedVersion> {
        self.reached.as_ref()
    }

    /// Returns the version that is reached once everything in flight is acknowledged.
    pub(super) fn reached_when_done(&self) -> Option<&NumberedVersion> {
        // Changes without a reference count too: an object that waits refers to its oldest change only.
        let cleared = self.changes.iter().take_while(|tracked| tracked.waiting == 0);
        cleared.filter_map(|tracked| tracked.version.as_ref()).last().or(self.reached())
    }

    /// Frees the memory of an empty tracker.
    pub(super) fn free_memory(&mut self) {
        if self.changes.is_empty() {
            self.changes = VecDeque::new();
        }
    }

    /// Changes how many objects refer to a change. Then removes the changes that are reached.
    pub(super) fn update(&mut self, number: u64, change: impl FnOnce(&mut TrackedChange)) {
        let position = self.position(number);
        let tracked = &mut self.changes[position];
        let was_referenced = tracked.is_referenced();
        self.in_flight -= tracked.in_flight as usize;
        change(tracked);
        self.in_flight += tracked.in_flight as usize;
        match (was_referenced, tracked.is_referenced()) {
            (true, false) => self.unreferenced += 1,
            (false, true) => self.unreferenced -= 1,
            (true, true) | (false, false) => {}
        }
        self.advance();
    }

    fn position(&self, number: u64) -> usize {
        // Usually no change between the first and this one was removed, so that the position is the difference of the numbers.
        let guess = self.changes.front().map_or(0, |first| (number - first.number) as usize);
        match self.changes.get(guess) {
            Some(tracked) if tracked.number == number => guess,
            Some(_) | None => self.changes.partition_point(|tracked| tracked.number < number),
        }
    }

    /// Removes the changes at the front that are reached.
    fn advance(&mut self) {
        while let Some(first) = self.changes.front_mut().filter(|first| !first.is_referenced()) {
            if let Some(version) = first.version.take() {
                self.reached = Some(version);
            }
            self.changes.pop_front();
            self.unreferenced -= 1;
        }
        if self.unreferenced > 64 && self.unreferenced > self.changes.len() / 2 {
            self.remove_unreferenced();
        }
    }

    /// Removes the newest change if it has no reference, because its object refers to an older change. The consumer reaches it together with the change
    /// before it, so its version replaces the version of that change.
    fn combine_newest(&mut self) {
        if self.changes.back().is_some_and(|newest| !newest.is_referenced()) {
            let version = self.changes.pop_back().and_then(|newest| newest.version);
            let before = self.changes.back_mut().expect("INV-M1");
            before.version = version.or(before.version.take());
            self.unreferenced -= 1;
        }
    }

    /// Does the same for all changes without a reference, which pile up behind a change that keeps a reference for a long time.
    fn remove_unreferenced(&mut self) {
        let mut referenced = VecDeque::<TrackedChange>::with_capacity(self.changes.len() - self.unreferenced);
        for tracked in self.changes.drain(..) {
            match referenced.back_mut() {
                Some(before) if !tracked.is_referenced() => before.version = tracked.version.or(before.version.take()),
                Some(_) | None => referenced.push_back(tracked),
            }
        }
        self.changes = referenced;
        self.unreferenced = 0;
    }

    /// `waiting` and `in_flight` are the references of all objects.
    #[cfg(test)]
    pub(super) fn check_invariants(&self, mut waiting: Vec<u64>, mut in_flight: Vec<u64>) {
        let references = |count: fn(&TrackedChange) -> u32| {
            let numbers = self.changes.iter();
            let numbers = numbers.flat_map(|tracked| std::iter::repeat_n(tracked.number, count(tracked) as usize));
            numbers.collect::<Vec<_>>()
        };
        waiting.sort();
        in_flight.sort();
        assert_eq!(references(|tracked| tracked.waiting), waiting, "each waiting object refers to one change");
        assert_eq!(references(|tracked| tracked.in_flight), in_flight, "each object in flight refers to one change");
        assert!(self.changes.front().is_none_or(TrackedChange::is_referenced), "INV-M1");
        assert!(self.changes.iter().is_sorted_by(|a, b| a.number < b.number), "INV-M1");
        assert_eq!(self.in_flight, in_flight.len(), "INV-M2");
        let unreferenced = self.changes.iter().filter(|tracked| !tracked.is_referenced()).count();
        assert_eq!(self.unreferenced, unreferenced, "INV-M3");
    }
}

impl TrackedChange {
    fn is_referenced(&self) -> bool {
        self.waiting + self.in_flight > 0
    }
}
