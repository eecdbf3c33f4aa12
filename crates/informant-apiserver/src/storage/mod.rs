//! All objects, by kind, with one version for the whole server and a bounded memory of what changed.
//!
//! - **In:** objects that the rules have settled.
//! - **Out:** the state now or at a remembered version, and the changes after a version.
//! - **Knows nothing of:** requests, selectors, watchers' streams, clocks.

mod collection;
pub(crate) mod token;

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::sync::Arc;

use crate::objects::Key;
use crate::objects::Object;
use crate::objects::encoded::Change;
use crate::objects::encoded::Encoded;
use crate::registry::kind::Kind;

pub(crate) use collection::Collection;
pub(crate) use collection::Event;
pub(crate) use collection::HistoryLimits;

/// The number of a collection. A kind that is removed and registered again gets another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CollectionId(u32);

/// The objects of all kinds.
pub(crate) struct Storage {
    /// The version of the last change; the first is above 1, since 0 means "any" and 1 is that of the empty server.
    version: u64,
    /// No list or watch may begin before this version any more.
    compacted: u64,
    /// How much history each collection keeps.
    limits: HistoryLimits,
    collections: HashMap<CollectionId, Collection>,
    next_collection: u32,
    /// How many times watches were cut, by a test or by a restore.
    cuts: u32,
}

/// The state of all objects at one moment, for [`ApiServer::restore`](crate::ApiServer::restore).
#[derive(Clone)]
pub struct Backup {
    version: u64,
    /// By the path of the kind, so that it also fits a kind that was registered again.
    objects: HashMap<String, BTreeMap<Key, Arc<Encoded>>>,
}

impl Backup {
    /// The server's version at that moment.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The objects of a kind.
    pub(crate) fn objects_of(&self, kind: &Kind) -> impl Iterator<Item = &Arc<Encoded>> {
        self.objects.get(&kind.path()).into_iter().flat_map(BTreeMap::values)
    }
}

impl std::fmt::Debug for Backup {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Backup").field("version", &self.version).finish_non_exhaustive()
    }
}

impl Storage {
    pub(crate) fn new(limits: HistoryLimits) -> Self {
        Self { version: 1, compacted: 0, limits, collections: HashMap::new(), next_collection: 0, cuts: 0 }
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    pub(crate) fn cuts(&self) -> u32 {
        self.cuts
    }

    pub(crate) fn add_collection(&mut self, kind: Kind) -> CollectionId {
        let id = CollectionId(self.next_collection);
        self.next_collection += 1;
        self.collections.insert(id, Collection::new(kind, self.version));
        id
    }

    pub(crate) fn collection(&self, id: CollectionId) -> Option<&Collection> {
        self.collections.get(&id)
    }

    /// Deletes all objects of a collection and ends it: watches hear of the deletes and end, then it is forgotten.
    pub(crate) fn end_collection(&mut self, id: CollectionId) {
        let Some(collection) = self.collections.get_mut(&id) else { return };
        let all = collection.objects().map(|(key, object)| (key.clone(), object.decode())).collect::<Vec<_>>();
        for (key, object) in all {
            self.version += 1;
            collection.write(self.version, key, Change::Deleted, object, HistoryLimits::NONE);
        }
        collection.end();
        self.forget_if_unused(id);
    }

    /// Goes on with the objects of a collection as another kind, in a new one: watches of the old one end.
    pub(crate) fn move_collection(&mut self, id: CollectionId, kind: Kind) -> CollectionId {
        let as_kind = |object: &Arc<Encoded>| Arc::new(Encoded::new(&kind, Change::Modified, &object.decode()));
        let objects = match self.collections.get_mut(&id) {
            Some(old) => {
                old.end();
                old.objects().map(|(key, object)| (key.clone(), as_kind(object))).collect()
            }
            None => BTreeMap::new(),
        };
        let moved = self.add_collection(kind);
        if let Some(collection) = self.collections.get_mut(&moved) {
            collection.restore(objects, self.version);
        }
        self.forget_if_unused(id);
        moved
    }

    /// Stores a new state of an object, or its end, under the next version.
    pub(crate) fn write(&mut self, id: CollectionId, key: Key, change: Change, object: Object) -> Option<Arc<Encoded>> {
        let collection = self.collections.get_mut(&id).filter(|collection| !collection.has_ended())?;
        self.version += 1;
        Some(collection.write(self.version, key, change, object, self.limits))
    }

    /// Stores the other form of the object that was written last, under the same version.
    pub(crate) fn write_view(&mut self, id: CollectionId, key: Key, change: Change, object: Object) {
        if let Some(collection) = self.collections.get_mut(&id).filter(|collection| !collection.has_ended()) {
            collection.write(self.version, key, change, object, self.limits);
        }
    }

    /// The oldest version that a list or watch of this collection may begin with.
    pub(crate) fn oldest(&self, collection: &Collection) -> u64 {
        collection.forgotten().max(self.compacted)
    }

    /// From now on nothing older than the present can be asked for. Watches that are open go on.
    pub(crate) fn compact(&mut self) {
        self.compacted = self.version;
    }

    pub(crate) fn backup(&self) -> Backup {
        let served = self.collections.values().filter(|collection| !collection.has_ended());
        let objects = served.map(|collection| (collection.kind().path(), collection.all().clone())).collect();
        Backup { version: self.version, objects }
    }

    /// Goes on from this version, if it is a later one.
    pub(crate) fn skip_to(&mut self, version: u64) {
        // Versions stay numbers that every client can hold, with room for those to come.
        self.version = self.version.max(version.min(u64::MAX / 4));
    }

    /// Goes to the state of the backup, its version included, and forgets all history.
    pub(crate) fn restore(&mut self, backup: &Backup) {
        self.version = backup.version;
        self.compacted = self.compacted.min(backup.version);
        self.cut_all_watches();
        for collection in self.collections.values_mut().filter(|collection| !collection.has_ended()) {
            let objects = backup.objects.get(&collection.kind().path()).cloned().unwrap_or_default();
            collection.restore(objects, backup.version);
        }
    }

    /// Ends all open watches of a collection, as a broken connection does, and counts them.
    pub(crate) fn cut_watches(&mut self, id: CollectionId) -> usize {
        self.cuts += 1;
        self.collections.get_mut(&id).map_or(0, |collection| {
            collection.last_cut = self.cuts;
            collection.watchers
        })
    }

    /// Ends all open watches, as a broken connection does.
    pub(crate) fn cut_all_watches(&mut self) {
        self.cuts += 1;
        for collection in self.collections.values_mut() {
            collection.last_cut = self.cuts;
        }
    }

    pub(crate) fn watcher_came(&mut self, id: CollectionId) {
        if let Some(collection) = self.collections.get_mut(&id) {
            collection.watchers += 1;
        }
    }

    pub(crate) fn watcher_left(&mut self, id: CollectionId) {
        if let Some(collection) = self.collections.get_mut(&id) {
            collection.watchers -= 1;
            self.forget_if_unused(id);
        }
    }

    fn forget_if_unused(&mut self, id: CollectionId) {
        if self.collections.get(&id).is_some_and(|collection| collection.has_ended() && collection.watchers == 0) {
            self.collections.remove(&id);
        }
    }
}
