//! The handle of a server, for the program that runs it.
//!
//! - **In:** objects, faults and orders of that program.
//! - **Out:** the objects and requests that the server has; its entries for clients.
//! - **Knows nothing of:** HTTP.

use std::net::SocketAddr;
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;

use crate::Fault;
use crate::On;
use crate::Requested;
use crate::RuleId;
use crate::builder::ApiServerBuilder;
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
use crate::registry::Served;
use crate::registry::kind::Kind;
use crate::registry::kind::means;
use crate::shared::Shared;
use crate::storage::Backup;
use crate::storage::Collection;
use crate::world::Deleted;
use crate::world::Run;

/// An API server in this process. Clones are handles to the same one.
///
/// It serves the usual built-in kinds; nothing runs on its own. See the [crate's page](crate) for a tour.
#[derive(Clone)]
pub struct ApiServer {
    shared: Arc<Shared>,
}

impl ApiServer {
    /// A server with the usual kinds and no objects.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// The options of a server that differs from [`new`](Self::new).
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder::default()
    }

    pub(crate) fn from_shared(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
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
    pub(crate) fn create(&self, kind: &str, object: Value) -> Result<(), ApiError> {
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

/// What was written as JSON is read as JSON.
fn read(object: &[u8]) -> Value {
    serde_json::from_slice(object).unwrap_or(Value::Null)
}
