//! Requests for the same kind, scope and object type return the same informer.

use std::sync::Arc;

use futures_util::future::join_all;
use informant::{Lazy, SharedInformerFactory, index::NAMESPACE_INDEX};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::core::{ApiResource, PartialObjectMeta};

use crate::support::servers::{Leaks, Logs, client, factory, is_same, server, stop_factory, widget_resource};

/// FA-01
#[tokio::test(start_paused = true)]
async fn requests_for_the_same_kind_scope_and_object_type_return_the_same_informer() {
    let server = server(&["shop/a"]);
    let factory = factory(&server);
    let configs = factory.informer::<ConfigMap>();

    assert!(is_same(&configs, &factory.clone().informer::<ConfigMap>()));
    assert!(is_same(&configs, &factory.request::<ConfigMap>().in_all_namespaces().informer().unwrap()));
    let shop = || factory.request::<ConfigMap>().in_namespace("shop").with_labels("a=b").with_fields("metadata.name=x");
    let in_shop = shop().informer().unwrap();
    assert!(is_same(&in_shop, &shop().informer().unwrap()));

    assert!(!is_same(&configs, &in_shop));
    assert!(!is_same(&in_shop, &shop().with_labels("a=c").informer().unwrap()));
    assert!(!is_same(&in_shop, &shop().with_fields("").informer().unwrap()));
    assert!(!is_same(&in_shop, &shop().in_namespace("home").informer().unwrap()));
    let widgets = factory.dynamic(&widget_resource());
    assert!(is_same(&widgets, &factory.dynamic(&widget_resource())));
}

