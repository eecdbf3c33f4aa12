//! Validation of requests: owners, options, versions, well-known fields.

use super::*;

both_ways! {
    a_dry_run_of_a_create_may_name_a_version
    an_owner_reference_without_uid_or_a_second_controller_is_refused
    delete_options_that_contradict_each_other_are_refused
    a_kind_without_generations_keeps_the_generation_that_a_client_sends
    a_uid_cannot_be_changed
    deprecated_watch_paths_open_watches
    a_new_pod_is_pending
    a_pod_without_containers_is_refused
    string_data_of_a_secret_is_stored_as_base64_data
    a_value_of_the_wrong_type_is_refused
    a_null_in_a_map_of_strings_is_an_empty_string
    a_secret_always_has_a_type
    a_pod_cannot_lose_its_containers
    contradictory_delete_options_in_the_query_are_refused
    delete_options_that_are_not_an_object_are_refused
    an_event_with_a_malformed_time_is_refused
}

async fn a_dry_run_of_a_create_may_name_a_version(api: Api) {
    let mut map = config_map("a", &json!({}));
    map["metadata"]["resourceVersion"] = json!("7");

    let dry = api.post(&format!("{}?dryRun=All", api.path("configmaps")), &map).await;

    assert_eq!(dry.code, 201, "{dry:?}");
    assert_eq!(api.get(&api.config_map("a")).await.code, 404);
    assert_eq!(api.post(&api.path("configmaps"), &map).await.code, 500);
}

async fn an_owner_reference_without_uid_or_a_second_controller_is_refused(api: Api) {
    // A kind that is not served, so that no garbage collector finds out that the owner does not exist.
    let owner = |name: &str, uid: &str| json!({"apiVersion": "example.com/v1", "kind": "Owner", "name": name, "uid": uid, "controller": true});
    let create = async |name: &str, owners: Value| {
        let mut map = config_map(name, &json!({}));
        map["metadata"]["ownerReferences"] = owners;
        api.post(&api.path("configmaps"), &map).await
    };

    let without = create("a", json!([owner("x", "")])).await;
    assert_eq!(without.failure(), (422, "Invalid"));
    assert_eq!(without.text("/details/causes/0/field"), "metadata.ownerReferences[0].uid");
    let two = create("b", json!([owner("x", "1"), owner("y", "2")])).await;
    assert_eq!(two.failure(), (422, "Invalid"));
    assert!(two.text("/message").contains("Only one reference can have Controller set to true"), "{two:?}");
    assert_eq!(create("c", json!([owner("x", "1")])).await.code, 201);
    let mut changed = api.get(&api.config_map("c")).await.body;
    changed["metadata"]["ownerReferences"] = json!([owner("x", "1"), owner("y", "2")]);
    assert_eq!(api.put(&api.config_map("c"), &changed).await.failure(), (422, "Invalid"));
}

async fn delete_options_that_contradict_each_other_are_refused(api: Api) {
    api.add("a").await;

    let both = json!({"orphanDependents": true, "propagationPolicy": "Background"});
    let refused = api.delete_with(&api.config_map("a"), &both).await;

    assert_eq!(refused.failure(), (422, "Invalid"));
    assert_eq!(refused.text("/details/causes/0/field"), "propagationPolicy");
    assert_eq!(api.get(&api.config_map("a")).await.code, 200);
}

async fn a_kind_without_generations_keeps_the_generation_that_a_client_sends(api: Api) {
    let mut map = config_map("a", &json!({}));
    map["metadata"]["generation"] = json!(5);
    let created = api.post(&api.path("configmaps"), &map).await;
    assert_eq!(created.body["metadata"]["generation"], 5, "{created:?}");
    let changed = api.change(&api.config_map("a"), |map| map["metadata"]["generation"] = json!(7)).await;
    assert_eq!(changed.body["metadata"]["generation"], 5);

    let mut deployment = deployment("a");
    deployment["metadata"]["generation"] = json!(5);
    let created = api.post(&api.path("apps/deployments"), &deployment).await;
    assert_eq!(created.body["metadata"]["generation"], 1, "{created:?}");
    map["metadata"] = json!({"name": "b", "generation": -1});
    assert_eq!(api.post(&api.path("configmaps"), &map).await.failure(), (422, "Invalid"));
}

