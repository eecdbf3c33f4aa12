//! Publishes what the reflector does: in its status, by the user's callbacks, and in the log.
//!
//! - **In:** the results of requests, received events, failures.
//! - **Out:** the status; calls of `on_error`, or warnings, for each cause of an outage once; a line when an outage is over.
//! - **Knows nothing of:** requests, and what is done about a failure.

use std::{convert::Infallible, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, timeout_at},
};
use tracing::{debug, error, info, warn};

use super::{
    Callback,
    status::{Activity, ReflectorHandle, ReflectorStatus},
};
use crate::{
    Key, ResourceVersion,
    error::Chain,
    listwatch::{
        ListWatchError, Operation, Quarantined, SourceError, quarantine::Quarantine, rules::error_class::ErrorClass,
    },
    panics,
};

/// Publishes the status and the failures of one reflector.
pub(super) struct Reporter {
    pub(super) informer: Arc<str>,
    status: watch::Sender<ReflectorStatus>,
    on_error: Option<Callback<ListWatchError>>,
    on_quarantine: Option<Callback<Quarantined>>,
    /// The cause that was last reported, and when; `None` while requests succeed.
    last: Mutex<Option<(FailureCause, Instant)>>,
}

/// What failures have in common that are reported once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FailureCause {
    class: ErrorClass,
    code: Option<u16>,
    /// True if only watches are forbidden.
    is_watch_forbidden: bool,
}

/// A failure that lasts this long is reported; shorter ones are part of every restart of a server.
const REPORTED_AFTER: Duration = Duration::from_secs(5);

/// A change of the cause is reported at most once in this time.
const REPORTED_EVERY: Duration = Duration::from_secs(10);

impl Reporter {
    pub(super) fn new(
        informer: Arc<str>,
        on_error: Option<Callback<ListWatchError>>,
        on_quarantine: Option<Callback<Quarantined>>,
    ) -> Self {
        Self { informer, status: watch::Sender::default(), on_error, on_quarantine, last: Mutex::default() }
    }

    pub(super) fn handle(&self, quarantine: &Quarantine) -> ReflectorHandle {
        ReflectorHandle { status: self.status.subscribe(), quarantine: quarantine.clone() }
    }

    /// Returns since when requests have been failing.
    pub(super) fn failing_since(&self) -> Option<Instant> {
        self.status.borrow().failing_since
    }

    /// Shows the activity, and wakes waiting tasks.
    pub(super) fn set(&self, activity: Activity) {
        self.update(|status| status.activity = activity);
    }

    /// Changes the status and wakes waiting tasks.
    pub(super) fn update(&self, change: impl FnOnce(&mut ReflectorStatus)) {
        self.change(change, true);
    }

    /// Changes the status without waking waiting tasks, for changes that are too frequent.
    pub(super) fn update_silently(&self, change: impl FnOnce(&mut ReflectorStatus)) {
        self.change(change, false);
    }

    fn change(&self, change: impl FnOnce(&mut ReflectorStatus), wakes: bool) {
        let mut replaced = None;
        self.status.send_if_modified(|status| {
            // Copied, so that an error that `change` replaces is dropped after the lock is released: its destructor may be users' code.
            replaced = Some((status.last_error.clone(), status.activity.clone()));
            change(status);
            wakes
        });
        drop(replaced);
    }

    /// Shows a list that was accepted at this time.
    pub(super) fn note_list(&self, version: ResourceVersion, now: Instant) {
        self.update(|status| {
            status.version = Some(version);
            status.last_event = Some(now);
            status.confirmed = Some(now);
            status.lists += 1;
            // While watches fail, a list that succeeds does not end the failure.
            if !status.is_watch_failing {
                status.failing_since = None;
            }
            status.is_gone = false;
        });
    }

    /// Shows an open watch.
    pub(super) fn note_watch(&self) {
        self.update(|status| {
            status.activity = Activity::Watching;
            status.watches += 1;
            status.unanswered_since = None;
            status.is_watch_failing = false;
            status.failing_since = None;
        });
    }

    /// Shows events of the watch, the last of which has this version.
    pub(super) fn note_events(&self, count: u64, version: ResourceVersion, received_at: Instant) {
        self.update_silently(|status| {
            status.version = Some(version);
            status.last_event = Some(received_at);
            status.confirmed = Some(received_at);
            status.unanswered_since = None;
            status.events += count;
        });
    }

    /// Shows that the silent watch was current at this time.
    pub(super) fn note_confirmation(&self, at: Instant) {
        self.update(|status| {
            status.confirmed = Some(at);
            status.unanswered_since = None;
        });
    }

    /// Shows that the server does not answer while the watch is silent, and reports it once.
    pub(super) fn note_no_answer(&self, last_byte_at: Instant) {
        let was_known = self.status.borrow().unanswered_since.is_some();
        self.update(|status| {
            status.unanswered_since.get_or_insert_with(Instant::now);
        });
        if !was_known {
            self.log_or_call_back(&ListWatchError {
                operation: Operation::Watch,
                resource: Arc::clone(&self.informer),
                source: SourceError::Silent { after: last_byte_at.elapsed() },
                server_may_be_starting: false,
            });
        }
    }

