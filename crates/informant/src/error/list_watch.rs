//! The errors of lists and watches: [`SourceError`] for sources, [`ListWatchError`] for the users of a reflector.
//!
//! - **In:** failed requests, and responses that contradict themselves or each other.
//! - **Out:** one line of text for each error.
//! - **Knows nothing of:** what the reflector does next; that is decided in `listwatch::rules`.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use kube::core::Status;

#[cfg(feature = "testing")]
use super::report::Chain;
use super::report::StatusLine;
use crate::{Key, ResourceVersion, listwatch::frames::FrameError};

/// A failed list or watch request: which one, and why.
#[derive(Debug, thiserror::Error)]
#[error("{operation} {resource} failed")]
#[non_exhaustive]
pub struct ListWatchError {
    /// The operation that failed.
    pub operation: Operation,
    /// The name of the source's objects, such as `pods`.
    pub resource: Arc<str>,
    /// The cause.
    pub source: SourceError,
    /// True during the first 30 s after an unreachable server has become reachable: it may still be starting, and its errors may go away.
    pub server_may_be_starting: bool,
}

/// An operation of the reflector on its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Operation {
    /// Request a list.
    List,
    /// Request a streamed list.
    StreamList,
    /// Open a watch.
    OpenWatch,
    /// Read from an open watch.
    Watch,
    /// Check, after an outage, that the server still has the history that the reflector followed.
    CheckHistory,
}

