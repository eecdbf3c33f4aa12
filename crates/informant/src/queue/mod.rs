//! Stage 2: changes wait here between the reflector and the cache.
//!
//! - **In:** [changes](Change) from the list-and-watch stage, in the server's order.
//! - **Out:** [batches](Batch) of changes. They are *in flight* until the consumer acknowledges or requeues them; the queue still counts them as
//!   its own meanwhile.
//! - **Knows nothing of:** HTTP, the store (except through [`KnownObjects`]), handlers.
//!
//! [`DeltaFifo`] groups changes by object: a consumer that falls behind receives all waiting changes of an object at once. The changes are numbered as they
//! arrive, so that a batch can also be read in [arrival order](Batch::in_arrival_order).
//!
//! This file adds a lock and wake-ups to `rules`, which turns changes into deltas of single objects. `items` holds the deltas until they are taken.

mod batch; // `Batch`: the changes that a consumer has taken
mod items; // the deltas of each object, and the queue of objects
#[cfg(test)]
pub(crate) mod model;
mod progress; // which version is reached, and whether the initial list is processed
mod rules; // changes into deltas, deltas into batches

use std::{fmt, sync::Arc};

use derive_where::derive_where;
use parking_lot::Mutex;
use tokio::sync::Notify;

pub use self::batch::{Batch, Closed, ItemOutcome, ObjectChanges};
use self::rules::Rules;
pub use crate::known::KnownObjects;
use crate::{
    Cached, Key, ResourceVersion,
    delta::{Change, Deltas},
};

/// Holds changes until a consumer takes them. Cheap to clone; all clones are the same queue.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use informant::{Cached, Identity, Key, pipeline::{Delta, DeltaFifo}};
///
/// let (web, api) = (Key::namespaced("shop", "web"), Key::namespaced("shop", "api"));
/// let queue = DeltaFifo::new();
/// for (key, content) in [(&web, "v1"), (&api, "v1"), (&web, "v2")] {
///     queue.push(Delta::Added(Cached::new(Identity::of_key(key.clone()), content)));
/// }
///
/// // A batch has each object once, with all its changes.
/// let batch = queue.drain().await.unwrap();
/// let items: Vec<_> = batch.items().iter().map(|item| (item.key(), item.deltas().len())).collect();
/// assert_eq!(items, [(&web, 2), (&api, 1)]);
/// batch.acknowledge();
/// # }
/// ```
#[doc(alias = "DeltaFIFO")]
#[derive_where(Clone)]
pub struct DeltaFifo<O> {
    shared: Arc<QueueState<O>>,
}

struct QueueState<O> {
    rules: Mutex<Rules<O>>,
    /// Notified after each change of `rules`.
    changed: Notify,
    known: Option<Arc<dyn KnownObjects<O>>>,
    name: Arc<str>,
}

/// Settings of a [`DeltaFifo`].
#[must_use = "a builder does nothing until `build` is called"]
pub struct DeltaFifoBuilder<O> {
    known: Option<Arc<dyn KnownObjects<O>>>,
    emits_replaced: bool,
    name: Arc<str>,
}

impl<O> DeltaFifo<O> {
    /// Creates a queue without [known objects](DeltaFifoBuilder::known_objects).
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder for a queue.
    pub fn builder() -> DeltaFifoBuilder<O> {
        DeltaFifoBuilder { known: None, emits_replaced: true, name: "queue".into() }
    }

    /// Queues a change.
    ///
    /// - [`Delta`](Change::Delta): a change of one object. A delete only advances the reached version if neither the queue nor the cache has the object.
    /// - [`Existing`](Change::Existing): an object whose version does not count as [reached](Self::reached).
    /// - [`DeletedUnread`](Change::DeletedUnread): becomes a missed delete with the newest state that waits, is in flight or is known. If there is none, only
    ///   the reached version advances.
    /// - [`Relist`](Change::Relist): becomes a delta for each listed object, and a missed delete for every other object that waits, is in flight or is known.
    ///   The consumer receives the list's version even if the list changes no object.
    /// - [`Bookmark`](Change::Bookmark): advances the reached version.
    /// - [`Resync`](Change::Resync): becomes a [`Delta::Sync`](crate::delta::Delta::Sync) for each known object that neither waits nor is in flight.
    pub fn push(&self, change: impl Into<Change<O>>) {
        let change = change.into();
        self.update(|rules| rules.push(change, self.shared.known.as_deref()));
    }

    /// Closes the queue: consumers receive the remaining changes, then [`Closed`]. Further changes are still accepted.
    pub fn close(&self) {
        self.update(|rules| rules.is_closed = true);
    }

    /// Takes the object that has waited longest, with its changes. Waits while there is none.
    ///
    /// The batch has no items if only the version changed.
    ///
    /// Cancel safe: a dropped call takes nothing.
    ///
    /// # Errors
    ///
    /// [`Closed`], once the queue is closed and empty.
    pub async fn pop(&self) -> Result<Batch<O>, Closed> {
        self.wait_for(|rules| self.take(rules, 1).transpose()).await
    }

    /// Takes all waiting objects. Waits while there is none.
    ///
    /// Cancel safe: a dropped call takes nothing.
    ///
    /// # Errors
    ///
    /// [`Closed`], once the queue is closed and empty.
    pub async fn drain(&self) -> Result<Batch<O>, Closed> {
        self.wait_for(|rules| self.take(rules, usize::MAX).transpose()).await
    }

