//! Garbage collection in the embedded server: when it happens, in which order, and with calls of the server itself.

use informant_apiserver::{ApiServer, Kind, Load};
use serde_json::{Value, json};

use crate::support::Web;

fn collecting() -> ApiServer {
    ApiServer::builder().garbage_collection().build()
}

fn config_map(name: &str, owners: &[&Value]) -> Value {
    let owners: Vec<_> = owners.iter().map(|owner| reference("v1", "ConfigMap", owner)).collect();
    json!({"metadata": {"namespace": "shop", "name": name, "ownerReferences": owners}})
}

fn reference(api_version: &str, kind: &str, owner: &Value) -> Value {
    let metadata = &owner["metadata"];
    json!({"apiVersion": api_version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"], "blockOwnerDeletion": true})
}

fn names(server: &ApiServer, kind: &str) -> Vec<String> {
    let all = server.list(kind).unwrap();
    all.iter().map(|object| object["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn without_the_option_objects_stay_without_their_owners() {
    let server = ApiServer::new();
    let a = server.put("configmaps", config_map("a", &[])).unwrap();
    server.put("configmaps", config_map("b", &[&a])).unwrap();

    server.delete("configmaps", "shop/a").unwrap();

    assert_eq!(names(&server, "configmaps"), ["b"]);
}

#[tokio::test]
async fn garbage_is_gone_when_a_client_gets_its_response() {
    let server = collecting();
    let a = server.put("configmaps", config_map("a", &[])).unwrap();
    server.put("configmaps", config_map("b", &[&a])).unwrap();
    let web = Web::in_process(&server);

    let deleted = web.delete("/api/v1/namespaces/shop/configmaps/a?propagationPolicy=Foreground").await;

    assert_eq!(
        deleted.body["metadata"]["finalizers"],
        json!(["foregroundDeletion"]),
        "the state before the collection"
    );
    assert_eq!(server.count("configmaps"), Ok(0));
}

#[tokio::test]
async fn dependents_are_deleted_in_the_order_of_their_creation_before_their_own() {
    let server = collecting();
    let a = server.put("configmaps", config_map("a", &[])).unwrap();
    let z = server.put("configmaps", config_map("z", &[&a])).unwrap();
    let y = server.put("configmaps", config_map("y", &[&a])).unwrap();
    server.put("configmaps", config_map("of-y", &[&y])).unwrap();
    server.put("configmaps", config_map("of-z", &[&z])).unwrap();
    let since = format!("resourceVersion={}", server.version());
    let mut watch = Web::in_process(&server).watch("/api/v1/configmaps", &since).await;

    server.delete("configmaps", "shop/a").unwrap();

    assert_eq!(watch.take(5).await, ["DELETED a", "DELETED z", "DELETED y", "DELETED of-z", "DELETED of-y"]);
}

#[tokio::test]
async fn a_foreground_delete_ends_with_the_owner() {
    let server = collecting();
    let a = server.put("configmaps", config_map("a", &[])).unwrap();
    let b = server.put("configmaps", config_map("b", &[&a])).unwrap();
    server.put("configmaps", config_map("c", &[&b])).unwrap();
    let since = format!("resourceVersion={}", server.version());
    let web = Web::in_process(&server);
    let mut watch = web.watch("/api/v1/configmaps", &since).await;

    web.delete("/api/v1/namespaces/shop/configmaps/a?propagationPolicy=Foreground").await;

    assert_eq!(watch.take(5).await, ["MODIFIED a", "MODIFIED b", "DELETED c", "DELETED b", "DELETED a"]);
}

#[tokio::test]
async fn a_delete_by_the_test_does_not_orphan() {
    let server = collecting();
    let job = server.put("jobs", json!({"metadata": {"namespace": "shop", "name": "a"}})).unwrap();
    let mut map = config_map("b", &[]);
    map["metadata"]["ownerReferences"] = json!([reference("batch/v1", "Job", &job)]);
    server.put("configmaps", map).unwrap();

    server.delete("jobs", "shop/a").unwrap();

    assert_eq!((server.count("jobs"), server.count("configmaps")), (Ok(0), Ok(0)));
}

#[tokio::test]
async fn an_object_is_looked_at_again_when_the_kind_of_its_owner_is_served() {
    let server = collecting();
    let mut map = config_map("a", &[]);
    let missing = json!({"metadata": {"name": "w", "uid": "w"}});
    map["metadata"]["ownerReferences"] = json!([reference("example.com/v1", "Widget", &missing)]);
    server.put("configmaps", map).unwrap();
    assert_eq!(server.count("configmaps"), Ok(1));

    server.register(Kind::new("example.com", "v1", "Widget", "widgets"));

    assert_eq!(server.count("configmaps"), Ok(0));
}

#[tokio::test]
async fn an_object_is_looked_at_again_when_another_version_of_its_owners_kind_is_served() {
    let server = collecting();
    let web = Web::in_process(&server);
    let definition = |versions: &[&str]| {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "widgets.example.com"},
            "spec": {
                "group": "example.com",
                "names": {"kind": "Widget", "plural": "widgets"},
                "scope": "Namespaced",
                "versions": versions.iter().map(|version| {
                    json!({"name": version, "served": true, "storage": *version == "v1", "schema": schema})
                }).collect::<Vec<_>>(),
            },
        })
    };
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(web.post(path, &definition(&["v1"])).await.code, 201);
    let missing = json!({"metadata": {"name": "w", "uid": "w"}});
    let mut map = config_map("a", &[]);
    map["metadata"]["ownerReferences"] = json!([reference("example.com/v2", "Widget", &missing)]);
    server.put("configmaps", map).unwrap();
    assert_eq!(server.count("configmaps"), Ok(1));

    let patch = json!({"spec": definition(&["v1", "v2"])["spec"]});
    let patched = web.patch(&format!("{path}/widgets.example.com"), "application/merge-patch+json", &patch).await;

    assert_eq!(patched.code, 200, "{patched:?}");
    assert_eq!(server.count("configmaps"), Ok(0));
}

#[tokio::test]
async fn the_dependents_of_a_kind_go_with_it() {
    let server = collecting();
    server.register(Kind::new("example.com", "v1", "Widget", "widgets"));
    let widget = server.put("widgets", json!({"metadata": {"namespace": "shop", "name": "w"}})).unwrap();
    let mut map = config_map("a", &[]);
    map["metadata"]["ownerReferences"] = json!([reference("example.com/v1", "Widget", &widget)]);
    server.put("configmaps", map).unwrap();

    server.remove_kind("widgets.example.com");

    assert_eq!(server.count("configmaps"), Ok(0));
}

#[tokio::test]
async fn a_namespace_takes_jobs_with_it() {
    let server = collecting();
    server.put("namespaces", json!({"metadata": {"name": "shop"}})).unwrap();
    server.put("jobs", json!({"metadata": {"namespace": "shop", "name": "a"}})).unwrap();

    server.delete("namespaces", "shop").unwrap();

    assert_eq!((server.count("jobs"), server.count("namespaces")), (Ok(0), Ok(0)));
}

#[tokio::test]
async fn a_restored_server_collects_what_it_has_now() {
    let server = collecting();
    let a = server.put("configmaps", config_map("a", &[])).unwrap();
    server.put("configmaps", config_map("b", &[&a])).unwrap();
    let backup = server.backup();
    server.delete("configmaps", "shop/a").unwrap();

    server.restore(&backup);
    assert_eq!(names(&server, "configmaps"), ["a", "b"]);
    server.delete("configmaps", "shop/a").unwrap();

    assert_eq!(server.count("configmaps"), Ok(0));
}

#[tokio::test]
async fn an_object_with_two_views_is_collected_once() {
    let server = collecting();
    let a = server.put("configmaps", config_map("a", &[])).unwrap();
    for (kind, name) in [("horizontalpodautoscalers", "b"), ("events", "c")] {
        let mut object = config_map(name, &[&a]);
        object["spec"] = json!({});
        server.put(kind, object).unwrap();
    }

    server.delete("configmaps", "shop/a").unwrap();

    assert_eq!(server.count("horizontalpodautoscalers"), Ok(0));
    assert_eq!(server.count("events"), Ok(1), "events take no part in garbage collection");
}

#[tokio::test]
async fn the_pods_of_a_load_stay() {
    let server = collecting();

    let mut load = Load::of("pods", 20).fill(&server).await.unwrap();
    (0..20).for_each(|_| load.step().unwrap());

    assert_eq!(server.count("pods"), Ok(load.objects()));
}

/// Random owners, cycles among them, and random deletes: in the end no object has an owner that does not exist.
#[tokio::test]
async fn random_owners_and_deletes_leave_no_garbage() {
    for seed in 0..200 {
        let mut chance = fastrand::Rng::with_seed(seed);
        let server = collecting();
        let web = Web::in_process(&server);
        let mut maps: Vec<Value> = Vec::new();
        for number in 0..12 {
            let owners: Vec<_> = (0..chance.usize(..3)).filter_map(|_| chance.choice(&maps)).cloned().collect();
            let owners: Vec<_> = owners.iter().collect();
            maps.push(server.put("configmaps", config_map(&format!("m{number}"), &owners)).unwrap());
        }
        for _ in 0..4 {
            let (child, owner) = (chance.choice(&maps).unwrap(), chance.choice(&maps).unwrap());
            let name = child["metadata"]["name"].as_str().unwrap();
            if server.get("configmaps", &format!("shop/{name}")).is_ok() && child != owner {
                server.put("configmaps", config_map(name, &[owner])).unwrap();
            }
        }
        for policy in ["Background", "Foreground", "Orphan"] {
            let name = chance.choice(&maps).unwrap()["metadata"]["name"].as_str().unwrap();
            web.delete(&format!("/api/v1/namespaces/shop/configmaps/{name}?propagationPolicy={policy}")).await;
        }

        let left = server.list("configmaps").unwrap();
        let uids: Vec<_> = left.iter().map(|map| &map["metadata"]["uid"]).collect();
        for map in &left {
            assert_eq!(map["metadata"].get("deletionTimestamp"), None, "seed {seed}: {map}");
            let owners = map["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            assert!(owners.clone().all(|owner| uids.contains(&&owner["uid"])), "seed {seed}: {map}");
        }
    }
}

#[tokio::test]
async fn nobody_owns_a_reference_that_the_collector_has_removed() {
    let server = collecting();
    let web = Web::in_process(&server);
    let owner = server.put("configmaps", config_map("a", &[])).unwrap();
    let mut dependent = config_map("b", &[&owner]);
    (dependent["apiVersion"], dependent["kind"]) = (json!("v1"), json!("ConfigMap"));
    server.put("namespaces", json!({"metadata": {"name": "shop"}})).unwrap();
    let maps = "/api/v1/namespaces/shop/configmaps";
    let applied = web.patch(&format!("{maps}/b?fieldManager=one"), "application/apply-patch+yaml", &dependent).await;
    assert!(applied.body["metadata"]["managedFields"].to_string().contains("ownerReferences"), "{applied:?}");

    web.delete_with(&format!("{maps}/a"), &json!({"propagationPolicy": "Orphan"})).await;

    let orphan = web.get(&format!("{maps}/b")).await.body;
    assert_eq!(orphan["metadata"]["ownerReferences"], Value::Null);
    assert!(!orphan["metadata"]["managedFields"].to_string().contains("ownerReferences"), "{orphan}");
}
