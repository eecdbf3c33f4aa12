//! The state that the handle, the HTTP service and the watch streams share, with its locks and wake-ups.
//!
//! - **In:** changes and requests, from the handle and from HTTP.
//! - **Out:** their results; wake-ups of watch streams and waiting tests.
//! - **Knows nothing of:** the meaning of a change.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use jiff::{RoundMode, Timestamp, TimestampRound, Unit};
use parking_lot::{Mutex, RwLock};
use tokio::{sync::watch, time::Instant};

use crate::{
    LoggedRequest,
    error::ApiError,
    faults::plan::{Hits, Plan},
    http::request::ApiRequest,
    log::Log,
    storage::CollectionId,
    watch::{Watch, WatchQuery, stream::WatchPlace},
    world::World,
};

/// Options that requests depend on.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) bookmark_interval: Duration,
    pub(crate) watch_cache: bool,
}

/// The state of one server.
pub(crate) struct Shared {
    pub(crate) world: RwLock<World>,
    /// The version of the last change. Watch streams wait for it to change.
    pub(crate) changed: watch::Sender<u64>,
    pub(crate) settings: Settings,
    /// The number of continue tokens issued so far.
    pub(crate) tokens: AtomicU64,
    pub(crate) desk: Mutex<Desk>,
    /// The number of requests so far; `wait_for_request` waits for it to change.
    pub(crate) requests: watch::Sender<u64>,
    /// Changes whenever a watch opens or ends; `wait_for_watches` waits for it.
    pub(crate) watches: watch::Sender<u64>,
    /// The random generator of watch timeouts.
    chance: Mutex<fastrand::Rng>,
    started: Instant,
    /// The time of day at `started`. Later times are computed from it with tokio's clock, which tests may pause.
    started_at: Timestamp,
}

/// The faults and the request log behind one lock, so that faults count requests in the order of the log.
pub(crate) struct Desk {
    pub(crate) plan: Plan,
    pub(crate) log: Log,
}

impl Shared {
    /// Returns true if the request is for a kind that is served.
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

    /// Runs a change of the world with the current time.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut World, &str) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let now = self.now();
        self.write(|world| change(world, &now))
    }

    /// Runs a change of the world and the garbage collection that follows from it, and wakes the watches if the version changed or
    /// watches were cut.
    pub(crate) fn write<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let mut world = self.world.write();
        let before = (world.storage.version(), world.storage.cuts());
        let result = change(&mut world);
        if world.has_garbage() {
            world.collect_garbage(&self.now());
        }
        let after = (world.storage.version(), world.storage.cuts());
        drop(world);
        if after != before {
            self.changed.send_replace(after.0);
        }
        result
    }

    /// Wakes all watches and waiting tests. Adding or removing a kind without objects does not change the version.
    pub(crate) fn wake_all(&self) {
        self.changed.send_modify(|_| {});
        self.watches.send_modify(|count| *count += 1);
    }

    /// Opens a watch. It counts as open until the returned place is dropped.
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

    /// Logs a request and returns what hits it.
    pub(crate) fn strike(&self, mut request: LoggedRequest) -> Hits {
        let mut desk = self.desk.lock();
        let hits = desk.plan.strike(&request);
        request.faults.clone_from(&hits.faults);
        desk.log.push(request);
        drop(desk);
        self.requests.send_modify(|count| *count += 1);
        hits
    }

    /// The time since the server was built.
    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// The time of day, on tokio's clock.
    pub(crate) fn timestamp(&self) -> Timestamp {
        self.started_at.checked_add(self.age()).unwrap_or(self.started_at)
    }

    /// The current time as timestamps in objects have it, in whole seconds.
    pub(crate) fn now(&self) -> String {
        let now = self.timestamp();
        let whole = TimestampRound::new().smallest(Unit::Second).mode(RoundMode::Trunc);
        now.round(whole).unwrap_or(now).to_string()
    }

    /// The duration of a watch without `timeoutSeconds`: between half an hour and an hour, as in kube-apiserver.
    fn random_timeout(&self) -> Duration {
        Duration::from_secs(self.chance.lock().u64(1800..3600))
    }
}
