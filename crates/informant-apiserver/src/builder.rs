//! The options of a server.
//!
//! - **In:** options that a test sets before the server exists.
//! - **Out:** an [`ApiServer`].

use std::time::Duration;

use serde_json::Value;

use crate::{
    bootstrap,
    registry::{Registry, definition, kind::Kind},
    server::ApiServer,
    shared::{Settings, Shared},
    storage::HistoryLimits,
    world::{World, namespaces::NamespaceCheck},
};

/// Builds an [`ApiServer`] with options. Created by [`ApiServer::builder`].
///
/// ```
/// use std::time::Duration;
/// use informant_apiserver::ApiServer;
///
/// let server = ApiServer::builder().seed(7).history(100).bookmarks_every(Duration::from_secs(5)).build();
/// ```
#[derive(Clone, Debug)]
pub struct ApiServerBuilder {
    settings: Settings,
    seed: u64,
    history: HistoryLimits,
    has_built_in_kinds: bool,
    is_bootstrapped: bool,
    namespace_check: NamespaceCheck,
    tracks_fields: bool,
    remembered_requests: usize,
    collects_garbage: bool,
    /// Custom resource definitions that exist from the start.
    definitions: Vec<Value>,
}

impl Default for ApiServerBuilder {
    fn default() -> Self {
        Self {
            settings: Settings { bookmark_interval: Duration::from_secs(60), watch_cache: true },
            seed: 0,
            history: HistoryLimits { changes: 10_000, bytes: 64 * 1024 * 1024 },
            has_built_in_kinds: true,
            is_bootstrapped: false,
            namespace_check: NamespaceCheck::Existing,
            tracks_fields: true,
            remembered_requests: 100_000,
            collects_garbage: false,
            definitions: Vec::new(),
        }
    }
}

impl ApiServerBuilder {
    /// Sets the seed of all random values: uids, generated names, watch timeouts and the probabilities of faults. Default: 0.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets how many changes of each kind the server keeps, for watches and for lists of older versions. Default: 10,000.
    ///
    /// A watch whose client falls further behind ends. The server always keeps the last change.
    #[must_use]
    pub fn history(mut self, changes: usize) -> Self {
        self.history.changes = changes;
        self
    }

    /// Limits the history of each kind by size: the JSON bytes of all object states that are not current. Default: 64 MiB.
    ///
    /// Beyond the limit the server drops the oldest changes, as with [`history`](Self::history).
    #[must_use]
    pub fn history_bytes(mut self, bytes: usize) -> Self {
        self.history.bytes = bytes;
        self
    }

    /// Sends a bookmark this often to watches that request them. Default: every minute.
    #[must_use]
    pub fn bookmarks_every(mut self, interval: Duration) -> Self {
        self.settings.bookmark_interval = interval;
        self
    }

    /// Makes lists with `resourceVersion=0` ignore their `limit`, as kube-apiserver does when it serves them from its watch
    /// cache. Default: true.
    #[must_use]
    pub fn watch_cache(mut self, enabled: bool) -> Self {
        self.settings.watch_cache = enabled;
        self
    }

    /// Serves only kinds that are registered or defined. If a definition was added with `crd`, the kind
    /// CustomResourceDefinition is served too.
    #[must_use]
    pub fn without_built_in_kinds(mut self) -> Self {
        self.has_built_in_kinds = false;
        self
    }

    /// Starts with the objects that a new cluster has: the namespaces `default`, `kube-node-lease`, `kube-public` and `kube-system`, the
    /// Service `kubernetes`, the ClusterRole and ClusterRoleBinding `cluster-admin`, and the two system priority classes. Default: no
    /// objects, so that tests can count their own.
    #[must_use]
    pub fn bootstrapped(mut self) -> Self {
        self.is_bootstrapped = true;
        self
    }

    /// Allows clients to create objects in namespaces that do not exist or are being deleted. Default: as in kube-apiserver, such
    /// requests fail with 404 and 403.
    ///
    /// `default`, `kube-node-lease`, `kube-public` and `kube-system` count as existing even if they are not stored.
    /// [`put`](ApiServer::put) never checks the namespace.
    #[must_use]
    pub fn allow_missing_namespaces(mut self) -> Self {
        self.namespace_check = NamespaceCheck::None;
        self
    }

    /// Stores `metadata.managedFields` as clients send them. Default: the server notes which client wrote which fields, as kube-apiserver
    /// does.
    ///
    /// A server-side apply then neither finds conflicts nor removes fields that the client no longer applies.
    #[must_use]
    pub fn without_managed_fields(mut self) -> Self {
        self.tracks_fields = false;
        self
    }

    /// Sets how many requests the log keeps; it drops the oldest ones beyond that. Default: 100,000.
    #[must_use]
    pub fn remember_requests(mut self, requests: usize) -> Self {
        self.remembered_requests = requests;
        self
    }

    /// Deletes objects whose owners are gone, as the garbage collector of a cluster does. Default: objects stay, also without owners.
    ///
    /// The [crate page](crate#garbage-collection) explains when.
    #[must_use]
    pub fn garbage_collection(mut self) -> Self {
        self.collects_garbage = true;
        self
    }

    /// Builds the server.
    pub fn build(self) -> ApiServer {
        let mut world = World::new(self.history, self.seed, self.namespace_check);
        if self.collects_garbage {
            world.start_collector();
        }
        world.tracks_fields = self.tracks_fields;
        let is_served =
            |kind: &Kind| self.has_built_in_kinds || (definition::defines(kind) && !self.definitions.is_empty());
        Registry::builtin_kinds().filter(is_served).for_each(|kind| world.add_version(kind));
        let shared = Shared::new(world, self.settings, self.seed, self.remembered_requests);
        let server = ApiServer::from_shared(shared);
        if self.is_bootstrapped {
            for (kind, object) in bootstrap::objects() {
                // Fails only without built-in kinds; then there are no such objects.
                let _ = server.store(kind, object);
            }
        }
        for definition in self.definitions {
            // Does not fail: `definition` has tried it.
            let _ = server.create(definition::RESOURCE, definition);
        }
        server
    }

    /// Adds a custom resource definition that [`build`](Self::build) creates. Fails if the server rejects it.
    #[cfg(feature = "kube")]
    pub(crate) fn definition(mut self, definition: Value) -> Result<Self, crate::ApiError> {
        let server = Self { has_built_in_kinds: true, ..self.clone() }.build();
        server.create(definition::RESOURCE, definition.clone())?;
        self.definitions.push(definition);
        Ok(self)
    }
}
