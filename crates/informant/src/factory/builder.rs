//! Settings of all informers of a factory, and of the informers of one kind.

use std::{any::TypeId, fmt, sync::Arc, time::Duration};

use hashbrown::HashMap;
use kube::{Client, core::ApiResource};
use parking_lot::Mutex;

use super::{
    FactoryState, SharedInformerFactory,
    registry::{InformerKey, KindId, RequestScope},
};
#[cfg(feature = "packing")]
use crate::object::MemoryBudget;
use crate::{
    Object,
    error::{ParseError, RequestError},
    informer::{AnyInformerBuilder, InformerBuilder},
    listwatch::{KubeSource, ListWatchError, Quarantined, ServerHealth},
    object::{FieldPath, OfKind},
    store::LabelSelector,
};

/// Settings of a [`SharedInformerFactory`].
///
/// ```
/// use std::time::Duration;
/// use informant::{FieldPath, Lazy, SharedInformerFactory};
/// use k8s_openapi::api::core::v1::{Node, Pod};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = informant_apiserver::ApiServer::new();
/// # let client = server.client();
/// let images: FieldPath = "status.images".parse()?;
/// let factory = SharedInformerFactory::builder(client)
///     // For all kinds:
///     .resync_every(Duration::from_secs(600))
///     .cut([r"metadata.annotations.kubectl\.kubernetes\.io/last-applied-configuration".parse()?])
///     // And for some of them:
///     .configure::<Node>(move |nodes| nodes.resync_every(Duration::ZERO).cut([images.clone()]))
///     .configure::<Lazy<Pod>>(|pods| pods.transform(|pod| pod.edit(|pod| pod.status = None)))
///     .build();
/// # Ok(())
/// # }
/// ```
#[must_use = "`build` creates the factory"]
pub struct FactoryBuilder {
    client: Client,
    settings: Settings,
}

/// Settings of all informers.
#[derive(Default)]
pub(super) struct Settings {
    pub(super) cluster: Option<Arc<str>>,
    /// The default scope of requests.
    pub(super) scope: RequestScope,
    /// Settings for all kinds. They are applied before those for one kind.
    for_all: Vec<ConfigureAll>,
    /// Settings for one kind and object type.
    by_kind: HashMap<(KindId, TypeId), Vec<Configure>>,
}

/// Changes a setting of all kinds.
type ConfigureAll = Box<dyn Fn(&mut AnyInformerBuilder) + Send + Sync>;

/// Changes the settings of one kind and object type.
type Configure = Box<dyn Fn(AnyInformerBuilder) -> AnyInformerBuilder + Send + Sync>;

impl FactoryBuilder {
    pub(super) fn new(client: Client) -> Self {
        // Shared by all informers: whether the server is reachable, and whether its history has changed.
        Self { client, settings: Settings::default() }.server_health(ServerHealth::default())
    }

    /// Adds a setting of all informers.
    fn for_all(mut self, set: impl Fn(&mut AnyInformerBuilder) + Send + Sync + 'static) -> Self {
        self.settings.for_all.push(Box::new(set));
        self
    }

    /// Names the client's cluster. The name appears in [each object](crate::Cached::cluster), in errors, logs and metrics. A
    /// [view of several clusters](crate::View::of_clusters) needs it. Default: no name.
    pub fn of_cluster(mut self, name: impl Into<Arc<str>>) -> Self {
        self.settings.cluster = Some(name.into());
        self
    }

    /// Limits informers of namespaced kinds to this namespace, unless a request names others. Default: all namespaces.
    ///
    /// # Errors
    ///
    /// If it is not a valid name of a namespace.
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Result<Self, RequestError> {
        self.settings.scope.namespace = Some(KubeSource::check_namespace(namespace.into())?);
        Ok(self)
    }

    /// Limits all informers to objects whose labels match a selector, such as `app=web,tier!=cache`. A request can set another selector.
    /// Default: all objects.
    ///
    /// # Errors
    ///
    /// If it is not a label selector.
    pub fn with_labels(mut self, selector: impl fmt::Display) -> Result<Self, ParseError> {
        let labels = selector.to_string();
        LabelSelector::check(&labels)?;
        self.settings.scope.labels = labels;
        Ok(self)
    }

    /// Limits all informers to objects whose fields match a selector, such as `metadata.name=web`. A request can set another selector.
    /// Default: all objects.
    pub fn with_fields(mut self, selector: impl fmt::Display) -> Self {
        self.settings.scope.fields = selector.to_string();
        self
    }

    /// Replays the whole cache this often to every handler that does not choose another period; see
    /// [`InformerBuilder::resync_every`]. Default: never.
    pub fn resync_every(self, period: Duration) -> Self {
        self.for_all(move |builder| builder.resync = Some(period))
    }

    /// Compares each cache with the server this often, and lists again if it is wrong; see [`InformerBuilder::audit_every`] for the cost. Default:
    /// never, except for one audit after the server's history changed.
    pub fn audit_every(self, period: Duration) -> Self {
        self.for_all(move |builder| builder.audit = Some(period))
    }

