//! The server with the clients of `kube`: `kube::Api` and `kube::runtime::watcher`.

use std::{collections::BTreeMap, pin::pin};

use futures_util::{Stream, StreamExt, TryStreamExt};
use informant_apiserver::{ApiServer, Fault, Kind, On};
use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace, Pod},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, CustomResource, ResourceExt,
    api::{
        DeleteParams, ListParams, ObjectMeta, PartialObjectMeta, Patch, PatchParams, PostParams, WatchEvent,
        WatchParams,
    },
    core::{DynamicObject, GroupVersionKind},
    discovery,
    runtime::{
        WatchStreamExt,
        wait::{Condition, conditions},
        watcher,
        watcher::Event,
    },
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::support::both_ways;

async fn in_process(promise: impl AsyncFnOnce(Client, ApiServer)) {
    let server = ApiServer::builder().allow_missing_namespaces().build();
    promise(server.client(), server).await;
}

async fn through_a_socket(promise: impl AsyncFnOnce(Client, ApiServer)) {
    let server = ApiServer::builder().allow_missing_namespaces().build();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
    let client = Client::try_from(kube::Config::new(listening.url().parse().unwrap())).unwrap();
    promise(client, server).await;
    listening.stop().await;
}

both_ways! {
    an_api_creates_reads_updates_and_deletes
    an_api_lists_pages_and_metadata
    an_api_watches
    discovery_finds_a_custom_kind
    a_watcher_that_lists_follows
    a_watcher_that_streams_follows
    a_watcher_recovers_from_faults
}

#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Fleet", namespaced, status = "FleetStatus", shortname = "fl")]
#[kube(selectable = ".spec.harbour")]
struct FleetSpec {
    harbour: String,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
struct FleetStatus {
    ships: u32,
}

#[tokio::test]
async fn a_type_with_the_derive_of_kube_is_served_from_the_start() {
    let server = ApiServer::builder().crd::<Fleet>().unwrap().build();
    let fleets: Api<Fleet> = Api::default_namespaced(server.client());

    for (name, harbour) in [("north", "oslo"), ("south", "genoa")] {
        fleets.create(&PostParams::default(), &Fleet::new(name, FleetSpec { harbour: harbour.into() })).await.unwrap();
    }
    let status = json!({"status": {"ships": 3}});
    fleets.patch_status("north", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();

    let stored = server.get("fleets", "default/north").unwrap();
    assert_eq!(stored["status"]["ships"], 3, "the default namespace of the client is `default`");
    let in_genoa = fleets.list(&ListParams::default().fields("spec.harbour=genoa")).await.unwrap();
    assert_eq!(in_genoa.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), ["south"]);
    let definitions: Api<CustomResourceDefinition> = Api::all(server.client());
    let definition = definitions.get("fleets.example.com").await.unwrap();
    assert!(conditions::is_crd_established().matches_object(Some(&definition)), "{definition:?}");
}

#[tokio::test]
async fn a_server_without_built_in_kinds_serves_what_is_defined() {
    let server = ApiServer::builder().without_built_in_kinds().crd::<Fleet>().unwrap().build();

    let mut kinds: Vec<_> = server.kinds().iter().map(Kind::resource).collect();

    kinds.sort();
    assert_eq!(kinds, ["customresourcedefinitions.apiextensions.k8s.io", "fleets.example.com"]);
}

#[test]
fn the_same_definition_twice_is_an_error() {
    let again = ApiServer::builder().crd::<Fleet>().unwrap().crd::<Fleet>().unwrap_err();

    assert_eq!(
        again.to_string(),
        "customresourcedefinitions.apiextensions.k8s.io \"fleets.example.com\" already exists"
    );
}

/// Kubernetes supports no schema for this type: `size` is a number or a string.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "example.com", version = "v1", kind = "Ship")]
struct ShipSpec {
    cargo: Cargo,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "type")]
enum Cargo {
    Bulk { size: u32 },
    Boxed { size: String },
}

#[tokio::test]
async fn objects_are_checked_by_the_schema_of_the_derive() {
    let server = ApiServer::builder().crd::<Fleet>().unwrap().build();
    let kind = kube::api::ApiResource::erase::<Fleet>(&());
    let fleets: Api<DynamicObject> = Api::default_namespaced_with(server.client(), &kind);
    let fleet = |name: &str, spec: serde_json::Value| DynamicObject::new(name, &kind).data(json!({ "spec": spec }));
    let create = async |name: &str, spec| fleets.create(&PostParams::default(), &fleet(name, spec)).await;

    let missing = create("north", json!({})).await.unwrap_err().to_string();
    assert!(missing.contains("spec.harbour: Required value"), "{missing}");
    let wrong = create("north", json!({"harbour": 5})).await.unwrap_err().to_string();
    assert!(wrong.contains("spec.harbour in body must be of type string"), "{wrong}");
    let stored = create("north", json!({"harbour": "oslo", "ships": 3})).await.unwrap();
    assert_eq!(stored.data["spec"], json!({"harbour": "oslo"}));
    let put = json!({"metadata": {"namespace": "default", "name": "south"}, "spec": {"harbour": 5, "ships": 3}});
    assert_eq!(server.put("fleets", put).unwrap()["spec"], json!({"harbour": 5}), "a test may store what is invalid");
}

