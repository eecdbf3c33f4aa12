//! [`ApiServer`], the handle with which a test controls the server.
//!
//! - **In:** objects, faults and other calls of the test.
//! - **Out:** stored objects and logged requests; the service and the listener that clients connect to.
//! - **Knows nothing of:** HTTP.

use std::{future::Future, net::SocketAddr, sync::Arc};

use serde::Serialize;
use serde_json::Value;

use crate::{
    Fault, FaultId, InterceptedRequest, Interception, LoggedRequest, On,
    builder::ApiServerBuilder,
    error::ApiError,
    faults::plan::Effect,
    http::{
        listener,
        listener::{ListenError, Listening},
        service::ApiService,
    },
    objects::{Key, Object, encoded::Encoded, propagation::Propagation, rules::DeleteTerms, validate::normalize},
    registry::{
        Served,
        kind::{Kind, means},
    },
    shared::Shared,
    storage::{Backup, Collection},
    world::{Deleted, Run, World},
};

/// A Kubernetes API server in this process. Cheap to clone; all clones control the same server.
///
/// The server runs no task of its own and needs no shutdown. The [crate page](crate) shows it in use.
///
/// Methods take a kind by its plural name (`pods`), with its group if the name is not unique (`events.events.k8s.io`), and
/// an object by its key: `namespace/name`, or the name alone for cluster-scoped kinds.
///
/// ```
/// # fn main() -> Result<(), informant_apiserver::ApiError> {
/// use informant_apiserver::ApiServer;
/// use serde_json::json;
///
/// let server = ApiServer::new();
/// server.put("pods", json!({"metadata": {"namespace": "shop", "name": "web"}}))?;
///
/// assert_eq!(server.get("pods", "shop/web")?["metadata"]["resourceVersion"], "2");
/// assert_eq!(server.count("pods")?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct ApiServer {
    shared: Arc<Shared>,
}

