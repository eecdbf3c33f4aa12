//! Maps whose function reads other informers.

use std::{collections::BTreeMap, time::Duration};

use informant::{Key, derived::DerivedMap, error::SourceError};
use tokio::time::{sleep, timeout};

use super::*;

/// Pods, which have a key, and services, which select a key; the map has the services of each pod.
struct Joined {
    map: DerivedMap<String, Vec<String>>,
    pods: SourceHandle<ConfigMap>,
    services: SourceHandle<ConfigMap>,
    _informers: [SharedInformer<ConfigMap>; 2],
}

async fn joined<const P: usize, const S: usize>(pods: [Value; P], services: [Value; S]) -> Joined {
    let ((pods, pod_handle), (services, service_handle)) = (informer(pods), informer(services));
    let (of_services, of_pods) = (services.lister(), pods.lister());
    let map = pods
        .derive(move |pod| {
            let label = field(pod, "keys");
            let all = of_services.list();
            let selecting = all.iter().filter(|service| field(service, "keys") == label);
            let mut names: Vec<_> = selecting.map(|service| service.key().name().to_owned()).collect();
            names.sort();
            Some((pod.key().name().to_owned(), names))
        })
        .with(&services, move |service| {
            let label = field(service, "keys");
            let selected = of_pods.list().into_iter().filter(move |pod| field(pod, "keys") == label);
            selected.map(|pod| pod.key().clone()).collect::<Vec<Key>>()
        })
        .register()
        .unwrap();
    pods.start();
    // The function is not called before the services are synced.
    sleep(Duration::from_secs(1)).await;
    assert!(map.is_empty() && !map.is_synced());
    services.start();
    map.synced().await.unwrap();
    Joined { map, pods: pod_handle, services: service_handle, _informers: [pods, services] }
}

impl Joined {
    async fn shown(&self) -> BTreeMap<String, String> {
        sleep(Duration::from_secs(5)).await;
        self.map.snapshot().iter().map(|(pod, services)| (pod.clone(), services.join(" "))).collect()
    }
}

fn entries<const N: usize>(entries: [(&str, &str); N]) -> BTreeMap<String, String> {
    entries.into_iter().map(|(pod, services)| (pod.to_owned(), services.to_owned())).collect()
}

#[tokio::test(start_paused = true)]
async fn objects_are_derived_again_when_an_object_that_their_function_reads_changes() {
    let joined = joined([config("p", "web", ""), config("q", "db", "")], [config("s", "web", "")]).await;
    assert_eq!(joined.shown().await, entries([("p", "s"), ("q", "")]));

    // Both the objects of the old and of the new state.
    joined.services.modified(config("s", "db", ""));
    assert_eq!(joined.shown().await, entries([("p", ""), ("q", "s")]));
    joined.services.added(config("t", "db", ""));
    assert_eq!(joined.shown().await, entries([("p", ""), ("q", "s t")]));
    joined.pods.modified(config("p", "db", ""));
    assert_eq!(joined.shown().await, entries([("p", "s t"), ("q", "s t")]));

    joined.services.fail_watch(SourceError::expired);
    joined.services.deleted("shop/t");
    joined.services.added(config("u", "none", ""));
    assert_eq!(joined.shown().await, entries([("p", "s"), ("q", "s")]));
}

/// All objects that one batch of another informer concerns change together.
#[tokio::test(start_paused = true)]
async fn a_batch_of_another_informer_is_one_change() {
    let pods = [config("p", "web", ""), config("q", "db", ""), config("r", "db", "")];
    let joined = joined(pods, [config("s", "web", ""), config("t", "web", "")]).await;
    let before = joined.map.snapshot().generation();
    let mut wake_ups = joined.map.watch();

    joined.services.fail_watch(SourceError::expired);
    joined.services.modified(config("s", "db", ""));
    joined.services.modified(config("t", "db", ""));
    assert!(wake_ups.changed().await);

    let after = joined.map.snapshot();
    assert_eq!(joined.shown().await, entries([("p", ""), ("q", "s t"), ("r", "s t")]));
    assert_eq!((after.generation() - before, after.versions().len()), (1, 2));
}

/// D4
#[tokio::test(start_paused = true)]
async fn a_batch_of_an_informer_that_is_read_several_times_is_one_change() {
    let (informer, handle) = informer([config("a", "g", ""), config("b", "g", "")]);
    let lister = informer.lister();
    let keys = [informer.lister(), informer.lister()]
        .map(|lister| move |_: &_| lister.list().into_iter().map(|it| it.key().clone()).collect::<Vec<Key>>());
    let [of_first, of_second] = keys;
    let map = informer
        .derive(move |object| [(object.key().name().to_owned(), lister.len().to_string())])
        .with(&informer, of_first)
        .with(&informer, of_second)
        .register()
        .unwrap();
    let mut changes = map.stream();
    informer.start();
    map.synced().await.unwrap();
    assert_eq!((shown(&map).as_str(), map.snapshot().versions().len()), ("a=2 b=2", 1));
    for _ in 0..2 {
        next_line(&mut changes).await;
    }

    handle.added(config("c", "g", ""));
    next_line(&mut changes).await;

    assert_eq!((shown(&map).as_str(), map.snapshot().generation()), ("a=3 b=3 c=3", 2));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(map.snapshot().generation(), 2);
    informer.stop().await.unwrap();
    assert_eq!(map.problems().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn caught_up_waits_until_the_map_is_filled() {
    let ((pods, _pods), (services, _services)) = (informer([config("p", "a", "1")]), informer([]));
    let map = pods.derive(pairs).with(&services, |_| []).register().unwrap();
    pods.start();
    pods.synced().await.unwrap();
    assert!(timeout(Duration::from_secs(60), map.caught_up()).await.is_err());
    let error = map.synced_within(Duration::from_secs(1)).await.unwrap_err().to_string();
    assert!(error.contains(&**services.name()) && error.contains("has not been started"), "{error}");

    services.start();
    map.caught_up().await.unwrap();

    assert_eq!(shown(&map), "a=1");
    map.synced_within(Duration::ZERO).await.unwrap();
    let other = pods.derive(pairs).with(&informer([]).0, |_| []).register().unwrap();
    other.stop().await.unwrap();
    let (synced, caught_up) = (other.synced().await.unwrap_err(), other.caught_up().await.unwrap_err());
    assert!(matches!(caught_up, informant::error::WaitError::Removed { .. }), "{caught_up}");
    assert!(synced.to_string().contains(&format!("{}, ", pods.name())), "all informers are named: {synced}");
}

#[tokio::test(start_paused = true)]
async fn a_mapping_may_name_objects_that_do_not_exist() {
    let ((pods, _), (services, handle)) = (informer([config("p", "a", "1")]), informer([]));
    let map = pods
        .derive(pairs)
        .with(&services, |_| ["shop/nothing".parse().unwrap(), "shop/p".parse().unwrap()])
        .register()
        .unwrap();
    pods.start();
    services.start();
    map.synced().await.unwrap();

    handle.added(config("s", "", ""));
    sleep(Duration::from_secs(1)).await;

    assert_eq!((shown(&map).as_str(), map.problems().len()), ("a=1", 0));
}
