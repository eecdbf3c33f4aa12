//! Several informers of one kind, read and followed as one: many namespaces, many clusters.
//!
//! - **In:** informers, each with a cache of its own.
//! - **Out:** a [`View`]: what they have together.
//! - **Knows nothing of:** how informers are made, and who starts them.
//!
//! Nothing is copied: a view asks its members. So no cache has two writers, and one member that fails, or lists everything
//! anew, changes nothing of what the others have.

mod address;
mod follow;
mod reads;
mod stream;
mod waits;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::Key;
use crate::SharedInformer;

pub use self::address::Address;
pub use self::address::ClusterKey;
pub use self::reads::ViewIndex;
pub use self::stream::ViewStream;

/// Several informers of one kind as one. Cheap to clone.
///
/// `A` is how an object is found: in one cluster by its [`Key`], in several by its [`ClusterKey`].
///
/// Every answer has what all members have, each in one consistent state; members are not consistent with each other.
///
/// ```
/// use informant::{SharedInformerFactory, View};
/// use informant_apiserver::ApiServer;
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = ApiServer::new();
/// server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "opening-hours"}}))?;
/// server.put("configmaps", json!({"metadata": {"namespace": "bank", "name": "interest"}}))?;
/// server.put("configmaps", json!({"metadata": {"namespace": "home", "name": "alarm-clock"}}))?;
/// # let factory = SharedInformerFactory::new(kube::Client::new(server.service(), "default"));
///
/// // Two lists, two watches, two caches: the rest of the cluster is not asked for.
/// let configs: View<ConfigMap> = factory.request().in_namespaces(["shop", "bank"]).view()?;
/// factory.start();
/// configs.synced().await?;
///
/// assert_eq!(configs.len(), 2);
/// assert!(configs.get(&"bank/interest".parse()?).is_some());
/// assert!(configs.get(&"home/alarm-clock".parse()?).is_none());
/// # factory.shutdown().await?;
/// # Ok(())
/// # }
/// ```
pub struct View<O: Send + Sync + 'static, A = Key> {
    /// In the order of their places, each of which is there once.
    members: Arc<[Member<O>]>,
    name: Arc<str>,
    address: PhantomData<fn(A)>,
}

/// An informer, and what of the world it has.
struct Member<O: Send + Sync + 'static> {
    /// `None` if the view is one of a single cluster.
    cluster: Option<Arc<str>>,
    /// `None` if it has all namespaces.
    namespace: Option<Arc<str>>,
    informer: SharedInformer<O>,
}

/// Why informers do not make a view.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// There is none.
    #[error("a view needs at least one informer")]
    Empty,
    /// Two of the same namespace.
    #[error("informers {first} and {second} are both of namespace {namespace:?}; name each namespace once")]
    SameNamespace {
        /// The namespace.
        namespace: Arc<str>,
        /// One of them.
        first: Arc<str>,
        /// The other one.
        second: Arc<str>,
    },
    /// Two of the same cluster.
    #[error("informers {first} and {second} are both of cluster {cluster:?}; name each cluster differently")]
    SameCluster {
        /// The cluster.
        cluster: Arc<str>,
        /// One of them.
        first: Arc<str>,
        /// The other one.
        second: Arc<str>,
    },
    /// One that does not say of which cluster it is, or a view whose members say different things.
    #[error(
        "informer {informer} does not say of which cluster its objects are; name it with `of_cluster` of its factory or source"
    )]
    NoCluster {
        /// Which one.
        informer: Arc<str>,
    },
}

impl<O: Send + Sync + 'static> View<O> {
    /// Informers of different namespaces of one cluster. Each must be of the namespace that it is given with, and of no other:
    /// what else it has cannot be found by key. [`InformerRequest::view`](crate::factory::InformerRequest::view) makes them, too.
    ///
    /// # Errors
    ///
    /// If there is none, or two of the same namespace.
    pub fn of_namespaces<N: Into<Arc<str>>>(
        members: impl IntoIterator<Item = (N, SharedInformer<O>)>,
    ) -> Result<Self, ViewError> {
        let members = members.into_iter().map(|(namespace, informer)| Member {
            cluster: None,
            namespace: Some(namespace.into()),
            informer,
        });
        Self::new(members.collect())
    }
}

