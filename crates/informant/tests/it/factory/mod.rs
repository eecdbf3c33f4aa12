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
mod support;
mod view_callbacks;
mod view_handlers;
mod views;
