//! How an object is found in a view: by its key, or by its cluster and key.

use std::fmt;
use std::sync::Arc;

use crate::Cached;
use crate::Key;

/// An object of one of several clusters.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClusterKey {
    /// The cluster.
    pub cluster: Arc<str>,
    /// Namespace and name.
    pub key: Key,
}

impl ClusterKey {
    /// An object of a cluster.
    pub fn new(cluster: impl Into<Arc<str>>, key: Key) -> Self {
        Self { cluster: cluster.into(), key }
    }

    /// Where a cached object is; `None` if it does not say of which cluster it is.
    pub fn of<O>(object: &Cached<O>) -> Option<Self> {
        Some(Self::new(Arc::clone(object.cluster()?), object.key().clone()))
    }
}

impl fmt::Display for ClusterKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.cluster, self.key)
    }
}

/// How an object is found in a view: a [`Key`] or a [`ClusterKey`].
pub trait Address: fmt::Display + sealed::Sealed + Sized {
    /// Namespace and name.
    fn key(&self) -> &Key;

    /// The cluster, if there are several.
    fn cluster(&self) -> Option<&Arc<str>>;

    /// What has this key in a cluster.
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
