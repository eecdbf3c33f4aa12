//! [`Lazy`], the object type that is held as JSON and decoded when it is read.
//!
//! - **In:** the compact JSON of an object.
//! - **Out:** the object, some of its fields, or its labels, decoded on request.
//! - **Knows nothing of:** the cache.

use std::{
    borrow::Cow,
    collections::BTreeMap,
    fmt,
    ops::Deref,
    sync::{Arc, Weak},
};

use derive_where::derive_where;
use kube::core::TypeMeta;
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};

use super::{
    DecodeError, Labelled, Object, RawObject, Scanner,
    fields::label_value,
    held_json::{HeldJson, LazyJson},
    memory::HeldMemory,
};

/// An object that is held as compact JSON and decoded when it is read.
///
/// Most objects of a cache are never read; held this way, a pod takes a fifth of the time to receive and of the memory.
/// [`get`](Self::get) decodes the whole object, [`peek`](Self::peek) some fields.
///
/// The syntax of the whole object, its kind, and the types of the metadata's fields are checked when the object is received. A field of a
/// wrong type anywhere else makes `get` or `peek` fail.
///
/// ```
/// use informant::{Lazy, pipeline::Scanner};
/// use k8s_openapi::api::core::v1::Pod;
/// use serde::Deserialize;
///
/// let json = br#"{"metadata":{"namespace":"shop","name":"web"},"spec":{"nodeName":"node-1","containers":[]}}"#;
/// let pod = Scanner::of_kind::<Pod>().scan(json)?.decode::<Lazy<Pod>>()?;
///
/// #[derive(Deserialize)]
/// struct Node { spec: Spec }
/// #[derive(Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct Spec { node_name: String }
///
/// assert_eq!(pod.peek::<Node>()?.spec.node_name, "node-1");
/// assert_eq!(pod.get()?.spec.as_ref().unwrap().node_name.as_deref(), Some("node-1"));
/// # Ok::<(), informant::error::DecodeError>(())
/// ```
pub struct Lazy<K> {
    pub(super) held: HeldJson,
    /// The decoded object, while a [`Decoded`] of it exists. The inner box keeps the value out of the allocation that a weak pointer keeps
    /// alive, so the value is freed with its last `Decoded`.
    decoded: Mutex<Weak<Box<K>>>,
}

/// A decoded object, shared by all callers of [`Lazy::get`] that hold one at the same time; freed when the last of them drops it.
#[expect(clippy::redundant_allocation, reason = "the inner box is what can be freed while weak pointers are left")]
#[derive_where(Clone)]
pub struct Decoded<K>(Arc<Box<K>>);

impl<K> Lazy<K> {
    /// The object as compact JSON.
    ///
    /// # Errors
    ///
    /// If the object is packed (`FactoryBuilder::memory_budget`), and its packed JSON is damaged.
    pub fn json(&self) -> Result<LazyJson, DecodeError> {
        self.held.read()
    }

    /// The object's labels. Nothing else is decoded, and the result is not kept.
    pub fn labels(&self) -> BTreeMap<String, String> {
        // The scan has checked that it is an object of strings, or null, or missing.
        let labels = |json: LazyJson| serde_json::from_str::<Option<_>>(self.held.labels_in(&json)).ok().flatten();
        self.json().ok().and_then(labels).unwrap_or_default()
    }

    /// Decodes only the fields that `T` names. The result is not kept. For fields that are borrowed from the JSON, use [`LazyJson::peek`].
    ///
    /// # Errors
    ///
    /// When a field does not have the type that `T` expects; the error names the object and the field.
    pub fn peek<T: DeserializeOwned>(&self) -> Result<T, DecodeError> {
        self.json()?.peek()
    }
}

impl<K: DeserializeOwned> Lazy<K> {
    /// Decodes the whole object, or shares the decoded object that another caller still holds.
    ///
    /// # Errors
    ///
    /// When the JSON is not a valid `K`; the error names the object and the field.
    pub fn get(&self) -> Result<Decoded<K>, DecodeError> {
        // Held while decoding: other callers for the same object wait for the result instead of decoding it again. Only this method
        // takes the lock.
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
    /// Changes the object: decodes it, calls `change`, and encodes the result. With it, a transform can change lazy objects; it costs a
    /// decode and an encode for each received object. To leave whole fields out, [cut](crate::listwatch::ReflectorBuilder::cut) them:
    /// then nothing is decoded.
    ///
    /// ```
    /// use informant::{Lazy, SharedInformer, pipeline::KubeSource};
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
    /// When the JSON is not a valid `K`, or when the changed object has another key or none. Then the object stays unchanged.
    pub fn edit(&mut self, change: impl FnOnce(&mut K)) -> Result<(), DecodeError> {
        let mut object = self.peek::<K>()?;
        change(&mut object);
        let key = self.held.key();
        let failed = |source| DecodeError::Transform { key: key.clone(), source };
        let json = serde_json::to_string(&object).map_err(|error| failed(error.into()))?;
        let mut scanner = Scanner::new(TypeMeta::default()).keep_managed_fields();
        let edited = scanner.scan(json.as_bytes())?;
        if edited.identity().key != *key {
            return Err(failed(format!("the edit changed the key to {}", edited.identity().key).into()));
        }
        let held = edited.held_json()?;
        *self = Self { held, decoded: Mutex::default() };
        Ok(())
    }
}

#[diagnostic::do_not_recommend]
impl<K: Object> Object for Lazy<K> {
    fn decode(raw: &RawObject<'_>) -> Result<Self, DecodeError> {
        Ok(Self { held: raw.held_json()?, decoded: Mutex::default() })
    }

    fn memory(&self, _json_length: usize) -> HeldMemory<'_> {
        HeldMemory::Json(&self.held)
    }

    fn types() -> Option<TypeMeta> {
        K::types()
    }
}

impl<K> Labelled for Lazy<K> {
    fn label_map(&self) -> Cow<'_, BTreeMap<String, String>> {
        Cow::Owned(self.labels())
    }

    fn label_value(&self, key: &str) -> Option<String> {
        match self.held.noted(&["metadata", "labels", key]) {
            Some(mut values) => values.pop(),
            None => label_value(self.held.labels_in(&self.json().ok()?), key),
        }
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
    /// Shows the identity of the object, not its content: that may be large, or secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lazy({}, {} bytes)", self.held.key(), self.held.length())
    }
}
