//! What a consumer holds while it works on what it took.

use std::fmt;

use tokio::time::Duration;
use tokio::time::Instant;

use crate::ResourceVersion;

/// What was taken from a queue, to be answered when it is processed.
///
/// Until then the queue counts it as *in flight*: a delete, a relist or a resync that comes meanwhile finds it, and newer
/// changes of the same object are not handed out. Processing never holds the queue's lock.
///
/// Dropping a receipt answers it as [`done`](Self::done).
///
/// ```
/// use informant::{Cached, Key, object::Identity};
/// use informant::queue::{Answer, DeltaFifo};
///
/// let fifo = DeltaFifo::new();
/// for name in ["a", "b"] {
///     fifo.add(Cached::new(Identity::of_key(Key::cluster_scoped(name)), ()));
/// }
///
/// let receipt = fifo.try_drain().unwrap().unwrap();
/// assert_eq!(receipt.items().len(), 2);
/// receipt.settle(|taken| match taken.key().name() {
///     "a" => Answer::Done,
///     _ => Answer::Requeue { processed: 0 },
/// });
///
/// assert_eq!(fifo.waiting_keys(), [Key::cluster_scoped("b")]);
/// ```
#[must_use = "what was taken is in flight until its receipt is answered or dropped"]
pub struct Receipt<Q: ReceiptQueue> {
    queue: Q,
    items: Vec<Q::Taken>,
    ticket: Q::Ticket,
    version: Option<ResourceVersion>,
    history_changed: bool,
    taken_at: Instant,
    is_answered: bool,
}

/// What becomes of an item that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is processed.
    Done,
    /// It could not be processed and goes back to the queue, without the changes that were.
    Requeue {
        /// How many of its changes, the oldest ones, were processed and shall not come again.
        processed: usize,
    },
}

/// The queue is closed, and nothing is left in it: nothing waits, and nothing is in flight that could come back.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the queue is closed")]
pub struct Closed;

/// A queue that hands out receipts: [`DeltaFifo`](super::DeltaFifo) or [`InOrderFifo`](super::InOrderFifo).
pub trait ReceiptQueue: sealed::Books {}

pub(super) mod sealed {
    use super::Answer;
    use crate::ResourceVersion;

    /// How answers get into a queue's books.
    pub trait Books {
        /// What is answered by itself.
        type Taken;
        /// What else the queue wants back with the answers.
        type Ticket: Default;

        /// Enters the answers and takes what goes back out of `items`; gives the number of items that waited meanwhile.
        ///
        /// What it leaves there is dropped after the queue's lock is released.
        fn enter(&self, items: &mut Vec<Self::Taken>, answers: Answers, ticket: Self::Ticket) -> usize;

        /// The queue's name in logs.
        fn name(&self) -> &str;
    }

    /// One answer for each item of a receipt, in the same order.
    #[derive(Debug)]
    pub enum Answers {
        AllDone,
        AllRequeued,
        Each(Vec<Answer>),
    }

    impl Answers {
        pub fn of(&self, position: usize) -> Answer {
            match self {
                Self::AllDone => Answer::Done,
                Self::AllRequeued => Answer::Requeue { processed: 0 },
                Self::Each(answers) => answers[position],
            }
        }
    }

    /// What a queue gives to a new receipt.
    #[derive(Debug)]
    pub struct Batch<T, X> {
        pub items: Vec<T>,
        pub ticket: X,
        pub version: Option<ResourceVersion>,
        pub history_changed: bool,
    }
}

impl<Q: ReceiptQueue> Receipt<Q> {
    pub(super) fn new(queue: Q, batch: sealed::Batch<Q::Taken, Q::Ticket>) -> Self {
        let sealed::Batch { items, ticket, version, history_changed } = batch;
        Self { queue, items, ticket, version, history_changed, taken_at: Instant::now(), is_answered: false }
    }

    /// What was taken. It can be nothing: then the queue only has a new [`version`](Self::version) to tell.
    pub fn items(&self) -> &[Q::Taken] {
        &self.items
    }

    /// The version that the consumer has reached once this receipt is done, if it gets to a new one by that.
    ///
    /// Not known, and `None`, while other receipts of the same queue are out; then a later receipt tells it, if need be an
    /// empty one.
    pub fn version(&self) -> Option<&ResourceVersion> {
        self.version.as_ref()
    }

    /// Whether a relist [of a changed history](crate::delta::Relist::history_changed) was taken with this receipt. If the relist is
    /// requeued, the next receipt that contains it returns true as well.
    pub fn history_changed(&self) -> bool {
        self.history_changed
    }

    /// Answers that everything is processed.
    pub fn done(self) {
        drop(self);
    }

    /// Acknowledges everything and returns the items, so that a caller that holds a lock can drop them after releasing it.
    pub(crate) fn acknowledge(mut self) -> Vec<Q::Taken> {
        self.enter(sealed::Answers::AllDone);
        self.take_items()
    }

    /// Gives everything back to the queue, the version included if there is nothing else.
    pub fn requeue(mut self) {
        self.enter(sealed::Answers::AllRequeued);
    }

    /// Answers each item by itself, all at once.
    pub fn settle(mut self, answer: impl FnMut(&Q::Taken) -> Answer) {
        let answers = self.items.iter().map(answer).collect();
        self.enter(sealed::Answers::Each(answers));
    }

    fn enter(&mut self, answers: sealed::Answers) {
        let count = self.items.len();
        let waiting = self.queue.enter(&mut self.items, answers, std::mem::take(&mut self.ticket));
        self.is_answered = true;
        let elapsed = self.taken_at.elapsed();
        if is_slow(count, elapsed, waiting) {
            tracing::warn!(
                queue = self.queue.name(),
                count,
                waiting,
                elapsed_ms = elapsed.as_millis(),
                "processing is slow; changes pile up behind it"
            );
        }
    }

    #[cfg(test)]
    pub(super) fn ticket(&self) -> &Q::Ticket {
        &self.ticket
    }

    /// Takes the items out, to make other receipts of them; dropping this one then answers for none of them.
    pub(super) fn take_items(&mut self) -> Vec<Q::Taken> {
        std::mem::take(&mut self.items)
    }

    /// A receipt for an item that was taken out of this one.
    pub(super) fn of_one(&self, item: Q::Taken) -> Self
    where
        Q: Clone,
    {
        let (queue, ticket) = (self.queue.clone(), Q::Ticket::default());
        Self {
            queue,
            items: vec![item],
            ticket,
            version: None,
            history_changed: false,
            taken_at: self.taken_at,
            is_answered: false,
        }
    }
}

impl<Q: ReceiptQueue> Drop for Receipt<Q> {
    fn drop(&mut self) {
        if !self.is_answered {
            self.enter(sealed::Answers::AllDone);
        }
    }
}

impl<Q: ReceiptQueue> fmt::Debug for Receipt<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Receipt").field("items", &self.items.len()).field("version", &self.version).finish()
    }
}

/// Slow enough to say so: others wait behind it, and it took 100 ms for each item (a batch: one second at most).
fn is_slow(items: usize, elapsed: Duration, waiting: usize) -> bool {
    let bearable = Duration::from_millis(100).saturating_mul(u32::try_from(items.max(1)).unwrap_or(u32::MAX));
    waiting > 10 && elapsed >= bearable.min(Duration::from_secs(1))
}
