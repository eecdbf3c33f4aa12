//! Joins the stages to an informer; only this module knows all of them.
//!
//! - **In:** a source.
//! - **Out:** a [`SharedInformer`]: an indexed cache with events for handlers and streams.
//!
//! The process loop (`controller`) runs a reflector, takes batches from its queue, and passes them to `turn`, which writes the cache and
//! distributes the events; `apply` has the rules. [`Controller`] is the same loop with a function of the user in place of cache and
//! handlers.

mod any;
mod apply;
mod builder;
mod callbacks;
mod controller;
mod core;
mod destinations;
mod errors;
mod event_callback;
mod json;
mod known_objects;
mod life;
mod queues;
mod reads;
mod relist_order;
mod retry;
mod several;
mod shared;
mod status;
mod subscribe;
mod sync;
mod turn;

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
pub use self::event_callback::EventCallback;
pub use self::retry::ProcessError;
pub use self::retry::ProcessFailure;
pub(crate) use self::several::stop;
pub(crate) use self::several::synced;
pub use self::shared::InformerState;
pub use self::shared::SharedInformer;
pub use self::status::InformerStatus;
pub use self::status::Problem;
pub use self::subscribe::Subscribe;
pub(crate) use self::subscribe::SubscribeOptions;
