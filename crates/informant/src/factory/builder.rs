//! What holds for all informers of a factory, and for those of one kind.

use std::any::TypeId;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use hashbrown::HashMap;
use kube::Client;
use kube::core::ApiResource;

use super::SharedInformerFactory;
use super::registry::InformerKey;
use super::registry::KindId;
use super::registry::Scope;
use crate::Object;
use crate::informer::AnyInformerBuilder;
use crate::informer::InformerBuilder;
use crate::listwatch::KubeSource;
use crate::listwatch::ListWatchError;
use crate::listwatch::Quarantined;
use crate::listwatch::ScopeError;
use crate::listwatch::ServerHealth;
use crate::listwatch::StreamingSupport;
use crate::object::FieldPath;
use crate::object::OfKind;

/// Settings of a [`SharedInformerFactory`].
///
/// ```
/// use std::time::Duration;
/// use informant::{Lazy, SharedInformerFactory, object::FieldPath};
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
///     .configure::<Lazy<Pod>>(|pods| pods.in_order().transform(|pod| pod.edit(|pod| pod.status = None)))
///     .build();
/// # Ok(())
/// # }
/// ```
#[must_use = "a factory is there when it is built"]
pub struct FactoryBuilder {
    client: Client,
    settings: Settings,
}

/// What holds for all informers.
#[derive(Default)]
pub(super) struct Settings {
    pub(super) cluster: Option<Arc<str>>,
    /// What of each kind is asked for, unless a request says otherwise.
    pub(super) scope: Scope,
    resync: Option<Duration>,
    cut: Vec<FieldPath>,
    never_streams: bool,
    fails_fast: bool,
    /// What all informers know together of the server.
    health: ServerHealth,
    on_error: Option<OnError>,
    on_quarantine: Option<OnQuarantine>,
    /// Settings for one kind in one form.
    by_kind: HashMap<(KindId, TypeId), Configure>,
}

type OnError = Arc<dyn Fn(&ListWatchError) + Send + Sync>;
type OnQuarantine = Arc<dyn Fn(&str, &Quarantined) + Send + Sync>;

/// Changes the settings of one kind in one form.
type Configure = Box<dyn Fn(AnyInformerBuilder) -> AnyInformerBuilder + Send + Sync>;

impl FactoryBuilder {
    pub(super) fn new(client: Client) -> Self {
        Self { client, settings: Settings::default() }
    }

    /// What the client's cluster is called: each object [says so](crate::Cached::cluster), and so do errors, logs and figures. A
    /// [view of several clusters](crate::View::of_clusters) needs it. Default: nothing.
    pub fn of_cluster(mut self, name: impl Into<Arc<str>>) -> Self {
        self.settings.cluster = Some(name.into());
        self
    }

    /// Only objects of this namespace, of all kinds that live in namespaces, unless a request says otherwise. Default: all
    /// namespaces.
    ///
    /// # Errors
    ///
    /// If no namespace can be called so.
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Result<Self, ScopeError> {
        self.settings.scope.namespace = Some(KubeSource::check_namespace(namespace.into())?);
        Ok(self)
    }

    /// Only objects with such labels, of all kinds, unless a request says otherwise: `app=web,tier!=cache`. Default: any.
    pub fn with_labels(mut self, selector: impl fmt::Display) -> Self {
        self.settings.scope.labels = selector.to_string();
        self
    }

    /// Only objects with such fields, of all kinds, unless a request says otherwise: `metadata.name=web`. Default: any.
    pub fn with_fields(mut self, selector: impl fmt::Display) -> Self {
        self.settings.scope.fields = selector.to_string();
        self
    }

