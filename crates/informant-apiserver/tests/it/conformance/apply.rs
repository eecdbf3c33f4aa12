//! Server-side apply, and the managed fields that all writes leave.

use std::time::Duration;

use super::{definitions::DEFINITIONS, *};

both_ways! {
    an_apply_creates_an_object_and_owns_what_it_sent
    fields_of_others_are_refused_unless_the_apply_is_forced
    a_conflict_names_every_manager_and_field
    what_is_no_longer_applied_goes_unless_somebody_else_owns_it
    a_dry_run_of_an_apply_changes_nothing
    an_apply_that_changes_nothing_keeps_the_version_and_sends_no_event
    an_update_that_changes_nothing_changes_no_owner
    other_writes_own_what_they_changed
    what_an_update_takes_belongs_to_nobody_else
    of_many_updaters_the_oldest_become_one
    the_status_belongs_to_whoever_writes_it_at_its_path
    the_status_of_a_custom_object_is_applied_at_its_path
    a_scale_is_applied_and_its_replicas_are_owned
    an_update_of_a_scale_owns_the_replicas
    items_of_a_list_are_merged_by_their_keys
    missing_keys_take_their_default
    duplicates_are_refused_in_what_is_applied_but_not_in_what_is_stored
    sets_are_merged_and_atomic_values_replaced
    what_existed_before_the_first_apply_has_an_owner
    an_apply_may_be_yaml
    numbers_of_yaml_may_be_octal
    an_object_that_could_be_created_can_be_patched_at_any_depth
    an_apply_that_makes_no_sense_is_refused
    fields_that_the_kind_does_not_have_are_refused
    managed_fields_in_an_apply_are_refused
    managed_fields_that_make_no_sense_are_ignored
    an_empty_list_of_managed_fields_removes_them
    a_field_manager_has_a_short_printable_name
    metadata_that_identifies_an_object_has_no_owner
    an_apply_at_an_old_version_is_a_conflict
}

const MERGE: &str = "application/merge-patch+json";

/// Applies an object under the name of a manager.
pub(super) async fn apply(api: &Api, path: &str, manager: &str, object: &Value) -> Answer {
    let separator = if path.contains('?') { '&' } else { '?' };
    api.patch(&format!("{path}{separator}fieldManager={manager}"), "application/apply-patch+yaml", object).await
}

fn config(name: &str, data: Value) -> Value {
    let mut config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    config["data"] = data;
    config
}

/// The managed fields of an object, without times: manager, operation, subresource, fields.
pub(super) fn owners(object: &Value) -> Vec<(String, Value)> {
    let entries = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    let owner = |entry: &Value| {
        let text = |field: &str| entry[field].as_str().unwrap_or_default().to_owned();
        assert_eq!(text("fieldsType"), "FieldsV1", "{entry}");
        let place = if text("subresource").is_empty() { String::new() } else { format!("/{}", text("subresource")) };
        (format!("{} {}{place}", text("manager"), text("operation")), entry["fieldsV1"].clone())
    };
    let mut owners = entries.iter().map(owner).collect::<Vec<_>>();
    owners.sort_by(|one, other| one.0.cmp(&other.0));
    owners
}

pub(super) fn owner(name: &str, fields: Value) -> (String, Value) {
    (name.to_owned(), fields)
}

fn deployment(spec: Value) -> Value {
    let mut deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
    deployment["spec"] = spec;
    deployment
}

/// The least that a deployment needs.
fn whole_spec() -> Value {
    let template =
        json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "a", "image": "one"}]}});
    json!({"selector": {"matchLabels": {"app": "web"}}, "template": template})
}

/// A custom kind with lists and maps of all types.
pub(super) async fn gadgets(api: &Api) -> (String, String) {
    let group = format!("gadgets.{}.example.com", api.namespace);
    let item = json!({"type": "object", "required": ["id"], "properties": {
        "id": {"type": "integer"},
        "side": {"type": "string", "default": "left"},
        "value": {"type": "string"},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
    }});
    let texts = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let mut atomic_texts = texts.clone();
    atomic_texts["x-kubernetes-map-type"] = json!("atomic");
    let spec = json!({"type": "object", "properties": {
        "items": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["id", "side"], "items": item},
        "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
        "numbers": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
        "list": {"type": "array", "items": {"type": "string"}},
        "map": texts,
        "atomic": atomic_texts,
        "nested": {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "object", "properties": {"c": {"type": "integer"}}}}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "size": {"x-kubernetes-int-or-string": true},
        "replicas": {"type": "integer"},
    }});
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": spec, "status": status}});
    let definition = json!({
        "metadata": {"name": format!("gadgets.{group}")},
        "spec": {
            "group": group,
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}],
        },
    });
    let created = api.post(DEFINITIONS, &definition).await;
    assert_eq!(created.code, 201, "{created:?}");
    let path = format!("/apis/{group}/v1/namespaces/{}/gadgets", api.namespace);
    // A real server serves the kind, and its types, a moment later.
    for _ in 0..200 {
        let fields = json!({"apiVersion": format!("{group}/v1"), "kind": "Gadget", "metadata": {"name": "probe"}, "spec": {"set": ["a"]}});
        let probe = apply(api, &format!("{path}/probe?dryRun=All"), "probe", &fields).await;
        if probe.code == 201 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    (format!("{group}/v1"), path)
}

