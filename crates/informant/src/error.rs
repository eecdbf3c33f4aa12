//! One error type for all of the library, and errors as text that people can read.
//!
//! - **In:** the error types of all stages.
//! - **Out:** [`Error`], into which each of them converts with `?`; [`Report`], which prints an error with its causes.
//! - **Knows nothing of:** when errors happen, and what the library does about them.
//!
//! Every call of the library returns the error type of its stage, so that a program can match on the few things that can go wrong there.
//! A program that only passes errors on uses [`Error`]:
//!
//! ```
//! use informant::{Key, SharedInformerFactory};
//! use informant_apiserver::ApiServer;
//! use k8s_openapi::api::core::v1::ConfigMap;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! async fn main() -> informant::Result<()> {
//!     // An API server for examples and tests; with a cluster, this is `kube::Client::try_default().await?`.
//! #   let server = ApiServer::new();
//! #   server.put("configmaps", serde_json::json!({"metadata": {"namespace": "shop", "name": "opening-hours"}})).unwrap();
//!     let client = server.client();
//!     let factory = SharedInformerFactory::new(client);
//!     let configs = factory.informer::<ConfigMap>();
//!     configs.add_handler(informant::Handler::new())?; // AddHandlerError
//!     factory.start();
//!     factory.synced().await?; // SyncErrors
//!     let key: Key = "shop/opening-hours".parse()?; // ParseKeyError
//!     configs.lister().require(&key)?; // NotFound
//!     factory.stop().await?; // StopErrors
//!     Ok(())
//! }
//! ```
//!
//! # Text
//!
//! | how | what it prints | for |
//! | --- | --- | --- |
//! | `{error}` | one line, without the causes | `tracing` fields and error types that print causes themselves |
//! | `{error:?}` | one line each for the error, its causes and the suggested remedy | errors that `main` returns, `unwrap`, `expect` |
//! | `{}` of [`report()`](Error::report) | the same | logs and health pages |
//! | `{:#}` of [`report()`](Error::report) | the same in one line | logs with one line per entry, fields of JSON |

use std::{error::Error as StdError, fmt};

use crate::{
    factory::{DiscoveryError, RequestError},
    informer::{AddHandlerError, AlreadyStarted, StopError, StopErrors, SyncError, SyncErrors, WaitError},
    listwatch::{Chain, ListWatchError, ScopeError, SourceError, advice_of, causes, frames::FrameError, text_of},
    object::{DecodeError, FieldPathError, NotComparable, ParseKeyError},
    process_loop::ProcessError,
    queue::Closed,
    store::{ApiSelectorError, DuplicateIndex, IndexPanic, NotFound, ParseSelectorError, UnknownIndex},
    subscribers::{NotCaughtUp, NotSynced, StopHandlerError},
    view::ViewError,
};

/// A `Result` whose error is [`Error`] unless another one is given.
pub type Result<T, E = Error> = std::result::Result<T, E>;

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
#[derive(Clone, Copy)]
pub struct Report<'a> {
    error: &'a (dyn StdError + 'static),
}

impl<'a> Report<'a> {
    /// Reports on any error.
    pub fn new(error: &'a (dyn StdError + 'static)) -> Self {
        Self { error }
    }
}

/// The error inside of an [`Error`]; any other error is returned unchanged.
pub(crate) fn inner_of<'a>(error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    error.downcast_ref::<Error>().map_or(error, Error::inner)
}

/// A text in one line: each line break, with the white space around it, becomes a space. Messages of servers, panics and other crates may
/// have several lines.
pub(crate) struct OneLine<'a>(pub(crate) &'a str);

impl fmt::Display for OneLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(text) = self;
        if !text.contains(['\n', '\r']) {
            return f.write_str(text);
        }
        let lines = text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty());
        for (position, line) in lines.enumerate() {
            f.write_str(if position > 0 { " " } else { "" })?;
            f.write_str(line)?;
        }
        Ok(())
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

