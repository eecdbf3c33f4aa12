//! Derives the entries of a map from events.
//!
//! - **In:** batches of events of the map's own informers, and of the informers that its function reads.
//! - **Out:** one commit for each batch, once all informers are synced.
//! - **Knows nothing of:** buffers, tasks, registrations.

use std::{
    cmp::Ordering,
    hash::Hash,
    sync::Arc,
    time::{Duration, Instant},
};

use hashbrown::{HashMap, HashSet};
use tracing::{error, warn};

use super::{
    entries::{DerivedObjects, Pairs, Prefer},
    state::MapState,
};
use crate::{Cached, Deleted, Event, Key, ResourceVersion, object::Erased, panics};

/// Returns the pairs of an object. Users' code.
pub(super) type Function<K, V> = Box<dyn Fn(&Cached<Erased>) -> Pairs<K, V> + Send>;

/// Returns the keys of the objects that depend on an object that the function reads. Users' code.
pub(super) type Mapping = Arc<dyn Fn(&Cached<Erased>) -> Vec<Key> + Send + Sync>;

/// The derivation of one map. Dropping it stops the map.
pub(super) struct Engine<K: Clone + Eq + Hash, V> {
    map: Arc<MapState<K, V>>,
    function: Function<K, V>,
    prefer: Option<Prefer<V>>,
    sources: Vec<Source>,
    objects: DerivedObjects<K, V>,
    /// The number of informers whose initial list has not been received. Nothing is derived before: the function would read empty caches.
    unsynced: usize,
    /// Whether a warning about a slow function or mapping was logged.
    has_warned: bool,
}

/// One informer: of the map, or one that the function reads, or both.
#[derive(Default)]
pub(super) struct Source {
    /// Whether the function is called with its objects.
    pub(super) is_own: bool,
    /// Called with its objects when they change.
    pub(super) mappings: Vec<Mapping>,
    /// The objects of an informer of the map. Kept until all informers are synced; with a join, always.
    states: HashMap<Key, Cached<Erased>>,
    /// The newest version in the last batch of events.
    version: ResourceVersion,
}

/// The objects that must be derived again, because objects that the function reads changed.
#[derive(Default)]
struct Affected {
    keys: HashSet<Key>,
    /// Whether all objects are derived again: the last informer is synced now, or a mapping panicked.
    all: bool,
}

/// A function or mapping that takes this long for one object is logged.
const SLOW: Duration = Duration::from_millis(100);

impl Source {
    /// Notes the newest version of a batch. It may be older than that of the previous batch, after a restored backup.
    fn note_version(&mut self, events: &[Event<Erased>]) {
        // The version of the last known state is not that of the delete.
        let is_known = |event: &&Event<Erased>| !matches!(event, Event::Deleted(Deleted::Missed { .. }));
        let versions = events.iter().filter(is_known).filter_map(|event| Some(event.object()?.version()));
        if let Some(newest) = versions.max_by(|one, other| one.compare(other).unwrap_or(Ordering::Equal)) {
            self.version = newest.clone();
        }
    }
}

