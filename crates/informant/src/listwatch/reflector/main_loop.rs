//! The main loop of a reflector: performs the request of each state, and passes the result to the state machine.
//!
//! - **In:** the state, and the failures of its requests.
//! - **Out:** the status; reported failures; the delay before the next attempt.
//! - **Knows nothing of:** which state follows.

use std::{convert::Infallible, sync::Arc, time::Duration};

use tokio::{
    task::coop::consume_budget,
    time::{Instant, sleep_until, timeout},
};
use tracing::{debug, error, warn};

use super::{
    super::{
        ListWatchError, Operation, Quarantined, Served, SourceError,
        error::Chain,
        health::{Gate, RetryDelays},
        quarantine::Entries,
        rules::{
            delays::{SHORT_OUTAGE, SHORT_REFUSAL, obeyed},
            error_class::{ErrorClass, RetryRule},
            state::{FailureAction, Input, ReflectorState, Request, WatchStats},
        },
        witness::ask_for_version,
    },
    Reflector, ReflectorSettings,
    reader::EventReader,
    status::Activity,
};
use crate::{Cached, Key, delta::Relist, object::Erased, panics};

/// A list is requested after this time although the server answers no probe.
const LONGEST_PROBING: Duration = Duration::from_secs(60);

/// Within this time after the server can be reached again, all reflectors of a client retry.
const RECONNECT_SPREAD: Duration = Duration::from_secs(2);

/// The failure of a request.
pub(super) struct Failure {
    pub(super) operation: Operation,
    pub(super) error: SourceError,
    /// How it ended.
    pub(super) input: Input,
}

impl Failure {
    /// Creates the failure of a request without a response.
    pub(super) fn refused(operation: Operation, error: SourceError) -> Self {
        Self { operation, input: Input::Failed(error.class(), None), error }
    }

    /// Creates the failure of a response.
    pub(super) fn broken(operation: Operation, error: SourceError, stats: WatchStats) -> Self {
        Self { operation, input: Input::Failed(error.class(), Some(stats)), error }
    }
}

impl Reflector {
    /// Performs the request of each state, and moves the state machine.
    pub(super) async fn run_states(mut self) -> Infallible {
        // The open watch.
        let mut opened = None;
        let mut last_failure = None;
        loop {
            let done = match self.machine.state() {
                ReflectorState::CheckingKind => Ok(self.check_kind().await),
                ReflectorState::CheckingWatch => self.check_opened_watch(&mut opened).await,
                ReflectorState::CheckingHistory => {
                    // A history change is noted in `self` for the next list. Any other result does not matter for a list.
                    if let Err(error) = self.check_history_after_outage().await
                        && error.class() == ErrorClass::HistoryChanged
                    {
                        self.note_failure(Operation::CheckHistory, error);
                    }
                    Ok(Input::Done)
                }
                ReflectorState::StreamedList => self.stream(&mut opened).await,
                ReflectorState::List => self.list().await,
                ReflectorState::OpeningWatch => self.open_watch(&mut opened).await,
                ReflectorState::Watch => match opened.take() {
                    Some(reader) => Err(self.watch(reader).await),
                    None => Ok(Input::Earlier),
                },
                ReflectorState::Backoff { before } => self.wait_after(last_failure.take(), before).await,
                ReflectorState::KindGone => self.wait_after(last_failure.take(), Request::List).await,
            };
            last_failure = self.enter_next_state(done);
            // If each request ends at once, this loop must not keep other tasks from running.
            consume_budget().await;
        }
    }

    /// Waits before the next attempt.
    async fn wait_after(&mut self, failure: Option<Arc<ListWatchError>>, next: Request) -> Result<Input, Failure> {
        if let Some(failure) = failure {
            self.wait(failure, next).await;
        }
        Ok(Input::Done)
    }

    /// Checks the history before the events of an open watch are read. Drops the watch if it must begin earlier, or if the check fails.
    async fn check_opened_watch(&mut self, opened: &mut Option<EventReader>) -> Result<Input, Failure> {
        let version = self.resume.watch_version();
        let reader = opened.take();
        self.check_history_after_outage().await.map_err(|error| Failure::refused(Operation::CheckHistory, error))?;
        self.storage.gate.open(Instant::now(), &mut self.prober);
        if self.resume.watch_version() != version {
            return Ok(Input::Earlier);
        }
        *opened = reader;
        Ok(Input::Done)
    }

    /// Moves the state machine, and publishes and reports a failure as it decides. Returns the failure.
    fn enter_next_state(&mut self, done: Result<Input, Failure>) -> Option<Arc<ListWatchError>> {
        let (input, failure) = match done {
            Ok(input) => (input, None),
            Err(failure) => (failure.input, Some(failure)),
        };
        let action = self.machine.next(input, &mut self.resume, Instant::now());
        match action {
            FailureAction::Nothing => return None,
            FailureAction::Publish => {}
            FailureAction::StopStreaming => self.stop_streaming(),
            FailureAction::DeleteObjects => self.delete_all_objects(),
        }
        let Failure { operation, error, .. } = failure?;
        // A watch that opened and broke at once is a failed attempt.
        if operation == Operation::Watch && self.machine.state() == (ReflectorState::Backoff { before: Request::Watch })
        {
            self.contact.note_failed_attempt(error.class());
        }
        Some(self.note_failure(operation, error))
    }

