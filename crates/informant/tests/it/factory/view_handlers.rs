//! Handlers and streams of several informers.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::mpsc;

use futures_util::FutureExt;
use informant::Event;
use informant::Handler;
use informant::Registration;
use informant::SharedInformerFactory;
use informant_apiserver::Fault;
use informant_apiserver::On;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::Instant;

use super::support::Leaks;
use super::support::Logs;
use super::support::Probe;
use super::support::SECOND;
use super::support::client;
use super::support::config;
use super::support::factory;
use super::support::server;
use super::support::settle;
use super::support::stop_factory;
use super::support::three_namespaces;
use super::support::two_namespaces;
use super::support::until;
use crate::informer::support::many_threads;
use crate::informer::support::without_deadlock;
use crate::support::show_objects;

/// Decision 17
#[tokio::test(start_paused = true)]
async fn a_handler_of_a_view_follows_all_members_and_is_synced_once() {
    let server = three_namespaces();
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let view = factory.request::<ConfigMap>().in_namespaces(["shop", "bank"]).view().unwrap();
    let probe = Probe::new();
    let registration = view.subscribe().named("probe of all").handler(probe.clone()).unwrap();
    server.inject(On::any().of("configmaps").times(1), Fault::Delay(SECOND * 5));
    factory.start();
    tokio::time::sleep(SECOND).await;
    assert!(!view.is_synced() && !registration.is_synced(), "one of two is not all");
    assert!(!probe.lines().contains(&"synced".to_owned()));

    registration.synced().await.unwrap();
    assert!(view.is_synced() && registration.is_synced());
    assert_eq!(probe.lines().last().unwrap(), "synced");
    assert_eq!(probe.take().len(), 4);
    assert_eq!((&*registration.name(), registration.backlog()), ("probe of all", 0));
    assert_eq!(registration.status().delivered, 3 + 2, "each member has told of its end");

    server.put("configmaps", config("bank/new")).unwrap();
    server.delete("configmaps", "shop/a").unwrap();
    probe.until_lines(|lines| lines.len() == 2).await;
    assert_eq!(probe.known(), show_objects(view.list()));

    registration.stop().await.unwrap();
    assert!(registration.is_removed());
    server.put("configmaps", config("bank/unheard")).unwrap();
    settle().await;
    assert_eq!(probe.lines().len(), 2);
    stop_factory(&factory, &leaks).await;
}

/// Decision 17: a handler of a view is called by one member at a time, and the others wait for it.
#[tokio::test(start_paused = true)]
async fn resyncs_do_not_pile_up_for_a_slow_handler_or_stream_of_a_view() {
    let server = three_namespaces();
    let factory = SharedInformerFactory::builder(client(&server)).resync_every(SECOND).build();
    let leaks = Leaks::watch();
    let view = factory.request::<ConfigMap>().in_namespaces(["shop", "bank"]).view().unwrap();
    let mut stream = view.stream().unwrap();
    let (open, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let stuck = Handler::<ConfigMap>::new().on_add(move |_, _| {
        // An error means that the gate is open for good.
        let _ = gate.lock().unwrap().recv();
    });
    let stuck = view.subscribe().blocking_handler(stuck).unwrap();
    factory.start();
    view.synced().await.unwrap();
    tokio::time::sleep(SECOND * 100).await;

    // Of each object an add and a resync, and of each member the end of the initial list.
    let most = 2 * view.len() + 2;
    for status in [stream.registration().status(), stuck.status()] {
        assert!(status.backlog <= most && status.resyncs_skipped > 190, "at most {most}: {status:?}");
    }
    while stream.next().now_or_never().is_some() {}
    tokio::time::sleep(SECOND).await;
    assert_eq!(stream.registration().backlog(), view.len(), "one that has caught up is resynced again");
    drop((open, stream));
    stop_factory(&factory, &leaks).await;
}

/// Decision 17
#[test]
fn a_handler_of_a_view_is_called_by_one_member_at_a_time() {
    without_deadlock(|| {
        let runtime = many_threads();
        runtime.block_on(async {
            let namespaces: Vec<_> = (0..8).map(|number| format!("n{number}")).collect();
            let server = server(&[]);
            for key in namespaces.iter().flat_map(|namespace| (0..50).map(move |name| format!("{namespace}/{name}"))) {
                server.put("configmaps", config(&key)).unwrap();
            }
            let factory = factory(&server);
            let view = factory.request::<ConfigMap>().in_namespaces(namespaces).view().unwrap();
            let (inside, calls, most) =
                (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let (counted, seen) = (Arc::clone(&calls), Arc::clone(&most));
            let handler = Handler::<ConfigMap>::new().on_add(move |_, _| {
                seen.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::yield_now();
                counted.fetch_add(1, Ordering::SeqCst);
                inside.fetch_sub(1, Ordering::SeqCst);
            });
            let registration = view.subscribe().blocking_handler(handler).unwrap();
            factory.start();
            registration.synced().await.unwrap();

            assert_eq!((calls.load(Ordering::SeqCst), most.load(Ordering::SeqCst)), (400, 1));
            factory.stop().await.unwrap();
        });
    });
}

/// Decision 17: while one member calls a handler that takes its time, the others wait in a way that keeps no thread.
#[test]
fn a_slow_handler_of_a_view_keeps_no_other_task_from_running() {
    without_deadlock(|| {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let namespaces: Vec<_> = (0..8).map(|number| format!("n{number}")).collect();
            let server = server(&[]);
            namespaces.iter().for_each(|name| drop(server.put("configmaps", config(&format!("{name}/a"))).unwrap()));
            let factory = factory(&server);
            let view = factory.request::<ConfigMap>().in_namespaces(namespaces).view().unwrap();
            let (open, gate) = mpsc::channel::<()>();
            let (gate, calls) = (Mutex::new(gate), Arc::new(AtomicUsize::new(0)));
            let counted = Arc::clone(&calls);
            let handler = Handler::<ConfigMap>::new().on_add(move |_, _| {
                counted.fetch_add(1, Ordering::SeqCst);
                let _ = gate.lock().unwrap().recv();
            });
            view.add_handler(handler).unwrap();
            factory.start();
            until(|| calls.load(Ordering::SeqCst) == 1 && view.is_synced()).await;

            // One of the two threads is taken by the handler. The other one must be free.
            for _ in 0..100 {
                tokio::spawn(async { tokio::task::yield_now().await }).await.unwrap();
            }
            assert_eq!(calls.load(Ordering::SeqCst), 1);
            drop(open);
            until(|| calls.load(Ordering::SeqCst) == 8).await;
            factory.stop().await.unwrap();
        });
    });
}

