//! Handlers that receive whole batches of events.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use informant::{
    Event, Registration, SharedInformer, Subscribe, View,
    error::SourceError,
    pipeline::KubeSource,
    testing::{ScriptedSource, SourceHandle},
};
use informant_apiserver::ApiServer;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::support::Logs;

type Batches = Arc<Mutex<Vec<String>>>;

fn config(name: &str, text: &str) -> Value {
    json!({"metadata": {"namespace": "shop", "name": name}, "data": {"text": text}})
}

fn informer() -> (SharedInformer<ConfigMap>, SourceHandle<ConfigMap>) {
    let (source, handle) = ScriptedSource::live();
    (SharedInformer::new(source), handle)
}

/// The events of a batch as a line, sorted: `+a ~b -c`.
fn line(events: &[Event<ConfigMap>]) -> String {
    let mut words: Vec<_> = events
        .iter()
        .map(|event| match event {
            Event::Added { object, .. } => format!("+{}", object.key().name()),
            Event::Updated { new, .. } => format!("~{}", new.key().name()),
            Event::Resynced(object) => format!("={}", object.key().name()),
            Event::Deleted(deleted) => format!("-{}", deleted.key().name()),
            Event::Synced => "synced".to_owned(),
        })
        .collect();
    words.sort();
    words.join(" ")
}

/// Registers a handler that records each batch.
fn record<A>(subscribe: Subscribe<'_, ConfigMap, A>) -> (Registration, Batches) {
    let batches = Batches::default();
    let recorded = Arc::clone(&batches);
    let registration = subscribe.on_batch(move |events| recorded.lock().unwrap().push(line(events))).register();
    (registration.unwrap(), batches)
}

fn take(batches: &Batches) -> Vec<String> {
    std::mem::take(&mut *batches.lock().unwrap())
}

#[tokio::test(start_paused = true)]
async fn the_changes_of_a_relist_are_one_batch() {
    let (informer, handle) = informer();
    for name in ["a", "b", "c"] {
        handle.added(config(name, "1"));
    }
    let (registration, batches) = record(informer.subscribe());
    informer.start();
    registration.synced().await.unwrap();
    assert_eq!(take(&batches), ["+a +b +c", "synced"]);
    assert_eq!(registration.status().delivered, 4);

    handle.fail_watch(SourceError::expired);
    handle.deleted("shop/a");
    handle.modified(config("b", "2"));
    handle.added(config("d", "1"));
    sleep(Duration::from_secs(10)).await;
    registration.caught_up().await.unwrap();
    assert_eq!(take(&batches), ["+d -a ~b"]);

    handle.modified(config("d", "2"));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(take(&batches), ["~d"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_of_batches_that_joins_later_receives_the_cache_as_one_batch() {
    let (informer, handle) = informer();
    handle.added(config("a", "1"));
    handle.added(config("b", "1"));
    informer.start();
    informer.synced().await.unwrap();

    let (registration, batches) = record(informer.subscribe().filter(|object| object.key().name() != "b"));
    registration.synced().await.unwrap();
    handle.modified(config("b", "2"));
    sleep(Duration::from_secs(1)).await;

    assert_eq!(take(&batches), ["+a", "synced"], "it is not called if the filter hides the whole batch");
    assert_eq!(registration.status().backlog, 0);
}

#[tokio::test(start_paused = true)]
async fn a_batch_at_which_a_handler_panics_counts_as_delivered() {
    let logs = Logs::capture();
    let (informer, handle) = informer();
    handle.added(config("a", "1"));
    let calls = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&calls);
    let begun = Instant::now();
    let registration = informer
        .subscribe()
        .on_batch(move |events| {
            recorded.lock().unwrap().push((line(events), begun.elapsed().as_secs()));
            if events.len() == 1 && matches!(events[0], Event::Added { .. }) {
                std::panic::resume_unwind(Box::new("no such batch"));
            }
        })
        .register()
        .unwrap();
    informer.start();
    registration.synced().await.unwrap();

    assert_eq!(*calls.lock().unwrap(), [("+a".to_owned(), 0), ("synced".to_owned(), 1)]);
    assert_eq!(registration.status().panics, 1);
    assert!(logs.take().contains("no such batch"));
}

#[tokio::test(start_paused = true)]
async fn a_view_delivers_the_batches_of_each_member_and_one_end_of_the_initial_list() {
    let server = ApiServer::new();
    let informers = ["shop", "bank"].map(|namespace| {
        for name in ["a", "b"] {
            let object = json!({"metadata": {"namespace": namespace, "name": format!("{namespace}-{name}")}});
            server.put("configmaps", object).unwrap();
        }
        let source =
            KubeSource::of_kind::<ConfigMap>(server.client()).in_namespace(namespace).unwrap().of_cluster(namespace);
        SharedInformer::<ConfigMap>::new(source)
    });
    let view = View::of_clusters(informers).unwrap();
    let (registration, batches) = record(view.subscribe());
    view.start();
    registration.synced().await.unwrap();

    let mut batches = take(&batches);
    assert_eq!(batches.pop().as_deref(), Some("synced"));
    batches.sort();
    assert_eq!(batches, ["+bank-a +bank-b", "+shop-a +shop-b"]);
}

#[test]
fn a_handler_of_batches_takes_no_coalescing_and_no_other_callbacks() {
    let (informer, _handle) = informer();
    let coalesced = informer.subscribe().coalesce_above(10).on_batch(|_| ()).register().unwrap_err();
    let mixed = informer.subscribe().on_add(|_, _| ()).on_batch(|_| ()).register_blocking().unwrap_err();

    let name = informer.name();
    let text = |other| {
        format!("a handler of informer {name} with `on_batch` receives whole batches of events; remove {other}")
    };
    assert_eq!(coalesced.to_string(), text("`coalesce_above`"));
    assert_eq!(mixed.to_string(), text("the other callbacks"));
}

#[tokio::test]
async fn a_blocking_handler_of_batches_may_block() {
    let (informer, handle) = informer();
    handle.added(config("a", "1"));
    let registration =
        informer.subscribe().on_batch(|_| std::thread::sleep(Duration::from_millis(20))).register_blocking().unwrap();
    informer.start();
    registration.synced().await.unwrap();
    registration.stop().await.unwrap();
    assert!(registration.is_removed());
}