    /// Asks the source whether it serves the kind.
    async fn check_kind(&mut self) -> Input {
        self.status.set(Activity::Listing { objects: 0 });
        match timeout(self.settings.idle_timeout, self.settings.source.is_served()).await {
            Ok(Served::No) => Input::NotSupported,
            Ok(Served::Yes | Served::Unknown) | Err(_) => Input::Done,
        }
    }

    /// Deletes all objects, because the source does not serve the kind.
    fn delete_all_objects(&mut self) {
        if !self.resume.has_observed() {
            return;
        }
        warn!(informer = %self.resource, "the source no longer serves this kind; its objects count as deleted");
        let version = self.resume.watch_version();
        self.quarantine.replace(Entries::default(), &version);
        self.status.update(|status| status.is_gone = true);
        let relist = Relist { version, objects: Vec::new(), quarantined: Vec::new(), history_changed: false };
        self.destination.push(relist.into());
    }

    /// Notes that the server answered a request, successfully or not.
    fn note_answer(&mut self, now: Instant) {
        self.settings.health.reach().open(now, &mut self.prober);
        self.contact.note_answer(now);
    }

    /// Notes that the server accepted a request. Returns the time.
    fn note_acceptance(&mut self) -> Instant {
        let now = Instant::now();
        self.note_answer(now);
        self.settings.health.acceptance().open(now, &mut self.prober);
        now
    }

    /// Notes that a watch was opened. That does not show that the storage works: a server can open a watch from its cache.
    pub(super) fn note_response_of_watch(&mut self) {
        let now = self.note_acceptance();
        self.machine.delays.note_success(now);
    }

    /// Notes a complete list. Returns the time.
    pub(super) fn note_success(&mut self) -> Instant {
        let now = self.note_acceptance();
        self.storage.gate.open(now, &mut self.prober);
        self.machine.delays.note_success(now);
        now
    }

    /// Returns true if the server may still be starting after an outage.
    pub(super) fn is_server_starting(&self) -> bool {
        self.contact.is_server_starting(Instant::now())
    }

    /// Notes that a watch was opened.
    pub(super) fn note_opened_watch(&mut self) {
        self.settings.health.note_byte(Instant::now());
        self.watchdog.note_opened_watch();
        self.status.update(|status| {
            status.activity = Activity::Watching;
            status.watches += 1;
            status.unanswered_since = None;
            status.is_watch_failing = false;
            status.failing_since = None;
        });
    }

    /// Notes a failed request, and publishes it in the status.
    pub(super) fn note_failure(&mut self, operation: Operation, source: SourceError) -> Arc<ListWatchError> {
        let class = source.class();
        if let (ErrorClass::Unreachable | ErrorClass::ConnectionLost, Some(streaming)) =
            (class, &self.settings.streaming)
        {
            streaming.forget_refusal();
        }
        let server_may_be_starting = self.is_server_starting();
        let error = Arc::new(ListWatchError {
            operation,
            resource: Arc::clone(&self.resource),
            source,
            server_may_be_starting,
        });
        debug!(informer = %self.resource, error = %Chain(&*error), "a list or watch failed");
        if class == ErrorClass::HistoryChanged || matches!(error.source, SourceError::CacheDiffers { .. }) {
            self.reporter.report(&error);
        }
        if operation != Operation::Watch {
            self.contact.note_failed_attempt(class);
            match error.is_unreachable() {
                true => self.contact.note_unreachable(Instant::now()),
                false => self.note_answer(Instant::now()),
            }
        }
        let is_watch =
            operation == Operation::OpenWatch || (operation == Operation::StreamList && error.source.is_forbidden());
        self.status.update(|status| {
            status.is_watch_failing |= is_watch;
            status.last_error = Some(Arc::clone(&error));
            status.failing_since.get_or_insert_with(Instant::now);
        });
        error
    }

    /// Waits before the next attempt. If a list was refused, and the requests of other reflectors may be refused as well, the server must first answer a
    /// probe, for up to a minute: lists are expensive.
    pub(super) async fn wait(&mut self, mut because: Arc<ListWatchError>, next: Request) {
        let begun = Instant::now();
        loop {
            let rule = because.retry_rule();
            self.delay(&because, rule).await;
            let is_list = next != Request::Watch && because.operation != Operation::CheckHistory;
            let is_shared = matches!(rule, RetryRule::OfClient | RetryRule::OfStorage);
            if !is_list || !is_shared || begun.elapsed() >= LONGEST_PROBING {
                return;
            }
            match ask_for_version(&*Arc::clone(&self.settings.source)).await {
                Ok(_) => {
                    let now = self.note_acceptance();
                    self.storage.gate.open(now, &mut self.prober);
                    self.has_probed = true;
                    return;
                }
                Err(error) => {
                    self.has_probed = false;
                    because = self.note_failure(because.operation, error);
                }
            }
        }
    }

