//! Handlers made of closures, one for each type of event.
//!
//! - **In:** closures, synchronous ones and ones that return a future.
//! - **Out:** a [`Handler`], or `Closures` that a worker calls without a lock.
//! - **Knows nothing of:** buffers, tasks, panics.

use std::{fmt, panic::Location};

use futures_util::FutureExt;
use parking_lot::Mutex;

use super::{AnyHandler, EventHandler, handler::EventFuture};
use crate::{Cached, Deleted, Event, Origin, object::Erased};

/// A handler made of closures. Events without a closure are ignored.
///
/// The closures may change what they capture (`FnMut`). They are called one at a time, also if an `Arc` of the handler was added to
/// several informers: then a call blocks its thread until the other call has returned. A closure that is set a second time
/// replaces the first one.
///
/// [`subscribe().on_add(…)`](crate::informer::Subscribe::on_add) does the same for one informer, infers the object type, and also takes
/// async callbacks.
///
/// ```
/// use informant::Handler;
/// use k8s_openapi::api::core::v1::Pod;
///
/// let mut adds = 0;
/// let handler = Handler::<Pod>::new()
///     .on_add(move |pod, origin| {
///         adds += 1;
///         println!("+ {} ({origin:?}), number {adds}", pod.key());
///     })
///     .on_update(|old, new| println!("~ {} {} → {}", new.key(), old.version(), new.version()))
///     .on_delete(|pod| println!("- {}", pod.key()));
/// ```
#[must_use = "a handler is not called before it is added to an informer"]
pub struct Handler<O> {
    /// Locked while a closure runs. No other code takes this lock.
    closures: Mutex<Closures<O>>,
    made_at: &'static Location<'static>,
}

/// One closure for each type of event.
pub(crate) struct Closures<O> {
    on_add: Option<OnAdd<O>>,
    on_update: Option<OnUpdate<O>>,
    on_delete: Option<OnDelete<O>>,
    on_resync: Option<OnResync<O>>,
    on_synced: Option<OnSynced>,
}

// A synchronous closure is stored as one that returns no future.
type OnAdd<O> = Box<dyn FnMut(&Cached<O>, Origin) -> Option<EventFuture> + Send>;
type OnUpdate<O> = Box<dyn FnMut(&Cached<O>, &Cached<O>) -> Option<EventFuture> + Send>;
type OnDelete<O> = Box<dyn FnMut(&Deleted<O>) -> Option<EventFuture> + Send>;
type OnResync<O> = Box<dyn FnMut(&Cached<O>) -> Option<EventFuture> + Send>;
type OnSynced = Box<dyn FnMut() -> Option<EventFuture> + Send>;

impl<O: 'static> Handler<O> {
    /// A handler without closures. Its default name is the place in the code where it was made.
    #[track_caller]
    pub fn new() -> Self {
        Self { closures: Mutex::new(Closures::new()), made_at: Location::caller() }
    }

    /// Calls `callback` with each object that is added, and whether the object is part of the initial list.
    pub fn on_add(mut self, callback: impl FnMut(&Cached<O>, Origin) + Send + 'static) -> Self {
        self.closures.get_mut().on_add(callback);
        self
    }

    /// Calls `callback` with the old and the new state of each object that changes.
    pub fn on_update(mut self, callback: impl FnMut(&Cached<O>, &Cached<O>) + Send + 'static) -> Self {
        self.closures.get_mut().on_update(callback);
        self
    }

    /// Calls `callback` with each object that is deleted.
    pub fn on_delete(mut self, callback: impl FnMut(&Deleted<O>) + Send + 'static) -> Self {
        self.closures.get_mut().on_delete(callback);
        self
    }

    /// Calls `callback` with each object that a resync replays. Default: calls the closure of `on_update` with the object as old and
    /// new state.
    pub fn on_resync(mut self, callback: impl FnMut(&Cached<O>) + Send + 'static) -> Self {
        self.closures.get_mut().on_resync(callback);
        self
    }

    /// Calls `callback` once, after the last object of the initial list.
    pub fn on_synced(mut self, callback: impl FnMut() + Send + 'static) -> Self {
        self.closures.get_mut().on_synced(callback);
        self
    }
}

