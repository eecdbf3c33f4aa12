//! Classifies failures: what the reflector does next depends on the class. No other code reads status codes and messages.
//!
//! - **In:** a [`SourceError`], or a [`ListWatchError`] with the request that failed.
//! - **Out:** its [`ErrorClass`], whether it may pass by itself, and advice for the user.
//! - **Knows nothing of:** what the reflector does about it.

use kube::core::{
    Status,
    response::{StatusCause, reason},
};

use crate::{
    error::causes,
    listwatch::{ListWatchError, Operation, SourceError, frames::FrameError},
    object::DecodeError,
};

/// The class of an error, which decides what the reflector does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ErrorClass {
    /// The version is too old: the server has compacted the history after it.
    Expired,
    /// The server has not reached the requested version yet.
    TooLarge,
    /// The version of an event or list is older than the version that the reflector has reached.
    OlderVersion,
    /// The server does not have the history that the reflector followed.
    HistoryChanged,
    /// The server has too many requests (429).
    Overloaded,
    /// The server cannot be reached, or refuses the connection.
    Unreachable,
    /// The connection broke, or no bytes arrive on it.
    ConnectionLost,
    /// The response is not a valid list or watch of this kind.
    InvalidResponse,
    /// The server failed to process the request (5xx).
    ServerError,
    /// The server does not have the kind or the object (404).
    NotFound,
    /// The server does not support the request (such as 400, 405, 422).
    Unsupported,
    /// Any other error, such as 401 and 403.
    Other,
}

/// When a request that failed is made again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryRule {
    /// It did not reach the server: one reflector of the client retries.
    Unreachable,
    /// The server refuses all requests of the client (401, 429): one reflector of the client retries.
    OfClient,
    /// The storage fails (5xx): one reflector of the storage retries.
    OfStorage,
    /// The server refuses this request (403, 404): the reflector retries.
    Alone,
    /// Any other failure: the reflector retries with growing delays.
    Backoff,
}

/// The cause of a status whose version is too large.
const TOO_LARGE_CAUSE: &str = "ResourceVersionTooLarge";
/// The phrase in the message of such a status, for older servers, which send no cause.
const TOO_LARGE_PHRASE: &str = "Too large resource version";

impl ErrorClass {
    /// Returns true if the server is down or fails (5xx): when it works again, it may have been restored from a backup.
    pub(crate) fn is_outage(self) -> bool {
        matches!(self, Self::Unreachable | Self::ConnectionLost | Self::ServerError)
    }
}

impl ListWatchError {
    /// Returns true if a retry may succeed without any action of an operator: the server is overloaded, starting or failing, or the connection
    /// broke, or the version expired.
    ///
    /// Returns false if the server refuses the request (such as 401, 403, 404, 422), cannot be reached at all, or sends responses that are not
    /// valid. An informer that [fails fast](crate::InformerBuilder::fail_fast) returns such errors from `synced()`.
    pub fn is_transient(&self) -> bool {
        match self.source.class() {
            ErrorClass::Expired
            | ErrorClass::TooLarge
            | ErrorClass::OlderVersion
            | ErrorClass::HistoryChanged
            | ErrorClass::Overloaded
            | ErrorClass::ServerError => true,
            ErrorClass::Unreachable => false,
            ErrorClass::ConnectionLost => !self.is_credentials_error(),
            ErrorClass::InvalidResponse => matches!(self.source, SourceError::Damaged { .. }),
            ErrorClass::Unsupported => matches!(self.source, SourceError::Endless { .. }),
            ErrorClass::NotFound | ErrorClass::Other => {
                use SourceError::{Other, Redirected, Status};
                self.may_be_startup_error() || !matches!(self.source, Status { .. } | Redirected { .. } | Other { .. })
            }
        }
    }

    /// Returns true if the request did not reach the server, or the server did not answer it at all.
    pub(crate) fn is_unreachable(&self) -> bool {
        let is_refused = matches!(self.source, SourceError::Refused { .. } | SourceError::Unreachable { .. });
        let is_unanswered = matches!(self.source, SourceError::Connection { .. } | SourceError::Silent { .. });
        is_refused || (is_unanswered && self.operation != Operation::Watch && !self.is_credentials_error())
    }

    /// Returns when the request is made again.
    pub(crate) fn retry_rule(&self) -> RetryRule {
        let class = self.source.class();
        match self.source.code() {
            _ if self.is_unreachable() => RetryRule::Unreachable,
            // A watch that opens and then fails must not be opened again and again.
            _ if self.operation == Operation::Watch => RetryRule::Backoff,
            _ if self.is_credentials_error() || class == ErrorClass::Overloaded => RetryRule::OfClient,
            _ if class == ErrorClass::ServerError => RetryRule::OfStorage,
            Some(401) => RetryRule::OfClient,
            Some(403 | 404) => RetryRule::Alone,
            _ => RetryRule::Backoff,
        }
    }

