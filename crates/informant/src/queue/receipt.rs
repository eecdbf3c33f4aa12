//! A receipt: what a consumer holds while it processes changes that it took from a queue.
//!
//! - **In:** a batch of changes from a queue.
//! - **Out:** acknowledged or requeued changes, back to the same queue.
//! - **Knows nothing of:** what a change is, and what processing means.

use std::fmt;

use tokio::time::{Duration, Instant};

use crate::ResourceVersion;

/// Changes that were taken from a queue, until the consumer [acknowledges](Self::acknowledge) or [requeues](Self::requeue) them.
///
/// They are *in flight* meanwhile: deletes, relists and resyncs take them into account, and the queue does not hand out newer changes of the same
/// objects. The queue's lock is not held while they are processed.
///
/// Dropping a receipt acknowledges it.
///
/// ```
/// use informant::{Cached, Key, object::Identity};
/// use informant::queue::{ItemOutcome, DeltaFifo};
///
/// let fifo = DeltaFifo::new();
/// for name in ["a", "b"] {
///     fifo.add(Cached::new(Identity::of_key(Key::cluster_scoped(name)), ()));
/// }
///
/// let receipt = fifo.try_drain().unwrap().unwrap();
/// assert_eq!(receipt.items().len(), 2);
/// receipt.settle(|taken| match taken.key().name() {
///     "a" => ItemOutcome::Done,
///     _ => ItemOutcome::Requeue { processed: 0 },
/// });
///
/// assert_eq!(fifo.waiting_keys(), [Key::cluster_scoped("b")]);
/// ```
#[must_use = "the changes are in flight until the receipt is acknowledged, requeued or dropped"]
pub struct Receipt<Q: ReceiptQueue> {
    queue: Q,
    items: Vec<Q::Taken>,
    pending_versions: Q::PendingVersions,
    version: Option<ResourceVersion>,
    history_changed: bool,
    taken_at: Instant,
    is_settled: bool,
}

/// The outcome of processing one item of a [`Receipt`].
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
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the queue was closed, and all its changes have been processed")]
pub struct Closed;

/// A queue that hands out receipts: [`DeltaFifo`](super::DeltaFifo) or [`InOrderFifo`](super::InOrderFifo).
pub trait ReceiptQueue: sealed::ReceiptOwner {}

pub(super) mod sealed {
    use super::ItemOutcome;
    use crate::ResourceVersion;

    /// The queue's side of a receipt.
    pub trait ReceiptOwner {
        /// An item, the smallest part of a receipt that can be requeued.
        type Taken;
        /// The versions in the receipt that belong to no item, such as those of bookmarks.
        type PendingVersions: Default;

        /// Acknowledges or requeues each item. Moves the requeued items out of `items`; the caller drops the rest after the queue's lock is
        /// released. Returns how many items waited before.
        fn settle_items(
            &self,
            items: &mut Vec<Self::Taken>,
            outcomes: Outcomes,
            pending_versions: Self::PendingVersions,
        ) -> usize;

        /// Returns the queue's name in logs.
        fn name(&self) -> &str;
    }

    /// One outcome for each item of a receipt, in the same order.
    #[derive(Debug)]
    pub enum Outcomes {
        AllDone,
        AllRequeued,
        Each(Vec<ItemOutcome>),
    }

    impl Outcomes {
        pub fn of(&self, position: usize) -> ItemOutcome {
            match self {
                Self::AllDone => ItemOutcome::Done,
                Self::AllRequeued => ItemOutcome::Requeue { processed: 0 },
                Self::Each(outcomes) => outcomes[position],
            }
        }
    }

    /// The content of a new receipt.
    #[derive(Debug)]
    pub struct Batch<T, X> {
        pub items: Vec<T>,
        pub pending_versions: X,
        pub version: Option<ResourceVersion>,
        pub history_changed: bool,
    }
}

impl<Q: ReceiptQueue> Receipt<Q> {
    pub(super) fn new(queue: Q, batch: sealed::Batch<Q::Taken, Q::PendingVersions>) -> Self {
        let sealed::Batch { items, pending_versions, version, history_changed } = batch;
        Self { queue, items, pending_versions, version, history_changed, taken_at: Instant::now(), is_settled: false }
    }

