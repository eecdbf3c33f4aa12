//! Conversions between our names of objects and kube-runtime's [`ObjectRef`].
//!
//! - **In:** a [`Key`] or a [`Cached`] object; or an `ObjectRef`.
//! - **Out:** an `ObjectRef`; or a [`Key`].
//! - **Knows nothing of:** informers and streams.

use kube::runtime::reflector::{Lookup, ObjectRef};

use crate::{Cached, Key, object::OfKind};

impl Key {
    /// Returns a reference of kube-runtime to the object of kind `K` with this key. Needs the feature `kube-runtime`.
    ///
    /// For kinds that are known at compile time, `ObjectRef::from(&key)` is shorter. An `ObjectRef` converts back with `Key::from`.
    ///
    /// ```
    /// use informant::Key;
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kube::core::{ApiResource, DynamicObject};
    /// use kube::runtime::reflector::ObjectRef;
    ///
    /// let key = Key::namespaced("shop", "web");
    /// let pod = ObjectRef::<Pod>::from(&key);
    /// assert_eq!(pod, ObjectRef::new("web").within("shop"));
    /// assert_eq!(Key::from(&pod), key);
    ///
    /// let dynamic: ObjectRef<DynamicObject> = key.to_object_ref(ApiResource::erase::<Pod>(&()));
    /// assert_eq!(dynamic, pod.erase());
    /// ```
    pub fn to_object_ref<K: Lookup>(&self, dyntype: K::DynamicType) -> ObjectRef<K> {
        let object_ref = ObjectRef::new_with(self.name(), dyntype);
        match self.namespace() {
            Some(namespace) => object_ref.within(namespace),
            None => object_ref,
        }
    }
}

impl<O> Cached<O> {
    /// Returns a reference of kube-runtime to this object, with its uid and version in `extra`. Needs the feature `kube-runtime`.
    ///
    /// Nothing is decoded, and the method does not check that the object is of kind `K`. For kinds that are known at compile time,
    /// `ObjectRef::from(&object)` is shorter and finds `K` itself.
    ///
    /// ```
    /// use informant::Cached;
    /// use k8s_openapi::api::core::v1::{ObjectReference, Pod};
    /// use kube::runtime::reflector::ObjectRef;
    ///
    /// let mut pod = Pod::default();
    /// pod.metadata.name = Some("web".into());
    /// pod.metadata.uid = Some("6e0c".into());
    /// let pod = Cached::of(pod)?;
    ///
    /// let object_ref = ObjectRef::from(&pod);
    /// assert_eq!(object_ref, ObjectRef::<Pod>::new("web"));
    /// assert_eq!(ObjectReference::from(object_ref).uid.as_deref(), Some("6e0c"));
    /// # Ok::<(), informant::error::DecodeError>(())
    /// ```
    pub fn to_object_ref<K: Lookup>(&self, dyntype: K::DynamicType) -> ObjectRef<K> {
        let known = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let mut object_ref = self.key().to_object_ref(dyntype);
        object_ref.extra.uid = known(&self.uid().to_string());
        object_ref.extra.resource_version = known(self.version().as_str());
        object_ref
    }
}

/// Needs the feature `kube-runtime`.
impl<K: Lookup<DynamicType: Default>> From<&Key> for ObjectRef<K> {
    fn from(key: &Key) -> Self {
        key.to_object_ref(K::DynamicType::default())
    }
}

/// Keeps namespace and name; the kind, uid and version are lost. Needs the feature `kube-runtime`.
impl<K: Lookup + ?Sized> From<&ObjectRef<K>> for Key {
    fn from(object_ref: &ObjectRef<K>) -> Self {
        Self::namespaced(object_ref.namespace.as_deref().unwrap_or_default(), &object_ref.name)
    }
}

/// Converts an object of any object type, including lazy objects and projections, to a reference to its kind. Needs the feature `kube-runtime`.
impl<O: OfKind> From<&Cached<O>> for ObjectRef<O::Kind> {
    fn from(object: &Cached<O>) -> Self {
        object.to_object_ref(())
    }
}
