//! The queue that keeps every change in server order.
//!
//! This file is the shell: a lock and a wake-up around the rules of [`rules`].

#[cfg(test)]
mod model;
mod rules;

use std::num::NonZeroUsize;
use std::sync::Arc;

use self::rules::Item;
use self::rules::State;
use super::Answer;
use super::Closed;
use super::KnownObjects;
use super::Receipt;
use super::ReceiptQueue;
use super::receipt::sealed::Answers;
use super::receipt::sealed::Books;
use super::watched::Watched;
use crate::Cached;
use crate::Deleted;
use crate::Key;
use crate::Origin;
use crate::ResourceVersion;
use crate::delta::Change;
use crate::delta::Delta;
use crate::delta::Relist;

/// Keeps every change in server order; merges nothing and drops nothing.
///
/// By itself it is *atomic*: a relist and a resync are one change each, and whoever takes a relist finds out what it no
/// longer has. Given [known objects](InOrderFifoBuilder::known_objects) it does that itself, and queues one change for each
/// object.
///
/// Only one receipt is out at a time. A clone is another handle of the same queue.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use informant::{Cached, Key, delta::{Change, Delta}, object::Identity};
/// use informant::queue::InOrderFifo;
///
/// let fifo = InOrderFifo::new();
/// let (web, api) = (Key::namespaced("shop", "web"), Key::namespaced("shop", "api"));
/// for (key, content) in [(&web, "v1"), (&api, "v1"), (&web, "v2")] {
///     fifo.add(Cached::new(Identity::of_key(key.clone()), content));
/// }
///
/// // A batch has each object once; so the second change of `web` comes with the next one.
/// let receipt = fifo.drain().await.unwrap();
/// let keys: Vec<_> = receipt.items().iter().map(|taken| taken.change().key()).collect();
/// assert_eq!(keys, [Some(&web), Some(&api)]);
/// receipt.done();
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

/// One change, taken from the queue.
pub struct TakenChange<O> {
    item: Item<O>,
    origin: Origin,
}

struct Shared<O> {
    state: Watched<State<O>>,
    known: Option<Arc<dyn KnownObjects<O>>>,
    name: Arc<str>,
}

impl<O> InOrderFifo<O> {
    /// An atomic queue, which is what informers use.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A queue with settings.
    pub fn builder() -> InOrderFifoBuilder<O> {
        let batch_size = const { NonZeroUsize::new(1000).expect("1000 is not zero") };
        InOrderFifoBuilder { known: None, batch_size, name: "in-order queue".into() }
    }

    /// Queues that an object was created.
    pub fn add(&self, object: Cached<O>) {
        self.update_state(|state, _| state.push_delta(Delta::Added(object)));
    }

    /// Queues an added object whose version does not count as [reached](Self::reached), because objects arrive in no order.
    pub fn add_unordered(&self, object: Cached<O>) {
        self.update_state(|state, _| state.push_unordered(Delta::Added(object)));
    }

    /// Queues that an object was changed.
    pub fn update(&self, object: Cached<O>) {
        self.update_state(|state, _| state.push_delta(Delta::Updated(object)));
    }

    /// Queues that an object is gone, known or not.
    pub fn delete(&self, deleted: Deleted<O>) {
        self.update_state(|state, _| state.push_delta(Delta::Deleted(deleted)));
    }

    /// Queues that an object is gone whose final state could not be read: as [`Change::Lost`], or with known objects as
    /// [`Deleted::Missed`].
    pub fn delete_unread(&self, key: &Key, version: Option<ResourceVersion>) {
        self.update_state(|state, known| state.lose(key, version, known));
    }

    /// Queues the server's complete picture: as one [`Change::ReplacedAll`], or with known objects first a
    /// [`Deleted::Missed`] for everything that it no longer has, then each listed object.
    pub fn replace(&self, relist: Relist<O>) {
        self.update_state(|state, known| state.replace(relist, known));
    }

    /// Queues that handlers shall hear of everything again: as one [`Change::SyncAll`], or with known objects one
    /// [`Delta::Sync`] for each that neither waits nor is in flight.
    pub fn resync(&self) {
        self.update_state(|state, known| state.resync(known));
    }

    /// Queues a version that came without a change.
    pub fn bookmark(&self, version: ResourceVersion) {
        self.update_state(|state, _| state.bookmark(version));
    }

    /// Ends the waiting of consumers, once everything was taken and answered. Changes are still accepted.
    pub fn close(&self) {
        self.update_state(|state, _| state.close());
    }

    /// Waits while a receipt is out and two more batches wait behind it.
    ///
    /// A producer that calls this before it reads the next change does not outrun a consumer that is at work; no lock is
    /// held meanwhile. Without a consumer there is nothing to wait for, and the queue grows.
    ///
    /// Cancel safe.
    pub async fn room(&self) {
        self.shared.state.wait_for(|state| (!state.is_full()).then_some(())).await;
    }

    /// Takes the oldest change, waiting for one if there is none, and for the receipt that is out.
    ///
    /// Cancel safe: a dropped call takes nothing.
    ///
    /// # Errors
    ///
    /// [`Closed`], once the queue is closed and empty.
    pub async fn pop(&self) -> Result<Receipt<Self>, Closed> {
        self.shared.state.wait_for(|state| self.take(state, 1).transpose()).await
    }

    /// Takes a batch, waiting for something if there is nothing, and for the receipt that is out.
    ///
    /// A batch has each object once at most, is of the initial list or not as a whole, and what concerns all objects
    /// comes by itself.
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

    /// Whether the first list was processed: all of it was taken and answered. If the first change was not a list, there
    /// is nothing to wait for.
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

    /// The version that the consumer has reached: everything that was pushed up to it is done.
    pub fn reached(&self) -> Option<ResourceVersion> {
        self.shared.state.with(|state| state.reached().cloned())
    }

    /// How many changes wait.
    pub fn len(&self) -> usize {
        self.shared.state.with(|state| state.len())
    }

    /// Whether no change waits.
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
    /// Consults the consumer's cache and queues one change for each object instead of one for all. Default: none.
    pub fn known_objects(mut self, known: Arc<dyn KnownObjects<O>>) -> Self {
        self.known = Some(known);
        self
    }

    /// How many changes a batch has at most. Default: 1000.
    pub fn batch_size(mut self, size: NonZeroUsize) -> Self {
        self.batch_size = size;
        self
    }

    /// Names the queue in logs. Default: "in-order queue".
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Makes the queue.
    pub fn build(self) -> InOrderFifo<O> {
        let state = Watched::new(State::new(self.batch_size));
        InOrderFifo { shared: Arc::new(Shared { state, known: self.known, name: self.name }) }
    }
}

impl<O> TakenChange<O> {
    /// What happened.
    pub fn change(&self) -> &Change<O> {
        &self.item.change
    }

    /// Whether it belongs to the initial list.
    pub fn origin(&self) -> Origin {
        self.origin
    }
}

impl<O> ReceiptQueue for InOrderFifo<O> {}

impl<O> Books for InOrderFifo<O> {
    type Taken = TakenChange<O>;
    type Ticket = ();

    fn enter(&self, items: &mut Vec<TakenChange<O>>, answers: Answers, (): ()) -> usize {
        self.shared.state.update(|state| {
            let waited = state.len();
            state.answer(items, &answers);
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

impl<O> std::fmt::Debug for TakenChange<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TakenChange").field("change", self.change()).field("origin", &self.origin).finish()
    }
}

impl<O> std::fmt::Debug for InOrderFifo<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InOrderFifo").field("name", &self.shared.name).field("len", &self.len()).finish()
    }
}
