//! Combines the waiting events of each object: at most a delete and an add are left, or one event that stands for several.
//!
//! - **In:** events, in order, each with its position among all events of the listener.
//! - **Out:** fewer events with the same outcome, each at the position of the earliest event that it stands for.
//! - **Knows nothing of:** when to coalesce.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::Notice;
use crate::Key;

/// Waiting events, at most two of each object.
pub(super) struct Coalesced {
    /// By position.
    notices: BTreeMap<u64, Notice>,
    /// The positions of an object's events, oldest first: one, or a delete and one event after it.
    ///
    /// INV-L1: has exactly the positions of all events that concern an object.
    positions: HashMap<Key, SmallVec<[u64; 2]>>,
    /// How many events were removed because others stand for them.
    saved: u64,
    /// INV-L5: the number of resyncs among `notices`.
    resyncs: usize,
}

/// The result of combining two events of one object.
enum Outcome {
    One(Notice),
    /// The handler has not received the add, so it need not receive the delete.
    Nothing,
    Both,
}

/// The table of outcomes. Neither event was delivered yet.
fn coalesce(older: &Notice, newer: &Notice) -> Outcome {
    use Notice::{Added, Deleted, Synced, Unchanged, Updated};
    match (older, newer) {
        (Added { origin, .. }, Updated { new: object, .. } | Added { object, .. }) => {
            Outcome::One(Added { object: object.clone(), origin: *origin })
        }
        (Added { .. }, Deleted { .. }) => Outcome::Nothing,
        (Updated { old, .. }, Updated { new, .. } | Added { object: new, .. }) => {
            Outcome::One(Updated { old: old.clone(), new: new.clone() })
        }
        (Updated { old, .. }, Deleted { deleted, .. }) => {
            Outcome::One(Deleted { deleted: deleted.clone(), last: old.clone() })
        }
        // A change replaces a resync, and a resync never replaces a change.
        (Added { .. } | Updated { .. }, Unchanged(_)) => Outcome::One(older.clone()),
        (Unchanged(_), Added { .. } | Updated { .. } | Deleted { .. } | Unchanged(_)) => Outcome::One(newer.clone()),
        (Deleted { .. }, Deleted { .. }) => Outcome::One(older.clone()),
        // `Synced` does not concern one object.
        (Deleted { .. }, Added { .. } | Updated { .. } | Unchanged(_)) | (Synced, _) | (_, Synced) => Outcome::Both,
    }
}

impl Coalesced {
    pub(super) fn len(&self) -> usize {
        self.notices.len()
    }

    /// How many events were combined with others so far.
    pub(super) fn saved(&self) -> u64 {
        self.saved
    }

    pub(super) fn has_resyncs(&self) -> bool {
        self.resyncs > 0
    }

    /// The position of the oldest event.
    pub(super) fn first_position(&self) -> Option<u64> {
        self.notices.first_key_value().map(|(position, _)| *position)
    }

    /// Appends an event, whose position is greater than all others. Events that were replaced are put into `replaced`: the caller drops
    /// them without a lock, since their destructors are users' code.
    pub(super) fn push(&mut self, position: u64, notice: Notice, replaced: &mut Vec<Notice>) {
        let Some(key) = notice.key().cloned() else {
            self.insert(position, notice);
            return;
        };
        let last = self.positions.get(&key).and_then(|positions| positions.last().copied());
        let older = last.and_then(|last| Some((last, self.remove(last)?)));
        let positions = self.positions.entry(key.clone()).or_default();
        let Some((last, older)) = older else {
            positions.push(position);
            self.insert(position, notice);
            return;
        };
        match coalesce(&older, &notice) {
            Outcome::One(coalesced) => {
                self.saved += 1;
                self.insert(last, coalesced);
            }
            Outcome::Both => {
                positions.push(position);
                self.insert(last, older);
                self.insert(position, notice);
                return;
            }
            Outcome::Nothing => {
                self.saved += 2;
                positions.pop();
                if positions.is_empty() {
                    self.positions.remove(&key);
                }
            }
        }
        replaced.extend([older, notice]);
    }

