//! Waiting for a view: until all members are synced or stopped, until one of them has seen a write; and how they are doing.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;

use super::Address;
use super::AnyView;
use super::View;
use crate::Cached;
use crate::ResourceVersion;
use crate::informer;
use crate::informer::AnyInformer;
use crate::informer::InformerStatus;
use crate::informer::Problem;
use crate::informer::StopErrors;
use crate::informer::SyncErrors;
use crate::informer::WaitError;
use crate::listwatch::Quarantined;
use crate::object::Identity;

impl<O, A> View<O, A> {
    /// Whether all members are synced. Once true, it stays.
    pub fn is_synced(&self) -> bool {
        self.view.informers().all(AnyInformer::is_synced)
    }

    /// Waits until [`is_synced`](Self::is_synced).
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// If a member will not be; see [`SharedInformer::synced`](crate::SharedInformer::synced).
    pub async fn synced(&self) -> Result<(), SyncErrors> {
        self.view.synced(None).await
    }

    /// As [`synced`](Self::synced), but waits no longer than this.
    ///
    /// # Errors
    ///
    /// As for `synced`; or with what failed last of each member that is not synced by then.
    pub async fn synced_within(&self, within: Duration) -> Result<(), SyncErrors> {
        self.view.synced(Some(within)).await
    }

    /// How each member is doing.
    pub fn status(&self) -> Vec<InformerStatus> {
        self.view.informers().map(AnyInformer::status).collect()
    }

    /// The members whose caches may lag behind their servers, and why; none if all is well.
    pub fn problems(&self) -> Vec<Problem> {
        self.status().iter().filter_map(InformerStatus::problem).collect()
    }

    /// The objects of all members that exist but cannot be read.
    pub fn quarantined(&self) -> Vec<Quarantined> {
        self.view.informers().flat_map(AnyInformer::quarantined).collect()
    }

    /// Stops all members, and waits until no callback runs and no task is left; also for others who have them.
    ///
    /// # Errors
    ///
    /// From inside a callback of one of them, which would wait for itself. They stop all the same.
    pub async fn stop(&self) -> Result<(), StopErrors> {
        self.view.stop(None).await
    }

    /// As [`stop`](Self::stop), but waits no longer than this.
    ///
    /// # Errors
    ///
    /// As for `stop`; and if callbacks have not returned by then, with the names of their handlers.
    pub async fn stop_within(&self, within: Duration) -> Result<(), StopErrors> {
        self.view.stop(Some(within)).await
    }
}

impl<O, A: Address> View<O, A> {
    /// Waits until the member that has an object shows this version of it, or a newer one; see
    /// [`SharedInformer::wait_for`](crate::SharedInformer::wait_for).
    ///
    /// # Errors
    ///
    /// As there; and if the object is in a namespace or cluster that is not part of the view.
    pub async fn wait_for(
        &self,
        address: &A,
        version: &ResourceVersion,
        within: Duration,
    ) -> Result<Option<Cached<O>>, WaitError> {
        let informer = self.view.informer_of(address)?;
        Ok(informer.wait_for(address.key(), version, within).await?.map(Cached::typed))
    }
}

impl<O> View<O> {
    /// Waits until the member that has an object shows it as a write returned it, or in a newer state; see
    /// [`SharedInformer::wait_for_write`](crate::SharedInformer::wait_for_write). In a view of several clusters, call this on the view of the
    /// [cluster](View::cluster) that was written to.
    ///
    /// # Errors
    ///
    /// As there; and if the object is in a namespace that is not part of the view.
    pub async fn wait_for_write(
        &self,
        written: &impl kube::Resource,
        within: Duration,
    ) -> Result<Option<Cached<O>>, WaitError> {
        let not_written = || WaitError::MissingNameOrVersion { informer: Arc::clone(&self.view.name) };
        let Identity { key, version, .. } = Identity::of_written(written).ok_or_else(not_written)?;
        self.wait_for(&key, &version, within).await
    }

    /// Waits until the caches of all members have everything up to this version.
    ///
    /// Versions of different clusters do not compare, so this is only there for views of one: ask each
    /// [cluster](View::cluster) by itself.
    ///
    /// # Errors
    ///
    /// As for [`SharedInformer::caught_up_to`](crate::SharedInformer::caught_up_to), of any member.
    pub async fn caught_up_to(&self, version: &ResourceVersion, within: Duration) -> Result<(), WaitError> {
        self.view.caught_up_to(version, within).await
    }

    /// Waits until the member that had an object has seen that this incarnation of it is over; see
    /// [`SharedInformer::wait_until_gone`](crate::SharedInformer::wait_until_gone). Of several clusters, ask the one that it was in: [`cluster`](View::cluster).
    ///
    /// # Errors
    ///
    /// As there; and if the object is in a namespace that is not part of the view.
    pub async fn wait_until_gone(&self, deleted: &Identity, within: Duration) -> Result<(), WaitError> {
        self.view.informer_of(&deleted.key)?.wait_until_gone(deleted, within).await
    }
}

impl AnyView {
    async fn synced(&self, within: Option<Duration>) -> Result<(), SyncErrors> {
        informer::synced(&self.cloned_informers(), within).await
    }

    async fn stop(&self, within: Option<Duration>) -> Result<(), StopErrors> {
        informer::stop(&self.cloned_informers(), within).await
    }

    async fn caught_up_to(&self, version: &ResourceVersion, within: Duration) -> Result<(), WaitError> {
        try_join_all(self.informers().map(|informer| informer.caught_up_to(version, within))).await.map(drop)
    }

    /// The member that covers this address, whether or not the object exists.
    fn informer_of(&self, address: &impl Address) -> Result<&AnyInformer, WaitError> {
        let member = self.member_of(address.cluster(), address.key());
        let elsewhere = || WaitError::OutsideView { view: Arc::clone(&self.name), address: address.to_string() };
        member.map(|member| &member.informer).ok_or_else(elsewhere)
    }

    fn cloned_informers(&self) -> Vec<AnyInformer> {
        self.informers().cloned().collect()
    }
}
