//! `KubeSource`: its requests, its scopes, and the object types that it serves.

use informant::{
    Lazy, Object, RawObject,
    error::{DecodeError, RequestError},
    pipeline::{KubeSource, Reflector},
};
use informant_apiserver::{ApiServer, Fault, Kind, On};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::core::{ApiResource, DynamicObject, GroupVersionKind, PartialObjectMeta};
use serde::Deserialize;
use serde_json::json;

use crate::support::reflector::{
    Recorder, Running, backoff_without_jitter, config_map, server_at_10, sleep_seconds, start, wait_until_idle,
};

pub(crate) fn client(server: &ApiServer) -> kube::Client {
    kube::Client::new(server.service(), "default")
}

pub(crate) fn config_maps(server: &ApiServer) -> KubeSource {
    KubeSource::of_kind::<ConfigMap>(client(server))
}

fn run_reflector<O: Object>(source: KubeSource) -> Running<O> {
    let recorder = Recorder::new();
    start(Reflector::builder(source).backoff(backoff_without_jitter()), recorder)
}

fn server() -> ApiServer {
    let server = server_at_10();
    server.put("configmaps", config_map("a", "1")).unwrap();
    server
        .put("configmaps", json!({"metadata": {"namespace": "other", "name": "b", "labels": {"app": "web"}}}))
        .unwrap();
    server
}

#[derive(Deserialize)]
struct Text {
    data: Option<std::collections::BTreeMap<String, String>>,
}

impl Object for Text {
    fn decode(raw: &RawObject<'_>) -> Result<Self, DecodeError> {
        raw.fields()
    }
}

#[tokio::test(start_paused = true)]
async fn a_kube_source_serves_every_object_type() {
    let server = server();

    let running = run_reflector::<ConfigMap>(config_maps(&server));
    running.recorder.wait_until(|_, state| state.len() == 2).await;
    let text = running.recorder.object("shop/a").unwrap().data.clone().unwrap();
    assert_eq!(text["text"], "1");
    running.stop().await;

    let running = run_reflector::<Lazy<ConfigMap>>(config_maps(&server));
    running.recorder.wait_until(|_, state| state.len() == 2).await;
    let object = running.recorder.object("shop/a").unwrap();
    assert_eq!(object.get().unwrap().data.as_ref().unwrap()["text"], "1");
    running.stop().await;

    let running = run_reflector::<Text>(config_maps(&server));
    running.recorder.wait_until(|_, state| state.len() == 2).await;
    let object = running.recorder.object("shop/a").unwrap();
    assert_eq!(object.data.as_ref().unwrap()["text"], "1");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kube_source_serves_dynamic_kinds() {
    let server = ApiServer::new();
    server.register(Kind::new("example.com", "v1", "Widget", "widgets"));
    server
        .put("widgets.example.com", json!({"metadata": {"namespace": "shop", "name": "w"}, "spec": {"size": 3}}))
        .unwrap();
    let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
    let source = KubeSource::dynamic(client(&server), ApiResource::from_gvk_with_plural(&kind, "widgets"));

    let running = run_reflector::<DynamicObject>(source.clone());
    running.recorder.wait_until(|_, state| state.len() == 1).await;
    let object = running.recorder.object("shop/w").unwrap();
    assert_eq!(object.data["spec"]["size"], 3);
    assert_eq!(object.types().kind, "Widget");
    running.stop().await;

    let running = run_reflector::<PartialObjectMeta<DynamicObject>>(source.metadata_only());
    running.recorder.wait_until(|_, state| state.len() == 1).await;
    assert_eq!(running.recorder.object("shop/w").unwrap().types().kind, "PartialObjectMetadata");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_metadata_object_type_requests_only_metadata() {
    let server = server();
    for streams in [true, false] {
        server.clear_requests();
        let recorder = Recorder::<PartialObjectMeta<ConfigMap>>::new();
        let source = KubeSource::of_kind::<PartialObjectMeta<ConfigMap>>(client(&server));
        let mut builder = Reflector::builder(source);
        if !streams {
            builder = builder.without_streaming();
        }
        let running = start(builder, recorder);
        running.recorder.wait_until(|_, state| state.len() == 2).await;
        server.wait_for_watches("configmaps", 1).await;

        for request in server.requests() {
            assert!(request.accept.contains("as=PartialObjectMetadata"), "{}", request.accept);
        }
        running.stop().await;
    }
}

/// RE-24, RE-52. Watches do not allow compression, since servers from 1.37 on may compress each event by itself.
#[tokio::test(start_paused = true)]
async fn list_and_watch_requests_have_the_parameters_that_the_reflector_needs() {
    let server = server();
    let running = run_reflector::<ConfigMap>(config_maps(&server));
    running.recorder.wait_until(|_, state| state.len() == 2).await;
    running.stop().await;
    let recorder = Recorder::<ConfigMap>::new();
    let running = start(Reflector::builder(config_maps(&server)).without_streaming(), recorder);
    server.wait_for_request(|request| request.to_string() == "W(12)").await;
    running.stop().await;

    let requests = server.requests();
    let shown: Vec<_> = requests.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["WL(\"\")", "L(0, 500)", "W(12)"]);
    let [stream, list, watch] = &requests[..] else { panic!("three requests") };
    assert!(
        stream.line.contains("sendInitialEvents=true") && stream.line.contains("resourceVersionMatch=NotOlderThan")
    );
    assert!(
        !watch.line.contains("sendInitialEvents") && !watch.line.contains("resourceVersionMatch"),
        "{}",
        watch.line
    );
    for watch in [stream, watch] {
        assert!(watch.bookmarks && watch.timeout_seconds.is_some());
        assert_eq!((watch.accept.as_str(), watch.accept_encoding.as_str()), ("application/json", "identity"));
    }
    assert_eq!(list.line, "GET /api/v1/configmaps?resourceVersion=0&limit=500");
    assert_eq!(list.accept, "application/json");
}

#[tokio::test(start_paused = true)]
async fn a_kube_source_with_a_namespace_or_selector_requests_only_matching_objects() {
    let server = server();
    let scopes = [
        (config_maps(&server).in_namespace("shop").unwrap(), "shop/a@11"),
        (config_maps(&server).with_labels("app=web,tier!=cache"), "other/b@12"),
        (config_maps(&server).with_fields("metadata.name=a"), "shop/a@11"),
    ];
    for (source, expected) in scopes {
        for streams in [true, false] {
            let recorder = Recorder::<ConfigMap>::new();
            let mut builder = Reflector::builder(source.clone());
            if !streams {
                builder = builder.without_streaming();
            }
            let running = start(builder, recorder);
            running.recorder.wait_until(|lines, _| !lines.is_empty()).await;
            assert_eq!(running.recorder.state(), [expected]);
            running.stop().await;
        }
    }
}

#[test]
fn a_namespace_for_a_cluster_scoped_kind_is_an_error() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _guard = runtime.enter();
    let server = ApiServer::new();
    let nodes = KubeSource::of_kind::<Node>(client(&server));
    let error = nodes.clone().in_namespace("shop").unwrap_err();
    assert_eq!(
        error.to_string(),
        "Node is cluster-scoped: it cannot be watched in namespace \"shop\"; leave the namespace out"
    );
    let metadata = KubeSource::of_kind::<PartialObjectMeta<Node>>(client(&server));
    assert!(metadata.in_namespace("shop").is_err());

    let resource = ApiResource::erase::<Node>(&());
    let dynamic = KubeSource::dynamic(client(&server), resource).scoped(&kube::discovery::Scope::Cluster);
    assert!(matches!(dynamic.in_namespace("shop"), Err(RequestError::ClusterScoped { .. })));

    let pods = KubeSource::of_kind::<Pod>(client(&server));
    for odd in ["", "a/b", "../nodes", "a b", "a?watch=false"] {
        assert!(matches!(pods.clone().in_namespace(odd), Err(RequestError::BadNamespace { .. })), "{odd:?}");
    }
    assert!(pods.in_namespace("kube-system").is_ok());
}

