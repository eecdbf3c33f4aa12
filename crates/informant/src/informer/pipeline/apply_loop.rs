//! The apply loop of a shared informer. Read this file first.
//!
//! - **In:** a reflector that fills a queue, and the [`BatchApplier`].
//! - **Out:** every batch of the queue, applied; resyncs, when they are due; warnings of handlers that are late.
//! - **Knows nothing of:** how a batch is applied.

use std::{convert::Infallible, pin::pin, time::Duration};

use futures_util::future::select;
use tokio::{
    task::coop::consume_budget,
    time::{Instant, timeout_at},
};

use super::batch_applier::BatchApplier;
use crate::{listwatch::Reflector, queue::Closed};

/// The time between two checks whether events wait too long for a handler.
const LATENESS_CHECKS: Duration = Duration::from_secs(1);

/// Runs a reflector beside the apply loop. Both end when the future is dropped. A batch is applied without an `await`, so a
/// batch is never applied in part.
pub(super) async fn run(reflector: Reflector, mut applier: BatchApplier) {
    let reflecting = pin!(reflector.run_in_span());
    let applying = pin!(apply_batches(&mut applier));
    // The reflector is polled first: received changes are queued before the loop takes a batch, so batches are as large as possible.
    select(reflecting, applying).await;
}

async fn apply_batches(applier: &mut BatchApplier) -> Result<Infallible, Closed> {
    let mut lateness_checked = Instant::now();
    loop {
        let taken = match applier.next_wake() {
            Some(at) => timeout_at(at, applier.queue.drain()).await.ok(),
            None => Some(applier.queue.drain().await),
        };
        if let Some(batch) = taken {
            applier.apply(batch?);
        }
        // Checked after each batch, so that resyncs also happen while the queue is never empty.
        let now = Instant::now();
        applier.resync_due(now);
        // A handler that hangs cannot notice this by itself. Bookmarks of the server make batches, too, about one in a minute.
        if now - lateness_checked >= LATENESS_CHECKS {
            lateness_checked = now;
            applier.core.listeners().iter().for_each(|listener| listener.warn_if_late(now));
        }
        #[cfg(feature = "packing")]
        if applier.pack_some(now) {
            tokio::task::yield_now().await;
        }
        consume_budget().await;
    }
}