/// As [`Display`](fmt::Display).
impl fmt::Debug for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writes an error and its causes in lines, all but the first of them indented.
fn write_lines(error: &(dyn StdError + 'static), indent: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut advice = None;
    let mut before: Option<String> = None;
    for cause in causes(error) {
        advice = advice.or(advice_of(cause));
        let group = ErrorGroup::of(cause);
        let text = group.as_ref().map_or_else(|| text_of(cause), |group| group.headline.clone());
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
        for member in group.into_iter().flat_map(|group| group.members) {
            write!(f, "\n{nested}  - ")?;
            write_lines(member, &format!("{nested}    "), f)?;
        }
        before = Some(text);
    }
    match advice {
        Some(advice) => write!(f, "\n{indent}  help: {advice}"),
        None => Ok(()),
    }
}

/// An error that stands for several errors, each with causes of its own.
struct ErrorGroup<'a> {
    headline: String,
    members: Vec<&'a (dyn StdError + 'static)>,
}

impl<'a> ErrorGroup<'a> {
    fn of(error: &'a (dyn StdError + 'static)) -> Option<Self> {
        if let Some(sync) = error.downcast_ref::<SyncErrors>() {
            return Some(Self::new(sync.headline(), &sync.errors));
        }
        let stop = error.downcast_ref::<StopErrors>()?;
        Some(Self::new(stop.headline(), &stop.errors))
    }

    fn new<E: StdError + 'static>(headline: String, members: &'a [E]) -> Self {
        Self { headline, members: members.iter().map(|member| member as _).collect() }
    }
}

/// Declares [`Error`] with a variant for each error type, and gives each type its conversion, its `Debug` and its `report`.
macro_rules! error_types {
    ($($(#[$doc:meta])* $variant:ident($type:ident),)+) => {
        /// Any error of the library. Every other error type of the library converts into it with `?`.
        ///
        /// `Display`, `source()` and [`report()`](Self::report) are those of the error inside. See [the module](self) for an example and for
        /// the ways to print an error.
        #[non_exhaustive]
        pub enum Error {
            $($(#[$doc])* $variant($type),)+
            /// A request that the program made itself with `kube`. The library returns no such error; the variant exists so that a
            /// function that uses both can return [`Error`].
            Kube(Box<kube::Error>),
            /// Any other error of the program itself, from [`Error::other`]. The library returns no such error.
            Other(Box<dyn StdError + Send + Sync>),
        }

        impl Error {
            /// The error inside, for example for a `downcast_ref`.
            pub fn inner(&self) -> &(dyn StdError + 'static) {
                match self {
                    $(Self::$variant(error) => error,)+
                    Self::Kube(error) => &**error,
                    Self::Other(error) => &**error,
                }
            }
        }

        $(impl From<$type> for Error {
            fn from(error: $type) -> Self {
                Self::$variant(error)
            }
        })+

        error_types!(@readable Error, $($type,)+);
    };
    (@readable $($type:ident,)+) => {$(
        impl $type {
            /// Returns the error with its causes as text, one line each; with `{:#}`, all of it in one line.
            pub fn report(&self) -> Report<'_> {
                Report::new(self)
            }
        }

        /// The error with its causes, one line each: so it is printed when `main` returns it.
        impl fmt::Debug for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.report(), f)
            }
        }
    )+};
}

error_types! {
    /// A handler or a stream could not be added.
    AddHandler(AddHandlerError),
    /// A setting came after the informer was started.
    AlreadyStarted(AlreadyStarted),
    /// A `LabelSelector` of the Kubernetes API has an invalid operator.
    ApiSelector(ApiSelectorError),
    /// A queue is closed.
    Closed(Closed),
    /// The body of a list or a watch could not be cut into objects.
    Cut(FrameError),
    /// An object could not be decoded.
    Decode(DecodeError),
    /// A kind could not be found on the server.
    Discovery(DiscoveryError),
    /// An index of that name exists.
    DuplicateIndex(DuplicateIndex),
    /// A text is not the path of a field.
    FieldPath(FieldPathError),
    /// An index function panicked.
    IndexPanic(IndexPanic),
    /// A list or a watch failed.
    ListWatch(ListWatchError),
    /// A handler will not receive all events up to a version.
    NotCaughtUp(NotCaughtUp),
    /// Two resource versions have no order.
    NotComparable(NotComparable),
    /// The cache does not have an object.
    NotFound(NotFound),
    /// A handler will never receive all of the initial list.
    NotSynced(NotSynced),
    /// A text is not a key.
    ParseKey(ParseKeyError),
    /// A text is not a label selector.
    ParseSelector(ParseSelectorError),
    /// A process function failed.
    Process(ProcessError),
    /// A factory cannot build an informer or a view.
    Request(RequestError),
    /// A kind cannot be watched in that namespace.
    Scope(ScopeError),
    /// A source could not do what was requested.
    Source(SourceError),
    /// An informer did not stop in time.
    Stop(StopError),
    /// A handler did not end in time, or the callback that called cannot wait for its end.
    StopHandler(StopHandlerError),
    /// Some of several informers did not stop in time.
    StopErrors(StopErrors),
    /// An informer is not synced.
    Sync(SyncError),
    /// Some of several informers are not synced.
    SyncErrors(SyncErrors),
    /// No index has that name.
    UnknownIndex(UnknownIndex),
    /// Informers cannot be combined into a view.
    View(ViewError),
    /// The cache did not reach the awaited state.
    Wait(WaitError),
}

