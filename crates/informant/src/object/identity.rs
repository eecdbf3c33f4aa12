//! The identity of one state of an object: key, uid and version.
//!
//! - **In:** the three as text, or the metadata of an object.
//! - **Out:** [`Identity`], which the cache compares states by.
//! - **Knows nothing of:** the rest of the object.

use std::{fmt, sync::Arc};

use uuid::Uuid;

use super::DecodeError;
use crate::{Key, ResourceVersion};

/// The `metadata.uid` of an object. An object that is deleted and created again gets a new one. Empty means unknown.
///
/// It is compared with text directly; [`Display`](fmt::Display) writes the text that the server sent.
///
/// ```
/// use informant::Uid;
///
/// let uid = Uid::new("0b7d2f1e-9a54-4c55-8f0e-000000000007");
/// assert_eq!(uid, "0b7d2f1e-9a54-4c55-8f0e-000000000007");
/// assert_eq!(uid.to_string().len(), 36);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uid(UidContent);

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum UidContent {
    /// A UUID as servers write it: lower case, with hyphens.
    Uuid(Uuid),
    /// Any other text.
    Text(Arc<str>),
}

/// Identifies one state of one object.
///
/// It is read from the bytes once and kept beside the object, so reading it decodes nothing.
///
/// ```
/// use informant::{Cached, Identity};
///
/// let identity = Identity::new("shop/web", "u1", 15);
/// assert_eq!(identity.uid, "u1");
/// assert_eq!((identity.key.name(), identity.version.as_str()), ("web", "15"));
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
    pub fn new(text: impl AsRef<str>) -> Self {
        let text = text.as_ref();
        let is_as_written =
            text.len() == uuid::fmt::Hyphenated::LENGTH && !text.bytes().any(|it| it.is_ascii_uppercase());
        let uuid = is_as_written.then(|| Uuid::try_parse(text).ok()).flatten();
        Self(uuid.map_or_else(|| UidContent::Text(text.into()), UidContent::Uuid))
    }

    /// Whether the uid is unknown.
    pub fn is_empty(&self) -> bool {
        matches!(&self.0, UidContent::Text(text) if text.is_empty())
    }
}

impl Default for Uid {
    fn default() -> Self {
        Self(UidContent::Text(Arc::default()))
    }
}

impl PartialEq<str> for Uid {
    fn eq(&self, other: &str) -> bool {
        match &self.0 {
            UidContent::Uuid(uuid) => *uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()) == *other,
            UidContent::Text(text) => **text == *other,
        }
    }
}

impl PartialEq<&str> for Uid {
    fn eq(&self, other: &&str) -> bool {
        self == *other
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
        match &self.0 {
            UidContent::Uuid(uuid) => f.pad(uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer())),
            UidContent::Text(text) => f.pad(text),
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.to_string(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_written_as_it_was_read() {
        let uuid = "0b7d2f1e-9a54-4c55-8f0e-0000000000af";
        let others = [
            "",
            "u1",
            "0B7D2F1E-9A54-4C55-8F0E-0000000000AF",
            "0b7d2f1e9a544c558f0e0000000000af",
            "0b7d2f1e-9a54-4c55-8f0e-0000000000ag",
        ];
        for text in others.into_iter().chain([uuid]) {
            let uid = Uid::new(text);
            assert_eq!((uid.to_string(), format!("{uid:?}")), (text.to_owned(), format!("{text:?}")));
            assert!(uid == text && uid == Uid::new(text) && uid != "other" && uid.is_empty() == text.is_empty());
            assert_eq!(matches!(uid.0, UidContent::Uuid(_)), text == uuid, "{text}");
        }
    }
}
