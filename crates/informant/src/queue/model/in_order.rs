//! Compares a queue in the server's order with a simple model: a log of all deltas and versions, and their progress.

use std::{collections::BTreeSet, num::NonZeroUsize, ops::Range, sync::Arc};

use super::scenario::{Cache, Server, Step, steps};
use crate::{
    Cached, Deleted, Key, Origin, ResourceVersion,
    delta::{Change, Delta, Relist},
    queue::{Batch, ItemOutcome, KnownObjects, Queue},
    random,
};

/// A delta or a version that was pushed, and its progress.
struct Pushed {
    /// `None` for a version without a delta.
    delta: Option<Delta<()>>,
    version: Option<u64>,
    /// The relist or resync that it is part of.
    group: Option<usize>,
    progress: Progress,
    was_attempted: bool,
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
    /// The part of the log that the first change pushed, if that was a list; empty if it was another one.
    initial: Option<Range<usize>>,
    groups: usize,
}

const BATCH_SIZE: usize = 3;

impl Model {
    fn push(&mut self, delta: Option<Delta<()>>, version: Option<u64>, group: Option<usize>) {
        self.log.push(Pushed { delta, version, group, progress: Progress::Waiting, was_attempted: false });
    }

    fn open(&self) -> impl Iterator<Item = &Delta<()>> {
        let open = self.log.iter().filter(|pushed| pushed.progress != Progress::Done);
        open.filter_map(|pushed| pushed.delta.as_ref())
    }

    fn newest(&self, key: &Key) -> Option<&Delta<()>> {
        self.open().filter(|delta| delta.key() == key).last()
    }

    fn object(&self, key: &Key, cache: &Cache) -> Option<Cached<()>> {
        match self.newest(key) {
            Some(newest) => Some(newest.object().clone()).filter(|_| !newest.is_deleted()),
            None => cache.get(key),
        }
    }

    fn apply(&mut self, change: &Change<()>, cache: &Cache) {
        let start = self.log.len();
        match change {
            Change::Delta(delta) => self.push(Some(delta.clone()), delta.version().map(number), None),
            Change::DeletedUnread { key, version } => {
                let last_known = self.object(key, cache);
                let delta = last_known.map(|last_known| Delta::Deleted(Deleted::Missed { last_known }));
                self.push(delta, version.as_ref().map(number), None);
            }
            Change::Relist(relist) => {
                self.replace(relist, cache);
                let end = self.log.len();
                self.initial.get_or_insert(start..end);
            }
            Change::Existing(_) | Change::Bookmark(_) | Change::Resync => {
                unreachable!("the server pushes none of them")
            }
        }
        self.initial.get_or_insert(0..0);
    }

    fn replace(&mut self, relist: &Relist<()>, cache: &Cache) {
        let mut keys: Vec<Key> = Vec::new();
        let queued = self.open().map(|delta| delta.key().clone());
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
        let deletes: Vec<_> = missing.map(|last_known| Delta::Deleted(Deleted::Missed { last_known })).collect();
        let listed = relist.objects.iter().map(|object| Delta::Replaced(object.clone()));
        self.push_group(deletes.into_iter().chain(listed));
        self.push(None, Some(number(&relist.version)), None);
    }

    fn push_group(&mut self, deltas: impl Iterator<Item = Delta<()>>) {
        self.groups += 1;
        let group = Some(self.groups);
        deltas.for_each(|delta| self.push(Some(delta), None, group));
    }

    fn is_synced(&self) -> bool {
        self.initial.clone().is_some_and(|initial| self.log[initial].iter().all(|pushed| pushed.was_attempted))
    }

    /// Returns the positions of the waiting deltas.
    fn waiting(&self) -> impl Iterator<Item = usize> {
        let is_waiting = |pushed: &Pushed| pushed.progress == Progress::Waiting && pushed.delta.is_some();
        self.log.iter().enumerate().filter(move |(_, pushed)| is_waiting(pushed)).map(|(position, _)| position)
    }

