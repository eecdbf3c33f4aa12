//! All objects by kind, one version for the whole server, and a bounded history of changes.
//!
//! - **In:** valid objects.
//! - **Out:** the state at the current or an earlier version, and the changes after a version.
//! - **Knows nothing of:** requests, selectors, watch streams, clocks.

mod collection;
pub(crate) mod token;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use crate::{
    objects::{
        Key, Object,
        encoded::{Change, Encoded},
    },
    registry::kind::Kind,
};

pub(crate) use collection::{Collection, Event, HistoryLimits};

/// Identifies a collection. A kind that is removed and registered again gets another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CollectionId(u32);

/// The objects of all kinds.
pub(crate) struct Storage {
    /// The version of the last change. An empty server has version 1, since 0 means "any" in requests.
    version: u64,
    /// Lists and watches from earlier versions fail with 410.
    compacted: u64,
    /// How much history each collection keeps.
    limits: HistoryLimits,
    collections: HashMap<CollectionId, Collection>,
    next_collection: u32,
    /// The number of times that watches were cut, by a test or by a restore.
    cuts: u32,
}

/// All objects of a server at one version. Created by [`ApiServer::backup`](crate::ApiServer::backup).
///
/// ```
/// # fn main() -> Result<(), informant_apiserver::ApiError> {
/// # use informant_apiserver::ApiServer;
/// let server = ApiServer::new();
/// let backup = server.backup();
/// server.put("namespaces", serde_json::json!({"metadata": {"name": "shop"}}))?;
///
/// server.restore(&backup);
/// assert_eq!((server.version(), server.count("namespaces")?), (backup.version(), 0));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Backup {
    version: u64,
    /// By the path of the kind, so that the objects also fit a kind that was registered again.
    objects: HashMap<String, BTreeMap<Key, Arc<Encoded>>>,
}

impl Backup {
    /// Returns the server's version when the backup was made.
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

    /// Deletes all objects of a collection and ends it. Its watches receive the deletes and end; then the collection is dropped.
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

    /// Copies the objects of a collection to a new collection of another kind.
    pub(crate) fn copy_collection(
        &mut self,
        id: CollectionId,
        kind: Kind,
        convert: impl Fn(&Kind, Object) -> Object,
    ) -> CollectionId {
        let as_kind =
            |object: &Arc<Encoded>| Arc::new(Encoded::new(&kind, Change::Modified, &convert(&kind, object.decode())));
        let old = self.collections.get(&id).into_iter().flat_map(Collection::objects);
        let objects = old.map(|(key, object)| (key.clone(), as_kind(object))).collect();
        let copy = self.add_collection(kind);
        if let Some(collection) = self.collections.get_mut(&copy) {
            collection.restore(objects, self.version);
        }
        copy
    }

    /// Ends a collection whose objects were copied. Its watches end without deletes.
    pub(crate) fn close_collection(&mut self, id: CollectionId) {
        if let Some(collection) = self.collections.get_mut(&id) {
            collection.end();
        }
        self.forget_if_unused(id);
    }

    /// Stores a new state of an object, or deletes it, at the next version.
    pub(crate) fn write(&mut self, id: CollectionId, key: Key, change: Change, object: Object) -> Option<Arc<Encoded>> {
        let collection = self.collections.get_mut(&id).filter(|collection| !collection.has_ended())?;
        self.version += 1;
        Some(collection.write(self.version, key, change, object, self.limits))
    }

    /// Stores the object that was written last as another kind shows it, at the same version.
    pub(crate) fn write_view(
        &mut self,
        id: CollectionId,
        key: Key,
        change: Change,
        object: Object,
    ) -> Option<Arc<Encoded>> {
        let collection = self.collections.get_mut(&id).filter(|collection| !collection.has_ended())?;
        Some(collection.write(self.version, key, change, object, self.limits))
    }

    /// The oldest version that lists and watches of this collection can start from.
    pub(crate) fn oldest(&self, collection: &Collection) -> u64 {
        collection.forgotten().max(self.compacted)
    }

    /// Expires all versions before the current one. Open watches continue.
    pub(crate) fn compact(&mut self) {
        self.compacted = self.version;
    }

    pub(crate) fn backup(&self) -> Backup {
        let served = self.collections.values().filter(|collection| !collection.has_ended());
        let objects = served.map(|collection| (collection.kind().path(), collection.all().clone())).collect();
        Backup { version: self.version, objects }
    }

    /// Raises the version, if it is lower.
    pub(crate) fn skip_to(&mut self, version: u64) {
        // The limit leaves room for further versions, and clients that parse versions as i64 can read them.
        self.version = self.version.max(version.min(u64::MAX / 4));
    }

    /// Restores the objects and the version of a backup, drops all history and cuts all watches.
    pub(crate) fn restore(&mut self, backup: &Backup) {
        self.version = backup.version;
        self.compacted = self.compacted.min(backup.version);
        self.cut_all_watches();
        for collection in self.collections.values_mut().filter(|collection| !collection.has_ended()) {
            let objects = backup.objects.get(&collection.kind().path()).cloned().unwrap_or_default();
            collection.restore(objects, backup.version);
        }
    }

    /// Breaks all open watches of a collection and returns their number.
    pub(crate) fn cut_watches(&mut self, id: CollectionId) -> usize {
        self.cuts += 1;
        self.collections.get_mut(&id).map_or(0, |collection| {
            collection.last_cut = self.cuts;
            collection.watchers
        })
    }

    /// Breaks all open watches.
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
