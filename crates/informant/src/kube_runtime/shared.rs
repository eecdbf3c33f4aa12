//! An object of the cache in the type that kube-runtime's stores and controllers ask for.
//!
//! - **In:** a [`Cached`] object.
//! - **Out:** [`Shared`], a `kube::Resource` whose clones share the object.
//! - **Knows nothing of:** informers and streams.

use std::{borrow::Cow, fmt, ops::Deref};

use kube::{Resource, core::ObjectMeta};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Cached;

/// An object of the cache as a `kube::Resource`, so that kube-runtime's stores and controllers can hold it without a copy.
///
/// kube-runtime clones the objects that it stores. A clone of `Shared<Pod>` is a clone of the [`Cached`] handle: it points to the object
/// in the informer's cache. It dereferences to the object, so a reconciler that takes `Arc<Shared<Pod>>` reads it like an `Arc<Pod>`.
/// Group, kind, scope and JSON are those of `O`, so that `Api<Shared<Pod>>`, owner references, finalizers and the event recorder work.
///
/// The cache is never changed through it: mutable access to the metadata first makes a private copy of the object.
///
/// ```
/// use informant::{Cached, kube_runtime::Shared};
/// use k8s_openapi::api::core::v1::Pod;
/// use kube::{Resource, ResourceExt};
///
/// let mut pod = Pod::default();
/// pod.metadata.name = Some("web".into());
/// let cached = Cached::of(pod)?;
///
/// let mut shared = Shared::from(cached.clone());
/// assert_eq!(shared.name_any(), "web");
/// assert_eq!(shared.metadata, cached.metadata);
/// assert!(shared.clone().cached().is_some_and(|object| Cached::ptr_eq(object, &cached)));
///
/// shared.labels_mut().insert("app".into(), "web".into());
/// assert!(shared.cached().is_none());
/// assert!(cached.labels().is_empty());
/// # Ok::<(), informant::error::DecodeError>(())
/// ```
#[derive(Clone)]
pub struct Shared<O>(Holder<O>);

#[derive(Clone)]
enum Holder<O> {
    /// The object of the cache.
    Cached(Cached<O>),
    /// A private copy that was changed, or an object that was deserialized.
    Owned(Box<O>),
}

impl<O> Shared<O> {
    /// The object of the cache, with its key, uid and version; `None` if this is a changed copy or was deserialized.
    pub fn cached(&self) -> Option<&Cached<O>> {
        match &self.0 {
            Holder::Cached(object) => Some(object),
            Holder::Owned(_) => None,
        }
    }
}

impl<O> From<Cached<O>> for Shared<O> {
    fn from(object: Cached<O>) -> Self {
        Self(Holder::Cached(object))
    }
}

impl<O: 'static> Deref for Shared<O> {
    type Target = O;

    fn deref(&self) -> &O {
        match &self.0 {
            Holder::Cached(object) => object.object(),
            Holder::Owned(object) => object,
        }
    }
}

impl<O: Resource + Clone + 'static> Resource for Shared<O> {
    type DynamicType = O::DynamicType;
    type Scope = O::Scope;

    fn kind(dyntype: &O::DynamicType) -> Cow<'_, str> {
        O::kind(dyntype)
    }

    fn group(dyntype: &O::DynamicType) -> Cow<'_, str> {
        O::group(dyntype)
    }

    fn version(dyntype: &O::DynamicType) -> Cow<'_, str> {
        O::version(dyntype)
    }

    fn api_version(dyntype: &O::DynamicType) -> Cow<'_, str> {
        O::api_version(dyntype)
    }

    fn plural(dyntype: &O::DynamicType) -> Cow<'_, str> {
        O::plural(dyntype)
    }

    fn metadata_api() -> bool {
        O::metadata_api()
    }

    fn url_path(dyntype: &O::DynamicType, namespace: Option<&str>) -> String {
        O::url_path(dyntype, namespace)
    }

    fn meta(&self) -> &ObjectMeta {
        (**self).meta()
    }

    /// Makes a private copy of the object first, unless this is one.
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        if let Holder::Cached(object) = &self.0 {
            self.0 = Holder::Owned(Box::new(object.object().clone()));
        }
        match &mut self.0 {
            Holder::Owned(object) => object.meta_mut(),
            Holder::Cached(_) => unreachable!("replaced by a copy above"),
        }
    }
}

impl<O: Serialize + 'static> Serialize for Shared<O> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (**self).serialize(serializer)
    }
}

impl<'de, O: Deserialize<'de>> Deserialize<'de> for Shared<O> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        O::deserialize(deserializer).map(|object| Self(Holder::Owned(Box::new(object))))
    }
}

impl<O: Resource + 'static> fmt::Debug for Shared<O> {
    /// Shows which object it is, and not its content, which may be large or secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ObjectMeta { namespace, name, resource_version, .. } = (**self).meta();
        if let Some(namespace) = namespace {
            write!(f, "{namespace}/")?;
        }
        write!(f, "{}@{}", name.as_deref().unwrap_or_default(), resource_version.as_deref().unwrap_or_default())
    }
}
