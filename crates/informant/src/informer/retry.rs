//! Calls a user's process function, and retries items that it could not process.
//!
//! - **In:** receipts of one item each.
//! - **Out:** acknowledged or requeued items; a [`ProcessError`] for each failure.
//! - **Knows nothing of:** where items come from.

use std::{error::Error, fmt, time::Duration};

use hashbrown::HashMap;
use tokio::time::Instant;
use tracing::warn;

use super::controller::{Process, Takes};
use crate::{
    Key,
    listwatch::{Backoff, Delays},
    panics,
    queue::{ItemOutcome, Receipt, ReceiptQueue},
};

/// The error that a process function returns to have an item retried. Any error converts into it with `?`.
///
/// ```
/// use informant::informer::ProcessFailure;
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
#[derive(thiserror::Error)]
#[error("processing {} failed (attempt {attempt}); {}", Which(key), Next(retry_in))]
#[non_exhaustive]
pub struct ProcessError {
    /// The object; `None` for a change that concerns all objects, such as a relist.
    pub key: Option<Key>,
    /// The number of attempts so far.
    pub attempt: u32,
    /// The delay before the next attempt; `None` if all changes of the item were processed before the error, so that nothing is retried.
    pub retry_in: Option<Duration>,
    /// The error that the process function returned, or its panic.
    pub source: Box<dyn Error + Send + Sync>,
}

/// The object of an item.
struct Which<'a>(&'a Option<Key>);
/// The next step after a failure.
struct Next<'a>(&'a Option<Duration>);

/// Calls a user's function, and holds items that it could not process until they are retried.
pub(super) struct Retrying<Q: ReceiptQueue, F> {
    function: F,
    key_of: fn(&Q::Taken) -> Option<&Key>,
    changes_of: fn(&Q::Taken) -> usize,
    backoff: Backoff,
    on_error: Option<OnError>,
    /// Items that wait for their next attempt; they stay in flight.
    held: Vec<Held<Q>>,
    failures: HashMap<Option<Key>, Failures>,
}

/// Returns the backoff of a controller that sets none.
fn default_backoff() -> Backoff {
    Backoff::new(Duration::from_millis(5), Duration::from_secs(30))
}

pub(super) type OnError = Box<dyn Fn(&ProcessError) + Send + Sync>;

struct Held<Q: ReceiptQueue> {
    until: Instant,
    processed: usize,
    receipt: Receipt<Q>,
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

impl<Q: ReceiptQueue, F> Retrying<Q, F> {
    pub(super) fn new(function: F, key_of: fn(&Q::Taken) -> Option<&Key>, changes_of: fn(&Q::Taken) -> usize) -> Self {
        let (held, failures) = (Vec::new(), HashMap::new());
        Self { function, key_of, changes_of, backoff: default_backoff(), on_error: None, held, failures }
    }

    pub(super) fn backoff(&mut self, backoff: Backoff) {
        self.backoff = backoff;
    }

    pub(super) fn on_error(&mut self, callback: OnError) {
        self.on_error = Some(callback);
    }

    fn fail(&mut self, receipt: Receipt<Q>, key: Option<Key>, failed: ProcessFailure) {
        let now = Instant::now();
        let backoff = self.backoff;
        let failures = self.failures.entry(key.clone());
        let failures = failures.or_insert_with(|| Failures { count: 0, delays: Delays::new(backoff) });
        failures.count += 1;
        let attempt = failures.count;
        let is_left = receipt.items().iter().any(|item| (self.changes_of)(item) > failed.processed);
        let retry_in = is_left.then(|| failures.delays.failed(now, None));
        if !is_left {
            self.failures.remove(&key);
        }
        let error = ProcessError { key, attempt, retry_in, source: failed.source };
        let reported = self.on_error.as_ref().map(|callback| panics::catch(|| callback(&error)));
        // Without a callback, or if the callback panicked.
        if !matches!(reported, Some(Ok(()))) {
            let (key, source) = (error.key.as_ref().map(Key::as_str), &*error.source);
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
            Some(delay) => self.held.push(Held { until: now + delay, processed: failed.processed, receipt }),
            None => receipt.acknowledge(),
        }
        panics::drop_catching(error, |panic| {
            warn!(error = panic, "the error of a process function panicked when it was dropped");
        });
    }
}

impl<Q, F> Process<Q> for Retrying<Q, F>
where
    Q: ReceiptQueue,
    F: FnMut(&Q::Taken) -> Result<(), ProcessFailure>,
{
    const TAKES: Takes = Takes::One;

    fn process(&mut self, receipt: Receipt<Q>) {
        // A receipt without items only carries a version.
        let Some(item) = receipt.items().first() else { return };
        let key = (self.key_of)(item).cloned();
        let function = &mut self.function;
        let outcome = panics::catch(|| function(item));
        match outcome.unwrap_or_else(|panic| Err(ProcessFailure::from(format!("panicked: {panic}")))) {
            Ok(()) => {
                self.failures.remove(&key);
                receipt.acknowledge();
            }
            Err(failed) => self.fail(receipt, key, failed),
        }
    }

    fn wakes_at(&self) -> Option<Instant> {
        self.held.iter().map(|held| held.until).min()
    }

    fn wake(&mut self, now: Instant) {
        for held in self.held.extract_if(.., |held| held.until <= now) {
            let processed = held.processed;
            held.receipt.settle(|_| ItemOutcome::Requeue { processed });
        }
    }
}

impl fmt::Display for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(delay) => write!(f, "retrying in {} ms", delay.as_millis()),
            None => f.write_str("not retrying, because all of its changes were processed before the error"),
        }
    }
}

impl fmt::Display for Which<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(key) => write!(f, "{key}"),
            None => f.write_str("a change that concerns all objects"),
        }
    }
}
