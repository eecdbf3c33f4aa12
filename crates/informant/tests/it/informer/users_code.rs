//! Users' code that blocks, panics, hangs or calls the informer, when it is called and when it is dropped, affects only itself.

use std::{
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{FutureExt, StreamExt, stream};
use informant::{
    Cached, Event, Lister, Registration, SharedInformer,
    error::{SourceError, StopError},
    factory::InformerState,
    pipeline::{ListPiece, ListRequest, ListStream, ListWatch, SourceEvent, WatchPiece, WatchRequest, WatchStream},
    testing::{ScriptedList, ScriptedSource, ScriptedWatch},
};

use crate::support::{
    Logs,
    informers::{
        LONG, Leaks, OnDrop, Probe, Source, add_stuck_handler, informer, item, list, many_threads, milliseconds,
        one_thread, open_watch, source, wait_until, without_deadlock,
    },
};

/// A blocking handler may call functions that panic inside a runtime, such as `block_on`.
#[test]
fn a_blocking_handler_may_block_on_the_runtime_itself() {
    without_deadlock(|| {
        let runtime = many_threads();
        let informer = informer(&source("10", &[("a", 1)], open_watch()));
        let (send, mut receive) = tokio::sync::mpsc::channel(1);
        let handle = runtime.handle().clone();
        let registration = informer
            .subscribe()
            .on_add(move |object, _| {
                // A future with a timer, which needs the runtime.
                handle.block_on(tokio::time::sleep(milliseconds(1)));
                send.blocking_send(object.key().to_string()).unwrap();
            })
            .register_blocking()
            .unwrap();
        runtime.block_on(async {
            informer.start();
            registration.synced().await.unwrap();
            assert_eq!(receive.recv().await.as_deref(), Some("a"));
            assert_eq!(registration.status().panics, 0);
            informer.stop().await.unwrap();
        });
    });
}

/// P9
#[test]
fn an_informer_stops_if_its_runtime_ends_before_the_first_poll() {
    without_deadlock(|| {
        let runtime = one_thread();
        let informer = informer(&source("10", &[("a", 1)], open_watch()));
        let probe = Probe::new();
        let registration = informer.subscribe().handler(probe.handler()).unwrap();
        runtime.block_on(async { assert!(informer.start()) });

        drop(runtime);

        assert!(registration.is_removed());
        one_thread().block_on(informer.stop()).unwrap();
        assert_eq!(informer.state(), InformerState::Stopped);
    });
}

/// P9
#[test]
fn stop_waits_for_a_blocking_callback_even_if_the_runtime_has_ended() {
    without_deadlock(|| {
        let runtime = one_thread();
        let informer = informer(&source("10", &[("a", 1)], open_watch()));
        let (_, open, running) = add_stuck_handler(&informer);
        runtime.block_on(async {
            informer.start();
            wait_until(|| running.load(Ordering::SeqCst) == 1).await;
        });
        drop(runtime);

        assert!(informer.stop().now_or_never().is_none());
        assert_eq!(informer.state(), InformerState::Stopping);
        drop(open);
        one_thread().block_on(informer.stop()).unwrap();

        assert_eq!(running.load(Ordering::SeqCst), 0);
    });
}

/// Lists one object, and calls a function when a watch is opened.
struct Trouble(fn() -> OnDrop);

impl ListWatch<()> for Trouble {
    async fn list(&self, request: ListRequest) -> Result<ListStream<()>, SourceError> {
        let source = ScriptedSource::new();
        source.on_list(list("10", &[("a", 1)]));
        source.list(request).await
    }

    async fn watch(&self, _: WatchRequest) -> Result<WatchStream<()>, SourceError> {
        // The sleep is real, because these tests use several threads. It gives the apply loop time to apply the list; the tests wait
        // for the call of the handler.
        tokio::time::sleep(milliseconds(20)).await;
        let _held = (self.0)();
        std::future::pending().await
    }
}

/// P9: also if the source panics when it is dropped.
#[test]
fn stop_waits_for_callbacks_even_if_the_source_panics() {
    let _logs = Logs::capture();
    let troubles: [fn() -> OnDrop; 2] = [
        || std::panic::resume_unwind(Box::new("boom")),
        || OnDrop::new(|| std::panic::resume_unwind(Box::new("when it is dropped"))),
    ];
    for trouble in troubles {
        without_deadlock(move || {
            let runtime = many_threads();
            let informer = SharedInformer::of_decoded_objects(Trouble(trouble)).build();
            let (_, open, running) = add_stuck_handler(&informer);
            runtime.block_on(async {
                informer.start();
                wait_until(|| running.load(Ordering::SeqCst) == 1).await;
                let error = informer.stop_within(milliseconds(50)).await.unwrap_err();
                assert!(error.to_string().ends_with("callbacks of stuck have not returned"), "{error}");
                drop(open);
                informer.stop().await.unwrap();
                assert_eq!(running.load(Ordering::SeqCst), 0);
            });
        });
    }
}

/// Its state is `Stopping` even while a callback hangs.
#[test]
fn an_informer_whose_source_panicked_is_stopping_at_once() {
    without_deadlock(|| {
        let _logs = Logs::capture();
        let runtime = many_threads();
        let informer =
            SharedInformer::of_decoded_objects(Trouble(|| std::panic::resume_unwind(Box::new("boom")))).build();
        let (_, open, running) = add_stuck_handler(&informer);
        runtime.block_on(async {
            informer.start();
            wait_until(|| running.load(Ordering::SeqCst) == 1).await;
            wait_until(|| informer.state() == InformerState::Stopping).await;
            assert!(informer.status().problem().is_some());
            assert!(informer.subscribe().handler(Probe::new().handler()).is_err());
            drop(open);
            wait_until(|| informer.state() == InformerState::Stopped).await;
        });
    });
}

/// Decision 7: lock order.
#[test]
fn an_index_function_that_calls_the_informer_while_the_cache_is_written_does_not_deadlock() {
    without_deadlock(|| {
        let runtime = many_threads();
        let mut watch = ScriptedWatch::new();
        for version in 11..200 {
            watch = watch.modified(item("b", version)).wait(milliseconds(1));
        }
        let informer = informer(&source("10", &[("a", 1)], watch.stays_open()));
        runtime.block_on(async {
            informer.start();
            informer.synced().await.unwrap();
        });
        for number in 0..5 {
            let own = informer.clone();
            let values = move |_: &Cached<()>| {
                // The sleep is real: it lets the informer write the cache while the index is built.
                std::thread::sleep(milliseconds(5));
                let period = own.resync_check_period().is_some();
                (own.subscribe().register().is_ok() || period).then(String::new)
            };
            informer.add_index(&format!("index {number}"), values).unwrap();
        }
        runtime.block_on(informer.stop()).unwrap();
    });
}

/// Index functions and callbacks of the reflector cannot wait for their own end either.
#[tokio::test(start_paused = true)]
async fn stop_inside_an_index_function_or_a_transform_is_an_error() {
    for in_transform in [false, true] {
        let leaks = Leaks::watch();
        let informer = informer(&source("10", &[("a", 1)], open_watch()));
        let errors = Arc::new(Mutex::new(Vec::new()));
        let (own, recorded) = (informer.clone(), Arc::clone(&errors));
        let stop = move || recorded.lock().unwrap().push(own.stop().now_or_never().expect("at once"));
        if in_transform {
            let transform = move |_: &mut ()| {
                stop();
                Ok::<_, std::convert::Infallible>(())
            };
            informer.set_transform(transform).unwrap();
        } else {
            let values = move |_: &Cached<()>| {
                stop();
                None::<String>
            };
            informer.add_index("odd", values).unwrap();
        }
        informer.start();
        wait_until(|| informer.state() == InformerState::Stopped).await;

        let errors = std::mem::take(&mut *errors.lock().unwrap());
        assert!(matches!(errors[..], [Err(StopError::InsideCallback { .. })]), "{errors:?}");
        leaks.check();
    }
}

fn many(objects: u64) -> Source {
    let source = ScriptedSource::new();
    let listed = (0..objects)
        .fold(ScriptedList::at("1000000000"), |list, number| list.object(item(&format!("o{number}"), number + 1)));
    source.on_list(listed);
    source.on_watch(open_watch());
    source
}

/// Counts how often another task is polled until `is_over` is set.
async fn count_turns(is_over: Arc<AtomicBool>) -> usize {
    let mut turns = 0;
    while !is_over.load(Ordering::SeqCst) {
        turns += 1;
        tokio::task::yield_now().await;
    }
    turns
}

/// P8
#[tokio::test(start_paused = true)]
async fn a_long_backlog_does_not_starve_other_tasks() {
    let leaks = Leaks::watch();
    const MANY: u64 = 20_000;
    for rejects in [false, true] {
        let informer = informer(&many(MANY));
        let passes = move |_: &Cached<()>| !rejects;
        let mut stream = informer.subscribe().filter(passes).stream().unwrap();
        informer.start();
        informer.synced().await.unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let reader = tokio::spawn(async move {
            while !matches!(stream.next().await, Some(Event::Synced)) {}
            over.store(true, Ordering::SeqCst);
        });
        let turns = count_turns(is_over).await;
        reader.await.unwrap();
        assert!(turns > 100, "{turns} turns beside a stream");

        let handler = informer.subscribe().filter(passes).register().unwrap();
        let is_over = Arc::new(AtomicBool::new(false));
        let over = Arc::clone(&is_over);
        let waiter = tokio::spawn(async move {
            handler.synced().await.unwrap();
            over.store(true, Ordering::SeqCst);
        });
        let turns = count_turns(is_over).await;
        waiter.await.unwrap();
        assert!(turns > 100, "{turns} turns beside a handler");
        leaks.stop(&informer).await;
    }
}

/// P8
#[tokio::test]
async fn a_handler_that_becomes_slow_yields_to_other_tasks_after_a_few_calls() {
    let leaks = Leaks::watch();
    let informer = informer(&many(2000));
    let (calls, others) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    // For each slow call, how often the other task had been polled before.
    let turns = Arc::new(Mutex::new(Vec::new()));
    let (seen, recorded) = (Arc::clone(&others), Arc::clone(&turns));
    let registration = informer
        .subscribe()
        .on_add(move |_, _| {
            if (1000..1100).contains(&calls.fetch_add(1, Ordering::SeqCst)) {
                recorded.lock().unwrap().push(seen.load(Ordering::SeqCst));
                // The sleep is real: the worker measures the duration of a call with the real clock.
                std::thread::sleep(milliseconds(2));
            }
        })
        .register()
        .unwrap();
    let other = tokio::spawn(async move {
        loop {
            others.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
    });
    informer.start();
    registration.synced().await.unwrap();
    other.abort();

    let turns = turns.lock().unwrap().clone();
    let in_a_row = turns.chunk_by(|one, next| one == next).map(<[usize]>::len).max().unwrap();
    assert_eq!(turns.len(), 100);
    assert!(in_a_row <= 16, "{in_a_row} slow calls in a row");
    leaks.stop(&informer).await;
}

/// The informer wakes tasks without holding a lock.
#[test]
fn a_waker_may_read_the_informer_that_wakes_it() {
    struct Looker(Registration);
    impl std::task::Wake for Looker {
        fn wake(self: Arc<Self>) {
            assert_eq!(self.0.backlog(), 0);
        }
    }
    without_deadlock(|| {
        let informer = informer(&source("10", &[("a", 1)], open_watch()));
        let registration = informer.subscribe().register().unwrap();
        let waker = std::task::Waker::from(Arc::new(Looker(registration.clone())));
        let mut synced = Box::pin(registration.synced());
        assert!(synced.as_mut().poll(&mut std::task::Context::from_waker(&waker)).is_pending());

        registration.remove();
    });
}

/// P5: an index function must not run the informer's runtime, but no change is lost if it does.
#[test]
fn a_batch_is_retried_if_an_index_function_runs_the_runtime_meanwhile() {
    without_deadlock(|| {
        let _logs = Logs::capture();
        let runtime = Arc::new(one_thread());
        let watch = ScriptedWatch::new().wait(milliseconds(50)).added(item("b", 11));
        let watch = watch.wait(milliseconds(100)).added(item("c", 12)).stays_open();
        let informer = informer(&source("10", &[("a", 1)], watch));
        runtime.block_on(async {
            informer.start();
            informer.synced().await.unwrap();
        });
        let own = Arc::clone(&runtime);
        let values = move |object: &Cached<()>| {
            if object.key().name() == "a" {
                // The sleep is real: the watch delivers `b` meanwhile, after 50 ms.
                own.block_on(tokio::time::sleep(milliseconds(80)));
            }
            None::<String>
        };
        informer.add_index("odd", values).unwrap();

        runtime.block_on(informer.caught_up_to(&"12".into(), LONG)).unwrap();

        assert_eq!(crate::support::informers::cached(&informer), ["a@1", "b@11", "c@12"]);
        runtime.block_on(informer.stop()).unwrap();
    });
}

/// A source that always has another event ready, and records how many events the cache is behind.
struct Flood {
    lister: Arc<OnceLock<Lister<()>>>,
    farthest: Arc<AtomicUsize>,
}

const FLOOD: usize = 20_000;

impl ListWatch<()> for Flood {
    async fn list(&self, _: ListRequest) -> Result<ListStream<()>, SourceError> {
        Ok(ListPiece::page("1", [item("a", 1)]))
    }

    async fn watch(&self, _: WatchRequest) -> Result<WatchStream<()>, SourceError> {
        let (lister, farthest) = (Arc::clone(&self.lister), Arc::clone(&self.farthest));
        let events = (2..FLOOD).map(move |version| {
            let cached = lister.get().and_then(|lister| lister.version()?.as_str().parse().ok()).unwrap_or(1);
            farthest.fetch_max(version - cached, Ordering::SeqCst);
            Ok(WatchPiece::Event(SourceEvent::Modified(item("a", version as u64))))
        });
        Ok(stream::iter(events).chain(stream::pending()).boxed())
    }
}

/// The reflector and the apply loop share a task: neither may starve the other.
#[tokio::test(start_paused = true)]
async fn a_source_that_is_always_ready_is_never_far_ahead_of_the_cache() {
    let leaks = Leaks::watch();
    let (lister, farthest) = (Arc::<OnceLock<_>>::default(), Arc::<AtomicUsize>::default());
    let source = Flood { lister: Arc::clone(&lister), farthest: Arc::clone(&farthest) };
    let informer = SharedInformer::of_decoded_objects(source).build();
    lister.set(informer.lister()).unwrap();
    informer.start();
    informer.caught_up_to(&(FLOOD - 1).to_string().as_str().into(), Duration::from_secs(60)).await.unwrap();

    assert!(farthest.load(Ordering::SeqCst) <= 128, "{farthest:?}");
    leaks.stop(&informer).await;
}
