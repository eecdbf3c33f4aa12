//! [`Cached`], the handle of a cached object, with its identity beside it.
//!
//! - **In:** an identity and an object of any type.
//! - **Out:** [`Cached`], a shared pointer that knows the type of its object.
//! - **Knows nothing of:** sources, the cache, handlers.
//!
//! All handles hold the same type of pointer. The object type is only a parameter, and is checked when the object is read. So the engine,
//! which never reads objects, works with `Cached<Erased>` and is compiled once, not once for each type.

use std::{
    any::Any,
    fmt,
    marker::PhantomData,
    ops::Deref,
    panic::{RefUnwindSafe, UnwindSafe},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU32, Ordering},
    },
};

use derive_where::derive_where;
use kube::core::TypeMeta;
use ref_cast::{RefCastCustom, ref_cast_custom};

#[cfg(feature = "packing")]
use super::packing::Packing;
use super::{
    DecodeError, Identity, Provenance, Uid,
    memory::{HeldMemory, ObjectMemory},
    raw::served_as,
};
use crate::{Key, ResourceVersion};

/// An object of the cache. Cheap to clone; all clones share one object.
///
/// It dereferences to the object. Key, uid, version and type are read without decoding anything. `pod.clone()` clones the handle; for
/// a copy of the object that can be changed, write `pod.object().clone()`.
///
/// The last clone may be dropped anywhere, by an informer as well as by your code, so the object's destructor must not panic.
///
/// ```
/// use informant::{Cached, Identity, Key};
///
/// let stock = Cached::new(Identity::of_key(Key::namespaced("shop", "apples")), 12_u32);
/// assert_eq!(stock.key().name(), "apples");
/// assert_eq!(*stock, 12);
///
/// let shared = stock.clone();
/// assert!(Cached::ptr_eq(&stock, &shared));
/// ```
#[derive(RefCastCustom)]
#[repr(transparent)]
#[derive_where(Clone)]
pub struct Cached<O> {
    stored: triomphe::Arc<Stored>,
    /// Makes the handle invariant in `O`: a supertype of `O` has another `TypeId` (INV-C1). All types that hold objects do the same.
    ///
    /// ```compile_fail,E0308
    /// use informant::{Cached, Identity, Key};
    ///
    /// fn read(number: &u8) -> u8 { *number }
    /// let general: Cached<for<'a> fn(&'a u8) -> u8> = Cached::new(Identity::of_key(Key::cluster_scoped("x")), read);
    /// let special: Cached<fn(&'static u8) -> u8> = general;
    /// ```
    ///
    /// ```compile_fail,E0308
    /// use informant::pipeline::Indexer;
    ///
    /// let general: Indexer<for<'a> fn(&'a u8) -> u8> = Indexer::new();
    /// let special: Indexer<fn(&'static u8) -> u8> = general;
    /// ```
    object_type: PhantomData<fn(O) -> O>,
}

/// The object type inside the engine, which never reads objects. It has no values: reading the object of a `Cached<Erased>` is a
/// bug, and panics (INV-C1).
pub(crate) enum Erased {}

/// The data that all clones of a [`Cached`] share. The object is in a box of its own, so that the pointer to the data is thin.
struct Stored {
    identity: Identity,
    provenance: Arc<Provenance>,
    /// A hash of the JSON that the object was decoded from; 0 if the source delivered it decoded.
    digest: u32,
    /// The number of bytes that the [memory](super::memory) of the informer counts for this object.
    counted: AtomicU32,
    /// INV-C1: the type of the object is the type parameter of every `Cached` that points to it, unless that parameter is [`Erased`].
    object: Box<dyn Any + Send + Sync>,
}

impl Stored {
    fn memory<'a>(&'a self, memory: &ObjectMemory, json_length: usize) -> HeldMemory<'a> {
        (memory.memory_of)(&*self.object, json_length)
    }

    /// Counts the present size of the object in the place of an earlier one.
    fn count(&self, memory: &ObjectMemory, json_length: usize) {
        /// What every object takes: this struct and the text of the key, each with a count of references.
        const HANDLE: usize = size_of::<Stored>() + 2 * size_of::<usize>();
        let (content, is_estimate) = match self.memory(memory, json_length) {
            HeldMemory::Json(held) => (size_of_val(&*self.object) + held.bytes(), false),
            HeldMemory::Estimate(bytes) => (bytes, true),
        };
        let bytes = u32::try_from(HANDLE + self.identity.key.as_str().len() + content).unwrap_or(u32::MAX);
        let before = self.counted.swap(bytes, Ordering::Relaxed);
        memory.change(before as usize, bytes as usize);
        if is_estimate {
            memory.note_estimate();
        }
    }
}

impl Drop for Stored {
    fn drop(&mut self) {
        if let Some(memory) = &self.provenance.memory {
            memory.change(*self.counted.get_mut() as usize, 0);
        }
    }
}

