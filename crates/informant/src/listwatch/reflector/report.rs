//! Reports failures to the user's callback, or to the log: each outage once.
//!
//! - **In:** the status of the reflector; failures that are reported at once.
//! - **Out:** calls of `on_error`, or warnings; a line when an outage is over.
//! - **Knows nothing of:** requests, and what is done about a failure.

use std::{convert::Infallible, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::{Instant, timeout_at};
use tracing::{debug, info, warn};

use super::{
    super::{ListWatchError, error::Chain, rules::error_class::ErrorClass},
    Callback,
    main_loop::call,
    status::ReflectorHandle,
};

/// Reports the failures of one reflector.
pub(super) struct Reporter {
    informer: Arc<str>,
    on_error: Option<Callback<ListWatchError>>,
    /// The time at which the last reported outage began.
    last_reported_outage: Mutex<Option<Instant>>,
}

/// A failure that lasts this long is reported; shorter ones are part of every restart of a server.
const REPORTED_AFTER: Duration = Duration::from_secs(3);

impl Reporter {
    pub(super) fn new(informer: Arc<str>, on_error: Option<Callback<ListWatchError>>) -> Self {
        Self { informer, on_error, last_reported_outage: Mutex::default() }
    }

    /// Reports a failure at once. `since` is when its outage began.
    pub(super) fn report(&self, failure: &ListWatchError, since: Option<Instant>) {
        *self.last_reported_outage.lock() = since;
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

    /// Returns true if the outage that began at this time was reported.
    pub(super) fn has_reported(&self, since: Option<Instant>) -> bool {
        since.is_some() && *self.last_reported_outage.lock() == since
    }

    /// Reports each outage, once it has lasted three seconds, and its end.
    pub(super) async fn watch_outages(&self, mut handle: ReflectorHandle) -> Infallible {
        let informer = &*self.informer;
        loop {
            let begin = handle.status_and_mark_seen();
            let Some(since) = begin.failing_since else {
                handle.changed().await;
                continue;
            };
            let is_over = |handle: &ReflectorHandle| handle.with_status(|status| status.failing_since != Some(since));
            while !is_over(&handle) && timeout_at(since + REPORTED_AFTER, handle.changed()).await.is_ok() {}
            if is_over(&handle) {
                continue;
            }
            let failing = handle.status();
            if let Some(error) = failing.last_error.filter(|_| !self.has_reported(Some(since))) {
                self.report(&error, Some(since));
            }
            while !is_over(&handle) {
                handle.changed().await;
            }
            let after = handle.status();
            let outcome = if after.lists > begin.lists { "listed again" } else { "resumed" };
            info!(informer, duration_s = since.elapsed().as_secs(), outcome, "lists and watches succeed again");
        }
    }
}
