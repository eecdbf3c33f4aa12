//! The quarantine: objects that exist on the server but cannot be decoded or transformed, or are above the size limit.
//!
//! - **In:** items that failed, and the keys of objects that were read or deleted later.
//! - **Out:** the objects in quarantine, for status and users.
//! - **Knows nothing of:** why an item failed, beyond its error.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use bytes::Bytes;
use derive_where::derive_where;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::json;
use crate::{
    Key, ResourceVersion, Uid,
    object::{DecodeError, Identity},
};

/// An object that exists on the server but could not be decoded or transformed, or is above the size limit.
///
/// Its JSON has the key, uid, version, error and age in seconds, without the bytes of the object.
#[derive(Clone, serde::Serialize)]
#[derive_where(Debug)]
#[non_exhaustive]
pub struct Quarantined {
    /// The key; `None` if it could not be read.
    pub key: Option<Key>,
    /// The uid; empty if it could not be read.
    #[serde(serialize_with = "json::text")]
    pub uid: Uid,
    /// The version; empty if it could not be read.
    pub version: ResourceVersion,
    /// Why the object could not be decoded or transformed.
    #[serde(serialize_with = "json::error")]
    pub error: Arc<DecodeError>,
    /// The bytes of the object, for diagnosis. `None` if the source delivered a decoded object, if the object is above the size limit, or if
    /// all quarantined objects together exceed 1 MiB.
    #[serde(skip)]
    #[derive_where(skip(Debug))]
    pub json: Option<Bytes>,
    /// When the reflector received the object.
    #[serde(rename = "age_seconds", serialize_with = "json::age_of")]
    pub at: Instant,
}

/// Whether an item may be any object of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Damage {
    /// Its object is known, or it is not an object of the source.
    None,
    /// It may be any object, and may be readable if it is received again.
    Transient,
    /// It may be any object, and would be the same if it were received again: it is larger than the limit.
    Lasting,
}

/// The objects in quarantine now. Cheap to clone; all clones share one lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct Quarantine {
    shared: Arc<Mutex<Entries>>,
    /// False while no entry has a key, which is nearly always, so that a release needs no lock.
    has_keys: Arc<AtomicBool>,
}

/// Quarantined objects.
#[derive(Debug, Default)]
pub(crate) struct Entries {
    by_key: HashMap<Key, Quarantined>,
    /// Items without a readable key: only the last [`KEPT_NAMELESS`].
    nameless: VecDeque<Quarantined>,
    /// The size of all kept JSON.
    bytes: usize,
    /// The version at which an object last left the quarantine.
    released: Option<ResourceVersion>,
}

/// Upper bound on the JSON that is kept of all quarantined objects.
const KEPT_BYTES: usize = 1 << 20;
const KEPT_NAMELESS: usize = 16;

impl Quarantined {
    /// Creates an entry from the error, and the identity if it could be read.
    pub(super) fn new(error: DecodeError, identity: Option<&Identity>, json: Option<&[u8]>) -> Self {
        // An item of another kind is not the object that the source has under this name.
        let is_of_our_kind = !matches!(error, DecodeError::WrongType { .. });
        let named = error.key().filter(|_| is_of_our_kind);
        Self {
            key: identity.map(|identity| &identity.key).or(named).cloned(),
            uid: identity.map_or_else(Uid::default, |identity| identity.uid.clone()),
            version: identity.map_or_else(ResourceVersion::default, |identity| identity.version.clone()),
            error: Arc::new(error),
            // Copies the bytes: a slice would keep the whole chunk of the response in memory.
            json: json.filter(|json| json.len() <= KEPT_BYTES).map(Bytes::copy_from_slice),
            at: Instant::now(),
        }
    }

    /// Returns whether the item may be any object of the source: it is damaged so that its key cannot be read, or states another kind.
    /// An intact item without a name is not an object of the source.
    pub(super) fn damage(&self) -> Damage {
        match &*self.error {
            _ if self.key.is_some() => Damage::None,
            DecodeError::Syntax { .. }
            | DecodeError::DuplicateField { .. }
            | DecodeError::BadMetadata { .. }
            | DecodeError::WrongType { .. } => Damage::Transient,
            DecodeError::TooLarge { .. } => Damage::Lasting,
            DecodeError::NoName
            | DecodeError::Field { .. }
            | DecodeError::Damaged { .. }
            | DecodeError::Transform { .. }
            | DecodeError::Refused { .. } => Damage::None,
        }
    }

    fn size(&self) -> usize {
        self.json.as_ref().map_or(0, Bytes::len)
    }

    /// Returns true if both are the same state of the same object.
    fn is_same(&self, other: &Self) -> bool {
        self.uid == other.uid && self.version == other.version && self.error.to_string() == other.error.to_string()
    }
}

impl Quarantine {
    /// Quarantines an object. Returns true if its entry is new or changed.
    pub(super) fn add(&self, object: Quarantined) -> bool {
        self.has_keys.store(true, Ordering::Release);
        // The lock is released at the end of the statement, before the replaced entry is dropped: its error may come from a user's transform.
        let (is_news, _displaced) = self.shared.lock().add(object);
        is_news
    }

    /// Removes an object that was decoded, or deleted, at this version.
    pub(super) fn release(&self, key: &Key, version: &ResourceVersion) {
        if !self.has_keys.load(Ordering::Acquire) {
            return;
        }
        let mut entries = self.shared.lock();
        let released = entries.remove(key);
        if released.is_some() {
            entries.released = Some(version.clone());
        }
        self.has_keys.store(!entries.by_key.is_empty(), Ordering::Release);
        drop(entries);
        drop(released);
    }

