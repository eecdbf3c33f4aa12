//! Why informers or handlers are not synced.

use std::{slice, sync::Arc, time::Duration};

use super::{ListWatchError, one_line, report::in_one_line};

/// Why an informer, several informers, or a handler are not synced.
///
/// `Display` prints several errors with their causes in one line, [`report()`](Self::report) in several lines.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum SyncError {
    /// The informer was not started, so it has requested nothing from its source.
    #[error(
        "informer {informer} is not synced after {within:?}: it has not been started; call `start` on it or on its factory"
    )]
    NotStarted {
        /// Which informer.
        informer: Arc<str>,
        /// The time limit.
        within: Duration,
    },
    /// The informer stopped first.
    #[error("informer {informer} stopped before {}{}", unsynced(handler.as_deref()), crash_cause(crash.as_deref()))]
    Stopped {
        /// Which informer.
        informer: Arc<str>,
        /// Which handler, if the wait was for one.
        handler: Option<Arc<str>>,
        /// The reason why the informer stopped by itself; `None` if it was stopped by a call, and for a handler.
        crash: Option<Arc<str>>,
        /// The last list or watch that failed.
        #[source]
        reason: Option<Arc<ListWatchError>>,
    },
    /// A list failed with an error that retrying cannot fix, and the informer [fails fast](crate::InformerBuilder::fail_fast). It keeps
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
    /// The handler was removed first.
    #[error("{handler} was removed from informer {informer} before all of the initial list was delivered")]
    Removed {
        /// Which informer.
        informer: Arc<str>,
        /// Which handler.
        handler: Arc<str>,
    },
    /// The wait for the handler is in one of its own callbacks, which would wait for itself.
    #[error(
        "{handler} of informer {informer} cannot wait in one of its own callbacks until it is synced; wait in another task"
    )]
    InsideCallback {
        /// Which informer.
        informer: Arc<str>,
        /// Which handler.
        handler: Arc<str>,
    },
    /// Some of the informers of a factory or a view are not synced.
    #[error("{}: {}", headline(*.informers, errors.len()), in_one_line(errors))]
    Several {
        /// The number of informers that were awaited.
        informers: usize,
        /// One error for each informer that is not synced, sorted by its name.
        errors: Vec<SyncError>,
    },
    /// The factory had stopped before the wait.
    #[error("the factory has stopped, so its informers will not sync; create a new factory")]
    FactoryStopped,
}

impl SyncError {
    /// Returns the error of several informers, unless there are no errors of single ones.
    pub(crate) fn several(informers: usize, mut errors: Vec<Self>) -> Result<(), Self> {
        errors.sort_by(|one, other| one.informer().cmp(&other.informer()));
        if errors.is_empty() { Ok(()) } else { Err(Self::Several { informers, errors }) }
    }

    /// The name of the informer that is not synced; `None` for several informers and for a stopped factory.
    pub fn informer(&self) -> Option<&Arc<str>> {
        match self {
            Self::NotStarted { informer, .. }
            | Self::Stopped { informer, .. }
            | Self::Permanent { informer, .. }
            | Self::TimedOut { informer, .. }
            | Self::Removed { informer, .. }
            | Self::InsideCallback { informer, .. } => Some(informer),
            Self::Several { .. } | Self::FactoryStopped => None,
        }
    }

    /// The errors of the single informers: those of [`Several`](Self::Several), or this error.
    pub fn errors(&self) -> &[Self] {
        if let Self::Several { errors, .. } = self { errors } else { slice::from_ref(self) }
    }
}

/// The text of the error of several informers without the errors of the single ones.
pub(super) fn headline(informers: usize, unsynced: usize) -> String {
    let are = if unsynced == 1 { "is" } else { "are" };
    format!("{unsynced} of {informers} informers {are} not synced")
}

fn unsynced(handler: Option<&str>) -> String {
    match handler {
        None => "it was synced".to_owned(),
        Some(handler) => format!("all of the initial list was delivered to {handler}"),
    }
}

/// Formats the reason why an informer stopped by itself, if it did.
fn crash_cause(crash: Option<&str>) -> String {
    crash.map(|crash| format!(": {}", one_line(crash))).unwrap_or_default()
}

/// Formats the progress of a list: the number of received objects; or, if there is none and no request failed, that the server has sent nothing.
fn received(objects: usize, has_failed: bool) -> String {
    match (objects, has_failed) {
        (0, true) => String::new(),
        (0, false) => "; the server has sent no object and no error".to_owned(),
        (objects, _) => format!("; {objects} objects received so far"),
    }
}
