//! The server: a handle for those who set it up, and what all its parts share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use jiff::Timestamp;
use jiff::Unit;
use parking_lot::Mutex;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::Fault;
use crate::On;
use crate::Requested;
use crate::RuleId;
use crate::error::ApiError;
use crate::faults::plan::Plan;
use crate::http::listener;
use crate::http::listener::ListenError;
use crate::http::listener::Listening;
use crate::http::service::ApiService;
use crate::log::Log;
use crate::objects::Key;
use crate::objects::Object;
use crate::objects::rules::Preconditions;
use crate::registry::Registry;
use crate::registry::Served;
use crate::registry::kind::Kind;
use crate::storage::Backup;
use crate::storage::Collection;
use crate::storage::CollectionId;
use crate::watch::Watch;
use crate::world::Deleted;
use crate::world::Run;
use crate::world::World;

/// An API server in this process. Clones are handles to the same one.
///
/// It serves the usual built-in kinds; nothing runs on its own. See the [crate's page](crate) for a tour.
#[derive(Clone)]
pub struct ApiServer {
    shared: Arc<Shared>,
}

/// What a server can be told before it exists.
#[derive(Clone, Debug)]
pub struct ApiServerBuilder {
    settings: Settings,
    seed: u64,
    history: usize,
    built_in: bool,
    log: usize,
}

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
    plan: Mutex<Plan>,
    log: Mutex<Log>,
    /// How many requests there were; those who wait for one wait for this.
    requests: watch::Sender<u64>,
    /// For the times that are random in Kubernetes.
    chance: Mutex<fastrand::Rng>,
    started: Instant,
}

