//! The entries that were removed a short time ago, which linger.
//!
//! - **In:** the transitions of each commit.
//! - **Out:** removed entries, for some time.
//! - **Knows nothing of:** the current entries.

use std::{borrow::Borrow, collections::VecDeque, hash::Hash, sync::Arc, time::Duration};

use derive_where::derive_where;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::entries::Transition;

/// Entries that were removed a short time ago.
pub(super) struct LingeringEntries<K, V> {
    /// For how long they are kept.
    time: Duration,
    at_most: usize,
    state: Mutex<State<K, V>>,
}

#[derive_where(Default)]
struct State<K, V> {
    by_key: HashMap<K, (Instant, Arc<V>)>,
    /// The keys in the order of their removal, each with its time. A key that was removed twice is here twice.
    removals: VecDeque<(Instant, K)>,
}

impl<K: Clone + Eq + Hash, V> LingeringEntries<K, V> {
    /// Keeps up to `at_most` entries, each for this time.
    pub(super) fn new(time: Duration, at_most: usize) -> Self {
        Self { time, at_most, state: Mutex::default() }
    }

    /// Keeps the entries that these transitions remove, and drops those whose time is over.
    pub(super) fn keep_removed(&self, transitions: &[(K, Transition<V>)]) {
        if self.time.is_zero() {
            return;
        }
        let State { by_key, removals } = &mut *self.state.lock();
        let now = Instant::now();
        let removed = transitions.iter().filter(|(_, transition)| transition.after.is_none());
        for (key, last) in removed.filter_map(|(key, transition)| Some((key, transition.before.as_ref()?))) {
            by_key.insert(key.clone(), (now, Arc::clone(last)));
            removals.push_back((now, key.clone()));
        }
        while let Some((removed_at, _)) = removals.front()
            && (now - *removed_at >= self.time || removals.len() > self.at_most)
            && let Some((removed_at, key)) = removals.pop_front()
        {
            // The key may have been removed again since.
            if by_key.get(&key).is_some_and(|(last, _)| *last == removed_at) {
                by_key.remove(&key);
            }
        }
    }

    pub(super) fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<Arc<V>>
    where
        K: Borrow<Q>,
    {
        let state = self.state.lock();
        let (removed_at, value) = state.by_key.get(key)?;
        (removed_at.elapsed() < self.time).then(|| Arc::clone(value))
    }
}
