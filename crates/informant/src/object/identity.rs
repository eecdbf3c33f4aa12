//! The identity of one state of an object: key, uid and version.
//!
//! - **In:** the three as text, or the metadata of an object.
//! - **Out:** [`Identity`], which the cache compares states by.
//! - **Knows nothing of:** the rest of the object.

use std::{fmt, sync::Arc};

use super::DecodeError;
use crate::{Key, ResourceVersion};

/// The `metadata.uid` of an object. An object that is deleted and created again gets a new one. Empty means unknown.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(Arc<str>);

/// Identifies one state of one object.
///
/// It is read from the bytes once and kept beside the object, so reading it decodes nothing.
///
/// ```
/// use informant::{Cached, Identity};
///
/// let identity = Identity::new("shop/web", "u1", 15);
/// assert_eq!((identity.key.name(), identity.uid.as_str(), identity.version.as_str()), ("web", "u1", "15"));
///
/// let object = Cached::new(identity, "the content");
/// assert_eq!(format!("{object:?}"), "shop/web@15");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Namespace and name.
    pub key: Key,
    /// The incarnation of the object; empty if the source has no uids.
    pub uid: Uid,
    /// The version of this state; empty if the source has no versions.
    pub version: ResourceVersion,
}

impl Uid {
    /// Makes a uid from the text that the server sent.
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// The text that the server sent.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the uid is unknown.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Identity {
    /// Makes an identity from its parts, in one short line: `Identity::new("shop/web", "u1", 15)`. Meant for tests and for sources of your
    /// own.
    ///
    /// The key is a [`Key`], or a text such as `"shop/web"` or `"node-1"`. The version is a number or a text; an empty text means that the
    /// source has no versions, and an empty uid that it has no uids.
    ///
    /// # Panics
    ///
    /// When the text is not a key, for example because it has two slashes. Parse the key first if the text is not a literal.
    #[track_caller]
    pub fn new<K>(key: K, uid: impl Into<Uid>, version: impl Into<ResourceVersion>) -> Self
    where
        K: TryInto<Key, Error: fmt::Display>,
    {
        match key.try_into() {
            Ok(key) => Self { key, uid: uid.into(), version: version.into() },
            Err(error) => panic!("an identity needs a valid key: {error}"),
        }
    }

    /// The identity of an object whose source has neither uids nor versions.
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
    /// [`DecodeError::NoName`] if the object has no name, for example because it was never sent to a server.
    pub fn of<K: kube::Resource>(object: &K) -> Result<Self, DecodeError> {
        let meta = object.meta();
        Ok(Self {
            key: Key::of(object)?,
            uid: Uid::new(meta.uid.as_deref().unwrap_or_default()),
            version: ResourceVersion::new(meta.resource_version.as_deref().unwrap_or_default()),
        })
    }

    /// Whether both certainly name the same state: uid and version are known and equal.
    pub(crate) fn is_same_state(&self, other: &Self) -> bool {
        !self.uid.is_empty() && !self.version.is_empty() && self.uid == other.uid && self.version == other.version
    }

    /// Whether both may be the same incarnation of an object: the uids are equal, or one of them is unknown.
    pub fn may_be_same_incarnation(&self, uid: &Uid) -> bool {
        self.uid.is_empty() || uid.is_empty() || self.uid == *uid
    }
}

impl From<String> for Uid {
    fn from(text: String) -> Self {
        Self::new(text)
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