async fn a_uid_cannot_be_changed(api: Api) {
    api.add("a").await;
    let path = api.config_map("a");

    let updated = api.change(&path, |map| map["metadata"]["uid"] = json!("other")).await;
    let patched = api.patch(&path, "application/merge-patch+json", &json!({"metadata": {"uid": "other"}})).await;

    assert_eq!(updated.failure(), (409, "Conflict"));
    assert_eq!(patched.failure(), (422, "Invalid"));
    assert_eq!(patched.text("/details/causes/0/field"), "metadata.uid");
}

async fn deprecated_watch_paths_open_watches(api: Api) {
    let since = format!("resourceVersion={}", version(&api.add("a").await));
    let old = |rest: &str| format!("/api/v1/watch/namespaces/{}/configmaps{rest}", api.namespace);
    let mut all =
        Lines::from(api.respond(Method::GET, &format!("{}?{since}", old("")), String::new(), &[]).await.unwrap());
    let one = format!("{}?{since}", old("/c"));
    let mut one = Lines::from(api.respond(Method::GET, &one, String::new(), &[]).await.unwrap());

    api.add("b").await;
    api.add("c").await;

    assert_eq!(all.take(2).await, ["ADDED b", "ADDED c"]);
    assert_eq!(one.take(1).await, ["ADDED c"]);
}

fn pod(name: &str) -> Value {
    let container = json!({"name": "main", "image": "example.com/main:1"});
    json!({"metadata": {"name": name}, "spec": {"containers": [container]}})
}

fn deployment(name: &str) -> Value {
    let labels = json!({"app": name});
    let mut template = pod(name);
    template["metadata"] = json!({"labels": labels});
    json!({"metadata": {"name": name}, "spec": {"selector": {"matchLabels": labels}, "template": template}})
}

async fn a_new_pod_is_pending(api: Api) {
    let mut sent = pod("a");
    sent["status"] = json!({"phase": "Running"});
    // A cluster needs a service account before it creates a pod.
    api.post(&api.path("serviceaccounts"), &json!({"metadata": {"name": "default"}})).await;

    let created = api.post(&api.path("pods"), &sent).await;

    assert_eq!((created.code, &created.body["status"]["phase"]), (201, &json!("Pending")));
}

async fn a_pod_without_containers_is_refused(api: Api) {
    api.post(&api.path("serviceaccounts"), &json!({"metadata": {"name": "default"}})).await;

    let without = api.post(&api.path("pods"), &json!({"metadata": {"name": "a"}, "spec": {}})).await;
    assert_eq!(without.failure(), (422, "Invalid"));
    assert!(without.text("/message").contains("spec.containers: Required value"), "{without:?}");
    let mut nameless = pod("a");
    nameless["spec"]["containers"][0] = json!({"image": "example.com/main:1"});
    let nameless = api.post(&api.path("pods"), &nameless).await;
    assert_eq!(nameless.failure(), (422, "Invalid"));
    assert!(nameless.text("/message").contains("spec.containers[0].name: Required value"), "{nameless:?}");
}

async fn string_data_of_a_secret_is_stored_as_base64_data(api: Api) {
    let secret = json!({"metadata": {"name": "a"}, "data": {"user": "YQ=="}, "stringData": {"password": "hunter2", "user": "b"}});

    let created = api.post(&api.path("secrets"), &secret).await;

    assert_eq!(created.code, 201, "{created:?}");
    assert_eq!(created.body["data"], json!({"user": "Yg==", "password": "aHVudGVyMg=="}));
    assert_eq!((created.body.get("stringData"), &created.body["type"]), (None, &json!("Opaque")));
    let patch = json!({"stringData": {"user": "c"}});
    let patched = api.patch(&format!("{}/a", api.path("secrets")), "application/merge-patch+json", &patch).await;
    assert_eq!(patched.body["data"], json!({"user": "Yw==", "password": "aHVudGVyMg=="}));
}