impl<O: 'static> EventHandler<O> for Handler<O> {
    // None of these closures returns a future: `Handler` has no method that takes an async callback.
    fn on_add(&self, object: &Cached<O>, origin: Origin) {
        self.closures.lock().call_add(object, origin);
    }

    fn on_update(&self, old: &Cached<O>, new: &Cached<O>) {
        self.closures.lock().call_update(old, new);
    }

    fn on_delete(&self, deleted: &Deleted<O>) {
        self.closures.lock().call_delete(deleted);
    }

    fn on_resync(&self, object: &Cached<O>) {
        self.closures.lock().call_resync(object);
    }

    fn on_synced(&self) {
        self.closures.lock().call_synced();
    }

    fn name(&self) -> String {
        name_at(self.made_at)
    }
}

/// Defines how one callback of [`Closures`] is set, in its synchronous and its async form. An async callback owns its arguments, so it
/// receives clones.
macro_rules! setters {
    ($on:ident, $on_async:ident, ($($argument:ident: $borrowed:ty => $owned:ty),*)) => {
        pub(crate) fn $on(&mut self, mut callback: impl FnMut($($borrowed),*) + Send + 'static) {
            self.$on = Some(Box::new(move |$($argument: $borrowed),*| {
                callback($($argument),*);
                None
            }));
        }

        pub(crate) fn $on_async<F>(&mut self, mut callback: impl FnMut($($owned),*) -> F + Send + 'static)
        where
            F: Future<Output = ()> + Send + 'static,
        {
            self.$on = Some(Box::new(move |$($argument: $borrowed),*| Some(callback($($argument.clone()),*).boxed())));
        }
    };
}

impl<O: 'static> Closures<O> {
    pub(crate) fn new() -> Self {
        Self { on_add: None, on_update: None, on_delete: None, on_resync: None, on_synced: None }
    }

    /// Returns a handler that calls the closures without a lock.
    pub(crate) fn into_handler(mut self) -> AnyHandler {
        Box::new(move |event: &Event<Erased>| match event {
            Event::Added { object, origin } => self.call_add(object.typed_ref(), *origin),
            Event::Updated { old, new } => self.call_update(old.typed_ref(), new.typed_ref()),
            Event::Resynced(object) => self.call_resync(object.typed_ref()),
            Event::Deleted(deleted) => self.call_delete(&deleted.clone().typed()),
            Event::Synced => self.call_synced(),
        })
    }

    setters!(on_add, on_add_async, (object: &Cached<O> => Cached<O>, origin: Origin => Origin));
    setters!(on_update, on_update_async, (old: &Cached<O> => Cached<O>, new: &Cached<O> => Cached<O>));
    setters!(on_delete, on_delete_async, (deleted: &Deleted<O> => Deleted<O>));
    setters!(on_resync, on_resync_async, (object: &Cached<O> => Cached<O>));
    setters!(on_synced, on_synced_async, ());

    fn call_add(&mut self, object: &Cached<O>, origin: Origin) -> Option<EventFuture> {
        let callback = self.on_add.as_mut()?;
        callback(object, origin)
    }

    fn call_update(&mut self, old: &Cached<O>, new: &Cached<O>) -> Option<EventFuture> {
        let callback = self.on_update.as_mut()?;
        callback(old, new)
    }

    fn call_delete(&mut self, deleted: &Deleted<O>) -> Option<EventFuture> {
        let callback = self.on_delete.as_mut()?;
        callback(deleted)
    }

    fn call_resync(&mut self, object: &Cached<O>) -> Option<EventFuture> {
        match &mut self.on_resync {
            Some(callback) => callback(object),
            None => self.call_update(object, object),
        }
    }

    fn call_synced(&mut self) -> Option<EventFuture> {
        let callback = self.on_synced.as_mut()?;
        callback()
    }
}

/// Returns the name of a handler that is named by its place in the code.
pub(crate) fn name_at(made_at: &Location<'_>) -> String {
    format!("handler at {made_at}")
}

impl<O: 'static> Default for Handler<O> {
    #[track_caller]
    fn default() -> Self {
        Self::new()
    }
}

impl<O> fmt::Debug for Handler<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handler").field("made_at", &format_args!("{}", self.made_at)).finish_non_exhaustive()
    }
}
