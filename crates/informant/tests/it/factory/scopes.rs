//! Requests with namespaces, labels and fields.

use std::collections::BTreeSet;

use informant::{SharedInformerFactory, error::RequestError};
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::core::{Expression, Selector};

use crate::support::servers::{Leaks, client, factory, keys, server, stop_factory, wait_until_idle};

/// FA-04
#[tokio::test(start_paused = true)]
async fn the_scope_is_part_of_lists_and_watches_alike() {
    for streams in [true, false] {
        let server = server(&["shop/a", "shop/b", "home/a"]);
        let mut builder = SharedInformerFactory::builder(client(&server));
        if !streams {
            builder = builder.without_streaming();
        }
        let factory = builder.build();
        wait_until_idle().await;
        let leaks = Leaks::watch();
        let labels: Selector = Expression::Equal("name".into(), "a".into()).into();
        let request = || factory.request::<ConfigMap>().with_labels(&labels).with_fields("metadata.name!=z");
        let (in_shop, everywhere) = (request().in_namespace("shop").informer().unwrap(), request().informer().unwrap());
        factory.start();
        factory.synced().await.unwrap();
        server.wait_for_watches("configmaps", 2).await;

        assert_eq!(keys(&in_shop), ["shop/a"]);
        assert_eq!(keys(&everywhere), ["home/a", "shop/a"]);
        let requests = server.requests();
        assert!(requests.len() >= if streams { 2 } else { 4 });
        for request in requests {
            assert_eq!((&*request.label_selector, &*request.field_selector), ("name=a", "metadata.name!=z"));
            assert!(["shop", ""].contains(&&*request.namespace));
        }
        stop_factory(&factory, &leaks).await;
    }
}

/// FA-04
#[tokio::test(start_paused = true)]
async fn the_factorys_scope_applies_to_all_namespaced_kinds_unless_a_request_has_its_own() {
    let server = server(&["shop/a", "home/a"]);
    let builder = SharedInformerFactory::builder(client(&server)).in_namespace("shop").unwrap();
    let factory = builder.with_labels("name!=z").unwrap().with_fields("metadata.name!=y").build();
    let leaks = Leaks::watch();
    let (configs, nodes) = (factory.informer::<ConfigMap>(), factory.informer::<Node>());
    let at_home = factory.request::<ConfigMap>().in_namespace("home").informer().unwrap();
    let everything =
        factory.request::<ConfigMap>().in_all_namespaces().with_labels("").with_fields("").informer().unwrap();
    factory.start();
    factory.synced().await.unwrap();

    assert_eq!(keys(&configs), ["shop/a"]);
    assert_eq!(keys(&nodes), ["n1"]);
    assert_eq!(keys(&at_home), ["home/a"]);
    assert_eq!(keys(&everything), ["home/a", "shop/a"]);
    assert_eq!(&**configs.name(), "configmaps in shop with name!=z where metadata.name!=y");
    assert_eq!(&**everything.name(), "configmaps");
    let namespaces = factory.status().into_iter().map(|status| status.namespace.as_deref().map(str::to_owned));
    assert_eq!(namespaces.flatten().collect::<BTreeSet<_>>(), ["home".to_owned(), "shop".to_owned()].into());
    stop_factory(&factory, &leaks).await;
}

#[tokio::test(start_paused = true)]
async fn an_invalid_scope_is_an_error_that_names_the_next_step() {
    let server = server(&[]);
    let factory = factory(&server);

    let error = factory.request::<Node>().in_namespace("shop").informer().unwrap_err();
    assert_eq!(
        error.to_string(),
        r#"Node is cluster-scoped: it cannot be watched in namespace "shop"; leave the namespace out"#
    );
    let error = factory.request::<ConfigMap>().in_namespace("Not A Name").informer().unwrap_err();
    assert!(matches!(error, RequestError::BadNamespace { .. }));
    let error = factory.request::<ConfigMap>().in_namespaces(["a", "b"]).informer().unwrap_err();
    let expected = "an informer of configmaps covers one namespace, but the request names 2; call `view` for several";
    assert_eq!(error.to_string(), expected);
    let error = factory.request::<ConfigMap>().in_namespaces(["a", "b", "z_"]).view().unwrap_err();
    assert!(matches!(error, RequestError::BadNamespace { .. }));
    let error = factory.request::<ConfigMap>().in_namespaces([""; 0]).view().unwrap_err();
    assert_eq!(error.to_string(), "a view needs at least one informer");
    assert!(SharedInformerFactory::builder(client(&server)).in_namespace("").is_err());
    assert!(factory.status().is_empty(), "no informer was created");
}

#[tokio::test(start_paused = true)]
async fn an_invalid_label_selector_is_refused_before_a_request_is_sent() {
    let server = server(&[]);
    let factory = factory(&server);
    let request = |labels: &str| factory.request::<ConfigMap>().with_labels(labels);
    let expected = r#"label selector "app in web" is invalid at byte 7: expected `(` and a list of values"#;

    let error = request("app in web").informer().unwrap_err();
    assert!(matches!(error, RequestError::Labels(_)) && error.to_string() == expected, "{error}");
    assert_eq!(request("app in web").in_namespaces(["a", "b"]).view().unwrap_err().to_string(), expected);
    let builder = SharedInformerFactory::builder(client(&server));
    assert_eq!(builder.with_labels("app in web").unwrap_err().to_string(), expected);
    assert!(factory.status().is_empty(), "no informer was created");

    request("cpu>3,app").informer().expect("a server compares numbers");
}
