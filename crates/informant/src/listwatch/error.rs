//! What can go wrong between a source and the reflector, and what it means.

use std::error::Error;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::core::Status;

use super::frames::CutError;
use crate::ResourceVersion;

/// A request that failed: which, and why.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {resource} failed")]
#[non_exhaustive]
pub struct ListWatchError {
    /// What was tried.
    pub operation: Operation,
    /// What the objects are called, such as `pods`.
    pub resource: Arc<str>,
    /// Why it failed.
    pub source: SourceError,
    /// Whether the server has answered again for less than 30 s after it could not be reached, so that it may still be starting.
    pub server_may_be_starting: bool,
}

/// What was tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// To list.
    List,
    /// To get a list as a stream.
    StreamList,
    /// To begin a watch.
    OpenWatch,
    /// To follow a watch that had begun.
    Watch,
    /// To find out, after an outage, whether the server still has the history that was followed.
    CheckHistory,
}

/// Why a source could not do what was asked.
///
/// It decides what the reflector does next. After [`Refused`](Self::Refused), [`Unreachable`](Self::Unreachable), [`Connection`](Self::Connection) and errors of
/// the server (5xx, 429) a watch is opened again from where it was; after [`expired`](Self::expired), most other answers of a
/// server and [`Other`](Self::Other) everything is listed anew. All of that happens after a delay.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The server says no, or that it cannot go on.
    #[error("the server says: {}", Said(.status))]
    Status {
        /// What it says.
        status: Box<Status>,
        /// How long it wants us to wait.
        retry_after: Option<Duration>,
    },

    /// Nobody listens there.
    #[error("the connection was refused")]
    Refused {
        /// What the client says.
        source: Box<dyn Error + Send + Sync>,
    },

    /// No connection came about: no such host, no way there, or it is not to be trusted.
    #[error("the server cannot be reached")]
    Unreachable {
        /// What the client says.
        source: Box<dyn Error + Send + Sync>,
    },

    /// The request did not get through, or its answer broke off.
    #[error("the connection failed")]
    Connection {
        /// What the client says.
        source: Box<dyn Error + Send + Sync>,
    },

    /// Nothing came for too long, although the connection seemed to stand.
    #[error("nothing came for {} seconds", .after.as_secs())]
    Silent {
        /// How long.
        after: Duration,
    },

    /// The server sends us elsewhere; a client of the Kubernetes API does not follow.
    #[error("the server redirects to {location:?} (HTTP {code}); is the server's address right?")]
    Redirected {
        /// The HTTP code.
        code: u16,
        /// Where to.
        location: String,
    },

    /// The answer is something else than JSON, such as a proxy's error page.
    #[error("the answer is {found:?}, not JSON; it begins with {beginning:?}; is there a proxy on the way?")]
    ContentType {
        /// What it says it is.
        found: String,
        /// Its first bytes.
        beginning: String,
    },

    /// The answer is compressed, and nobody asked for that.
    #[error("the answer is compressed ({encoding}), which was not asked for")]
    Compressed {
        /// How.
        encoding: String,
    },

    /// The bytes of the answer are not what they should be.
    #[error("the answer cannot be read")]
    Body(#[from] CutError),

    /// The list is one of other things.
    #[error("the answer is a list of {found}, not of {expected}")]
    WrongList {
        /// apiVersion that was asked for.
        expected: String,
        /// What came.
        found: String,
    },

    /// A list, or the end of a streamed one, that does not say which version it is of, although those before did.
    #[error("the list does not say which version it is of")]
    NoVersion,

    /// An event, or an item of a list, is damaged so that nobody can tell which object it is of.
    #[error("something about an object that cannot be told")]
    Damaged {
        /// What is wrong with it.
        source: Arc<crate::object::DecodeError>,
    },

    /// An error event that does not say what the error is.
    #[error("the server sent an error event without a status")]
    UnreadableError,

    /// The watch ended at once, without a word.
    #[error("the watch ended after {} ms without an event", .lived.as_millis())]
    ShortWatch {
        /// How long it lasted.
        lived: Duration,
    },

    /// The watch ended, and the source has no versions from which another could go on.
    #[error("the watch ended, and without a version there is no place to go on from")]
    Ended,

    /// A streamed list brings nothing new, but does not end either: the server does not know how.
    #[error("the streamed list did not end within {} seconds", .after.as_secs())]
    Endless {
        /// How long nothing new came, or how long it has lasted altogether.
        after: Duration,
    },

    /// The stream ended before all that exists was told.
    #[error("the stream ended before the end of its list")]
    EndedEarly,

    /// A version that is older than one before it.
    #[error("the server sent version {to} after version {from}")]
    OlderVersion {
        /// The version before.
        from: ResourceVersion,
        /// The older one that came.
        to: ResourceVersion,
    },

    /// After an outage, the server could not prove that it still has the history that was followed up to this version: it has compacted
    /// the newest event, or there was none. So everything is listed.
    #[error("the server cannot prove that it has the same history as before, up to version {reached}")]
    HistoryUnproven {
        /// The version up to which everything had been delivered.
        reached: ResourceVersion,
    },

    /// The server does not have the history that was followed up to this version.
    #[error("the server's history has changed since version {reached}; was it restored from a backup?")]
    HistoryChanged {
        /// The newest version that was seen in the history before.
        reached: ResourceVersion,
    },

    /// A streamed list and a list of the same version differ.
    #[error("the streamed list at version {version} differs from the list: {missing} missing, {surplus} too many")]
    Inconsistent {
        /// The version.
        version: ResourceVersion,
        /// How many objects of the list the stream did not have in the same state.
        missing: usize,
        /// How many objects of the stream the list did not have in the same state.
        surplus: usize,
    },

    /// Anything else; for sources of your own.
    #[error("the source failed")]
    Other {
        /// What it says.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl SourceError {
    /// The version that was asked for is too old.
    pub fn expired() -> Self {
        Status::failure("the version is too old", "Expired").with_code(410).into()
    }

    /// Something of a source of your own.
    pub fn other(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Other { source: source.into() }
    }

    /// The code of the server's answer, if it is one that says no.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(status.code),
            Self::Refused { .. }
            | Self::Unreachable { .. }
            | Self::Connection { .. }
            | Self::Silent { .. }
            | Self::Redirected { .. }
            | Self::ContentType { .. }
            | Self::Compressed { .. }
            | Self::Body(_)
            | Self::WrongList { .. }
            | Self::NoVersion
            | Self::Damaged { .. }
            | Self::UnreadableError
            | Self::ShortWatch { .. }
            | Self::Ended
            | Self::Endless { .. }
            | Self::EndedEarly
            | Self::OlderVersion { .. }
            | Self::HistoryUnproven { .. }
            | Self::HistoryChanged { .. }
            | Self::Inconsistent { .. }
            | Self::Other { .. } => None,
        }
    }

    /// An error that the reflector treats as it treats this one. Errors of other crates cannot be copied: the copy has their text.
    pub(super) fn copy(&self) -> Self {
        let text = |source: &(dyn Error + Send + Sync + 'static)| Chain(source).to_string().into();
        match self {
            Self::Status { status, retry_after } => Self::Status { status: status.clone(), retry_after: *retry_after },
            Self::Refused { source } => Self::Refused { source: text(&**source) },
            Self::Unreachable { source } => Self::Unreachable { source: text(&**source) },
            Self::Connection { source } => Self::Connection { source: text(&**source) },
            Self::Silent { after } => Self::Silent { after: *after },
            Self::Redirected { code, location } => Self::Redirected { code: *code, location: location.clone() },
            Self::ContentType { found, beginning } => {
                Self::ContentType { found: found.clone(), beginning: beginning.clone() }
            }
            Self::Compressed { encoding } => Self::Compressed { encoding: encoding.clone() },
            Self::Body(error) => Self::Body(error.copy()),
            Self::WrongList { expected, found } => Self::WrongList { expected: expected.clone(), found: found.clone() },
            Self::NoVersion => Self::NoVersion,
            Self::Damaged { source } => Self::Damaged { source: Arc::clone(source) },
            Self::UnreadableError => Self::UnreadableError,
            Self::ShortWatch { lived } => Self::ShortWatch { lived: *lived },
            Self::Ended => Self::Ended,
            Self::Endless { after } => Self::Endless { after: *after },
            Self::EndedEarly => Self::EndedEarly,
            Self::OlderVersion { from, to } => Self::OlderVersion { from: from.clone(), to: to.clone() },
            Self::HistoryUnproven { reached } => Self::HistoryUnproven { reached: reached.clone() },
            Self::HistoryChanged { reached } => Self::HistoryChanged { reached: reached.clone() },
            Self::Inconsistent { version, missing, surplus } => {
                Self::Inconsistent { version: version.clone(), missing: *missing, surplus: *surplus }
            }
            Self::Other { source } => Self::Other { source: text(&**source) },
        }
    }

    /// How long the server wants us to wait.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let Self::Status { status, retry_after } = self else { return None };
        let details = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
        retry_after.or((details > 0).then(|| Duration::from_secs(details.into())))
    }
}

