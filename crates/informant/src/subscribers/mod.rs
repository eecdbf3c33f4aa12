//! Stage 4: delivers every change of the cache to all handlers and streams, to each at its own pace.
//!
//! - **In:** changes of the cache, a batch at a time.
//! - **Out:** calls of [`EventHandler`]s and items of [`EventStream`]s.
//! - **Knows nothing of:** servers, queues, the cache itself.
//!
//! The `SharedProcessor` gives each batch to every `Listener`. A listener has a buffer of its own, in which waiting events can be
//! coalesced. A worker (a task or a thread) takes the events out of the buffer and calls the handler; a stream has no worker, its
//! reader takes them. So a handler that is slow or panics affects no other handler, and not the cache.

mod buffer; // the pending events of one listener
mod call_lock; // one call at a time for a handler of several informers
mod calling; // which handler's code runs in this thread or task
mod closures; // the callbacks of a subscription as one handler
mod coalesce; // combines pending events of one object
mod delivery; // takes events from a buffer and calls the handler
mod filter; // hides objects that do not pass a filter, and records those that did
mod handler; // `EventHandler`
mod lateness; // whether events wait too long for a handler
mod listener; // buffer and state of one handler or stream
mod processor; // hands each batch to all listeners
mod registration; // `Registration`, the user's handle of a handler
mod resync; // which handlers are due for a resync
mod stream; // `EventStream`
mod wait_graph; // callbacks that wait for each other
mod workers; // the tasks and threads that call handlers

pub use handler::EventHandler;
pub use registration::{HandlerStatus, Registration};
pub use stream::EventStream;

pub(crate) use buffer::BufferPolicy;
pub(crate) use call_lock::CallLock;
pub(crate) use calling::{WorkOwner, as_work_of, run_as_work_of, wait_conflict, wait_for_end};
pub(crate) use closures::Closures;
pub(crate) use filter::Filter;
pub(crate) use handler::{AnyHandler, BatchCallback, EventCallback, EventFuture, erase_handler};
pub(crate) use listener::{CloseReason, Listener};
pub(crate) use processor::SharedProcessor;
pub(crate) use registration::{CacheProgress, Clusters};
pub(crate) use stream::{ListenerStream, MemberStreams};
pub(crate) use wait_graph::WaitConflict;
pub(crate) use workers::{Worker, WorkerKind, Workers};
