//! One closure for all types of events.
//!
//! - **In:** a closure that takes an [`Event`], synchronous or async.
//! - **Out:** a handler made of it, which is registered with an informer or a view.
//! - **Knows nothing of:** how handlers are called.

use std::{fmt, panic::Location};

use futures_util::FutureExt;

use super::{AddHandlerError, SharedInformer, Subscribe};
use crate::{
    Event,
    object::Erased,
    subscribers::{AnyHandler, Registration, WorkerKind, name_at},
};

/// A callback for all events that is about to be registered; from [`Subscribe::on_event`] and
/// [`on_event_async`](Subscribe::on_event_async).
///
/// It cannot be combined with [callbacks for one type of event](super::Callbacks): the one closure receives every event.
#[must_use = "the callback is not called before `register` or `register_blocking`"]
pub struct EventCallback<'a, O, T = SharedInformer<O>> {
    pub(crate) subscribe: Subscribe<'a, O, T>,
    pub(crate) handler: AnyHandler,
}

impl<'a, O: 'static, T> Subscribe<'a, O, T> {
    /// Calls `callback` with each event. The closure owns the event and may change what it captures, without a lock.
    ///
    /// Events arrive one at a time, in the order in which [the other callbacks](super::Callbacks) would receive them.
    ///
    /// ```
    /// use std::collections::HashMap;
    /// use informant::{Event, SharedInformer};
    /// use informant::listwatch::ScriptedSource;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use serde_json::json;
    /// use tokio::sync::watch;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> informant::Result<()> {
    /// let (source, handle) = ScriptedSource::live();
    /// handle.added(json!({"metadata": {"namespace": "shop", "name": "hours"}}));
    /// let configs = SharedInformer::<ConfigMap>::new(source);
    ///
    /// let mut objects = HashMap::new(); // the closure's own state
    /// let (count, counted) = watch::channel(0);
    /// let registration = configs
    ///     .subscribe()
    ///     .on_event(move |event| {
    ///         match event {
    ///             Event::Added { object, .. } | Event::Updated { new: object, .. } | Event::Resynced(object) => {
    ///                 objects.insert(object.key().clone(), object);
    ///             }
    ///             Event::Deleted(config) => drop(objects.remove(config.key())),
    ///             Event::Synced => println!("the initial list is complete"),
    ///         }
    ///         count.send_replace(objects.len());
    ///     })
    ///     .register()?;
    /// configs.start();
    /// registration.synced().await?;
    /// assert_eq!(*counted.borrow(), 1);
    /// # configs.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn on_event(self, mut callback: impl FnMut(Event<O>) + Send + 'static) -> EventCallback<'a, O, T> {
        let handler = move |event: &Event<Erased>| {
            callback(event.clone().typed());
            None
        };
        EventCallback::new(self, Box::new(handler))
    }

    /// Calls `callback` with each event, and awaits the future that it returns before the next event is delivered; see [async
    /// callbacks](super::Callbacks#async-callbacks).
    ///
    /// ```
    /// use informant::SharedInformer;
    /// use informant::listwatch::ScriptedSource;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use serde_json::json;
    /// use tokio::sync::mpsc;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> informant::Result<()> {
    /// let (source, handle) = ScriptedSource::live();
    /// handle.added(json!({"metadata": {"namespace": "shop", "name": "hours"}}));
    /// let configs = SharedInformer::<ConfigMap>::new(source);
    /// let (sender, mut keys) = mpsc::channel(1);
    /// configs
    ///     .subscribe()
    ///     .on_event_async(move |event| {
    ///         let sender = sender.clone();
    ///         async move {
    ///             if let Some(key) = event.key() {
    ///                 // Waits while the channel is full. An error means that the receiver is gone.
    ///                 let _ = sender.send(key.clone()).await;
    ///             }
    ///         }
    ///     })
    ///     .register()?;
    /// configs.start();
    /// assert_eq!(keys.recv().await.unwrap().as_str(), "shop/hours");
    /// # configs.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn on_event_async<F>(self, mut callback: impl FnMut(Event<O>) -> F + Send + 'static) -> EventCallback<'a, O, T>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let handler = move |event: &Event<Erased>| Some(callback(event.clone().typed()).boxed());
        EventCallback::new(self, Box::new(handler))
    }
}

impl<'a, O, T> EventCallback<'a, O, T> {
    /// Without a [name](Subscribe::named), the handler has the caller's place in the code as its name.
    #[track_caller]
    fn new(mut subscribe: Subscribe<'a, O, T>, handler: AnyHandler) -> Self {
        subscribe.options.set_default_name(name_at(Location::caller()));
        Self { subscribe, handler }
    }
}

impl<O: 'static> EventCallback<'_, O> {
    /// Registers the callback. A task calls it and runs its futures, so it must not block.
    ///
    /// # Errors
    ///
    /// If the informer has stopped, or if called in one of its index functions.
    pub fn register(self) -> Result<Registration, AddHandlerError> {
        self.subscribe.register(self.handler, WorkerKind::Task)
    }

    /// Registers the callback. A thread of its own calls it and runs its futures, so it may block.
    ///
    /// # Errors
    ///
    /// If the informer has stopped, or if called in one of its index functions.
    pub fn register_blocking(self) -> Result<Registration, AddHandlerError> {
        self.subscribe.register(self.handler, WorkerKind::Thread)
    }
}

impl<O, T: fmt::Debug> fmt::Debug for EventCallback<'_, O, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventCallback").field("subscribe", &self.subscribe).finish_non_exhaustive()
    }
}
