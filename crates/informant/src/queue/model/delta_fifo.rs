//! Compares the queue with a simple model, which has no counters and computes everything from its records.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::scenario::{Cache, Server, Step, steps};
use crate::{
    Cached, Deleted, Key, Origin,
    delta::{Change, Delta},
    queue::{Batch, DeltaFifo, ItemOutcome, KnownObjects},
    random,
};

/// The number of a call that pushed a change.
type CallId = usize;

/// The changes of one object that wait or are in flight, or all versions without a change that wait or are in flight.
#[derive(Debug, Clone, Default)]
struct Group {
    /// Each with the call that pushed it; for combined deletes, the first one.
    deltas: Vec<(CallId, Delta<()>)>,
    /// The calls that are not completely processed because of this group.
    calls: BTreeSet<CallId>,
}

#[derive(Default)]
struct Model {
    line: Vec<Key>,
    waiting: BTreeMap<Key, Group>,
    in_flight: BTreeMap<Key, Group>,
    versions: Group,
    /// Versions without a change that are in flight, by batch.
    taken_versions: BTreeMap<usize, Group>,
    /// The version of each call.
    calls: Vec<Option<u64>>,
    /// The call that was the first list, and the keys of its objects that were not processed yet. The key `None` stands for the list's version.
    first_list: Option<(CallId, BTreeSet<Option<Key>>)>,
    is_populated: bool,
    /// The newest call whose version a batch has carried.
    announced: Option<CallId>,
}

impl Model {
    fn push(&mut self, call: CallId, delta: Delta<()>) {
        let key = delta.key().clone();
        if !self.waiting.contains_key(&key) && !self.in_flight.contains_key(&key) {
            self.line.push(key.clone());
        }
        let group = self.waiting.entry(key).or_default();
        group.calls.insert(call);
        push_delta(&mut group.deltas, (call, delta));
    }

    fn notice(&mut self, call: CallId) {
        self.versions.calls.insert(call);
    }

    fn call(&mut self, version: Option<u64>) -> CallId {
        self.calls.push(version);
        self.calls.len() - 1
    }

    fn newest(&self, key: &Key) -> Option<&Delta<()>> {
        let group = self.waiting.get(key).or_else(|| self.in_flight.get(key))?;
        group.deltas.last().map(|(_, newest)| newest)
    }

    fn object(&self, key: &Key, cache: &Cache) -> Option<Cached<()>> {
        match self.newest(key) {
            Some(newest) => Some(newest.object().clone()).filter(|_| !newest.is_deleted()),
            None => cache.get(key),
        }
    }

    fn apply(&mut self, change: &Change<()>, cache: &Cache) {
        let is_first = !std::mem::replace(&mut self.is_populated, true);
        match change {
            Change::Delta(Delta::Deleted(deleted)) => {
                let call = self.call(Some(number(deleted.object())));
                let waits = self.waiting.contains_key(deleted.key());
                match self.object(deleted.key(), cache).is_some() || waits {
                    true => self.push(call, Delta::Deleted(deleted.clone())),
                    false => self.notice(call),
                }
            }
            Change::Delta(delta) => {
                let call = self.call(Some(number(delta.object())));
                self.push(call, delta.clone());
            }
            Change::DeletedUnread { key, version } => {
                let call = self.call(version.as_ref().map(|version| version.as_str().parse().unwrap()));
                match self.object(key, cache) {
                    Some(last_known) => self.push(call, Delta::Deleted(Deleted::Missed { last_known })),
                    None => self.notice(call),
                }
            }
            Change::Relist(relist) => {
                let call = self.call(Some(relist.version.as_str().parse().unwrap()));
                self.notice(call);
                let keys: BTreeSet<_> = self.waiting.keys().chain(self.in_flight.keys()).cloned().collect();
                let known = cache.objects().into_iter().map(|object| object.key().clone());
                let keys: Vec<_> = keys.iter().cloned().chain(known.filter(|key| !keys.contains(key))).collect();
                let missing: Vec<_> = keys.iter().filter_map(|key| self.object(key, cache)).collect();
                let missing = missing.into_iter().filter(|object| {
                    let is_listed = relist.objects.iter().any(|listed| listed.key() == object.key());
                    let mut kept = relist.quarantined.iter();
                    let is_kept = kept.any(|(key, uid)| key == object.key() && uid == object.uid());
                    !is_listed && !is_kept
                });
                let mut touched = BTreeSet::from([None]);
                for object in &relist.objects {
                    touched.insert(Some(object.key().clone()));
                    self.push(call, Delta::Replaced(object.clone()));
                }
                for last_known in missing.collect::<Vec<_>>() {
                    touched.insert(Some(last_known.key().clone()));
                    self.push(call, Delta::Deleted(Deleted::Missed { last_known }));
                }
                if is_first {
                    self.first_list = Some((call, touched));
                }
            }
            Change::Existing(_) | Change::Bookmark(_) | Change::Resync => {
                unreachable!("the server pushes none of them")
            }
        }
    }

