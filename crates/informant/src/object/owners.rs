//! The owner references of an object, for every object type that has them.
//!
//! - **In:** an object that is decoded, or held as JSON.
//! - **Out:** its `metadata.ownerReferences`.
//! - **Knows nothing of:** indexes, owners themselves.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde::Deserialize;

use super::Lazy;

/// An object whose owner references can be read.
///
/// Every `kube::Resource` and every [`Lazy`] has them. Implement it for a [projection](crate::projection) that keeps
/// `metadata.ownerReferences`, so that [`index::controller_uid`](crate::index::controller_uid) and
/// [`index::owner_uids`](crate::index::owner_uids) work with it.
#[diagnostic::on_unimplemented(
    message = "the owner references of `{Self}` cannot be read",
    label = "needs an object type that keeps `metadata.ownerReferences`",
    note = "every `kube::Resource` and every `Lazy` has them; for a projection that keeps them, implement `informant::index::Owned`",
    note = "for any other object type, write the index function as a closure"
)]
pub trait Owned {
    /// The object's owner references. (The name differs from that of `kube::ResourceExt::owner_references`, so that both traits can be
    /// imported.)
    fn owner_list(&self) -> Cow<'_, [OwnerReference]>;
}

#[diagnostic::do_not_recommend]
impl<K: kube::Resource> Owned for K {
    fn owner_list(&self) -> Cow<'_, [OwnerReference]> {
        Cow::Borrowed(self.meta().owner_references.as_deref().unwrap_or_default())
    }
}

/// Decodes the owner references and nothing else. An object whose owner references cannot be decoded has an empty list.
impl<K> Owned for Lazy<K> {
    fn owner_list(&self) -> Cow<'_, [OwnerReference]> {
        #[derive(Deserialize)]
        struct Object {
            metadata: Metadata,
        }

        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            owner_references: Option<Vec<OwnerReference>>,
        }

        let object = self.peek::<Object>();
        Cow::Owned(object.ok().and_then(|object| object.metadata.owner_references).unwrap_or_default())
    }
}
