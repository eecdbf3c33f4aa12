//! The queue that groups changes by object.
//!
//! - **In:** changes of objects, lists, bookmarks, resync requests.
//! - **Out:** receipts with all waiting changes of one or more objects.
//! - **Knows nothing of:** how changes are grouped and ordered: this file adds locking and waiting to the logic in [`rules`].

#[cfg(test)]
mod model;
mod rules;
mod version_tracker;

use std::sync::Arc;

use self::rules::{State, VersionRef};
use super::{
    Closed, ItemOutcome, KnownObjects, Receipt, ReceiptQueue,
    receipt::sealed::{Outcomes, ReceiptOwner},
    watched::Watched,
};
use crate::{
    Cached, Deleted, Key, Origin, ResourceVersion,
    delta::{Delta, Deltas, Relist},
    slots::Slot,
};

/// A queue that groups changes by object. It hands out the longest-waiting object first, with all its waiting changes as one item.
///
/// An object that changes while it is in flight goes to the end of the queue when its receipt is acknowledged or requeued.
///
/// Cheap to clone; all clones are the same queue.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use informant::{Cached, Key, object::Identity};
/// use informant::queue::DeltaFifo;
///
/// let fifo = DeltaFifo::new();
/// let web = Identity::of_key(Key::namespaced("shop", "web"));
/// fifo.add(Cached::new(web.clone(), "v1"));
/// fifo.update(Cached::new(web, "v2"));
///
/// // Both changes arrive together: one item for each object, not for each change.
/// let receipt = fifo.pop().await.unwrap();
/// assert_eq!(receipt.items().len(), 1);
/// assert_eq!(receipt.items()[0].deltas().len(), 2);
/// receipt.acknowledge();
/// # }
/// ```
pub struct DeltaFifo<O> {
    shared: Arc<Shared<O>>,
}

/// Settings of a [`DeltaFifo`].
pub struct DeltaFifoBuilder<O> {
    known: Option<Arc<dyn KnownObjects<O>>>,
    emits_replaced: bool,
    name: Arc<str>,
}

/// All changes of one object that waited in a [`DeltaFifo`]: an item of its [`Receipt`]s.
pub struct ObjectChanges<O> {
    /// The queue's entry of the object while it is in flight.
    slot: Slot,
    deltas: Deltas<O>,
    origin: Origin,
}

struct Shared<O> {
    state: Watched<State<O>>,
    known: Option<Arc<dyn KnownObjects<O>>>,
    name: Arc<str>,
}

impl<O> DeltaFifo<O> {
    /// Creates a queue without [known objects](DeltaFifoBuilder::known_objects).
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder for a queue.
    pub fn builder() -> DeltaFifoBuilder<O> {
        DeltaFifoBuilder { known: None, emits_replaced: true, name: "delta queue".into() }
    }

    /// Queues an added object.
    pub fn add(&self, object: Cached<O>) {
        self.update_state(|state, _| state.upsert(Delta::Added(object)));
    }

    /// Queues an added object whose version does not count as [reached](Self::reached), because objects arrive in no order.
    pub fn add_unordered(&self, object: Cached<O>) {
        self.update_state(|state, _| state.push_unordered(Delta::Added(object)));
    }

    /// Queues a changed object.
    pub fn update(&self, object: Cached<O>) {
        self.update_state(|state, _| state.upsert(Delta::Updated(object)));
    }

    /// Queues the deletion of an object.
    ///
    /// If neither the queue nor the cache has the object, no delete is queued; only the reached version advances.
    pub fn delete(&self, deleted: Deleted<O>) {
        self.update_state(|state, known| state.delete(deleted, known));
    }

    /// Queues the deletion of an object whose final state could not be decoded: as [`Deleted::Missed`], with the newest state
    /// that waits, is in flight or is known.
    pub fn delete_unread(&self, key: &Key, version: Option<ResourceVersion>) {
        self.update_state(|state, known| state.delete_unread(key, version, known));
    }

