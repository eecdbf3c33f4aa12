//! The rules of the grouping queue, without lock, clock or waiting.

use std::collections::VecDeque;

use super::{
    super::{
        KnownObjects, is_far_too_large,
        receipt::sealed::{Batch, Outcomes},
        watched::QueueState,
    },
    ItemOutcome, ObjectChanges,
    version_tracker::{VersionId, VersionTracker},
};
use crate::{
    Cached, Deleted, Key, Origin, ResourceVersion,
    delta::{Delta, Deltas, Relist},
    slots::{Keyed, Slot, Slots},
};

pub(super) struct State<O> {
    /// Objects in pop order.
    ///
    /// INV-Q1: exactly the objects that have waiting deltas and are not in flight, each once.
    order: VecDeque<Slot>,

    /// INV-Q2: each entry has waiting deltas, is in flight, or both.
    entries: Slots<Entry<O>>,

    /// The versions of relists and bookmarks, and of deletes of unknown objects, which the consumer receives without a delta.
    pending_versions: Vec<VersionRef>,

    tracker: VersionTracker,

    /// The largest number of entries since the queue was last empty.
    peak: usize,

    /// The number of the newest version that a receipt has carried.
    announced: u64,

    /// How many objects of the initial list were not processed yet; `None` until the first change.
    ///
    /// INV-Q3: if `Some`, the number of version references with `Initial::Counted`.
    initial_left: Option<usize>,

    /// True if listed objects are queued as `Replaced`; false for `Sync`.
    emits_replaced: bool,

    is_closed: bool,

    /// Objects that are not needed any more. The caller drops them after it has released the lock.
    discarded: Vec<Cached<O>>,
}

struct Entry<O> {
    key: Key,
    waiting: Option<Waiting<O>>,
    /// INV-Q4: `Some` exactly for the objects of open receipts.
    in_flight: Option<InFlight<O>>,
}

struct Waiting<O> {
    deltas: Deltas<O>,
    version_ref: VersionRef,
}

/// The queue's record of an object whose deltas are in flight.
struct InFlight<O> {
    newest: Delta<O>,
    version_ref: VersionRef,
}

/// A reference to a version, which is not reached while the reference exists. The reference may also delay the end of the initial list.
#[derive(Debug, Clone, Copy)]
pub struct VersionRef {
    /// The version of the oldest change.
    id: VersionId,
    initial: Initial,
    /// True if the version is that of a relist after a history change.
    history_changed: bool,
}