impl From<Status> for SourceError {
    fn from(status: Status) -> Self {
        Self::Status { status: Box::new(status), retry_after: None }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::List => "listing",
            Self::StreamList => "streaming the list of",
            Self::OpenWatch => "opening a watch of",
            Self::Watch => "watching",
            Self::CheckHistory => "resuming the watch of",
        })
    }
}

/// What a server says, in one line.
struct Said<'a>(&'a Status);

impl fmt::Display for Said<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Status { message, reason, code, .. } = self.0;
        let reason = if reason.is_empty() { "no reason given" } else { reason };
        if message.is_empty() { write!(f, "{reason} ({code})") } else { write!(f, "{message} ({reason}, {code})") }
    }
}

/// An error and its causes in one line, and then what can be done about it: for logs.
pub(crate) struct Chain<'a>(pub(crate) &'a (dyn Error + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.0.to_string();
        let mut advice = None;
        for error in causes(self.0) {
            advice = advice.or(advice_of(error));
            let cause = error.to_string();
            // Errors of others often repeat their cause in their own text.
            if !text.ends_with(&cause) {
                text = format!("{text}: {cause}");
            }
        }
        f.write_str(&text)?;
        match advice {
            Some(advice) => write!(f, " ({advice})"),
            None => Ok(()),
        }
    }
}

