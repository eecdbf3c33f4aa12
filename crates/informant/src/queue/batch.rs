//! A batch: the changes that a consumer has taken and now processes.
//!
//! - **In:** changes that were taken from a queue.
//! - **Out:** acknowledged or requeued changes, back to the same queue.
//! - **Knows nothing of:** what processing means.

use std::fmt;

use derive_where::derive_where;
use tokio::time::{Duration, Instant};

use super::{DeltaFifo, progress::ChangeRef, rules::BatchContent};
use crate::{
    Key, Origin, ResourceVersion,
    delta::{Delta, Deltas},
    slots::Slot,
};

/// Changes that were taken from a [`DeltaFifo`], until the consumer [acknowledges](Self::acknowledge) or [requeues](Self::requeue) them.
///
/// They are *in flight* meanwhile: deletes, relists and resyncs take them into account, and the queue does not hand out newer changes of the same
/// objects. The queue's lock is not held while they are processed.
///
/// A batch that is dropped, because its consumer panicked or was cancelled, is requeued.
///
/// ```
/// use informant::{Cached, Identity, Key, pipeline::{Delta, DeltaFifo, ItemOutcome}};
///
/// let queue = DeltaFifo::new();
/// for name in ["a", "b"] {
///     queue.push(Delta::Added(Cached::new(Identity::of_key(Key::cluster_scoped(name)), ())));
/// }
///
/// let batch = queue.try_drain().unwrap().unwrap();
/// assert_eq!(batch.items().len(), 2);
/// batch.settle(|item| match item.key().name() {
///     "a" => ItemOutcome::Done,
///     _ => ItemOutcome::Requeue { processed: 0 },
/// });
///
/// assert_eq!(queue.waiting_keys(), [Key::cluster_scoped("b")]);
/// ```
#[must_use = "a batch that is not acknowledged is requeued"]
pub struct Batch<O> {
    queue: DeltaFifo<O>,
    taken: BatchContent<O>,
    taken_at: Instant,
    is_settled: bool,
}

/// All changes of one object in a [`Batch`].
#[derive_where(Debug)]
pub struct ObjectChanges<O> {
    pub(super) deltas: Deltas<O>,
    pub(super) origin: Origin,
    #[derive_where(skip(Debug))]
    pub(super) change: ChangeRef,
    /// The place of the object in the queue.
    #[derive_where(skip(Debug))]
    pub(super) slot: Slot,
}

/// The outcome of processing one item of a [`Batch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemOutcome {
    /// The item was processed.
    Done,
    /// The item, or a part of it, was not processed and goes back to the queue.
    Requeue {
        /// How many of its changes, counted from the oldest, were processed. They do not go back to the queue.
        processed: usize,
    },
}

/// The queue was closed, and is empty: no change waits, and none is in flight that could be requeued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the queue was closed, and all its changes have been processed")]
pub struct Closed;

impl<O> Batch<O> {
    pub(super) fn new(queue: DeltaFifo<O>, taken: BatchContent<O>) -> Self {
        Self { queue, taken, taken_at: Instant::now(), is_settled: false }
    }

    /// Returns the taken objects with their changes. Empty if the queue only has a new [`version`](Self::version).
    pub fn items(&self) -> &[ObjectChanges<O>] {
        &self.taken.items
    }

    /// Returns the changes of all objects in the order in which the queue received them. Of a relist, the deletes come first.
    ///
    /// ```
    /// use informant::{Cached, Identity, pipeline::{Delta, DeltaFifo}};
    ///
    /// let queue = DeltaFifo::new();
    /// for (key, version) in [("a", 1), ("b", 2), ("a", 3)] {
    ///     queue.push(Delta::Updated(Cached::new(Identity::new(key, "u1", version), ())));
    /// }
    ///
    /// let batch = queue.try_drain().unwrap().unwrap();
    /// let versions: Vec<_> = batch.in_arrival_order().iter().map(|delta| delta.object().version().to_string()).collect();
    /// assert_eq!(versions, ["1", "2", "3"]);
    /// # batch.acknowledge();
    /// ```
    pub fn in_arrival_order(&self) -> Vec<&Delta<O>> {
        let mut deltas: Vec<_> = self.items().iter().flat_map(|item| item.deltas.numbered()).collect();
        deltas.sort_by_key(|(number, delta)| (*number, !delta.is_deleted()));
        deltas.into_iter().map(|(_, delta)| delta).collect()
    }

