//! Real threads: what holds on one of them holds on many.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;
use std::time::Duration;

use informant::EventStream;
use informant::Handler;
use informant::Registration;
use informant::SharedInformer;
use informant::informer::Subscribe;
use informant::listwatch::ScriptedWatch;

use super::support::Leaks;
use super::support::Probe;
use super::support::QUEUES;
use super::support::cached;
use super::support::informer;
use super::support::informer_with;
use super::support::open_watch;
use super::support::ready;
use super::support::source;

/// A watch on which objects come and go as fast as they can.
fn hurry(events: u64) -> ScriptedWatch<()> {
    let mut watch = ScriptedWatch::new();
    for version in 11..11 + events {
        let name = format!("o{}", version * 7 % 23);
        watch = match version % 4 {
            0 => watch.deleted(ready(&name, version)),
            _ => watch.modified(ready(&name, version)),
        };
        if version % 211 == 0 {
            watch = watch.wait(Duration::from_millis(1));
        }
    }
    watch.stays_open()
}

async fn read(mut stream: EventStream<()>, probe: Probe<()>) {
    while let Some(event) = stream.next().await {
        probe.hear(&event);
    }
}

/// P2, P4, P9: the probes check what they hear, and panic at nonsense; nobody may have panicked.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn on_many_threads_too_what_each_handler_heard_gives_the_cache() {
    const EVENTS: u64 = 5000;
    for queue in QUEUES {
        let leaks = Leaks::watch();
        let informer = informer_with(&source("10", &[("o1", 1)], hurry(EVENTS)), queue);
        let is_over = Arc::new(AtomicBool::new(false));
        let join = |number: usize, informer: &SharedInformer<()>| -> (Probe<()>, Registration) {
            let probe = Probe::new();
            let subscribe: Subscribe<'_, ()> = informer.subscribe();
            let subscribe = if number.is_multiple_of(2) { subscribe.coalesce_above(number % 50) } else { subscribe };
            let registration = match number % 3 {
                0 => subscribe.handler(probe.clone()).unwrap(),
                1 => subscribe.blocking_handler(probe.clone()).unwrap(),
                _ => {
                    let stream = subscribe.stream().unwrap();
                    let registration = stream.registration().clone();
                    tokio::spawn(read(stream, probe.clone()));
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
                    tokio::time::sleep(Duration::from_micros(200)).await;
                    match number % 5 {
                        0 => stayed.push((probe, registration)),
                        1 => registration.remove(),
                        _ => {
                            registration.stop().await.unwrap();
                            let heard = probe.lines().len();
                            tokio::task::yield_now().await;
                            // Of a stream, one event may be on its way to its reader.
                            assert!(probe.lines().len() <= heard + usize::from(number % 3 == 2), "P9");
                            assert_eq!(registration.status().panics, 0);
                        }
                    }
                }
                stayed
            }));
        }
        let last = (10 + EVENTS).to_string();
        informer.caught_up_to(&last.as_str().into(), Duration::from_secs(120)).await.unwrap();
        is_over.store(true, Ordering::SeqCst);
        for task in tasks {
            stayed.extend(task.await.unwrap());
        }
        assert!(stayed.len() > 3, "some have joined on the way");
        let expected = cached(&informer);
        for (probe, registration) in &stayed {
            registration.synced().await.unwrap();
            let is_right = |probe: &Probe<()>| {
                let mut known = probe.known();
                known.sort();
                known == expected
            };
            for _ in 0..10_000 {
                if registration.backlog() == 0 && is_right(probe) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            assert!(is_right(probe), "{registration:?}: {:?} is not {expected:?}", probe.known());
            assert_eq!(registration.status().panics, 0, "nobody was told nonsense");
        }
        informer.stop().await.unwrap();
        leaks.check_soon().await;
    }
}

/// Everything that is awaited can be awaited in a task.
#[test]
fn futures_can_go_to_another_thread() {
    fn is_send<T: Send>(_: &T) {}
    let informer = informer(&source("10", &[], open_watch()));
    let registration = informer.add_handler(Handler::new()).unwrap();
    let (version, key, limit) = ("1".into(), informant::Key::cluster_scoped("a"), Duration::ZERO);
    let identity = informant::object::Identity::of_key(key.clone());
    is_send(&informer.synced());
    is_send(&informer.synced_within(limit));
    is_send(&informer.stop());
    is_send(&informer.stop_within(limit));
    is_send(&informer.caught_up_to(&version, limit));
    is_send(&informer.wait_for(&key, &version, limit));
    is_send(&informer.wait_until_gone(&identity, limit));
    is_send(&registration.synced());
    is_send(&registration.stop());
    is_send(&informer.stream().unwrap());
}

/// P9: who has left is forgotten, before the start and after it.
#[test]
fn coming_and_going_leaves_no_memory_behind() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    let come_and_go = async |times: usize| {
        for _ in 0..times {
            let handler = informer.add_handler(Probe::new()).unwrap();
            let stream = informer.stream().unwrap();
            handler.remove();
            drop(stream);
            tokio::task::yield_now().await;
        }
    };
    let measure = |times: usize| {
        runtime.block_on(come_and_go(10));
        allocation_counter::measure(|| runtime.block_on(come_and_go(times))).bytes_current
    };

    let unstarted = measure(500);
    runtime.block_on(async {
        informer.start();
        informer.synced().await.unwrap();
    });
    let started = measure(500);

    assert!(unstarted < 20_000, "{unstarted} bytes before the start");
    assert!(started < 20_000, "{started} bytes after it");
    runtime.block_on(async {
        informer.stop().await.unwrap();
        assert_eq!(tokio::runtime::Handle::current().metrics().num_alive_tasks(), 0);
    });
}
