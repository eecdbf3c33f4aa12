//! Several informers at once: waited for, and stopped, together.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::Either;
use futures_util::future::join_all;
use futures_util::future::select;
use futures_util::stream::FuturesUnordered;
use tokio::time::sleep;
use tokio::time::timeout;

use super::AnyInformer;
use super::StopErrors;
use super::SyncErrors;

/// How long others may take to fail as well, so that somebody who mends one thing after the other need not try each time.
const TOGETHER: Duration = Duration::from_millis(250);

/// Waits until all are synced, or one of them will not be; for as long as is given.
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
    // If it takes longer, some go on.
    let _ = timeout(TOGETHER, select(pin!(others), over)).await;
    failed(errors)
}

/// Gives the time when it is over.
async fn sleep_or_never(time: Option<Duration>) -> Duration {
    match time {
        Some(time) => {
            sleep(time).await;
            time
        }
        None => std::future::pending().await,
    }
}

/// Stops all of them at once, and waits for all, for as long as is given.
pub(crate) async fn stop(informers: &[AnyInformer], within: Option<Duration>) -> Result<(), StopErrors> {
    // All of them before any is waited for: so that one that takes long does not keep others at work.
    informers.iter().for_each(AnyInformer::ask_to_stop);
    // Whoever waits inside a callback of one may keep others from ending, too.
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
