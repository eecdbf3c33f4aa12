//! The options of a server, and how it is built from them.
//!
//! - **In:** what a user sets before the server exists.
//! - **Out:** an [`ApiServer`].

use std::time::Duration;

use serde_json::Value;

use crate::bootstrap;
use crate::registry::Registry;
use crate::registry::definition;
use crate::registry::kind::Kind;
use crate::server::ApiServer;
use crate::shared::Settings;
use crate::shared::Shared;
use crate::storage::HistoryLimits;
use crate::world::World;
use crate::world::namespaces::NamespaceCheck;

/// The options of an [`ApiServer`]. Made by [`ApiServer::builder`].
#[derive(Clone, Debug)]
pub struct ApiServerBuilder {
    settings: Settings,
    seed: u64,
    history: HistoryLimits,
    has_built_in_kinds: bool,
    is_bootstrapped: bool,
    namespace_check: NamespaceCheck,
    remembered_requests: usize,
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
            remembered_requests: 100_000,
            definitions: Vec::new(),
        }
    }
}

impl ApiServerBuilder {
    /// The seed of all random values: uids, generated names and the probabilities of faults. Default: 0.
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

    /// Serves only the kinds that are registered or defined; if a definition was added with `crd`, also the kind
    /// CustomResourceDefinition.
    #[must_use]
    pub fn without_built_in_kinds(mut self) -> Self {
        self.has_built_in_kinds = false;
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

    /// Lets clients create objects in namespaces that do not exist or are being deleted. Default: kube-apiserver's answers, 404 for a
    /// missing namespace and 403 for one that is being deleted.
    ///
    /// `default`, `kube-node-lease`, `kube-public` and `kube-system` count as existing even if they are not stored.
    /// [`put`](ApiServer::put) stores an object in any namespace, whatever this option is.
    #[must_use]
    pub fn allow_missing_namespaces(mut self) -> Self {
        self.namespace_check = NamespaceCheck::None;
        self
    }

    /// How many requests are remembered. Default: 100,000.
    #[must_use]
    pub fn remember_requests(mut self, requests: usize) -> Self {
        self.remembered_requests = requests;
        self
    }

    /// Builds the server.
    ///
    /// # Panics
    ///
    /// If the server refuses a custom resource definition that was added with `crd`, for example because two have the same name.
    pub fn build(self) -> ApiServer {
        let mut world = World::new(self.history, self.seed, self.namespace_check);
        let is_served =
            |kind: &Kind| self.has_built_in_kinds || (definition::defines(kind) && !self.definitions.is_empty());
        Registry::builtin_kinds().filter(is_served).for_each(|kind| world.add_version(kind));
        let shared = Shared::new(world, self.settings, self.seed, self.remembered_requests);
        let server = ApiServer::from_shared(shared);
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
