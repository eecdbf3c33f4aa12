//! Patches, and the errors of invalid ones.

use super::*;

both_ways! {
    a_merge_patch_changes_what_it_names
    operations_are_done_in_order_or_not_at_all
    operations_accept_more_than_the_rfc_allows
    a_patch_that_changes_nothing_is_no_change
    a_patch_is_told_to_watchers
    a_patch_may_name_the_version_that_it_is_for
    a_lease_wants_to_know_which_version_a_patch_is_for
    a_patch_of_what_is_not_there_is_not_found
    a_patch_does_not_make_another_object_of_it
    a_patch_that_cannot_be_read_is_refused
    a_small_patch_makes_no_huge_object
    a_patch_of_a_type_that_nobody_knows_is_refused
    a_patch_of_the_status_changes_the_status_alone
    a_patch_that_runs_dry_changes_nothing
    the_last_finalizer_can_be_patched_away
    a_move_counts_a_negative_index_after_the_item_is_removed
}

const MERGE: &str = "application/merge-patch+json";
const OPERATIONS: &str = "application/json-patch+json";

async fn a_merge_patch_changes_what_it_names(api: Api) {
    let created = api.add_labelled("a", json!({"keep": "1", "drop": "1"})).await;

    let change = json!({"metadata": {"labels": {"drop": null, "new": "1"}}, "data": {"size": "5"}});
    let patched = api.patch(&api.config_map("a"), &format!("{MERGE}; charset=utf-8"), &change).await;

    assert_eq!(patched.code, 200, "{patched:?}");
    assert_eq!(patched.body["data"], json!({"colour": "red", "size": "5"}));
    assert_eq!(patched.body["metadata"]["labels"], json!({"keep": "1", "new": "1"}));
    assert_eq!(patched.body["metadata"]["uid"], created["metadata"]["uid"]);
    assert!(patched.version() > version(&created));
    assert_eq!(api.get(&api.config_map("a")).await.body["data"], patched.body["data"]);
}

async fn operations_are_done_in_order_or_not_at_all(api: Api) {
    api.add("a").await;
    let path = api.config_map("a");
    let add = json!({"op": "add", "path": "/data/size", "value": "5"});
    let test = |size: &str| json!({"op": "test", "path": "/data/size", "value": size});

    assert_eq!(api.patch(&path, OPERATIONS, &json!([add, test("6")])).await.failure(), (422, "Invalid"));
    assert_eq!(api.get(&path).await.body["data"], json!({"colour": "red"}));
    let patched =
        api.patch(&path, OPERATIONS, &json!([add, test("5"), {"op": "remove", "path": "/data/colour"}])).await;
    assert_eq!((patched.code, &patched.body["data"]), (200, &json!({"size": "5"})));
}

async fn operations_accept_more_than_the_rfc_allows(api: Api) {
    api.add("a").await;
    let path = api.config_map("a");
    let run = async |operations: Value| api.patch(&path, OPERATIONS, &operations).await;

    // kube-runtime's `finalizer` sends this patch.
    let first = json!([
        {"op": "test", "path": "/metadata/finalizers", "value": null},
        {"op": "add", "path": "/metadata/finalizers", "value": ["example.com/a"]},
    ]);
    assert_eq!(run(first.clone()).await.body["metadata"]["finalizers"], json!(["example.com/a"]));
    assert_eq!(run(first).await.failure(), (422, "Invalid"));
    let last = json!([
        {"op": "test", "path": "/metadata/finalizers/-1", "value": "example.com/a"},
        {"op": "add", "path": "/metadata/finalizers/-1", "value": "example.com/b"},
        {"op": "remove", "path": "/metadata/finalizers/-2"},
    ]);
    assert_eq!(run(last).await.body["metadata"]["finalizers"], json!(["example.com/b"]));
    let replaced = run(json!([{"op": "replace", "path": "/data/size", "value": "5"}])).await;
    assert_eq!(replaced.body["data"], json!({"colour": "red", "size": "5"}));
    assert_eq!(run(json!([{"op": "test", "path": "/data/none"}])).await.code, 200);
    let copied = run(json!([{"op": "copy", "from": "/metadata/none", "path": "/metadata/annotations"}])).await;
    assert_eq!((copied.code, copied.body["metadata"].get("annotations")), (200, None));
    assert_eq!(run(json!([{"op": "add", "path": "/metadata/finalizers"}])).await.code, 200);
    assert_eq!(api.get(&path).await.body["metadata"].get("finalizers"), None);
    for refused in [
        json!([{"op": "test", "path": "/none/deeper", "value": null}]),
        json!([{"op": "remove", "path": "/data/none"}]),
        json!([{"op": "replace", "path": "/none/deeper", "value": "1"}]),
    ] {
        assert_eq!(run(refused).await.failure(), (422, "Invalid"));
    }
}