    /// Waits as long as the rule says.
    async fn delay(&mut self, because: &Arc<ListWatchError>, rule: RetryRule) {
        let now = Instant::now();
        let retry_after = because.source.retry_after();
        let refused_for = self.status.failing_since().map_or(Duration::ZERO, |since| now - since);
        let refused = Some((refused_for, SHORT_REFUSAL));
        let health = self.settings.health.clone();
        let until = match rule {
            RetryRule::Unreachable => {
                let outage = health.reach().close(now, &mut self.prober);
                let since = self.contact.unreachable_since().unwrap_or(now);
                let retries_soon = self.contact.may_retry_soon(health.reach().is_open_for_others_since(since));
                let outage = retries_soon.then_some((outage, SHORT_OUTAGE));
                return self.wait_at(health.reach(), outage, because).await;
            }
            RetryRule::OfClient | RetryRule::OfStorage if self.has_probed => {
                now + self.machine.delays.after_failure(now, retry_after)
            }
            RetryRule::OfClient | RetryRule::OfStorage => {
                let storage = &Arc::clone(&self.storage);
                let gate = if rule == RetryRule::OfClient { health.acceptance() } else { &storage.gate };
                gate.close(now, &mut self.prober);
                return self.wait_at(gate, refused, because).await;
            }
            RetryRule::Alone => {
                let delays = &mut self.machine.delays;
                let delay = delays.after_failure(now, retry_after);
                now + delays.until_probe(refused_for, SHORT_REFUSAL, delay).max(obeyed(retry_after))
            }
            RetryRule::Backoff => {
                // Soon after a history change, a history that cannot be proven may have changed again.
                let is_unproven = matches!(because.source, SourceError::HistoryUnproven { .. });
                let may_have_changed = is_unproven && health.is_suspicious(now);
                let class = if may_have_changed { ErrorClass::HistoryChanged } else { because.source.class() };
                // A starting server breaks connections, and has no version before its start.
                let may_be_start =
                    matches!(class, ErrorClass::ConnectionLost | ErrorClass::Expired | ErrorClass::HistoryChanged);
                let is_startup_error = because.may_be_startup_error() || (may_be_start && self.is_server_starting());
                now + self.machine.delay(class, is_startup_error, retry_after, now)
            }
        };
        debug!(informer = %self.resource, delay_ms = (until - now).as_millis(), "waiting before the next attempt");
        self.status.set(Activity::BackingOff { until, because: Arc::clone(because) });
        sleep_until(until).await;
    }

    /// Waits at a closed gate. The prober, the one reflector that retries, waits a short time, if `outage` says how long the outage has lasted and which length is short; the
    /// others wait until the prober succeeds.
    async fn wait_at(&mut self, gate: &Arc<Gate>, outage: Option<(Duration, Duration)>, because: &Arc<ListWatchError>) {
        let now = Instant::now();
        let retry_after = because.source.retry_after();
        let delays = &mut self.machine.delays;
        let other = delays.after_failure(now, retry_after);
        let probe = outage.map_or(other, |(length, short)| delays.until_probe(length, short, other));
        let spread = delays.between(Duration::ZERO, RECONNECT_SPREAD);
        let waits = RetryDelays { probe, other, spread, least: obeyed(retry_after) };
        let until = now + if self.prober.is_some() { probe.max(waits.least) } else { other };
        debug!(informer = %self.resource, delay_ms = (until - now).as_millis(), "waiting until requests succeed");
        self.status.set(Activity::BackingOff { until, because: Arc::clone(because) });
        gate.wait(&mut self.prober, waits).await;
    }

    /// Reports a quarantined object to the user's callback, or to the log.
    pub(super) fn report_quarantined(&self, object: &Quarantined) {
        if let Some(callback) = &self.settings.on_quarantine {
            call(&self.resource, "on_quarantine", || callback(object));
            return;
        }
        let key = object.key.as_ref().map(Key::as_str);
        warn!(informer = %self.resource, key, rv = %object.version, error = %Chain(&*object.error), "quarantined an object that cannot be decoded or transformed");
    }
}

/// Runs a callback of the user. A panic is caught and logged.
pub(super) fn call<R>(informer: &str, name: &str, callback: impl FnOnce() -> R) -> Option<R> {
    let called = panics::catch(callback);
    called.inspect_err(|panic| error!(informer, callback = name, error = panic, "a user's callback panicked")).ok()
}

/// Returns a function that finds the cached object of a key; if `reuses` is false, it finds none.
pub(super) fn cached_objects(settings: &ReflectorSettings, reuses: bool) -> impl Fn(&Key) -> Option<Cached<Erased>> {
    let known = settings.known.as_deref().filter(|_| reuses);
    move |key| known.and_then(|known| known.get(key))
}
