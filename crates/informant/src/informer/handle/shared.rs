//! [`SharedInformer`]: the typed handle of an informer.
//!
//! - **In:** calls with the user's object type.
//! - **Out:** the same calls on the type-erased informer.
//! - **Knows nothing of:** how an informer works.

use std::{fmt, marker::PhantomData, sync::Arc, time::Duration};

use derive_where::derive_where;
use ref_cast::{RefCastCustom, ref_cast_custom};

use super::{AnyInformer, AnyInformerBuilder, InformerBuilder, InformerStatus, Subscribe, Written};
use crate::{
    Cached, Key, Object, ResourceVersion,
    error::{IndexError, RequestError, StopError, SyncError, WaitError},
    listwatch::{ListWatch, ListWatchError, Quarantined, Reflector, TransformResult, transform_of},
    object::{Erased, Identity},
    store::{Index, IndexFunction, IndexValue, IndexValues, Lister},
};

/// An indexed local copy of one kind, kept current by a watch, to which any number of handlers can subscribe.
///
/// - **Reads:** the [`lister`](Self::lister) and the [indexes](Self::add_index) return consistent results and share objects instead of
///   copying them.
/// - **Events:** [callbacks, handlers and streams](Self::subscribe) can be added before and after the start. Each has its own
///   buffer and receives every change exactly once: first an add for each object in the cache, then every later change.
/// - **Waits and health:** [`synced`](Self::synced) waits for the first list, [`wait_for_write`](Self::wait_for_write) until the cache
///   shows a write of your own, and [`status`](Self::status) shows whether the cache is current, and if not, why.
///
/// Cheap to clone; all clones are handles of the same informer. An informer runs until it is [stopped](Self::stop) or its last handle
/// is dropped; in the latter case it logs that it stops. A [factory](crate::SharedInformerFactory) and a [`View`](crate::View) have
/// handles of their informers. Listers, registrations and streams are not handles: they do not keep the informer running. A handler that
/// owns a `SharedInformer` of its own informer keeps that informer running until `stop` is called; give the handler a lister instead.
///
/// ```
/// use informant::SharedInformerFactory;
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
/// let factory = SharedInformerFactory::new(client);
/// let configs = factory.informer::<ConfigMap>();
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
#[derive_where(Clone)]
pub struct SharedInformer<O> {
    pub(crate) informer: AnyInformer,
    object_type: PhantomData<fn(O) -> O>,
}

/// The phase that an informer is in. Its JSON is the name in lower case: `"running"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum InformerState {
    /// The informer has not been started.
    New,
    /// The informer lists, watches and delivers events.
    Running,
    /// The informer is about to stop; callbacks may still be running.
    Stopping,
    /// No task or callback of the informer is running any more.
    Stopped,
}

impl<O> SharedInformer<O> {
    /// Adds the object type to an informer without one.
    pub(crate) fn from_any(informer: AnyInformer) -> Self {
        Self { informer, object_type: PhantomData }
    }

    /// As [`from_any`](Self::from_any), for a reference.
    #[ref_cast_custom]
    pub(crate) fn from_any_ref(informer: &AnyInformer) -> &Self;
}