async fn a_value_of_the_wrong_type_is_refused(api: Api) {
    let mut map = config_map("a", &json!({}));
    map["data"] = json!({"size": 5});
    assert_eq!(api.post(&api.path("configmaps"), &map).await.failure(), (400, "BadRequest"));
    let mut replicas = deployment("a");
    replicas["spec"]["replicas"] = json!("3");
    assert_eq!(api.post(&api.path("apps/deployments"), &replicas).await.failure(), (400, "BadRequest"));
    let mut port = deployment("a");
    port["spec"]["template"]["spec"]["containers"][0]["ports"] = json!([{"containerPort": "http"}]);
    assert_eq!(api.post(&api.path("apps/deployments"), &port).await.failure(), (400, "BadRequest"));
    replicas["spec"]["replicas"] = json!(1_u64 << 40);
    assert_eq!(api.post(&api.path("apps/deployments"), &replicas).await.failure(), (400, "BadRequest"));
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1", "controller": "true"});
    let owned = json!({"metadata": {"name": "a", "ownerReferences": [owner]}});
    assert_eq!(api.post(&api.path("configmaps"), &owned).await.failure(), (400, "BadRequest"));
    let secret = json!({"metadata": {"name": "a"}, "data": {"password": "no base64!"}});
    assert_eq!(api.post(&api.path("secrets"), &secret).await.failure(), (400, "BadRequest"));
    api.add("b").await;
    let patch = json!({"data": {"size": 5}});
    let patched = api.patch(&api.config_map("b"), "application/merge-patch+json", &patch).await;
    assert_eq!(patched.failure(), (422, "Invalid"));
}

async fn a_null_in_a_map_of_strings_is_an_empty_string(api: Api) {
    let created = api.post(&api.path("configmaps"), &json!({"metadata": {"name": "a"}, "data": {"x": null}})).await;
    assert_eq!((created.code, &created.body["data"]), (201, &json!({"x": ""})));

    let patch = json!([{"op": "add", "path": "/data/y"}]);
    let patched = api.patch(&api.config_map("a"), "application/json-patch+json", &patch).await;
    assert_eq!(patched.body["data"], json!({"x": "", "y": ""}));
}

async fn a_secret_always_has_a_type(api: Api) {
    let secrets = api.path("secrets");
    for (name, given) in [("a", json!(null)), ("b", json!(""))] {
        let created = api.post(&secrets, &json!({"metadata": {"name": name}, "type": given})).await;
        assert_eq!((created.code, &created.body["type"]), (201, &json!("Opaque")), "{given}");
    }
    let put = api.put(&format!("{secrets}/a"), &json!({"metadata": {"name": "a"}, "stringData": {"x": "y"}})).await;
    assert_eq!((put.code, &put.body["type"]), (200, &json!("Opaque")));
}

async fn a_pod_cannot_lose_its_containers(api: Api) {
    assert_eq!(api.post(&api.path("pods"), &pod("a")).await.code, 201);

    let patched = api
        .patch(
            &format!("{}/a", api.path("pods")),
            "application/merge-patch+json",
            &json!({"spec": {"containers": null}}),
        )
        .await;

    assert_eq!(patched.failure(), (422, "Invalid"));
}

async fn contradictory_delete_options_in_the_query_are_refused(api: Api) {
    api.add("a").await;

    let refused = api.delete(&format!("{}?propagationPolicy=Orphan&orphanDependents=true", api.config_map("a"))).await;

    assert_eq!(refused.failure(), (422, "Invalid"));
}

async fn delete_options_that_are_not_an_object_are_refused(api: Api) {
    api.add("a").await;

    let refused = api.delete_with(&api.config_map("a"), &json!([])).await;

    assert_eq!(refused.failure(), (400, "BadRequest"));
}

async fn an_event_with_a_malformed_time_is_refused(api: Api) {
    let about = json!({"kind": "Pod", "name": "web", "namespace": api.namespace});
    let event = json!({"metadata": {"name": "a"}, "involvedObject": about, "firstTimestamp": "yesterday"});

    assert_eq!(api.post(&api.path("events"), &event).await.failure(), (400, "BadRequest"));
}
