//! The part of an informer that users hold: settings, handlers, waits, status and errors.
//!
//! - **In:** calls of users.
//! - **Out:** changes of the informer's [`Core`](super::pipeline::Core), and results that are read from it.
//! - **Knows nothing of:** the queue, and how batches are applied.

mod any; // the informer without its object type
mod builder; // `InformerBuilder`
mod group; // waits for and stops several informers
mod json; // status and problems as JSON
mod register; // registers a handler or stream with an informer, or with all members of a view
mod shared; // `SharedInformer`, the typed handle
mod status; // `InformerStatus` and `Problem`
mod subscribe; // `Subscribe`: the settings and callbacks of a handler or stream
mod sync; // waiting for the initial list
mod waits; // waiting for versions, writes and deletions
mod written; // whether an informer can see a written object

use self::written::Written;
pub(crate) use self::{
    any::AnyInformer,
    builder::AnyInformerBuilder,
    group::{settled, stop, synced},
    register::add_batch_handlers,
};
pub use self::{
    builder::InformerBuilder,
    shared::{InformerState, SharedInformer},
    status::{InformerStatus, Problem},
    subscribe::{HasCallbacks, Subscribe},
};
