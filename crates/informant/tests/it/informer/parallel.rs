//! Handlers and streams on a runtime with several threads.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use informant::{EventStream, Registration, ResourceVersion, SharedInformer, Subscribe, testing::ScriptedWatch};
use tokio::time::timeout;

use crate::support::informers::{Leaks, Probe, ProbeHandler, cached, informer, item, open_watch, source};

/// A watch that creates, changes and deletes objects with few delays.
fn fast_changes(events: u64) -> ScriptedWatch<()> {
    let mut watch = ScriptedWatch::new();
    for version in 11..11 + events {
        let name = format!("o{}", version * 7 % 23);
        watch = match version % 4 {
            0 => watch.deleted(item(&name, version)),
            _ => watch.modified(item(&name, version)),
        };
        if version % 211 == 0 {
            watch = watch.wait(Duration::from_millis(1));
        }
    }
    watch.stays_open()
}

async fn read(mut stream: EventStream<()>, probe: ProbeHandler<()>) {
    while let Some(event) = stream.next().await {
        probe.receive(&event);
    }
}

/// P2, P4, P9: the probes check the events that they receive; no handler may have panicked.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_many_threads_the_events_of_each_handler_add_up_to_the_cache() {
    const EVENTS: u64 = 5000;
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("o1", 1)], fast_changes(EVENTS)));
    let is_over = Arc::new(AtomicBool::new(false));
    let join = |number: usize, informer: &SharedInformer<()>| -> (Probe<()>, Registration) {
        let probe = Probe::new();
        let subscribe: Subscribe<'_, ()> = informer.subscribe();
        let subscribe = if number.is_multiple_of(2) { subscribe.coalesce_above(number % 50) } else { subscribe };
        let registration = match number % 3 {
            0 => subscribe.handler(probe.handler()).unwrap(),
            1 => subscribe.blocking_handler(probe.handler()).unwrap(),
            _ => {
                let stream = subscribe.stream().unwrap();
                let registration = stream.registration().clone();
                tokio::spawn(read(stream, probe.handler()));
                registration
            }
        };
        (probe, registration)
    };
    let mut stayed = vec![join(0, &informer), join(1, &informer), join(2, &informer)];
    informer.start();
    let mut tasks = Vec::new();
    for task in 0..4 {
        let (informer, is_over) = (informer.clone(), Arc::clone(&is_over));
        tasks.push(tokio::spawn(async move {
            let mut stayed = Vec::new();
            for number in task.. {
                if is_over.load(Ordering::SeqCst) {
                    break;
                }
                let (probe, registration) = join(number, &informer);
                // The sleep is real, as the threads are: it lets events arrive before the handler leaves.
                tokio::time::sleep(Duration::from_micros(200)).await;
                match number % 5 {
                    0 => stayed.push((probe, registration)),
                    1 => registration.remove(),
                    _ => {
                        registration.stop().await.unwrap();
                        let received = probe.lines().len();
                        tokio::task::yield_now().await;
                        // The reader of a stream may be about to record one more event.
                        assert!(probe.lines().len() <= received + usize::from(number % 3 == 2), "P9");
                        assert_eq!(registration.status().panics, 0);
                    }
                }
            }
            stayed
        }));
    }
    let last = ResourceVersion::new((10 + EVENTS).to_string());
    informer.caught_up_to(&last, Duration::from_secs(120)).await.unwrap();
    is_over.store(true, Ordering::SeqCst);
    for task in tasks {
        stayed.extend(task.await.unwrap());
    }
    assert!(stayed.len() > 3, "some handlers joined while objects changed");
    let expected = cached(&informer);
    for (probe, registration) in &stayed {
        registration.synced().await.unwrap();
        // The time limit only turns a hang into a failure.
        let caught_up = timeout(Duration::from_secs(120), registration.caught_up_to(&last)).await;
        assert!(matches!(caught_up, Ok(Ok(()))), "{registration:?}: {caught_up:?}");
        let mut known = probe.known();
        known.sort();
        assert_eq!(known, expected, "{registration:?}");
        assert_eq!(registration.backlog(), 0);
        assert_eq!(registration.status().panics, 0, "no handler panicked");
    }
    informer.stop().await.unwrap();
    leaks.check_soon().await;
}

/// The futures of the public API can be awaited in a spawned task.
#[test]
fn futures_of_informers_and_registrations_are_send() {
    fn is_send<T: Send>(_: &T) {}
    let informer = informer(&source("10", &[], open_watch()));
    let registration = informer.subscribe().register().unwrap();
    let (version, key, limit) = ("1".into(), informant::Key::cluster_scoped("a"), Duration::ZERO);
    let identity = informant::Identity::of_key(key.clone());
    is_send(&informer.synced());
    is_send(&informer.synced_within(limit));
    is_send(&informer.stop());
    is_send(&informer.stop_within(limit));
    is_send(&informer.caught_up_to(&version, limit));
    is_send(&informer.wait_for(&key, &version, limit));
    is_send(&informer.wait_until_gone(&identity, limit));
    is_send(&registration.synced());
    is_send(&registration.stop());
    is_send(&informer.subscribe().stream().unwrap());
}

/// P9: before the start and after it, the informer keeps nothing of a removed handler.
#[test]
fn handlers_and_streams_that_join_and_leave_leak_no_memory() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    let join_and_leave = async |times: usize| {
        for _ in 0..times {
            let probe = Probe::new();
            let handler = informer.subscribe().handler(probe.handler()).unwrap();
            let stream = informer.subscribe().stream().unwrap();
            handler.remove();
            drop(stream);
            tokio::task::yield_now().await;
        }
    };
    let measure = |times: usize| {
        runtime.block_on(join_and_leave(10));
        allocation_counter::measure(|| runtime.block_on(join_and_leave(times))).bytes_current
    };

    let unstarted = measure(500);
    runtime.block_on(async {
        informer.start();
        informer.synced().await.unwrap();
    });
    let started = measure(500);

    assert!(unstarted < 20_000, "{unstarted} bytes before the start");
    assert!(started < 20_000, "{started} bytes after the start");
    runtime.block_on(async {
        informer.stop().await.unwrap();
        assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
    });
}
