//! Combines the waiting events of each object: at most a delete and an add are left, or one event that replaces several.
//!
//! - **In:** events, in order, each with its position among all events of the listener.
//! - **Out:** fewer events with the same outcome, each at the position of the earliest event that it replaces.
//! - **Knows nothing of:** when to coalesce.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use smallvec::SmallVec;

use crate::{Event, Key, object::Erased};

/// Waiting events, at most two of each object.
#[derive(Default)]
pub(super) struct Coalesced {
    /// The events by their position.
    events: BTreeMap<u64, Event<Erased>>,
    /// The positions of an object's events, oldest first: one, or a delete and one event after it.
    ///
    /// INV-L1: contains exactly the positions of all events that concern an object.
    positions: HashMap<Key, SmallVec<[u64; 2]>>,
    /// How many events were coalesced into others.
    removed: u64,
}

/// The result of combining two events of one object.
enum Combination {
    One(Event<Erased>),
    /// The handler has not received the add, so it need not receive the delete.
    Nothing,
    Both,
}

/// The table of combinations. Neither event was delivered yet.
fn combine(older: &Event<Erased>, newer: &Event<Erased>) -> Combination {
    use Event::{Added, Deleted, Resynced, Synced, Updated};
    match (older, newer) {
        (Added { origin, .. }, Updated { new: object, .. } | Added { object, .. }) => {
            Combination::One(Added { object: object.clone(), origin: *origin })
        }
        (Added { .. }, Deleted(_)) => Combination::Nothing,
        (Updated { old, .. }, Updated { new, .. } | Added { object: new, .. }) => {
            Combination::One(Updated { old: old.clone(), new: new.clone() })
        }
        (Updated { .. }, Deleted(deleted)) => Combination::One(Deleted(deleted.clone())),
        // A change replaces a resync, and a resync never replaces a change.
        (Added { .. } | Updated { .. }, Resynced(_)) => Combination::One(older.clone()),
        (Resynced(_), Added { .. } | Updated { .. } | Deleted(_) | Resynced(_)) => Combination::One(newer.clone()),
        (Deleted(_), Deleted(_)) => Combination::One(older.clone()),
        // `Synced` does not concern one object.
        (Deleted(_), Added { .. } | Updated { .. } | Resynced(_)) | (Synced, _) | (_, Synced) => Combination::Both,
    }
}

impl Coalesced {
    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    /// How many events were coalesced into others so far.
    pub(super) fn removed(&self) -> u64 {
        self.removed
    }

    /// The position of the oldest event.
    pub(super) fn first_position(&self) -> Option<u64> {
        self.events.first_key_value().map(|(position, _)| *position)
    }

    /// Appends an event, whose position is greater than all others. Events that were replaced are put into `replaced`: the caller drops
    /// them without a lock, since their destructors are users' code.
    pub(super) fn push(&mut self, position: u64, event: Event<Erased>, replaced: &mut Vec<Event<Erased>>) {
        let Some(key) = event.key().cloned() else {
            self.events.insert(position, event);
            return;
        };
        let last = self.positions.get(&key).and_then(|positions| positions.last().copied());
        let older = last.and_then(|last| Some((last, self.events.remove(&last)?)));
        let positions = self.positions.entry(key.clone()).or_default();
        let Some((last, older)) = older else {
            positions.push(position);
            self.events.insert(position, event);
            return;
        };
        match combine(&older, &event) {
            Combination::One(coalesced) => {
                self.removed += 1;
                self.events.insert(last, coalesced);
            }
            Combination::Both => {
                positions.push(position);
                self.events.extend([(last, older), (position, event)]);
                return;
            }
            Combination::Nothing => {
                self.removed += 2;
                positions.pop();
                if positions.is_empty() {
                    self.positions.remove(&key);
                }
            }
        }
        replaced.extend([older, event]);
    }

