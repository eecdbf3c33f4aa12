//! The queue that keeps every change in server order.
//!
//! - **In:** changes of objects, lists, bookmarks, resync requests.
//! - **Out:** receipts with one batch of changes, in the order in which they were queued.
//! - **Knows nothing of:** how changes are grouped and ordered: this file adds locking and waiting to the logic in [`rules`].

#[cfg(test)]
mod model;
mod rules;

use std::{num::NonZeroUsize, sync::Arc};

use self::rules::{Item, State};
use super::{
    Closed, ItemOutcome, KnownObjects, Receipt, ReceiptQueue,
    receipt::sealed::{Outcomes, ReceiptOwner},
    watched::Watched,
};
use crate::{
    Cached, Deleted, Key, Origin, ResourceVersion,
    delta::{Delta, QueuedChange, Relist},
};

/// A queue that keeps every change in server order. It neither combines nor drops changes.
///
/// By default a relist and a resync are one change each, and the consumer finds the objects that a relist no longer has. With
/// [known objects](InOrderFifoBuilder::known_objects), the queue does that itself and queues one change for each object.
///
/// Only one receipt is in flight at a time. Cheap to clone; all clones are the same queue.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use informant::{Cached, Key, delta::{QueuedChange, Delta}, object::Identity};
/// use informant::queue::InOrderFifo;
///
/// let fifo = InOrderFifo::new();
/// let (web, api) = (Key::namespaced("shop", "web"), Key::namespaced("shop", "api"));
/// for (key, content) in [(&web, "v1"), (&api, "v1"), (&web, "v2")] {
///     fifo.add(Cached::new(Identity::of_key(key.clone()), content));
/// }
///
/// // A batch has each object at most once, so the second change of `web` is in the next batch.
/// let receipt = fifo.drain().await.unwrap();
/// let keys: Vec<_> = receipt.items().iter().map(|taken| taken.change().key()).collect();
/// assert_eq!(keys, [Some(&web), Some(&api)]);
/// receipt.acknowledge();
/// # }
/// ```
pub struct InOrderFifo<O> {
    shared: Arc<Shared<O>>,
}

/// Settings of an [`InOrderFifo`].
pub struct InOrderFifoBuilder<O> {
    known: Option<Arc<dyn KnownObjects<O>>>,
    batch_size: NonZeroUsize,
    name: Arc<str>,
}

/// One change that waited in an [`InOrderFifo`]: an item of its [`Receipt`]s.
pub struct InOrderChange<O> {
    item: Item<O>,
    origin: Origin,
}

struct Shared<O> {
    state: Watched<State<O>>,
    known: Option<Arc<dyn KnownObjects<O>>>,
    name: Arc<str>,
}

impl<O> InOrderFifo<O> {
    /// Creates a queue without [known objects](InOrderFifoBuilder::known_objects): a relist is one change. Informers use this one.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder for a queue.
    pub fn builder() -> InOrderFifoBuilder<O> {
        let batch_size = const { NonZeroUsize::new(1000).expect("1000 is not zero") };
        InOrderFifoBuilder { known: None, batch_size, name: "in-order queue".into() }
    }

    /// Queues an added object.
    pub fn add(&self, object: Cached<O>) {
        self.update_state(|state, _| state.push_delta(Delta::Added(object)));
    }

    /// Queues an added object whose version does not count as [reached](Self::reached), because objects arrive in no order.
    pub fn add_unordered(&self, object: Cached<O>) {
        self.update_state(|state, _| state.push_unordered(Delta::Added(object)));
    }

    /// Queues a changed object.
    pub fn update(&self, object: Cached<O>) {
        self.update_state(|state, _| state.push_delta(Delta::Updated(object)));
    }

    /// Queues the deletion of an object, whether it is known or not.
    pub fn delete(&self, deleted: Deleted<O>) {
        self.update_state(|state, _| state.push_delta(Delta::Deleted(deleted)));
    }

    /// Queues the deletion of an object whose final state could not be decoded: as [`QueuedChange::Lost`], or with known objects as
    /// [`Deleted::Missed`].
    pub fn delete_unread(&self, key: &Key, version: Option<ResourceVersion>) {
        self.update_state(|state, known| state.delete_unread(key, version, known));
    }

    /// Queues a relist: as one [`QueuedChange::ReplacedAll`]; or, with known objects, a [`Deleted::Missed`] for every object that the list no longer
    /// has, followed by each listed object.
    pub fn replace(&self, relist: Relist<O>) {
        self.update_state(|state, known| state.replace(relist, known));
    }

    /// Queues a resync: as one [`QueuedChange::SyncAll`]; or, with known objects, one [`Delta::Sync`] for each that neither waits nor is in flight.
    pub fn resync(&self) {
        self.update_state(|state, known| state.resync(known));
    }

