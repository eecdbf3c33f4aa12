//! Derived maps in the histories: one whose keys objects share, one whose function reads objects of the same informer, and one whose function reads
//! those of another informer, with a server and faults of its own.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use informant::{
    Cached, Event, Key, ResourceVersion, SharedInformer,
    derived::{Change, DerivedMap},
};
use tokio::task::JoinHandle;

use super::{
    troubles::Trouble,
    world::{Setting, World, converges},
};
use crate::{
    reflector::soak::Texted,
    support::{key, reflector::sleep_seconds},
};

/// What readers see of a map.
type Entries = BTreeMap<String, u32>;

/// The maps of one informer, and what is expected of them.
pub(super) struct DerivedMaps<O: Texted> {
    informer: SharedInformer<O>,
    shared_keys: DerivedMap<String, u32>,
    other: World<O>,
    joins: [Join<O>; 2],
    model: Arc<Mutex<Model>>,
    /// What a reader saw whenever the map changed.
    seen: Arc<Mutex<Vec<Entries>>>,
    /// The entries to which the changes add up, and what was wrong with a change.
    followed: Arc<Mutex<(Entries, Vec<String>)>>,
    tasks: Vec<JoinHandle<()>>,
}

/// A map of the objects of one informer, with their numbers and the objects of another or the same informer that select them.
struct Join<O> {
    read: SharedInformer<O>,
    map: DerivedMap<Key, (u32, BTreeSet<String>)>,
    /// The number of batches of both informers that changed any object.
    batches: Arc<AtomicU64>,
}

/// The number in the text of an object.
fn number<O: Texted>(object: &Cached<O>) -> u32 {
    object.text().rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or_default()
}

/// Up to two keys of five, which several objects have.
fn pairs(number: u32) -> BTreeMap<String, u32> {
    let keys = [(!number.is_multiple_of(7)).then_some(number % 5), number.is_multiple_of(3).then_some(number / 5 % 5)];
    keys.into_iter().flatten().map(|key| (format!("k{key}"), number / 64 % 3)).collect()
}

/// The object that another one selects.
fn selected_by(number: u32) -> Key {
    key(&format!("shop/c{}", number % 8))
}

/// The names of the objects that select this one.
fn selectors<O: Texted>(objects: &[Cached<O>], selected: &Key) -> BTreeSet<String> {
    let selecting = objects.iter().filter(|object| selected_by(number(object)) == *selected);
    selecting.map(|object| object.key().to_string()).collect()
}

/// The holders of each key, computed event by event.
#[derive(Default)]
struct Model {
    /// In the order in which the objects took the key; those of the current batch have a version.
    holders: BTreeMap<String, Vec<(Key, u32, Option<ResourceVersion>)>>,
    is_synced: bool,
    /// The entries after each batch that changed them, beginning with none.
    history: Vec<Entries>,
}

impl Model {
    fn receive<O: Texted>(&mut self, batch: &[Event<O>]) {
        for event in batch {
            match event {
                Event::Added { object, .. } | Event::Updated { new: object, .. } => {
                    self.set(object.key(), object.version(), &pairs(number(object)));
                }
                Event::Deleted(deleted) => self.set(deleted.key(), deleted.version(), &BTreeMap::new()),
                Event::Resynced(_) => {}
                Event::Synced => self.is_synced = true,
            }
        }
        for holders in self.holders.values_mut() {
            let begin = holders.iter().position(|(_, _, version)| version.is_some()).unwrap_or(holders.len());
            holders[begin..].sort_by_key(|(_, _, version)| version.as_ref().unwrap().as_str().parse::<u64>().unwrap());
            holders.iter_mut().for_each(|(_, _, version)| *version = None);
        }
        self.holders.retain(|_, holders| !holders.is_empty());
        let now: Entries = match self.is_synced {
            true => self.holders.iter().map(|(key, holders)| (key.clone(), holders.last().unwrap().1)).collect(),
            false => Entries::new(),
        };
        if self.history.last() != Some(&now) {
            self.history.push(now);
        }
    }