async fn a_patch_that_changes_nothing_is_no_change(api: Api) {
    let created = api.add("a").await;

    for nothing in [json!({}), json!({"data": {"colour": "red"}})] {
        let patched = api.patch(&api.config_map("a"), MERGE, &nothing).await;
        assert_eq!((patched.code, patched.version()), (200, version(&created)));
    }
}

async fn a_patch_is_told_to_watchers(api: Api) {
    let created = api.add("a").await;
    let since = format!("resourceVersion={}", version(&created));
    let mut watch = api.watch(&api.path("configmaps"), &since).await;

    api.patch(&api.config_map("a"), MERGE, &json!({"data": {"size": "5"}})).await;

    let event = watch.next().await.unwrap();
    assert_eq!((&event["type"], &event["object"]["data"]["size"]), (&json!("MODIFIED"), &json!("5")));
}

async fn a_patch_may_name_the_version_that_it_is_for(api: Api) {
    let created = api.add("a").await;
    let path = api.config_map("a");
    let for_version =
        |version: &str, size: &str| json!({"metadata": {"resourceVersion": version}, "data": {"size": size}});
    let first = created["metadata"]["resourceVersion"].as_str().unwrap();

    assert_eq!(api.patch(&path, MERGE, &for_version(first, "5")).await.code, 200);
    assert_eq!(api.patch(&path, MERGE, &for_version(first, "6")).await.failure(), (409, "Conflict"));
    assert_eq!(
        api.patch(&path, MERGE, &for_version("", "7")).await.code,
        200,
        "a patch without a version always applies"
    );
}

async fn a_lease_wants_to_know_which_version_a_patch_is_for(api: Api) {
    let path = api.path("coordination.k8s.io/leases");
    let lease = json!({"metadata": {"name": "a"}, "spec": {"holderIdentity": "x"}});
    assert_eq!(api.post(&path, &lease).await.code, 201);
    let path = format!("{path}/a");

    assert_eq!(api.patch(&path, MERGE, &json!({"spec": {"holderIdentity": "y"}})).await.code, 200);
    let none = api.patch(&path, MERGE, &json!({"metadata": {"resourceVersion": null}})).await;
    assert_eq!(none.failure(), (422, "Invalid"));
}

async fn a_patch_of_what_is_not_there_is_not_found(api: Api) {
    let missing = api.patch(&api.config_map("a"), MERGE, &json!({})).await;
    assert_eq!(missing.failure(), (404, "NotFound"));
    let collection = api.patch(&api.path("configmaps"), MERGE, &json!({})).await;
    assert_eq!(collection.failure(), (405, "MethodNotAllowed"));
}

async fn a_patch_does_not_make_another_object_of_it(api: Api) {
    api.add("a").await;
    let path = api.config_map("a");

    let renamed = api.patch(&path, MERGE, &json!({"metadata": {"name": "b"}})).await;
    assert_eq!(renamed.failure(), (400, "BadRequest"));
    assert_eq!(renamed.text("/message"), "the name of the object (b) does not match the name on the URL (a)");
    let other_kind = api.patch(&path, MERGE, &json!({"kind": "Secret"})).await;
    assert_eq!(other_kind.failure(), (422, "Invalid"));
    assert_eq!(api.patch(&path, MERGE, &json!({"metadata": {"uid": "1"}})).await.code, 422);
    assert_eq!(api.patch(&path, MERGE, &json!({"metadata": null})).await.code, 400);
    let wrong_type = api.patch(&path, MERGE, &json!({"metadata": {"labels": "red"}})).await;
    assert_eq!(wrong_type.failure(), (422, "Invalid"));
    assert_eq!(wrong_type.text("/details/causes/0/field"), "patch");
}

