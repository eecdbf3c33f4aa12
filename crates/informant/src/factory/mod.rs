//! Settings and status of informers. [`SharedInformerFactory`] creates them: one for each kind, scope and object type, shared by all callers.
//!
//! | step | types |
//! | --- | --- |
//! | build a factory with settings for all informers, or for those of one kind | [`FactoryBuilder`]; [`ServerHealth`], for several factories of one server |
//! | request an informer of a namespace, of labels or of fields | [`InformerRequest`] |
//! | show what the informers do: health checks, status pages | [`InformerStatus`] with a [`ReflectorStatus`] and a [`HandlerStatus`] for each handler; [`Problem`] |
//!
//! ```
//! # use informant::SharedInformerFactory;
//! # use informant_apiserver::ApiServer;
//! # use k8s_openapi::api::core::v1::ConfigMap;
//! use std::time::Duration;
//! use informant::factory::{InformerState, Problem};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = ApiServer::new();
//! # let client = server.client();
//! let factory = SharedInformerFactory::builder(client).resync_every(Duration::from_secs(600)).build();
//! let configs = factory.request::<ConfigMap>().in_namespace("shop").informer()?;
//! assert!(matches!(factory.problems()[..], [Problem::NotStarted { .. }]));
//!
//! factory.start();
//! factory.synced().await?;
//! assert_eq!(configs.status().state, InformerState::Running);
//! assert!(factory.problems().is_empty());
//! # factory.stop().await?;
//! # Ok(())
//! # }
//! ```

mod builder; // `FactoryBuilder`: settings for all informers
mod discovery; // finds kinds that are known only at run time
mod object_type; // names of object types
mod registry; // the informers, and the rules of sharing them
mod request; // `InformerRequest`: the scope and the options of one informer

use std::{fmt, sync::Arc, time::Duration};

use kube::{
    Client,
    core::{ApiResource, DynamicObject},
};
use parking_lot::Mutex;
use tracing::warn;

use self::{
    builder::Settings,
    object_type::ObjectType,
    registry::{InformerKey, Registry},
};
use crate::{
    Object, SharedInformer,
    error::{RequestError, StopError, SyncError},
    informer,
    informer::{AnyInformer, AnyInformerBuilder},
    listwatch::{KubeSource, ReflectorSettings},
    object::OfKind,
};

pub use self::{builder::FactoryBuilder, request::InformerRequest};
pub use crate::{
    informer::{InformerState, InformerStatus, Problem},
    listwatch::{Activity, PendingRequest, ReflectorStatus, ServerHealth, TransformResult},
    subscribers::HandlerStatus,
};

/// Keeps one [`SharedInformer`] for each kind, scope and object type, and returns it to every caller that asks for it.
///
/// - **Get** an informer with [`informer`](Self::informer), or with [`request`](Self::request) for other scopes and for kinds that are
///   known at run time. Calls for the same kind, scope and object type return the same informer: one list, one watch, one cache.
/// - **Start** all new informers with [`start`](Self::start); call it again after asking for more. An informer sends no request to the server before it is started.
/// - **Wait** with [`synced`](Self::synced). [`problems`](Self::problems), [`synced_within`](Self::synced_within) and a factory that
///   [fails fast](FactoryBuilder::fail_fast) report which informer is not synced, and why.
/// - **Stop** all of them with [`stop`](Self::stop), or one with [its own `stop`](SharedInformer::stop). The next call for a stopped
///   informer returns a new one, which has to be started.
///
/// Cheap to clone; all clones are handles of the same factory. The factory keeps its informers running, and so does every
/// [`SharedInformer`] and [`View`](crate::View) that it returned: an informer stops by itself when the last clone of the factory and the
/// last handle of the informer are dropped. Listers, registrations and streams do not keep it running. An informer that was not
/// started when the factory is dropped can still be [started](SharedInformer::start) through its handle. To stop all informers,
/// also those that have handles, call `stop`.
///
/// ```
/// use informant::{Lazy, SharedInformerFactory};
/// use informant_apiserver::ApiServer;
/// use k8s_openapi::api::core::v1::{ConfigMap, Node};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// // An API server for examples and tests; with a cluster, this is `kube::Client::try_default().await?`.
/// let server = ApiServer::new();
/// server.put("nodes", json!({"metadata": {"name": "n1", "labels": {"zone": "a"}}}))?;
/// server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "opening-hours"}}))?;
/// let client = server.client();
///
/// let factory = SharedInformerFactory::new(client);
/// let nodes = factory.informer::<Node>();
/// let configs = factory.informer::<Lazy<ConfigMap>>();
/// let printer = nodes.subscribe().on_add(|node, _| println!("+ {}", node.key())).register()?;
///
/// factory.start();
/// factory.synced().await?;
/// printer.synced().await?;
/// assert_eq!((nodes.lister().len(), configs.lister().len()), (1, 1));
///
/// // Waits for running callbacks; nothing is left.
/// factory.stop().await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "InformerFactory")]
#[derive(Clone)]
pub struct SharedInformerFactory {
    shared: Arc<FactoryState>,
}

