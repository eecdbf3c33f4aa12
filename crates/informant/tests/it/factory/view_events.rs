//! One closure for all events of a view, and waits on a view's registration.

use informant::{Event, SharedInformerFactory, View, error::WaitError};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::sync::mpsc;

use crate::support::servers::{
    Leaks, SECOND, client, config, factory, server, stop_factory, three_namespaces, two_namespaces,
};

#[tokio::test(start_paused = true)]
async fn one_closure_receives_the_events_of_all_members_and_synced_once() {
    let server = three_namespaces();
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let view = factory.request::<ConfigMap>().in_namespaces(["shop", "bank"]).view().unwrap();
    let (sender, mut received) = mpsc::unbounded_channel();
    let async_sender = sender.clone();
    // Changed without a lock, although the workers of two members call the closure.
    let mut keys = Vec::new();
    let callback = move |event: Event<ConfigMap>| match event.key() {
        Some(key) => keys.push(key.to_string()),
        None => {
            keys.sort();
            sender.send(keys.clone()).unwrap();
        }
    };
    let registration = view.subscribe().on_event(callback).register().unwrap();
    let mut count = 0;
    let blocking = view.subscribe().on_event_async(move |event| {
        count += 1;
        let (sender, count) = (async_sender.clone(), count);
        async move {
            if let Event::Synced = event {
                sender.send(vec![count.to_string()]).unwrap();
            }
        }
    });
    let blocking = blocking.register_blocking().unwrap();
    factory.start();
    registration.synced().await.unwrap();
    blocking.synced().await.unwrap();

    let mut both = [received.recv().await.unwrap(), received.recv().await.unwrap()];
    both.sort();
    assert_eq!(both, [vec!["4"], vec!["bank/a", "shop/a", "shop/b"]]);
    assert!(received.is_empty(), "once");
    registration.stop_within(SECOND).await.unwrap();
    stop_factory(&factory, &leaks).await;
}

/// The clusters have versions of their own, which need not be compared here.
#[tokio::test(start_paused = true)]
async fn a_handler_of_several_clusters_catches_up_with_their_caches() {
    let servers = [("east", server(&["shop/a"])), ("west", server(&["shop/a", "shop/b"]))];
    let factories = servers
        .each_ref()
        .map(|(cluster, server)| SharedInformerFactory::builder(client(server)).of_cluster(*cluster).build());
    let leaks = Leaks::watch();
    let informers = factories.each_ref().map(SharedInformerFactory::informer::<ConfigMap>);
    let view = View::of_clusters(informers.clone()).unwrap();
    let (sender, mut received) = mpsc::unbounded_channel();
    let registration = view.subscribe().on_event(move |event| drop(sender.send(event))).register().unwrap();
    view.start();
    view.synced().await.unwrap();

    registration.caught_up().await.unwrap();
    assert_eq!(received.len(), 4, "three adds and `Synced`");
    let written = servers[1].1.put("configmaps", config("shop/c")).unwrap();
    let written: ConfigMap = serde_json::from_value(written).unwrap();
    informers[1].wait_for_write(&written, SECOND).await.unwrap();
    registration.caught_up().await.unwrap();
    assert_eq!(received.len(), 5);

    registration.remove();
    let error = registration.caught_up().await.unwrap_err();
    assert!(matches!(error, WaitError::Removed { .. }), "{error}");
    received.close();
    for factory in &factories {
        factory.stop().await.unwrap();
    }
    leaks.check();
}

#[tokio::test(start_paused = true)]
async fn a_view_waits_for_a_condition_of_an_object_of_one_member() {
    let server = three_namespaces();
    let (factory, view, leaks) = two_namespaces(&server).await;
    let mut events = view.subscribe().stream().unwrap();
    for _ in 0..3 {
        assert!(matches!(events.next().await, Some(Event::Added { .. })));
    }

    let found = view.wait_until(&"bank/a".parse().unwrap(), |config| config.is_some(), SECOND).await.unwrap();
    assert_eq!(found.unwrap().key().as_str(), "bank/a");
    let error = view.wait_until(&"home/a".parse().unwrap(), |config| config.is_some(), SECOND).await.unwrap_err();
    assert!(matches!(error, WaitError::OutsideView { .. }), "{error}");
    stop_factory(&factory, &leaks).await;
}
