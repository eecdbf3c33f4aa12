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
        health::RetryDelays,
        quarantine::Entries,
        rules::{
            error_class::ErrorClass,
            state::{FailureAction, Input, ReflectorState, Request, WatchStats},
        },
    },
    Reflector, ReflectorSettings,
    status::Activity,
};
use crate::{Cached, Key, delta::Relist, object::Erased, panics};

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
        // The open watch that continues a streamed list.
        let mut stream = None;
        let mut last_failure = None;
        loop {
            let done = match self.machine.state() {
                ReflectorState::CheckingKind => Ok(self.check_kind().await),
                ReflectorState::CheckingHistory { before: Request::Watch } => {
                    let checked = self.check_history_after_outage().await;
                    checked.map(|()| Input::Done).map_err(|error| Failure::refused(Operation::CheckHistory, error))
                }
                ReflectorState::CheckingHistory { before: Request::List | Request::StreamedList } => {
                    // A history change is noted in `self` for the next list. Any other result does not matter for a list.
                    let _ = self.check_history_after_outage().await;
                    Ok(Input::Done)
                }
                ReflectorState::StreamedList => self.stream(&mut stream).await,
                ReflectorState::List => self.list().await,
                ReflectorState::Watch => Err(self.watch(stream.take()).await),
                ReflectorState::Backoff { .. } | ReflectorState::KindGone => {
                    if let Some(failure) = last_failure.take() {
                        self.wait(failure).await;
                    }
                    Ok(Input::Done)
                }
            };
            last_failure = self.enter_next_state(done);
            // If each request ends at once, this loop must not keep other tasks from running.
            consume_budget().await;
        }
    }

    /// Moves the state machine, and publishes and reports a failure as it decides. Returns the failure.
    fn enter_next_state(&mut self, done: Result<Input, Failure>) -> Option<Arc<ListWatchError>> {
        let (input, failure) = match done {
            Ok(input) => (input, None),
            Err(failure) => (failure.input, Some(failure)),
        };
        let action = self.machine.next(input, &mut self.resume, Instant::now());
        let is_reported = match action {
            FailureAction::Nothing => return None,
            FailureAction::Publish => false,
            FailureAction::Report => true,
            FailureAction::StopStreaming => {
                self.stop_streaming();
                false
            }
            FailureAction::DeleteObjects => {
                self.delete_all_objects();
                true
            }
        };
        let Failure { operation, error, .. } = failure?;
        // A watch that opened and broke at once is a failed attempt.
        if operation == Operation::Watch && self.machine.state() == (ReflectorState::Backoff { before: Request::Watch })
        {
            self.contact.note_failed_attempt(error.class());
        }
        let error = self.note_failure(operation, error);
        if is_reported {
            self.report(&error);
        }
        Some(error)
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
        self.settings.health.note_reachable(now);
        self.contact.note_answer(now);
        self.prober = None;
    }

    /// Notes a complete list or an open watch. Returns the time.
    pub(super) fn note_success(&mut self) -> Instant {
        let now = Instant::now();
        self.machine.delays.note_success(now);
        self.note_answer(now);
        self.contact.end_outage(now);
        now
    }

    /// Returns true if the server may still be starting after an outage.
    pub(super) fn is_server_starting(&self) -> bool {
        self.contact.is_server_starting(Instant::now())
    }

    /// Notes that a watch was opened.
    pub(super) fn note_opened_watch(&mut self) {
        self.watchdog.note_opened_watch();
        self.note_success();
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

    /// Waits before the next attempt.
    pub(super) async fn wait(&mut self, because: Arc<ListWatchError>) {
        let now = Instant::now();
        if because.is_unreachable() {
            return self.wait_until_reachable(now, because).await;
        }
        let class = because.source.class();
        // A starting server breaks connections, and has no version before its start.
        let may_be_start =
            matches!(class, ErrorClass::ConnectionLost | ErrorClass::Expired | ErrorClass::HistoryChanged);
        let is_startup_error = because.may_be_startup_error() || (may_be_start && self.is_server_starting());
        let delay = self.machine.delay(class, is_startup_error, because.source.retry_after(), now);
        debug!(informer = %self.resource, delay_ms = delay.as_millis(), "waiting before the next attempt");
        let until = now + delay;
        self.status.set(Activity::BackingOff { until, because });
        sleep_until(until).await;
    }

    /// Waits before the next attempt on a server that cannot be reached. The prober, the one reflector of a client that retries, waits a short
    /// time; the others wait until the prober succeeds.
    async fn wait_until_reachable(&mut self, now: Instant, because: Arc<ListWatchError>) {
        let outage = self.settings.health.note_unreachable(now, self.prober.is_some());
        let since = self.contact.unreachable_since().unwrap_or(now);
        let retries_soon = self.contact.may_retry_soon(self.settings.health.answers_others_since(since));
        let delays = &mut self.machine.delays;
        let other = delays.after_failure(now, None);
        let probe = if retries_soon { delays.until_probe(outage, other) } else { other };
        let spread = delays.between(Duration::ZERO, RECONNECT_SPREAD);
        let until = now + if self.prober.is_some() { probe } else { other };
        debug!(informer = %self.resource, delay_ms = (until - now).as_millis(), "waiting until the server can be reached");
        self.status.set(Activity::BackingOff { until, because });
        self.settings.health.wait(&mut self.prober, RetryDelays { probe, other, spread }).await;
    }

    /// Reports a failure to the user's callback, or to the log. Failures of an outage are reported once, when it has lasted
    /// [three seconds](super::report); before the first list, they are reported at once.
    pub(super) fn report(&self, failure: &ListWatchError) {
        let since = self.status.failing_since();
        // This is not an error of the server; the list that follows is reported if it fails.
        if failure.operation == Operation::CheckHistory && failure.source.class() == ErrorClass::Expired {
            return;
        }
        let is_outage = failure.is_unreachable() || failure.may_be_startup_error();
        let is_list = matches!(failure.operation, Operation::List | Operation::StreamList);
        let is_reported = self.reporter.has_reported(since) && failure.source.class() != ErrorClass::HistoryChanged;
        if (is_outage && self.resume.has_observed()) || (is_reported && (is_outage || !is_list)) {
            return;
        }
        self.reporter.report(failure, since);
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
