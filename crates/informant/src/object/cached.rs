//! What users hold: an object with its identity beside it.
//!
//! - **In:** an identity and an object of any type.
//! - **Out:** [`Cached`], a shared pointer that knows the type of its object.
//! - **Knows nothing of:** where objects come from, and who holds them.
//!
//! The pointer is the same for all types: the type is a parameter of the handle, and is checked when the object is read. So the
//! pipeline, which never reads objects, works with `Cached<Erased>` and is compiled once, not once for each type.

use std::any::Any;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::LazyLock;

use kube::core::TypeMeta;
use ref_cast::RefCastCustom;
use ref_cast::ref_cast_custom;
use tracing::error;

use super::DecodeError;
use super::Identity;
use super::Provenance;
use super::Uid;
use super::raw::served_as;
use crate::Key;
use crate::ResourceVersion;
use crate::panics;

/// An object of the cache. Cheap to clone; all clones share one object.
///
/// It dereferences to the object; key, uid, version and type are answered without decoding anything.
///
/// If the object's destructor panics, that is logged and goes no further: the last clone may be dropped anywhere, by an
/// informer as well as by your code, and together with other objects.
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
pub struct Cached<O> {
    /// INV-C2: the object is of type `O`, unless that is [`Erased`].
    stored: Arc<Stored<dyn Content>>,
    object: PhantomData<fn() -> O>,
}

/// The object type of the pipeline: objects of any type. It has no values, so a `Cached<Erased>` cannot be dereferenced.
pub(crate) enum Erased {}

/// An object beside its identity.
struct Stored<C: Content + ?Sized> {
    identity: Identity,
    provenance: Arc<Provenance>,
    /// A hash of the JSON that the object was made of; 0 if it came ready.
    digest: u64,
    content: C,
}

/// The object of a [`Stored`]: an `Option` of any type.
trait Content: Any + Send + Sync {
    /// Drops the object.
    fn clear(&mut self);
}

/// INV-C1: `None` only in the destructor.
impl<O: Send + Sync + 'static> Content for Option<O> {
    fn clear(&mut self) {
        *self = None;
    }
}

impl<O: Send + Sync + 'static> Cached<O> {
    /// Puts an object beside its identity.
    pub fn new(identity: Identity, object: O) -> Self {
        static NONE: LazyLock<Arc<Provenance>> = LazyLock::new(Arc::default);
        Self::with_provenance(identity, Arc::clone(&NONE), object)
    }

    /// As [`new`](Self::new), with the object's apiVersion and kind, and its cluster.
    pub fn with_provenance(identity: Identity, provenance: Arc<Provenance>, object: O) -> Self {
        Self::with_digest(identity, provenance, 0, object)
    }

    /// As [`with_provenance`](Self::with_provenance), made of JSON with this hash.
    pub(super) fn with_digest(identity: Identity, provenance: Arc<Provenance>, digest: u64, object: O) -> Self {
        Self { stored: Arc::new(Stored { identity, provenance, digest, content: Some(object) }), object: PhantomData }
    }

    /// Puts an object that is decoded already beside its identity, such as the answer to a request.
    ///
    /// ```
    /// use informant::Cached;
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// let mut pod = Pod::default();
    /// pod.metadata.name = Some("web".into());
    /// assert_eq!(Cached::of(pod)?.key().as_str(), "web");
    /// # Ok::<(), informant::DecodeError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// When it has no name, as one that the server never saw.
    pub fn of(object: O) -> Result<Self, DecodeError>
    where
        O: kube::Resource<DynamicType = ()>,
    {
        Ok(Self::with_provenance(Identity::of(&object)?, Arc::new(Provenance::new(served_as::<O>())), object))
    }
}

impl<O: 'static> Cached<O> {
    /// The object itself, where a plain reference reads better than `&**`.
    pub fn object(&self) -> &O {
        let content: &dyn Any = &self.stored.content;
        content.downcast_ref::<Option<O>>().expect("INV-C2").as_ref().expect("INV-C1")
    }
}

impl Cached<Erased> {
    /// The object, to be changed; `None` if it is shared, or of another type.
    pub(crate) fn object_mut<O: 'static>(&mut self) -> Option<&mut O> {
        let content: &mut dyn Any = &mut Arc::get_mut(&mut self.stored)?.content;
        content.downcast_mut::<Option<O>>()?.as_mut()
    }
}

impl<O> Cached<O> {
    /// Whether both are clones of one another: the very same object, not just an equal one.
    pub fn ptr_eq(one: &Self, other: &Self) -> bool {
        Arc::ptr_eq(&one.stored, &other.stored)
    }

    #[ref_cast_custom]
    fn from_stored(stored: &Arc<Stored<dyn Content>>) -> &Self;

    /// The same, as an object of another type: of any type, or of the type that it has.
    pub(crate) fn cast<P>(self) -> Cached<P> {
        Cached { stored: self.stored, object: PhantomData }
    }

