//! One closure for all events, and deleted objects that are used like any other object.

use std::time::Duration;

use informant::{
    Deleted, Event, SharedInformer,
    error::SourceError,
    testing::{ScriptedSource, ScriptedWatch},
};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::time::sleep;

use super::callbacks::Received;
use crate::support::informers::{Leaks, informer_with, item, source};

const SECOND: Duration = Duration::from_secs(1);

/// The event as text, such as `add a Live`.
fn line(event: &Event<()>) -> String {
    match event {
        Event::Added { object, origin } => format!("add {} {origin:?}", object.key()),
        Event::Updated { old, new } => format!("update {} {} {}", new.key(), old.version(), new.version()),
        Event::Resynced(object) => format!("resync {}", object.key()),
        Event::Deleted(Deleted::Observed(object)) => format!("delete {}", object.key()),
        Event::Deleted(Deleted::Missed { last_known }) => format!("missed delete {}", last_known.key()),
        Event::Synced => "synced".to_owned(),
    }
}

/// An update, an add and a delete, one per second.
fn changes() -> ScriptedWatch<()> {
    let watch = ScriptedWatch::new().wait(SECOND).modified(item("a", 11)).wait(SECOND).added(item("b", 12));
    watch.wait(SECOND).deleted(item("b", 13)).stays_open()
}

const LINES: [&str; 6] = ["add a InitialList", "synced", "update a 5 11", "add b Live", "delete b", "resync a"];

/// P4
#[tokio::test(start_paused = true)]
async fn one_closure_receives_all_events_in_order_and_owns_its_state() {
    let leaks = Leaks::watch();
    let informer = informer_with(&source("10", &[("a", 5)], changes()), |builder| builder.resync_every(60 * SECOND));
    let received = Received::default();
    let lines = received.clone();
    // Changed without a lock.
    let mut events = Vec::new();
    let registration = informer
        .subscribe()
        .named("events")
        .on_event(move |event| {
            lines.push(line(&event));
            events.push(event);
            assert_eq!(events.len(), lines.lines().len());
        })
        .register()
        .unwrap();
    informer.start();
    registration.synced().await.unwrap();
    sleep(70 * SECOND).await;

    assert_eq!(received.lines(), LINES);
    let status = registration.status();
    assert_eq!((&*status.name, status.panics, status.delivered), ("events", 0, 6));
    leaks.stop(&informer).await;
}

/// P4, P7
#[tokio::test(start_paused = true)]
async fn the_future_of_one_event_completes_before_the_next_event_is_delivered() {
    let leaks = Leaks::watch();
    let informer = informer_with(&source("10", &[("a", 5)], changes()), |builder| builder.resync_every(60 * SECOND));
    let received = Received::default();
    let lines = received.clone();
    let mut count = 0;
    let registration = informer
        .subscribe()
        .on_event_async(move |event| {
            count += 1;
            let (lines, number) = (lines.clone(), count);
            async move {
                lines.push(format!("{number} begin"));
                sleep(5 * SECOND).await;
                lines.push(format!("{number} end {}", line(&event)));
            }
        })
        .register()
        .unwrap();
    informer.start();
    sleep(100 * SECOND).await;

    let expected: Vec<_> =
        (1..).zip(LINES).flat_map(|(i, line)| [format!("{i} begin"), format!("{i} end {line}")]).collect();
    assert_eq!(received.lines(), expected);
    assert!(registration.name().contains("event_callback.rs"), "the place in the code: {}", registration.name());
    leaks.stop(&informer).await;
}

#[tokio::test(start_paused = true)]
async fn a_closure_for_all_events_may_block_on_a_thread_of_its_own() {
    let leaks = Leaks::watch();
    let (source, handle) = ScriptedSource::live();
    handle.added(json!({"metadata": {"name": "hours"}}));
    let informer = SharedInformer::<ConfigMap>::new(source);
    let (sender, receiver) = std::sync::mpsc::sync_channel(0);
    let callback = move |_| sender.send(std::thread::current().id()).unwrap();
    informer.subscribe().on_event(callback).register_blocking().unwrap();
    informer.start();
    informer.synced().await.unwrap();

    // Both calls are blocked until they are received here, on the thread of the runtime.
    let threads = [receiver.recv().unwrap(), receiver.recv().unwrap()];
    assert!(threads[0] == threads[1] && threads[0] != std::thread::current().id());
    leaks.stop(&informer).await;
}

#[tokio::test(start_paused = true)]
async fn a_deleted_object_is_used_like_its_last_known_state() {
    let (source, handle) = ScriptedSource::live();
    for name in ["a", "b"] {
        handle.added(json!({"metadata": {"namespace": "shop", "name": name}, "data": {"open": "9-17"}}));
    }
    let informer = SharedInformer::<ConfigMap>::new(source);
    let received = Received::default();
    let lines = received.clone();
    let registration = informer
        .subscribe()
        .on_delete(move |config| {
            let (name, open) = (config.metadata.name.clone().unwrap(), &config.data.as_ref().unwrap()["open"]);
            lines.push(format!("{name} {open} {} {}", config.key(), config.version()));
        })
        .register()
        .unwrap();
    informer.start();
    registration.synced().await.unwrap();

    let observed = handle.deleted("shop/a");
    registration.caught_up_to(&observed).await.unwrap();
    handle.fail_watch(SourceError::expired);
    let missed = handle.deleted("shop/b");
    registration.caught_up_to(&missed).await.unwrap();

    assert_eq!(received.lines(), ["a 9-17 shop/a 4", "b 9-17 shop/b 3"]);
    informer.stop().await.unwrap();
}