    /// Replays the whole cache this often to every handler that does not choose another period; see
    /// [`InformerBuilder::resync_every`]. Default: never.
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.settings.resync = Some(period);
        self
    }

    /// Leaves these fields out of every object of every kind, before anything is decoded; see
    /// [`Scanner::cut`](crate::object::Scanner::cut). Default: none but `metadata.managedFields`.
    pub fn cut(mut self, fields: impl IntoIterator<Item = FieldPath>) -> Self {
        self.settings.cut.extend(fields);
        self
    }

    /// Never asks for lists as streams. Default: until the server says no, which is then remembered for all informers of a kind.
    pub fn without_streaming(mut self) -> Self {
        self.settings.never_streams = true;
        self
    }

    /// Has [`synced`](SharedInformerFactory::synced) err as soon as a list fails so that waiting will not help: no permission, no
    /// such kind, nobody there; see [`ListWatchError::may_pass`]. The informers go on trying all the same. Default: it waits until all
    /// succeed.
    ///
    /// It is not for handlers: [`Registration::synced`](crate::Registration::synced) waits until the handler is told, or the informer
    /// stopped. So wait for the factory first.
    pub fn fail_fast(mut self) -> Self {
        self.settings.fails_fast = true;
        self
    }

    /// Shares what the informers know of the server with those of other factories of the same client: they wait for it together
    /// while it cannot be reached, and list again if its history changes. Default: shared by the informers of this factory.
    pub fn server_health(mut self, health: ServerHealth) -> Self {
        self.settings.health = health;
        self
    }

    /// Calls `callback` once for each outage of an informer that lasts three seconds, and each time the server answers a list with
    /// an error, for every kind that is not configured otherwise; [`ReflectorBuilder::on_error`](crate::listwatch::ReflectorBuilder::on_error)
    /// has the exact rules. Default: failures are logged as warnings.
    pub fn on_error(mut self, callback: impl Fn(&ListWatchError) + Send + Sync + 'static) -> Self {
        self.settings.on_error = Some(Arc::new(callback));
        self
    }

    /// Hears of objects that cannot be read, of every kind that is not configured otherwise, and what the kind is called; see
    /// [`InformerBuilder::on_quarantine`]. Default: they are logged.
    pub fn on_quarantine(mut self, hear: impl Fn(&str, &Quarantined) + Send + Sync + 'static) -> Self {
        self.settings.on_quarantine = Some(Arc::new(hear));
        self
    }

    /// Settings of the informers of one kind in one form, of every scope: a transform, a resync period, a queue. They come after
    /// those of the factory, and after those that were given before.
    ///
    /// `settings` is called once for each informer that is made, and perhaps once more if several ask for it at the same time.
    pub fn configure<O: OfKind>(
        self,
        settings: impl Fn(InformerBuilder<O>) -> InformerBuilder<O> + Send + Sync + 'static,
    ) -> Self {
        self.configure_dynamic(&ApiResource::erase::<O::Kind>(&()), settings)
    }

    /// As [`configure`](Self::configure), of a kind that is known at run time.
    pub fn configure_dynamic<O: Object>(
        mut self,
        resource: &ApiResource,
        settings: impl Fn(InformerBuilder<O>) -> InformerBuilder<O> + Send + Sync + 'static,
    ) -> Self {
        let key = (KindId::of(resource), TypeId::of::<O>());
        let settings = move |builder| settings(InformerBuilder::from_any(builder)).into_any();
        let settings: Configure = match self.settings.by_kind.remove(&key) {
            Some(before) => Box::new(move |builder| settings(before(builder))),
            None => Box::new(settings),
        };
        self.settings.by_kind.insert(key, settings);
        self
    }

    /// Makes the factory. It asks for nothing until its informers are started.
    pub fn build(self) -> SharedInformerFactory {
        SharedInformerFactory::with(self.client, self.settings)
    }
}

impl Settings {
    /// Applies the factory's settings, then those for the kind.
    pub(super) fn configure(
        &self,
        mut builder: AnyInformerBuilder,
        key: &InformerKey,
        streaming: StreamingSupport,
    ) -> AnyInformerBuilder {
        builder.resync = self.resync;
        builder.fails_fast = self.fails_fast;
        let reflector = &mut builder.reflector;
        reflector.cut.extend(self.cut.iter().cloned());
        reflector.health = self.health.clone();
        reflector.streaming = (!self.never_streams).then_some(streaming);
        if let Some(callback) = self.on_error.clone() {
            reflector.on_error = Some(Box::new(move |error| callback(error)));
        }
        if let Some(callback) = self.on_quarantine.clone() {
            let kind = reflector.resource();
            reflector.on_quarantine = Some(Box::new(move |object| callback(&kind, object)));
        }
        match self.by_kind.get(&(key.kind.clone(), key.form.type_id())) {
            Some(configure) => configure(builder),
            None => builder,
        }
    }
}

impl fmt::Debug for FactoryBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FactoryBuilder")
            .field("cluster", &self.settings.cluster)
            .field("scope", &self.settings.scope)
            .field("resync", &self.settings.resync)
            .finish_non_exhaustive()
    }
}
