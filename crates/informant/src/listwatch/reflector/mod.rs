//! The reflector: lists and watches a source, and passes all changes to a destination.
//!
//! - **In:** a [source](ListWatch) and settings.
//! - **Out:** changes, to a [`Destination`]; a [status](ReflectorStatus) that any task can read.
//! - **Knows nothing of:** HTTP, queues, caches.
//!
//! The [state machine](super::rules::state) decides what to do next; [`main_loop`] does it: it requests a list ([`list`], or [`stream`] for a streamed
//! list), watches ([`watch`]), checks after an outage whether the watch can be resumed ([`history`]), or waits. [`report`] reports failures.

mod history;
mod list;
mod main_loop;
mod reader;
mod received;
mod report;
mod response;
mod status;
mod stream;
mod watch;

use std::{fmt, marker::PhantomData, pin::pin, sync::Arc, time::Duration};

use futures_util::future::select;
use kube::core::TypeMeta;
use tokio::{
    sync::{mpsc, watch::Receiver},
    time::Instant,
};

use self::{report::Reporter, status::StatusBoard};
use super::{
    Backoff, Delays, Destination, Inventory, ListWatch, ListWatchError, Quarantined, ServerHealth, SourceError,
    StreamingSupport,
    any_source::{AnySource, DynSource, KubeSelection},
    decoder::{Decode, Decoder, Transform, TransformResult, decode_as, decode_nothing, transform_of},
    destination::ErasedDestination,
    frames::DEFAULT_LIMIT,
    health::{Prober, Storage},
    quarantine::Quarantine,
    rules::{
        anchors::Anchors, contact::Contact, resume::Resume, state::StateMachine, unclear::UnclearEvents,
        watchdog::Watchdog,
    },
    witness::Witness,
};
use crate::{
    Cached, Key, Object,
    known::KnownObjects,
    object::{Erased, FieldPath, Scanner},
};

pub use self::status::{Activity, PendingRequest, ReflectorHandle, ReflectorStatus};

/// Lists and watches a source, and passes all changes to a [`Destination`]. See the [module's page](super) for an example.
///
/// It requests a list (as a stream, if the source supports that) and then watches for changes. After a failure it resumes the watch at the version that
/// it reached, or lists again if that is impossible, with growing delays. Its [handle](Self::handle) shows what it does.
pub struct Reflector {
    settings: ReflectorSettings,
    resource: Arc<str>,
    decoder: Decoder,
    destination: Box<dyn Destination<Erased>>,
    quarantine: Quarantine,
    status: StatusBoard,
    reporter: Arc<Reporter>,
    machine: StateMachine,
    resume: Resume,
    contact: Contact,
    watchdog: Watchdog,
    unclear_events: UnclearEvents,
    /// The newest events, by which the server's history is recognised.
    anchors: Anchors,
    /// How many changes of the server's history the reflectors of this client have found.
    history_changes: Receiver<u64>,
    /// How many of them this reflector has taken into account.
    history_changes_seen: u64,
    /// What the reflectors of this client know of the storage.
    storage: Arc<Storage>,
    /// The newest event when the last watch ended, if it proves that the server has everything that was received.
    witness: Option<Arc<Witness>>,
    /// How many requests in a row got no response.
    unanswered_requests: u32,
    /// `Some` while this reflector is the prober.
    prober: Option<Prober>,
    /// True if the server answered a probe, and the list that followed has not succeeded yet.
    has_probed: bool,
    /// When the next resync is requested.
    resync_at: Option<Instant>,
}

/// Settings of a [`Reflector`] whose objects are of type `O`.
#[must_use = "a builder does nothing until `build` is called"]
pub struct ReflectorBuilder<O> {
    settings: ReflectorSettings,
    object_type: PhantomData<fn(O) -> O>,
}

/// Settings of a reflector whose object type is erased.
pub(crate) struct ReflectorSettings {
    source: Arc<dyn DynSource>,
    selection: Option<KubeSelection>,
    decode: Decode,
    /// The apiVersion and kind of the object type; `None` for any.
    types: Option<TypeMeta>,
    transform: Option<Transform>,
    keeps_managed_fields: bool,
    pub(crate) cut: Vec<FieldPath>,
    known: Option<Arc<dyn KnownObjects<Erased>>>,
    page_size: Option<u32>,
    size_limit: usize,
    backoff: Backoff,
    pub(crate) streaming: Option<StreamingSupport>,
    streaming_deadline: Duration,
    watch_timeout: Duration,
    idle_timeout: Duration,
    /// The period of resyncs.
    resync_every: Option<Duration>,
    /// Receives why everything must be listed again, from the informer's audits.
    findings: Option<mpsc::Receiver<SourceError>>,
    pub(crate) health: ServerHealth,
    pub(crate) on_error: Option<Callback<ListWatchError>>,
    pub(crate) on_quarantine: Option<Callback<Quarantined>>,
}

