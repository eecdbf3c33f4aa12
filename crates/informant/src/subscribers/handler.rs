//! The trait that users implement to receive events, and how a worker calls it.
//!
//! - **In:** an `EventHandler` of some object type.
//! - **Out:** an `AnyHandler`, a type-erased handler that is called with one event, or one batch, at a time.
//! - **Knows nothing of:** buffers, tasks, panics.

use std::sync::Arc;

use futures_util::future::BoxFuture;

use crate::{Cached, Deleted, Event, Origin, object::Erased};

/// Receives every change of an informer's objects.
///
/// The informer calls a handler for one event at a time, in order: for each object an add, then updates, then a delete, and so on.
/// The cache has the change, and perhaps later ones, before the handler is called.
///
/// Events come in the server's order, also between different objects. So a handler that maps the IP addresses of pods to names can remove the
/// address in `on_delete` and insert it in `on_add` and `on_update`, even if another pod gets the address at once. When the watch was down and the informer
/// has listed everything again, the server's order is not known; the handler then receives all deletes of this relist before all its adds and updates.
/// An object that was deleted and created again meanwhile is also delivered as a delete first. Not in this order are:
///
/// - deletes that a [filter](crate::informer::Subscribe::filter) makes from updates;
/// - [coalesced](crate::informer::Subscribe::coalesce_above) events;
/// - events of different members of a [`View`](crate::View).
///
/// The methods must not block: they run on the runtime's threads. For work that takes long, put a key into a work queue, register
/// [async callbacks](crate::informer::Subscribe::on_add_async), read a [stream](super::EventStream), or give the handler [a thread of
/// its own](crate::informer::Subscribe::blocking_handler). If a method panics, the panic is logged and counted, the event counts as
/// delivered, and the handler receives its next event a second later.
///
/// An `Arc` of a handler is a handler too, so that one handler can be added to several informers. Each informer then calls it for one
/// event at a time, but different informers may call it at the same moment; a handler of a [`View`](crate::View) is called by one member
/// at a time.
///
/// ```
/// use informant::{Cached, Deleted, EventHandler, Origin};
/// use k8s_openapi::api::core::v1::Pod;
///
/// struct Printer;
///
/// impl EventHandler<Pod> for Printer {
///     fn on_add(&self, pod: &Cached<Pod>, origin: Origin) {
///         println!("+ {} ({origin:?})", pod.key());
///     }
///     fn on_delete(&self, pod: &Deleted<Pod>) {
///         println!("- {}", pod.key());
///     }
/// }
/// ```
pub trait EventHandler<O>: Send + Sync + 'static {
    /// An object was added: it is new, or it was in the cache when the handler was added.
    fn on_add(&self, object: &Cached<O>, origin: Origin) {
        let _ = (object, origin);
    }

    /// An object has changed. `old` is the state that this handler received last.
    fn on_update(&self, old: &Cached<O>, new: &Cached<O>) {
        let _ = (old, new);
    }

    /// An object was deleted.
    fn on_delete(&self, deleted: &Deleted<O>) {
        let _ = deleted;
    }

    /// An object is replayed without a change, to a handler with a [resync
    /// period](crate::informer::Subscribe::resync_every): when the period is over, and when a relist has the object unchanged; in both
    /// cases not while events of an earlier resync wait for the handler.
    ///
    /// Default: calls `on_update(object, object)`, so old and new are [the same object](Cached::ptr_eq).
    fn on_resync(&self, object: &Cached<O>) {
        self.on_update(object, object);
    }

    /// Called once, after `on_add` was called for every object of the initial list.
    fn on_synced(&self) {}

    /// The handler's name in logs, errors and metrics. Default: the name of its type.
    fn name(&self) -> String {
        std::any::type_name::<Self>().to_owned()
    }
}

impl<O, H: EventHandler<O> + ?Sized> EventHandler<O> for Arc<H> {
    fn on_add(&self, object: &Cached<O>, origin: Origin) {
        (**self).on_add(object, origin);
    }

    fn on_update(&self, old: &Cached<O>, new: &Cached<O>) {
        (**self).on_update(old, new);
    }

    fn on_delete(&self, deleted: &Deleted<O>) {
        (**self).on_delete(deleted);
    }

    fn on_resync(&self, object: &Cached<O>) {
        (**self).on_resync(object);
    }

    fn on_synced(&self) {
        (**self).on_synced();
    }

    fn name(&self) -> String {
        (**self).name()
    }
}

/// A handler whose object type is erased.
///
/// It may change its state: a worker owns its handler, or shares it with other workers under a `CallLock`.
pub(crate) enum AnyHandler {
    OfEvents(EventCallback),
    OfBatches {
        callback: BatchCallback,
        /// Awaited after the callback was dropped: the worker ends when it is ready.
        after: Option<BoxFuture<'static, ()>>,
    },
}

/// Called for one event. If the callback is async, returns its future, which must complete before the next call.
pub(crate) type EventCallback = Box<dyn FnMut(&Event<Erased>) -> Option<EventFuture> + Send>;

/// Called for all events that were distributed together.
pub(crate) type BatchCallback = Box<dyn FnMut(&[Event<Erased>]) + Send>;

/// The future of an async callback.
pub(crate) type EventFuture = BoxFuture<'static, ()>;

/// Erases the object type of a handler.
pub(crate) fn erase_handler<O: 'static>(handler: impl EventHandler<O>) -> AnyHandler {
    AnyHandler::OfEvents(Box::new(move |event: &Event<Erased>| {
        match event {
            Event::Added { object, origin } => handler.on_add(object.typed_ref(), *origin),
            Event::Updated { old, new } => handler.on_update(old.typed_ref(), new.typed_ref()),
            Event::Resynced(object) => handler.on_resync(object.typed_ref()),
            Event::Deleted(deleted) => handler.on_delete(&deleted.clone().typed()),
            Event::Synced => handler.on_synced(),
        }
        None
    }))
}
