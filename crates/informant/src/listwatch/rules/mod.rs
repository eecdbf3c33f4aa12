//! The reflector's decisions: plain state without async code. The time is passed in.
//!
//! - **In:** the outcome of each request, and the time.
//! - **Out:** what the reflector does next, as a table ([`state`]); which version to request ([`resume`]); the class of an error
//!   ([`error_class`]); how long to wait ([`delays`], [`failure_delays`], [`watchdog`]); what to do about a silent watch ([`silence`]);
//!   whether there was an outage ([`outage`]), and whether the server is starting ([`contact`]); which events identify the server's history
//!   ([`anchors`]); when to list because of events that cannot be applied ([`unclear`]); whether decoding is slow ([`decoding_pace`]).
//! - **Knows nothing of:** how requests are made, tasks, the content of objects.

pub(super) mod anchors;
pub(super) mod contact;
pub(super) mod decoding_pace;
pub(super) mod delays;
pub(super) mod error_class;
pub(super) mod failure_delays;
pub(super) mod outage;
pub(super) mod resume;
pub(super) mod silence;
pub(super) mod state;
pub(super) mod unclear;
pub(super) mod watchdog;
