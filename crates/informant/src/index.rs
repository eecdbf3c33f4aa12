//! Ready-made index functions (by label, by controller, by owner, by field path), and the traits and types of index functions.
//!
//! An index finds objects by a value that a function computes. [`SharedInformer::add_index`](crate::SharedInformer::add_index) takes a closure or
//! one of these functions, and returns an [`Index`](crate::Index):
//!
//! | function | finds objects by | object types |
//! | --- | --- | --- |
//! | [`label`] | the value of one label | those that are [`Labelled`] |
//! | [`controller_uid`] | the uid of the owner that controls them | those that are [`Owned`] |
//! | [`owner_uids`] | the uid of each of their owners | those that are [`Owned`] |
//! | [`field`] | the values at a field path | those that have [`FieldValues`]: `Lazy`, `DynamicObject`, `PartialObjectMeta` |
//! | [`text`], [`texts`] | strings that your own function borrows from the object | all |
//!
//! ```
//! use informant::{Lazy, SharedInformerFactory, index};
//! use informant_apiserver::ApiServer;
//! use k8s_openapi::api::core::v1::Pod;
//! # use serde_json::json;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::new();
//! # let containers = json!([{"name": "main", "image": "web:1"}]);
//! # let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u-7", "controller": true});
//! # let metadata = json!({"namespace": "shop", "name": "web", "labels": {"app": "web"}, "ownerReferences": [owner]});
//! # server.put("pods", json!({"metadata": metadata, "spec": {"nodeName": "n1", "containers": containers}}))?;
//! let factory = SharedInformerFactory::new(server.client());
//! let pods = factory.informer::<Lazy<Pod>>();
//! let by_app = pods.add_index("app", index::label("app"))?;
//! let by_controller = pods.add_index("controller", index::controller_uid())?;
//! let by_node = pods.add_index("node", index::field("spec.nodeName")?)?;
//! factory.start();
//! factory.synced().await?;
//!
//! assert_eq!(by_app.count("web"), 1);
//! assert_eq!(by_controller.count("u-7"), 1);
//! assert_eq!(by_node.count("n1"), 1);
//! # factory.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! If the object type lacks the data, such as a projection without metadata, compilation fails with a message that names the missing data and a way to provide it.
//!
//! ```compile_fail,E0277
//! use informant::{index, pipeline::Indexer, projection};
//! use k8s_openapi::api::core::v1::Pod;
//!
//! #[derive(serde::Deserialize)]
//! struct PodNode { node: String }
//! projection!(PodNode of Pod);
//!
//! Indexer::<PodNode>::new().add_index("app", index::label("app")).unwrap();
//! ```

use crate::{Cached, FieldPath, Uid, error::ParseError, object::note_path};

pub use crate::{
    object::{FieldValues, Labelled, Owned},
    store::{IndexFunction, IndexValue, IndexValues, Lookup, LookupValue, NAMESPACE_INDEX},
};

/// Indexes objects by the value of one label. An object without the label has no value.
///
/// ```
/// use informant::{Cached, index, pipeline::Indexer};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let pods = Indexer::<Pod>::new();
/// let by_app = pods.add_index("app", index::label("app"))?;
///
/// let mut pod = Pod::default();
/// pod.metadata.name = Some("web-1".into());
/// pod.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
/// pods.upsert(Cached::of(pod)?);
/// assert_eq!(by_app.get("web").len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn label<O>(key: &str) -> impl Fn(&Cached<O>) -> Option<String> + Send + Sync + 'static + use<O>
where
    O: Labelled + 'static,
{
    note_path(&FieldPath::of_label(key));
    let key = key.to_owned();
    move |object| object.object().label_value(&key)
}

