//! Why a cache or a handler did not reach an awaited state.

use std::{fmt, sync::Arc, time::Duration};

use super::ListWatchError;
use crate::{Key, ResourceVersion, object::DecodeError};

/// Why the cache of an informer, or one of its handlers, did not reach the awaited state.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// The cache did not reach the state in time.
    #[error("informer {informer} has not seen {awaited} within {within:?}; its cache is at {}", cache_version(cache.as_ref()))]
    TimedOut {
        /// Which informer.
        informer: Arc<str>,
        /// The state that was awaited.
        awaited: WaitTarget,
        /// The time limit.
        within: Duration,
        /// The version of the cache; `None` before the first list.
        cache: Option<ResourceVersion>,
        /// The last list or watch that failed, if the informer is failing now.
        #[source]
        reason: Option<Arc<ListWatchError>>,
    },
    /// The server's history changed during the wait, for example because a backup was restored: the awaited write may be lost.
    #[error(
        "informer {informer}: the server's history changed (was it restored from a backup?) {}",
        history_changed(handler.as_deref(), awaited, cache.as_ref())
    )]
    HistoryChanged {
        /// Which informer.
        informer: Arc<str>,
        /// Which handler, if the wait was for one.
        handler: Option<Arc<str>>,
        /// The state that was awaited.
        awaited: WaitTarget,
        /// The version of the cache.
        cache: Option<ResourceVersion>,
    },
    /// The informer has stopped. A handler may have received the awaited events.
    #[error("informer {informer} has stopped{}", stopped(handler.as_deref(), awaited, cache.as_ref()))]
    Stopped {
        /// Which informer.
        informer: Arc<str>,
        /// Which handler, if the wait was for one.
        handler: Option<Arc<str>>,
        /// The state that was awaited; if a handler was to receive everything that the cache has, the version of the cache, which is empty
        /// before the first list.
        awaited: WaitTarget,
        /// The version of the cache.
        cache: Option<ResourceVersion>,
    },
    /// The versions are not numbers, so they have no order.
    #[error(
        "informer {informer} cannot find out whether its cache is newer than the awaited version: resource versions {reached:?} and \
         {awaited:?} cannot be compared: both must be decimals without leading zeros"
    )]
    NotComparable {
        /// Which informer.
        informer: Arc<str>,
        /// The version of the cache, or of an object in it.
        reached: ResourceVersion,
        /// The awaited version.
        awaited: ResourceVersion,
    },
    /// The object is in [quarantine](crate::SharedInformer::quarantined): its awaited state cannot be decoded or transformed, so the
    /// cache will not show it.
    #[error("informer {informer} cannot read {key}, so its cache keeps an older state of the object or none")]
    Quarantined {
        /// Which informer.
        informer: Arc<str>,
        /// Which object.
        key: Key,
        /// The reason why it cannot be decoded or transformed.
        source: Arc<DecodeError>,
    },
    /// The object has no name or no version, so no server returned it from a write.
    #[error(
        "informer {informer} cannot wait for an object without name or resourceVersion; pass the object that the write returned"
    )]
    MissingNameOrVersion {
        /// Which informer.
        informer: Arc<str>,
    },
    /// The informer cannot see the written object: it is of another kind or namespace, or the informer's selectors exclude it.
    #[error("informer {informer} will not see {key}: {reason}")]
    OutsideScope {
        /// Which informer.
        informer: Arc<str>,
        /// Which object.
        key: Key,
        /// What excludes the object.
        reason: ScopeMismatch,
    },
    /// The object is in a namespace or cluster that is not part of the view.
    #[error("the view of {view} will not see {address}: that is in none of the namespaces and clusters of the view")]
    OutsideView {
        /// Which view.
        view: Arc<str>,
        /// Which object, with its cluster if the view has several.
        address: String,
    },
    /// The handler belongs to a view of several clusters, and each cluster has versions of its own.
    #[error(
        "the members of {view} are in several clusters, and version {version} is of one of them; register {handler} with the view of \
         that cluster"
    )]
    SeveralClusters {
        /// The view's name.
        view: Arc<str>,
        /// Which handler.
        handler: Arc<str>,
        /// The awaited version.
        version: ResourceVersion,
    },
    /// The handler was removed, perhaps after it had received these events: a removed handler has no progress.
    #[error("{handler} was removed from informer {informer} and may not have received all events{}", up_to(awaited))]
    Removed {
        /// Which informer.
        informer: Arc<str>,
        /// Which handler.
        handler: Arc<str>,
        /// The awaited version, as of [`Stopped`](Self::Stopped).
        awaited: WaitTarget,
    },
    /// The wait for the handler is in one of its own callbacks, which would wait for itself.
    #[error(
        "{handler} of informer {informer} cannot wait in one of its own callbacks until it has received events; wait in another task"
    )]
    InsideCallback {
        /// Which informer.
        informer: Arc<str>,
        /// Which handler.
        handler: Arc<str>,
    },
}