    fn insert(&mut self, position: u64, notice: Notice) {
        self.resyncs += usize::from(notice.is_resync());
        self.notices.insert(position, notice);
    }

    fn remove(&mut self, position: u64) -> Option<Notice> {
        let notice = self.notices.remove(&position)?;
        self.resyncs -= usize::from(notice.is_resync());
        Some(notice)
    }

    /// Takes all events out.
    pub(super) fn clear(&mut self) -> Self {
        let emptied = Self { saved: self.saved, ..Self::default() };
        std::mem::replace(self, emptied)
    }

    /// Takes the oldest event, with its position.
    pub(super) fn pop(&mut self) -> Option<(u64, Notice)> {
        let (position, notice) = self.notices.pop_first()?;
        self.resyncs -= usize::from(notice.is_resync());
        if let Some(key) = notice.key()
            && let Some(positions) = self.positions.get_mut(key)
        {
            positions.retain(|other| *other != position);
            if positions.is_empty() {
                self.positions.remove(key);
            }
        }
        if self.notices.is_empty() {
            // Frees the memory: the map may have been large.
            self.positions = HashMap::new();
        }
        Some((position, notice))
    }
}

impl Default for Coalesced {
    fn default() -> Self {
        Self { notices: BTreeMap::new(), positions: HashMap::new(), saved: 0, resyncs: 0 }
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

    fn add(version: u64) -> Notice {
        Notice::Added { object: object("x", version), origin: Origin::InitialList }
    }

    fn update(old: u64, new: u64) -> Notice {
        Notice::Updated { old: object("x", old), new: object("x", new) }
    }

    fn delete(last: u64, version: u64) -> Notice {
        Notice::Deleted { deleted: Deleted::Observed(object("x", version)), last: object("x", last) }
    }

    fn unchanged(version: u64) -> Notice {
        Notice::Unchanged(object("x", version))
    }

    fn show(notice: &Notice) -> String {
        match notice {
            Notice::Added { object, origin: Origin::InitialList } => format!("initial +{object:?}"),
            Notice::Added { object, origin: Origin::Live } => format!("+{object:?}"),
            Notice::Updated { old, new } => format!("{old:?}→{new:?}"),
            Notice::Unchanged(object) => format!("={object:?}"),
            Notice::Deleted { deleted, last } => format!("-{:?} last {last:?}", deleted.object()),
            Notice::Synced => "synced".into(),
        }
    }

    impl Coalesced {
        fn drained(mut self) -> Vec<String> {
            let mut shown = Vec::new();
            while let Some((_, notice)) = self.pop() {
                shown.push(show(&notice));
            }
            assert!(self.positions.is_empty(), "INV-L1");
            shown
        }

        fn check_invariants(&self) {
            let mut positions: Vec<_> = self.positions.values().flatten().copied().collect();
            positions.sort_unstable();
            let keyed = self.notices.iter().filter(|(_, notice)| notice.key().is_some());
            assert_eq!(positions, keyed.map(|(position, _)| *position).collect::<Vec<_>>(), "INV-L1");
            assert!(self.positions.values().all(|positions| (1..=2).contains(&positions.len())), "INV-L1");
            assert_eq!(self.resyncs, self.notices.values().filter(|notice| notice.is_resync()).count(), "INV-L5");
        }
    }

    fn coalesced(notices: impl IntoIterator<Item = Notice>) -> Vec<String> {
        let mut coalesced = Coalesced::default();
        (0..).zip(notices).for_each(|(position, notice)| coalesced.push(position, notice, &mut Vec::new()));
        coalesced.drained()
    }

    /// Decision 10
    #[test]
    fn each_pair_of_events_has_its_coalesced_outcome() {
        assert_eq!(coalesced([add(1), update(1, 2)]), ["initial +x@2"]);
        assert!(coalesced([add(1), delete(1, 2)]).is_empty());
        assert_eq!(coalesced([update(1, 2), update(2, 3)]), ["x@1→x@3"]);
        assert_eq!(coalesced([update(1, 2), delete(2, 3)]), ["-x@3 last x@1"]);
        assert_eq!(coalesced([delete(1, 2), add(3)]), ["-x@2 last x@1", "initial +x@3"]);
        assert_eq!(coalesced([delete(1, 2), add(3), update(3, 4)]), ["-x@2 last x@1", "initial +x@4"]);
        assert_eq!(coalesced([delete(1, 2), add(3), delete(3, 4)]), ["-x@2 last x@1"]);
    }

    /// Decision 10: a sync never replaces a change.
    #[test]
    fn a_resync_coalesced_with_a_change_leaves_the_change() {
        assert_eq!(coalesced([add(1), unchanged(1)]), ["initial +x@1"]);
        assert_eq!(coalesced([update(1, 2), unchanged(2)]), ["x@1→x@2"]);
        assert_eq!(coalesced([unchanged(1), update(1, 2)]), ["x@1→x@2"]);
        assert_eq!(coalesced([unchanged(1), delete(1, 2)]), ["-x@2 last x@1"]);
        assert_eq!(coalesced([unchanged(1), unchanged(1)]), ["=x@1"]);
    }

    #[test]
    fn a_coalesced_event_has_the_position_of_the_earlier_one_and_synced_keeps_its_own() {
        let other = Notice::Added { object: object("y", 5), origin: Origin::Live };
        let notices = [add(1), Notice::Synced, other, update(1, 2)];
        assert_eq!(coalesced(notices), ["initial +x@2", "synced", "+y@5"]);
    }

    /// Steps of objects: 0 deletes the object, 1 resyncs it, any other number changes it.
    fn history(steps: &[(u8, u8)]) -> Vec<Notice> {
        let mut known: HashMap<u8, Cached<Erased>> = HashMap::new();
        let mut notices = Vec::new();
        for (version, (name, step)) in (1..).zip(steps) {
            let now = object(&format!("o{name}"), version);
            match (known.get(name).cloned(), step) {
                (Some(last), 0) => {
                    known.remove(name);
                    notices.push(Notice::Deleted { deleted: Deleted::Observed(now), last });
                }
                (Some(last), 1) => notices.push(Notice::Unchanged(last)),
                (Some(old), _) => {
                    known.insert(*name, now.clone());
                    notices.push(Notice::Updated { old, new: now });
                }
                (None, _) => {
                    known.insert(*name, now.clone());
                    notices.push(Notice::Added { object: now, origin: Origin::Live });
                }
            }
        }
        notices
    }

    /// Applies an event to the objects that a handler knows; panics if the event does not fit them.
    fn deliver(known: &mut BTreeMap<Key, String>, notice: &Notice) {
        let shown = |object: &Cached<Erased>| format!("{object:?}");
        match notice {
            Notice::Added { object, .. } => assert!(known.insert(object.key().clone(), shown(object)).is_none()),
            Notice::Updated { old, new } => {
                assert_eq!(known.insert(new.key().clone(), shown(new)), Some(shown(old)));
            }
            Notice::Unchanged(object) => assert_eq!(known.get(object.key()), Some(&shown(object))),
            Notice::Deleted { deleted, last } => assert_eq!(known.remove(deleted.key()), Some(shown(last))),
            Notice::Synced => {}
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
            history.iter().for_each(|notice| deliver(&mut expected, notice));
            history[..delivered].iter().for_each(|notice| deliver(&mut actual, notice));

            let mut coalesced = Coalesced::default();
            for (number, notice) in history[delivered..].iter().enumerate() {
                coalesced.push(number as u64, notice.clone(), &mut Vec::new());
                coalesced.check_invariants();
                assert!(coalesced.len() <= 10, "at most two for each of five objects");
                if number == popped
                    && let Some((_, notice)) = coalesced.pop()
                {
                    deliver(&mut actual, &notice);
                    coalesced.check_invariants();
                }
            }
            while let Some((_, notice)) = coalesced.pop() {
                deliver(&mut actual, &notice);
            }

            assert_eq!(actual, expected);
        });
    }
}