#[test]
fn a_type_for_which_kube_cannot_generate_a_definition_is_an_error() {
    let error = ApiServer::builder().crd::<Ship>().unwrap_err().to_string();

    assert!(error.starts_with("kube cannot generate the custom resource definition of "), "{error}");
    assert!(error.contains("::Ship: Property \"size\" has the schema"), "{error}");
}

#[tokio::test]
async fn a_kind_can_be_that_of_any_rust_type() {
    let server = ApiServer::builder().without_built_in_kinds().build();
    for kind in [Kind::of::<Fleet>().with_status(), Kind::of::<Ship>(), Kind::of::<ConfigMap>()] {
        server.register(kind);
    }
    let fleets: Api<Fleet> = Api::default_namespaced(server.client());
    let ships: Api<Ship> = Api::all(server.client());

    fleets.create(&PostParams::default(), &Fleet::new("north", FleetSpec { harbour: "oslo".into() })).await.unwrap();
    let ship = ShipSpec { cargo: Cargo::Bulk { size: 3 } };
    ships.create(&PostParams::default(), &Ship::new("maria", ship)).await.unwrap();

    let status = json!({"status": {"ships": 3}});
    fleets.patch_status("north", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    assert_eq!(server.get("fleets", "default/north").unwrap()["status"]["ships"], 3);
    assert_eq!(server.count("ships").unwrap(), 1, "the kind is cluster-scoped, as its type is");
    let built_in = ApiServer::new().kinds().into_iter().find(|kind| kind.kind() == "ConfigMap");
    assert_eq!(Some(Kind::of::<ConfigMap>()), built_in);
}

fn config_map(name: &str, colour: &str) -> ConfigMap {
    ConfigMap {
        metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([("colour".into(), colour.into())])),
        ..ConfigMap::default()
    }
}

async fn an_api_creates_reads_updates_and_deletes(client: Client, _: ApiServer) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "shop");
    let pod = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "web"}]}});
    let post = PostParams::default();

    let created = pods.create(&post, &serde_json::from_value(pod).unwrap()).await.unwrap();
    assert_eq!((created.namespace().as_deref(), created.metadata.generation), (Some("shop"), Some(1)));
    let mut changed = pods.get("web").await.unwrap();
    assert_eq!(changed, created);
    changed.labels_mut().insert("tier".into(), "front".into());
    let replaced = pods.replace("web", &post, &changed).await.unwrap();
    assert_eq!(replaced.labels()["tier"], "front");
    let stale = pods.replace("web", &post, &created).await.unwrap_err();
    assert!(matches!(stale, kube::Error::Api(status) if status.is_conflict()));
    let mut running = replaced;
    running.status.get_or_insert_default().phase = Some("Running".into());
    let running = pods.replace_status("web", &post, &running).await.unwrap();
    assert_eq!(pods.get_status("web").await.unwrap().status, running.status);

    let deleted = pods.delete("web", &DeleteParams::default()).await.unwrap();
    assert_eq!(deleted.left().unwrap().name_any(), "web", "the response to the delete is the pod");
    assert!(pods.get_opt("web").await.unwrap().is_none());
    let namespaces: Api<Namespace> = Api::all(client);
    namespaces.create(&post, &serde_json::from_value(json!({"metadata": {"name": "shop"}})).unwrap()).await.unwrap();
    assert_eq!(namespaces.list(&ListParams::default()).await.unwrap().items.len(), 1);
}

