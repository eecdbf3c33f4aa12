//! What a failure means for what comes next, and whether somebody must mend it. No other code looks at codes and texts.

use kube::core::Status;
use kube::core::response::reason;

use crate::listwatch::ListWatchError;
use crate::listwatch::Operation;
use crate::listwatch::SourceError;
use crate::listwatch::error::causes;
use crate::listwatch::frames::FrameError;

/// What a failure means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The version is too old: the server has forgotten what came after it.
    Expired,
    /// The version is one that the server has not reached yet.
    TooLarge,
    /// The version is older than one before it.
    OlderVersion,
    /// The server has another history than the one that was followed.
    HistoryChanged,
    /// The server has too much to do.
    Overloaded,
    /// Nobody listens, or can be reached.
    Refused,
    /// The connection is lost or silent.
    Lost,
    /// What came is not what it should be.
    Garbled,
    /// The server is in trouble (5xx).
    Trouble,
    /// It does not exist (404).
    NotFound,
    /// The request is one that the server does not take.
    Unsupported,
    /// Anything else.
    Other,
}

/// The cause by which servers say that a version is too large, and the phrase by which older ones do.
const TOO_LARGE_CAUSE: &str = "ResourceVersionTooLarge";
const TOO_LARGE_PHRASE: &str = "Too large resource version";

impl Meaning {
    /// Whether the same request may well succeed a little later.
    pub(crate) fn is_passing(self) -> bool {
        match self {
            Self::Overloaded | Self::Refused | Self::Lost | Self::Trouble => true,
            Self::Expired
            | Self::TooLarge
            | Self::OlderVersion
            | Self::HistoryChanged
            | Self::Garbled
            | Self::NotFound
            | Self::Unsupported
            | Self::Other => false,
        }
    }
}

impl ListWatchError {
    /// Whether the server is there and may well answer a little later, although nobody does anything about it: it is busy, or in
    /// trouble, or a connection broke. Not so if it says no, or nobody is there.
    pub fn is_transient(&self) -> bool {
        match &self.source {
            SourceError::Status { .. } if self.may_be_startup_error() => true,
            SourceError::Status { .. } => match self.source.meaning() {
                Meaning::Expired | Meaning::TooLarge | Meaning::Overloaded | Meaning::Trouble => true,
                Meaning::OlderVersion
                | Meaning::HistoryChanged
                | Meaning::Refused
                | Meaning::Lost
                | Meaning::Garbled
                | Meaning::NotFound
                | Meaning::Unsupported
                | Meaning::Other => false,
            },
            // The client cannot even say who it is.
            SourceError::Connection { .. } if self.is_of_credentials() => false,
            SourceError::Connection { .. }
            | SourceError::Silent { .. }
            | SourceError::Body(FrameError::Truncated { .. })
            | SourceError::Damaged { .. }
            | SourceError::UnreadableError
            | SourceError::ShortWatch { .. }
            | SourceError::Ended
            | SourceError::Endless { .. }
            | SourceError::EndedEarly
            | SourceError::OlderVersion { .. }
            | SourceError::HistoryUnproven { .. }
            | SourceError::HistoryChanged { .. }
            | SourceError::Inconsistent { .. } => true,
            SourceError::Refused { .. }
            | SourceError::Unreachable { .. }
            | SourceError::Redirected { .. }
            | SourceError::ContentType { .. }
            | SourceError::Compressed { .. }
            | SourceError::Body(_)
            | SourceError::WrongList { .. }
            | SourceError::NoVersion
            | SourceError::Other { .. } => false,
        }
    }

    /// Whether the request did not get to the server, or the server did not answer it at all.
    pub(crate) fn is_unreachable(&self) -> bool {
        let is_request = match self.operation {
            Operation::List | Operation::StreamList | Operation::OpenWatch | Operation::CheckHistory => true,
            Operation::Watch => false,
        };
        match &self.source {
            SourceError::Refused { .. } | SourceError::Unreachable { .. } => true,
            SourceError::Connection { .. } | SourceError::Silent { .. } => is_request && !self.is_of_credentials(),
            SourceError::Status { .. }
            | SourceError::Redirected { .. }
            | SourceError::ContentType { .. }
            | SourceError::Compressed { .. }
            | SourceError::Body(_)
            | SourceError::WrongList { .. }
            | SourceError::NoVersion
            | SourceError::Damaged { .. }
            | SourceError::UnreadableError
            | SourceError::ShortWatch { .. }
            | SourceError::Ended
            | SourceError::Endless { .. }
            | SourceError::EndedEarly
            | SourceError::OlderVersion { .. }
            | SourceError::HistoryUnproven { .. }
            | SourceError::HistoryChanged { .. }
            | SourceError::Inconsistent { .. }
            | SourceError::Other { .. } => false,
        }
    }