    /// Queues a relist: each listed object, then a [`Deleted::Missed`] for every other object that waits, is in flight or is known.
    ///
    /// The consumer receives the list's version even if the list changes no object.
    pub fn replace(&self, relist: &Relist<O>) {
        self.update_state(|state, known| state.replace(relist, known));
    }

    /// Queues every known object once more as [`Delta::Sync`], except for those that wait or are in flight.
    pub fn resync(&self) {
        self.update_state(|state, known| {
            if let Some(known) = known {
                state.resync(known);
            }
        });
    }

    /// Queues deltas of an object, unless the object waits or is in flight already. Returns true if it queued them. Their versions do not count as
    /// [reached](Self::reached).
    pub fn add_if_not_present(&self, deltas: Deltas<O>) -> bool {
        self.update_state(|state, _| state.add_if_not_present(deltas))
    }

    /// Queues a bookmark: all changes up to this version have been queued.
    pub fn bookmark(&self, version: ResourceVersion) {
        self.update_state(|state, _| state.bookmark(version));
    }

    /// Closes the queue: consumers receive the remaining changes, then [`Closed`]. Further changes are still accepted.
    pub fn close(&self) {
        self.update_state(|state, _| state.close());
    }

    /// Takes the longest-waiting object, waiting for one if there is none.
    ///
    /// The receipt has no items if only the version changed.
    ///
    /// Cancel safe: a dropped call takes nothing.
    ///
    /// # Errors
    ///
    /// [`Closed`], once the queue is closed and empty.
    pub async fn pop(&self) -> Result<Receipt<Self>, Closed> {
        self.shared.state.wait_for(|state| self.take(state, 1).transpose()).await
    }

    /// Takes all waiting objects, waiting for one if there is none.
    ///
    /// Cancel safe: a dropped call takes nothing.
    ///
    /// # Errors
    ///
    /// [`Closed`], once the queue is closed and empty.
    pub async fn drain(&self) -> Result<Receipt<Self>, Closed> {
        self.shared.state.wait_for(|state| self.take(state, usize::MAX).transpose()).await
    }

    /// As [`pop`](Self::pop), without waiting.
    ///
    /// # Errors
    ///
    /// [`Closed`], once the queue is closed and empty.
    pub fn try_pop(&self) -> Result<Option<Receipt<Self>>, Closed> {
        self.shared.state.with(|state| self.take(state, 1))
    }

    /// As [`drain`](Self::drain), without waiting.
    ///
    /// # Errors
    ///
    /// [`Closed`], once the queue is closed and empty.
    pub fn try_drain(&self) -> Result<Option<Receipt<Self>>, Closed> {
        self.shared.state.with(|state| self.take(state, usize::MAX))
    }

    /// Returns true once every object of the first list has been taken and acknowledged. If the first change was not a list, it
    /// returns true at once.
    pub fn is_synced(&self) -> bool {
        self.shared.state.with(|state| state.is_synced())
    }

    /// Waits until [`is_synced`](Self::is_synced).
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// [`Closed`], if the queue is closed and empty before that.
    pub async fn synced(&self) -> Result<(), Closed> {
        let outcome = |state: &mut State<O>| match state.is_synced() {
            true => Some(Ok(())),
            false => state.is_exhausted().then_some(Err(Closed)),
        };
        self.shared.state.wait_for(outcome).await
    }

    /// Returns the version that the consumer has reached: all changes up to it have been acknowledged.
    pub fn reached(&self) -> Option<ResourceVersion> {
        self.shared.state.with(|state| state.reached().cloned())
    }

    /// Returns how many objects can be taken now: those with waiting changes that are not in flight.
    pub fn len(&self) -> usize {
        self.shared.state.with(|state| state.len())
    }

    /// Returns true if no object can be taken now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the keys of objects with waiting changes, in pop order; objects that are also in flight come last.
    pub fn waiting_keys(&self) -> Vec<Key> {
        self.shared.state.with(|state| state.waiting_keys())
    }

    /// Returns the waiting changes of an object, without those in flight.
    pub fn waiting(&self, key: &Key) -> Option<Deltas<O>> {
        self.shared.state.with(|state| state.waiting(key))
    }

