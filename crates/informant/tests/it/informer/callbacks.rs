//! Callbacks that are registered as closures.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use informant::View;
use informant::listwatch::ScriptedWatch;

use super::support::Leaks;
use super::support::informer_with;
use super::support::ready;
use super::support::settle;
use super::support::source;

const SECOND: Duration = Duration::from_secs(1);

/// What callbacks have received, in order.
#[derive(Clone, Default)]
struct Received(Arc<Mutex<Vec<String>>>);

impl Received {
    fn push(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

/// P4
#[tokio::test(start_paused = true)]
async fn callbacks_receive_each_type_of_event_in_order() {
    let leaks = Leaks::watch();
    let watch = ScriptedWatch::new().wait(SECOND).modified(ready("a", 11)).added(ready("b", 12));
    let watch = watch.wait(SECOND).deleted(ready("a", 13)).stays_open();
    let informer = informer_with(&source("10", &[("a", 5)], watch), |builder| builder.resync_every(60 * SECOND));
    let received = Received::default();
    let [adds, updates, deletes, resyncs, synced] = std::array::from_fn(|_| received.clone());
    let registration = informer
        .subscribe()
        .named("closures")
        .on_add(move |object, origin| adds.push(format!("add {} {origin:?}", object.key())))
        .on_update(move |old, new| updates.push(format!("update {} {} {}", new.key(), old.version(), new.version())))
        .on_delete(move |deleted| deletes.push(format!("delete {}", deleted.key())))
        .on_resync(move |object| resyncs.push(format!("resync {}", object.key())))
        .on_synced(move || synced.push("synced".to_owned()))
        .register()
        .unwrap();
    informer.start();
    registration.synced().await.unwrap();
    tokio::time::sleep(61 * SECOND).await;
    settle().await;

    let expected =
        ["add a InitialList", "synced", "update a 5 11", "add b Live", "delete a", "resync b"].map(ToOwned::to_owned);
    assert_eq!(received.lines(), expected);
    assert_eq!(&*registration.name(), "closures");
    leaks.stop(&informer).await;
}

#[tokio::test(start_paused = true)]
async fn callbacks_without_a_name_are_called_after_their_place_in_the_code() {
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