impl<O: Send + Sync + 'static> Cached<O> {
    /// Makes a handle of an object, without apiVersion, kind and cluster.
    pub fn new(identity: Identity, object: O) -> Self {
        static NONE: LazyLock<Arc<Provenance>> = LazyLock::new(Arc::default);
        Self::with_provenance(identity, Arc::clone(&NONE), object)
    }

    /// As [`new`](Self::new), with the object's apiVersion and kind, and its cluster.
    pub fn with_provenance(identity: Identity, provenance: Arc<Provenance>, object: O) -> Self {
        Cached::from_box(identity, provenance, 0, Box::new(object)).typed()
    }

    /// Makes a handle of an object that is decoded already, such as the answer to a request, with the identity from its metadata.
    ///
    /// ```
    /// use informant::Cached;
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// let mut pod = Pod::default();
    /// pod.metadata.name = Some("web".into());
    /// assert_eq!(Cached::of(pod)?.key().as_str(), "web");
    /// # Ok::<(), informant::error::DecodeError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`DecodeError::NoName`] if the object has no name, for example because it was never sent to a server.
    pub fn of(object: O) -> Result<Self, DecodeError>
    where
        O: kube::Resource<DynamicType = ()>,
    {
        Ok(Self::with_provenance(Identity::of(&object)?, Arc::new(Provenance::new(served_as::<O>())), object))
    }
}

impl<O: 'static> Cached<O> {
    /// The object itself; the same as `&**cached`.
    pub fn object(&self) -> &O {
        self.stored.object.downcast_ref().expect("INV-C1")
    }
}

impl Cached<Erased> {
    /// Makes a handle of an object. `digest` is a hash of the JSON that the object was decoded from; 0 if it was not decoded from JSON.
    pub(super) fn from_box(
        identity: Identity,
        provenance: Arc<Provenance>,
        digest: u32,
        object: Box<dyn Any + Send + Sync>,
    ) -> Self {
        let stored = Stored { identity, provenance, digest, counted: AtomicU32::new(0), object };
        Self { stored: triomphe::Arc::new(stored), object_type: PhantomData }
    }

    /// Gives the handle a type again, without a check: if the object is not an `O`, reading it panics (INV-C1).
    pub(crate) fn typed<O>(self) -> Cached<O> {
        Cached { stored: self.stored, object_type: PhantomData }
    }

    /// As [`typed`](Self::typed), for a reference.
    pub(crate) fn typed_ref<O>(&self) -> &Cached<O> {
        Cached::from_stored(&self.stored)
    }

    /// As [`typed`](Self::typed), for a list.
    pub(crate) fn all_typed<O>(objects: Vec<Self>) -> Vec<Cached<O>> {
        objects.into_iter().map(Self::typed).collect()
    }

    /// Counts the bytes of a new object, after packing it if the informer's memory is used up. `json_length` is that of its JSON.
    pub(crate) fn count(&self, json_length: usize) {
        let Some(memory) = &self.stored.provenance.memory else { return };
        #[cfg(feature = "packing")]
        if memory.packing().is_some_and(Packing::packs_arrivals)
            && let HeldMemory::Json(held) = self.stored.memory(memory, json_length)
        {
            held.pack(memory);
        }
        self.stored.count(memory, json_length);
    }

    /// Packs the object, unless it is packed or its JSON was read since the last call. Returns whether it was packed.
    #[cfg(feature = "packing")]
    pub(crate) fn pack(&self) -> bool {
        let Some(memory) = &self.stored.provenance.memory else { return false };
        let HeldMemory::Json(held) = self.stored.memory(memory, 0) else { return false };
        let is_packed = held.pack_unless_read(memory);
        if is_packed {
            self.stored.count(memory, 0);
        }
        is_packed
    }

    /// Returns mutable access to the object; `None` if another handle shares it, or if it is not an `O`.
    pub(crate) fn object_mut<O: 'static>(&mut self) -> Option<&mut O> {
        triomphe::Arc::get_mut(&mut self.stored)?.object.downcast_mut()
    }
}

impl<O> Cached<O> {
    /// Whether both handles are clones of one another: they share one object, not just equal ones.
    pub fn ptr_eq(one: &Self, other: &Self) -> bool {
        triomphe::Arc::ptr_eq(&one.stored, &other.stored)
    }

    #[ref_cast_custom]
    fn from_stored(stored: &triomphe::Arc<Stored>) -> &Self;

    /// Erases the object type.
    pub(crate) fn erase(self) -> Cached<Erased> {
        Cached { stored: self.stored, object_type: PhantomData }
    }

    /// As [`erase`](Self::erase), for a reference.
    pub(crate) fn erase_ref(&self) -> &Cached<Erased> {
        Cached::from_stored(&self.stored)
    }

    /// A hash of the JSON that the object was decoded from; 0 if the source delivered it decoded.
    pub(crate) fn digest(&self) -> u32 {
        self.stored.digest
    }

    /// Changes the provenance of the object, unless another handle shares it.
    pub(crate) fn change_provenance(&mut self, change: impl FnOnce(Arc<Provenance>) -> Arc<Provenance>) {
        if let Some(stored) = triomphe::Arc::get_mut(&mut self.stored) {
            stored.provenance = change(Arc::clone(&stored.provenance));
        }
    }

