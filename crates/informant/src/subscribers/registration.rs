//! The handle of a registered handler or stream: status, waiting, removal.
//!
//! - **In:** the listener of a handler, or the listeners of a handler of a view, one for each member.
//! - **Out:** its status, waits, removal.
//! - **Knows nothing of:** how events are delivered.

use std::{
    fmt,
    pin::pin,
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::future::{BoxFuture, Either, pending, select, try_join_all};
use tokio::time::timeout;

use super::{Listener, calling, listener::CloseReason, wait_graph::WaitConflict};
use crate::{
    ResourceVersion,
    error::{StopError, SyncError, WaitError, WaitTarget},
};

/// A registered handler or stream of one informer, or of all members of a view. Dropping it changes nothing: the handler stays registered.
///
/// Cheap to clone; all clones refer to the same registration.
#[derive(Clone)]
pub struct Registration {
    /// The name of the informer or view.
    informer: Arc<str>,
    clusters: Clusters,
    /// One for the informer, or one for each member of the view.
    listeners: Arc<[RegisteredListener]>,
    resync: Option<Duration>,
}

/// The listener of one informer.
#[derive(Clone)]
struct RegisteredListener {
    listener: Arc<Listener>,
    /// Weak, so that a registration does not keep the cache of a dropped informer in memory.
    informer: Weak<dyn CacheProgress>,
}

/// Whether the members of a view are in one cluster or in several. Versions of different clusters cannot be compared.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Clusters {
    One,
    Several,
}

/// The state of a handler or stream.
#[derive(Debug, Default, Clone, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct HandlerStatus {
    /// The handler's name.
    pub name: Arc<str>,
    /// Whether all of the initial list was delivered.
    pub is_synced: bool,
    /// How many events wait for the handler. The event that the handler is processing does not count.
    pub backlog: usize,
    /// How many events the handler has received, including the event `Synced`, which marks the end of the initial list.
    pub delivered: u64,
    /// How many events were coalesced into others because the handler was slow.
    pub coalesced: u64,
    /// How often the handler or its filter has panicked.
    pub panics: u64,
    /// How many resyncs were skipped because the handler had not received all events of the previous resync: the handler is slower
    /// than its resync period.
    pub resyncs_skipped: u64,
}

/// The part of an informer that a registration uses: waiting until the cache reaches a version.
pub(crate) trait CacheProgress: Send + Sync {
    /// Waits until the cache has reached the version and the events up to it were distributed to all listeners.
    fn wait_until_distributed<'a>(&'a self, version: &'a ResourceVersion) -> BoxFuture<'a, Result<(), WaitError>>;

    /// Returns when the informer [fails fast](crate::InformerBuilder::fail_fast) and its first list has failed. Does not return otherwise.
    fn first_list_failed(&self) -> BoxFuture<'_, SyncError>;

    /// The version of the cache, after the events up to it were distributed to all listeners; empty before the first list.
    fn distributed_version(&self) -> ResourceVersion;
}

impl Registration {
    pub(crate) fn new(listener: Arc<Listener>, informer: Weak<dyn CacheProgress>, resync: Option<Duration>) -> Self {
        let name = Arc::clone(&listener.informer);
        let listeners = Arc::new([RegisteredListener { listener, informer }]);
        Self { informer: name, clusters: Clusters::One, listeners, resync }
    }

    /// One handler that is registered with all members of a view.
    pub(crate) fn group(view: Arc<str>, clusters: Clusters, parts: &[Registration]) -> Self {
        let resync = parts.iter().filter_map(|part| part.resync).max();
        let listeners = parts.iter().flat_map(|part| part.listeners.iter().cloned()).collect();
        Self { informer: view, clusters, listeners, resync }
    }

    fn listeners(&self) -> impl Iterator<Item = &Arc<Listener>> {
        self.listeners.iter().map(|registered| &registered.listener)
    }

    /// Whether this thread runs one of the handler's own callbacks.
    fn is_inside(&self) -> bool {
        self.listeners().any(|listener| calling::is_inside(listener.owner))
    }

