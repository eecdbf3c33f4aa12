//! Pods that are selected by namespaces, labels or node.

use informant::View;

use super::{
    cluster::{Cluster, LONG},
    pod_types::PodType,
    pods::in_cache,
};
use crate::support::informers::Probe;

super::for_every_pod_type!(
    pods_that_begin_to_match_a_selector_are_added_and_pods_that_stop_matching_are_deleted,
    a_field_selector_selects_the_pods_of_a_node,
    a_view_has_the_pods_of_several_namespaces,
);

/// FA-04
async fn pods_that_begin_to_match_a_selector_are_added_and_pods_that_stop_matching_are_deleted<F: PodType>() {
    let cluster = Cluster::start().await;
    let pods = cluster.namespace("shop").await;
    let first = pods.create("a", "n1", "web").await;
    pods.create("b", "n1", "db").await;
    let factory = cluster.factory();
    let informer = factory.request::<F>().in_namespace(&pods.namespace).with_labels("app=web").informer().unwrap();
    let probe = Probe::new();
    informer.subscribe().handler(probe.handler()).unwrap();
    factory.start();
    // A list from the memory of a busy server may be older than the pod.
    informer.wait_for(&first.key, &first.version, LONG).await.unwrap();
    probe.until("synced").await;
    assert_eq!(informer.lister().keys(), [pods.key("a")]);
    probe.take();

    let entered = pods.label("b", "web").await;
    probe.until(&format!("A({}@{})", entered.key, entered.version)).await;
    pods.label("a", "db").await;
    probe.until_lines(|lines| lines.last().is_some_and(|line| line.starts_with(&format!("D({}", pods.key("a"))))).await;
    assert_eq!(informer.lister().keys(), [pods.key("b")]);
    factory.stop().await.unwrap();
}

/// FA-04
async fn a_field_selector_selects_the_pods_of_a_node<F: PodType>() {
    let cluster = Cluster::start().await;
    let pods = cluster.namespace("shop").await;
    pods.create("a", "n1", "web").await;
    let factory = cluster.factory();
    let request = || factory.request::<F>().in_namespace(&pods.namespace);
    let on_node = request().with_fields("spec.nodeName=n2").informer().unwrap();
    factory.start();
    factory.synced().await.unwrap();
    assert!(on_node.lister().is_empty());

    let created = pods.create("b", "n2", "web").await;
    on_node.wait_for(&created.key, &created.version, LONG).await.unwrap().unwrap();
    assert_eq!(on_node.lister().len(), 1);
    factory.stop().await.unwrap();
}

/// Decision 17
async fn a_view_has_the_pods_of_several_namespaces<F: PodType>() {
    let cluster = Cluster::start().await;
    let (shop, bank, home) =
        (cluster.namespace("shop").await, cluster.namespace("bank").await, cluster.namespace("home").await);
    shop.create("a", "n1", "web").await;
    home.create("a", "n1", "web").await;
    let factory = cluster.factory();
    let view: View<F> = factory.request().in_namespaces([&*shop.namespace, &*bank.namespace]).view().unwrap();
    let probe = Probe::new();
    view.subscribe().handler(probe.handler()).unwrap();
    factory.start();
    view.synced_within(LONG).await.unwrap();
    probe.until("synced").await;
    assert_eq!(view.len(), 1);

    let created = bank.create("a", "n2", "db").await;
    view.wait_for(&created.key, &created.version, LONG).await.unwrap().unwrap();
    probe.until(&format!("A({}@{})", created.key, created.version)).await;
    assert_eq!(view.get(&bank.key("a")).unwrap().seen().node.as_deref(), Some("n2"));
    assert!(view.get(&home.key("a")).is_none());
    for (pods, informer) in [(&bank, 0), (&shop, 1)] {
        let informer = view.informers().nth(informer).unwrap();
        assert_eq!(in_cache(&informer.lister()), pods.on_server().await);
    }
    factory.stop().await.unwrap();
}