fn gadget(api_version: &str, spec: Value) -> Value {
    let mut gadget = json!({"apiVersion": api_version, "kind": "Gadget", "metadata": {"name": "a"}});
    gadget["spec"] = spec;
    gadget
}

async fn an_apply_creates_an_object_and_owns_what_it_sent(api: Api) {
    let mut labelled = config("a", json!({"x": "1"}));
    labelled["metadata"]["labels"] = json!({"app": "web"});

    let created = apply(&api, &api.config_map("a"), "one", &labelled).await;

    assert_eq!(created.code, 201, "{created:?}");
    assert_eq!(created.body["data"], json!({"x": "1"}));
    let fields = json!({"f:data": {"f:x": {}}, "f:metadata": {"f:labels": {"f:app": {}}}});
    assert_eq!(owners(&created.body), [owner("one Apply", fields)]);
    let entry = &created.body["metadata"]["managedFields"][0];
    assert_eq!(
        (entry["apiVersion"].as_str(), &entry["time"]),
        (Some("v1"), &created.body["metadata"]["creationTimestamp"])
    );
    let again = apply(&api, &api.config_map("a"), "one", &config("a", json!({"y": "2"}))).await;
    assert_eq!((again.code, &again.body["data"]), (200, &json!({"y": "2"})), "{again:?}");
    assert_eq!(again.body["metadata"].get("labels"), None);
}

async fn fields_of_others_are_refused_unless_the_apply_is_forced(api: Api) {
    let path = api.config_map("a");
    apply(&api, &path, "one", &config("a", json!({"x": "1", "y": "1"}))).await;

    let refused = apply(&api, &path, "two", &config("a", json!({"x": "2"}))).await;

    assert_eq!(refused.failure(), (409, "Conflict"));
    assert_eq!(refused.text("/message"), "Apply failed with 1 conflict: conflict with \"one\": .data.x");
    let cause = json!({"reason": "FieldManagerConflict", "message": "conflict with \"one\"", "field": ".data.x"});
    assert_eq!(refused.body["details"], json!({"causes": [cause]}));
    let shared = apply(&api, &path, "two", &config("a", json!({"x": "1"}))).await;
    assert_eq!(shared.code, 200, "the same value is no conflict: {shared:?}");
    assert_eq!(owners(&shared.body).len(), 2);
    let forced = apply(&api, &format!("{path}?force=true"), "two", &config("a", json!({"x": "2"}))).await;
    assert_eq!((forced.code, &forced.body["data"]), (200, &json!({"x": "2", "y": "1"})));
    let fields =
        [owner("one Apply", json!({"f:data": {"f:y": {}}})), owner("two Apply", json!({"f:data": {"f:x": {}}}))];
    assert_eq!(owners(&forced.body), fields);
}

async fn a_conflict_names_every_manager_and_field(api: Api) {
    let path = api.config_map("a");
    apply(&api, &path, "one", &config("a", json!({"x": "1", "y": "1"}))).await;
    let changed = api.patch(&format!("{path}?fieldManager=two"), MERGE, &json!({"data": {"z": "1"}})).await;
    assert_eq!(changed.code, 200, "{changed:?}");

    let refused = apply(&api, &path, "three", &config("a", json!({"x": "2", "y": "2", "z": "2"}))).await;

    let message = refused.text("/message");
    assert!(
        message.starts_with("Apply failed with 3 conflicts: conflicts with \"one\":\n- .data.x\n- .data.y\n"),
        "{message}"
    );
    assert!(message.contains("conflicts with \"two\" using v1") && message.ends_with(":\n- .data.z"), "{message}");
    assert_eq!(refused.body["details"]["causes"].as_array().unwrap().len(), 3);
}

async fn what_is_no_longer_applied_goes_unless_somebody_else_owns_it(api: Api) {
    let path = api.config_map("a");
    apply(&api, &path, "one", &config("a", json!({"mine": "1", "ours": "1"}))).await;
    apply(&api, &path, "two", &config("a", json!({"ours": "1"}))).await;
    api.patch(&format!("{path}?fieldManager=three"), MERGE, &json!({"data": {"theirs": "1"}})).await;

    let applied = apply(&api, &path, "one", &config("a", json!({"new": "1"}))).await;

    assert_eq!(applied.body["data"], json!({"new": "1", "ours": "1", "theirs": "1"}));
    let nothing = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let gone = apply(&api, &path, "one", &nothing).await;
    assert_eq!(gone.body["data"], json!({"ours": "1", "theirs": "1"}));
    assert_eq!(owners(&gone.body).iter().map(|owner| &*owner.0).collect::<Vec<_>>(), ["three Update", "two Apply"]);
}

