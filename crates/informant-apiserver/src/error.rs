//! Errors of requests, with the status code, reason and `Status` body that kube-apiserver sends.
//!
//! - **In:** errors from all other modules.
//! - **Out:** their `Status` objects. Most messages are those of kube-apiserver, word for word.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::registry::kind::Kind;

/// An error of a request or of a call on the [`ApiServer`](crate::ApiServer).
///
/// ```
/// use informant_apiserver::ApiServer;
///
/// let error = ApiServer::new().get("pods", "shop/web").unwrap_err();
/// assert_eq!((error.code(), error.reason()), (404, "NotFound"));
/// assert_eq!(error.to_string(), "pods \"web\" not found");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApiError {
    /// The server has nothing at the requested path.
    #[error("the server could not find the requested resource")]
    UnknownPath,

    /// A call on the [`ApiServer`](crate::ApiServer) names a kind that is not served.
    #[error("the server has no kind named {name:?}; {}", hint(similar.as_deref()))]
    UnknownKind {
        /// The name.
        name: String,
        /// The name of a kind that is served and was probably meant.
        similar: Option<String>,
    },

    /// The object does not exist.
    #[error("{} \"{name}\" not found", kind.resource())]
    NotFound {
        /// The kind.
        kind: Box<Kind>,
        /// The name of the object.
        name: String,
    },

    /// An object of that name already exists.
    #[error("{} \"{name}\" already exists", kind.resource())]
    AlreadyExists {
        /// The kind.
        kind: Box<Kind>,
        /// The name of the existing object.
        name: String,
    },

    /// The server does not allow the request for this object.
    #[error("{} \"{name}\" is forbidden: {why}", kind.resource())]
    Forbidden {
        /// The kind.
        kind: Box<Kind>,
        /// The name of the object.
        name: String,
        /// The reason, for the message.
        why: String,
        /// The entry of `details.causes`, if kube-apiserver sends one for this error.
        cause: Option<Cause>,
    },

    /// A disruption budget does not allow the eviction of the pod.
    #[error("Cannot evict pod as it would violate the pod's disruption budget.")]
    DisruptionRefused {
        /// The name of the budget.
        budget: String,
    },

    /// The object is not in the state that the request requires, such as a given `resourceVersion`.
    #[error("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.resource())]
    Conflict {
        /// The kind.
        kind: Box<Kind>,
        /// The name of the object.
        name: String,
        /// The difference, for the message.
        why: String,
    },

    /// A client applies fields that belong to others.
    #[error("{why}")]
    ApplyConflict {
        /// The fields and their managers, for the message.
        why: String,
        /// One entry for each field.
        causes: Vec<Cause>,
    },

    /// The object or the options in the request have invalid fields.
    #[error("{} \"{name}\" is invalid: {}", qualified(kind), join(causes))]
    Invalid {
        /// The kind.
        kind: Box<Kind>,
        /// The name of the object; empty if it has none.
        name: String,
        /// One entry for each invalid field.
        causes: Vec<Cause>,
    },

    /// The request is malformed.
    #[error("{0}")]
    BadRequest(String),

    /// The path does not support the verb.
    #[error("the server does not allow this method on the requested resource")]
    MethodNotAllowed,

    /// The server supports no media type in the `Accept` header.
    #[error("only the following media types are accepted: application/json")]
    NotAcceptable,

    /// The server does not support the media type of the body.
    #[error(
        "the body of the request was in an unknown format - accepted media types include: {accepted}{}",
        advice.map(|advice| format!("; {advice}")).unwrap_or_default()
    )]
    UnsupportedMediaType {
        /// The supported media types.
        accepted: &'static str,
        /// What the client can do instead.
        advice: Option<&'static str>,
    },

    /// The patch is malformed or cannot be applied to the object.
    #[error("the server rejected our request due to an error in our request")]
    BadPatch,

    /// The body is too large.
    #[error("the request body is larger than {limit} bytes")]
    TooLarge {
        /// The largest supported size in bytes.
        limit: usize,
    },

    /// The JSON patch has too many operations.
    #[error("Request entity too large: The allowed maximum operations in a JSON patch is {most}, got {got}")]
    TooManyOperations {
        /// The largest supported number.
        most: usize,
        /// The number in the patch.
        got: usize,
    },

    /// The server no longer has the requested version or continue token.
    #[error("{why}")]
    Expired {
        /// The expired version or token, for the message.
        why: String,
        /// A token that continues the list from the same key, but at the newest version.
        continue_anyway: Option<String>,
    },

    /// The requested version does not exist yet.
    #[error("Timeout: Too large resource version: {asked}, current: {current}")]
    VersionTooLarge {
        /// The requested version.
        asked: u64,
        /// The current version.
        current: u64,
    },

    /// A failure of the server, or a client error that kube-apiserver reports as one.
    #[error("{0}")]
    Internal(String),

    /// A test injected this error with a [`Fault`](crate::Fault).
    #[error("{message}")]
    Injected {
        /// The HTTP status code.
        code: u16,
        /// The message.
        message: String,
        /// The `Retry-After` header, in seconds.
        retry_after: Option<u32>,
    },
}

