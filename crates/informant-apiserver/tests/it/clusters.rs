//! Clusters in the embedded server: the initial objects, and the deletion of namespaces.

use informant_apiserver::{ApiServer, Kind};
use serde_json::{Value, json};

use crate::support::{Answer, Web, short};

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
    assert!(ApiServer::new().list("namespaces").unwrap().is_empty(), "a server without options has no objects");
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
    assert_eq!((labelled.code, server.count("namespaces")), (200, Ok(1)), "an update does not delete the namespace");
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

#[tokio::test]
async fn a_namespace_ends_when_the_kind_of_its_last_object_is_removed() {
    let server = ApiServer::new();
    server.register(Kind::new("example.com", "v1", "Widget", "widgets"));
    server.put("namespaces", json!({"metadata": {"name": "shop"}})).unwrap();
    let held = json!({"metadata": {"namespace": "shop", "name": "a", "finalizers": ["example.com/a"]}});
    server.put("widgets.example.com", held).unwrap();
    server.delete("namespaces", "shop").unwrap();

    server.remove_kind("widgets.example.com");

    assert_eq!(server.count("namespaces"), Ok(0));
}

#[tokio::test]
async fn a_namespace_stays_terminating_when_it_is_put() {
    let server = ApiServer::new();
    server.put("namespaces", json!({"metadata": {"name": "shop"}})).unwrap();
    server
        .put("configmaps", json!({"metadata": {"namespace": "shop", "name": "a", "finalizers": ["example.com/a"]}}))
        .unwrap();
    server.delete("namespaces", "shop").unwrap();

    let put = server.put("namespaces", json!({"metadata": {"name": "shop", "labels": {"a": "b"}}})).unwrap();

    assert!(put["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(put["status"]["phase"], "Terminating");
}

#[tokio::test]
async fn a_restored_namespace_whose_kind_is_gone_is_not_stuck() {
    let server = ApiServer::new();
    server.register(Kind::new("example.com", "v1", "Widget", "widgets"));
    server.put("namespaces", json!({"metadata": {"name": "shop"}})).unwrap();
    let held = json!({"metadata": {"namespace": "shop", "name": "a", "finalizers": ["example.com/a"]}});
    server.put("widgets.example.com", held).unwrap();
    server.delete("namespaces", "shop").unwrap();
    let backup = server.backup();
    server.remove_kind("widgets.example.com");
    server.restore(&backup);

    server.delete("namespaces", "shop").unwrap();

    assert_eq!(server.count("namespaces"), Ok(0));
}

#[tokio::test]
async fn deleting_a_namespace_succeeds_whatever_put_stored_in_its_metadata() {
    let server = ApiServer::new();
    server.put("namespaces", json!({"metadata": {"name": "shop"}})).unwrap();
    server.put("namespaces", json!({"metadata": {"name": "shop", "labels": {"odd": "a b"}}})).unwrap();
    server.put("pods", json!({"metadata": {"namespace": "shop", "name": "a"}})).unwrap();

    let deleted = server.delete("namespaces", "shop");

    assert!(deleted.is_ok(), "{deleted:?}");
    assert_eq!((server.count("pods"), server.count("namespaces")), (Ok(0), Ok(0)));
}

#[tokio::test]
async fn a_kind_from_code_is_no_view_of_a_built_in_kind() {
    let server = ApiServer::builder().allow_missing_namespaces().build();
    server.register(Kind::new("", "v1", "Event", "events"));
    let web = Web::in_process(&server);
    let event = json!({"metadata": {"namespace": "a", "name": "e"}});
    assert_eq!(web.post("/apis/events.k8s.io/v1/namespaces/a/events", &event).await.code, 201);
    let core = "/api/v1/namespaces/a/events";
    let count = |answer: Answer| answer.body["items"].as_array().unwrap().len();
    assert_eq!(count(web.get(core).await), 0, "the registered kind has its own objects");
}

#[tokio::test]
async fn a_custom_definition_that_is_forced_away_releases_the_namespaces_of_its_objects() {
    let server = ApiServer::new();
    let schema = json!({"openAPIV3Schema": {"type": "object"}});
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "widgets", "kind": "Widget"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    let web = Web::in_process(&server);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(web.post(definitions, &definition).await.code, 201);
    server.put("namespaces", json!({"metadata": {"name": "shop"}})).unwrap();
    let held = json!({"metadata": {"namespace": "shop", "name": "a", "finalizers": ["example.com/a"]}});
    server.put("widgets.example.com", held).unwrap();
    server.delete("namespaces", "shop").unwrap();
    let one = format!("{definitions}/widgets.example.com");
    assert_eq!(web.delete(&one).await.code, 200);

    let forced = json!({"metadata": {"finalizers": null}});
    assert_eq!(web.patch(&one, "application/merge-patch+json", &forced).await.code, 200);

    assert_eq!(server.count("namespaces"), Ok(0));
}

#[tokio::test]
async fn a_second_delete_of_a_namespace_removes_what_was_put_into_it_since_the_first() {
    let server = ApiServer::new();
    server.put("namespaces", json!({"metadata": {"name": "shop"}})).unwrap();
    let held = json!({"metadata": {"namespace": "shop", "name": "held", "finalizers": ["example.com/a"]}});
    server.put("configmaps", held).unwrap();
    server.delete("namespaces", "shop").unwrap();
    server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "late"}})).unwrap();
    server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "held"}})).unwrap();

    server.delete("namespaces", "shop").unwrap();

    assert_eq!((server.count("configmaps"), server.count("namespaces")), (Ok(0), Ok(0)));
}