impl<K, V> Engine<K, V>
where
    K: Clone + Eq + Hash,
    V: PartialEq,
{
    pub(super) fn new(
        map: Arc<MapState<K, V>>,
        function: Function<K, V>,
        prefer: Option<Prefer<V>>,
        sources: Vec<Source>,
    ) -> Self {
        let unsynced = sources.len();
        Self { map, function, prefer, sources, objects: DerivedObjects::default(), unsynced, has_warned: false }
    }

    /// Applies the events of one batch of an informer, all at once.
    pub(super) fn apply(&mut self, source: usize, events: &[Event<Erased>]) {
        self.sources[source].note_version(events);
        let mut affected = Affected::default();
        for event in events {
            if self.sources[source].is_own {
                self.apply_own(source, event);
            }
            self.find_affected(source, event, &mut affected);
            if let Event::Synced = event {
                self.unsynced -= 1;
                affected.all = self.unsynced == 0;
            }
        }
        if self.unsynced > 0 {
            return;
        }
        self.derive_again(&affected);
        let Self { map, objects, prefer, .. } = self;
        let commit = map.published.read(|table| objects.commit(table, prefer.as_ref()));
        map.commit(commit, self.sources.iter().map(|source| source.version.clone()).collect());
    }

    /// Whether objects may have to be derived again.
    fn keeps_states(&self) -> bool {
        self.unsynced > 0 || self.sources.iter().any(|source| !source.mappings.is_empty())
    }

    /// Applies an event of an informer of the map.
    fn apply_own(&mut self, source: usize, event: &Event<Erased>) {
        match event {
            Event::Added { object, .. } | Event::Updated { new: object, .. } => {
                if self.keeps_states() {
                    self.sources[source].states.insert(object.key().clone(), object.clone());
                }
                if self.unsynced == 0 {
                    self.derive(source, object);
                }
            }
            Event::Deleted(deleted) => {
                let key = deleted.key();
                self.sources[source].states.remove(key);
                self.forget_failure(source, key);
                self.objects.set(source, key, deleted.version(), Pairs::new());
            }
            Event::Resynced(_) | Event::Synced => {}
        }
    }

    /// Notes which objects depend on the old and the new state of an object that the function reads.
    fn find_affected(&mut self, source: usize, event: &Event<Erased>, affected: &mut Affected) {
        // All objects are derived when the last informer is synced.
        if self.unsynced > 0 {
            return;
        }
        let (old, new) = match event {
            Event::Added { object, .. } => (None, Some(object)),
            Event::Updated { old, new } => (Some(old), Some(new)),
            Event::Deleted(deleted) => (Some(deleted.object()), None),
            Event::Resynced(_) | Event::Synced => return,
        };
        let mappings = &self.sources[source].mappings;
        let states = [old, new].into_iter().flatten();
        for (state, mapping) in states.flat_map(|state| mappings.iter().map(move |mapping| (state, mapping))) {
            let begun = Instant::now();
            let mapped = panics::catch(|| mapping(state));
            warn_if_slow(&mut self.has_warned, &self.map.name, state.key(), begun.elapsed());
            match mapped {
                Ok(keys) => affected.keys.extend(keys),
                Err(panic) => {
                    affected.all = true;
                    let (map, key) = (&*self.map.name, state.key().as_str());
                    error!(
                        map,
                        key,
                        error = panic,
                        "a mapping of a derived map panicked; all objects of the map are derived again"
                    );
                }
            }
        }
    }

    /// Derives the affected objects in their present states.
    fn derive_again(&mut self, affected: &Affected) {
        for source in 0..self.sources.len() {
            let states = &self.sources[source].states;
            let objects: Vec<_> = match affected.all {
                true => states.values().cloned().collect(),
                false => affected.keys.iter().filter_map(|key| states.get(key)).cloned().collect(),
            };
            for object in &objects {
                self.derive(source, object);
            }
            if !self.keeps_states() {
                self.sources[source].states = HashMap::new();
            }
        }
    }

    /// Removes the object from those at which the function panicked.
    fn forget_failure(&self, source: usize, key: &Key) {
        let mut failures = self.map.failures.lock();
        if !failures.is_empty() {
            failures.remove(&(source, key.clone()));
        }
    }

    /// Derives the pairs of an object.
    fn derive(&mut self, source: usize, object: &Cached<Erased>) {
        self.forget_failure(source, object.key());
        let begun = Instant::now();
        let derived = panics::catch(|| (self.function)(object));
        warn_if_slow(&mut self.has_warned, &self.map.name, object.key(), begun.elapsed());
        let pairs = derived.unwrap_or_else(|panic| {
            let (map, key) = (&*self.map.name, object.key());
            error!(
                map,
                key = key.as_str(),
                error = panic,
                "the function of a derived map panicked; the object has no entries"
            );
            self.map.failures.lock().insert((source, key.clone()), panic.into());
            Pairs::new()
        });
        self.objects.set(source, object.key(), object.version(), pairs);
    }
}

/// Logs the first slow call.
fn warn_if_slow(has_warned: &mut bool, map: &str, key: &Key, took: Duration) {
    if took >= SLOW && !std::mem::replace(has_warned, true) {
        let (key, elapsed_ms) = (key.as_str(), took.as_millis());
        warn!(
            map,
            key, elapsed_ms, "a function or mapping of a derived map is slow, and the map's changes wait for it"
        );
    }
}

impl<K: Clone + Eq + Hash, V> Drop for Engine<K, V> {
    fn drop(&mut self) {
        self.map.close();
    }
}
