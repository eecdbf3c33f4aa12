//! The forms in which an object can be held.

use std::collections::BTreeMap;

use informant::object::{DecodeError, Identity, Labelled, RawObject, Scanner};
use informant::{Cached, Lazy, Object};
use k8s_openapi::api::core::v1::Pod;
use kube::core::{DynamicObject, PartialObjectMeta, TypeMeta};
use serde::Deserialize;

const JSON: &[u8] =
    br#"{"metadata":{"namespace":"shop","name":"web","uid":"u1","resourceVersion":"7","labels":{"app":"web"},
    "managedFields":[{"manager":"kubelet"}]},"spec":{"nodeName":"node-1","containers":[{"name":"a","image":"b"}]}}"#;

fn decode<O: Object>() -> Cached<O> {
    Scanner::of_kind::<Pod>().scan(JSON).unwrap().decode().unwrap()
}

fn has_identity<O>(object: &Cached<O>) {
    assert_eq!(object.key().as_str(), "shop/web");
    assert_eq!((object.uid().as_str(), object.version().as_str()), ("u1", "7"));
    assert_eq!((object.types().api_version.as_str(), object.types().kind.as_str()), ("v1", "Pod"));
}

#[test]
fn a_kubernetes_type_is_decoded_whole_without_managed_fields() {
    let pod = decode::<Pod>();

    has_identity(&pod);
    assert_eq!(pod.spec.as_ref().unwrap().node_name.as_deref(), Some("node-1"));
    assert_eq!(pod.metadata.managed_fields, None);
    assert_eq!(pod.label_map().get("app").map(String::as_str), Some("web"));
}

#[test]
fn a_dynamic_object_knows_its_type_though_the_list_left_it_out() {
    let pod = decode::<DynamicObject>();

    has_identity(&pod);
    assert_eq!(pod.types, Some(TypeMeta::resource::<Pod>()));
    assert_eq!(pod.data["spec"]["nodeName"], "node-1");
}

#[test]
fn metadata_alone_can_be_held() {
    let json = br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"web","labels":{"app":"web"}}}"#;

    let pod =
        Scanner::of_kind::<PartialObjectMeta<Pod>>().scan(json).unwrap().decode::<PartialObjectMeta<Pod>>().unwrap();

    assert_eq!(pod.key().as_str(), "web");
    assert_eq!(pod.metadata.labels, Some(BTreeMap::from([("app".to_owned(), "web".to_owned())])));
}

/// Keeps two fields of a pod.
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
fn a_projection_decodes_only_the_fields_that_it_names() {
    // `containers` is not a list, which no Pod could have.
    let json = br#"{"metadata":{"name":"web"},"spec":{"nodeName":"node-1","containers":7}}"#;

    let placement = Scanner::of_kind::<Pod>().scan(json).unwrap().decode::<Placement>().unwrap();

    assert_eq!(placement.spec.node_name, "node-1");
}

#[test]
fn a_projection_can_refuse_an_object_for_reasons_of_its_own() {
    let json = br#"{"metadata":{"name":"web"},"spec":{"nodeName":"forbidden"}}"#;

    let error = Scanner::of_kind::<Pod>().scan(json).unwrap().decode::<Placement>().unwrap_err();

    assert_eq!(error.to_string(), "web: refused");
    assert_eq!(std::error::Error::source(&error).unwrap().to_string(), "no such node");
}

#[test]
fn a_wrong_type_is_an_error_that_names_the_object_and_the_field() {
    let json = br#"{"metadata":{"namespace":"shop","name":"web"},"spec":{"containers":[{"name":"a"},{"name":"b","ports":{}}]}}"#;

    let error = Scanner::of_kind::<Pod>().scan(json).unwrap().decode::<Pod>().unwrap_err();

    assert_eq!(error.to_string(), "shop/web: cannot decode spec.containers[1].ports");
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("expected a sequence"), "{source}");
    assert_eq!(error.key().unwrap().as_str(), "shop/web");
}

#[test]
fn an_object_that_is_decoded_already_finds_its_identity() {
    let pod = decode::<Pod>().object().clone();

    let cached = Cached::of(pod).unwrap();

    has_identity(&cached);
    assert_eq!(Identity::of(cached.object()).unwrap(), *cached.identity());
    assert!(matches!(Cached::of(Pod::default()), Err(DecodeError::NoName)));
}

/// Both traits have something to say of labels; a user who imports both must not have to choose.
#[test]
fn labels_can_be_read_beside_the_extensions_of_kube() {
    use kube::ResourceExt;

    let (pod, lazy) = (decode::<Pod>(), decode::<Lazy<Pod>>());

    assert_eq!(pod.labels().get("app"), lazy.labels().get("app"));
}

#[test]
fn every_form_of_an_object_says_the_same_of_itself() {
    has_identity(&decode::<Pod>());
    has_identity(&decode::<Lazy<Pod>>());
    has_identity(&decode::<DynamicObject>());
    has_identity(&decode::<Placement>());
    assert_eq!(decode::<Pod>().label_map(), decode::<Lazy<Pod>>().label_map());
}

#[test]
fn what_is_shown_of_an_object_is_its_name_not_its_content() {
    assert_eq!(format!("{:?}", decode::<Pod>()), "shop/web@7");
    let lazy = decode::<Lazy<Pod>>();
    assert_eq!(format!("{:?}", lazy.object()), format!("Lazy(shop/web, {} bytes)", lazy.json().len()));
}