    /// As [`cast`](Self::cast), of a list.
    pub(crate) fn cast_all<P>(objects: Vec<Self>) -> Vec<Cached<P>> {
        objects.into_iter().map(Self::cast).collect()
    }

    /// As [`cast`](Self::cast), of a reference.
    pub(crate) fn cast_ref<P>(&self) -> &Cached<P> {
        Cached::from_stored(&self.stored)
    }

    /// A hash of the JSON that the object was made of; 0 if it came ready.
    pub(crate) fn digest(&self) -> u64 {
        self.stored.digest
    }

    /// Changes where the object comes from, unless it is shared already.
    pub(crate) fn change_provenance(&mut self, change: impl FnOnce(Arc<Provenance>) -> Arc<Provenance>) {
        if let Some(stored) = Arc::get_mut(&mut self.stored) {
            stored.provenance = change(Arc::clone(&stored.provenance));
        }
    }

    /// How often the source's history had changed when the object was read.
    pub(crate) fn history(&self) -> u64 {
        self.stored.provenance.history()
    }

    /// Whether both are the same state of the same object for sure.
    pub(crate) fn is_same_state(&self, other: &Self) -> bool {
        self.has_state(other.identity(), other.history(), || other.digest())
    }

    /// Whether it is the state of this identity: uid and version are equal, were given in the same history of the source, and so is the
    /// content, if both came as JSON. (A restored server gives versions for a second time.)
    pub(crate) fn has_state(&self, identity: &Identity, history: u64, digest: impl FnOnce() -> u64) -> bool {
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

    /// Which incarnation of the object this is.
    pub fn uid(&self) -> &Uid {
        &self.identity().uid
    }

    /// Which state of the object this is.
    pub fn version(&self) -> &ResourceVersion {
        &self.identity().version
    }

    /// apiVersion and kind; both empty if the source has none.
    pub fn types(&self) -> &TypeMeta {
        self.stored.provenance.types()
    }

    /// The cluster that it is of, if its source [names one](crate::listwatch::KubeSource::of_cluster).
    pub fn cluster(&self) -> Option<&Arc<str>> {
        self.stored.provenance.cluster()
    }
}

/// Whether two hashes can be of the same content; 0 is unknown.
pub(crate) fn is_same_content(one: u64, other: u64) -> bool {
    one == other || one == 0 || other == 0
}

impl<O: 'static> Deref for Cached<O> {
    type Target = O;

    fn deref(&self) -> &O {
        self.object()
    }
}

impl<O> Clone for Cached<O> {
    fn clone(&self) -> Self {
        Self { stored: Arc::clone(&self.stored), object: PhantomData }
    }
}

impl<C: Content + ?Sized> Drop for Stored<C> {
    fn drop(&mut self) {
        let Self { identity, provenance, digest: _, content } = self;
        drop_content(identity, provenance, &mut || content.clear());
    }
}

/// Drops an object; a panic of its destructor is logged and goes no further.
fn drop_content(identity: &Identity, provenance: &Provenance, clear: &mut dyn FnMut()) {
    panics::drop_in_place_catching(clear, |panic| {
        let kind = Some(&*provenance.types().kind).filter(|kind| !kind.is_empty());
        let cluster = provenance.cluster().map(|cluster| &**cluster);
        error!(kind, cluster, key = identity.key.as_str(), error = panic, "an object panicked while it was dropped");
    });
}

impl<O> fmt::Debug for Cached<O> {
    /// Shows who the object is, not what is in it: that may be large, or secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.key(), self.version())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Panics;

    impl Drop for Panics {
        fn drop(&mut self) {
            std::panic::resume_unwind(Box::new("my last word"));
        }
    }

    /// P8: a second panic while the first one unwinds would end the process.
    #[test]
    fn any_number_of_objects_may_panic_when_they_are_dropped_together() {
        let object = |number: u32| Cached::new(Identity::of_key(Key::cluster(&number.to_string())), Panics);

        let panics = panics::drop_catching((0..3).map(object).collect::<Vec<_>>(), |_| unreachable!("caught inside"));

        assert_eq!(panics, 3);
    }

    #[test]
    fn an_object_keeps_its_type_while_its_handle_has_none() {
        let object = Cached::new(Identity::of_key(Key::cluster("x")), 5_u8);

        let erased: Cached<Erased> = object.clone().cast();

        assert_eq!(**erased.cast_ref::<u8>(), 5);
        assert!(Cached::ptr_eq(&object, &erased.cast()));
    }

    #[test]
    fn only_an_object_that_is_not_shared_can_be_changed() {
        let mut object: Cached<Erased> = Cached::new(Identity::of_key(Key::cluster("x")), 5_u8).cast();
        *object.object_mut::<u8>().unwrap() = 6;
        let shared = object.clone();

        assert!(object.object_mut::<u8>().is_none());
        assert_eq!(**shared.cast_ref::<u8>(), 6);
    }
}
