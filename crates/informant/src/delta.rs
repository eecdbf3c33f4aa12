//! The changes between source and cache: deltas of one object, and changes that concern all objects.
//!
//! - **In:** objects, from lists and watches.
//! - **Out:** [`Change`], which the reflector pushes into a queue; [`Delta`] and [`Deltas`], which the queue returns.
//! - **Knows nothing of:** queues, the cache.

use derive_where::derive_where;
use hashbrown::{HashMap, HashSet};
use smallvec::SmallVec;

use crate::{Cached, Deleted, Key, ResourceVersion, Uid, object::Erased};

/// One change of one object.
#[derive_where(Clone, Debug)]
pub enum Delta<O> {
    /// A watch event: the object was created.
    Added(Cached<O>),
    /// A watch event: the object was changed.
    Updated(Cached<O>),
    /// The object was deleted.
    Deleted(Deleted<O>),
    /// A relist contains the object, which may be new, changed or unchanged.
    Replaced(Cached<O>),
    /// A resync: the cached object is replayed to handlers.
    Sync(Cached<O>),
}

/// All waiting deltas of one object, oldest first; never empty.
#[derive_where(Clone, Debug)]
pub struct Deltas<O> {
    /// Each delta has the number of the change that it is part of. A queue numbers changes as they arrive; a relist is one change.
    ///
    /// INV-D1: not empty, and all of one key.
    deltas: SmallVec<[(u64, Delta<O>); 1]>,
}

/// A complete list of the source's objects at one version.
#[derive_where(Debug)]
pub struct Relist<O> {
    /// The version of the list.
    pub version: ResourceVersion,
    /// All objects that could be decoded, in list order.
    pub objects: Vec<Cached<O>>,
    /// Objects that exist but could not be decoded. A cached object with the same key and uid stays in the cache.
    pub quarantined: Vec<(Key, Uid)>,
    /// Whether the server's history changed before this list, for example because a backup was restored: older versions may
    /// not exist any more, or name other states.
    pub history_changed: bool,
}

/// A change on its way from the source to the cache: the input of a queue.
#[derive_where(Debug)]
pub enum Change<O> {
    /// A change of one object.
    Delta(Delta<O>),
    /// An object that existed before the watch began. The server sends such objects in no order, so the version of the object does not count as
    /// reached.
    Existing(Cached<O>),
    /// The object was deleted, and its final state could not be decoded. The queue turns this into a missed delete with the newest known state.
    DeletedUnread {
        /// The key of the object.
        key: Key,
        /// The version of the delete, if the event has one.
        version: Option<ResourceVersion>,
    },
    /// A complete list: all objects that exist at its version.
    Relist(Relist<O>),
    /// A bookmark: all changes up to this version were delivered.
    Bookmark(ResourceVersion),
    /// A resync request: all cached objects are replayed to handlers.
    Resync,
}

impl<O> Delta<O> {
    /// The object after this change; for a delete, its last state.
    pub fn object(&self) -> &Cached<O> {
        match self {
            Self::Added(object) | Self::Updated(object) | Self::Replaced(object) | Self::Sync(object) => object,
            Self::Deleted(deleted) => deleted.object(),
        }
    }

    pub(crate) fn into_object(self) -> Cached<O> {
        match self {
            Self::Added(object) | Self::Updated(object) | Self::Replaced(object) | Self::Sync(object) => object,
            Self::Deleted(Deleted::Observed(object) | Deleted::Missed { last_known: object }) => object,
        }
    }

    /// The key of the object that changed.
    pub fn key(&self) -> &Key {
        self.object().key()
    }

    /// Whether this change is a delete.
    pub fn is_deleted(&self) -> bool {
        matches!(self, Self::Deleted(_))
    }

    /// The version that is reached with this change. `None` for a missed delete, a relist and a resync, which have no version of their own.
    pub fn version(&self) -> Option<&ResourceVersion> {
        match self {
            Self::Added(object) | Self::Updated(object) | Self::Deleted(Deleted::Observed(object)) => {
                Some(object.version()).filter(|version| !version.is_empty())
            }
            Self::Deleted(Deleted::Missed { .. }) | Self::Replaced(_) | Self::Sync(_) => None,
        }
    }
}

impl Delta<Erased> {
    /// Restores the object type, as [`Cached::typed`] does.
    pub(crate) fn typed<O>(self) -> Delta<O> {
        match self {
            Self::Added(object) => Delta::Added(object.typed()),
            Self::Updated(object) => Delta::Updated(object.typed()),
            Self::Deleted(deleted) => Delta::Deleted(deleted.typed()),
            Self::Replaced(object) => Delta::Replaced(object.typed()),
            Self::Sync(object) => Delta::Sync(object.typed()),
        }
    }
}

impl<O> Deltas<O> {
    /// The key of the object that changed.
    pub fn key(&self) -> &Key {
        self.newest().key()
    }