/// Indexes objects by the uid of the owner that controls them: the owner reference with `controller: true`. An object without a
/// controller has no value.
///
/// ```
/// use informant::{Cached, index, pipeline::Indexer};
/// use k8s_openapi::api::core::v1::Pod;
/// use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
///
/// let pods = Indexer::<Pod>::new();
/// let by_controller = pods.add_index("controller", index::controller_uid())?;
///
/// let mut pod = Pod::default();
/// pod.metadata.name = Some("web-1".into());
/// let owner = OwnerReference { uid: "u-7".into(), controller: Some(true), ..OwnerReference::default() };
/// pod.metadata.owner_references = Some(vec![owner]);
/// pods.upsert(Cached::of(pod)?);
/// assert_eq!(by_controller.get("u-7").len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// With the controller itself at hand, as a [`Cached`] object, the call is `by_controller.get(replica_set.uid())`.
pub fn controller_uid<O>() -> impl Fn(&Cached<O>) -> Option<Uid> + Send + Sync + 'static + use<O>
where
    O: Owned + 'static,
{
    |object| {
        let owners = object.object().owner_list();
        let controller = owners.iter().find(|owner| owner.controller == Some(true))?;
        Some(Uid::new(&*controller.uid)).filter(|uid| !uid.is_empty())
    }
}

/// Indexes objects by the uids of all their owners, controllers and others.
///
/// ```
/// use informant::{Cached, index, pipeline::Indexer};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// let configs = Indexer::<ConfigMap>::new();
/// let by_owner = configs.add_index("owner", index::owner_uids())?;
/// assert_eq!(by_owner.get("u-7").len(), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn owner_uids<O>() -> impl Fn(&Cached<O>) -> Vec<Uid> + Send + Sync + 'static + use<O>
where
    O: Owned + 'static,
{
    |object| {
        let owners = object.object().owner_list();
        owners.iter().map(|owner| Uid::new(&*owner.uid)).filter(|uid| !uid.is_empty()).collect()
    }
}

/// Indexes objects by the values at a field path, such as `spec.nodeName`. A `Lazy` object is not decoded for it.
///
/// The path has the syntax of a [`FieldPath`]. Unlike a path that is passed to `cut`, it may also be `metadata.name` or another field of the identity. Strings are
/// values as they stand; booleans and numbers are values as `serde_json` writes them (`true`, `8080`, `1000.0` for `1e3`). A missing field, `null` and an object have
/// no value. An array, on the way or at the end, stands for each of its items: `spec.containers.image` has one value for each container.
///
/// ```
/// use informant::{index, pipeline::Indexer};
/// use kube::core::DynamicObject;
///
/// let widgets = Indexer::<DynamicObject>::new();
/// let by_size = widgets.add_index("size", index::field("spec.size")?)?;
/// assert!(index::field::<DynamicObject>("spec..size").is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// When the path has an empty name or a bad escape.
pub fn field<O>(path: &str) -> Result<impl Fn(&Cached<O>) -> Vec<String> + Send + Sync + 'static + use<O>, ParseError>
where
    O: FieldValues + 'static,
{
    let path = FieldPath::parse(path)?;
    note_path(&path);
    Ok(move |object: &Cached<O>| object.object().field_values(&path))
}

/// Indexes objects by a string that `value` borrows from the object, so that the function needs no `clone()`.
///
/// The closure's parameter needs its type: `|pod: &Cached<Pod>|`.
///
/// ```
/// use informant::{Cached, index, pipeline::Indexer};
/// use k8s_openapi::api::core::v1::Pod;
///
/// let pods = Indexer::<Pod>::new();
/// let by_node = pods.add_index("node", index::text(|pod: &Cached<Pod>| pod.spec.as_ref()?.node_name.as_deref()))?;
/// assert_eq!(by_node.count("n1"), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn text<O, F>(value: F) -> impl Fn(&Cached<O>) -> Option<String> + Send + Sync + 'static
where
    O: 'static,
    F: Fn(&Cached<O>) -> Option<&str> + Send + Sync + 'static,
{
    move |object| value(object).map(str::to_owned)
}

/// As [`text`], for a function that returns any number of strings.
///
/// ```
/// use informant::{Cached, index, pipeline::Indexer};
/// use k8s_openapi::api::core::v1::Pod;
///
/// fn images(pod: &Cached<Pod>) -> Vec<&str> {
///     let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
///     containers.filter_map(|container| container.image.as_deref()).collect()
/// }
///
/// let by_image = Indexer::<Pod>::new().add_index("image", index::texts(images))?;
/// assert_eq!(by_image.count("web:1"), 0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn texts<O, F>(values: F) -> impl Fn(&Cached<O>) -> Vec<String> + Send + Sync + 'static
where
    O: 'static,
    F: Fn(&Cached<O>) -> Vec<&str> + Send + Sync + 'static,
{
    move |object| values(object).into_iter().map(str::to_owned).collect()
}