    /// Takes all events out.
    pub(super) fn clear(&mut self) -> Vec<Event<Erased>> {
        let emptied = Self { removed: self.removed, ..Self::default() };
        std::mem::replace(self, emptied).events.into_values().collect()
    }

    /// Takes the oldest event.
    pub(super) fn pop(&mut self) -> Option<Event<Erased>> {
        let (position, event) = self.events.pop_first()?;
        if let Some(key) = event.key()
            && let Some(positions) = self.positions.get_mut(key)
        {
            positions.retain(|other| *other != position);
            if positions.is_empty() {
                self.positions.remove(key);
            }
        }
        if self.events.is_empty() {
            // Frees the memory: the map may have been large.
            self.positions = HashMap::new();
        }
        Some(event)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        Cached, Deleted, Origin, ResourceVersion,
        object::{Erased, Identity},
        random,
    };

    fn object(name: &str, version: u64) -> Cached<Erased> {
        let version = ResourceVersion::new(version.to_string());
        Cached::new(Identity { key: Key::cluster_scoped(name), uid: "u".into(), version }, ()).erase()
    }

    fn add(version: u64) -> Event<Erased> {
        Event::Added { object: object("x", version), origin: Origin::InitialList }
    }

    fn update(old: u64, new: u64) -> Event<Erased> {
        Event::Updated { old: object("x", old), new: object("x", new) }
    }

    fn delete(version: u64) -> Event<Erased> {
        Event::Deleted(Deleted::Observed(object("x", version)))
    }

    fn unchanged(version: u64) -> Event<Erased> {
        Event::Resynced(object("x", version))
    }

    fn show(event: &Event<Erased>) -> String {
        match event {
            Event::Added { object, origin: Origin::InitialList } => format!("initial +{object:?}"),
            Event::Added { object, origin: Origin::Live } => format!("+{object:?}"),
            Event::Updated { old, new } => format!("{old:?}→{new:?}"),
            Event::Resynced(object) => format!("={object:?}"),
            Event::Deleted(deleted) => format!("-{:?}", deleted.object()),
            Event::Synced => "synced".into(),
        }
    }

    impl Coalesced {
        fn drained(mut self) -> Vec<String> {
            let mut shown = Vec::new();
            while let Some(event) = self.pop() {
                shown.push(show(&event));
            }
            assert!(self.positions.is_empty(), "INV-L1");
            shown
        }

        fn check_invariants(&self) {
            let mut positions: Vec<_> = self.positions.values().flatten().copied().collect();
            positions.sort_unstable();
            let keyed = self.events.iter().filter(|(_, event)| event.key().is_some());
            assert_eq!(positions, keyed.map(|(position, _)| *position).collect::<Vec<_>>(), "INV-L1");
            assert!(self.positions.values().all(|positions| (1..=2).contains(&positions.len())), "INV-L1");
        }
    }

    fn coalesced(events: impl IntoIterator<Item = Event<Erased>>) -> Vec<String> {
        let mut coalesced = Coalesced::default();
        (0..).zip(events).for_each(|(position, event)| coalesced.push(position, event, &mut Vec::new()));
        coalesced.drained()
    }

    /// Decision 10
    #[test]
    fn each_pair_of_events_has_its_coalesced_outcome() {
        assert_eq!(coalesced([add(1), update(1, 2)]), ["initial +x@2"]);
        assert!(coalesced([add(1), delete(2)]).is_empty());
        assert_eq!(coalesced([update(1, 2), update(2, 3)]), ["x@1→x@3"]);
        assert_eq!(coalesced([update(1, 2), delete(3)]), ["-x@3"]);
        assert_eq!(coalesced([delete(2), add(3)]), ["-x@2", "initial +x@3"]);
        assert_eq!(coalesced([delete(2), add(3), update(3, 4)]), ["-x@2", "initial +x@4"]);
        assert_eq!(coalesced([delete(2), add(3), delete(4)]), ["-x@2"]);
    }

