//! Several informers at once: waited for, and stopped, together.

use std::any::Any;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::future::Either;
use futures_util::future::join_all;
use futures_util::future::select;
use futures_util::stream::FuturesUnordered;
use tokio::time::sleep;
use tokio::time::timeout;

use super::InformerState;
use super::InformerStatus;
use super::SharedInformer;
use super::StopError;
use super::StopErrors;
use super::SyncError;
use super::SyncErrors;

/// An informer of any form.
pub(crate) trait AnyInformer: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn name(&self) -> &Arc<str>;
    fn state(&self) -> InformerState;
    fn status(&self) -> InformerStatus;
    fn start_if_new(&self) -> bool;
    fn is_synced(&self) -> bool;
    fn synced(&self) -> BoxFuture<'_, Result<(), SyncError>>;
    fn not_synced_within(&self, within: Duration) -> SyncError;
    fn has_crashed(&self) -> bool;
    fn ask_to_stop(&self);
    fn inside_callback(&self) -> Option<StopError>;
    fn stop(&self) -> BoxFuture<'_, Result<(), StopError>>;
    fn stop_within(&self, within: Duration) -> BoxFuture<'_, Result<(), StopError>>;
}

impl<O: Send + Sync + 'static> AnyInformer for SharedInformer<O> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn name(&self) -> &Arc<str> {
        self.name()
    }

    fn state(&self) -> InformerState {
        self.state()
    }

    fn status(&self) -> InformerStatus {
        self.status()
    }

    fn start_if_new(&self) -> bool {
        self.start_if_new()
    }

    fn is_synced(&self) -> bool {
        self.is_synced()
    }

    fn synced(&self) -> BoxFuture<'_, Result<(), SyncError>> {
        self.synced().boxed()
    }

    fn not_synced_within(&self, within: Duration) -> SyncError {
        self.not_synced_within(within)
    }

    fn has_crashed(&self) -> bool {
        self.has_crashed()
    }

    fn ask_to_stop(&self) {
        self.ask_to_stop();
    }

    fn inside_callback(&self) -> Option<StopError> {
        self.inside_callback()
    }

    fn stop(&self) -> BoxFuture<'_, Result<(), StopError>> {
        self.stop().boxed()
    }

    fn stop_within(&self, within: Duration) -> BoxFuture<'_, Result<(), StopError>> {
        self.stop_within(within).boxed()
    }
}

/// How long others may take to fail as well, so that somebody who mends one thing after the other need not try each time.
const TOGETHER: Duration = Duration::from_millis(250);

/// Waits until all are synced, or one of them will not be; for as long as is given.
pub(crate) async fn synced(informers: &[&dyn AnyInformer], within: Option<Duration>) -> Result<(), SyncErrors> {
    let failed = |errors| Err(SyncErrors::new(informers.len(), errors));
    let mut waiting: FuturesUnordered<_> = informers.iter().map(|informer| informer.synced()).collect();
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
pub(crate) async fn stop(informers: &[&dyn AnyInformer], within: Option<Duration>) -> Result<(), StopErrors> {
    // All of them before any is waited for: so that one that takes long does not keep others at work.
    informers.iter().for_each(|informer| informer.ask_to_stop());
    // Whoever waits inside a callback of one may keep others from ending, too.
    let errors: Vec<_> = informers.iter().filter_map(|informer| informer.inside_callback()).collect();
    if !errors.is_empty() {
        return Err(StopErrors { errors });
    }
    let stopping = informers.iter().map(|informer| match within {
        None => informer.stop(),
        Some(within) => informer.stop_within(within),
    });
    let errors: Vec<_> = join_all(stopping).await.into_iter().filter_map(Result::err).collect();
    match errors.is_empty() {
        true => Ok(()),
        false => Err(StopErrors { errors }),
    }
}
