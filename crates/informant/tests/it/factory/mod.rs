//! One informer for everyone: the factory, scopes, views.

mod dynamic;
mod failures;
mod history;
mod lifecycle;
mod object_types;
mod outages;
mod resuming;
mod scopes;
mod settings;
mod sharing;
pub(crate) mod support;
mod view_callbacks;
mod view_events;
mod view_handlers;
mod views;
