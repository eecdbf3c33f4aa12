//! The part of an informer that users hold: settings, handlers, waits, status and errors.
//!
//! - **In:** calls of users.
//! - **Out:** changes of the informer's [`Core`](super::pipeline::Core), and results that are read from it.
//! - **Knows nothing of:** the queue, and how batches are applied.

mod any; // the informer without its object type
mod builder; // `InformerBuilder`
mod callbacks; // closures as handlers
mod errors; // errors of informers
mod event_callback; // one closure for all events
mod group; // waits for and stops several informers
mod json; // status and problems as JSON
mod shared; // `SharedInformer`, the typed handle
mod status; // `InformerStatus` and `Problem`
mod subscribe; // `Subscribe`: settings of a handler or stream
mod sync; // waiting for the initial list
mod waits; // waiting for versions, writes and deletions
mod written; // whether an informer can see a written object

pub(crate) use self::{
    any::AnyInformer,
    builder::AnyInformerBuilder,
    group::{stop, synced},
    subscribe::SubscribeOptions,
    written::Written,
};
pub use self::{
    builder::InformerBuilder,
    callbacks::Callbacks,
    errors::{
        AddHandlerError, AlreadyStarted, ScopeMismatch, StopError, StopErrors, SyncError, SyncErrors, WaitError,
        WaitTarget,
    },
    event_callback::EventCallback,
    shared::{InformerState, SharedInformer},
    status::{InformerStatus, Problem},
    subscribe::Subscribe,
};