async fn an_api_lists_pages_and_metadata(client: Client, server: ApiServer) {
    let maps: Api<ConfigMap> = Api::namespaced(client, "shop");
    for number in 0..10 {
        let mut map = config_map(&format!("map-{number}"), "red");
        map.labels_mut().insert("even".into(), (number % 2 == 0).to_string());
        maps.create(&PostParams::default(), &map).await.unwrap();
    }

    let mut names = Vec::new();
    let mut params = ListParams::default().limit(3);
    loop {
        let page = maps.list(&params).await.unwrap();
        names.extend(page.items.iter().map(ResourceExt::name_any));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(names, (0..10).map(|number| format!("map-{number}")).collect::<Vec<_>>());
    assert_eq!(maps.list(&ListParams::default().labels("even=true")).await.unwrap().items.len(), 5);
    let metadata = maps.list_metadata(&ListParams::default().labels("even=true")).await.unwrap();
    assert_eq!(metadata.items[1].name_any(), "map-2");
    assert_eq!(maps.get_metadata("map-3").await.unwrap().labels()["even"], "false");
    let deleted = maps.delete_collection(&DeleteParams::default(), &ListParams::default().labels("even=true")).await;
    assert_eq!(deleted.unwrap().left().unwrap().items.len(), 5);
    assert_eq!(server.list("configmaps").unwrap().len(), 5);
}

async fn an_api_watches(client: Client, _: ApiServer) {
    let maps: Api<ConfigMap> = Api::namespaced(client, "shop");
    let post = PostParams::default();
    let version = maps.create(&post, &config_map("a", "red")).await.unwrap().resource_version().unwrap();
    let params = WatchParams::default();
    let mut whole = pin!(maps.watch(&params, &version).await.unwrap());
    let mut partial = pin!(maps.watch_metadata(&params, &version).await.unwrap());

    maps.create(&post, &config_map("b", "red")).await.unwrap();
    maps.replace("b", &post, &config_map("b", "blue")).await.unwrap();
    maps.delete("b", &DeleteParams::default()).await.unwrap();

    assert!(matches!(whole.try_next().await.unwrap(), Some(WatchEvent::Added(map)) if map.name_any() == "b"));
    assert!(matches!(whole.try_next().await.unwrap(), Some(WatchEvent::Modified(map))
        if map.data.as_ref().unwrap()["colour"] == "blue"));
    assert!(matches!(whole.try_next().await.unwrap(), Some(WatchEvent::Deleted(_))));
    let first: Option<WatchEvent<PartialObjectMeta<ConfigMap>>> = partial.try_next().await.unwrap();
    assert!(matches!(first, Some(WatchEvent::Added(map)) if map.name_any() == "b"));
}

async fn discovery_finds_a_custom_kind(client: Client, server: ApiServer) {
    server.register(Kind::new("example.com", "v1", "Widget", "widgets").cluster_scoped());

    let gvk = GroupVersionKind::gvk("example.com", "v1", "Widget");
    let (resource, capabilities) = discovery::pinned_kind(&client, &gvk).await.unwrap();
    assert_eq!((&*resource.plural, capabilities.scope), ("widgets", discovery::Scope::Cluster));
    let widgets: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let widget = DynamicObject::new("x", &resource).data(json!({"spec": {"size": 3}}));
    widgets.create(&PostParams::default(), &widget).await.unwrap();
    assert_eq!(widgets.get("x").await.unwrap().data["spec"]["size"], 3);

    let all = discovery::Discovery::new(client.clone()).run().await.unwrap();
    assert!(all.get("apps").is_some() && all.get("example.com").is_some());
    assert!(client.apiserver_version().await.unwrap().git_version.starts_with('v'));
}

/// The events of a watcher, shortened, up to the first wanted one.
async fn until(
    events: &mut (impl Stream<Item = watcher::Result<Event<ConfigMap>>> + Unpin),
    wanted: &str,
) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        let event = match events.next().await.expect("a watcher does not end") {
            Ok(Event::Init) => "init".into(),
            Ok(Event::InitApply(map)) => format!("init {}", map.name_any()),
            Ok(Event::InitDone) => "done".into(),
            Ok(Event::Apply(map)) => format!("apply {}", map.name_any()),
            Ok(Event::Delete(map)) => format!("delete {}", map.name_any()),
            Err(_) => "error".into(),
        };
        seen.push(event);
        if seen.last().is_some_and(|last| last == wanted) {
            return seen;
        }
    }
}

async fn follow(client: Client, server: &ApiServer, config: watcher::Config) {
    let maps: Api<ConfigMap> = Api::namespaced(client, "shop");
    let post = PostParams::default();
    for name in ["a", "b"] {
        maps.create(&post, &config_map(name, "red")).await.unwrap();
    }
    let mut events = pin!(watcher(maps.clone(), config).default_backoff());

    assert_eq!(until(&mut events, "done").await, ["init", "init a", "init b", "done"]);
    maps.create(&post, &config_map("c", "red")).await.unwrap();
    maps.replace("a", &post, &config_map("a", "blue")).await.unwrap();
    maps.delete("b", &DeleteParams::default()).await.unwrap();
    assert_eq!(until(&mut events, "delete b").await, ["apply c", "apply a", "delete b"]);
    assert_eq!(server.open_watches("configmaps"), 1);
}

