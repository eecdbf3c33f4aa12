//! The status of a reflector, and the handle that reads it.
//!
//! - **In:** the status that the [reporter](super::report) updates.
//! - **Out:** copies of the status, and a way to wait for changes.
//! - **Knows nothing of:** why the status changes.

use std::sync::Arc;

use serde::Serialize;
use tokio::{sync::watch, time::Instant};

use super::super::{ListWatchError, Operation, Quarantined, json, quarantine::Quarantine};
use crate::ResourceVersion;

/// The status of a reflector: its activity, its last failure, and counters.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct ReflectorStatus {
    /// The current activity.
    pub activity: Activity,
    /// The newest version that the reflector has received. The cache may not have reached it yet.
    pub version: Option<ResourceVersion>,
    /// When the source last delivered a list, an event or a bookmark.
    #[serde(rename = "last_event_age_seconds", serialize_with = "json::age")]
    pub last_event: Option<Instant>,
    /// When the watch was last known to work. That is `last_event`, or a later time at which the reflector, because the watch was silent, asked the
    /// source for its version and received the version that the watch has reached.
    #[serde(rename = "confirmed_age_seconds", serialize_with = "json::age")]
    pub confirmed: Option<Instant>,
    /// Since when the source has not answered the question for its version, which the reflector asks when the watch is silent.
    #[serde(rename = "unanswered_seconds", serialize_with = "json::age")]
    pub unanswered_since: Option<Instant>,
    /// The last failure, if there ever was one.
    #[serde(serialize_with = "json::last_error")]
    pub last_error: Option<Arc<ListWatchError>>,
    /// The request that the source has not answered for ten seconds or more.
    pub pending: Option<PendingRequest>,
    /// Since when requests have been failing; `None` while they succeed.
    #[serde(rename = "failing_seconds", serialize_with = "json::age")]
    pub failing_since: Option<Instant>,
    /// True if the source no longer serves the kind. All its objects count as deleted.
    pub is_gone: bool,
    /// The number of completed lists, including streamed lists.
    pub lists: u64,
    /// The number of opened watches.
    pub watches: u64,
    /// The number of received events, including bookmarks.
    pub events: u64,
    /// The number of failures: lists that failed, watches that could not be opened or broke, history changes. They include those that were over at
    /// once.
    pub failures: u64,
    /// How often the server's history changed, for example because a backup was restored.
    pub history_changes: u64,
    /// The number of outages after which the server's history was not checked, because the server refused the check, or because it could not prove its
    /// history and no request had failed.
    pub unchecked_outages: u64,
    /// True while watches fail: a list that succeeds does not end the failure then.
    #[serde(skip)]
    pub(super) is_watch_failing: bool,
}

/// A request without a response.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PendingRequest {
    /// What was requested.
    #[serde(serialize_with = "json::text")]
    pub operation: Operation,
    /// When it was requested.
    #[serde(rename = "pending_seconds", serialize_with = "json::age_of")]
    pub since: Instant,
    /// Whether the server answers other requests meanwhile; `None` if that is not known yet.
    pub server_answers: Option<bool>,
}

/// What a reflector does at the moment.
///
/// Its JSON is an object with the activity's `type`, such as `{"type": "watching"}` or `{"type": "listing", "objects": 500}`.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Activity {
    /// The reflector has not been started.
    #[default]
    Idle,
    /// It receives a list.
    Listing {
        /// The number of objects received so far.
        objects: usize,
    },
    /// It receives a streamed list.
    Streaming {
        /// The number of objects received so far.
        objects: usize,
    },
    /// It checks, after an outage, that the server still has the history that the reflector followed.
    CheckingHistory,
    /// It has requested a watch and waits for the response.
    Opening,
    /// It watches for changes.
    Watching,
    /// It waits before the next attempt.
    BackingOff {
        /// The time of the next attempt.
        #[serde(rename = "retry_in_seconds", serialize_with = "json::delay")]
        until: Instant,
        /// The failure before.
        #[serde(serialize_with = "json::error")]
        because: Arc<ListWatchError>,
    },
    /// The reflector has stopped.
    Stopped,
}

impl Activity {
    /// Returns the number of objects received so far of a list that is not complete.
    pub(crate) fn objects_so_far(&self) -> usize {
        if let Self::Listing { objects } | Self::Streaming { objects } = self { *objects } else { 0 }
    }
}

/// Reads the status and the quarantine of a [`Reflector`](super::Reflector), also while it runs in another task. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ReflectorHandle {
    pub(super) status: watch::Receiver<ReflectorStatus>,
    pub(crate) quarantine: Quarantine,
}

impl ReflectorHandle {
    /// Returns the current status.
    pub fn status(&self) -> ReflectorStatus {
        self.status.borrow().clone()
    }

    /// Waits until the activity or the error has changed since the last call on this handle. A received event alone does not count.
    ///
    /// Cancel safe. Returns at once if the reflector was dropped.
    pub async fn changed(&mut self) -> ReflectorStatus {
        // An error means that the reflector was dropped.
        let _ = self.status.changed().await;
        self.status.borrow_and_update().clone()
    }

    /// Calls `read` with the status, without copying it.
    pub(crate) fn with_status<R>(&self, read: impl FnOnce(&ReflectorStatus) -> R) -> R {
        read(&self.status.borrow())
    }

    /// Returns the quarantined objects: they exist on the server, but could not be decoded or transformed. The cache has an older state of them, or
    /// none.
    pub fn quarantined(&self) -> Vec<Quarantined> {
        self.quarantine.list()
    }
}
