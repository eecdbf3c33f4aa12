//! How an informer is doing, all of it at one glance.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::AnyInformer;
use super::InformerState;
use crate::ResourceVersion;
use crate::listwatch::Activity;
use crate::listwatch::Chain;
use crate::listwatch::ListWatchError;
use crate::listwatch::ReflectorStatus;
use crate::subscribers::HandlerStatus;

/// How an informer is doing.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct InformerStatus {
    /// What it is called.
    pub name: Arc<str>,
    /// Whether it runs.
    pub state: InformerState,
    /// Whether the first complete list is in the cache.
    pub is_synced: bool,
    /// How many objects are in the cache.
    pub objects: usize,
    /// The version up to which the cache has everything.
    pub version: Option<ResourceVersion>,
    /// How many objects, or changes if they are kept in order, wait to be applied.
    pub queued: usize,
    /// How many objects exist but cannot be read.
    pub quarantined: usize,
    /// How the source is doing, and what failed last.
    pub source: ReflectorStatus,
    /// What went wrong inside, if it stopped because of that.
    pub crash: Option<Arc<str>>,
    /// How those are doing who follow it.
    pub handlers: Vec<HandlerStatus>,
}

/// Why the cache of an informer may lag behind the server.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Problem {
    /// It has not been started.
    NotStarted {
        /// Which informer.
        informer: Arc<str>,
    },
    /// It has stopped, or is about to: the cache shows the last state.
    Stopped {
        /// Which informer.
        informer: Arc<str>,
        /// What went wrong inside, if it did not stop because it was asked to.
        crash: Option<Arc<str>>,
    },
    /// The server has no such kind any more, so its objects are gone. If it comes back, so do they.
    Gone {
        /// Which informer.
        informer: Arc<str>,
    },
    /// Lists or watches fail. It goes on trying.
    Failing {
        /// Which informer.
        informer: Arc<str>,
        /// For how long.
        duration: Duration,
        /// Whether the cache has an older state, or nothing yet.
        is_synced: bool,
        /// What failed last.
        reason: Arc<ListWatchError>,
    },
    /// The watch is open but silent, and the server did not answer when it was asked for its version: the cache may be out of date.
    Silent {
        /// Which informer.
        informer: Arc<str>,
        /// How long ago the server last confirmed that the cache is current.
        confirmed_age: Duration,
    },
    /// The first list is under way.
    Syncing {
        /// Which informer.
        informer: Arc<str>,
        /// How many objects of it have come.
        objects: usize,
    },
}

impl InformerStatus {
    /// Why the cache may lag behind the server, if it may: there is a problem exactly if it [is stale](Self::is_stale).
    pub fn problem(&self) -> Option<Problem> {
        let informer = Arc::clone(&self.name);
        let failing = self.source.failing_since.zip(self.source.last_error.as_ref());
        match (self.state, failing) {
            (InformerState::New, _) => Some(Problem::NotStarted { informer }),
            (InformerState::Stopping | InformerState::Stopped, _) => {
                Some(Problem::Stopped { informer, crash: self.crash.clone() })
            }
            (InformerState::Running, _) if self.source.is_gone => Some(Problem::Gone { informer }),
            (InformerState::Running, Some((since, reason))) => Some(Problem::Failing {
                informer,
                duration: since.elapsed(),
                is_synced: self.is_synced,
                reason: Arc::clone(reason),
            }),
            (InformerState::Running, None) if !self.is_synced => {
                Some(Problem::Syncing { informer, objects: self.source.activity.objects_so_far() })
            }
            (InformerState::Running, None) if self.source.unanswered_since.is_some() => {
                Some(Problem::Silent { informer, confirmed_age: self.confirmed_age().unwrap_or_default() })
            }
            (InformerState::Running, None) => None,
        }
    }

    /// Whether changes come in: a watch is open.
    pub fn is_watching(&self) -> bool {
        match self.source.activity {
            Activity::Watching => true,
            Activity::Idle
            | Activity::Listing { .. }
            | Activity::Streaming { .. }
            | Activity::CheckingHistory
            | Activity::Opening
            | Activity::BackingOff { .. }
            | Activity::Stopped => false,
        }
    }

    /// Whether the cache may lag behind the server for longer than it takes a change to arrive: it was never filled, the
    /// source fails, is gone or does not answer, or the informer does not run.
    pub fn is_stale(&self) -> bool {
        self.problem().is_some()
    }

    /// How long ago the server last showed that the watch works: by a list, an event or a bookmark, or by confirming the version that the
    /// watch has reached. `None` before the first list.
    pub fn confirmed_age(&self) -> Option<Duration> {
        self.source.confirmed.map(|confirmed| confirmed.elapsed())
    }

    /// How long ago something came from the source: a list, an event or a bookmark.
    pub fn last_event_age(&self) -> Option<Duration> {
        self.source.last_event.map(|last| last.elapsed())
    }
}

impl Problem {
    /// Which informer has it.
    pub fn informer(&self) -> &Arc<str> {
        match self {
            Self::NotStarted { informer }
            | Self::Stopped { informer, .. }
            | Self::Gone { informer }
            | Self::Silent { informer, .. }
            | Self::Failing { informer, .. }
            | Self::Syncing { informer, .. } => informer,
        }
    }
}

/// In one line: what is wrong with which informer, and what to do about it if that is known.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let informer = self.informer();
        match self {
            Self::NotStarted { .. } => write!(f, "informer {informer} has not been started"),
            Self::Stopped { crash: None, .. } => write!(f, "informer {informer} has stopped"),
            Self::Stopped { crash: Some(crash), .. } => write!(f, "informer {informer} has stopped: {crash}"),
            Self::Gone { .. } => write!(f, "informer {informer} has no objects: the server has no such kind any more"),
            Self::Failing { duration, is_synced, reason, .. } => {
                let state = if *is_synced { "may be out of date" } else { "is not synced" };
                write!(f, "informer {informer} {state}: {}; failing for {} s", Chain(&**reason), duration.as_secs())
            }
            Self::Silent { confirmed_age, .. } => write!(
                f,
                "informer {informer} may be out of date: its watch is silent, and the server does not answer; last confirmed {} s \
                 ago",
                confirmed_age.as_secs()
            ),
            Self::Syncing { objects, .. } => write!(f, "informer {informer} is syncing: {objects} objects so far"),
        }
    }
}

impl AnyInformer {
    pub(crate) fn status(&self) -> InformerStatus {
        let core = self.core();
        let followers = core.roster();
        let handlers = followers.iter().filter(|listener| !listener.is_closed()).map(|listener| listener.status());
        InformerStatus {
            name: Arc::clone(&core.name),
            state: self.state(),
            is_synced: core.is_synced(),
            objects: core.lister.len(),
            version: core.version(),
            queued: core.queued(),
            quarantined: core.source.get().map_or(0, |source| source.reflector.quarantined_count()),
            source: core.source_status(),
            crash: core.crash.get().cloned(),
            handlers: handlers.collect(),
        }
    }
}