/// Why an informer cannot see an object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ScopeMismatch {
    /// The object is of another kind. Kinds are written with their group: `Pod`, `Deployment.apps`.
    Kind {
        /// The kind of the informer's objects.
        informer: String,
        /// The kind of the object.
        object: String,
    },
    /// The object is in another namespace.
    Namespace {
        /// The namespace of the informer's objects.
        informer: Arc<str>,
    },
    /// The object's labels do not match the informer's label selector.
    Labels {
        /// The informer's label selector.
        selector: String,
    },
    /// The object's name or namespace does not match the informer's field selector.
    Fields {
        /// The informer's field selector.
        selector: String,
    },
}

/// The state of the cache that a call waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitTarget {
    /// All changes up to this version are in the cache.
    Version(ResourceVersion),
    /// The object is in the cache at this version or a newer one.
    Object(Key, ResourceVersion),
    /// The object is not in the cache.
    Deletion(Key),
    /// The state of the object in the cache satisfies a condition.
    Condition(Key),
}

impl WaitError {
    /// The error of a handler that waits for the cache.
    pub(crate) fn of_handler(mut self, name: Arc<str>) -> Self {
        if let Self::HistoryChanged { handler, .. } | Self::Stopped { handler, .. } = &mut self {
            *handler = Some(name);
        }
        self
    }
}

impl fmt::Display for ScopeMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kind { informer, object } => {
                write!(f, "the object is a {object}, and the informer has objects of kind {informer}")
            }
            Self::Namespace { informer } => write!(f, "the informer has only objects of namespace {informer}"),
            Self::Labels { selector } => write!(f, "its labels do not match the informer's selector {selector:?}"),
            Self::Fields { selector } => {
                write!(f, "its name or namespace does not match the informer's field selector {selector:?}")
            }
        }
    }
}

impl fmt::Display for WaitTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Version(version) => write!(f, "version {version}"),
            Self::Object(key, version) => write!(f, "{key} at version {version}"),
            Self::Deletion(key) => write!(f, "the deletion of {key}"),
            Self::Condition(key) => write!(f, "a state of {key} that satisfies the condition"),
        }
    }
}

fn cache_version(cache: Option<&ResourceVersion>) -> String {
    cache.map_or_else(|| "no version yet".to_owned(), |version| format!("version {version}"))
}

fn history_changed(handler: Option<&str>, awaited: &WaitTarget, cache: Option<&ResourceVersion>) -> String {
    match handler {
        None => format!(
            "while waiting for {awaited}; that write may be lost, so read the object again; its cache is at {}",
            cache_version(cache)
        ),
        Some(handler) => {
            format!("before {handler} received all events up to {awaited}; that write may be lost, so read it again")
        }
    }
}

fn stopped(handler: Option<&str>, awaited: &WaitTarget, cache: Option<&ResourceVersion>) -> String {
    match handler {
        None => format!(" and will not see {awaited}; its cache stays at {}", cache_version(cache)),
        Some(handler) => format!(", and {handler} may not have received all events{}", up_to(awaited)),
    }
}

/// The state up to which events were awaited; nothing if the cache had no version.
fn up_to(awaited: &WaitTarget) -> String {
    match matches!(awaited, WaitTarget::Version(version) if version.is_empty()) {
        true => String::new(),
        false => format!(" up to {awaited}"),
    }
}
