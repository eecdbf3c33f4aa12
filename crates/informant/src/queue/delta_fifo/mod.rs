//! The queue that groups changes by object.
//!
//! This file is the shell: a lock and a wake-up around the rules of [`rules`].

mod marks;
#[cfg(test)]
mod model;
mod rules;

use std::sync::Arc;

use self::rules::Hold;
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
use crate::delta::Delta;
use crate::delta::Deltas;
use crate::delta::Relist;
use crate::slots::Slot;

/// Groups changes by object and hands out the longest-waiting object first: one item is all that happened to one object.
///
/// An object that changes while it is in flight goes to the end of the line when its receipt is answered.
///
/// A clone is another handle of the same queue.
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
/// receipt.done();
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

/// All that waited of one object.
pub struct Taken<O> {
    /// Where the queue has it while it is in flight.
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
    /// A queue that knows no objects but those that pass through it.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A queue with settings.
    pub fn builder() -> DeltaFifoBuilder<O> {
        DeltaFifoBuilder { known: None, emits_replaced: true, name: "delta queue".into() }
    }

    /// Queues that an object was created.
    pub fn add(&self, object: Cached<O>) {
        self.update_state(|state, _| state.upsert(Delta::Added(object)));
    }

    /// Queues an added object whose version does not count as [reached](Self::reached), because objects arrive in no order.
    pub fn add_unordered(&self, object: Cached<O>) {
        self.update_state(|state, _| state.push_unordered(Delta::Added(object)));
    }

    /// Queues that an object was changed.
    pub fn update(&self, object: Cached<O>) {
        self.update_state(|state, _| state.upsert(Delta::Updated(object)));
    }

    /// Queues that an object is gone.
    ///
    /// If it neither waits nor is in flight nor known, nobody has to hear of it, and only its version is told.
    pub fn delete(&self, deleted: Deleted<O>) {
        self.update_state(|state, known| state.delete(deleted, known));
    }

    /// Queues that an object is gone whose final state could not be read: as [`Deleted::Missed`], with the newest state
    /// that waits, is in flight or is known.
    pub fn delete_unread(&self, key: &Key, version: Option<ResourceVersion>) {
        self.update_state(|state, known| state.lose(key, version, known));
    }

    /// Queues the server's complete picture: each listed object, then a [`Deleted::Missed`] for everything else that waits,
    /// is in flight or is known.
    ///
    /// The consumer is told the list's version even if there is no delta to hand out.
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

    /// Queues deltas of an object, unless it waits or is in flight already; says whether it did. For what is put back: it
    /// tells no version.
    pub fn add_if_not_present(&self, deltas: Deltas<O>) -> bool {
        self.update_state(|state, _| state.add_if_not_present(deltas))
    }

    /// Tells the consumer a version that came without a change.
    pub fn bookmark(&self, version: ResourceVersion) {
        self.update_state(|state, _| state.bookmark(version));
    }

    /// Ends the waiting of consumers, once everything was taken and answered. Changes are still accepted.
    pub fn close(&self) {
        self.update_state(|state, _| state.close());
    }

    /// Takes the longest-waiting object, waiting for one if there is none.
    ///
    /// The receipt is empty if there are only versions to tell.
    ///
    /// Cancel safe: a dropped call takes nothing.
    ///
    /// # Errors
    ///
    /// [`Closed`], once the queue is closed and empty.
    pub async fn pop(&self) -> Result<Receipt<Self>, Closed> {
        self.shared.state.wait_for(|state| self.take(state, 1).transpose()).await
    }

    /// Takes everything that waits, waiting for something if there is nothing.
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

    /// How many objects can be taken now: those with changes, none of which is in flight.
    pub fn len(&self) -> usize {
        self.shared.state.with(|state| state.len())
    }

    /// Whether no object can be taken now.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The objects that have waiting changes, in pop order; those that are in flight as well come last.
    pub fn waiting_keys(&self) -> Vec<Key> {
        self.shared.state.with(|state| state.waiting_keys())
    }

    /// The waiting changes of an object. What is in flight is not among them.
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
    /// Makes one receipt for each object, so that they can be answered at different times.
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
    /// Consults the consumer's cache: a list then also deletes what only the cache has, and a resync replays it.
    /// Default: none.
    pub fn known_objects(mut self, known: Arc<dyn KnownObjects<O>>) -> Self {
        self.known = Some(known);
        self
    }

    /// Whether the objects of a list come as [`Delta::Replaced`], or as [`Delta::Sync`] like those of a resync.
    /// Default: yes.
    pub fn emit_replaced(mut self, emits_replaced: bool) -> Self {
        self.emits_replaced = emits_replaced;
        self
    }

    /// Names the queue in logs. Default: "delta queue".
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Makes the queue.
    pub fn build(self) -> DeltaFifo<O> {
        let state = Watched::new(State::new(self.emits_replaced));
        DeltaFifo { shared: Arc::new(Shared { state, known: self.known, name: self.name }) }
    }
}

impl<O> Taken<O> {
    /// The object.
    pub fn key(&self) -> &Key {
        self.deltas.key()
    }

    /// What happened to it, oldest first.
    pub fn deltas(&self) -> &Deltas<O> {
        &self.deltas
    }

    /// Whether it belongs to the initial list.
    pub fn origin(&self) -> Origin {
        self.origin
    }
}

impl<O> ReceiptQueue for DeltaFifo<O> {}

impl<O> Books for DeltaFifo<O> {
    type Taken = Taken<O>;
    type Ticket = Vec<Hold>;

    fn enter(&self, items: &mut Vec<Taken<O>>, answers: Answers, notices: Vec<Hold>) -> usize {
        self.shared.state.update(|state| {
            let waited = state.len();
            state.answer(items, &answers, &notices);
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

impl<O> std::fmt::Debug for Taken<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { slot: _, deltas, origin } = self;
        f.debug_struct("Taken").field("deltas", deltas).field("origin", origin).finish()
    }
}

impl<O> std::fmt::Debug for DeltaFifo<O> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DeltaFifo").field("name", &self.shared.name).field("len", &self.len()).finish()
    }
}
