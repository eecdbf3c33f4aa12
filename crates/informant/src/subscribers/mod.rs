//! Stage 4: everybody who follows the cache hears of every change, each at their own pace.
//!
//! - **In:** notices of what has changed in the cache, a batch at a time.
//! - **Out:** calls of [`EventHandler`]s and items of [`EventStream`]s.
//! - **Knows nothing of:** servers, queues, the cache itself.
//!
//! The `SharedProcessor` gives each batch to every `Listener`. A listener has a `buffer` of its own, in which what
//! waits may be coalesced, and somebody who empties it: a task, a thread, or whoever reads a stream. So a handler that is
//! slow, or panics, harms nobody but itself.

mod buffer;
mod calling;
mod closures;
mod coalesce;
mod delivery;
mod filter;
mod handler;
mod listener;
mod notice;
mod processor;
mod registration;
mod resync;
mod stream;
mod turn;
mod workers;

pub use closures::Handler;
pub use handler::EventHandler;
pub use registration::HandlerStatus;
pub use registration::InsideCallback;
pub use registration::NotCaughtUp;
pub use registration::NotSynced;
pub use registration::Registration;
pub(crate) use stream::AnyEventStream;
pub use stream::EventStream;

pub(crate) use buffer::Policy;
pub(crate) use calling::Caller;
pub(crate) use calling::as_work_of;
pub(crate) use calling::do_as;
pub(crate) use calling::is_inside_informer;
pub(crate) use closures::Closures;
pub(crate) use filter::Filter;
pub(crate) use handler::AnyHandler;
pub(crate) use handler::CallHandler;
pub(crate) use handler::EventFuture;
pub(crate) use handler::erase_handler;
pub(crate) use listener::Ended;
pub(crate) use listener::Listener;
pub(crate) use notice::Notice;
pub(crate) use processor::Joined;
pub(crate) use processor::SharedProcessor;
pub(crate) use registration::Clusters;
pub(crate) use registration::NotReached;
pub(crate) use registration::ReachedVersion;
pub(crate) use resync::ResyncRequest;
pub(crate) use turn::Turn;
pub(crate) use workers::Place;
pub(crate) use workers::Work;
pub(crate) use workers::Workers;
