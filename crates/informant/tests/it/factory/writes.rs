//! `wait_for_write` refuses an object that the informer cannot see.

use std::sync::Arc;

use futures_util::FutureExt;
use informant::{
    Key, SharedInformer,
    error::{ScopeMismatch, SourceError, WaitError},
    pipeline::{ListPiece, ListRequest, ListStream, ListWatch, WatchRequest, WatchStream},
};
use informant_apiserver::ApiServer;
use k8s_openapi::api::{
    autoscaling::{v1, v2},
    core::v1::{ConfigMap, Pod},
};
use kube::core::{ApiResource, DynamicObject, PartialObjectMeta};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::support::servers::{
    LONG, Leaks, SECOND, config, factory, server, stop_factory, three_namespaces, two_namespaces, widget,
    widget_resource, widgets,
};

/// Writes an object and returns the server's answer.
fn write<K: DeserializeOwned>(server: &ApiServer, resource: &str, object: Value) -> K {
    serde_json::from_value(server.put(resource, object).unwrap()).unwrap()
}

/// The reason of an error of a wait that ended at once.
fn refusal<T>(waited: Option<Result<T, WaitError>>) -> ScopeMismatch {
    let error = waited.expect("at once").err().expect("an error");
    let WaitError::OutsideScope { reason, .. } = error else { panic!("{error}") };
    reason
}

/// Decision 13
#[tokio::test(start_paused = true)]
async fn wait_for_write_refuses_an_object_of_another_kind_at_once() {
    let server = server(&["shop/a"]);
    server.register(widgets());
    let (factory, leaks) = (factory(&server), Leaks::watch());
    let configs = factory.informer::<ConfigMap>();
    let metadata = factory.informer::<PartialObjectMeta<ConfigMap>>();
    let dynamic = factory.dynamic(&ApiResource::erase::<ConfigMap>(&()));
    let widgets = factory.dynamic(&widget_resource());
    factory.start();
    factory.synced().await.unwrap();
    let pod = json!({"metadata": {"namespace": "shop", "name": "a"}});
    let pod: Pod = write(&server, "pods", pod);
    let config: DynamicObject = write(&server, "configmaps", config("shop/b"));

    let error = configs.wait_for_write(&pod, LONG).now_or_never().expect("at once").unwrap_err();
    assert_eq!(
        error.to_string(),
        "informer configmaps will not see shop/a: the object is a Pod, and the informer has objects of kind ConfigMap"
    );
    let kinds = |informer: &str, object: &str| ScopeMismatch::Kind { informer: informer.into(), object: object.into() };
    assert_eq!(refusal(metadata.wait_for_write(&pod, LONG).now_or_never()), kinds("ConfigMap", "Pod"));
    assert_eq!(refusal(dynamic.wait_for_write(&pod, LONG).now_or_never()), kinds("ConfigMap", "Pod"));
    assert_eq!(refusal(widgets.wait_for_write(&config, LONG).now_or_never()), kinds("Widget.example.com", "ConfigMap"));

    // Each of them has the config map, whatever type the caller holds it in.
    let metadata_of_config = PartialObjectMeta::<ConfigMap> { metadata: config.metadata.clone(), ..Default::default() };
    assert!(configs.wait_for_write(&config, LONG).await.unwrap().is_some());
    assert!(configs.wait_for_write(&metadata_of_config, LONG).await.unwrap().is_some());
    assert!(metadata.wait_for_write(&config, LONG).await.unwrap().is_some());
    assert!(dynamic.wait_for_write(&metadata_of_config, LONG).await.unwrap().is_some());
    let widget: DynamicObject = write(&server, "widgets", widget("w"));
    assert!(widgets.wait_for_write(&widget, LONG).await.unwrap().is_some());
    stop_factory(&factory, &leaks).await;
}

/// Decision 13: an object has one resourceVersion in all API versions of its group.
#[tokio::test(start_paused = true)]
async fn wait_for_write_accepts_an_object_that_was_written_in_another_api_version() {
    let server = server(&[]);
    let (factory, leaks) = (factory(&server), Leaks::watch());
    let scalers = factory.informer::<v2::HorizontalPodAutoscaler>();
    factory.start();
    let written = json!({"metadata": {"namespace": "shop", "name": "a", "resourceVersion": "99"}});
    let written: v1::HorizontalPodAutoscaler = serde_json::from_value(written).unwrap();

    let error = scalers.wait_for_write(&written, SECOND).await.unwrap_err();

    assert!(matches!(error, WaitError::TimedOut { .. }), "{error}");
    stop_factory(&factory, &leaks).await;
}

