//! Tests of the reflector, with scripted sources and with the embedded server.

mod bad_input;
mod damaged_items;
mod kinds;
pub(crate) mod kube_source;
mod large_objects;
mod listing;
mod live_source;
mod quarantine;
mod relist_memory;
mod retries;
pub(crate) mod soak;
mod sockets;
mod status;
mod stopping;
mod streaming;
mod streaming_failures;
mod unclear_events;
mod versions;
mod watching;
