//! The error types of shared informers.
//!
//! - **In:** the name of the informer, the handler or the object, and the cause.
//! - **Out:** one line of text for each error; `report()` adds the causes.
//! - **Knows nothing of:** how an informer works.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use crate::{
    Key, ResourceVersion,
    error::OneLine,
    listwatch::{Chain, ListWatchError},
    object::{DecodeError, NotComparable},
};

/// The error of adding a handler or a stream.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddHandlerError {
    /// The informer has stopped.
    #[error("informer {informer} has stopped and accepts no handlers or streams; create a new informer")]
    Stopped {
        /// Which informer.
        informer: Arc<str>,
    },
    /// An index function of the informer made the call. The informer holds a lock while it runs index functions.
    #[error(
        "an index function of informer {informer} cannot add handlers or streams to it; add them outside of index functions"
    )]
    InsideIndexFunction {
        /// Which informer.
        informer: Arc<str>,
    },
}

/// The error of changing a setting of an informer that has started.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("informer {informer} has already started; set its {setting} before `start`")]
pub struct AlreadyStarted {
    /// Which informer.
    pub informer: Arc<str>,
    /// The setting, such as `transform`.
    pub setting: &'static str,
}

/// The reason why an informer is not synced.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// The informer stopped before its first list was applied to the cache.
    #[error("informer {informer} stopped before it was synced{}", crash_cause(crash.as_deref()))]
    Stopped {
        /// Which informer.
        informer: Arc<str>,
        /// The reason why the informer stopped by itself; `None` if it was stopped by a call.
        crash: Option<Arc<str>>,
        /// The last list or watch that failed.
        #[source]
        reason: Option<Arc<ListWatchError>>,
    },
    /// A list failed with an error that retrying cannot fix, and the informer [fails fast](super::InformerBuilder::fail_fast). It keeps
    /// retrying after it has returned this error.
    #[error("informer {informer} cannot sync")]
    Permanent {
        /// Which informer.
        informer: Arc<str>,
        /// The list that failed.
        #[source]
        reason: Arc<ListWatchError>,
    },
    /// The informer was not synced in time. It keeps trying.
    #[error("informer {informer} is not synced after {within:?}{}", received(*.objects, reason.is_some()))]
    TimedOut {
        /// Which informer.
        informer: Arc<str>,
        /// The time limit.
        within: Duration,
        /// The number of objects that the current list has received so far.
        objects: usize,
        /// The last list or watch that failed.
        #[source]
        reason: Option<Arc<ListWatchError>>,
    },
}

impl SyncError {
    /// The name of the informer that is not synced.
    pub fn informer(&self) -> &Arc<str> {
        match self {
            Self::Stopped { informer, .. } | Self::Permanent { informer, .. } | Self::TimedOut { informer, .. } => {
                informer
            }
        }
    }
}

/// Which of several awaited informers are not synced.
///
/// `Display` prints all of them with their causes in one line, [`report()`](Self::report) in several lines.
#[derive(Clone, thiserror::Error)]
#[error("{}{}{}", self.headline(), if errors.is_empty() { "" } else { ": " }, list(errors))]
#[non_exhaustive]
pub struct SyncErrors {
    /// The number of informers that were awaited.
    pub informers: usize,
    /// One error for each informer that is not synced, sorted by its name.
    pub errors: Vec<SyncError>,
    /// True if the factory had stopped before the wait; `errors` is then empty.
    pub is_stopped: bool,
}

impl SyncErrors {
    pub(crate) fn new(informers: usize, mut errors: Vec<SyncError>) -> Self {
        errors.sort_by(|one, other| one.informer().cmp(other.informer()));
        Self { informers, errors, is_stopped: false }
    }

    pub(crate) fn stopped() -> Self {
        Self { informers: 0, errors: Vec::new(), is_stopped: true }
    }

