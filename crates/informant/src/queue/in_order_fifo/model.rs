//! Compares the in-order queue with a simple model: a log of all changes and their progress.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    super::scenario::{Cache, Push, Server, Step, steps},
    *,
};
use crate::random;

/// A change that was pushed, and its progress.
struct Pushed {
    shown: String,
    key: Option<Key>,
    version: Option<u64>,
    progress: Progress,
    was_attempted: bool,
    /// The delta, if the change is of one object.
    delta: Option<Delta<()>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    Waiting,
    InFlight,
    Done,
}

#[derive(Default)]
struct Model {
    /// Everything that was ever pushed, in order.
    log: Vec<Pushed>,
    /// The length of the log after the first change, if that was a list; 0 if it was another one.
    initial: Option<usize>,
}

const BATCH_SIZE: usize = 3;

impl Model {
    fn push(&mut self, change: &QueuedChange<()>, version: Option<u64>) {
        let (progress, was_attempted) = (Progress::Waiting, false);
        let (shown, key) = (format!("{change:?}"), change.key().cloned());
        self.log.push(Pushed { shown, key, version, progress, was_attempted, delta: change.delta().cloned() });
    }

    fn push_delta(&mut self, delta: Delta<()>) {
        self.initial.get_or_insert(0);
        let version = delta.version().map(|version| version.as_str().parse().unwrap());
        self.push(&QueuedChange::One(delta), version);
    }

    fn open(&self) -> impl Iterator<Item = &Pushed> {
        self.log.iter().filter(|pushed| pushed.progress != Progress::Done)
    }

    fn newest(&self, key: &Key) -> Option<&Delta<()>> {
        self.open().filter_map(|pushed| pushed.delta.as_ref()).filter(|delta| delta.key() == key).last()
    }

    fn object(&self, key: &Key, cache: &Cache) -> Option<Cached<()>> {
        match self.newest(key) {
            Some(newest) => Some(newest.object().clone()).filter(|_| !newest.is_deleted()),
            None => cache.get(key),
        }
    }

    fn apply(&mut self, push: &Push, cache: &Cache, is_atomic: bool) {
        match push {
            Push::Add(object) => self.push_delta(Delta::Added(object.clone())),
            Push::Update(object) => self.push_delta(Delta::Updated(object.clone())),
            Push::Delete(deleted) => self.push_delta(Delta::Deleted(deleted.clone())),
            Push::DeleteUnread(key, version) => {
                self.initial.get_or_insert(0);
                let change = match self.object(key, cache) {
                    _ if is_atomic => QueuedChange::Lost(key.clone()),
                    Some(last_known) => QueuedChange::One(Delta::Deleted(Deleted::Missed { last_known })),
                    None => QueuedChange::Bookmark(version.to_string().as_str().into()),
                };
                self.push(&change, Some(*version));
            }
            Push::Replace(relist) => {
                let version = Some(relist.version.as_str().parse().unwrap());
                match is_atomic {
                    true => {
                        let Relist { version, objects, quarantined, history_changed } = relist;
                        let (objects, quarantined) = (objects.clone(), quarantined.clone());
                        let (version, history_changed) = (version.clone(), *history_changed);
                        let copy = Relist { version: version.clone(), objects, quarantined, history_changed };
                        self.push(&QueuedChange::ReplacedAll(copy), version.as_str().parse().ok());
                    }
                    false => self.replace_each(relist, version, cache),
                }
                let end = self.log.len();
                self.initial.get_or_insert(end);
            }
        }
    }

    fn replace_each(&mut self, relist: &Relist<()>, version: Option<u64>, cache: &Cache) {
        let mut keys: Vec<Key> = Vec::new();
        let queued = self.open().filter_map(|pushed| pushed.delta.as_ref()).map(|delta| delta.key().clone());
        for key in queued.chain(cache.objects().into_iter().map(|object| object.key().clone())) {
            if !keys.contains(&key) {
                keys.push(key);
            }
        }
        let missing = keys.iter().filter_map(|key| self.object(key, cache)).filter(|object| {
            let is_listed = relist.objects.iter().any(|listed| listed.key() == object.key());
            let is_kept = relist.quarantined.iter().any(|(key, uid)| key == object.key() && uid == object.uid());
            !is_listed && !is_kept
        });
        let deletes = missing.map(|last_known| Delta::Deleted(Deleted::Missed { last_known })).collect::<Vec<_>>();
        let listed = relist.objects.iter().map(|object| Delta::Replaced(object.clone()));
        let deltas: Vec<_> = deletes.into_iter().chain(listed).collect();
        match deltas.is_empty() {
            true => self.push(&QueuedChange::Bookmark(relist.version.clone()), version),
            false => {
                deltas.into_iter().for_each(|delta| self.push(&QueuedChange::One(delta), None));
                self.log.last_mut().unwrap().version = version;
            }
        }
    }

