//! Kinds with several versions, scales at any path, and the end of a definition.

use super::*;

both_ways! {
    every_served_version_shows_the_objects
    a_version_that_is_not_served_is_not_found
    versions_are_found_by_discovery
    each_version_is_watched_as_itself
    each_version_checks_by_its_own_schema
    a_field_that_only_the_stored_version_has_survives_reads_but_not_updates_of_another
    a_field_that_the_stored_version_lacks_is_lost
    the_stored_version_fills_in_its_defaults
    an_update_in_another_version_raises_the_generation_only_for_changes
    a_change_in_one_version_conflicts_with_an_older_state_from_another
    each_version_has_its_own_subresources_and_columns
    a_delete_in_one_version_is_a_delete_in_all
    objects_are_kept_when_another_version_is_stored
    a_version_that_objects_may_be_stored_in_cannot_be_removed
    an_object_of_another_version_than_its_path_is_refused
    a_scale_reads_and_writes_any_path
    a_scale_of_an_object_without_replicas_fails
    replicas_that_make_no_sense_are_refused
    a_definition_that_is_deleted_is_seen_to_go_step_by_step
}

const MERGE: &str = "application/merge-patch+json";

fn text() -> Value {
    json!({"type": "string"})
}

/// Widgets with the stored version `v1`, whose spec has `both`, `old` and `size`, and the version `v2`, whose spec has `both`, `new` and
/// `size`.
async fn with_versions(api: &Api) -> Widgets {
    let widgets = unborn_versions(api);
    widgets.define(api).await;
    let second = second(&widgets);
    until(async || api.get(&second).await.code == 200).await;
    widgets
}

fn unborn_versions(api: &Api) -> Widgets {
    let mut widgets = Widgets::new(api);
    let schema = |own: &str, size: Value| {
        let spec = json!({"type": "object", "properties": {"both": text(), own: text(), "size": size}});
        json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": {"type": "object", "properties": {"phase": text()}}}}})
    };
    let column = json!({"name": "Old", "type": "string", "jsonPath": ".spec.old"});
    widgets.definition["spec"]["versions"] = json!([
        {
            "name": "v1", "served": true, "storage": true,
            "schema": schema("old", json!({"type": "integer", "default": 1})),
            "additionalPrinterColumns": [column],
        },
        {
            "name": "v2", "served": true, "storage": false,
            "schema": schema("new", json!({"type": "integer", "maximum": 5})),
            "subresources": {"status": {}},
        },
    ]);
    widgets
}

/// The path of the widgets in version `v2`.
fn second(widgets: &Widgets) -> String {
    widgets.path.replace("/v1/", "/v2/")
}

fn in_second(widgets: &Widgets, name: &str, spec: Value) -> Value {
    let mut widget = widgets.with_spec(name, spec);
    widget["apiVersion"] = json!(widget["apiVersion"].as_str().unwrap().replace("/v1", "/v2"));
    widget
}

async fn every_served_version_shows_the_objects(api: Api) {
    let widgets = with_versions(&api).await;
    let created = api.post(&widgets.path, &widgets.with_spec("a", json!({"both": "x"}))).await;
    assert_eq!(created.code, 201, "{created:?}");

    let other = api.get(&format!("{}/a", second(&widgets))).await;

    assert_eq!(other.code, 200, "{other:?}");
    assert!(other.text("/apiVersion").ends_with("/v2"), "{other:?}");
    for field in ["uid", "resourceVersion", "creationTimestamp", "name", "generation"] {
        assert_eq!(other.body["metadata"][field], created.body["metadata"][field], "{field}");
    }
    assert_eq!(other.body["spec"], json!({"both": "x", "size": 1}));
    let list = api.get(&second(&widgets)).await;
    assert_eq!((list.names(), &list.body["items"][0]["apiVersion"]), (vec!["a"], &other.body["apiVersion"]));
    assert!(list.text("/apiVersion").ends_with("/v2"));
    let from_second = api.post(&second(&widgets), &in_second(&widgets, "b", json!({"both": "y"}))).await;
    assert_eq!((from_second.code, from_second.text("/kind")), (201, "Widget"), "{from_second:?}");
    assert_eq!(api.get(&widgets.path).await.names(), ["a", "b"]);
    widgets.forget(&api).await;
}

