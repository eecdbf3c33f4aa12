//! Injected faults: what goes wrong with requests because a test asks for it.
//!
//! - **In:** rules, from tests: [`On`] says when, [`Fault`] what.
//! - **Out:** for each request which faults strike it ([`plan`]), what they do to it ([`orders`]) and to the bytes of its
//!   answer ([`wire`]).
//! - **Knows nothing of:** objects, storage.

pub(crate) mod body;
pub(crate) mod orders;
pub(crate) mod plan;
pub(crate) mod wire;

use std::time::Duration;

use http::HeaderMap;
use http::HeaderName;
use http::HeaderValue;

use crate::http::request::Verb;

/// Something that goes wrong.
///
/// Several may hit one request. They are applied in the order in which a real trouble would: first what prevents an
/// answer, then what the server says, then what happens to its bytes.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// Nobody is there: in-process, the call fails as refused. A socket that accepted can no longer refuse, so there the
    /// connection is closed before a byte of an answer; for a true refusal, stop the [`Listening`](crate::Listening).
    Refuse,
    /// The connection is closed before a byte of an answer, and nothing is done.
    Drop,
    /// The request is carried out, then the connection is closed before a byte of the answer: a write happens, and its
    /// client cannot know.
    LoseAnswer,
    /// Nothing is ever answered, and the connection stays open.
    Hang,
    /// The answer comes later.
    Delay(Duration),
    /// The answer is an error with this HTTP code, and nothing is done.
    Status {
        /// The code: 401, 403, 404, 410, 429, 500, 503 or any other.
        code: u16,
        /// The `Retry-After` header, in seconds.
        retry_after: Option<u32>,
    },

    /// The answer is this one, and nothing is done.
    Answer(Canned),

    /// A watch gets no bookmarks while it runs. A streaming list still gets its end marker.
    NoBookmarks,
    /// A streaming list is refused as invalid (422), as servers do that do not know it.
    WatchListRefused,
    /// A streaming list is answered with an error event of code 500, as servers do whose etcd is too old.
    WatchListFails,
    /// A streaming list sends its objects, but never the bookmark that ends them.
    WatchListNeverEnds,
    /// The continue token of a list has expired (410).
    ExpireToken,
    /// The answer is what the server knew so many versions ago, as from a replica that lags behind. Requests for the
    /// newest state (without a version) are not affected.
    Stale {
        /// How far it lags.
        versions: u64,
    },

    /// An ERROR event after so many events; it ends the watch.
    ErrorEvent {
        /// The code of its status.
        code: u16,
        /// How many events come before it.
        after: usize,
    },
    /// One more line in a watch after so many events (lines of earlier rules among them), byte for byte as it is given: end
    /// it with a line feed, or not.
    Line {
        /// How many events come before it.
        after: usize,
        /// The line.
        text: String,
    },
    /// List, object or events are of a kind that nobody asked for.
    WrongKind,
    /// The first object that is sent has nonsense (`false`) in this field, such as `spec` or `metadata.labels`; if it has
    /// none, it gets one.
    BadItem {
        /// The names of the fields on the way, joined by dots.
        field: String,
    },
    /// A page of HTML in place of the answer; in a watch, as its first line.
    Garbage,
    /// The answer ends too early, but cleanly: JSON that is not whole. In a watch, in the middle of the first event.
    Truncate,

    /// The stream ends early.
    Cut {
        /// Where.
        after: After,
        /// And how.
        ending: Ending,
    },
    /// Each byte travels alone.
    ByteByByte,
    /// Each line, or part of a list, travels in so many pieces.
    Split {
        /// How many.
        pieces: usize,
    },
    /// Lines that wait travel together.
    Pack {
        /// At most so many.
        lines: usize,
    },
    /// The answer is compressed; that to a watch, each event by itself.
    Gzip(Gzip),
}

/// Where a stream is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// After so many events of a watch, bookmarks included; of a list, after so many pieces of 64 kB.
    Events(usize),
    /// After so many bytes.
    Bytes(usize),
    /// In the middle of the line that follows so many events.
    HalfLine(usize),
}

/// How a stream is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As if the answer were complete.
    Close,
    /// As if the connection broke.
    Reset,
    /// Not at all: nothing more comes, and nobody knows that the other side is gone.
    Silence,
}

/// An answer of a test's own making.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Canned {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Canned {
    /// An answer with this HTTP code and body, of type `application/json`.
    pub fn new(code: u16, body: impl Into<String>) -> Self {
        Self { code, headers: HeaderMap::new(), body: body.into() }
    }

    /// With a header, in place of the one that would be there.
    ///
    /// # Panics
    ///
    /// If HTTP knows no such name or value.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        let value = HeaderValue::from_str(value).unwrap_or_else(|error| panic!("{name}: {value:?}: {error}"));
        self.headers.insert(HeaderName::from_static(name), value);
        self
    }
}

