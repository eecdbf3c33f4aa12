//! The HTTP API of the server.
//!
//! - **In:** requests, from a socket ([`listener`]) or in-process ([`service`]).
//! - **Out:** responses, whose bodies may be streams.
//! - **Knows nothing of:** how objects and their history are stored.

mod answer;
mod delete_options;
mod field_manager;
mod handle;
pub(crate) mod listener;
mod negotiate;
pub(crate) mod params;
pub(crate) mod request;
pub(crate) mod service;
mod subresources;
mod table;

pub use answer::ResponseBody;