/// Decision 16
#[test]
fn a_callback_of_a_view_may_stop_another_member_but_not_wait_for_itself() {
    without_deadlock(|| {
        let runtime = many_threads();
        runtime.block_on(async {
            let server = three_namespaces();
            let factory = factory(&server);
            let view = factory.request::<ConfigMap>().in_namespaces(["shop", "bank"]).view().unwrap();
            let registration = Arc::new(Mutex::new(None::<Registration>));
            let (runtime, asked) = (tokio::runtime::Handle::current(), Arc::clone(&registration));
            let (stopping, outcomes) = (view.clone(), Arc::new(Mutex::new(Vec::new())));
            let heard = Arc::clone(&outcomes);
            let handler = Handler::<ConfigMap>::new().on_add(move |config, _| {
                // As long as the other one has its own to tell.
                if config.key().as_str() != "bank/a" {
                    return;
                }
                let registration = asked.lock().unwrap().clone().unwrap();
                let in_shop = stopping.informers().nth(1).unwrap();
                let outcome = runtime.block_on(async {
                    (in_shop.stop().await.is_ok(), registration.stop().await.is_err(), stopping.stop().await.is_err())
                });
                heard.lock().unwrap().push(outcome);
            });
            *registration.lock().unwrap() = Some(view.subscribe().blocking_handler(handler).unwrap());
            factory.start();

            until(|| !outcomes.lock().unwrap().is_empty()).await;
            assert_eq!(*outcomes.lock().unwrap(), [(true, true, true)]);
            let registration = registration.lock().unwrap().take().unwrap();
            registration.stop().await.unwrap();
            factory.stop().await.unwrap();
        });
    });
}

/// Decision 17
#[tokio::test(start_paused = true)]
async fn a_handler_of_a_view_is_resynced_by_all_members_and_there_until_all_have_stopped() {
    let server = three_namespaces();
    let factory = SharedInformerFactory::builder(client(&server)).resync_every(SECOND * 60).build();
    let leaks = Leaks::watch();
    let view = factory.request::<ConfigMap>().in_namespaces(["shop", "bank"]).view().unwrap();
    let probe = Probe::new();
    let registration = view.subscribe().resync_every(SECOND * 30).handler(probe.clone()).unwrap();
    assert_eq!(registration.resync_period(), Some(SECOND * 30));
    factory.start();
    registration.synced().await.unwrap();
    probe.take();
    tokio::time::sleep(SECOND * 31).await;
    let mut resynced = probe.take();
    resynced.sort();
    assert_eq!(resynced, ["R(bank/a@4)", "R(shop/a@2)", "R(shop/b@3)"]);

    view.informers().next().unwrap().stop().await.unwrap();
    assert!(!registration.is_removed(), "one of them goes on");
    view.stop().await.unwrap();
    assert!(registration.is_removed());
    stop_factory(&factory, &leaks).await;
}

