//! Shared by property tests of the queue and of the informer: a server, a consumer's cache, and random steps.

use std::collections::{BTreeMap, BTreeSet};

use parking_lot::Mutex;
use proptest::{
    prelude::{Just, Strategy},
    prop_oneof,
};

use crate::{
    Cached, Deleted, Key, Uid,
    delta::{Change, Delta, Relist},
    object::Identity,
    queue::KnownObjects,
};

pub(crate) type Object = Cached<()>;

/// A random step. The names of objects are numbers. Impossible steps, such as the deletion of an object that does not exist, are skipped.
#[derive(Debug, Clone)]
pub(crate) enum Step {
    /// The server creates or updates an object, and the watch delivers the event.
    Put(u8),
    /// The server deletes an object, and the watch delivers the event.
    Delete(u8),
    /// As `Delete`, but the final state cannot be decoded.
    DeleteUnread(u8),
    /// The watch delivers the deletion of an object that never existed.
    DeleteUnknown(u8),
    /// The watch is down: objects are deleted, re-created or updated; some of the rest cannot be decoded. Then a relist.
    Relist {
        deleted: Vec<u8>,
        recreated: Vec<u8>,
        put: Vec<u8>,
        unreadable: Vec<u8>,
    },
    Resync,
    Bookmark,
    Pop,
    Drain,
    /// The consumer acknowledges a batch: the i-th of the open ones.
    Done(usize),
    /// The consumer processes some changes of each item of a batch, and requeues the others.
    Requeue(usize, usize),
    Close,
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = || 0..5_u8;
    let some = || proptest::collection::vec(0..5_u8, 0..3);
    let step = prop_oneof![
        6 => name().prop_map(Step::Put),
        3 => name().prop_map(Step::Delete),
        1 => name().prop_map(Step::DeleteUnread),
        1 => name().prop_map(Step::DeleteUnknown),
        3 => (some(), some(), some(), some()).prop_map(|(deleted, recreated, put, unreadable)| Step::Relist { deleted, recreated, put, unreadable }),
        1 => Just(Step::Resync),
        1 => Just(Step::Bookmark),
        3 => Just(Step::Pop),
        3 => Just(Step::Drain),
        6 => (0..3_usize).prop_map(Step::Done),
        2 => (0..3_usize, 0..3_usize).prop_map(|(batch, processed)| Step::Requeue(batch, processed)),
        1 => Just(Step::Close),
    ];
    proptest::collection::vec(step, 1..60)
}

/// The server: its objects and its version.
#[derive(Default)]
pub(crate) struct Server {
    pub(crate) objects: BTreeMap<u8, Object>,
    pub(crate) version: u64,
    /// The number of created incarnations.
    incarnations: u64,
    /// Objects whose newest state could not be decoded, so that the cache may have an older one.
    pub(crate) unreadable: BTreeSet<u8>,
}

impl Server {
    /// Runs a step of the server, and returns the change that the reflector pushes; `None` if the step is one of the consumer, or impossible.
    pub(crate) fn act(&mut self, step: &Step) -> Option<Change<()>> {
        match step {
            Step::Put(name) => {
                self.unreadable.remove(name);
                let is_new = !self.objects.contains_key(name);
                let object = self.put(*name);
                Some(if is_new { Delta::Added(object) } else { Delta::Updated(object) }.into())
            }
            Step::Delete(name) => {
                self.unreadable.remove(name);
                let last = self.objects.remove(name)?;
                Some(Delta::Deleted(Deleted::Observed(self.state(*name, last.uid().clone()))).into())
            }
            Step::DeleteUnread(name) => {
                self.unreadable.remove(name);
                self.objects.remove(name)?;
                self.version += 1;
                Some(Change::DeletedUnread { key: key(*name), version: Some(self.version.to_string().as_str().into()) })
            }
            Step::DeleteUnknown(name) => {
                let never_was = self.state(100 + name, Uid::new("never was"));
                Some(Delta::Deleted(Deleted::Observed(never_was)).into())
            }
            Step::Relist { deleted, recreated, put, unreadable } => {
                deleted.iter().chain(recreated).for_each(|name| drop(self.objects.remove(name)));
                recreated.iter().chain(put).for_each(|name| drop(self.put(*name)));
                self.unreadable = unreadable.iter().copied().filter(|name| self.objects.contains_key(name)).collect();
                Some(self.list().into())
            }
            Step::Resync
            | Step::Bookmark
            | Step::Pop
            | Step::Drain
            | Step::Done(_)
            | Step::Requeue(..)
            | Step::Close => None,
        }
    }

    /// Returns a list in which all objects can be decoded, if the last state of some object could not be.
    pub(crate) fn healing_list(&mut self) -> Option<Relist<()>> {
        if self.unreadable.is_empty() {
            return None;
        }
        self.unreadable.clear();
        Some(self.list())
    }

    fn put(&mut self, name: u8) -> Object {
        let uid = match self.objects.get(&name) {
            Some(object) => object.uid().clone(),
            None => {
                self.incarnations += 1;
                Uid::new(format!("u{}", self.incarnations))
            }
        };
        let object = self.state(name, uid);
        self.objects.insert(name, object.clone());
        object
    }

    fn state(&mut self, name: u8, uid: Uid) -> Object {
        self.version += 1;
        let identity = Identity { key: key(name), uid, version: self.version.to_string().as_str().into() };
        Cached::new(identity, ())
    }

    fn list(&mut self) -> Relist<()> {
        self.version += 1;
        let readable = self.objects.iter().filter(|(name, _)| !self.unreadable.contains(name));
        let unreadable = self.objects.iter().filter(|(name, _)| self.unreadable.contains(name));
        Relist {
            version: self.version.to_string().as_str().into(),
            objects: readable.map(|(_, object)| object.clone()).collect(),
            quarantined: unreadable.map(|(_, object)| (object.key().clone(), object.uid().clone())).collect(),
            history_changed: false,
        }
    }
}

/// The consumer's cache, which applies the processed changes.
#[derive(Default)]
pub(crate) struct Cache(Mutex<BTreeMap<Key, Object>>);

impl Cache {
    /// Applies a change, and checks that the versions of an object never go backwards (P2).
    pub(crate) fn apply(&self, delta: &Delta<()>) {
        let mut objects = self.0.lock();
        let (key, object) = (delta.key().clone(), delta.object().clone());
        if let Some(before) = objects.get(&key) {
            let order = before.version().compare(object.version()).unwrap();
            assert!(order.is_le(), "{delta:?} after {before:?}");
        }
        if delta.is_deleted() {
            objects.remove(&key)
        } else {
            objects.insert(key, object)
        };
    }

    pub(crate) fn objects(&self) -> Vec<Object> {
        self.0.lock().values().cloned().collect()
    }
}

impl KnownObjects<()> for Cache {
    fn get(&self, key: &Key) -> Option<Object> {
        self.0.lock().get(key).cloned()
    }

    fn list(&self) -> Vec<Object> {
        self.objects()
    }
}

pub(crate) fn key(name: u8) -> Key {
    Key::namespaced("n", &name.to_string())
}