    /// Shows a failure; one that is not part of an outage is reported at once.
    pub(super) fn note_failure(&self, failure: &Arc<ListWatchError>) {
        let ListWatchError { operation, source, .. } = &**failure;
        debug!(error = %Chain(&**failure), "a list or watch failed");
        if source.class() == ErrorClass::HistoryChanged || matches!(source, SourceError::CacheDiffers { .. }) {
            self.report(failure);
        }
        let is_watch =
            *operation == Operation::OpenWatch || (*operation == Operation::StreamList && source.is_forbidden());
        self.update(|status| {
            status.is_watch_failing |= is_watch;
            status.last_error = Some(Arc::clone(failure));
            status.failures += 1;
            status.failing_since.get_or_insert_with(Instant::now);
        });
    }

    /// Reports a quarantined object to the user's callback, or to the log.
    pub(super) fn report_quarantined(&self, object: &Quarantined) {
        if let Some(callback) = &self.on_quarantine {
            return call("on_quarantine", || callback(object));
        }
        let key = object.key.as_ref().map(Key::as_str);
        warn!(key, rv = %object.version, error = %Chain(&*object.error), "quarantined an object that cannot be decoded or transformed");
    }

    /// Reports a failure at once.
    fn report(&self, failure: &ListWatchError) {
        *self.last.lock() = Some((FailureCause::of(failure), Instant::now()));
        self.log_or_call_back(failure);
    }

    /// Reports that packing is not enough.
    #[cfg(feature = "packing")]
    pub(super) fn report_packing(&self, source: SourceError) {
        let resource = Arc::clone(&self.informer);
        self.log_or_call_back(&ListWatchError {
            operation: Operation::Pack,
            resource,
            source,
            server_may_be_starting: false,
        });
    }

    /// Passes a failure to the callback or, without one, to the log.
    fn log_or_call_back(&self, failure: &ListWatchError) {
        if let Some(callback) = &self.on_error {
            return call("on_error", || callback(failure));
        }
        match failure.source.class() == ErrorClass::Expired {
            true => {
                debug!(error = %Chain(failure), "the server no longer has the version; listing again");
            }
            false => warn!(error = %Chain(failure), "a list or watch failed; retrying"),
        }
    }

    /// Returns when this failure may be reported: at `earliest`, or ten seconds after the last report; `None` if its cause was reported last.
    fn next_report(&self, failure: &ListWatchError, earliest: Instant) -> Option<Instant> {
        match *self.last.lock() {
            Some((cause, _)) if cause == FailureCause::of(failure) => None,
            Some((_, at)) => Some(earliest.max(at + REPORTED_EVERY)),
            None => Some(earliest),
        }
    }

    /// Reports each outage, once it has lasted five seconds, each change of its cause, and its end. Before the first list, failures are reported at once.
    pub(super) async fn watch_outages(&self) -> Infallible {
        let mut statuses = self.status.subscribe();
        loop {
            let begin = statuses.borrow_and_update().clone();
            let Some(since) = begin.failing_since else {
                // An error means that the reflector was dropped, and this future with it.
                let _ = statuses.changed().await;
                continue;
            };
            let mut status = begin.clone();
            while status.failing_since == Some(since) {
                let error = status.last_error.as_ref();
                let has_tried_all = matches!(status.activity, Activity::BackingOff { .. });
                let earliest = if begin.lists == 0 && has_tried_all { since } else { since + REPORTED_AFTER };
                match error.and_then(|error| self.next_report(error, earliest)) {
                    Some(at) if at <= Instant::now() => {
                        error.into_iter().for_each(|error| self.report(error));
                        continue;
                    }
                    Some(at) => drop(timeout_at(at, statuses.changed()).await),
                    None => drop(statuses.changed().await),
                }
                status = statuses.borrow_and_update().clone();
            }
            *self.last.lock() = None;
            if since.elapsed() < REPORTED_AFTER {
                continue;
            }
            let outcome = if status.lists > begin.lists { "listed again" } else { "resumed" };
            info!(duration_s = since.elapsed().as_secs(), outcome, "lists and watches succeed again");
        }
    }
}

/// A dropped reflector counts as stopped, also after a panic.
impl Drop for Reporter {
    fn drop(&mut self) {
        self.update(|status| (status.activity, status.pending) = (Activity::Stopped, None));
    }
}

impl FailureCause {
    fn of(failure: &ListWatchError) -> Self {
        let source = &failure.source;
        let is_watch = matches!(failure.operation, Operation::StreamList | Operation::OpenWatch | Operation::Watch);
        let is_watch_forbidden = is_watch && source.is_forbidden();
        Self { class: source.class(), code: source.code(), is_watch_forbidden }
    }
}

/// Runs a callback of the user. A panic is caught and logged.
fn call(name: &str, callback: impl FnOnce()) {
    if let Err(panic) = panics::catch(callback) {
        error!(callback = name, error = panic, "a user's callback panicked");
    }
}