async fn a_dry_run_of_an_apply_changes_nothing(api: Api) {
    let path = api.config_map("a");

    let created = apply(&api, &format!("{path}?dryRun=All"), "one", &config("a", json!({"x": "1"}))).await;
    assert_eq!((created.code, created.text("/data/x")), (201, "1"));
    assert_eq!(api.get(&path).await.failure(), (404, "NotFound"));
    let before = apply(&api, &path, "one", &config("a", json!({"x": "1"}))).await;
    let changed = apply(&api, &format!("{path}?dryRun=All"), "one", &config("a", json!({"x": "2"}))).await;

    assert_eq!((changed.code, changed.text("/data/x")), (200, "2"));
    assert_eq!(api.get(&path).await.body, before.body);
}

async fn an_apply_that_changes_nothing_keeps_the_version_and_sends_no_event(api: Api) {
    let path = api.config_map("a");
    let first = apply(&api, &path, "one", &config("a", json!({"x": "1"}))).await;
    let list = api.get(&api.path("configmaps")).await;
    let version = list.text("/metadata/resourceVersion").to_owned();
    let mut watch = api.watch(&api.path("configmaps"), &format!("resourceVersion={version}")).await;
    // Longer than the precision of times.
    tokio::time::sleep(Duration::from_millis(1100)).await;

    let again = apply(&api, &path, "one", &config("a", json!({"x": "1"}))).await;
    let changed = apply(&api, &path, "one", &config("a", json!({"x": "2"}))).await;

    assert_eq!(again.body, first.body, "not even the time");
    let event = watch.try_next().await.unwrap().unwrap();
    assert_eq!(event["object"]["data"], json!({"x": "2"}), "{event}");
    let time = |answer: &Answer| answer.text("/metadata/managedFields/0/time").to_owned();
    assert_ne!(time(&changed), time(&first));
}

async fn an_update_that_changes_nothing_changes_no_owner(api: Api) {
    let path = api.config_map("a");
    let first = apply(&api, &path, "one", &config("a", json!({"x": "1"}))).await;

    let put = api.put(&format!("{path}?fieldManager=two"), &first.body).await;
    let patched = api.patch(&format!("{path}?fieldManager=two"), MERGE, &json!({"data": {"x": "1"}})).await;

    assert_eq!((&put.body, &patched.body), (&first.body, &first.body));
}

async fn other_writes_own_what_they_changed(api: Api) {
    let path = api.config_map("a");
    let agent = [("user-agent", "creator/v1.0 (linux)")];
    let created = api.send(Method::POST, &api.path("configmaps"), Some(&config("a", json!({"x": "1"}))), &agent).await;
    assert_eq!(owners(&created.body), [owner("creator Update", json!({"f:data": {".": {}, "f:x": {}}}))]);

    let mut object = created.body;
    object["data"] = json!({"x": "2", "y": "1"});
    object["metadata"]["annotations"] = json!({"a": "b"});
    let put = api.put(&format!("{path}?fieldManager=updater"), &object).await;

    let fields = json!({"f:data": {"f:x": {}, "f:y": {}}, "f:metadata": {"f:annotations": {".": {}, "f:a": {}}}});
    let expected = [owner("creator Update", json!({"f:data": {}})), owner("updater Update", fields)];
    assert_eq!(owners(&put.body), expected);
    let operations = json!([{"op": "add", "path": "/data/z", "value": "1"}, {"op": "remove", "path": "/data/y"}]);
    let patched = api.patch(&format!("{path}?fieldManager=patcher"), "application/json-patch+json", &operations).await;
    assert_eq!(owners(&patched.body)[1], owner("patcher Update", json!({"f:data": {"f:z": {}}})));
    let strategic = json!({"metadata": {"finalizers": ["example.com/a"]}});
    let patched =
        api.patch(&format!("{path}?fieldManager=patcher"), "application/strategic-merge-patch+json", &strategic).await;
    let finalizers = json!({".": {}, "v:\"example.com/a\"": {}});
    let fields = json!({"f:data": {"f:z": {}}, "f:metadata": {"f:finalizers": finalizers}});
    assert_eq!(owners(&patched.body)[1], owner("patcher Update", fields));
}

