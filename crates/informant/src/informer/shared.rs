//! One informer for everybody who is interested in one kind.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use ref_cast::RefCastCustom;
use ref_cast::ref_cast_custom;

use super::AddHandlerError;
use super::AlreadyStarted;
use super::AnyInformer;
use super::AnyInformerBuilder;
use super::InformerBuilder;
use super::InformerStatus;
use super::StopError;
use super::Subscribe;
use super::SyncError;
use super::WaitError;
use crate::Cached;
use crate::Key;
use crate::Object;
use crate::ResourceVersion;
use crate::listwatch::ListWatch;
use crate::listwatch::ListWatchError;
use crate::listwatch::Quarantined;
use crate::listwatch::Reflector;
use crate::listwatch::TransformResult;
use crate::listwatch::transform_of;
use crate::object::Identity;
use crate::store::DuplicateIndex;
use crate::store::Index;
use crate::store::IndexFunction;
use crate::store::IndexPanic;
use crate::store::IndexValue;
use crate::store::Lister;
use crate::subscribers::EventHandler;
use crate::subscribers::EventStream;
use crate::subscribers::Registration;

/// One indexed, always-current local copy of a kind, that any number of handlers can follow.
///
/// - **Read it** with its [`lister`](Self::lister) and [indexes](Self::add_index): every answer is consistent, shared, not copied.
/// - **Follow it** with [handlers](Self::add_handler) and [streams](Self::stream), added before or after the start. Each has its
///   own buffer and hears of everything exactly once: first of what is there, then of every change.
/// - **Rely on it**: [`synced`](Self::synced) waits for the first list, [`wait_for`](Self::wait_for) for what you have
///   written yourself, and [`status`](Self::status) says what is wrong if something is.
///
/// Cheap to clone; all clones are handles of the same informer. An informer runs until it is [stopped](Self::stop) or its last handle
/// is dropped; in the latter case it logs that it stops. A [factory](crate::SharedInformerFactory) and a [`View`](crate::View) have
/// handles of their informers. Listers, registrations and streams are not handles: they do not keep the informer running. A handler that
/// owns a handle of its own informer keeps it running until it is stopped; give it a lister instead.
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
/// // An API server for examples and tests; with a cluster, this is `kube::Client::try_default().await?`.
/// let server = ApiServer::new();
/// server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "opening-hours"}, "data": {"open": "9-17"}}))?;
/// let client = server.client();
///
/// let configs = SharedInformer::<ConfigMap>::new(KubeSource::of_kind::<ConfigMap>(client));
/// let printer = configs
///     .subscribe()
///     .on_add(|config, origin| println!("+ {} ({origin:?})", config.key()))
///     .on_update(|old, new| println!("~ {} {} → {}", new.key(), old.version(), new.version()))
///     .on_delete(|config| println!("- {}", config.key()))
///     .register()?;
/// configs.start();
/// configs.synced().await?;
/// printer.synced().await?;
///
/// let hours = configs.lister().require(&"shop/opening-hours".parse()?)?;
/// assert_eq!(hours.data.as_ref().unwrap()["open"], "9-17");
///
/// // Waits for running callbacks; nothing is left.
/// configs.stop().await?;
/// # Ok(())
/// # }
/// ```
#[derive(RefCastCustom)]
#[repr(transparent)]
pub struct SharedInformer<O> {
    pub(crate) informer: AnyInformer,
    object_type: PhantomData<fn(O) -> O>,
}

/// What an informer is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum InformerState {
    /// It has not started.
    New,
    /// It runs.
    Running,
    /// It was asked to stop, or cannot go on, and callbacks may still be running.
    Stopping,
    /// It has stopped; nothing of it is left.
    Stopped,
}

impl<O> SharedInformer<O> {
    /// Gives an informer an object type.
    pub(crate) fn from_any(informer: AnyInformer) -> Self {
        Self { informer, object_type: PhantomData }
    }