    /// As [`pop`](Self::pop), without waiting.
    ///
    /// # Errors
    ///
    /// [`Closed`], once the queue is closed and empty.
    pub fn try_pop(&self) -> Result<Option<Batch<O>>, Closed> {
        self.read(|rules| self.take(rules, 1))
    }

    /// As [`drain`](Self::drain), without waiting.
    ///
    /// # Errors
    ///
    /// [`Closed`], once the queue is closed and empty.
    pub fn try_drain(&self) -> Result<Option<Batch<O>>, Closed> {
        self.read(|rules| self.take(rules, usize::MAX))
    }

    /// Returns true once every object of the first list has been taken, and acknowledged or requeued. If the first change was not a list, it
    /// returns true at once.
    pub fn is_synced(&self) -> bool {
        self.read(|rules| rules.progress.is_synced())
    }

    /// Waits until [`is_synced`](Self::is_synced).
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// [`Closed`], if the queue is closed and empty before that.
    pub async fn synced(&self) -> Result<(), Closed> {
        let outcome = |rules: &mut Rules<O>| match rules.progress.is_synced() {
            true => Some(Ok(())),
            false => rules.is_exhausted().then_some(Err(Closed)),
        };
        self.wait_for(outcome).await
    }

    /// Returns the version that the consumer has reached: all changes up to it have been acknowledged.
    pub fn reached(&self) -> Option<ResourceVersion> {
        self.read(|rules| rules.progress.reached().cloned())
    }

    /// Returns how many objects can be taken: those with waiting changes that are not in flight.
    pub fn len(&self) -> usize {
        self.read(|rules| rules.items.len())
    }

    /// Returns true if no object can be taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the keys of the objects with waiting changes, each once: first the objects that can be taken, in the
    /// order in which they are taken, then the objects that are also in flight.
    pub fn waiting_keys(&self) -> Vec<Key> {
        self.read(|rules| rules.items.waiting_keys().cloned().collect())
    }

    /// Returns the waiting changes of an object, without its changes in flight.
    pub fn waiting(&self, key: &Key) -> Option<Deltas<O>> {
        self.read(|rules| rules.items.waiting(key).cloned())
    }

    fn take(&self, rules: &mut Rules<O>, at_most: usize) -> Result<Option<Batch<O>>, Closed> {
        match rules.take(at_most) {
            Some(taken) => Ok(Some(Batch::new(self.clone(), taken))),
            None if rules.is_exhausted() => Err(Closed),
            None => Ok(None),
        }
    }

    /// Reads the rules, or makes a change that no task waits for.
    fn read<R>(&self, read: impl FnOnce(&mut Rules<O>) -> R) -> R {
        let (result, discarded) = self.with_lock(read);
        drop(discarded);
        result
    }

    /// Changes the rules and wakes all waiting tasks.
    fn update<R>(&self, change: impl FnOnce(&mut Rules<O>) -> R) -> R {
        let (result, discarded) = self.with_lock(change);
        self.shared.changed.notify_waiters();
        drop(discarded);
        result
    }

    /// Calls `act` while the lock is held. Also returns the objects that the call displaced. The caller drops them after the lock is released: their
    /// destructors are users' code, which may call the queue.
    fn with_lock<R>(&self, act: impl FnOnce(&mut Rules<O>) -> R) -> (R, Vec<Cached<O>>) {
        let mut rules = self.shared.rules.lock();
        let result = act(&mut rules);
        (result, rules.take_discarded())
    }

    /// Waits until `attempt` returns a result. It is called at once, and again after each update.
    ///
    /// Cancel safe: the result of `attempt` is returned without a further await.
    async fn wait_for<R>(&self, mut attempt: impl FnMut(&mut Rules<O>) -> Option<R>) -> R {
        if let Some(result) = self.read(&mut attempt) {
            return result;
        }
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            // Registers for the notification before the rules are read, so that an update in between is not missed.
            changed.as_mut().enable();
            if let Some(result) = self.read(&mut attempt) {
                return result;
            }
            changed.await;
        }
    }
}

impl<O> DeltaFifoBuilder<O> {
    /// Sets the consumer's cache: a relist then also deletes objects that only the cache has, and a resync replays the cache.
    /// Default: none.
    pub fn known_objects(mut self, known: Arc<dyn KnownObjects<O>>) -> Self {
        self.known = Some(known);
        self
    }

    /// Sets whether listed objects are queued as [`Delta::Replaced`](crate::delta::Delta::Replaced); otherwise as
    /// [`Delta::Sync`](crate::delta::Delta::Sync), like those of a resync. Default: true.
    pub fn emit_replaced(mut self, emits_replaced: bool) -> Self {
        self.emits_replaced = emits_replaced;
        self
    }

    /// Names the queue in logs. Default: "queue".
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Creates the queue.
    pub fn build(self) -> DeltaFifo<O> {
        let Self { known, emits_replaced, name } = self;
        let rules = Mutex::new(Rules::new(emits_replaced));
        DeltaFifo { shared: Arc::new(QueueState { rules, changed: Notify::new(), known, name }) }
    }
}

impl<O> Default for DeltaFifo<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O> fmt::Debug for DeltaFifo<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DeltaFifo").field("name", &self.shared.name).field("len", &self.len()).finish()
    }
}