async fn what_an_update_takes_belongs_to_nobody_else(api: Api) {
    let path = api.config_map("a");
    apply(&api, &path, "one", &config("a", json!({"x": "1", "y": "1"}))).await;

    let patch = json!({"data": {"x": "2", "y": null}});
    let patched = api.patch(&format!("{path}?fieldManager=two"), MERGE, &patch).await;

    assert_eq!(owners(&patched.body), [owner("two Update", json!({"f:data": {"f:x": {}}}))]);
}

async fn of_many_updaters_the_oldest_become_one(api: Api) {
    let path = api.config_map("a");
    apply(&api, &path, "applier", &config("a", json!({"x": "1"}))).await;

    let mut names = Vec::new();
    for number in 10..22 {
        let patch = json!({"data": {format!("x{number}"): "1"}});
        let patched = api.patch(&format!("{path}?fieldManager=u{number}"), MERGE, &patch).await;
        names = owners(&patched.body).into_iter().map(|owner| owner.0).collect::<Vec<_>>();
    }

    assert_eq!(names.len(), 11, "{names:?}");
    assert!(
        names.contains(&"ancient-changes Update".to_owned()) && names.contains(&"applier Apply".to_owned()),
        "{names:?}"
    );
}

async fn the_status_belongs_to_whoever_writes_it_at_its_path(api: Api) {
    let path = format!("{}/web", api.path("apps/deployments"));
    let mut both = deployment(whole_spec());
    both["status"] = json!({"replicas": 3});

    let created = apply(&api, &path, "one", &both).await;
    assert_eq!(created.code, 201, "{created:?}");
    assert!(owners(&created.body)[0].1.get("f:status").is_none());
    let condition = json!({"type": "Available", "status": "True", "lastTransitionTime": null, "lastUpdateTime": null});
    let mut status = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}});
    status["status"] = json!({"observedGeneration": 1, "conditions": [condition]});
    status["spec"] = json!({"replicas": 7});
    let applied = apply(&api, &format!("{path}/status"), "two", &status).await;

    assert_eq!(applied.code, 200, "{applied:?}");
    let of_two = owners(&applied.body).into_iter().find(|owner| owner.0 == "two Apply/status").unwrap().1;
    let condition = &of_two["f:status"]["f:conditions"]["k:{\"type\":\"Available\"}"];
    assert_eq!(condition["f:status"], json!({}), "{of_two}");
    assert!(of_two.get("f:spec").is_none() && applied.body["spec"]["replicas"] != 7);
    let missing = format!("{}/missing/status", api.path("apps/deployments"));
    let mut other = status.clone();
    other["metadata"]["name"] = json!("missing");
    assert_eq!(apply(&api, &missing, "two", &other).await.failure(), (404, "NotFound"));
}

async fn the_status_of_a_custom_object_is_applied_at_its_path(api: Api) {
    let (version, path) = gadgets(&api).await;
    let mut both = gadget(&version, json!({"replicas": 1}));
    both["status"] = json!({"phase": "lost"});

    let created = apply(&api, &format!("{path}/a"), "one", &both).await;
    assert_eq!((created.code, created.body.get("status")), (201, None), "{created:?}");
    both["spec"] = json!({"replicas": 2});
    both["metadata"]["labels"] = json!({"a": "b"});
    both["status"] = json!({"phase": "Ready"});
    let applied = apply(&api, &format!("{path}/a/status"), "two", &both).await;

    assert_eq!(
        (applied.text("/status/phase"), &applied.body["spec"]),
        ("Ready", &json!({"replicas": 1})),
        "{applied:?}"
    );
    assert_eq!(applied.body["metadata"].get("labels"), None);
    let expected = [
        owner("one Apply", json!({"f:spec": {"f:replicas": {}}})),
        owner("two Apply/status", json!({"f:status": {"f:phase": {}}})),
    ];
    assert_eq!(owners(&applied.body), expected);
}

async fn a_scale_is_applied_and_its_replicas_are_owned(api: Api) {
    let path = format!("{}/web", api.path("apps/deployments"));
    let mut spec = whole_spec();
    spec["replicas"] = json!(1);
    apply(&api, &path, "one", &deployment(spec)).await;
    let scale =
        json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"}, "spec": {"replicas": 3}});

    let refused = apply(&api, &format!("{path}/scale"), "two", &scale).await;
    assert_eq!(refused.text("/message"), "Apply failed with 1 conflict: conflict with \"one\": .spec.replicas");
    let forced = apply(&api, &format!("{path}/scale?force=true"), "two", &scale).await;

    assert_eq!((forced.code, forced.text("/kind"), &forced.body["spec"]["replicas"]), (200, "Scale", &json!(3)));
    let object = api.get(&path).await;
    assert_eq!(object.body["spec"]["replicas"], 3);
    let of_two = owners(&object.body).into_iter().find(|owner| owner.0.starts_with("two")).unwrap();
    assert_eq!(of_two, owner("two Apply/scale", json!({"f:spec": {"f:replicas": {}}})));
    let of_one = owners(&object.body).into_iter().find(|owner| owner.0 == "one Apply").unwrap().1;
    assert!(of_one["f:spec"].get("f:replicas").is_none(), "{of_one}");
}

