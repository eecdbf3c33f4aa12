//! The reflector's decisions: plain state, no clock, no async, no requests.
//!
//! - **In:** what happened, and the time.
//! - **Out:** which version to ask for ([`resume`]), what an ending means ([`endings`]), how long to wait ([`delays`],
//!   [`window`], [`watchdog`]), whether lists can be streamed ([`streaming`]).
//! - **Knows nothing of:** sources, objects, bytes.

pub(super) mod delays;
pub(super) mod endings;
pub(super) mod resume;
pub(super) mod streaming;
pub(super) mod watchdog;
pub(super) mod window;
