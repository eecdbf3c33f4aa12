//! [`DerivedMap`], the handle of a map.
//!
//! - **In:** keys.
//! - **Out:** values, snapshots, changes, and whether they are current.
//! - **Knows nothing of:** how entries are derived.

use std::{borrow::Borrow, fmt, hash::Hash, sync::Arc, time::Duration};

use derive_where::derive_where;
use tracing::error;

use super::{
    changes::{Change, ChangeStream},
    entries::{Holders, Table},
    published::DerivedSnapshot,
    state::MapState,
    watch::ChangeWatch,
};
use crate::{
    error::{StopError, SyncError, WaitError},
    informer::{self, AnyInformer, InformerStatus, Problem},
    panics,
    subscribers::Registration,
};

/// A map whose entries follow the objects of an informer or [`View`](crate::View); made by [`SharedInformer::derive`](crate::SharedInformer::derive).
///
/// Cheap to clone. Dropping the last clone stops the derivation; streams and watches of the map end then.
#[must_use = "the derivation stops when the last handle is dropped"]
#[derive_where(Clone)]
pub struct DerivedMap<K, V> {
    inner: Arc<Inner<K, V>>,
}

/// The state that all clones share. Dropping it stops the derivation.
struct Inner<K, V> {
    state: Arc<MapState<K, V>>,
    registration: Registration,
    informers: Vec<AnyInformer>,
}

impl<K: Clone + Eq + Hash, V> DerivedMap<K, V> {
    pub(super) fn new(state: Arc<MapState<K, V>>, registration: Registration, informers: Vec<AnyInformer>) -> Self {
        Self { inner: Arc::new(Inner { state, registration, informers }) }
    }

    /// The name of the map in logs and problems.
    pub fn name(&self) -> &Arc<str> {
        &self.inner.state.name
    }

    /// The value of a key. If several objects have the key, the value of the object that took it last, or the
    /// [preferred](super::Derive::prefer) one.
    pub fn get<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<Arc<V>>
    where
        K: Borrow<Q>,
    {
        self.inner.state.published.read(|table| Some(Arc::clone(table.get(key)?.winner())))
    }

    /// The values of a key, one for each object that has it: first the one that [`get`](Self::get) returns, then the others, beginning
    /// with that of the object that took the key last. Changes of the other values are in no stream and cause no wake-up; to follow each of them, make
    /// what distinguishes them a part of the key.
    ///
    /// A change of one value costs time in proportion to the number of values of its key. For thousands of them, an [index](crate::Index) is faster.
    pub fn get_all<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Vec<Arc<V>>
    where
        K: Borrow<Q>,
    {
        self.inner.state.published.read(|table| table.get(key).map_or_else(Vec::new, Holders::values))
    }

    /// The value of a key, also if it was removed a short time ago; see [`linger`](super::Derive::linger).
    pub fn get_lingering<Q: Eq + Hash + ?Sized>(&self, key: &Q) -> Option<Arc<V>>
    where
        K: Borrow<Q>,
    {
        self.inner.state.published.get_lingering(key)
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.inner.state.published.read(Table::len)
    }

    /// Whether the map has no entries. It has none before it is [synced](Self::synced).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All entries of this moment.
    pub fn snapshot(&self) -> DerivedSnapshot<K, V> {
        self.inner.state.published.snapshot()
    }

    /// The changes as a stream: first an [`Added`](Change::Added) for each entry, then what changes.
    pub fn stream(&self) -> ChangeStream<K, V> {
        self.inner.state.stream()
    }

    /// Wake-ups, for a program that reads the map again whenever it has changed.
    pub fn watch(&self) -> ChangeWatch {
        self.inner.state.watch()
    }

