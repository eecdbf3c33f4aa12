//! Decides when a failed request is made again: waits alone, or takes turns with the other reflectors of the client.
//!
//! - **In:** which requests succeeded and failed.
//! - **Out:** the wait before the next attempt; a probe before a list; whether the server may be starting.
//! - **Knows nothing of:** which request follows.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until};
use tracing::debug;

use super::{Shared, status::Activity};
use crate::listwatch::{
    Backoff, ListWatchError, SourceError,
    health::{Gate, ReflectorId, RetryDelays},
    rules::{
        contact::{Contact, STARTING},
        delays::{SHORT_OUTAGE, SHORT_REFUSAL, obeyed},
        error_class::{ErrorClass, RetryRule},
        failure_delays::FailureDelays,
    },
    witness::ask_for_version,
};

/// The retries of one reflector.
pub(super) struct Retry {
    shared: Shared,
    /// The name of this reflector at the gates.
    id: ReflectorId,
    contact: Contact,
    pub(super) delays: FailureDelays,
    /// True if the server answered a probe, and since then could be reached, and the list that followed has not succeeded yet.
    has_probed: bool,
    /// True if a request failed because of the storage (5xx), and none has shown since that the storage works.
    is_storage_failing: bool,
    /// When a request last failed because of the storage, or of a load balancer that does not reach the server.
    storage_failed_at: Option<Instant>,
}

/// Within this time after the server can be reached again, all reflectors of a client retry.
const RECONNECT_SPREAD: Duration = Duration::from_secs(2);

impl Retry {
    pub(super) fn new(shared: Shared, id: ReflectorId, backoff: Backoff) -> Self {
        let (contact, delays) = (Contact::default(), FailureDelays::new(backoff));
        Self { shared, id, contact, delays, has_probed: false, is_storage_failing: false, storage_failed_at: None }
    }

    /// Returns true if the server may still be starting after an outage.
    pub(super) fn is_server_starting(&self) -> bool {
        self.contact.is_server_starting(Instant::now())
    }

    /// Notes that the server answered a request, successfully or not.
    fn note_answer(&mut self, now: Instant) {
        self.shared.health.reach().open(Some(now));
        self.contact.note_answer(now);
    }

    /// Notes that the response to a list began. Others need not wait for its end. It may still break, so nothing changes for this reflector.
    pub(super) fn note_begun_list(&self) {
        self.shared.health.reach().open(None);
        self.shared.health.acceptance().open(None);
    }

    /// Notes that the server accepted a request. Returns the time.
    fn note_acceptance(&mut self) -> Instant {
        let now = Instant::now();
        self.note_answer(now);
        self.shared.health.acceptance().open(Some(now));
        now
    }

    /// Notes that the storage answered.
    pub(super) fn note_storage(&mut self, now: Instant) {
        self.shared.storage.gate.open(Some(now));
        self.is_storage_failing = false;
    }

    /// Notes that an open watch can be read. That shows that the storage works if requests of this reflector failed before: also if the storage
    /// did not answer the check of the history, because the server refuses lookups.
    pub(super) fn note_checked_watch(&mut self) {
        if self.is_storage_failing {
            self.note_storage(Instant::now());
        }
    }

    /// Notes that a watch was opened. That does not show that the storage works: a server can open a watch from its cache.
    pub(super) fn note_watch(&mut self) {
        let now = self.note_acceptance();
        self.delays.note_success(now);
    }

    /// Notes a complete list. Returns the time.
    pub(super) fn note_list(&mut self) -> Instant {
        let now = self.note_acceptance();
        self.note_storage(now);
        self.delays.note_success(now);
        self.has_probed = false;
        now
    }

    /// Notes the failure of a request.
    pub(super) fn note_failure(&mut self, failure: &ListWatchError) {
        if failure.source.class() == ErrorClass::ServerError {
            self.storage_failed_at = Some(Instant::now());
        }
        match failure.is_unreachable() {
            true => {
                self.contact.note_unreachable(Instant::now());
                self.has_probed = false;
            }
            false => self.note_answer(Instant::now()),
        }
    }

