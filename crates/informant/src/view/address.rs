//! The address of an object in a view: its key, or its cluster and key.

use std::{fmt, sync::Arc};

use crate::{Cached, Key};

/// The address of an object in a view of several clusters: the cluster and the key.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterKey {
    /// The cluster.
    pub cluster: Arc<str>,
    /// Namespace and name.
    pub key: Key,
}

impl ClusterKey {
    /// Creates the address of an object in a cluster.
    pub fn new(cluster: impl Into<Arc<str>>, key: Key) -> Self {
        Self { cluster: cluster.into(), key }
    }

    /// The cluster and key of a cached object; `None` if its cluster has no name.
    pub fn of<O>(object: &Cached<O>) -> Option<Self> {
        Some(Self::new(Arc::clone(object.cluster()?), object.key().clone()))
    }
}

impl fmt::Display for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.cluster, self.key)
    }
}

/// The address of an object in a view: a [`Key`] or a [`ClusterKey`].
pub trait Address: fmt::Display + sealed::Sealed + Sized {
    /// Namespace and name.
    fn key(&self) -> &Key;

    /// The cluster, if there are several.
    fn cluster(&self) -> Option<&Arc<str>>;

    /// Creates the address of a key in a cluster.
    #[doc(hidden)]
    fn new(cluster: Option<&Arc<str>>, key: Key) -> Self;
}

impl Address for Key {
    fn key(&self) -> &Key {
        self
    }

    fn cluster(&self) -> Option<&Arc<str>> {
        None
    }

    fn new(_: Option<&Arc<str>>, key: Key) -> Self {
        key
    }
}

impl Address for ClusterKey {
    fn key(&self) -> &Key {
        &self.key
    }

    fn cluster(&self) -> Option<&Arc<str>> {
        Some(&self.cluster)
    }

    fn new(cluster: Option<&Arc<str>>, key: Key) -> Self {
        Self { cluster: cluster.cloned().unwrap_or_default(), key }
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::Key {}
    impl Sealed for super::ClusterKey {}
}
