//! Every refusal, and how Kubernetes words it: the code, the reason and the `Status` body.

use std::borrow::Cow;

use serde_json::Value;
use serde_json::json;

use crate::registry::kind::Kind;

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApiError {
    /// Nothing is served there.
    #[error("the server could not find the requested resource")]
    UnknownPath,

    /// A test speaks of a kind that is not served.
    #[error("no kind with the name {0:?} is served")]
    UnknownKind(String),

    /// There is no such object.
    #[error("{} \"{name}\" not found", kind.resource())]
    NotFound {
        /// The kind.
        kind: Box<Kind>,
        /// Its name.
        name: String,
    },

    /// There is such an object already.
    #[error("{} \"{name}\" already exists", kind.resource())]
    AlreadyExists {
        /// The kind.
        kind: Box<Kind>,
        /// The name that is taken.
        name: String,
    },

    /// What is wanted may not be done, now or ever.
    #[error("{} \"{name}\" is forbidden: {why}", kind.resource())]
    Forbidden {
        /// The kind.
        kind: Box<Kind>,
        /// The object.
        name: String,
        /// Why not.
        why: String,
        /// The entry of `details.causes`, if kube-apiserver sends one for this error.
        cause: Option<Cause>,
    },

    /// A disruption budget does not allow one more disruption.
    #[error("Cannot evict pod as it would violate the pod's disruption budget.")]
    DisruptionRefused {
        /// The name of the budget.
        budget: String,
    },

    /// The object is not in the state that the request relies on.
    #[error("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.resource())]
    Conflict {
        /// The kind.
        kind: Box<Kind>,
        /// The object.
        name: String,
        /// What differs.
        why: String,
    },

    /// The content is not acceptable.
    #[error("{} \"{name}\" is invalid: {}", qualified(kind), join(causes))]
    Invalid {
        /// The kind.
        kind: Box<Kind>,
        /// The object, if it has a name.
        name: String,
        /// One entry for each field that is wrong.
        causes: Vec<Cause>,
    },

    /// The request itself makes no sense.
    #[error("{0}")]
    BadRequest(String),

    /// The path exists, the verb does not.
    #[error("the server does not allow this method on the requested resource")]
    MethodNotAllowed,

    /// No content type that the client accepts.
    #[error("only the following media types are accepted: application/json")]
    NotAcceptable,

    /// The body is of a type that the server does not read.
    #[error(
        "the body of the request was in an unknown format - accepted media types include: {accepted}{}",
        advice.map(|advice| format!("; {advice}")).unwrap_or_default()
    )]
    UnsupportedMediaType {
        /// What it reads.
        accepted: &'static str,
        /// What to do instead, if that is known.
        advice: Option<&'static str>,
    },

    /// A patch that does not fit the object, or means nothing.
    #[error("the server rejected our request due to an error in our request")]
    BadPatch,

    /// The body is larger than the server reads.
    #[error("the request body is larger than {limit} bytes")]
    TooLarge {
        /// How much it reads.
        limit: usize,
    },

    /// A JSON patch of more operations than the server takes.
    #[error("Request entity too large: The allowed maximum operations in a JSON patch is {most}, got {got}")]
    TooManyOperations {
        /// How many it takes.
        most: usize,
        /// How many there are.
        got: usize,
    },

    /// The history that was asked for is gone.
    #[error("{why}")]
    Expired {
        /// What is too old.
        why: String,
        /// A token that goes on from the same place at the newest version.
        continue_anyway: Option<String>,
    },

    /// The version that was asked for does not exist yet.
    #[error("Timeout: Too large resource version: {asked}, current: {current}")]
    VersionTooLarge {
        /// What the client wants to see.
        asked: u64,
        /// What the server has.
        current: u64,
    },

    /// The server's own failure, or a client's mistake that Kubernetes reports like one.
    #[error("{0}")]
    Internal(String),

    /// The error of an injected fault.
    #[error("{message}")]
    Injected {
        /// The HTTP code.
        code: u16,
        /// The message.
        message: String,
        /// The seconds of `Retry-After`.
        retry_after: Option<u32>,
    },
}

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Machine-readable: `FieldValueInvalid`, `FieldValueRequired` and so on.
    pub reason: &'static str,
    /// The path of the field, such as `metadata.name`.
    pub field: Cow<'static, str>,
    /// For humans.
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

    /// The error of an injected fault.
    pub(crate) fn injected(code: u16, retry_after: Option<u32>) -> Self {
        Self::Injected { code, message: format!("injected fault with code {code}"), retry_after }
    }

    /// The parameters of a list or watch contradict each other.
    pub(crate) fn invalid_options(cause: Cause) -> Self {
        Self::invalid_meta("ListOptions", cause)
    }

    /// What a client says of the request itself is wrong.
    pub(crate) fn invalid_meta(kind: &str, cause: Cause) -> Self {
        let kind = Kind::new("meta.k8s.io", "v1", kind.to_owned(), "");
        Self::Invalid { kind: kind.into(), name: String::new(), causes: vec![cause] }
    }

    /// A watch starts before everything that the server remembers.
    pub(crate) fn version_too_old(asked: u64, oldest: u64) -> Self {
        Self::Expired { why: format!("too old resource version: {asked} ({oldest})"), continue_anyway: None }
    }

    /// The HTTP code.
    pub fn code(&self) -> u16 {
        match self {
            Self::UnknownPath | Self::UnknownKind(_) | Self::NotFound { .. } => 404,
            Self::Forbidden { .. } => 403,
            Self::DisruptionRefused { .. } => 429,
            Self::AlreadyExists { .. } | Self::Conflict { .. } => 409,
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

    /// The machine-readable reason; empty where Kubernetes gives none.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::UnknownPath | Self::UnknownKind(_) | Self::NotFound { .. } => "NotFound",
            Self::Forbidden { .. } => "Forbidden",
            Self::DisruptionRefused { .. } => "TooManyRequests",
            Self::AlreadyExists { .. } => "AlreadyExists",
            Self::Conflict { .. } => "Conflict",
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

    /// The seconds that the client is asked to wait.
    pub fn retry_after(&self) -> Option<u32> {
        match self {
            Self::VersionTooLarge { .. } => Some(1),
            Self::Injected { retry_after, .. } => *retry_after,
            Self::UnknownPath
            | Self::UnknownKind(_)
            | Self::NotFound { .. }
            | Self::AlreadyExists { .. }
            | Self::Forbidden { .. }
            | Self::DisruptionRefused { .. }
            | Self::Conflict { .. }
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

    /// The `Status` object of the answer.
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
            Self::DisruptionRefused { budget } => {
                let message = format!("The disruption budget {budget} allows no more disruptions");
                Some(json!({"causes": [{"reason": "DisruptionBudget", "message": message}]}))
            }
            Self::VersionTooLarge { .. } => {
                let cause = json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
                Some(json!({"causes": [cause]}))
            }
            Self::UnknownPath | Self::UnknownKind(_) | Self::MethodNotAllowed | Self::BadPatch => Some(json!({})),
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

/// `ConfigMap`, or `Deployment.apps`.
fn qualified(kind: &Kind) -> String {
    if kind.group.is_empty() { kind.kind.to_string() } else { format!("{}.{}", kind.kind, kind.group) }
}

fn join(causes: &[Cause]) -> String {
    let texts = causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect::<Vec<_>>();
    if texts.len() == 1 { texts.concat() } else { format!("[{}]", texts.join(", ")) }
}

/// The reason that Kubernetes gives with a code.
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
