//! Tests of the reflector, with scripted sources and with the embedded server.

mod bad_input;
mod damage;
mod kinds;
pub(crate) mod kube_source;
mod listing;
mod live_source;
mod patience;
mod quarantine;
mod relist_memory;
pub(crate) mod soak;
mod sockets;
mod status;
mod stopping;
mod streaming;
mod streaming_trouble;
pub(crate) mod support;
mod versions;
mod watching;
