//! The requests of `kubectl` before and during writes.

use super::*;

both_ways! {
    what_kubectl_apply_asks_and_sends_is_understood
    what_kubectl_asks_about_lists_and_categories_is_answered
}

const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// The requests of `kubectl apply` 1.32: read OpenAPI, get the object, create it; the second time, patch it.
async fn what_kubectl_apply_asks_and_sends_is_understood(api: Api) {
    let index = api.get("/openapi/v3?timeout=32s").await;
    let url = index.text("/paths/apis~1apps~1v1/serverRelativeURL");
    let operations = api.get(url).await;
    let patch_of = &operations.body["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    let kind = json!({"group": "apps", "version": "v1", "kind": "Deployment"});
    assert_eq!(patch_of["x-kubernetes-group-version-kind"], kind, "{url}: {operations:?}");
    let validates = |parameter: &Value| parameter["name"] == "fieldValidation" && parameter["in"] == "query";
    assert!(patch_of["parameters"].as_array().unwrap().iter().any(validates), "{patch_of}");

    let path = api.path("apps/deployments");
    assert_eq!(api.get(&format!("{path}/web")).await.failure(), (404, "NotFound"));
    let options = "fieldManager=kubectl-client-side-apply&fieldValidation=Strict";
    let manifest = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": api.namespace, "annotations": {"last-applied": "1"}, "labels": {"app": "web"}},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{
                    "name": "web",
                    "image": "nginx:1",
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "env": [{"name": "A", "value": "1"}],
                }]},
            },
        },
    });
    let created = api.post(&format!("{path}?{options}"), &manifest).await;
    assert_eq!(created.code, 201, "{created:?}");

    let change = json!({
        "metadata": {"annotations": {"last-applied": "2"}, "labels": {"tier": "front"}},
        "spec": {"template": {"spec": {
            "$setElementOrder/containers": [{"name": "web"}],
            "containers": [{
                "$setElementOrder/env": [{"name": "B"}],
                "env": [{"name": "B", "value": "2"}, {"$patch": "delete", "name": "A"}],
                "image": "nginx:2",
                "name": "web",
            }],
        }}},
    });
    let changed = api.patch(&format!("{path}/web?{options}"), STRATEGIC, &change).await;
    assert_eq!(changed.code, 200, "{changed:?}");
    let container = &changed.body["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "nginx:2");
    assert_eq!(container["env"], json!([{"name": "B", "value": "2"}]));
    assert_eq!(container["ports"], json!([{"containerPort": 80, "protocol": "TCP"}]));
    assert_eq!(changed.body["metadata"]["labels"], json!({"app": "web", "tier": "front"}));

    let unclear = api.patch(&format!("{path}/web?fieldValidation=maybe"), STRATEGIC, &change).await;
    assert_eq!(unclear.failure(), (422, "Invalid"));
    assert_eq!(unclear.text("/details/causes/0/field"), "fieldValidation");
}

/// For a manifest of kind `List`, kubectl reads the older OpenAPI document, because the newer ones lack it. `kubectl get all` uses
/// categories.
async fn what_kubectl_asks_about_lists_and_categories_is_answered(api: Api) {
    let json = api.get("/openapi/v2").await;
    assert_eq!((json.code, json.text("/swagger")), (200, "2.0"));
    let accept = [("accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")];
    let protobuf = api.send_text(Method::GET, "/openapi/v2", String::new(), &accept).await;
    assert_eq!(protobuf.code, 200);
    assert!(protobuf.headers["content-type"].to_str().unwrap().ends_with("+protobuf"), "{:?}", protobuf.headers);

    let mut all = Vec::new();
    for version in ["api/v1", "apis/apps/v1", "apis/autoscaling/v2", "apis/batch/v1", "apis/networking.k8s.io/v1"] {
        let resources = api.get(&format!("/{version}")).await;
        let is_of_all = |resource: &&Value| resource["categories"] == json!(["all"]);
        let resources = resources.body["resources"].as_array().unwrap().iter().filter(is_of_all);
        all.extend(resources.map(|resource| resource["name"].as_str().unwrap().to_owned()));
    }
    all.sort();
    assert_eq!(
        all,
        [
            "cronjobs",
            "daemonsets",
            "deployments",
            "horizontalpodautoscalers",
            "jobs",
            "pods",
            "replicasets",
            "replicationcontrollers",
            "services",
            "statefulsets",
        ]
    );
}
