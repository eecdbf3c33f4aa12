//! Waits on a view, until all members are synced or stopped, or one has applied a write; and the status of the members.

use std::{sync::Arc, time::Duration};

use futures_util::future::try_join_all;

use super::{Address, View};
use crate::{
    Cached, ResourceVersion, SharedInformer,
    error::{StopError, SyncError, WaitError},
    informer,
    informer::{AnyInformer, InformerStatus, Problem},
    listwatch::Quarantined,
    object::Identity,
};

impl<O, A> View<O, A> {
    /// Whether all members are synced. Once true, it stays true.
    pub fn is_synced(&self) -> bool {
        self.view.informers().all(AnyInformer::is_synced)
    }

    /// Waits until [`is_synced`](Self::is_synced).
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// If a member cannot sync; see [`SharedInformer::synced`](crate::SharedInformer::synced).
    #[doc(alias("wait_for_sync", "has_synced", "wait_until_ready"))]
    pub async fn synced(&self) -> Result<(), SyncError> {
        informer::synced(&self.cloned_informers(), None).await
    }

    /// Waits until each member is synced, or cannot sync for a reason that retrying cannot fix, such as a namespace that the client's user may not
    /// list. The members that are synced can be used, whatever this returns.
    ///
    /// ```
    /// # use informant::SharedInformerFactory;
    /// # use informant_apiserver::{ApiServer, Fault, On};
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ApiServer::new();
    /// # server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "hours"}}))?;
    /// # server.inject(On::any().of("configmaps").in_namespace("bank"), Fault::forbidden());
    /// # let factory = SharedInformerFactory::builder(server.client()).on_error(|_| {}).build();
    /// let configs = factory.request::<ConfigMap>().in_namespaces(["shop", "bank"]).view()?;
    /// factory.start();
    ///
    /// if let Err(denied) = configs.settled().await {
    ///     eprintln!("going on without: {}", denied.report()); // names the namespace "bank"
    /// }
    /// assert_eq!(configs.len(), 1);
    /// # factory.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A handler or stream of the view receives the objects of each member as soon as that member is synced, but its `Synced` event only when all
    /// members are synced.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// The reason of each member that cannot sync. It goes on trying, and its objects appear when it succeeds. Also if a member stops.
    pub async fn settled(&self) -> Result<(), SyncError> {
        informer::settled(&self.cloned_informers()).await
    }

    /// As [`synced`](Self::synced), but waits no longer than this.
    ///
    /// # Errors
    ///
    /// As for `synced`; and if a member is not synced by then, with the last failure of each such member.
    pub async fn synced_within(&self, within: Duration) -> Result<(), SyncError> {
        informer::synced(&self.cloned_informers(), Some(within)).await
    }

    /// The status of each member.
    pub fn status(&self) -> Vec<InformerStatus> {
        self.view.informers().map(AnyInformer::status).collect()
    }

    /// The members whose caches may lag behind their servers, and why; empty if there are none.
    pub fn problems(&self) -> Vec<Problem> {
        self.status().iter().filter_map(InformerStatus::problem).collect()
    }

    /// The objects of all members that exist but cannot be decoded or transformed.
    pub fn quarantined(&self) -> Vec<Quarantined> {
        self.view.informers().flat_map(AnyInformer::quarantined).collect()
    }

    /// Stops all members, and waits until no callback runs and no task is left. Other views and handles of the same informers see them
    /// stopped.
    ///
    /// # Errors
    ///
    /// If called in a callback of one of the members: the callback would wait for itself. Also if called in a callback for which a callback of
    /// one of the members waits; see [`SharedInformer::stop`](crate::SharedInformer::stop). The call does not wait then; the members stop.
    #[doc(alias = "shutdown")]
    pub async fn stop(&self) -> Result<(), StopError> {
        informer::stop(&self.cloned_informers(), None).await
    }

    /// As [`stop`](Self::stop), but waits no longer than this.
    ///
    /// # Errors
    ///
    /// As for `stop`; and if callbacks have not returned by then, with the names of their handlers.
    pub async fn stop_within(&self, within: Duration) -> Result<(), StopError> {
        informer::stop(&self.cloned_informers(), Some(within)).await
    }
}