async fn a_version_that_is_not_served_is_not_found(api: Api) {
    let mut widgets = unborn_versions(&api);
    widgets.definition["spec"]["versions"][0]["served"] = json!(false);
    assert_eq!(api.post(DEFINITIONS, &widgets.definition).await.code, 201);
    let second = second(&widgets);
    until(async || api.get(&second).await.code == 200).await;

    assert_eq!(api.get(&widgets.path).await.code, 404);
    let created = api.post(&second, &in_second(&widgets, "a", json!({"both": "x", "new": "y"}))).await;
    assert_eq!((created.code, &created.body["spec"]), (201, &json!({"both": "x", "size": 1})), "{created:?}");
    assert_eq!(api.get(&second).await.names(), ["a"]);
    widgets.forget(&api).await;
}

async fn versions_are_found_by_discovery(api: Api) {
    let widgets = with_versions(&api).await;
    let group = format!("/apis/{}", widgets.definition["spec"]["group"].as_str().unwrap());
    until(async || api.get(&format!("{group}/v2")).await.code == 200 && api.get(&group).await.code == 200).await;

    let found = api.get(&group).await;

    let versions: Vec<_> =
        found.body["versions"].as_array().unwrap().iter().map(|version| &version["version"]).collect();
    assert_eq!(versions, ["v2", "v1"]);
    assert_eq!(found.text("/preferredVersion/version"), "v2");
    let names = async |version: &str| {
        let resources = api.get(&format!("{group}/{version}")).await;
        let resources = resources.body["resources"].as_array().unwrap().iter();
        resources.map(|resource| resource["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("v1").await, ["widgets"]);
    assert_eq!(names("v2").await, ["widgets", "widgets/status"]);
    widgets.forget(&api).await;
}

async fn each_version_is_watched_as_itself(api: Api) {
    let widgets = with_versions(&api).await;
    let created = api.post(&widgets.path, &widgets.with_spec("a", json!({"old": "x"}))).await;
    let since = format!("resourceVersion={}", created.version());
    let mut first = api.watch(&widgets.path, &since).await;
    let mut other = api.watch(&second(&widgets), &since).await;

    let changed = api.patch(&format!("{}/a", second(&widgets)), MERGE, &json!({"spec": {"both": "y"}})).await;
    assert_eq!(changed.code, 200, "{changed:?}");
    api.delete(&format!("{}/a", widgets.path)).await;

    for (watch, version) in [(&mut first, "/v1"), (&mut other, "/v2")] {
        let modified = watch.next().await.unwrap();
        assert_eq!((&modified["type"], &modified["object"]["spec"]["both"]), (&json!("MODIFIED"), &json!("y")));
        assert!(modified["object"]["apiVersion"].as_str().unwrap().ends_with(version), "{modified}");
        assert_eq!(modified["object"]["metadata"]["resourceVersion"], changed.body["metadata"]["resourceVersion"]);
        let deleted = watch.next().await.unwrap();
        assert_eq!(deleted["type"], "DELETED");
        assert!(deleted["object"]["apiVersion"].as_str().unwrap().ends_with(version), "{deleted}");
    }
    widgets.forget(&api).await;
}

async fn each_version_checks_by_its_own_schema(api: Api) {
    let widgets = with_versions(&api).await;

    assert_eq!(widgets.create(&api, "a", json!({"size": 9})).await.code, 201);
    let refused = api.post(&second(&widgets), &in_second(&widgets, "b", json!({"size": 9}))).await;
    assert_eq!(
        causes(&refused),
        ["Invalid spec.size: Invalid value: 9: spec.size in body should be less than or equal to 5"]
    );
    let unknown = api
        .post(&format!("{}?fieldValidation=Strict", second(&widgets)), &in_second(&widgets, "b", json!({"old": "x"})))
        .await;
    assert_eq!(unknown.failure(), (400, "BadRequest"));
    let kept = api.patch(&format!("{}/a", second(&widgets)), MERGE, &json!({"spec": {"both": "x"}})).await;
    assert_eq!((kept.code, &kept.body["spec"]["size"]), (200, &json!(9)), "it was invalid before: {kept:?}");
    widgets.forget(&api).await;
}

async fn a_field_that_only_the_stored_version_has_survives_reads_but_not_updates_of_another(api: Api) {
    let widgets = with_versions(&api).await;
    widgets.stored(&api, "a", json!({"old": "x"})).await;
    let other = format!("{}/a", second(&widgets));

    assert_eq!(api.get(&other).await.body["spec"], json!({"size": 1}));
    assert_eq!(api.get(&format!("{}/a", widgets.path)).await.body["spec"], json!({"old": "x", "size": 1}));
    let updated = api.patch(&other, MERGE, &json!({"spec": {"both": "y"}})).await;
    assert_eq!(updated.code, 200, "{updated:?}");
    assert_eq!(api.get(&format!("{}/a", widgets.path)).await.body["spec"], json!({"both": "y", "size": 1}));
    widgets.forget(&api).await;
}

async fn a_field_that_the_stored_version_lacks_is_lost(api: Api) {
    let widgets = with_versions(&api).await;

    let created = api.post(&second(&widgets), &in_second(&widgets, "a", json!({"new": "x", "both": "y"}))).await;

    assert_eq!((created.code, &created.body["spec"]), (201, &json!({"both": "y", "size": 1})), "{created:?}");
    widgets.forget(&api).await;
}

async fn the_stored_version_fills_in_its_defaults(api: Api) {
    let widgets = with_versions(&api).await;
    let created = api.post(&second(&widgets), &in_second(&widgets, "a", json!({}))).await;
    assert_eq!(created.body["spec"], json!({"size": 1}), "{created:?}");

    let read = api.get(&format!("{}/a", second(&widgets))).await;

    assert_eq!(read.body, created.body);
    widgets.forget(&api).await;
}

async fn an_update_in_another_version_raises_the_generation_only_for_changes(api: Api) {
    let widgets = with_versions(&api).await;
    let created = api.post(&widgets.path, &widgets.with_spec("a", json!({"both": "x"}))).await;
    let path = format!("{}/a", second(&widgets));

    let same = api.change(&path, |_| ()).await;
    assert_eq!((same.code, same.version()), (200, created.version()), "{same:?}");
    let changed = api.change(&path, |widget| widget["spec"]["both"] = json!("y")).await;
    assert_eq!((changed.code, &changed.body["metadata"]["generation"]), (200, &json!(2)), "{changed:?}");
    widgets.forget(&api).await;
}

async fn a_change_in_one_version_conflicts_with_an_older_state_from_another(api: Api) {
    let widgets = with_versions(&api).await;
    widgets.stored(&api, "a", json!({})).await;
    let mut older = api.get(&format!("{}/a", second(&widgets))).await.body;
    let changed = api.patch(&format!("{}/a", widgets.path), MERGE, &json!({"spec": {"both": "x"}})).await;
    assert_eq!(changed.code, 200, "{changed:?}");

    older["spec"]["both"] = json!("y");

    assert_eq!(api.put(&format!("{}/a", second(&widgets)), &older).await.failure(), (409, "Conflict"));
    widgets.forget(&api).await;
}

async fn each_version_has_its_own_subresources_and_columns(api: Api) {
    let widgets = with_versions(&api).await;
    widgets.stored(&api, "a", json!({"old": "x"})).await;
    let status = json!({"status": {"phase": "Run"}});

    assert_eq!(api.patch(&format!("{}/a/status", widgets.path), MERGE, &status).await.code, 404);
    let patched = api.patch(&format!("{}/a/status", second(&widgets)), MERGE, &status).await;
    assert_eq!((patched.code, &patched.body["status"]["phase"]), (200, &json!("Run")), "{patched:?}");
    assert_eq!(api.get(&format!("{}/a", widgets.path)).await.body["status"]["phase"], "Run");
    let columns = async |path: &str| {
        let accept = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
        let table = api.send(Method::GET, path, None, &accept).await;
        let columns = table.body["columnDefinitions"].as_array().unwrap().iter();
        columns.map(|column| column["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(columns(&widgets.path).await, ["Name", "Old"]);
    assert_eq!(columns(&second(&widgets)).await, ["Name", "Age"]);
    widgets.forget(&api).await;
}

async fn a_delete_in_one_version_is_a_delete_in_all(api: Api) {
    let widgets = with_versions(&api).await;
    widgets.stored(&api, "a", json!({})).await;

    assert_eq!(api.delete(&format!("{}/a", second(&widgets))).await.code, 200);

    assert_eq!(api.get(&format!("{}/a", widgets.path)).await.code, 404);
    assert_eq!(api.get(&second(&widgets)).await.names(), Vec::<&str>::new());
    assert_eq!(widgets.create(&api, "a", json!({})).await.code, 201);
    widgets.forget(&api).await;
}

/// Stores new objects in version `v2`.
async fn store_second(api: &Api, widgets: &Widgets) {
    let place = widgets.place();
    let changed = api.change(&place, |definition| {
        definition["spec"]["versions"][0]["storage"] = json!(false);
        definition["spec"]["versions"][1]["storage"] = json!(true);
    });
    let changed = changed.await;
    assert_eq!(changed.code, 200, "{changed:?}");
    until(async || api.get(&place).await.body["status"]["storedVersions"] == json!(["v1", "v2"])).await;
}

async fn objects_are_kept_when_another_version_is_stored(api: Api) {
    let widgets = with_versions(&api).await;
    widgets.stored(&api, "a", json!({"both": "x"})).await;

    store_second(&api, &widgets).await;

    let stored = async || {
        let name = json!({"metadata": {"generateName": "n-"}});
        let mut widget = in_second(&widgets, "", json!({"new": "y"}));
        widget["metadata"] = name["metadata"].clone();
        api.post(&second(&widgets), &widget).await.body["spec"] == json!({"new": "y"})
    };
    until(stored).await;
    let kept = api.get(&format!("{}/a", widgets.path)).await;
    assert_eq!((kept.code, &kept.body["spec"]["both"]), (200, &json!("x")), "{kept:?}");
    widgets.forget(&api).await;
}

async fn a_version_that_objects_may_be_stored_in_cannot_be_removed(api: Api) {
    let widgets = with_versions(&api).await;
    store_second(&api, &widgets).await;
    let place = widgets.place();
    let remove = async || {
        let change = |definition: &mut Value| drop(definition["spec"]["versions"].as_array_mut().unwrap().remove(0));
        api.change(&place, change).await
    };

    let causes = causes(&remove().await);
    assert!(causes[0].starts_with(r#"Invalid status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage version"#), "{causes:?}");
    let migrated = api.patch(&format!("{place}/status"), MERGE, &json!({"status": {"storedVersions": ["v2"]}})).await;
    assert_eq!(migrated.code, 200, "{migrated:?}");
    let removed = remove().await;
    assert_eq!(removed.code, 200, "{removed:?}");
    until(async || api.get(&widgets.path).await.code == 404).await;
    until(async || api.get(&second(&widgets)).await.code == 200).await;
    widgets.forget(&api).await;
}

async fn an_object_of_another_version_than_its_path_is_refused(api: Api) {
    let widgets = with_versions(&api).await;

    let refused = api.post(&widgets.path, &in_second(&widgets, "a", json!({}))).await;

    assert_eq!(refused.failure(), (400, "BadRequest"));
    widgets.forget(&api).await;
}

/// Widgets with their replicas at paths of their own.
async fn with_scale(api: &Api) -> Widgets {
    let size = json!({"type": "object", "properties": {"count": {"type": "integer", "maximum": 5}}});
    let status = json!({"type": "object", "properties": {"current": {"type": "integer"}, "selector": text()}});
    let spec = json!({"type": "object", "properties": {"size": size}});
    let mut widgets = of_schema(api, json!({"type": "object", "properties": {"spec": spec, "status": status}}));
    widgets.definition["spec"]["versions"][0]["subresources"]["scale"] = json!({
        "specReplicasPath": ".spec.size.count",
        "statusReplicasPath": ".status.current",
        "labelSelectorPath": ".status.selector",
    });
    widgets.define(api).await;
    widgets
}

async fn a_scale_reads_and_writes_any_path(api: Api) {
    let widgets = with_scale(&api).await;
    widgets.stored(&api, "a", json!({"size": {"count": 2}})).await;
    let (path, scale) = (format!("{}/a", widgets.path), format!("{}/a/scale", widgets.path));
    let status = json!({"status": {"current": 1, "selector": "app=a"}});
    assert_eq!(api.patch(&format!("{path}/status"), MERGE, &status).await.code, 200);

    let found = api.get(&scale).await;
    assert_eq!((found.text("/kind"), found.text("/apiVersion")), ("Scale", "autoscaling/v1"));
    assert_eq!(found.body["spec"], json!({"replicas": 2}));
    assert_eq!(found.body["status"], json!({"replicas": 1, "selector": "app=a"}));
    let changed = api.change(&scale, |scale| scale["spec"]["replicas"] = json!(4)).await;
    assert_eq!((changed.code, &changed.body["spec"]), (200, &json!({"replicas": 4})), "{changed:?}");
    let patched = api.patch(&scale, MERGE, &json!({"spec": {"replicas": 5}})).await;
    assert_eq!(patched.code, 200, "{patched:?}");
    let read = api.get(&path).await;
    assert_eq!((&read.body["spec"], &read.body["metadata"]["generation"]), (&json!({"size": {"count": 5}}), &json!(3)));
    let too_many = api.patch(&scale, MERGE, &json!({"spec": {"replicas": 6}})).await;
    assert_eq!(too_many.failure(), (422, "Invalid"), "the schema limits the replicas: {too_many:?}");
    widgets.forget(&api).await;
}

async fn a_scale_of_an_object_without_replicas_fails(api: Api) {
    let widgets = with_scale(&api).await;
    widgets.stored(&api, "a", json!({})).await;

    let failed = api.get(&format!("{}/a/scale", widgets.path)).await;

    assert_eq!(failed.code, 500, "{failed:?}");
    assert_eq!(
        failed.text("/message"),
        r#"Internal error occurred: the spec replicas field ".spec.size.count" does not exist"#
    );
    widgets.forget(&api).await;
}

async fn replicas_that_make_no_sense_are_refused(api: Api) {
    let widgets = with_scale(&api).await;

    assert_eq!(
        widgets.refused(&api, json!({"size": {"count": -1}})).await,
        ["Invalid .spec.size.count: Invalid value: -1: should be a non-negative integer"]
    );
    let text = widgets.refused(&api, json!({"size": {"count": "x"}})).await;
    assert!(text.contains(&"Invalid .spec.size.count: Invalid value: 0: .spec.size.count accessor error: x is of the type string, expected int64".to_owned()), "{text:?}");
    widgets.forget(&api).await;
}

async fn a_definition_that_is_deleted_is_seen_to_go_step_by_step(api: Api) {
    let widgets = with_properties(&api, json!({})).await;
    widgets.stored(&api, "a", json!({})).await;
    let name = widgets.definition["metadata"]["name"].as_str().unwrap();
    let now = api.get(&widgets.place()).await.version();
    let mut watch =
        api.watch(DEFINITIONS, &format!("resourceVersion={now}&fieldSelector=metadata.name%3D{name}")).await;

    let deleted = api.delete(&widgets.place()).await;

    assert_eq!((deleted.code, deleted.text("/kind")), (200, "CustomResourceDefinition"), "{deleted:?}");
    assert!(deleted.body["metadata"]["deletionTimestamp"].is_string(), "{deleted:?}");
    let mut has_been_terminating = false;
    loop {
        let event = watch.next().await.unwrap();
        let object = &event["object"];
        let conditions = object["status"]["conditions"].as_array().unwrap();
        let terminating = |condition: &Value| condition["type"] == "Terminating" && condition["status"] == "True";
        if event["type"] == "MODIFIED" {
            assert!(object["metadata"]["deletionTimestamp"].is_string(), "{event}");
            has_been_terminating |= conditions.iter().any(terminating);
        } else {
            assert_eq!(event["type"], "DELETED");
            break;
        }
    }
    assert!(has_been_terminating);
    until(async || api.get(&widgets.path).await.code == 404).await;
}
