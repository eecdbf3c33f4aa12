//! The ready-made index functions, on every object type that has the data for them.

use std::{borrow::Cow, collections::BTreeMap};

use informant::{
    Cached, Identity, Key, Lazy, Object, Uid,
    error::{DecodeError, ParseError},
    index::{self, FieldValues, Labelled, Owned},
    pipeline::{Indexer, Scanner, WriteBatch},
    projection,
};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::OwnerReference};
use kube::{
    ResourceExt,
    core::{DynamicObject, PartialObjectMeta, TypeMeta},
};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    random,
    support::{key, show_objects},
};

/// A projection that keeps labels and owner references, and so can be indexed by them.
#[derive(Deserialize)]
struct PodMeta {
    metadata: Meta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Meta {
    #[serde(default)]
    labels: BTreeMap<String, String>,
    owner_references: Option<Vec<OwnerReference>>,
}

projection!(PodMeta of Pod);

impl Labelled for PodMeta {
    fn label_map(&self) -> Cow<'_, BTreeMap<String, String>> {
        Cow::Borrowed(&self.metadata.labels)
    }
}

impl Owned for PodMeta {
    fn owner_list(&self) -> Cow<'_, [OwnerReference]> {
        Cow::Borrowed(self.metadata.owner_references.as_deref().unwrap_or_default())
    }
}

fn decode<O: Object>(object: &Value) -> Result<Cached<O>, DecodeError> {
    Scanner::new(TypeMeta::default()).scan(object.to_string().as_bytes())?.decode()
}

fn pod<O: Object>(name: &str, metadata: &Value, spec: &Value) -> Cached<O> {
    let mut metadata = metadata.clone();
    (metadata["namespace"], metadata["name"]) = ("shop".into(), name.into());
    decode(&json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})).unwrap()
}

fn owner(uid: &str, controller: Option<bool>) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": uid, "uid": uid, "controller": controller})
}

fn indexes_by_metadata<O: Object + Labelled + Owned>() {
    let pods = Indexer::<O>::new();
    let by_app = pods.add_index("app", index::label("app")).unwrap();
    let by_team = pods.add_index("team", index::label("example.com/team")).unwrap();
    let by_controller = pods.add_index("controller", index::controller_uid()).unwrap();
    let by_owner = pods.add_index("owner", index::owner_uids()).unwrap();
    let spec = json!({"containers": []});
    let several = json!([owner("u1", None), owner("u2", Some(true)), owner("u3", Some(false))]);
    pods.upsert(pod("web", &json!({"labels": {"app": "web", "apps": "x"}, "ownerReferences": several}), &spec));
    let (labels, controlled) = (json!({"example.com/team": "a", "app": ""}), json!([owner("u2", Some(true))]));
    pods.upsert(pod("db", &json!({"labels": labels, "ownerReferences": controlled}), &spec));
    pods.upsert(pod("bare", &json!({}), &spec));

    assert_eq!(show_objects(by_app.get("web")), ["shop/web@"]);
    assert_eq!(show_objects(by_app.get("")), ["shop/db@"], "an empty label is a value, a missing one is not");
    assert_eq!(show_objects(by_team.get("a")), ["shop/db@"]);
    assert_eq!(show_objects(by_controller.get("u2")), ["shop/db@", "shop/web@"]);
    assert_eq!(by_controller.count("u1") + by_controller.count("u3"), 0, "an owner is not a controller");
    assert_eq!(show_objects(by_owner.get(&Uid::new("u3"))), ["shop/web@"]);
    assert_eq!(by_owner.count("u2"), 2);

    pods.upsert(pod("web", &json!({"labels": {"app": "api"}, "ownerReferences": null}), &spec));

    assert_eq!((by_app.count("web"), by_app.count("api")), (0, 1), "the values follow the object");
    assert_eq!((by_controller.count("u2"), by_owner.count("u1")), (1, 0));
}

#[test]
fn labels_controllers_and_owners_index_objects_of_every_object_type() {
    indexes_by_metadata::<Pod>();
    indexes_by_metadata::<Lazy<Pod>>();
    indexes_by_metadata::<PartialObjectMeta<Pod>>();
    indexes_by_metadata::<Lazy<PartialObjectMeta<Pod>>>();
    indexes_by_metadata::<DynamicObject>();
    indexes_by_metadata::<Lazy<DynamicObject>>();
    indexes_by_metadata::<PodMeta>();
}

#[test]
fn a_lazy_object_whose_owner_references_cannot_be_decoded_has_no_owner() {
    let pods = Indexer::<Lazy<Pod>>::new();
    let by_owner = pods.add_index("owner", index::owner_uids()).unwrap();

    pods.upsert(pod("odd", &json!({"ownerReferences": [7]}), &json!({})));
    pods.upsert(pod("empty", &json!({"ownerReferences": [{"uid": ""}]}), &json!({})));

    assert!(by_owner.values().is_empty());
}