    /// Calls a closure with each change, in a task of the current runtime: first with an `Added` for each entry. If it panics, the panic is logged,
    /// and the closure is called with the next change. The calls end when the map stops, or when all its informers have stopped; `stop` waits for a running one. A closure that holds the map keeps it from being dropped.
    ///
    /// # Panics
    ///
    /// If called outside of a tokio runtime.
    pub fn on_change(&self, callback: impl FnMut(Change<K, V>) + Send + 'static)
    where
        K: Send + Sync + 'static,
        V: PartialEq + Send + Sync + 'static,
    {
        let (changes, name, closures) = (self.stream(), Arc::clone(self.name()), self.inner.state.closures.clone());
        let calls = async move {
            // When the task first runs: a runtime that is idle must not hold up the stop.
            let _running = closures.subscribe();
            // Moved, so that they are dropped before the stop returns.
            let (mut changes, mut callback) = (changes, callback);
            while let Some(change) = changes.next().await {
                if let Err(panic) = panics::catch(|| callback(change)) {
                    error!(map = &*name, error = panic, "a closure for the changes of a derived map panicked");
                }
            }
        };
        tokio::spawn(self.inner.registration.as_work(calls));
    }

    /// Waits until the map has the entries of all objects of the initial lists. Before, it has no entries at all, so an empty map means nothing.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// As for [`Registration::synced`].
    pub async fn synced(&self) -> Result<(), SyncError> {
        // A closure may be called before the registration is synced, and could not wait for it.
        if self.is_synced() { Ok(()) } else { self.inner.registration.synced().await }
    }

    /// As [`synced`](Self::synced), but waits no longer than this for the informers.
    ///
    /// # Errors
    ///
    /// As for `synced`; and if an informer is not synced by then, with the last failure of each such informer.
    pub async fn synced_within(&self, within: Duration) -> Result<(), SyncError> {
        informer::synced(&self.inner.informers, Some(within)).await?;
        self.synced().await
    }

    /// Whether the map is [synced](Self::synced).
    pub fn is_synced(&self) -> bool {
        self.inner.state.published.is_filled()
    }

    /// Waits until the map is synced and has all changes that are in the caches of its informers at the time of the call. After
    /// [`wait_for_write`](crate::SharedInformer::wait_for_write) it shows what the program has written.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// As for [`Registration::caught_up`].
    pub async fn caught_up(&self) -> Result<(), WaitError> {
        self.inner.registration.synced_and_caught_up().await
    }

    /// Whether the map is synced and has no [problems](Self::problems). Changes may still be on their way, as to every cache.
    pub fn is_fresh(&self) -> bool {
        self.is_synced() && self.problems().is_empty()
    }

    /// Why the map may be out of date: the problems of its informers, the objects at which its function panicked, or that it was stopped; empty if
    /// it is current.
    pub fn problems(&self) -> Vec<Problem> {
        let Inner { state, informers, registration } = &*self.inner;
        let of_informers = informers.iter().filter_map(|informer| InformerStatus::problem(&informer.status()));
        let failures = state.failures.lock();
        let own = failures.iter().next().map(|((_, key), panic)| Problem::NotDerived {
            map: Arc::clone(&state.name),
            objects: failures.len(),
            key: key.clone(),
            panic: Arc::clone(panic),
        });
        let mut problems: Vec<_> = of_informers.chain(own).collect();
        if problems.is_empty() && registration.is_removed_anywhere() {
            problems.push(Problem::MapStopped { map: Arc::clone(&state.name) });
        }
        problems
    }

    /// Stops the derivation, and waits until the function and the closures are not running any more. The map keeps its entries; streams and watches
    /// end. The informers go on.
    ///
    /// # Errors
    ///
    /// If called in the map's function or in one of its closures: they would wait for their own end. Also if closures of two maps stop each other's
    /// map: the second call fails.
    #[doc(alias = "shutdown")]
    pub async fn stop(&self) -> Result<(), StopError> {
        self.inner.registration.stop().await
    }
}

impl<K, V> Drop for Inner<K, V> {
    fn drop(&mut self) {
        self.registration.remove();
    }
}

impl<K: Clone + Eq + Hash, V> fmt::Debug for DerivedMap<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DerivedMap").field("name", self.name()).field("len", &self.len()).finish_non_exhaustive()
    }
}
