//! Runs the compiled binary as a user would.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod apiserver;
mod arguments;
mod demo;
mod errors;
mod get;
mod kinds;
mod metrics;
mod support;
#[cfg(unix)]
mod terminal;
mod watch;
