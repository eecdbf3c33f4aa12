//! Calls a user's process function, and retries items that it could not process.
//!
//! - **In:** batches of at most one item.
//! - **Out:** acknowledged or requeued items; a [`ProcessError`] for each failure.
//! - **Knows nothing of:** where items come from.

use std::{error::Error, time::Duration};

use hashbrown::HashMap;
use tokio::time::Instant;
use tracing::warn;

use crate::{
    Key,
    listwatch::{Backoff, Delays},
    panics,
    queue::{Batch, ObjectChanges},
};

/// What a process function returns to have an item retried: any error converts into it with `?`.
pub(super) type ProcessFailure = Box<dyn Error + Send + Sync>;

/// An item of the queue that could not be processed. It is retried after a delay.
#[derive(Debug, thiserror::Error)]
#[error("processing {key} failed (attempt {attempt}); retrying in {} ms", retry_in.as_millis())]
#[non_exhaustive]
pub struct ProcessError {
    /// The object.
    pub key: Key,
    /// The number of attempts so far.
    pub attempt: u32,
    /// The delay before the next attempt.
    pub retry_in: Duration,
    /// The error that the process function returned, or its panic.
    pub source: Box<dyn Error + Send + Sync>,
}

/// Calls a user's function, and holds items that it could not process until they are retried.
pub(super) struct Retrier<O, F> {
    function: F,
    pub(super) backoff: Backoff,
    pub(super) on_error: Option<ErrorCallback>,
    /// Items that wait for their next attempt, with its time. They stay in flight; when they are dropped, also with the loop, they are requeued.
    held: Vec<(Instant, Batch<O>)>,
    failures: HashMap<Key, Failures>,
}

pub(super) type ErrorCallback = Box<dyn Fn(&ProcessError) + Send + Sync>;

struct Failures {
    count: u32,
    delays: Delays,
}

impl<O, F> Retrier<O, F> {
    pub(super) fn new(function: F) -> Self {
        let backoff = Backoff::new(Duration::from_millis(5), Duration::from_secs(30));
        Self { function, backoff, on_error: None, held: Vec::new(), failures: HashMap::new() }
    }

    /// Reports that processing an item failed, and holds the item until its retry.
    fn handle_failure(&mut self, batch: Batch<O>, key: Key, source: ProcessFailure) {
        let now = Instant::now();
        let backoff = self.backoff;
        let failures = self.failures.entry(key.clone());
        let failures = failures.or_insert_with(|| Failures { count: 0, delays: Delays::new(backoff) });
        failures.count += 1;
        let attempt = failures.count;
        let retry_in = failures.delays.after_failure(now, None);
        let error = ProcessError { key, attempt, retry_in, source };
        let reported = self.on_error.as_ref().map(|callback| panics::catch(|| callback(&error)));
        // Logs the error if there is no callback, or if the callback panicked.
        if !matches!(reported, Some(Ok(()))) {
            let (key, delay_ms, source) = (error.key.as_str(), retry_in.as_millis(), &*error.source);
            warn!(key, attempt, delay_ms, error = source, "processing an item failed; retrying");
        }
        self.held.push((now + retry_in, batch));
    }
}

impl<O, F: FnMut(&ObjectChanges<O>) -> Result<(), ProcessFailure>> Retrier<O, F> {
    pub(super) fn process(&mut self, batch: Batch<O>) {
        // A batch without items only carries a version.
        let Some(item) = batch.items().first() else { return batch.acknowledge() };
        let key = item.key().clone();
        let function = &mut self.function;
        let outcome = panics::catch(|| function(item));
        match outcome.unwrap_or_else(|panic| Err(format!("panicked: {panic}").into())) {
            Ok(()) => {
                self.failures.remove(&key);
                batch.acknowledge();
            }
            Err(failed) => self.handle_failure(batch, key, failed),
        }
    }

    /// Returns the time of the next retry, if any.
    pub(super) fn next_retry(&self) -> Option<Instant> {
        self.held.iter().map(|(until, _)| *until).min()
    }

    /// Requeues the items that are due for a retry.
    pub(super) fn requeue_due(&mut self, now: Instant) {
        self.held.extract_if(.., |(until, _)| *until <= now).for_each(|(_, batch)| batch.requeue());
    }
}
