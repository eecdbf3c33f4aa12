//! Injected faults and interceptors: what a test orders for selected requests.
//!
//! - **In:** rules from tests: [`On`] selects requests, [`Fault`] is what happens to them, or a function sees them ([`intercept`]).
//! - **Out:** for each request, the faults that hit it ([`plan`]), their effect on the request ([`orders`]) and on the bytes
//!   of its response ([`wire`]).
//! - **Knows nothing of:** objects, storage.

pub(crate) mod body;
pub(crate) mod intercept;
pub(crate) mod orders;
pub(crate) mod plan;
pub(crate) mod wire;

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::http::request::Verb;

/// What happens to a request that a rule selects.
///
/// Several faults can hit one request. The server applies them in the order in which real failures occur: first those
/// that prevent a response, then those that change the response, then those that change its bytes on the wire.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use informant_apiserver::{ApiServer, Fault, On};
/// use k8s_openapi::api::core::v1::Pod;
/// use kube::{Api, api::ListParams};
///
/// let server = ApiServer::new();
/// server.inject(On::list().of("pods").once(), Fault::status(503));
///
/// let pods: Api<Pod> = Api::all(server.client());
/// assert!(pods.list(&ListParams::default()).await.is_err());
/// assert!(pods.list(&ListParams::default()).await.is_ok());
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Fault {
    /// The connection is refused: in-process, the call fails with `ConnectionRefused`.
    ///
    /// On a socket the connection is already accepted, so the server closes it before the first byte of a response. To have
    /// connections refused there, stop the [`Listening`](crate::Listening).
    Refuse,
    /// The server closes the connection before the first byte of a response and does not carry out the request.
    Drop,
    /// The server carries out the request, then closes the connection before the first byte of the response: a write takes
    /// effect, and the client does not know.
    LoseResponse,
    /// The server never responds and keeps the connection open.
    Hang,
    /// The server waits this long before it carries out the request.
    Delay(Duration),
    /// The response is an error with this HTTP status code; the request is not carried out.
    Status {
        /// The status code: 401, 403, 404, 410, 429, 500, 503 or any other.
        code: u16,
        /// The `Retry-After` header, in seconds.
        retry_after: Option<u32>,
    },

    /// The server sends this response and does not carry out the request.
    Response(CannedResponse),

    /// A watch receives no periodic bookmarks. A streaming list still receives the bookmark that ends its initial objects.
    NoBookmarks,
    /// A streaming list is rejected as invalid (422), as by servers that do not support it.
    WatchListRefused,
    /// A streaming list receives an `ERROR` event with code 500, as from servers whose etcd is too old.
    WatchListFails,
    /// A streaming list sends its initial objects, but never the bookmark that ends them.
    WatchListNeverEnds,
    /// The continue token of a list has expired (410).
    ExpireToken,
    /// The response has the state of some versions ago, as from a replica that lags behind. Requests for the newest state
    /// (without `resourceVersion`) are not affected.
    Stale {
        /// The number of versions that the state is behind.
        versions: u64,
    },

    /// A watch sends an `ERROR` event after some events, then ends.
    ErrorEvent {
        /// The status code in the event.
        code: u16,
        /// The number of events before it.
        after: usize,
    },
    /// A watch sends an additional line after some events, byte for byte as given: include a line feed at the end, or leave
    /// it out to join the line with the next event.
    ExtraLine {
        /// The number of events before it, including lines that earlier rules add.
        after: usize,
        /// The line.
        text: String,
    },
    /// The list, object or events are of another kind than the requested one.
    WrongKind,
    /// The first object that is sent has the value `false` in this field, such as `spec` or `metadata.labels`. A missing field
    /// is added.
    BadItem {
        /// The path of the field, with dots between the names.
        field: String,
    },
    /// The response is an HTML page. In a watch, the page is the first line.
    Garbage,
    /// The response ends early but cleanly, so that its JSON is incomplete. A watch ends in the middle of its first event.
    Truncate,

    /// The response stops early.
    Cut {
        /// Where the response stops.
        after: CutAfter,
        /// How the connection behaves from there.
        ending: CutEnding,
    },
    /// Each byte is sent separately.
    ByteByByte,
    /// Each line of a watch, and each chunk of a list, is sent in several pieces.
    Split {
        /// The number of pieces.
        pieces: usize,
    },
    /// Lines of a watch that are ready at the same time are sent together.
    Pack {
        /// The largest number of lines that are sent together.
        lines: usize,
    },
    /// The response is compressed; in a watch, each event separately.
    Gzip(GzipMode),
}

