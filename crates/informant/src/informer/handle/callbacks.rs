//! Callbacks as closures whose argument types the compiler infers.
//!
//! - **In:** closures, one for each type of event.
//! - **Out:** a handler made of them, which is registered with an informer or a view.
//! - **Knows nothing of:** how handlers are called.

use std::{fmt, panic::Location};

use super::{AddHandlerError, SharedInformer, Subscribe};
use crate::{
    Cached, Deleted, Origin,
    subscribers::{Closures, Registration, WorkerKind, name_at},
};

/// Callbacks that are about to be registered; from [`Subscribe::on_add`], [`on_add_async`](Subscribe::on_add_async) and the other
/// `on_…` methods of [`Subscribe`].
///
/// The informer calls them for one event at a time, in order, as it calls an [`EventHandler`](crate::EventHandler). So a callback may
/// change what it captures, without a lock. Events that have no callback are ignored. A callback that is set a second time, in
/// either form, replaces the first one.
///
/// ```
/// use informant::SharedInformer;
/// use informant::listwatch::KubeSource;
/// use informant_apiserver::ApiServer;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::new();
/// server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "opening-hours"}}))?;
/// # let client = server.client();
/// let configs = SharedInformer::<ConfigMap>::new(KubeSource::of_kind::<ConfigMap>(client));
/// let mut adds = 0;
/// let registration = configs
///     .subscribe()
///     .named("printer")
///     .on_add(move |config, origin| {
///         adds += 1;
///         println!("+ {} ({origin:?}), number {adds}", config.key());
///     })
///     .on_update(|old, new| println!("~ {} {} → {}", new.key(), old.version(), new.version()))
///     .on_delete(|config| println!("- {}", config.key()))
///     .register()?;
/// configs.start();
/// registration.synced().await?;
/// # configs.stop().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Async callbacks
///
/// The methods that end in `_async` take a function from owned objects to a future. The next event is delivered when the future has
/// completed, whether the next event's callback is async or not. A slow future delays only this handler: the cache and other handlers go on, and
/// the handler's events wait, as they do for a slow handler ([`coalesce_above`](Subscribe::coalesce_above) bounds them). If a future
/// panics, the panic is logged and counted, and the handler receives its next event a second later.
///
/// [`stop`](SharedInformer::stop) of the informer and of the [`Registration`] wait until the running future has completed, and start no
/// other one. They do not cancel it: a future that may wait for long should have a timeout. If the runtime shuts down, a
/// running future is dropped at its current await point; with [`register_blocking`](Self::register_blocking) it goes on, on its own thread.
///
/// ```
/// use informant::SharedInformer;
/// use informant::listwatch::KubeSource;
/// use informant_apiserver::ApiServer;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::new();
/// server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "opening-hours"}}))?;
/// # let client = server.client();
/// let configs = SharedInformer::<ConfigMap>::new(KubeSource::of_kind::<ConfigMap>(client));
/// let (sender, mut receiver) = tokio::sync::mpsc::channel(1);
/// let registration = configs
///     .subscribe()
///     .on_add_async(move |config, _origin| {
///         // Called for each event; the future owns what it needs.
///         let sender = sender.clone();
///         async move {
///             // Waits while the channel is full. An error means that the receiver is gone.
///             let _ = sender.send(config).await;
///         }
///     })
///     .on_delete(|config| println!("- {}", config.key()))
///     .register()?;
/// configs.start();
///
/// let config = receiver.recv().await.ok_or("no object")?;
/// assert_eq!(config.key().name(), "opening-hours");
/// # drop(registration);
/// # configs.stop().await?;
/// # Ok(())
/// # }
/// ```
///
/// # Callbacks that read and write other objects
///
/// - **Other caches.** The callbacks of one informer can run before another informer has its initial list. A callback that reads another
///   informer's cache first awaits that informer's [`synced`](SharedInformer::synced).
/// - **Failed writes.** A callback is not called again for the same event. To try again later, set
///   [`resync_every`](super::InformerBuilder::resync_every) of the informer: the callback for updates then receives every object once per period (`on_event` receives [`Event::Resynced`](crate::Event::Resynced)).
/// - **Own writes.** [`wait_for_write`](SharedInformer::wait_for_write) waits until a cache shows what a callback has written.
/// - **Stopping.** If a callback waits for another informer, stop its [`Registration`] before the factory, with a time limit: once the other informer
///   has stopped, the wait fails. Stop the factory even if the time limit has passed.
#[must_use = "no callback is called before `register` or `register_blocking`"]
pub struct Callbacks<'a, O, T = SharedInformer<O>> {
    pub(crate) subscribe: Subscribe<'a, O, T>,
    pub(crate) closures: Closures<O>,
}

