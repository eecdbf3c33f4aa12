//! Pods are created, changed and deleted; readers and handlers receive the changes.

use std::collections::BTreeMap;

use informant::{Cached, Event, Key, Lister, Origin, factory::InformerState};
use tokio::time::timeout;

use super::{
    cluster::{Cluster, LONG},
    pod_types::{PodType, Seen},
};
use crate::support::{informers::Probe, show_objects};

super::for_every_pod_type!(
    handlers_and_readers_follow_pods_from_create_to_delete,
    a_stream_that_joins_late_receives_the_cached_pods,
    a_client_can_wait_for_its_own_writes,
    a_stopped_informer_is_replaced_by_a_new_one,
);

/// The version of each cached pod, and the fields that scenarios read.
pub(super) fn in_cache<F: PodType>(lister: &Lister<F>) -> BTreeMap<Key, (String, Seen)> {
    lister.list().iter().map(|pod| (pod.key().clone(), (pod.version().to_string(), pod.seen()))).collect()
}

/// P1, P3, P4
async fn handlers_and_readers_follow_pods_from_create_to_delete<F: PodType>() {
    let cluster = Cluster::start().await;
    let pods = cluster.namespace("shop").await;
    pods.create("a", "n1", "web").await;
    pods.create("b", "n2", "web").await;
    let factory = cluster.factory();
    let informer = factory.request::<F>().in_namespace(&pods.namespace).informer().unwrap();
    let by_node = informer.add_index("node", |pod: &Cached<F>| pod.seen().node).unwrap();
    let probe = Probe::new();
    let registration = informer.subscribe().handler(probe.handler()).unwrap();
    factory.start();
    timeout(LONG, factory.synced()).await.unwrap().unwrap();
    timeout(LONG, registration.synced()).await.unwrap().unwrap();
    assert_eq!(probe.take().iter().filter(|line| line.ends_with(", initial)")).count(), 2);
    assert_eq!((by_node.count("n1"), by_node.count("n2")), (1, 1));

    let created = pods.create("c", "n1", "db").await;
    let labelled = pods.label("a", "api").await;
    pods.delete("b").await;
    probe.until_lines(|lines| lines.iter().any(|line| line.starts_with(&format!("D({}", pods.key("b"))))).await;

    let received = probe.lines();
    assert!(received.contains(&format!("A({}@{})", created.key, created.version)), "{received:?}");
    let update = |line: &String| {
        line.starts_with(&format!("U({} ", labelled.key)) && line.ends_with(&format!("→{})", labelled.version))
    };
    assert!(received.iter().any(update), "{received:?}");
    assert_eq!(in_cache(&informer.lister()), pods.on_server().await);
    assert_eq!(probe.known(), show_objects(informer.lister().list()));
    assert_eq!((by_node.count("n1"), by_node.count("n2")), (2, 0));
    let seen = informer.lister().require(&labelled.key).unwrap().seen();
    assert_eq!(seen, Seen { node: Some("n1".into()), app: Some("api".into()) });
    factory.stop().await.unwrap();
}

/// Decision 9
async fn a_stream_that_joins_late_receives_the_cached_pods<F: PodType>() {
    let cluster = Cluster::start().await;
    let pods = cluster.namespace("shop").await;
    pods.create("a", "n1", "web").await;
    let factory = cluster.factory();
    let informer = factory.request::<F>().in_namespace(&pods.namespace).informer().unwrap();
    factory.start();
    factory.synced().await.unwrap();
    let gone = pods.create("b", "n1", "web").await;
    informer.wait_for(&gone.key, &gone.version, LONG).await.unwrap();
    pods.delete("b").await;
    informer.wait_until_gone(&gone, LONG).await.unwrap();
    let labelled = pods.label("a", "api").await;
    informer.wait_for(&labelled.key, &labelled.version, LONG).await.unwrap();

    let mut events = informer.subscribe().stream().unwrap();
    let Some(Event::Added { object, origin: Origin::InitialList }) = events.next().await else {
        panic!("the pod is cached")
    };
    assert_eq!(object.identity(), &labelled, "the add has the newest state");
    assert!(
        Cached::ptr_eq(&object, &informer.lister().get(&labelled.key).unwrap()),
        "the object is shared, not copied"
    );
    assert!(matches!(events.next().await, Some(Event::Synced)), "there is no other pod");
    factory.stop().await.unwrap();
    assert!(events.next().await.is_none());
}

/// Decision 13
async fn a_client_can_wait_for_its_own_writes<F: PodType>() {
    let cluster = Cluster::start().await;
    let pods = cluster.namespace("shop").await;
    let factory = cluster.factory();
    let informer = factory.request::<F>().in_namespace(&pods.namespace).informer().unwrap();
    factory.start();

    for round in 0..20 {
        let name = format!("pod-{round}");
        let created = pods.create(&name, "n1", "web").await;
        let seen = informer.wait_for(&created.key, &created.version, LONG).await.unwrap().unwrap();
        assert_eq!(seen.uid(), &created.uid);
        let labelled = pods.label(&name, "api").await;
        let seen = informer.wait_for(&labelled.key, &labelled.version, LONG).await.unwrap().unwrap();
        assert_eq!(seen.seen().app.as_deref(), Some("api"));
        pods.delete(&name).await;
        informer.wait_until_gone(&created, LONG).await.unwrap();
        assert!(informer.lister().get(&created.key).is_none());
    }
    factory.stop().await.unwrap();
}

/// Decision 16
async fn a_stopped_informer_is_replaced_by_a_new_one<F: PodType>() {
    let cluster = Cluster::start().await;
    let pods = cluster.namespace("shop").await;
    pods.create("a", "n1", "web").await;
    let factory = cluster.factory();
    let ask = || factory.request::<F>().in_namespace(&pods.namespace).informer().unwrap();
    let first = ask();
    factory.start();
    factory.synced().await.unwrap();
    let lister = first.lister();

    first.stop().await.unwrap();
    pods.create("b", "n1", "web").await;
    let second = ask();
    assert_eq!(second.state(), InformerState::New);
    factory.start();
    factory.synced().await.unwrap();

    assert_eq!((lister.len(), lister.has_stopped()), (1, true));
    assert_eq!((second.lister().len(), second.lister().has_stopped()), (2, false));
    factory.stop().await.unwrap();
}
