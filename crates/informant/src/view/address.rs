//! How an object is found in a view: by its key, or by its cluster and key.

use std::fmt;
use std::sync::Arc;

use super::Member;
use super::View;
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

impl<O: Send + Sync + 'static, A: Address> View<O, A> {
    /// The member that has an object, if it exists.
    pub(super) fn member_of(&self, address: &A) -> Option<&Member<O>> {
        let at = |namespace| {
            let place = (address.cluster().map(|cluster| &**cluster), namespace);
            self.members.binary_search_by(|member| member.place().cmp(&place)).ok()
        };
        let position = address.key().namespace().and_then(|namespace| at(Some(namespace))).or_else(|| at(None))?;
        self.members.get(position)
    }
}