impl Error {
    /// Wraps an error of the program itself, so that a function that returns [`Error`] can pass on errors of other crates. Accepts
    /// every error type, and texts.
    ///
    /// ```
    /// use informant::Error;
    ///
    /// fn replicas(text: &str) -> informant::Result<u32> {
    ///     let replicas = text.parse().map_err(Error::other)?;
    ///     if replicas == 0 {
    ///         return Err(Error::other("at least one replica is needed"));
    ///     }
    ///     Ok(replicas)
    /// }
    ///
    /// assert_eq!(replicas("0").unwrap_err().to_string(), "at least one replica is needed");
    /// assert_eq!(replicas("two").unwrap_err().to_string(), "invalid digit found in string");
    /// ```
    pub fn other(error: impl Into<Box<dyn StdError + Send + Sync>>) -> Self {
        Self::Other(error.into())
    }
}

/// For programs that write a [status](crate::informer::InformerStatus) as JSON, or read their own; it becomes [`Other`](Error::Other).
///
/// ```
/// use informant::SharedInformerFactory;
/// use informant_apiserver::ApiServer;
/// use k8s_openapi::api::core::v1::Pod;
///
/// # #[tokio::main(flavor = "current_thread")]
/// async fn main() -> informant::Result<()> {
/// #   let server = ApiServer::new();
///     let factory = SharedInformerFactory::new(server.client());
///     factory.informer::<Pod>();
///     println!("{}", serde_json::to_string(&factory.status())?);
///     Ok(())
/// }
/// ```
impl From<serde_json::Error> for Error {
    fn from(error: serde_json::Error) -> Self {
        Self::other(error)
    }
}

/// For requests that a program makes with `kube` itself.
impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::Kube(Box::new(error))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Kube(error) = self {
            return OneLine(&text_of(&**error)).fmt(f);
        }
        // The library's own errors have one line.
        fmt::Display::fmt(self.inner(), f)
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.inner().source()
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use kube::core::Status;

    use super::*;
    use crate::listwatch::Operation;

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
    fn the_debug_text_of_an_error_is_its_report_in_lines() {
        let error = SyncError::Permanent { informer: "pods".into(), reason: Arc::new(forbidden()) };
        let expected = format!("informer pods cannot sync{}", causes_of_forbidden(""));

        assert_eq!(format!("{error:?}"), expected);
        assert_eq!(error.report().to_string(), expected);
        assert_eq!(expected.lines().count(), 4, "{expected}");
        assert_eq!(error.to_string(), "informer pods cannot sync");
    }

    #[test]
    fn a_report_of_several_errors_has_an_item_for_each_with_its_causes() {
        let error = Error::from(SyncErrors::new(5, unsynced()));

        let expected = format!(
            "2 of 5 informers are not synced\n  - informer nodes is not synced after 2s; 3 objects received so far\n  - informer \
             pods cannot sync{}",
            causes_of_forbidden("    ")
        );
        assert_eq!(format!("{error:?}"), expected);
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
        let panicked = IndexPanic { index: "node".into(), key: "shop/web".parse().unwrap(), message: message.into() };
        let stopped = SyncError::Stopped { informer: "pods".into(), crash: Some(message.into()), reason: None };
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

        let report = format!("{error:?}");
        assert!(report.ends_with("\n  caused by: no luck\n    at all: refused"), "{report}");
    }

    #[test]
    fn a_report_on_an_error_of_another_crate_includes_errors_of_the_library_among_its_causes() {
        #[derive(Debug, thiserror::Error)]
        #[error("set-up failed")]
        struct SetUp(#[from] Error);

        let error = SetUp::from(Error::from(StopErrors {
            errors: vec![StopError::InsideCallback { informer: "pods".into() }],
        }));

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
}
