//! Compares both orderings of the queue with simple models, under random steps.

mod grouping;
mod in_order;
pub(crate) mod scenario;
