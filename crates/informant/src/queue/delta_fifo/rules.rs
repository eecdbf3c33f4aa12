//! The rules of the grouping queue, without lock, clock or waiting.

use std::collections::VecDeque;

use super::super::KnownObjects;
use super::super::is_far_too_large;
use super::super::receipt::sealed::Answers;
use super::super::receipt::sealed::Batch;
use super::super::watched::Rules;
use super::ItemOutcome;
use super::ObjectChanges;
use super::marks::MarkId;
use super::marks::Marks;
use crate::Cached;
use crate::Deleted;
use crate::Key;
use crate::Origin;
use crate::ResourceVersion;
use crate::delta::Delta;
use crate::delta::Deltas;
use crate::delta::Relist;
use crate::slots::Keyed;
use crate::slots::Slot;
use crate::slots::Slots;

pub(super) struct State<O> {
    /// Objects in pop order.
    ///
    /// INV-Q1: exactly those that have waiting deltas and nothing in flight, each once.
    order: VecDeque<Slot>,

    /// INV-Q2: each entry waits, is in flight, or both.
    entries: Slots<Entry<O>>,

    /// News for the consumer that came without a delta.
    notices: Vec<Hold>,

    marks: Marks,

    /// How many entries there were at most since there was none.
    peak: usize,

    /// The number of the newest version that a receipt has told.
    told: u64,

    /// How much of the initial list was not attempted yet; `None` until the first change.
    ///
    /// INV-Q3: once there, the number of holds with `Initial::Counted`.
    initial_left: Option<usize>,

    /// Whether an object of a list comes as `Replaced`, or as `Sync`.
    emits_replaced: bool,

    is_closed: bool,

    /// Objects that are not needed any more, until the shell takes them.
    discarded: Vec<Cached<O>>,
}

struct Entry<O> {
    key: Key,
    waiting: Option<Waiting<O>>,
    /// INV-Q4: there exactly for the objects of unanswered receipts.
    in_flight: Option<InFlight<O>>,
}

struct Waiting<O> {
    deltas: Deltas<O>,
    hold: Hold,
}

/// What the queue remembers of deltas that were taken.
struct InFlight<O> {
    newest: Delta<O>,
    hold: Hold,
}

/// What a piece of work keeps from being announced: a version, and perhaps the end of the initial list.
#[derive(Debug, Clone, Copy)]
pub struct Hold {
    /// The mark of its oldest change.
    mark: MarkId,
    initial: Initial,
    /// Whether it is the notice of a relist of a changed history.
    history_changed: bool,
}

/// Whether something belongs to the initial list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Initial {
    No,
    /// It does, and sync waits for it.
    Counted,
    /// It does, but failed once: sync does not wait for it any more.
    Attempted,
}

impl Hold {
    fn new(mark: MarkId, initial: Initial) -> Self {
        Self { mark, initial, history_changed: false }
    }
}

impl<O> State<O> {
    pub(super) fn new(emits_replaced: bool) -> Self {
        Self {
            order: VecDeque::new(),
            entries: Slots::default(),
            notices: Vec::new(),
            marks: Marks::default(),
            peak: 0,
            told: 0,
            initial_left: None,
            emits_replaced,
            is_closed: false,
            discarded: Vec::new(),
        }
    }

    /// Queues a change of an object that exists.
    pub(super) fn upsert(&mut self, delta: Delta<O>) {
        self.initial_left.get_or_insert(0);
        let version = delta.version().cloned();
        self.push_with_version(delta, version);
    }

    /// Queues a change of an object that exists; its version does not count as reached.
    pub(super) fn push_unordered(&mut self, delta: Delta<O>) {
        self.initial_left.get_or_insert(0);
        self.push_with_version(delta, None);
    }

