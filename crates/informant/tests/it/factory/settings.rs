//! Settings of a factory for all kinds and for single kinds.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use informant::{
    FieldPath, Lazy, SharedInformer, SharedInformerFactory,
    pipeline::{KubeSource, ReflectorBuilder},
};
use informant_apiserver::{Fault, On};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::core::DynamicObject;
use serde_json::json;

use crate::support::servers::{
    Leaks, Logs, Probe, SECOND, backoff_without_jitter, client, server, stop_factory, widget, widget_resource, widgets,
};

#[tokio::test(start_paused = true)]
async fn a_consistent_first_list_asks_for_the_newest_state() {
    let server = server(&["shop/a"]);
    let factory = SharedInformerFactory::builder(client(&server)).without_streaming();
    let factory =
        factory.configure::<ConfigMap>(|maps| maps.reflector(ReflectorBuilder::consistent_first_list)).build();
    factory.informer::<ConfigMap>();
    factory.start();
    factory.synced().await.unwrap();
    server.wait_for_watches("configmaps", 1).await;
    assert_eq!(server.requests_for("configmaps"), [r#"L("", 500)"#, "W(3)"]);
    factory.stop().await.unwrap();
}

/// SI-18
#[tokio::test(start_paused = true)]
async fn a_resync_period_of_less_than_a_second_is_raised_with_a_warning() {
    let logs = Logs::capture();
    let server = server(&[]);
    let factory = SharedInformerFactory::builder(client(&server)).resync_every(SECOND / 5);
    let factory = factory.configure::<Node>(|nodes| nodes.resync_every(2 * SECOND)).build();
    let periods =
        (factory.informer::<ConfigMap>().resync_check_period(), factory.informer::<Node>().resync_check_period());
    let source = KubeSource::of_kind::<ConfigMap>(client(&server));
    SharedInformer::<ConfigMap>::builder(source).name("alone").resync_every(SECOND / 2).build();

    let logs = logs.take();

    assert_eq!(periods, (Some(SECOND), Some(2 * SECOND)));
    let raised: Vec<_> = logs.lines().filter(|line| line.contains("the informer's resync period is raised")).collect();
    assert_eq!(raised.len(), 2, "{logs}");
    assert!(raised[0].contains("informer=\"configmaps\" requested=200ms granted=1s"), "{logs}");
    assert!(raised[1].contains("informer=\"alone\" requested=500ms granted=1s"), "{logs}");
}

/// FA-02
#[tokio::test(start_paused = true)]
async fn the_resync_period_of_a_kind_overrides_that_of_the_factory() {
    let server = server(&["shop/a"]);
    let factory = SharedInformerFactory::builder(client(&server))
        .resync_every(SECOND * 60)
        .configure::<Node>(|nodes| nodes.resync_every(SECOND * 5))
        .configure::<Lazy<ConfigMap>>(|configs| configs.resync_every(Duration::ZERO))
        .build();
    let leaks = Leaks::watch();
    let _logs = Logs::capture();
    let probe = Probe::new();
    let configs = factory.informer::<ConfigMap>().subscribe().handler(probe.handler()).unwrap();
    let (nodes_probe, lazy_probe) = (Probe::new(), Probe::new());
    let nodes = factory.informer::<Node>().subscribe().handler(nodes_probe.handler()).unwrap();
    let lazy = factory.informer::<Lazy<ConfigMap>>().subscribe().handler(lazy_probe.handler()).unwrap();

    assert_eq!(configs.resync_period(), Some(SECOND * 60));
    assert_eq!(nodes.resync_period(), Some(SECOND * 5));
    assert_eq!(lazy.resync_period(), None);
    factory.start();
    configs.synced().await.unwrap();
    probe.take();
    tokio::time::sleep(SECOND * 61).await;
    assert_eq!(probe.take(), ["R(shop/a@2)"]);
    stop_factory(&factory, &leaks).await;
}

/// Two parts of a program may set options of the same kind.
#[tokio::test(start_paused = true)]
async fn settings_of_one_kind_from_two_calls_are_combined() {
    let server = server(&["shop/a"]);
    let factory = SharedInformerFactory::builder(client(&server))
        .configure::<ConfigMap>(|configs| configs.name("first").resync_every(SECOND * 5))
        .configure::<ConfigMap>(|configs| configs.name("second"))
        .build();

    let configs = factory.informer::<ConfigMap>();

    assert_eq!((&**configs.name(), configs.resync_check_period()), ("second", Some(SECOND * 5)));
}

#[tokio::test(start_paused = true)]
async fn the_factorys_callbacks_receive_the_errors_and_quarantined_objects_of_all_kinds() {
    let _logs = Logs::capture();
    let server = server(&["shop/a"]);
    server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "bad"}, "data": 7})).unwrap();
    server.inject(On::any().of("nodes").times(3), Fault::status(403));
    let received = Arc::new(Mutex::new(Vec::new()));
    let (errors, objects, own) = (Arc::clone(&received), Arc::clone(&received), Arc::clone(&received));
    let factory = SharedInformerFactory::builder(client(&server))
        .on_error(move |error| errors.lock().unwrap().push(error.to_string()))
        .on_quarantine(move |kind, object| {
            objects.lock().unwrap().push(format!("{kind}: {}", object.key.clone().unwrap()));
        })
        .configure::<Lazy<Node>>(move |nodes| {
            let own = Arc::clone(&own);
            nodes.on_error(move |_| own.lock().unwrap().push("lazy nodes".into()))
        })
        .build();
    let leaks = Leaks::watch();
    factory.informer::<ConfigMap>();
    factory.informer::<Node>();
    factory.start();
    factory.synced().await.unwrap();
    let mut lines = std::mem::take(&mut *received.lock().unwrap());
    lines.sort();
    lines.dedup();
    assert_eq!(lines, ["configmaps: shop/bad", "listing nodes failed"]);

    server.inject(On::any().of("nodes").times(3), Fault::status(403));
    factory.informer::<Lazy<Node>>();
    factory.start();
    factory.synced().await.unwrap();
    assert!(received.lock().unwrap().contains(&"lazy nodes".to_owned()));
    assert!(!received.lock().unwrap().contains(&"listing nodes failed".to_owned()), "a kind may have its own callback");
    stop_factory(&factory, &leaks).await;
}

