//! All integration tests in one program, so that they are linked once.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod clients;
mod clusters;
mod conformance;
mod faults;
mod garbage;
mod history;
mod intercept;
mod kinds;
mod load;
mod manifests;
mod operators;
#[path = "../../../informant/tests/it/random.rs"]
mod random;
mod requests;
mod sockets;
mod support;
mod versions;
