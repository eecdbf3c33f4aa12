//! Registers one handler or stream with all members of a view.
//!
//! - **In:** a handler, callbacks or settings of a stream.
//! - **Out:** a registration that covers all members.
//! - **Knows nothing of:** how events are delivered.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use parking_lot::Mutex;

use super::{AnyView, View, ViewStream, stream::AnyViewStream};
use crate::{
    Event, EventHandler, Registration,
    informer::{AddHandlerError, AnyInformer, Callbacks, EventCallback, Subscribe, SubscribeOptions},
    object::Erased,
    subscribers::{AnyEventStream, AnyHandler, CallLock, Clusters, EventFuture, WorkerKind, erase_handler},
};

impl<O: 'static, A> View<O, A> {
    /// Registers a handler with all members, with default settings; see [`subscribe`](Self::subscribe) for others.
    ///
    /// One member at a time calls it. `on_synced` is called once, when all members are synced; if a member stops before that, it is
    /// never called. There is no
    /// order between the events of different members.
    ///
    /// # Errors
    ///
    /// If a member has stopped, or if called in one of its index functions. Then the handler is registered with no member.
    pub fn add_handler(&self, handler: impl EventHandler<O>) -> Result<Registration, AddHandlerError> {
        self.subscribe().handler(handler)
    }

    /// Registers one stream of the events of all members, with default settings; see [`subscribe`](Self::subscribe) for others.
    ///
    /// # Errors
    ///
    /// If a member has stopped, or if called in one of its index functions.
    pub fn stream(&self) -> Result<ViewStream<O>, AddHandlerError> {
        self.subscribe().stream()
    }

    /// Starts to register callbacks, a handler or a stream with settings: a name, a filter, a resync period, coalescing.
    #[doc(alias = "add_event_handler")]
    pub fn subscribe(&self) -> Subscribe<'_, O, Self> {
        Subscribe::new(self)
    }
}

impl<O: 'static, A> Subscribe<'_, O, View<O, A>> {
    /// Registers a handler with all members; see [`View::add_handler`].
    ///
    /// # Errors
    ///
    /// If a member has stopped, or if called in one of its index functions. Then the handler is registered with no member.
    pub fn handler(mut self, handler: impl EventHandler<O>) -> Result<Registration, AddHandlerError> {
        self.options.set_default_name(handler.name());
        self.target.view.add_handler(erase_handler(handler), &self.options, WorkerKind::Task)
    }

    /// Registers a handler that may block with all members. Each member has a thread for it, and the threads take turns.
    ///
    /// # Errors
    ///
    /// If a member has stopped, or if called in one of its index functions. Then the handler is registered with no member.
    pub fn blocking_handler(mut self, handler: impl EventHandler<O>) -> Result<Registration, AddHandlerError> {
        self.options.set_default_name(handler.name());
        self.target.view.add_handler(erase_handler(handler), &self.options, WorkerKind::Thread)
    }

    /// Registers one stream of the events of all members.
    ///
    /// # Errors
    ///
    /// If a member has stopped, or if called in one of its index functions.
    pub fn stream(self) -> Result<ViewStream<O>, AddHandlerError> {
        self.target.view.add_stream(&self.options).map(ViewStream::from_any)
    }
}

impl<O: 'static, A> Callbacks<'_, O, View<O, A>> {
    /// Registers the callbacks with all members. Tasks call them and run their futures, one event at a time, so they must not block.
    ///
    /// # Errors
    ///
    /// If a member has stopped, or if called in one of its index functions. Then they are registered with no member.
    pub fn register(self) -> Result<Registration, AddHandlerError> {
        self.subscribe.target.view.add_handler(self.closures.into_handler(), &self.subscribe.options, WorkerKind::Task)
    }

    /// Registers the callbacks with all members. Threads of their own call them and run their futures, one event at a time, so they may
    /// block.
    ///
    /// # Errors
    ///
    /// If a member has stopped, or if called in one of its index functions. Then they are registered with no member.
    pub fn register_blocking(self) -> Result<Registration, AddHandlerError> {
        self.subscribe.target.view.add_handler(
            self.closures.into_handler(),
            &self.subscribe.options,
            WorkerKind::Thread,
        )
    }
}