fn indexes_by_field<O: Object + FieldValues>() {
    let pods = Indexer::<O>::new();
    let add = |path: &str| pods.add_index(path, index::field(path).unwrap()).unwrap();
    let (by_node, by_image) = (add("spec.nodeName"), add("spec.containers.image"));
    let (by_port, by_command) = (add("spec.containers.ports.containerPort"), add("spec.containers.command"));
    let (by_flag, by_spec) = (add("spec.hostNetwork"), add("spec"));
    let (by_name, by_dotted) = (add("metadata.name"), add(r"metadata.annotations.example\.com/x"));
    let (by_kind, by_below_text) = (add("kind"), add("spec.nodeName.x"));
    let containers = json!([
        {"image": "web:1", "ports": [{"containerPort": 80}, {"containerPort": 443}], "command": ["a", ["b", "c"]]},
        {"image": "proxy:3", "ports": null},
    ]);
    let spec = json!({"nodeName": "n1", "hostNetwork": true, "containers": containers});
    pods.upsert(pod("web", &json!({"annotations": {"example.com/x": "y"}}), &spec));
    pods.upsert(pod("new", &json!({}), &json!({"nodeName": null})));

    let found = |index: &informant::Index<O>, value: &str| show_objects(index.get(value));
    assert_eq!(found(&by_node, "n1"), ["shop/web@"]);
    assert_eq!(by_node.values().len(), 1, "neither null nor a missing field is a value");
    assert_eq!((by_image.count("web:1"), by_image.count("proxy:3")), (1, 1));
    assert_eq!((by_port.count("80"), by_port.count("443"), by_port.values().len()), (1, 1, 2));
    assert_eq!(["a", "b", "c"].map(|part| by_command.count(part)), [1, 1, 1]);
    assert_eq!(by_flag.count("true"), 1);
    assert!(by_spec.values().is_empty() && by_below_text.values().is_empty());
    assert_eq!(found(&by_name, "new"), ["shop/new@"]);
    assert_eq!(found(&by_dotted, "y"), ["shop/web@"]);
    assert_eq!(by_kind.count("Pod"), 2);
}

#[test]
fn a_field_path_indexes_objects_whose_json_is_at_hand() {
    indexes_by_field::<Lazy<Pod>>();
    indexes_by_field::<DynamicObject>();
    indexes_by_field::<Lazy<DynamicObject>>();
}

#[test]
fn a_field_path_of_metadata_indexes_partial_objects() {
    let pods = Indexer::<PartialObjectMeta<Pod>>::new();
    let by_name = pods.add_index("name", index::field("metadata.name").unwrap()).unwrap();
    let by_node = pods.add_index("node", index::field("spec.nodeName").unwrap()).unwrap();

    pods.upsert(pod("web", &json!({}), &json!({"nodeName": "n1"})));

    assert_eq!((by_name.count("web"), by_node.count("n1")), (1, 0), "only the metadata is held");
}

#[test]
fn a_field_of_a_lazy_object_is_read_although_the_rest_does_not_fit_its_kind() {
    let pods = Indexer::<Lazy<Pod>>::new();
    let by_node = pods.add_index("node", index::field("spec.nodeName").unwrap()).unwrap();

    let broken = pod::<Lazy<Pod>>("web", &json!({}), &json!({"containers": "none", "nodeName": "n1"}));
    assert!(broken.get().is_err());
    pods.upsert(broken);

    assert_eq!(by_node.count("n1"), 1);
}

#[test]
fn an_invalid_field_path_is_a_typed_error() {
    let error = |path: &str| index::field::<DynamicObject>(path).map(drop).unwrap_err();

    for (path, problem) in [
        ("spec..x", "has an empty name; write a path as in `metadata.annotations`"),
        ("spec.", "has an empty name; write a path as in `metadata.annotations`"),
        (r"a\b", r"has a backslash before neither a dot nor a backslash; write a dot within a name as `\.`"),
    ] {
        assert_eq!(error(path), ParseError::FieldPath { path: path.into(), problem });
        assert_eq!(error(path).to_string(), format!("field path {path:?} {problem}"));
    }
}

/// The values at a path, computed the simple way.
fn expected_values(value: &Value, names: &[&str]) -> Vec<String> {
    match (value, names) {
        (Value::Array(items), _) => items.iter().flat_map(|item| expected_values(item, names)).collect(),
        (Value::Object(members), [first, rest @ ..]) => {
            members.get(*first).map_or_else(Vec::new, |member| expected_values(member, rest))
        }
        (Value::String(text), []) => vec![text.clone()],
        (Value::Number(_) | Value::Bool(_), []) => vec![value.to_string()],
        (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_), _) => Vec::new(),
    }
}