/// Decision 13
#[tokio::test(start_paused = true)]
async fn wait_for_write_refuses_an_object_of_another_namespace_at_once() {
    let server = three_namespaces();
    let (factory, view, leaks) = two_namespaces(&server).await;
    let in_shop = factory.request::<ConfigMap>().in_namespace("shop").informer().unwrap();
    let at_home: ConfigMap = write(&server, "configmaps", config("home/new"));
    let version = at_home.metadata.resource_version.as_deref().unwrap().into();

    let error = in_shop.wait_for_write(&at_home, LONG).now_or_never().expect("at once").unwrap_err();
    assert_eq!(
        error.to_string(),
        "informer configmaps in shop will not see home/new: the informer has only objects of namespace shop"
    );
    let waited = in_shop.wait_for(&"home/new".parse().unwrap(), &version, LONG).now_or_never();
    assert_eq!(refusal(waited), ScopeMismatch::Namespace { informer: "shop".into() });
    let error = view.wait_for_write(&at_home, LONG).now_or_never().expect("at once").unwrap_err();
    assert!(matches!(error, WaitError::OutsideView { .. }), "{error}");
    let pod: Pod = write(&server, "pods", json!({"metadata": {"namespace": "shop", "name": "a"}}));
    assert!(matches!(refusal(view.wait_for_write(&pod, LONG).now_or_never()), ScopeMismatch::Kind { .. }));
    stop_factory(&factory, &leaks).await;
}

/// Decision 13
#[tokio::test(start_paused = true)]
async fn wait_for_write_refuses_an_object_that_the_selectors_exclude_unless_the_cache_has_it() {
    let server = server(&["shop/a", "shop/b"]);
    let (factory, leaks) = (factory(&server), Leaks::watch());
    let labelled = factory.request::<ConfigMap>().with_labels("name in (a, b)").informer().unwrap();
    let named = factory.request::<ConfigMap>().with_fields("metadata.name=a").informer().unwrap();
    factory.start();
    factory.synced().await.unwrap();

    let other: ConfigMap = write(&server, "configmaps", config("shop/c"));
    let error = labelled.wait_for_write(&other, LONG).now_or_never().expect("at once").unwrap_err();
    assert_eq!(
        error.to_string(),
        "informer configmaps with name in (a, b) will not see shop/c: its labels do not match the informer's selector \
         \"name in (a, b)\""
    );
    let fields = ScopeMismatch::Fields { selector: "metadata.name=a".into() };
    assert_eq!(refusal(named.wait_for_write(&other, LONG).now_or_never()), fields);

    // The cache has this object, and the write makes it leave.
    let mut relabelled = config("shop/a");
    relabelled["metadata"]["labels"]["name"] = "z".into();
    let relabelled: ConfigMap = write(&server, "configmaps", relabelled);
    let started = tokio::time::Instant::now();
    for _ in 0..2 {
        // The second call finds that the object has left already.
        assert!(labelled.wait_for_write(&relabelled, LONG).await.unwrap().is_none());
    }
    assert!(started.elapsed() < SECOND);
    assert!(labelled.lister().get(&"shop/a".parse::<Key>().unwrap()).is_none());
    assert!(named.wait_for_write(&relabelled, LONG).await.unwrap().is_some());
    stop_factory(&factory, &leaks).await;
}

/// A source of no kind, with one namespace.
struct Shop;

impl ListWatch<ConfigMap> for Shop {
    async fn list(&self, _: ListRequest) -> Result<ListStream<ConfigMap>, SourceError> {
        Ok(ListPiece::page("10", []))
    }

    async fn watch(&self, _: WatchRequest) -> Result<WatchStream<ConfigMap>, SourceError> {
        Ok(Box::pin(futures_util::stream::pending()))
    }

    fn namespace(&self) -> Option<Arc<str>> {
        Some("shop".into())
    }
}

/// Decision 13
#[tokio::test(start_paused = true)]
async fn wait_for_write_of_a_custom_source_checks_the_namespace_only() {
    let leaks = Leaks::watch();
    let configs = SharedInformer::<ConfigMap>::new(Shop);
    configs.start();
    let pod = |namespace: &str, version: &str| {
        let pod = json!({"metadata": {"namespace": namespace, "name": "a", "resourceVersion": version}});
        serde_json::from_value::<Pod>(pod).unwrap()
    };

    assert!(configs.wait_for_write(&pod("shop", "7"), LONG).await.unwrap().is_none());
    let waited = configs.wait_for_write(&pod("home", "7"), LONG).now_or_never();
    assert_eq!(refusal(waited), ScopeMismatch::Namespace { informer: "shop".into() });
    leaks.stop(&configs).await;
}
