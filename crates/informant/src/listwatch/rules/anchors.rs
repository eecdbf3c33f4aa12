//! Selects the events that identify the history of a server.
//!
//! - **In:** the identity of each event and of the newest items of each list.
//! - **Out:** the events that the server is asked about after an outage.
//! - **Knows nothing of:** how the server is asked, and when.

use std::cmp::Ordering;

use crate::{
    ResourceVersion,
    object::{Identity, is_same_content},
};

/// One event that identifies the server's history: a write or deletion that gave this object this version.
#[derive(Debug, Clone)]
pub(crate) struct Anchor {
    pub(crate) identity: Identity,
    /// True if the event was the object's deletion. The version is then the version of the deletion.
    pub(crate) is_deleted: bool,
    /// A hash of the object's JSON; 0 if it is not known.
    digest: u32,
}

/// The newest events of a watch, or the newest items of a list.
///
/// If the server still has the newest event, it has all events before it too. The second anchor guards against chance: a restored
/// server may write the same object at the same version again.
#[derive(Debug, Default)]
pub(crate) struct Anchors {
    pub(crate) newest: Option<Anchor>,
    /// The newest write of another object.
    pub(crate) second: Option<Anchor>,
    /// The first write after the list. If one server mixes a lost history with the new one, another server has the newest events, but not this one.
    pub(crate) first: Option<Anchor>,
    /// The version of the list, if the anchors are items of a list; `None` once an event was observed.
    pub(crate) listed_at: Option<ResourceVersion>,
}

impl Anchors {
    /// Returns true if a server that has the newest anchor has everything that was received. A list shows no deletes, so deletes between its
    /// newest item and its version cannot be proven.
    pub(crate) fn are_complete(&self) -> bool {
        match (&self.newest, &self.listed_at) {
            (Some(newest), Some(listed_at)) => newest.identity.version == *listed_at,
            (Some(_), None) => true,
            (None, _) => false,
        }
    }

    /// Returns the version of the newest event; if there was none, of the list. A server that has everything up to this version has everything that was
    /// received.
    pub(crate) fn content(&self) -> Option<&ResourceVersion> {
        self.listed_at.as_ref().or(self.newest.as_ref().map(|newest| &newest.identity.version))
    }

    /// Stores an event of the watch, which is newer than all events before it.
    pub(crate) fn observe(&mut self, identity: Identity, digest: u32, is_deleted: bool) {
        if identity.uid.is_empty() || identity.version.is_empty() {
            return;
        }
        self.second.take_if(|second| second.identity.key == identity.key);
        let is_other = |before: &Anchor| !before.is_deleted && before.identity.key != identity.key;
        if let Some(before) = self.newest.take_if(|before| is_other(before)) {
            self.second = Some(before);
        }
        let newest = Anchor { identity, is_deleted, digest };
        if self.first.is_none() && !is_deleted {
            self.first = Some(newest.clone());
        }
        (self.newest, self.listed_at) = (Some(newest), None);
    }

    /// Stores an item of a list if it is one of the two newest. Skips items whose versions are not numbers.
    pub(crate) fn consider(&mut self, identity: &Identity, digest: u32) {
        if identity.uid.is_empty() || identity.version.compare(&identity.version).is_none() {
            return;
        }
        let is_newer = |than: &Option<Anchor>| {
            than.as_ref().is_none_or(|than| identity.version.compare(&than.identity.version) == Some(Ordering::Greater))
        };
        let anchor = || Anchor { identity: identity.clone(), is_deleted: false, digest };
        let is_same_object =
            |anchor: &Option<Anchor>| anchor.as_ref().is_some_and(|one| one.identity.key == identity.key);
        if is_newer(&self.newest) && is_same_object(&self.newest) {
            self.newest = Some(anchor());
        } else if is_newer(&self.newest) {
            self.second = self.newest.replace(anchor());
        } else if is_newer(&self.second) {
            self.second = Some(anchor());
        }
    }
}

impl Anchor {
    /// Returns true if the found state has the uid and version of the event.
    pub(crate) fn has_identity(&self, found: Option<&(Identity, u32)>) -> bool {
        found.is_some_and(|(identity, _)| *identity == self.identity)
    }

