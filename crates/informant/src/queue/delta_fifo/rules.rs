//! The rules of the grouping queue, without lock, clock or waiting.

use std::collections::VecDeque;

use super::super::KnownObjects;
use super::super::is_far_too_large;
use super::super::receipt::sealed::Answers;
use super::super::receipt::sealed::Batch;
use super::super::watched::Rules;
use super::ItemOutcome;
use super::ObjectChanges;
use super::version_tracker::VersionId;
use super::version_tracker::VersionTracker;
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
    pending_versions: Vec<VersionRef>,

    tracker: VersionTracker,

    /// How many entries there were at most since there was none.
    peak: usize,

    /// The number of the newest version that a receipt has told.
    announced: u64,

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
    version_ref: VersionRef,
}

/// What the queue remembers of deltas that were taken.
struct InFlight<O> {
    newest: Delta<O>,
    version_ref: VersionRef,
}

/// What a piece of work keeps from being announced: a version, and perhaps the end of the initial list.
#[derive(Debug, Clone, Copy)]
pub struct VersionRef {
    /// The mark of its oldest change.
    id: VersionId,
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

impl VersionRef {
    fn new(id: VersionId, initial: Initial) -> Self {
        Self { id, initial, history_changed: false }
    }
}

impl<O> State<O> {
    pub(super) fn new(emits_replaced: bool) -> Self {
        Self {
            order: VecDeque::new(),
            entries: Slots::default(),
            pending_versions: Vec::new(),
            tracker: VersionTracker::default(),
            peak: 0,
            announced: 0,
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
            self.push_version(version);
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
            None => self.push_version(version),
        }
    }