    /// Returns true for 403, 429 and 5xx of a server that has answered again for less than 30 s: a starting server answers so.
    pub(crate) fn may_be_startup_error(&self) -> bool {
        let may_be = match self.source.meaning() {
            Meaning::Overloaded | Meaning::Trouble => true,
            Meaning::Other => self.source.is_forbidden(),
            Meaning::Expired
            | Meaning::TooLarge
            | Meaning::OlderVersion
            | Meaning::HistoryChanged
            | Meaning::Refused
            | Meaning::Lost
            | Meaning::Garbled
            | Meaning::NotFound
            | Meaning::Unsupported => false,
        };
        self.server_may_be_starting && may_be
    }

    /// Whether the client could not get its credentials.
    fn is_of_credentials(&self) -> bool {
        let SourceError::Connection { source } = &self.source else { return false };
        matches!(source.downcast_ref(), Some(kube::Error::Auth(_)))
    }

    /// What can be done about it, if that is likely to be known.
    pub fn advice(&self) -> Option<&'static str> {
        match (self.source.meaning(), self.source.code()) {
            _ if self.may_be_startup_error() => {
                Some("the server could not be reached a moment ago and may still be starting; wait for it")
            }
            (_, Some(401)) => Some("are the client's credentials valid?"),
            (_, None) if self.is_of_credentials() => Some("are the client's credentials valid?"),
            (_, Some(403)) => Some(match self.operation {
                Operation::List | Operation::CheckHistory => "grant the client's user `list` and `watch` on it",
                Operation::StreamList | Operation::OpenWatch | Operation::Watch => {
                    "grant the client's user `watch` on it"
                }
            }),
            (Meaning::NotFound, _) => Some("is this kind installed in the cluster, in this version and scope?"),
            (_, Some(400 | 422)) => Some("are its label and field selectors right?"),
            (Meaning::Refused, _) => Some(self.advice_on_connection()),
            _ => None,
        }
    }

    /// Advice for a connection that could not be made. Certificate errors are recognised by the text of the cause.
    fn advice_on_connection(&self) -> &'static str {
        let text: String = causes(&self.source).map(|cause| cause.to_string().to_lowercase()).collect();
        let is_unknown_authority =
            ["unknownissuer", "unknown issuer", "self-signed", "self signed", "unable to get local issuer"];
        match () {
            () if is_unknown_authority.iter().any(|phrase| text.contains(phrase)) => {
                "the client does not know the authority that signed the server's certificate; give it the cluster's CA certificate"
            }
            () if text.contains("certificate") => "is the server's certificate valid, and made for this address?",
            () => "is the server running, and is its address right?",
        }
    }
}

impl SourceError {
    /// Whether the server does not allow the request.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.code() == Some(403)
    }

    /// What it means.
    pub(crate) fn meaning(&self) -> Meaning {
        match self {
            Self::Status { status, .. } => meaning_of(status),
            Self::Refused { .. } | Self::Unreachable { .. } => Meaning::Refused,
            Self::Connection { .. } | Self::Silent { .. } | Self::Body(FrameError::Truncated { .. }) => Meaning::Lost,
            Self::Body(_)
            | Self::ContentType { .. }
            | Self::Compressed { .. }
            | Self::WrongList { .. }
            | Self::NoVersion
            | Self::Damaged { .. } => Meaning::Garbled,
            Self::Endless { .. } => Meaning::Unsupported,
            Self::OlderVersion { .. } => Meaning::OlderVersion,
            Self::HistoryChanged { .. } => Meaning::HistoryChanged,
            Self::HistoryUnproven { .. } => Meaning::Expired,
            Self::Redirected { .. }
            | Self::UnreadableError
            | Self::ShortWatch { .. }
            | Self::Ended
            | Self::EndedEarly
            | Self::Inconsistent { .. }
            | Self::Other { .. } => Meaning::Other,
        }
    }
}

