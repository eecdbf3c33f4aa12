//! What is stored of an object of a built-in kind: the fields of the kind, with values of their types.

use super::*;

both_ways! {
    unknown_fields_are_dropped_with_a_warning
    unknown_fields_are_refused_on_request
    a_patch_that_adds_unknown_fields_is_refused_on_request
    a_value_of_the_wrong_type_is_refused_in_the_words_of_the_decoder
    what_is_empty_is_not_stored
}

const MERGE: &str = "application/merge-patch+json";

fn pod(container: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]}})
}

fn warnings(answer: &Answer) -> Vec<&str> {
    answer.headers.get_all("warning").iter().map(|text| text.to_str().unwrap()).collect()
}

async fn unknown_fields_are_dropped_with_a_warning(api: Api) {
    let object = json!({"metadata": {"name": "a", "colour": "red"}, "size": {"a": 1}, "data": {"x": "1"}});

    let created = api.post(&api.path("configmaps"), &object).await;

    assert_eq!((created.code, created.body.get("size")), (201, None), "{created:?}");
    assert_eq!(created.body["metadata"].get("colour"), None);
    let expected = [r#"299 - "unknown field \"metadata.colour\"""#, r#"299 - "unknown field \"size\"""#];
    assert_eq!(warnings(&created), expected);
    let mut changed = created.body;
    changed["size"] = json!(2);
    let put = api.put(&api.config_map("a"), &changed).await;
    assert_eq!((put.body.get("size"), warnings(&put)), (None, vec![expected[1]]));
    let silent = api.put(&format!("{}?fieldValidation=Ignore", api.config_map("a")), &changed).await;
    assert_eq!((silent.code, warnings(&silent).len()), (200, 0), "{silent:?}");
}

async fn unknown_fields_are_refused_on_request(api: Api) {
    let object = pod(&json!({"name": "a", "image": "one", "colour": "red"}));

    let refused = api.post(&format!("{}?fieldValidation=Strict", api.path("pods")), &object).await;

    assert_eq!(refused.failure(), (400, "BadRequest"));
    let why = "Pod in version \"v1\" cannot be handled as a Pod: strict decoding error: unknown field \"spec.containers[0].colour\"";
    assert_eq!(refused.text("/message"), why);
}

async fn a_patch_that_adds_unknown_fields_is_refused_on_request(api: Api) {
    api.add("a").await;
    let path = format!("{}?fieldValidation=Strict", api.config_map("a"));

    let refused = api.patch(&path, MERGE, &json!({"colour": "red"})).await;
    assert_eq!(refused.failure(), (422, "Invalid"));
    assert!(refused.text("/message").ends_with("strict decoding error: unknown field \"colour\""), "{refused:?}");
    assert_eq!(refused.text("/details/causes/0/field"), "patch");
    let dropped = api.patch(&api.config_map("a"), MERGE, &json!({"colour": "red"})).await;
    assert_eq!((dropped.code, dropped.body.get("colour")), (200, None));
}

async fn a_value_of_the_wrong_type_is_refused_in_the_words_of_the_decoder(api: Api) {
    let path = api.path("pods");
    let field = |found: &str, field: &str, of: &str| {
        format!("json: cannot unmarshal {found} into Go struct field {field} of type {of}")
    };
    let port = json!({"ports": [{"containerPort": "80"}]});
    let cpu = json!({"resources": {"limits": {"cpu": "many"}}});
    for (container, why) in [
        (json!("a"), field("string", "PodSpec.spec.containers", "v1.Container")),
        (json!({"image": 7}), field("number", "Container.spec.containers.image", "string")),
        (json!({"args": [1]}), field("number", "Container.spec.containers.args", "string")),
        (port, field("string", "ContainerPort.spec.containers.ports.containerPort", "int32")),
        (json!({"stdin": "yes"}), field("string", "Container.spec.containers.stdin", "bool")),
        (json!({"env": {}}), field("object", "Container.spec.containers.env", "[]v1.EnvVar")),
        (cpu, "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'".to_owned()),
    ] {
        let refused = api.post(&path, &pod(&container)).await;

        assert_eq!(refused.failure(), (400, "BadRequest"), "{container}");
        let expected = format!("Pod in version \"v1\" cannot be handled as a Pod: {why}");
        assert_eq!(refused.text("/message"), expected);
    }
}

async fn what_is_empty_is_not_stored(api: Api) {
    let labels = json!({"metadata": {"name": "a", "labels": {}, "annotations": null}, "data": {}});
    let created = api.post(&api.path("configmaps"), &labels).await;
    assert_eq!((created.code, created.body.get("data"), created.body["metadata"].get("labels")), (201, None, None));

    let container = json!({"name": "a", "image": "one", "args": [], "env": null, "command": ["x"]});
    let created = api.post(&api.path("pods"), &pod(&container)).await;
    let container = &created.body["spec"]["containers"][0];
    assert_eq!((container.get("args"), container.get("env")), (None, None), "{created:?}");
    let patched = api.patch(&api.config_map("a"), MERGE, &json!({"data": {"x": null}})).await;
    assert_eq!((patched.code, patched.body.get("data")), (200, None), "{patched:?}");
}
