//! Quarantined objects: the events that handlers receive, and calls that wait for such objects.

use std::{
    sync::{Mutex, mpsc},
    time::Duration,
};

use informant::{
    Cached, Identity, Key,
    error::WaitError,
    testing::{ScriptedList, ScriptedSource, ScriptedWatch},
};

use crate::support::informers::{
    Builder, Leaks, Probe, informer_with, item, item_of_incarnation, list, one_thread, open_watch, sleep_seconds,
    source, status_error, wait_until,
};

const SECOND: Duration = Duration::from_secs(1);

/// Makes the transform fail for the objects with these positions in the order of decoding.
fn failing_at(bad: &'static [u32]) -> impl Fn(Builder) -> Builder {
    move |builder| {
        let calls = Mutex::new(0);
        let transform = move |(): &mut ()| {
            let mut calls = calls.lock().unwrap();
            *calls += 1;
            if bad.contains(&*calls) { Err("it is bad") } else { Ok(()) }
        };
        builder.on_quarantine(|_| {}).on_error(|_| {}).transform(transform)
    }
}

fn identity(version: &str, uid: &str) -> Identity {
    Identity { key: Key::cluster_scoped("a"), uid: uid.into(), version: version.into() }
}

/// Decision 3, P8
#[tokio::test(start_paused = true)]
async fn a_quarantined_object_stays_in_the_cache_until_its_incarnation_ends() {
    let leaks = Leaks::watch();
    let source = ScriptedSource::new();
    let expires = || ScriptedWatch::new().wait(SECOND).breaks(status_error(410, "Expired"));
    source.on_list(list("10", &[("a", 1), ("b", 2)]));
    source.on_watch(expires());
    // a@15 is quarantined: a@1 stays in the cache.
    source.on_list(list("20", &[("a", 15), ("b", 2)]));
    source.on_watch(expires());
    // The next incarnation is quarantined too: the first one is deleted.
    source.on_list(ScriptedList::at("30").object(item_of_incarnation("a", 25, "u2")).object(item("b", 2)));
    // Then a can be decoded. The final state of b cannot, but b is deleted.
    let watch = ScriptedWatch::new().wait(SECOND).modified(item_of_incarnation("a", 35, "u2")).wait(SECOND);
    source.on_watch(watch.deleted(item("b", 40)).stays_open());
    let informer = informer_with(&source, failing_at(&[3, 4, 6]));
    let probe = Probe::new();
    informer.subscribe().handler(probe.handler()).unwrap();
    informer.start();
    sleep_seconds(100.0).await;

    let expected = ["A(a@1, initial)", "A(b@2, initial)", "synced", "T(a, last@1)", "A(a@35)", "T(b, last@2)"];
    assert_eq!(probe.take(), expected);
    assert_eq!(informer.quarantined().len(), 0);
    leaks.stop(&informer).await;
}

/// Decision 3
#[tokio::test(start_paused = true)]
async fn a_watch_event_of_a_quarantined_new_incarnation_deletes_the_old_one() {
    let leaks = Leaks::watch();
    let watch = ScriptedWatch::new().wait(SECOND).added(item_of_incarnation("a", 12, "u2")).stays_open();
    let informer = informer_with(&source("10", &[("a", 1)], watch), failing_at(&[2]));
    let probe = Probe::new();
    informer.subscribe().handler(probe.handler()).unwrap();
    informer.start();
    informer.caught_up_to(&"12".into(), 100 * SECOND).await.unwrap();

    informer.wait_until_gone(&identity("1", "u1"), SECOND).await.unwrap();
    assert!(informer.wait_until_gone(&identity("12", "u2"), SECOND).await.is_err(), "the new incarnation exists");

    assert_eq!(probe.take(), ["A(a@1, initial)", "synced", "T(a, last@1)"]);
    leaks.stop(&informer).await;
}

