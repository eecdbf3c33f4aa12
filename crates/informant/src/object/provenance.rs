//! What all objects of one source have in common: kept once, beside each of them.

use std::sync::Arc;

use kube::core::TypeMeta;

/// Where objects come from: their apiVersion and kind, and their cluster. Shared by all objects of which it is true.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    types: TypeMeta,
    cluster: Option<Arc<str>>,
}

impl Provenance {
    /// Objects of this apiVersion and kind, of no cluster in particular.
    pub fn new(types: TypeMeta) -> Self {
        Self { types, cluster: None }
    }

    /// The same, of this cluster.
    pub fn of_cluster(mut self, cluster: impl Into<Arc<str>>) -> Self {
        self.cluster = Some(cluster.into());
        self
    }

    /// The same, of other types.
    pub(super) fn of_types(&self, types: TypeMeta) -> Self {
        Self { types, cluster: self.cluster.clone() }
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
