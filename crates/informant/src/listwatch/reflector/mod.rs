//! Keeps a destination in step with a source, whatever happens.
//!
//! - **In:** a [source](ListWatch) and settings.
//! - **Out:** changes, to a [`Destination`]; a [status](ReflectorStatus) that anybody can look at.
//! - **Knows nothing of:** HTTP, queues, caches.
//!
//! [`rounds`] is the loop: bring everything up to date ([`list`], or [`stream`] if the source can), then [`follow`] the
//! changes, until that fails; then wait and begin again. After an outage, [`history`] finds out whether a watch can be resumed.
//! [`report`] reports failures. What to do is decided by the plain rules of
//! [`rules`](super::rules); here it is done.

mod collected;
mod follow;
mod history;
mod list;
mod reader;
mod report;
mod rounds;
mod status;
mod stream;

use std::fmt;
use std::marker::PhantomData;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select;

use self::report::Reporter;
use self::rounds::Rounds;
use self::status::StatusBoard;
use super::Backoff;
use super::Destination;
use super::ListWatch;
use super::ListWatchError;
use super::Quarantined;
use super::ServerHealth;
use super::StreamingSupport;
use super::any_source::AnySource;
use super::any_source::DynSource;
use super::destination::ErasedDestination;
use super::frames::DEFAULT_LIMIT;
use super::intake::Decode;
use super::intake::Intake;
use super::intake::Transform;
use super::intake::TransformResult;
use super::intake::decode_as;
use super::intake::decode_nothing;
use super::intake::transform_of;
use super::quarantine::Quarantine;
use crate::Cached;
use crate::Key;
use crate::Object;
use crate::known::KnownObjects;
use crate::object::Erased;
use crate::object::FieldPath;
use crate::object::Scanner;

pub use self::status::Activity;
pub use self::status::ReflectorHandle;
pub use self::status::ReflectorStatus;

/// Keeps a destination in step with a source; see the [module's page](super) for an example.
///
/// It asks for everything that exists, as a stream where the source can do that and else as a list, and then follows the
/// changes. Whatever goes wrong, it goes on from the version where it was if that is possible, and asks for everything anew
/// if not; each attempt after a failure waits, longer each time. Whoever wants to know looks at its [handle](Self::handle).
pub struct Reflector {
    rounds: Rounds,
    handle: ReflectorHandle,
    reporter: Arc<Reporter>,
}

/// Settings of a [`Reflector`] whose objects are of type `O`.
pub struct ReflectorBuilder<O> {
    settings: ReflectorSettings,
    object_type: PhantomData<fn(O) -> O>,
}

/// Settings of a reflector whose object type is erased.
pub(crate) struct ReflectorSettings {
    source: Arc<dyn DynSource>,
    decode: Decode,
    transform: Option<Transform>,
    keeps_managed_fields: bool,
    pub(crate) cut: Vec<FieldPath>,
    known: Option<Arc<dyn KnownObjects<Erased>>>,
    page_size: Option<u32>,
    size_limit: usize,
    backoff: Backoff,
    pub(crate) streaming: Option<StreamingSupport>,
    streaming_deadline: Duration,
    verifies_streams: bool,
    watch_timeout: Duration,
    patience: Duration,
    retries_server_errors_for: Duration,
    resync: Option<Resync>,
    pub(crate) health: ServerHealth,
    pub(crate) on_error: Option<Callback<ListWatchError>>,
    pub(crate) on_quarantine: Option<Callback<Quarantined>>,
}

/// A callback of the user.
pub(crate) type Callback<T> = Box<dyn Fn(&T) + Send + Sync>;

struct Resync {
    period: Duration,
    is_due: Box<dyn Fn() -> bool + Send + Sync>,
}

/// Longer than anything lasts, but not so long that adding it to a time is too much.
const FOR_EVER: Duration = Duration::from_secs(366 * 24 * 3600);

/// The least time that a watch is asked to last.
const SHORTEST_WATCH: Duration = Duration::from_secs(300);

impl Reflector {
    /// Settings of a reflector for objects that come as JSON.
    ///
    /// A [`KubeSource`](super::KubeSource) fits every object type `O`. It is inferred from the destination, or given:
    /// `Reflector::builder::<Pod>(source)`.
    pub fn builder<O: Object>(source: impl ListWatch<O>) -> ReflectorBuilder<O> {
        ReflectorBuilder::new(source, decode_as::<O>)
    }