impl ApiServer {
    /// A server with the usual kinds and no objects.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A server that is to be adjusted.
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder {
            settings: Settings { bookmark_interval: Duration::from_secs(60), watch_cache: true },
            seed: 0,
            history: 10_000,
            built_in: true,
            log: 100_000,
        }
    }

    /// The server as a `tower` service: give it to `kube::Client::new`.
    pub fn service(&self) -> ApiService {
        ApiService::new(self.shared.clone())
    }

    /// Listens on a loopback address; port 0 takes a free one.
    ///
    /// # Errors
    ///
    /// If the address is not loopback, or cannot be had.
    pub async fn listen(&self, address: impl Into<SocketAddr>) -> Result<Listening, ListenError> {
        listener::listen(self.service(), address.into()).await
    }

    /// Serves one more kind, in place of the one with the same name if there is one.
    pub fn register(&self, kind: Kind) {
        self.shared.change_quietly(|world| world.add_kind(kind));
    }

    /// Serves a kind no more: its objects are deleted, watches hear of that and end, later requests get 404. Says whether
    /// there was such a kind (`pods`, `widgets.example.com`).
    pub fn remove_kind(&self, name: &str) -> bool {
        self.shared.change_quietly(|world| world.remove_kind(name))
    }

    /// All kinds that are served.
    pub fn kinds(&self) -> Vec<Kind> {
        self.shared.world.read().registry.kinds().cloned().collect()
    }

    /// Creates an object, or puts it in the place of the one with its name: whole, with its status, whatever version it
    /// names. Gives the object as it is stored now.
    ///
    /// # Errors
    ///
    /// If the kind is not served or the object is not one of it.
    pub fn put(&self, kind: &str, object: Value) -> Result<Value, ApiError> {
        let served = self.served(kind)?;
        let object = Object::check(&served.kind, object)?;
        let stored = self.shared.change(|world, now| world.put(&served, object, now))?;
        Ok(read(&stored.object()))
    }

    /// An object by its key: `namespace/name`, or the name alone for cluster-scoped kinds.
    ///
    /// # Errors
    ///
    /// If there is no such kind or object.
    pub fn get(&self, kind: &str, key: &str) -> Result<Value, ApiError> {
        let served = self.served(kind)?;
        let world = self.shared.world.read();
        Ok(read(&world.get(&served, &Key::from_text(key))?.object()))
    }

    /// All objects of a kind, in the order of their keys.
    ///
    /// # Errors
    ///
    /// If there is no such kind.
    pub fn list(&self, kind: &str) -> Result<Vec<Value>, ApiError> {
        let served = self.served(kind)?;
        let world = self.shared.world.read();
        let objects = world.storage.collection(served.collection).into_iter().flat_map(Collection::objects);
        Ok(objects.map(|(_, object)| read(&object.object())).collect())
    }

    /// Deletes an object as a client would: with finalizers, it only begins.
    ///
    /// # Errors
    ///
    /// If there is no such kind or object.
    pub fn delete(&self, kind: &str, key: &str) -> Result<Value, ApiError> {
        let served = self.served(kind)?;
        let key = Key::from_text(key);
        let deleted =
            self.shared.change(|world, now| world.delete(&served, key, &Preconditions::default(), now, Run::Real))?;
        match deleted {
            Deleted::Waits(object) | Deleted::Gone(object) => Ok(read(&object.object())),
        }
    }

    /// The version of the last change.
    pub fn version(&self) -> u64 {
        self.shared.world.read().storage.version()
    }

    /// Forgets all history for those who ask from now on: older versions and tokens are expired. Open watches go on.
    pub fn compact(&self) {
        self.shared.world.write().storage.compact();
    }

    /// The state of all objects now; costs a pointer for each.
    pub fn backup(&self) -> Backup {
        self.shared.world.read().storage.backup()
    }

    /// Goes back to a backup: objects, version and all, as when a cluster's storage is restored. Versions that were given
    /// out since will be given out again, with other content. Open watches break.
    pub fn restore(&self, backup: &Backup) {
        self.shared.change_quietly(|world| world.storage.restore(backup));
    }

    /// How many watches of a kind are open.
    pub fn open_watches(&self, kind: &str) -> usize {
        let world = self.shared.world.read();
        let served = world.registry.find(kind);
        served.and_then(|served| world.storage.collection(served.collection)).map_or(0, |found| found.watchers)
    }

    /// From now on, this happens to these requests.
    pub fn inject(&self, on: On, fault: Fault) -> RuleId {
        self.shared.plan.lock().add(on, fault)
    }

    /// Ends a fault.
    pub fn remove_fault(&self, rule: RuleId) {
        self.shared.plan.lock().remove(rule);
    }

    /// Ends all faults.
    pub fn heal(&self) {
        self.shared.plan.lock().clear();
    }

    /// How often a fault has struck; none if it was removed.
    pub fn struck(&self, rule: RuleId) -> Option<usize> {
        self.shared.plan.lock().struck(rule)
    }

    /// The requests so far, oldest first.
    pub fn requests(&self) -> Vec<Requested> {
        self.shared.log.lock().all()
    }

    /// The requests for one kind (`pods`, `deployments.apps`) in the notation of [`Requested`]: `L(0, 500)`, `W(15)`.
    pub fn requests_for(&self, resource: &str) -> Vec<String> {
        self.requests().iter().filter(|one| one.resource == resource).map(ToString::to_string).collect()
    }

    /// Forgets the requests so far.
    pub fn clear_requests(&self) {
        self.shared.log.lock().clear();
    }

    /// Waits until the requests so far are as a test wants them, without polling.
    pub async fn requested(&self, mut are_as_wanted: impl FnMut(&[Requested]) -> bool) {
        let mut requests = self.shared.requests.subscribe();
        while !are_as_wanted(&self.requests()) {
            // The sender lives in what this handle holds.
            let _ = requests.changed().await;
        }
    }

    pub(crate) fn kind(&self, name: &str) -> Result<Kind, ApiError> {
        self.served(name).map(|served| (*served.kind).clone())
    }

    fn served(&self, kind: &str) -> Result<Served, ApiError> {
        self.shared.world.read().registry.find(kind).cloned().ok_or(ApiError::UnknownPath)
    }
}

impl Default for ApiServer {
    fn default() -> Self {
        Self::new()
    }
}