/// A callback of the user.
pub(crate) type Callback<T> = Box<dyn Fn(&T) + Send + Sync>;

/// Upper bound on configured durations: practically for ever, and small enough that adding it to an `Instant` does not overflow.
const FOR_EVER: Duration = Duration::from_secs(366 * 24 * 3600);

/// The shortest timeout that a watch is requested with.
const SHORTEST_WATCH: Duration = Duration::from_secs(300);

impl Reflector {
    /// Returns a builder for a reflector of a source of JSON objects.
    ///
    /// A [`KubeSource`](super::KubeSource) fits every object type `O`, which is inferred from the destination or given explicitly:
    /// `Reflector::builder::<Pod>(source)`.
    pub fn builder<O: Object>(source: impl ListWatch<O>) -> ReflectorBuilder<O> {
        ReflectorBuilder::new(source, decode_as::<O>, O::types())
    }

    /// Returns a builder for a reflector of a source of [decoded objects](super::Item::new), which can be of any type.
    pub fn of_decoded_objects<O: Send + Sync + 'static>(source: impl ListWatch<O>) -> ReflectorBuilder<O> {
        ReflectorBuilder::new(source, decode_nothing, None)
    }

    /// Returns a handle to the status and the quarantine, for use while the reflector runs.
    pub fn handle(&self) -> ReflectorHandle {
        self.status.handle(&self.quarantine)
    }

    /// Runs until `stop` completes. Requests and watches in progress are cancelled then.
    ///
    /// Dropping the future stops the reflector in the same way.
    ///
    /// # Panics
    ///
    /// If the source or the destination panics.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        let (reporter, handle) = (Arc::clone(&self.reporter), self.handle());
        let reporting = pin!(reporter.watch_outages(handle));
        let running = pin!(self.run_states());
        select(pin!(stop), select(running, reporting)).await;
    }
}

