//! [`Key`], the name of one object within its kind: `namespace/name`, or `name` for a cluster-scoped object.

use std::{
    cmp::Ordering,
    fmt,
    hash::{BuildHasher, Hash, Hasher},
    str::FromStr,
    sync::LazyLock,
};

use hashbrown::DefaultHashBuilder;
use serde::{Deserialize, Serialize, Serializer};
use triomphe::Arc;

use crate::{error::ParseError, object::DecodeError};

/// The name of one object within its kind: a namespace and a name, or only a name for a cluster-scoped object.
///
/// Cheap to clone. The hash is computed once, when the key is made.
///
/// ```
/// use informant::Key;
///
/// let web = Key::namespaced("shop", "web");
/// assert_eq!(web.to_string(), "shop/web");
/// assert_eq!((web.namespace(), web.name()), (Some("shop"), "web"));
/// assert_eq!("shop/web".parse(), Ok(web));
///
/// let node = Key::cluster_scoped("node-1");
/// assert_eq!((node.namespace(), node.name()), (None, "node-1"));
/// ```
#[derive(Clone, Deserialize)]
#[serde(try_from = "String")]
pub struct Key {
    /// `namespace/name`, or `name`.
    text: Arc<str>,
    /// The number of bytes of `text` before the slash; 0 means that there is no namespace and no slash.
    namespace_len: u32,
    hash: u32,
}

impl Key {
    /// Returns the key of an object in a namespace. With an empty namespace, the same as [`cluster_scoped`](Self::cluster_scoped).
    pub fn namespaced(namespace: &str, name: &str) -> Self {
        let text = if namespace.is_empty() { Arc::from(name) } else { [namespace, "/", name].concat().into() };
        let namespace_len = u32::try_from(namespace.len()).expect("a namespace is shorter than 4 GiB");
        Self { text, namespace_len, hash: hash_of(namespace, name) }
    }

    /// Returns the key of an object that is in no namespace, such as a Node. (A [`ClusterKey`](crate::ClusterKey) is something else: a key together with
    /// the name of a cluster, in a view of several clusters.)
    pub fn cluster_scoped(name: &str) -> Self {
        Self::namespaced("", name)
    }

    /// Returns the key of a Kubernetes object, for example of one that a request returned.
    ///
    /// ```
    /// use informant::Key;
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// let mut pod = Pod::default();
    /// (pod.metadata.namespace, pod.metadata.name) = (Some("shop".into()), Some("web".into()));
    /// assert_eq!(Key::of(&pod)?.as_str(), "shop/web");
    /// # Ok::<(), informant::error::DecodeError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`DecodeError::NoName`] if the object has no name, for example because it was never sent to a server.
    pub fn of(object: &impl kube::Resource) -> Result<Self, DecodeError> {
        let metadata = object.meta();
        let name = metadata.name.as_deref().filter(|name| !name.is_empty()).ok_or(DecodeError::NoName)?;
        Ok(Self::namespaced(metadata.namespace.as_deref().unwrap_or_default(), name))
    }

    /// The namespace; `None` for a cluster-scoped object.
    pub fn namespace(&self) -> Option<&str> {
        match self.namespace_len {
            0 => None,
            len => Some(&self.text[..len as usize]),
        }
    }

    /// The name within the namespace.
    pub fn name(&self) -> &str {
        match self.namespace_len {
            0 => &self.text,
            len => &self.text[len as usize + 1..],
        }
    }