    /// The text of the error without the errors of single informers.
    pub(crate) fn headline(&self) -> String {
        let Self { informers, errors, is_stopped } = self;
        let are = if errors.len() == 1 { "is" } else { "are" };
        match is_stopped {
            true => "the factory has stopped, so its informers will not sync; create a new factory".to_owned(),
            false => format!("{} of {informers} informers {are} not synced", errors.len()),
        }
    }
}

/// The error of waiting for the cache to reach a state.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The cache did not reach the state in time.
    #[error("informer {informer} has not seen {awaited} within {within:?}; its cache is at {}", cache_version(cache.as_ref()))]
    TimedOut {
        /// Which informer.
        informer: Arc<str>,
        /// The state that was awaited.
        awaited: WaitTarget,
        /// The time limit.
        within: Duration,
        /// The version of the cache; `None` before the first list.
        cache: Option<ResourceVersion>,
        /// The last list or watch that failed, if the informer is failing now.
        #[source]
        reason: Option<Arc<ListWatchError>>,
    },
    /// The server's history changed during the wait, for example because a backup was restored: the awaited write may be lost.
    #[error(
        "informer {informer}: the server's history changed (was it restored from a backup?) while waiting for {awaited}; that write \
         may be lost, so read the object again; its cache is at {}",
        cache_version(cache.as_ref())
    )]
    HistoryChanged {
        /// Which informer.
        informer: Arc<str>,
        /// The state that was awaited.
        awaited: WaitTarget,
        /// The version of the cache.
        cache: Option<ResourceVersion>,
    },
    /// The object is in [quarantine](super::SharedInformer::quarantined): its awaited state cannot be decoded or transformed, so the
    /// cache will not show it.
    #[error("informer {informer} cannot read {key}, so its cache keeps an older state of the object or none")]
    Quarantined {
        /// Which informer.
        informer: Arc<str>,
        /// Which object.
        key: Key,
        /// The reason why it cannot be decoded or transformed.
        source: Arc<DecodeError>,
    },
    /// The versions are not numbers, so they have no order.
    #[error("informer {informer} cannot find out whether its cache is newer than the awaited version")]
    NotComparable {
        /// Which informer.
        informer: Arc<str>,
        /// Which versions.
        source: NotComparable,
    },
    /// The object has no name or no version, so no server returned it from a write.
    #[error(
        "informer {informer} cannot wait for an object without name or resourceVersion; pass the object that the write returned"
    )]
    MissingNameOrVersion {
        /// Which informer.
        informer: Arc<str>,
    },
    /// The object is in a namespace or cluster that is not part of the view.
    #[error("the view of {view} will not see {address}: that is in none of the namespaces and clusters of the view")]
    OutsideView {
        /// Which view.
        view: Arc<str>,
        /// Which object, with its cluster if the view has several.
        address: String,
    },
    /// The informer cannot see the written object: it is of another kind or namespace, or the informer's selectors exclude it.
    #[error("informer {informer} will not see {key}: {reason}")]
    OutsideScope {
        /// Which informer.
        informer: Arc<str>,
        /// Which object.
        key: Key,
        /// What excludes the object.
        reason: ScopeMismatch,
    },
    /// The informer has stopped.
    #[error("informer {informer} has stopped and will not see {awaited}; its cache stays at {}", cache_version(cache.as_ref()))]
    Stopped {
        /// Which informer.
        informer: Arc<str>,
        /// The state that was awaited.
        awaited: WaitTarget,
        /// The version of the cache.
        cache: Option<ResourceVersion>,
    },
}

/// Why an informer cannot see an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ScopeMismatch {
    /// The object is of another kind. Kinds are written with their group: `Pod`, `Deployment.apps`.
    #[error("the object is a {object}, and the informer has objects of kind {informer}")]
    Kind {
        /// The kind of the informer's objects.
        informer: String,
        /// The kind of the object.
        object: String,
    },
    /// The object is in another namespace.
    #[error("the informer has only objects of namespace {informer}")]
    Namespace {
        /// The namespace of the informer's objects.
        informer: Arc<str>,
    },
    /// The object's labels do not match the informer's label selector.
    #[error("its labels do not match the informer's selector {selector:?}")]
    Labels {
        /// The informer's label selector.
        selector: String,
    },
    /// The object's name or namespace does not match the informer's field selector.
    #[error("its name or namespace does not match the informer's field selector {selector:?}")]
    Fields {
        /// The informer's field selector.
        selector: String,
    },
}

