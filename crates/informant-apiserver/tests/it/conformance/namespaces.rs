//! Namespaces: their defaults, and the deletion of their objects.

use super::*;

both_ways! {
    a_namespace_has_a_phase_a_finalizer_and_its_name_as_a_label
    an_object_is_not_created_in_a_missing_namespace
    an_object_is_not_created_in_a_namespace_that_is_being_deleted
    a_namespace_keeps_its_finalizer_and_label_when_it_is_updated
    the_namespace_default_cannot_be_deleted
    the_collection_of_namespaces_cannot_be_deleted
    a_namespace_always_has_the_finalizer_of_kubernetes
    a_namespace_is_terminating_only_if_it_is_deleted
}

const KUBERNETES: &str = "kubernetes";

impl Api {
    /// A second namespace, with its path.
    async fn another(&self) -> (String, String) {
        let created = self.post("/api/v1/namespaces", &json!({"metadata": {"generateName": "conformance-"}})).await;
        assert_eq!(created.code, 201, "{created:?}");
        let name = created.text("/metadata/name").to_owned();
        let path = format!("/api/v1/namespaces/{name}");
        (name, path)
    }
}

async fn a_namespace_has_a_phase_a_finalizer_and_its_name_as_a_label(api: Api) {
    let found = api.get(&format!("/api/v1/namespaces/{}", api.namespace)).await.body;

    assert_eq!(found["status"]["phase"], "Active");
    assert_eq!(found["spec"]["finalizers"], json!([KUBERNETES]));
    assert_eq!(found["metadata"]["labels"]["kubernetes.io/metadata.name"], api.namespace);
}

async fn an_object_is_not_created_in_a_missing_namespace(api: Api) {
    let refused = api.post("/api/v1/namespaces/conformance-none/configmaps", &config_map("a", &json!({}))).await;

    assert_eq!(refused.failure(), (404, "NotFound"));
    assert_eq!(refused.text("/message"), "namespaces \"conformance-none\" not found");
    assert_eq!(refused.body["details"], json!({"name": "conformance-none", "kind": "namespaces"}));
    let mut elsewhere = config_map("a", &json!({}));
    elsewhere["metadata"]["namespace"] = json!(api.namespace);
    let other = api.post("/api/v1/namespaces/conformance-none/configmaps", &elsewhere).await;
    assert_eq!(other.failure(), (400, "BadRequest"));
    let lease = json!({"metadata": {"name": "a"}});
    let path = "/apis/coordination.k8s.io/v1/namespaces/conformance-none/leases/a";
    assert_eq!(api.put(path, &lease).await.failure(), (404, "NotFound"));
}

async fn an_object_is_not_created_in_a_namespace_that_is_being_deleted(api: Api) {
    let (name, path) = api.another().await;
    let maps = format!("{path}/configmaps");
    let mut held = config_map("held", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/a"]);
    assert_eq!(api.post(&maps, &held).await.code, 201);

    let deleted = api.delete(&path).await;
    let refused = api.post(&maps, &config_map("a", &json!({}))).await;

    assert_eq!((deleted.code, &deleted.body["status"]["phase"]), (200, &json!("Terminating")));
    assert!(deleted.body["metadata"]["deletionTimestamp"].is_string(), "{deleted:?}");
    assert_eq!(deleted.body["spec"]["finalizers"], json!([KUBERNETES]));
    assert_eq!(refused.failure(), (403, "Forbidden"));
    let why = format!("unable to create new content in namespace {name} because it is being terminated");
    assert_eq!(refused.text("/message"), format!("configmaps \"a\" is forbidden: {why}"));
    assert_eq!(refused.text("/details/causes/0/reason"), "NamespaceTerminating");
    assert_eq!(api.delete(&path).await.body["status"]["phase"], "Terminating");
    api.change(&format!("{maps}/held"), |map| map["metadata"]["finalizers"] = json!([])).await;
    // An API server without controllers does not finish the deletion of namespaces, so the client does.
    let without = |namespace: &mut Value| namespace["spec"]["finalizers"] = json!([]);
    let mut terminating = api.get(&path).await.body;
    if terminating["metadata"]["name"] == name.as_str() {
        without(&mut terminating);
        assert_eq!(api.put(&format!("{path}/finalize"), &terminating).await.code, 200);
    }
    assert_eq!(api.get(&path).await.failure(), (404, "NotFound"));
}

async fn a_namespace_keeps_its_finalizer_and_label_when_it_is_updated(api: Api) {
    let (name, path) = api.another().await;

    let changed = api
        .change(&path, |namespace| {
            namespace["metadata"]["labels"] = json!({"team": "a"});
            namespace["spec"] = json!({});
            namespace["status"] = json!({"phase": "Terminating"});
        })
        .await;

    assert_eq!(changed.code, 200, "{changed:?}");
    assert_eq!(changed.body["metadata"]["labels"], json!({"team": "a", "kubernetes.io/metadata.name": name}));
    assert_eq!(changed.body["spec"]["finalizers"], json!([KUBERNETES]));
    assert_eq!(changed.body["status"]["phase"], "Active");
}

async fn the_collection_of_namespaces_cannot_be_deleted(api: Api) {
    assert_eq!(api.delete("/api/v1/namespaces").await.failure(), (405, "MethodNotAllowed"));
}

async fn the_namespace_default_cannot_be_deleted(api: Api) {
    // A cluster has this namespace; the embedded server has it only if it is bootstrapped.
    let created = api.post("/api/v1/namespaces", &json!({"metadata": {"name": "default"}})).await;
    assert!([201, 409].contains(&created.code), "{created:?}");

    let refused = api.delete("/api/v1/namespaces/default").await;

    assert_eq!(refused.failure(), (403, "Forbidden"));
    assert_eq!(refused.text("/message"), "namespaces \"default\" is forbidden: this namespace may not be deleted");
}

async fn a_namespace_always_has_the_finalizer_of_kubernetes(api: Api) {
    let namespace = json!({"metadata": {"generateName": "conformance-"}, "spec": {"finalizers": ["example.com/a"]}});
    let created = api.post("/api/v1/namespaces?dryRun=All", &namespace).await;

    assert_eq!(created.body["spec"]["finalizers"], json!(["example.com/a", "kubernetes"]));
}

async fn a_namespace_is_terminating_only_if_it_is_deleted(api: Api) {
    let status = json!({"status": {"phase": "Terminating"}});
    let patched = api
        .patch(&format!("/api/v1/namespaces/{}/status", api.namespace), "application/merge-patch+json", &status)
        .await;

    assert_eq!(patched.failure(), (422, "Invalid"));
}
