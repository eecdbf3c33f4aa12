//! The status of an informer, and the problem that it shows.
//!
//! - **In:** what the informer, its reflector and its handlers record about themselves.
//! - **Out:** [`InformerStatus`], and from it a [`Problem`] if the cache may be out of date.
//! - **Knows nothing of:** how to repair a problem; the informer retries by itself.

use std::{
    fmt,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{AnyInformer, InformerState};
use crate::{
    Key, ResourceVersion,
    error::{Chain, one_line},
    listwatch::{Activity, ListWatchError, PendingRequest, ReflectorStatus},
    subscribers::HandlerStatus,
};

/// The status of an informer at one moment: for health checks and status pages.
///
/// # JSON
///
/// The status implements `Serialize`. Fields have the names of the Rust fields in snake_case, with these differences:
///
/// - Durations and ages are numbers of seconds with three decimals; their names end with `_seconds`. An `Instant` becomes its age when
///   the status is serialized: `source.last_event` becomes `source.last_event_age_seconds`, `source.confirmed` becomes
///   `source.confirmed_age_seconds`, `source.unanswered_since` becomes `source.unanswered_seconds`, and `source.failing_since` becomes
///   `source.failing_seconds`.
/// - `problem` holds the [problem](Self::problem), and is `null` if there is none. A problem is an object with a `type`
///   (`not_started`, `stopped`, `gone`, `pending`, `failing`, `silent`, `memory_exceeded`, `syncing`), the name of its `informer`, the fields of its variant
///   (those of a derived map, `not_derived` and `map_stopped`, have the name of the `map` instead; `failing` has `failing_seconds`, and the status code of the response as `code`), and its text as `message`.
/// - `source.activity` is an object with a `type` (`idle`, `listing`, `streaming`, `checking_history`, `opening`, `watching`,
///   `backing_off`, `stopped`) and the fields of its variant; the end of a backoff becomes `retry_in_seconds`.
/// - An error is a text: one line with its causes, as `{:#}` of [`report()`](crate::Error::report) prints it.
///
/// ```
/// # use informant::SharedInformerFactory;
/// # use informant_apiserver::ApiServer;
/// # use k8s_openapi::api::core::v1::ConfigMap;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let client = ApiServer::new().client();
/// let factory = SharedInformerFactory::new(client);
/// let configs = factory.informer::<ConfigMap>();
///
/// // The answer of a `/status` endpoint.
/// println!("{}", serde_json::to_string_pretty(&factory.status())?);
///
/// let status = serde_json::to_value(configs.status())?;
/// assert_eq!(status["name"], "configmaps");
/// assert_eq!(status["state"], "new");
/// assert_eq!(status["problem"]["message"], "informer configmaps has not been started");
/// # factory.stop().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct InformerStatus {
    /// The name of the informer, such as `pods`.
    pub name: Arc<str>,
    /// The only namespace that the informer covers; `None` for all namespaces, and for kinds without namespaces.
    pub namespace: Option<Arc<str>>,
    /// The phase that the informer is in.
    pub state: InformerState,
    /// Whether the first complete list has been applied to the cache.
    pub is_synced: bool,
    /// The number of objects in the cache.
    pub objects: usize,
    /// The reached version: all changes up to it have been applied to the cache. `None` before the first list.
    pub version: Option<ResourceVersion>,
    /// The bytes that the objects and the tables of the cache take, wherever handles of the objects are. Objects that a source delivers decoded are not counted.
    pub bytes: usize,
    /// Whether `bytes` is an estimate: only the size of [lazy](crate::Lazy) objects is known.
    pub bytes_are_estimated: bool,
    /// The number of objects whose changes wait to be applied to the cache.
    pub queued: usize,
    /// The number of objects in [quarantine](super::SharedInformer::quarantined): they exist on the server but cannot be decoded or
    /// transformed.
    pub quarantined: usize,
    /// The number of [audits](super::InformerBuilder::audit_every) that ended.
    pub audits: u64,
    /// The number of objects that audits found to be wrong in the cache: at most ten per audit.
    pub wrong_objects: u64,
    /// The status of the reflector, which lists and watches the source.
    pub source: ReflectorStatus,
    /// The reason why the informer stopped by itself, such as a panic; `None` if it runs or was stopped by a call.
    pub crash: Option<Arc<str>>,
    /// The status of each handler and stream.
    pub handlers: Vec<HandlerStatus>,
}

