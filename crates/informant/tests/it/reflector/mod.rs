//! The reflector: by script, and against the embedded server.

mod bad_input;
mod hard_cases;
mod kube_source;
mod listing;
mod quarantine;
mod relist_memory;
mod soak;
mod sockets;
mod status;
mod stopping;
mod streaming;
mod support;
mod versions;
mod watching;
