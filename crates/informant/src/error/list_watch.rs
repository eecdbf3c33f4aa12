//! The errors of lists and watches: [`SourceError`] for sources, [`ListWatchError`] for the users of a reflector.
//!
//! - **In:** failed requests, and responses that contradict themselves or each other.
//! - **Out:** one line of text for each error.
//! - **Knows nothing of:** what the reflector does next; that is decided in `listwatch::rules`.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use kube::core::Status;

use super::report::status_line;
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
    /// Pack the cached objects. This is no request.
    Pack,
}

/// Why a request to a source failed.
///
/// What the reflector does next, after a delay, depends on the error and on the request that failed:
///
/// - A watch that could not be *opened* is requested again at the reached version. After five failures in a row that are not
///   [`Refused`](Self::Refused), [`Unreachable`](Self::Unreachable) or 429, everything is listed, at most once a minute.
/// - An *open* watch that broke ([`Connection`](Self::Connection), [`Silent`](Self::Silent)), or whose data is damaged, is opened again in the same way.
///   Any other error that ends it is followed by a list.
/// - After [`expired`](Self::expired) everything is listed, whatever failed. A list that failed is requested again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    /// The server refused the request, or ended the watch, with a status.
    #[error("the server answered: {}", status_line(.status))]
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

    /// The response is no uncompressed JSON of a list of the requested kind, but for example the error page of a proxy.
    #[error("the response is {found}")]
    Unexpected {
        /// What the response is, and what was expected.
        found: String,
    },
    /// The response is not the JSON of a list or of watch events.
    #[error("the response cannot be parsed")]
    Body(#[from] FrameError),

    /// A list, or the end of a streamed list, has no version, although earlier lists had one.
    #[error("the list has no resourceVersion")]
    NoVersion,

    /// An event or a list item is too damaged to determine its object. A list is requested again; a watch is opened again before the event, up to
    /// five times in a row.
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

    /// A list, streamed or not, ended before it was complete.
    #[error("the list ended before it was complete")]
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
    #[error("the cache differs from the server in {}", .objects.iter().map(Key::as_str).collect::<Vec<_>>().join(", "))]
    CacheDiffers {
        /// The objects: up to ten.
        objects: Vec<Key>,
    },

    /// The informers of the factory take more memory than its budget (`FactoryBuilder::memory_budget`), and this one has found no more objects
    /// to pack. Nothing is dropped.
    #[error(
        "the caches of all informers take {used} bytes, {budget} are allowed; select fewer objects, `cut` large fields, or raise the budget"
    )]
    MemoryExceeded {
        /// What all informers take together, in bytes.
        used: usize,
        /// The budget.
        budget: usize,
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

    /// Creates an error of a custom source.
    pub fn other(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Other { source: source.into() }
    }

    /// Returns the HTTP code of a [`Status`](Self::Status).
    pub fn code(&self) -> Option<u16> {
        let Self::Status { status, .. } = self else { return None };
        Some(status.code)
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
            Self::Pack => "packing",
        })
    }
}