fn trees() -> impl Strategy<Value = Value> {
    let scalars = [json!(null), json!(true), json!(0), json!(-7), json!(1.5), json!(1e300), json!("x\"ü"), json!("")];
    let scalar = proptest::sample::select(scalars.to_vec());
    scalar.prop_recursive(4, 30, 4, |inner| {
        let name = proptest::sample::select(vec!["a", "b", "c.d", "ü\\"]).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

#[test]
fn the_values_at_a_field_path_are_those_of_the_model_for_every_object_type() {
    let names = proptest::sample::select(vec!["a", "b", "c.d", "ü\\"]);
    let paths = prop::collection::vec(names, 0..4);
    random::check(2000, (trees(), paths), |(tree, below)| {
        let object = json!({"apiVersion": "v1", "kind": "X", "metadata": {"name": "x"}, "spec": tree});
        let names: Vec<_> = std::iter::once("spec").chain(below).collect();
        let escaped: Vec<_> = names.iter().map(|name| name.replace('\\', r"\\").replace('.', r"\.")).collect();
        let path = escaped.join(".").parse().unwrap();

        let expected = expected_values(&object, &names);

        assert_eq!(decode::<Lazy<DynamicObject>>(&object).unwrap().field_values(&path), expected, "{path} of {object}");
        assert_eq!(decode::<DynamicObject>(&object).unwrap().field_values(&path), expected, "{path} of {object}");
    });
}

#[test]
fn index_functions_may_return_strings_that_they_borrow_from_the_object() {
    fn images(pod: &Cached<Pod>) -> Vec<&str> {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        containers.filter_map(|container| container.image.as_deref()).collect()
    }
    let pods = Indexer::<Pod>::new();
    let by_node =
        pods.add_index("node", index::text(|pod: &Cached<Pod>| pod.spec.as_ref()?.node_name.as_deref())).unwrap();
    let by_image = pods.add_index("image", index::texts(images)).unwrap();

    let containers = json!([{"name": "a", "image": "web:1"}, {"name": "b", "image": "proxy:3"}]);
    pods.upsert(pod("web", &json!({}), &json!({"nodeName": "n1", "containers": containers})));

    assert_eq!((by_node.count("n1"), by_image.count("web:1"), by_image.count("proxy:3")), (1, 1, 1));
}

#[test]
fn strings_uids_and_keys_are_looked_up_in_indexes_of_one_another() {
    let objects = Indexer::<()>::new();
    let by_uid = objects.add_index("uid", |object| [object.uid().clone()]).unwrap();
    let by_key = objects.add_index("key", |object| [object.key().clone()]).unwrap();
    let by_text = objects.add_index("text", |object| [object.uid().to_string(), object.key().to_string()]).unwrap();
    let by_static = objects.add_index("static", |_| ["u1"]).unwrap();
    let mut batch = WriteBatch::new();
    batch.upsert(Cached::new(Identity::new("shop/web", "u1", 15), ()));
    objects.apply(batch);
    let object = objects.lister().get(&key("shop/web")).unwrap();

    let mut of_kube = Pod::default();
    of_kube.metadata.uid = Some("u1".to_owned());
    assert_eq!(by_uid.count(of_kube.metadata.uid.as_deref().unwrap_or_default()), 1);
    assert_eq!(by_uid.count(&of_kube.uid().unwrap_or_default()), 1);
    assert_eq!([by_uid.count(object.uid()), by_text.count(object.uid()), by_static.count(object.uid())], [1, 1, 1]);
    assert_eq!([by_key.count(object.key()), by_key.count("shop/web"), by_text.count(object.key())], [1, 1, 1]);
    assert_eq!([by_uid.count(&Cow::from("u1")), by_text.count(&Box::<str>::from("u1"))], [1, 1]);
    let found =
        objects.lister().by_indexes([by_uid.lookup("u1"), by_key.lookup(&Key::namespaced("shop", "web"))]).unwrap();
    assert_eq!(show_objects(found), ["shop/web@15"]);
}

#[test]
fn an_identity_is_made_from_text_or_from_its_parts() {
    let identity = Identity::new("shop/web", "u1", 15);

    assert_eq!(identity, Identity { key: key("shop/web"), uid: Uid::new("u1"), version: "15".into() });
    assert_eq!(identity, Identity::new(identity.key.clone(), identity.uid.clone(), identity.version.clone()));
    assert_eq!(identity, Identity::new("shop/web".to_owned(), "u1".to_owned(), "15".to_owned()));
    assert_eq!(Identity::new(Key::cluster_scoped("node-1"), "", ""), Identity::of_key(key("node-1")));
}

#[test]
#[should_panic(
    expected = "an identity needs a valid key: \"a/b/c\" is not a key: expected `namespace/name` or `name`, found 3 parts"
)]
fn an_identity_of_an_invalid_key_panics_with_the_reason() {
    Identity::new("a/b/c", "u1", 15);
}
