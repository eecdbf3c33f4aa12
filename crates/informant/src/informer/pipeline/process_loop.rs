//! The process loop of a shared informer. Read this file first.
//!
//! - **In:** a reflector that fills a queue, and the [`BatchApplier`].
//! - **Out:** every batch of the queue, applied; resyncs, when they are due.
//! - **Knows nothing of:** how a batch is applied.

use std::{convert::Infallible, pin::pin};

use futures_util::future::select;
use tokio::{
    task::coop::consume_budget,
    time::{Instant, timeout_at},
};

use super::batch_applier::BatchApplier;
use crate::{listwatch::Reflector, queue::Closed};

/// Runs a reflector beside the process loop. Both end when the future is dropped. A batch is applied without an `await`, so a
/// batch is never applied in part.
pub(super) async fn run(reflector: Reflector, mut applier: BatchApplier) {
    let reflecting = pin!(reflector.run(std::future::pending()));
    let processing = pin!(process_batches(&mut applier));
    // The reflector is polled first: received changes are queued before the loop takes a batch, so batches are as large as possible.
    select(reflecting, processing).await;
}

async fn process_batches(applier: &mut BatchApplier) -> Result<Infallible, Closed> {
    loop {
        let taken = match applier.next_tick() {
            Some(at) => timeout_at(at, applier.queue.drain()).await.ok(),
            None => Some(applier.queue.drain().await),
        };
        if let Some(batch) = taken {
            applier.apply(batch?);
        }
        // Checked after each batch, so that resyncs also happen while the queue is never empty.
        applier.resync_due(Instant::now());
        consume_budget().await;
    }
}