/// When a watch is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gzip {
    /// If the client says that it accepts it, as Kubernetes 1.37 does.
    IfAccepted,
    /// Always.
    Always,
}

impl Fault {
    /// An error answer with this HTTP code.
    pub fn status(code: u16) -> Self {
        Self::Status { code, retry_after: None }
    }

    /// Too many requests (429), with the time to wait.
    pub fn too_many_requests(retry_after: Duration) -> Self {
        Self::Status { code: 429, retry_after: Some(u32::try_from(retry_after.as_secs()).unwrap_or(u32::MAX)) }
    }

    /// A watch that breaks after so many events.
    pub fn cut_after_events(events: usize) -> Self {
        Self::Cut { after: After::Events(events), ending: Ending::Reset }
    }

    /// A watch that says nothing more after so many events, and does not end.
    pub fn freeze_after_events(events: usize) -> Self {
        Self::Cut { after: After::Events(events), ending: Ending::Silence }
    }

    /// Whether it can happen to such a request; if not, the request does not count.
    pub(crate) fn concerns(&self, verb: Verb, has_token: bool) -> bool {
        let is_watch = matches!(verb, Verb::Watch | Verb::WatchList);
        match self {
            Self::WatchListRefused | Self::WatchListFails | Self::WatchListNeverEnds => verb == Verb::WatchList,
            Self::ExpireToken => has_token,
            Self::NoBookmarks | Self::ErrorEvent { .. } | Self::Line { .. } | Self::Pack { .. } => is_watch,
            Self::Refuse
            | Self::Drop
            | Self::LoseAnswer
            | Self::Hang
            | Self::Delay(_)
            | Self::Status { .. }
            | Self::Answer(_)
            | Self::Stale { .. }
            | Self::WrongKind
            | Self::BadItem { .. }
            | Self::Garbage
            | Self::Truncate
            | Self::Cut { .. }
            | Self::ByteByByte
            | Self::Split { .. }
            | Self::Gzip(_) => true,
        }
    }
}

/// When a fault happens: for which requests, from which on, how often, by chance or always.
///
/// Only requests that a fault can concern count: a continue token expires in a list that has one, a streaming list is refused
/// to one who asks for it.
///
/// ```
/// use informant_apiserver::{ApiServer, Fault, On, Verb};
///
/// let server = ApiServer::new();
/// server.inject(On::watch().of("pods").times(2), Fault::status(503));
/// server.inject(On::list().of("pods").skip(1).once(), Fault::ExpireToken);
/// server.inject(On::any().with_probability(0.01), Fault::Refuse);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct On {
    pub(crate) verbs: Option<Vec<Verb>>,
    pub(crate) resource: Option<String>,
    pub(crate) skip: usize,
    pub(crate) times: Option<usize>,
    pub(crate) probability: f64,
}

impl On {
    /// Every request.
    pub fn any() -> Self {
        Self { verbs: None, resource: None, skip: 0, times: None, probability: 1.0 }
    }

    /// Requests with one of these verbs.
    pub fn verbs(verbs: impl IntoIterator<Item = Verb>) -> Self {
        Self { verbs: Some(verbs.into_iter().collect()), ..Self::any() }
    }

    /// Lists.
    pub fn list() -> Self {
        Self::verbs([Verb::List])
    }

    /// Watches, streaming lists among them.
    pub fn watch() -> Self {
        Self::verbs([Verb::Watch, Verb::WatchList])
    }

    /// Streaming lists.
    pub fn watch_list() -> Self {
        Self::verbs([Verb::WatchList])
    }

    /// Everything that changes something.
    pub fn writes() -> Self {
        Self::verbs([Verb::Create, Verb::Update, Verb::Patch, Verb::Delete, Verb::DeleteCollection])
    }

    /// Only requests for this kind: `pods`, `deployments.apps`. Default: any.
    #[must_use]
    pub fn of(mut self, resource: impl Into<String>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    /// Leaves the first requests that fit alone. Default: none.
    #[must_use]
    pub fn skip(mut self, requests: usize) -> Self {
        self.skip = requests;
        self
    }

    /// Strikes so often. Default: until it is removed.
    #[must_use]
    pub fn times(mut self, times: usize) -> Self {
        self.times = Some(times);
        self
    }

    /// Strikes once.
    #[must_use]
    pub fn once(self) -> Self {
        self.times(1)
    }

    /// Strikes by chance. The server's seed repeats a run. Default: 1, always.
    #[must_use]
    pub fn with_probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }
}
