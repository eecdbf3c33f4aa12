//! Shared informers: one cache and several handlers.

mod async_callbacks;
mod batches;
mod callbacks;
mod caught_up;
mod drop_paths;
mod dropping;
mod event_callback;
mod events;
mod filters;
pub(crate) mod histories;
mod joining;
mod lifecycle;
mod listeners;
mod parallel;
mod quarantine;
mod reads;
mod registrations;
mod resync;
mod stop_cycles;
mod streams;
mod sync;
mod users_code;
mod visible;
mod wait_until;
