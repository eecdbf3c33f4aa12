//! What a list has brought so far: nobody sees it before it is complete.

use std::sync::Arc;

use hashbrown::HashMap;

use super::super::decoder::DecodeResult;
use super::super::quarantine::Entries;
use super::super::rules::anchors::Anchors;
use crate::Cached;
use crate::Key;
use crate::ResourceVersion;
use crate::delta::Relist;
use crate::object::DecodeError;
use crate::object::Erased;

/// The items of a list, in its order.
pub(super) struct Collected {
    objects: Vec<Cached<Erased>>,
    quarantined: Entries,
}

/// The objects of a streamed list, which may still change while it comes.
pub(super) struct Snapshot {
    /// In the order in which they came; those that have gone meanwhile leave a gap.
    objects: Vec<Option<Cached<Erased>>>,
    places: HashMap<Key, usize>,
    quarantined: Entries,
}

impl Collected {
    pub(super) fn new() -> Self {
        Self { objects: Vec::new(), quarantined: Entries::default() }
    }

    pub(super) fn push(&mut self, taken: DecodeResult) {
        match taken {
            Ok(object) => {
                // It may be listed twice.
                self.quarantined.remove(object.key());
                self.objects.push(object);
            }
            Err(bad) => {
                self.quarantined.add(*bad);
            }
        }
    }

    /// What is wrong with an item that may be any object of ours.
    pub(super) fn damage(&self) -> Option<&Arc<DecodeError>> {
        self.quarantined.any_of_ours().map(|bad| &bad.error)
    }

    /// Those of which a good state is here, and no newer bad one.
    pub(super) fn not_quarantined(&self) -> impl Iterator<Item = &Cached<Erased>> {
        self.objects.iter().filter(|object| !self.quarantined.contains(object.key()))
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    /// The newest items, of a list of this version.
    pub(super) fn anchors(&self, version: &ResourceVersion) -> Anchors {
        let mut anchors = Anchors::of_list(version.clone());
        self.objects.iter().for_each(|object| anchors.consider(object.identity(), object.digest()));
        anchors
    }

    /// Changes each item.
    pub(super) fn for_each_mut(&mut self, change: impl FnMut(&mut Cached<Erased>)) {
        self.objects.iter_mut().for_each(change);
    }

    /// All of it, as a list of this version.
    pub(super) fn into_relist(self, version: ResourceVersion, history_changed: bool) -> (Relist<Erased>, Entries) {
        let Self { mut objects, quarantined } = self;
        objects.shrink_to_fit();
        (Relist { version, objects, quarantined: quarantined.names(), history_changed }, quarantined)
    }
}

impl Snapshot {
    pub(super) fn new() -> Self {
        Self { objects: Vec::new(), places: HashMap::new(), quarantined: Entries::default() }
    }

    /// An object is there, or has changed; says whether it is new.
    pub(super) fn upsert(&mut self, taken: DecodeResult) -> bool {
        match taken {
            Ok(object) => {
                self.quarantined.remove(object.key());
                let place = *self.places.entry_ref(object.key()).or_insert(self.objects.len());
                match self.objects.get_mut(place) {
                    Some(known) => {
                        *known = Some(object);
                        false
                    }
                    None => {
                        self.objects.push(Some(object));
                        true
                    }
                }
            }
            // The last state that could be read stays, as in the cache.
            Err(quarantined) => self.quarantined.add(*quarantined),
        }
    }

    /// An object is gone.
    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(gone) = self.places.remove(key).and_then(|place| self.objects.get_mut(place)) {
            *gone = None;
        }
        self.quarantined.remove(key);
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn into_collected(self) -> Collected {
        Collected { objects: self.objects.into_iter().flatten().collect(), quarantined: self.quarantined }
    }
}
