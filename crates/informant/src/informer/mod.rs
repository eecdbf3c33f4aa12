//! Joins the stages to an informer; only this module knows all of them.
//!
//! - **In:** a source.
//! - **Out:** a [`SharedInformer`]: an indexed cache with events for handlers and streams.
//!
//! The process loop (`controller`) runs a reflector, takes batches from its queue, and passes them to `batch_applier`, which writes the cache and
//! distributes the events; `apply` has the rules. [`Controller`] is the same loop with a function of the user in place of cache and
//! handlers.

mod any;
mod apply;
mod batch_applier;
mod builder;
mod callbacks;
mod controller;
mod core;
mod destinations;
mod errors;
mod group;
mod json;
mod known_objects;
mod queues;
mod reads;
mod relist_order;
mod retry;
mod run;
mod shared;
mod status;
mod subscribe;
mod sync;

pub(crate) use self::any::AnyInformer;
pub(crate) use self::builder::AnyInformerBuilder;
pub use self::builder::InformerBuilder;
pub use self::callbacks::Callbacks;
pub use self::controller::Controller;
pub use self::controller::ControllerQueue;
pub use self::errors::AddHandlerError;
pub use self::errors::AlreadyStarted;
pub use self::errors::StopError;
pub use self::errors::StopErrors;
pub use self::errors::SyncError;
pub use self::errors::SyncErrors;
pub use self::errors::WaitError;
pub use self::errors::WaitTarget;
pub(crate) use self::group::stop;
pub(crate) use self::group::synced;
pub use self::retry::ProcessError;
pub use self::retry::ProcessFailure;
pub use self::shared::InformerState;
pub use self::shared::SharedInformer;
pub use self::status::InformerStatus;
pub use self::status::Problem;
pub use self::subscribe::Subscribe;
pub(crate) use self::subscribe::SubscribeOptions;
