//! Callbacks that are registered as closures.

use std::{
    cell::Cell,
    sync::{Arc, Mutex},
    time::Duration,
};

use informant::{View, testing::ScriptedWatch};

use crate::support::informers::{Leaks, informer_with, item, source, wait_until_idle};

const SECOND: Duration = Duration::from_secs(1);

/// The lines that callbacks have recorded, in order.
#[derive(Clone, Default)]
pub(super) struct Received(Arc<Mutex<Vec<String>>>);

impl Received {
    pub(super) fn push(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    pub(super) fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// P4
#[tokio::test(start_paused = true)]
async fn callbacks_receive_each_type_of_event_in_order() {
    let leaks = Leaks::watch();
    let watch = ScriptedWatch::new().wait(SECOND).modified(item("a", 11)).added(item("b", 12));
    let watch = watch.wait(SECOND).deleted(item("a", 13)).stays_open();
    let informer = informer_with(&source("10", &[("a", 5)], watch), |builder| builder.resync_every(60 * SECOND));
    let received = Received::default();
    let [adds, updates, deletes, synced] = std::array::from_fn(|_| received.clone());
    let registration = informer
        .subscribe()
        .named("closures")
        .on_add(move |object, origin| adds.push(format!("add {} {origin:?}", object.key())))
        .on_update(move |old, new| updates.push(format!("update {} {} {}", new.key(), old.version(), new.version())))
        .on_delete(move |deleted| deletes.push(format!("delete {}", deleted.key())))
        .on_synced(move || synced.push("synced".to_owned()))
        .register()
        .unwrap();
    informer.start();
    registration.synced().await.unwrap();
    tokio::time::sleep(61 * SECOND).await;
    wait_until_idle().await;

    let expected = ["add a InitialList", "synced", "update a 5 11", "add b Live", "delete a", "update b 12 12"]
        .map(ToOwned::to_owned);
    assert_eq!(received.lines(), expected);
    assert_eq!(&*registration.name(), "closures");
    leaks.stop(&informer).await;
}

#[tokio::test(start_paused = true)]
async fn callbacks_without_a_name_are_named_after_their_place_in_the_code() {
    let informer = informer_with(&source("10", &[], ScriptedWatch::new().stays_open()), |builder| builder);

    let registration = informer.subscribe().on_delete(|_| {}).register().unwrap();

    let name = registration.name();
    assert!(name.starts_with("handler at ") && name.contains("callbacks.rs:"), "{name}");
}

/// P8
#[tokio::test]
async fn callbacks_that_block_have_a_thread_of_their_own() {
    let informer = informer_with(&source("10", &[("a", 5)], ScriptedWatch::new().stays_open()), |builder| builder);
    let received = Received::default();
    let adds = received.clone();
    let add = move |_: &_, _| adds.push(std::thread::current().name().unwrap_or_default().to_owned());
    let registration = informer.subscribe().named("blocking").on_add(add).register_blocking().unwrap();
    informer.start();

    registration.synced().await.unwrap();

    assert_eq!(received.lines(), ["blocking"]);
    informer.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn callbacks_of_a_view_receive_the_events_of_its_members() {
    let informer = informer_with(&source("10", &[("a", 5)], ScriptedWatch::new().stays_open()), |builder| builder);
    let view = View::from(informer.clone());
    let received = Received::default();
    let (adds, synced) = (received.clone(), received.clone());
    let callbacks = view.subscribe().on_add(move |object, _| adds.push(object.key().to_string()));
    let registration = callbacks.on_synced(move || synced.push("synced".to_owned())).register().unwrap();
    informer.start();

    registration.synced().await.unwrap();

    assert_eq!(received.lines(), ["a", "synced"]);
    informer.stop().await.unwrap();
}

/// A `Cell` is not `Sync`: callbacks need no lock for the values that they capture.
#[tokio::test(start_paused = true)]
async fn fn_mut_callbacks_change_captured_values_without_a_lock() {
    let leaks = Leaks::watch();
    let watch = ScriptedWatch::new().wait(SECOND).added(item("c", 11)).stays_open();
    let informer = informer_with(&source("10", &[("a", 5), ("b", 6)], watch), |builder| builder);
    let received = Received::default();
    let (adds, synced) = (received.clone(), received.clone());
    let (mut count, total, mut once) = (0, Cell::new(0), Some("synced".to_owned()));
    let add = move |_: &_, _| {
        count += 1;
        total.set(total.get() + count);
        adds.push(format!("{count} {}", total.get()));
    };
    let callbacks = informer.subscribe().on_add(add).on_synced(move || synced.push(once.take().unwrap()));
    callbacks.register().unwrap();
    informer.start();
    tokio::time::sleep(2 * SECOND).await;
    wait_until_idle().await;

    assert_eq!(received.lines(), ["1 1", "2 3", "synced", "3 6"]);
    leaks.stop(&informer).await;
}

#[tokio::test(start_paused = true)]
async fn on_event_receives_the_events_that_have_no_callback_of_their_own() {
    let watch = ScriptedWatch::new().wait(SECOND).modified(item("a", 11)).deleted(item("a", 12)).stays_open();
    let informer = informer_with(&source("10", &[("a", 5)], watch), |builder| builder);
    let received = Received::default();
    let [updates, others] = std::array::from_fn(|_| received.clone());
    informer
        .subscribe()
        .on_event(move |event| others.push(format!("other {:?}", event.key().map(ToString::to_string))))
        .on_update(move |_, new| updates.push(format!("update {}", new.key())))
        .register()
        .unwrap();
    informer.start();

    tokio::time::sleep(10 * SECOND).await;

    assert_eq!(received.lines(), [r#"other Some("a")"#, "other None", "update a", r#"other Some("a")"#]);
    informer.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_last_callback_that_is_set_for_an_event_type_is_called() {
    let informer = informer_with(&source("10", &[("a", 5)], ScriptedWatch::new().stays_open()), |builder| builder);
    let received = Received::default();
    let (first, second) = (received.clone(), received.clone());
    let callbacks = informer.subscribe().on_add(move |_, _| first.push("first".to_owned()));
    let callbacks = callbacks.on_add_async(move |_, _| {
        second.push("second".to_owned());
        std::future::ready(())
    });
    let registration = callbacks.register().unwrap();
    informer.start();

    registration.synced().await.unwrap();

    assert_eq!(received.lines(), ["second"]);
    informer.stop().await.unwrap();
}
