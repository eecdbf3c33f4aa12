//! Which version the consumer has reached: the newest one up to which nothing is waiting or in flight any more.

use std::collections::VecDeque;

use crate::ResourceVersion;

/// Names a mark; later marks have larger numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MarkId(u64);

/// A version that was pushed, numbered: versions can repeat and even go back, their numbers only rise.
#[derive(Debug, Clone)]
pub(super) struct Pushed {
    pub(super) number: u64,
    pub(super) version: ResourceVersion,
}

/// A line of marks, one for each version that was pushed, held by what was pushed with it.
///
/// Each waiting or in-flight piece of work holds exactly one mark: that of its oldest change. When all holders of all
/// marks up to one have let go, its version is reached.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// INV-M1: ids rise, and the first one is held.
    line: VecDeque<Mark>,
    next: u64,
    /// How many versions were pushed.
    pushed: u64,
    /// INV-M2: the sum of `in_flight` over the line.
    in_flight: usize,
    /// INV-M3: the number of marks in the line that nobody holds.
    unheld: usize,
    reached: Option<Pushed>,
}

#[derive(Debug)]
struct Mark {
    id: MarkId,
    version: Option<Pushed>,
    waiting: u32,
    in_flight: u32,
}

impl Marks {
    /// Begins a new mark, which something must hold at once.
    pub(super) fn begin(&mut self, version: Option<ResourceVersion>) -> MarkId {
        let id = MarkId(self.next);
        self.next += 1;
        let version = self.number(version);
        self.line.push_back(Mark { id, version, waiting: 0, in_flight: 0 });
        self.unheld += 1;
        id
    }

    /// The newest mark gets a newer version: for a change that waits behind something that holds a mark already.
    pub(super) fn renew(&mut self, version: Option<ResourceVersion>) {
        let version = self.number(version);
        if let (Some(mark), Some(version)) = (self.line.back_mut(), version) {
            mark.version = Some(version);
        }
    }

    /// Whether this is the newest mark.
    pub(super) fn is_newest(&self, id: MarkId) -> bool {
        self.line.back().is_some_and(|mark| mark.id == id)
    }

    /// Something that waits holds the mark.
    pub(super) fn hold(&mut self, id: MarkId) {
        self.change(id, |mark| mark.waiting += 1);
    }

    /// What waited is in flight now.
    pub(super) fn take(&mut self, id: MarkId) {
        self.in_flight += 1;
        self.change(id, |mark| {
            mark.waiting -= 1;
            mark.in_flight += 1;
        });
    }

    /// What was in flight waits again.
    pub(super) fn put_back(&mut self, id: MarkId) {
        self.in_flight -= 1;
        self.change(id, |mark| {
            mark.in_flight -= 1;
            mark.waiting += 1;
        });
    }

    /// What waited is now covered by an older mark.
    pub(super) fn merge_into_older(&mut self, id: MarkId) {
        self.change(id, |mark| mark.waiting -= 1);
        self.advance();
    }

    /// What was in flight is done.
    pub(super) fn done(&mut self, id: MarkId) {
        self.in_flight -= 1;
        self.change(id, |mark| mark.in_flight -= 1);
        self.advance();
    }

    pub(super) fn is_anything_in_flight(&self) -> bool {
        self.in_flight > 0
    }

    pub(super) fn reached(&self) -> Option<&Pushed> {
        self.reached.as_ref()
    }

    /// The version that is reached when all that is in flight is done.
    pub(super) fn reached_after_flight(&self) -> Option<&Pushed> {
        let cleared = self.line.iter().take_while(|mark| mark.waiting == 0);
        cleared.filter_map(|mark| mark.version.as_ref()).last().or(self.reached())
    }

    /// Gives back the room of an empty line.
    pub(super) fn give_back(&mut self) {
        if self.line.is_empty() {
            self.line = VecDeque::new();
        }
    }

    fn number(&mut self, version: Option<ResourceVersion>) -> Option<Pushed> {
        let version = version.filter(|version| !version.is_empty())?;
        self.pushed += 1;
        Some(Pushed { number: self.pushed, version })
    }

    fn change(&mut self, id: MarkId, change: impl FnOnce(&mut Mark)) {
        let position = self.position(id);
        let mark = &mut self.line[position];
        let was_held = mark.is_held();
        change(mark);
        match (was_held, mark.is_held()) {
            (true, false) => self.unheld += 1,
            (false, true) => self.unheld -= 1,
            (true, true) | (false, false) => {}
        }
    }

    fn position(&self, id: MarkId) -> usize {
        // Without gaps, which is the rule, a mark stands where its number says.
        let guess = self.line.front().map_or(0, |first| (id.0 - first.id.0) as usize);
        match self.line.get(guess) {
            Some(mark) if mark.id == id => guess,
            Some(_) | None => self.line.partition_point(|mark| mark.id < id),
        }
    }

    fn advance(&mut self) {
        while let Some(mark) = self.line.front_mut().filter(|mark| !mark.is_held()) {
            if let Some(version) = mark.version.take() {
                self.reached = Some(version);
            }
            self.line.pop_front();
            self.unheld -= 1;
        }
        if self.unheld > 64 && self.unheld > self.line.len() / 2 {
            self.close_gaps();
        }
    }

    /// Removes marks that nobody holds any more: behind one that is held for long there could be any number. Their
    /// versions are reached together with that of the mark before them.
    fn close_gaps(&mut self) {
        let mut held = VecDeque::<Mark>::with_capacity(self.line.len() - self.unheld);
        for mark in self.line.drain(..) {
            match held.back_mut() {
                Some(before) if !mark.is_held() => before.version = mark.version.or(before.version.take()),
                Some(_) | None => held.push_back(mark),
            }
        }
        self.line = held;
        self.unheld = 0;
    }

    #[cfg(test)]
    pub(super) fn check_invariants(&self, mut waiting: Vec<MarkId>, mut in_flight: Vec<MarkId>) {
        let holders = |count: fn(&Mark) -> u32| {
            let holders = self.line.iter().flat_map(|mark| std::iter::repeat_n(mark.id, count(mark) as usize));
            holders.collect::<Vec<_>>()
        };
        waiting.sort();
        in_flight.sort();
        assert_eq!(holders(|mark| mark.waiting), waiting, "each waiting piece holds one mark");
        assert_eq!(holders(|mark| mark.in_flight), in_flight, "each piece in flight holds one mark");
        assert!(self.line.front().is_none_or(Mark::is_held), "INV-M1");
        assert!(self.line.iter().is_sorted_by(|a, b| a.id < b.id), "INV-M1");
        assert_eq!(self.in_flight, in_flight.len(), "INV-M2");
        assert_eq!(self.unheld, self.line.iter().filter(|mark| !mark.is_held()).count(), "INV-M3");
    }
}

impl Mark {
    fn is_held(&self) -> bool {
        self.waiting + self.in_flight > 0
    }
}
