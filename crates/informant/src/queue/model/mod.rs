//! Compares the queue with a simple model, under random steps.

mod delta_fifo;
pub(crate) mod scenario;