    /// Limits the memory that the caches of all informers take together, in bytes. Below the limit, nothing changes. Above it, [lazy](crate::Lazy)
    /// objects are *packed*: each is compressed against a similar one, which makes a pod five to seven times smaller. Objects that arrive are packed
    /// at once. Those that are cached already are packed in the background, unless the program has read them recently. With 0,
    /// every lazy object is packed. Default: no limit.
    ///
    /// Packing a pod takes 4 to 10 µs, and reading a packed one 2 to 4 µs more than a plain one, each time. Key, uid and version are read without unpacking,
    /// and so are the values of [`index::label`](crate::index::label) and [`index::field`](crate::index::field), if the index function was made before the object
    /// arrived. Objects of other types are not packed, but counted, except for those that a source delivers decoded.
    ///
    /// If packing is not enough, nothing is dropped: [`problems`](SharedInformerFactory::problems) names the informer that takes the most.
    #[cfg(feature = "packing")]
    pub fn memory_budget(self, bytes: usize) -> Self {
        let budget = Arc::new(MemoryBudget::new(bytes));
        self.for_all(move |builder| builder.memory_budget = Some(Arc::clone(&budget)))
    }

    /// Leaves these fields out of every object of every kind, before anything is decoded; see
    /// [`Scanner::cut`](crate::object::Scanner::cut). Default: only `metadata.managedFields`.
    pub fn cut(self, fields: impl IntoIterator<Item = FieldPath>) -> Self {
        let fields: Vec<_> = fields.into_iter().collect();
        self.for_all(move |builder| builder.reflector.cut.extend(fields.iter().cloned()))
    }

    /// Never uses streamed lists (watches that begin with the existing objects). Default: informers try them, and after a refusal by the
    /// server all informers of that kind use ordinary lists.
    pub fn without_streaming(self) -> Self {
        self.for_all(|builder| builder.reflector.never_streams = true)
    }

    /// Makes [`synced`](SharedInformerFactory::synced) fail at once on permanent errors of a list: forbidden, unknown kind, no server at
    /// the address; see [`ListWatchError::is_transient`]. The informers continue to retry. Default: `synced` waits until all lists succeed.
    /// The same holds for [`synced` of a handler](crate::Registration::synced).
    pub fn fail_fast(self) -> Self {
        self.for_all(|builder| builder.fails_fast = true)
    }

    /// Shares what informers know of the server with factories of the same server: while the server cannot be reached, only one of their informers
    /// tries at a time, and all of them list again when the server's data was reset, as by a restored backup. Default: shared by the informers of this factory only.
    pub fn server_health(self, health: ServerHealth) -> Self {
        self.for_all(move |builder| builder.reflector.health = health.clone())
    }

    /// Calls `callback` once for each cause of an outage that lasts five seconds. It applies to every kind without a callback of its own; [`ReflectorBuilder::on_error`](crate::listwatch::ReflectorBuilder::on_error)
    /// has the exact rules. Default: failures are logged as warnings.
    pub fn on_error(self, callback: impl Fn(&ListWatchError) + Send + Sync + 'static) -> Self {
        let callback = Arc::new(callback);
        self.for_all(move |builder| {
            let callback = Arc::clone(&callback);
            builder.reflector.on_error = Some(Box::new(move |error| callback(error)));
        })
    }

    /// Calls `callback` with the plural name of the kind and each object that is quarantined because it cannot be decoded or transformed.
    /// It applies to every kind without a callback of its own; see [`InformerBuilder::on_quarantine`]. Default: such objects are logged.
    pub fn on_quarantine(self, callback: impl Fn(&str, &Quarantined) + Send + Sync + 'static) -> Self {
        let callback = Arc::new(callback);
        self.for_all(move |builder| {
            let (callback, kind) = (Arc::clone(&callback), builder.reflector.source.name());
            builder.reflector.on_quarantine = Some(Box::new(move |object| callback(&kind, object)));
        })
    }

    /// Settings of the informers of one kind and object type, in every scope: a transform, a resync period. They are applied
    /// after the settings of the factory and after the settings of earlier calls.
    ///
    /// `settings` is called once for each new informer, and more often if several tasks request it at the same time.
    pub fn configure<O: OfKind>(
        self,
        settings: impl Fn(InformerBuilder<O>) -> InformerBuilder<O> + Send + Sync + 'static,
    ) -> Self {
        self.configure_dynamic(&ApiResource::erase::<O::Kind>(&()), settings)
    }

    /// As [`configure`](Self::configure), for a kind that is known at run time.
    pub fn configure_dynamic<O: Object>(
        mut self,
        resource: &ApiResource,
        settings: impl Fn(InformerBuilder<O>) -> InformerBuilder<O> + Send + Sync + 'static,
    ) -> Self {
        let key = (KindId::of(resource), TypeId::of::<O>());
        let settings = move |builder| settings(InformerBuilder::from_any(builder)).into_any();
        self.settings.by_kind.entry(key).or_default().push(Box::new(settings));
        self
    }

    /// Builds the factory. It sends no request until its informers are started.
    pub fn build(self) -> SharedInformerFactory {
        let Self { client, settings } = self;
        SharedInformerFactory { shared: Arc::new(FactoryState { client, settings, registry: Mutex::default() }) }
    }
}

impl Settings {
    /// Applies the factory's settings, then those for the kind.
    pub(super) fn configure(&self, mut builder: AnyInformerBuilder, key: &InformerKey) -> AnyInformerBuilder {
        self.for_all.iter().for_each(|set| set(&mut builder));
        let for_kind = self.by_kind.get(&(key.kind.clone(), key.object_type.type_id));
        for_kind.into_iter().flatten().fold(builder, |builder, configure| configure(builder))
    }
}

impl fmt::Debug for FactoryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FactoryBuilder")
            .field("cluster", &self.settings.cluster)
            .field("scope", &self.settings.scope)
            .finish_non_exhaustive()
    }
}
