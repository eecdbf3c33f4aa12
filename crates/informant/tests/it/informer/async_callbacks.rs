//! Async callbacks: one future at a time, isolated as synchronous callbacks are.

use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use informant::{Cached, Registration, SharedInformer, factory::InformerState, testing::ScriptedWatch};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tokio::{
    sync::Semaphore,
    task::yield_now,
    time::{Instant, sleep},
};

use super::callbacks::Received;
use crate::support::{
    Logs,
    informers::{
        Leaks, OnDrop, Probe, informer, informer_with, item, one_thread, open_watch, source, wait_until,
        wait_until_idle, without_deadlock,
    },
};

const SECOND: Duration = Duration::from_secs(1);

/// P4, P7: the next event, async or not, is delivered when the future has completed.
#[tokio::test(start_paused = true)]
async fn async_callbacks_receive_each_type_of_event_in_order_and_one_at_a_time() {
    let leaks = Leaks::watch();
    let watch = ScriptedWatch::new().wait(SECOND).modified(item("a", 11)).added(item("b", 12));
    let watch = watch.deleted(item("a", 13)).stays_open();
    let informer = informer_with(&source("10", &[("a", 5)], watch), |builder| builder.resync_every(60 * SECOND));
    let received = Received::default();
    let [adds, updates, deletes, synced] = std::array::from_fn(|_| received.clone());
    let take_time = move |received: &Received, line: String| {
        let received = received.clone();
        async move {
            received.push(format!("begin {line}"));
            sleep(2 * SECOND).await;
            received.push(format!("end {line}"));
        }
    };
    let registration = informer
        .subscribe()
        .named("async closures")
        .on_add_async(move |object, origin| take_time(&adds, format!("add {} {origin:?}", object.key())))
        .on_update_async(move |old, new| {
            take_time(&updates, format!("update {} {} {}", new.key(), old.version(), new.version()))
        })
        .on_delete_async(move |deleted| take_time(&deletes, format!("delete {}", deleted.key())))
        .on_synced_async(move || take_time(&synced, "synced".to_owned()))
        .register()
        .unwrap();
    informer.start();
    wait_until_idle().await;
    assert!(informer.is_synced() && !registration.is_synced(), "the handler's futures have not completed");
    registration.synced().await.unwrap();
    sleep(70 * SECOND).await;

    let lines = received.lines();
    let events = ["add a InitialList", "synced", "update a 5 11", "add b Live", "delete a", "update b 12 12"];
    assert_eq!(lines, events.map(|event| [format!("begin {event}"), format!("end {event}")]).concat());
    assert_eq!(registration.status().delivered, 6);
    leaks.stop(&informer).await;
}

/// An informer of `objects` whose handler "gated" writes when the future of an add begins, waits for a permit, and writes when it ends.
fn gated_informer(objects: &[(&str, u64)]) -> (SharedInformer<()>, Registration, Received, Arc<Semaphore>) {
    let informer = informer(&source("10", objects, open_watch()));
    let (received, gate) = (Received::default(), Arc::new(Semaphore::new(0)));
    let (lines, permits) = (received.clone(), Arc::clone(&gate));
    let add = move |object: Cached<()>, _| {
        let (lines, permits) = (lines.clone(), Arc::clone(&permits));
        async move {
            lines.push(format!("begin {}", object.key()));
            permits.acquire().await.unwrap().forget();
            lines.push(format!("end {}", object.key()));
        }
    };
    let registration = informer.subscribe().named("gated").on_add_async(add).register().unwrap();
    (informer, registration, received, gate)
}

/// P8
#[tokio::test(start_paused = true)]
async fn a_slow_future_delays_neither_the_cache_nor_other_handlers() {
    let leaks = Leaks::watch();
    let (informer, slow, received, gate) = gated_informer(&[("a", 1), ("b", 2)]);
    let probe = Probe::new();
    let sound = informer.subscribe().handler(probe.handler()).unwrap();
    informer.start();

    informer.synced().await.unwrap();
    sound.synced().await.unwrap();

    assert_eq!(probe.lines().len(), 3);
    assert_eq!((received.lines().len(), slow.backlog(), slow.is_synced()), (1, 2, false));
    gate.add_permits(2);
    slow.synced().await.unwrap();
    assert_eq!(received.lines().len(), 4);
    leaks.stop(&informer).await;
}