    /// Queues a delete, unless nobody has heard of the object.
    pub(super) fn delete(&mut self, deleted: Deleted<O>, known: Option<&dyn KnownObjects<O>>) {
        let exists = match self.entry(deleted.key()) {
            Some(Entry { waiting: None, in_flight: Some(taken), .. }) => !taken.newest.is_deleted(),
            // Behind a delete that waits, another one merges with it.
            Some(_) => true,
            None => {
                let cached = known.and_then(|known| known.get(deleted.key()));
                let is_known = cached.is_some();
                self.discarded.extend(cached);
                is_known
            }
        };
        self.initial_left.get_or_insert(0);
        let delta = Delta::Deleted(deleted);
        let version = delta.version().cloned();
        if exists {
            self.push_with_version(delta, version);
        } else {
            self.discarded.push(delta.into_object());
            self.notice(version);
        }
    }

    /// Queues a delete whose final state is unreadable, with the newest state there is.
    pub(super) fn lose(&mut self, key: &Key, version: Option<ResourceVersion>, known: Option<&dyn KnownObjects<O>>) {
        let last_known = match self.entry(key) {
            Some(entry) => {
                Some(entry.newest()).filter(|newest| !newest.is_deleted()).map(|newest| newest.object().clone())
            }
            None => known.and_then(|known| known.get(key)),
        };
        self.initial_left.get_or_insert(0);
        match last_known {
            Some(last_known) => self.push_with_version(Delta::Deleted(Deleted::Missed { last_known }), version),
            None => self.notice(version),
        }
    }

    /// Queues the server's complete picture: what it has, then deletes of what it no longer has.
    pub(super) fn replace(&mut self, relist: &Relist<O>, known: Option<&dyn KnownObjects<O>>) {
        // Before anything is changed: known objects are somebody else's code.
        let missing = self.missing_from(relist, known);
        let initial = if self.initial_left.is_none() { Initial::Counted } else { Initial::No };
        self.initial_left.get_or_insert(0);
        // Also wakes the consumer for a list that changes nothing.
        let mark = self.notice_at(Some(relist.version.clone()), initial, relist.history_changed);

        for object in &relist.objects {
            let object = object.clone();
            let delta = if self.emits_replaced { Delta::Replaced(object) } else { Delta::Sync(object) };
            self.push(delta, Hold::new(mark, initial));
        }
        for last_known in missing {
            self.push(Delta::Deleted(Deleted::Missed { last_known }), Hold::new(mark, initial));
        }
    }

    /// The newest states of all objects that wait, are in flight or are known, and that a list no longer has.
    fn missing_from(&mut self, relist: &Relist<O>, known: Option<&dyn KnownObjects<O>>) -> Vec<Cached<O>> {
        let is_missing = relist.missing();
        let mut known = known.map(KnownObjects::list).unwrap_or_default();
        let queued = self.entries.iter().map(Entry::newest).filter(|newest| !newest.is_deleted());
        let queued = queued.map(Delta::object).filter(|object| is_missing(object)).cloned();
        let mut missing: Vec<_> = queued.collect();
        missing.extend(known.extract_if(.., |object| is_missing(object) && self.entries.find(object.key()).is_none()));
        self.discarded.append(&mut known);
        missing
    }

    /// Queues everything known once more, except for what has news anyway.
    pub(super) fn resync(&mut self, known: &dyn KnownObjects<O>) {
        let mut idle = known.list();
        self.discarded.extend(idle.extract_if(.., |object| self.entries.find(object.key()).is_some()));
        if idle.is_empty() {
            return;
        }
        let mark = self.marks.begin(None);
        for object in idle {
            self.push(Delta::Sync(object), Hold::new(mark, Initial::No));
        }
    }

    /// Queues deltas of an object that neither waits nor is in flight; says whether it did. They bring no version: what is
    /// put back is not news.
    pub(super) fn add_if_not_present(&mut self, deltas: Deltas<O>) -> bool {
        self.initial_left.get_or_insert(0);
        if self.entries.find(deltas.key()).is_some() {
            self.discarded.extend(deltas.into_objects());
            return false;
        }
        let mark = self.marks.begin(None);
        self.wait(None, deltas, Hold::new(mark, Initial::No));
        true
    }

