//! What was asked of the server, for tests that assert it.
//!
//! The notation is that of informer specifications: `L(rv, limit, token)` for a list, `W(rv)` for a watch, `WL(rv)` for a
//! streaming list.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use http::HeaderValue;
use http::header::ACCEPT;
use http::header::ACCEPT_ENCODING;
use http::request::Parts;

use crate::Fault;
use crate::http::request::ApiRequest;
use crate::http::request::Verb;
use crate::registry::subresource::Subresource;
use crate::storage::token::Token;

/// One request.
///
/// Its text is short: `L(0, 500)`, `L(10, no limit)`, `L("", 500, C1)` (C1 is the first continue token that the server
/// gave out), `W(15)`, `WL("")`, and `get(web)`, `create(pods)`, `update(web)`, `update(web/status)`, `patch(web/scale)` and so on; what was not
/// understood, as it came.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Requested {
    /// When it came, counted from the server's start; on tokio's clock, so it stands still while that is paused.
    pub at: Duration,
    /// What it wanted.
    pub verb: Verb,
    /// The kind: `pods`, `deployments.apps`; empty for discovery.
    pub resource: String,
    /// The namespace; empty for all or none.
    pub namespace: String,
    /// The object, if it was about one.
    pub name: String,
    /// Which part of the object, if it was about one.
    pub subresource: Option<Subresource>,
    /// The method and the path with its query, as they came.
    pub line: String,
    /// `resourceVersion` as it was sent.
    pub resource_version: String,
    /// `resourceVersionMatch` as it was sent.
    pub resource_version_match: String,
    /// `limit`; 0 for none.
    pub limit: u64,
    /// The continue token, numbered in the order in which the server gave them out; `C?` if it never did.
    pub token: Option<String>,
    /// `labelSelector` as it was sent.
    pub label_selector: String,
    /// `fieldSelector` as it was sent.
    pub field_selector: String,
    /// `timeoutSeconds`, if it was sent.
    pub timeout_seconds: Option<i64>,
    /// Whether bookmarks were asked for.
    pub bookmarks: bool,
    /// The `Accept` header.
    pub accept: String,
    /// The `Accept-Encoding` header.
    pub accept_encoding: String,
    /// The injected faults that hit it.
    pub faults: Vec<Fault>,
}

impl Requested {
    /// Without a request if it was not understood.
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
            accept: header(ACCEPT).unwrap_or_default().into(),
            accept_encoding: header(ACCEPT_ENCODING).unwrap_or_default().into(),
            faults: Vec::new(),
        }
    }
}

impl Requested {
    /// `web`, `web/status`.
    fn part(&self) -> String {
        let part = self.subresource.map(|part| format!("/{}", part.name())).unwrap_or_default();
        format!("{}{part}", self.name)
    }
}

impl fmt::Display for Requested {
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

/// The last requests, oldest first.
pub(crate) struct Log {
    kept: VecDeque<Requested>,
    limit: usize,
    /// How many there were before those that are kept.
    before: usize,
}

impl Log {
    pub(crate) fn new(limit: usize) -> Self {
        Self { kept: VecDeque::new(), limit, before: 0 }
    }

    pub(crate) fn push(&mut self, request: Requested) {
        self.kept.push_back(request);
        while self.kept.len() > self.limit {
            self.kept.pop_front();
            self.before += 1;
        }
    }

    pub(crate) fn all(&self) -> Vec<Requested> {
        self.kept.iter().cloned().collect()
    }

    /// Those after so many, and how many that makes.
    pub(crate) fn after(&self, seen: usize) -> (Vec<Requested>, usize) {
        let fresh = self.kept.iter().skip(seen.saturating_sub(self.before)).cloned().collect();
        (fresh, self.before + self.kept.len())
    }

    pub(crate) fn clear(&mut self) {
        self.before += self.kept.len();
        self.kept.clear();
    }
}
