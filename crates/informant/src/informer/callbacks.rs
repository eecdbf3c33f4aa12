//! Callbacks as closures whose argument types the compiler infers.
//!
//! - **In:** closures, one for each type of event.
//! - **Out:** a [`Handler`] of them, which is registered with an informer or a view.
//! - **Knows nothing of:** how handlers are called.

use std::fmt;

use super::AddHandlerError;
use super::SharedInformer;
use super::Subscribe;
use crate::Cached;
use crate::Deleted;
use crate::Origin;
use crate::subscribers::Handler;
use crate::subscribers::Registration;

/// Callbacks that are about to be registered; from [`Subscribe::on_add`], `on_update`, `on_delete`, `on_resync` or `on_synced`.
///
/// The informer calls them one at a time, in order, as it calls an [`EventHandler`](crate::EventHandler). Events that have no callback are
/// dropped.
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
/// let registration = configs
///     .subscribe()
///     .named("printer")
///     .on_add(|config, origin| println!("+ {} ({origin:?})", config.key()))
///     .on_update(|old, new| println!("~ {} {} → {}", new.key(), old.version(), new.version()))
///     .on_delete(|config| println!("- {}", config.key()))
///     .register()?;
/// configs.start();
/// registration.synced().await?;
/// # configs.stop().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "no callback is called before `register` or `register_blocking`"]
pub struct Callbacks<'a, O, T = SharedInformer<O>> {
    pub(crate) subscribe: Subscribe<'a, O, T>,
    pub(crate) handler: Handler<O>,
}

impl<'a, O: 'static, T> Subscribe<'a, O, T> {
    /// Calls `callback` with each object that is added, and whether it is part of the initial list; see [`Callbacks`].
    #[track_caller]
    pub fn on_add(self, callback: impl Fn(&Cached<O>, Origin) + Send + Sync + 'static) -> Callbacks<'a, O, T> {
        Callbacks::new(self).on_add(callback)
    }

    /// Calls `callback` with the old and the new state of each object that changes; see [`Callbacks`].
    #[track_caller]
    pub fn on_update(self, callback: impl Fn(&Cached<O>, &Cached<O>) + Send + Sync + 'static) -> Callbacks<'a, O, T> {
        Callbacks::new(self).on_update(callback)
    }

    /// Calls `callback` with each object that is deleted; see [`Callbacks`].
    #[track_caller]
    pub fn on_delete(self, callback: impl Fn(&Deleted<O>) + Send + Sync + 'static) -> Callbacks<'a, O, T> {
        Callbacks::new(self).on_delete(callback)
    }

    /// Calls `callback` with each object that a resync replays; see [`Callbacks`].
    #[track_caller]
    pub fn on_resync(self, callback: impl Fn(&Cached<O>) + Send + Sync + 'static) -> Callbacks<'a, O, T> {
        Callbacks::new(self).on_resync(callback)
    }

    /// Calls `callback` once, after the last object of the initial list; see [`Callbacks`].
    #[track_caller]
    pub fn on_synced(self, callback: impl Fn() + Send + Sync + 'static) -> Callbacks<'a, O, T> {
        Callbacks::new(self).on_synced(callback)
    }
}

impl<'a, O, T> Callbacks<'a, O, T> {
    /// Without a [name](Subscribe::named), the handler is called after the caller's place in the code.
    #[track_caller]
    fn new(subscribe: Subscribe<'a, O, T>) -> Self {
        Self { subscribe, handler: Handler::new() }
    }

    /// Calls `callback` with each object that is added, and whether it is part of the initial list.
    pub fn on_add(mut self, callback: impl Fn(&Cached<O>, Origin) + Send + Sync + 'static) -> Self {
        self.handler = self.handler.on_add(callback);
        self
    }

    /// Calls `callback` with the old and the new state of each object that changes.
    pub fn on_update(mut self, callback: impl Fn(&Cached<O>, &Cached<O>) + Send + Sync + 'static) -> Self {
        self.handler = self.handler.on_update(callback);
        self
    }

    /// Calls `callback` with each object that is deleted.
    pub fn on_delete(mut self, callback: impl Fn(&Deleted<O>) + Send + Sync + 'static) -> Self {
        self.handler = self.handler.on_delete(callback);
        self
    }

    /// Calls `callback` with each object that a resync replays. Default: calls the callback of `on_update` with the object as old and new
    /// state.
    pub fn on_resync(mut self, callback: impl Fn(&Cached<O>) + Send + Sync + 'static) -> Self {
        self.handler = self.handler.on_resync(callback);
        self
    }

    /// Calls `callback` once, after the last object of the initial list.
    pub fn on_synced(mut self, callback: impl Fn() + Send + Sync + 'static) -> Self {
        self.handler = self.handler.on_synced(callback);
        self
    }
}

impl<O: 'static> Callbacks<'_, O> {
    /// Registers the callbacks. A task calls them, so they must not block.
    ///
    /// # Errors
    ///
    /// When the informer has stopped, or inside one of its index functions.
    pub fn register(self) -> Result<Registration, AddHandlerError> {
        self.subscribe.handler(self.handler)
    }

    /// Registers the callbacks. A thread of their own calls them, so they may block.
    ///
    /// # Errors
    ///
    /// When the informer has stopped, or inside one of its index functions.
    pub fn register_blocking(self) -> Result<Registration, AddHandlerError> {
        self.subscribe.blocking_handler(self.handler)
    }
}

impl<O, T: fmt::Debug> fmt::Debug for Callbacks<'_, O, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Callbacks").field("subscribe", &self.subscribe).finish_non_exhaustive()
    }
}