/// P8: a panic after the first await, and a panic of the function that makes the future.
#[tokio::test(start_paused = true)]
async fn a_future_that_panics_is_logged_and_counted_and_the_next_event_is_delivered_a_second_later() {
    for panics_at_once in [false, true] {
        let logs = Logs::capture();
        let leaks = Leaks::watch();
        let informer = informer(&source("10", &[("bad", 1), ("good", 2)], open_watch()));
        let (received, start) = (Received::default(), Instant::now());
        let adds = received.clone();
        let add = move |object: Cached<()>, _| {
            let adds = adds.clone();
            let is_bad = object.key().name() == "bad";
            adds.push(format!("{} {}", object.key(), start.elapsed().as_secs()));
            if is_bad && panics_at_once {
                std::panic::resume_unwind(Box::new("it is bad"));
            }
            async move {
                yield_now().await;
                if is_bad {
                    std::panic::resume_unwind(Box::new("it is bad"));
                }
            }
        };
        let fragile = informer.subscribe().named("fragile").on_add_async(add).register().unwrap();
        let probe = Probe::new();
        let sound = informer.subscribe().handler(probe.handler()).unwrap();
        informer.start();

        sound.synced().await.unwrap();
        assert!(start.elapsed() < SECOND);
        fragile.synced().await.unwrap();

        assert_eq!(received.lines(), ["bad 0", "good 1"]);
        let log = logs.take();
        assert_eq!(log.matches("a handler panicked").count(), 1, "{log}");
        for part in ["handler=\"fragile\"", "key=\"bad\"", "it is bad"] {
            assert!(log.contains(part), "{log}");
        }
        let status = fragile.status();
        assert_eq!((status.panics, status.delivered, status.backlog), (1, 3, 0));
        leaks.stop(&informer).await;
    }
}

/// P8: the end of the initial list counts as delivered also if its future panics.
#[tokio::test(start_paused = true)]
async fn a_handler_whose_future_panics_at_the_end_of_the_list_becomes_synced() {
    let _logs = Logs::capture();
    let informer = informer(&source("10", &[], open_watch()));
    let synced = || async { std::panic::resume_unwind(Box::new("it is bad")) };
    let registration = informer.subscribe().on_synced_async(synced).register().unwrap();
    informer.start();

    registration.synced().await.unwrap();

    assert_eq!(registration.status().panics, 1);
    informer.stop().await.unwrap();
}

/// P9
#[tokio::test(start_paused = true)]
async fn stopping_and_removing_wait_for_the_running_future_and_start_no_other() {
    for way in ["informer.stop", "registration.stop", "remove"] {
        let leaks = Leaks::watch();
        let (informer, registration, received, gate) = gated_informer(&[("a", 1), ("b", 2), ("c", 3)]);
        informer.start();
        wait_until_idle().await;
        assert_eq!(received.lines().len(), 1, "one future runs");

        let stopping = async {
            match way {
                "informer.stop" => informer.stop().await.unwrap(),
                "registration.stop" => registration.stop().await.unwrap(),
                _ => registration.remove(),
            }
        };
        tokio::pin!(stopping);
        let is_waited_for = tokio::time::timeout(SECOND, stopping.as_mut()).await.is_err();
        assert_eq!(is_waited_for, way != "remove", "{way}");
        // More permits than events: a future that starts would end.
        gate.add_permits(10);
        if is_waited_for {
            stopping.await;
        }
        wait_until_idle().await;

        assert_eq!(received.lines().len(), 2, "{way}: {:?}", received.lines());
        assert!(received.lines()[1].starts_with("end "));
        assert_eq!((registration.is_removed(), registration.backlog()), (true, 0));
        leaks.stop(&informer).await;
    }
}

/// P9
#[tokio::test(start_paused = true)]
async fn a_stop_with_a_time_limit_names_the_handler_whose_future_runs() {
    let leaks = Leaks::watch();
    let (informer, _registration, received, gate) = gated_informer(&[("a", 1)]);
    informer.start();
    wait_until(|| !received.lines().is_empty()).await;

    let error = informer.stop_within(SECOND).await.unwrap_err();

    assert_eq!(error.to_string(), "informer things has not stopped within 1s: callbacks of gated have not returned");
    gate.add_permits(1);
    informer.stop().await.unwrap();
    leaks.check();
}