    fn take(&mut self, batch: usize, keys: &[Key]) {
        let notices = std::mem::take(&mut self.versions);
        self.taken_versions.insert(batch, notices);
        for key in keys {
            let group = self.waiting.remove(key).unwrap();
            self.in_flight.insert(key.clone(), group);
            self.line.retain(|other| other != key);
        }
    }

    fn settle(&mut self, batch: usize, keys: &[Key], outcome: ItemOutcome) {
        let notices = self.taken_versions.remove(&batch).unwrap();
        self.attempted(&notices, None);
        if outcome == (ItemOutcome::Requeue { processed: 0 }) {
            self.versions.calls.extend(notices.calls);
        }
        for key in keys {
            let mut group = self.in_flight.remove(key).unwrap();
            self.attempted(&group, Some(key));
            if let ItemOutcome::Requeue { processed } = outcome
                && processed < group.deltas.len()
            {
                group.deltas.drain(..processed);
                if let Some(newer) = self.waiting.remove(key) {
                    group.deltas.retain(|(_, delta)| delta.is_deleted());
                    let mut deltas = Vec::new();
                    group.deltas.into_iter().chain(newer.deltas).for_each(|delta| push_delta(&mut deltas, delta));
                    group = Group { deltas, calls: &group.calls | &newer.calls };
                }
                self.waiting.insert(key.clone(), group);
            }
            if self.waiting.contains_key(key) {
                self.line.push(key.clone());
            }
        }
        if self.is_nothing_in_flight() {
            self.announced = self.announced.min(self.reached(true).map(|(call, _)| call));
        }
    }

    fn attempted(&mut self, group: &Group, key: Option<&Key>) {
        if let Some((call, left)) = &mut self.first_list
            && group.calls.contains(call)
        {
            left.remove(&key.cloned());
        }
    }

    /// Returns true if no change and no version is in flight. A batch that only carries a reached version does not count.
    fn is_nothing_in_flight(&self) -> bool {
        self.in_flight.is_empty() && self.taken_versions.values().all(|notices| notices.calls.is_empty())
    }

    fn is_synced(&self) -> bool {
        self.is_populated && self.first_list.as_ref().is_none_or(|(_, left)| left.is_empty())
    }

    fn is_initial(&self, key: &Key) -> bool {
        let mut calls = self.in_flight[key].deltas.iter().map(|(call, _)| call);
        self.first_list.as_ref().is_some_and(|(first, _)| calls.any(|call| call == first))
    }

    /// Returns the newest version of the calls before the first one that is not completely processed.
    fn reached(&self, counts_flight: bool) -> Option<(CallId, u64)> {
        let mut open: BTreeSet<CallId> = self.waiting.values().flat_map(|group| &group.calls).copied().collect();
        open.extend(&self.versions.calls);
        if counts_flight {
            open.extend(self.in_flight.values().chain(self.taken_versions.values()).flat_map(|group| &group.calls));
        }
        let end = open.first().copied().unwrap_or(self.calls.len());
        (0..end).rev().find_map(|call| Some((call, self.calls[call]?)))
    }
}