async fn an_update_of_a_scale_owns_the_replicas(api: Api) {
    let path = format!("{}/web", api.path("apps/deployments"));
    let mut spec = whole_spec();
    spec["replicas"] = json!(1);
    apply(&api, &path, "one", &deployment(spec)).await;

    let patched = api.patch(&format!("{path}/scale?fieldManager=two"), MERGE, &json!({"spec": {"replicas": 5}})).await;

    assert_eq!(patched.code, 200, "{patched:?}");
    let object = api.get(&path).await;
    let of_two = owners(&object.body).into_iter().find(|owner| owner.0.starts_with("two")).unwrap();
    assert_eq!(of_two, owner("two Update/scale", json!({"f:spec": {"f:replicas": {}}})));
    let of_one = owners(&object.body).into_iter().find(|owner| owner.0 == "one Apply").unwrap().1;
    assert!(of_one["f:spec"].get("f:replicas").is_none(), "{of_one}");
}

async fn items_of_a_list_are_merged_by_their_keys(api: Api) {
    let path = format!("{}/web", api.path("apps/deployments"));
    apply(&api, &path, "one", &deployment(whole_spec())).await;
    let env = json!([{"name": "a", "env": [{"name": "X", "value": "1"}]}, {"name": "b", "image": "two"}]);
    let part = deployment(json!({"template": {"spec": {"containers": env}}}));

    let applied = apply(&api, &path, "two", &part).await;

    assert_eq!(applied.code, 200, "{applied:?}");
    let containers = &applied.body["spec"]["template"]["spec"]["containers"];
    assert_eq!((&containers[0]["image"], &containers[0]["env"][0]["value"]), (&json!("one"), &json!("1")));
    assert_eq!(containers[1]["name"], "b");
    let of_two = owners(&applied.body).into_iter().find(|owner| owner.0 == "two Apply").unwrap().1;
    let container = &of_two["f:spec"]["f:template"]["f:spec"]["f:containers"]["k:{\"name\":\"a\"}"];
    let env = json!({"k:{\"name\":\"X\"}": {".": {}, "f:name": {}, "f:value": {}}});
    assert_eq!(container, &json!({".": {}, "f:env": env, "f:name": {}}));
    let fewer = deployment(json!({"template": {"spec": {"containers": [{"name": "b", "image": "two"}]}}}));
    let applied = apply(&api, &path, "two", &fewer).await;
    let containers = &applied.body["spec"]["template"]["spec"]["containers"];
    assert_eq!((containers[0]["name"].as_str(), containers[0].get("env")), (Some("a"), None), "{applied:?}");
}

async fn missing_keys_take_their_default(api: Api) {
    let path = format!("{}/web", api.path("services"));
    let service = |ports: Value| json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": ports}});

    let created = apply(&api, &path, "one", &service(json!([{"port": 80, "name": "http"}]))).await;

    assert_eq!(created.code, 201, "{created:?}");
    let port = json!({".": {}, "f:name": {}, "f:port": {}});
    let fields = json!({"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": port}}});
    assert_eq!(owners(&created.body), [owner("one Apply", fields)]);
    let both = service(
        json!([{"port": 80, "protocol": "UDP", "name": "dns"}, {"port": 80, "protocol": "TCP", "name": "http"}]),
    );
    let applied = apply(&api, &path, "one", &both).await;
    assert_eq!(applied.body["spec"]["ports"].as_array().map(Vec::len), Some(2), "{applied:?}");

    let (version, path) = gadgets(&api).await;
    let keyless = apply(&api, &format!("{path}/a"), "one", &gadget(&version, json!({"items": ["x"]}))).await;
    assert_eq!(keyless.code, 500, "{keyless:?}");
    assert!(
        keyless
            .text("/message")
            .contains(".spec.items: element 0: associative list with keys may not have non-map elements"),
        "{keyless:?}"
    );
}