    /// Decision 10: a sync never replaces a change.
    #[test]
    fn a_resync_coalesced_with_a_change_leaves_the_change() {
        assert_eq!(coalesced([add(1), unchanged(1)]), ["initial +x@1"]);
        assert_eq!(coalesced([update(1, 2), unchanged(2)]), ["x@1→x@2"]);
        assert_eq!(coalesced([unchanged(1), update(1, 2)]), ["x@1→x@2"]);
        assert_eq!(coalesced([unchanged(1), delete(2)]), ["-x@2"]);
        assert_eq!(coalesced([unchanged(1), unchanged(1)]), ["=x@1"]);
    }

    #[test]
    fn a_coalesced_event_has_the_position_of_the_earlier_one_and_synced_keeps_its_own() {
        let other = Event::Added { object: object("y", 5), origin: Origin::Live };
        let events = [add(1), Event::Synced, other, update(1, 2)];
        assert_eq!(coalesced(events), ["initial +x@2", "synced", "+y@5"]);
    }

    /// Steps of objects: 0 deletes the object, 1 resyncs it, any other number changes it.
    fn history(steps: &[(u8, u8)]) -> Vec<Event<Erased>> {
        let mut known: HashMap<u8, Cached<Erased>> = HashMap::new();
        let mut events = Vec::new();
        for (version, (name, step)) in (1..).zip(steps) {
            let now = object(&format!("o{name}"), version);
            match (known.get(name).cloned(), step) {
                (Some(_), 0) => {
                    known.remove(name);
                    events.push(Event::Deleted(Deleted::Observed(now)));
                }
                (Some(last), 1) => events.push(Event::Resynced(last)),
                (Some(old), _) => {
                    known.insert(*name, now.clone());
                    events.push(Event::Updated { old, new: now });
                }
                (None, _) => {
                    known.insert(*name, now.clone());
                    events.push(Event::Added { object: now, origin: Origin::Live });
                }
            }
        }
        events
    }

    /// Applies an event to the objects that a handler knows; panics if the event does not fit them.
    fn deliver(known: &mut BTreeMap<Key, String>, event: &Event<Erased>) {
        let shown = |object: &Cached<Erased>| format!("{object:?}");
        match event {
            Event::Added { object, .. } => assert!(known.insert(object.key().clone(), shown(object)).is_none()),
            Event::Updated { old, new } => {
                assert_eq!(known.insert(new.key().clone(), shown(new)), Some(shown(old)));
            }
            Event::Resynced(object) => assert_eq!(known.get(object.key()), Some(&shown(object))),
            Event::Deleted(deleted) => assert!(known.remove(deleted.key()).is_some()),
            Event::Synced => {}
        }
    }

    /// P4
    #[test]
    fn coalescing_at_any_moment_changes_only_the_number_of_events() {
        let steps = prop::collection::vec((0..5u8, 0..4u8), 0..80);
        random::check(2000, (steps, 0..80usize, 0..80usize), |(steps, delivered, popped)| {
            let history = history(&steps);
            let delivered = delivered.min(history.len());
            let (mut expected, mut actual) = (BTreeMap::new(), BTreeMap::new());
            history.iter().for_each(|event| deliver(&mut expected, event));
            history[..delivered].iter().for_each(|event| deliver(&mut actual, event));

            let mut coalesced = Coalesced::default();
            for (number, event) in history[delivered..].iter().enumerate() {
                coalesced.push(number as u64, event.clone(), &mut Vec::new());
                coalesced.check_invariants();
                assert!(coalesced.len() <= 10, "at most two for each of five objects");
                if number == popped
                    && let Some(event) = coalesced.pop()
                {
                    deliver(&mut actual, &event);
                    coalesced.check_invariants();
                }
            }
            while let Some(event) = coalesced.pop() {
                deliver(&mut actual, &event);
            }

            assert_eq!(actual, expected);
        });
    }
}