    /// Queues a bookmark: all changes up to this version have been queued.
    pub fn bookmark(&self, version: ResourceVersion) {
        self.update_state(|state, _| state.bookmark(version));
    }

    /// Closes the queue: consumers receive the remaining changes, then [`Closed`]. Further changes are still accepted.
    pub fn close(&self) {
        self.update_state(|state, _| state.close());
    }

    /// Waits while a receipt is in flight and two more batches wait.
    ///
    /// A producer that awaits this before each change cannot get more than three batches ahead of the consumer. Without a receipt in flight it
    /// returns at once, and the queue grows without bound.
    ///
    /// Cancel safe.
    pub async fn room(&self) {
        self.shared.state.wait_for(|state| (!state.is_full()).then_some(())).await;
    }

    /// Takes the oldest change. Waits while there is none, and while another receipt is in flight.
    ///
    /// Cancel safe: a dropped call takes nothing.
    ///
    /// # Errors
    ///
    /// [`Closed`], once the queue is closed and empty.
    pub async fn pop(&self) -> Result<Receipt<Self>, Closed> {
        self.shared.state.wait_for(|state| self.take(state, 1).transpose()).await
    }

    /// Takes a batch. Waits while there is no change, and while another receipt is in flight.
    ///
    /// A batch contains each object at most once. Its changes belong either all to the initial list or none of them. A change that concerns all objects
    /// (relist, resync, bookmark) is a batch of its own.
    ///
    /// Cancel safe: a dropped call takes nothing.
    ///
    /// # Errors
    ///
    /// [`Closed`], once the queue is closed and empty.
    pub async fn drain(&self) -> Result<Receipt<Self>, Closed> {
        self.shared.state.wait_for(|state| self.take(state, state.batch_size()).transpose()).await
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
        self.shared.state.with(|state| self.take(state, state.batch_size()))
    }

    /// Returns true once the whole first list has been taken and acknowledged. If the first change was not a list, it returns true at once.
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

    /// Returns how many changes wait.
    pub fn len(&self) -> usize {
        self.shared.state.with(|state| state.len())
    }

    /// Returns true if no change waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn update_state<R>(&self, change: impl FnOnce(&mut State<O>, Option<&dyn KnownObjects<O>>) -> R) -> R {
        self.shared.state.update(|state| change(state, self.shared.known.as_deref()))
    }

    fn take(&self, state: &mut State<O>, at_most: usize) -> Result<Option<Receipt<Self>>, Closed> {
        match state.take(at_most, self.shared.known.is_some()) {
            Some(batch) => Ok(Some(Receipt::new(self.clone(), batch))),
            None if state.is_exhausted() => Err(Closed),
            None => Ok(None),
        }
    }
}

impl<O> InOrderFifoBuilder<O> {
    /// Sets the consumer's cache: relists and resyncs are then queued as one change for each object. Default: none.
    pub fn known_objects(mut self, known: Arc<dyn KnownObjects<O>>) -> Self {
        self.known = Some(known);
        self
    }

    /// Sets the largest number of changes in a batch. Default: 1000.
    pub fn batch_size(mut self, size: NonZeroUsize) -> Self {
        self.batch_size = size;
        self
    }

    /// Names the queue in logs. Default: "in-order queue".
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Creates the queue.
    pub fn build(self) -> InOrderFifo<O> {
        let state = Watched::new(State::new(self.batch_size));
        InOrderFifo { shared: Arc::new(Shared { state, known: self.known, name: self.name }) }
    }
}

impl<O> InOrderChange<O> {
    /// Returns the change.
    pub fn change(&self) -> &QueuedChange<O> {
        &self.item.change
    }

    /// Returns whether the change belongs to the initial list.
    pub fn origin(&self) -> Origin {
        self.origin
    }
}

impl<O> ReceiptQueue for InOrderFifo<O> {}

impl<O> ReceiptOwner for InOrderFifo<O> {
    type Taken = InOrderChange<O>;
    type PendingVersions = ();

    fn settle_items(&self, items: &mut Vec<InOrderChange<O>>, outcomes: Outcomes, (): ()) -> usize {
        self.shared.state.update(|state| {
            let waited = state.len();
            state.settle(items, &outcomes);
            waited
        })
    }

    fn name(&self) -> &str {
        &self.shared.name
    }
}

impl<O> Default for InOrderFifo<O> {
    fn default() -> Self {
        Self::new()
    }
}

impl<O> Clone for InOrderFifo<O> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<O> std::fmt::Debug for InOrderChange<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InOrderChange").field("change", self.change()).field("origin", &self.origin).finish()
    }
}

impl<O> std::fmt::Debug for InOrderFifo<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InOrderFifo").field("name", &self.shared.name).field("len", &self.len()).finish()
    }
}