    /// The newest change.
    pub fn newest(&self) -> &Delta<O> {
        &self.deltas.last().expect("INV-D1").1
    }

    /// The number of changes; at least one.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> usize {
        self.deltas.len()
    }

    /// The changes, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Delta<O>> + ExactSizeIterator {
        self.deltas.iter().map(|(_, delta)| delta)
    }

    /// The changes with their numbers, oldest first.
    pub(crate) fn numbered(&self) -> &[(u64, Delta<O>)] {
        &self.deltas
    }

    pub(crate) fn new(number: u64, delta: Delta<O>) -> Self {
        Self { deltas: SmallVec::from_buf([(number, delta)]) }
    }

    /// Clones of the changes after the first `skipped` ones; `None` if there are no more.
    pub(crate) fn rest(&self, skipped: usize) -> Option<Self> {
        let rest = &self.deltas[skipped.min(self.len())..];
        (!rest.is_empty()).then(|| Self { deltas: rest.iter().cloned().collect() })
    }

    /// Puts the deletes of `older` before these changes. Objects that are not needed any more are moved to `discarded`.
    pub(crate) fn put_after_deletes_of(self, older: Self, discarded: &mut Vec<Cached<O>>) -> Self {
        let deletes = older.deltas.into_iter().filter(|(_, delta)| delta.is_deleted());
        let mut deltas = deletes.chain(self.deltas);
        let (number, first) = deltas.next().expect("INV-D1");
        let mut all = Self::new(number, first);
        discarded.extend(deltas.filter_map(|(number, delta)| all.push(number, delta)));
        all
    }

    /// Appends a change. Two deletes of the same incarnation in a row become one, which has the number of the first: an observed delete
    /// replaces a missed delete. Returns the object of the delete that is not needed; dropping it runs users' code.
    pub(crate) fn push(&mut self, number: u64, delta: Delta<O>) -> Option<Cached<O>> {
        debug_assert_eq!(self.key(), delta.key(), "INV-D1");
        let (_, newest) = self.deltas.last_mut().expect("INV-D1");
        if let (Delta::Deleted(older), Delta::Deleted(newer)) = (&*newest, &delta)
            && older.may_be_same_incarnation(newer)
        {
            let superseded = match older {
                Deleted::Observed(_) => delta,
                Deleted::Missed { .. } => std::mem::replace(newest, delta),
            };
            return Some(superseded.into_object());
        }
        self.deltas.push((number, delta));
        None
    }
}

impl<O> Relist<O> {
    /// Returns a function that is true for objects that the server does not have any more: they are neither listed nor quarantined under the
    /// same uid.
    pub(crate) fn missing(&self) -> impl Fn(&Cached<O>) -> bool {
        let listed: HashSet<&Key> = self.objects.iter().map(Cached::key).collect();
        let quarantined: HashMap<&Key, &Uid> = self.quarantined.iter().map(|(key, uid)| (key, uid)).collect();
        move |object| {
            let is_quarantined =
                || quarantined.get(object.key()).is_some_and(|uid| object.identity().may_be_same_incarnation(uid));
            !listed.contains(object.key()) && !is_quarantined()
        }
    }

    /// Removes objects that are listed again later, and returns them.
    pub(crate) fn remove_duplicates(&mut self) -> Vec<Cached<O>> {
        let mut keys = HashSet::with_capacity(self.objects.len());
        if self.objects.iter().all(|object| keys.insert(object.key())) {
            return Vec::new();
        }
        drop(keys);
        let mut seen = HashSet::new();
        let newest_first = std::mem::take(&mut self.objects).into_iter().rev();
        let (kept, repeated): (Vec<_>, Vec<_>) = newest_first.partition(|object| seen.insert(object.key().clone()));
        self.objects = kept.into_iter().rev().collect();
        repeated
    }
}

impl Relist<Erased> {
    /// Restores the object type, as [`Cached::typed`] does.
    pub(crate) fn typed<O>(self) -> Relist<O> {
        let Self { version, objects, quarantined, history_changed } = self;
        Relist { version, objects: Cached::all_typed(objects), quarantined, history_changed }
    }
}

impl Change<Erased> {
    /// Restores the object type, as [`Cached::typed`] does.
    pub(crate) fn typed<O>(self) -> Change<O> {
        match self {
            Self::Delta(delta) => Change::Delta(delta.typed()),
            Self::Existing(object) => Change::Existing(object.typed()),
            Self::DeletedUnread { key, version } => Change::DeletedUnread { key, version },
            Self::Relist(relist) => Change::Relist(relist.typed()),
            Self::Bookmark(version) => Change::Bookmark(version),
            Self::Resync => Change::Resync,
        }
    }
}

impl<O> From<Delta<O>> for Change<O> {
    fn from(delta: Delta<O>) -> Self {
        Self::Delta(delta)
    }
}

impl<O> From<Relist<O>> for Change<O> {
    fn from(relist: Relist<O>) -> Self {
        Self::Relist(relist)
    }
}