async fn a_patch_that_cannot_be_read_is_refused(api: Api) {
    api.add("a").await;
    let path = api.config_map("a");

    for (content_type, body) in
        [(MERGE, "{"), (MERGE, ""), (MERGE, "[]"), (MERGE, "5"), (OPERATIONS, "{}"), (OPERATIONS, "[")]
    {
        let headers = [("content-type", content_type)];
        let refused = api.send_text(Method::PATCH, &path, body.into(), &headers).await;
        assert_eq!(refused.failure(), (400, "BadRequest"), "{content_type} {body}");
    }
    let unknown = api.patch(&path, OPERATIONS, &json!([{"op": "fly", "path": "/data"}])).await;
    assert_eq!(unknown.failure(), (422, "Invalid"));
}

async fn a_small_patch_makes_no_huge_object(api: Api) {
    api.add("a").await;
    let path = api.config_map("a");
    let copy = |to: &str| json!({"op": "copy", "from": "/data", "path": format!("/data/{to}")});

    let wide: Vec<_> = (0..30).map(|number| copy(&number.to_string())).collect();
    let deep: Vec<_> = (0..3000).map(|_| copy("b")).collect();
    for operations in [wide, deep] {
        assert_eq!(api.patch(&path, OPERATIONS, &json!(operations)).await.failure(), (422, "Invalid"));
    }
    let many = vec![json!({"op": "test", "path": "/data/colour", "value": "red"}); 10_001];
    assert_eq!(api.patch(&path, OPERATIONS, &json!(many)).await.failure(), (413, "RequestEntityTooLarge"));
    assert_eq!(api.get(&path).await.body["data"], json!({"colour": "red"}));
}

async fn a_patch_of_a_type_that_nobody_knows_is_refused(api: Api) {
    api.add("a").await;

    for content_type in ["application/json", "text/plain"] {
        let refused = api.patch(&api.config_map("a"), content_type, &json!({})).await;
        assert_eq!(refused.failure(), (415, "UnsupportedMediaType"), "{content_type}");
    }
}

async fn a_patch_of_the_status_changes_the_status_alone(api: Api) {
    let claim = json!({
        "metadata": {"name": "a"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    });
    let path = api.path("persistentvolumeclaims");
    assert_eq!(api.post(&path, &claim).await.code, 201);
    let change = json!({"status": {"phase": "Pending"}, "spec": {"volumeName": "v"}});

    let patched = api.patch(&format!("{path}/a/status"), MERGE, &change).await;

    assert_eq!(patched.code, 200, "{patched:?}");
    assert_eq!(
        (&patched.body["status"]["phase"], &patched.body["spec"]["volumeName"]),
        (&json!("Pending"), &Value::Null)
    );
}

async fn a_patch_that_runs_dry_changes_nothing(api: Api) {
    let created = api.add("a").await;
    let path = api.config_map("a");

    let dry = api.patch(&format!("{path}?dryRun=All"), MERGE, &json!({"data": {"size": "5"}})).await;

    assert_eq!((dry.code, &dry.body["data"]["size"]), (200, &json!("5")));
    let unclear = api.patch(&format!("{path}?dryRun="), MERGE, &json!({"data": {"size": "6"}})).await;
    assert_eq!(unclear.failure(), (422, "Invalid"));
    assert_eq!(api.get(&path).await.version(), version(&created));
}

async fn the_last_finalizer_can_be_patched_away(api: Api) {
    let mut held = config_map("a", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    assert_eq!(api.post(&api.path("configmaps"), &held).await.code, 201);
    api.delete(&api.config_map("a")).await;

    let patched = api.patch(&api.config_map("a"), MERGE, &json!({"metadata": {"finalizers": null}})).await;

    assert_eq!(patched.code, 200, "{patched:?}");
    assert_eq!(api.get(&api.config_map("a")).await.code, 404);
}

async fn a_move_counts_a_negative_index_after_the_item_is_removed(api: Api) {
    let finalizers = json!(["example.com/a", "example.com/b", "example.com/c"]);
    let map = json!({"metadata": {"name": "a", "finalizers": finalizers}});
    assert_eq!(api.post(&api.path("configmaps"), &map).await.code, 201);

    let patch = json!([{"op": "move", "from": "/metadata/finalizers/0", "path": "/metadata/finalizers/-1"}]);
    let moved = api.patch(&api.config_map("a"), "application/json-patch+json", &patch).await;

    assert_eq!(moved.code, 200, "{moved:?}");
    assert_eq!(moved.body["metadata"]["finalizers"], json!(["example.com/b", "example.com/c", "example.com/a"]));
}
