//! Stage 2: changes wait here until the controller takes them.
//!
//! - **In:** changes from the list-and-watch stage, in server order.
//! - **Out:** receipts: what was taken is *in flight* until its receipt is answered, and counts as queued meanwhile.
//! - **Knows nothing of:** HTTP, the store (but for [`KnownObjects`]), handlers.
//!
//! There are two queues. [`DeltaFifo`] groups changes by object: whoever falls behind gets an object's whole history at
//! once. [`InOrderFifo`] keeps every change in server order and hands out batches. Both lead to the same cache.

mod delta_fifo;
mod in_order_fifo;
mod receipt;
#[cfg(test)]
pub(crate) mod scenario;
mod watched;

pub use delta_fifo::DeltaFifo;
pub use delta_fifo::DeltaFifoBuilder;
pub use delta_fifo::Taken;
pub use in_order_fifo::InOrderFifo;
pub use in_order_fifo::InOrderFifoBuilder;
pub use in_order_fifo::TakenChange;
pub use receipt::Answer;
pub use receipt::Closed;
pub use receipt::Receipt;
pub use receipt::ReceiptQueue;

pub use crate::known::KnownObjects;

/// Whether an empty queue that had `peak` items since it was last empty should give back room for `capacity`: it was
/// needed once, but not lately. A queue whose bursts are all alike keeps its room.
fn is_far_too_large(capacity: usize, peak: usize) -> bool {
    const SMALL: usize = 4096;
    capacity > SMALL && capacity / 8 > peak
}
