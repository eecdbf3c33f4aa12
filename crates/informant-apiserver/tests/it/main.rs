//! All integration tests, as one program: linking is what costs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod clients;
mod clusters;
mod conformance;
mod faults;
mod history;
mod kinds;
mod load;
mod operators;
#[path = "../../../informant/tests/it/random.rs"]
mod random;
mod requests;
mod sockets;
mod support;
mod versions;