fn push_delta(deltas: &mut Vec<(CallId, Delta<()>)>, (call, delta): (CallId, Delta<()>)) {
    match (deltas.last_mut(), &delta) {
        (Some((_, Delta::Deleted(older))), Delta::Deleted(newer)) if older.object().uid() == newer.object().uid() => {
            if let Deleted::Missed { .. } = older {
                *older = newer.clone();
            }
        }
        _ => deltas.push((call, delta)),
    }
}

fn number(object: &Cached<()>) -> u64 {
    object.version().as_str().parse().unwrap()
}

/// Runs queue, model, server and consumer together.
struct Run {
    queue: DeltaFifo<()>,
    model: Model,
    cache: Arc<Cache>,
    server: Server,
    batches: Vec<(usize, Batch<()>)>,
    taken: usize,
    is_closed: bool,
}

impl Run {
    fn new() -> Self {
        let cache = Arc::new(Cache::default());
        let queue = DeltaFifo::builder().known_objects(Arc::clone(&cache) as Arc<dyn KnownObjects<()>>).build();
        let (model, server) = (Model::default(), Server::default());
        Self { queue, model, cache, server, batches: Vec::new(), taken: 0, is_closed: false }
    }

    fn step(&mut self, step: &Step) {
        if let Some(change) = self.server.act(step) {
            self.push(change);
        }
        match step {
            Step::Resync => {
                self.queue.push(Change::Resync);
                let idle: Vec<_> = self.cache.objects();
                let idle: Vec<_> =
                    idle.into_iter().filter(|object| self.model.newest(object.key()).is_none()).collect();
                let call = self.model.call(None);
                idle.into_iter().for_each(|object| self.model.push(call, Delta::Sync(object)));
            }
            Step::Bookmark => {
                self.server.version += 1;
                self.queue.push(Change::Bookmark(self.server.version.to_string().as_str().into()));
                let call = self.model.call(Some(self.server.version));
                self.model.notice(call);
            }
            Step::Pop => self.take(1),
            Step::Drain => self.take(usize::MAX),
            Step::Done(batch) => self.settle(*batch, ItemOutcome::Done),
            Step::Requeue(batch, processed) => self.settle(*batch, ItemOutcome::Requeue { processed: *processed }),
            Step::Close => {
                self.queue.close();
                self.is_closed = true;
            }
            Step::Put(_) | Step::Delete(_) | Step::DeleteUnread(_) | Step::DeleteUnknown(_) | Step::Relist { .. } => {}
        }
        self.check();
    }

    fn push(&mut self, change: Change<()>) {
        self.model.apply(&change, &self.cache);
        let is_relist = matches!(change, Change::Relist(_));
        self.queue.push(change);
        if is_relist {
            self.take_over_order();
        }
    }

    /// Copies the order of the waiting objects from the queue: the order of a relist's deletes is not defined.
    fn take_over_order(&mut self) {
        let in_line = self.queue.waiting_keys();
        let is_permutation = in_line.iter().collect::<BTreeSet<_>>() == self.model.waiting.keys().collect();
        assert!(is_permutation, "{in_line:?} {:?}", self.model.waiting);
        self.model.line.sort_by_key(|key| in_line.iter().position(|other| other == key));
    }

