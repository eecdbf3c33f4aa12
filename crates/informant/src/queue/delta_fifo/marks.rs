//! Which version the consumer has reached: the newest one up to which nothing is waiting or in flight any more.

use std::collections::VecDeque;

use super::super::give_back;
use crate::ResourceVersion;

/// Names a mark; later marks have larger numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MarkId(u64);

/// A line of marks, one for each version that was pushed, held by what was pushed with it.
///
/// Each waiting or in-flight piece of work holds exactly one mark: that of its oldest change. When all holders of all
/// marks up to one have let go, its version is reached.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// INV-M1: the first one is held.
    line: VecDeque<Mark>,
    /// The number of the first mark in the line.
    first: u64,
    /// INV-M2: the sum of `in_flight` over the line.
    in_flight: usize,
    reached: Option<ResourceVersion>,
}

#[derive(Debug)]
struct Mark {
    version: Option<ResourceVersion>,
    waiting: u32,
    in_flight: u32,
}

impl Marks {
    /// Begins a new mark, which something must hold at once.
    pub(super) fn begin(&mut self, version: Option<ResourceVersion>) -> MarkId {
        let version = version.filter(|version| !version.is_empty());
        self.line.push_back(Mark { version, waiting: 0, in_flight: 0 });
        MarkId(self.first + self.line.len() as u64 - 1)
    }

    /// The newest mark gets a newer version: for a change that waits behind something that holds a mark already.
    pub(super) fn renew(&mut self, version: Option<ResourceVersion>) {
        if let (Some(mark), Some(version)) = (self.line.back_mut(), version.filter(|version| !version.is_empty())) {
            mark.version = Some(version);
        }
    }

    /// Whether this is the newest mark.
    pub(super) fn is_newest(&self, id: MarkId) -> bool {
        id.0 + 1 == self.first + self.line.len() as u64
    }

    pub(super) fn hold(&mut self, id: MarkId) {
        self.mark(id).waiting += 1;
    }

    /// What waited is in flight now.
    pub(super) fn take(&mut self, id: MarkId) {
        let mark = self.mark(id);
        mark.waiting -= 1;
        mark.in_flight += 1;
        self.in_flight += 1;
    }

    /// What was in flight waits again.
    pub(super) fn put_back(&mut self, id: MarkId) {
        let mark = self.mark(id);
        mark.in_flight -= 1;
        mark.waiting += 1;
        self.in_flight -= 1;
    }

    /// What waited is now covered by an older mark.
    pub(super) fn merge_into_older(&mut self, id: MarkId) {
        self.mark(id).waiting -= 1;
        self.advance();
    }

    /// What was in flight is done.
    pub(super) fn done(&mut self, id: MarkId) {
        self.mark(id).in_flight -= 1;
        self.in_flight -= 1;
        self.advance();
    }

    pub(super) fn is_anything_in_flight(&self) -> bool {
        self.in_flight > 0
    }

    pub(super) fn reached(&self) -> Option<&ResourceVersion> {
        self.reached.as_ref()
    }

    /// The version that is reached when all that is in flight is done, if that is a new one.
    pub(super) fn reached_after_flight(&self) -> Option<&ResourceVersion> {
        let cleared = self.line.iter().take_while(|mark| mark.waiting == 0);
        cleared.filter_map(|mark| mark.version.as_ref()).last()
    }

    fn mark(&mut self, id: MarkId) -> &mut Mark {
        &mut self.line[(id.0 - self.first) as usize]
    }

    fn advance(&mut self) {
        while let Some(mark) = self.line.front_mut().filter(|mark| mark.waiting == 0 && mark.in_flight == 0) {
            if let Some(version) = mark.version.take() {
                self.reached = Some(version);
            }
            self.line.pop_front();
            self.first += 1;
        }
        give_back(&mut self.line);
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self, mut waiting: Vec<MarkId>, mut in_flight: Vec<MarkId>) {
        let holders = |count: fn(&Mark) -> u32| {
            let ids = (self.first..).map(MarkId).zip(&self.line);
            ids.flat_map(|(id, mark)| std::iter::repeat_n(id, count(mark) as usize)).collect::<Vec<_>>()
        };
        waiting.sort();
        in_flight.sort();
        assert_eq!(holders(|mark| mark.waiting), waiting, "each waiting piece holds one mark");
        assert_eq!(holders(|mark| mark.in_flight), in_flight, "each piece in flight holds one mark");
        assert!(self.line.front().is_none_or(|mark| mark.waiting + mark.in_flight > 0), "INV-M1");
        assert_eq!(self.in_flight, in_flight.len(), "INV-M2");
    }
}
