//! How an object is held: its identity beside it, and as much of it decoded as its form asks for.
//!
//! Bytes come in through [`Scanner`], which reads the identity and nothing else; [`RawObject::decode`] turns
//! them into a [`Cached`] object of the form the user chose:
//!
//! | form | type | decoded on the way in |
//! | --- | --- | --- |
//! | eager | any `K: kube::Resource + DeserializeOwned` | everything |
//! | projection | a type of your own, by [`projection!`](crate::projection) or an [`Object`] impl | the fields it names |
//! | lazy | [`Lazy<K>`] | nothing |

mod cached;
mod cuts;
mod error;
mod error_path;
mod identity;
mod lazy;
mod of_kind;
mod provenance;
mod raw;
mod scan;
mod walk;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

pub use cached::Cached;
pub(crate) use cached::Erased;
pub(crate) use cached::is_same_content;
pub use cuts::FieldPath;
pub use cuts::FieldPathError;
pub use error::DecodeError;
pub use error::SyntaxProblem;
pub use identity::Identity;
pub use identity::Uid;
pub use lazy::Decoded;
pub use lazy::Lazy;
pub use of_kind::OfKind;
pub use provenance::Provenance;
pub use raw::RawObject;
pub use raw::Scanner;
pub(crate) use walk::first_special;

pub use crate::key::{Key, ParseKeyError};
pub use crate::version::{NotComparable, ResourceVersion};

/// How one kind is decoded and held; the pipeline needs to know nothing else of it.
///
/// Every `kube::Resource` that deserializes is one, and so is [`Lazy`]. A slim struct of your own becomes one
/// [in a line](crate::projection), and then only the fields it names are ever decoded. One that is made in another way says how:
///
/// ```
/// use informant::{Object, object::{DecodeError, RawObject}};
/// use serde::Deserialize;
///
/// /// How many containers a pod has; what they are is forgotten.
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
pub trait Object: Send + Sync + Sized + 'static {
    /// Makes the object from its JSON.
    ///
    /// # Errors
    ///
    /// When the JSON is not an object of this kind. The object is then set aside and reported; nothing else stops.
    fn decode(raw: &RawObject<'_>) -> Result<Self, DecodeError>;
}

impl<K> Object for K
where
    K: kube::Resource + DeserializeOwned + Send + Sync + 'static,
{
    fn decode(raw: &RawObject<'_>) -> Result<Self, DecodeError> {
        raw.fields()
    }
}

/// An object whose labels can be read, so that it can be selected by them.
///
/// Implement it for a projection that keeps `metadata.labels`; every `kube::Resource` and [`Lazy`] have it.
pub trait Labelled {
    /// The object's labels. (Named so that it does not get in the way of `kube::ResourceExt::labels`.)
    fn label_map(&self) -> Cow<'_, BTreeMap<String, String>>;
}

impl<K: kube::Resource> Labelled for K {
    fn label_map(&self) -> Cow<'_, BTreeMap<String, String>> {
        match &self.meta().labels {
            Some(labels) => Cow::Borrowed(labels),
            None => Cow::Owned(BTreeMap::new()),
        }
    }
}