/// State of all clones of a factory. Its registry has a handle of each informer, which keeps the informer running.
struct FactoryState {
    client: Client,
    settings: Settings,
    /// Never held while user code runs or user objects are dropped. The one exception is the installed metrics recorder, which registers
    /// the metrics of a new informer.
    registry: Mutex<Registry>,
}

impl SharedInformerFactory {
    /// A factory with default settings.
    pub fn new(client: Client) -> Self {
        Self::builder(client).build()
    }

    /// A builder for a factory with other settings.
    pub fn builder(client: Client) -> FactoryBuilder {
        FactoryBuilder::new(client)
    }

    /// Returns the informer of a kind in the factory's default scope, which is all objects unless the builder narrows it. The first call
    /// creates the informer; [`start`](Self::start) starts it.
    ///
    /// The object type decides how objects are held: `informer::<Pod>()` holds decoded pods, `informer::<Lazy<Pod>>()` their JSON,
    /// `informer::<PartialObjectMeta<Pod>>()` requests only their metadata, and a [projection](crate::projection!) holds just the fields
    /// that it names. Each object type of a kind is a separate informer with a cache of its own, so a program should agree on one.
    ///
    /// After the factory was [stopped](Self::stop), it returns an informer that has stopped.
    pub fn informer<O: OfKind>(&self) -> SharedInformer<O> {
        self.request::<O>().of_default_scope()
    }

    /// As [`informer`](Self::informer), for a kind that is known at run time. The server need not have the kind yet.
    ///
    /// An `ApiResource` does not state whether its objects are namespaced. If the factory is
    /// [limited to a namespace](FactoryBuilder::in_namespace), this method assumes that they are; [`discover`](Self::discover) asks the server.
    pub fn dynamic(&self, resource: &ApiResource) -> SharedInformer<DynamicObject> {
        self.request_dynamic(resource).of_default_scope()
    }