async fn duplicates_are_refused_in_what_is_applied_but_not_in_what_is_stored(api: Api) {
    let path = format!("{}/web", api.path("apps/deployments"));
    let env = json!([{"name": "X", "value": "1"}, {"name": "X", "value": "2"}]);
    let mut spec = whole_spec();
    spec["template"]["spec"]["containers"][0]["env"] = env;
    let created =
        api.post(&format!("{}?fieldManager=one", api.path("apps/deployments")), &deployment(spec.clone())).await;
    assert_eq!(created.code, 201, "{created:?}");
    let of_env = "/f:spec/f:template/f:spec/f:containers/k:{\"name\":\"a\"}/f:env/k:{\"name\":\"X\"}";
    assert_eq!(owners(&created.body)[0].1.pointer(of_env), Some(&json!({})));

    let refused = apply(&api, &path, "two", &deployment(spec)).await;
    let other = apply(&api, &path, "two", &deployment(json!({"paused": true}))).await;

    assert_eq!(refused.code, 500);
    let why = ".spec.template.spec.containers[name=\"a\"].env: duplicate entries for key [name=\"X\"]";
    assert!(refused.text("/message").ends_with(why), "{refused:?}");
    assert_eq!(other.code, 200, "{other:?}");
    let env = &other.body["spec"]["template"]["spec"]["containers"][0]["env"];
    assert_eq!(env.as_array().map(Vec::len), Some(2), "{other:?}");
}

async fn sets_are_merged_and_atomic_values_replaced(api: Api) {
    let (version, path) = gadgets(&api).await;
    let path = format!("{path}/a");
    let one = json!({"set": ["a", "b"], "list": ["x"], "map": {"k": "1"}, "free": {"deep": {"f": 1}, "list": [1]}, "items": [{"id": 1, "value": "x"}]});
    let created = apply(&api, &path, "one", &gadget(&version, one)).await;
    assert_eq!(created.code, 201, "{created:?}");
    let items = json!({"k:{\"id\":1,\"side\":\"left\"}": {".": {}, "f:id": {}, "f:value": {}}});
    let fields = json!({
        "f:free": {"f:deep": {".": {}, "f:f": {}}, "f:list": {}},
        "f:items": items,
        "f:list": {},
        "f:map": {"f:k": {}},
        "f:set": {"v:\"a\"": {}, "v:\"b\"": {}},
    });
    assert_eq!(owners(&created.body), [owner("one Apply", json!({"f:spec": fields}))]);

    let two = json!({"set": ["c", "a"], "map": {"l": "2"}, "numbers": [2, 1], "atomic": {"a": "1"}});
    let applied = apply(&api, &path, "two", &gadget(&version, two)).await;
    assert_eq!(applied.code, 200, "{applied:?}");
    let spec = &applied.body["spec"];
    assert_eq!((&spec["set"], &spec["map"]), (&json!(["c", "a", "b"]), &json!({"k": "1", "l": "2"})));
    let list = apply(&api, &path, "two", &gadget(&version, json!({"list": ["x", "y"]}))).await;
    assert_eq!(list.text("/message"), "Apply failed with 1 conflict: conflict with \"one\": .spec.list");
    let gone = apply(&api, &path, "one", &gadget(&version, json!({"set": ["b"]}))).await;
    let expected = json!({"atomic": {"a": "1"}, "map": {"l": "2"}, "numbers": [2, 1], "set": ["c", "a", "b"]});
    assert_eq!(gone.body["spec"], expected);
}

async fn what_existed_before_the_first_apply_has_an_owner(api: Api) {
    let path = api.config_map("a");
    let created = api.post(&api.path("configmaps"), &config("a", json!({"x": "1"}))).await;
    let mut object = created.body;
    object["metadata"]["managedFields"] = json!([{}]);
    let cleared = api.put(&path, &object).await;
    assert_eq!((cleared.code, cleared.body["metadata"].get("managedFields")), (200, None), "{cleared:?}");
    let patched = api.patch(&path, MERGE, &json!({"data": {"y": "1"}})).await;
    assert_eq!(patched.body["metadata"].get("managedFields"), None, "fields without an owner are not tracked");

    let refused = apply(&api, &path, "one", &config("a", json!({"x": "2"}))).await;
    let applied = apply(&api, &path, "one", &config("a", json!({"z": "2"}))).await;

    assert!(refused.text("/message").contains("conflict with \"before-first-apply\" using v1"), "{refused:?}");
    let fields = json!({"f:data": {".": {}, "f:x": {}, "f:y": {}}});
    assert_eq!(
        owners(&applied.body),
        [owner("before-first-apply Update", fields), owner("one Apply", json!({"f:data": {"f:z": {}}}))]
    );
}

async fn an_apply_may_be_yaml(api: Api) {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: {app: web}\ndata:\n  x: |\n    one\n    two\n";
    let headers = [("content-type", "application/apply-patch+yaml")];
    let path = format!("{}?fieldManager=one", api.config_map("a"));

    let created = api.send_text(Method::PATCH, &path, text.to_owned(), &headers).await;
    assert_eq!((created.code, created.text("/data/x")), (201, "one\ntwo\n"), "{created:?}");
    let broken = api.send_text(Method::PATCH, &path, "a: b: c".to_owned(), &headers).await;
    assert_eq!(broken.failure(), (400, "BadRequest"));
    assert!(broken.text("/message").starts_with("error encoding patch: "), "{broken:?}");
    let list = api.send_text(Method::PATCH, &path, "- a".to_owned(), &headers).await;
    assert!(list.text("/message").starts_with("error decoding patch: "), "{list:?}");
    let empty = api.send_text(Method::PATCH, &path, String::new(), &headers).await;
    assert_eq!(empty.text("/message"), "invalid object type: /, Kind=");
}

