//! Why a cache does not have an object or an index.

use std::sync::Arc;

use super::one_line;
use crate::Key;

/// The cache does not have the object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{}{key} not found in the cache of {resource}{}",
    cluster.as_ref().map(|cluster| format!("{cluster}/")).unwrap_or_default(),
    match (*.has_stopped, *.is_synced) {
        (true, _) => ", whose informer has stopped",
        (false, false) => ", which is not synced yet; wait for `synced` before you read it",
        (false, true) => "",
    }
)]
#[non_exhaustive]
pub struct NotFound {
    /// The name of the objects, such as "pods".
    pub resource: Arc<str>,
    /// The cluster of the requested object; `None` if `resource` contains it.
    pub cluster: Option<Arc<str>>,
    /// The key of the requested object.
    pub key: Key,
    /// Whether the cache holds the first list of its informer. True for a cache without an informer.
    pub is_synced: bool,
    /// Whether the informer of the cache [has stopped](crate::Lister::has_stopped).
    pub has_stopped: bool,
}

/// Why an index cannot be added or read, or does not have all objects.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// An index with that name exists, and its function may be another one.
    #[error(
        "an index named {name:?} exists already; choose another name, or read the existing one with `lister.index({name:?})`"
    )]
    Exists {
        /// The name.
        name: Arc<str>,
    },
    /// No index has that name.
    #[error("no index is named {name:?}; the existing ones are {existing:?}")]
    Unknown {
        /// The requested name.
        name: String,
        /// The names of the existing indexes.
        existing: Vec<Arc<str>>,
    },
    /// An index function panicked. The object is stored, but the index does not find it.
    #[error("the function of index {index:?} panicked on {key}: {}", one_line(message))]
    Panicked {
        /// The index.
        index: Arc<str>,
        /// The object.
        key: Key,
        /// The message of the panic.
        message: String,
    },
}
