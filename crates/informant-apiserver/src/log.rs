//! What was asked of the server, for tests that assert it.
//!
//! The notation is that of informer specifications: `L(rv, limit, token)` for a list, `W(rv)` for a watch, `WL(rv)` for a
//! streaming list.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use crate::Fault;
use crate::http::request::ApiRequest;
use crate::http::request::Verb;
use crate::storage::token::Token;

/// One request.
///
/// Its text is short: `L(0, 500)`, `L(10, no limit)`, `L("", 500, C1)` (C1 is the first continue token that the server
/// gave out), `W(15)`, `WL("")`, and `get(web)`, `create(web)` and so on.
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
    /// `resourceVersion` as it was sent.
    pub resource_version: String,
    /// `limit`; 0 for none.
    pub limit: u64,
    /// The continue token, numbered in the order in which the server gave them out; `C?` if it never did.
    pub token: Option<String>,
    /// `labelSelector` as it was sent.
    pub label_selector: String,
    /// `fieldSelector` as it was sent.
    pub field_selector: String,
    /// `timeoutSeconds`, if it was sent.
    pub timeout_seconds: Option<u64>,
    /// Whether bookmarks were asked for.
    pub bookmarks: bool,
    /// The `Accept` header.
    pub accept: String,
    /// The `Accept-Encoding` header.
    pub accept_encoding: String,
    /// What was done to it on command.
    pub faults: Vec<Fault>,
}

impl Requested {
    pub(crate) fn new(at: Duration, request: &ApiRequest, accept: &str, accept_encoding: &str) -> Self {
        let place = request.place().cloned().unwrap_or_default();
        let params = &request.params;
        let number = |token: &String| Token::decode(token).map_or("C?".into(), |token| format!("C{}", token.number));
        Self {
            at,
            verb: request.verb,
            resource: place.resource(),
            namespace: place.namespace,
            name: place.name,
            resource_version: params.resource_version.clone(),
            limit: params.limit,
            token: Some(&params.continue_token).filter(|token| !token.is_empty()).map(number),
            label_selector: params.label_selector.clone(),
            field_selector: params.field_selector.clone(),
            timeout_seconds: params.timeout_seconds,
            bookmarks: params.allow_bookmarks,
            accept: accept.into(),
            accept_encoding: accept_encoding.into(),
            faults: Vec::new(),
        }
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
            Verb::Get => write!(f, "get({})", self.name),
            Verb::Create => write!(f, "create({})", self.resource),
            Verb::Update => write!(f, "update({})", self.name),
            Verb::Delete => write!(f, "delete({})", self.name),
            Verb::DeleteCollection => write!(f, "delete all({})", self.resource),
            Verb::Discover => write!(f, "discover"),
        }
    }
}

/// The last requests, oldest first.
pub(crate) struct Log {
    kept: VecDeque<Requested>,
    limit: usize,
}

impl Log {
    pub(crate) fn new(limit: usize) -> Self {
        Self { kept: VecDeque::new(), limit }
    }

    pub(crate) fn push(&mut self, request: Requested) {
        if self.kept.len() == self.limit {
            self.kept.pop_front();
        }
        self.kept.push_back(request);
    }

    pub(crate) fn all(&self) -> Vec<Requested> {
        self.kept.iter().cloned().collect()
    }

    pub(crate) fn clear(&mut self) {
        self.kept.clear();
    }
}
