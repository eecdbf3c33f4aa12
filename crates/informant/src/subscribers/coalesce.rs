//! What waits too long is coalesced: of each object at most a delete and an add stay, or one change that stands for several.
//!
//! - **In:** notices, in order.
//! - **Out:** fewer notices with the same outcome, each in the place of the earliest that it stands for.
//! - **Knows nothing of:** when to coalesce.

use std::collections::BTreeMap;

use hashbrown::HashMap;
use smallvec::SmallVec;

use super::Notice;
use crate::Key;

/// Notices that wait, of each object at most two.
pub(super) struct Coalesced {
    /// By the order in which they came.
    notices: BTreeMap<u64, Notice>,
    /// Where the notices of an object are, oldest first: one, or a delete and what came after it.
    ///
    /// INV-L1: has exactly the places of all notices that are about an object.
    places: HashMap<Key, SmallVec<[u64; 2]>>,
    next: u64,
    /// How many notices are no more, because others stand for them.
    saved: u64,
    /// INV-L5: the number of resyncs among `notices`.
    resyncs: usize,
}

/// What becomes of two notices of one object.
enum Outcome {
    One(Notice),
    /// The follower knows nothing of the object, and need not.
    Nothing,
    Both,
}

/// The table of outcomes. `older` was not told yet.
fn coalesce(older: &Notice, newer: &Notice) -> Outcome {
    use Notice::Added;
    use Notice::Deleted;
    use Notice::Synced;
    use Notice::Unchanged;
    use Notice::Updated;
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
        // A resync is no news beside a change.
        (Added { .. } | Updated { .. }, Unchanged(_)) => Outcome::One(older.clone()),
        (Unchanged(_), Added { .. } | Updated { .. } | Deleted { .. } | Unchanged(_)) => Outcome::One(newer.clone()),
        (Deleted { .. }, Deleted { .. }) => Outcome::One(older.clone()),
        // The last one is not of one object.
        (Deleted { .. }, Added { .. } | Updated { .. } | Unchanged(_)) | (Synced, _) | (_, Synced) => Outcome::Both,
    }
}

impl Coalesced {
    pub(super) fn len(&self) -> usize {
        self.notices.len()
    }

    /// How many notices were coalesced into others so far.
    pub(super) fn saved(&self) -> u64 {
        self.saved
    }

    pub(super) fn has_resyncs(&self) -> bool {
        self.resyncs > 0
    }

    /// Appends a notice; what others stand for now is put into `spent`, since dropping it is users' code.
    pub(super) fn push(&mut self, notice: Notice, spent: &mut Vec<Notice>) {
        let place = self.next;
        self.next += 1;
        let Some(key) = notice.key().cloned() else {
            self.insert(place, notice);
            return;
        };
        let last = self.places.get(&key).and_then(|places| places.last().copied());
        let older = last.and_then(|last| Some((last, self.remove(last)?)));
        let places = self.places.entry(key.clone()).or_default();
        let Some((last, older)) = older else {
            places.push(place);
            self.insert(place, notice);
            return;
        };
        match coalesce(&older, &notice) {
            Outcome::One(coalesced) => {
                self.saved += 1;
                self.insert(last, coalesced);
            }
            Outcome::Both => {
                places.push(place);
                self.insert(last, older);
                self.insert(place, notice);
                return;
            }
            Outcome::Nothing => {
                self.saved += 2;
                places.pop();
                if places.is_empty() {
                    self.places.remove(&key);
                }
            }
        }
        spent.extend([older, notice]);
    }

    fn insert(&mut self, place: u64, notice: Notice) {
        self.resyncs += usize::from(notice.is_resync());
        self.notices.insert(place, notice);
    }

    fn remove(&mut self, place: u64) -> Option<Notice> {
        let notice = self.notices.remove(&place)?;
        self.resyncs -= usize::from(notice.is_resync());
        Some(notice)
    }

    /// Takes everything out.
    pub(super) fn clear(&mut self) -> Self {
        let emptied = Self { saved: self.saved, ..Self::default() };
        std::mem::replace(self, emptied)
    }

