//! One informer for each kind, scope and form, for everyone who asks; started, waited for and stopped together.
//!
//! - **In:** a client, and requests for informers.
//! - **Out:** shared informers and views of them.
//! - **Knows nothing of:** what informers do.
//!
//! `registry` has the informers and the rules of sharing them; `request` says what somebody wants, `builder` what holds for all.

mod builder;
mod discovery;
mod form;
mod registry;
mod request;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::core::ApiResource;
use kube::core::DynamicObject;
use parking_lot::Mutex;
use tracing::warn;

use self::builder::Settings;
use self::registry::Asked;
use self::registry::InformerKey;
use self::registry::Looked;
use self::registry::Registry;
use crate::Object;
use crate::SharedInformer;
use crate::informer;
use crate::informer::AnyInformer;
use crate::informer::AnyInformerBuilder;
use crate::informer::InformerState;
use crate::informer::InformerStatus;
use crate::informer::Problem;
use crate::informer::StopErrors;
use crate::informer::SyncErrors;
use crate::listwatch::KubeSource;
use crate::listwatch::ReflectorSettings;
use crate::object::OfKind;

pub use self::builder::FactoryBuilder;
pub use self::discovery::DiscoveryError;
pub use self::request::InformerRequest;
pub use self::request::RequestError;

/// Keeps one [`SharedInformer`] for each kind, scope and form, for everyone who asks.
///
/// - **Ask** with [`informer`](Self::informer), or say more with [`request`](Self::request): other scopes, kinds of run time.
///   Whoever asks for the same gets the same informer: one list, one watch, one cache.
/// - **Start** what was asked for with [`start`](Self::start), as often as there is more. Nothing is asked of a server before.
/// - **Wait** with [`synced`](Self::synced). [`problems`](Self::problems), [`synced_within`](Self::synced_within) and a factory that
///   [fails fast](FactoryBuilder::fail_fast) say which informer is not synced, and why.
/// - **Stop** all of them with [`stop`](Self::stop), or one with [its own `stop`](SharedInformer::stop): who asks for that
///   one again gets a new one, which is to be started.
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
#[derive(Clone)]
pub struct SharedInformerFactory {
    shared: Arc<Shared>,
}

/// What all clones of a factory share. Its registry has a handle of each informer, which keeps the informer running.
struct Shared {
    client: Client,
    settings: Settings,
    /// Never held while anything of the user's runs, or is dropped; but for a recorder of figures, who is asked for new ones.
    registry: Mutex<Registry>,
}

impl SharedInformerFactory {
    /// A factory with the settings that are usual.
    pub fn new(client: Client) -> Self {
        Self::builder(client).build()
    }

    /// A factory with settings.
    pub fn builder(client: Client) -> FactoryBuilder {
        FactoryBuilder::new(client)
    }

    fn with(client: Client, settings: Settings) -> Self {
        Self { shared: Arc::new(Shared { client, settings, registry: Mutex::default() }) }
    }

    /// The informer of a kind, in the scope that the factory is set to, which is everything by default. It is made when it is asked
    /// for first; it is [started](Self::start) by whoever wants that.
    ///
    /// The form of the objects is part of what is asked for: `informer::<Pod>()` has decoded pods, `informer::<Lazy<Pod>>()` their
    /// JSON, `informer::<PartialObjectMeta<Pod>>()` only asks for their metadata, and a [projection](crate::projection!) has just
    /// the fields that it names. Each of them is an informer of its own, so it is worth agreeing on one.
    ///
    /// After [`stop`](Self::stop), what it gives has stopped.
    pub fn informer<O: OfKind>(&self) -> SharedInformer<O> {
        self.request::<O>().of_default_scope()
    }

    /// The informer of a kind that is known at run time, whether the server has it or not, as [`informer`](Self::informer).
    ///
    /// Nothing says whether such objects live in namespaces: if the factory is [set to one](FactoryBuilder::in_namespace), they are
    /// taken to. [`discover`](Self::discover) knows.
    pub fn dynamic(&self, resource: &ApiResource) -> SharedInformer<DynamicObject> {
        self.request_dynamic(resource).of_default_scope()
    }