    fn set(&mut self, owner: &Key, version: &ResourceVersion, pairs: &BTreeMap<String, u32>) {
        for (key, holders) in &mut self.holders {
            match (pairs.get(key), holders.iter_mut().find(|(holder, _, _)| holder == owner)) {
                (Some(value), Some(held)) => held.1 = *value,
                (None, _) => holders.retain(|(holder, _, _)| holder != owner),
                (Some(_), None) => {}
            }
        }
        for (key, value) in pairs {
            let holders = self.holders.entry(key.clone()).or_default();
            if holders.iter().all(|(holder, _, _)| holder != owner) {
                holders.push((owner.clone(), *value, Some(version.clone())));
            }
        }
    }
}

/// Counts the batches that change any object.
fn count<O: Texted>(informer: &SharedInformer<O>, batches: &Arc<AtomicU64>) {
    let batches = Arc::clone(batches);
    let count = move |batch: &[Event<O>]| {
        let is_change = |event: &Event<O>| !matches!(event, Event::Resynced(_) | Event::Synced);
        batches.fetch_add(u64::from(batch.iter().any(is_change)), Ordering::Relaxed);
    };
    informer.subscribe().on_batch(count).register().unwrap();
}

impl<O: Texted> Join<O> {
    fn register(informer: &SharedInformer<O>, read: &SharedInformer<O>, batches: Arc<AtomicU64>) -> Self {
        let lister = read.lister();
        let map = informer
            .derive(move |object| [(object.key().clone(), (number(object), selectors(&lister.list(), object.key())))])
            .with(read, |object| [selected_by(number(object))])
            .register()
            .unwrap();
        Self { read: read.clone(), map, batches }
    }

    /// Returns what is wrong with the map.
    async fn check(&self, objects: &[Cached<O>]) -> Vec<String> {
        self.map.caught_up().await.unwrap();
        let (mut wrong, read, all) = (Vec::new(), self.read.lister().list(), self.map.snapshot());
        let pair = |object: &Cached<O>| (object.key().clone(), (number(object), selectors(&read, object.key())));
        let expected: BTreeMap<_, _> = objects.iter().map(pair).collect();
        let found: BTreeMap<_, _> = all.iter().map(|(key, value)| (key.clone(), (**value).clone())).collect();
        if expected != found {
            wrong.push(format!("D1, join: {found:?} is not {expected:?}"));
        }
        let batches = self.batches.load(Ordering::Relaxed);
        if all.generation() > batches {
            wrong.push(format!("D4, join: {batches} batches made {} changes", all.generation()));
        }
        wrong
    }
}

impl<O: Texted> DerivedMaps<O> {
    /// Registers the maps. The informer must not have started.
    pub(super) fn register(informer: &SharedInformer<O>, setting: Setting, random: &mut fastrand::Rng) -> Self {
        let model = Arc::new(Mutex::new(Model { history: vec![Entries::new()], ..Model::default() }));
        let recorded = Arc::clone(&model);
        informer.subscribe().on_batch(move |batch| recorded.lock().unwrap().receive(batch)).register().unwrap();

        let shared_keys = informer.derive(|object| pairs(number(object))).named("shared keys").register().unwrap();
        let other = World::<O>::new(setting, random);
        let [of_one, of_both] = [(); 2].map(|()| Arc::new(AtomicU64::new(0)));
        for (counted, batches) in [(informer, &of_one), (informer, &of_both), (&other.informer, &of_both)] {
            count(counted, batches);
        }
        let joins = [Join::register(informer, informer, of_one), Join::register(informer, &other.informer, of_both)];
        other.informer.start();

        let seen = Arc::new(Mutex::new(Vec::new()));
        let (recorded, map) = (Arc::clone(&seen), shared_keys.clone());
        let mut wake_ups = map.watch();
        let reader = tokio::spawn(async move {
            while wake_ups.changed().await {
                recorded.lock().unwrap().push(entries(&map));
            }
        });
        let followed = Arc::new(Mutex::new((Entries::new(), Vec::new())));
        let period = Duration::from_secs([0, 0, 40][random.usize(0..3)]);
        let mut changes = shared_keys.stream().at_most_every(period);
        let (recorded, mut random) = (Arc::clone(&followed), random.fork());
        let follower = tokio::spawn(async move {
            while let Some(change) = changes.next().await {
                apply(&mut recorded.lock().unwrap(), change);
                if random.u32(0..4) == 0 {
                    sleep_seconds(random.f64() * 30.0).await;
                }
            }
        });
        let tasks = vec![reader, follower];
        Self { informer: informer.clone(), shared_keys, other, joins, model, seen, followed, tasks }
    }