    /// Returns the positions of the deltas of the next batch.
    fn batch(&self, at_most: usize) -> Vec<usize> {
        let mut batch: Vec<usize> = Vec::new();
        let mut keys = BTreeSet::new();
        for position in self.waiting() {
            let pushed = &self.log[position];
            let key = pushed.delta.as_ref().unwrap().key();
            let fits = batch.first().is_none_or(|&first| match self.log[first].group {
                Some(group) => at_most > 1 && pushed.group == Some(group),
                None => batch.len() < at_most && pushed.group.is_none(),
            });
            if !fits || !keys.insert(key) {
                break;
            }
            batch.push(position);
        }
        batch
    }

    /// Returns the positions of the versions without a delta that are taken with a batch: those before all deltas that still wait.
    fn versions_beside(&self, batch: &[usize]) -> Vec<usize> {
        let end = self.waiting().find(|position| !batch.contains(position)).unwrap_or(self.log.len());
        let is_taken = |pushed: &Pushed| pushed.progress == Progress::Waiting && pushed.delta.is_none();
        (0..end).filter(|&position| is_taken(&self.log[position])).collect()
    }

    /// Returns the newest version up to which all changes are acknowledged.
    fn reached(&self) -> Option<u64> {
        let open = self.log.iter().position(|pushed| pushed.progress != Progress::Done).unwrap_or(self.log.len());
        self.log[..open].iter().rev().find_map(|pushed| pushed.version)
    }
}

fn number(version: &ResourceVersion) -> u64 {
    version.as_str().parse().unwrap()
}

struct Run {
    queue: Queue<()>,
    model: Model,
    cache: Arc<Cache>,
    server: Server,
    /// The batch in flight, and the positions in the log of its deltas and of its versions.
    batch: Option<(Batch<()>, Vec<usize>, Vec<usize>)>,
    is_closed: bool,
}

impl Run {
    fn new() -> Self {
        let cache = Arc::new(Cache::default());
        let known = Arc::clone(&cache) as Arc<dyn KnownObjects<()>>;
        let queue = Queue::builder().batch_size(NonZeroUsize::new(BATCH_SIZE).unwrap()).known_objects(known).build();
        let (model, server) = (Model::default(), Server::default());
        Self { queue, model, cache, server, batch: None, is_closed: false }
    }

