//! Several informers of one kind, read and followed as one: many namespaces, many clusters.
//!
//! - **In:** informers, each with a cache of its own.
//! - **Out:** a [`View`]: what they have together.
//! - **Knows nothing of:** how informers are made, and who starts them.
//!
//! Nothing is copied: a view asks its members. So no cache has two writers, and one member that fails, or lists everything
//! anew, changes nothing of what the others have.

mod address;
mod clusters;
mod error;
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
pub use self::error::ViewError;
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
/// # let factory = SharedInformerFactory::new(server.client());
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

impl<O: Send + Sync + 'static> View<O> {
    /// Informers of different namespaces of one cluster; each says [which](SharedInformer::namespace).
    /// [`InformerRequest::view`](crate::factory::InformerRequest::view) makes them, too.
    ///
    /// # Errors
    ///
    /// If there is none, one that is of all namespaces, or two of the same namespace or of different clusters.
    pub fn of_namespaces(informers: impl IntoIterator<Item = SharedInformer<O>>) -> Result<Self, ViewError> {
        let mut members: Vec<Member<O>> = Vec::new();
        for informer in informers {
            let name = || Arc::clone(informer.name());
            let Some(namespace) = informer.namespace().cloned() else {
                return Err(ViewError::NoNamespace { informer: name() });
            };
            if let Some(other) = members.iter().find(|member| member.informer.cluster() != informer.cluster()) {
                let first = Arc::clone(other.informer.name());
                return Err(ViewError::MixedClusters { first, second: name() });
            }
            if let Some(other) = members.iter().find(|member| member.namespace.as_ref() == Some(&namespace)) {
                let first = Arc::clone(other.informer.name());
                return Err(ViewError::SameNamespace { namespace, first, second: name() });
            }
            members.push(Member { cluster: None, namespace: Some(namespace), informer });
        }
        Self::new(members)
    }
}

impl<O: Send + Sync + 'static, A> View<O, A> {
    fn new(mut members: Vec<Member<O>>) -> Result<Self, ViewError> {
        members.sort_by(|one, other| one.place().cmp(&other.place()));
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

    /// Starts those that were not started; says how many it did. A member that was stopped stays so: then ask for another view.
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
        let (name, namespace) = (Arc::clone(informer.name()), informer.namespace().cloned());
        Self { members: Arc::new([Member { cluster: None, namespace, informer }]), name, address: PhantomData }
    }
}

impl<O: Send + Sync + 'static> Clone for Member<O> {
    fn clone(&self) -> Self {
        let Self { cluster, namespace, informer } = self;
        Self { cluster: cluster.clone(), namespace: namespace.clone(), informer: informer.clone() }
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
