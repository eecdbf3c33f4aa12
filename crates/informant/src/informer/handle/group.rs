//! Waits for several informers, and stops several informers, together.

use std::time::Duration;

use futures_util::{StreamExt, future::join_all, stream::FuturesUnordered};
use tokio::time::timeout;

use super::AnyInformer;
use crate::error::{StopError, SyncError};

/// After the first permanent failure, wait this long so that other failures appear in the same error.
const TOGETHER: Duration = Duration::from_millis(250);

/// Waits until all informers are synced, one of them fails, or the time limit passes.
pub(crate) async fn synced(informers: &[AnyInformer], within: Option<Duration>) -> Result<(), SyncError> {
    let mut waiting: FuturesUnordered<_> = informers.iter().map(AnyInformer::synced).collect();
    let mut errors = Vec::new();
    let waits = async {
        while let Some(outcome) = waiting.next().await {
            let Err(error) = outcome else { continue };
            errors.push(error);
            // Informers that have not failed by then are left out of the error.
            let others = waiting.by_ref().for_each(|outcome| {
                errors.extend(outcome.err());
                std::future::ready(())
            });
            let _ = timeout(TOGETHER, others).await;
            return;
        }
    };
    match within {
        None => waits.await,
        Some(within) => {
            if timeout(within, waits).await.is_err() && errors.is_empty() {
                let unsynced = informers.iter().filter(|informer| !informer.is_synced());
                errors.extend(unsynced.map(|informer| informer.not_synced_within(within)));
            }
        }
    }
    SyncError::several(informers.len(), errors)
}

/// Waits until each informer is synced, or cannot sync for a reason that retrying cannot fix.
pub(crate) async fn settled(informers: &[AnyInformer]) -> Result<(), SyncError> {
    let settled = join_all(informers.iter().map(|informer| informer.synced_or_failed(true))).await;
    let errors = settled.into_iter().filter_map(Result::err).collect();
    SyncError::several(informers.len(), errors)
}

/// Stops all informers at once, and waits for all of them, up to the time limit.
pub(crate) async fn stop(informers: &[AnyInformer], within: Option<Duration>) -> Result<(), StopError> {
    // All are asked to stop before any is awaited, so that a slow one does not delay the others.
    informers.iter().for_each(AnyInformer::ask_to_stop);
    // A callback that waited here would block its own informer, and possibly others that wait for it.
    StopError::several(informers.iter().filter_map(AnyInformer::check_wait_for_stop).collect())?;
    let stopping = informers.iter().map(|informer| async move {
        match within {
            None => informer.stop().await,
            Some(within) => informer.stop_within(within).await,
        }
    });
    StopError::several(join_all(stopping).await.into_iter().filter_map(Result::err).collect())
}