async fn an_apply_that_makes_no_sense_is_refused(api: Api) {
    let path = api.config_map("a");
    let refused = |answer: Answer, code: u16, reason: &str, message: &str| {
        assert_eq!(answer.failure(), (code, reason));
        assert!(answer.text("/message").ends_with(message), "{answer:?}");
    };
    let apply = async |object: Value| apply(&api, &path, "one", &object).await;

    let other = apply(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}})).await;
    refused(other, 400, "BadRequest", "invalid object type: /v1, Kind=Secret");
    let renamed = apply(config("b", json!({}))).await;
    refused(renamed, 400, "BadRequest", "the name of the object (b) does not match the name on the URL (a)");
    let nameless = apply(json!({"apiVersion": "v1", "kind": "ConfigMap"})).await;
    refused(nameless, 400, "BadRequest", "(a based on URL) was undeterminable: name must be provided");
    let mut elsewhere = config("a", json!({}));
    elsewhere["metadata"]["namespace"] = json!("elsewhere");
    let elsewhere = apply(elsewhere).await;
    refused(
        elsewhere,
        400,
        "BadRequest",
        "the namespace of the provided object does not match the namespace sent on the request",
    );
    let mut known = config("a", json!({}));
    known["metadata"]["uid"] = json!("x");
    let known = apply(known).await;
    refused(
        known,
        409,
        "Conflict",
        "uid mismatch: the provided object specified uid x, and no existing object was found",
    );
    let cbor = api.patch(&format!("{path}?fieldManager=one"), "application/apply-patch+cbor", &json!({})).await;
    assert_eq!(cbor.failure(), (415, "UnsupportedMediaType"));
}

async fn fields_that_the_kind_does_not_have_are_refused(api: Api) {
    let path = format!("{}/web", api.path("apps/deployments"));
    let message = async |spec: Value| {
        let refused = apply(&api, &path, "one", &deployment(spec)).await;
        assert_eq!((refused.code, refused.body.get("reason")), (500, None), "{refused:?}");
        refused.text("/message").to_owned()
    };
    let of = "failed to create typed patch object (/web; apps/v1, Kind=Deployment): ";

    assert_eq!(message(json!({"unknown": 1})).await, format!("{of}.spec.unknown: field not declared in schema"));
    let text = json!({"replicas": "3"});
    assert_eq!(message(text).await, format!("{of}.spec.replicas: expected numeric (int or float), got string"));
    let number = json!({"template": {"spec": {"hostname": 7}}});
    let why = ".spec.template.spec.hostname: expected string, got &value.valueUnstructured{Value:7}";
    assert_eq!(message(number).await, format!("{of}{why}"));
    assert_eq!(message(json!({"paused": "yes"})).await, format!("{of}.spec.paused: expected boolean, got &{{yes}}"));
    assert_eq!(message(json!({"template": []})).await, format!("{of}.spec.template: expected map, got &{{[]}}"));
}

async fn managed_fields_in_an_apply_are_refused(api: Api) {
    let mut object = config("a", json!({"x": "1"}));
    object["metadata"]["managedFields"] = json!([]);

    let refused = apply(&api, &api.config_map("a"), "one", &object).await;

    assert_eq!(refused.failure(), (400, "BadRequest"));
    assert_eq!(refused.text("/message"), "metadata.managedFields must be nil");
}

async fn managed_fields_that_make_no_sense_are_ignored(api: Api) {
    let path = api.config_map("a");
    let created = apply(&api, &path, "one", &config("a", json!({"x": "1"}))).await;
    let good = json!({"manager": "forged", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {"f:x": {}}}});
    for (field, value) in [
        ("operation", json!("Steal")),
        ("fieldsType", json!("FieldsV9")),
        ("apiVersion", json!("")),
        ("fieldsV1", json!({"nonsense": {}})),
    ] {
        let mut entry = good.clone();
        entry[field] = value;
        let mut object = created.body.clone();
        object["metadata"]["managedFields"] = json!([entry]);
        let put = api.put(&path, &object).await;
        assert_eq!((put.code, owners(&put.body)), (200, owners(&created.body)), "{field}");
    }
    let mut object = created.body.clone();
    object["metadata"]["managedFields"] = json!([good]);
    let put = api.put(&path, &object).await;
    assert_eq!(owners(&put.body), [owner("forged Update", json!({"f:data": {"f:x": {}}}))], "a client may change them");
}

