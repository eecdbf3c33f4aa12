//! The error of creating a view.

use std::sync::Arc;

/// Why informers cannot form a view.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ViewError {
    /// There is no informer.
    #[error("a view needs at least one informer")]
    Empty,
    /// An informer covers all namespaces.
    #[error("informer {informer} covers all namespaces; request it with `in_namespace`")]
    NoNamespace {
        /// The name of the informer.
        informer: Arc<str>,
    },
    /// Two informers cover the same namespace.
    #[error("informers {first} and {second} both cover namespace {namespace:?}; name each namespace once")]
    SameNamespace {
        /// The namespace.
        namespace: Arc<str>,
        /// The name of one informer.
        first: Arc<str>,
        /// The name of the other one.
        second: Arc<str>,
    },
    /// The cluster of an informer has no name.
    #[error("the cluster of informer {informer} has no name; set it with `of_cluster` of its factory or source")]
    NoCluster {
        /// The name of the informer.
        informer: Arc<str>,
    },
    /// Two informers that are not in one view cover the same cluster.
    #[error("informers {first} and {second} both cover cluster {cluster:?}; give each cluster a name of its own")]
    SameCluster {
        /// The cluster.
        cluster: Arc<str>,
        /// The name of one informer.
        first: Arc<str>,
        /// The name of the other one.
        second: Arc<str>,
    },
    /// Two informers of a view of namespaces cover different clusters.
    #[error(
        "informers {first} and {second} cover different clusters; make a view of each cluster, and combine them with `View::of_clusters`"
    )]
    MixedClusters {
        /// The name of one informer.
        first: Arc<str>,
        /// The name of the other one.
        second: Arc<str>,
    },
}
