//! A view of several clusters.

use std::sync::Arc;

use super::ClusterKey;
use super::Member;
use super::View;
use super::ViewError;

impl<O: Send + Sync + 'static> View<O, ClusterKey> {
    /// Informers, or views, of different clusters. Each says [which](crate::SharedInformer::cluster), and so does each of their objects.
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
    /// # east.shutdown().await?;
    /// # west.shutdown().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If there is none, one that does not say of which cluster it is, or two of the same cluster.
    pub fn of_clusters(views: impl IntoIterator<Item = impl Into<View<O>>>) -> Result<Self, ViewError> {
        let mut members: Vec<Member<O>> = Vec::new();
        for view in views {
            let view: View<O> = view.into();
            // All members of a view of one cluster are of that.
            let Some(first) = view.informers().next() else { continue };
            let name = || Arc::clone(first.name());
            let Some(cluster) = first.cluster() else { return Err(ViewError::NoCluster { informer: name() }) };
            if let Some(other) = members.iter().find(|member| member.cluster.as_ref() == Some(cluster)) {
                let (cluster, first) = (Arc::clone(cluster), Arc::clone(other.informer.name()));
                return Err(ViewError::SameCluster { cluster, first, second: name() });
            }
            let of_cluster = |member: &Member<O>| Member { cluster: Some(Arc::clone(cluster)), ..member.clone() };
            members.extend(view.members.iter().map(of_cluster));
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
        View::new(of_cluster.map(|member| Member { cluster: None, ..member.clone() }).collect()).ok()
    }
}