    /// Returns true if the found state has the same JSON as the event, or if one of the two is not known as JSON.
    pub(crate) fn has_content(&self, found: Option<&(Identity, u32)>) -> bool {
        found.is_some_and(|(_, digest)| is_same_content(*digest, self.digest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, Uid};

    fn identity(name: &str, version: &str) -> Identity {
        Identity { key: Key::cluster_scoped(name), uid: Uid::new(name), version: version.into() }
    }

    fn observe(anchors: &mut Anchors, name: &str, version: &str, is_deleted: bool) {
        anchors.observe(identity(name, version), 0, is_deleted);
    }

    fn shown(anchors: &Anchors) -> (Option<String>, Option<String>) {
        let show = |anchor: &Anchor| {
            let sign = if anchor.is_deleted { "-" } else { "" };
            format!("{sign}{}@{}", anchor.identity.key, anchor.identity.version)
        };
        (anchors.newest.as_ref().map(show), anchors.second.as_ref().map(show))
    }

    fn expected(newest: &str, second: &str) -> (Option<String>, Option<String>) {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        (some(newest), some(second))
    }

    #[test]
    fn the_anchors_are_the_newest_event_and_the_newest_write_of_another_object() {
        let mut anchors = Anchors::default();
        let table = [
            ("a", "1", false, "a@1", ""),
            ("a", "2", false, "a@2", ""),
            ("b", "3", false, "b@3", "a@2"),
            ("b", "4", false, "b@4", "a@2"),
            ("c", "5", true, "-c@5", "b@4"),
            ("d", "6", false, "d@6", "b@4"),
            ("b", "7", false, "b@7", "d@6"),
            ("d", "8", false, "d@8", "b@7"),
            ("b", "9", true, "-b@9", "d@8"),
        ];
        for (name, version, is_deleted, newest, second) in table {
            observe(&mut anchors, name, version, is_deleted);
            assert_eq!(shown(&anchors), expected(newest, second), "{name}@{version}");
        }
        assert_eq!(anchors.first.as_ref().unwrap().identity, identity("a", "1"));
    }

    #[test]
    fn after_a_list_the_anchors_are_its_two_newest_items() {
        let mut anchors = Anchors::default();
        for (name, version) in [("a", "9"), ("b", "100"), ("c", "20"), ("b", "101"), ("d", "v7"), ("e", "")] {
            anchors.consider(&identity(name, version), 0);
        }
        assert_eq!(shown(&anchors), expected("b@101", "c@20"));
    }

    #[test]
    fn an_anchor_is_recognised_by_uid_version_and_content() {
        let mut anchors = Anchors::default();
        anchors.observe(identity("a", "1"), 7, false);
        let anchor = anchors.newest.as_ref().unwrap();
        let table = [
            ("a", "1", 7, (true, true)),
            ("a", "1", 0, (true, true)),
            ("a", "1", 8, (true, false)),
            ("a", "2", 7, (false, true)),
            ("b", "1", 7, (false, true)),
        ];
        for (name, version, digest, expected) in table {
            let found = Some((identity(name, version), digest));
            let matches = (anchor.has_identity(found.as_ref()), anchor.has_content(found.as_ref()));
            assert_eq!(matches, expected, "{name}@{version} {digest}");
        }
        assert!(!anchor.has_identity(None));
    }

    #[test]
    fn anchors_of_a_list_are_complete_only_if_the_newest_item_has_the_version_of_the_list() {
        let mut anchors = Anchors { listed_at: Some("20".into()), ..Anchors::default() };
        assert!(!anchors.are_complete(), "an empty list");
        anchors.consider(&identity("a", "9"), 0);
        assert!(!anchors.are_complete(), "something may have been deleted at 15");
        anchors.consider(&identity("b", "20"), 0);
        assert!(anchors.are_complete());

        let mut anchors = Anchors { listed_at: Some("20".into()), ..Anchors::default() };
        assert_eq!(anchors.content(), Some(&"20".into()));
        observe(&mut anchors, "c", "25", true);
        assert!(anchors.are_complete(), "an event is newer than the list");
        assert_eq!(anchors.content(), Some(&"25".into()));
    }

    #[test]
    fn an_object_without_uid_or_version_is_not_an_anchor() {
        let mut anchors = Anchors::default();
        anchors.observe(Identity { uid: Uid::default(), ..identity("a", "1") }, 0, false);
        observe(&mut anchors, "a", "", false);
        anchors.consider(&Identity::of_key(Key::cluster_scoped("a")), 0);
        assert_eq!(shown(&anchors), (None, None));
    }
}
