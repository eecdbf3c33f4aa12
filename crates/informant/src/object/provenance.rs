//! What all objects of one source have in common: kept once, beside each of them.

use std::sync::Arc;

use kube::core::TypeMeta;

/// Where objects come from: their apiVersion and kind, and their cluster. Shared by all objects of which it is true.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    types: TypeMeta,
    cluster: Option<Arc<str>>,
    /// How often the source's history had changed when these objects were read. Objects of two histories may have the same uid
    /// and version and differ all the same.
    history: u64,
}

impl Provenance {
    /// Objects of this apiVersion and kind, of no cluster in particular.
    pub fn new(types: TypeMeta) -> Self {
        Self { types, cluster: None, history: 0 }
    }

    /// The same, of this cluster.
    pub fn of_cluster(mut self, cluster: impl Into<Arc<str>>) -> Self {
        self.cluster = Some(cluster.into());
        self
    }

    /// The same, of other types.
    pub(super) fn of_types(&self, types: TypeMeta) -> Self {
        Self { types, cluster: self.cluster.clone(), history: self.history }
    }

    /// The same, read after so many changes of the source's history.
    pub(crate) fn of_history(mut self, history: u64) -> Self {
        self.history = history;
        self
    }

    pub(crate) fn history(&self) -> u64 {
        self.history
    }

    /// apiVersion and kind; both empty if the source has none.
    pub fn types(&self) -> &TypeMeta {
        &self.types
    }

    /// The cluster, if it was named.
    pub fn cluster(&self) -> Option<&Arc<str>> {
        self.cluster.as_ref()
    }
}
