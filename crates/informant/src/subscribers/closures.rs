//! The callbacks of a subscription as one handler.
//!
//! - **In:** closures, synchronous ones and ones that return a future.
//! - **Out:** a handler that calls them.
//! - **Knows nothing of:** the type of the objects, buffers, tasks, panics.

use super::{AnyHandler, EventCallback, EventFuture};
use crate::{Cached, Deleted, Event, Origin, object::Erased};

/// A closure for each type of event. A synchronous closure is stored as one that returns no future.
#[derive(Default)]
pub(crate) struct Closures {
    pub(crate) on_add: Option<OnAdd>,
    pub(crate) on_update: Option<OnUpdate>,
    pub(crate) on_delete: Option<OnDelete>,
    pub(crate) on_synced: Option<OnSynced>,
    /// For the events that have no closure of their own.
    pub(crate) on_event: Option<EventCallback>,
}

pub(crate) type OnAdd = Box<dyn FnMut(&Cached<Erased>, Origin) -> Option<EventFuture> + Send>;
pub(crate) type OnUpdate = Box<dyn FnMut(&Cached<Erased>, &Cached<Erased>) -> Option<EventFuture> + Send>;
pub(crate) type OnDelete = Box<dyn FnMut(&Deleted<Erased>) -> Option<EventFuture> + Send>;
pub(crate) type OnSynced = Box<dyn FnMut() -> Option<EventFuture> + Send>;

impl Closures {
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Self { on_add: None, on_update: None, on_delete: None, on_synced: None, on_event: None })
    }

    pub(crate) fn into_handler(mut self) -> AnyHandler {
        AnyHandler::OfEvents(Box::new(move |event| match (event, &mut self) {
            (Event::Added { object, origin }, Self { on_add: Some(callback), .. }) => callback(object, *origin),
            (Event::Updated { old, new }, Self { on_update: Some(callback), .. }) => callback(old, new),
            (Event::Deleted(deleted), Self { on_delete: Some(callback), .. }) => callback(deleted),
            (Event::Resynced(object), Self { on_update: Some(callback), .. }) => callback(object, object),
            (Event::Synced, Self { on_synced: Some(callback), .. }) => callback(),
            (event, Self { on_event, .. }) => on_event.as_mut()?(event),
        }))
    }
}