/// An invalid field, as an entry of `details.causes` in a `Status`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// The machine-readable reason: `FieldValueInvalid`, `FieldValueRequired` and so on.
    pub reason: &'static str,
    /// The path of the field, such as `metadata.name`.
    pub field: Cow<'static, str>,
    /// The message for people.
    pub message: String,
}

impl Cause {
    pub(crate) fn required(field: impl Into<Cow<'static, str>>, why: &str) -> Self {
        let separator = if why.is_empty() { "" } else { ": " };
        Self { reason: "FieldValueRequired", field: field.into(), message: format!("Required value{separator}{why}") }
    }

    pub(crate) fn invalid(field: impl Into<Cow<'static, str>>, value: &str, why: &str) -> Self {
        Self { reason: "FieldValueInvalid", field: field.into(), message: format!("Invalid value: {value}: {why}") }
    }

    pub(crate) fn unsupported(field: &'static str, value: &str, supported: &str) -> Self {
        let message = format!("Unsupported value: {value}: supported values: {supported}");
        Self { reason: "FieldValueNotSupported", field: field.into(), message }
    }

    fn as_json(&self) -> Value {
        json!({"reason": self.reason, "message": self.message, "field": self.field})
    }

    pub(crate) fn forbidden(field: &'static str, why: &str) -> Self {
        Self { reason: "FieldValueForbidden", field: field.into(), message: format!("Forbidden: {why}") }
    }
}

impl ApiError {
    pub(crate) fn not_found(kind: &Kind, name: &str) -> Self {
        Self::NotFound { kind: kind.clone().into(), name: name.into() }
    }

    pub(crate) fn already_exists(kind: &Kind, name: &str) -> Self {
        Self::AlreadyExists { kind: kind.clone().into(), name: name.into() }
    }

    pub(crate) fn conflict(kind: &Kind, name: &str, why: impl Into<String>) -> Self {
        Self::Conflict { kind: kind.clone().into(), name: name.into(), why: why.into() }
    }

    pub(crate) fn forbidden(kind: &Kind, name: &str, why: impl Into<String>) -> Self {
        Self::Forbidden { kind: kind.clone().into(), name: name.into(), why: why.into(), cause: None }
    }

    pub(crate) fn invalid(kind: &Kind, name: &str, cause: Cause) -> Self {
        Self::Invalid { kind: kind.clone().into(), name: name.into(), causes: vec![cause] }
    }

    /// Creates the error of an injected fault.
    pub(crate) fn injected(code: u16, retry_after: Option<u32>) -> Self {
        let message = match code {
            403 => "forbidden: the user has no permission (injected fault with code 403)".to_owned(),
            code => format!("injected fault with code {code}"),
        };
        Self::Injected { code, message, retry_after }
    }

    /// Creates the error for invalid parameters of a list or watch.
    pub(crate) fn invalid_options(cause: Cause) -> Self {
        Self::invalid_meta("ListOptions", cause)
    }

    /// Creates the error for invalid options of a request, such as `CreateOptions`.
    pub(crate) fn invalid_meta(kind: &str, cause: Cause) -> Self {
        let kind = Kind::new("meta.k8s.io", "v1", kind.to_owned(), "");
        Self::Invalid { kind: kind.into(), name: String::new(), causes: vec![cause] }
    }

    /// Creates the error for a watch from a version older than the history.
    pub(crate) fn version_too_old(asked: u64, oldest: u64) -> Self {
        Self::Expired { why: format!("too old resource version: {asked} ({oldest})"), continue_anyway: None }
    }

    /// Returns the HTTP status code.
    pub fn code(&self) -> u16 {
        match self {
            Self::UnknownPath | Self::UnknownKind { .. } | Self::NotFound { .. } => 404,
            Self::Forbidden { .. } => 403,
            Self::DisruptionRefused { .. } => 429,
            Self::AlreadyExists { .. } | Self::Conflict { .. } | Self::ApplyConflict { .. } => 409,
            Self::Invalid { .. } | Self::BadPatch => 422,
            Self::BadRequest(_) => 400,
            Self::MethodNotAllowed => 405,
            Self::NotAcceptable => 406,
            Self::UnsupportedMediaType { .. } => 415,
            Self::TooLarge { .. } | Self::TooManyOperations { .. } => 413,
            Self::Expired { .. } => 410,
            Self::VersionTooLarge { .. } => 504,
            Self::Internal(_) => 500,
            Self::Injected { code, .. } => *code,
        }
    }

