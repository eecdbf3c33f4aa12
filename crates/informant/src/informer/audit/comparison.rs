//! Compares the objects of a source with those of the cache.
//!
//! - **In:** the identities of all cached objects and of all listed objects; for each suspect, what a lookup found.
//! - **Out:** suspects: objects that seem to be wrong in the cache; whether a suspect is wrong.
//! - **Knows nothing of:** requests, the cache, time.
//!
//! The cache changes while the list is read, so a difference proves nothing by itself. A suspect is wrong if the cache has reached the version of the
//! list, and a lookup finds a state that the cache should have by then.

use std::cmp::Ordering;

use hashbrown::HashMap;

use crate::{Key, ResourceVersion, Uid, object::Identity};

/// The comparison of a list with the cache.
#[derive(Default)]
pub(super) struct Comparison {
    /// The cached objects that the list has not shown yet.
    unlisted: HashMap<Key, (Uid, ResourceVersion)>,
    suspects: Vec<Suspect>,
}

/// An object that the list has in another state than the cache, or that only one of them has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Suspect {
    pub(super) key: Key,
    /// The listed state; `None` if the object is not in the list.
    listed: Option<(Uid, ResourceVersion)>,
}

impl Comparison {
    /// Notes an object of the cache. All of them are noted before the list is requested: an object that is deleted while the list is on its way is
    /// then no suspect.
    pub(super) fn note_cached(&mut self, Identity { key, uid, version }: &Identity) {
        self.unlisted.insert(key.clone(), (uid.clone(), version.clone()));
    }

    /// Notes an object of the list.
    pub(super) fn note_listed(&mut self, Identity { key, uid, version }: Identity) {
        let cached = self.unlisted.remove(&key);
        let listed = (uid, version);
        if cached.as_ref() != Some(&listed) {
            self.suspects.push(Suspect { key, listed: Some(listed) });
        }
    }

    /// Ends the comparison, after the last object of the list. The objects that only the cache has come first: the others are often right, because
    /// they were updated or deleted while the list was on its way.
    pub(super) fn into_suspects(self) -> Vec<Suspect> {
        let unlisted = self.unlisted.into_keys().map(|key| Suspect { key, listed: None });
        unlisted.chain(self.suspects).collect()
    }
}

impl Suspect {
    /// Returns true if the cache, which has reached the version of the list, still contradicts the list. `cached` is its present state of the object.
    pub(super) fn is_suspicious(&self, cached: Option<&Identity>, list_version: &ResourceVersion) -> bool {
        match (cached, &self.listed) {
            (Some(cached), _) if !is_within(&cached.version, list_version) => false,
            (Some(cached), Some((uid, version))) => (&cached.uid, &cached.version) != (uid, version),
            (None, None) => false,
            (Some(_), None) | (None, Some(_)) => true,
        }
    }

    /// Returns true if the cache is wrong. `reached` is a version that the cache had reached before `cached` was read from it, and not before the version of
    /// the list; `found` is what the source had after that.
    pub(super) fn is_wrong(
        &self,
        cached: Option<&Identity>,
        reached: &ResourceVersion,
        found: Option<&Identity>,
    ) -> bool {
        match found {
            // A newer state is about to arrive.
            Some(found) => is_within(&found.version, reached) && cached != Some(found),
            // If the object was deleted after the list, its delete is about to arrive.
            None => self.listed.is_none() && cached.is_some(),
        }
    }
}

/// Returns true if `version` is not newer than `reached`. Versions that cannot be compared count as newer.
pub(super) fn is_within(version: &ResourceVersion, reached: &ResourceVersion) -> bool {
    matches!(version.compare(reached), Some(Ordering::Less | Ordering::Equal))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(uid: &str, version: u64) -> Identity {
        Identity::new("shop/web", uid, version)
    }

    fn suspects(cached: &[Identity], listed: &[Identity]) -> Vec<Suspect> {
        let mut comparison = Comparison::default();
        cached.iter().for_each(|object| comparison.note_cached(object));
        listed.iter().for_each(|object| comparison.note_listed(object.clone()));
        comparison.into_suspects()
    }

    #[test]
    fn objects_that_differ_from_the_list_are_suspicious_unless_they_are_newer_than_it() {
        let table = [
            (Some(state("a", 5)), Some(state("a", 5)), false),
            (Some(state("a", 5)), Some(state("a", 9)), true),
            (Some(state("a", 9)), Some(state("a", 5)), true),
            (Some(state("a", 5)), Some(state("b", 5)), true),
            (Some(state("a", 21)), Some(state("a", 5)), false),
            (Some(state("a", 5)), None, true),
            (Some(state("a", 21)), None, false),
            (None, Some(state("a", 5)), true),
        ];
        for (cached, listed, expected) in table {
            let found = suspects(cached.as_slice(), listed.as_slice());
            let is_suspicious = found.iter().any(|suspect| suspect.is_suspicious(cached.as_ref(), &"20".into()));
            assert_eq!(is_suspicious, expected, "{cached:?} {listed:?}");
        }
    }

    #[test]
    fn a_suspect_is_cleared_when_the_cache_has_the_listed_state_or_a_newer_one() {
        let missing = &suspects(&[], &[state("a", 15)])[0];
        let surplus = &suspects(&[state("a", 15)], &[])[0];
        let table = [
            (missing, Some(state("a", 15)), false),
            (missing, Some(state("a", 21)), false),
            (missing, None, true),
            (surplus, Some(state("b", 21)), false),
            (surplus, None, false),
        ];
        for (suspect, cached, is_suspicious) in table {
            assert_eq!(suspect.is_suspicious(cached.as_ref(), &"20".into()), is_suspicious, "{suspect:?} {cached:?}");
        }
    }

    #[test]
    fn a_suspect_is_wrong_only_if_the_cache_should_already_have_the_state_that_a_lookup_finds() {
        let missing = &suspects(&[], &[state("a", 15)])[0];
        let surplus = &suspects(&[state("a", 15)], &[])[0];
        let table = [
            (missing, None, Some(state("a", 15)), true),
            (missing, None, Some(state("a", 31)), false),
            (missing, None, None, false),
            (missing, Some(state("a", 9)), Some(state("a", 15)), true),
            (missing, Some(state("a", 9)), None, false),
            (surplus, Some(state("a", 15)), None, true),
            (surplus, Some(state("a", 15)), Some(state("a", 15)), false),
            (surplus, Some(state("a", 15)), Some(state("b", 25)), true),
            (surplus, Some(state("a", 15)), Some(state("b", 31)), false),
        ];
        for (suspect, cached, found, is_wrong) in table {
            let result = suspect.is_wrong(cached.as_ref(), &"30".into(), found.as_ref());
            assert_eq!(result, is_wrong, "{suspect:?} {cached:?} {found:?}");
        }
    }
}
