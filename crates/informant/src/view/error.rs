//! Why informers do not make a view.

use std::sync::Arc;

/// Why informers do not make a view.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// There is none.
    #[error("a view needs at least one informer")]
    Empty,
    /// One that is not of one namespace.
    #[error("informer {informer} is not of one namespace; ask for it with `in_namespace`")]
    NoNamespace {
        /// Which one.
        informer: Arc<str>,
    },
    /// Two of the same namespace.
    #[error("informers {first} and {second} are both of namespace {namespace:?}; name each namespace once")]
    SameNamespace {
        /// The namespace.
        namespace: Arc<str>,
        /// One of them.
        first: Arc<str>,
        /// The other one.
        second: Arc<str>,
    },
    /// One that does not say of which cluster it is.
    #[error(
        "informer {informer} does not say of which cluster its objects are; name it with `of_cluster` of its factory or source"
    )]
    NoCluster {
        /// Which one.
        informer: Arc<str>,
    },
    /// Two of the same cluster that are not one view already.
    #[error("informers {first} and {second} are both of cluster {cluster:?}; name each cluster differently")]
    SameCluster {
        /// The cluster.
        cluster: Arc<str>,
        /// One of them.
        first: Arc<str>,
        /// The other one.
        second: Arc<str>,
    },
    /// Two of different clusters in a view of one.
    #[error(
        "informers {first} and {second} are of different clusters; make a view of each cluster, and then one of clusters"
    )]
    MixedClusters {
        /// One of them.
        first: Arc<str>,
        /// The other one.
        second: Arc<str>,
    },
}
