//! Handlers that join at any time receive every object and every change exactly once.

use std::{
    sync::{Arc, Mutex, OnceLock},
    time::Duration,
};

use informant::{
    Cached, EventHandler, Origin, Registration, SharedInformer, error::RequestError, testing::ScriptedWatch,
};

use crate::support::informers::{Leaks, Probe, informer, item, open_watch, source, wait_until_idle};

/// SI-07, SI-08, SI-09
#[tokio::test(start_paused = true)]
async fn a_handler_that_joins_late_receives_the_cached_objects_and_then_every_change() {
    let leaks = Leaks::watch();
    let watch = ScriptedWatch::new().added(item("c", 11)).wait(Duration::from_secs(10)).modified(item("a", 12));
    let informer = informer(&source("10", &[("a", 1), ("b", 2)], watch.stays_open()));
    informer.start();
    tokio::time::sleep(Duration::from_secs(5)).await;

    let probe = Probe::new();
    let registration = informer.subscribe().handler(probe.handler()).unwrap();
    assert!(!registration.is_synced(), "the handler has received nothing yet");
    assert_eq!(registration.backlog(), 4, "three adds and the end of the initial list");
    registration.synced().await.unwrap();

    let mut received = probe.take();
    received[..3].sort();
    assert_eq!(received, ["A(a@1, initial)", "A(b@2, initial)", "A(c@11, initial)", "synced"]);
    probe.until("U(a 1→12)").await;
    leaks.stop(&informer).await;
}

/// SI-04, SI-05
#[tokio::test(start_paused = true)]
async fn an_informer_is_synced_before_its_handlers_receive_synced() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    let slot = Arc::new(OnceLock::<(SharedInformer<()>, Registration)>::new());
    let (own, seen) = (Arc::clone(&slot), Arc::new(Mutex::new(None)));
    let recorded = Arc::clone(&seen);
    let registration = informer
        .subscribe()
        .on_add(move |_, _| {
            let (informer, registration) = own.get().unwrap();
            *recorded.lock().unwrap() = Some((informer.is_synced(), registration.is_synced()));
        })
        .register()
        .unwrap();
    slot.set((informer.clone(), registration.clone())).unwrap();
    informer.start();

    registration.synced().await.unwrap();

    assert_eq!(*seen.lock().unwrap(), Some((true, false)));
    leaks.stop(&informer).await;
}

/// SI-07, SI-11: handlers join at many moments while objects change, and each receives every change once.
#[tokio::test(start_paused = true)]
async fn handlers_that_join_at_any_moment_receive_every_change_once() {
    let leaks = Leaks::watch();
    let mut watch = ScriptedWatch::new();
    for version in 11..200 {
        let name = format!("o{}", version % 7);
        watch = match version % 5 {
            0 => watch.deleted(item(&name, version)),
            _ => watch.modified(item(&name, version)),
        };
        if version % 3 == 0 {
            watch = watch.wait(Duration::from_millis(1));
        }
    }
    let informer = informer(&source("10", &[("o1", 1), ("o2", 2)], watch.stays_open()));
    informer.start();
    let mut probes = Vec::new();
    for _ in 0..100 {
        let probe = Probe::new();
        informer.subscribe().handler(probe.handler()).unwrap();
        probes.push(probe);
        tokio::time::sleep(Duration::from_micros(700)).await;
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;

    let expected = crate::support::informers::cached(&informer);
    for probe in probes {
        // The probe's known objects are the sum of its events, and the probe fails if an event does not fit the earlier ones.
        assert_eq!(probe.known(), expected);
        assert_eq!(probe.lines().iter().filter(|line| *line == "synced").count(), 1);
    }
    leaks.stop(&informer).await;
}

/// SI-32
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn handlers_may_join_while_the_informer_starts() {
    for _ in 0..50 {
        let leaks = Leaks::watch();
        let informer = informer(&source("10", &[("a", 1), ("b", 2)], open_watch()));
        let starting = informer.clone();
        let start = tokio::spawn(async move { starting.start() });
        let joining: Vec<_> = (0..8)
            .map(|_| {
                let informer = informer.clone();
                tokio::spawn(async move {
                    let probe = Probe::new();
                    informer.subscribe().handler(probe.handler()).unwrap().synced().await.unwrap();
                    let mut known = probe.known();
                    known.sort();
                    assert_eq!(known, ["a@1", "b@2"]);
                })
            })
            .collect();
        assert!(start.await.unwrap());
        for join in joining {
            join.await.unwrap();
        }
        informer.stop().await.unwrap();
        leaks.check_soon().await;
    }
}

/// Records the objects that are added.
struct RecordsAdds(Arc<Mutex<Vec<String>>>);

impl EventHandler<()> for RecordsAdds {
    fn on_add(&self, object: &Cached<()>, _: Origin) {
        self.0.lock().unwrap().push(format!("{object:?}"));
    }
}

/// SI-11, SI-12, HC-19
#[tokio::test(start_paused = true)]
async fn the_same_handler_can_be_added_twice_with_independent_registrations() {
    let leaks = Leaks::watch();
    let second = Duration::from_secs(1);
    let watch = ScriptedWatch::new().wait(second).added(item("b", 11)).wait(second).added(item("c", 12));
    let informer = informer(&source("10", &[], watch.stays_open()));
    let received = Arc::new(Mutex::new(Vec::new()));
    let handler = Arc::new(RecordsAdds(Arc::clone(&received)));
    let first = informer.subscribe().handler(Arc::clone(&handler)).unwrap();
    let second = informer.subscribe().handler(handler).unwrap();
    informer.start();
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(*received.lock().unwrap(), ["b@11", "b@11"]);

    first.remove();
    first.remove();
    tokio::time::sleep(Duration::from_secs(1)).await;

    assert_eq!(*received.lock().unwrap(), ["b@11", "b@11", "c@12"]);
    assert!(first.is_removed() && !second.is_removed());
    leaks.stop(&informer).await;
    second.remove();
}

/// SI-10, HC-19
#[tokio::test(start_paused = true)]
async fn adding_a_handler_after_stop_is_an_error() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    informer.start();
    informer.synced().await.unwrap();
    leaks.stop(&informer).await;

    let error = informer.subscribe().handler(Probe::new().handler()).unwrap_err();

    assert!(matches!(&error, RequestError::Stopped { informer } if &**informer == "things"), "{error}");
    assert_eq!(
        error.to_string(),
        "informer things has stopped and accepts no handlers or streams; create a new informer"
    );
    assert!(informer.subscribe().stream().is_err());
    assert!(
        informer.add_index("name", |object: &Cached<()>| [object.key().name().to_owned()]).is_ok(),
        "reading goes on"
    );
    assert_eq!(informer.lister().len(), 1);
}

/// Decision 7: an index function that needs the apply lock gets an error, not a deadlock.
#[tokio::test(start_paused = true)]
async fn an_index_function_cannot_add_handlers() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    let refused = Arc::new(Mutex::new(None));
    let (inside, recorded) = (informer.clone(), Arc::clone(&refused));
    informer
        .add_index("odd", move |_: &Cached<()>| {
            *recorded.lock().unwrap() = inside.subscribe().handler(Probe::new().handler()).err();
            None::<String>
        })
        .unwrap();
    informer.start();

    informer.synced().await.unwrap();

    let refused = refused.lock().unwrap().take();
    assert!(matches!(refused, Some(RequestError::InsideIndexFunction { informer }) if &*informer == "things"));
    leaks.stop(&informer).await;
    wait_until_idle().await;
}