async fn an_empty_list_of_managed_fields_removes_them(api: Api) {
    let path = api.config_map("a");
    let mut object = apply(&api, &path, "one", &config("a", json!({"x": "1"}))).await.body;
    object["metadata"]["managedFields"] = json!([]);
    object["data"]["y"] = json!("1");

    let put = api.put(&path, &object).await;

    assert_eq!((put.code, put.body["metadata"].get("managedFields")), (200, None), "{put:?}");
}

async fn a_field_manager_has_a_short_printable_name(api: Api) {
    let path = api.path("configmaps");
    let long = api.post(&format!("{path}?fieldManager={}", "x".repeat(129)), &config("a", json!({}))).await;
    assert_eq!(long.failure(), (422, "Invalid"));
    assert!(long.text("/message").ends_with("fieldManager: Too long: may not be more than 128 bytes"), "{long:?}");
    let control = api.post(&format!("{path}?fieldManager=%07"), &config("a", json!({}))).await;
    assert!(control.text("/message").ends_with("invalid character U+0007 (at position 0)"), "{control:?}");

    let path = api.config_map("a");
    let nameless = api.patch(&path, "application/apply-patch+yaml", &config("a", json!({}))).await;
    assert_eq!(nameless.failure(), (422, "Invalid"));
    assert!(
        nameless.text("/message").ends_with("fieldManager: Required value: is required for apply patch"),
        "{nameless:?}"
    );
    let forced = api.patch(&format!("{path}?force=true"), MERGE, &json!({})).await;
    assert!(
        forced.text("/message").ends_with("force: Forbidden: may not be specified for non-apply patch"),
        "{forced:?}"
    );
}

async fn metadata_that_identifies_an_object_has_no_owner(api: Api) {
    let path = api.config_map("a");
    let created = apply(&api, &path, "one", &config("a", json!({"x": "1"}))).await;
    let names = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
    let mut whole = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {"x": "1"}});
    for name in names {
        whole["metadata"][name] = created.body["metadata"][name].clone();
    }

    let applied = apply(&api, &path, "two", &whole).await;

    assert_eq!(applied.code, 200, "{applied:?}");
    let fields = json!({"f:data": {"f:x": {}}});
    assert_eq!(owners(&applied.body), [owner("one Apply", fields.clone()), owner("two Apply", fields)]);
}

async fn an_apply_at_an_old_version_is_a_conflict(api: Api) {
    let path = api.config_map("a");
    let mut object = config("a", json!({"x": "1"}));
    // There is no object yet to have another version.
    object["metadata"]["resourceVersion"] = json!("5");
    let created = apply(&api, &path, "one", &object).await;
    assert_eq!(created.code, 201, "{created:?}");

    object["data"]["x"] = json!("2");
    let stale = apply(&api, &path, "one", &object).await;

    assert_eq!(stale.failure(), (409, "Conflict"));
}

async fn numbers_of_yaml_may_be_octal(api: Api) {
    let volume = "{name: v, configMap: {name: c, defaultMode: 0400}}";
    let pod = format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: a}}\nspec:\n  containers: [{{name: c, image: i}}]\n  volumes: [{volume}]\n"
    );
    let path = format!("{}/a?fieldManager=one", api.path("pods"));

    let applied = api.send_text(Method::PATCH, &path, pod, &[("content-type", "application/apply-patch+yaml")]).await;

    assert_eq!(applied.code, 201, "{applied:?}");
    assert_eq!(applied.body["spec"]["volumes"][0]["configMap"]["defaultMode"], 0o400);
}

async fn an_object_that_could_be_created_can_be_patched_at_any_depth(api: Api) {
    let deep = (0..110).fold(json!(1), |inner, _| json!({ "a": inner }));
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    let group = format!("deep.{}.example.com", api.namespace);
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}});
    let spec = json!({"group": group, "scope": "Namespaced", "names": {"kind": "Deep", "plural": "deeps"}, "versions": [version]});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("deeps.{group}")},
        "spec": spec,
    });
    assert_eq!(api.post(DEFINITIONS, &definition).await.code, 201);
    let path = format!("/apis/{group}/v1/namespaces/{}/deeps", api.namespace);
    let object = json!({"apiVersion": format!("{group}/v1"), "kind": "Deep", "metadata": {"name": "a"}, "spec": deep});
    // A real server serves the kind a moment later.
    let mut created = api.post(&path, &object).await;
    for _ in 0..50 {
        if created.code != 404 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        created = api.post(&path, &object).await;
    }
    assert_eq!(created.code, 201, "{created:?}");

    let patched = api.patch(&format!("{path}/a"), MERGE, &json!({"metadata": {"labels": {"b": "c"}}})).await;

    assert_eq!(patched.code, 200, "{patched:?}");
    api.delete(&format!("{DEFINITIONS}/deeps.{group}")).await;
}
