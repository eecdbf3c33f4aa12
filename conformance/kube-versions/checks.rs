//! What an operator does with its client: create, list, watch, patch, finalizers, status, errors, discovery.
//!
//! The parent module names the version of kube and of k8s-openapi.

use std::{sync::Arc, time::Duration};

use futures_util::{StreamExt, TryStreamExt};
use informant_apiserver::{ApiServer, Kind};
use serde_json::json;

use super::{
    k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap},
    kube::{
        Api, Client, Config, Discovery, Error, ResourceExt,
        api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
        runtime::{
            controller::Action,
            finalizer::{Event as FinalizerEvent, finalizer},
            watcher,
            watcher::Event,
        },
    },
};

#[tokio::test]
async fn in_process() {
    let server = server();
    check_all(Client::new(server.service(), "default"), &server).await;
}

#[tokio::test]
async fn over_http() {
    let server = server();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
    let client = Client::try_from(Config::new(listening.url().parse().unwrap())).unwrap();
    check_all(client, &server).await;
    listening.stop().await;
}

fn server() -> ApiServer {
    let server = ApiServer::new();
    server.register(Kind::new("example.com", "v1", "Fleet", "fleets").with_status());
    server
}

async fn check_all(client: Client, server: &ApiServer) {
    objects_are_created_listed_and_patched(client.clone()).await;
    a_watcher_follows_changes(client.clone()).await;
    a_finalizer_is_added_and_removed(client.clone(), server).await;
    a_status_is_written(client.clone()).await;
    a_custom_object_has_a_status(client.clone()).await;
    errors_have_a_code_and_a_reason(client.clone()).await;
    discovery_finds_a_custom_kind(client).await;
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"colour": "red"}})).unwrap()
}

async fn objects_are_created_listed_and_patched(client: Client) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    for name in ["a", "b", "c"] {
        maps.create(&PostParams::default(), &config_map(name)).await.unwrap();
    }

    let page = maps.list(&ListParams::default().limit(2)).await.unwrap();
    assert_eq!((page.items.len(), page.metadata.remaining_item_count), (2, Some(1)));
    let patch = json!({"data": {"colour": "blue"}});
    let merged = maps.patch("a", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
    assert_eq!(merged.data.unwrap()["colour"], "blue");
    let patch = json!({"metadata": {"labels": {"x": "y"}}});
    let strategic = maps.patch("a", &PatchParams::default(), &Patch::Strategic(&patch)).await.unwrap();
    assert_eq!(strategic.labels()["x"], "y");
    let mut changed = maps.get("a").await.unwrap();
    changed.data = None;
    assert_eq!(maps.replace("a", &PostParams::default(), &changed).await.unwrap().data, None);
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    maps.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    assert!(maps.list_metadata(&ListParams::default()).await.unwrap().items.is_empty());
}

async fn a_watcher_follows_changes(client: Client) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    for config in [watcher::Config::default(), watcher::Config::default().streaming_lists()] {
        let mut events = watcher(maps.clone(), config).boxed();
        let mut seen = Vec::new();
        while seen.len() < 2 {
            match events.try_next().await.unwrap().unwrap() {
                Event::InitApply(map) => {
                    seen.push(map.name_any());
                }
                Event::InitDone => {
                    maps.create(&PostParams::default(), &config_map("b")).await.unwrap();
                }
                Event::Apply(map) => seen.push(map.name_any()),
                Event::Init | Event::Delete(_) => {}
            }
        }
        assert_eq!(seen, ["a", "b"]);
        maps.delete("b", &DeleteParams::default()).await.unwrap();
    }
    maps.delete("a", &DeleteParams::default()).await.unwrap();
}

const FINALIZER: &str = "example.com/cleanup";