/// SI-17: a future that waits for its own handler gets an error, also after an await.
#[tokio::test(start_paused = true)]
async fn a_future_that_stops_its_own_handler_gets_an_error() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    let (slot, received) = (Arc::new(OnceLock::<Registration>::new()), Received::default());
    let (own, errors, whole) = (Arc::clone(&slot), received.clone(), informer.clone());
    let add = move |_, _| {
        let (own, errors, whole) = (Arc::clone(&own), errors.clone(), whole.clone());
        async move {
            sleep(SECOND).await;
            let own = own.get().unwrap();
            errors.push(own.synced().await.unwrap_err().to_string());
            errors.push(own.caught_up_to(&"10".into()).await.unwrap_err().to_string());
            errors.push(own.stop().await.unwrap_err().to_string());
            errors.push(whole.stop().await.unwrap_err().to_string());
        }
    };
    slot.set(informer.subscribe().named("self").on_add_async(add).register().unwrap()).unwrap();
    informer.start();
    wait_until(|| informer.state() == InformerState::Stopped).await;

    assert_eq!(
        received.lines(),
        [
            "self of informer things cannot wait in one of its own callbacks until it is synced; wait in another task",
            "self of informer things cannot wait in one of its own callbacks until it has received events; wait in another task",
            "self of informer things cannot wait in one of its own callbacks for their end; wait in another task",
            "a callback of informer things cannot wait for the informer to stop; it stops when the callback returns",
        ]
    );
    drop(slot);
    leaks.check();
}

/// A future may wait for another handler of the same informer.
#[tokio::test(start_paused = true)]
async fn a_future_may_stop_another_handler_and_wait_for_it() {
    let leaks = Leaks::watch();
    let (informer, other, received, gate) = gated_informer(&[("a", 1)]);
    let (stopped, handler) = (received.clone(), other.clone());
    let add = move |_, _| {
        let (handler, stopped) = (handler.clone(), stopped.clone());
        async move {
            sleep(SECOND).await;
            handler.stop().await.unwrap();
            stopped.push("stopped".to_owned());
        }
    };
    let registration = informer.subscribe().on_add_async(add).register().unwrap();
    informer.start();
    sleep(2 * SECOND).await;
    assert_eq!(received.lines(), ["begin a"]);
    gate.add_permits(1);

    registration.synced().await.unwrap();

    assert_eq!(received.lines(), ["begin a", "end a", "stopped"]);
    assert!(other.is_removed());
    leaks.stop(&informer).await;
}

/// A resync without a callback of its own is an update; at most one replay waits for a slow future.
#[tokio::test(start_paused = true)]
async fn resyncs_call_the_async_callback_for_updates_and_do_not_pile_up() {
    let leaks = Leaks::watch();
    let informer = informer_with(&source("10", &[("a", 1)], open_watch()), |builder| builder.resync_every(SECOND));
    let received = Received::default();
    let updates = received.clone();
    let update = move |old: Cached<()>, new: Cached<()>| {
        updates.push(format!("{} {}", new.key(), Cached::ptr_eq(&old, &new)));
        sleep(10 * SECOND)
    };
    let registration = informer.subscribe().on_update_async(update).register().unwrap();
    informer.start();
    registration.synced().await.unwrap();

    sleep(25 * SECOND).await;

    assert_eq!(received.lines(), ["a true", "a true", "a true"]);
    let status = registration.status();
    assert!(status.backlog <= 1 && status.resyncs_skipped >= 20, "{status:?}");
    leaks.stop(&informer).await;
}

/// Decision 10
#[tokio::test(start_paused = true)]
async fn events_that_wait_for_a_slow_future_are_coalesced() {
    let leaks = Leaks::watch();
    let mut watch = ScriptedWatch::new().wait(SECOND);
    for version in 11..=30 {
        // One at a time, so that each is an event of its own.
        watch = watch.modified(item("a", version)).wait(SECOND / 100);
    }
    let informer = informer(&source("10", &[("a", 5)], watch.stays_open()));
    let received = Received::default();
    let updates = received.clone();
    let update = move |old: Cached<()>, new: Cached<()>| {
        updates.push(format!("{}→{}", old.version(), new.version()));
        sleep(SECOND)
    };
    let registration = informer.subscribe().coalesce_above(2).on_update_async(update).register().unwrap();
    informer.start();
    sleep(10 * SECOND).await;

    let lines = received.lines();
    assert!(lines.len() < 6, "{lines:?}");
    assert!(lines[0].starts_with("5→") && lines.last().unwrap().ends_with("→30"), "{lines:?}");
    for pair in lines.windows(2) {
        assert_eq!(pair[0].split('→').next_back(), pair[1].split('→').next(), "{lines:?}");
    }
    assert!(registration.status().coalesced > 10);
    leaks.stop(&informer).await;
}