impl<O: 'static, A> EventCallback<'_, O, View<O, A>> {
    /// Registers the callback with all members. Tasks call it and run its futures, one event at a time, so it must not block.
    ///
    /// # Errors
    ///
    /// If a member has stopped, or if called in one of its index functions. Then the callback is registered with no member.
    pub fn register(self) -> Result<Registration, AddHandlerError> {
        self.subscribe.target.view.add_handler(self.handler, &self.subscribe.options, WorkerKind::Task)
    }

    /// Registers the callback with all members. Threads of its own call it and run its futures, one event at a time, so it may block.
    ///
    /// # Errors
    ///
    /// If a member has stopped, or if called in one of its index functions. Then the callback is registered with no member.
    pub fn register_blocking(self) -> Result<Registration, AddHandlerError> {
        self.subscribe.target.view.add_handler(self.handler, &self.subscribe.options, WorkerKind::Thread)
    }
}

impl AnyView {
    /// Registers a handler with all members, or with none if a member refuses it.
    fn add_handler(
        &self,
        handler: AnyHandler,
        options: &SubscribeOptions,
        kind: WorkerKind,
    ) -> Result<Registration, AddHandlerError> {
        let members = self.informers().len();
        let shared = Arc::new(SharedHandler { handler: Mutex::new(handler), unsynced: AtomicUsize::new(members) });
        let call_lock = CallLock::default();
        // The handler is not called before all members have accepted it: if one refuses, it has received no event.
        let held = call_lock.try_lock();
        let mut parts = Vec::with_capacity(members);
        for member in self.informers() {
            let shared = Arc::clone(&shared);
            let handler = move |event: &Event<Erased>| shared.call(event);
            match member.add_handler(Box::new(handler), options.clone(), kind, Some(call_lock.clone())) {
                Ok(registration) => parts.push(registration),
                Err(error) => {
                    parts.iter().for_each(Registration::remove);
                    return Err(error);
                }
            }
        }
        drop(held);
        Ok(Registration::group(Arc::clone(&self.name), self.clusters(), &parts))
    }

    /// Returns whether the members are in one cluster. Versions of several clusters cannot be compared.
    fn clusters(&self) -> Clusters {
        let mut clusters = self.informers().map(AnyInformer::cluster);
        let first = clusters.next();
        if clusters.all(|cluster| Some(cluster) == first) { Clusters::One } else { Clusters::Several }
    }

    /// Registers one stream of the events of all members.
    fn add_stream(&self, options: &SubscribeOptions) -> Result<AnyViewStream, AddHandlerError> {
        // If a member refuses, the streams of the other members are dropped, which unregisters them.
        let streams = self.informers().map(|member| member.add_stream(options.clone()));
        let streams = streams.collect::<Result<Vec<_>, _>>()?;
        let parts: Vec<_> = streams.iter().map(AnyEventStream::registration).cloned().collect();
        Ok(AnyViewStream::new(streams, Registration::group(Arc::clone(&self.name), self.clusters(), &parts)))
    }
}

/// The handler that all members of a view share.
struct SharedHandler {
    /// Never contended: a worker calls the handler under the `CallLock`.
    handler: Mutex<AnyHandler>,
    /// The number of members that have not delivered their `Synced` event.
    unsynced: AtomicUsize,
}

impl SharedHandler {
    fn call(&self, event: &Event<Erased>) -> Option<EventFuture> {
        let is_hidden = match event {
            // The handler is called once, when the last member is synced.
            Event::Synced => self.unsynced.fetch_sub(1, Ordering::AcqRel) > 1,
            Event::Added { .. } | Event::Updated { .. } | Event::Resynced(_) | Event::Deleted(_) => false,
        };
        if is_hidden { None } else { (self.handler.lock())(event) }
    }
}