async fn a_finalizer_is_added_and_removed(client: Client, server: &ApiServer) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let reconcile = async |expected: &'static str| {
        let map = Arc::new(maps.get("f").await.unwrap());
        let event = async |event| {
            let found = match event {
                FinalizerEvent::Apply(_) => "apply",
                FinalizerEvent::Cleanup(_) => "cleanup",
            };
            assert_eq!(found, expected);
            Ok::<_, Error>(Action::requeue(Duration::from_secs(60)))
        };
        finalizer(&maps, FINALIZER, map, event).await.unwrap();
    };
    maps.create(&PostParams::default(), &config_map("f")).await.unwrap();

    reconcile("apply").await; // adds the finalizer
    assert_eq!(maps.get("f").await.unwrap().finalizers(), [FINALIZER]);
    reconcile("apply").await;
    let waiting = maps.delete("f", &DeleteParams::default()).await.unwrap();
    assert!(waiting.left().unwrap().metadata.deletion_timestamp.is_some());
    reconcile("cleanup").await;

    assert!(server.get("configmaps", "default/f").is_err());
}

async fn a_status_is_written(client: Client) {
    let deployments: Api<Deployment> = Api::default_namespaced(client);
    let pod = json!({"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [{"name": "a", "image": "a"}]}});
    let spec = json!({"replicas": 1, "selector": {"matchLabels": {"app": "a"}}, "template": pod});
    let deployment = serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap();
    deployments.create(&PostParams::default(), &deployment).await.unwrap();

    let patch = Patch::Merge(json!({"status": {"readyReplicas": 1}, "spec": {"replicas": 7}}));
    deployments.patch_status("a", &PatchParams::default(), &patch).await.unwrap();

    let found = deployments.get_status("a").await.unwrap();
    assert_eq!((found.status.unwrap().ready_replicas, found.spec.unwrap().replicas), (Some(1), Some(1)));
    let scale = Patch::Merge(json!({"spec": {"replicas": 3}}));
    deployments.patch_scale("a", &PatchParams::default(), &scale).await.unwrap();
    assert_eq!(deployments.get_scale("a").await.unwrap().spec.unwrap().replicas, Some(3));
    deployments.delete("a", &DeleteParams::default()).await.unwrap();
}

async fn a_custom_object_has_a_status(client: Client) {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Fleet"));
    let fleets: Api<DynamicObject> = Api::default_namespaced_with(client, &kind);
    let fleet = DynamicObject::new("blue", &kind).data(json!({"spec": {"ships": 3}}));
    fleets.create(&PostParams::default(), &fleet).await.unwrap();

    let patch = Patch::Merge(json!({"status": {"ready": 3}}));
    let patched = fleets.patch_status("blue", &PatchParams::default(), &patch).await.unwrap();

    assert_eq!((&patched.data["status"]["ready"], &patched.data["spec"]["ships"]), (&json!(3), &json!(3)));
    fleets.delete("blue", &DeleteParams::default()).await.unwrap();
}

async fn errors_have_a_code_and_a_reason(client: Client) {
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let reason = |error: Error| match error {
        Error::Api(status) => (status.code, status.reason.clone()),
        other => panic!("{other}"),
    };

    assert_eq!(reason(maps.get("none").await.unwrap_err()), (404, "NotFound".into()));
    let created = maps.create(&PostParams::default(), &config_map("e")).await.unwrap();
    let again = maps.create(&PostParams::default(), &config_map("e")).await.unwrap_err();
    assert_eq!(reason(again), (409, "AlreadyExists".into()));
    maps.patch("e", &PatchParams::default(), &Patch::Merge(json!({"data": {"x": "y"}}))).await.unwrap();
    let stale = maps.replace("e", &PostParams::default(), &created).await.unwrap_err();
    assert_eq!(reason(stale), (409, "Conflict".into()));
    maps.delete("e", &DeleteParams::default()).await.unwrap();
}

async fn discovery_finds_a_custom_kind(client: Client) {
    let discovery = Discovery::new(client).run().await.unwrap();

    let (kind, _) = discovery.resolve_gvk(&GroupVersionKind::gvk("example.com", "v1", "Fleet")).unwrap();
    assert_eq!(kind.plural, "fleets");
}
