//! The data that all objects of one source have in common: stored once, and shared by all of them.

use std::sync::Arc;

use kube::core::TypeMeta;

/// The origin of objects: their apiVersion and kind, and their cluster. All objects of one source share it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    pub(crate) types: TypeMeta,
    pub(crate) cluster: Option<Arc<str>>,
    /// The number of history changes of the source when these objects were read. Objects of two histories may have the same uid and version
    /// but different content.
    pub(crate) history: u64,
}

impl Provenance {
    /// The origin of objects with this apiVersion and kind, without a cluster.
    pub fn new(types: TypeMeta) -> Self {
        Self { types, cluster: None, history: 0 }
    }

    /// Sets the name of the cluster.
    pub fn of_cluster(mut self, cluster: impl Into<Arc<str>>) -> Self {
        self.cluster = Some(cluster.into());
        self
    }

    /// apiVersion and kind; both are empty if the source has none.
    pub fn types(&self) -> &TypeMeta {
        &self.types
    }

    /// The name of the cluster, if it was set.
    pub fn cluster(&self) -> Option<&Arc<str>> {
        self.cluster.as_ref()
    }
}