    /// The number of history changes of the source when the object was read.
    pub(crate) fn history(&self) -> u64 {
        self.stored.provenance.history
    }

    /// Whether both are certainly the same state of the same object.
    pub(crate) fn is_same_state(&self, other: &Self) -> bool {
        self.has_state(other.identity(), other.history(), || other.digest())
    }

    /// Whether this is the state that `identity` names: uid, version and history are equal, and the content is equal if both were decoded from JSON.
    /// (A server that was restored from a backup gives the same version to two states.)
    pub(crate) fn has_state(&self, identity: &Identity, history: u64, digest: impl FnOnce() -> u32) -> bool {
        self.history() == history && self.identity().is_same_state(identity) && is_same_content(self.digest(), digest())
    }

    /// Key, uid and version together.
    pub fn identity(&self) -> &Identity {
        &self.stored.identity
    }

    /// Namespace and name.
    pub fn key(&self) -> &Key {
        &self.identity().key
    }

    /// The uid of this incarnation of the object, as a [`Uid`]; empty if the source has no uids.
    ///
    /// `kube::ResourceExt` has a method of the same name. On a `Cached` object, this method is called, whether the trait is imported or
    /// not; on the object itself, the method of `kube` is called:
    ///
    /// ```
    /// use informant::{Cached, Uid};
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kube::ResourceExt;
    ///
    /// let mut pod = Pod::default();
    /// (pod.metadata.name, pod.metadata.uid) = (Some("web".into()), Some("u1".into()));
    /// let pod: Cached<Pod> = Cached::of(pod)?;
    ///
    /// let ours: &Uid = pod.uid();
    /// let of_kube: Option<String> = pod.object().uid();
    /// assert_eq!((ours, of_kube.as_deref()), (&Uid::new("u1"), Some("u1")));
    /// # Ok::<(), informant::error::DecodeError>(())
    /// ```
    pub fn uid(&self) -> &Uid {
        &self.identity().uid
    }

    /// The version of this state of the object; empty if the source has no versions.
    ///
    /// It is the object's `metadata.resourceVersion`, which `kube::ResourceExt` reads as `resource_version()`. `kube::Resource::version` is the
    /// version of the API, such as `v1`; it is not a method, so it cannot be called by mistake:
    ///
    /// ```
    /// use informant::{Cached, ResourceVersion};
    /// use k8s_openapi::api::core::v1::Pod;
    /// use kube::{Resource, ResourceExt};
    ///
    /// let mut pod = Pod::default();
    /// (pod.metadata.name, pod.metadata.resource_version) = (Some("web".into()), Some("15".into()));
    /// let pod: Cached<Pod> = Cached::of(pod)?;
    ///
    /// let ours: &ResourceVersion = pod.version();
    /// let of_kube: Option<String> = pod.resource_version();
    /// assert_eq!((ours.as_str(), of_kube.as_deref()), ("15", Some("15")));
    /// assert_eq!(Pod::version(&()), "v1");
    /// # Ok::<(), informant::error::DecodeError>(())
    /// ```
    pub fn version(&self) -> &ResourceVersion {
        &self.identity().version
    }

    /// apiVersion and kind; both empty if the source has none.
    pub fn types(&self) -> &TypeMeta {
        &self.stored.provenance.types
    }

    /// The cluster that the object belongs to, if its source [names one](crate::listwatch::KubeSource::of_cluster).
    pub fn cluster(&self) -> Option<&Arc<str>> {
        self.stored.provenance.cluster.as_ref()
    }
}

/// Whether two hashes can belong to the same content; 0 means that the hash is not known.
pub(crate) fn is_same_content(one: u32, other: u32) -> bool {
    one == other || one == 0 || other == 0
}

impl<O: 'static> Deref for Cached<O> {
    type Target = O;

    fn deref(&self) -> &O {
        self.object()
    }
}

/// The handle holds an `O`, but in a box whose type does not have the traits `UnwindSafe` and `RefUnwindSafe`.
impl<O: RefUnwindSafe> UnwindSafe for Cached<O> {}
impl<O: RefUnwindSafe> RefUnwindSafe for Cached<O> {}

impl<O> fmt::Debug for Cached<O> {
    /// Shows the identity of the object, not its content: that may be large, or secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.key(), self.version())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_keeps_its_type_while_its_handle_has_none() {
        let object = Cached::new(Identity::of_key(Key::cluster_scoped("x")), 5_u8);

        let erased: Cached<Erased> = object.clone().erase();

        assert_eq!(**erased.typed_ref::<u8>(), 5);
        assert!(Cached::ptr_eq(&object, &erased.typed()));
    }

    #[test]
    fn only_an_object_that_is_not_shared_can_be_changed() {
        let mut object: Cached<Erased> = Cached::new(Identity::of_key(Key::cluster_scoped("x")), 5_u8).erase();
        *object.object_mut::<u8>().unwrap() = 6;
        let shared = object.clone();

        assert!(object.object_mut::<u8>().is_none());
        assert_eq!(**shared.typed_ref::<u8>(), 6);
    }
}