    /// Asks the server for its version. If it answers, a list may succeed.
    pub(super) async fn probe(&mut self) -> Result<(), SourceError> {
        let answer = ask_for_version(&*self.shared.source).await;
        self.has_probed = answer.is_ok();
        answer?;
        let now = self.note_acceptance();
        self.note_storage(now);
        Ok(())
    }

    /// Waits before the next attempt.
    pub(super) async fn wait(&mut self, because: &Arc<ListWatchError>) {
        let now = Instant::now();
        let retry_after = because.source.retry_after();
        let failing_since = self.shared.reporter.failing_since();
        // A server that could not be reached has not refused anything.
        let refused_since = failing_since.max(self.contact.first_answer);
        let refused_for = refused_since.map_or(Duration::ZERO, |since| now - since);
        let Shared { health, storage, .. } = self.shared.clone();
        let delays = &mut self.delays.delays;
        let delay = match because.retry_rule() {
            RetryRule::Unreachable => {
                let since = self.contact.unreachable_since.unwrap_or(now);
                health.reach().close(self.id);
                let retries_soon = self.contact.may_retry_soon(health.reach().is_open_for_others_since(since));
                let outage = retries_soon.then_some((now - since, SHORT_OUTAGE));
                return self.wait_at(health.reach(), outage, because).await;
            }
            RetryRule::OfClient | RetryRule::OfStorage if self.has_probed => delays.after_failure(now, retry_after),
            rule @ (RetryRule::OfClient | RetryRule::OfStorage) => {
                let gate = if rule == RetryRule::OfClient { health.acceptance() } else { &storage.gate };
                gate.close(self.id);
                self.is_storage_failing |= rule == RetryRule::OfStorage;
                return self.wait_at(gate, Some((refused_for, SHORT_REFUSAL)), because).await;
            }
            RetryRule::Alone => {
                let delays = &mut self.delays.while_refused;
                let delay = delays.after_failure(now, retry_after);
                delays.until_probe(refused_for, SHORT_REFUSAL, delay).max(obeyed(retry_after))
            }
            RetryRule::Backoff => self.backoff(because, now),
        };
        self.show_wait(now + delay, because);
        sleep_until(now + delay).await;
    }

    /// Returns how long the backoff after a failure lasts.
    fn backoff(&mut self, because: &ListWatchError, now: Instant) -> Duration {
        // Soon after a history change, a history that cannot be proven may have changed again.
        let is_unproven = matches!(because.source, SourceError::HistoryUnproven { .. });
        let may_have_changed = is_unproven && self.shared.health.is_suspicious(now);
        let class = if may_have_changed { ErrorClass::HistoryChanged } else { because.source.class() };
        // A starting server breaks connections, and has no version before its start.
        let may_be_start =
            matches!(class, ErrorClass::ConnectionLost | ErrorClass::Expired | ErrorClass::HistoryChanged);
        let is_storage_starting = self.storage_failed_at.is_some_and(|failed| now - failed < STARTING);
        let is_starting = self.is_server_starting() || is_storage_starting;
        let is_startup_error = because.may_be_startup_error() || (may_be_start && is_starting);
        self.delays.after(class, is_startup_error, because.source.retry_after(), now)
    }

    /// Waits at a closed gate. The delay is short, if `outage` says how long the outage has lasted and which length is short.
    async fn wait_at(&mut self, gate: &Gate, outage: Option<(Duration, Duration)>, because: &Arc<ListWatchError>) {
        let now = Instant::now();
        let retry_after = because.source.retry_after();
        let delays = &mut self.delays.while_refused;
        let own = delays.after_failure(now, retry_after);
        let turn = outage.map_or(own, |(length, short)| delays.until_probe(length, short, own));
        let after_success = delays.between(Duration::ZERO, RECONNECT_SPREAD);
        let least = obeyed(retry_after);
        self.show_wait(now + turn.max(least), because);
        gate.wait(self.id, RetryDelays { turn, after_success, least }).await;
    }

    fn show_wait(&self, until: Instant, because: &Arc<ListWatchError>) {
        let reporter = &self.shared.reporter;
        let delay_ms = (until - Instant::now()).as_millis();
        debug!(delay_ms, "waiting before the next attempt");
        reporter.set(Activity::BackingOff { until, because: Arc::clone(because) });
    }
}