/// FA-01
#[tokio::test]
async fn a_hundred_requests_at_once_share_one_list_and_one_watch() {
    let runtime = crate::support::informers::many_threads();
    let server = server(&["shop/a", "shop/b"]);
    let log = server.clone();
    runtime
        .spawn(async move {
            let factory = SharedInformerFactory::new(client(&server));
            let asking = (0..100).map(|_| {
                let factory = factory.clone();
                tokio::spawn(async move {
                    let configs = factory.informer::<ConfigMap>();
                    factory.start();
                    factory.synced().await.unwrap();
                    configs.synced().await.unwrap();
                    assert_eq!(configs.lister().len(), 2);
                })
            });
            for asked in join_all(asking).await {
                asked.unwrap();
            }
            factory.stop().await.unwrap();
        })
        .await
        .unwrap();
    runtime.shutdown_background();

    assert_eq!(log.requests_for("configmaps"), [r#"WL("")"#], "one streamed list, which is the watch as well");
}

/// FA-01
#[tokio::test(start_paused = true)]
async fn informers_have_different_names() {
    let server = server(&[]);
    let factory = SharedInformerFactory::builder(client(&server)).of_cluster("east").build();
    let _logs = Logs::capture();

    let name =
        |request: informant::factory::InformerRequest<'_, ConfigMap>| request.informer().unwrap().name().to_string();
    assert_eq!(name(factory.request()), "east/configmaps");
    assert_eq!(name(factory.request().in_namespace("shop")), "east/configmaps in shop");
    assert_eq!(name(factory.request().with_labels("a=b")), "east/configmaps with a=b");
    assert_eq!(name(factory.request().with_fields("c=d").in_namespace("x")), "east/configmaps in x where c=d");
    assert_eq!(&**factory.informer::<Lazy<ConfigMap>>().name(), "east/configmaps as Lazy<ConfigMap>");
    let metadata = factory.informer::<PartialObjectMeta<ConfigMap>>();
    assert_eq!(&**metadata.name(), "east/configmaps as PartialObjectMeta<ConfigMap>");
    assert_eq!(&**factory.dynamic(&widget_resource()).name(), "east/widgets.example.com");
}

/// FA-01: also names that the user sets.
#[tokio::test(start_paused = true)]
async fn informer_names_that_users_set_are_made_unique() {
    let server = server(&[]);
    let _logs = Logs::capture();
    let factory = SharedInformerFactory::builder(client(&server))
        .configure::<ConfigMap>(|configs| configs.name("mine"))
        .configure::<Lazy<ConfigMap>>(|configs| configs.name("mine"))
        .configure::<Node>(|nodes| nodes.name("mine as Lazy<ConfigMap>"))
        .configure::<PartialObjectMeta<Node>>(|nodes| nodes.name("mine"))
        .build();
    let v2 = ApiResource { api_version: "example.com/v2".into(), version: "v2".into(), ..widget_resource() };

    let names = [
        factory.informer::<ConfigMap>().name().to_string(),
        factory.request::<ConfigMap>().in_namespace("a").with_labels("x=y").informer().unwrap().name().to_string(),
        factory.informer::<Node>().name().to_string(),
        factory.informer::<Lazy<ConfigMap>>().name().to_string(),
        factory.informer::<PartialObjectMeta<Node>>().name().to_string(),
        factory.dynamic(&widget_resource()).name().to_string(),
        factory.dynamic(&v2).name().to_string(),
    ];

    let expected = [
        "mine",
        "mine in a with x=y",
        "mine as Lazy<ConfigMap>",
        "mine as Lazy<ConfigMap> (2)",
        "mine of v1",
        "widgets.example.com",
        "widgets.example.com of example.com/v2",
    ];
    assert_eq!(names, expected);
}

/// Two caches of the same objects cost memory twice.
#[tokio::test(start_paused = true)]
async fn caching_the_same_objects_in_two_object_types_logs_one_warning() {
    let server = server(&[]);
    let factory = factory(&server);
    let logs = Logs::capture();
    factory.informer::<ConfigMap>();
    factory.informer::<ConfigMap>();
    factory.informer::<Node>();
    factory.request::<ConfigMap>().in_namespace("shop").informer().unwrap();
    assert_eq!(logs.take(), "", "one object type needs no warning");

    factory.informer::<Lazy<ConfigMap>>();
    let warning = logs.take();
    assert!(
        warning.contains("WARN") && warning.contains(r#"object_type="Lazy<ConfigMap>" other_object_type="ConfigMap""#),
        "{warning}"
    );

    factory.informer::<PartialObjectMeta<ConfigMap>>();
    factory.request::<Lazy<ConfigMap>>().in_namespace("shop").informer().unwrap();
    assert_eq!(logs.take(), "", "the warning is logged once");
}

#[tokio::test(start_paused = true)]
async fn caching_a_namespace_and_all_namespaces_logs_a_warning_in_either_order() {
    let server = server(&[]);
    let logs = Logs::capture();
    let one = factory(&server);
    one.informer::<Lazy<ConfigMap>>();
    one.request::<ConfigMap>().in_namespace("shop").informer().unwrap();
    assert!(logs.take().contains("cached twice, in two object types"));

    let other = factory(&server);
    other.request::<ConfigMap>().in_namespace("shop").informer().unwrap();
    other.informer::<Lazy<ConfigMap>>();
    assert!(logs.take().contains("cached twice, in two object types"));

    let third = factory(&server);
    third.informer::<ConfigMap>().stop().await.unwrap();
    third.informer::<Lazy<ConfigMap>>();
    assert_eq!(logs.take(), "", "a stopped informer causes no warning");
}

/// Namespaces that have nothing in common are not cached twice.
#[tokio::test(start_paused = true)]
async fn caching_different_namespaces_in_two_object_types_logs_no_warning() {
    let server = server(&[]);
    let factory = factory(&server);
    let logs = Logs::capture();

    factory.request::<ConfigMap>().in_namespace("shop").informer().unwrap();
    factory.request::<Lazy<ConfigMap>>().in_namespace("home").informer().unwrap();
    assert_eq!(logs.take(), "");

    factory.request::<Lazy<ConfigMap>>().in_namespace("shop").informer().unwrap();
    assert!(logs.take().contains("cached twice, in two object types"));
}

/// FA-13
#[tokio::test(start_paused = true)]
async fn informers_have_the_namespace_index() {
    let server = server(&["shop/a", "home/b"]);
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let configs = factory.informer::<ConfigMap>();
    factory.start();
    factory.synced().await.unwrap();

    let in_shop = configs.lister().index(NAMESPACE_INDEX).unwrap().get("shop");

    assert_eq!(in_shop.len(), 1);
    stop_factory(&factory, &leaks).await;
}

/// Decision 7
#[tokio::test(start_paused = true)]
async fn settings_may_request_other_informers_of_the_factory() {
    let server = server(&[]);
    let other = Arc::new(std::sync::OnceLock::<SharedInformerFactory>::new());
    let asked = Arc::clone(&other);
    let factory = SharedInformerFactory::builder(client(&server))
        .configure::<ConfigMap>(move |configs| {
            asked.get().unwrap().informer::<Node>();
            asked.get().unwrap().request::<Node>().with_labels("a=b").informer().unwrap();
            configs
        })
        .build();
    assert!(other.set(factory.clone()).is_ok());

    factory.informer::<ConfigMap>();

    let names: Vec<_> = factory.status().iter().map(|status| status.name.to_string()).collect();
    assert_eq!(names, ["configmaps", "nodes", "nodes with a=b"]);
}