impl std::fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApiServer").field("version", &self.version()).finish_non_exhaustive()
    }
}

impl ApiServerBuilder {
    /// What uids, generated names and chance follow from. Default: 0.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// How many changes of each kind are remembered, for watches and for lists of older versions. A watch that falls
    /// further behind is cut off. Default: 10,000.
    #[must_use]
    pub fn history(mut self, changes: usize) -> Self {
        self.history = changes;
        self
    }

    /// How often a watch that wants bookmarks gets one. Default: every minute.
    #[must_use]
    pub fn bookmarks_every(mut self, interval: Duration) -> Self {
        self.settings.bookmark_interval = interval;
        self
    }

    /// Whether lists of "any" version (`resourceVersion=0`) ignore their limit, as those from Kubernetes' watch cache do.
    /// Default: they do.
    #[must_use]
    pub fn watch_cache(mut self, enabled: bool) -> Self {
        self.settings.watch_cache = enabled;
        self
    }

    /// Serves no kinds but those that are registered.
    #[must_use]
    pub fn without_built_in_kinds(mut self) -> Self {
        self.built_in = false;
        self
    }

    /// How many requests are remembered. Default: 100,000.
    #[must_use]
    pub fn remember_requests(mut self, requests: usize) -> Self {
        self.log = requests;
        self
    }

    /// The server.
    pub fn build(self) -> ApiServer {
        let mut world = World::new(self.history, self.seed);
        if self.built_in {
            Registry::builtin_kinds().for_each(|kind| world.add_kind(kind));
        }
        let shared = Shared {
            changed: watch::Sender::new(world.storage.version()),
            world: RwLock::new(world),
            settings: self.settings,
            tokens: AtomicU64::new(0),
            plan: Mutex::new(Plan::new(self.seed)),
            log: Mutex::new(Log::new(self.log)),
            requests: watch::Sender::new(0),
            chance: Mutex::new(fastrand::Rng::with_seed(self.seed)),
            started: Instant::now(),
        };
        ApiServer { shared: Arc::new(shared) }
    }
}

impl Shared {
    /// Changes something, and wakes the watches if it did.
    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut World, &str) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let now = now();
        self.change_quietly(|world| change(world, &now))
    }

    fn change_quietly<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let mut world = self.world.write();
        let changed = change(&mut world);
        let version = world.storage.version();
        drop(world);
        self.changed.send_replace(version);
        changed
    }

    /// Opens a watch and counts it; [`watch_ended`](Self::watch_ended) counts it out.
    pub(crate) fn open_watch(&self, open: impl FnOnce(&World) -> Result<Watch, ApiError>) -> Result<Watch, ApiError> {
        let mut world = self.world.write();
        let watch = open(&world)?;
        world.storage.watcher_came(watch.collection());
        Ok(watch)
    }

    pub(crate) fn watch_ended(&self, collection: CollectionId) {
        self.world.write().storage.watcher_left(collection);
    }

    /// Logs a request and says what happens to it.
    pub(crate) fn strike(&self, mut request: Requested) -> Vec<Fault> {
        let faults = self.plan.lock().strike(request.verb, &request.resource);
        request.faults.clone_from(&faults);
        self.log.lock().push(request);
        self.requests.send_modify(|count| *count += 1);
        faults
    }

    /// How long the server has been there.
    pub(crate) fn age(&self) -> Duration {
        self.started.elapsed()
    }

    /// How long a watch lasts that names no time: between half an hour and an hour.
    pub(crate) fn random_timeout(&self) -> Duration {
        Duration::from_secs(self.chance.lock().u64(1800..3600))
    }
}

/// The time as it stands in objects: whole seconds.
fn now() -> String {
    let now = Timestamp::now();
    now.round(Unit::Second).unwrap_or(now).to_string()
}

/// What was written as JSON is read as JSON.
fn read(object: &[u8]) -> Value {
    serde_json::from_slice(object).unwrap_or(Value::Null)
}
