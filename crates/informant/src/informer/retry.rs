//! A user's process function, and what could not be processed: held back, reported, and tried again.
//!
//! - **In:** receipts of one item each.
//! - **Out:** answers; reports of what failed.
//! - **Knows nothing of:** where items come from.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use hashbrown::HashMap;
use tokio::time::Instant;
use tracing::warn;

use super::controller::Process;
use super::controller::Takes;
use crate::Key;
use crate::listwatch::Backoff;
use crate::listwatch::Delays;
use crate::panics;
use crate::queue::ItemOutcome;
use crate::queue::Receipt;
use crate::queue::ReceiptQueue;

/// Says that an item could not be processed. Any error becomes one by `?`.
#[derive(Debug)]
pub struct Failed {
    processed: usize,
    source: Box<dyn Error + Send + Sync>,
}

/// An item that could not be processed; what is left of it comes again.
#[derive(Debug, thiserror::Error)]
#[error("processing {} failed (attempt {attempt}); {}", Which(key), Next(retry_in))]
#[non_exhaustive]
pub struct ProcessError {
    /// Which object; `None` for what concerns all of them.
    pub key: Option<Key>,
    /// How often it was tried.
    pub attempt: u32,
    /// How long it waits; `None` if all of it was processed, so that nothing is left to try again.
    pub retry_in: Option<Duration>,
    /// Why it failed.
    pub source: Box<dyn Error + Send + Sync>,
}

struct Which<'a>(&'a Option<Key>);
struct Next<'a>(&'a Option<Duration>);

/// Calls a user's function, and holds back what it could not process.
pub(super) struct Retrying<Q: ReceiptQueue, F> {
    function: F,
    key_of: fn(&Q::Taken) -> Option<&Key>,
    changes_of: fn(&Q::Taken) -> usize,
    backoff: Backoff,
    on_error: Option<OnError>,
    /// In flight until their time has come.
    held: Vec<Held<Q>>,
    failures: HashMap<Option<Key>, Failures>,
}

/// Until the user says otherwise.
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

impl Failed {
    /// The first `processed` changes of the item were processed and shall not come again; then this happened.
    pub fn after(processed: usize, source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self { processed, source: source.into() }
    }
}

impl<E: Into<Box<dyn Error + Send + Sync>>> From<E> for Failed {
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

    pub(super) fn on_error(&mut self, hear: OnError) {
        self.on_error = Some(hear);
    }

    fn fail(&mut self, receipt: Receipt<Q>, key: Option<Key>, failed: Failed) {
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
        let told = self.on_error.as_ref().map(|hear| panics::catch(|| hear(&error)));
        if !matches!(told, Some(Ok(()))) {
            let (key, source) = (error.key.as_ref().map(Key::as_str), &*error.source);
            match retry_in.map(|delay| delay.as_millis()) {
                Some(delay_ms) => warn!(key, attempt, delay_ms, error = source, "processing failed; trying again"),
                None => warn!(key, attempt, error = source, "processing failed; nothing is left to try again"),
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
    F: FnMut(&Q::Taken) -> Result<(), Failed>,
{
    const TAKES: Takes = Takes::One;

    fn process(&mut self, receipt: Receipt<Q>) {
        // Without an item it only tells a version.
        let Some(item) = receipt.items().first() else { return };
        let key = (self.key_of)(item).cloned();
        let function = &mut self.function;
        let outcome = panics::catch(|| function(item));
        match outcome.unwrap_or_else(|panic| Err(Failed::from(format!("panicked: {panic}")))) {
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
            Some(delay) => write!(f, "trying again in {} ms", delay.as_millis()),
            None => f.write_str("nothing of it is left to try again"),
        }
    }
}

impl fmt::Display for Which<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(key) => write!(f, "{key}"),
            None => f.write_str("a change of all objects"),
        }
    }
}