/// Decision 3
#[tokio::test(start_paused = true)]
async fn wait_until_gone_does_not_treat_a_quarantined_object_as_gone() {
    let leaks = Leaks::watch();
    let watch = ScriptedWatch::new().wait(10 * SECOND).deleted(item("a", 11)).stays_open();
    let informer = informer_with(&source("10", &[("a", 1)], watch), failing_at(&[1]));
    informer.start();
    informer.synced().await.unwrap();
    assert_eq!((informer.quarantined().len(), informer.lister().len()), (1, 0));

    assert!(informer.wait_until_gone(&identity("1", "u1"), SECOND).await.is_err());
    informer.wait_until_gone(&identity("1", "u1"), 100 * SECOND).await.unwrap();

    leaks.stop(&informer).await;
}

/// Decision 13: the cache keeps an older state than the awaited one.
#[tokio::test(start_paused = true)]
async fn wait_for_is_an_error_if_the_object_is_quarantined_at_that_version_or_an_older_one() {
    let leaks = Leaks::watch();
    let watch = ScriptedWatch::new().wait(SECOND).modified(item("a", 12)).added(item("b", 20));
    let watch = watch.wait(10 * SECOND).modified(item("a", 30)).stays_open();
    let informer = informer_with(&source("10", &[("a", 1)], watch), failing_at(&[2]));
    informer.start();
    let key = Key::cluster_scoped("a");
    informer.caught_up_to(&"20".into(), 100 * SECOND).await.unwrap();

    for version in ["11", "12", "15"] {
        let error = informer.wait_for(&key, &version.into(), SECOND).await.unwrap_err();
        assert!(matches!(error, WaitError::Quarantined { .. }), "{version}: {error}");
    }
    let found = informer.wait_for(&key, &"25".into(), 100 * SECOND).await.unwrap();

    assert_eq!(format!("{:?}", found.unwrap()), "a@30", "the object has changed again, and can be decoded");
    leaks.stop(&informer).await;
}

/// P8: other objects are not affected.
#[tokio::test(start_paused = true)]
async fn a_first_list_with_a_quarantined_object_syncs() {
    let leaks = Leaks::watch();
    let source = source("10", &[("a", 1), ("b", 2)], open_watch());
    let informer = informer_with(&source, failing_at(&[1]));
    let probe = Probe::new();
    let registration = informer.subscribe().handler(probe.handler()).unwrap();
    informer.start();

    registration.synced().await.unwrap();

    assert_eq!(probe.take(), ["A(b@2, initial)", "synced"]);
    assert_eq!(informer.status().quarantined, 1);
    leaks.stop(&informer).await;
}

/// Decision 13: the source is ahead of the cache, so an object that it can decode again may not be in the cache yet.
#[tokio::test]
async fn an_object_released_from_quarantine_is_neither_gone_nor_seen_until_it_is_applied() {
    let (enter, entered) = mpsc::channel();
    let (open, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let watch = ScriptedWatch::new().wait(SECOND / 100).added(item("a", 11)).wait(SECOND / 10);
    let watch = watch.modified(item("a", 12)).stays_open();
    let informer = informer_with(&source("10", &[("z", 1)], watch), failing_at(&[2]));
    // The informer has a runtime of its own, because it must wait for the lock of the cache.
    let running = informer.clone();
    let thread = std::thread::spawn(move || {
        one_thread().block_on(async {
            running.start();
            running.caught_up_to(&"12".into(), 100 * SECOND).await.unwrap();
            running.stop().await.unwrap();
        });
    });
    informer.caught_up_to(&"11".into(), 100 * SECOND).await.unwrap();
    assert_eq!(informer.quarantined().len(), 1);
    let adding = informer.clone();
    let adder = std::thread::spawn(move || {
        let values = move |_: &Cached<()>| {
            let _ = enter.send(());
            let _ = gate.lock().unwrap().recv();
            None::<String>
        };
        adding.add_index("slow", values).unwrap();
    });
    entered.recv().unwrap();
    wait_until(|| informer.quarantined().is_empty()).await;

    let deleted = identity("11", "u1");
    assert!(informer.wait_until_gone(&deleted, SECOND / 50).await.is_err());
    assert!(informer.wait_for(&deleted.key, &deleted.version, SECOND / 50).await.is_err());
    drop(open);
    let found = informer.wait_for(&deleted.key, &deleted.version, 100 * SECOND).await.unwrap();

    assert_eq!(format!("{:?}", found.unwrap()), "a@12");
    adder.join().unwrap();
    thread.join().unwrap();
}