/// An error and its causes. Stacks nest a handful of errors; one that is its own source must not hold us up.
pub(super) fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source()).take(16)
}

fn advice_of(error: &(dyn Error + 'static)) -> Option<&'static str> {
    let shared = error.downcast_ref::<Arc<ListWatchError>>().map(|error| &**error);
    error.downcast_ref::<ListWatchError>().or(shared)?.advice()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_in_one_line_what_failed_and_why() {
        let source = SourceError::from(Status::failure("pods is forbidden", "Forbidden").with_code(403));
        let error = ListWatchError {
            operation: Operation::List,
            resource: "pods".into(),
            source,
            server_may_be_starting: false,
        };

        assert_eq!(
            Chain(&error).to_string(),
            "listing pods failed: the server says: pods is forbidden (Forbidden, 403) (grant the client's user `list` and `watch` on \
             it)"
        );
    }

    #[test]
    fn a_cause_is_said_once_also_if_the_error_says_it_itself() {
        #[derive(Debug, thiserror::Error)]
        #[error("no connection: {0}")]
        struct Wordy(#[source] std::io::Error);

        let source = SourceError::Refused { source: Wordy(std::io::Error::other("refused")).into() };

        assert_eq!(Chain(&source).to_string(), "the connection was refused: no connection: refused");
    }
}