impl<O: Send + Sync + 'static> SharedInformer<O> {
    /// Creates an informer with default settings, for a source that delivers objects as JSON. It does nothing until [`start`](Self::start).
    pub fn new(source: impl ListWatch<O>) -> Self
    where
        O: Object,
    {
        Self::builder(source).build()
    }

    /// Returns a builder for an informer whose source delivers objects as JSON.
    pub fn builder(source: impl ListWatch<O>) -> InformerBuilder<O>
    where
        O: Object,
    {
        InformerBuilder::from_any(AnyInformerBuilder::new(Reflector::builder(source).settings))
    }

    /// Returns a builder for an informer whose source delivers [decoded objects](crate::listwatch::Item::new), which can be of any type.
    pub fn of_decoded_objects(source: impl ListWatch<O>) -> InformerBuilder<O> {
        InformerBuilder::from_any(AnyInformerBuilder::new(Reflector::of_decoded_objects(source).settings))
    }

    /// The name of the informer in logs, errors and metrics, such as `pods`.
    pub fn name(&self) -> &Arc<str> {
        self.informer.name()
    }

    /// The namespace of the objects, if the source is restricted to [one namespace](crate::listwatch::KubeSource::in_namespace).
    pub fn namespace(&self) -> Option<&Arc<str>> {
        self.informer.namespace()
    }

    /// The cluster of the objects, if the source [names it](crate::listwatch::KubeSource::of_cluster).
    pub fn cluster(&self) -> Option<&Arc<str>> {
        self.informer.cluster()
    }

    /// Starts the informer, in tasks of the current tokio runtime. Returns false if it was started or stopped before; an informer starts
    /// only once.
    ///
    /// # Panics
    ///
    /// If called outside of a tokio runtime, or in a runtime without time enabled.
    pub fn start(&self) -> bool {
        let has_started = self.informer.start_if_new();
        if !has_started {
            tracing::warn!(
                informer = &**self.name(),
                "the informer was started or stopped before, so `start` does nothing"
            );
        }
        has_started
    }

    /// The phase that the informer is in.
    pub fn state(&self) -> InformerState {
        self.informer.state()
    }

    /// Stops the informer, and waits until no callback or task of it is running. Undelivered events are dropped.
    ///
    /// Cancel safe: if the call is dropped, the informer stops anyway.
    ///
    /// # Errors
    ///
    /// If a callback of the informer, such as a handler or an index function, makes the call: it would wait for its own end. Also if callbacks of
    /// two informers stop each other's informers: the second call fails. In both cases the informer stops when the callback returns. A callback
    /// that waits in other ways, for example for a task that makes the call, is not detected.
    #[doc(alias = "shutdown")]
    pub async fn stop(&self) -> Result<(), StopError> {
        self.informer.stop().await
    }

    /// As [`stop`](Self::stop), with a time limit.
    ///
    /// # Errors
    ///
    /// As for `stop`; and if callbacks have not returned in time, with the names of their handlers. Call `stop` again to continue
    /// waiting.
    pub async fn stop_within(&self, within: Duration) -> Result<(), StopError> {
        self.informer.stop_within(within).await
    }

    /// Returns a handle that reads the cache. It can outlive the informer; it then reads the last state.
    pub fn lister(&self) -> Lister<O> {
        self.informer.lister().typed()
    }

    /// Adds an index, at any time; see [`Indexer::add_index`](crate::store::Indexer::add_index).
    /// The function returns `Some(value)`, `None`, a `Vec`, or any other iterator of owned values; [`index::text`](crate::index::text)
    /// wraps one that returns a string borrowed from the object.
    ///
    /// # Errors
    ///
    /// If an index of that name exists, unless its function is certainly the same.
    ///
    /// # Panics
    ///
    /// If an index function of the same informer makes the call.
    pub fn add_index<V, I>(
        &self,
        name: &str,
        values: impl Fn(&Cached<O>) -> I + Send + Sync + 'static,
    ) -> Result<Index<O, V>, IndexError>
    where
        I: IndexValues<Value = V>,
        V: IndexValue,
    {
        self.informer.add_index(IndexFunction::new(name, values).into_any()).map(Index::typed)
    }

    /// Adds several indexes, all or none; see [`Indexer::add_indexes`](crate::store::Indexer::add_indexes).
    ///
    /// # Errors
    ///
    /// If an index of one of these names exists, and its function may be another one; no index is added then.
    ///
    /// # Panics
    ///
    /// If an index function of the same informer makes the call.
    pub fn add_indexes(
        &self,
        functions: impl IntoIterator<Item = IndexFunction<O>>,
    ) -> Result<Vec<IndexError>, IndexError> {
        self.informer.add_indexes(functions.into_iter().map(IndexFunction::into_any).collect())
    }

    /// Begins to register callbacks, a handler or a stream, with settings: a name, a filter, a resync period, coalescing for slow handlers.
    #[doc(alias("add_event_handler", "add_handler"))]
    #[track_caller]
    pub fn subscribe(&self) -> Subscribe<'_, O> {
        Subscribe::new(self.name(), vec![&self.informer])
    }

    /// Sets a function that is called with each object once, before it is cached; see
    /// [`ReflectorBuilder::transform`](crate::listwatch::ReflectorBuilder::transform). Replaces an earlier transform.
    ///
    /// # Errors
    ///
    /// If the informer has been started.
    pub fn set_transform<R: TransformResult>(
        &self,
        transform: impl Fn(&mut O) -> R + Send + Sync + 'static,
    ) -> Result<(), RequestError> {
        self.informer.set_transform(transform_of(transform))
    }

    /// Calls `callback` once for each cause of an outage that lasts five seconds;
    /// [`ReflectorBuilder::on_error`](crate::listwatch::ReflectorBuilder::on_error) has the exact rules. Replaces an earlier callback.
    ///
    /// # Errors
    ///
    /// If the informer has been started.
    pub fn set_on_error(&self, callback: impl Fn(&ListWatchError) + Send + Sync + 'static) -> Result<(), RequestError> {
        self.informer.set_on_error(Box::new(callback))
    }

    /// Returns true once the first complete list has been applied to the cache. Handlers may not have received all of it yet; see
    /// [`Registration::synced`](crate::Registration::synced).
    pub fn is_synced(&self) -> bool {
        self.informer.is_synced()
    }

    /// Waits until [`is_synced`](Self::is_synced). During the wait, [`status`](Self::status) shows errors of the source.
    ///
    /// An informer that is never [started](Self::start) is never synced: after 10 s, the call logs a warning that names the informer.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// If the informer stops first; and, if the informer [fails fast](super::InformerBuilder::fail_fast), as soon as a list fails with
    /// an error that retrying cannot fix.
    #[doc(alias("wait_for_sync", "has_synced", "wait_until_ready"))]
    pub async fn synced(&self) -> Result<(), SyncError> {
        self.informer.synced().await
    }

    /// As [`synced`](Self::synced), with a time limit.
    ///
    /// # Errors
    ///
    /// As for `synced`; and if the informer is not synced in time, with the last failure of its source, or because it was not started.
    pub async fn synced_within(&self, within: Duration) -> Result<(), SyncError> {
        self.informer.synced_within(within).await
    }

    /// Waits until all changes up to this version are in the cache. Use it with the version that a write returned.
    ///
    /// On a quiet server the version of the cache advances only by bookmarks, about once a minute; to wait for one object,
    /// [`wait_for`](Self::wait_for) is quicker.
    ///
    /// # Errors
    ///
    /// If the time limit passes, the informer stops, the versions cannot be compared, or the server's history changes: after a backup was
    /// restored, the server gives the same versions to other changes.
    pub async fn caught_up_to(&self, version: &ResourceVersion, within: Duration) -> Result<(), WaitError> {
        self.informer.core().caught_up_to(version, within).await
    }

    /// Waits until the cache shows an object as a write returned it, or a newer state of it. Returns the cached object, or `None` if it
    /// has been deleted meanwhile.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use informant::SharedInformerFactory;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use kube::Api;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = informant_apiserver::ApiServer::new();
    /// # let client = server.client();
    /// # let factory = SharedInformerFactory::new(client.clone());
    /// # let configs = factory.informer::<ConfigMap>();
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
    /// A write can make an object leave the informer's selection, for example by changing a label. If the cache has such an object, the
    /// call waits until the cache has removed it, and returns `None`.
    ///
    /// # Errors
    ///
    /// As for [`wait_for`](Self::wait_for); if the object has no name or no version; and at once, with the
    /// [reason](crate::error::ScopeMismatch), if the informer cannot see the object: it is of another kind or namespace, or the informer's
    /// selectors exclude it and the cache does not have it.
    ///
    /// Not everything can be checked here. Of field selectors, only `metadata.name` and `metadata.namespace` are; an object that another
    /// field excludes is awaited until the cache has reached its version, and then the call returns `None`. Only the namespace is
    /// checked if the source is not a [`KubeSource`](crate::listwatch::KubeSource). The API version of the object need not be that of the
    /// informer.
    #[doc(alias = "wait_for_version")]
    pub async fn wait_for_write(
        &self,
        written: &(impl kube::Resource + 'static),
        within: Duration,
    ) -> Result<Option<Cached<O>>, WaitError> {
        let missing_name_or_version = || WaitError::MissingNameOrVersion { informer: Arc::clone(self.name()) };
        let written = Written::of(written).ok_or_else(missing_name_or_version)?;
        Ok(self.informer.wait_for_write(&written, within).await?.map(Cached::typed))
    }

    /// Waits until the cache shows this version of an object, or a newer one. Returns the cached object, or `None` if it has been deleted
    /// meanwhile.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use informant::{Identity, SharedInformerFactory};
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use kube::Api;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = informant_apiserver::ApiServer::new();
    /// # let client = server.client();
    /// # let factory = SharedInformerFactory::new(client.clone());
    /// # let configs = factory.informer::<ConfigMap>();
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
    /// If the time limit passes, the object is in [quarantine](Self::quarantined), the server's history changes, the informer stops, or
    /// the versions cannot be compared; and at once if the informer has only objects of another namespace.
    pub async fn wait_for(
        &self,
        key: &Key,
        version: &ResourceVersion,
        within: Duration,
    ) -> Result<Option<Cached<O>>, WaitError> {
        Ok(self.informer.wait_for(key, version, within).await?.map(Cached::typed))
    }

    /// Waits until the cached state of one object satisfies a condition, and returns this state. The condition receives `None` if the
    /// object does not exist, and is first called when the informer is [synced](Self::synced).
    ///
    /// The condition is called with the current state and after later changes of the cache. It need not see every state: if two changes
    /// follow quickly, it may see only the second one.
    ///
    /// ```
    /// use std::time::Duration;
    /// use informant::{SharedInformer, testing::ScriptedSource};
    /// use k8s_openapi::api::core::v1::Pod;
    /// use serde_json::json;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> informant::Result<()> {
    /// let (source, handle) = ScriptedSource::live();
    /// let pods = SharedInformer::<Pod>::new(source);
    /// pods.start();
    /// # tokio::spawn(async move {
    /// #     handle.added(json!({"metadata": {"namespace": "shop", "name": "web"}}));
    /// #     tokio::time::sleep(Duration::from_secs(1)).await;
    /// #     handle.modified(json!({"metadata": {"namespace": "shop", "name": "web"}, "status": {"phase": "Running"}}));
    /// #     std::future::pending::<()>().await;
    /// # });
    ///
    /// let phase = |pod: &Pod| pod.status.as_ref()?.phase.clone();
    /// let pod = pods
    ///     .wait_until(
    ///         &"shop/web".parse()?,
    ///         |pod| pod.is_some_and(|pod| phase(pod).as_deref() == Some("Running")),
    ///         Duration::from_secs(10),
    ///     )
    ///     .await?;
    /// assert!(pod.is_some());
    /// # pods.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If the time limit passes (with the reason if the object is in [quarantine](Self::quarantined) then), or the informer stops.
    pub async fn wait_until(
        &self,
        key: &Key,
        mut condition: impl FnMut(Option<&Cached<O>>) -> bool,
        within: Duration,
    ) -> Result<Option<Cached<O>>, WaitError> {
        let condition = |object: Option<&Cached<Erased>>| condition(object.map(Cached::typed_ref));
        Ok(self.informer.wait_until(key, condition, within).await?.map(Cached::typed))
    }

    /// Waits until the deletion of an object has been applied to the cache. `deleted` is the identity of any state of the object before its
    /// deletion, for example of the state that the delete request returned. A new object with the same name has another uid; the call does
    /// not wait for its deletion.
    ///
    /// # Errors
    ///
    /// If the time limit passes, the server's history changes, the informer stops, or the versions cannot be compared.
    pub async fn wait_until_gone(&self, deleted: &Identity, within: Duration) -> Result<(), WaitError> {
        self.informer.wait_until_gone(deleted, within).await
    }

    /// Returns the status of the informer, its source and its handlers: for health checks and for debugging.
    pub fn status(&self) -> InformerStatus {
        self.informer.status()
    }

    /// The newest version that the source has delivered; the cache may not have reached it yet. `None` before the first list.
    pub fn last_version(&self) -> Option<ResourceVersion> {
        self.informer.core().source_status().version
    }

    /// The period at which the informer checks which handlers are due for a resync; `None` if no handler resyncs.
    pub fn resync_check_period(&self) -> Option<Duration> {
        self.informer.core().check_period()
    }

    /// The objects that exist on the server but cannot be decoded or transformed, or are above the
    /// [size limit](crate::listwatch::ReflectorBuilder::size_limit). The cache keeps an older state of them, or none.
    pub fn quarantined(&self) -> Vec<Quarantined> {
        self.informer.quarantined()
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
