//! What users hold: an object with its identity beside it.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::LazyLock;

use kube::core::TypeMeta;
use tracing::error;

use super::DecodeError;
use super::Identity;
use super::Provenance;
use super::Uid;
use super::raw::served_as;
use crate::Key;
use crate::ResourceVersion;
use crate::panics;

/// An object of the cache, shared by all who read it.
///
/// It dereferences to the object; key, uid, version and type are answered without decoding anything.
///
/// If the object's destructor panics, that is logged and goes no further: the last reference may be dropped anywhere, by an
/// informer as well as by your code, and together with other objects.
///
/// ```
/// use informant::{Cached, Identity, Key};
///
/// let stock = Cached::new(Identity::of_key(Key::namespaced("shop", "apples")), 12_u32);
/// assert_eq!(stock.key().name(), "apples");
/// assert_eq!(*stock, 12);
/// ```
pub struct Cached<O> {
    identity: Identity,
    provenance: Arc<Provenance>,
    /// A hash of the JSON that the object was made of; 0 if it came ready.
    digest: u64,
    /// INV-C1: taken only by the destructor.
    object: Option<O>,
}

impl<O> Cached<O> {
    /// Puts an object beside its identity: for sources that do not deliver JSON.
    pub fn new(identity: Identity, object: O) -> Self {
        static NONE: LazyLock<Arc<Provenance>> = LazyLock::new(Arc::default);
        Self::with_provenance(identity, Arc::clone(&NONE), object)
    }

    /// As [`new`](Self::new), with the object's apiVersion and kind, and its cluster.
    pub fn with_provenance(identity: Identity, provenance: Arc<Provenance>, object: O) -> Self {
        Self { identity, provenance, digest: 0, object: Some(object) }
    }

    /// The same, made of JSON with this hash.
    pub(super) fn with_digest(mut self, digest: u64) -> Self {
        self.digest = digest;
        self
    }

    /// A hash of the JSON that the object was made of; 0 if it came ready.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
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

    /// The object, to be transformed before it is shared.
    pub(crate) fn object_mut(&mut self) -> &mut O {
        self.object.as_mut().expect("INV-C1")
    }

    /// Changes where the object comes from.
    pub(crate) fn change_provenance(&mut self, change: impl FnOnce(Arc<Provenance>) -> Arc<Provenance>) {
        self.provenance = change(Arc::clone(&self.provenance));
    }

    /// How often the source's history had changed when the object was read.
    pub(crate) fn history(&self) -> u64 {
        self.provenance.history()
    }

    /// Whether both are the same state of the same object for sure.
    pub(crate) fn is_same_state(&self, other: &Self) -> bool {
        self.has_state(&other.identity, other.history(), || other.digest)
    }

    /// Whether it is the state of this identity: uid and version are equal, were given in the same history of the source, and so is the
    /// content, if both came as JSON. (A restored server gives versions for a second time.)
    pub(crate) fn has_state(&self, identity: &Identity, history: u64, digest: impl FnOnce() -> u64) -> bool {
        self.history() == history && self.identity.is_same_state(identity) && is_same_content(self.digest, digest())
    }

    /// Key, uid and version together.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Namespace and name.
    pub fn key(&self) -> &Key {
        &self.identity.key
    }

    /// Which life of the object this is.
    pub fn uid(&self) -> &Uid {
        &self.identity.uid
    }

    /// Which state of the object this is.
    pub fn version(&self) -> &ResourceVersion {
        &self.identity.version
    }

    /// apiVersion and kind; both empty if the source has none.
    pub fn types(&self) -> &TypeMeta {
        self.provenance.types()
    }

    /// The cluster that it is of, if its source [names one](crate::listwatch::KubeSource::of_cluster).
    pub fn cluster(&self) -> Option<&Arc<str>> {
        self.provenance.cluster()
    }

    /// The object itself, where a plain reference reads better than `&**`.
    pub fn object(&self) -> &O {
        self.object.as_ref().expect("INV-C1")
    }
}

/// Whether two hashes can be of the same content; 0 is unknown.
pub(crate) fn is_same_content(one: u64, other: u64) -> bool {
    one == other || one == 0 || other == 0
}

impl<O> Deref for Cached<O> {
    type Target = O;

    fn deref(&self) -> &O {
        self.object()
    }
}

impl<O> Drop for Cached<O> {
    fn drop(&mut self) {
        let Self { identity, provenance, digest: _, object } = self;
        let clear = || *object = None;
        panics::drop_in_place_catching(clear, |panic| {
            let kind = Some(&*provenance.types().kind).filter(|kind| !kind.is_empty());
            let cluster = provenance.cluster().map(|cluster| &**cluster);
            error!(
                kind,
                cluster,
                key = identity.key.as_str(),
                error = panic,
                "an object panicked while it was dropped"
            );
        });
    }
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
}
