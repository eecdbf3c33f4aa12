//! The data that all objects of one source have in common: stored once, and shared by all of them.

use std::sync::Arc;

use derive_where::derive_where;
use kube::core::TypeMeta;

use super::memory::ObjectMemory;

/// The origin of objects: their apiVersion and kind, and their cluster. All objects of one source share it.
#[derive(Clone, Default)]
#[derive_where(Debug, PartialEq, Eq)]
pub struct Provenance {
    /// apiVersion and kind; both are empty if the source has none.
    pub types: TypeMeta,
    /// The name of the cluster, if it has one.
    pub cluster: Option<Arc<str>>,
    /// The number of history changes of the source when these objects were read. Objects of two histories may have the same uid and version
    /// but different content.
    pub(crate) history: u64,
    /// Counts the bytes of these objects; `None` if no informer made them.
    #[derive_where(skip)]
    pub(crate) memory: Option<Arc<ObjectMemory>>,
}

impl Provenance {
    /// The origin of objects with this apiVersion and kind, without a cluster.
    pub fn new(types: TypeMeta) -> Self {
        Self { types, ..Self::default() }
    }
}