/// The reason why the cache of an informer may be out of date, or takes too much memory.
///
/// `Display` prints one line with the name of the informer, the causes, and what to do if that is known. For the JSON form see
/// [`InformerStatus`](InformerStatus#json).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Problem {
    /// The informer has not been started.
    NotStarted {
        /// Which informer.
        informer: Arc<str>,
    },
    /// The informer has stopped or is stopping; its cache keeps the last state.
    Stopped {
        /// Which informer.
        informer: Arc<str>,
        /// The reason why the informer stopped by itself; `None` if it was stopped by a call.
        crash: Option<Arc<str>>,
    },
    /// The server no longer serves the kind, for example because its definition was deleted, so the cache is empty. The informer lists
    /// again when the kind is back.
    Gone {
        /// Which informer.
        informer: Arc<str>,
    },
    /// Lists or watches fail. The informer keeps retrying.
    Failing {
        /// Which informer.
        informer: Arc<str>,
        /// The time since the first of these failures.
        duration: Duration,
        /// Whether the cache holds an older list; if not, it has never been filled.
        is_synced: bool,
        /// The last list or watch that failed.
        reason: Arc<ListWatchError>,
    },
    /// The server has not answered a request for ten seconds or more. The informer keeps waiting, or retries.
    Pending {
        /// Which informer.
        informer: Arc<str>,
        /// Whether the cache holds an older list; if not, it has never been filled.
        is_synced: bool,
        /// The request.
        request: PendingRequest,
    },
    /// The watch is open but delivers nothing, and the server did not answer a request for its current version.
    Silent {
        /// Which informer.
        informer: Arc<str>,
        /// The time since the server last confirmed that the cache is current.
        confirmed_age: Duration,
    },
    /// The function of a [derived map](crate::derived) panicked at some objects, which have no entries.
    NotDerived {
        /// Which map.
        map: Arc<str>,
        /// The number of objects at which it panicked.
        objects: usize,
        /// One of them.
        key: Key,
        /// The message of its panic.
        panic: Arc<str>,
    },
    /// A [derived map](crate::derived) was stopped; it keeps its last entries.
    MapStopped {
        /// Which map.
        map: Arc<str>,
    },
    /// The informers of a factory take more memory than its budget (`FactoryBuilder::memory_budget`), and the largest one has found no more
    /// objects to pack. Lazy objects that the program reads again and again stay plain.
    MemoryExceeded {
        /// The informer that takes the most.
        informer: Arc<str>,
        /// What it takes, in bytes.
        bytes: usize,
        /// What all informers take together, in bytes.
        used: usize,
        /// The budget, in bytes.
        budget: usize,
    },
    /// The first list is in progress.
    Syncing {
        /// Which informer.
        informer: Arc<str>,
        /// The number of objects that the list has received so far.
        objects: usize,
    },
}

impl InformerStatus {
    /// Returns the reason why the cache may be out of date; `None` if it is current.
    pub fn problem(&self) -> Option<Problem> {
        let informer = Arc::clone(&self.name);
        let failing = self.source.failing_since.zip(self.source.last_error.as_ref());
        if let (InformerState::Running, Some(request)) = (self.state, &self.source.pending) {
            return Some(Problem::Pending { informer, is_synced: self.is_synced, request: request.clone() });
        }
        match (self.state, failing) {
            (InformerState::New, _) => Some(Problem::NotStarted { informer }),
            (InformerState::Stopping | InformerState::Stopped, _) => {
                Some(Problem::Stopped { informer, crash: self.crash.clone() })
            }
            (InformerState::Running, _) if self.source.is_gone => Some(Problem::Gone { informer }),
            (InformerState::Running, Some((since, reason))) => Some(Problem::Failing {
                informer,
                duration: since.elapsed(),
                is_synced: self.is_synced,
                reason: Arc::clone(reason),
            }),
            (InformerState::Running, None) if !self.is_synced => {
                Some(Problem::Syncing { informer, objects: self.source.activity.objects_so_far() })
            }
            (InformerState::Running, None) if self.source.unanswered_since.is_some() => {
                Some(Problem::Silent { informer, confirmed_age: self.confirmed_age().unwrap_or_default() })
            }
            (InformerState::Running, None) => None,
        }
    }

    /// Returns true if a watch is open, so that changes are received.
    pub fn is_watching(&self) -> bool {
        matches!(self.source.activity, Activity::Watching)
    }

