//! Prints errors with their causes: in lines for people, in one line for logs.
//!
//! - **In:** any error.
//! - **Out:** its text, with its causes and the advice of a failed request; [`Report`] for users, [`Chain`] for logs.
//! - **Knows nothing of:** where the errors come from.

use std::{borrow::Cow, error::Error as StdError, fmt, sync::Arc};

use kube::core::Status;

use super::{Error, ListWatchError, StopError, SyncError, stop, sync};

/// An error with its causes, for people: [`Display`](fmt::Display) prints one line each for the error, its causes, and the
/// suggested remedy if there is one. The alternate form `{:#}` prints all of it in one line.
///
/// Every error type of the library returns it from its method `report()`; [`Report::new`] accepts errors of other crates too.
///
/// ```
/// use informant::SharedInformerFactory;
/// use informant_apiserver::{ApiServer, Fault, On};
/// use k8s_openapi::api::core::v1::Secret;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> informant::Result<()> {
/// # let server = ApiServer::new();
/// # let client = server.client();
/// server.inject(On::any().of("secrets"), Fault::status(403));
/// let factory = SharedInformerFactory::builder(client).fail_fast().build();
/// let secrets = factory.informer::<Secret>();
/// factory.start();
///
/// let error = secrets.synced().await.unwrap_err();
/// assert_eq!(error.to_string(), "informer secrets cannot sync");
/// let report = error.report().to_string();
/// assert!(report.starts_with("informer secrets cannot sync\n  caused by: listing secrets failed\n  caused by: "));
/// assert!(report.ends_with("\n  help: grant the client's user `list` and `watch` on it"));
/// # factory.stop().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Report<'a> {
    error: &'a (dyn StdError + 'static),
}

impl<'a> Report<'a> {
    /// Reports on any error.
    pub fn new(error: &'a (dyn StdError + 'static)) -> Self {
        Self { error }
    }
}

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match f.alternate() {
            true => Chain(self.error).fmt(f),
            false => write_lines(self.error, "", f),
        }
    }
}

