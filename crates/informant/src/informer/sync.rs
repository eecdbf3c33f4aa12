//! Waiting for the first list to be in the cache, and why it is not.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::SharedInformer;
use super::SyncError;
use super::core::Unsynced;
use crate::listwatch::Activity;

impl<O: Send + Sync + 'static> SharedInformer<O> {
    /// Whether the first complete list is in the cache. Once true, it stays; handlers may not have heard of all of it.
    pub fn is_synced(&self) -> bool {
        self.core().is_synced()
    }

    /// Waits until [`is_synced`](Self::is_synced). While it waits, [`status`](Self::status) says what is wrong, if something is.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// If it is stopped before that.
    pub async fn synced(&self) -> Result<(), SyncError> {
        let core = self.core();
        core.sync.wait().await.map_err(|Unsynced| SyncError::Stopped {
            informer: Arc::clone(&core.name),
            crash: core.crash.get().cloned(),
            reason: core.source_status().last_error,
        })
    }

    /// As [`synced`](Self::synced), but waits no longer than this.
    ///
    /// # Errors
    ///
    /// If it is stopped before that; or with what failed last, if it is not synced by then.
    pub async fn synced_within(&self, within: Duration) -> Result<(), SyncError> {
        match timeout(within, self.synced()).await {
            Ok(outcome) => outcome,
            Err(_) => {
                let status = self.core().source_status();
                let objects = match status.activity {
                    Activity::Listing { objects } | Activity::Streaming { objects } => objects,
                    Activity::Idle
                    | Activity::Opening
                    | Activity::Watching
                    | Activity::BackingOff { .. }
                    | Activity::Stopped => 0,
                };
                let (informer, reason) = (Arc::clone(self.name()), status.last_error);
                Err(SyncError::TimedOut { informer, within, objects, reason })
            }
        }
    }
}