    /// An informer of a kind in a scope of its own: namespaces, labels, fields.
    pub fn request<O: OfKind>(&self) -> InformerRequest<'_, O> {
        InformerRequest::of_kind(self)
    }

    /// An informer of a kind that is known at run time, in any form: `DynamicObject`, [`Lazy`](crate::Lazy) of it, a projection. Of
    /// `PartialObjectMeta<DynamicObject>`, and `Lazy` of that, only the metadata is asked for.
    pub fn request_dynamic<O: Object>(&self, resource: &ApiResource) -> InformerRequest<'_, O> {
        InformerRequest::dynamic(self, resource)
    }

    /// As [`request_dynamic`](Self::request_dynamic), of the version that the server prefers: asks it what it has.
    ///
    /// # Errors
    ///
    /// If the server has no such kind, or cannot be asked.
    pub async fn discover<O: Object>(&self, group: &str, kind: &str) -> Result<InformerRequest<'_, O>, DiscoveryError> {
        let (resource, capabilities) = discovery::find(&self.shared.client, group, kind).await?;
        Ok(self.request_dynamic(&resource).scoped(&capabilities.scope))
    }

    /// Starts the informers that were asked for and do not run, in tasks of the runtime that this is called in; says how many.
    /// Those that are asked for later need another call. After [`stop`](Self::stop) it starts none.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with a clock.
    pub fn start(&self) -> usize {
        if self.is_stopped() {
            warn!("the factory was stopped; nothing is started");
        }
        self.informers().iter().filter(|informer| informer.start_if_new()).count()
    }

    /// Those that were started, and that nobody has stopped, for those who wait; which is in vain after the end.
    fn to_be_awaited(&self) -> Result<Vec<AnyInformer>, SyncErrors> {
        if self.is_stopped() {
            return Err(SyncErrors::stopped());
        }
        let is_new = |informer: &AnyInformer| informer.state() == InformerState::New;
        let (unstarted, started): (Vec<_>, Vec<_>) = self.informers().into_iter().partition(is_new);
        for informer in unstarted {
            warn!(kind = &**informer.name(), "has not been started, so it is not waited for");
        }
        Ok(started)
    }

    /// Those that nobody has stopped; the others are forgotten on the way.
    fn informers(&self) -> Vec<AnyInformer> {
        let (informers, ended) = {
            let mut registry = self.shared.registry.lock();
            let ended = registry.sweep();
            (registry.informers(), ended)
        };
        // Their caches, perhaps; not under the lock.
        drop(ended);
        informers
    }

    /// The client, for requests of your own.
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// Whether all informers are synced that were started.
    pub fn is_synced(&self) -> bool {
        self.informers().iter().all(|informer| informer.is_synced() || informer.state() == InformerState::New)
    }

    /// Waits until all informers are synced that run when this is called. While it waits, [`problems`](Self::problems) says what is
    /// wrong, if something is, and so does the log.
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
    /// If one is stopped before that, or the factory was stopped. If the factory is to [fail fast](FactoryBuilder::fail_fast), also
    /// as soon as lists fail so that waiting will not help: the error says of which informers, and why.
    pub fn synced(&self) -> impl Future<Output = Result<(), SyncErrors>> + Send + use<> {
        let informers = self.to_be_awaited();
        async move { informer::synced(&informers?, None).await }
    }

    /// As [`synced`](Self::synced), but waits no longer than this.
    ///
    /// # Errors
    ///
    /// As for `synced`; or with what failed last of each informer that is not synced by then.
    pub fn synced_within(&self, within: Duration) -> impl Future<Output = Result<(), SyncErrors>> + Send + use<> {
        let informers = self.to_be_awaited();
        async move { informer::synced(&informers?, Some(within)).await }
    }

    /// How each informer is doing that nobody has stopped, in the order of their names.
    pub fn status(&self) -> Vec<InformerStatus> {
        let mut status: Vec<_> = self.informers().iter().map(AnyInformer::status).collect();
        status.sort_by(|one, other| one.name.cmp(&other.name));
        status
    }

    /// The informers whose caches may lag behind the server, and why; none if all is well. For health checks.
    pub fn problems(&self) -> Vec<Problem> {
        self.status().iter().filter_map(InformerStatus::problem).collect()
    }

    /// Stops all informers, and waits until no callback runs and no task is left. No informer is started after this.
    ///
    /// It can be called again, and by several at once. Cancel safe: they stop all the same.
    ///
    /// # Errors
    ///
    /// From inside a callback of one of the informers, which would wait for itself: then nobody is waited for. They stop all the same.
    pub async fn stop(&self) -> Result<(), StopErrors> {
        self.stop_all(None).await
    }

    /// As [`stop`](Self::stop), but waits no longer than this.
    ///
    /// # Errors
    ///
    /// As for `stop`; and if callbacks have not returned by then, with the names of their handlers. They can be waited for
    /// again.
    pub async fn stop_within(&self, within: Duration) -> Result<(), StopErrors> {
        self.stop_all(Some(within)).await
    }

    async fn stop_all(&self, within: Option<Duration>) -> Result<(), StopErrors> {
        let informers = self.shared.registry.lock().stop();
        let stopped = informer::stop(&informers, within).await;
        let ended = self.shared.registry.lock().sweep();
        drop(ended);
        stopped
    }

    /// Whether [`stop`](Self::stop) was called.
    pub fn is_stopped(&self) -> bool {
        self.shared.registry.lock().is_stopped()
    }

    /// Finds the informer that somebody asks for, or makes it.
    fn ask(
        &self,
        key: &InformerKey,
        source: KubeSource,
        make_settings: fn(KubeSource) -> ReflectorSettings,
    ) -> AnyInformer {
        let Shared { settings, registry, .. } = &*self.shared;
        let Looked { found, streaming, ended } = registry.lock().look(key);
        drop(ended);
        if let Some(found) = found {
            return found;
        }
        // Users' code may be in this, so nothing is locked; somebody else may be faster.
        let builder = settings.configure(AnyInformerBuilder::new(make_settings(source)), key, streaming);
        let asked = registry.lock().find_or_insert(key, builder);
        match asked {
            Asked::Found { informer, unused } => {
                drop(unused);
                informer
            }
            Asked::Made { informer, overlap } => {
                if let Some(overlap) = overlap {
                    let (kind, form) = (&**informer.name(), key.form());
                    warn!(
                        kind,
                        form,
                        other_form = overlap,
                        "some objects are cached in two forms; one form for all saves memory"
                    );
                }
                informer
            }
            Asked::TooLate { informer } => {
                informer.ask_to_stop();
                informer
            }
        }
    }
}

impl fmt::Debug for SharedInformerFactory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.informers().iter().map(|informer| Arc::clone(informer.name())).collect();
        f.debug_struct("SharedInformerFactory").field("informers", &names).finish_non_exhaustive()
    }
}