/// Writes an error and its causes in lines, all but the first of them indented.
fn write_lines(error: &(dyn StdError + 'static), indent: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut advice = None;
    let mut before: Option<String> = None;
    for cause in causes(error) {
        advice = advice.or(advice_of(cause));
        let (text, members) = members_of(cause).unwrap_or_else(|| (text_of(cause), Vec::new()));
        let nested = match &before {
            None => indent.to_owned(),
            // Errors of other crates often repeat their cause in their own text.
            Some(before) if before.ends_with(&text) => continue,
            Some(_) => {
                write!(f, "\n{indent}  caused by: ")?;
                format!("{indent}  ")
            }
        };
        f.write_str(&text.replace('\n', &format!("\n{nested}  ")))?;
        for member in members {
            write!(f, "\n{nested}  - ")?;
            write_lines(member, &format!("{nested}    "), f)?;
        }
        before = Some(text);
    }
    advice.map_or(Ok(()), |advice| write!(f, "\n{indent}  help: {advice}"))
}

/// Returns the headline of an error that stands for several errors, and these errors, each with causes of its own.
fn members_of<'a>(error: &'a (dyn StdError + 'static)) -> Option<(String, Vec<&'a (dyn StdError + 'static)>)> {
    if let Some(SyncError::Several { informers, errors }) = error.downcast_ref() {
        return Some((sync::headline(*informers, errors.len()), errors.iter().map(|member| member as _).collect()));
    }
    let Some(StopError::Several { errors }) = error.downcast_ref() else { return None };
    Some((stop::headline(errors.len()), errors.iter().map(|member| member as _).collect()))
}

/// Formats an error with its causes and the advice to the user in one line, for logs.
pub(crate) struct Chain<'a>(pub(crate) &'a (dyn StdError + 'static));

impl fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = text_of(inner_of(self.0));
        let mut advice = None;
        for error in causes(self.0) {
            advice = advice.or(advice_of(error));
            let cause = text_of(error);
            // Errors of other crates often repeat their cause in their own text.
            if !text.ends_with(&cause) {
                text = format!("{text}: {cause}");
            }
        }
        f.write_str(&one_line(&text))?;
        advice.map_or(Ok(()), |advice| write!(f, " ({advice})"))
    }
}

/// Iterates over an error and its causes: at most 16, so that an error that is its own source does not cause an endless loop.
pub(crate) fn causes<'a>(error: &'a (dyn StdError + 'static)) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    // The source of an error whose status `text_of` prints repeats that status.
    fn source<'a>(error: &&'a (dyn StdError + 'static)) -> Option<&'a (dyn StdError + 'static)> {
        if api_status(inner_of(*error)).is_some() { None } else { (*error).source() }
    }
    std::iter::successors(Some(error), source).map(inner_of).take(16)
}

/// The text of an error without its causes. kube's own text of a status has all its fields.
pub(crate) fn text_of(error: &(dyn StdError + 'static)) -> String {
    match api_status(error) {
        Some(status) => format!("the server answered: {}", status_line(status)),
        None => error.to_string(),
    }
}

/// The status inside of an error of `kube`.
fn api_status<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a Status> {
    let kube::Error::Api(status) = error.downcast_ref()? else { return None };
    Some(status)
}

/// The advice of an error, if it is a failed request.
pub(crate) fn advice_of(error: &(dyn StdError + 'static)) -> Option<&'static str> {
    let shared = error.downcast_ref::<Arc<ListWatchError>>().map(|error| &**error);
    error.downcast_ref::<ListWatchError>().or(shared)?.advice()
}

/// A status in one line.
pub(super) fn status_line(Status { message, reason, code, .. }: &Status) -> String {
    let reason = if reason.is_empty() { "no reason given" } else { reason };
    match message.is_empty() {
        true => format!("{reason} ({code})"),
        false => format!("{} ({reason}, {code})", one_line(message)),
    }
}

/// The error inside of an [`Error`]; any other error is returned unchanged.
pub(crate) fn inner_of<'a>(error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    error.downcast_ref::<Error>().map_or(error, Error::inner)
}

/// A text in one line: each line break, with the white space around it, becomes a space. Messages of servers, panics and other crates may
/// have several lines.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    if !text.contains(['\n', '\r']) {
        return text.into();
    }
    let lines = text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(" ").into()
}

/// Formats several errors with their causes, in one line.
pub(super) fn in_one_line<E: StdError + 'static>(errors: &[E]) -> String {
    errors.iter().map(|error| Chain(error).to_string()).collect::<Vec<_>>().join("; ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{
        error::{IndexError, SourceError},
        listwatch::Operation,
        object::DecodeError,
    };

    fn forbidden() -> ListWatchError {
        let source = SourceError::from(Status::failure("so it is", "Forbidden").with_code(403));
        ListWatchError { operation: Operation::List, resource: "pods".into(), source, server_may_be_starting: false }
    }

    fn unsynced() -> Vec<SyncError> {
        let within = Duration::from_secs(2);
        vec![
            SyncError::Permanent { informer: "pods".into(), reason: Arc::new(forbidden()) },
            SyncError::TimedOut { informer: "nodes".into(), within, objects: 3, reason: None },
        ]
    }

    /// What follows the first line in the report on [`forbidden`].
    fn causes_of_forbidden(indent: &str) -> String {
        let causes = causes(&forbidden()).map(|cause| format!("\n{indent}  caused by: {cause}")).collect::<String>();
        format!("{causes}\n{indent}  help: {}", forbidden().advice().unwrap())
    }

    #[test]
    fn a_report_has_a_line_for_the_error_and_for_each_cause_and_ends_with_advice() {
        let error = SyncError::Permanent { informer: "pods".into(), reason: Arc::new(forbidden()) };
        let expected = format!("informer pods cannot sync{}", causes_of_forbidden(""));

        assert_eq!(error.report().to_string(), expected);
        assert_eq!(expected.lines().count(), 4, "{expected}");
        assert_eq!(error.to_string(), "informer pods cannot sync");
    }

    #[test]
    fn the_debug_text_of_an_error_names_the_variant_to_match() {
        let error = SyncError::Permanent { informer: "pods".into(), reason: Arc::new(forbidden()) };

        let debug = format!("{:?}", Error::from(error));
        assert!(
            debug.starts_with(r#"Sync(Permanent { informer: "pods", reason: ListWatchError { operation: List"#),
            "{debug}"
        );
    }

    #[test]
    fn a_report_of_several_errors_has_an_item_for_each_with_its_causes() {
        let error = Error::from(SyncError::several(5, unsynced()).unwrap_err());

        let expected = format!(
            "2 of 5 informers are not synced\n  - informer nodes is not synced after 2s; 3 objects received so far\n  - informer \
             pods cannot sync{}",
            causes_of_forbidden("    ")
        );
        assert_eq!(error.report().to_string(), expected);
        assert_eq!(error.to_string().lines().count(), 1, "{error}");
    }

    #[test]
    fn the_alternate_report_is_one_line_with_causes_and_advice() {
        let error = Error::from(forbidden());

        let line = format!("{:#}", error.report());

        assert_eq!(line, Chain(&forbidden()).to_string());
        assert!(line.ends_with("(grant the client's user `list` and `watch` on it)"), "{line}");
    }

    #[test]
    fn an_error_shows_the_text_and_the_source_of_the_error_inside() {
        let error = Error::from(forbidden());

        assert_eq!(error.to_string(), forbidden().to_string());
        assert_eq!(error.source().unwrap().to_string(), forbidden().source.to_string());
        assert!(error.inner().is::<ListWatchError>());
    }

    #[test]
    fn errors_are_printed_in_one_line_also_if_a_message_of_a_server_or_a_panic_has_several() {
        let message = "denied:\n  - no\r\n\n- never";
        let status = Status::failure(message, "Forbidden").with_code(403);
        let kube = kube::Error::Api(Box::new(status.clone()));
        let panicked =
            IndexError::Panicked { index: "node".into(), key: "shop/web".parse().unwrap(), message: message.into() };
        let stopped =
            SyncError::Stopped { informer: "pods".into(), handler: None, crash: Some(message.into()), reason: None };
        let other = SourceError::other(message);
        let key = || "shop/web".parse().unwrap();
        let wrong = DecodeError::WrongType { key: key(), expected: "v1, Pod".into(), found: message.into() };
        let source = serde_json::from_str::<u8>("x").unwrap_err();
        let field = DecodeError::Field { key: key(), path: message.into(), source };
        let errors: [Error; 7] = [
            SourceError::from(status).into(),
            kube.into(),
            panicked.into(),
            stopped.into(),
            other.into(),
            wrong.into(),
            field.into(),
        ];

        assert_eq!(
            format!("{:#}", errors[1].report()),
            errors[1].to_string(),
            "kube's text of a status is not repeated"
        );
        for error in errors {
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
            let line = format!("{:#}", error.report());
            assert_eq!(line.lines().count(), 1, "{line}");
            assert!(line.contains("denied: - no - never"), "{line}");
        }
        let problem = crate::informer::Problem::Stopped { informer: "pods".into(), crash: Some(message.into()) };
        assert_eq!(problem.to_string(), "informer pods has stopped: denied: - no - never");
    }

    #[test]
    fn a_report_prints_a_cause_once_and_indents_texts_of_several_lines() {
        #[derive(Debug, thiserror::Error)]
        #[error("no luck\nat all: {0}")]
        struct Wordy(#[source] std::io::Error);

        let error = SourceError::other(Wordy(std::io::Error::other("refused")));

        let report = error.report().to_string();
        assert!(report.ends_with("\n  caused by: no luck\n    at all: refused"), "{report}");
    }

    #[test]
    fn a_report_on_an_error_of_another_crate_includes_errors_of_the_library_among_its_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("set-up failed")]
        struct SetUp(#[from] Error);

        let inside = StopError::InsideCallback { informer: "pods".into(), handler: None };
        let error = SetUp::from(Error::from(StopError::Several { errors: vec![inside] }));

        assert_eq!(
            Report::new(&error).to_string(),
            "set-up failed\n  caused by: 1 informer has not stopped\n    - a callback of informer pods cannot wait for the informer to stop; \
             it stops when the callback returns"
        );
    }

    #[test]
    fn an_error_is_small_enough_to_be_returned_by_value() {
        assert!(size_of::<Error>() <= 128, "{}", size_of::<Error>());
    }

    #[test]
    fn an_error_is_one_line_with_the_failed_request_and_the_cause() {
        let source = SourceError::from(Status::failure("pods is forbidden", "Forbidden").with_code(403));
        let error = ListWatchError {
            operation: Operation::List,
            resource: "pods".into(),
            source,
            server_may_be_starting: false,
        };

        assert_eq!(
            Chain(&error).to_string(),
            "listing pods failed: the server answered: pods is forbidden (Forbidden, 403) (grant the client's user `list` and `watch` on \
             it)"
        );
    }

    #[test]
    fn a_chain_prints_a_cause_once_even_if_the_error_contains_its_text() {
        #[derive(Debug, thiserror::Error)]
        #[error("no connection: {0}")]
        struct Wordy(#[source] std::io::Error);

        let source = SourceError::Refused { source: Wordy(std::io::Error::other("refused")).into() };

        assert_eq!(Chain(&source).to_string(), "the connection was refused: no connection: refused");
    }
}
