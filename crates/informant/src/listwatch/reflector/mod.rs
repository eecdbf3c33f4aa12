//! The reflector: lists and watches a source, and passes all changes to a destination.
//!
//! - **In:** a [source](ListWatch) and settings.
//! - **Out:** changes, to a [`Destination`](super::Destination); a [status](ReflectorStatus) that any task can read.
//! - **Knows nothing of:** HTTP, queues, caches.
//!
//! The [state machine](super::rules::state) decides what to do next; [`main_loop`] does it. It makes [requests] for a list ([`list`], or [`stream`] for
//! a streamed list), reads a watch ([`watch`]), checks after an outage whether the watch can be resumed ([`history`]), or waits ([`retry`]).
//! [`intake`] passes on what was received, and [`report`] shows it and reports failures.

mod builder; // `ReflectorBuilder`
mod history; // whether the server's history is still the same
mod intake; // what becomes of received lists and events
mod list; // the pages of a list
mod main_loop; // performs each state
mod reader; // the events of a watch
mod received; // the items of a list that is not complete
mod report; // the status, the user's callbacks, the log
mod requests; // requests, with their time limits
mod retry; // when a failed request is made again
mod settings; // from settings to a reflector
mod status; // what users read
mod stream; // the events of a streamed list
mod watch; // an open watch

use std::{fmt, pin::pin, sync::Arc};

use futures_util::future::select;
use tracing::Instrument;

use self::{
    history::HistoryCheck, intake::Intake, report::Reporter, requests::Requests, retry::Retry, watch::WatchContext,
};
use super::{
    ListWatch, ServerHealth,
    any_source::DynSource,
    decoder::{decode_as, decode_nothing},
    health::{Storage, StreamingSupport},
    rules::state::StateMachine,
};
use crate::{
    Object,
    object::{HeldMemory, memory_of},
};

pub(crate) use self::settings::ReflectorSettings;
pub use self::{
    builder::ReflectorBuilder,
    status::{Activity, PendingRequest, ReflectorHandle, ReflectorStatus},
};

/// Lists and watches a source, and passes all changes to a [`Destination`](super::Destination). See the [module's page](crate::pipeline) for an example.
///
/// It requests a list (as a stream, if the source supports that) and then watches for changes. After a failure it resumes the watch at the version that
/// it reached, or lists again if that is impossible, with growing delays. Its [handle](Self::handle) shows what it does.
pub struct Reflector {
    shared: Shared,
    machine: StateMachine,
    requests: Requests,
    intake: Intake,
    history: HistoryCheck,
    retry: Retry,
    /// Whether the server supports streamed lists; `None` if they are never requested.
    streaming: Option<StreamingSupport>,
    watches: WatchContext,
}

/// What the parts of a reflector share. Cheap to clone.
#[derive(Clone)]
struct Shared {
    source: Arc<dyn DynSource>,
    /// What the reflectors of this client know of the server.
    health: ServerHealth,
    /// What they know of the source's storage.
    storage: Arc<Storage>,
    reporter: Arc<Reporter>,
}

/// A callback of the user.
pub(crate) type Callback<T> = Box<dyn Fn(&T) + Send + Sync>;

impl Reflector {
    /// Returns a builder for a reflector of a source of JSON objects.
    ///
    /// A [`KubeSource`](super::KubeSource) fits every object type `O`, which is inferred from the destination or given explicitly:
    /// `Reflector::builder::<Pod>(source)`.
    pub fn builder<O: Object>(source: impl ListWatch<O>) -> ReflectorBuilder<O> {
        ReflectorBuilder::from_any(ReflectorSettings::new(source.erase(), decode_as::<O>, memory_of::<O>, O::types()))
    }

    /// Returns a builder for a reflector of a source of [decoded objects](super::Item::new), which can be of any type.
    pub fn of_decoded_objects<O: Send + Sync + 'static>(source: impl ListWatch<O>) -> ReflectorBuilder<O> {
        ReflectorBuilder::from_any(ReflectorSettings::new(
            source.erase(),
            decode_nothing,
            |_, _| HeldMemory::Estimate(0),
            None,
        ))
    }

    /// Returns a handle to the status and the quarantine, for use while the reflector runs.
    pub fn handle(&self) -> ReflectorHandle {
        self.shared.reporter.handle(&self.intake.quarantine)
    }

    /// Runs until `stop` completes. Requests and watches in progress are cancelled then.
    ///
    /// Dropping the future stops the reflector in the same way.
    ///
    /// # Panics
    ///
    /// If the source or the destination panics.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        let span = tracing::error_span!("reflector", informer = &*self.shared.reporter.informer);
        select(pin!(stop), pin!(self.run_in_span().instrument(span))).await;
    }

    /// Returns a function that reports an error of packing in the same way as those of requests.
    #[cfg(feature = "packing")]
    pub(crate) fn packing_reporter(&self) -> impl Fn(super::SourceError) + Send + Sync + use<> {
        let reporter = Arc::clone(&self.shared.reporter);
        move |error| reporter.report_packing(error)
    }

    /// Runs in a span of the caller that names the informer, until the future is dropped.
    pub(crate) async fn run_in_span(self) {
        let reporter = Arc::clone(&self.shared.reporter);
        let reporting = pin!(reporter.watch_outages());
        let running = pin!(self.run_states());
        select(running, reporting).await;
    }
}

impl fmt::Debug for Reflector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflector").field("status", &self.handle().status()).finish_non_exhaustive()
    }
}
