//! Destructors of objects, handlers, filters and callbacks are users' code: they may call the informer, panic or hang.

use std::sync::{
    Arc, Mutex, OnceLock,
    atomic::{AtomicBool, AtomicUsize, Ordering},
    mpsc,
};

use futures_util::FutureExt;
use informant::{
    Cached, Identity, Key, Registration, SharedInformer,
    error::StopError,
    factory::InformerState,
    pipeline::Item,
    testing::{ScriptedList, ScriptedSource, ScriptedWatch},
};

use crate::support::{
    Logs,
    informers::{
        LONG, Leaks, OnDrop, Probe, informer, keep, many_threads, milliseconds, one_thread, open_watch, source,
        wait_until, without_deadlock,
    },
};

fn object<O: Send + Sync + 'static>(version: u64, content: O) -> Item<O> {
    let version = version.to_string().as_str().into();
    Item::new(Identity { key: Key::cluster_scoped("a"), uid: "u".into(), version }, content)
}

/// P9: a handler that was removed or never called is dropped, with everything that it holds.
#[tokio::test]
async fn handlers_and_filters_are_dropped_when_they_are_removed_or_at_the_end() {
    let leaks = Leaks::watch();
    let token = Arc::new(());
    let held = || Arc::strong_count(&token) - 1;
    let hold = |informer: &SharedInformer<()>| {
        // A handler that holds its informer would keep the informer alive.
        let (by_handler, by_filter, own) = (Arc::clone(&token), Arc::clone(&token), informer.clone());
        let filter = move |_: &Cached<()>| Arc::strong_count(&by_filter) > 0;
        informer.subscribe().filter(filter).on_synced(move || keep(&(&by_handler, &own))).register().unwrap()
    };
    let unstarted = informer(&source("10", &[("a", 1)], open_watch()));
    for _ in 0..10 {
        hold(&unstarted).stop().await.unwrap();
        assert_eq!(held(), 0);
    }
    hold(&unstarted);
    unstarted.stop().await.unwrap();
    assert_eq!(held(), 0, "after the stop of an informer that never started");

    let started = informer(&source("10", &[("a", 1)], open_watch()));
    started.start();
    started.synced().await.unwrap();
    for _ in 0..10 {
        hold(&started).stop().await.unwrap();
        assert_eq!(held(), 0);
    }
    hold(&started);
    started.stop().await.unwrap();
    assert_eq!(held(), 0, "after the stop");
    leaks.check();
}

/// `stop` of a registration returns after the handler was dropped.
#[tokio::test]
async fn after_stop_the_handler_is_dropped() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    let gone = Arc::new(AtomicBool::new(false));
    let dropped = Arc::clone(&gone);
    let registration =
        informer.subscribe().handler(OnDrop::new(move || dropped.store(true, Ordering::SeqCst))).unwrap();
    informer.start();
    registration.synced().await.unwrap();

    registration.stop().await.unwrap();

    assert!(gone.load(Ordering::SeqCst));
    leaks.stop(&informer).await;
}

/// Decision 7: no user code runs under a lock that a reader needs.
#[test]
fn an_object_may_read_the_informer_when_it_is_dropped() {
    for coalesces in [false, true] {
        without_deadlock(move || {
            let slot = Arc::new(OnceLock::<(SharedInformer<OnDrop>, Registration)>::new());
            let dropped = Arc::new(AtomicUsize::new(0));
            let make = |version| {
                let (slot, dropped) = (Arc::clone(&slot), Arc::clone(&dropped));
                object(
                    version,
                    OnDrop::new(move || {
                        if let Some((informer, registration)) = slot.get() {
                            assert_eq!(informer.status().handlers.len(), 1);
                            let _ = registration.backlog();
                        }
                        dropped.fetch_add(1, Ordering::SeqCst);
                    }),
                )
            };
            let mut watch = ScriptedWatch::new();
            for version in 11..20 {
                watch = watch.modified(make(version)).wait(milliseconds(1));
            }
            let source = ScriptedSource::new();
            source.on_list(ScriptedList::at("10").object(make(1)));
            source.on_watch(watch.deleted(make(20)).stays_open());
            let informer = SharedInformer::of_decoded_objects(source).build();
            let mut stream = match coalesces {
                true => informer.subscribe().coalesce_above(0).stream().unwrap(),
                false => informer.subscribe().stream().unwrap(),
            };
            slot.set((informer.clone(), stream.registration().clone())).ok().unwrap();
            one_thread().block_on(async {
                informer.start();
                informer.caught_up_to(&"20".into(), LONG).await.unwrap();
                while let Some(Some(event)) = stream.next().now_or_never() {
                    drop(event);
                }
                wait_until(|| dropped.load(Ordering::SeqCst) == 11).await;
                informer.stop().await.unwrap();
            });
        });
    }
}

