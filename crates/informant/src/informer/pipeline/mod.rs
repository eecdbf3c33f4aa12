//! The running part of an informer: one task that fills the queue, applies batches to the cache and distributes the events.
//!
//! - **In:** the settings of an informer.
//! - **Out:** the informer's task, and [`Core`], the state that the task shares with the handles.
//! - **Knows nothing of:** the handles, and the type of the objects.
//!
//! `run` builds the stages and runs the task until the informer stops. The apply loop (`apply_loop`) takes batches from the queue and passes them to
//! `batch_applier`, which writes the cache and distributes the events; `apply` has the rules.

mod apply; // turns a batch into writes and events
mod apply_loop; // takes and applies batches; read this first
mod batch_applier; // applies batches to the cache and distributes the events
mod core; // the state that handles and task share
#[cfg(test)]
mod model;
mod phase; // new, running, stopping, stopped: the transitions
mod run; // an informer from start to end
mod stage_traits; // the queue as destination of the reflector, the cache as the known objects of the queue
#[cfg(feature = "packing")]
mod sweep; // packs cached objects while memory is short

pub(super) use self::{
    core::{ApplyState, Core, InsideApplyLock},
    phase::Phase,
    run::Unstarted,
};
