//! Handlers and streams of views.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
    mpsc,
};

use futures_util::FutureExt;
use informant::{Event, Registration, SharedInformerFactory};
use informant_apiserver::{Fault, On};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::Instant;

use crate::support::{
    informers::{many_threads, without_deadlock},
    servers::{
        Leaks, Logs, Probe, SECOND, client, config, factory, server, stop_factory, three_namespaces, two_namespaces,
        wait_until, wait_until_idle, within_limit,
    },
    show_objects,
};

/// Decision 17
#[tokio::test(start_paused = true)]
async fn a_handler_of_a_view_receives_the_events_of_all_members_and_one_synced() {
    let server = three_namespaces();
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let view = factory.request::<ConfigMap>().in_namespaces(["shop", "bank"]).view().unwrap();
    let probe = Probe::new();
    let registration = view.subscribe().named("probe of all").handler(probe.handler()).unwrap();
    server.inject(On::any().of("configmaps").times(1), Fault::Delay(SECOND * 5));
    factory.start();
    tokio::time::sleep(SECOND).await;
    assert!(!view.is_synced() && !registration.is_synced(), "only one of two members is synced");
    assert!(!probe.lines().contains(&"synced".to_owned()));

    registration.synced().await.unwrap();
    assert!(view.is_synced() && registration.is_synced());
    assert_eq!(probe.lines().last().unwrap(), "synced");
    assert_eq!(probe.take().len(), 4);
    assert_eq!((&*registration.name(), registration.backlog()), ("probe of all", 0));
    assert_eq!(registration.status().delivered, 3 + 2, "each member delivers the end of its initial list");

    server.put("configmaps", config("bank/new")).unwrap();
    server.delete("configmaps", "shop/a").unwrap();
    probe.until_lines(|lines| lines.len() == 2).await;
    assert_eq!(probe.known(), show_objects(view.list()));

    registration.stop().await.unwrap();
    assert!(registration.is_removed());
    server.put("configmaps", config("bank/late")).unwrap();
    wait_until_idle().await;
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
    let mut stream = view.subscribe().stream().unwrap();
    let (open, gate) = mpsc::channel::<()>();
    let gate = Mutex::new(gate);
    let stuck = view
        .subscribe()
        .on_add(move |_, _| {
            // An error means that the test has dropped the sender.
            let _ = gate.lock().unwrap().recv();
        })
        .register_blocking()
        .unwrap();
    factory.start();
    view.synced().await.unwrap();
    tokio::time::sleep(SECOND * 100).await;

    // An add and a resync of each object, and the end of the initial list of each member.
    let most = 2 * view.len() + 2;
    for status in [stream.registration().status(), stuck.status()] {
        assert!(status.backlog <= most && status.resyncs_skipped > 190, "at most {most}: {status:?}");
    }
    while stream.next().now_or_never().is_some() {}
    tokio::time::sleep(SECOND).await;
    assert_eq!(stream.registration().backlog(), view.len(), "a stream that has caught up is resynced again");
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
            let registration = view
                .subscribe()
                .on_add(move |_, _| {
                    seen.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::yield_now();
                    counted.fetch_add(1, Ordering::SeqCst);
                    inside.fetch_sub(1, Ordering::SeqCst);
                })
                .register_blocking()
                .unwrap();
            factory.start();
            registration.synced().await.unwrap();

            assert_eq!((calls.load(Ordering::SeqCst), most.load(Ordering::SeqCst)), (400, 1));
            factory.stop().await.unwrap();
        });
    });
}

/// Decision 17: while one member calls a slow handler, the other members wait without blocking a thread.
#[test]
fn a_slow_handler_of_a_view_blocks_no_other_task() {
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
            view.subscribe()
                .on_add(move |_, _| {
                    counted.fetch_add(1, Ordering::SeqCst);
                    let _ = gate.lock().unwrap().recv();
                })
                .register()
                .unwrap();
            factory.start();
            wait_until(|| calls.load(Ordering::SeqCst) == 1 && view.is_synced()).await;

            // The handler blocks one of the two threads. The other one must be free.
            for _ in 0..100 {
                tokio::spawn(async { tokio::task::yield_now().await }).await.unwrap();
            }
            assert_eq!(calls.load(Ordering::SeqCst), 1);
            drop(open);
            wait_until(|| calls.load(Ordering::SeqCst) == 8).await;
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
            let received = Arc::clone(&outcomes);
            *registration.lock().unwrap() = Some(
                view.subscribe()
                    .on_add(move |config, _| {
                        // Waits while the other member has an event to deliver.
                        if config.key().as_str() != "bank/a" {
                            return;
                        }
                        let registration = asked.lock().unwrap().clone().unwrap();
                        let in_shop = stopping.informers().nth(1).unwrap();
                        let outcome = runtime.block_on(async {
                            (
                                in_shop.stop().await.is_ok(),
                                registration.stop().await.is_err(),
                                stopping.stop().await.is_err(),
                            )
                        });
                        received.lock().unwrap().push(outcome);
                    })
                    .register_blocking()
                    .unwrap(),
            );
            factory.start();

            wait_until(|| !outcomes.lock().unwrap().is_empty()).await;
            assert_eq!(*outcomes.lock().unwrap(), [(true, true, true)]);
            let registration = registration.lock().unwrap().take().unwrap();
            registration.stop().await.unwrap();
            factory.stop().await.unwrap();
        });
    });
}