    fn step(&mut self, step: &Step) {
        if let Some(change) = self.server.act(step) {
            self.push(change);
        }
        match step {
            Step::Resync => {
                self.queue.push(Change::Resync);
                let mut idle = self.cache.objects();
                idle.retain(|object| self.model.newest(object.key()).is_none());
                self.model.push_group(idle.into_iter().map(Delta::Sync));
            }
            Step::Bookmark => {
                self.server.version += 1;
                self.queue.push(Change::Bookmark(self.server.version.to_string().as_str().into()));
                self.model.push(None, Some(self.server.version), None);
            }
            Step::Pop => self.take(1),
            Step::Drain => self.take(BATCH_SIZE),
            Step::Done(_) => self.settle(|_| ItemOutcome::Done),
            Step::Requeue(2, _) => self.requeue(),
            // Every second item, so that acknowledged items are before and after the requeued ones.
            Step::Requeue(which, _) => self.settle(|position| match position % 2 == which % 2 {
                true => ItemOutcome::Requeue { processed: 0 },
                false => ItemOutcome::Done,
            }),
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
        self.queue.push(change);
    }

    fn take(&mut self, at_most: usize) {
        let batch = if at_most == 1 { self.queue.try_pop() } else { self.queue.try_drain() };
        let deltas = self.model.batch(at_most);
        let versions = self.model.versions_beside(&deltas);
        let Ok(Some(batch)) = batch else {
            assert!(self.batch.is_some() || (deltas.is_empty() && versions.is_empty()));
            let is_exhausted = self.is_closed && deltas.is_empty() && versions.is_empty() && self.batch.is_none();
            assert_eq!(batch.is_err(), is_exhausted);
            return;
        };
        assert!(self.batch.is_none(), "one batch is in flight at a time");
        let shown: Vec<_> = batch.items().iter().map(|item| format!("{:?}", item.deltas().newest())).collect();
        let expected: Vec<_> =
            deltas.iter().map(|&position| self.model.log[position].delta.as_ref().unwrap()).collect();
        assert_eq!(shown, expected.iter().map(|delta| format!("{delta:?}")).collect::<Vec<_>>());
        for (item, &position) in batch.items().iter().zip(&deltas) {
            let is_initial = self.model.initial.as_ref().is_some_and(|initial| initial.contains(&position));
            assert_eq!(item.origin() == Origin::InitialList, is_initial);
        }
        let before = self.model.reached();
        let taken = || deltas.iter().chain(&versions);
        taken().for_each(|&position| self.model.log[position].progress = Progress::Done);
        let after = self.model.reached().filter(|_| self.model.reached() != before);
        assert_eq!(batch.version().map(number), after);
        taken().for_each(|&position| self.model.log[position].progress = Progress::InFlight);
        self.batch = Some((batch, deltas, versions));
    }

    /// Settles each item by itself; the versions without a delta are acknowledged.
    fn settle(&mut self, outcome: impl Fn(usize) -> ItemOutcome) {
        let Some((batch, deltas, versions)) = self.batch.take() else { return };
        let announced = batch.version().map(number);
        for (place, position) in deltas.into_iter().enumerate() {
            let progress = match outcome(place) {
                ItemOutcome::Done => {
                    self.cache.apply(batch.items()[place].deltas().newest());
                    Progress::Done
                }
                ItemOutcome::Requeue { .. } => Progress::Waiting,
            };
            self.model.end_flight(position, progress);
        }
        versions.into_iter().for_each(|position| self.model.end_flight(position, Progress::Done));
        let outcomes: Vec<_> = (0..batch.items().len()).map(outcome).collect();
        let mut next = outcomes.iter();
        batch.settle(|_| *next.next().unwrap());
        if let (true, Some(version)) = (outcomes.iter().all(|outcome| *outcome == ItemOutcome::Done), announced) {
            assert_eq!(self.queue.reached().as_ref().map(number), Some(version));
        }
    }

    /// Requeues the whole batch, by dropping it.
    fn requeue(&mut self) {
        let Some((batch, deltas, versions)) = self.batch.take() else { return };
        deltas.into_iter().chain(versions).for_each(|position| self.model.end_flight(position, Progress::Waiting));
        drop(batch);
    }

    fn check(&self) {
        let in_flight: Vec<_> = self.batch.iter().flat_map(|(batch, ..)| batch.version_refs()).collect();
        self.queue.read(|rules| rules.check_invariants(&in_flight));
        assert_eq!(self.queue.len(), self.model.waiting().count());
        assert_eq!(self.queue.is_synced(), self.model.is_synced());
        assert_eq!(self.queue.reached().as_ref().map(number), self.model.reached());
    }

    fn finish(&mut self) {
        if let Some(list) = self.server.healing_list() {
            self.push(list.into());
        }
        self.settle(|_| ItemOutcome::Done);
        while self.model.log.iter().any(|pushed| pushed.progress != Progress::Done) {
            self.take(BATCH_SIZE);
            self.settle(|_| ItemOutcome::Done);
            self.check();
        }
        let server: Vec<_> = self.server.objects.values().map(|object| format!("{object:?}")).collect();
        let cache: Vec<_> = self.cache.objects().iter().map(|object| format!("{object:?}")).collect();
        assert_eq!(cache, server, "P1");
        let reached = self.queue.reached().map(|version| version.to_string());
        assert_eq!(reached.unwrap_or_else(|| "0".to_owned()), self.server.version.to_string());
    }
}

impl Model {
    fn end_flight(&mut self, position: usize, progress: Progress) {
        let pushed = &mut self.log[position];
        (pushed.was_attempted, pushed.progress) = (true, progress);
    }
}

// P1, P2, P5
#[test]
fn the_in_order_queue_agrees_with_its_model_and_the_cache_with_the_server() {
    random::check(2000, steps(), |steps| {
        let mut run = Run::new();
        steps.iter().for_each(|step| run.step(step));
        run.finish();
    });
}
