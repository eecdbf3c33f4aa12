//! One informer for everyone: the factory, scopes, views.

mod dynamic;
mod failures;
mod forms;
mod lifecycle;
mod scopes;
mod settings;
mod sharing;
mod support;
mod view_handlers;
mod views;
