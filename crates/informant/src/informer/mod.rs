//! Joins the stages to an informer; only this module knows all of them.
//!
//! - **In:** a source.
//! - **Out:** a [`SharedInformer`]: an indexed cache with events for handlers and streams.
//!
//! The process loop (`process_loop`) runs a reflector, takes batches from its queue, and passes them to `batch_applier`, which writes the cache and
//! distributes the events; `apply` has the rules.

mod any; // the informer without its object type
mod apply; // turns a batch into writes and events
mod batch_applier; // applies batches to the cache and distributes the events
mod builder; // `InformerBuilder`
mod callbacks; // closures as handlers
mod core; // the state that handle and task share
mod errors; // errors of informers
mod event_callback; // one closure for all events
mod group; // waits for and stops several informers
mod json; // status and problems as JSON
mod phase; // new, running, stopping, stopped: the transitions
mod process_loop; // the process loop; read this first
mod reads; // waiting for versions, writes and deletions
mod relist_order; // deletes of a relist before its adds and updates
mod run; // an informer from start to end
mod shared; // `SharedInformer`, the typed handle
mod stage_traits; // the queue as destination of the reflector, the cache as the known objects of the queue
mod status; // `InformerStatus` and `Problem`
mod subscribe; // `Subscribe`: settings of a handler or stream
mod sync; // waiting for the initial list

pub(crate) use self::{
    any::AnyInformer,
    builder::AnyInformerBuilder,
    group::{stop, synced},
    subscribe::SubscribeOptions,
};
pub use self::{
    builder::InformerBuilder,
    callbacks::Callbacks,
    errors::{AddHandlerError, AlreadyStarted, StopError, StopErrors, SyncError, SyncErrors, WaitError, WaitTarget},
    event_callback::EventCallback,
    shared::{InformerState, SharedInformer},
    status::{InformerStatus, Problem},
    subscribe::Subscribe,
};