/// Why a request to a source failed.
///
/// The kind of error decides what the reflector does next, after a delay: after [`Refused`](Self::Refused), [`Unreachable`](Self::Unreachable),
/// [`Connection`](Self::Connection) and server errors (5xx, 429) it resumes the watch at the version that it reached; after
/// [`expired`](Self::expired), most other statuses and [`Other`](Self::Other) it lists again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The server refused the request, or ended the watch, with a status.
    #[error("the server answered: {}", StatusLine(.status))]
    Status {
        /// The status.
        status: Box<Status>,
        /// How long the client should wait (the `Retry-After` header).
        retry_after: Option<Duration>,
    },

    /// The server's host refused the connection: no server listens on the port.
    #[error("the connection was refused")]
    Refused {
        /// The client's error.
        source: Box<dyn Error + Send + Sync>,
    },

    /// No connection could be made: the host name is unknown, there is no route, or the certificate is not trusted.
    #[error("the server cannot be reached")]
    Unreachable {
        /// The client's error.
        source: Box<dyn Error + Send + Sync>,
    },

    /// The connection broke during the request or the response.
    #[error("the connection failed")]
    Connection {
        /// The client's error.
        source: Box<dyn Error + Send + Sync>,
    },

    /// No byte arrived for too long on a connection that seemed open.
    #[error("the connection was silent for {} seconds", .after.as_secs())]
    Silent {
        /// How long the connection was silent.
        after: Duration,
    },

    /// The server redirected the request. Clients of the Kubernetes API do not follow redirects.
    #[error("the server redirects to {location:?} (HTTP {code}); check the server's address")]
    Redirected {
        /// The HTTP code.
        code: u16,
        /// The `Location` header.
        location: String,
    },

    /// The response is not JSON, but for example the error page of a proxy.
    #[error(
        "the response is {found:?}, not JSON; it begins with {beginning:?}; check for a proxy between client and server"
    )]
    ContentType {
        /// The `Content-Type` header.
        found: String,
        /// The first bytes of the body.
        beginning: String,
    },

    /// The response is compressed, although the request did not allow it.
    #[error(
        "the response is compressed ({encoding}), which the request did not allow; check for a proxy between client and server"
    )]
    Compressed {
        /// The `Content-Encoding` header.
        encoding: String,
    },

    /// The response is not the JSON of a list or of watch events.
    #[error("the response cannot be parsed")]
    Body(#[from] FrameError),

    /// The response is a list of objects of another kind.
    #[error("the response is a list of {found}, not of {expected}")]
    WrongList {
        /// The requested apiVersion and kind.
        expected: String,
        /// apiVersion and kind of the response.
        found: String,
    },

    /// A list, or the end of a streamed list, has no version, although earlier lists had one.
    #[error("the list has no resourceVersion")]
    NoVersion,

    /// An event or a list item is too damaged to determine its object. The reflector lists again.
    #[error("an item is too damaged to determine its object")]
    Damaged {
        /// Why the item could not be read.
        source: Arc<crate::object::DecodeError>,
    },

    /// The watch delivered an event of a type that this library does not know, so it may concern any object. The reflector lists again, at most
    /// once a minute.
    #[error("an event of the unknown type {event:?}")]
    UnknownEvent {
        /// The type of the event.
        event: String,
    },

    /// The watch delivered an error event without a readable status.
    #[error("the server sent an error event without a status")]
    UnreadableError,

    /// The watch ended within a second, without an event.
    #[error("the watch ended after {} ms without an event", .lived.as_millis())]
    ShortWatch {
        /// How long the watch lasted.
        lived: Duration,
    },

    /// The watch ended, and the source has no versions, so the watch cannot be resumed.
    #[error("the watch ended, and the source has no versions to resume it from")]
    Ended,

    /// A streamed list delivered no further object, but did not end either: the server may not support streamed lists.
    #[error("the streamed list did not end within {} seconds", .after.as_secs())]
    Endless {
        /// The time since the last new object, or since the beginning of the list.
        after: Duration,
    },

    /// The streamed list ended before its last object.
    #[error("the streamed list ended before it was complete")]
    EndedEarly,

    /// The server sent a version that is older than a version that it sent before.
    #[error("the server sent version {to} after version {from}")]
    OlderVersion {
        /// The newer version, which was received first.
        from: ResourceVersion,
        /// The older version.
        to: ResourceVersion,
    },

    /// After an outage, the reflector could not verify that the server still has the history that was followed up to this version, because the
    /// server has compacted the last event that the reflector received, or the reflector received none. The reflector lists again.
    #[error("the server's history up to version {reached} cannot be verified")]
    HistoryUnproven {
        /// The version that the reflector had reached.
        reached: ResourceVersion,
    },

    /// The server does not have the history that the reflector followed up to this version. The reflector lists again.
    #[error("the server's history has changed since version {reached}; was it restored from a backup?")]
    HistoryChanged {
        /// The newest version of the former history that the reflector received.
        reached: ResourceVersion,
    },

    /// An [audit](crate::InformerBuilder::audit_every) found objects that are wrong in the cache. The reflector lists again.
    #[error("the cache differs from the server in {}", Keys(.objects))]
    CacheDiffers {
        /// The objects: up to ten.
        objects: Vec<Key>,
    },

    /// Any other error of a custom source.
    #[error("the source failed")]
    Other {
        /// The source's error.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl SourceError {
    /// Creates the error of a server that no longer has the requested version (HTTP 410). The reflector lists again.
    pub fn expired() -> Self {
        Status::failure("the version is too old", "Expired").with_code(410).into()
    }

    /// Creates an error of a custom source. The reflector lists again.
    pub fn other(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Other { source: source.into() }
    }

    /// Returns the HTTP code of a [`Status`](Self::Status).
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
            | Self::UnknownEvent { .. }
            | Self::UnreadableError
            | Self::ShortWatch { .. }
            | Self::Ended
            | Self::Endless { .. }
            | Self::EndedEarly
            | Self::OlderVersion { .. }
            | Self::HistoryUnproven { .. }
            | Self::HistoryChanged { .. }
            | Self::CacheDiffers { .. }
            | Self::Other { .. } => None,
        }
    }

    /// Returns a copy of the error, which the reflector treats in the same way. Errors of other crates cannot be copied: the copy has their text.
    #[cfg(feature = "testing")]
    pub(crate) fn copy(&self) -> Self {
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
            Self::UnknownEvent { event } => Self::UnknownEvent { event: event.clone() },
            Self::UnreadableError => Self::UnreadableError,
            Self::ShortWatch { lived } => Self::ShortWatch { lived: *lived },
            Self::Ended => Self::Ended,
            Self::Endless { after } => Self::Endless { after: *after },
            Self::EndedEarly => Self::EndedEarly,
            Self::OlderVersion { from, to } => Self::OlderVersion { from: from.clone(), to: to.clone() },
            Self::HistoryUnproven { reached } => Self::HistoryUnproven { reached: reached.clone() },
            Self::HistoryChanged { reached } => Self::HistoryChanged { reached: reached.clone() },
            Self::CacheDiffers { objects } => Self::CacheDiffers { objects: objects.clone() },
            Self::Other { source } => Self::Other { source: text(&**source) },
        }
    }

    /// Returns how long the server asked the client to wait.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
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

/// Keys with commas between them.
struct Keys<'a>(&'a [Key]);

impl fmt::Display for Keys<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, key) in self.0.iter().enumerate() {
            let separator = if position == 0 { "" } else { ", " };
            write!(f, "{separator}{key}")?;
        }
        Ok(())
    }
}