    fn is_synced(&self) -> bool {
        self.initial.is_some_and(|end| self.log[..end].iter().all(|pushed| pushed.was_attempted))
    }

    /// Returns the positions of the changes of the next batch.
    fn batch(&self, at_most: usize) -> Vec<usize> {
        let waiting = self.log.iter().enumerate().filter(|(_, pushed)| pushed.progress == Progress::Waiting);
        let mut batch: Vec<usize> = Vec::new();
        let mut keys = BTreeSet::new();
        for (position, pushed) in waiting {
            let is_initial = |position: usize| self.initial.is_some_and(|end| position < end);
            let fits = batch.first().is_none_or(|&first| {
                let is_another_key = pushed.key.as_ref().is_some_and(|key| !keys.contains(key));
                let first_is_of_one = self.log[first].key.is_some();
                is_initial(first) == is_initial(position) && is_another_key && first_is_of_one
            });
            if !fits || batch.len() == at_most {
                break;
            }
            keys.extend(pushed.key.clone());
            batch.push(position);
        }
        batch
    }

    /// Returns the newest version up to which all changes are acknowledged.
    fn reached(&self) -> Option<u64> {
        let open = self.log.iter().position(|pushed| pushed.progress != Progress::Done).unwrap_or(self.log.len());
        self.log[..open].iter().rev().find_map(|pushed| pushed.version)
    }
}

struct Run {
    fifo: InOrderFifo<()>,
    model: Model,
    cache: Arc<Cache>,
    server: Server,
    receipt: Option<(Receipt<InOrderFifo<()>>, Vec<usize>)>,
    is_atomic: bool,
    is_closed: bool,
}

impl Run {
    fn new(is_atomic: bool) -> Self {
        let cache = Arc::new(Cache::default());
        let builder = InOrderFifo::builder().batch_size(NonZeroUsize::new(BATCH_SIZE).unwrap());
        let fifo = match is_atomic {
            true => builder.build(),
            false => builder.known_objects(Arc::clone(&cache) as Arc<dyn KnownObjects<()>>).build(),
        };
        let (model, server) = (Model::default(), Server::default());
        Self { fifo, model, cache, server, receipt: None, is_atomic, is_closed: false }
    }

    fn step(&mut self, step: &Step) {
        if let Some(push) = self.server.act(step) {
            self.push(push);
        }
        match step {
            Step::Resync => {
                self.fifo.resync();
                match self.is_atomic {
                    true => self.model.push(&QueuedChange::SyncAll, None),
                    false => {
                        let mut idle = self.cache.objects();
                        idle.retain(|object| self.model.newest(object.key()).is_none());
                        idle.into_iter()
                            .for_each(|object| self.model.push(&QueuedChange::One(Delta::Sync(object)), None));
                    }
                }
            }
            Step::Bookmark => {
                self.server.version += 1;
                let version = ResourceVersion::new(self.server.version.to_string());
                self.fifo.bookmark(version.clone());
                self.model.push(&QueuedChange::Bookmark(version), Some(self.server.version));
            }
            Step::Pop => self.take(1),
            Step::Drain => self.take(BATCH_SIZE),
            Step::Done(_) => self.settle(|_| ItemOutcome::Done),
            // Every second item, so that acknowledged items are before and after the requeued ones.
            Step::Requeue(which, _) => self.settle(|position| match position % 2 == which % 2 {
                true => ItemOutcome::Requeue { processed: 0 },
                false => ItemOutcome::Done,
            }),
            Step::Close => {
                self.fifo.close();
                self.is_closed = true;
            }
            Step::AddIfNotPresent(_) => {}
            Step::Put(_) | Step::Delete(_) | Step::DeleteUnread(_) | Step::DeleteUnknown(_) | Step::Relist { .. } => {}
        }
        self.check();
    }

    fn push(&mut self, push: Push) {
        self.model.apply(&push, &self.cache, self.is_atomic);
        match push {
            Push::Add(object) => self.fifo.add(object),
            Push::Update(object) => self.fifo.update(object),
            Push::Delete(deleted) => self.fifo.delete(deleted),
            Push::DeleteUnread(key, version) => {
                self.fifo.delete_unread(&key, Some(version.to_string().as_str().into()));
            }
            Push::Replace(relist) => self.fifo.replace(relist),
        }
    }

