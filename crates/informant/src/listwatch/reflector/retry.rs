//! Decides when a failed request is made again: waits alone, or lets one reflector of the client retry for all.
//!
//! - **In:** which requests succeeded and failed.
//! - **Out:** the wait before the next attempt; whether the server may be starting.
//! - **Knows nothing of:** which request follows.

use std::{sync::Arc, time::Duration};

use tokio::time::{Instant, sleep_until};
use tracing::debug;

use super::{Shared, status::Activity};
use crate::listwatch::{
    Backoff, ListWatchError, SourceError,
    health::{Gate, Prober, RetryDelays},
    rules::{
        contact::Contact,
        delays::{SHORT_OUTAGE, SHORT_REFUSAL, obeyed},
        error_class::{ErrorClass, RetryRule},
        failure_delays::FailureDelays,
    },
    witness::ask_for_version,
};

/// The retries of one reflector.
pub(super) struct Retry {
    shared: Shared,
    contact: Contact,
    pub(super) delays: FailureDelays,
    /// `Some` while this reflector is the prober: the one that retries while a gate is closed.
    prober: Option<Prober>,
    /// True if the server answered a probe, and the list that followed has not succeeded yet.
    has_probed: bool,
}

/// Within this time after the server can be reached again, all reflectors of a client retry.
const RECONNECT_SPREAD: Duration = Duration::from_secs(2);

impl Retry {
    pub(super) fn new(shared: Shared, backoff: Backoff) -> Self {
        let (contact, delays) = (Contact::default(), FailureDelays::new(backoff));
        Self { shared, contact, delays, prober: None, has_probed: false }
    }

    /// Returns true if the server may still be starting after an outage.
    pub(super) fn is_server_starting(&self) -> bool {
        self.contact.is_server_starting(Instant::now())
    }

    /// Notes that the server answered a request, successfully or not.
    fn note_answer(&mut self, now: Instant) {
        self.shared.health.reach().open(now, &mut self.prober);
        self.contact.note_answer(now);
    }

    /// Notes that the response to a list began. Others need not wait for its end. It may still break, so nothing changes for this reflector.
    pub(super) fn note_begun_list(&mut self) {
        self.shared.health.reach().open_for_others(&mut self.prober);
        self.shared.health.acceptance().open_for_others(&mut self.prober);
    }

    /// Notes that the server accepted a request. Returns the time.
    fn note_acceptance(&mut self) -> Instant {
        let now = Instant::now();
        self.note_answer(now);
        self.shared.health.acceptance().open(now, &mut self.prober);
        now
    }

    /// Notes that the storage answered.
    pub(super) fn note_storage(&mut self, now: Instant) {
        self.shared.storage.gate.open(now, &mut self.prober);
    }

    /// Notes that an open watch can be read. If this reflector retries for all of the storage, its own request works again, also if the storage did not
    /// answer the check of the history: another reflector had asked, or the server refuses lookups.
    pub(super) fn note_checked_watch(&mut self) {
        if self.prober.as_ref().is_some_and(|prober| prober.is_at(&self.shared.storage.gate)) {
            self.note_storage(Instant::now());
        }
    }

    /// Notes that a watch was opened. That does not show that the storage works: a server can open a watch from its cache.
    pub(super) fn note_watch(&mut self) {
        let now = self.note_acceptance();
        self.delays.delays.note_success(now);
    }

    /// Notes a complete list. Returns the time.
    pub(super) fn note_list(&mut self) -> Instant {
        let now = self.note_acceptance();
        self.note_storage(now);
        self.delays.delays.note_success(now);
        self.has_probed = false;
        now
    }

    /// Notes the failure of a request.
    pub(super) fn note_failure(&mut self, failure: &ListWatchError) {
        match failure.is_unreachable() {
            true => self.contact.note_unreachable(Instant::now()),
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
        let refused_for = failing_since.map_or(Duration::ZERO, |since| now - since);
        let health = &self.shared.health;
        let delays = &mut self.delays.delays;
        let until = match because.retry_rule() {
            RetryRule::Unreachable => {
                let gate = Arc::clone(health.reach());
                let since = self.contact.unreachable_since().unwrap_or(now);
                // A list that breaks each time has opened the gate for others, but not ended this reflector's outage.
                let outage = gate.close(now, &mut self.prober).max(now - since);
                let retries_soon = self.contact.may_retry_soon(gate.is_open_for_others_since(since));
                return self.wait_at(&gate, retries_soon.then_some((outage, SHORT_OUTAGE)), because).await;
            }
            RetryRule::OfClient | RetryRule::OfStorage if self.has_probed => {
                now + delays.after_failure(now, retry_after)
            }
            rule @ (RetryRule::OfClient | RetryRule::OfStorage) => {
                let is_of_client = rule == RetryRule::OfClient;
                let gate = Arc::clone(if is_of_client { health.acceptance() } else { &self.shared.storage.gate });
                gate.close(now, &mut self.prober);
                return self.wait_at(&gate, Some((refused_for, SHORT_REFUSAL)), because).await;
            }
            RetryRule::Alone => {
                // Another reflector must probe: the refusal of this one would hide that the requests of others succeed again.
                self.prober = None;
                let delay = delays.after_failure(now, retry_after);
                now + delays.until_probe(refused_for, SHORT_REFUSAL, delay).max(obeyed(retry_after))
            }
            RetryRule::Backoff => {
                self.prober = None;
                now + self.backoff(because, now)
            }
        };
        self.show_wait(until, because);
        sleep_until(until).await;
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
        let is_startup_error = because.may_be_startup_error() || (may_be_start && self.is_server_starting());
        self.delays.after(class, is_startup_error, because.source.retry_after(), now)
    }

    /// Waits at a closed gate. The prober waits a short time, if `outage` says how long the outage has lasted and which length is short; the others
    /// wait until the prober succeeds.
    async fn wait_at(&mut self, gate: &Arc<Gate>, outage: Option<(Duration, Duration)>, because: &Arc<ListWatchError>) {
        let now = Instant::now();
        let retry_after = because.source.retry_after();
        let delays = &mut self.delays.delays;
        let other = delays.after_failure(now, retry_after);
        let probe = outage.map_or(other, |(length, short)| delays.until_probe(length, short, other));
        let after_success = delays.between(Duration::ZERO, RECONNECT_SPREAD);
        let waits = RetryDelays { probe, other, after_success, least: obeyed(retry_after) };
        self.show_wait(now + if self.prober.is_some() { probe.max(waits.least) } else { other }, because);
        gate.wait(&mut self.prober, waits).await;
    }

    fn show_wait(&self, until: Instant, because: &Arc<ListWatchError>) {
        let reporter = &self.shared.reporter;
        let delay_ms = (until - Instant::now()).as_millis();
        debug!(delay_ms, "waiting before the next attempt");
        reporter.set(Activity::BackingOff { until, because: Arc::clone(because) });
    }
}