    /// Returns the machine-readable reason, such as `NotFound`; empty where kube-apiserver sends none.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::UnknownPath | Self::UnknownKind { .. } | Self::NotFound { .. } => "NotFound",
            Self::Forbidden { .. } => "Forbidden",
            Self::DisruptionRefused { .. } => "TooManyRequests",
            Self::AlreadyExists { .. } => "AlreadyExists",
            Self::Conflict { .. } | Self::ApplyConflict { .. } => "Conflict",
            Self::Invalid { .. } | Self::BadPatch => "Invalid",
            Self::BadRequest(_) => "BadRequest",
            Self::MethodNotAllowed => "MethodNotAllowed",
            Self::NotAcceptable => "NotAcceptable",
            Self::UnsupportedMediaType { .. } => "UnsupportedMediaType",
            Self::TooLarge { .. } | Self::TooManyOperations { .. } => "RequestEntityTooLarge",
            Self::Expired { .. } => "Expired",
            Self::VersionTooLarge { .. } => "Timeout",
            Self::Internal(_) => "",
            Self::Injected { code, .. } => usual_reason(*code),
        }
    }

    /// Returns the number of seconds that the client should wait before it tries again.
    pub fn retry_after(&self) -> Option<u32> {
        match self {
            Self::VersionTooLarge { .. } => Some(1),
            Self::Injected { retry_after, .. } => *retry_after,
            Self::UnknownPath
            | Self::UnknownKind { .. }
            | Self::NotFound { .. }
            | Self::AlreadyExists { .. }
            | Self::Forbidden { .. }
            | Self::DisruptionRefused { .. }
            | Self::Conflict { .. }
            | Self::ApplyConflict { .. }
            | Self::Invalid { .. }
            | Self::BadPatch
            | Self::BadRequest(_)
            | Self::MethodNotAllowed
            | Self::NotAcceptable
            | Self::UnsupportedMediaType { .. }
            | Self::TooLarge { .. }
            | Self::TooManyOperations { .. }
            | Self::Expired { .. }
            | Self::Internal(_) => None,
        }
    }

    /// Returns the `Status` object that the response has as its body.
    pub fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.to_string(),
            "code": self.code(),
        });
        if !self.reason().is_empty() {
            status["reason"] = json!(self.reason());
        }
        if let Self::Expired { continue_anyway: Some(token), .. } = self {
            status["metadata"]["continue"] = json!(token);
        }
        let mut details = self.details();
        if let Some(seconds) = self.retry_after() {
            details.get_or_insert_with(|| json!({}))["retryAfterSeconds"] = json!(seconds);
        }
        if let Some(details) = details {
            status["details"] = details;
        }
        status
    }

    fn details(&self) -> Option<Value> {
        match self {
            Self::NotFound { kind, name } | Self::AlreadyExists { kind, name } | Self::Conflict { kind, name, .. } => {
                Some(named(name, &kind.group, &kind.plural))
            }
            Self::Forbidden { kind, name, cause, .. } => {
                let mut details = named(name, &kind.group, &kind.plural);
                if let Some(cause) = cause {
                    details["causes"] = json!([cause.as_json()]);
                }
                Some(details)
            }
            Self::Invalid { kind, name, causes } => {
                let mut details = named(name, &kind.group, &kind.kind);
                details["causes"] = causes.iter().map(Cause::as_json).collect();
                Some(details)
            }
            Self::ApplyConflict { causes, .. } => {
                Some(json!({"causes": causes.iter().map(Cause::as_json).collect::<Vec<_>>()}))
            }
            Self::DisruptionRefused { budget } => {
                let message = format!("The disruption budget {budget} allows no more disruptions");
                Some(json!({"causes": [{"reason": "DisruptionBudget", "message": message}]}))
            }
            Self::VersionTooLarge { .. } => {
                let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
                Some(json!({"causes": [cause]}))
            }
            Self::UnknownPath | Self::UnknownKind { .. } | Self::MethodNotAllowed | Self::BadPatch => Some(json!({})),
            Self::BadRequest(_)
            | Self::NotAcceptable
            | Self::UnsupportedMediaType { .. }
            | Self::TooLarge { .. }
            | Self::TooManyOperations { .. }
            | Self::Expired { .. }
            | Self::Internal(_)
            | Self::Injected { .. } => None,
        }
    }
}

fn named(name: &str, group: &str, kind: &str) -> Value {
    let mut details = json!({"kind": kind});
    for (field, value) in [("name", name), ("group", group)] {
        if !value.is_empty() {
            details[field] = json!(value);
        }
    }
    details
}

fn hint(similar: Option<&str>) -> String {
    match similar {
        Some(similar) => format!("did you mean {similar:?}?"),
        None => "use a plural name such as pods or deployments.apps, or define the kind first".to_owned(),
    }
}

/// `ConfigMap`, or `Deployment.apps`.
fn qualified(kind: &Kind) -> String {
    if kind.group.is_empty() { kind.kind.to_string() } else { format!("{}.{}", kind.kind, kind.group) }
}

fn join(causes: &[Cause]) -> String {
    let texts = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect::<Vec<_>>();
    if texts.len() == 1 { texts.concat() } else { format!("[{}]", texts.join(", ")) }
}

/// The reason that kube-apiserver sends with a status code.
pub(crate) fn usual_reason(code: u16) -> &'static str {
    match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "NotFound",
        405 => "MethodNotAllowed",
        406 => "NotAcceptable",
        409 => "Conflict",
        410 => "Expired",
        413 => "RequestEntityTooLarge",
        415 => "UnsupportedMediaType",
        422 => "Invalid",
        429 => "TooManyRequests",
        500 => "InternalError",
        503 => "ServiceUnavailable",
        504 => "Timeout",
        _ => "",
    }
}
