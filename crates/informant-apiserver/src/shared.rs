//! What all parts of a server share: the world behind its lock, and the wake-ups of those who wait for it.
//!
//! - **In:** changes and requests, from the handle and from HTTP.
//! - **Out:** their results; watches and waiting tests are woken when something happened.
//! - **Knows nothing of:** what a change is about.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use jiff::RoundMode;
use jiff::Timestamp;
use jiff::TimestampRound;
use jiff::Unit;
use parking_lot::Mutex;
use parking_lot::RwLock;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::Fault;
use crate::Requested;
use crate::error::ApiError;
use crate::faults::plan::Plan;
use crate::http::request::ApiRequest;
use crate::log::Log;
use crate::storage::CollectionId;
use crate::watch::Watch;
use crate::watch::WatchQuery;
use crate::watch::stream::WatchPlace;
use crate::world::World;

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) bookmark_interval: Duration,
    pub(crate) watch_cache: bool,
}

/// What all parts of a server share.
pub(crate) struct Shared {
    pub(crate) world: RwLock<World>,
    /// The version of the last change; every watch waits for the next.
    pub(crate) changed: watch::Sender<u64>,
    pub(crate) settings: Settings,
    /// How many continue tokens were given out.
    pub(crate) tokens: AtomicU64,
    pub(crate) desk: Mutex<Desk>,
    /// How many requests there were; those who wait for one wait for this.
    pub(crate) requests: watch::Sender<u64>,
    /// Tells those who wait that a watch was opened or ended.
    pub(crate) watches: watch::Sender<u64>,
    /// For the times that are random in Kubernetes.
    chance: Mutex<fastrand::Rng>,
    started: Instant,
    /// The time of day then. From there it is counted on tokio's clock, which tests may pause.
    started_at: Timestamp,
}

/// Where requests are logged and faults strike, in the same order.
pub(crate) struct Desk {
    pub(crate) plan: Plan,
    pub(crate) log: Log,
}

impl Shared {
    /// Whether the request is for a kind that there is.
    pub(crate) fn serves(&self, request: &ApiRequest) -> bool {
        let registry = &self.world.read().registry;
        request.place().is_some_and(|place| registry.at(&place.group, &place.version, &place.plural).is_some())
    }

    pub(crate) fn new(world: World, settings: Settings, seed: u64, log: usize) -> Self {
        Self {
            changed: watch::Sender::new(world.storage.version()),
            world: RwLock::new(world),
            settings,
            tokens: AtomicU64::new(0),
            desk: Mutex::new(Desk { plan: Plan::new(seed), log: Log::new(log) }),
            requests: watch::Sender::new(0),
            watches: watch::Sender::new(0),
            chance: Mutex::new(fastrand::Rng::with_seed(seed)),
            started: Instant::now(),
            started_at: Timestamp::now(),
        }
    }

    /// Changes something at this moment.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut World, &str) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let now = self.now();
        self.write(|world| change(world, &now))
    }

    /// Changes something, and wakes the watches if it did.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let mut world = self.world.write();
        let before = (world.storage.version(), world.storage.cuts());
        let result = change(&mut world);
        let after = (world.storage.version(), world.storage.cuts());
        drop(world);
        if after != before {
            self.changed.send_replace(after.0);
        }
        result
    }

    /// Wakes everybody: kinds come and go without a change of the version if they have no objects.
    pub(crate) fn wake_all(&self) {
        self.changed.send_modify(|_| {});
        self.watches.send_modify(|count| *count += 1);
    }

    /// Opens a watch and counts it, as long as its place exists.
    pub(crate) fn open_watch(
        self: &Arc<Self>,
        collection: CollectionId,
        query: WatchQuery,
        timeout: Option<Duration>,
    ) -> Result<(Watch, Arc<WatchPlace>), ApiError> {
        let mut world = self.world.write();
        let watch = Watch::open(&world.storage, collection, query)?;
        world.storage.watcher_came(collection);
        drop(world);
        let timeout = timeout.unwrap_or_else(|| self.random_timeout());
        let place = Arc::new(WatchPlace::new(self.clone(), collection, &watch, timeout));
        self.watches.send_modify(|count| *count += 1);
        Ok((watch, place))
    }

    pub(crate) fn watch_ended(&self, collection: CollectionId) {
        self.world.write().storage.watcher_left(collection);
        self.watches.send_modify(|count| *count += 1);
    }

    /// Logs a request and says what happens to it.
    pub(crate) fn strike(&self, mut request: Requested) -> Vec<Fault> {
        let mut desk = self.desk.lock();
        let faults = desk.plan.strike(request.verb, &request.resource, request.token.is_some());
        request.faults.clone_from(&faults);
        desk.log.push(request);
        drop(desk);
        self.requests.send_modify(|count| *count += 1);
        faults
    }

    /// How long the server has been there.
    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// The time of day, on tokio's clock.
    pub(crate) fn timestamp(&self) -> Timestamp {
        self.started_at.checked_add(self.age()).unwrap_or(self.started_at)
    }

    /// The time as it stands in objects: whole seconds.
    fn now(&self) -> String {
        let now = self.timestamp();
        let whole = TimestampRound::new().smallest(Unit::Second).mode(RoundMode::Trunc);
        now.round(whole).unwrap_or(now).to_string()
    }

    /// How long a watch lasts that names no time: between half an hour and an hour.
    fn random_timeout(&self) -> Duration {
        Duration::from_secs(self.chance.lock().u64(1800..3600))
    }
}
