//! Decodes objects: reads key, uid and version, and as many other fields as the object type needs.
//!
//! - **In:** the bytes of objects, as a server sends them.
//! - **Out:** [`Cached`] objects of the object type that the user chose.
//! - **Knows nothing of:** sources, queues, the cache.
//!
//! [`Scanner`] reads the identity from the bytes and nothing else; [`RawObject::decode`] makes a [`Cached`] object of them:
//!
//! | object type | Rust type | decoded on arrival |
//! | --- | --- | --- |
//! | eager | any `K: kube::Resource + Clone + DeserializeOwned` | everything |
//! | projection | a type of your own, by [`projection!`](crate::projection) or an [`Object`] impl | the fields it names |
//! | lazy | [`Lazy<K>`] | nothing |

mod cached; // `Cached`, the shared handle of an object with its identity
mod error; // why bytes are not an object
mod error_path; // the field at which decoding failed
mod field_path; // field paths, and trees of the fields that a scan cuts or notes
mod fields; // values at a field path, for indexes
mod held_json; // the JSON of a lazy object, plain or packed
mod identity; // key, uid and version
mod lazy; // `Lazy`, JSON that is decoded on demand
mod memory; // the bytes that the objects of an informer take
mod noted; // the values that a scan notes for indexes
mod of_kind; // which kind and object type a Rust type stands for
mod outline; // the members that identify an object that is too large
mod owners; // owner references, for indexes
#[cfg(feature = "packing")]
mod packing; // packs JSON against that of a similar object
mod provenance; // apiVersion, kind and cluster, shared by the objects of a source
mod raw; // `Scanner` and `RawObject`: from bytes to an object
mod scan; // reads the identity from JSON
mod special_bytes; // finds the bytes that are special in JSON strings
mod value_end; // finds the end of a JSON value that arrives in chunks
mod walk; // the JSON walker

use std::{any::Any, borrow::Cow, collections::BTreeMap};

use kube::core::TypeMeta;
use serde::de::DeserializeOwned;

pub use cached::Cached;
pub(crate) use cached::{Erased, is_same_content};
pub use error::{DecodeError, SyntaxProblem};
pub use field_path::FieldPath;
pub use fields::FieldValues;
pub use held_json::LazyJson;
pub use identity::{Identity, Uid};
pub use lazy::{Decoded, Lazy};
pub(crate) use memory::{HeldMemory, MemoryOf, ObjectMemory, memory_of};
pub(crate) use noted::note_path;
pub use of_kind::OfKind;
pub(crate) use outline::{IDENTITY, KeptMember, Outline};
pub use owners::Owned;
#[cfg(feature = "packing")]
pub(crate) use packing::{MemoryBudget, Packing};
pub use provenance::Provenance;
pub use raw::{RawObject, Scanner};
pub(crate) use value_end::EndSearch;
pub(crate) use walk::Walk;

/// A Rust type that can hold the objects of a kind, and that can be decoded from their JSON.
///
/// Every `kube::Resource` that deserializes and can be cloned is an `Object`, and so is [`Lazy`]. A slim struct of your own becomes one with
/// [`projection!`](crate::projection); then only the fields that it names are decoded. Implement the trait by hand for a type that is made
/// in another way:
///
/// ```
/// use informant::{Object, RawObject, error::DecodeError};
/// use serde::Deserialize;
///
/// /// The number of containers of a pod.
/// struct Containers(usize);
///
/// impl Object for Containers {
///     fn decode(raw: &RawObject<'_>) -> Result<Self, DecodeError> {
///         #[derive(Deserialize)]
///         struct Pod { spec: Spec }
///         #[derive(Deserialize)]
///         struct Spec { containers: Vec<serde::de::IgnoredAny> }
///
///         Ok(Self(raw.fields::<Pod>()?.spec.containers.len()))
///     }
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an object type",
    label = "cannot hold Kubernetes objects",
    note = "for a struct of your own, write `informant::projection!(YourStruct of Pod);`, with its kind in place of `Pod`",
    note = "a `kube::Resource` is an object type if it is also `Clone`, `DeserializeOwned`, `Send` and `Sync`"
)]
pub trait Object: Send + Sync + Sized + 'static {
    /// Makes the object from its JSON.
    ///
    /// # Errors
    ///
    /// When the JSON is not an object of this kind. The object is then quarantined and reported; other objects are not affected.
    fn decode(raw: &RawObject<'_>) -> Result<Self, DecodeError>;

    /// The apiVersion and kind of the objects that this type holds; `None` if they can be of any kind. Default: `None`.
    ///
    /// If a source does not declare the [kind](crate::listwatch::ListWatch::types) of its objects, those whose JSON states another one than
    /// this are quarantined.
    fn types() -> Option<TypeMeta> {
        None
    }

    /// What the object takes in memory. `json_length` is that of the JSON that it was decoded from.
    #[doc(hidden)]
    fn memory(&self, _json_length: usize) -> HeldMemory<'_> {
        HeldMemory::Estimate(size_of_val(self))
    }
}

#[diagnostic::do_not_recommend]
impl<K> Object for K
where
    K: kube::Resource + Clone + DeserializeOwned + Send + Sync + 'static,
{
    #[expect(clippy::map_clone, reason = "the object is owned, and its clone needs less memory")]
    fn decode(raw: &RawObject<'_>) -> Result<Self, DecodeError> {
        // serde leaves spare room in vectors, a fifth of the memory of a pod. A clone has none; making it takes no measurable time.
        raw.fields().map(|object: Self| object.clone())
    }

    fn memory(&self, json_length: usize) -> HeldMemory<'_> {
        // Measured for pods: `cargo bench --bench memory`.
        const BYTES_PER_BYTE_OF_JSON: usize = 5;
        HeldMemory::Estimate(json_length * BYTES_PER_BYTE_OF_JSON)
    }

    fn types() -> Option<TypeMeta> {
        // Exactly the kinds that are known at compile time have the dynamic type `()`.
        let known = (&() as &dyn Any).downcast_ref::<K::DynamicType>()?;
        let types = || TypeMeta { api_version: K::api_version(known).into(), kind: K::kind(known).into() };
        // Metadata can be that of any kind.
        (!K::metadata_api()).then(types)
    }
}

/// An object whose labels can be read, so that it can be selected and indexed by them.
///
/// Every `kube::Resource` and every [`Lazy`] has them. Implement it for a [projection](crate::projection) that keeps `metadata.labels`.
#[diagnostic::on_unimplemented(
    message = "the labels of `{Self}` cannot be read",
    label = "needs an object type that keeps `metadata.labels`",
    note = "every `kube::Resource` and every `Lazy` has them; for a projection that keeps them, implement `informant::index::Labelled`",
    note = "for any other object type, use an index whose function is a closure"
)]
pub trait Labelled {
    /// The object's labels. (The name differs from that of `kube::ResourceExt::labels`, so that both traits can be imported.)
    fn label_map(&self) -> Cow<'_, BTreeMap<String, String>>;

    /// The value of one label.
    fn label_value(&self, key: &str) -> Option<String> {
        self.label_map().get(key).cloned()
    }
}

#[diagnostic::do_not_recommend]
impl<K: kube::Resource> Labelled for K {
    fn label_map(&self) -> Cow<'_, BTreeMap<String, String>> {
        match &self.meta().labels {
            Some(labels) => Cow::Borrowed(labels),
            None => Cow::Owned(BTreeMap::new()),
        }
    }
}