/// Whether a change belongs to the initial list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Initial {
    No,
    /// Yes, and the queue is not synced before it is processed.
    Counted,
    /// Yes, but it was requeued once, so the queue does not wait for it any more to be synced.
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

    /// Queues a delete. If the object neither waits nor is in flight nor known, only the version is queued.
    pub(super) fn delete(&mut self, deleted: Deleted<O>, known: Option<&dyn KnownObjects<O>>) {
        let exists = match self.entry(deleted.key()) {
            Some(Entry { waiting: None, in_flight: Some(taken), .. }) => !taken.newest.is_deleted(),
            // If the newest waiting delta is a delete as well, the two are combined.
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

    /// Queues a delete whose final state could not be decoded, with the newest state that waits, is in flight or is known.
    pub(super) fn delete_unread(
        &mut self,
        key: &Key,
        version: Option<ResourceVersion>,
        known: Option<&dyn KnownObjects<O>>,
    ) {
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

    /// Queues a relist: the listed objects, then deletes of all others.
    pub(super) fn replace(&mut self, relist: &Relist<O>, known: Option<&dyn KnownObjects<O>>) {
        // Called before the queue is changed: `known` is users' code, and may panic.
        let missing = self.missing_from(relist, known);
        let initial = if self.initial_left.is_none() { Initial::Counted } else { Initial::No };
        self.initial_left.get_or_insert(0);
        // The consumer receives the version even if the list changes nothing.
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

    /// Returns the newest states of all objects that wait, are in flight or are known, and that the list does not have.
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

    /// Queues all known objects as `Sync`, except for those that wait or are in flight.
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

    /// Queues deltas of an object, unless it waits or is in flight. Returns true if it queued them. Their versions do not count as reached.
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

    /// Queues the version of a bookmark.
    pub(super) fn bookmark(&mut self, version: ResourceVersion) {
        self.push_version(Some(version));
    }

    pub(super) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Takes the longest-waiting objects and all pending versions; `None` if there are neither, and no version to announce.
    pub(super) fn take(&mut self, at_most: usize) -> Option<Batch<ObjectChanges<O>, Vec<VersionRef>>> {
        let is_alone = !self.tracker.is_anything_in_flight();
        if self.order.is_empty() && self.pending_versions.is_empty() && !(is_alone && self.has_unannounced_version()) {
            return None;
        }
        let pending_versions = std::mem::take(&mut self.pending_versions);
        pending_versions.iter().for_each(|pending| self.tracker.move_in_flight(pending.id));
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
        let history_changed = pending_versions.iter().any(|pending| pending.history_changed);
        Some(Batch { items, pending_versions, version: version.map(|pushed| pushed.version), history_changed })
    }

    /// Returns true if the consumer has reached a version that no receipt carried, because other receipts were in flight.
    fn has_unannounced_version(&self) -> bool {
        self.tracker.reached().is_some_and(|reached| reached.number > self.announced)
    }

    /// Acknowledges or requeues each item of a receipt.
    ///
    /// Drops the queue's own references to the objects in flight. `items` has references to the same objects, so no object is freed here.
    pub(super) fn settle(&mut self, items: &[ObjectChanges<O>], outcomes: &Outcomes, pending_versions: &[VersionRef]) {
        for pending in pending_versions {
            self.count_attempt(pending.initial);
            match outcomes {
                Outcomes::AllDone | Outcomes::Each(_) => self.tracker.remove_in_flight(pending.id),
                Outcomes::AllRequeued => {
                    self.tracker.move_to_waiting(pending.id);
                    self.pending_versions.push(VersionRef { initial: pending.initial.after_attempt(), ..*pending });
                }
            }
        }
        for (position, item) in items.iter().enumerate() {
            match outcomes.of(position) {
                ItemOutcome::Done => self.done(item.slot),
                ItemOutcome::Requeue { processed } => match item.deltas.rest(processed) {
                    Some(rest) => self.put_back(item.slot, rest),
                    None => self.done(item.slot),
                },
            }
        }
        if !self.tracker.is_anything_in_flight() {
            // If an item was requeued, an announced version may not be reached after all. It is announced again.
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

    /// Returns true if the queue is closed and empty, with nothing in flight that could be requeued.
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

    /// Returns how many objects can be taken now.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns the keys of the objects with waiting deltas: first those that can be taken now, in pop order, then those that are also in flight.
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

    /// Appends a delta with its own version.
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

    /// Appends a delta that shares its version with others. If the object has waiting deltas, it keeps its reference to their older version.
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

    /// Stores deltas of an object that has no waiting deltas. `slot` is `Some` if the object is in flight.
    fn wait(&mut self, slot: Option<Slot>, deltas: Deltas<O>, version_ref: VersionRef) {
        self.register(version_ref);
        let key = deltas.key().clone();
        let waiting = Some(Waiting { deltas, version_ref });
        match slot.and_then(|slot| self.entries.get_mut(slot)) {
            // It is added to `order` when its receipt is acknowledged or requeued.
            Some(entry) => entry.waiting = waiting,
            None => {
                self.order.push_back(self.entries.insert(Entry { key, waiting, in_flight: None }));
                self.peak = self.peak.max(self.entries.len());
            }
        }
    }

    /// Queues a version without a delta.
    fn push_version(&mut self, version: Option<ResourceVersion>) {
        match self.pending_versions.last() {
            // Versions that follow each other are combined, so that a slow consumer has one to process, not thousands.
            Some(pending) if self.tracker.is_newest(pending.id) => self.tracker.replace_newest(version),
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

    /// Requeues deltas that were not processed. If newer deltas wait, only the deletes of the requeued ones are kept, before the newer ones.
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
                // The newer deltas replace the older ones, so they refer to the older version.
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

    /// `taken_versions` are the pending versions in all open receipts.
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

impl<O> QueueState for State<O> {
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
