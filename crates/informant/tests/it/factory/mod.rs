//! The factory, scopes of requests, and views.

mod audits;
mod dynamic;
mod failures;
mod history;
mod lifecycle;
mod memory;
mod object_types;
mod outages;
mod recovery;
mod resuming;
mod scopes;
mod settings;
mod several;
mod sharing;
mod view_callbacks;
mod view_events;
mod view_handlers;
mod views;
mod writes;
