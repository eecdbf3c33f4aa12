//! The running part of an informer: one task that fills the queue, applies batches to the cache and distributes the events.
//!
//! - **In:** the settings of an informer.
//! - **Out:** the informer's task, and [`Core`], the state that the task shares with the handles.
//! - **Knows nothing of:** the handles, and the type of the objects.
//!
//! `run` builds the stages and runs the task until the informer stops. The process loop (`process_loop`) takes batches from the queue and passes them to
//! `batch_applier`, which writes the cache and distributes the events; `apply` has the rules.

mod apply; // turns a batch into writes and events
mod batch_applier; // applies batches to the cache and distributes the events
mod core; // the state that handles and task share
mod phase; // new, running, stopping, stopped: the transitions
mod process_loop; // the process loop; read this first
mod relist_order; // deletes of a relist before its adds and updates
mod run; // an informer from start to end
mod stage_traits; // the queue as destination of the reflector, the cache as the known objects of the queue

pub(super) use self::{
    apply::ApplyOptions,
    core::{Core, InsideApplyLock},
    phase::Phase,
    run::{QueueKind, Unstarted},
};
