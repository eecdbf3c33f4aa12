//! A view of several clusters.

use super::{AnyView, ClusterKey, View};
use crate::error::RequestError;

impl<O> View<O, ClusterKey> {
    /// A view of informers, or of views, of different [clusters](crate::SharedInformer::cluster). Each object
    /// [names](crate::Cached::cluster) its cluster.
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
    /// # let client = server.client();
    /// # let other_client = other_server.client();
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
    /// # east.stop().await?;
    /// # west.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If there is no informer, one whose cluster has no name, or two of the same cluster.
    pub fn of_clusters(views: impl IntoIterator<Item = impl Into<View<O>>>) -> Result<Self, RequestError> {
        AnyView::of_clusters(views.into_iter().map(|view| view.into().view)).map(Self::from_any)
    }

    /// The part of the view that covers one cluster.
    pub fn cluster(&self, name: &str) -> Option<View<O>> {
        self.view.cluster(name).map(View::from_any)
    }
}