/// Where [`Fault::Cut`] stops a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CutAfter {
    /// After this many events of a watch, including bookmarks; for a list, after this many chunks of about 64 KiB.
    Events(usize),
    /// After this many bytes.
    Bytes(usize),
    /// In the middle of the line that follows this many events.
    HalfLine(usize),
}

/// How the connection behaves where [`Fault::Cut`] stops a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CutEnding {
    /// The response ends cleanly, as if it were complete.
    Close,
    /// The connection breaks.
    Reset,
    /// The connection stays open, and the server sends nothing more.
    Silence,
}

/// A response that a test defines, for [`Fault::Response`].
///
/// ```
/// use informant_apiserver::{ApiServer, CannedResponse, Fault, On};
///
/// let server = ApiServer::new();
/// let moved = CannedResponse::new(301, "{}").header("location", "http://127.0.0.1:8080/");
/// server.inject(On::list().of("pods"), Fault::Response(moved));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CannedResponse {
    pub(crate) code: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl CannedResponse {
    /// Creates a response with this HTTP status code, this body and the content type `application/json`.
    pub fn new(code: u16, body: impl Into<String>) -> Self {
        Self { code, headers: HeaderMap::new(), body: body.into() }
    }

    /// Sets a header, in place of the server's own header of that name.
    ///
    /// # Panics
    ///
    /// If `name` is not a lower-case HTTP header name or `value` is not a valid header value.
    #[must_use]
    pub fn header(mut self, name: &'static str, value: &str) -> Self {
        let value = HeaderValue::from_str(value)
            .unwrap_or_else(|error| panic!("{value:?} is not a valid value for the header {name}: {error}"));
        self.headers.insert(HeaderName::from_static(name), value);
        self
    }
}

/// When [`Fault::Gzip`] compresses a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GzipMode {
    /// If the client accepts it (`Accept-Encoding: gzip`), as in Kubernetes 1.37.
    IfAccepted,
    /// Always, whatever the client accepts.
    Always,
}

impl Fault {
    /// An error response with this HTTP status code.
    pub fn status(code: u16) -> Self {
        Self::Status { code, retry_after: None }
    }

    /// A response with status 403, as for a user without permission.
    pub fn forbidden() -> Self {
        Self::status(403)
    }

    /// A response with status 429 (too many requests) and a `Retry-After` header, rounded down to seconds.
    pub fn too_many_requests(retry_after: Duration) -> Self {
        Self::Status { code: 429, retry_after: Some(u32::try_from(retry_after.as_secs()).unwrap_or(u32::MAX)) }
    }

    /// A watch whose connection breaks after this many events.
    pub fn cut_after_events(events: usize) -> Self {
        Self::Cut { after: CutAfter::Events(events), ending: CutEnding::Reset }
    }

    /// A watch that stays open but sends nothing more after this many events.
    pub fn freeze_after_events(events: usize) -> Self {
        Self::Cut { after: CutAfter::Events(events), ending: CutEnding::Silence }
    }

