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

use std::error::Error;
use std::fmt;
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
use super::frames::DEFAULT_LIMIT;
use super::intake::Decode;
use super::intake::Intake;
use super::intake::Transform;
use super::intake::decode_nothing;
use super::quarantine::Quarantine;
use crate::FieldPath;
use crate::KnownObjects;
use crate::Object;
use crate::Scanner;

pub use self::status::Activity;
pub use self::status::ReflectorHandle;
pub use self::status::ReflectorStatus;

/// Keeps a destination in step with a source; see the [module's page](super) for an example.
///
/// It asks for everything that exists, as a stream where the source can do that and else as a list, and then follows the
/// changes. Whatever goes wrong, it goes on from the version where it was if that is possible, and asks for everything anew
/// if not; each attempt after a failure waits, longer each time. Whoever wants to know looks at its [handle](Self::handle).
pub struct Reflector<O, L, D> {
    rounds: Rounds<O, L, D>,
    handle: ReflectorHandle,
    reporter: Arc<Reporter>,
}

/// Settings of a [`Reflector`].
pub struct ReflectorBuilder<O, L, D> {
    source: L,
    destination: D,
    decode: Decode<O>,
    transform: Option<Transform<O>>,
    keeps_managed_fields: bool,
    cut: Vec<FieldPath>,
    settings: Settings<O>,
}

/// What does not change while it runs.
struct Settings<O> {
    known: Option<Arc<dyn KnownObjects<O>>>,
    page_size: Option<u32>,
    size_limit: usize,
    backoff: Backoff,
    streaming: Option<StreamingSupport>,
    streaming_deadline: Duration,
    verifies_streams: bool,
    watch_timeout: Duration,
    patience: Duration,
    retries_server_errors_for: Duration,
    resync: Option<Resync>,
    health: ServerHealth,
    on_error: Option<Callback<ListWatchError>>,
    on_quarantine: Option<Callback<Quarantined>>,
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

impl<O, L, D> Reflector<O, L, D>
where
    O: Send + Sync + 'static,
    L: ListWatch<O>,
    D: Destination<O>,
{
    /// A reflector with settings, for objects that come as JSON.
    pub fn builder(source: L, destination: D) -> ReflectorBuilder<O, L, D>
    where
        O: Object,
    {
        ReflectorBuilder::new(source, destination, O::decode)
    }

    /// A reflector with settings, for a source whose objects come [ready](super::Item::Ready): they can be of any type.
    pub fn of_ready_objects(source: L, destination: D) -> ReflectorBuilder<O, L, D> {
        ReflectorBuilder::new(source, destination, decode_nothing)
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

impl<O, L> ReflectorBuilder<O, L, ()> {
    /// Settings without a destination, for objects that come as JSON.
    pub(crate) fn unplaced(source: L) -> Self
    where
        O: Object,
    {
        Self::new(source, (), O::decode)
    }

    /// Settings without a destination, for objects that come ready.
    pub(crate) fn unplaced_ready(source: L) -> Self {
        Self::new(source, (), decode_nothing)
    }
}

impl<O, L, D> ReflectorBuilder<O, L, D> {
    fn new(source: L, destination: D, decode: Decode<O>) -> Self {
        let settings = Settings {
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
        };
        Self { source, destination, decode, transform: None, keeps_managed_fields: false, cut: Vec::new(), settings }
    }

    /// Does not decode what the consumer's cache has in the same state (uid and version): a list of what is known already
    /// costs a fraction. Default: no cache is known, so everything is decoded.
    ///
    /// Leave it out for servers that change an object without changing its version.
    #[must_use]
    pub fn known_objects(mut self, known: Arc<dyn KnownObjects<O>>) -> Self {
        self.settings.known = Some(known);
        self
    }

    /// Decodes everything, whatever was set before.
    pub(crate) fn without_known_objects(mut self) -> Self {
        self.settings.known = None;
        self
    }

    /// Changes each object before anybody sees it, once; such as to drop what nobody needs. It cannot change who the
    /// object is. One for which it fails is set aside like one that cannot be decoded. Default: nothing is changed.
    #[must_use]
    pub fn transform<E>(mut self, transform: impl Fn(&mut O) -> Result<(), E> + Send + Sync + 'static) -> Self
    where
        E: Into<Box<dyn Error + Send + Sync>>,
    {
        self.transform = Some(Box::new(move |object| transform(object).map_err(Into::into)));
        self
    }

    /// Keeps `metadata.managedFields`, a third of a typical object. Default: cut.
    #[must_use]
    pub fn keep_managed_fields(mut self) -> Self {
        self.keeps_managed_fields = true;
        self
    }

    /// Leaves these fields out of every object before anything is decoded, besides those that were named before; see
    /// [`Scanner::cut`]. Default: none but `metadata.managedFields`.
    #[must_use]
    pub fn cut(mut self, fields: impl IntoIterator<Item = FieldPath>) -> Self {
        self.cut.extend(fields);
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

    /// The same, but for where changes go.
    pub(crate) fn with_destination<E>(self, destination: E) -> ReflectorBuilder<O, L, E> {
        let Self { source, destination: _, decode, transform, keeps_managed_fields, cut, settings } = self;
        ReflectorBuilder { source, destination, decode, transform, keeps_managed_fields, cut, settings }
    }

    /// Sets the transform, and gives the one before: dropping it is users' code.
    pub(crate) fn swap_transform(&mut self, transform: Transform<O>) -> Option<Transform<O>> {
        self.transform.replace(transform)
    }

    /// Sets the error callback, and gives the one before: dropping it is users' code.
    pub(crate) fn swap_on_error(&mut self, hear: Callback<ListWatchError>) -> Option<Callback<ListWatchError>> {
        self.settings.on_error.replace(hear)
    }

    /// The cluster of the source.
    pub(crate) fn cluster(&self) -> Option<Arc<str>>
    where
        L: ListWatch<O>,
    {
        self.source.cluster()
    }

    /// The namespace of the source, if it has only one.
    pub(crate) fn namespace(&self) -> Option<Arc<str>>
    where
        L: ListWatch<O>,
    {
        self.source.namespace()
    }

    /// What the source calls its objects.
    pub(crate) fn resource(&self) -> String
    where
        L: ListWatch<O>,
        O: Send + Sync + 'static,
    {
        self.source.name()
    }

    /// Makes the reflector.
    pub fn build(self) -> Reflector<O, L, D>
    where
        O: Send + Sync + 'static,
        L: ListWatch<O>,
        D: Destination<O>,
    {
        let Self { source, destination, decode, transform, keeps_managed_fields, cut, mut settings } = self;
        let mut scanner = Scanner::new(source.types()).cut(&cut);
        let cluster = source.cluster();
        if let Some(cluster) = &cluster {
            scanner = scanner.of_cluster(Arc::clone(cluster));
        }
        if keeps_managed_fields {
            scanner = scanner.keep_managed_fields();
        }
        let quarantine = Quarantine::default();
        let (status, handle) = StatusBoard::new(quarantine.clone());
        let intake = Intake::new(scanner, decode, transform, cluster);
        let reporter = Arc::new(Reporter::new(source.name().into(), settings.on_error.take()));
        let rounds = Rounds::new(source, destination, intake, settings, quarantine, status, Arc::clone(&reporter));
        Reflector { rounds, handle, reporter }
    }
}

impl<O, L, D> fmt::Debug for Reflector<O, L, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reflector").field("status", &self.handle.status()).finish_non_exhaustive()
    }
}

impl fmt::Debug for ReflectorHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReflectorHandle").field("status", &self.status()).finish_non_exhaustive()
    }
}
