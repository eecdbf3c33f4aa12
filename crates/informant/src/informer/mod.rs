//! Joins the stages to an informer; only this module knows all of them.
//!
//! - **In:** a source.
//! - **Out:** a [`SharedInformer`]: an indexed cache with events for handlers and streams.
//!
//! An informer is one task (`pipeline`, with the audits of `audit`) and any number of handles (`handle`). All hold the same `Core`: the cache, the
//! listeners and the phase.

mod audit; // compares the cache with the source from time to time
mod handle; // the part that users hold
mod pipeline; // the part that runs; begin with its `apply_loop`

pub(crate) use self::handle::{AnyInformer, AnyInformerBuilder, add_batch_handlers, settled, stop, synced};
pub use self::handle::{
    HasCallbacks, InformerBuilder, InformerState, InformerStatus, Problem, SharedInformer, Subscribe,
};