    /// Settings of a reflector for a source whose objects come [ready](super::Item::new): they can be of any type.
    pub fn of_ready_objects<O: Send + Sync + 'static>(source: impl ListWatch<O>) -> ReflectorBuilder<O> {
        ReflectorBuilder::new(source, decode_nothing)
    }

    /// Looks at what it does, also while it runs.
    pub fn handle(&self) -> ReflectorHandle {
        self.handle.clone()
    }

    /// Runs until `stop` is done. Whatever was under way then is given up: no request, watch or wait is left.
    ///
    /// Cancel safe in the same sense: dropping it stops it.
    ///
    /// # Panics
    ///
    /// If the source or the destination does.
    pub async fn run(self, stop: impl Future<Output = ()> + Send) {
        let Self { rounds, handle, reporter } = self;
        let reporting = pin!(reporter.watch_outages(handle));
        let running = pin!(rounds.run());
        select(pin!(stop), select(running, reporting)).await;
    }
}

impl<O: Send + Sync + 'static> ReflectorBuilder<O> {
    fn new(source: impl ListWatch<O>, decode: Decode) -> Self {
        Self::from_any(ReflectorSettings::new(source.erase(), decode))
    }

    /// Does not decode what the consumer's cache has in the same state (uid and version): a list of what is known already
    /// costs a fraction. Default: no cache is known, so everything is decoded.
    ///
    /// Leave it out for servers that change an object without changing its version.
    #[must_use]
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
    #[must_use]
    pub fn transform<R: TransformResult>(mut self, transform: impl Fn(&mut O) -> R + Send + Sync + 'static) -> Self {
        self.settings.transform = Some(transform_of(transform));
        self
    }

    /// Keeps `metadata.managedFields`, a third of a typical object. Default: cut.
    #[must_use]
    pub fn keep_managed_fields(mut self) -> Self {
        self.settings.keeps_managed_fields = true;
        self
    }

    /// Leaves these fields out of every object before anything is decoded, besides those that were named before; see
    /// [`Scanner::cut`]. Default: none but `metadata.managedFields`.
    #[must_use]
    pub fn cut(mut self, fields: impl IntoIterator<Item = FieldPath>) -> Self {
        self.settings.cut.extend(fields);
        self
    }

    /// Asks for lists in pages of this size, always. Default: pages of 500 where they help.
    #[must_use]
    pub fn page_size(mut self, items: u32) -> Self {
        self.settings.page_size = Some(items.max(1));
        self
    }

    /// The largest object that is taken, in bytes of JSON. Default: 64 MiB.
    #[must_use]
    pub fn size_limit(mut self, bytes: usize) -> Self {
        self.settings.size_limit = bytes;
        self
    }

    /// How delays grow. Default: that of [`Backoff`].
    #[must_use]
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.settings.backoff = backoff;
        self
    }

    /// Shares what is known of the server's ability to stream lists with other reflectors of the same client and kind.
    /// Default: each finds out by itself.
    #[must_use]
    pub fn streaming(mut self, support: StreamingSupport) -> Self {
        self.settings.streaming = Some(support);
        self
    }

    /// Never asks for lists as streams. Default: if the source can, and until the server says no.
    #[must_use]
    pub fn without_streaming(mut self) -> Self {
        self.settings.streaming = None;
        self
    }

    /// How long a streamed list may bring nothing new before it is taken for one that never ends; altogether it may take ten
    /// times as long. Default: 30 s.
    #[must_use]
    pub fn streaming_deadline(mut self, deadline: Duration) -> Self {
        self.settings.streaming_deadline = deadline.min(FOR_EVER);
        self
    }

    /// Compares each streamed list with a list of the same version; if they differ, says so and uses lists. It costs as
    /// much again. Default: no.
    #[must_use]
    pub fn verify_streams(mut self) -> Self {
        self.settings.verifies_streams = true;
        self
    }

    /// Asks for watches of at least this length; each is up to twice as long, by chance. Default, and least: five minutes.
    #[must_use]
    pub fn watch_timeout(mut self, least: Duration) -> Self {
        self.settings.watch_timeout = least.clamp(SHORTEST_WATCH, FOR_EVER);
        self
    }

    /// How long to wait for the first bytes of an answer, or the next bytes of a list, before the connection is taken for
    /// dead. Default: two minutes, twice what an API server gives itself.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.settings.patience = patience.min(FOR_EVER);
        self
    }

    /// Takes errors of the server (5xx) within a watch as passing for this time: the watch is opened again, after a delay,
    /// instead of listing everything anew. Default: not at all.
    #[must_use]
    pub fn retry_server_errors_for(mut self, time: Duration) -> Self {
        self.settings.retries_server_errors_for = time;
        self
    }

    /// Tells the consumer of everything again, this long after the last time, while a watch lasts. Default: never.
    #[must_use]
    pub fn resync_every(self, period: Duration) -> Self {
        self.resync_every_if(period, || true)
    }

    /// As [`resync_every`](Self::resync_every), if `is_due` says so then.
    #[must_use]
    pub fn resync_every_if(mut self, period: Duration, is_due: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.settings.resync =
            (!period.is_zero()).then(|| Resync { period: period.min(FOR_EVER), is_due: Box::new(is_due) });
        self
    }

    /// Calls `callback` with failures, in addition to the [status](ReflectorStatus):
    ///
    /// - once for each outage: when lists or watches have failed for three seconds, whatever the cause; before the first list has
    ///   succeeded, at once;
    /// - each time the server answers a list with an error; and when it refuses a watch so that everything must be listed again,
    ///   unless the outage was reported already. For 30 s after it could not be reached, the server may still be starting, and only
    ///   the first rule applies;
    /// - when the server's history changed.
    ///
    /// Other failures that are over within three seconds are not reported. Default: a warning in the log. In both cases the
    /// log has a line when an outage of more than three seconds is over: how long it lasted, and whether the watch was resumed or
    /// everything was listed again.
    #[must_use]
    pub fn on_error(mut self, callback: impl Fn(&ListWatchError) + Send + Sync + 'static) -> Self {
        self.settings.on_error = Some(Box::new(callback));
        self
    }

    /// Shares what is known of the server with other reflectors of the same client: they wait for it together, and list again if
    /// its history changes. Default: each finds out by itself.
    #[must_use]
    pub fn server_health(mut self, health: ServerHealth) -> Self {
        self.settings.health = health;
        self
    }

    /// Hears of each object that cannot be read. Default: it is logged.
    #[must_use]
    pub fn on_quarantine(mut self, hear: impl Fn(&Quarantined) + Send + Sync + 'static) -> Self {
        self.settings.on_quarantine = Some(Box::new(hear));
        self
    }

    /// Makes a reflector that delivers to `destination`. It does nothing until [`run`](Reflector::run).
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
    fn new(source: AnySource, decode: Decode) -> Self {
        Self {
            source: source.0,
            decode,
            transform: None,
            keeps_managed_fields: false,
            cut: Vec::new(),
            known: None,
            page_size: None,
            size_limit: DEFAULT_LIMIT,
            backoff: Backoff::default(),
            streaming: Some(StreamingSupport::new()),
            streaming_deadline: Duration::from_secs(30),
            verifies_streams: false,
            watch_timeout: SHORTEST_WATCH,
            patience: Duration::from_secs(120),
            retries_server_errors_for: Duration::ZERO,
            resync: None,
            health: ServerHealth::new(),
            on_error: None,
            on_quarantine: None,
        }
    }

    /// Sets what the informer controls: its cache as the known objects, and no resync, because the informer replays its cache itself.
    pub(crate) fn for_informer(mut self, known: Option<Arc<dyn KnownObjects<Erased>>>) -> Self {
        self.known = known;
        self.resync = None;
        self
    }

    /// Sets the transform, and gives the one before: dropping it is users' code.
    pub(crate) fn swap_transform(&mut self, transform: Transform) -> Option<Transform> {
        self.transform.replace(transform)
    }

    /// Sets the error callback, and gives the one before: dropping it is users' code.
    pub(crate) fn swap_on_error(&mut self, hear: Callback<ListWatchError>) -> Option<Callback<ListWatchError>> {
        self.on_error.replace(hear)
    }

    /// The cluster of the source.
    pub(crate) fn cluster(&self) -> Option<Arc<str>> {
        self.source.cluster()
    }

    /// The namespace of the source, if it has only one.
    pub(crate) fn namespace(&self) -> Option<Arc<str>> {
        self.source.namespace()
    }

    /// What the source calls its objects.
    pub(crate) fn resource(&self) -> String {
        self.source.name()
    }

    /// Makes the reflector.
    pub(crate) fn build(mut self, destination: Box<dyn Destination<Erased>>) -> Reflector {
        let mut scanner = Scanner::new(self.source.types()).cut(&self.cut);
        let cluster = self.source.cluster();
        if let Some(cluster) = &cluster {
            scanner = scanner.of_cluster(Arc::clone(cluster));
        }
        if self.keeps_managed_fields {
            scanner = scanner.keep_managed_fields();
        }
        let quarantine = Quarantine::default();
        let (status, handle) = StatusBoard::new(quarantine.clone());
        let intake = Intake::new(scanner, self.decode, self.transform.take(), cluster);
        let reporter = Arc::new(Reporter::new(self.source.name().into(), self.on_error.take()));
        let rounds = Rounds::new(destination, intake, self, quarantine, status, Arc::clone(&reporter));
        Reflector { rounds, handle, reporter }
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
        f.debug_struct("Reflector").field("status", &self.handle.status()).finish_non_exhaustive()
    }
}

impl fmt::Debug for ReflectorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReflectorHandle").field("status", &self.status()).finish_non_exhaustive()
    }
}