impl<O: Send + Sync + 'static> ReflectorBuilder<O> {
    fn new(source: impl ListWatch<O>, decode: Decode, types: Option<TypeMeta>) -> Self {
        Self::from_any(ReflectorSettings::new(source.erase(), decode, types))
    }

    /// Reuses objects of the consumer's cache: a listed object with the uid and version of the cached object is not decoded again, which makes
    /// relists several times cheaper. Default: every object is decoded.
    ///
    /// Do not use it with servers that change an object without changing its version.
    pub fn known_objects(mut self, known: Arc<dyn KnownObjects<O>>) -> Self {
        self.settings.known = Some(Arc::new(ErasedKnownObjects(known)));
        self
    }

    /// Calls `transform` with each object once, after decoding and before the object is cached: for example to drop fields that the program
    /// does not need. It cannot change the object's identity. If it returns an error, the object is quarantined, like one that cannot be
    /// decoded. Default: objects are cached as they were decoded.
    ///
    /// ```
    /// use informant::listwatch::{KubeSource, Reflector};
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() {
    /// # let server = informant_apiserver::ApiServer::new();
    /// # let client = server.client();
    /// // A transform that cannot fail returns nothing.
    /// let pods = Reflector::builder::<Pod>(KubeSource::of_kind::<Pod>(client.clone())).transform(|pod| pod.status = None);
    ///
    /// // One that can returns a `Result`, with any error.
    /// let pods = Reflector::builder::<Pod>(KubeSource::of_kind::<Pod>(client)).transform(|pod| {
    ///     pod.spec.as_mut().map(|spec| spec.volumes = None).ok_or("a pod without spec")
    /// });
    /// # }
    /// ```
    pub fn transform<R: TransformResult>(mut self, transform: impl Fn(&mut O) -> R + Send + Sync + 'static) -> Self {
        self.settings.transform = Some(transform_of(transform));
        self
    }

    /// Keeps `metadata.managedFields`, a third of a typical object. Default: cut.
    pub fn keep_managed_fields(mut self) -> Self {
        self.settings.keeps_managed_fields = true;
        self
    }

    /// Removes these fields from every object before it is decoded, in addition to fields of earlier calls; see
    /// [`Scanner::cut`]. Default: only `metadata.managedFields`.
    pub fn cut(mut self, fields: impl IntoIterator<Item = FieldPath>) -> Self {
        self.settings.cut.extend(fields);
        self
    }

    /// Requests all lists in pages of this size. Default: pages of 500. A relist that asks for a given version is then requested in one piece, unless the
    /// first list came in several pages.
    pub fn page_size(mut self, items: u32) -> Self {
        self.settings.page_size = Some(items.max(1));
        self
    }

    /// Sets the largest accepted object, in bytes of JSON. A larger one is read to its end without being kept, and quarantined. Objects that
    /// the source has decoded have no size. Default: 64 MiB.
    pub fn size_limit(mut self, bytes: usize) -> Self {
        self.settings.size_limit = bytes;
        self
    }

    /// Sets the delays after failures. Default: those of [`Backoff::default`].
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.settings.backoff = backoff;
        self
    }

    /// Shares the knowledge whether the server supports streamed lists with other reflectors of the same client and kind. Default: each reflector
    /// tries it on its own.
    pub fn streaming(mut self, support: StreamingSupport) -> Self {
        self.settings.streaming = Some(support);
        self
    }

    /// Never requests streamed lists. Default: requested if the source supports them, until the server refuses.
    pub fn without_streaming(mut self) -> Self {
        self.settings.streaming = None;
        self
    }

    /// Sets how long a streamed list may deliver no new object before the reflector gives it up and uses an ordinary list. The whole list
    /// may take ten times as long. Default: 30 s.
    pub fn streaming_deadline(mut self, deadline: Duration) -> Self {
        self.settings.streaming_deadline = deadline.min(FOR_EVER);
        self
    }

    /// Sets the least timeout of watches; each watch gets a random timeout of up to twice as long. Default and minimum: five minutes.
    pub fn watch_timeout(mut self, least: Duration) -> Self {
        self.settings.watch_timeout = least.clamp(SHORTEST_WATCH, FOR_EVER);
        self
    }

    /// Sets how long to wait for the next bytes of a list before the connection counts as dead; it is also the upper bound on the wait for the first
    /// bytes of a response, which is 20 s for a watch and 65 s for a list, and doubles after each request in a row without a response. Default: two
    /// minutes, which is twice the request timeout of an API server.
    pub fn idle_timeout(mut self, idle_timeout: Duration) -> Self {
        self.settings.idle_timeout = idle_timeout.min(FOR_EVER);
        self
    }

    /// While a watch is open, asks the destination for a resync once per `period`. Default: never.
    pub fn resync_every(mut self, period: Duration) -> Self {
        self.settings.resync_every = (!period.is_zero()).then(|| period.min(FOR_EVER));
        self
    }

    /// Calls `callback` with failures, in addition to the [status](ReflectorStatus):
    ///
    /// - once for each outage, after five seconds of failures; if no list has succeeded yet, after the first failed attempt;
    /// - when the cause of an outage changes, at most once in ten seconds;
    /// - when the watch is silent and the server does not answer a question for its version;
    /// - when the server's history changed;
    /// - when an [audit](crate::InformerBuilder::audit_every) found a wrong cache.
    ///
    /// Other failures that are over within five seconds are not reported. Default: a warning in the log. In both cases the
    /// log has a line when an outage of more than five seconds is over: how long it lasted, and whether the watch was resumed or
    /// everything was listed again.
    pub fn on_error(mut self, callback: impl Fn(&ListWatchError) + Send + Sync + 'static) -> Self {
        self.settings.on_error = Some(Box::new(callback));
        self
    }

    /// Shares the state of the server with other reflectors of the same client: while the server is unreachable only one of them retries, and if the
    /// server's history changes, every one of them lists again. Default: not shared.
    pub fn server_health(mut self, health: ServerHealth) -> Self {
        self.settings.health = health;
        self
    }

    /// Calls `callback` with each object that is quarantined because it cannot be decoded or transformed. Default: a warning in the log.
    pub fn on_quarantine(mut self, callback: impl Fn(&Quarantined) + Send + Sync + 'static) -> Self {
        self.settings.on_quarantine = Some(Box::new(callback));
        self
    }

    /// Creates a reflector that delivers to `destination`. It makes no request until [`run`](Reflector::run).
    pub fn build(self, destination: impl Destination<O>) -> Reflector {
        self.settings.build(Box::new(ErasedDestination::new(destination)))
    }

    /// Gives settings an object type.
    pub(crate) fn from_any(settings: ReflectorSettings) -> Self {
        Self { settings, object_type: PhantomData }
    }

    /// Erases the object type.
    pub(crate) fn into_any(self) -> ReflectorSettings {
        self.settings
    }
}

impl ReflectorSettings {
    fn new(source: AnySource, decode: Decode, types: Option<TypeMeta>) -> Self {
        Self {
            source: source.source,
            selection: source.selection,
            decode,
            types,
            transform: None,
            keeps_managed_fields: false,
            cut: Vec::new(),
            known: None,
            page_size: None,
            size_limit: DEFAULT_LIMIT,
            backoff: Backoff::default(),
            streaming: Some(StreamingSupport::new()),
            streaming_deadline: Duration::from_secs(30),
            watch_timeout: SHORTEST_WATCH,
            idle_timeout: Duration::from_secs(120),
            resync_every: None,
            findings: None,
            health: ServerHealth::new(),
            on_error: None,
            on_quarantine: None,
        }
    }

