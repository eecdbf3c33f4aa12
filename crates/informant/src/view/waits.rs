//! Waiting for a view: until all members are synced or stopped, until one of them has seen a write; and how they are doing.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;

use super::Address;
use super::View;
use crate::Cached;
use crate::Identity;
use crate::ResourceVersion;
use crate::SharedInformer;
use crate::informer;
use crate::informer::AnyInformer;
use crate::informer::InformerStatus;
use crate::informer::Problem;
use crate::informer::StopErrors;
use crate::informer::SyncErrors;
use crate::informer::WaitError;
use crate::listwatch::Quarantined;

impl<O: Send + Sync + 'static, A> View<O, A> {
    /// Whether all members are synced. Once true, it stays.
    pub fn is_synced(&self) -> bool {
        self.informers().all(SharedInformer::is_synced)
    }

    /// Waits until [`is_synced`](Self::is_synced).
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// If a member will not be; see [`SharedInformer::synced`](crate::SharedInformer::synced).
    pub async fn synced(&self) -> Result<(), SyncErrors> {
        informer::synced(&self.any_informers(), None).await
    }

    /// As [`synced`](Self::synced), but waits no longer than this.
    ///
    /// # Errors
    ///
    /// As for `synced`; or with what failed last of each member that is not synced by then.
    pub async fn synced_within(&self, within: Duration) -> Result<(), SyncErrors> {
        informer::synced(&self.any_informers(), Some(within)).await
    }

    /// How each member is doing.
    pub fn status(&self) -> Vec<InformerStatus> {
        self.informers().map(SharedInformer::status).collect()
    }

    /// The members whose caches may lag behind their servers, and why; none if all is well.
    pub fn problems(&self) -> Vec<Problem> {
        self.status().iter().filter_map(InformerStatus::problem).collect()
    }

    /// The objects of all members that exist but cannot be read.
    pub fn quarantined(&self) -> Vec<Quarantined> {
        self.informers().flat_map(SharedInformer::quarantined).collect()
    }

    /// Stops all members, and waits until no callback runs and no task is left; also for others who have them.
    ///
    /// # Errors
    ///
    /// From inside a callback of one of them, which would wait for itself. They stop all the same.
    pub async fn stop(&self) -> Result<(), StopErrors> {
        informer::stop(&self.any_informers(), None).await
    }

    /// As [`stop`](Self::stop), but waits no longer than this.
    ///
    /// # Errors
    ///
    /// As for `stop`; and if callbacks have not returned by then, with the names of their handlers.
    pub async fn stop_within(&self, within: Duration) -> Result<(), StopErrors> {
        informer::stop(&self.any_informers(), Some(within)).await
    }
}

impl<O: Send + Sync + 'static, A: Address> View<O, A> {
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
    ) -> Result<Option<Arc<Cached<O>>>, WaitError> {
        let member = self.member_of(address).ok_or_else(|| self.elsewhere(address))?;
        member.informer.wait_for(address.key(), version, within).await
    }
}

impl<O: Send + Sync + 'static> View<O> {
    /// Waits until the caches of all members have everything up to this version.
    ///
    /// Versions of different clusters do not compare, so this is only there for views of one: ask each
    /// [cluster](View::cluster) by itself.
    ///
    /// # Errors
    ///
    /// As for [`SharedInformer::caught_up_to`](crate::SharedInformer::caught_up_to), of any member.
    pub async fn caught_up_to(&self, version: &ResourceVersion, within: Duration) -> Result<(), WaitError> {
        try_join_all(self.informers().map(|informer| informer.caught_up_to(version, within))).await.map(drop)
    }

    /// Waits until the member that had an object has seen that this life of it is over; see
    /// [`SharedInformer::wait_until_gone`]. Of several clusters, ask the one that it was in: [`cluster`](View::cluster).
    ///
    /// # Errors
    ///
    /// As there; and if the object is in a namespace that is not part of the view.
    pub async fn wait_until_gone(&self, deleted: &Identity, within: Duration) -> Result<(), WaitError> {
        let member = self.member_of(&deleted.key).ok_or_else(|| self.elsewhere(&deleted.key))?;
        member.informer.wait_until_gone(deleted, within).await
    }
}

impl<O: Send + Sync + 'static, A> View<O, A> {
    fn any_informers(&self) -> Vec<&dyn AnyInformer> {
        self.informers().map(|informer| informer as &dyn AnyInformer).collect()
    }

    fn elsewhere(&self, address: &impl Address) -> WaitError {
        WaitError::Elsewhere { view: Arc::clone(&self.name), address: address.to_string() }
    }
}
