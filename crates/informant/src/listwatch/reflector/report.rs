//! Reports failures to the user's callback, or to the log: each cause of an outage once.
//!
//! - **In:** the status of the reflector; failures that are reported at once.
//! - **Out:** calls of `on_error`, or warnings; a line when an outage is over.
//! - **Knows nothing of:** requests, and what is done about a failure.

use std::{convert::Infallible, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};
use tracing::{debug, info, warn};

use super::{
    super::{ListWatchError, Operation, error::Chain, rules::error_class::ErrorClass},
    Callback,
    main_loop::call,
    status::{Activity, ReflectorHandle},
};

/// Reports the failures of one reflector.
pub(super) struct Reporter {
    informer: Arc<str>,
    on_error: Option<Callback<ListWatchError>>,
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
    pub(super) fn new(informer: Arc<str>, on_error: Option<Callback<ListWatchError>>) -> Self {
        Self { informer, on_error, last: Mutex::default() }
    }

    /// Reports a failure at once.
    pub(super) fn report(&self, failure: &ListWatchError) {
        *self.last.lock() = Some((FailureCause::of(failure), Instant::now()));
        self.tell(failure);
    }

    /// Reports a failure that is not part of an outage.
    pub(super) fn tell(&self, failure: &ListWatchError) {
        let informer = &*self.informer;
        if let Some(callback) = &self.on_error {
            call(informer, "on_error", || callback(failure));
            return;
        }
        match failure.source.class() == ErrorClass::Expired {
            true => {
                debug!(informer, error = %Chain(failure), "the server no longer has the version; listing again");
            }
            false => warn!(informer, error = %Chain(failure), "a list or watch failed; retrying"),
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
    pub(super) async fn watch_outages(&self, mut handle: ReflectorHandle) -> Infallible {
        let informer = &*self.informer;
        loop {
            let begin = handle.status_and_mark_seen();
            let Some(since) = begin.failing_since else {
                handle.changed().await;
                continue;
            };
            let mut status = begin.clone();
            while status.failing_since == Some(since) {
                let error = status.last_error.as_ref();
                let has_tried_all = matches!(status.activity, Activity::BackingOff { .. });
                let earliest = if begin.lists == 0 && has_tried_all { since } else { since + REPORTED_AFTER };
                status = match error.and_then(|error| self.next_report(error, earliest)) {
                    Some(at) if at <= Instant::now() => {
                        error.into_iter().for_each(|error| self.report(error));
                        continue;
                    }
                    Some(at) => timeout_at(at, handle.changed()).await.unwrap_or_else(|_| handle.status()),
                    None => handle.changed().await,
                };
            }
            *self.last.lock() = None;
            if since.elapsed() < REPORTED_AFTER {
                continue;
            }
            let outcome = if status.lists > begin.lists { "listed again" } else { "resumed" };
            info!(informer, duration_s = since.elapsed().as_secs(), outcome, "lists and watches succeed again");
        }
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