/// Defines the methods of [`Subscribe`] and [`Callbacks`] that set a callback. Each line names a method and the arguments of its
/// callback, the same of its async form, and when the callback is called.
macro_rules! callbacks {
    ($($on:ident($($borrowed:ty),*), $on_async:ident($($owned:ty),*): $when:literal, $default:literal;)*) => {
        impl<'a, O: 'static, T> Subscribe<'a, O, T> {
            $(
                #[doc = concat!("Calls `callback` ", $when, "; see [`Callbacks`].")]
                #[track_caller]
                pub fn $on(self, callback: impl FnMut($($borrowed),*) + Send + 'static) -> Callbacks<'a, O, T> {
                    Callbacks::new(self).$on(callback)
                }

                #[doc = concat!("Calls `callback` ", $when, ", and awaits the future that it returns; see")]
                /// [async callbacks](Callbacks#async-callbacks).
                #[track_caller]
                pub fn $on_async<F>(self, callback: impl FnMut($($owned),*) -> F + Send + 'static) -> Callbacks<'a, O, T>
                where
                    F: Future<Output = ()> + Send + 'static,
                {
                    Callbacks::new(self).$on_async(callback)
                }
            )*
        }

        impl<O: 'static, T> Callbacks<'_, O, T> {
            $(
                #[doc = concat!("Calls `callback` ", $when, ".", $default)]
                pub fn $on(mut self, callback: impl FnMut($($borrowed),*) + Send + 'static) -> Self {
                    self.closures.$on(callback);
                    self
                }

                #[doc = concat!("Calls `callback` ", $when, ", and awaits the future that it returns.", $default)]
                pub fn $on_async<F>(mut self, callback: impl FnMut($($owned),*) -> F + Send + 'static) -> Self
                where
                    F: Future<Output = ()> + Send + 'static,
                {
                    self.closures.$on_async(callback);
                    self
                }
            )*
        }
    };
}

callbacks! {
    on_add(&Cached<O>, Origin), on_add_async(Cached<O>, Origin):
        "with each object that is added, and whether the object is part of the initial list", "";
    on_update(&Cached<O>, &Cached<O>), on_update_async(Cached<O>, Cached<O>):
        "with the old and the new state of each object that changes", "";
    on_delete(&Deleted<O>), on_delete_async(Deleted<O>): "with each object that is deleted", "";
    on_resync(&Cached<O>), on_resync_async(Cached<O>): "with each object that a resync replays",
        " Default: calls the callback for updates with the object as old and new state.";
    on_synced(), on_synced_async(): "once, after the last object of the initial list", "";
}

impl<'a, O: 'static, T> Callbacks<'a, O, T> {
    /// Without a [name](Subscribe::named), the handler has the caller's place in the code as its name.
    #[track_caller]
    fn new(mut subscribe: Subscribe<'a, O, T>) -> Self {
        subscribe.options.set_default_name(name_at(Location::caller()));
        Self { subscribe, closures: Closures::new() }
    }
}

impl<O: 'static> Callbacks<'_, O> {
    /// Registers the callbacks. A task calls them and runs their futures, so they must not block.
    ///
    /// # Errors
    ///
    /// If the informer has stopped, or if called in one of its index functions.
    pub fn register(self) -> Result<Registration, AddHandlerError> {
        self.subscribe.register(self.closures.into_handler(), WorkerKind::Task)
    }

    /// Registers the callbacks. A thread of their own calls them, so they may block. It also runs the futures of async callbacks, which
    /// may block as well.
    ///
    /// # Errors
    ///
    /// If the informer has stopped, or if called in one of its index functions.
    pub fn register_blocking(self) -> Result<Registration, AddHandlerError> {
        self.subscribe.register(self.closures.into_handler(), WorkerKind::Thread)
    }
}

impl<O, T: fmt::Debug> fmt::Debug for Callbacks<'_, O, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks").field("subscribe", &self.subscribe).finish_non_exhaustive()
    }
}
