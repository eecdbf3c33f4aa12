//! The events that a follower received. Each is checked when it is received.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, atomic, atomic::AtomicUsize},
};

use informant::{Cached, Deleted, Event, Key, Lister, Origin};

use super::world::World;
use crate::reflector::soak::Texted;

/// Every state that any object ever had: its texts by key and version. After a restored backup, the server uses versions again,
/// so an object may have several texts under one version.
pub(super) type States = Arc<Mutex<BTreeMap<(String, String), BTreeSet<String>>>>;

/// The events that one follower received; each is checked when it is received.
pub(super) struct History<O> {
    pub(super) record: Mutex<Record<O>>,
    states: States,
    /// How many backups were restored so far.
    restores: Arc<AtomicUsize>,
    cache: Lister<O>,
    /// The follower receives only objects that pass the filter.
    pub(super) is_filtered: bool,
}

/// The filter of followers that have one.
pub(super) fn passes<O: Texted>(object: &Cached<O>) -> bool {
    object.text().bytes().map(usize::from).sum::<usize>() % 3 > 0
}

pub(super) struct Record<O> {
    known: BTreeMap<Key, Cached<O>>,
    /// How often the version of an object went backwards.
    went_back: BTreeMap<Key, usize>,
    pub(super) events: Vec<String>,
    is_synced: bool,
    is_over: bool,
    pub(super) wrong: Vec<String>,
}

impl<O: Texted> History<O> {
    pub(super) fn new(world: &World<O>, is_filtered: bool) -> Arc<Self> {
        let record = Record {
            known: BTreeMap::new(),
            went_back: BTreeMap::new(),
            events: Vec::new(),
            is_synced: false,
            is_over: false,
            wrong: Vec::new(),
        };
        let (states, restores) = (Arc::clone(&world.states), Arc::clone(&world.restores));
        let (record, cache) = (Mutex::new(record), world.informer.lister());
        Arc::new(Self { record, states, restores, cache, is_filtered })
    }

    fn restores(&self) -> usize {
        self.restores.load(atomic::Ordering::Relaxed)
    }

    pub(super) fn receive(&self, event: &Event<O>) {
        let mut record = self.record.lock().unwrap();
        record.events.push(match event {
            Event::Added { object, origin } => format!("A({object:?} {origin:?})"),
            Event::Updated { old, new } => format!("U({old:?} {new:?})"),
            Event::Resynced(object) => format!("R({object:?})"),
            Event::Deleted(Deleted::Observed(object)) => format!("D({object:?})"),
            Event::Deleted(Deleted::Missed { last_known }) => format!("T({last_known:?})"),
            Event::Synced => "synced".into(),
        });
        let problem = record
            .problem(event, self.restores())
            .or_else(|| self.unknown_state(event))
            .or_else(|| self.too_early(event));
        if let Some(problem) = problem {
            let last = record.events.len().saturating_sub(12);
            let problem = format!("{problem}; last events: {:?}", &record.events[last..]);
            record.wrong.push(problem);
        }
        record.apply(event);
    }

    /// P2: describes an event with a state that the object never had.
    fn unknown_state(&self, event: &Event<O>) -> Option<String> {
        let object = event.object()?;
        let state = (object.key().to_string(), object.version().to_string());
        let texts = self.states.lock().unwrap().get(&state).cloned().unwrap_or_default();
        let is_right = match event {
            Event::Added { .. } | Event::Updated { .. } => texts.contains(&object.text()),
            // The final state has the version of the delete.
            Event::Deleted(Deleted::Observed(_)) => texts.is_empty() || self.is_filtered || self.restores() > 0,
            Event::Deleted(Deleted::Missed { .. }) => !texts.is_empty(),
            Event::Resynced(_) | Event::Synced => true,
        };
        (!is_right).then(|| format!("{event:?} has a state that the object never had: {:?}", object.text()))
    }