/// Discovery must confirm a 404, after a delay, before the objects are deleted.
#[tokio::test(start_paused = true)]
async fn the_objects_of_a_kind_are_deleted_once_discovery_confirms_that_it_is_gone() {
    let server = server_at_10();
    let widget = || Kind::new("example.com", "v1", "Widget", "widgets");
    server.register(widget());
    server.put("widgets.example.com", json!({"metadata": {"namespace": "shop", "name": "w"}})).unwrap();
    let kind = GroupVersionKind::gvk("example.com", "v1", "Widget");
    let source = KubeSource::dynamic(client(&server), ApiResource::from_gvk_with_plural(&kind, "widgets"));
    // The watch delivers nothing after the list, so that the reflector receives no delete events.
    server.inject(On::watch().once(), Fault::freeze_after_events(2));
    let running = run_reflector::<DynamicObject>(source);
    running.recorder.wait_until(|_, state| state.len() == 1).await;

    server.remove_kind("widgets.example.com");
    running.recorder.wait_until(|_, state| state.is_empty()).await;
    wait_until_idle().await;
    assert_eq!(running.lines(), ["Replaced@11 [shop/w@11]", "Replaced@11 []"]);
    assert!(running.handle.status().is_gone);
    let requests = server.requests();
    let discovery = requests.iter().position(|request| request.line == "GET /apis/example.com/v1").unwrap();
    assert!(requests[discovery].at > requests[discovery - 1].at, "the discovery request has a delay");
    sleep_seconds(300.0).await;
    let count = |word: &str| server.requests().iter().filter(|request| request.line.ends_with(word)).count();
    assert_eq!(count("GET /apis/example.com/v1"), 1, "the reflector sends one discovery request");

    server.register(widget());
    server.put("widgets.example.com", json!({"metadata": {"namespace": "shop", "name": "x"}})).unwrap();
    running.recorder.wait_until(|_, state| state.len() == 1).await;
    assert!(!running.handle.status().is_gone, "the kind is served again");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_404_of_a_kind_that_discovery_lists_deletes_no_objects() {
    let server = server();
    let running = run_reflector::<ConfigMap>(config_maps(&server));
    running.recorder.wait_until(|_, state| state.len() == 2).await;
    let before = running.lines();

    server.inject(On::any().of("configmaps").times(6), Fault::status(404));
    server.inject(On::watch().of("configmaps").once(), Fault::status(404));
    sleep_seconds(1000.0).await;
    assert_eq!(running.recorder.state().len(), 2);
    assert!(running.lines().iter().skip(before.len()).all(|line| !line.ends_with("[]")), "{:?}", running.lines());
    assert!(!running.handle.status().is_gone);
    running.stop().await;
}