    /// Returns true for 403, 429 and 5xx within 30 s after the server could not be reached: a starting server may send them.
    pub(crate) fn may_be_startup_error(&self) -> bool {
        let class = self.source.class();
        let is_server_failure = matches!(class, ErrorClass::Overloaded | ErrorClass::ServerError);
        self.server_may_be_starting && (is_server_failure || (class == ErrorClass::Other && self.source.is_forbidden()))
    }

    /// Returns true if the client could not get its credentials.
    fn is_credentials_error(&self) -> bool {
        let SourceError::Connection { source } = &self.source else { return false };
        matches!(source.downcast_ref(), Some(kube::Error::Auth(_)))
    }

    /// Returns advice on how to fix the cause, if the error has a likely cause.
    pub fn advice(&self) -> Option<&'static str> {
        let class = self.source.class();
        match self.source.code() {
            _ if self.may_be_startup_error() => {
                Some("the server could not be reached a moment ago and may still be starting; wait for it")
            }
            code if code == Some(401) || self.is_credentials_error() => Some("are the client's credentials valid?"),
            Some(403) => Some(match self.operation {
                Operation::List | Operation::CheckHistory => "grant the client's user `list` and `watch` on it",
                Operation::StreamList | Operation::OpenWatch | Operation::Watch | Operation::Pack => {
                    "grant the client's user `watch` on it"
                }
            }),
            _ if class == ErrorClass::NotFound => {
                Some("is this kind installed in the cluster, in this version and scope?")
            }
            Some(400 | 422) => Some("are its label and field selectors right?"),
            _ if class == ErrorClass::Unreachable => Some(self.advice_on_connection()),
            _ => None,
        }
    }

    /// Advice for a connection that could not be made. Certificate errors are recognised by the text of the cause.
    fn advice_on_connection(&self) -> &'static str {
        let text: String = causes(&self.source).map(|cause| cause.to_string().to_lowercase()).collect();
        let unknown_authority_phrases =
            ["unknownissuer", "unknown issuer", "self-signed", "self signed", "unable to get local issuer"];
        match () {
            () if unknown_authority_phrases.iter().any(|phrase| text.contains(phrase)) => {
                "the client does not know the authority that signed the server's certificate; give it the cluster's CA certificate"
            }
            () if text.contains("certificate") => "is the server's certificate valid, and made for this address?",
            () => "is the server running, and is its address right?",
        }
    }
}

impl SourceError {
    /// Returns true for 403.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// Returns the class of the error.
    pub(crate) fn class(&self) -> ErrorClass {
        match self {
            Self::Status { status, .. } => class_of(status),
            Self::Refused { .. } | Self::Unreachable { .. } => ErrorClass::Unreachable,
            Self::Connection { .. } | Self::Silent { .. } | Self::Body(FrameError::Truncated { .. }) => {
                ErrorClass::ConnectionLost
            }
            // A new watch would deliver the same object.
            Self::Damaged { source } if matches!(**source, DecodeError::TooLarge { .. }) => ErrorClass::Other,
            Self::Body(_) | Self::Unexpected { .. } | Self::NoVersion | Self::Damaged { .. } => {
                ErrorClass::InvalidResponse
            }
            Self::Endless { .. } => ErrorClass::Unsupported,
            Self::OlderVersion { .. } => ErrorClass::OlderVersion,
            Self::HistoryChanged { .. } => ErrorClass::HistoryChanged,
            Self::HistoryUnproven { .. } => ErrorClass::Expired,
            Self::Redirected { .. }
            | Self::UnknownEvent { .. }
            | Self::UnreadableError
            | Self::ShortWatch { .. }
            | Self::Ended
            | Self::EndedEarly
            | Self::CacheDiffers { .. }
            | Self::MemoryExceeded { .. }
            | Self::Other { .. } => ErrorClass::Other,
        }
    }
}

fn class_of(status: &Status) -> ErrorClass {
    // The reason is more specific than the code, so it is examined first.
    match status.reason.as_str() {
        "Expired" | "Gone" => return ErrorClass::Expired,
        "Timeout" | "ServerTimeout" if is_too_large(status) => return ErrorClass::TooLarge,
        "TooManyRequests" => return ErrorClass::Overloaded,
        "NotFound" => return ErrorClass::NotFound,
        _ => {}
    }
    match status.code {
        410 if !reason::is_known(&status.reason) || status.reason.is_empty() => ErrorClass::Expired,
        _ if causes_of(status).any(|cause| cause.reason == TOO_LARGE_CAUSE) => ErrorClass::TooLarge,
        504 if is_too_large(status) => ErrorClass::TooLarge,
        429 => ErrorClass::Overloaded,
        404 => ErrorClass::NotFound,
        400 | 405 | 406 | 415 | 422 | 501 => ErrorClass::Unsupported,
        500..=599 => ErrorClass::ServerError,
        _ => ErrorClass::Other,
    }
}

