//! What the derivation of a map and its readers share.
//!
//! - **In:** commits and failures of the derivation.
//! - **Out:** the entries, and their changes for those who follow them.
//! - **Knows nothing of:** events and informers.

use std::{hash::Hash, sync::Arc, task::Waker};

use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::watch;

use super::{
    changes::{ChangeStream, Followers},
    entries::Commit,
    published::Published,
    watch::ChangeWatch,
};
use crate::{Key, ResourceVersion};

/// The state of one map: its entries, and those who follow them.
pub(super) struct MapState<K, V> {
    pub(super) name: Arc<str>,
    pub(super) published: Published<K, V>,
    /// Locked during a commit, so that a stream that joins misses no change and receives none twice.
    followers: Mutex<Followers<K, V>>,
    /// Wakes those who watch the map, at each change. The value tells whether the map has stopped.
    wake_ups: watch::Sender<bool>,
    /// Each task that calls a closure for the changes has a receiver.
    pub(super) closures: watch::Sender<()>,
    /// The objects at which the function panicked in their present state, by the position of their informer, and the message.
    pub(super) failures: Mutex<HashMap<(usize, Key), Arc<str>>>,
}

impl<K: Clone + Eq + Hash, V> MapState<K, V> {
    pub(super) fn new(name: Arc<str>, published: Published<K, V>) -> Self {
        Self {
            name,
            published,
            followers: Mutex::default(),
            wake_ups: watch::Sender::new(false),
            closures: watch::Sender::default(),
            failures: Mutex::default(),
        }
    }

    pub(super) fn commit(&self, commit: Commit<K, V>, versions: Arc<[ResourceVersion]>) {
        let Commit { writes, transitions } = commit;
        let mut followers = self.followers.lock();
        self.published.write(writes, &transitions, versions);
        if !transitions.is_empty() {
            let wakers = followers.push(&transitions);
            // A waker is code of an executor, which may open a stream.
            drop(followers);
            wakers.into_iter().for_each(Waker::wake);
            self.wake_ups.send_modify(|_| ());
        }
    }

    pub(super) fn stream(&self) -> ChangeStream<K, V> {
        let mut followers = self.followers.lock();
        followers.add(self.published.snapshot().iter().map(|(key, value)| (key, Arc::clone(value))))
    }

    pub(super) fn watch(&self) -> ChangeWatch {
        ChangeWatch::new(self.wake_ups.subscribe())
    }

    /// Ends all streams and watches.
    pub(super) fn close(&self) {
        let wakers = self.followers.lock().close();
        wakers.into_iter().for_each(Waker::wake);
        self.wake_ups.send_replace(true);
    }
}