    /// A request for an informer of a kind in another scope: namespaces, labels, fields.
    pub fn request<O: OfKind>(&self) -> InformerRequest<'_, O> {
        InformerRequest::new(self, KubeSource::of_kind::<O::Kind>(self.shared.client.clone()))
    }

    /// A request for an informer of a kind that is known at run time, with any object type: `DynamicObject`, [`Lazy`](crate::Lazy) of it,
    /// a projection. With `PartialObjectMeta<DynamicObject>`, and `Lazy` of that, the informer requests only the metadata.
    pub fn request_dynamic<O: Object>(&self, resource: &ApiResource) -> InformerRequest<'_, O> {
        let source = KubeSource::dynamic(self.shared.client.clone(), resource.clone());
        let only_metadata = ObjectType::of::<O>().is_of_metadata();
        InformerRequest::new(self, if only_metadata { source.metadata_only() } else { source })
    }

    /// As [`request_dynamic`](Self::request_dynamic), with the version that the server prefers and the kind's scope, both found by
    /// discovery.
    ///
    /// # Errors
    ///
    /// If the server has no such kind, or a discovery request fails.
    pub async fn discover<O: Object>(&self, group: &str, kind: &str) -> Result<InformerRequest<'_, O>, RequestError> {
        let (resource, capabilities) = discovery::find(&self.shared.client, group, kind).await?;
        Ok(self.request_dynamic(&resource).scoped(&capabilities.scope))
    }

    /// Starts all informers that are new, in tasks of the current runtime, and returns how many it started. Informers that are requested
    /// later need another call. After [`stop`](Self::stop) it starts none.
    ///
    /// # Panics
    ///
    /// If called outside of a tokio runtime, or in one without time enabled.
    pub fn start(&self) -> usize {
        if self.is_stopped() {
            warn!("the factory was stopped; no informer is started");
        }
        self.informers().iter().filter(|informer| informer.start_if_new()).count()
    }

    /// Returns the informers to wait for: they were started, and the user has not stopped them. Fails if the factory was stopped.
    fn informers_to_await(&self) -> Result<Vec<AnyInformer>, SyncError> {
        if self.is_stopped() {
            return Err(SyncError::FactoryStopped);
        }
        let is_new = |informer: &AnyInformer| informer.state() == InformerState::New;
        let (unstarted, started): (Vec<_>, Vec<_>) = self.informers().into_iter().partition(is_new);
        for informer in unstarted {
            warn!(
                informer = &**informer.name(),
                "the informer was not started; `synced` of the factory does not wait for it"
            );
        }
        Ok(started)
    }

    /// Returns the informers that the user has not stopped. Removes the stopped informers from the registry.
    fn informers(&self) -> Vec<AnyInformer> {
        self.remove_stopped();
        self.shared.registry.lock().informers()
    }

    /// Removes the stopped informers from the registry, so that their caches are freed.
    fn remove_stopped(&self) {
        let registry = self.shared.registry.lock();
        let (stopped, keeps_status) = (registry.stopped(), registry.is_stopped);
        drop(registry);
        let last = if keeps_status { stopped.iter().map(AnyInformer::status).collect() } else { Vec::new() };
        let removed = self.shared.registry.lock().remove(&stopped, last);
        // Dropped after the lock is released, because this may drop whole caches.
        drop(removed);
    }

    /// The client, for requests of your own.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// Whether all started informers are synced.
    pub fn is_synced(&self) -> bool {
        self.informers().iter().all(|informer| informer.is_synced() || informer.state() == InformerState::New)
    }

    /// Waits until all informers that are running at the time of the call are synced. Meanwhile, [`problems`](Self::problems) and the log show what
    /// keeps an informer from syncing.
    ///
    /// It does not wait for informers that were not [started](Self::start), but logs a warning for each of them at once; if none was
    /// started, it returns at once. (The [`synced` of an informer](SharedInformer::synced) that was not started waits until it is, and
    /// logs a warning after 10 s.) Handlers may not have received all objects yet:
    /// [`Registration::synced`](crate::Registration::synced) waits for that.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// If one of them stops before that, or the factory was stopped. If the factory [fails fast](FactoryBuilder::fail_fast), also on the
    /// first permanent error of a list; the error names each such informer and the cause.
    #[doc(alias("wait_for_sync", "has_synced", "wait_until_ready"))]
    pub fn synced(&self) -> impl Future<Output = Result<(), SyncError>> + Send + use<> {
        let informers = self.informers_to_await();
        async move { informer::synced(&informers?, None).await }
    }

    /// As [`synced`](Self::synced), but an informer that cannot sync for a reason that retrying cannot fix, such as a missing permission, does
    /// not keep it waiting: it waits for all others. They can be used, whatever this returns.
    ///
    /// # Errors
    ///
    /// The reason of each informer that cannot sync; it goes on trying. Also if an informer stops, or the factory was stopped.
    pub fn settled(&self) -> impl Future<Output = Result<(), SyncError>> + Send + use<> {
        let informers = self.informers_to_await();
        async move { informer::settled(&informers?).await }
    }

    /// As [`synced`](Self::synced), but waits no longer than this.
    ///
    /// # Errors
    ///
    /// Those of `synced`; and if an informer is not synced in time. The error then contains the last failure of each such informer.
    pub fn synced_within(&self, within: Duration) -> impl Future<Output = Result<(), SyncError>> + Send + use<> {
        let informers = self.informers_to_await();
        async move { informer::synced(&informers?, Some(within)).await }
    }

    /// The status of each informer, sorted by name, except for those that were stopped with [their own `stop`](SharedInformer::stop). After
    /// [`stop`](Self::stop) of the factory, it shows which informers are still stopping, and the last status of those that have stopped.
    pub fn status(&self) -> Vec<InformerStatus> {
        self.remove_stopped();
        let (informers, mut status) = self.shared.registry.lock().reported();
        status.extend(informers.iter().map(AnyInformer::status));
        status.sort_by(|one, other| one.name.cmp(&other.name));
        status
    }

    /// The informers whose caches may lag behind the server, and why; and the informer that takes the most memory, if packing cannot keep the
    /// budget (`FactoryBuilder::memory_budget`). Empty if there are none. For health checks.
    ///
    /// After [`stop`](Self::stop) it names each informer as stopped. Quarantined objects are no problem of an informer; [`status`](Self::status)
    /// counts them.
    pub fn problems(&self) -> Vec<Problem> {
        let status = self.status();
        let problems = status.iter().filter_map(InformerStatus::problem);
        #[cfg(feature = "packing")]
        let problems = problems.chain(self.memory_problem());
        problems.collect()
    }

    /// Returns a problem of the informer that takes the most memory, if all of them take more than the budget.
    #[cfg(feature = "packing")]
    fn memory_problem(&self) -> Option<Problem> {
        let (informers, _) = self.shared.registry.lock().reported();
        let largest = informers.iter().max_by_key(|informer| informer.memory().bytes())?;
        let (used, budget) = largest.memory().packing()?.exceeded()?;
        let (informer, bytes) = (Arc::clone(largest.name()), largest.memory().bytes());
        Some(Problem::MemoryExceeded { informer, bytes, used, budget })
    }

    /// Stops all informers, and waits until no callback runs and no task is left. No informer is started after this.
    ///
    /// It can be called again, and by several tasks at once. Cancel safe: the informers stop even if the call is dropped.
    ///
    /// # Errors
    ///
    /// If called in a callback of one of the informers: the callback would wait for itself. Also if called in a callback for which a callback of
    /// one of the informers waits; see [`SharedInformer::stop`]. The call does not wait then; the informers stop.
    #[doc(alias = "shutdown")]
    pub async fn stop(&self) -> Result<(), StopError> {
        self.stop_all(None).await
    }

    /// As [`stop`](Self::stop), but waits no longer than this.
    ///
    /// # Errors
    ///
    /// As for `stop`; and if callbacks have not returned by then, with the names of their handlers. Another call waits for them again.
    pub async fn stop_within(&self, within: Duration) -> Result<(), StopError> {
        self.stop_all(Some(within)).await
    }

    async fn stop_all(&self, within: Option<Duration>) -> Result<(), StopError> {
        let informers = self.shared.registry.lock().stop();
        let stopped = informer::stop(&informers, within).await;
        self.remove_stopped();
        stopped
    }

    /// Whether [`stop`](Self::stop) was called.
    pub fn is_stopped(&self) -> bool {
        self.shared.registry.lock().is_stopped
    }

    /// Returns the informer of a key, creating it if there is none.
    fn find_or_create(
        &self,
        key: &InformerKey,
        source: KubeSource,
        make_settings: fn(KubeSource) -> ReflectorSettings,
    ) -> AnyInformer {
        self.remove_stopped();
        let found = self.shared.registry.lock().find(key);
        if let Some(found) = found {
            return found;
        }
        // The lock is not held here, because this runs the user's `configure` functions. Another task may insert the informer meanwhile.
        let builder = self.shared.settings.configure(AnyInformerBuilder::new(make_settings(source)), key);
        let mut registry = self.shared.registry.lock();
        if let Some(found) = registry.find(key) {
            // Releases the lock before the unused builder is dropped, because the builder holds users' closures.
            drop(registry);
            return found;
        }
        let (resync, audit) = (builder.resync, builder.audit);
        let (informer, overlap) = registry.insert(key, builder);
        let is_stopped = registry.is_stopped;
        drop(registry);
        informer.warn_if_periods_are_raised(resync, audit);
        if is_stopped {
            informer.ask_to_stop();
        }
        if let Some(overlap) = overlap {
            warn!(
                informer = &**informer.name(),
                object_type = key.object_type.name(),
                other_object_type = overlap,
                "some objects are cached twice, in two object types; one object type for all saves memory"
            );
        }
        informer
    }
}

impl fmt::Debug for SharedInformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.informers().iter().map(|informer| Arc::clone(informer.name())).collect();
        f.debug_struct("SharedInformerFactory").field("informers", &names).finish_non_exhaustive()
    }
}
