//! The log of requests, for tests that assert which requests a client sent.
//!
//! A request prints as `L(version, limit, token)` for a list, `W(version)` for a watch and `WL(version)` for a streaming list.
//!
//! - **In:** every request, with its parsed path and query.
//! - **Out:** the most recent requests, oldest first.

use std::{collections::VecDeque, fmt, time::Duration};

use http::{
    HeaderValue,
    header::{ACCEPT, ACCEPT_ENCODING, USER_AGENT},
    request::Parts,
};

use crate::{
    Fault,
    http::request::{ApiRequest, Verb},
    registry::subresource::Subresource,
    storage::token::Token,
};

/// A request that the server received.
///
/// `Display` prints a short form for assertions:
///
/// | request | text |
/// | --- | --- |
/// | list with `resourceVersion=0&limit=500` | `L(0, 500)` |
/// | list without parameters | `L("", no limit)` |
/// | next page, with the first continue token that the server issued | `L("", 500, C1)` |
/// | watch from version 15 | `W(15)` |
/// | streaming list | `WL("")` |
/// | others | `get(web)`, `create(pods)`, `update(web/status)`, `patch(web/scale)`, `delete(web)`, `delete all(pods)` |
/// | discovery, and requests that the server does not understand | the method and path |
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), kube::Error> {
/// use informant_apiserver::ApiServer;
/// use k8s_openapi::api::core::v1::Pod;
/// use kube::{Api, api::ListParams};
///
/// let server = ApiServer::new();
/// Api::<Pod>::all(server.client()).list(&ListParams::default().limit(500).labels("app=web")).await?;
///
/// let request = &server.requests()[0];
/// assert_eq!(request.to_string(), "L(\"\", 500)");
/// assert_eq!(request.label_selector, "app=web");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LoggedRequest {
    /// The time since the server was built, on tokio's clock.
    pub at: Duration,
    /// The verb.
    pub verb: Verb,
    /// The kind: `pods`, `deployments.apps`; empty for discovery.
    pub resource: String,
    /// The namespace; empty for requests across namespaces and for cluster-scoped kinds.
    pub namespace: String,
    /// The name of the object; empty for requests about a collection.
    pub name: String,
    /// The subresource, if the path has one.
    pub subresource: Option<Subresource>,
    /// The method, and the path with its query, as received.
    pub line: String,
    /// `resourceVersion` as received.
    pub resource_version: String,
    /// `resourceVersionMatch` as received.
    pub resource_version_match: String,
    /// `limit`; 0 if there is no limit.
    pub limit: u64,
    /// The continue token as `C1`, `C2` and so on, numbered in the order in which the server issued them; `C?` for a token that
    /// the server did not issue.
    pub token: Option<String>,
    /// `labelSelector` as received.
    pub label_selector: String,
    /// `fieldSelector` as received.
    pub field_selector: String,
    /// `timeoutSeconds`, if the request has it.
    pub timeout_seconds: Option<i64>,
    /// True if the request has `allowWatchBookmarks=true`.
    pub bookmarks: bool,
    /// The `User-Agent` header.
    pub user_agent: String,
    /// The `Accept` header.
    pub accept: String,
    /// The `Accept-Encoding` header.
    pub accept_encoding: String,
    /// The injected faults that hit the request.
    pub faults: Vec<Fault>,
}

impl LoggedRequest {
    /// Creates the log entry; `request` is `None` if the server does not understand the path, query or method.
    pub(crate) fn new(at: Duration, parts: &Parts, request: Option<&ApiRequest>) -> Self {
        let place = request.and_then(ApiRequest::place).cloned().unwrap_or_default();
        let params = request.map(|request| request.params.clone()).unwrap_or_default();
        let number = |token: &String| Token::decode(token).map_or("C?".into(), |token| format!("C{}", token.number));
        let header = |name| parts.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        Self {
            at,
            verb: request.map_or(Verb::Other, |request| request.verb),
            resource: place.resource(),
            namespace: place.namespace,
            name: place.name,
            subresource: place.subresource,
            line: format!("{} {}", parts.method, parts.uri),
            resource_version: params.resource_version,
            resource_version_match: params.resource_version_match,
            limit: params.limit,
            token: Some(&params.continue_token).filter(|token| !token.is_empty()).map(number),
            label_selector: params.label_selector,
            field_selector: params.field_selector,
            timeout_seconds: params.timeout_seconds,
            bookmarks: params.allow_bookmarks,
            user_agent: header(USER_AGENT).unwrap_or_default().into(),
            accept: header(ACCEPT).unwrap_or_default().into(),
            accept_encoding: header(ACCEPT_ENCODING).unwrap_or_default().into(),
            faults: Vec::new(),
        }
    }
}

impl LoggedRequest {
    /// The name with the subresource: `web`, `web/status`.
    fn part(&self) -> String {
        let part = self.subresource.map(|part| format!("/{}", part.name())).unwrap_or_default();
        format!("{}{part}", self.name)
    }
}

impl fmt::Display for LoggedRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = if self.resource_version.is_empty() { "\"\"" } else { &self.resource_version };
        match self.verb {
            Verb::List => {
                write!(f, "L({version}, ")?;
                match self.limit {
                    0 => write!(f, "no limit")?,
                    limit => write!(f, "{limit}")?,
                }
                match &self.token {
                    None => write!(f, ")"),
                    Some(token) => write!(f, ", {token})"),
                }
            }
            Verb::Watch => write!(f, "W({version})"),
            Verb::WatchList => write!(f, "WL({version})"),
            Verb::Get => write!(f, "get({})", self.part()),
            Verb::Create => write!(f, "create({})", self.resource),
            Verb::Update => write!(f, "update({})", self.part()),
            Verb::Patch => write!(f, "patch({})", self.part()),
            Verb::Delete => write!(f, "delete({})", self.name),
            Verb::DeleteCollection => write!(f, "delete all({})", self.resource),
            Verb::Discover | Verb::Other => f.write_str(&self.line),
        }
    }
}

/// The most recent requests, oldest first.
pub(crate) struct Log {
    kept: VecDeque<LoggedRequest>,
    limit: usize,
    /// The number of requests that were dropped from the front.
    before: usize,
}

impl Log {
    pub(crate) fn new(limit: usize) -> Self {
        Self { kept: VecDeque::new(), limit, before: 0 }
    }

    pub(crate) fn push(&mut self, request: LoggedRequest) {
        self.kept.push_back(request);
        while self.kept.len() > self.limit {
            self.kept.pop_front();
            self.before += 1;
        }
    }

    pub(crate) fn all(&self) -> Vec<LoggedRequest> {
        self.kept.iter().cloned().collect()
    }

    /// The requests after the first `seen` ones, and the number of all requests so far.
    pub(crate) fn after(&self, seen: usize) -> (Vec<LoggedRequest>, usize) {
        let fresh = self.kept.iter().skip(seen.saturating_sub(self.before)).cloned().collect();
        (fresh, self.before + self.kept.len())
    }

    pub(crate) fn clear(&mut self) {
        self.before += self.kept.len();
        self.kept.clear();
    }
}