/// P8
#[tokio::test]
async fn a_handler_that_panics_when_it_is_dropped_affects_no_other_handler() {
    let leaks = Leaks::watch();
    let logs = Logs::capture();
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    let bad = || OnDrop::new(|| std::panic::resume_unwind(Box::new("my last word")));
    let first = informer.subscribe().named("first").handler(bad()).unwrap();
    let second = informer.subscribe().named("second").handler(bad()).unwrap();
    informer.start();
    second.synced().await.unwrap();
    first.stop().await.unwrap();

    let probe = Probe::new();
    informer.subscribe().handler(probe.handler()).unwrap().synced().await.unwrap();
    leaks.stop(&informer).await;

    assert_eq!(probe.known(), ["a@1"]);
    assert!(second.is_removed());
    let logs = logs.take();
    assert_eq!(logs.matches("a destructor panicked").count(), 2, "{logs}");
    assert!(logs.contains(r#"handler="first""#) && logs.contains(r#"handler="second""#), "{logs}");
}

/// P8: the informer has no way to go on, and says why.
#[tokio::test]
async fn the_crash_of_an_informer_has_the_panic_of_a_destructor_that_it_ran() {
    let leaks = Leaks::watch();
    let _logs = Logs::capture();
    let source = ScriptedSource::new();
    source.on_list(
        ScriptedList::at("10").object(object(1, OnDrop::new(|| std::panic::resume_unwind(Box::new("my last word"))))),
    );
    source.on_watch(ScriptedWatch::new().modified(object(11, OnDrop::new(|| {}))).stays_open());
    let informer = SharedInformer::of_decoded_objects(source).build();
    informer.start();

    wait_until(|| informer.state() == InformerState::Stopped).await;

    assert_eq!(informer.status().crash.as_deref(), Some("panicked: my last word"));
    leaks.stop(&informer).await;
}

/// Replaced callbacks and refused handlers are dropped without a lock.
#[test]
fn a_replaced_callback_or_a_refused_handler_may_call_the_informer_when_it_is_dropped() {
    without_deadlock(|| {
        let informer = informer(&source("10", &[("a", 1)], open_watch()));
        let own = informer.clone();
        let guard = OnDrop::new(move || drop(own.stop().now_or_never()));
        informer.set_on_error(move |_| keep(&guard)).unwrap();
        informer.set_on_error(|_| {}).unwrap();

        let result = Arc::new(Mutex::new(String::new()));
        let (recorded, own) = (Arc::clone(&result), informer.clone());
        let guard = OnDrop::new(move || {
            *recorded.lock().unwrap() = own.subscribe().register().unwrap_err().to_string();
        });
        assert!(informer.subscribe().handler(guard).is_err());
        assert!(result.lock().unwrap().contains("has stopped"), "{}", result.lock().unwrap());
    });
}

/// P9: the error of `stop_within` names the handlers that `stop` waits for, and no others.
#[test]
fn stop_within_names_a_handler_that_hangs_when_it_is_dropped_and_never_a_stream() {
    without_deadlock(|| {
        let runtime = many_threads();
        let informer = informer(&source("10", &[("a", 1)], open_watch()));
        let (open, gate) = mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        let slow = OnDrop::new(move || {
            let _ = gate.lock().unwrap().recv();
        });
        let registration = informer.subscribe().named("slow to go").handler(slow).unwrap();
        let _stream = informer.subscribe().stream().unwrap();
        runtime.block_on(async {
            informer.start();
            registration.synced().await.unwrap();
            // Retries until the handler's destructor runs; before, there is no handler to name.
            let named = loop {
                match informer.stop_within(milliseconds(10)).await {
                    Err(StopError::StillRunning { callbacks, .. }) if callbacks.is_empty() => {}
                    Err(StopError::StillRunning { callbacks, .. }) => break callbacks,
                    other => panic!("{other:?}"),
                }
            };
            assert_eq!(named, ["slow to go".into()]);
            drop(open);
            informer.stop().await.unwrap();
        });
    });
}

/// Decision 7
#[test]
fn a_filter_may_call_the_informer_when_it_is_dropped() {
    without_deadlock(|| {
        let informer = informer(&source("10", &[("a", 1)], open_watch()));
        let result = Arc::new(Mutex::new(None));
        many_threads().block_on(async {
            informer.start();
            informer.synced().await.unwrap();
            let (recorded, own) = (Arc::clone(&result), informer.clone());
            let guard = OnDrop::new(move || *recorded.lock().unwrap() = Some(own.subscribe().register().map(drop)));
            let (open, gate) = mpsc::channel::<()>();
            let (gate, running) = (Mutex::new(gate), Arc::new(AtomicBool::new(false)));
            let runs = Arc::clone(&running);
            let filter = move |_: &Cached<()>| {
                keep(&guard);
                true
            };
            let registration = informer
                .subscribe()
                .filter(filter)
                .on_add(move |_, _| {
                    runs.store(true, Ordering::SeqCst);
                    let _ = gate.lock().unwrap().recv();
                })
                .register_blocking()
                .unwrap();
            wait_until(|| running.load(Ordering::SeqCst)).await;
            // The handler is removed while its callback runs; other handlers join before and after the callback returns.
            registration.remove();
            informer.subscribe().register().unwrap();
            drop(open);
            registration.stop().await.unwrap();
            drop(registration);
            informer.subscribe().register().unwrap();
            wait_until(|| result.lock().unwrap().is_some()).await;
            result.lock().unwrap().take().unwrap().unwrap();
            informer.stop().await.unwrap();
        });
    });
}

/// P9: also for a handler that was never called.
#[test]
fn stop_of_a_registration_returns_after_the_handler_is_dropped_even_if_another_call_removed_it() {
    without_deadlock(|| {
        let informer = informer(&source("10", &[("a", 1)], open_watch()));
        let (gone, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (ends, begins) = (Arc::clone(&gone), Arc::clone(&begun));
        let (release, released) = mpsc::channel();
        let released = Mutex::new(released);
        let guard = OnDrop::new(move || {
            begins.store(true, Ordering::SeqCst);
            released.lock().unwrap().recv().unwrap();
            ends.store(true, Ordering::SeqCst);
        });
        let registration = informer.subscribe().handler(guard).unwrap();
        let other = registration.clone();
        let removing = std::thread::spawn(move || other.remove());
        one_thread().block_on(async {
            wait_until(|| begun.load(Ordering::SeqCst)).await;
            let mut stopping = std::pin::pin!(registration.stop());
            assert!(stopping.as_mut().now_or_never().is_none(), "the destructor is running");
            release.send(()).unwrap();
            stopping.await.unwrap();
        });
        assert!(gone.load(Ordering::SeqCst));
        removing.join().unwrap();
    });
}

/// The worker's thread wakes up for new events even if user code uses up its unpark token.
#[test]
fn a_blocking_handler_whose_objects_park_its_thread_receives_every_event() {
    without_deadlock(|| {
        let (open, gate) = mpsc::channel::<()>();
        let (gate, is_dropping) = (Mutex::new(gate), Arc::new(AtomicBool::new(false)));
        let drops = Arc::clone(&is_dropping);
        let parks = OnDrop::new(move || {
            drops.store(true, Ordering::SeqCst);
            // Parks the thread, which uses up the token that wakes it.
            let _ = gate.lock().unwrap().recv();
        });
        let plain = || OnDrop::new(|| {});
        let source = ScriptedSource::new();
        source.on_list(ScriptedList::at("10").object(object(1, parks)));
        let watch = ScriptedWatch::new().wait(milliseconds(20)).modified(object(11, plain()));
        let watch = watch.wait(milliseconds(50)).modified(object(12, plain()));
        source.on_watch(watch.wait(milliseconds(50)).modified(object(13, plain())).stays_open());
        let informer = SharedInformer::of_decoded_objects(source).build();
        let received = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&received);
        informer
            .subscribe()
            .on_update(move |_, _| {
                // The sleep is real: it must last longer than the informer holds the old object, so that this thread drops the object.
                std::thread::sleep(milliseconds(10));
                counter.fetch_add(1, Ordering::SeqCst);
            })
            .register_blocking()
            .unwrap();
        many_threads().block_on(async {
            informer.start();
            wait_until(|| is_dropping.load(Ordering::SeqCst)).await;
            informer.caught_up_to(&"12".into(), LONG).await.unwrap();
            open.send(()).unwrap();
            wait_until(|| received.load(Ordering::SeqCst) == 3).await;
            informer.stop().await.unwrap();
        });
    });
}
