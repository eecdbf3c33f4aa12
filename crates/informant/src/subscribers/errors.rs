//! Why waiting for a handler, or for its end, failed.
//!
//! - **In:** the names of the handler and its informer, and the awaited version.
//! - **Out:** the errors of [`Registration`](super::Registration).
//! - **Knows nothing of:** how the waits work.

use std::{fmt, sync::Arc, time::Duration};

use crate::{ResourceVersion, object::NotComparable};

/// Why [`Registration::synced`](super::Registration::synced) failed.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotSynced {
    /// The handler was removed first.
    #[error("{handler} was removed from informer {informer} before all of the initial list was delivered")]
    Removed {
        /// The informer's name.
        informer: Arc<str>,
        /// The handler's name.
        handler: Arc<str>,
    },
    /// The informer stopped first.
    #[error("informer {informer} stopped before all of the initial list was delivered to {handler}")]
    Stopped {
        /// The informer's name.
        informer: Arc<str>,
        /// The handler's name.
        handler: Arc<str>,
    },
    /// The method was called in one of the handler's own callbacks, which would wait for itself.
    #[error(
        "{handler} of informer {informer} cannot wait in one of its own callbacks until it is synced; wait in another task"
    )]
    InsideCallback {
        /// The informer's name.
        informer: Arc<str>,
        /// The handler's name.
        handler: Arc<str>,
    },
}

/// Why [`Registration::caught_up_to`](super::Registration::caught_up_to) or [`Registration::caught_up`](super::Registration::caught_up) failed.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotCaughtUp {
    /// The handler was removed, perhaps after it had received these events: a removed handler has no progress.
    #[error("{handler} was removed from informer {informer} and may not have received all events{}", UpTo(version))]
    Removed {
        /// The informer's name.
        informer: Arc<str>,
        /// The handler's name.
        handler: Arc<str>,
        /// The awaited version; for `caught_up`, the version of the cache, which is empty before the first list.
        version: ResourceVersion,
    },
    /// The informer has stopped, perhaps after the handler had received these events.
    #[error("informer {informer} has stopped, and {handler} may not have received all events{}", UpTo(version))]
    Stopped {
        /// The informer's name.
        informer: Arc<str>,
        /// The handler's name.
        handler: Arc<str>,
        /// The awaited version; for `caught_up`, the version of the cache, which is empty before the first list.
        version: ResourceVersion,
    },
    /// The server's history changed first, as it does when a backup is restored: the awaited write may be undone.
    #[error(
        "informer {informer}: the server's history changed (was it restored from a backup?) before {handler} received all events up to \
         version {version}; that write may be lost, so read it again"
    )]
    HistoryChanged {
        /// The informer's name.
        informer: Arc<str>,
        /// The handler's name.
        handler: Arc<str>,
        /// The awaited version.
        version: ResourceVersion,
    },
    /// The version, or that of the cache, is not a number.
    #[error("informer {informer} cannot wait for version {version}")]
    NotComparable {
        /// The informer's name.
        informer: Arc<str>,
        /// The awaited version.
        version: ResourceVersion,
        /// The versions that cannot be compared.
        source: NotComparable,
    },
    /// The handler belongs to a view of several clusters, and each cluster has versions of its own.
    #[error(
        "the members of {view} are in several clusters, and version {version} is of one of them; register {handler} with the view of \
         that cluster"
    )]
    SeveralClusters {
        /// The view's name.
        view: Arc<str>,
        /// The handler's name.
        handler: Arc<str>,
        /// The awaited version.
        version: ResourceVersion,
    },
    /// The method was called in one of the handler's own callbacks, which would wait for itself.
    #[error(
        "{handler} of informer {informer} cannot wait in one of its own callbacks until it has received events; wait in another task"
    )]
    InsideCallback {
        /// The informer's name.
        informer: Arc<str>,
        /// The handler's name.
        handler: Arc<str>,
    },
}

/// Why [`Registration::stop`](super::Registration::stop) or [`stop_within`](super::Registration::stop_within) failed. The handler is removed
/// in any case.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StopHandlerError {
    /// The method was called in one of the handler's own callbacks, which would wait for itself.
    #[error(
        "{handler} of informer {informer} cannot wait in one of its own callbacks for their end; wait in another task"
    )]
    InsideCallback {
        /// The informer's name.
        informer: Arc<str>,
        /// The handler's name.
        handler: Arc<str>,
    },
    /// The method was called in another callback, for which a callback of this handler waits, directly or through others: each would wait
    /// for the other.
    #[error(
        "this callback cannot wait for the end of {handler} of informer {informer}, because a callback of that handler waits for this \
         one; the handler is removed, and ends when this callback returns"
    )]
    WaitsForCaller {
        /// The informer's name.
        informer: Arc<str>,
        /// The handler's name.
        handler: Arc<str>,
    },
    /// A callback did not return in time. It goes on, and no other one begins.
    #[error(
        "a callback of {handler} of informer {informer} is still running after {within:?}; the handler is removed, so no other one \
         begins"
    )]
    StillRunning {
        /// The informer's name.
        informer: Arc<str>,
        /// The handler's name.
        handler: Arc<str>,
        /// The time limit.
        within: Duration,
    },
}

/// The version up to which events were awaited; nothing if the cache had none.
struct UpTo<'a>(&'a ResourceVersion);

impl fmt::Display for UpTo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.is_empty() {
            true => Ok(()),
            false => write!(f, " up to version {}", self.0),
        }
    }
}
