//! Decoding into each object type.

use std::collections::BTreeMap;

use informant::{Cached, Identity, Lazy, Object, RawObject, error::DecodeError, index::Labelled, pipeline::Scanner};
use k8s_openapi::api::core::v1::Pod;
use kube::core::{DynamicObject, PartialObjectMeta, TypeMeta};
use serde::Deserialize;

const JSON: &[u8] =
    br#"{"metadata":{"namespace":"shop","name":"web","uid":"u1","resourceVersion":"7","labels":{"app":"web"},
    "managedFields":[{"manager":"kubelet"}]},"spec":{"nodeName":"node-1","containers":[{"name":"a","image":"b"}]}}"#;

fn decode<O: Object>() -> Cached<O> {
    Scanner::of_kind::<Pod>().scan(JSON).unwrap().decode().unwrap()
}

fn assert_identity<O>(object: &Cached<O>) {
    assert_eq!(object.key().as_str(), "shop/web");
    assert_eq!((&*object.uid().to_string(), object.version().as_str()), ("u1", "7"));
    assert_eq!((object.types().api_version.as_str(), object.types().kind.as_str()), ("v1", "Pod"));
}

#[test]
fn a_kubernetes_type_is_decoded_without_managed_fields() {
    let pod = decode::<Pod>();

    assert_identity(&pod);
    assert_eq!(pod.spec.as_ref().unwrap().node_name.as_deref(), Some("node-1"));
    assert_eq!(pod.metadata.managed_fields, None);
    assert_eq!(pod.label_map().get("app").map(String::as_str), Some("web"));
}

#[test]
fn a_dynamic_object_has_its_type_even_if_the_list_omits_it() {
    let pod = decode::<DynamicObject>();

    assert_identity(&pod);
    assert_eq!(pod.types, Some(TypeMeta::resource::<Pod>()));
    assert_eq!(pod.data["spec"]["nodeName"], "node-1");
}

#[test]
fn partial_object_metadata_is_decoded() {
    let json = br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"web","labels":{"app":"web"}}}"#;

    let pod =
        Scanner::of_kind::<PartialObjectMeta<Pod>>().scan(json).unwrap().decode::<PartialObjectMeta<Pod>>().unwrap();

    assert_eq!(pod.key().as_str(), "web");
    assert_eq!(pod.metadata.labels, Some(BTreeMap::from([("app".to_owned(), "web".to_owned())])));
}

/// A projection that keeps the node name of a pod.
#[derive(Deserialize)]
struct Placement {
    spec: PlacementSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlacementSpec {
    node_name: String,
}

impl Object for Placement {
    fn decode(raw: &RawObject<'_>) -> Result<Self, DecodeError> {
        let placement: Self = raw.fields()?;
        match placement.spec.node_name.as_str() {
            "forbidden" => Err(DecodeError::Refused { key: raw.identity().key.clone(), source: "no such node".into() }),
            _ => Ok(placement),
        }
    }
}

#[test]
fn a_projection_decodes_only_the_fields_that_it_declares() {
    // As a `Pod` this would fail to decode: `containers` is not an array.
    let json = br#"{"metadata":{"name":"web"},"spec":{"nodeName":"node-1","containers":7}}"#;

    let placement = Scanner::of_kind::<Pod>().scan(json).unwrap().decode::<Placement>().unwrap();

    assert_eq!(placement.spec.node_name, "node-1");
}

#[test]
fn a_projection_can_refuse_an_object_with_its_own_error() {
    let json = br#"{"metadata":{"name":"web"},"spec":{"nodeName":"forbidden"}}"#;

    let error = Scanner::of_kind::<Pod>().scan(json).unwrap().decode::<Placement>().unwrap_err();

    assert_eq!(error.to_string(), "web: refused");
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "no such node");
}

#[test]
fn a_decode_error_names_the_object_and_the_field_of_a_wrong_type() {
    let json = br#"{"metadata":{"namespace":"shop","name":"web"},"spec":{"containers":[{"name":"a"},{"name":"b","ports":{}}]}}"#;

    let error = Scanner::of_kind::<Pod>().scan(json).unwrap().decode::<Pod>().unwrap_err();

    assert_eq!(error.to_string(), "shop/web: cannot decode spec.containers[1].ports");
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("expected a sequence"), "{source}");
    assert_eq!(error.key().unwrap().as_str(), "shop/web");
}

#[test]
fn cached_of_takes_the_identity_from_a_decoded_object() {
    let pod = decode::<Pod>().object().clone();

    let cached = Cached::of(pod).unwrap();

    assert_identity(&cached);
    assert_eq!(Identity::of(cached.object()).unwrap(), *cached.identity());
    assert!(matches!(Cached::of(Pod::default()), Err(DecodeError::NoName)));
}

/// kube's `ResourceExt` and `Lazy` both have a method `labels`; calls need no qualification.
#[test]
fn labels_can_be_read_with_resource_ext_in_scope() {
    use kube::ResourceExt;

    let (pod, lazy) = (decode::<Pod>(), decode::<Lazy<Pod>>());

    assert_eq!(pod.labels().get("app"), lazy.labels().get("app"));
}

#[test]
fn every_object_type_has_the_same_identity_and_labels() {
    assert_identity(&decode::<Pod>());
    assert_identity(&decode::<Lazy<Pod>>());
    assert_identity(&decode::<DynamicObject>());
    assert_identity(&decode::<Placement>());
    assert_eq!(decode::<Pod>().label_map(), decode::<Lazy<Pod>>().label_map());
}

#[test]
fn debug_of_an_object_shows_its_identity_and_not_its_content() {
    assert_eq!(format!("{:?}", decode::<Pod>()), "shop/web@7");
    let lazy = decode::<Lazy<Pod>>();
    assert_eq!(format!("{:?}", lazy.object()), format!("Lazy(shop/web, {} bytes)", lazy.json().unwrap().len()));
}
