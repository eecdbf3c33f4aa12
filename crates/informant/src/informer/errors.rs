//! What can go wrong with a shared informer: what happened, to which informer, handler or object, and where it stands.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Key;
use crate::ResourceVersion;
use crate::listwatch::Chain;
use crate::listwatch::ListWatchError;
use crate::object::DecodeError;
use crate::object::NotComparable;

/// A handler or a stream could not be added.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddHandlerError {
    /// The informer has stopped.
    #[error("informer {informer} has stopped: nobody can follow it any more; make a new one")]
    Stopped {
        /// Which informer.
        informer: Arc<str>,
    },
    /// An index function of the same informer tries to.
    #[error("an index function of informer {informer} must not add handlers to it")]
    InsideIndexFunction {
        /// Which informer.
        informer: Arc<str>,
    },
}

/// What can be set only before the start.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("informer {informer} was started already: its {setting} can be set only before")]
pub struct AlreadyStarted {
    /// Which informer.
    pub informer: Arc<str>,
    /// What was to be set.
    pub setting: &'static str,
}

/// Why an informer is not synced.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// It stopped before.
    #[error("informer {informer} stopped before it was synced{}", Crash(crash))]
    Stopped {
        /// Which informer.
        informer: Arc<str>,
        /// What went wrong inside, if it did not stop because it was asked to.
        crash: Option<Arc<str>>,
        /// What failed last.
        #[source]
        reason: Option<Arc<ListWatchError>>,
    },
    /// A list failed so that waiting will not help, and it is to fail fast. It goes on trying all the same.
    #[error("informer {informer} cannot sync")]
    Failed {
        /// Which informer.
        informer: Arc<str>,
        /// What failed.
        #[source]
        reason: Arc<ListWatchError>,
    },
    /// It was not, in the time that was given.
    #[error("informer {informer} is not synced after {within:?}{}", Got(*.objects, reason.is_some()))]
    TimedOut {
        /// Which informer.
        informer: Arc<str>,
        /// How long it was waited for.
        within: Duration,
        /// How many objects of the list that is under way have come.
        objects: usize,
        /// What failed last.
        #[source]
        reason: Option<Arc<ListWatchError>>,
    },
}

impl SyncError {
    /// Which informer is not synced.
    pub fn informer(&self) -> &Arc<str> {
        match self {
            Self::Stopped { informer, .. } | Self::Failed { informer, .. } | Self::TimedOut { informer, .. } => {
                informer
            }
        }
    }
}

/// Which of several informers are not synced, and why: all of it in one line.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{}", Said { errors: self })]
#[non_exhaustive]
pub struct SyncErrors {
    /// How many were waited for.
    pub informers: usize,
    /// Those that are not synced.
    pub errors: Vec<SyncError>,
    /// Whether their factory was stopped before they were waited for.
    pub is_stopped: bool,
}

impl SyncErrors {
    pub(super) fn new(informers: usize, mut errors: Vec<SyncError>) -> Self {
        errors.sort_by(|one, other| one.informer().cmp(other.informer()));
        Self { informers, errors, is_stopped: false }
    }

    pub(crate) fn stopped() -> Self {
        Self { informers: 0, errors: Vec::new(), is_stopped: true }
    }
}