    /// Returns true if the fault can affect such a request. Rules do not count other requests.
    pub(crate) fn concerns(&self, verb: Verb, has_token: bool) -> bool {
        let is_watch = matches!(verb, Verb::Watch | Verb::WatchList);
        match self {
            Self::WatchListRefused | Self::WatchListFails | Self::WatchListNeverEnds => verb == Verb::WatchList,
            Self::ExpireToken => has_token,
            Self::NoBookmarks | Self::ErrorEvent { .. } | Self::ExtraLine { .. } | Self::Pack { .. } => is_watch,
            Self::Refuse
            | Self::Drop
            | Self::LoseResponse
            | Self::Hang
            | Self::Delay(_)
            | Self::Status { .. }
            | Self::Response(_)
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

/// Selects the requests that a fault hits or an interceptor sees: by verb, kind, namespace, name, position, number and probability.
///
/// A rule counts only requests that its fault can affect: [`Fault::ExpireToken`] counts lists with a continue token,
/// [`Fault::WatchListRefused`] counts streaming lists.
///
/// ```
/// use informant_apiserver::{ApiServer, Fault, On};
///
/// let server = ApiServer::new();
/// server.inject(On::watch().of("pods").times(2), Fault::status(503));
/// server.inject(On::list().of("pods").in_namespace("bank"), Fault::forbidden());
/// server.inject(On::list().of("pods").skip(1).once(), Fault::ExpireToken);
/// server.inject(On::any().with_probability(0.01), Fault::Refuse);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct On {
    pub(crate) verbs: Option<Vec<Verb>>,
    pub(crate) resource: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) skip: usize,
    pub(crate) times: Option<usize>,
    pub(crate) probability: f64,
}

impl On {
    /// Selects every request.
    pub fn any() -> Self {
        Self { verbs: None, resource: None, namespace: None, name: None, skip: 0, times: None, probability: 1.0 }
    }

    /// Selects requests with one of these verbs.
    pub fn verbs(verbs: impl IntoIterator<Item = Verb>) -> Self {
        Self { verbs: Some(verbs.into_iter().collect()), ..Self::any() }
    }

    /// Selects lists. Streaming lists are not among them; see [`watch_list`](Self::watch_list).
    pub fn list() -> Self {
        Self::verbs([Verb::List])
    }

    /// Selects watches, including streaming lists.
    pub fn watch() -> Self {
        Self::verbs([Verb::Watch, Verb::WatchList])
    }

    /// Selects streaming lists: watches with `sendInitialEvents=true`.
    pub fn watch_list() -> Self {
        Self::verbs([Verb::WatchList])
    }

    /// Selects creates, including calls of subresources such as `eviction`.
    pub fn create() -> Self {
        Self::verbs([Verb::Create])
    }

    /// Selects updates, including those of subresources. Patches are not among them; see [`patch`](Self::patch).
    pub fn update() -> Self {
        Self::verbs([Verb::Update])
    }

    /// Selects patches, including those of subresources.
    pub fn patch() -> Self {
        Self::verbs([Verb::Patch])
    }

    /// Selects deletes of single objects and of collections.
    pub fn delete() -> Self {
        Self::verbs([Verb::Delete, Verb::DeleteCollection])
    }

    /// Selects writes: create, update, patch, delete and delete-collection.
    pub fn writes() -> Self {
        Self::verbs([Verb::Create, Verb::Update, Verb::Patch, Verb::Delete, Verb::DeleteCollection])
    }

    /// Selects only requests for this kind: `pods`, `deployments.apps`. Default: every kind.
    ///
    /// A kind that is not served yet is named with its group; [`inject`](crate::ApiServer::inject) panics for other unknown names.
    #[must_use]
    pub fn of(mut self, resource: impl Into<String>) -> Self {
        self.resource = Some(resource.into());
        self
    }

    /// Selects only requests for one namespace. Requests for all namespaces are not among them. Default: every request.
    #[must_use]
    pub fn in_namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Selects only requests for the object of this name: those that have it in their path, and lists and watches with the field
    /// selector `metadata.name`. Creates have no name in their path. Default: every request.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Leaves out the first matching requests. Default: 0.
    #[must_use]
    pub fn skip(mut self, requests: usize) -> Self {
        self.skip = requests;
        self
    }

    /// Hits this many requests. Default: every matching request until the fault is removed.
    #[must_use]
    pub fn times(mut self, times: usize) -> Self {
        self.times = Some(times);
        self
    }

    /// Hits one request.
    #[must_use]
    pub fn once(self) -> Self {
        self.times(1)
    }

    /// Hits each matching request with this probability, drawn from the server's [seed](crate::ApiServerBuilder::seed).
    /// Default: 1.
    #[must_use]
    pub fn with_probability(mut self, probability: f64) -> Self {
        self.probability = probability;
        self
    }
}
