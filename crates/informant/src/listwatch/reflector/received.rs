//! The objects of a list that is being received. They are passed to the destination when the list is complete.
//!
//! - **In:** decoded items of a list, or events of a streamed list.
//! - **Out:** a relist, and the quarantined objects.
//! - **Knows nothing of:** requests, and what the version of a list means.

use std::sync::Arc;

use hashbrown::HashMap;

use super::super::{decoder::DecodeResult, quarantine::Entries, rules::anchors::Anchors};
use crate::{
    Cached, Key, ResourceVersion,
    delta::Relist,
    object::{DecodeError, Erased},
};

/// The received items of a list, in the order of the list.
#[derive(Default)]
pub(super) struct ReceivedList {
    pub(super) objects: Vec<Cached<Erased>>,
    quarantined: Entries,
    /// The version of the first page.
    pub(super) version: ResourceVersion,
    /// The number of received pages.
    pub(super) pages: usize,
}

/// The received objects of a streamed list. Later events of the stream may change or delete them.
#[derive(Default)]
pub(super) struct ReceivedStream {
    /// True if any event was received.
    pub(super) has_events: bool,
    /// The objects in the order in which they were received; `None` for objects that were deleted meanwhile.
    objects: Vec<Option<Cached<Erased>>>,
    /// The position of each object in `objects`.
    positions: HashMap<Key, usize>,
    quarantined: Entries,
}

impl ReceivedList {
    pub(super) fn push(&mut self, decoded: DecodeResult) {
        match decoded {
            Ok(object) => {
                // An earlier item of the same key may have been quarantined.
                self.quarantined.remove(object.key());
                self.objects.push(object);
            }
            Err(bad) => {
                self.quarantined.add(*bad);
            }
        }
    }

    /// Returns the error of an item that is too damaged to determine its object, and may be readable in another list, if there is one.
    pub(super) fn damage(&self) -> Option<&Arc<DecodeError>> {
        self.quarantined.first_transient().map(|bad| &bad.error)
    }

    pub(super) fn anchors(&self) -> Anchors {
        let mut anchors = Anchors { listed_at: Some(self.version.clone()), ..Anchors::default() };
        self.objects.iter().for_each(|object| anchors.consider(object.identity(), object.digest()));
        anchors
    }

    /// Converts the items into a relist, and the quarantined objects.
    pub(super) fn into_relist(self, history_changed: bool) -> (Relist<Erased>, Entries) {
        let Self { mut objects, quarantined, version, pages: _ } = self;
        objects.shrink_to_fit();
        (Relist { version, objects, quarantined: quarantined.names(), history_changed }, quarantined)
    }
}

impl ReceivedStream {
    /// Stores an added or changed object. Returns true if it is new.
    pub(super) fn upsert(&mut self, decoded: DecodeResult) -> bool {
        match decoded {
            Ok(object) => {
                self.quarantined.remove(object.key());
                let place = *self.positions.entry_ref(object.key()).or_insert(self.objects.len());
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
            // The last state that could be decoded stays, as in the cache.
            Err(quarantined) => self.quarantined.add(*quarantined).0,
        }
    }

    /// Removes a deleted object.
    pub(super) fn remove(&mut self, key: &Key) {
        if let Some(gone) = self.positions.remove(key).and_then(|place| self.objects.get_mut(place)) {
            *gone = None;
        }
        self.quarantined.remove(key);
    }

    pub(super) fn len(&self) -> usize {
        self.positions.len()
    }

    pub(super) fn into_list(self, version: ResourceVersion) -> ReceivedList {
        let objects = self.objects.into_iter().flatten().collect();
        ReceivedList { objects, quarantined: self.quarantined, version, pages: 1 }
    }
}
