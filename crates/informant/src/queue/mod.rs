//! Stage 2: changes wait here between the reflector and the cache.
//!
//! - **In:** changes from the list-and-watch stage, in server order.
//! - **Out:** [receipts](Receipt) with changes. They are *in flight* until the consumer acknowledges or requeues them; the queue still counts
//!   them as its own meanwhile.
//! - **Knows nothing of:** HTTP, the store (except through [`KnownObjects`]), handlers.
//!
//! There are two queues. [`DeltaFifo`], the default, groups changes by object: a consumer that falls behind receives all waiting changes of an
//! object at once. [`InOrderFifo`] keeps every change in server order and hands out batches. Both produce the same cache.

mod delta_fifo; // groups changes by object
mod in_order_fifo; // keeps the server's order
mod receipt; // `Receipt`: what a consumer has taken
#[cfg(test)]
pub(crate) mod scenario;
mod watched; // a state with a lock and wake-ups

pub use delta_fifo::{DeltaFifo, DeltaFifoBuilder, ObjectChanges};
pub use in_order_fifo::{InOrderChange, InOrderFifo, InOrderFifoBuilder};
pub use receipt::{Closed, ItemOutcome, Receipt, ReceiptQueue};

pub use crate::known::KnownObjects;

/// Returns true if an empty queue should shrink: its `capacity` is more than eight times the `peak` of waiting items since it was last empty. A
/// queue with bursts of equal size keeps its capacity.
fn is_far_too_large(capacity: usize, peak: usize) -> bool {
    const SMALL: usize = 4096;
    capacity > SMALL && capacity / 8 > peak
}
