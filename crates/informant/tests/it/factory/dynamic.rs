//! Kinds that are known at run time.

use informant::{Lazy, SharedInformerFactory, error::RequestError};
use informant_apiserver::{Fault, Kind, On, Verb};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use serde::Deserialize;
use serde_json::json;

use crate::support::servers::{
    Leaks, Logs, client, factory, is_same, keys, server, stop_factory, widget, widget_resource, widgets,
};

#[derive(Deserialize)]
struct Size {
    spec: SizeSpec,
}

#[derive(Deserialize)]
struct SizeSpec {
    size: u32,
}

impl informant::Object for Size {
    fn decode(raw: &informant::RawObject<'_>) -> Result<Self, informant::error::DecodeError> {
        raw.fields()
    }
}

/// FA-01, FA-14
#[tokio::test(start_paused = true)]
async fn a_dynamic_kind_is_available_in_every_object_type() {
    let _logs = Logs::capture();
    let server = server(&[]);
    server.register(widgets());
    server.put("widgets.example.com", widget("w")).unwrap();
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let resource = widget_resource();
    let whole = factory.dynamic(&resource);
    let lazy = factory.request_dynamic::<Lazy<DynamicObject>>(&resource).informer().unwrap();
    let projected = factory.request_dynamic::<Size>(&resource).informer().unwrap();
    let metadata = factory.request_dynamic::<PartialObjectMeta<DynamicObject>>(&resource).informer().unwrap();
    let lazy_metadata =
        factory.request_dynamic::<Lazy<PartialObjectMeta<DynamicObject>>>(&resource).informer().unwrap();
    factory.start();
    factory.synced().await.unwrap();

    let key = "shop/w".parse().unwrap();
    assert_eq!(whole.lister().require(&key).unwrap().data["spec"]["size"], 3);
    assert_eq!(lazy.lister().require(&key).unwrap().get().unwrap().data["spec"]["size"], 3);
    assert_eq!(projected.lister().require(&key).unwrap().spec.size, 3);
    assert_eq!(metadata.lister().require(&key).unwrap().metadata.name.as_deref(), Some("w"));
    assert!(!lazy_metadata.lister().require(&key).unwrap().json().unwrap().contains("spec"));
    let for_metadata = |accept: &str| accept.contains("PartialObjectMetadata");
    assert_eq!(server.requests().iter().filter(|request| for_metadata(&request.accept)).count(), 2);
    stop_factory(&factory, &leaks).await;
}

/// FA-01: metadata that the server cuts and metadata that the client cuts are different requests.
#[tokio::test(start_paused = true)]
async fn metadata_cut_from_whole_objects_has_an_informer_of_its_own() {
    let _logs = Logs::capture();
    let server = server(&["shop/a"]);
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let resource = ApiResource::erase::<ConfigMap>(&());
    let of_whole = factory.request_dynamic::<PartialObjectMeta<ConfigMap>>(&resource).informer().unwrap();
    let metadata = factory.informer::<PartialObjectMeta<ConfigMap>>();
    factory.start();
    metadata.synced().await.unwrap();

    assert!(!is_same(&of_whole, &metadata));
    assert!(server.requests().iter().any(|request| request.accept.contains("PartialObjectMetadata")));
    stop_factory(&factory, &leaks).await;
}

#[tokio::test(start_paused = true)]
async fn discovery_finds_the_version_that_the_server_prefers_and_the_scope() {
    let server = server(&[]);
    server.register(widgets());
    server.register(Kind::new("example.com", "v1", "Planet", "planets").cluster_scoped());
    server.put("widgets.example.com", widget("w")).unwrap();
    server.put("planets.example.com", json!({"metadata": {"name": "mars"}})).unwrap();
    let factory = factory(&server);
    let leaks = Leaks::watch();

    let widgets = factory.discover::<DynamicObject>("example.com", "Widget").await.unwrap().informer().unwrap();
    assert!(is_same(&widgets, &factory.dynamic(&widget_resource())));
    let planets = || factory.discover::<DynamicObject>("example.com", "Planet");
    let nodes = factory.discover::<Lazy<DynamicObject>>("", "Node").await.unwrap().informer().unwrap();
    let error = planets().await.unwrap().in_namespace("shop").informer().unwrap_err();
    assert!(error.to_string().starts_with("Planet is cluster-scoped"), "{error}");
    let planets = planets().await.unwrap().informer().unwrap();
    factory.start();
    factory.synced().await.unwrap();

    assert_eq!(
        (keys(&widgets), keys(&planets), keys(&nodes)),
        (vec!["shop/w".into()], vec!["mars".into()], vec!["n1".into()])
    );
    stop_factory(&factory, &leaks).await;
}

/// A kind that the preferred version does not have is found in another one.
#[tokio::test(start_paused = true)]
async fn discovery_looks_in_all_versions_of_a_group() {
    let server = server(&[]);
    server.register(Kind::new("example.com", "v2", "Gadget", "gadgets"));
    server.register(widgets());
    let factory = factory(&server);

    for (kind, expected) in [("Gadget", "gadgets.example.com"), ("Widget", "widgets.example.com")] {
        let request = factory.discover::<DynamicObject>("example.com", kind).await.unwrap();
        assert_eq!(&**request.informer().unwrap().name(), expected);
    }
}

/// Only discovery shows that nodes are cluster-scoped.
#[tokio::test(start_paused = true)]
async fn discovery_decides_whether_the_factorys_namespace_applies_to_a_dynamic_kind() {
    let server = server(&[]);
    let factory = SharedInformerFactory::builder(client(&server)).in_namespace("shop").unwrap().build();
    let nodes = ApiResource::erase::<Node>(&());

    assert_eq!(factory.dynamic(&nodes).namespace().map(|name| &**name), Some("shop"));
    let discovered = factory.discover::<DynamicObject>("", "Node").await.unwrap().informer().unwrap();
    assert_eq!(discovered.namespace(), None);
}

/// FA-14
#[tokio::test(start_paused = true)]
async fn a_kind_that_the_server_does_not_have_is_not_discovered() {
    let server = server(&[]);
    server.register(widgets());
    let factory = factory(&server);

    for (group, kind) in [("example.com", "Gadget"), ("example.org", "Widget"), ("", "Widget")] {
        let error = factory.discover::<DynamicObject>(group, kind).await.unwrap_err();
        assert!(matches!(error, RequestError::UnknownKind { .. }), "{error:?}");
        let hint = r#"check that it is installed, and its spelling (such as "Pod", not "pods")"#;
        let expected = format!("the server has no kind {kind:?} in group {group:?}; {hint}");
        assert_eq!(error.to_string(), expected);
    }

    server.inject(On::verbs([Verb::Discover]), Fault::status(403));
    let error = factory.discover::<DynamicObject>("example.com", "Widget").await.unwrap_err();
    assert!(matches!(error, RequestError::Discovery { .. }), "{error:?}");
}