/// Decision 17
#[tokio::test(start_paused = true)]
async fn a_handler_of_a_view_is_resynced_by_all_members_and_stays_until_all_have_stopped() {
    let server = three_namespaces();
    let factory = SharedInformerFactory::builder(client(&server)).resync_every(SECOND * 60).build();
    let leaks = Leaks::watch();
    let view = factory.request::<ConfigMap>().in_namespaces(["shop", "bank"]).view().unwrap();
    let probe = Probe::new();
    let registration = view.subscribe().resync_every(SECOND * 30).handler(probe.handler()).unwrap();
    assert_eq!(registration.resync_period(), Some(SECOND * 30));
    factory.start();
    registration.synced().await.unwrap();
    probe.take();
    tokio::time::sleep(SECOND * 31).await;
    let mut resynced = probe.take();
    resynced.sort();
    assert_eq!(resynced, ["R(bank/a@4)", "R(shop/a@2)", "R(shop/b@3)"]);

    view.informers().next().unwrap().stop().await.unwrap();
    assert!(!registration.is_removed(), "one member keeps running");
    view.stop().await.unwrap();
    assert!(registration.is_removed());
    stop_factory(&factory, &leaks).await;
}

/// P8: only the member whose call panicked pauses for a second.
#[tokio::test(start_paused = true)]
async fn a_handler_of_a_view_that_panicked_for_one_member_is_called_by_the_others_at_once() {
    let _logs = Logs::capture();
    let server = three_namespaces();
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let view = factory.request::<ConfigMap>().in_namespaces(["shop", "bank"]).view().unwrap();
    let (start, received) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
    let calls = Arc::clone(&received);
    let registration = view
        .subscribe()
        .on_add(move |config, _| {
            calls.lock().unwrap().push((start.elapsed().as_secs(), config.key().to_string()));
            if config.key().as_str() == "bank/a" {
                std::panic::resume_unwind(Box::new("not this one"));
            }
        })
        .register()
        .unwrap();
    factory.start();
    registration.synced().await.unwrap();

    let mut calls = received.lock().unwrap().clone();
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
            let registration = view
                .subscribe()
                .on_add(move |config, _| {
                    called.lock().unwrap().get_or_insert(config.key().namespace().unwrap().to_owned());
                    let _ = gate.lock().unwrap().recv();
                })
                .register_blocking()
                .unwrap();
            factory.start();
            wait_until(|| caller.lock().unwrap().is_some() && view.is_synced()).await;

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

/// Decision 17: no event is delivered before all members have accepted the handler, on any number of threads.
#[test]
fn a_handler_that_a_view_refuses_has_received_nothing_on_many_threads() {
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
                view.subscribe().handler(probe.handler()).unwrap_err();
                wait_until(|| view.status().iter().all(|status| status.handlers.is_empty())).await;
                assert!(probe.lines().is_empty());
            }
            factory.stop().await.unwrap();
        });
    });
}

/// Decision 17
#[tokio::test(start_paused = true)]
async fn a_handler_that_one_member_refuses_is_added_to_no_member() {
    let server = three_namespaces();
    let (factory, view, leaks) = two_namespaces(&server).await;
    let last = view.informers().last().unwrap().clone();
    last.stop().await.unwrap();

    let probe = Probe::new();
    view.subscribe().handler(probe.handler()).unwrap_err();
    view.subscribe().stream().unwrap_err();

    wait_until_idle().await;
    assert!(view.informers().all(|informer| informer.status().handlers.is_empty()));
    assert!(probe.lines().is_empty(), "the handler has received nothing");
    assert_eq!(view.problems().len(), 1);
    stop_factory(&factory, &leaks).await;
}

/// Decision 17
#[tokio::test(start_paused = true)]
async fn a_stream_of_a_view_receives_the_events_of_all_members_and_ends_with_them() {
    let server = three_namespaces();
    let (factory, view, leaks) = two_namespaces(&server).await;
    let probe = Probe::new();
    let mut stream = view.subscribe().filter(|config| config.key().name() == "a").stream().unwrap();
    loop {
        let event = within_limit(stream.next()).await.unwrap();
        probe.receive(&event);
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
    probe.receive(&within_limit(stream.next()).await.unwrap());
    assert!(probe.take()[0].starts_with("D(bank/a"));
    factory.stop().await.unwrap();
    assert!(stream.next().await.is_none());
    leaks.check();
}