/// P8: what panics rests for a second; the others go on.
#[tokio::test(start_paused = true)]
async fn a_handler_of_a_view_that_panicked_for_one_member_is_called_by_the_others_at_once() {
    let _logs = Logs::capture();
    let server = three_namespaces();
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let view = factory.request::<ConfigMap>().in_namespaces(["shop", "bank"]).view().unwrap();
    let (start, heard) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
    let calls = Arc::clone(&heard);
    let handler = Handler::<ConfigMap>::new().on_add(move |config, _| {
        calls.lock().unwrap().push((start.elapsed().as_secs(), config.key().to_string()));
        if config.key().as_str() == "bank/a" {
            std::panic::resume_unwind(Box::new("not this one"));
        }
    });
    let registration = view.add_handler(handler).unwrap();
    factory.start();
    registration.synced().await.unwrap();

    let mut calls = heard.lock().unwrap().clone();
    calls.sort();
    assert_eq!(calls, [(0, "bank/a".into()), (0, "shop/a".into()), (0, "shop/b".into())]);
    assert_eq!(registration.status().panics, 1);
    stop_factory(&factory, &leaks).await;
}

/// P9
#[test]
fn a_member_that_waits_for_its_turn_can_be_stopped_and_its_handler_removed() {
    without_deadlock(|| {
        let runtime = many_threads();
        runtime.block_on(async {
            let server = three_namespaces();
            let factory = factory(&server);
            let view = factory.request::<ConfigMap>().in_namespaces(["shop", "bank"]).view().unwrap();
            let (open, gate) = mpsc::channel::<()>();
            let (gate, caller) = (Mutex::new(gate), Arc::new(Mutex::new(None)));
            let called = Arc::clone(&caller);
            let handler = Handler::<ConfigMap>::new().on_add(move |config, _| {
                called.lock().unwrap().get_or_insert(config.key().namespace().unwrap().to_owned());
                let _ = gate.lock().unwrap().recv();
            });
            let registration = view.subscribe().blocking_handler(handler).unwrap();
            factory.start();
            until(|| caller.lock().unwrap().is_some() && view.is_synced()).await;

            let caller = caller.lock().unwrap().clone().unwrap();
            let other = view.informers().find(|informer| **informer.namespace().unwrap() != *caller).unwrap();
            other.stop().await.unwrap();
            assert!(!registration.is_removed());
            drop(open);
            registration.stop().await.unwrap();
            factory.stop().await.unwrap();
        });
    });
}

/// Decision 17: all or none; nobody is told before all have accepted, however many threads there are.
#[test]
fn a_handler_that_is_refused_has_heard_nothing_on_many_threads() {
    without_deadlock(|| {
        let runtime = many_threads();
        runtime.block_on(async {
            let namespaces: Vec<_> = (0..30).map(|number| format!("n{number:02}")).collect();
            let server = server(&[]);
            namespaces.iter().for_each(|name| drop(server.put("configmaps", config(&format!("{name}/a"))).unwrap()));
            let factory = factory(&server);
            let view = factory.request::<ConfigMap>().in_namespaces(namespaces).view().unwrap();
            factory.start();
            view.synced().await.unwrap();
            view.informers().last().unwrap().stop().await.unwrap();

            for _ in 0..20 {
                let probe = Probe::new();
                view.add_handler(probe.clone()).unwrap_err();
                until(|| view.status().iter().all(|status| status.handlers.is_empty())).await;
                assert!(probe.lines().is_empty());
            }
            factory.stop().await.unwrap();
        });
    });
}

/// Decision 17: all or none.
#[tokio::test(start_paused = true)]
async fn a_handler_that_one_member_refuses_follows_none() {
    let server = three_namespaces();
    let (factory, view, leaks) = two_namespaces(&server).await;
    let last = view.informers().last().unwrap().clone();
    last.stop().await.unwrap();

    let probe = Probe::new();
    view.add_handler(probe.clone()).unwrap_err();
    view.stream().unwrap_err();

    settle().await;
    assert!(view.informers().all(|informer| informer.status().handlers.is_empty()));
    assert!(probe.lines().is_empty(), "and has heard nothing");
    assert_eq!(view.problems().len(), 1);
    stop_factory(&factory, &leaks).await;
}

/// Decision 17
#[tokio::test(start_paused = true)]
async fn a_stream_of_a_view_has_the_events_of_all_members_and_ends_with_them() {
    let server = three_namespaces();
    let (factory, view, leaks) = two_namespaces(&server).await;
    let probe = Probe::new();
    let mut stream = view.subscribe().filter(|config| config.key().name() == "a").stream().unwrap();
    loop {
        let event = stream.next().await.unwrap();
        probe.hear(&event);
        if let Event::Synced = event {
            break;
        }
    }
    let mut first = probe.take();
    first.sort();
    assert_eq!(first, ["A(bank/a@4, initial)", "A(shop/a@2, initial)", "synced"]);
    assert!(stream.next().now_or_never().is_none());
    assert!(stream.registration().is_synced());

    server.delete("configmaps", "bank/a").unwrap();
    probe.hear(&stream.next().await.unwrap());
    assert!(probe.take()[0].starts_with("D(bank/a"));
    factory.stop().await.unwrap();
    assert!(stream.next().await.is_none());
    leaks.check();
}