    /// Changes the objects of the other informer, perhaps with a trouble of its own.
    pub(super) async fn change_others(&mut self, random: &mut fastrand::Rng) {
        if random.u32(0..4) == 0 && !self.other.is_quiet {
            self.other.strike(Trouble::any(random), random).await;
        }
        if !self.other.is_quiet {
            self.other.change(random);
        }
    }

    /// Stops the maps after the informer is quiet. Returns what is wrong with them.
    pub(super) async fn check(self) -> Vec<String> {
        let mut wrong = Vec::new();
        self.other.server.clear_faults();
        if !converges(&self.other.informer, &self.other.server).await {
            wrong.push("P1: the other informer does not have the objects of its server".to_owned());
        }
        self.shared_keys.caught_up().await.unwrap();
        // The stream may pause.
        sleep_seconds(100.0).await;
        let objects = self.informer.lister().list();
        let mut expected: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for (key, value) in objects.iter().flat_map(|object| pairs(number(object))) {
            expected.entry(key).or_default().push(value);
        }
        let all = self.shared_keys.snapshot();
        let mut found: BTreeMap<_, Vec<u32>> =
            all.iter().map(|(key, _)| (key.clone(), all.get_all(key).iter().map(|value| **value).collect())).collect();
        expected.values_mut().chain(found.values_mut()).for_each(|values| values.sort_unstable());
        if expected != found {
            wrong.push(format!("D1: {found:?} is not {expected:?}"));
        }
        for join in &self.joins {
            wrong.extend(join.check(&objects).await);
        }

        let model = std::mem::take(&mut *self.model.lock().unwrap());
        let last = entries(&self.shared_keys);
        if Some(&last) != model.history.last() {
            wrong.push(format!("D1: {last:?} is not {:?}", model.history.last()));
        }
        if all.generation() != model.history.len() as u64 - 1 {
            wrong.push(format!("D3: {} changes instead of {}", all.generation(), model.history.len() - 1));
        }
        let mut states = model.history.iter();
        for seen in &*self.seen.lock().unwrap() {
            if !states.any(|state| state == seen) {
                wrong.push(format!("D4: {seen:?} was seen, and is no state after a batch: {:?}", model.history));
            }
        }
        let (followed, violations) = std::mem::take(&mut *self.followed.lock().unwrap());
        wrong.extend(violations);
        if followed != last {
            wrong.push(format!("the changes add up to {followed:?} instead of {last:?}"));
        }
        self.shared_keys.stop().await.unwrap();
        for join in &self.joins {
            join.map.stop().await.unwrap();
        }
        self.other.informer.stop().await.unwrap();
        for wait in self.other.waits {
            wrong.extend(wait.await.unwrap());
        }
        for task in self.tasks {
            task.await.unwrap();
        }
        wrong
    }
}

fn entries(map: &DerivedMap<String, u32>) -> Entries {
    map.snapshot().iter().map(|(key, value)| (key.clone(), **value)).collect()
}

fn apply((known, wrong): &mut (Entries, Vec<String>), change: Change<String, u32>) {
    let text = format!("{change:?}");
    let (key, old, new) = match change {
        Change::Added { key, value } => (key, None, Some(*value)),
        Change::Changed { key, old, new } => (key, Some(*old), Some(*new)),
        Change::Removed { key, value } => (key, Some(*value), None),
    };
    let before = match new {
        Some(new) => known.insert(key, new),
        None => known.remove(&key),
    };
    if before != old || old == new {
        wrong.push(format!("{text}, but the reader knows {before:?}"));
    }
}