async fn a_watcher_that_lists_follows(client: Client, server: ApiServer) {
    follow(client, &server, watcher::Config::default()).await;

    assert_eq!(server.requests_for("configmaps")[2], "L(\"\", 500)");
}

async fn a_watcher_that_streams_follows(client: Client, server: ApiServer) {
    follow(client, &server, watcher::Config::default().streaming_lists()).await;

    assert!(server.requests_for("configmaps")[2].starts_with("WL("), "{:?}", server.requests_for("configmaps"));
}

#[tokio::test(start_paused = true)]
async fn a_watcher_works_while_the_clock_is_paused() {
    let server = ApiServer::builder().allow_missing_namespaces().build();
    let client = Client::new(server.service(), "default");
    server.inject(On::list().times(3), Fault::status(503));
    server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "a"}})).unwrap();
    let began = tokio::time::Instant::now();
    let mut events = pin!(watcher(Api::<ConfigMap>::all(client), watcher::Config::default()).default_backoff());

    assert_eq!(
        until(&mut events, "done").await,
        ["init", "error", "init", "error", "init", "error", "init", "init a", "done"]
    );
    assert!(began.elapsed() > std::time::Duration::from_secs(1), "its backoff took no real time");
}

async fn a_watcher_recovers_from_faults(client: Client, server: ApiServer) {
    let put = |name: &str| {
        let object = json!({"metadata": {"namespace": "shop", "name": name}});
        server.put("configmaps", object).unwrap();
    };
    put("a");
    server.inject(On::list().once(), Fault::status(500));
    server.inject(On::watch().once(), Fault::cut_after_events(1));
    server.inject(On::watch().skip(1).once(), Fault::ErrorEvent { code: 410, after: 0 });
    let maps: Api<ConfigMap> = Api::all(client);
    let mut events = pin!(watcher(maps, watcher::Config::default()).default_backoff());

    let seen = until(&mut events, "done").await;
    assert!(seen.ends_with(&["init".into(), "init a".into(), "done".into()]), "{seen:?}");
    put("b");
    until(&mut events, "apply b").await;
    // The watch is cut and the next one fails with 410, so the watcher lists again.
    let relisted = until(&mut events, "done").await;
    assert!(relisted.ends_with(&["init a".into(), "init b".into(), "done".into()]), "{relisted:?}");
    put("c");
    until(&mut events, "apply c").await;
}

#[tokio::test]
async fn a_client_applies_fields_to_an_object_that_the_test_stored() {
    let server = ApiServer::new();
    server
        .put("configmaps", json!({"metadata": {"namespace": "shop", "name": "hours"}, "data": {"lunch": "12"}}))
        .unwrap();
    let configs: Api<ConfigMap> = Api::namespaced(server.client(), "shop");
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"open": "9-17"}});

    let applied = configs.patch("hours", &PatchParams::apply("test"), &Patch::Apply(&config)).await.unwrap();

    assert_eq!(json!(applied.data), json!({"lunch": "12", "open": "9-17"}));
    let managers: Vec<_> =
        applied.metadata.managed_fields.into_iter().flatten().filter_map(|entry| entry.manager).collect();
    assert_eq!(managers, ["test", "before-first-apply"], "what the test stored belonged to nobody");
}

#[tokio::test]
async fn a_server_without_managed_fields_still_applies() {
    let server = ApiServer::builder().without_managed_fields().build();
    let configs: Api<ConfigMap> = Api::default_namespaced(server.client());
    let config = |data: serde_json::Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hours"}, "data": data});

    for (manager, data) in
        [("one", json!({"a": "1", "b": "1"})), ("two", json!({"b": "2"})), ("one", json!({"c": "3"}))]
    {
        configs.patch("hours", &PatchParams::apply(manager), &Patch::Apply(&config(data))).await.unwrap();
    }

    let stored = server.get("configmaps", "default/hours").unwrap();
    assert_eq!(stored["data"], json!({"a": "1", "b": "2", "c": "3"}), "no conflicts, nothing is removed");
    assert_eq!(stored["metadata"].get("managedFields"), None);
}

#[tokio::test]
async fn a_forbidden_request_is_answered_with_status_403() {
    let server = ApiServer::new();
    server.inject(On::list().of("configmaps"), Fault::forbidden());
    let configs: Api<ConfigMap> = Api::all(server.client());

    let error = configs.list(&ListParams::default()).await.unwrap_err();

    assert!(matches!(&error, kube::Error::Api(status) if status.code == 403), "{error:?}");
    assert!(error.to_string().contains("no permission"), "{error}");
}