fn paths(paths: &[&str]) -> Vec<FieldPath> {
    paths.iter().map(|path| path.parse().unwrap()).collect()
}

/// FA-03 (differs from client-go): cut fields are not decoded.
#[tokio::test(start_paused = true)]
async fn fields_are_cut_of_all_kinds_in_all_object_types() {
    let _logs = Logs::capture();
    let server = server(&[]);
    server.register(widgets());
    let object = json!({
        "metadata": {"namespace": "shop", "name": "a", "annotations": {"a.b/c": "long", "d": "short"}, "labels": {"x": "y"}},
        "data": {"keep": "1", "drop": "2"},
    });
    server.put("configmaps", &object).unwrap();
    server.put("widgets.example.com", &object).unwrap();
    let factory = SharedInformerFactory::builder(client(&server))
        .cut(paths(&[r"metadata.annotations.a\.b/c", "data.drop", "status"]))
        .configure::<Lazy<ConfigMap>>(|configs| configs.cut(paths(&["metadata.labels"])))
        .build();
    let leaks = Leaks::watch();
    let eager = factory.informer::<ConfigMap>();
    let lazy = factory.informer::<Lazy<ConfigMap>>();
    let dynamic = factory.dynamic(&widget_resource());
    factory.start();
    factory.synced().await.unwrap();

    let key = "shop/a".parse().unwrap();
    let config = eager.lister().require(&key).unwrap();
    assert_eq!(config.data.as_ref().unwrap().keys().collect::<Vec<_>>(), ["keep"]);
    assert_eq!(config.metadata.annotations.as_ref().unwrap().keys().collect::<Vec<_>>(), ["d"]);
    assert_eq!(config.metadata.labels.as_ref().unwrap()["x"], "y");
    let config = lazy.lister().require(&key).unwrap();
    let json = config.json().unwrap();
    assert!(json.contains("short") && !json.contains("long") && !json.contains("labels"), "{json}");
    assert!(config.labels().is_empty());
    assert_eq!(dynamic.lister().require(&key).unwrap().data["data"], json!({"keep": "1"}));
    stop_factory(&factory, &leaks).await;
}