    fn update_state<R>(&self, change: impl FnOnce(&mut State<O>, Option<&dyn KnownObjects<O>>) -> R) -> R {
        self.shared.state.update(|state| change(state, self.shared.known.as_deref()))
    }

    fn take(&self, state: &mut State<O>, at_most: usize) -> Result<Option<Receipt<Self>>, Closed> {
        match state.take(at_most) {
            Some(batch) => Ok(Some(Receipt::new(self.clone(), batch))),
            None if state.is_exhausted() => Err(Closed),
            None => Ok(None),
        }
    }
}

impl<O> Receipt<DeltaFifo<O>> {
    /// Makes one receipt for each object, so that they can be acknowledged at different times.
    ///
    /// ```
    /// # use informant::{Cached, Key, object::Identity};
    /// # use informant::queue::DeltaFifo;
    /// # let fifo = DeltaFifo::new();
    /// # fifo.add(Cached::new(Identity::of_key(Key::cluster_scoped("a")), ()));
    /// # fifo.add(Cached::new(Identity::of_key(Key::cluster_scoped("b")), ()));
    /// let mut receipts = fifo.try_drain().unwrap().unwrap().split();
    /// receipts.remove(0).requeue();
    ///
    /// assert_eq!(receipts[0].items()[0].key(), &Key::cluster_scoped("b"));
    /// assert_eq!(fifo.waiting_keys(), [Key::cluster_scoped("a")]);
    /// ```
    pub fn split(mut self) -> Vec<Self> {
        let items = self.take_items();
        items.into_iter().map(|item| self.of_one(item)).collect()
    }
}

impl<O> DeltaFifoBuilder<O> {
    /// Sets the consumer's cache: a relist then also deletes objects that only the cache has, and a resync replays the cache.
    /// Default: none.
    pub fn known_objects(mut self, known: Arc<dyn KnownObjects<O>>) -> Self {
        self.known = Some(known);
        self
    }

    /// Sets whether listed objects are queued as [`Delta::Replaced`]; otherwise as [`Delta::Sync`], like those of a resync.
    /// Default: true.
    pub fn emit_replaced(mut self, emits_replaced: bool) -> Self {
        self.emits_replaced = emits_replaced;
        self
    }

    /// Names the queue in logs. Default: "delta queue".
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Creates the queue.
    pub fn build(self) -> DeltaFifo<O> {
        let state = Watched::new(State::new(self.emits_replaced));
        DeltaFifo { shared: Arc::new(Shared { state, known: self.known, name: self.name }) }
    }
}

impl<O> ObjectChanges<O> {
    /// Returns the key of the object.
    pub fn key(&self) -> &Key {
        self.deltas.key()
    }

    /// Returns the object's changes, oldest first.
    pub fn deltas(&self) -> &Deltas<O> {
        &self.deltas
    }

    /// Returns whether the changes belong to the initial list.
    pub fn origin(&self) -> Origin {
        self.origin
    }
}

impl<O> ReceiptQueue for DeltaFifo<O> {}

impl<O> ReceiptOwner for DeltaFifo<O> {
    type Taken = ObjectChanges<O>;
    type PendingVersions = Vec<VersionRef>;

    fn settle_items(
        &self,
        items: &mut Vec<ObjectChanges<O>>,
        outcomes: Outcomes,
        pending_versions: Vec<VersionRef>,
    ) -> usize {
        self.shared.state.update(|state| {
            let waited = state.len();
            state.settle(items, &outcomes, &pending_versions);
            waited
        })
    }

    fn name(&self) -> &str {
        &self.shared.name
    }
}

impl<O> Default for DeltaFifo<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O> Clone for DeltaFifo<O> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<O> std::fmt::Debug for ObjectChanges<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { slot: _, deltas, origin } = self;
        f.debug_struct("ObjectChanges").field("deltas", deltas).field("origin", origin).finish()
    }
}

impl<O> std::fmt::Debug for DeltaFifo<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeltaFifo").field("name", &self.shared.name).field("len", &self.len()).finish()
    }
}