impl<O: Send + Sync + 'static, A: Address> View<O, A> {
    /// Waits until the cache of the member that covers an object shows this version of the object, or a newer one; see
    /// [`SharedInformer::wait_for`](crate::SharedInformer::wait_for).
    ///
    /// # Errors
    ///
    /// As for `SharedInformer::wait_for`; and if the view does not cover the object's namespace or cluster.
    pub async fn wait_for(
        &self,
        address: &A,
        version: &ResourceVersion,
        within: Duration,
    ) -> Result<Option<Cached<O>>, WaitError> {
        self.require_informer(address)?.wait_for(address.key(), version, within).await
    }

    /// Waits until the cached state of one object satisfies a condition, and returns this state; see
    /// [`SharedInformer::wait_until`](crate::SharedInformer::wait_until).
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use informant::SharedInformerFactory;
    /// # use informant_apiserver::ApiServer;
    /// # use k8s_openapi::api::core::v1::ConfigMap;
    /// # use serde_json::json;
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = ApiServer::new();
    /// # let factory = SharedInformerFactory::new(server.client());
    /// let configs = factory.request::<ConfigMap>().in_namespaces(["shop", "bank"]).view()?;
    /// factory.start();
    /// server.put("configmaps", json!({"metadata": {"namespace": "bank", "name": "rates"}}))?;
    ///
    /// let rates = configs.wait_until(&"bank/rates".parse()?, |config| config.is_some(), Duration::from_secs(10)).await?;
    /// assert!(rates.is_some());
    /// # factory.stop().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As for `SharedInformer::wait_until`; and if the view does not cover the object's namespace or cluster.
    pub async fn wait_until(
        &self,
        address: &A,
        condition: impl FnMut(Option<&Cached<O>>) -> bool,
        within: Duration,
    ) -> Result<Option<Cached<O>>, WaitError> {
        self.require_informer(address)?.wait_until(address.key(), condition, within).await
    }
}

impl<O: Send + Sync + 'static> View<O> {
    /// Waits until the cache of the member that covers an object shows the object as a write returned it, or in a newer state; see
    /// [`SharedInformer::wait_for_write`](crate::SharedInformer::wait_for_write). In a view of several clusters, call this on the view of the
    /// [cluster](View::cluster) that was written to.
    ///
    /// # Errors
    ///
    /// As for `SharedInformer::wait_for_write`; and if the view does not cover the object's namespace.
    #[doc(alias = "wait_for_version")]
    pub async fn wait_for_write(
        &self,
        written: &(impl kube::Resource + 'static),
        within: Duration,
    ) -> Result<Option<Cached<O>>, WaitError> {
        let not_written = || WaitError::MissingNameOrVersion { informer: Arc::clone(&self.view.name) };
        let Identity { key, .. } = Identity::of_written(written).ok_or_else(not_written)?;
        self.require_informer(&key)?.wait_for_write(written, within).await
    }

    /// Waits until the caches of all members have applied everything up to this version.
    ///
    /// Versions of different clusters cannot be compared, so only views of one cluster have this method. In a view of several clusters, call
    /// it on the view of one [cluster](View::cluster).
    ///
    /// # Errors
    ///
    /// As for [`SharedInformer::caught_up_to`](crate::SharedInformer::caught_up_to), of any member.
    pub async fn caught_up_to(&self, version: &ResourceVersion, within: Duration) -> Result<(), WaitError> {
        try_join_all(self.informers().map(|informer| informer.caught_up_to(version, within))).await.map(drop)
    }

    /// Waits until the member that covers an object has applied the deletion of this incarnation; see
    /// [`SharedInformer::wait_until_gone`](crate::SharedInformer::wait_until_gone). In a view of several clusters, call this on the view of the
    /// object's [cluster](View::cluster).
    ///
    /// # Errors
    ///
    /// As for `SharedInformer::wait_until_gone`; and if the view does not cover the object's namespace.
    pub async fn wait_until_gone(&self, deleted: &Identity, within: Duration) -> Result<(), WaitError> {
        self.require_informer(&deleted.key)?.wait_until_gone(deleted, within).await
    }
}

impl<O, A> View<O, A> {
    /// Returns the member that covers this address, or the error of a wait on a view that does not cover it.
    fn require_informer(&self, address: &impl Address) -> Result<&SharedInformer<O>, WaitError> {
        let outside = || WaitError::OutsideView { view: Arc::clone(&self.view.name), address: address.to_string() };
        self.view.informer_of(address).map(SharedInformer::from_any_ref).ok_or_else(outside)
    }

    fn cloned_informers(&self) -> Vec<AnyInformer> {
        self.view.informers().cloned().collect()
    }
}
