//! Waits until the first list has been applied to the cache, and explains why it has not.

use std::{convert::Infallible, pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use tokio::{
    runtime::Handle,
    task::yield_now,
    time::{sleep, timeout},
};
use tracing::warn;

use super::{AnyInformer, InformerState, SyncError};

/// How long `synced` waits for an informer that was not started before it logs a warning.
const WARNING_DELAY: Duration = Duration::from_secs(10);

impl AnyInformer {
    pub(crate) fn is_synced(&self) -> bool {
        self.core().is_synced()
    }

    /// Waits until [`is_synced`](Self::is_synced); see [`SharedInformer::synced`](super::SharedInformer::synced).
    pub(crate) async fn synced(&self) -> Result<(), SyncError> {
        let core = self.core();
        // Once the informer is synced, earlier failures do not matter.
        let synced = core.wait_for_cache(|| match core.is_synced() {
            true => Some(Ok(())),
            false => core.permanent_failure().map(Err),
        });
        let informer = Arc::clone(&core.name);
        match select(pin!(synced), pin!(self.warn_if_not_started())).await {
            Either::Left((Some(Ok(())), _)) => Ok(()),
            Either::Left((Some(Err(reason)), _)) => {
                // A task that calls this in a loop must not keep the informer from working.
                yield_now().await;
                Err(SyncError::Permanent { informer, reason })
            }
            Either::Left((None, _)) => {
                let crash = core.phase.lock().crash_cause().cloned();
                Err(SyncError::Stopped { informer, crash, reason: core.source_status().last_error })
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
        let status = self.core().source_status();
        let objects = status.activity.objects_so_far();
        SyncError::TimedOut { informer: Arc::clone(self.name()), within, objects, reason: status.last_error }
    }
}