fn causes_of(status: &Status) -> impl Iterator<Item = &StatusCause> {
    status.details.iter().flat_map(|details| &details.causes)
}

/// Returns true if a timeout status means that the requested version is too large.
fn is_too_large(status: &Status) -> bool {
    causes_of(status).any(|cause| cause.reason == TOO_LARGE_CAUSE || cause.message.contains(TOO_LARGE_PHRASE))
        || status.message.contains(TOO_LARGE_PHRASE)
}

#[cfg(test)]
mod tests {
    use kube::core::response::StatusDetails;

    use super::*;

    fn status(code: u16, reason: &str, message: &str) -> Status {
        Status::failure(message, reason).with_code(code)
    }

    fn with_cause(status: Status, reason: &str, message: &str) -> Status {
        let cause = StatusCause { reason: reason.into(), message: message.into(), field: String::new() };
        let details = StatusDetails {
            name: String::new(),
            group: String::new(),
            kind: String::new(),
            uid: String::new(),
            causes: vec![cause],
            retry_after_seconds: 0,
        };
        status.with_details(details)
    }

    fn failure(source: SourceError) -> ListWatchError {
        ListWatchError { operation: Operation::List, resource: "pods".into(), source, server_may_be_starting: false }
    }

    #[test]
    fn is_transient_distinguishes_errors_that_a_retry_can_fix() {
        let broken = || Box::new(std::io::Error::other("broken"));
        for (code, is_transient) in [(401, false), (403, false), (404, false), (400, false), (405, false), (422, false)]
            .into_iter()
            .chain([(410, true), (429, true), (500, true), (503, true)])
        {
            assert_eq!(failure(status(code, "", "no").into()).is_transient(), is_transient, "{code}");
        }
        for (source, is_transient) in [
            (SourceError::Refused { source: broken() }, false),
            (SourceError::Unreachable { source: broken() }, false),
            (SourceError::Redirected { code: 302, location: "elsewhere".into() }, false),
            (SourceError::Unexpected { found: "a page".into() }, false),
            (SourceError::Other { source: broken() }, false),
            (SourceError::Connection { source: broken() }, true),
            (SourceError::EndedEarly, true),
            (SourceError::Ended, true),
        ] {
            assert_eq!(failure(source).is_transient(), is_transient);
        }
    }

    #[test]
    fn advice_exists_for_errors_that_the_user_can_fix() {
        let advice = |code| failure(status(code, "", "no").into()).advice();
        assert!([400, 401, 403, 404, 422].into_iter().all(|code| advice(code).is_some()));
        assert!([410, 429, 500].into_iter().all(|code| advice(code).is_none()));
    }

    /// RE-16, RE-17, HC-21
    #[test]
    fn the_error_class_of_a_status_follows_from_its_reason_cause_message_or_code() {
        let phrase = "Too large resource version: 20, current: 10";
        let table = [
            (status(410, "Expired", ""), ErrorClass::Expired),
            (status(410, "Gone", ""), ErrorClass::Expired),
            (status(410, "", "too old resource version"), ErrorClass::Expired),
            (status(410, "SomethingNew", ""), ErrorClass::Expired),
            (status(0, "Expired", ""), ErrorClass::Expired),
            (status(410, "Forbidden", ""), ErrorClass::Other),
            (with_cause(status(504, "Timeout", ""), "ResourceVersionTooLarge", ""), ErrorClass::TooLarge),
            (with_cause(status(504, "Timeout", ""), "", phrase), ErrorClass::TooLarge),
            (status(504, "Timeout", phrase), ErrorClass::TooLarge),
            (status(504, "", phrase), ErrorClass::TooLarge),
            (status(504, "Timeout", "it took too long"), ErrorClass::ServerError),
            (status(500, "InternalError", phrase), ErrorClass::ServerError),
            (status(429, "TooManyRequests", ""), ErrorClass::Overloaded),
            (status(429, "", ""), ErrorClass::Overloaded),
            (status(404, "NotFound", ""), ErrorClass::NotFound),
            (status(404, "", ""), ErrorClass::NotFound),
            (status(500, "InternalError", ""), ErrorClass::ServerError),
            (status(503, "ServiceUnavailable", ""), ErrorClass::ServerError),
            (status(422, "Invalid", ""), ErrorClass::Unsupported),
            (status(400, "BadRequest", ""), ErrorClass::Unsupported),
            (status(405, "MethodNotAllowed", ""), ErrorClass::Unsupported),
            (status(401, "Unauthorized", ""), ErrorClass::Other),
            (status(403, "Forbidden", ""), ErrorClass::Other),
        ];
        for (status, class) in table {
            let shown = format!("{status:?}");
            assert_eq!(SourceError::from(status).class(), class, "{shown}");
        }
    }
}