    /// Returns the version at which an object last left the quarantine. A consumer that has not reached this version does not have
    /// the new state of that object.
    pub(crate) fn released_version(&self) -> Option<ResourceVersion> {
        self.shared.lock().released.clone()
    }

    /// Replaces all entries by the entries of a list. Returns the entries that are new or changed.
    pub(super) fn replace(&self, mut entries: Entries, version: &ResourceVersion) -> Vec<Quarantined> {
        let mut current = self.shared.lock();
        let was_any = !current.by_key.is_empty() || current.released.is_some();
        entries.released = was_any.then(|| version.clone());
        let old = std::mem::replace(&mut *current, entries);
        let listed: Vec<_> = current.iter().cloned().collect();
        self.has_keys.store(!current.by_key.is_empty(), Ordering::Release);
        drop(current);
        let is_news = |object: &Quarantined| match &object.key {
            Some(key) => old.by_key.get(key).is_none_or(|before| !before.is_same(object)),
            None => old.nameless.iter().all(|before| !before.is_same(object)),
        };
        listed.into_iter().filter(is_news).collect()
    }

    pub(crate) fn len(&self) -> usize {
        let entries = self.shared.lock();
        entries.by_key.len() + entries.nameless.len()
    }

    pub(crate) fn get(&self, key: &Key) -> Option<Quarantined> {
        self.shared.lock().by_key.get(key).cloned()
    }

    /// Returns all entries, those with keys first.
    pub(super) fn list(&self) -> Vec<Quarantined> {
        self.shared.lock().iter().cloned().collect()
    }
}

impl Entries {
    fn iter(&self) -> impl Iterator<Item = &Quarantined> {
        self.by_key.values().chain(&self.nameless)
    }

    /// Returns an entry that may be any object of the source, and may be readable if it is received again.
    pub(super) fn first_transient(&self) -> Option<&Quarantined> {
        self.nameless.iter().find(|bad| bad.damage() == Damage::Transient)
    }

    /// Returns key and uid of all entries with keys.
    pub(super) fn names(&self) -> Vec<(Key, Uid)> {
        self.by_key.iter().map(|(key, object)| (key.clone(), object.uid.clone())).collect()
    }

    /// Quarantines an object. Returns whether its entry is new or changed, and the replaced entry.
    pub(super) fn add(&mut self, mut object: Quarantined) -> (bool, Option<Quarantined>) {
        let Some(key) = object.key.clone() else {
            self.keep_bytes(&mut object);
            self.nameless.push_back(object);
            let oldest = (self.nameless.len() > KEPT_NAMELESS).then(|| self.nameless.pop_front()).flatten();
            self.bytes -= oldest.as_ref().map_or(0, Quarantined::size);
            return (true, oldest);
        };
        let before = self.remove(&key);
        let is_news = before.as_ref().is_none_or(|before| !before.is_same(&object));
        self.keep_bytes(&mut object);
        self.by_key.insert(key, object);
        (is_news, before)
    }

    pub(super) fn remove(&mut self, key: &Key) -> Option<Quarantined> {
        // Called for every item of a list; the quarantine is nearly always empty.
        if self.by_key.is_empty() {
            return None;
        }
        let removed = self.by_key.remove(key)?;
        self.bytes -= removed.size();
        Some(removed)
    }

    fn keep_bytes(&mut self, object: &mut Quarantined) {
        if self.bytes + object.size() > KEPT_BYTES {
            object.json = None;
        }
        self.bytes += object.size();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bad(name: &str, version: &str, bytes: usize) -> Quarantined {
        let identity = Identity { key: name.parse().unwrap(), uid: "u".into(), version: version.into() };
        Quarantined::new(DecodeError::NoName, Some(&identity), Some(&vec![b'x'; bytes]))
    }

    #[test]
    fn a_quarantined_state_is_reported_once() {
        let quarantine = Quarantine::default();
        assert!(quarantine.add(bad("a", "1", 5)));
        assert!(!quarantine.add(bad("a", "1", 5)));
        assert!(quarantine.add(bad("a", "2", 5)));

        let mut listed = Entries::default();
        listed.add(bad("a", "2", 5));
        listed.add(bad("b", "1", 5));
        let news = quarantine.replace(listed, &"9".into());

        assert_eq!(news.iter().map(|object| object.key.clone().unwrap().to_string()).collect::<Vec<_>>(), ["b"]);
        quarantine.release(&"a".parse().unwrap(), &"10".into());
        assert!(quarantine.replace(Entries::default(), &"11".into()).is_empty());
        assert!(quarantine.list().is_empty());
    }

    #[test]
    fn the_json_kept_in_quarantine_is_bounded_and_freed() {
        let quarantine = Quarantine::default();
        for number in 0..100 {
            quarantine.add(bad(&format!("o{number}"), "1", KEPT_BYTES / 10));
        }
        let kept = |quarantine: &Quarantine| quarantine.list().iter().filter(|object| object.json.is_some()).count();
        assert_eq!((quarantine.list().len(), kept(&quarantine)), (100, 10));

        for number in 0..100 {
            quarantine.release(&format!("o{number}").parse().unwrap(), &"5".into());
        }
        assert_eq!(quarantine.shared.lock().bytes, 0);
        for _ in 0..100 {
            quarantine.add(Quarantined::new(DecodeError::NoName, None, Some(b"{}")));
        }
        assert_eq!(quarantine.list().len(), KEPT_NAMELESS);
        assert_eq!(quarantine.shared.lock().bytes, 2 * KEPT_NAMELESS);
    }
}