impl<O: Send + Sync + 'static> View<O, ClusterKey> {
    /// Informers, or views, of different clusters. Each says [which](SharedInformer::cluster), and so does each of their objects.
    ///
    /// ```
    /// use informant::{ClusterKey, SharedInformerFactory, View};
    /// use informant_apiserver::ApiServer;
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use serde_json::json;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let hours = |hours: &str| json!({"metadata": {"namespace": "shop", "name": "opening-hours"}, "data": {"open": hours}});
    /// # let (server, other_server) = (ApiServer::new(), ApiServer::new());
    /// # server.put("configmaps", hours("9-17"))?;
    /// # other_server.put("configmaps", hours("7-15"))?;
    /// # let client = kube::Client::new(server.service(), "default");
    /// # let other_client = kube::Client::new(other_server.service(), "default");
    /// let east = SharedInformerFactory::builder(client).of_cluster("east").build();
    /// let west = SharedInformerFactory::builder(other_client).of_cluster("west").build();
    /// let configs = View::of_clusters([east.informer::<ConfigMap>(), west.informer::<ConfigMap>()])?;
    /// east.start();
    /// west.start();
    /// configs.synced().await?;
    ///
    /// let hours = configs.require(&ClusterKey::new("west", "shop/opening-hours".parse()?))?;
    /// assert_eq!(hours.cluster().map(|cluster| &**cluster), Some("west"));
    /// assert_eq!(configs.len(), 2);
    /// # east.shutdown().await?;
    /// # west.shutdown().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If there is none, one that does not say of which cluster it is, or two of the same.
    pub fn of_clusters(views: impl IntoIterator<Item = impl Into<View<O>>>) -> Result<Self, ViewError> {
        let mut members = Vec::new();
        for view in views {
            let view: View<O> = view.into();
            let mut cluster = None;
            for Member { namespace, informer, .. } in view.members.iter() {
                let name = || Arc::clone(informer.name());
                let Some(own) = informer.cluster() else { return Err(ViewError::NoCluster { informer: name() }) };
                if cluster.get_or_insert(own) != &own {
                    return Err(ViewError::NoCluster { informer: Arc::clone(&view.name) });
                }
                let (cluster, namespace) = (Some(Arc::clone(own)), namespace.clone());
                members.push(Member { cluster, namespace, informer: informer.clone() });
            }
            if let Some((first, second)) = same_cluster_in_two_views(&members, view.members.len()) {
                let cluster = first.cluster.clone().unwrap_or_default();
                let name = |member: &Member<O>| Arc::clone(member.informer.name());
                return Err(ViewError::SameCluster { cluster, first: name(first), second: name(second) });
            }
        }
        Self::new(members)
    }

    /// The clusters, in the order of their names.
    pub fn clusters(&self) -> Vec<Arc<str>> {
        let mut clusters: Vec<_> = self.members.iter().filter_map(|member| member.cluster.clone()).collect();
        clusters.dedup();
        clusters
    }

    /// What of it is of one cluster.
    pub fn cluster(&self, name: &str) -> Option<View<O>> {
        let of_cluster = self.members.iter().filter(|member| member.cluster.as_deref() == Some(name));
        let members = of_cluster.map(|Member { namespace, informer, .. }| Member {
            cluster: None,
            namespace: namespace.clone(),
            informer: informer.clone(),
        });
        View::new(members.collect()).ok()
    }
}

/// Finds a member of the view that came last, with so many members, that is of the same cluster as one of a view before.
fn same_cluster_in_two_views<O: Send + Sync + 'static>(
    members: &[Member<O>],
    last: usize,
) -> Option<(&Member<O>, &Member<O>)> {
    let (before, last) = members.split_at(members.len() - last);
    let second = last.first()?;
    before.iter().find(|member| member.cluster == second.cluster).map(|first| (first, second))
}

impl<O: Send + Sync + 'static, A> View<O, A> {
    fn new(mut members: Vec<Member<O>>) -> Result<Self, ViewError> {
        members.sort_by(|one, other| one.place().cmp(&other.place()));
        for pair in members.windows(2) {
            if let [one, other] = pair
                && one.place() == other.place()
            {
                return Err(ViewError::SameNamespace {
                    namespace: one.namespace.clone().unwrap_or_default(),
                    first: Arc::clone(one.informer.name()),
                    second: Arc::clone(other.informer.name()),
                });
            }
        }
        let name = match &members[..] {
            [] => return Err(ViewError::Empty),
            [only] => Arc::clone(only.informer.name()),
            [first, others @ ..] => format!("{} and {} more", first.informer.name(), others.len()).into(),
        };
        Ok(Self { members: members.into(), name, address: PhantomData })
    }

    /// What it is called in errors.
    pub fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// The informers, in the order of their clusters and namespaces.
    pub fn informers(&self) -> impl ExactSizeIterator<Item = &SharedInformer<O>> {
        self.members.iter().map(|member| &member.informer)
    }

    /// Starts those that are not running; says how many it did.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime with a clock.
    pub fn start(&self) -> usize {
        self.informers().filter(|informer| informer.start_if_new()).count()
    }
}

impl<O: Send + Sync + 'static> Member<O> {
    /// Where in the view's order it stands.
    fn place(&self) -> (Option<&str>, Option<&str>) {
        (self.cluster.as_deref(), self.namespace.as_deref())
    }
}

impl<O: Send + Sync + 'static> From<SharedInformer<O>> for View<O> {
    fn from(informer: SharedInformer<O>) -> Self {
        let name = Arc::clone(informer.name());
        let members = Arc::new([Member { cluster: None, namespace: None, informer }]);
        Self { members, name, address: PhantomData }
    }
}

impl<O: Send + Sync + 'static, A> Clone for View<O, A> {
    fn clone(&self) -> Self {
        Self { members: Arc::clone(&self.members), name: Arc::clone(&self.name), address: PhantomData }
    }
}

impl<O: Send + Sync + 'static, A> fmt::Debug for View<O, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.informers()).finish()
    }
}
