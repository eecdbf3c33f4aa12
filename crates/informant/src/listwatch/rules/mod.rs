//! The reflector's decisions: plain state, no clock, no async, no requests.
//!
//! - **In:** the outcome of each request, and the time.
//! - **Out:** which version to request ([`resume`]); which events identify the server's history ([`anchors`]); the class of an error
//!   ([`error_class`]); what to do after a watch or streamed list has ended ([`endings`]); how long to wait ([`delays`], [`window`],
//!   [`watchdog`]); what to do about a silent watch ([`silence`]); whether lists can be streamed ([`streaming`]).
//! - **Knows nothing of:** requests, objects, bytes.

pub(super) mod anchors;
pub(super) mod delays;
pub(super) mod endings;
pub(super) mod error_class;
pub(super) mod resume;
pub(super) mod silence;
pub(super) mod streaming;
pub(super) mod watchdog;
pub(super) mod window;