    /// Tells the consumer a version that came without a change.
    pub(super) fn bookmark(&mut self, version: ResourceVersion) {
        self.notice(Some(version));
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Takes the longest-waiting objects and all notices; `None` if there is nothing to tell.
    pub(super) fn take(&mut self, at_most: usize) -> Option<Batch<ObjectChanges<O>, Vec<Hold>>> {
        let is_alone = !self.marks.is_anything_in_flight();
        if self.order.is_empty() && self.notices.is_empty() && !(is_alone && self.is_version_untold()) {
            return None;
        }
        let ticket = std::mem::take(&mut self.notices);
        ticket.iter().for_each(|notice| self.marks.take(notice.mark));
        let count = self.order.len().min(at_most);
        let mut items = Vec::with_capacity(count);
        for slot in self.order.drain(..count) {
            let entry = self.entries.get_mut(slot).expect("INV-Q1");
            let Waiting { deltas, hold } = entry.waiting.take().expect("INV-Q1");
            self.marks.take(hold.mark);
            entry.in_flight = Some(InFlight { newest: deltas.newest().clone(), hold });
            items.push(ObjectChanges { slot, deltas, origin: hold.initial.origin() });
        }
        let version = self.marks.reached_after_flight().filter(|pushed| is_alone && pushed.number > self.told).cloned();
        self.told = version.as_ref().map_or(self.told, |pushed| pushed.number);
        let history_changed = ticket.iter().any(|notice| notice.history_changed);
        Some(Batch { items, ticket, version: version.map(|pushed| pushed.version), history_changed })
    }

    /// Whether the consumer has reached a version that no receipt could tell, because others were out.
    fn is_version_untold(&self) -> bool {
        self.marks.reached().is_some_and(|reached| reached.number > self.told)
    }

    /// Enters the answers for what was taken.
    ///
    /// What the queue remembers of `items` is dropped here. These are copies, so no object is freed before `items` is dropped.
    pub(super) fn answer(&mut self, items: &[ObjectChanges<O>], answers: &Answers, notices: &[Hold]) {
        for notice in notices {
            self.count_attempt(notice.initial);
            match answers {
                Answers::AllDone | Answers::Each(_) => self.marks.done(notice.mark),
                Answers::AllRequeued => {
                    self.marks.put_back(notice.mark);
                    self.notices.push(Hold { initial: notice.initial.after_attempt(), ..*notice });
                }
            }
        }
        for (position, item) in items.iter().enumerate() {
            match answers.of(position) {
                ItemOutcome::Done => self.done(item.slot),
                ItemOutcome::Requeue { processed } => match item.deltas.rest(processed) {
                    Some(rest) => self.put_back(item.slot, rest),
                    None => self.done(item.slot),
                },
            }
        }
        if !self.marks.is_anything_in_flight() {
            // If something went back, a version that was told is not reached after all, and is told again.
            self.told = self.told.min(self.marks.reached().map_or(0, |reached| reached.number));
        }
        if self.entries.len() == 0 {
            if is_far_too_large(self.entries.capacity(), self.peak) {
                (self.entries, self.order) = (Slots::default(), VecDeque::new());
                self.marks.give_back();
            }
            self.peak = 0;
        }
    }

    /// Whether nothing will come any more, unless somebody still pushes.
    pub(super) fn is_exhausted(&self) -> bool {
        let has_news = !self.notices.is_empty() || self.is_version_untold();
        self.is_closed && self.entries.len() == 0 && !has_news && !self.marks.is_anything_in_flight()
    }

    pub(super) fn is_synced(&self) -> bool {
        self.initial_left == Some(0)
    }

    pub(super) fn reached(&self) -> Option<&ResourceVersion> {
        self.marks.reached().map(|reached| &reached.version)
    }

    /// How many objects could be taken now.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// The objects that have waiting deltas: first those that could be taken now, in that order, then those that wait for
    /// a receipt.
    pub(super) fn waiting_keys(&self) -> Vec<Key> {
        let held_back = self.entries.iter().filter(|entry| entry.waiting.is_some() && entry.in_flight.is_some());
        let in_line = self.order.iter().filter_map(|&slot| self.entries.get(slot));
        in_line.chain(held_back).map(|entry| entry.key.clone()).collect()
    }

    pub(super) fn waiting(&self, key: &Key) -> Option<Deltas<O>> {
        self.entry(key)?.waiting.as_ref().map(|waiting| waiting.deltas.clone())
    }

    fn entry(&self, key: &Key) -> Option<&Entry<O>> {
        self.entries.get(self.entries.find(key)?)
    }

    /// Appends a delta that brings a version of its own.
    fn push_with_version(&mut self, delta: Delta<O>, version: Option<ResourceVersion>) {
        let slot = self.entries.find(delta.key());
        match slot.and_then(|slot| self.entries.get_mut(slot)?.waiting.as_mut()) {
            Some(waiting) => {
                self.discarded.extend(waiting.deltas.push(delta));
                self.marks.renew(version);
            }
            None => {
                let mark = self.marks.begin(version);
                self.wait(slot, delta.into(), Hold::new(mark, Initial::No));
            }
        }
    }

    /// Appends a delta that shares a mark with others; `hold` counts only if none of the object's was waiting.
    fn push(&mut self, delta: Delta<O>, hold: Hold) {
        let slot = self.entries.find(delta.key());
        match slot.and_then(|slot| self.entries.get_mut(slot)?.waiting.as_mut()) {
            Some(waiting) => {
                self.discarded.extend(waiting.deltas.push(delta));
                if waiting.hold.initial == Initial::No && hold.initial == Initial::Counted {
                    waiting.hold.initial = Initial::Counted;
                    self.count(Initial::Counted);
                }
            }
            None => self.wait(slot, delta.into(), hold),
        }
    }

    /// Lets deltas of an object wait of which none did; it has a slot if it is in flight.
    fn wait(&mut self, slot: Option<Slot>, deltas: Deltas<O>, hold: Hold) {
        self.hold(hold);
        let key = deltas.key().clone();
        let waiting = Some(Waiting { deltas, hold });
        match slot.and_then(|slot| self.entries.get_mut(slot)) {
            // It joins the line when its receipt is answered.
            Some(entry) => entry.waiting = waiting,
            None => {
                self.order.push_back(self.entries.insert(Entry { key, waiting, in_flight: None }));
                self.peak = self.peak.max(self.entries.len());
            }
        }
    }

    fn notice(&mut self, version: Option<ResourceVersion>) {
        match self.notices.last() {
            // A consumer that does not look has one notice to read, not thousands.
            Some(notice) if self.marks.is_newest(notice.mark) => self.marks.renew(version),
            Some(_) | None => {
                self.notice_at(version, Initial::No, false);
            }
        }
    }

    fn notice_at(&mut self, version: Option<ResourceVersion>, initial: Initial, history_changed: bool) -> MarkId {
        let mark = self.marks.begin(version);
        let hold = Hold { mark, initial, history_changed };
        self.hold(hold);
        self.notices.push(hold);
        mark
    }

    fn hold(&mut self, hold: Hold) {
        self.marks.hold(hold.mark);
        self.count(hold.initial);
    }

    fn count(&mut self, initial: Initial) {
        match initial {
            Initial::Counted => self.initial_left = self.initial_left.map(|left| left + 1),
            Initial::No | Initial::Attempted => {}
        }
    }

    fn count_attempt(&mut self, initial: Initial) {
        match initial {
            Initial::Counted => self.initial_left = self.initial_left.map(|left| left - 1),
            Initial::No | Initial::Attempted => {}
        }
    }

    fn done(&mut self, slot: Slot) {
        let entry = self.entries.get_mut(slot).expect("INV-Q4");
        let hold = entry.in_flight.take().expect("INV-Q4").hold;
        if entry.waiting.is_some() {
            self.order.push_back(slot);
        } else {
            self.entries.remove(slot);
        }
        self.count_attempt(hold.initial);
        self.marks.done(hold.mark);
    }

    /// Puts what could not be processed back in line. If newer deltas came meanwhile they take its place, but for a
    /// delete: that stays before them.
    fn put_back(&mut self, slot: Slot, rest: Deltas<O>) {
        let entry = self.entries.get_mut(slot).expect("INV-Q4");
        let mut hold = entry.in_flight.take().expect("INV-Q4").hold;
        let newer = entry.waiting.take();
        self.count_attempt(hold.initial);
        hold.initial = hold.initial.after_attempt();
        self.marks.put_back(hold.mark);
        let deltas = match newer {
            None => rest,
            Some(newer) => {
                // The newer deltas stand for the older ones too, so they hold the older mark.
                self.marks.merge_into_older(newer.hold.mark);
                if newer.hold.initial == Initial::Counted {
                    hold.initial = Initial::Counted;
                }
                match rest.deletes() {
                    None => newer.deltas,
                    Some(mut deletes) => {
                        deletes.append(newer.deltas, &mut self.discarded);
                        deletes
                    }
                }
            }
        };
        self.entries.get_mut(slot).expect("INV-Q4").waiting = Some(Waiting { deltas, hold });
        self.order.push_back(slot);
    }

    /// `taken_notices` are those of all receipts that are out.
    #[cfg(test)]
    pub(super) fn check_invariants(&self, taken_notices: &[Hold]) {
        self.entries.check_invariants();
        let mut in_line: Vec<_> = self.order.iter().copied().collect();
        in_line.sort();
        let takeable =
            self.entries.occupied().filter(|(_, entry)| entry.waiting.is_some() && entry.in_flight.is_none());
        assert_eq!(in_line, takeable.map(|(slot, _)| slot).collect::<Vec<_>>(), "INV-Q1");
        assert!(self.entries.iter().all(|entry| entry.waiting.is_some() || entry.in_flight.is_some()), "INV-Q2");
        for entry in self.entries.iter() {
            let mut deltas = entry.waiting.iter().flat_map(|waiting| waiting.deltas.iter());
            assert!(deltas.all(|delta| *delta.key() == entry.key), "INV-D1");
        }

        let waiting = self.entries.iter().filter_map(|entry| entry.waiting.as_ref()).map(|waiting| waiting.hold);
        let waiting: Vec<_> = waiting.chain(self.notices.iter().copied()).collect();
        let in_flight = self.entries.iter().filter_map(|entry| entry.in_flight.as_ref()).map(|taken| taken.hold);
        let in_flight: Vec<_> = in_flight.chain(taken_notices.iter().copied()).collect();
        let counted = waiting.iter().chain(&in_flight).filter(|hold| hold.initial == Initial::Counted).count();
        assert_eq!(self.initial_left.unwrap_or_default(), counted, "INV-Q3");
        let marks = |holds: Vec<Hold>| holds.iter().map(|hold| hold.mark).collect();
        self.marks.check_invariants(marks(waiting), marks(in_flight));
    }
}

impl<O> Rules for State<O> {
    type Discarded = Vec<Cached<O>>;

    fn take_discarded(&mut self) -> Vec<Cached<O>> {
        std::mem::take(&mut self.discarded)
    }
}

impl<O> Keyed for Entry<O> {
    fn key(&self) -> &Key {
        &self.key
    }
}

impl<O> Entry<O> {
    fn newest(&self) -> &Delta<O> {
        match (&self.waiting, &self.in_flight) {
            (Some(waiting), _) => waiting.deltas.newest(),
            (None, Some(taken)) => &taken.newest,
            (None, None) => unreachable!("INV-Q2"),
        }
    }
}

impl Initial {
    fn origin(self) -> Origin {
        match self {
            Self::No => Origin::Live,
            Self::Counted | Self::Attempted => Origin::InitialList,
        }
    }

    fn after_attempt(self) -> Self {
        match self {
            Self::No => Self::No,
            Self::Counted | Self::Attempted => Self::Attempted,
        }
    }
}