    /// P3: describes an event that is newer than the cache. After a restored backup, events of the old history may wait that
    /// are newer than the cache.
    fn too_early(&self, event: &Event<O>) -> Option<String> {
        let object = event.object().filter(|_| self.restores() == 0)?;
        let cached = self.cache.get(object.key()).filter(|cached| cached.uid() == object.uid());
        let is_early = match (event, &cached) {
            (Event::Added { .. } | Event::Updated { .. } | Event::Resynced(_), Some(cached)) => {
                goes_back(object, cached)
            }
            (Event::Deleted(_), Some(_)) => !self.is_filtered,
            (
                Event::Added { .. } | Event::Updated { .. } | Event::Resynced(_) | Event::Deleted(_) | Event::Synced,
                _,
            ) => false,
        };
        is_early.then(|| format!("{event:?} is delivered, but the cache has {cached:?}"))
    }

    /// From now on, each further event is an error.
    pub(super) fn end(&self) {
        self.record.lock().unwrap().is_over = true;
    }

    pub(super) fn known(&self) -> BTreeMap<String, String> {
        let record = self.record.lock().unwrap();
        record.known.iter().map(|(key, object)| (key.to_string(), shown(object))).collect()
    }
}

impl<O: Texted> Record<O> {
    /// P2, P4: describes an event that does not fit the earlier ones.
    ///
    /// The version of an object may go backwards once for each backup that was restored.
    fn problem(&self, event: &Event<O>, restores: usize) -> Option<String> {
        if self.is_over {
            return Some("an event is delivered after the end".into());
        }
        let before = event.key().and_then(|key| self.known.get(key));
        let goes_back = |before: &Cached<O>, now: &Cached<O>| {
            goes_back(before, now) && self.went_back.get(now.key()).copied().unwrap_or_default() >= restores
        };
        match event {
            Event::Added { object, origin } => {
                let is_initial = *origin == Origin::InitialList;
                if before.is_some() {
                    return Some(format!("{object:?} is added twice"));
                }
                (is_initial == self.is_synced)
                    .then(|| format!("{object:?} has the origin {origin:?}, synced: {}", self.is_synced))
            }
            Event::Updated { old, new } => match before {
                Some(before) if !Cached::ptr_eq(before, old) => {
                    Some(format!("{old:?} is not the last delivered state, {before:?}"))
                }
                Some(before) if goes_back(before, new) => Some(format!("{new:?} is delivered after {before:?}")),
                Some(before) if before.uid() != new.uid() => {
                    Some(format!("{new:?} is another incarnation than {before:?}"))
                }
                Some(_) => None,
                None => Some(format!("{new:?} is updated, but was never added")),
            },
            Event::Resynced(object) => match before {
                Some(before) if before.identity() != object.identity() => Some(format!("{object:?} is not {before:?}")),
                Some(_) => None,
                None => Some(format!("{object:?} is resynced, but was never added")),
            },
            Event::Deleted(deleted) => match before {
                Some(before) if goes_back(before, deleted.object()) => {
                    Some(format!("{deleted:?} is delivered after {before:?}"))
                }
                Some(before) if before.uid() != deleted.object().uid() => {
                    Some(format!("{deleted:?} is of another incarnation than {before:?}"))
                }
                Some(_) => None,
                None => Some(format!("{} is deleted, but was never added", deleted.key())),
            },
            Event::Synced => self.is_synced.then(|| "synced twice".into()),
        }
    }

    fn apply(&mut self, event: &Event<O>) {
        if let Some(object) = event.object()
            && self.known.get(object.key()).is_some_and(|before| goes_back(before, object))
        {
            *self.went_back.entry(object.key().clone()).or_default() += 1;
        }
        match event {
            Event::Added { object, .. } | Event::Updated { new: object, .. } => {
                self.known.insert(object.key().clone(), object.clone());
            }
            Event::Deleted(deleted) => drop(self.known.remove(deleted.key())),
            Event::Resynced(_) => {}
            Event::Synced => self.is_synced = true,
        }
    }
}

fn goes_back<O>(before: &Cached<O>, now: &Cached<O>) -> bool {
    before.uid() == now.uid() && now.version().compare(before.version()) == Some(Ordering::Less)
}

pub(super) fn shown<O: Texted>(object: &Cached<O>) -> String {
    format!("@{} {}", object.version(), object.text())
}
