//! Waits until the first list has been applied to the cache, and explains why it has not.

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use tokio::{
    runtime::Handle,
    time::{sleep, timeout},
};
use tracing::warn;

use super::{AnyInformer, InformerState};
use crate::error::SyncError;

/// How long `synced` waits for an informer that was not started before it logs a warning.
const WARNING_DELAY: Duration = Duration::from_secs(10);

impl AnyInformer {
    pub(crate) fn is_synced(&self) -> bool {
        self.core().is_synced()
    }

    /// Waits until [`is_synced`](Self::is_synced); see [`SharedInformer::synced`](super::SharedInformer::synced).
    pub(crate) async fn synced(&self) -> Result<(), SyncError> {
        self.synced_or_failed(self.core().fails_fast).await
    }

    /// Waits until the informer is synced or, if `fails_fast`, cannot sync for a reason that retrying cannot fix.
    pub(super) async fn synced_or_failed(&self, fails_fast: bool) -> Result<(), SyncError> {
        let core = self.core();
        let informer = Arc::clone(&core.name);
        match select(pin!(core.first_list(fails_fast)), pin!(self.warn_if_not_started())).await {
            Either::Left((Some(Ok(())), _)) => Ok(()),
            Either::Left((Some(Err(reason)), _)) => Err(SyncError::Permanent { informer, reason }),
            Either::Left((None, _)) => {
                let crash = core.phase.lock().crash_cause().cloned();
                Err(SyncError::Stopped { informer, handler: None, crash, reason: core.source_status().last_error })
            }
            Either::Right((never, _)) => match never {},
        }
    }

    /// Logs a warning if the informer is not started within [`WARNING_DELAY`]. Never returns: it runs beside the wait for sync.
    async fn warn_if_not_started(&self) -> Infallible {
        // `sleep` panics outside of a runtime.
        if self.state() == InformerState::New && Handle::try_current().is_ok() {
            sleep(WARNING_DELAY).await;
            if self.state() == InformerState::New {
                warn!(
                    informer = &**self.name(),
                    "waiting for an informer to sync that has not been started; call `start` on it or on its factory"
                );
            }
        }
        std::future::pending().await
    }

    /// As [`synced`](Self::synced), with a time limit.
    pub(crate) async fn synced_within(&self, within: Duration) -> Result<(), SyncError> {
        match timeout(within, self.synced()).await {
            Ok(outcome) => outcome,
            Err(_) => Err(self.not_synced_within(within)),
        }
    }

    /// The error of an informer that is not synced when the time limit passes.
    pub(super) fn not_synced_within(&self, within: Duration) -> SyncError {
        let informer = Arc::clone(self.name());
        if self.state() == InformerState::New {
            return SyncError::NotStarted { informer, within };
        }
        let status = self.core().source_status();
        let objects = status.activity.objects_so_far();
        SyncError::TimedOut { informer, within, objects, reason: status.last_error }
    }
}
