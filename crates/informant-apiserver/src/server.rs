//! The server as those see it who set it up: a handle, and what it can be told before it exists.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use crate::Fault;
use crate::On;
use crate::Requested;
use crate::RuleId;
use crate::bootstrap;
use crate::error::ApiError;
use crate::http::listener;
use crate::http::listener::ListenError;
use crate::http::listener::Listening;
use crate::http::service::ApiService;
use crate::objects::Key;
use crate::objects::Object;
use crate::objects::encoded::Encoded;
use crate::objects::rules::Preconditions;
use crate::objects::validate::normalize;
use crate::registry::Registry;
use crate::registry::Served;
use crate::registry::definition;
use crate::registry::kind::Kind;
use crate::registry::kind::means;
use crate::shared::Settings;
use crate::shared::Shared;
use crate::storage::Backup;
use crate::storage::Collection;
use crate::storage::HistoryLimits;
use crate::world::Deleted;
use crate::world::Run;
use crate::world::World;
use crate::world::namespaces::NamespaceCheck;

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
    history: HistoryLimits,
    built_in: bool,
    is_bootstrapped: bool,
    namespace_check: NamespaceCheck,
    log: usize,
    /// Custom resource definitions that exist from the start.
    definitions: Vec<Value>,
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
            history: HistoryLimits { changes: 10_000, bytes: 64 * 1024 * 1024 },
            built_in: true,
            is_bootstrapped: false,
            namespace_check: NamespaceCheck::Existing,
            log: 100_000,
            definitions: Vec::new(),
        }
    }

    /// The server as a `tower` service, for `kube::Client::new` and other clients.
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

    /// Serves one more kind, in place of the one with the same group and plural if there is one: that one ends as with
    /// [`remove_kind`](Self::remove_kind). A kind has one version.
    pub fn register(&self, kind: Kind) {
        self.shared.write(|world| world.add_kind(kind));
        self.shared.wake_all();
    }

    /// Serves a kind no more: its objects are deleted, watches hear of that and end, later requests get 404. Says whether
    /// there was such a kind (`pods`, `widgets.example.com`).
    pub fn remove_kind(&self, name: &str) -> bool {
        let removed = self.shared.write(|world| world.remove_kind(name));
        self.shared.wake_all();
        removed
    }

    /// All kinds that are served.
    pub fn kinds(&self) -> Vec<Kind> {
        self.shared.world.read().registry.kinds().cloned().collect()
    }

    /// Creates an object, or puts it in the place of the one with its name: whole, with its status, whatever version it
    /// names. Gives the object as it is stored now.
    ///
    /// If the stored object has the same content, nothing changes: it keeps its version, and watches get no event.
    ///
    /// # Errors
    ///
    /// If the kind is not served or the object is not one of it.
    pub fn put(&self, kind: &str, object: impl Serialize) -> Result<Value, ApiError> {
        let value = serde_json::to_value(object)
            .map_err(|error| ApiError::BadRequest(format!("the object cannot be written as JSON: {error}")))?;
        self.store(kind, value).map(|stored| read(&stored.object()))
    }

    /// The same without reading back what was stored.
    pub(crate) fn store(&self, kind: &str, object: Value) -> Result<Arc<Encoded>, ApiError> {
        let served = self.served(kind)?;
        let mut object = Object::check(&served.kind, object)?;
        normalize(&mut object.metadata);
        self.shared.change(|world, now| world.put(&served, object, now))
    }

    /// Creates an object of a cluster-scoped kind as a client would.
    fn create(&self, kind: &str, object: Value) -> Result<(), ApiError> {
        let served = self.served(kind)?;
        let object = Object::check(&served.kind, object)?;
        self.shared.change(|world, now| world.create(&served, "", object, now, Run::Real)).map(drop)
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

    /// How many objects of a kind there are.
    ///
    /// # Errors
    ///
    /// If there is no such kind.
    pub fn count(&self, kind: &str) -> Result<usize, ApiError> {
        let served = self.served(kind)?;
        let world = self.shared.world.read();
        Ok(world.storage.collection(served.collection).map_or(0, |found| found.all().len()))
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

    /// Goes on from this version, so that tests can speak of the versions that they like. Earlier ones are ignored.
    pub fn skip_to_version(&self, version: u64) {
        self.shared.write(|world| world.storage.skip_to(version));
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
        self.shared.write(|world| world.restore(backup));
    }

    /// Breaks the connections of all open watches of a kind, including streaming lists, and returns how many there were.
    /// Objects, versions and history stay.
    pub fn cut_watches(&self, kind: &str) -> usize {
        self.shared.write(|world| {
            let served = world.registry.find(kind);
            served.map_or(0, |served| world.storage.cut_watches(served.collection))
        })
    }

    /// Breaks the connections of all open watches, including streaming lists. Objects, versions and history stay. With
    /// [`Fault::Refuse`] for all requests, this is an outage.
    pub fn cut_all_watches(&self) {
        self.shared.write(|world| world.storage.cut_all_watches());
    }

    /// How many watches of a kind are open.
    pub fn open_watches(&self, kind: &str) -> usize {
        let world = self.shared.world.read();
        let served = world.registry.find(kind);
        served.and_then(|served| world.storage.collection(served.collection)).map_or(0, |found| found.watchers)
    }

    /// From now on, these happen to these requests, one after the other: the first fault to the first request that it can
    /// concern, the second to the second, and so on; then no more.
    pub fn inject_each(&self, on: &On, faults: impl IntoIterator<Item = Fault>) -> Vec<RuleId> {
        let one = |(position, fault)| self.inject(on.clone().skip(on.skip + position).once(), fault);
        faults.into_iter().enumerate().map(one).collect()
    }

    /// From now on, this happens to these requests.
    pub fn inject(&self, on: On, fault: Fault) -> RuleId {
        self.shared.desk.lock().plan.add(on, fault)
    }

    /// Ends a fault.
    pub fn remove_fault(&self, rule: RuleId) {
        self.shared.desk.lock().plan.remove(rule);
    }

    /// Ends all faults.
    pub fn heal(&self) {
        self.shared.desk.lock().plan.clear();
    }

    /// How often a fault has struck; none if it was removed.
    pub fn struck(&self, rule: RuleId) -> Option<usize> {
        self.shared.desk.lock().plan.struck(rule)
    }

    /// The requests so far, oldest first.
    pub fn requests(&self) -> Vec<Requested> {
        self.shared.desk.lock().log.all()
    }

    /// The requests for one kind (`pods`, `deployments.apps` or `deployments`) in the notation of [`Requested`]: `L(0, 500)`, `W(15)`.
    pub fn requests_for(&self, resource: &str) -> Vec<String> {
        self.requests().iter().filter(|one| means(resource, &one.resource)).map(ToString::to_string).collect()
    }

    /// Forgets the requests so far.
    pub fn clear_requests(&self) {
        self.shared.desk.lock().log.clear();
    }

    /// Waits for a request that a test wants, without polling: the first of those that are logged or still to come.
    pub async fn requested(&self, mut is_wanted: impl FnMut(&Requested) -> bool) -> Requested {
        let mut requests = self.shared.requests.subscribe();
        let mut seen = 0;
        loop {
            let (fresh, all) = self.shared.desk.lock().log.after(seen);
            if let Some(found) = fresh.into_iter().find(|request| is_wanted(request)) {
                return found;
            }
            seen = all;
            // The sender lives in what this handle holds.
            let _ = requests.changed().await;
        }
    }

    /// Waits until so many watches of a kind are open, without polling.
    pub async fn watched(&self, kind: &str, watches: usize) {
        let mut changed = self.shared.watches.subscribe();
        while self.open_watches(kind) != watches {
            // The sender lives in what this handle holds.
            let _ = changed.changed().await;
        }
    }

    pub(crate) fn kind(&self, name: &str) -> Result<Kind, ApiError> {
        self.served(name).map(|served| (*served.kind).clone())
    }

    fn served(&self, kind: &str) -> Result<Served, ApiError> {
        let found = self.shared.world.read().registry.find(kind).cloned();
        found.ok_or_else(|| ApiError::UnknownKind(kind.into()))
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

    /// How many changes of each kind the server keeps, for watches and for lists of older versions. A watch that falls
    /// further behind is cut off. The last change is always kept. Default: 10,000.
    #[must_use]
    pub fn history(mut self, changes: usize) -> Self {
        self.history.changes = changes;
        self
    }

    /// How many bytes the server keeps of the older states of each kind's objects, counted as JSON. Beyond that the oldest
    /// changes are dropped, as beyond the number of [`history`](Self::history). Default: 64 MiB.
    #[must_use]
    pub fn history_bytes(mut self, bytes: usize) -> Self {
        self.history.bytes = bytes;
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

    /// Serves no kinds but those that are registered or defined, and custom resource definitions if there is one.
    #[must_use]
    pub fn without_built_in_kinds(mut self) -> Self {
        self.built_in = false;
        self
    }

    /// Starts with the objects that a new cluster has: the namespaces `default`, `kube-node-lease`, `kube-public` and `kube-system`, the
    /// Service `kubernetes`, the ClusterRole and ClusterRoleBinding `cluster-admin`, and the two system priority classes. Default: no
    /// objects, so that tests can count theirs.
    #[must_use]
    pub fn bootstrapped(mut self) -> Self {
        self.is_bootstrapped = true;
        self
    }

    /// Lets clients create objects in namespaces that do not exist. Default: such a create is answered with 404, as in Kubernetes.
    ///
    /// `default`, `kube-node-lease`, `kube-public` and `kube-system` always count as existing, and [`put`](ApiServer::put) can store
    /// an object in any namespace.
    #[must_use]
    pub fn allow_missing_namespaces(mut self) -> Self {
        self.namespace_check = NamespaceCheck::None;
        self
    }

    /// How many requests are remembered. Default: 100,000.
    #[must_use]
    pub fn remember_requests(mut self, requests: usize) -> Self {
        self.log = requests;
        self
    }

    /// Builds the server.
    pub fn build(self) -> ApiServer {
        let mut world = World::new(self.history, self.seed, self.namespace_check);
        let is_served = |kind: &Kind| self.built_in || (definition::defines(kind) && !self.definitions.is_empty());
        Registry::builtin_kinds().filter(is_served).for_each(|kind| world.add_version(kind));
        let shared = Shared::new(world, self.settings, self.seed, self.log);
        let server = ApiServer { shared: Arc::new(shared) };
        if self.is_bootstrapped {
            for (kind, object) in bootstrap::objects() {
                // A server without built-in kinds has none of these objects.
                let _ = server.store(kind, object);
            }
        }
        for definition in self.definitions {
            let name = definition["metadata"]["name"].clone();
            if let Err(error) = server.create(definition::RESOURCE, definition) {
                panic!("the server refuses the custom resource definition {name}: {error}");
            }
        }
        server
    }

    /// Creates a custom resource definition with the server.
    #[cfg(feature = "kube")]
    pub(crate) fn definition(mut self, definition: Value) -> Self {
        self.definitions.push(definition);
        self
    }
}

/// What was written as JSON is read as JSON.
fn read(object: &[u8]) -> Value {
    serde_json::from_slice(object).unwrap_or(Value::Null)
}