    fn take(&mut self, at_most: usize) {
        let is_alone = self.model.is_nothing_in_flight();
        let is_unannounced = is_alone && self.model.reached(true).map(|(call, _)| call) > self.model.announced;
        let has_news = !self.model.line.is_empty() || !self.model.versions.calls.is_empty() || is_unannounced;
        let batch = if at_most == 1 { self.queue.try_pop() } else { self.queue.try_drain() };
        let Ok(Some(batch)) = batch else {
            assert!(!has_news);
            let is_exhausted = self.is_closed && self.model.waiting.is_empty() && is_alone;
            assert_eq!(batch.is_err(), is_exhausted);
            return;
        };
        assert!(has_news);
        let expected: Vec<_> = self.model.line.iter().take(at_most).cloned().collect();
        self.model.take(self.taken, &expected);
        let keys: Vec<_> = batch.items().iter().map(|taken| taken.key().clone()).collect();
        assert_eq!(keys, expected);
        for taken in batch.items() {
            let expected: Vec<_> = self.model.in_flight[taken.key()].deltas.iter().map(|(_, delta)| delta).collect();
            assert_eq!(format!("{:?}", taken.deltas().iter().collect::<Vec<_>>()), format!("{expected:?}"));
            assert_eq!(taken.origin() == Origin::InitialList, self.model.is_initial(taken.key()));
        }
        let mut in_order: Vec<_> = keys.iter().flat_map(|key| &self.model.in_flight[key].deltas).collect();
        in_order.sort_by_key(|(call, delta)| (*call, !delta.is_deleted()));
        let in_order: Vec<_> = in_order.into_iter().map(|(_, delta)| delta).collect();
        assert_eq!(format!("{:?}", batch.in_arrival_order()), format!("{in_order:?}"));
        let after = self.model.reached(false).filter(|(call, _)| is_alone && Some(*call) > self.model.announced);
        assert_eq!(batch.version().map(ToString::to_string), after.map(|(_, version)| version.to_string()));
        self.model.announced = after.map(|(call, _)| call).max(self.model.announced);
        self.batches.push((self.taken, batch));
        self.taken += 1;
    }

    fn settle(&mut self, batch: usize, outcome: ItemOutcome) {
        if batch >= self.batches.len() {
            return;
        }
        let (id, batch) = self.batches.remove(batch);
        for taken in batch.items() {
            let processed = match outcome {
                ItemOutcome::Done => usize::MAX,
                ItemOutcome::Requeue { processed } => processed,
            };
            taken.deltas().iter().take(processed).for_each(|delta| self.cache.apply(delta));
        }
        let keys: Vec<_> = batch.items().iter().map(|taken| taken.key().clone()).collect();
        self.model.settle(id, &keys, outcome);
        match outcome {
            ItemOutcome::Requeue { processed: 0 } => batch.requeue(),
            ItemOutcome::Requeue { .. } | ItemOutcome::Done => batch.settle(|_| outcome),
        }
    }

    fn check(&self) {
        let in_flight: Vec<_> = self.batches.iter().flat_map(|(_, batch)| batch.change_refs()).collect();
        self.queue.read(|rules| rules.check_invariants(&in_flight));
        assert_eq!(self.queue.is_synced(), self.model.is_synced());
        assert_eq!(self.queue.len(), self.model.line.len());
        let reached = self.model.reached(true).map(|(_, version)| version.to_string());
        assert_eq!(self.queue.reached().map(|version| version.to_string()), reached);
    }

    /// Processes everything that is left, after a last list in which all objects can be decoded, and compares the cache with the server.
    fn finish(&mut self) {
        if let Some(list) = self.server.healing_list() {
            self.push(list.into());
        }
        while !self.batches.is_empty() {
            self.settle(0, ItemOutcome::Done);
            self.check();
        }
        while !self.model.waiting.is_empty() || !self.model.versions.calls.is_empty() {
            self.take(usize::MAX);
            self.settle(0, ItemOutcome::Done);
            self.check();
        }
        let server: Vec<_> = self.server.objects.values().map(|object| format!("{object:?}")).collect();
        let cache: Vec<_> = self.cache.objects().iter().map(|object| format!("{object:?}")).collect();
        assert_eq!(cache, server, "P1");
        let reached = self.queue.reached().map(|version| version.to_string());
        assert_eq!(reached.unwrap_or_else(|| "0".to_owned()), self.server.version.to_string());
    }
}

// P1, P2, P5
#[test]
fn the_queue_agrees_with_its_model_and_the_cache_with_the_server() {
    random::check(2000, steps(), |steps| {
        let mut run = Run::new();
        steps.iter().for_each(|step| run.step(step));
        run.finish();
    });
}
