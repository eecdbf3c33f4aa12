//! One informer for everyone: the factory, scopes, views.

mod dynamic;
mod failures;
mod forms;
mod history;
mod lifecycle;
mod outages;
mod resuming;
mod scopes;
mod settings;
mod sharing;
pub(crate) mod support;
mod view_handlers;
mod views;
