//! Why the library refused what a program requested of a factory, an informer or a view.

use std::sync::Arc;

use super::ParseError;

/// Why an informer, a view or a handler cannot be as the program requested it. Another request is needed: retrying does not help, unless
/// discovery failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// A namespace was requested of a kind that is cluster-scoped.
    #[error("{kind} is cluster-scoped: it cannot be watched in namespace {namespace:?}; leave the namespace out")]
    ClusterScoped {
        /// The kind.
        kind: String,
        /// The requested namespace.
        namespace: String,
    },
    /// The text is not a valid name of a namespace.
    #[error("{namespace:?} is not a valid name of a namespace; use lowercase letters, digits and \"-\"")]
    BadNamespace {
        /// The requested namespace.
        namespace: String,
    },
    /// The label selector is invalid.
    #[error(transparent)]
    Labels(#[from] ParseError),
    /// `informer` was called for an empty set of namespaces, or for several.
    #[error(
        "an informer of {resource} covers one namespace, but the request names {namespaces}; call `view` for several"
    )]
    NotOneNamespace {
        /// The requested resource.
        resource: String,
        /// How many namespaces.
        namespaces: usize,
    },
    /// The server has no such kind.
    #[error(
        "the server has no kind {kind:?} in group {group:?}; check that it is installed, and its spelling (such as \"Pod\", not \"pods\")"
    )]
    UnknownKind {
        /// The API group; empty for the core group, as of pods and nodes.
        group: String,
        /// The kind.
        kind: String,
    },
    /// A discovery request failed.
    #[error("discovery of kind {kind:?} in group {group:?} failed")]
    Discovery {
        /// The API group.
        group: String,
        /// The kind.
        kind: String,
        /// The client's error.
        source: Box<kube::Error>,
    },
    /// The informers cannot form a view.
    #[error("{problem}")]
    View {
        /// What is wrong with which informers.
        problem: String,
    },
    /// The informer has been started, which is too late for the setting.
    #[error("informer {informer} has already started; set its {setting} before `start`")]
    AlreadyStarted {
        /// Which informer.
        informer: Arc<str>,
        /// The setting, such as `transform`.
        setting: &'static str,
    },
    /// A handler for whole batches was registered with a setting or callbacks that take batches apart.
    #[error("a handler of informer {informer} with `on_batch` receives whole batches of events; remove {other}")]
    OnlyBatches {
        /// Which informer or view.
        informer: Arc<str>,
        /// What does not go together with it.
        other: &'static str,
    },
    /// A handler or stream was added to an informer that has stopped.
    #[error("informer {informer} has stopped and accepts no handlers or streams; create a new informer")]
    Stopped {
        /// Which informer.
        informer: Arc<str>,
    },
    /// An index function of the informer added a handler or stream. The informer holds a lock while it runs index functions.
    #[error(
        "an index function of informer {informer} cannot add handlers or streams to it; add them outside of index functions"
    )]
    InsideIndexFunction {
        /// Which informer.
        informer: Arc<str>,
    },
}
