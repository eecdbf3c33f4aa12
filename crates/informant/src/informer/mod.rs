//! Joins the stages to an informer; only this module knows all of them.
//!
//! - **In:** a source.
//! - **Out:** a [`SharedInformer`]: an indexed cache with events for handlers and streams.
//!
//! The process loop (`controller`) runs a reflector, takes batches from its queue, and passes them to `batch_applier`, which writes the cache and
//! distributes the events; `apply` has the rules. [`Controller`] is the same loop with a function of the user in place of cache and
//! handlers.

mod any; // the informer without its object type
mod apply; // turns a batch into writes and events
mod batch_applier; // applies batches to the cache and distributes the events
mod builder; // `InformerBuilder`
mod callbacks; // closures as handlers
mod controller; // the process loop; read this first
mod core; // the state that handle and task share
mod destinations; // both queues as destinations of a reflector
mod errors; // errors of informers
mod event_callback; // one closure for all events
mod group; // waits for and stops several informers
mod json; // status and problems as JSON
mod known_objects; // the cache as the known objects of a queue
mod queues; // both queues as seen by the process loop
mod reads; // waiting for versions, writes and deletions
mod relist_order; // deletes of a relist before its adds and updates
mod retry; // retries of a user's processing function
mod run; // an informer from start to end
mod shared; // `SharedInformer`, the typed handle
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
    controller::{Controller, ControllerQueue},
    errors::{AddHandlerError, AlreadyStarted, StopError, StopErrors, SyncError, SyncErrors, WaitError, WaitTarget},
    event_callback::EventCallback,
    retry::{ProcessError, ProcessFailure},
    shared::{InformerState, SharedInformer},
    status::{InformerStatus, Problem},
    subscribe::Subscribe,
};