    /// Returns the taken items: [`ObjectChanges`](super::ObjectChanges) or [`InOrderChange`](super::InOrderChange)s. Empty if the queue only has a new
    /// [`version`](Self::version).
    pub fn items(&self) -> &[Q::Taken] {
        &self.items
    }

    /// Returns the version that the consumer has reached once this receipt is acknowledged, if it is a new one.
    ///
    /// `None` while other receipts of the same queue are in flight, because the version then depends on them. A later receipt, which may be empty,
    /// carries it.
    pub fn version(&self) -> Option<&ResourceVersion> {
        self.version.as_ref()
    }

    /// Returns true if the receipt contains a relist [of a changed history](crate::delta::Relist::history_changed). If the relist is
    /// requeued, the next receipt that contains it returns true as well.
    pub fn history_changed(&self) -> bool {
        self.history_changed
    }

    /// Reports that all items were processed.
    pub fn acknowledge(self) {
        drop(self);
    }

    /// Acknowledges everything and returns the items, so that a caller that holds a lock can drop them after releasing it.
    pub(crate) fn acknowledge_returning_items(mut self) -> Vec<Q::Taken> {
        self.settle_items(sealed::Outcomes::AllDone);
        self.take_items()
    }

    /// Returns all items to the queue; of an empty receipt, the version.
    pub fn requeue(mut self) {
        self.settle_items(sealed::Outcomes::AllRequeued);
    }

    /// Acknowledges or requeues each item by itself, all in one step.
    pub fn settle(mut self, outcome: impl FnMut(&Q::Taken) -> ItemOutcome) {
        let outcomes = self.items.iter().map(outcome).collect();
        self.settle_items(sealed::Outcomes::Each(outcomes));
    }

    fn settle_items(&mut self, outcomes: sealed::Outcomes) {
        let count = self.items.len();
        let waiting = self.queue.settle_items(&mut self.items, outcomes, std::mem::take(&mut self.pending_versions));
        self.is_settled = true;
        let elapsed = self.taken_at.elapsed();
        if is_slow(count, elapsed, waiting) {
            tracing::warn!(
                informer = self.queue.name(),
                count,
                waiting,
                elapsed_ms = elapsed.as_millis(),
                "processing changes is slow, and more changes wait; look for a slow handler, index or transform"
            );
        }
    }

    #[cfg(test)]
    pub(super) fn pending_versions(&self) -> &Q::PendingVersions {
        &self.pending_versions
    }

    /// Takes the items out, to make other receipts of them. Dropping this receipt then acknowledges none of them.
    pub(super) fn take_items(&mut self) -> Vec<Q::Taken> {
        std::mem::take(&mut self.items)
    }

    /// Creates a receipt for an item that was taken out of this one.
    pub(super) fn of_one(&self, item: Q::Taken) -> Self
    where
        Q: Clone,
    {
        let (queue, pending_versions) = (self.queue.clone(), Q::PendingVersions::default());
        Self {
            queue,
            items: vec![item],
            pending_versions,
            version: None,
            history_changed: false,
            taken_at: self.taken_at,
            is_settled: false,
        }
    }
}

impl<Q: ReceiptQueue> Drop for Receipt<Q> {
    fn drop(&mut self) {
        if !self.is_settled {
            self.settle_items(sealed::Outcomes::AllDone);
        }
    }
}

impl<Q: ReceiptQueue> fmt::Debug for Receipt<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").field("items", &self.items.len()).field("version", &self.version).finish()
    }
}

/// Returns true if a warning is due: more than ten changes wait, and processing took 100 ms per item or one second in total.
fn is_slow(items: usize, elapsed: Duration, waiting: usize) -> bool {
    let bearable = Duration::from_millis(100).saturating_mul(u32::try_from(items.max(1)).unwrap_or(u32::MAX));
    waiting > 10 && elapsed >= bearable.min(Duration::from_secs(1))
}
