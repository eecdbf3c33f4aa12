//! One error type for all of the library, and errors as text that people can read.
//!
//! There is an error type for each thing that a program can do about an error: fix the request ([`RequestError`], [`ParseError`],
//! [`IndexError`]), wait longer or report what is missing ([`SyncError`], [`WaitError`], [`StopError`]), look at the server
//! ([`ListWatchError`]) or at an object ([`DecodeError`], [`NotFound`]). A program that only passes errors on uses [`Error`]:
//!
//! ```
//! use informant::{Key, SharedInformerFactory};
//! use informant_apiserver::ApiServer;
//! use k8s_openapi::api::core::v1::ConfigMap;
//!
//! async fn run() -> informant::Result<()> {
//!     // An API server for examples and tests; with a cluster, this is `kube::Client::try_default().await?`.
//! #   let server = ApiServer::new();
//! #   server.put("configmaps", serde_json::json!({"metadata": {"namespace": "shop", "name": "opening-hours"}})).unwrap();
//!     let client = server.client();
//!     let factory = SharedInformerFactory::new(client);
//!     let configs = factory.informer::<ConfigMap>();
//!     configs.subscribe().register()?; // RequestError
//!     factory.start();
//!     factory.synced().await?; // SyncError
//!     let key: Key = "shop/opening-hours".parse()?; // ParseError
//!     configs.lister().require(&key)?; // NotFound
//!     factory.stop().await?; // StopError
//!     Ok(())
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! if let Err(error) = run().await {
//!     eprintln!("{}", error.report()); // with the causes, and what to do about them
//!     std::process::exit(1);
//! }
//! # }
//! ```
//!
//! # Text
//!
//! | how | what it prints | for |
//! | --- | --- | --- |
//! | `{error}` | one line, without the causes | `tracing` fields and error types that print causes themselves |
//! | `{}` of [`report()`](Error::report) | one line each for the error, its causes and the suggested remedy | people: terminals, logs, health pages |
//! | `{:#}` of [`report()`](Error::report) | the same in one line | logs with one line per entry, fields of JSON |
//! | `{error:?}` | the variant with its fields | programmers: a failing test shows what to match |

mod cache; // errors of reads and indexes
mod list_watch; // errors of lists and watches
mod parse; // errors of texts
mod report; // prints errors with their causes
mod request; // errors of requests
mod stop; // errors of waits for an end
mod sync; // errors of waits for the initial list
mod wait; // errors of waits for a state

use std::{error::Error as StdError, fmt};

use crate::{listwatch::frames::FrameError, process_loop::ProcessError, queue::Closed};

use self::report::text_of;
pub(crate) use self::report::{Chain, causes, one_line};
pub use self::{
    cache::{IndexError, NotFound},
    list_watch::{ListWatchError, Operation, SourceError},
    parse::ParseError,
    report::Report,
    request::RequestError,
    stop::StopError,
    sync::SyncError,
    wait::{ScopeMismatch, WaitError, WaitTarget},
};
pub use crate::object::{DecodeError, SyntaxProblem};

/// A `Result` whose error is [`Error`] unless another one is given.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Declares [`Error`] with a variant for each error type, and gives each type its conversion and its `report`.
macro_rules! error_types {
    ($($(#[$doc:meta])* $variant:ident($type:ident),)+) => {
        /// Any error of the library. Every other error type of the library converts into it with `?`.
        ///
        /// `Display`, `source()` and [`report()`](Self::report) are those of the error inside. See [the module](self) for an example and for
        /// the ways to print an error.
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum Error {
            $($(#[$doc])* $variant($type),)+
            /// Any other error of the program itself: from [`Error::other`], or of a request with `kube`. The library returns no such error.
            Other(Box<dyn StdError + Send + Sync>),
        }

        impl Error {
            /// The error inside, for example for a `downcast_ref`.
            pub fn inner(&self) -> &(dyn StdError + 'static) {
                match self {
                    $(Self::$variant(error) => error,)+
                    Self::Other(error) => &**error,
                }
            }
        }

        $(impl From<$type> for Error {
            fn from(error: $type) -> Self {
                Self::$variant(error)
            }
        })+

        error_types!(@report Error, $($type,)+);
    };
    (@report $($type:ident,)+) => {$(
        impl $type {
            /// Returns the error with its causes as text, one line each; with `{:#}`, all of it in one line.
            pub fn report(&self) -> Report<'_> {
                Report::new(self)
            }
        }
    )+};
}

error_types! {
    /// A queue is closed.
    Closed(Closed),
    /// An object could not be decoded.
    Decode(DecodeError),
    /// The body of a list or a watch could not be cut into objects.
    Frame(FrameError),
    /// An index cannot be added or read, or lacks an object.
    Index(IndexError),
    /// A list or a watch failed.
    ListWatch(ListWatchError),
    /// The cache does not have an object.
    NotFound(NotFound),
    /// A text could not be parsed.
    Parse(ParseError),
    /// A process function failed.
    Process(ProcessError),
    /// An informer, a view or a handler cannot be as requested.
    Request(RequestError),
    /// A source could not do what was requested.
    Source(SourceError),
    /// Informers or handlers have not stopped.
    Stop(StopError),
    /// Informers or handlers are not synced.
    Sync(SyncError),
    /// A cache or a handler did not reach the awaited state.
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

/// For requests that a program makes with `kube` itself; it becomes [`Other`](Error::Other).
impl From<kube::Error> for Error {
    fn from(error: kube::Error) -> Self {
        Self::other(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&text_of(self.inner())))
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.inner().source()
    }
}
