//! Shared informers: one cache, many handlers.

mod callbacks;
mod controller;
mod drop_paths;
mod dropping;
mod events;
mod histories;
mod joining;
mod lifecycle;
mod listeners;
mod parallel;
mod quarantine;
mod reads;
mod resync;
mod streams;
pub(crate) mod support;
mod sync;
mod users_code;
mod visible;
