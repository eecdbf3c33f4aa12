//! Async callbacks of views: members take turns, also while a future runs.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use informant::{Cached, Registration, SharedInformerFactory, View, error::WaitError};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::{
    sync::Semaphore,
    time::{Instant, sleep, timeout},
};

use crate::support::servers::{
    Leaks, Probe, SECOND, client, config, factory, server, stop_factory, three_namespaces, two_namespaces, wait_until,
};

type Lines = Arc<Mutex<Vec<String>>>;

/// Decision 17
#[tokio::test(start_paused = true)]
async fn futures_of_a_view_run_one_at_a_time_and_synced_is_delivered_once() {
    let server = three_namespaces();
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let view = factory.request::<ConfigMap>().in_namespaces(["shop", "bank"]).view().unwrap();
    let (lines, running, most) = (Lines::default(), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (adds, synced, counts) = (Arc::clone(&lines), Arc::clone(&lines), (running, Arc::clone(&most)));
    // The callback changes this without a lock, although the workers of two members call it.
    let mut calls = 0;
    let add = move |_: Cached<ConfigMap>, _| {
        calls += 1;
        adds.lock().unwrap().push(calls.to_string());
        let (running, most) = counts.clone();
        async move {
            most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            sleep(SECOND).await;
            running.fetch_sub(1, Ordering::SeqCst);
        }
    };
    let synced = move || {
        synced.lock().unwrap().push("synced".to_owned());
        std::future::ready(())
    };
    let registration = view.subscribe().on_add_async(add).on_synced_async(synced).register().unwrap();
    factory.start();
    let start = Instant::now();

    registration.synced().await.unwrap();

    assert_eq!(*lines.lock().unwrap(), ["1", "2", "3", "synced"]);
    assert_eq!(most.load(Ordering::SeqCst), 1);
    assert!(start.elapsed() >= 3 * SECOND);
    stop_factory(&factory, &leaks).await;
}

/// Registers a callback whose futures wait for a permit; returns the namespaces of the futures that have begun and ended.
fn gated(view: &View<ConfigMap>) -> (Registration, Lines, Arc<Semaphore>) {
    let (lines, gate) = (Lines::default(), Arc::new(Semaphore::new(0)));
    let (adds, permits) = (Arc::clone(&lines), Arc::clone(&gate));
    let add = move |config: Cached<ConfigMap>, _| {
        let (adds, permits) = (Arc::clone(&adds), Arc::clone(&permits));
        async move {
            let namespace = config.key().namespace().unwrap().to_owned();
            adds.lock().unwrap().push(namespace.clone());
            permits.acquire().await.unwrap().forget();
            adds.lock().unwrap().push(namespace);
        }
    };
    (view.subscribe().on_add_async(add).register().unwrap(), lines, gate)
}

/// P9
#[tokio::test(start_paused = true)]
async fn a_member_can_be_stopped_while_the_future_of_another_member_runs() {
    let server = three_namespaces();
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let view = factory.request::<ConfigMap>().in_namespaces(["shop", "bank"]).view().unwrap();
    let (registration, lines, gate) = gated(&view);
    factory.start();
    wait_until(|| !lines.lock().unwrap().is_empty() && view.is_synced()).await;
    let namespace = lines.lock().unwrap()[0].clone();
    let is_running = |member: &&informant::SharedInformer<ConfigMap>| **member.namespace().unwrap() == *namespace;
    let running = view.informers().find(is_running).unwrap();
    let other = view.informers().find(|member| !is_running(member)).unwrap();

    other.stop().await.unwrap();

    assert!(!registration.is_removed(), "one member is running");
    assert!(timeout(SECOND, running.stop()).await.is_err(), "the future of this member runs");
    gate.add_permits(5);
    running.stop().await.unwrap();
    assert_eq!(*lines.lock().unwrap(), [namespace.clone(), namespace.clone()]);
    stop_factory(&factory, &leaks).await;
}

/// P9
#[tokio::test(start_paused = true)]
async fn stopping_the_registration_of_a_view_waits_for_the_running_future_and_starts_no_other() {
    let server = three_namespaces();
    let (factory, view, leaks) = two_namespaces(&server).await;
    let (registration, lines, gate) = gated(&view);
    wait_until(|| !lines.lock().unwrap().is_empty()).await;

    let stopping = registration.stop();
    tokio::pin!(stopping);
    assert!(timeout(SECOND, stopping.as_mut()).await.is_err());
    gate.add_permits(10);
    stopping.await.unwrap();

    assert_eq!(lines.lock().unwrap().len(), 2);
    stop_factory(&factory, &leaks).await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_of_a_view_has_caught_up_when_it_has_received_the_events_of_all_members() {
    let server = three_namespaces();
    let (factory, view, leaks) = two_namespaces(&server).await;
    let probe = Probe::new();
    let registration = view.subscribe().handler(probe.handler()).unwrap();
    server.put("configmaps", config("shop/new")).unwrap();
    let written = server.put("configmaps", config("bank/new")).unwrap();
    let version = written["metadata"]["resourceVersion"].as_str().unwrap().into();

    // The member of the other namespace reaches the version with a bookmark.
    registration.caught_up_to(&version).await.unwrap();

    let known: Vec<_> = probe.known().iter().map(|object| object.split('@').next().unwrap().to_owned()).collect();
    assert_eq!(known, ["bank/a", "bank/new", "shop/a", "shop/b", "shop/new"]);
    stop_factory(&factory, &leaks).await;
}

#[tokio::test(start_paused = true)]
async fn a_version_cannot_be_awaited_for_several_clusters() {
    let clusters = ["east", "west"].map(|name| {
        let server = server(&["shop/a"]);
        let factory = SharedInformerFactory::builder(client(&server)).of_cluster(name).build();
        (server, factory)
    });
    let informers = clusters.each_ref().map(|(_, factory)| factory.informer::<ConfigMap>());
    let view = View::of_clusters(informers).unwrap();
    let registration = view.subscribe().named("printer").on_add(|_, _| {}).register().unwrap();
    view.start();
    registration.synced().await.unwrap();

    let error = registration.caught_up_to(&"1".into()).await.unwrap_err();

    assert!(matches!(error, WaitError::SeveralClusters { .. }));
    assert!(error.to_string().ends_with("register printer with the view of that cluster"), "{error}");
    for (_, factory) in &clusters {
        factory.stop().await.unwrap();
    }
}
