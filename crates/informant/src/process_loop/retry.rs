//! Calls a user's process function, and retries items that it could not process.
//!
//! - **In:** batches of at most one item.
//! - **Out:** acknowledged or requeued items; a [`ProcessError`] for each failure.
//! - **Knows nothing of:** where items come from.

use std::{error::Error, fmt, time::Duration};

use hashbrown::HashMap;
use tokio::time::Instant;
use tracing::warn;

use crate::{
    Key,
    listwatch::{Backoff, Delays},
    panics,
    queue::{Batch, ItemOutcome, ObjectChanges},
};

/// The error that a process function returns to have an item retried. Any error converts into it with `?`.
///
/// ```
/// use informant::pipeline::ProcessFailure;
///
/// fn process(text: &str) -> Result<(), ProcessFailure> {
///     let number: u32 = text.parse()?;
///     if number > 9 {
///         return Err("the number has more than one digit".into());
///     }
///     Ok(())
/// }
/// assert!(process("12").is_err());
/// ```
#[derive(Debug)]
pub struct ProcessFailure {
    processed: usize,
    source: Box<dyn Error + Send + Sync>,
}

/// An item of the queue that could not be processed. Its unprocessed changes are retried after a delay.
#[derive(Debug, thiserror::Error)]
#[error("processing {key} failed (attempt {attempt}); {}", RetryNote(retry_in))]
#[non_exhaustive]
pub struct ProcessError {
    /// The object.
    pub key: Key,
    /// The number of attempts so far.
    pub attempt: u32,
    /// The delay before the next attempt; `None` if all changes of the item were processed before the error, so that nothing is retried.
    pub retry_in: Option<Duration>,
    /// The error that the process function returned, or its panic.
    pub source: Box<dyn Error + Send + Sync>,
}

/// The next step after a failure.
struct RetryNote<'a>(&'a Option<Duration>);

/// Calls a user's function, and holds items that it could not process until they are retried.
pub(super) struct Retrier<O, F> {
    function: F,
    pub(super) backoff: Backoff,
    pub(super) on_error: Option<ErrorCallback>,
    /// Items that wait for their next attempt; they stay in flight.
    held: Vec<HeldItem<O>>,
    failures: HashMap<Key, Failures>,
}

pub(super) type ErrorCallback = Box<dyn Fn(&ProcessError) + Send + Sync>;

struct HeldItem<O> {
    until: Instant,
    processed: usize,
    batch: Batch<O>,
}

struct Failures {
    count: u32,
    delays: Delays,
}

impl ProcessFailure {
    /// Reports an error after the first `processed` changes of the item were processed. Only the other changes are retried.
    pub fn after(processed: usize, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { processed, source: source.into() }
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for ProcessFailure {
    fn from(source: E) -> Self {
        Self::after(0, source)
    }
}

impl<O, F> Retrier<O, F> {
    pub(super) fn new(function: F) -> Self {
        let backoff = Backoff::new(Duration::from_millis(5), Duration::from_secs(30));
        Self { function, backoff, on_error: None, held: Vec::new(), failures: HashMap::new() }
    }

    /// Reports that processing an item failed, and holds the item until its retry.
    fn handle_failure(&mut self, batch: Batch<O>, key: Key, failed: ProcessFailure) {
        let now = Instant::now();
        let backoff = self.backoff;
        let failures = self.failures.entry(key.clone());
        let failures = failures.or_insert_with(|| Failures { count: 0, delays: Delays::new(backoff) });
        failures.count += 1;
        let attempt = failures.count;
        let has_unprocessed = batch.items().iter().any(|item| item.deltas().len() > failed.processed);
        let retry_in = has_unprocessed.then(|| failures.delays.after_failure(now, None));
        if !has_unprocessed {
            self.failures.remove(&key);
        }
        let error = ProcessError { key, attempt, retry_in, source: failed.source };
        let reported = self.on_error.as_ref().map(|callback| panics::catch(|| callback(&error)));
        // Logs the error if there is no callback, or if the callback panicked.
        if !matches!(reported, Some(Ok(()))) {
            let (key, source) = (error.key.as_str(), &*error.source);
            match retry_in.map(|delay| delay.as_millis()) {
                Some(delay_ms) => warn!(key, attempt, delay_ms, error = source, "processing an item failed; retrying"),
                None => warn!(
                    key,
                    attempt,
                    error = source,
                    "processing an item failed after all of its changes were processed; not retrying"
                ),
            }
        }
        match retry_in {
            Some(delay) => self.held.push(HeldItem { until: now + delay, processed: failed.processed, batch }),
            None => batch.acknowledge(),
        }
    }
}

impl<O, F: FnMut(&ObjectChanges<O>) -> Result<(), ProcessFailure>> Retrier<O, F> {
    pub(super) fn process(&mut self, batch: Batch<O>) {
        // A batch without items only carries a version.
        let Some(item) = batch.items().first() else { return batch.acknowledge() };
        let key = item.key().clone();
        let function = &mut self.function;
        let outcome = panics::catch(|| function(item));
        match outcome.unwrap_or_else(|panic| Err(ProcessFailure::from(format!("panicked: {panic}")))) {
            Ok(()) => {
                self.failures.remove(&key);
                batch.acknowledge();
            }
            Err(failed) => self.handle_failure(batch, key, failed),
        }
    }

    /// Returns the time of the next retry, if any.
    pub(super) fn next_retry(&self) -> Option<Instant> {
        self.held.iter().map(|held| held.until).min()
    }

    /// Requeues the items that are due for a retry.
    pub(super) fn requeue_due(&mut self, now: Instant) {
        for HeldItem { processed, batch, .. } in self.held.extract_if(.., |held| held.until <= now) {
            batch.settle(|_| ItemOutcome::Requeue { processed });
        }
    }
}

/// Requeues the held items when the loop ends, without their processed changes.
impl<O, F> Drop for Retrier<O, F> {
    fn drop(&mut self) {
        for HeldItem { processed, batch, .. } in self.held.drain(..) {
            batch.settle(|_| ItemOutcome::Requeue { processed });
        }
    }
}

impl fmt::Display for RetryNote<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(delay) => write!(f, "retrying in {} ms", delay.as_millis()),
            None => f.write_str("not retrying, because all of its changes were processed before the error"),
        }
    }
}