    /// Queues the server's complete picture: what it has, then deletes of what it no longer has.
    pub(super) fn replace(&mut self, relist: &Relist<O>, known: Option<&dyn KnownObjects<O>>) {
        // Before anything is changed: known objects are somebody else's code.
        let missing = self.missing_from(relist, known);
        let initial = if self.initial_left.is_none() { Initial::Counted } else { Initial::No };
        self.initial_left.get_or_insert(0);
        // Also wakes the consumer for a list that changes nothing.
        let id = self.push_pending(Some(relist.version.clone()), initial, relist.history_changed);

        for object in &relist.objects {
            let object = object.clone();
            let delta = if self.emits_replaced { Delta::Replaced(object) } else { Delta::Sync(object) };
            self.push(delta, VersionRef::new(id, initial));
        }
        for last_known in missing {
            self.push(Delta::Deleted(Deleted::Missed { last_known }), VersionRef::new(id, initial));
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
        let id = self.tracker.push(None);
        for object in idle {
            self.push(Delta::Sync(object), VersionRef::new(id, Initial::No));
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
        let id = self.tracker.push(None);
        self.wait(None, deltas, VersionRef::new(id, Initial::No));
        true
    }

    /// Tells the consumer a version that came without a change.
    pub(super) fn bookmark(&mut self, version: ResourceVersion) {
        self.push_version(Some(version));
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Takes the longest-waiting objects and all pending_versions; `None` if there is nothing to tell.
    pub(super) fn take(&mut self, at_most: usize) -> Option<Batch<ObjectChanges<O>, Vec<VersionRef>>> {
        let is_alone = !self.tracker.is_anything_in_flight();
        if self.order.is_empty() && self.pending_versions.is_empty() && !(is_alone && self.has_unannounced_version()) {
            return None;
        }
        let pending_versions = std::mem::take(&mut self.pending_versions);
        pending_versions.iter().for_each(|notice| self.tracker.move_in_flight(notice.id));
        let count = self.order.len().min(at_most);
        let mut items = Vec::with_capacity(count);
        for slot in self.order.drain(..count) {
            let entry = self.entries.get_mut(slot).expect("INV-Q1");
            let Waiting { deltas, version_ref } = entry.waiting.take().expect("INV-Q1");
            self.tracker.move_in_flight(version_ref.id);
            entry.in_flight = Some(InFlight { newest: deltas.newest().clone(), version_ref });
            items.push(ObjectChanges { slot, deltas, origin: version_ref.initial.origin() });
        }
        let version =
            self.tracker.reached_when_done().filter(|pushed| is_alone && pushed.number > self.announced).cloned();
        self.announced = version.as_ref().map_or(self.announced, |pushed| pushed.number);
        let history_changed = pending_versions.iter().any(|notice| notice.history_changed);
        Some(Batch { items, pending_versions, version: version.map(|pushed| pushed.version), history_changed })
    }

    /// Whether the consumer has reached a version that no receipt could tell, because others were out.
    fn has_unannounced_version(&self) -> bool {
        self.tracker.reached().is_some_and(|reached| reached.number > self.announced)
    }

    /// Enters the answers for what was taken.
    ///
    /// What the queue remembers of `items` is dropped here. These are copies, so no object is freed before `items` is dropped.
    pub(super) fn answer(&mut self, items: &[ObjectChanges<O>], answers: &Answers, pending_versions: &[VersionRef]) {
        for notice in pending_versions {
            self.count_attempt(notice.initial);
            match answers {
                Answers::AllDone | Answers::Each(_) => self.tracker.remove_in_flight(notice.id),
                Answers::AllRequeued => {
                    self.tracker.move_to_waiting(notice.id);
                    self.pending_versions.push(VersionRef { initial: notice.initial.after_attempt(), ..*notice });
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
        if !self.tracker.is_anything_in_flight() {
            // If something went back, a version that was told is not reached after all, and is told again.
            self.announced = self.announced.min(self.tracker.reached().map_or(0, |reached| reached.number));
        }
        if self.entries.len() == 0 {
            if is_far_too_large(self.entries.capacity(), self.peak) {
                (self.entries, self.order) = (Slots::default(), VecDeque::new());
                self.tracker.free_memory();
            }
            self.peak = 0;
        }
    }

    /// Whether nothing will come any more, unless somebody still pushes.
    pub(super) fn is_exhausted(&self) -> bool {
        let has_news = !self.pending_versions.is_empty() || self.has_unannounced_version();
        self.is_closed && self.entries.len() == 0 && !has_news && !self.tracker.is_anything_in_flight()
    }

    pub(super) fn is_synced(&self) -> bool {
        self.initial_left == Some(0)
    }

    pub(super) fn reached(&self) -> Option<&ResourceVersion> {
        self.tracker.reached().map(|reached| &reached.version)
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
                self.tracker.replace_newest(version);
            }
            None => {
                let id = self.tracker.push(version);
                self.wait(slot, delta.into(), VersionRef::new(id, Initial::No));
            }
        }
    }

    /// Appends a delta that shares a mark with others; `version_ref` counts only if none of the object's was waiting.
    fn push(&mut self, delta: Delta<O>, version_ref: VersionRef) {
        let slot = self.entries.find(delta.key());
        match slot.and_then(|slot| self.entries.get_mut(slot)?.waiting.as_mut()) {
            Some(waiting) => {
                self.discarded.extend(waiting.deltas.push(delta));
                if waiting.version_ref.initial == Initial::No && version_ref.initial == Initial::Counted {
                    waiting.version_ref.initial = Initial::Counted;
                    self.count(Initial::Counted);
                }
            }
            None => self.wait(slot, delta.into(), version_ref),
        }
    }

    /// Lets deltas of an object wait of which none did; it has a slot if it is in flight.
    fn wait(&mut self, slot: Option<Slot>, deltas: Deltas<O>, version_ref: VersionRef) {
        self.register(version_ref);
        let key = deltas.key().clone();
        let waiting = Some(Waiting { deltas, version_ref });
        match slot.and_then(|slot| self.entries.get_mut(slot)) {
            // It joins the line when its receipt is answered.
            Some(entry) => entry.waiting = waiting,
            None => {
                self.order.push_back(self.entries.insert(Entry { key, waiting, in_flight: None }));
                self.peak = self.peak.max(self.entries.len());
            }
        }
    }

    fn push_version(&mut self, version: Option<ResourceVersion>) {
        match self.pending_versions.last() {
            // A consumer that does not look has one notice to read, not thousands.
            Some(notice) if self.tracker.is_newest(notice.id) => self.tracker.replace_newest(version),
            Some(_) | None => {
                self.push_pending(version, Initial::No, false);
            }
        }
    }

    fn push_pending(&mut self, version: Option<ResourceVersion>, initial: Initial, history_changed: bool) -> VersionId {
        let id = self.tracker.push(version);
        let version_ref = VersionRef { id, initial, history_changed };
        self.register(version_ref);
        self.pending_versions.push(version_ref);
        id
    }

    fn register(&mut self, version_ref: VersionRef) {
        self.tracker.add_waiting(version_ref.id);
        self.count(version_ref.initial);
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
        let version_ref = entry.in_flight.take().expect("INV-Q4").version_ref;
        if entry.waiting.is_some() {
            self.order.push_back(slot);
        } else {
            self.entries.remove(slot);
        }
        self.count_attempt(version_ref.initial);
        self.tracker.remove_in_flight(version_ref.id);
    }

    /// Puts what could not be processed back in line. If newer deltas came meanwhile they take its place, but for a
    /// delete: that stays before them.
    fn put_back(&mut self, slot: Slot, rest: Deltas<O>) {
        let entry = self.entries.get_mut(slot).expect("INV-Q4");
        let mut version_ref = entry.in_flight.take().expect("INV-Q4").version_ref;
        let newer = entry.waiting.take();
        self.count_attempt(version_ref.initial);
        version_ref.initial = version_ref.initial.after_attempt();
        self.tracker.move_to_waiting(version_ref.id);
        let deltas = match newer {
            None => rest,
            Some(newer) => {
                // The newer deltas stand for the older ones too, so they version_ref the older mark.
                self.tracker.replace_by_older(newer.version_ref.id);
                if newer.version_ref.initial == Initial::Counted {
                    version_ref.initial = Initial::Counted;
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
        self.entries.get_mut(slot).expect("INV-Q4").waiting = Some(Waiting { deltas, version_ref });
        self.order.push_back(slot);
    }

    /// `taken_versions` are those of all receipts that are out.
    #[cfg(test)]
    pub(super) fn check_invariants(&self, taken_versions: &[VersionRef]) {
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

        let waiting = self.entries.iter().filter_map(|entry| entry.waiting.as_ref()).map(|waiting| waiting.version_ref);
        let waiting: Vec<_> = waiting.chain(self.pending_versions.iter().copied()).collect();
        let in_flight = self.entries.iter().filter_map(|entry| entry.in_flight.as_ref()).map(|taken| taken.version_ref);
        let in_flight: Vec<_> = in_flight.chain(taken_versions.iter().copied()).collect();
        let counted =
            waiting.iter().chain(&in_flight).filter(|version_ref| version_ref.initial == Initial::Counted).count();
        assert_eq!(self.initial_left.unwrap_or_default(), counted, "INV-Q3");
        let ids = |refs: Vec<VersionRef>| refs.iter().map(|version_ref| version_ref.id).collect();
        self.tracker.check_invariants(ids(waiting), ids(in_flight));
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
