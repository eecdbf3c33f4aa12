//! Waits for several informers, and stops several informers, together.

use std::{pin::pin, time::Duration};

use futures_util::{
    StreamExt,
    future::{Either, join_all, select},
    stream::FuturesUnordered,
};
use tokio::time::{sleep, timeout};

use super::{AnyInformer, StopErrors, SyncErrors};

/// After the first permanent failure, wait this long so that other failures appear in the same error.
const TOGETHER: Duration = Duration::from_millis(250);

/// Waits until all informers are synced, one of them fails, or the time limit passes.
pub(crate) async fn synced(informers: &[AnyInformer], within: Option<Duration>) -> Result<(), SyncErrors> {
    let failed = |errors| Err(SyncErrors::new(informers.len(), errors));
    let mut waiting: FuturesUnordered<_> = informers.iter().map(AnyInformer::synced).collect();
    let mut over = pin!(sleep_or_never(within));
    let error = loop {
        match select(waiting.next(), &mut over).await {
            Either::Left((None, _)) => return Ok(()),
            Either::Left((Some(Ok(())), _)) => {}
            Either::Left((Some(Err(error)), _)) => break error,
            Either::Right((within, _)) => {
                let unsynced = informers.iter().filter(|informer| !informer.is_synced());
                return failed(unsynced.map(|informer| informer.not_synced_within(within)).collect());
            }
        }
    };
    let mut errors = vec![error];
    let others = async {
        while let Some(outcome) = waiting.next().await {
            errors.extend(outcome.err());
        }
    };
    // Informers that have not failed by then are left out of the error.
    let _ = timeout(TOGETHER, select(pin!(others), over)).await;
    failed(errors)
}

/// Completes after the time limit and returns it; without a limit, never completes.
async fn sleep_or_never(time: Option<Duration>) -> Duration {
    match time {
        Some(time) => {
            sleep(time).await;
            time
        }
        None => std::future::pending().await,
    }
}

/// Stops all informers at once, and waits for all of them, up to the time limit.
pub(crate) async fn stop(informers: &[AnyInformer], within: Option<Duration>) -> Result<(), StopErrors> {
    // All are asked to stop before any is awaited, so that a slow one does not delay the others.
    informers.iter().for_each(AnyInformer::ask_to_stop);
    // A callback that waited here would block its own informer, and possibly others that wait for it.
    let errors: Vec<_> = informers.iter().filter_map(AnyInformer::inside_callback).collect();
    if !errors.is_empty() {
        return Err(StopErrors { errors });
    }
    let stopping = informers.iter().map(|informer| async move {
        match within {
            None => informer.stop().await,
            Some(within) => informer.stop_within(within).await,
        }
    });
    let errors: Vec<_> = join_all(stopping).await.into_iter().filter_map(Result::err).collect();
    match errors.is_empty() {
        true => Ok(()),
        false => Err(StopErrors { errors }),
    }
}