/// The state of the cache that a call waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitTarget {
    /// All changes up to this version are in the cache.
    Version(ResourceVersion),
    /// The object is in the cache at this version or a newer one.
    Object(Key, ResourceVersion),
    /// The object is not in the cache.
    Deletion(Key),
    /// The state of the object in the cache satisfies a condition.
    Condition(Key),
}

/// The error of waiting until an informer has stopped. The informer stops later by itself.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StopError {
    /// A callback of the informer made the call and would wait for its own end. The informer stops when the callback returns.
    #[error(
        "a callback of informer {informer} cannot wait for the informer to stop; it stops when the callback returns"
    )]
    InsideCallback {
        /// Which informer.
        informer: Arc<str>,
    },
    /// A callback of another informer made the call, and a callback of this informer waits for it, directly or through others: each would wait
    /// for the other. The informer stops when the callback that made the call returns.
    #[error(
        "this callback cannot wait for informer {informer} to stop, because a callback of that informer waits for this one; the informer \
         stops when this callback returns"
    )]
    WaitsForCaller {
        /// Which informer.
        informer: Arc<str>,
    },
    /// Callbacks did not return in time. The informer stops when they do.
    #[error("informer {informer} has not stopped within {within:?}: {}", running(handlers))]
    StillRunning {
        /// Which informer.
        informer: Arc<str>,
        /// The time limit.
        within: Duration,
        /// The handlers whose callbacks are still running.
        handlers: Vec<Arc<str>>,
    },
}

/// Which of several informers have not stopped.
///
/// `Display` prints all of them in one line, [`report()`](Self::report) in several lines.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", list(errors))]
#[non_exhaustive]
pub struct StopErrors {
    /// One error for each informer that has not stopped.
    pub errors: Vec<StopError>,
}

impl StopErrors {
    /// The text of the error without the errors of single informers.
    pub(crate) fn headline(&self) -> String {
        match self.errors.len() {
            1 => "1 informer has not stopped".to_owned(),
            count => format!("{count} informers have not stopped"),
        }
    }
}

/// Formats several errors with their causes, in one line.
fn list<E: Error + 'static>(errors: &[E]) -> String {
    errors.iter().map(|error| Chain(error).to_string()).collect::<Vec<_>>().join("; ")
}

/// Formats the version of the cache.
fn cache_version(cache: Option<&ResourceVersion>) -> String {
    cache.map_or_else(|| "no version yet".to_owned(), |version| format!("version {version}"))
}

/// Formats the reason why an informer stopped by itself, if it did.
fn crash_cause(crash: Option<&str>) -> String {
    crash.map(|crash| format!(": {}", OneLine(crash))).unwrap_or_default()
}

/// Formats the progress of a list: the number of received objects; or, if there is none and no request failed, that the server has sent nothing.
fn received(objects: usize, has_failed: bool) -> String {
    match (objects, has_failed) {
        (0, true) => String::new(),
        (0, false) => "; the server has sent no object and no error".to_owned(),
        (objects, _) => format!("; {objects} objects received so far"),
    }
}

/// Formats the names of the handlers whose callbacks are still running.
fn running(handlers: &[Arc<str>]) -> String {
    match handlers {
        [] => "an index function or a callback of the reflector is still running".to_owned(),
        handlers => format!("callbacks of {} have not returned", handlers.join(", ")),
    }
}

impl fmt::Display for WaitTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "version {version}"),
            Self::Object(key, version) => write!(f, "{key} at version {version}"),
            Self::Deletion(key) => write!(f, "the deletion of {key}"),
            Self::Condition(key) => write!(f, "a state of {key} that satisfies the condition"),
        }
    }
}