    /// Sets what the informer controls: its cache as the known objects, the findings of its audits, and no resync, because the informer replays
    /// its cache itself.
    pub(crate) fn for_informer(
        mut self,
        known: Arc<dyn KnownObjects<Erased>>,
        findings: mpsc::Receiver<SourceError>,
    ) -> Self {
        self.known = Some(known);
        self.findings = Some(findings);
        self.resync_every = None;
        self
    }

    /// Creates an inventory of the source.
    pub(crate) fn inventory(&self) -> Inventory {
        Inventory::new(Arc::clone(&self.source), self.page_size, self.size_limit, self.idle_timeout)
    }

    /// Creates delays with the jitter and the seed of the reflector's.
    pub(crate) fn delays(&self) -> Delays {
        Delays::new(self.backoff)
    }

    /// Sets the transform, and returns the previous one, so that the caller drops it without a lock: its destructor is users' code.
    pub(crate) fn swap_transform(&mut self, transform: Transform) -> Option<Transform> {
        self.transform.replace(transform)
    }

    /// Sets the error callback, and returns the previous one, so that the caller drops it without a lock: its destructor is users' code.
    pub(crate) fn swap_on_error(&mut self, callback: Callback<ListWatchError>) -> Option<Callback<ListWatchError>> {
        self.on_error.replace(callback)
    }

    /// Returns the cluster of the source.
    pub(crate) fn cluster(&self) -> Option<Arc<str>> {
        self.source.cluster()
    }

    /// Returns the namespace of the source, if it has only one.
    pub(crate) fn namespace(&self) -> Option<Arc<str>> {
        self.source.namespace()
    }

    /// Returns the objects that the source requests from an API server; `None` for a custom source.
    pub(crate) fn selection(&self) -> Option<KubeSelection> {
        self.selection.clone()
    }

    /// Returns the source's name.
    pub(crate) fn resource(&self) -> String {
        self.source.name()
    }

    /// Creates a scanner for the items of the source.
    fn scanner(&self) -> Scanner {
        let mut scanner = Scanner::new(self.source.types()).cut(&self.cut);
        if let Some(cluster) = self.source.cluster() {
            scanner = scanner.of_cluster(cluster);
        }
        if self.keeps_managed_fields {
            scanner = scanner.keep_managed_fields();
        }
        scanner
    }

    /// Creates the reflector.
    pub(crate) fn build(mut self, destination: Box<dyn Destination<Erased>>) -> Reflector {
        let (scanner, cluster) = (self.scanner(), self.source.cluster());
        // The scanner checks the kind that the source declares; an object type may differ from it on purpose.
        let types = self.types.take().filter(|_| self.source.types() == TypeMeta::default());
        let resource: Arc<str> = self.source.name().into();
        let history_changes = self.health.history_changes();
        let history_changes_seen = *history_changes.borrow();
        Reflector {
            decoder: Decoder::new(scanner, self.size_limit, self.decode, types, self.transform.take(), cluster),
            destination,
            quarantine: Quarantine::default(),
            status: StatusBoard::default(),
            reporter: Arc::new(Reporter::new(Arc::clone(&resource), self.on_error.take())),
            machine: StateMachine::new(self.backoff),
            resume: Resume::new(self.page_size),
            contact: Contact::new(Instant::now()),
            watchdog: Watchdog::default(),
            unclear_events: UnclearEvents::default(),
            anchors: Anchors::default(),
            history_changes_seen,
            history_changes,
            storage: self.source.storage().map_or_else(Arc::default, |name| self.health.storage(&name)),
            witness: None,
            unanswered_requests: 0,
            prober: None,
            has_probed: false,
            resync_at: None,
            resource,
            settings: self,
        }
    }
}

/// Adapts a `KnownObjects<O>` to the erased objects of the reflector.
struct ErasedKnownObjects<O>(Arc<dyn KnownObjects<O>>);

impl<O> KnownObjects<Erased> for ErasedKnownObjects<O> {
    fn get(&self, key: &Key) -> Option<Cached<Erased>> {
        self.0.get(key).map(Cached::erase)
    }

    fn list(&self) -> Vec<Cached<Erased>> {
        self.0.list().into_iter().map(Cached::erase).collect()
    }
}

impl fmt::Debug for Reflector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflector").field("status", &self.handle().status()).finish_non_exhaustive()
    }
}