fn meaning_of(status: &Status) -> Meaning {
    // A reason says more than a code; a code counts if there is none.
    match status.reason.as_str() {
        "Expired" | "Gone" => return Meaning::Expired,
        "Timeout" | "ServerTimeout" if is_too_large(status) => return Meaning::TooLarge,
        "TooManyRequests" => return Meaning::Overloaded,
        "NotFound" => return Meaning::NotFound,
        _ => {}
    }
    match status.code {
        410 if !reason::is_known(&status.reason) || status.reason.is_empty() => Meaning::Expired,
        _ if status
            .details
            .as_ref()
            .is_some_and(|details| details.causes.iter().any(|cause| cause.reason == TOO_LARGE_CAUSE)) =>
        {
            Meaning::TooLarge
        }
        504 if is_too_large(status) => Meaning::TooLarge,
        429 => Meaning::Overloaded,
        404 => Meaning::NotFound,
        400 | 405 | 406 | 415 | 422 | 501 => Meaning::Unsupported,
        500..=599 => Meaning::Trouble,
        _ => Meaning::Other,
    }
}

/// Of a timeout: whether it is that of a version too large.
fn is_too_large(status: &Status) -> bool {
    let mut causes = status.details.iter().flat_map(|details| &details.causes);
    causes.any(|cause| cause.reason == TOO_LARGE_CAUSE || cause.message.contains(TOO_LARGE_PHRASE))
        || status.message.contains(TOO_LARGE_PHRASE)
}

#[cfg(test)]
mod tests {
    use kube::core::response::StatusCause;
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
    fn what_passes_by_itself_is_told_from_what_somebody_must_mend() {
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
            (SourceError::ContentType { found: "text/html".into(), beginning: String::new() }, false),
            (SourceError::Other { source: broken() }, false),
            (SourceError::Connection { source: broken() }, true),
            (SourceError::EndedEarly, true),
            (SourceError::Ended, true),
        ] {
            assert_eq!(failure(source).is_transient(), is_transient);
        }
    }

    #[test]
    fn there_is_advice_for_what_somebody_can_mend() {
        let advice = |code| failure(status(code, "", "no").into()).advice();
        assert!([400, 401, 403, 404, 422].into_iter().all(|code| advice(code).is_some()));
        assert!([410, 429, 500].into_iter().all(|code| advice(code).is_none()));
    }

    /// RE-16, RE-17, HC-21
    #[test]
    fn what_the_server_says_is_understood_in_all_its_encodings() {
        let phrase = "Too large resource version: 20, current: 10";
        let table = [
            (status(410, "Expired", ""), Meaning::Expired),
            (status(410, "Gone", ""), Meaning::Expired),
            (status(410, "", "too old resource version"), Meaning::Expired),
            (status(410, "SomethingNew", ""), Meaning::Expired),
            (status(0, "Expired", ""), Meaning::Expired),
            (status(410, "Forbidden", ""), Meaning::Other),
            (with_cause(status(504, "Timeout", ""), "ResourceVersionTooLarge", ""), Meaning::TooLarge),
            (with_cause(status(504, "Timeout", ""), "", phrase), Meaning::TooLarge),
            (status(504, "Timeout", phrase), Meaning::TooLarge),
            (status(504, "", phrase), Meaning::TooLarge),
            (status(504, "Timeout", "it took too long"), Meaning::Trouble),
            (status(500, "InternalError", phrase), Meaning::Trouble),
            (status(429, "TooManyRequests", ""), Meaning::Overloaded),
            (status(429, "", ""), Meaning::Overloaded),
            (status(404, "NotFound", ""), Meaning::NotFound),
            (status(404, "", ""), Meaning::NotFound),
            (status(500, "InternalError", ""), Meaning::Trouble),
            (status(503, "ServiceUnavailable", ""), Meaning::Trouble),
            (status(422, "Invalid", ""), Meaning::Unsupported),
            (status(400, "BadRequest", ""), Meaning::Unsupported),
            (status(405, "MethodNotAllowed", ""), Meaning::Unsupported),
            (status(401, "Unauthorized", ""), Meaning::Other),
            (status(403, "Forbidden", ""), Meaning::Other),
        ];
        for (status, meaning) in table {
            let shown = format!("{status:?}");
            assert_eq!(SourceError::from(status).meaning(), meaning, "{shown}");
        }
    }
}