/// FA-03
#[tokio::test(start_paused = true)]
async fn a_transform_of_a_kind_changes_its_objects_also_lazy_ones() {
    let _logs = Logs::capture();
    let server = server(&["shop/a"]);
    server.register(widgets());
    server.put("widgets.example.com", widget("w")).unwrap();
    let factory = SharedInformerFactory::builder(client(&server))
        .configure::<ConfigMap>(|configs| {
            configs.transform(|config| {
                config.data = None;
                Ok::<_, String>(())
            })
        })
        .configure::<Lazy<ConfigMap>>(|configs| {
            configs.transform(|config| {
                config.edit(|config| {
                    config.data.get_or_insert_default().insert("added".into(), "by us".into());
                    config.metadata.labels.get_or_insert_default().insert("more".into(), "yes".into());
                })
            })
        })
        .configure_dynamic::<DynamicObject>(&widget_resource(), |widgets| {
            widgets.transform(|widget| {
                widget.data = json!({});
                Ok::<_, String>(())
            })
        })
        .build();
    let leaks = Leaks::watch();
    let (eager, lazy) = (factory.informer::<ConfigMap>(), factory.informer::<Lazy<ConfigMap>>());
    let in_shop = factory.request::<ConfigMap>().in_namespace("shop").informer().unwrap();
    let dynamic = factory.dynamic(&widget_resource());
    factory.start();
    factory.synced().await.unwrap();

    let key = "shop/a".parse().unwrap();
    assert_eq!(eager.lister().require(&key).unwrap().data, None);
    assert_eq!(in_shop.lister().require(&key).unwrap().data, None, "the transform applies to every scope");
    let config = lazy.lister().require(&key).unwrap();
    assert_eq!(config.get().unwrap().data.as_ref().unwrap()["added"], "by us");
    assert_eq!(config.labels()["more"], "yes");
    assert_eq!(config.get().unwrap().metadata.name.as_deref(), Some("a"));
    assert_eq!(dynamic.lister().require(&"shop/w".parse().unwrap()).unwrap().data, json!({}));
    stop_factory(&factory, &leaks).await;
}

/// FA-15
#[tokio::test(start_paused = true)]
async fn a_factory_without_streaming_lists_in_pages() {
    let server = server(&["shop/a"]);
    let factory = SharedInformerFactory::builder(client(&server)).without_streaming().build();
    let leaks = Leaks::watch();
    factory.informer::<ConfigMap>();
    factory.start();
    factory.synced().await.unwrap();
    server.wait_for_watches("configmaps", 1).await;

    assert_eq!(server.requests_for("configmaps"), ["L(0, 500)", "W(3)"]);
    stop_factory(&factory, &leaks).await;
}

/// FA-15, decision 14
#[tokio::test(start_paused = true)]
async fn all_informers_of_a_kind_remember_that_the_server_does_not_stream_it() {
    let server = server(&["shop/a"]);
    server.inject(On::watch_list(), Fault::WatchListRefused);
    let factory = SharedInformerFactory::builder(client(&server))
        .configure::<ConfigMap>(|configs| configs.reflector(|reflector| reflector.backoff(backoff_without_jitter())))
        .build();
    let leaks = Leaks::watch();
    factory.informer::<ConfigMap>();
    factory.start();
    factory.synced().await.unwrap();
    server.wait_for_watches("configmaps", 1).await;
    assert!(server.requests_for("configmaps").contains(&r#"WL("")"#.to_owned()));

    server.clear_requests();
    factory.request::<ConfigMap>().in_namespace("shop").informer().unwrap();
    factory.start();
    factory.synced().await.unwrap();
    server.wait_for_watches("configmaps", 2).await;
    assert_eq!(server.requests_for("configmaps"), ["L(0, 500)", "W(3)"], "a streamed list is not tried again");

    factory.informer::<Node>();
    factory.start();
    factory.synced().await.unwrap();
    assert_eq!(server.requests_for("nodes")[0], r#"WL("")"#, "the other kind is still streamed");
    stop_factory(&factory, &leaks).await;
}
