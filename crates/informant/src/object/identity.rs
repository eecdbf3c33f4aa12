//! Who an object is, and which state of it: key, uid and version.

use std::fmt;
use std::sync::Arc;

use super::DecodeError;
use crate::Key;
use crate::ResourceVersion;

/// What the server calls one life of an object: a re-created object has another uid. Empty means unknown.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(Arc<str>);

/// Names one state of one object.
///
/// It is read from the bytes once and kept beside the object, so nothing has to be decoded to ask for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Namespace and name.
    pub key: Key,
    /// Which life of the object; empty if the source has none.
    pub uid: Uid,
    /// Which state of the object; empty if the source has none.
    pub version: ResourceVersion,
}

impl Uid {
    /// Takes a uid as the server wrote it.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The uid as the server wrote it.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the uid is unknown.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Identity {
    /// An object of a source that has neither uids nor versions.
    pub fn of_key(key: Key) -> Self {
        Self { key, uid: Uid::default(), version: ResourceVersion::default() }
    }

    /// The identity of an object that a server returned from a write; `None` if it has no name or no version.
    pub(crate) fn of_written<K: kube::Resource>(object: &K) -> Option<Self> {
        Self::of(object).ok().filter(|identity| !identity.version.is_empty())
    }

    /// The identity of an object that is decoded already, such as the answer to a request.
    ///
    /// # Errors
    ///
    /// When it has no name, as one that the server never saw.
    pub fn of<K: kube::Resource>(object: &K) -> Result<Self, DecodeError> {
        let meta = object.meta();
        Ok(Self {
            key: Key::of(object)?,
            uid: Uid::new(meta.uid.as_deref().unwrap_or_default()),
            version: ResourceVersion::new(meta.resource_version.as_deref().unwrap_or_default()),
        })
    }

    /// Whether both name the same state for sure: uid and version are known and equal.
    pub fn is_same_state(&self, other: &Self) -> bool {
        !self.uid.is_empty() && !self.version.is_empty() && self.uid == other.uid && self.version == other.version
    }

    /// Whether both may be the same life of an object: the uids are equal, or one of them is unknown.
    pub fn may_be_same_life(&self, uid: &Uid) -> bool {
        self.uid.is_empty() || uid.is_empty() || self.uid == *uid
    }
}

impl Default for Uid {
    fn default() -> Self {
        Self::new("")
    }
}

impl From<&str> for Uid {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}
