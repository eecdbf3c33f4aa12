//! What a review of issue 16 found, compared with kube-apiserver.

use super::*;

both_ways! {
    a_null_in_a_map_of_texts_is_an_empty_text
    a_secret_always_has_a_type
    a_move_counts_its_target_after_the_item_is_removed
    a_namespace_always_has_the_finalizer_of_kubernetes
    a_namespace_is_terminating_only_if_it_is_deleted
    a_pod_gets_the_annotations_and_labels_of_its_binding
    a_binding_for_another_life_of_a_pod_is_refused
    a_pod_cannot_lose_its_containers
    nothing_is_created_through_a_subresource_in_a_namespace_that_is_being_deleted
    delete_options_in_the_query_count
    delete_options_are_a_map
    an_event_has_times
    a_token_request_has_the_right_types
}

const MERGE: &str = "application/merge-patch+json";

fn pod(name: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "a", "image": "a"}]}})
}

async fn a_null_in_a_map_of_texts_is_an_empty_text(api: Api) {
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

async fn a_move_counts_its_target_after_the_item_is_removed(api: Api) {
    let finalizers = json!(["example.com/a", "example.com/b", "example.com/c"]);
    let map = json!({"metadata": {"name": "a", "finalizers": finalizers}});
    assert_eq!(api.post(&api.path("configmaps"), &map).await.code, 201);

    let patch = json!([{"op": "move", "from": "/metadata/finalizers/0", "path": "/metadata/finalizers/-1"}]);
    let moved = api.patch(&api.config_map("a"), "application/json-patch+json", &patch).await;

    assert_eq!(moved.code, 200, "{moved:?}");
    assert_eq!(moved.body["metadata"]["finalizers"], json!(["example.com/b", "example.com/c", "example.com/a"]));
}

async fn a_namespace_always_has_the_finalizer_of_kubernetes(api: Api) {
    let namespace = json!({"metadata": {"generateName": "conformance-"}, "spec": {"finalizers": ["example.com/a"]}});
    let created = api.post("/api/v1/namespaces?dryRun=All", &namespace).await;

    assert_eq!(created.body["spec"]["finalizers"], json!(["example.com/a", "kubernetes"]));
}

async fn a_namespace_is_terminating_only_if_it_is_deleted(api: Api) {
    let status = json!({"status": {"phase": "Terminating"}});
    let patched = api.patch(&format!("/api/v1/namespaces/{}/status", api.namespace), MERGE, &status).await;

    assert_eq!(patched.failure(), (422, "Invalid"));
}

async fn a_pod_gets_the_annotations_and_labels_of_its_binding(api: Api) {
    assert_eq!(api.post(&api.path("pods"), &pod("a")).await.code, 201);
    let metadata = json!({"name": "a", "annotations": {"x": "y"}, "labels": {"l": "m"}});
    let binding = json!({"metadata": metadata, "target": {"kind": "Node", "name": "n"}});
    let path = format!("{}/a", api.path("pods"));

    assert_eq!(api.post(&format!("{path}/binding"), &binding).await.code, 201);

    let bound = api.get(&path).await.body;
    assert_eq!((&bound["metadata"]["annotations"]["x"], &bound["metadata"]["labels"]["l"]), (&json!("y"), &json!("m")));
}

async fn a_binding_for_another_life_of_a_pod_is_refused(api: Api) {
    assert_eq!(api.post(&api.path("pods"), &pod("a")).await.code, 201);
    let binding = json!({"metadata": {"name": "a", "uid": "other"}, "target": {"kind": "Node", "name": "n"}});

    let refused = api.post(&format!("{}/a/binding", api.path("pods")), &binding).await;

    assert_eq!(refused.failure(), (409, "Conflict"));
}

async fn a_pod_cannot_lose_its_containers(api: Api) {
    assert_eq!(api.post(&api.path("pods"), &pod("a")).await.code, 201);

    let patched = api.patch(&format!("{}/a", api.path("pods")), MERGE, &json!({"spec": {"containers": null}})).await;

    assert_eq!(patched.failure(), (422, "Invalid"));
}

async fn nothing_is_created_through_a_subresource_in_a_namespace_that_is_being_deleted(api: Api) {
    let created = api.post("/api/v1/namespaces", &json!({"metadata": {"generateName": "conformance-"}})).await;
    let namespace = format!("/api/v1/namespaces/{}", created.text("/metadata/name"));
    let held = |name: &str| {
        let mut pod = pod(name);
        pod["metadata"]["finalizers"] = json!(["example.com/a"]);
        pod
    };
    assert_eq!(api.post(&format!("{namespace}/pods"), &held("a")).await.code, 201);
    assert_eq!(api.delete(&namespace).await.code, 200);

    let evicted = api.post(&format!("{namespace}/pods/a/eviction"), &json!({"metadata": {"name": "a"}})).await;

    assert_eq!(evicted.failure(), (403, "Forbidden"));
}

async fn delete_options_in_the_query_count(api: Api) {
    api.add("a").await;

    let refused = api.delete(&format!("{}?propagationPolicy=Orphan&orphanDependents=true", api.config_map("a"))).await;

    assert_eq!(refused.failure(), (422, "Invalid"));
}

async fn delete_options_are_a_map(api: Api) {
    api.add("a").await;

    let refused = api.delete_with(&api.config_map("a"), &json!([])).await;

    assert_eq!(refused.failure(), (400, "BadRequest"));
}

async fn an_event_has_times(api: Api) {
    let about = json!({"kind": "Pod", "name": "web", "namespace": api.namespace});
    let event = json!({"metadata": {"name": "a"}, "involvedObject": about, "firstTimestamp": "yesterday"});

    assert_eq!(api.post(&api.path("events"), &event).await.failure(), (400, "BadRequest"));
}

async fn a_token_request_has_the_right_types(api: Api) {
    let accounts = api.path("serviceaccounts");
    assert_eq!(api.post(&accounts, &json!({"metadata": {"name": "a"}})).await.code, 201);

    for spec in [json!({"expirationSeconds": "7200"}), json!({"audiences": "x"})] {
        let refused = api.post(&format!("{accounts}/a/token"), &json!({"spec": spec})).await;
        assert_eq!(refused.failure(), (400, "BadRequest"), "{spec}");
    }
}
