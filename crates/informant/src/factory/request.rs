//! A request to a factory for an informer: a kind, an object type, and a scope.

use std::{collections::BTreeSet, fmt, marker::PhantomData};

use derive_where::derive_where;
use kube::discovery;

use super::{
    SharedInformerFactory,
    object_type::ObjectType,
    registry::{InformerKey, KindId, RequestScope},
};
use crate::{
    Object, SharedInformer, View,
    error::RequestError,
    informer::AnyInformer,
    listwatch::{KubeSource, Reflector, ReflectorSettings},
    store::LabelSelector,
    view::AnyView,
};

/// A request for an informer with a kind, an object type and a scope; from [`SharedInformerFactory::request`].
///
/// Requests for the same kind, scope and object type return the same informer. Options that you do not set use the factory's defaults.
///
/// ```
/// use informant::{Lazy, SharedInformerFactory};
/// use k8s_openapi::api::core::v1::{Node, Pod};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = informant_apiserver::ApiServer::new();
/// # let factory = SharedInformerFactory::new(server.client());
/// let here = factory.request::<Lazy<Pod>>().in_namespace("shop").with_labels("app=web").informer()?;
/// let on_my_node = factory.request::<Pod>().with_fields("spec.nodeName=node-1").informer()?;
/// assert_eq!(&**here.name(), "pods in shop with app=web");
///
/// let error = factory.request::<Node>().in_namespace("shop").informer().unwrap_err();
/// assert!(error.to_string().starts_with("Node is cluster-scoped"));
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is asked for until `informer` or `view` is called"]
#[derive_where(Debug)]
pub struct InformerRequest<'a, O> {
    request: AnyRequest<'a>,
    #[derive_where(skip(Debug))]
    object_type: PhantomData<fn(O) -> O>,
}

/// An [`InformerRequest`] whose object type is erased.
#[derive(Debug)]
struct AnyRequest<'a> {
    factory: &'a SharedInformerFactory,
    source: KubeSource,
    namespaces: Namespaces,
    /// The selectors of the request; its `namespace` is always `None`.
    scope: RequestScope,
    object_type: ObjectType,
    /// Creates the reflector settings for the requested object type.
    make_settings: fn(KubeSource) -> ReflectorSettings,
}

/// Which namespaces are wanted.
#[derive(Clone, Debug)]
enum Namespaces {
    /// The factory's namespace, if objects of the kind are namespaced.
    Default,
    All,
    These(BTreeSet<String>),
}

impl<'a, O: Object> InformerRequest<'a, O> {
    pub(super) fn new(factory: &'a SharedInformerFactory, source: KubeSource) -> Self {
        let make_settings = |source| Reflector::builder::<O>(source).settings;
        Self {
            request: AnyRequest::new(factory, source, ObjectType::of::<O>(), make_settings),
            object_type: PhantomData,
        }
    }

    /// Sets whether objects of the kind are namespaced. Not needed for kinds that are known at compile time, or found by
    /// [discovery](SharedInformerFactory::discover); other kinds are assumed to be namespaced.
    pub fn scoped(mut self, scope: &discovery::Scope) -> Self {
        self.request.source = self.request.source.scoped(scope);
        self
    }

    /// Requests objects of all namespaces. Default: the factory's setting.
    pub fn in_all_namespaces(mut self) -> Self {
        self.request.namespaces = Namespaces::All;
        self
    }

    /// Requests only objects of this namespace. Default: the factory's setting.
    pub fn in_namespace(self, namespace: impl Into<String>) -> Self {
        self.in_namespaces([namespace])
    }

    /// Requests only objects of these namespaces, with one informer for each; finish with [`view`](Self::view). Default: the factory's setting.
    pub fn in_namespaces(mut self, namespaces: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.request.namespaces = Namespaces::These(namespaces.into_iter().map(Into::into).collect());
        self
    }

    /// Requests only objects whose labels match: `app=web,tier!=cache`, or a `kube::core::Selector`. [`informer`](Self::informer) and
    /// [`view`](Self::view) check the text. Default: the factory's setting.
    pub fn with_labels(mut self, selector: impl fmt::Display) -> Self {
        self.request.scope.labels = selector.to_string();
        self
    }

