//! The real binary, driven as a person would.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod apiserver;
mod demo;
mod get;
mod habits;
mod kinds;
mod metrics;
mod support;
#[cfg(unix)]
mod terminal;
mod trouble;
mod watch;