    /// The whole key: `namespace/name`, or `name`.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The hash for tables such as `hashbrown::HashTable`, whose methods take the hash as an argument.
    pub(crate) fn table_hash(&self) -> u64 {
        // Spreads the hash over 64 bits: hash tables use the highest bits first.
        u64::from(self.hash).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

fn hash_of(namespace: &str, name: &str) -> u32 {
    // A random seed: names come from users of the cluster, who must not be able to choose colliding ones.
    static SEED: LazyLock<DefaultHashBuilder> = LazyLock::new(DefaultHashBuilder::default);
    let mut hasher = SEED.build_hasher();
    hasher.write(namespace.as_bytes());
    hasher.write_u8(b'/');
    hasher.write(name.as_bytes());
    let hash = hasher.finish();
    (hash ^ (hash >> 32)) as u32
}

impl FromStr for Key {
    type Err = ParseError;

    /// Splits at the slash; a leading slash gives an empty namespace.
    fn from_str(text: &str) -> Result<Self, ParseError> {
        let invalid = |problem| ParseError::Key { text: text.to_owned(), problem };
        let (namespace, name) = text.split_once('/').unwrap_or(("", text));
        if name.contains('/') {
            return Err(invalid(format!(
                "expected `namespace/name` or `name`, found {} parts",
                text.split('/').count()
            )));
        }
        if name.is_empty() {
            return Err(invalid("the name is empty".to_owned()));
        }
        Ok(Self::namespaced(namespace, name))
    }
}

/// As [`FromStr`].
impl TryFrom<&str> for Key {
    type Error = ParseError;

    fn try_from(text: &str) -> Result<Self, ParseError> {
        text.parse()
    }
}

/// As [`FromStr`].
impl TryFrom<String> for Key {
    type Error = ParseError;

    fn try_from(text: String) -> Result<Self, ParseError> {
        text.parse()
    }
}

/// Writes the key as text: `"shop/web"`.
impl Serialize for Key {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash
            && self.namespace_len == other.namespace_len
            && (Arc::ptr_eq(&self.text, &other.text) || self.text == other.text)
    }
}

impl Eq for Key {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u32(self.hash);
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        (&*self.text, self.namespace_len).cmp(&(&*other.text, other.namespace_len))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.text, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_serialized_as_its_text_and_an_invalid_text_is_not_deserialized() {
        for key in [Key::namespaced("shop", "web"), Key::cluster_scoped("node-1")] {
            let json = serde_json::to_string(&key).unwrap();
            assert_eq!(json, format!("\"{key}\""));
            assert_eq!(serde_json::from_str::<Key>(&json).unwrap(), key);
        }
        let error = serde_json::from_str::<Key>(r#""a/b/c""#).unwrap_err().to_string();
        assert!(
            error.starts_with(r#""a/b/c" is not a key: expected `namespace/name` or `name`, found 3 parts"#),
            "{error}"
        );
    }

    // IX-02
    #[test]
    fn a_key_is_namespace_slash_name_or_just_the_name() {
        assert_eq!(Key::namespaced("shop", "web").as_str(), "shop/web");
        assert_eq!(Key::namespaced("", "node-1").as_str(), "node-1");
        assert_eq!(Key::namespaced("", "node-1"), Key::cluster_scoped("node-1"));
    }

    // IX-03
    #[test]
    fn one_part_is_a_name_two_are_namespace_and_name_three_are_an_error() {
        assert_eq!("node-1".parse(), Ok(Key::cluster_scoped("node-1")));
        assert_eq!("shop/web".parse(), Ok(Key::namespaced("shop", "web")));
        assert_eq!("/web".parse(), Ok(Key::cluster_scoped("web")));
        let three = "a/b/c".parse::<Key>().unwrap_err();
        assert_eq!(three.to_string(), "\"a/b/c\" is not a key: expected `namespace/name` or `name`, found 3 parts");
        let none = "shop/".parse::<Key>().unwrap_err();
        assert_eq!(none.to_string(), "\"shop/\" is not a key: the name is empty");
        assert!("".parse::<Key>().is_err());
    }

    #[test]
    fn keys_of_the_same_text_but_other_parts_differ() {
        assert_ne!(Key::namespaced("a", "b/c"), Key::namespaced("a/b", "c"));
    }

    #[test]
    fn keys_sort_as_their_texts() {
        let mut keys = ["b/a", "a", "a/z", "a/b"].map(|text| text.parse::<Key>().unwrap());

        keys.sort();

        assert_eq!(keys.map(|key| key.to_string()), ["a", "a/b", "a/z", "b/a"]);
    }
}