    /// Requests only objects whose fields match: `spec.nodeName=node-1`. Default: the factory's setting.
    pub fn with_fields(mut self, selector: impl fmt::Display) -> Self {
        self.request.scope.fields = selector.to_string();
        self
    }

    /// Returns the informer of this kind, scope and object type: an existing one, or a new one that has to be
    /// [started](SharedInformerFactory::start).
    ///
    /// # Errors
    ///
    /// If the label selector is invalid, or if the request names several namespaces, an invalid namespace, or any namespace for a kind that is
    /// not namespaced.
    pub fn informer(self) -> Result<SharedInformer<O>, RequestError> {
        self.request.informer().map(SharedInformer::from_any)
    }

    /// Returns a view of one informer for each requested namespace. Without requested namespaces, the view has one informer.
    ///
    /// # Errors
    ///
    /// If the label selector is invalid, if the set of namespaces is empty or has an invalid one, or if the kind is not namespaced.
    pub fn view(self) -> Result<View<O>, RequestError> {
        self.request.view().map(View::from_any)
    }

    /// Returns the informer in the factory's namespace. If the factory has none, or objects of the kind are not namespaced, returns the informer of
    /// all objects.
    pub(super) fn of_default_scope(&self) -> SharedInformer<O> {
        SharedInformer::from_any(self.request.of_default_scope())
    }
}

impl<'a> AnyRequest<'a> {
    fn new(
        factory: &'a SharedInformerFactory,
        mut source: KubeSource,
        object_type: ObjectType,
        make_settings: fn(KubeSource) -> ReflectorSettings,
    ) -> Self {
        let settings = &factory.shared.settings;
        if let Some(cluster) = &settings.cluster {
            source = source.of_cluster(cluster.clone());
        }
        let scope = RequestScope { namespace: None, ..settings.scope.clone() };
        Self { factory, source, namespaces: Namespaces::Default, scope, object_type, make_settings }
    }

    fn informer(&self) -> Result<AnyInformer, RequestError> {
        LabelSelector::check(&self.scope.labels)?;
        match &self.namespaces {
            Namespaces::Default => Ok(self.of_default_scope()),
            Namespaces::All => Ok(self.find_or_create(self.source.clone(), None)),
            Namespaces::These(namespaces) => match (namespaces.first(), namespaces.len()) {
                (Some(only), 1) => self.find_or_create_in(only),
                (_, count) => {
                    let resource = self.source.resource.plural.clone();
                    Err(RequestError::NotOneNamespace { resource, namespaces: count })
                }
            },
        }
    }

    fn view(&self) -> Result<AnyView, RequestError> {
        let Namespaces::These(namespaces) = &self.namespaces else { return Ok(self.informer()?.into()) };
        LabelSelector::check(&self.scope.labels)?;
        // All namespaces are checked before any informer is created.
        namespaces.iter().try_for_each(|namespace| self.source.clone().in_namespace(namespace.clone()).map(drop))?;
        let members = namespaces.iter().map(|namespace| self.find_or_create_in(namespace));
        AnyView::of_namespaces(members.collect::<Result<_, _>>()?)
    }

    /// Returns the informer in the factory's namespace. If the factory has none, or objects of the kind are not namespaced, returns the informer of
    /// all objects.
    fn of_default_scope(&self) -> AnyInformer {
        let namespace = self.factory.shared.settings.scope.namespace.clone();
        let scoped = namespace.and_then(|name| Some((self.source.clone().in_namespace(name.clone()).ok()?, name)));
        match scoped {
            Some((source, namespace)) => self.find_or_create(source, Some(namespace)),
            None => self.find_or_create(self.source.clone(), None),
        }
    }

    fn find_or_create_in(&self, namespace: &str) -> Result<AnyInformer, RequestError> {
        Ok(self.find_or_create(self.source.clone().in_namespace(namespace)?, Some(namespace.to_owned())))
    }

    fn find_or_create(&self, source: KubeSource, namespace: Option<String>) -> AnyInformer {
        let RequestScope { labels, fields, .. } = &self.scope;
        let source = source.with_labels(labels.as_str()).with_fields(fields.as_str());
        let key = InformerKey {
            kind: KindId::of(&source.resource),
            scope: RequestScope { namespace, ..self.scope.clone() },
            object_type: self.object_type,
            is_metadata_only: source.is_metadata_only,
        };
        self.factory.find_or_create(&key, source, self.make_settings)
    }
}