/// P5
#[tokio::test(start_paused = true)]
async fn async_callbacks_that_join_late_receive_the_cache_first() {
    let leaks = Leaks::watch();
    let watch = ScriptedWatch::new().wait(10 * SECOND).added(item("c", 11)).stays_open();
    let informer = informer(&source("10", &[("a", 5), ("b", 6)], watch));
    informer.start();
    informer.synced().await.unwrap();
    let received = Received::default();
    let adds = received.clone();
    let add = move |object: Cached<()>, origin| {
        adds.push(format!("{} {origin:?}", object.key()));
        sleep(SECOND)
    };

    let registration = informer.subscribe().on_add_async(add).register().unwrap();
    registration.synced().await.unwrap();
    let mut initial = received.lines();
    sleep(20 * SECOND).await;

    initial.sort_unstable();
    assert_eq!(initial, ["a InitialList", "b InitialList"]);
    assert_eq!(received.lines()[2..], ["c Live"]);
    leaks.stop(&informer).await;
}

#[test]
fn a_runtime_that_ends_drops_the_running_future() {
    without_deadlock(|| {
        let _logs = Logs::capture();
        let dropped = Arc::new(AtomicUsize::new(0));
        let runtime = one_thread();
        let (informer, registration) = runtime.block_on(async {
            let informer = informer(&source("10", &[("a", 1), ("b", 2)], open_watch()));
            let (count, received) = (Arc::clone(&dropped), Received::default());
            let adds = received.clone();
            let add = move |_, _| {
                let count = Arc::clone(&count);
                adds.push("begin".to_owned());
                let held = OnDrop::new(move || {
                    count.fetch_add(1, Ordering::SeqCst);
                });
                async move {
                    let _held = held;
                    std::future::pending::<()>().await;
                }
            };
            let registration = informer.subscribe().on_add_async(add).register().unwrap();
            informer.start();
            wait_until(|| !received.lines().is_empty()).await;
            (informer, registration)
        });

        drop(runtime);

        assert_eq!(dropped.load(Ordering::SeqCst), 1, "one future was started, and dropped");
        assert!(registration.is_removed());
        one_thread().block_on(informer.stop()).unwrap();
        assert_eq!(informer.state(), InformerState::Stopped);
    });
}

/// P8: with a thread of their own, futures may block, and timers work.
#[tokio::test]
async fn async_callbacks_that_block_run_on_a_thread_of_their_own() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 5)], open_watch()));
    let (received, (open, gate)) = (Received::default(), std::sync::mpsc::channel::<()>());
    let (adds, gate) = (received.clone(), Arc::new(Mutex::new(gate)));
    let add = move |_, _| {
        let (adds, gate) = (adds.clone(), Arc::clone(&gate));
        async move {
            sleep(Duration::from_nanos(1)).await;
            gate.lock().unwrap().recv().unwrap();
            adds.push(std::thread::current().name().unwrap_or_default().to_owned());
        }
    };
    let registration = informer.subscribe().named("blocking").on_add_async(add).register_blocking().unwrap();
    informer.start();
    informer.synced().await.unwrap();
    // The runtime has one thread, which the callback does not block.
    open.send(()).unwrap();

    registration.synced().await.unwrap();

    assert_eq!(received.lines(), ["blocking"]);
    informer.stop().await.unwrap();
    leaks.check();
}

#[tokio::test]
async fn the_handler_seconds_metric_includes_the_time_of_the_future() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let spent = Arc::new(Mutex::new(Duration::ZERO));
    let (informer, registration) = metrics::with_local_recorder(&recorder, || {
        let informer = informer(&source("10", &[("a", 5)], open_watch()));
        let spent = Arc::clone(&spent);
        let add = move |_, _| {
            let (spent, begun) = (Arc::clone(&spent), std::time::Instant::now());
            async move {
                for _ in 0..100 {
                    yield_now().await;
                }
                *spent.lock().unwrap() = begun.elapsed();
            }
        };
        let registration = informer.subscribe().on_add_async(add).register().unwrap();
        (informer, registration)
    });
    informer.start();
    registration.synced().await.unwrap();
    informer.stop().await.unwrap();

    let mut recorded = 0.0;
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        if let ("informant_handler_seconds", DebugValue::Histogram(values)) = (key.key().name(), value) {
            recorded += values.iter().map(|value| value.into_inner()).sum::<f64>();
        }
    }
    let spent = spent.lock().unwrap().as_secs_f64();
    assert!(spent > 0.0 && recorded >= spent, "{recorded} s were recorded of {spent} s");
}