    /// As [`from_any`](Self::from_any), of a reference.
    #[ref_cast_custom]
    pub(crate) fn from_any_ref(informer: &AnyInformer) -> &Self;
}

impl<O: Send + Sync + 'static> SharedInformer<O> {
    /// An informer of objects that come as JSON.
    pub fn new(source: impl ListWatch<O>) -> Self
    where
        O: Object,
    {
        Self::builder(source).build()
    }

    /// Settings of an informer of objects that come as JSON.
    pub fn builder(source: impl ListWatch<O>) -> InformerBuilder<O>
    where
        O: Object,
    {
        InformerBuilder::from_any(AnyInformerBuilder::new(Reflector::builder(source).into_any()))
    }

    /// Settings of an informer of a source whose objects come [ready](crate::listwatch::Item::new): they can be of any type.
    pub fn of_ready_objects(source: impl ListWatch<O>) -> InformerBuilder<O> {
        InformerBuilder::from_any(AnyInformerBuilder::new(Reflector::of_ready_objects(source).into_any()))
    }

    /// What it is called in logs, errors and metrics.
    pub fn name(&self) -> &Arc<str> {
        self.informer.name()
    }

    /// The namespace that its objects are of, if its source has [only one](crate::listwatch::KubeSource::in_namespace).
    pub fn namespace(&self) -> Option<&Arc<str>> {
        self.informer.namespace()
    }

    /// The cluster that its objects are of, if its source [names one](crate::listwatch::KubeSource::of_cluster).
    pub fn cluster(&self) -> Option<&Arc<str>> {
        self.informer.cluster()
    }

    /// Starts it, in tasks of the runtime that this is called in. Says whether it did: it starts only once, and not after it
    /// was stopped.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with a clock.
    pub fn start(&self) -> bool {
        let has_started = self.informer.start_if_new();
        if !has_started {
            tracing::warn!(kind = &**self.name(), "started already, or stopped; a second start does nothing");
        }
        has_started
    }

    /// What it is doing.
    pub fn state(&self) -> InformerState {
        self.informer.state()
    }

    /// Stops it, and waits until no callback runs and no task is left. Events that wait for handlers are dropped.
    ///
    /// Cancel safe: it stops all the same.
    ///
    /// # Errors
    ///
    /// From inside one of its own callbacks, index functions among them, which would wait for itself. It stops all the same.
    pub async fn stop(&self) -> Result<(), StopError> {
        self.informer.stop().await
    }

    /// As [`stop`](Self::stop), but waits no longer than this.
    ///
    /// # Errors
    ///
    /// As for `stop`; and if callbacks have not returned by then, with the names of their handlers. They can be waited for
    /// again.
    pub async fn stop_within(&self, within: Duration) -> Result<(), StopError> {
        self.informer.stop_within(within).await
    }

    /// Reads the cache. A lister can be kept; when the informer has stopped, it shows the last state.
    pub fn lister(&self) -> Lister<O> {
        self.informer.lister().typed()
    }

    /// Adds an index, at any time; see [`Indexer::add_index`](crate::store::Indexer::add_index).
    ///
    /// # Errors
    ///
    /// When an index of that name exists.
    ///
    /// # Panics
    ///
    /// Inside an index function of the same informer.
    pub fn add_index<V, I>(
        &self,
        name: &str,
        values: impl Fn(&Cached<O>) -> I + Send + Sync + 'static,
    ) -> Result<Index<O, V>, DuplicateIndex>
    where
        I: IntoIterator<Item = V>,
        V: IndexValue,
    {
        self.informer.add_index(IndexFunction::new(name, values).into_any()).map(Index::typed)
    }

    /// Adds several indexes, all or none; see [`Indexer::add_indexes`](crate::store::Indexer::add_indexes).
    ///
    /// # Errors
    ///
    /// When an index of one of the names exists; then none is added.
    ///
    /// # Panics
    ///
    /// Inside an index function of the same informer.
    pub fn add_indexes(
        &self,
        functions: impl IntoIterator<Item = IndexFunction<O>>,
    ) -> Result<Vec<IndexPanic>, DuplicateIndex> {
        self.informer.add_indexes(functions.into_iter().map(IndexFunction::into_any).collect())
    }

    /// Has a handler follow it, with the settings that are usual; [`subscribe`](Self::subscribe) has others.
    ///
    /// # Errors
    ///
    /// When the informer has stopped, or inside one of its index functions.
    pub fn add_handler(&self, handler: impl EventHandler<O>) -> Result<Registration, AddHandlerError> {
        self.subscribe().handler(handler)
    }

    /// Events as a stream, with the settings that are usual; [`subscribe`](Self::subscribe) has others.
    ///
    /// # Errors
    ///
    /// When the informer has stopped, or inside one of its index functions.
    pub fn stream(&self) -> Result<EventStream<O>, AddHandlerError> {
        self.subscribe().stream()
    }

    /// A handler or stream with settings: a filter, resyncs, what happens when it is slow, a name.
    pub fn subscribe(&self) -> Subscribe<'_, O> {
        Subscribe::new(self)
    }

    /// Sets a function that is called with each object once, before it is cached; see
    /// [`ReflectorBuilder::transform`](crate::listwatch::ReflectorBuilder::transform). The last one that is set counts.
    ///
    /// # Errors
    ///
    /// After the start.
    pub fn set_transform<R: TransformResult>(
        &self,
        transform: impl Fn(&mut O) -> R + Send + Sync + 'static,
    ) -> Result<(), AlreadyStarted> {
        self.informer.set_transform(transform_of(transform))
    }

    /// Calls `callback` once for each outage that lasts three seconds, and each time the server answers a list with an error;
    /// [`ReflectorBuilder::on_error`](crate::listwatch::ReflectorBuilder::on_error) has the exact rules. The last one that is set
    /// counts.
    ///
    /// # Errors
    ///
    /// After the start.
    pub fn set_on_error(
        &self,
        callback: impl Fn(&ListWatchError) + Send + Sync + 'static,
    ) -> Result<(), AlreadyStarted> {
        self.informer.set_on_error(Box::new(callback))
    }

    /// Whether the first complete list is in the cache. Once true, it stays; handlers may not have heard of all of it.
    pub fn is_synced(&self) -> bool {
        self.informer.is_synced()
    }

    /// Waits until [`is_synced`](Self::is_synced). While it waits, [`status`](Self::status) says what is wrong, if something is.
    ///
    /// An informer that was not [started](Self::start) is not synced before it is. After waiting 10 s for such an informer, each call
    /// logs one warning that names it.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// If it is stopped before that, or if it is to [fail fast](super::InformerBuilder::fail_fast) and a list fails so that
    /// waiting will not help.
    pub async fn synced(&self) -> Result<(), SyncError> {
        self.informer.synced().await
    }

    /// As [`synced`](Self::synced), but waits no longer than this.
    ///
    /// # Errors
    ///
    /// If it is stopped before that; or with what failed last, if it is not synced by then.
    pub async fn synced_within(&self, within: Duration) -> Result<(), SyncError> {
        self.informer.synced_within(within).await
    }

    /// Waits until the cache has everything up to this version, such as the one that the answer to a write had.
    ///
    /// A quiet server moves the cache's version by bookmarks, about once a minute; to wait for one object,
    /// [`wait_for`](Self::wait_for) is quicker.
    ///
    /// # Errors
    ///
    /// If it does not come to that in time, the server's history changes, the informer stops, or versions cannot
    /// be compared.
    pub async fn caught_up_to(&self, version: &ResourceVersion, within: Duration) -> Result<(), WaitError> {
        self.informer.caught_up_to(version, within).await
    }

    /// Waits until the cache shows an object as a write returned it, or a newer state; returns the cached object, or `None` if it is gone
    /// by then.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use informant::SharedInformer;
    /// # use informant::listwatch::KubeSource;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use kube::Api;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = informant_apiserver::ApiServer::new();
    /// # let client = server.client();
    /// # let configs = SharedInformer::<ConfigMap>::new(KubeSource::of_kind::<ConfigMap>(client.clone()));
    /// # configs.start();
    /// # let mut hours = ConfigMap::default();
    /// # hours.metadata.name = Some("opening-hours".into());
    /// let created = Api::default_namespaced(client).create(&Default::default(), &hours).await?;
    ///
    /// let cached = configs.wait_for_write(&created, Duration::from_secs(10)).await?;
    /// assert_eq!(cached.unwrap().metadata.uid, created.metadata.uid);
    /// # configs.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for [`wait_for`](Self::wait_for); and if the object has no name or no version.
    pub async fn wait_for_write(
        &self,
        written: &impl kube::Resource,
        within: Duration,
    ) -> Result<Option<Cached<O>>, WaitError> {
        let not_written = || WaitError::MissingNameOrVersion { informer: Arc::clone(self.name()) };
        let Identity { key, version, .. } = Identity::of_written(written).ok_or_else(not_written)?;
        self.wait_for(&key, &version, within).await
    }

    /// Waits until the cache shows this version of an object, or a newer one; gives what it shows, which is nothing if the
    /// object is gone by then.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use informant::{SharedInformer, object::Identity};
    /// # use informant::listwatch::KubeSource;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use kube::Api;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = informant_apiserver::ApiServer::new();
    /// # let client = server.client();
    /// # let configs = SharedInformer::<ConfigMap>::new(KubeSource::of_kind::<ConfigMap>(client.clone()));
    /// # configs.start();
    /// # let mut hours = ConfigMap::default();
    /// # hours.metadata.name = Some("opening-hours".into());
    /// let written = Api::default_namespaced(client).create(&Default::default(), &hours).await?;
    /// let Identity { key, version, .. } = Identity::of(&written)?;
    ///
    /// let cached = configs.wait_for(&key, &version, Duration::from_secs(10)).await?;
    /// assert_eq!(cached.unwrap().version(), &version);
    /// # configs.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If it does not come to that in time, the object is there but cannot be read, the server's history changes,
    /// the informer stops, or versions cannot be compared.
    pub async fn wait_for(
        &self,
        key: &Key,
        version: &ResourceVersion,
        within: Duration,
    ) -> Result<Option<Cached<O>>, WaitError> {
        Ok(self.informer.wait_for(key, version, within).await?.map(Cached::typed))
    }

    /// Waits until the cache has seen that this incarnation of an object is over. `deleted` is any state of it, such as the one that
    /// the answer to the delete had.
    ///
    /// # Errors
    ///
    /// If it does not come to that in time, the server's history changes, the informer stops, or versions cannot
    /// be compared.
    pub async fn wait_until_gone(&self, deleted: &Identity, within: Duration) -> Result<(), WaitError> {
        self.informer.wait_until_gone(deleted, within).await
    }

    /// How it is doing: for health checks, and for finding out why something does not happen.
    pub fn status(&self) -> InformerStatus {
        self.informer.status()
    }

    /// The newest version that came from the source; the cache may not have come so far. `None` before the first list.
    pub fn last_version(&self) -> Option<ResourceVersion> {
        self.informer.core().source_status().version
    }

    /// How often it looks which handlers are due for a resync; `None` is never.
    pub fn resync_check_period(&self) -> Option<Duration> {
        self.informer.core().check_period()
    }

    /// The objects that exist but cannot be read. What the cache has of them, if anything, is an older state.
    pub fn quarantined(&self) -> Vec<Quarantined> {
        self.informer.quarantined()
    }
}

impl<O> Clone for SharedInformer<O> {
    fn clone(&self) -> Self {
        Self::from_any(self.informer.clone())
    }
}

impl<O> fmt::Debug for SharedInformer<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedInformer")
            .field("name", self.informer.name())
            .field("state", &self.informer.state())
            .field("is_synced", &self.informer.is_synced())
            .finish_non_exhaustive()
    }
}