/// What was waited for did not come.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// Not in the time that was given.
    #[error("informer {informer} has not seen {awaited} within {within:?}; its cache is at {}", At(cache))]
    TimedOut {
        /// Which informer.
        informer: Arc<str>,
        /// What was waited for.
        awaited: Awaited,
        /// How long.
        within: Duration,
        /// The version of the cache; `None` before the first list.
        cache: Option<ResourceVersion>,
        /// What failed last, if it fails now.
        #[source]
        reason: Option<Arc<ListWatchError>>,
    },
    /// The server's history changed meanwhile, as it does when a backup is restored: the awaited write may be undone.
    #[error(
        "informer {informer}: the server's history changed (was it restored from a backup?) while waiting for {awaited}; that write \
         may be lost, so read it again; its cache is at {}",
        At(cache)
    )]
    HistoryChanged {
        /// Which informer.
        informer: Arc<str>,
        /// What was waited for.
        awaited: Awaited,
        /// The version of the cache.
        cache: Option<ResourceVersion>,
    },
    /// The object is there in a state that cannot be read, so the cache will not show it.
    #[error("informer {informer} cannot read {key}: what its cache has of it is an older state")]
    Quarantined {
        /// Which informer.
        informer: Arc<str>,
        /// Which object.
        key: Key,
        /// Why it cannot be read.
        source: Arc<DecodeError>,
    },
    /// The versions are not numbers, so nobody can tell which is newer.
    #[error("informer {informer} cannot tell which version is newer")]
    NotComparable {
        /// Which informer.
        informer: Arc<str>,
        /// Which versions.
        source: NotComparable,
    },
    /// The object has no name or no version, so it is not what a server returned from a write.
    #[error(
        "informer {informer} cannot wait for an object without name or resourceVersion; pass the object that the write returned"
    )]
    NotWritten {
        /// Which informer.
        informer: Arc<str>,
    },
    /// The object is in a namespace or cluster that is not part of the view.
    #[error("the view of {view} will not see {address}: that is in none of the namespaces and clusters of the view")]
    Elsewhere {
        /// Which view.
        view: Arc<str>,
        /// Which object, with its cluster if the view has several.
        address: String,
    },
    /// The informer has stopped.
    #[error("informer {informer} has stopped and will not see {awaited}; its cache stays at {}", At(cache))]
    Stopped {
        /// Which informer.
        informer: Arc<str>,
        /// What was waited for.
        awaited: Awaited,
        /// The version of the cache.
        cache: Option<ResourceVersion>,
    },
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Awaited {
    /// Everything up to a version.
    Version(ResourceVersion),
    /// A state of an object, or a newer one.
    Object(Key, ResourceVersion),
    /// That an object is gone.
    Deletion(Key),
}

/// An informer stops, but its end could not be waited for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StopError {
    /// From inside one of its own callbacks: it would wait for itself. It stops all the same.
    #[error("informer {informer} cannot be waited for from inside a callback of its own; it stops when that returns")]
    InsideCallback {
        /// Which informer.
        informer: Arc<str>,
    },
    /// Callbacks have not returned in the time that was given. It stops when they do.
    #[error("informer {informer} has not stopped within {within:?}: {}", Running(handlers))]
    StillRunning {
        /// Which informer.
        informer: Arc<str>,
        /// How long it was waited for.
        within: Duration,
        /// The handlers that are still at work.
        handlers: Vec<Arc<str>>,
    },
}

/// Several informers stop, but the end of some could not be waited for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", List(errors))]
#[non_exhaustive]
pub struct StopErrors {
    /// Which, and why.
    pub errors: Vec<StopError>,
}

struct At<'a>(&'a Option<ResourceVersion>);
struct Crash<'a>(&'a Option<Arc<str>>);
struct Got(usize, bool);
/// Several errors, each with what stands behind it.
struct List<'a, E>(&'a [E]);
struct Running<'a>(&'a [Arc<str>]);
struct Said<'a> {
    errors: &'a SyncErrors,
}

impl<E: Error + 'static> fmt::Display for List<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, error) in self.0.iter().enumerate() {
            let separator = if position > 0 { "; " } else { "" };
            write!(f, "{separator}{}", Chain(error))?;
        }
        Ok(())
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(version) => write!(f, "version {version}"),
            None => f.write_str("no version yet"),
        }
    }
}

impl fmt::Display for Crash<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(crash) => write!(f, ": {crash}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Got {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self(0, true) => Ok(()),
            Self(0, false) => f.write_str("; nothing has come, and nothing has failed"),
            Self(objects, _) => write!(f, "; {objects} objects have come so far"),
        }
    }
}

impl fmt::Display for Running<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("an index function or a callback of the reflector is still at work"),
            handlers => write!(f, "callbacks of {} have not returned", handlers.join(", ")),
        }
    }
}

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SyncErrors { informers, errors, is_stopped } = self.errors;
        if *is_stopped {
            return f.write_str("the factory was stopped, so nothing will be synced");
        }
        let are = if errors.len() == 1 { "is" } else { "are" };
        write!(f, "{} of {informers} informers {are} not synced: {}", errors.len(), List(errors))
    }
}

impl fmt::Display for Awaited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "version {version}"),
            Self::Object(key, version) => write!(f, "{key} at version {version}"),
            Self::Deletion(key) => write!(f, "the deletion of {key}"),
        }
    }
}
