//! Why informers or handlers have not stopped.

use std::{slice, sync::Arc, time::Duration};

use super::report::in_one_line;

/// Why a call that waits for the end of an informer, of several informers or of a handler returned before that end. They stop later by
/// themselves; a handler is removed in any case.
///
/// `Display` prints several errors in one line, [`report()`](Self::report) in several lines.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StopError {
    /// A callback of the informer or of the handler made the call and would wait for its own end.
    #[error("{}", inside_callback(informer, handler.as_deref()))]
    InsideCallback {
        /// Which informer.
        informer: Arc<str>,
        /// Which handler, if the call was to stop one.
        handler: Option<Arc<str>>,
    },
    /// A callback of another informer or handler made the call, and a callback of this one waits for it, directly or through others: each
    /// would wait for the other.
    #[error("{}", waits_for_caller(informer, handler.as_deref()))]
    WaitsForCaller {
        /// Which informer.
        informer: Arc<str>,
        /// Which handler, if the call was to stop one.
        handler: Option<Arc<str>>,
    },
    /// Callbacks did not return in time. They go on, and no other ones begin.
    #[error("{}", still_running(informer, handler.as_deref(), *.within, callbacks))]
    StillRunning {
        /// Which informer.
        informer: Arc<str>,
        /// Which handler, if the call was to stop one.
        handler: Option<Arc<str>>,
        /// The time limit.
        within: Duration,
        /// The handlers whose callbacks are still running.
        callbacks: Vec<Arc<str>>,
    },
    /// Some of the informers of a factory or a view have not stopped.
    #[error("{}", in_one_line(errors))]
    Several {
        /// One error for each informer that has not stopped.
        errors: Vec<StopError>,
    },
}

impl StopError {
    /// Returns the error of several informers, unless there are no errors of single ones.
    pub(crate) fn several(errors: Vec<Self>) -> Result<(), Self> {
        if errors.is_empty() { Ok(()) } else { Err(Self::Several { errors }) }
    }

    /// The errors of the single informers: those of [`Several`](Self::Several), or this error.
    pub fn errors(&self) -> &[Self] {
        if let Self::Several { errors } = self { errors } else { slice::from_ref(self) }
    }
}

/// The text of the error of several informers without the errors of the single ones.
pub(super) fn headline(running: usize) -> String {
    match running {
        1 => "1 informer has not stopped".to_owned(),
        count => format!("{count} informers have not stopped"),
    }
}

fn inside_callback(informer: &str, handler: Option<&str>) -> String {
    match handler {
        None => format!(
            "a callback of informer {informer} cannot wait for the informer to stop; it stops when the callback returns"
        ),
        Some(handler) => format!(
            "{handler} of informer {informer} cannot wait in one of its own callbacks for their end; wait in another task"
        ),
    }
}

fn waits_for_caller(informer: &str, handler: Option<&str>) -> String {
    match handler {
        None => format!(
            "this callback cannot wait for informer {informer} to stop, because a callback of that informer waits for this one; the \
             informer stops when this callback returns"
        ),
        Some(handler) => format!(
            "this callback cannot wait for the end of {handler} of informer {informer}, because a callback of that handler waits for this \
             one; the handler is removed, and ends when this callback returns"
        ),
    }
}

fn still_running(informer: &str, handler: Option<&str>, within: Duration, callbacks: &[Arc<str>]) -> String {
    match (handler, callbacks) {
        (Some(handler), _) => format!(
            "a callback of {handler} of informer {informer} is still running after {within:?}; the handler is removed, so no other one begins"
        ),
        (None, []) => format!(
            "informer {informer} has not stopped within {within:?}: an index function or a callback of the reflector is still running"
        ),
        (None, callbacks) => format!(
            "informer {informer} has not stopped within {within:?}: callbacks of {} have not returned",
            callbacks.join(", ")
        ),
    }
}