    /// The oldest.
    pub(super) fn pop(&mut self) -> Option<Notice> {
        let (place, notice) = self.notices.pop_first()?;
        self.resyncs -= usize::from(notice.is_resync());
        if let Some(key) = notice.key()
            && let Some(places) = self.places.get_mut(key)
        {
            places.retain(|other| *other != place);
            if places.is_empty() {
                self.places.remove(key);
            }
        }
        if self.notices.is_empty() {
            // It may have been large once.
            self.places = HashMap::new();
        }
        Some(notice)
    }
}

impl Default for Coalesced {
    fn default() -> Self {
        Self { notices: BTreeMap::new(), places: HashMap::new(), next: 0, saved: 0, resyncs: 0 }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::Cached;
    use crate::Deleted;
    use crate::Origin;
    use crate::ResourceVersion;
    use crate::object::Erased;
    use crate::object::Identity;
    use crate::random;

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
            while let Some(notice) = self.pop() {
                shown.push(show(&notice));
            }
            assert!(self.places.is_empty(), "INV-L1");
            shown
        }

        fn check_invariants(&self) {
            let mut places: Vec<_> = self.places.values().flatten().copied().collect();
            places.sort_unstable();
            let keyed = self.notices.iter().filter(|(_, notice)| notice.key().is_some());
            assert_eq!(places, keyed.map(|(place, _)| *place).collect::<Vec<_>>(), "INV-L1");
            assert!(self.places.values().all(|places| (1..=2).contains(&places.len())), "INV-L1");
            assert_eq!(self.resyncs, self.notices.values().filter(|notice| notice.is_resync()).count(), "INV-L5");
        }
    }

    fn coalesced(notices: impl IntoIterator<Item = Notice>) -> Vec<String> {
        let mut coalesced = Coalesced::default();
        notices.into_iter().for_each(|notice| coalesced.push(notice, &mut Vec::new()));
        coalesced.drained()
    }

    /// Decision 10
    #[test]
    fn each_pair_has_its_outcome() {
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
    fn a_resync_is_no_news_beside_a_change() {
        assert_eq!(coalesced([add(1), unchanged(1)]), ["initial +x@1"]);
        assert_eq!(coalesced([update(1, 2), unchanged(2)]), ["x@1→x@2"]);
        assert_eq!(coalesced([unchanged(1), update(1, 2)]), ["x@1→x@2"]);
        assert_eq!(coalesced([unchanged(1), delete(1, 2)]), ["-x@2 last x@1"]);
        assert_eq!(coalesced([unchanged(1), unchanged(1)]), ["=x@1"]);
    }

    #[test]
    fn what_was_merged_stands_in_the_place_of_the_earlier_one_and_the_marker_in_its_own() {
        let other = Notice::Added { object: object("y", 5), origin: Origin::Live };
        let notices = [add(1), Notice::Synced, other, update(1, 2)];
        assert_eq!(coalesced(notices), ["initial +x@2", "synced", "+y@5"]);
    }

    /// A step of an object's life: 0 deletes it, 1 resyncs it, anything else changes it.
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

    /// What a follower knows after it was told; panics if it was told nonsense.
    fn tell(known: &mut BTreeMap<Key, String>, notice: &Notice) {
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
    fn merging_at_any_moment_changes_nothing_but_the_number_of_notices() {
        let steps = prop::collection::vec((0..5u8, 0..4u8), 0..80);
        random::check(2000, (steps, 0..80usize, 0..80usize), |(steps, told, popped)| {
            let history = history(&steps);
            let told = told.min(history.len());
            let (mut expected, mut actual) = (BTreeMap::new(), BTreeMap::new());
            history.iter().for_each(|notice| tell(&mut expected, notice));
            history[..told].iter().for_each(|notice| tell(&mut actual, notice));

            let mut coalesced = Coalesced::default();
            for (number, notice) in history[told..].iter().enumerate() {
                coalesced.push(notice.clone(), &mut Vec::new());
                coalesced.check_invariants();
                assert!(coalesced.len() <= 10, "at most two for each of five objects");
                if number == popped
                    && let Some(notice) = coalesced.pop()
                {
                    tell(&mut actual, &notice);
                    coalesced.check_invariants();
                }
            }
            while let Some(notice) = coalesced.pop() {
                tell(&mut actual, &notice);
            }

            assert_eq!(actual, expected);
        });
    }
}