    fn take(&mut self, at_most: usize) {
        let receipt = if at_most == 1 { self.fifo.try_pop() } else { self.fifo.try_drain() };
        let batch = if self.receipt.is_some() { Vec::new() } else { self.model.batch(at_most) };
        let Ok(Some(receipt)) = receipt else {
            assert!(batch.is_empty());
            let is_exhausted = self.is_closed && self.fifo.is_empty() && self.receipt.is_none();
            assert_eq!(receipt.is_err(), is_exhausted);
            return;
        };
        let shown: Vec<_> = receipt.items().iter().map(|taken| format!("{:?}", taken.change())).collect();
        let expected: Vec<_> = batch.iter().map(|&position| self.model.log[position].shown.clone()).collect();
        assert_eq!(shown, expected);
        for (taken, &position) in receipt.items().iter().zip(&batch) {
            let is_initial = self.model.initial.is_some_and(|end| position < end);
            assert_eq!(taken.origin() == Origin::InitialList, is_initial);
        }
        let before = self.model.reached();
        batch.iter().for_each(|&position| self.model.log[position].progress = Progress::Done);
        let after = self.model.reached().filter(|_| self.model.reached() != before);
        assert_eq!(receipt.version().map(ToString::to_string), after.map(|version| version.to_string()));
        batch.iter().for_each(|&position| self.model.log[position].progress = Progress::InFlight);
        self.receipt = Some((receipt, batch));
    }

    fn settle(&mut self, outcome: impl Fn(usize) -> ItemOutcome) {
        let Some((receipt, batch)) = self.receipt.take() else { return };
        let announced = receipt.version().map(|version| version.as_str().parse::<u64>().unwrap());
        let mut outcomes = BTreeMap::new();
        for (place, (taken, position)) in receipt.items().iter().zip(batch).enumerate() {
            let progress = match outcome(place) {
                ItemOutcome::Done => {
                    self.process(taken.change());
                    Progress::Done
                }
                ItemOutcome::Requeue { .. } => Progress::Waiting,
            };
            let pushed = &mut self.model.log[position];
            (pushed.was_attempted, pushed.progress) = (true, progress);
            outcomes.insert(taken.item.number, outcome(place));
        }
        let is_all_done = outcomes.values().all(|outcome| *outcome == ItemOutcome::Done);
        receipt.settle(|taken| outcomes[&taken.item.number]);
        if let (true, Some(version)) = (is_all_done, announced) {
            assert_eq!(self.fifo.reached().map(|version| version.to_string()), Some(version.to_string()));
        }
    }

    fn process(&self, change: &QueuedChange<()>) {
        match change {
            QueuedChange::One(delta) => self.cache.apply(delta),
            QueuedChange::Lost(key) => self.cache.remove(key),
            QueuedChange::ReplacedAll(relist) => self.cache.replace(relist),
            QueuedChange::SyncAll | QueuedChange::Bookmark(_) => {}
        }
    }

    fn check(&self) {
        self.fifo.shared.state.with(|state| state.check_invariants());
        let waiting = self.model.log.iter().filter(|pushed| pushed.progress == Progress::Waiting).count();
        assert_eq!(self.fifo.len(), waiting);
        assert_eq!(self.fifo.is_synced(), self.model.is_synced());
        let reached = self.fifo.reached().map(|version| version.as_str().parse().unwrap());
        assert_eq!(reached, self.model.reached());
    }

    fn finish(&mut self) {
        if let Some(list) = self.server.healing_list() {
            self.push(Push::Replace(list));
        }
        self.settle(|_| ItemOutcome::Done);
        while !self.fifo.is_empty() {
            self.take(BATCH_SIZE);
            self.settle(|_| ItemOutcome::Done);
            self.check();
        }
        let server: Vec<_> = self.server.objects.values().map(|object| format!("{object:?}")).collect();
        let cache: Vec<_> = self.cache.objects().iter().map(|object| format!("{object:?}")).collect();
        assert_eq!(cache, server, "P1");
        let reached = self.fifo.reached().map(|version| version.to_string());
        assert_eq!(reached.unwrap_or_else(|| "0".to_owned()), self.server.version.to_string());
    }
}

fn check(is_atomic: bool) {
    random::check(2000, steps(), |steps| {
        let mut run = Run::new(is_atomic);
        steps.iter().for_each(|step| run.step(step));
        run.finish();
    });
}

// P1, P2, P5
#[test]
fn the_in_order_queue_agrees_with_its_model_and_the_cache_with_the_server() {
    check(true);
}

// P1, P2, P5
#[test]
fn the_in_order_queue_with_known_objects_agrees_with_its_model_and_the_cache_with_the_server() {
    check(false);
}
