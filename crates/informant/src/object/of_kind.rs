//! The kind of the Kubernetes API that an object type belongs to.

use serde::de::DeserializeOwned;

use super::{Lazy, Object};

/// An object type whose kind is known at compile time, so that a factory knows where its objects are served.
///
/// Every `kube::Resource` that deserializes and can be cloned has it: the types of `k8s-openapi`, your own with `kube`'s `CustomResource`, and
/// projections with `#[derive(Resource)]` and `#[resource(inherit = Pod)]`. So does [`Lazy`] of each of them. For a projection
/// without metadata, which is smaller, [`projection!`](crate::projection) implements it.
///
/// The compiler's message for any other type names these ways:
///
/// ```compile_fail,E0277
/// # fn of_factory(factory: informant::SharedInformerFactory) {
/// factory.informer::<kube::core::DynamicObject>();
/// # }
/// ```
#[diagnostic::on_unimplemented(
    message = "the kind of `{Self}` is not known at compile time",
    label = "names no kind",
    note = "for a struct of your own, write `informant::projection!(YourStruct of Pod);`, with its kind in place of `Pod`",
    note = "for a kind that is known only at run time, call `dynamic`, `request_dynamic` or `discover` of the factory"
)]
pub trait OfKind: Object {
    /// The kind.
    type Kind: kube::Resource<DynamicType = (), Scope: 'static>;
}

#[diagnostic::do_not_recommend]
impl<K> OfKind for K
where
    K: kube::Resource<DynamicType = (), Scope: 'static> + Clone + DeserializeOwned + Send + Sync + 'static,
{
    type Kind = K;
}

#[diagnostic::do_not_recommend]
impl<O: OfKind> OfKind for Lazy<O> {
    type Kind = O::Kind;
}

/// Makes structs of your own object types of a kind: only the fields that they name are decoded.
///
/// [`Cached`](crate::Cached) keeps the identity beside the object, so the struct needs no metadata.
///
/// ```
/// use informant::{pipeline::Scanner, projection};
/// use k8s_openapi::api::core::v1::Pod;
/// use serde::Deserialize;
///
/// #[derive(Deserialize)]
/// struct PodNode { spec: Spec }
///
/// #[derive(Deserialize)]
/// #[serde(rename_all = "camelCase")]
/// struct Spec { node_name: Option<String> }
///
/// projection!(PodNode of Pod);
///
/// let json = br#"{"metadata":{"namespace":"shop","name":"web"},"spec":{"nodeName":"node-1","containers":[]}}"#;
/// let pod = Scanner::of_kind::<Pod>().scan(json)?.decode::<PodNode>()?;
/// assert_eq!(pod.key().as_str(), "shop/web");
/// assert_eq!(pod.spec.node_name.as_deref(), Some("node-1"));
/// # Ok::<(), informant::error::DecodeError>(())
/// ```
#[macro_export]
macro_rules! projection {
    ($($object:ident of $kind:ty),+ $(,)?) => {$(
        impl $crate::Object for $object {
            fn decode(raw: &$crate::RawObject<'_>) -> ::std::result::Result<Self, $crate::error::DecodeError> {
                raw.fields()
            }

            fn types() -> ::std::option::Option<$crate::kube::core::TypeMeta> {
                ::std::option::Option::Some($crate::kube::core::TypeMeta::resource::<$kind>())
            }
        }

        impl $crate::OfKind for $object {
            type Kind = $kind;
        }
    )+};
}