    /// Returns the version that the consumer has reached once this batch is acknowledged, if it is a new one.
    ///
    /// `None` while other batches of the same queue are in flight, because the version then depends on them. A later batch, which may be empty,
    /// carries it.
    pub fn version(&self) -> Option<&ResourceVersion> {
        self.taken.version.as_ref()
    }

    /// Returns true if the batch contains a relist [of a changed history](crate::delta::Relist::history_changed). If the relist is
    /// requeued, the next batch that contains it returns true as well.
    pub fn history_changed(&self) -> bool {
        self.taken.history_changed
    }

    /// Reports that all items were processed.
    pub fn acknowledge(mut self) {
        self.settle_items(&|_| ItemOutcome::Done, ItemOutcome::Done);
    }

    /// Acknowledges everything. Returns the items, so that a caller that holds a lock can drop them after releasing it, and how many items wait.
    pub(crate) fn acknowledge_returning_items(mut self) -> (Vec<ObjectChanges<O>>, usize) {
        let waiting = self.settle_items(&|_| ItemOutcome::Done, ItemOutcome::Done);
        (std::mem::take(&mut self.taken.items), waiting)
    }

    /// Returns all items to the queue. If the batch is empty, returns its version to the queue.
    pub fn requeue(self) {
        drop(self);
    }

    /// Acknowledges or requeues each item by itself, all in one step.
    pub fn settle(mut self, outcome: impl FnMut(&ObjectChanges<O>) -> ItemOutcome) {
        let outcomes: Vec<_> = self.items().iter().map(outcome).collect();
        self.settle_items(&|position| outcomes[position], ItemOutcome::Done);
    }

    /// `pending` is the outcome of the change that belongs to no item. Returns how many items wait afterwards.
    fn settle_items(&mut self, outcome: &dyn Fn(usize) -> ItemOutcome, pending: ItemOutcome) -> usize {
        self.is_settled = true;
        let count = self.taken.items.len();
        let (waited, waiting) = self.queue.update(|rules| {
            let waited = rules.items.len();
            rules.settle(&mut self.taken, outcome, pending);
            (waited, rules.items.len())
        });
        let elapsed = self.taken_at.elapsed();
        if is_slow(count, elapsed, waited) {
            // Without a parent: an informer's task calls this in a span that names the informer, other callers without one.
            tracing::warn!(
                parent: None,
                informer = &*self.queue.shared.name,
                count,
                waiting = waited,
                elapsed_ms = elapsed.as_millis(),
                "processing changes is slow, and more changes wait; the process function must not block"
            );
        }
        waiting
    }

    #[cfg(test)]
    pub(super) fn change_refs(&self) -> impl Iterator<Item = ChangeRef> {
        self.items().iter().map(|item| item.change).chain(self.taken.pending)
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

/// Returns true if a warning is due: more than ten changes wait, and processing took 100 ms per item or one second in total.
fn is_slow(items: usize, elapsed: Duration, waiting: usize) -> bool {
    waiting > 10 && elapsed >= Duration::from_millis(100) * items.clamp(1, 10) as u32
}

impl<O> Drop for Batch<O> {
    fn drop(&mut self) {
        if !self.is_settled {
            let requeue = ItemOutcome::Requeue { processed: 0 };
            self.settle_items(&|_| requeue, requeue);
        }
    }
}

impl<O> fmt::Debug for Batch<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("items", &self.items().len()).field("version", &self.version()).finish()
    }
}
