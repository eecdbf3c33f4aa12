//! The form that decodes nothing until somebody asks.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;
use std::ops::Range;
use std::sync::Arc;
use std::sync::Weak;

use parking_lot::Mutex;
use serde::Deserialize;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::DecodeError;
use super::Labelled;
use super::Object;
use super::RawObject;
use super::fields::label_value;
use super::raw::decode_fields;
use super::raw::member;
use super::raw::write_with_types;
use super::scan;
use super::scan::Omissions;
use super::scan::Rest;
use super::walk::Runs;
use crate::Key;

/// An object that is held as compact JSON and decoded when asked for.
///
/// Most objects of a cache are never read; held this way a pod costs a seventh of the time to take in, and a sixth of the
/// memory. [`get`](Self::get) decodes the whole object, [`peek`](Self::peek) just some fields.
///
/// The syntax of everything, the kind, and the types of the metadata's fields are checked on the way in. A wrong type
/// anywhere else, or further inside of them, appears at `get` or `peek`.
///
/// ```
/// use informant::{Lazy, object::Scanner};
/// use k8s_openapi::api::core::v1::Pod;
/// use serde::Deserialize;
///
/// let json = br#"{"metadata":{"namespace":"shop","name":"web"},"spec":{"nodeName":"node-1","containers":[]}}"#;
/// let pod = Scanner::of_kind::<Pod>().scan(json)?.decode::<Lazy<Pod>>()?;
///
/// #[derive(Deserialize)]
/// struct Node<'a> { #[serde(borrow)] spec: Spec<'a> }
/// #[derive(Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct Spec<'a> { #[serde(borrow)] node_name: std::borrow::Cow<'a, str> }
///
/// assert_eq!(pod.peek::<Node>()?.spec.node_name, "node-1");
/// assert_eq!(pod.get()?.spec.as_ref().unwrap().node_name.as_deref(), Some("node-1"));
/// # Ok::<(), informant::object::DecodeError>(())
/// ```
pub struct Lazy<K> {
    json: Box<str>,
    /// Where in `json` the value of `metadata.labels` stands; empty if there is none.
    labels: Range<usize>,
    key: Key,
    /// What somebody holds of the decoded form. The box within keeps the value out of the shared block, which a
    /// weak pointer keeps alive: so the value is freed when its last holder goes.
    decoded: Mutex<Weak<Box<K>>>,
}

/// A decoded object, shared with everybody who asked for it meanwhile; freed when the last of them drops it.
#[expect(clippy::redundant_allocation, reason = "the inner box is what can be freed while weak pointers are left")]
pub struct Decoded<K>(Arc<Box<K>>);

impl<K> Lazy<K> {
    /// The object as compact JSON.
    pub fn json(&self) -> &str {
        &self.json
    }

    /// The object's labels. Only they are decoded, and nothing is kept.
    pub fn labels(&self) -> BTreeMap<String, String> {
        // The scan has seen that it is an object of texts, or null, or nothing at all.
        let labels = serde_json::from_str::<Option<_>>(&self.json[self.labels.clone()]);
        labels.ok().flatten().unwrap_or_default()
    }

    /// Decodes only the fields that `T` names. Nothing is kept.
    ///
    /// Texts may be borrowed; use `Cow<str>` with `#[serde(borrow)]`, because a text with escapes cannot be.
    ///
    /// # Errors
    ///
    /// When a field does not fit; the error names the object and the field.
    pub fn peek<'a, T: Deserialize<'a>>(&'a self) -> Result<T, DecodeError> {
        decode_fields(&self.key, &self.json)
    }
}

impl<K: DeserializeOwned> Lazy<K> {
    /// Decodes the whole object, or shares what somebody else decoded and still holds.
    ///
    /// # Errors
    ///
    /// When the JSON does not fit `K`; the error names the object and the field.
    pub fn get(&self) -> Result<Decoded<K>, DecodeError> {
        // Held while decoding: whoever asks for the same object meanwhile waits for the result instead of making
        // another. Nobody else takes this lock.
        let mut decoded = self.decoded.lock();
        if let Some(shared) = decoded.upgrade() {
            return Ok(Decoded(shared));
        }
        let fresh = Arc::new(Box::new(self.peek::<K>()?));
        *decoded = Arc::downgrade(&fresh);
        Ok(Decoded(fresh))
    }
}

impl<K: DeserializeOwned + Serialize> Lazy<K> {
    /// Changes the object: decodes it, and encodes what has become of it. For transforms, which can do with a lazy object what
    /// they can with any other; it costs a decode and an encode for each object that comes. To leave whole fields out,
    /// [cut](crate::listwatch::ReflectorBuilder::cut) them: then nothing is decoded.
    ///
    /// ```
    /// use informant::{Lazy, SharedInformer};
    /// use informant::listwatch::KubeSource;
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = informant_apiserver::ApiServer::new();
    /// # let client = server.client();
    /// let pods = SharedInformer::<Lazy<Pod>>::builder(KubeSource::of_kind::<Pod>(client))
    ///     .transform(|pod| pod.edit(|pod| pod.status = None))
    ///     .build();
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// When the JSON does not fit `K`, or what has become of it has another key, or none. Then nothing is changed.
    pub fn edit(&mut self, change: impl FnOnce(&mut K)) -> Result<(), DecodeError> {
        let mut object = self.peek::<K>()?;
        change(&mut object);
        let failed = |source| DecodeError::Transform { key: self.key.clone(), source };
        let json = serde_json::to_string(&object).map_err(|error| failed(error.into()))?;
        let everything = Omissions { keeps_managed_fields: true, ..Omissions::default() };
        let mut kept = Runs::default();
        let found = scan::scan(json.as_bytes(), Rest::Nothing, &everything, &mut kept)?;
        if found.identity.key != self.key {
            return Err(failed(format!("it made {} of it", found.identity.key).into()));
        }
        let api_version = member("apiVersion", found.api_version.as_deref().unwrap_or_default());
        let kind = member("kind", found.kind.as_deref().unwrap_or_default());
        let types = api_version.len() + kind.len();
        // `found.labels` counts from the kept JSON, which has no apiVersion and kind.
        self.labels = found.labels.start + types..found.labels.end + types;
        let mut edited = String::with_capacity(json.len());
        write_with_types(&mut edited, kept.of(&json), &api_version, &kind);
        self.json = edited.into();
        *self.decoded.get_mut() = Weak::new();
        Ok(())
    }
}

impl<K: Send + Sync + 'static> Object for Lazy<K> {
    fn decode(raw: &RawObject<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            json: raw.json().into(),
            labels: raw.labels(),
            key: raw.identity().key.clone(),
            decoded: Mutex::new(Weak::new()),
        })
    }
}

impl<K> Labelled for Lazy<K> {
    fn label_map(&self) -> Cow<'_, BTreeMap<String, String>> {
        Cow::Owned(self.labels())
    }

    fn label_value(&self, key: &str) -> Option<String> {
        label_value(&self.json[self.labels.clone()], key)
    }
}

impl<K> Clone for Decoded<K> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<K> Deref for Decoded<K> {
    type Target = K;

    fn deref(&self) -> &K {
        &self.0
    }
}

impl<K: fmt::Debug> fmt::Debug for Decoded<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<K> fmt::Debug for Lazy<K> {
    /// Shows who the object is, not what is in it: that may be large, or secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lazy({}, {} bytes)", self.key, self.json.len())
    }
}