    /// Runs a future as a part of the handler: it cannot wait for the end of the handler or of its informers.
    pub(crate) fn as_work<'f, T: 'f>(&self, work: impl Future<Output = T> + Send + 'f) -> BoxFuture<'f, T> {
        self.listeners().fold(Box::pin(work), |work, listener| Box::pin(calling::as_work_of(listener.owner, work)))
    }

    /// The handler's name.
    pub fn name(&self) -> Arc<str> {
        self.listeners().next().map(|listener| Arc::clone(&listener.name)).unwrap_or_default()
    }

    /// The state of the handler.
    pub fn status(&self) -> HandlerStatus {
        let mut sum = HandlerStatus { name: self.name(), is_synced: true, ..HandlerStatus::default() };
        for one in self.listeners().map(|listener| listener.status()) {
            sum.is_synced &= one.is_synced;
            sum.backlog += one.backlog;
            sum.delivered += one.delivered;
            sum.coalesced += one.coalesced;
            sum.panics += one.panics;
            sum.resyncs_skipped += one.resyncs_skipped;
        }
        sum
    }

    /// How many events wait for the handler.
    pub fn backlog(&self) -> usize {
        self.status().backlog
    }

    /// The handler's resync period, as the informer granted it; `None` if it is never resynced.
    pub fn resync_period(&self) -> Option<Duration> {
        self.resync
    }

    /// Whether the informer is synced, and the handler has returned from all events of the initial list. Once true, it stays true.
    pub fn is_synced(&self) -> bool {
        self.listeners().all(|listener| listener.is_synced())
    }

    /// Waits until [`is_synced`](Self::is_synced).
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// If the handler is removed or the informer stops first; if the informer [fails fast](crate::InformerBuilder::fail_fast), as soon as a
    /// list fails with an error that retrying cannot fix; or if called in one of the handler's own callbacks before the handler is synced.
    #[doc(alias("wait_for_sync", "has_synced", "wait_until_ready"))]
    pub async fn synced(&self) -> Result<(), SyncError> {
        if self.is_inside() && !self.is_synced() {
            return Err(SyncError::InsideCallback { informer: Arc::clone(&self.informer), handler: self.name() });
        }
        try_join_all(self.listeners.iter().map(|registered| self.listener_synced(registered))).await.map(drop)
    }

    async fn listener_synced(&self, registered: &RegisteredListener) -> Result<(), SyncError> {
        let failed = async {
            match registered.informer.upgrade() {
                Some(informer) => informer.first_list_failed().await,
                None => pending().await,
            }
        };
        let closed = match select(pin!(registered.listener.synced()), pin!(failed)).await {
            Either::Left((synced, _)) => synced,
            Either::Right((error, _)) => return Err(error),
        };
        let (informer, handler) = (Arc::clone(&self.informer), self.name());
        closed.map_err(|reason| match reason {
            CloseReason::Removed => SyncError::Removed { informer, handler },
            CloseReason::Stopped => SyncError::Stopped { informer, handler: Some(handler), crash: None, reason: None },
        })
    }

    /// Waits until the handler has returned from all events up to this version, such as the version of an object that a write
    /// returned. Then everything that the handler derives from events includes that write.
    ///
    /// An event that the [filter](crate::informer::Subscribe::filter) hides or that was [coalesced](crate::informer::Subscribe::coalesce_above)
    /// into a later one need not be delivered itself, and an event at which the handler panicked counts as delivered. For a stream, an
    /// event counts as delivered when the next one is requested. For a handler of a view, the wait covers all members.
    ///
    /// The wait has no time limit; use `tokio::time::timeout`. On a quiet server, the version of the cache advances only by
    /// bookmarks, about once a minute.
    ///
    /// Cancel safe.
    ///
    /// ```
    /// use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
    /// use informant::{ResourceVersion, SharedInformerFactory};
    /// use informant_apiserver::ApiServer;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use serde_json::json;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ApiServer::new();
    /// # let client = server.client();
    /// let factory = SharedInformerFactory::new(client);
    /// let configs = factory.informer::<ConfigMap>();
    /// let count = Arc::new(AtomicUsize::new(0));
    /// let counter = Arc::clone(&count);
    /// let registration = configs
    ///     .subscribe()
    ///     .on_add(move |_, _| drop(counter.fetch_add(1, Ordering::SeqCst)))
    ///     .register()?;
    /// configs.start();
    /// registration.synced().await?;
    ///
    /// let created = server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "opening-hours"}}))?;
    /// let version = ResourceVersion::new(created["metadata"]["resourceVersion"].as_str().unwrap_or_default());
    /// registration.caught_up_to(&version).await?;
    /// assert_eq!(count.load(Ordering::SeqCst), 1);
    /// # configs.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the handler is removed or the informer stops, before the wait or during it; if the server's history changes first; if versions
    /// cannot be compared, because they are not numbers or because the members of a view are in several clusters; or if called in one of the handler's own callbacks.
    pub async fn caught_up_to(&self, version: &ResourceVersion) -> Result<(), WaitError> {
        self.check_outside()?;
        if self.clusters == Clusters::Several {
            let (view, handler, version) = (Arc::clone(&self.informer), self.name(), version.clone());
            return Err(WaitError::SeveralClusters { view, handler, version });
        }
        try_join_all(self.listeners.iter().map(|registered| registered.caught_up_to(version))).await.map(drop)
    }

    /// Waits until the handler has returned from all events of changes that are in the cache at the time of the call.
    ///
    /// Unlike [`caught_up_to`](Self::caught_up_to), this method does not wait for a cache that lags behind the server: a write of the program
    /// is included only if the cache has it, as after [`wait_for_write`](crate::SharedInformer::wait_for_write). It compares no versions,
    /// so it also works for views of several clusters and for sources whose versions are not numbers. Before the first list it returns
    /// at once; [`synced`](Self::synced) waits for the first list.
    ///
    /// The wait has no time limit; use `tokio::time::timeout`. Cancel safe.
    ///
    /// ```
    /// use std::sync::{Arc, atomic::{AtomicUsize, Ordering}};
    /// use informant::{SharedInformer, testing::ScriptedSource};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use serde_json::json;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> informant::Result<()> {
    /// let (source, handle) = ScriptedSource::live();
    /// handle.added(json!({"metadata": {"namespace": "shop", "name": "hours"}}));
    /// let configs = SharedInformer::<ConfigMap>::new(source);
    /// let count = Arc::new(AtomicUsize::new(0));
    /// let counter = Arc::clone(&count);
    /// let registration = configs.subscribe().on_add(move |_, _| drop(counter.fetch_add(1, Ordering::SeqCst))).register()?;
    /// configs.start();
    ///
    /// configs.synced().await?; // the cache has the object
    /// registration.caught_up().await?; // the handler has received it
    /// assert_eq!(count.load(Ordering::SeqCst), 1);
    /// # configs.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the handler is removed or the informer stops first, or if called in one of the handler's own callbacks.
    pub async fn caught_up(&self) -> Result<(), WaitError> {
        self.check_outside()?;
        try_join_all(self.listeners.iter().map(RegisteredListener::caught_up)).await.map(drop)
    }

    /// As [`caught_up`](Self::caught_up), but first waits until all listeners are synced.
    pub(crate) async fn synced_and_caught_up(&self) -> Result<(), WaitError> {
        self.check_outside()?;
        // If one is closed first, the wait below fails.
        let _ = try_join_all(self.listeners().map(|listener| listener.synced())).await;
        self.caught_up().await
    }

    fn check_outside(&self) -> Result<(), WaitError> {
        match self.is_inside() {
            true => Err(WaitError::InsideCallback { informer: Arc::clone(&self.informer), handler: self.name() }),
            false => Ok(()),
        }
    }

    /// Whether the handler receives no more events: it was removed, or the informer has stopped (for a view: all its informers).
    pub fn is_removed(&self) -> bool {
        self.listeners().all(|listener| listener.is_closed())
    }

    /// Whether the handler receives no more events of at least one informer.
    pub(crate) fn is_removed_anywhere(&self) -> bool {
        self.listeners().any(|listener| listener.is_closed())
    }

    /// Removes the handler. Has no effect if it was removed before. May be called in the handler's own callbacks.
    ///
    /// After this method has returned, no further call begins and no further future of an async callback starts. A running call or
    /// future goes on. Waiting events are dropped.
    pub fn remove(&self) {
        self.listeners().for_each(|listener| listener.close(CloseReason::Removed));
    }

    /// Removes the handler and waits until its running call, or the future of that call, has ended.
    ///
    /// # Errors
    ///
    /// If called in one of the handler's own callbacks, which would wait for itself. Also if callbacks of two handlers stop each other: the second
    /// call fails. The handler is removed, but the call does not wait.
    #[doc(alias = "shutdown")]
    pub async fn stop(&self) -> Result<(), StopError> {
        self.remove();
        let owners: Vec<_> = self.listeners().map(|listener| listener.owner).collect();
        let ended = async {
            for listener in self.listeners() {
                listener.ended().await;
            }
        };
        calling::wait_for_end(&owners, ended).await.map_err(|conflict| {
            let (informer, handler) = (Arc::clone(&self.informer), Some(self.name()));
            match conflict {
                WaitConflict::OwnCallback => StopError::InsideCallback { informer, handler },
                WaitConflict::Circle => StopError::WaitsForCaller { informer, handler },
            }
        })
    }

    /// As [`stop`](Self::stop), with a time limit.
    ///
    /// ```
    /// use std::time::Duration;
    /// use informant::{SharedInformer, testing::ScriptedSource};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> informant::Result<()> {
    /// let (source, _handle) = ScriptedSource::live();
    /// let configs = SharedInformer::<ConfigMap>::new(source);
    /// let registration = configs.subscribe().on_add(|config, _| println!("+ {}", config.key())).register()?;
    /// configs.start();
    /// registration.stop_within(Duration::from_secs(5)).await?;
    /// assert!(registration.is_removed());
    /// # configs.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for `stop`; and if a running callback has not returned in time. The handler is removed in all cases. Call `stop` again to
    /// continue waiting.
    pub async fn stop_within(&self, within: Duration) -> Result<(), StopError> {
        timeout(within, self.stop()).await.unwrap_or_else(|_| {
            let (informer, handler) = (Arc::clone(&self.informer), self.name());
            let callbacks = vec![Arc::clone(&handler)];
            Err(StopError::StillRunning { informer, handler: Some(handler), within, callbacks })
        })
    }
}

impl RegisteredListener {
    async fn caught_up_to(&self, version: &ResourceVersion) -> Result<(), WaitError> {
        let listener = &self.listener;
        let reached = async {
            match self.informer.upgrade() {
                Some(informer) => informer.wait_until_distributed(version).await,
                None => Err(self.not_caught_up(CloseReason::Stopped, version.clone())),
            }
        };
        let delivered = match select(pin!(listener.closed()), pin!(reached)).await {
            Either::Left((reason, _)) => Err(reason),
            Either::Right((Ok(()), _)) => listener.backlog_delivered().await,
            Either::Right((Err(error), _)) => return Err(error.of_handler(Arc::clone(&listener.name))),
        };
        delivered.map_err(|reason| self.not_caught_up(reason, version.clone()))
    }

    async fn caught_up(&self) -> Result<(), WaitError> {
        let version = self.informer.upgrade().map(|informer| informer.distributed_version()).unwrap_or_default();
        self.listener.backlog_delivered().await.map_err(|reason| self.not_caught_up(reason, version))
    }

    fn not_caught_up(&self, reason: CloseReason, version: ResourceVersion) -> WaitError {
        let (informer, handler) = (Arc::clone(&self.listener.informer), Arc::clone(&self.listener.name));
        let awaited = WaitTarget::Version(version);
        match reason {
            CloseReason::Removed => WaitError::Removed { informer, handler, awaited },
            CloseReason::Stopped => WaitError::Stopped { informer, handler: Some(handler), awaited, cache: None },
        }
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Registration").field(&self.status()).finish()
    }
}