    /// The time since the server last confirmed that the cache is current: by a list, an event or a bookmark, or by answering a request
    /// for its current version with the version that the watch has reached. `None` before the first list.
    pub fn confirmed_age(&self) -> Option<Duration> {
        self.source.confirmed.map(|confirmed| confirmed.elapsed())
    }
}

impl Problem {
    /// The name of the informer, or of the derived map, that has the problem.
    pub fn informer(&self) -> &Arc<str> {
        match self {
            Self::NotStarted { informer }
            | Self::Stopped { informer, .. }
            | Self::Gone { informer }
            | Self::Pending { informer, .. }
            | Self::Silent { informer, .. }
            | Self::Failing { informer, .. }
            | Self::NotDerived { map: informer, .. }
            | Self::MapStopped { map: informer }
            | Self::MemoryExceeded { informer, .. }
            | Self::Syncing { informer, .. } => informer,
        }
    }
}

/// One line: the informer, the problem, its causes, and what to do if that is known.
impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let informer = self.informer();
        match self {
            Self::NotStarted { .. } => write!(f, "informer {informer} has not been started"),
            Self::Stopped { crash: None, .. } => write!(f, "informer {informer} has stopped"),
            Self::Stopped { crash: Some(crash), .. } => {
                write!(f, "informer {informer} has stopped: {}", one_line(crash))
            }
            Self::Gone { .. } => write!(f, "informer {informer} has no objects: the server has no such kind any more"),
            Self::Failing { duration, is_synced, reason, .. } => {
                let state = if *is_synced { "may be out of date" } else { "is not synced" };
                write!(f, "informer {informer} {state}: {}; failing for {} s", Chain(&**reason), duration.as_secs())
            }
            Self::Pending { is_synced, request: PendingRequest { operation, since, server_answers }, .. } => {
                let state = if *is_synced { "may be out of date" } else { "is not synced" };
                let answers = match server_answers {
                    Some(true) => "; it answers other requests",
                    Some(false) => "; it does not answer other requests either",
                    None => "",
                };
                let seconds = since.elapsed().as_secs();
                write!(
                    f,
                    "informer {informer} {state}: {operation} {informer} has got no response from the server for {seconds} s{answers}"
                )
            }
            Self::Silent { confirmed_age, .. } => write!(
                f,
                "informer {informer} may be out of date: its watch is silent, and the server does not answer; last confirmed {} s \
                 ago",
                confirmed_age.as_secs()
            ),
            Self::NotDerived { map, objects, key, panic } => {
                let panic = one_line(panic);
                write!(
                    f,
                    "derived map {map} is incomplete: its function panicked at {key}: {panic}; objects with this problem: {objects}"
                )
            }
            Self::MapStopped { map } => write!(f, "derived map {map} has stopped"),
            Self::MemoryExceeded { bytes, used, budget, .. } => {
                let megabytes = |bytes: &usize| bytes.div_ceil(1_000_000);
                write!(
                    f,
                    "informer {informer} takes {} MB of memory, and all informers {} MB, but {} MB are allowed; select fewer objects, `cut` large \
                     fields, or raise the budget",
                    megabytes(bytes),
                    megabytes(used),
                    megabytes(budget)
                )
            }
            Self::Syncing { objects, .. } => write!(f, "informer {informer} is syncing: {objects} objects so far"),
        }
    }
}

impl AnyInformer {
    pub(crate) fn status(&self) -> InformerStatus {
        let core = self.core();
        let listeners = core.listeners();
        let handlers = listeners.iter().filter(|listener| !listener.is_closed()).map(|listener| listener.status());
        InformerStatus {
            name: Arc::clone(&core.name),
            namespace: self.namespace().cloned(),
            state: self.state(),
            is_synced: core.is_synced(),
            objects: core.lister.len(),
            version: core.version(),
            bytes: core.memory.bytes(),
            bytes_are_estimated: core.memory.is_estimate(),
            queued: core.started.get().map_or(0, |started| started.queue.len()),
            quarantined: core.started.get().map_or(0, |started| started.reflector.quarantine.len()),
            audits: core.audits.load(Ordering::Relaxed),
            wrong_objects: core.wrong_objects.load(Ordering::Relaxed),
            source: core.source_status(),
            crash: core.phase.lock().crash_cause().cloned(),
            handlers: handlers.collect(),
        }
    }
}
