//! The API as HTTP: requests in, answers out.
//!
//! - **In:** requests, from a socket ([`listener`]) or in-process ([`service`]).
//! - **Out:** answers whose bodies are streams.
//! - **Knows nothing of:** how objects are stored and remembered.

mod answer;
mod delete_options;
mod handle;
pub(crate) mod listener;
mod negotiate;
pub(crate) mod params;
pub(crate) mod request;
pub(crate) mod service;
mod subresources;
mod table;

pub use answer::ResponseBody;
