//! Several informers of one kind, read and subscribed to as one: several namespaces, several clusters.
//!
//! - **In:** informers, each with a cache of its own.
//! - **Out:** a [`View`] of the objects of all of them.
//! - **Knows nothing of:** how informers are created and started.
//!
//! Nothing is copied: a view reads the caches of its members. So each cache has one writer, and a member that fails or relists does not
//! affect the objects of the others.

mod address; // how an object is named in a view: by key, or by cluster and key
mod any; // the view without its object type
mod clusters; // views of several clusters
mod reads; // reading all members
mod waits; // waiting for and stopping all members

use std::{fmt, marker::PhantomData, sync::Arc};

use derive_where::derive_where;

use crate::{Key, SharedInformer, informer::Subscribe};

pub use self::address::{Address, ClusterKey};
pub(crate) use self::any::AnyView;

/// Combines several informers of one kind, so that they can be read and followed like a single one. Cheap to clone.
///
/// `A` is the address of an object: its [`Key`] in a view of one cluster, its [`ClusterKey`] in a view of several.
///
/// The members do not change. For another set of namespaces, request another view; it shares the informers of the same namespaces.
///
/// Each read returns objects of all members. The objects of one member are from one consistent state of its cache; the states of two
/// members may be from different moments.
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
/// // Two lists, two watches, two caches: objects of other namespaces are never requested.
/// let configs: View<ConfigMap> = factory.request().in_namespaces(["shop", "bank"]).view()?;
/// factory.start();
/// configs.synced().await?;
///
/// assert_eq!(configs.len(), 2);
/// assert!(configs.get(&"bank/interest".parse()?).is_some());
/// assert!(configs.get(&"home/alarm-clock".parse()?).is_none());
/// # factory.stop().await?;
/// # Ok(())
/// # }
/// ```
#[doc(alias = "multi namespace")]
#[derive_where(Clone)]
pub struct View<O, A = Key> {
    view: AnyView,
    types: PhantomData<fn(A, O) -> O>,
}

impl<O, A> View<O, A> {
    /// Gives a view an object type.
    pub(crate) fn from_any(view: AnyView) -> Self {
        Self { view, types: PhantomData }
    }

    /// The name of the view in errors.
    pub fn name(&self) -> &Arc<str> {
        &self.view.name
    }

    /// The informers, in the order of their clusters and namespaces.
    pub fn informers(&self) -> impl ExactSizeIterator<Item = &SharedInformer<O>> {
        self.view.informers().map(SharedInformer::from_any_ref)
    }

    /// Starts all members that are new, and returns how many it started. A stopped member cannot be started again: request a new view.
    ///
    /// # Panics
    ///
    /// If called outside of a tokio runtime, or in one without time enabled.
    pub fn start(&self) -> usize {
        self.view.informers().filter(|informer| informer.start_if_new()).count()
    }
}

impl<O: 'static, A> View<O, A> {
    /// Begins to register callbacks, a handler or a stream [with all members](Subscribe#views).
    #[doc(alias("add_event_handler", "add_handler"))]
    #[track_caller]
    pub fn subscribe(&self) -> Subscribe<'_, O, A> {
        Subscribe::new(&self.view.name, self.view.informers().collect())
    }
}

impl<O> From<SharedInformer<O>> for View<O> {
    fn from(informer: SharedInformer<O>) -> Self {
        Self::from_any(informer.informer.into())
    }
}

impl<O> From<&SharedInformer<O>> for View<O> {
    fn from(informer: &SharedInformer<O>) -> Self {
        Self::from_any(informer.informer.clone().into())
    }
}

impl<O, A> From<&Self> for View<O, A> {
    fn from(view: &Self) -> Self {
        view.clone()
    }
}

impl<O, A> fmt::Debug for View<O, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.informers()).finish()
    }
}
