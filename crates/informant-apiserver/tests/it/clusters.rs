//! What is special to the embedded server as a cluster: the objects that it starts with, and the deletion of namespaces.

use informant_apiserver::ApiServer;
use serde_json::Value;
use serde_json::json;

use crate::support::Web;
use crate::support::short;

fn config_map(namespace: &str, name: &str, finalizers: &Value) -> Value {
    json!({"metadata": {"namespace": namespace, "name": name, "finalizers": finalizers}})
}

#[tokio::test]
async fn a_bootstrapped_server_has_what_a_new_cluster_has() {
    let server = ApiServer::builder().bootstrapped().build();
    let names = |kind: &str| {
        let all = server.list(kind).unwrap();
        all.iter().map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };

    assert_eq!(names("namespaces"), ["default", "kube-node-lease", "kube-public", "kube-system"]);
    assert_eq!(names("services"), ["kubernetes"]);
    assert_eq!(names("clusterroles"), ["cluster-admin"]);
    assert_eq!(names("clusterrolebindings"), ["cluster-admin"]);
    assert_eq!(names("priorityclasses"), ["system-cluster-critical", "system-node-critical"]);
    let labels = server.get("namespaces", "kube-system").unwrap()["metadata"]["labels"].clone();
    assert_eq!(labels, json!({"kubernetes.io/metadata.name": "kube-system"}));
    assert!(ApiServer::new().list("namespaces").unwrap().is_empty(), "tests count objects");
}

#[tokio::test]
async fn the_objects_of_a_namespace_are_deleted_with_it() {
    let server = ApiServer::new();
    server.put("namespaces", json!({"metadata": {"name": "shop"}})).unwrap();
    for namespace in ["shop", "shop-2"] {
        server.put("configmaps", config_map(namespace, "a", &json!([]))).unwrap();
        server.put("events", json!({"metadata": {"namespace": namespace, "name": "e"}})).unwrap();
    }
    let web = Web::in_process(&server);
    let since = format!("resourceVersion={}", server.version());
    let mut namespaces = web.watch("/api/v1/namespaces", &since).await;

    assert_eq!(web.delete("/api/v1/namespaces/shop").await.code, 200);

    let marked = namespaces.next().await.unwrap();
    assert_eq!(
        (short(&marked), &marked["object"]["status"]["phase"]),
        ("MODIFIED shop".to_owned(), &json!("Terminating"))
    );
    assert_eq!(namespaces.next_short().await, "DELETED shop");
    assert_eq!(server.count("configmaps"), Ok(1));
    assert_eq!((server.count("events"), server.count("events.events.k8s.io")), (Ok(1), Ok(1)));
    assert_eq!(server.count("namespaces"), Ok(0));
}

#[tokio::test]
async fn a_namespace_waits_for_the_finalizers_of_its_objects() {
    let server = ApiServer::new();
    server.put("namespaces", json!({"metadata": {"name": "shop"}})).unwrap();
    server.put("configmaps", config_map("shop", "held", &json!(["example.com/a"]))).unwrap();
    server.put("configmaps", config_map("shop", "free", &json!([]))).unwrap();

    server.delete("namespaces", "shop").unwrap();

    assert_eq!(server.count("configmaps"), Ok(1));
    let web = Web::in_process(&server);
    let label = json!({"metadata": {"labels": {"team": "a"}}});
    let labelled = web.patch("/api/v1/namespaces/shop", "application/merge-patch+json", &label).await;
    assert_eq!((labelled.code, server.count("namespaces")), (200, Ok(1)), "a change does not end it");
    let released = json!({"metadata": {"finalizers": null}});
    let path = "/api/v1/namespaces/shop/configmaps/held";
    assert_eq!(web.patch(path, "application/merge-patch+json", &released).await.code, 200);
    assert_eq!((server.count("configmaps"), server.count("namespaces")), (Ok(0), Ok(0)));
}

#[tokio::test]
async fn allow_missing_namespaces_lets_clients_create_in_missing_namespaces() {
    let server = ApiServer::builder().allow_missing_namespaces().build();
    let web = Web::in_process(&server);

    let created = web.post("/api/v1/namespaces/shop/configmaps", &config_map("shop", "a", &json!([]))).await;

    assert_eq!(created.code, 201, "{created:?}");
}

#[tokio::test]
async fn a_backup_has_both_views_of_an_object() {
    let server = ApiServer::new();
    server.put("horizontalpodautoscalers", json!({"metadata": {"namespace": "shop", "name": "a"}})).unwrap();
    server.put("events", json!({"metadata": {"namespace": "shop", "name": "e"}, "message": "hello"})).unwrap();
    let backup = server.backup();
    server.delete("events", "shop/e").unwrap();
    server.delete("horizontalpodautoscalers", "shop/a").unwrap();

    server.restore(&backup);

    let web = Web::in_process(&server);
    let event = web.get("/apis/events.k8s.io/v1/namespaces/shop/events/e").await;
    assert_eq!(event.body["note"], "hello");
    for version in ["v1", "v2"] {
        let path = format!("/apis/autoscaling/{version}/namespaces/shop/horizontalpodautoscalers/a");
        assert_eq!(web.get(&path).await.body["apiVersion"], format!("autoscaling/{version}"));
    }
}