impl ApiServer {
    /// Creates a server with the built-in kinds and no objects.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// Returns a builder for a server with other options.
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder::default()
    }

    pub(crate) fn from_shared(shared: Shared) -> Self {
        Self { shared: Arc::new(shared) }
    }

    /// Returns the server as a `tower` service, for `kube::Client::new` and other in-process clients.
    pub fn service(&self) -> ApiService {
        ApiService::new(self.shared.clone())
    }

    /// Serves HTTP/1.1 on a loopback address until the returned handle is stopped or dropped. Port 0 selects a free port.
    ///
    /// # Errors
    ///
    /// If the address is not a loopback address, or the operating system cannot bind it.
    pub async fn listen(&self, address: impl Into<SocketAddr>) -> Result<Listening, ListenError> {
        listener::listen(self.service(), address.into()).await
    }

    /// Serves a kind. If a kind of the same group and plural is served, it is first removed as with
    /// [`remove_kind`](Self::remove_kind), in all its versions.
    ///
    /// ```
    /// # fn main() -> Result<(), informant_apiserver::ApiError> {
    /// use informant_apiserver::{ApiServer, Kind};
    /// use serde_json::json;
    ///
    /// let server = ApiServer::new();
    /// server.register(Kind::new("example.com", "v1", "Widget", "widgets").with_status());
    ///
    /// let metadata = json!({"namespace": "shop", "name": "gear"});
    /// server.put("widgets", json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": metadata}))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn register(&self, kind: Kind) {
        self.shared.write(|world| world.add_kind(kind));
        self.shared.wake_all();
    }

    /// Stops serving a kind (`pods`, `widgets.example.com`). Its objects are deleted, its watches receive these deletes and end,
    /// and later requests for it fail with 404. Returns false if no such kind is served.
    pub fn remove_kind(&self, name: &str) -> bool {
        let removed = self.shared.write(|world| world.remove_kind(name));
        self.shared.wake_all();
        removed
    }

    /// Checks a name of a kind that selects requests or watches: [`On::of`], [`cut_watches`](Self::cut_watches) and others
    /// would never match a misspelt one.
    ///
    /// A kind that is not served yet, or no longer, is named with its group.
    ///
    /// ```
    /// let server = informant_apiserver::ApiServer::new();
    /// assert!(server.check_kind("configmaps").is_ok());
    /// assert!(server.check_kind("widgets.example.com").is_ok()); // may be defined later
    ///
    /// let error = server.check_kind("configmap").unwrap_err();
    /// assert_eq!(error.to_string(), "the server has no kind named \"configmap\"; did you mean \"configmaps\"?");
    /// ```
    ///
    /// # Errors
    ///
    /// If no kind of that name is served, and the name has no group, or that of built-in kinds.
    pub fn check_kind(&self, name: &str) -> Result<(), ApiError> {
        self.shared.world.read().registry.check_name(name)
    }

    /// Returns all kinds that are served.
    pub fn kinds(&self) -> Vec<Kind> {
        self.shared.world.read().registry.kinds().cloned().collect()
    }

    /// Creates or replaces an object and returns the stored object.
    ///
    /// The replacement includes `status`; `resourceVersion` is ignored, so there are no conflicts. If the content equals that of the
    /// stored object, the version stays and watches receive no event.
    ///
    /// A client's create is checked more strictly. `put` also accepts objects that a client could not create, so that tests can be short,
    /// and can store what a program fails to decode: the namespace need not exist, `kind` and `apiVersion` can be left out, and fields
    /// need not be there or have the right type. To have an object checked, create it through a client.
    ///
    /// # Errors
    ///
    /// If the kind is not served; if the object is of another kind, or a new one has an invalid name or invalid metadata.
    pub fn put(&self, kind: &str, object: impl Serialize) -> Result<Value, ApiError> {
        let value = serde_json::to_value(object).map_err(|error| {
            ApiError::BadRequest(format!("the object to put into {kind} cannot be serialized as JSON: {error}"))
        })?;
        self.store(kind, value).map(|stored| read(&stored.object()))
    }

    /// [`put`](Self::put) without decoding the stored object.
    pub(crate) fn store(&self, kind: &str, object: Value) -> Result<Arc<Encoded>, ApiError> {
        let served = self.served(kind)?;
        let mut object = Object::check(&served.kind, object)?;
        normalize(&mut object.metadata);
        self.shared.change(|world, now| world.put(&served, object, now))
    }

    /// Creates an object of a cluster-scoped kind with the checks of a client's request.
    pub(crate) fn create(&self, kind: &str, object: Value) -> Result<(), ApiError> {
        let served = self.served(kind)?;
        let object = Object::check(&served.kind, object)?;
        self.shared.change(|world, now| world.create(&served, "", object, now, Run::Real)).map(drop)
    }

    pub(crate) fn collects_garbage(&self) -> bool {
        self.shared.world.read().collects_garbage()
    }

    /// Returns an object by its key: `namespace/name`, or the name alone for cluster-scoped kinds.
    ///
    /// # Errors
    ///
    /// If the kind is not served or the object does not exist.
    pub fn get(&self, kind: &str, key: &str) -> Result<Value, ApiError> {
        let served = self.served(kind)?;
        let world = self.shared.world.read();
        Ok(read(&world.get(&served, &Key::from_text(key))?.object()))
    }

    /// Returns all objects of a kind, ordered by key.
    ///
    /// # Errors
    ///
    /// If the kind is not served.
    pub fn list(&self, kind: &str) -> Result<Vec<Value>, ApiError> {
        let served = self.served(kind)?;
        let world = self.shared.world.read();
        let objects = world.storage.collection(served.collection).into_iter().flat_map(Collection::objects);
        Ok(objects.map(|(_, object)| read(&object.object())).collect())
    }

    /// Returns the number of objects of a kind.
    ///
    /// # Errors
    ///
    /// If the kind is not served.
    pub fn count(&self, kind: &str) -> Result<usize, ApiError> {
        let served = self.served(kind)?;
        let world = self.shared.world.read();
        Ok(world.storage.collection(served.collection).map_or(0, |found| found.all().len()))
    }

    /// Deletes an object and returns its last state.
    ///
    /// As with a client's delete, an object with finalizers gets a `deletionTimestamp` and stays until they are removed. The delete
    /// has the policy `Background`, as that of `kubectl delete`; it matters for [garbage collection](crate#garbage-collection).
    ///
    /// # Errors
    ///
    /// If the kind is not served, the object does not exist, or it is a namespace that cannot be deleted.
    pub fn delete(&self, kind: &str, key: &str) -> Result<Value, ApiError> {
        let served = self.served(kind)?;
        let key = Key::from_text(key);
        let terms = DeleteTerms::of(Propagation::Background);
        let deleted = self.shared.change(|world, now| world.delete(&served, key, &terms, now, Run::Real))?;
        match deleted {
            Deleted::Waits(object) | Deleted::Gone(object) => Ok(read(&object.object())),
        }
    }

    /// Returns the version (`resourceVersion`) of the last change. A new server has version 1.
    pub fn version(&self) -> u64 {
        self.shared.world.read().storage.version()
    }

    /// Raises the server's version, so that the next change gets `version + 1`. Does nothing if the server is already past it.
    ///
    /// ```
    /// # fn main() -> Result<(), informant_apiserver::ApiError> {
    /// # use informant_apiserver::ApiServer;
    /// let server = ApiServer::new();
    /// server.skip_to_version(100);
    /// let pod = server.put("pods", serde_json::json!({"metadata": {"namespace": "shop", "name": "web"}}))?;
    /// assert_eq!(pod["metadata"]["resourceVersion"], "101");
    /// # Ok(())
    /// # }
    /// ```
    pub fn skip_to_version(&self, version: u64) {
        self.shared.write(|world| world.storage.skip_to(version));
    }

    /// Expires all history, as etcd does when it compacts: new watches and lists from an older version, and continue tokens,
    /// fail with 410. Open watches continue.
    pub fn compact(&self) {
        self.shared.world.write().storage.compact();
    }

    /// Returns a backup of all objects at the current version, for [`restore`](Self::restore). Shares the objects with the
    /// server; costs one pointer and one key per object.
    pub fn backup(&self) -> Backup {
        self.shared.world.read().storage.backup()
    }

    /// Restores all objects and the server's version from a backup, as when an administrator restores etcd.
    ///
    /// The server then assigns versions again that clients have already seen with other content. The connections of all open
    /// watches break.
    pub fn restore(&self, backup: &Backup) {
        self.shared.write(|world| world.restore(backup));
    }

    /// Breaks the connections of all open watches of a kind, including streaming lists, and returns their number.
    /// Objects, versions and history stay.
    ///
    /// # Panics
    ///
    /// If [`check_kind`](Self::check_kind) fails for the name.
    #[track_caller]
    pub fn cut_watches(&self, kind: &str) -> usize {
        self.expect_kind(kind);
        self.shared.write(|world| {
            let served = world.registry.find(kind);
            served.map_or(0, |served| world.storage.cut_watches(served.collection))
        })
    }

    /// Breaks the connections of all open watches, including streaming lists. Objects, versions and history stay.
    ///
    /// Together with [`Fault::Refuse`] for all requests, this simulates an outage.
    pub fn cut_all_watches(&self) {
        self.shared.write(|world| world.storage.cut_all_watches());
    }

    /// Returns the number of open watches of a kind; 0 if the kind is not served.
    ///
    /// # Panics
    ///
    /// If [`check_kind`](Self::check_kind) fails for the name.
    #[track_caller]
    pub fn open_watches(&self, kind: &str) -> usize {
        self.expect_kind(kind);
        self.watches(kind)
    }

    fn watches(&self, kind: &str) -> usize {
        let world = self.shared.world.read();
        let served = world.registry.find(kind);
        served.and_then(|served| world.storage.collection(served.collection)).map_or(0, |found| found.watchers)
    }

    /// Injects one fault per request: the first fault hits the first matching request, the second fault the second, and so on.
    /// Later requests are not affected.
    ///
    /// # Panics
    ///
    /// As [`inject`](Self::inject).
    #[track_caller]
    pub fn inject_each(&self, on: &On, faults: impl IntoIterator<Item = Fault>) -> Vec<FaultId> {
        let mut ids = Vec::new();
        // A loop and not a closure, so that a panic names the caller's line.
        for (position, fault) in faults.into_iter().enumerate() {
            ids.push(self.inject(on.clone().skip(on.skip + position).once(), fault));
        }
        ids
    }

    /// Injects a fault: from now on, it hits the requests that `on` selects.
    ///
    /// ```
    /// use informant_apiserver::{ApiServer, Fault, On};
    ///
    /// let server = ApiServer::new();
    /// let outage = server.inject(On::any(), Fault::Refuse);
    /// server.remove_fault(outage);
    /// ```
    ///
    /// # Panics
    ///
    /// If [`check_kind`](Self::check_kind) fails for the name in [`On::of`].
    #[track_caller]
    pub fn inject(&self, on: On, fault: Fault) -> FaultId {
        if let Some(kind) = &on.resource {
            self.expect_kind(kind);
        }
        self.shared.desk.lock().plan.add(on, Effect::Fault(fault))
    }

    /// Shows the requests that `on` selects to a function before they are carried out. The function can change the body of a request,
    /// refuse it as an admission webhook does, or answer it.
    ///
    /// Several functions see a request in the order in which they were added, each with the body that the one before has left. A fault
    /// that prevents the response comes before them. The function runs in the task of the request and under no lock, so it may call the
    /// server.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use informant_apiserver::{ApiError, ApiServer, Interception, On};
    /// use k8s_openapi::api::core::v1::ConfigMap;
    /// use kube::{Api, api::{DeleteParams, PostParams}};
    /// use serde_json::json;
    ///
    /// let server = ApiServer::new();
    /// server.intercept(On::create().of("configmaps"), |request| {
    ///     request.body["metadata"]["labels"]["team"] = json!("web");
    ///     Interception::Pass
    /// });
    /// server.intercept(On::delete().of("configmaps"), |request| {
    ///     Interception::Refuse(ApiError::BadRequest(format!("{} is needed", request.name)))
    /// });
    ///
    /// let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    /// let map = serde_json::from_value(json!({"metadata": {"name": "prices"}}))?;
    /// let created = maps.create(&PostParams::default(), &map).await?;
    /// assert_eq!(created.metadata.labels.unwrap()["team"], "web");
    /// assert!(maps.delete("prices", &DeleteParams::default()).await.is_err());
    /// # Ok(()) }
    /// ```
    ///
    /// [`remove_fault`](Self::remove_fault) removes it, and [`fault_hits`](Self::fault_hits) counts the requests that it has seen.
    ///
    /// # Panics
    ///
    /// If [`check_kind`](Self::check_kind) fails for the name in [`On::of`].
    #[track_caller]
    pub fn intercept(
        &self,
        on: On,
        function: impl Fn(&mut InterceptedRequest) -> Interception + Send + Sync + 'static,
    ) -> FaultId {
        if let Some(kind) = &on.resource {
            self.expect_kind(kind);
        }
        self.shared.desk.lock().plan.add(on, Effect::Intercept(Arc::new(function)))
    }

    /// Removes a fault or an interceptor. Requests that it already hit, such as open watches, stay affected.
    pub fn remove_fault(&self, rule: FaultId) {
        self.shared.desk.lock().plan.remove(rule);
    }

    /// Removes all faults and interceptors.
    pub fn clear_faults(&self) {
        self.shared.desk.lock().plan.clear();
    }

    /// Returns the number of requests that a fault has hit; `None` if the fault was removed.
    pub fn fault_hits(&self, rule: FaultId) -> Option<usize> {
        self.shared.desk.lock().plan.struck(rule)
    }

    /// Returns the requests so far, oldest first; at most as many as
    /// [`remember_requests`](ApiServerBuilder::remember_requests) allows.
    pub fn requests(&self) -> Vec<LoggedRequest> {
        self.shared.desk.lock().log.all()
    }

    /// Returns the requests for one kind (`pods`, `deployments` or `deployments.apps`) in the short form of [`LoggedRequest`], such
    /// as `L(0, 500)` and `W(15)`.
    ///
    /// # Panics
    ///
    /// If [`check_kind`](Self::check_kind) fails for the name.
    #[track_caller]
    pub fn requests_for(&self, resource: &str) -> Vec<String> {
        self.expect_kind(resource);
        self.requests().iter().filter(|one| means(resource, &one.resource)).map(ToString::to_string).collect()
    }

    /// Clears the request log.
    pub fn clear_requests(&self) {
        self.shared.desk.lock().log.clear();
    }

    /// Waits for a request and returns it: the first one that matches, among those in the log and those that follow.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() {
    /// # use informant_apiserver::{ApiServer, Verb};
    /// # use k8s_openapi::api::core::v1::Pod;
    /// # use kube::{Api, api::ListParams};
    /// let server = ApiServer::new();
    /// let pods: Api<Pod> = Api::all(server.client());
    /// tokio::spawn(async move { pods.list(&ListParams::default().limit(500)).await });
    ///
    /// let list = server.wait_for_request(|request| request.verb == Verb::List).await;
    /// assert_eq!(list.limit, 500);
    /// # }
    /// ```
    pub async fn wait_for_request(&self, mut is_wanted: impl FnMut(&LoggedRequest) -> bool) -> LoggedRequest {
        let mut requests = self.shared.requests.subscribe();
        let mut seen = 0;
        loop {
            let (fresh, all) = self.shared.desk.lock().log.after(seen);
            if let Some(found) = fresh.into_iter().find(|request| is_wanted(request)) {
                return found;
            }
            seen = all;
            // Does not fail: `self` keeps the sender.
            let _ = requests.changed().await;
        }
    }

    /// Waits until exactly this many watches of a kind are open.
    ///
    /// Tests use it to change objects only after the program under test has opened its watches.
    ///
    /// # Panics
    ///
    /// If [`check_kind`](Self::check_kind) fails for the name.
    #[track_caller]
    pub fn wait_for_watches(&self, kind: &str, watches: usize) -> impl Future<Output = ()> {
        // Not in the future, so that a panic names the caller's line.
        self.expect_kind(kind);
        async move {
            let mut changed = self.shared.watches.subscribe();
            while self.watches(kind) != watches {
                // Does not fail: `self` keeps the sender.
                let _ = changed.changed().await;
            }
        }
    }

    /// The kind that objects name with these fields.
    pub(crate) fn served_as(&self, api_version: &str, kind: &str) -> Option<Served> {
        let world = self.shared.world.read();
        world
            .registry
            .served()
            .find(|served| served.kind.kind == kind && served.kind.api_version() == api_version)
            .cloned()
    }

    pub(crate) fn read<T>(&self, read: impl FnOnce(&World) -> T) -> T {
        read(&self.shared.world.read())
    }

    pub(crate) fn change<T>(
        &self,
        change: impl FnOnce(&mut World, &str) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        self.shared.change(change)
    }

    pub(crate) fn kind(&self, name: &str) -> Result<Kind, ApiError> {
        self.served(name).map(|served| (*served.kind).clone())
    }

    fn served(&self, kind: &str) -> Result<Served, ApiError> {
        let registry = &self.shared.world.read().registry;
        registry.find(kind).cloned().ok_or_else(|| registry.unknown(kind))
    }

    #[track_caller]
    fn expect_kind(&self, name: &str) {
        if let Err(error) = self.check_kind(name) {
            panic!("{error} (a kind that is not served yet is named with its group, such as widgets.example.com)");
        }
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

/// Decodes a stored object; the server encoded it, so this does not fail.
fn read(object: &[u8]) -> Value {
    serde_json::from_slice(object).unwrap_or(Value::Null)
}
