//! Unusual uses of the queue, the process loop, the phases of an informer, handlers, the watch decoder and the reads of the cache.
//!
//! Random tests have fixed seeds, and a failure prints the seed.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Barrier, Mutex, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::FutureExt;
use informant::{
    Cached, Event, Key, Lazy, Lister, Registration, SharedInformer,
    error::{SourceError, WaitError},
    factory::InformerState,
    pipeline::{
        Backoff, Batch, Change, Delta, DeltaFifo, Indexer, ItemOutcome, ObjectChanges, ProcessLoop, Reflector, Relist,
    },
    testing::{ScriptedList, ScriptedSource, ScriptedWatch},
};
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};

use crate::support::{
    Logs,
    informers::{
        LONG, Leaks, Probe, add_stuck_handler, cached, informer, item, many_threads, open_watch, show_error,
        sleep_seconds, source, wait_until, wait_until_idle, within_limit, without_deadlock,
    },
    key, known, list, object, observed, show_object_changes, show_objects,
};

/// A small generator of random numbers (xorshift).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..5 {
            random.below(2);
        }
        random
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }

    fn happens(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

fn history_change<const N: usize>(version: u64, objects: [(&str, u64); N]) -> Relist<()> {
    Relist { history_changed: true, ..list(version, objects) }
}

fn drain(queue: &DeltaFifo<()>) -> Batch<()> {
    queue.try_drain().unwrap().expect("a batch")
}

fn shown(batch: &Batch<()>) -> Vec<String> {
    show_object_changes(batch.items())
}

// The queue.

/// `Batch::history_changed`: "If the relist is requeued, the next batch that contains it returns true as well."
#[test]
fn a_history_change_is_repeated_if_settle_requeues_the_items_of_its_relist() {
    let queue = DeltaFifo::new();
    queue.push(history_change(10, [("a", 1), ("b", 2)]));
    let batch = drain(&queue);
    assert!(batch.history_changed());

    batch.settle(|_| ItemOutcome::Requeue { processed: 0 });

    let batch = drain(&queue);
    assert_eq!(shown(&batch), ["Replaced a@1", "Replaced b@2"]);
    assert!(batch.history_changed(), "the whole relist was requeued");
    batch.acknowledge();
    assert_eq!(queue.reached(), Some("10".into()));
}

/// As above, if the relist is taken item by item and the last item is requeued.
#[test]
fn a_history_change_is_repeated_if_a_popped_item_of_its_relist_is_requeued() {
    let queue = DeltaFifo::new();
    queue.push(history_change(10, [("a", 1)]));
    let batch = queue.try_pop().unwrap().unwrap();
    assert!(batch.history_changed());

    batch.settle(|_| ItemOutcome::Requeue { processed: 0 });

    let batch = queue.try_pop().unwrap().unwrap();
    assert_eq!((shown(&batch), batch.history_changed()), (vec!["Replaced a@1".to_owned()], true));
    batch.acknowledge();
}

#[test]
fn a_history_change_is_repeated_if_the_batch_of_its_relist_is_dropped() {
    let queue = DeltaFifo::new();
    queue.push(history_change(10, [("a", 1), ("b", 2)]));
    for _ in 0..3 {
        let batch = drain(&queue);
        assert_eq!((batch.items().len(), batch.history_changed()), (2, true));
        drop(batch);
        queue.push(Change::Bookmark("11".into()));
    }
    let batch = drain(&queue);
    assert_eq!((batch.version(), batch.history_changed()), (Some(&"11".into()), true));
    batch.acknowledge();
    queue.push(Delta::Added(object("c", 12)));
    assert!(!drain(&queue).history_changed());
}

#[test]
fn a_requeued_part_of_a_relist_keeps_its_later_changes_and_delays_the_version() {
    let queue = DeltaFifo::new();
    queue.push(Delta::Added(object("x", 1)));
    queue.push(list(10, [("a", 2), ("b", 3), ("c", 4), ("d", 5), ("x", 1)]));
    queue.push(Delta::Updated(object("b", 11)));
    queue.push(Delta::Deleted(observed("c", 12)));
    queue.push(Delta::Updated(object("b", 13)));
    queue.push(Change::Bookmark("14".into()));

    let all = drain(&queue);
    assert_eq!(all.version(), Some(&"14".into()));
    all.settle(|item| match item.key().name() {
        "b" | "d" => ItemOutcome::Requeue { processed: 0 },
        _ => ItemOutcome::Done,
    });
    assert_eq!(queue.reached(), Some("1".into()), "a part of the relist waits");

    let rest = drain(&queue);
    assert_eq!(shown(&rest), ["Replaced b@3, Updated b@11, Updated b@13", "Replaced d@5"]);
    assert_eq!(rest.version(), Some(&"14".into()));
    rest.acknowledge();
    assert_eq!(queue.reached(), Some("14".into()));
}

/// Of an object that a list has twice, the last state counts; the queue is synced after one batch.
#[test]
fn of_an_object_that_is_listed_twice_the_last_state_is_queued_once() {
    let queue = DeltaFifo::builder().known_objects(known([("a", 1), ("z", 1)])).build();
    queue.push(list(10, [("a", 2), ("b", 3), ("a", 4), ("b", 3), ("a", 5)]));
    assert_eq!(queue.len(), 3);
    let batch = drain(&queue);
    let mut lines = shown(&batch);
    lines.sort();
    assert_eq!(lines, ["Missed z@1", "Replaced a@5", "Replaced b@3"]);
    assert!(!queue.is_synced());
    batch.acknowledge();
    assert!(queue.is_synced() && queue.is_empty());
    assert_eq!(queue.reached(), Some("10".into()));
}

/// A batch that is dropped on another thread wakes a consumer that waits.
#[tokio::test(start_paused = true)]
async fn a_batch_that_is_dropped_on_another_thread_wakes_a_waiting_consumer() {
    let queue = DeltaFifo::new();
    queue.push(Delta::Added(object("a", 1)));
    queue.push(Delta::Added(object("b", 2)));
    let batch = drain(&queue);
    let consumer = tokio::spawn({
        let queue = queue.clone();
        async move { queue.drain().await.map(|batch| batch.items().len()) }
    });
    wait_until_idle().await;
    assert!(!consumer.is_finished());
    std::thread::spawn(move || drop(batch)).join().unwrap();
    assert_eq!(within_limit(consumer).await.unwrap(), Ok(2));
}

/// A queue that is closed while a batch is in flight ends only after the batch is acknowledged, for every consumer.
#[tokio::test(start_paused = true)]
async fn a_queue_that_is_closed_with_a_batch_in_flight_delivers_it_again_and_then_ends_for_two_consumers() {
    let queue = DeltaFifo::new();
    queue.push(list(10, [("a", 1)]));
    let batch = drain(&queue);
    queue.close();
    let consumer = |queue: DeltaFifo<()>| async move {
        let mut taken = 0;
        while let Ok(batch) = queue.drain().await {
            taken += batch.items().len();
            batch.acknowledge();
        }
        taken
    };
    let consumers = [tokio::spawn(consumer(queue.clone())), tokio::spawn(consumer(queue.clone()))];
    wait_until_idle().await;
    assert!(consumers.iter().all(|consumer| !consumer.is_finished()));
    drop(batch);
    let mut taken = 0;
    for consumer in consumers {
        taken += within_limit(consumer).await.unwrap();
    }
    assert_eq!(taken, 1);
    assert!(queue.is_synced());
}

/// A resync while a batch is in flight skips its objects, and repeats none of them if the batch is requeued.
#[test]
fn a_resync_skips_objects_in_flight_although_their_batch_is_requeued_later() {
    let queue = DeltaFifo::builder().known_objects(known([("a", 1), ("b", 1), ("c", 1)])).build();
    queue.push(Delta::Updated(object("a", 5)));
    let batch = drain(&queue);
    queue.push(Delta::Deleted(observed("b", 6)));
    queue.push(Change::Resync);
    batch.requeue();
    let mut lines = Vec::new();
    while let Some(batch) = queue.try_drain().unwrap() {
        lines.extend(shown(&batch));
        batch.acknowledge();
    }
    lines.sort();
    assert_eq!(lines, ["Deleted b@6", "Sync c@1", "Updated a@5"]);
    assert_eq!(queue.reached(), Some("6".into()));
}

/// P1, P2 and P5 with two consumers that pop, drain, requeue and drop batches at random: the processed changes add up to the source's state.
#[test]
fn two_consumers_that_requeue_at_random_reproduce_the_state_of_the_source() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let store = Arc::new(Indexer::<()>::new());
        let queue = DeltaFifo::builder().known_objects(Arc::new(store.lister())).build();
        let mut server = BTreeMap::<String, u64>::new();
        let (mut version, mut open) = (1, Vec::<Batch<()>>::new());
        let mut reached = 0;
        for step in 0..60 {
            let is_last = step >= 50;
            if !is_last && random.happens(60) {
                version += 1;
                let name = format!("o{}", random.below(4));
                match (random.below(10), server.contains_key(&name)) {
                    (0, _) => queue.push(Change::Bookmark(version.to_string().as_str().into())),
                    (1, _) => queue.push(Change::Resync),
                    (2, _) => {
                        // Changes that the watch missed.
                        server.remove(&name);
                        server.insert(format!("o{}", random.below(4)), version);
                        let objects = server.iter().map(|(name, version)| object(name, *version)).collect();
                        let version = version.to_string().as_str().into();
                        queue.push(Relist { version, objects, ..list(0, []) });
                    }
                    (3..=5, true) => {
                        server.remove(&name);
                        queue.push(Delta::Deleted(observed(&name, version)));
                    }
                    (_, exists) => {
                        server.insert(name.clone(), version);
                        let object = object(&name, version);
                        queue.push(if exists { Delta::Updated(object) } else { Delta::Added(object) });
                    }
                }
            }
            if open.len() < 2 {
                let taken = if random.happens(50) { queue.try_pop() } else { queue.try_drain() };
                open.extend(taken.unwrap());
            }
            if !open.is_empty() && (is_last || random.happens(60)) {
                let batch = open.remove(random.below(open.len() as u64) as usize);
                match random.below(if is_last { 2 } else { 6 }) {
                    0 | 1 => {
                        batch.items().iter().for_each(|item| apply(&store, item, item.deltas().len()));
                        batch.acknowledge();
                    }
                    2 => drop(batch),
                    3 => batch.requeue(),
                    _ => batch.settle(|item| {
                        let processed = random.below(1 + item.deltas().len() as u64) as usize;
                        apply(&store, item, processed);
                        ItemOutcome::Requeue { processed }
                    }),
                }
            }
            let now = queue.reached().map_or(0, |version| version.as_str().parse::<u64>().unwrap());
            assert!(now >= reached, "the reached version never falls; seed {seed}");
            reached = now;
        }
        for batch in open {
            batch.requeue();
        }
        while let Some(batch) = queue.try_drain().unwrap() {
            batch.items().iter().for_each(|item| apply(&store, item, item.deltas().len()));
            batch.acknowledge();
        }
        let expected: Vec<_> = server.iter().map(|(name, version)| format!("{name}@{version}")).collect();
        assert_eq!(show_objects(store.lister().list()), expected, "seed {seed}");
        assert!(queue.is_empty() && queue.waiting_keys().is_empty(), "seed {seed}");
        queue.close();
        assert!(queue.try_drain().is_err(), "seed {seed}");
    }
}

/// Applies the first `count` deltas of an item to a store.
fn apply(store: &Indexer<()>, item: &ObjectChanges<()>, count: usize) {
    for delta in item.deltas().iter().take(count) {
        match delta {
            Delta::Deleted(deleted) => drop(store.remove(deleted.key())),
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) | Delta::Sync(object) => {
                drop(store.upsert(object.clone()));
            }
        }
    }
}

// The process loop.

/// A process loop that stops while an item waits for its retry leaves the item in the queue, for the next consumer.
#[tokio::test(start_paused = true)]
async fn a_stopped_process_loop_leaves_a_failed_item_in_its_queue_and_the_version_is_not_reached() {
    let _logs = Logs::capture();
    let source = source("10", &[("a", 1)], ScriptedWatch::new().added(item("b", 11)).stays_open());
    let queue = DeltaFifo::new();
    let process_loop =
        ProcessLoop::new(Reflector::of_decoded_objects(source), queue.clone(), |item: &ObjectChanges<()>| {
            if item.key().name() == "a" { Err("never".into()) } else { Ok(()) }
        });
    let hour = Duration::from_secs(3600);

    process_loop.backoff(Backoff::new(hour, hour)).run(sleep_seconds(1.0)).await;

    assert_eq!(queue.waiting_keys().first(), Some(&key("a")));
    assert_eq!(queue.reached(), None, "the list is not processed");
    while let Ok(batch) = queue.drain().await {
        batch.acknowledge();
    }
    assert_eq!(queue.reached(), Some("11".into()));
}

// The phases of an informer.

/// P9: the last handle is dropped inside a callback; the informer stops, and no task is left.
#[tokio::test(start_paused = true)]
async fn the_last_handle_of_an_informer_may_be_dropped_inside_its_callback() {
    let leaks = Leaks::watch();
    let source = source("10", &[("a", 1), ("b", 2), ("c", 3)], open_watch());
    let informer = informer(&source);
    let lister = informer.lister();
    let (own, calls) = (Arc::new(Mutex::new(None)), Arc::new(AtomicUsize::new(0)));
    let (slot, count) = (Arc::clone(&own), Arc::clone(&calls));
    let registration = informer
        .subscribe()
        .on_add(move |_, _| {
            count.fetch_add(1, Ordering::SeqCst);
            drop(slot.lock().unwrap().take());
        })
        .register()
        .unwrap();
    informer.start();
    *own.lock().unwrap() = Some(informer);

    wait_until(|| lister.has_stopped()).await;
    wait_until_idle().await;

    assert!(registration.is_removed());
    assert_eq!(source.open_watches(), 0);
    assert_eq!((calls.load(Ordering::SeqCst), lister.len()), (1, 3));
    leaks.check();
}

#[test]
fn of_many_threads_that_start_an_informer_one_starts_it() {
    without_deadlock(|| {
        let runtime = many_threads();
        for _ in 0..50 {
            let source = source("10", &[("a", 1)], open_watch());
            let informer = informer(&source);
            let barrier = Arc::new(Barrier::new(4));
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let (informer, barrier, runtime) =
                        (informer.clone(), Arc::clone(&barrier), runtime.handle().clone());
                    std::thread::spawn(move || {
                        let _entered = runtime.enter();
                        barrier.wait();
                        informer.start()
                    })
                })
                .collect();
            let started = threads.into_iter().map(|thread| thread.join().unwrap()).filter(|has| *has).count();
            assert_eq!(started, 1);
            runtime.block_on(async {
                informer.synced().await.unwrap();
                informer.stop().await.unwrap();
            });
            assert_eq!(informer.state(), InformerState::Stopped);
            assert_eq!(source.requests()[0], "L(0, 500)");
            assert!(source.requests().len() <= 2, "{:?}", source.requests());
        }
    });
}

/// P9: starts and stops that race leave a stopped informer.
#[test]
fn a_start_and_a_stop_that_race_leave_a_stopped_informer() {
    without_deadlock(|| {
        let runtime = many_threads();
        for _ in 0..200 {
            let source = source("10", &[("a", 1)], open_watch());
            let informer = informer(&source);
            let calls = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&calls);
            informer
                .subscribe()
                .on_add(move |_, _| {
                    count.fetch_add(1, Ordering::SeqCst);
                })
                .register()
                .unwrap();
            let barrier = Arc::new(Barrier::new(2));
            let starting = {
                let (informer, barrier, runtime) = (informer.clone(), Arc::clone(&barrier), runtime.handle().clone());
                std::thread::spawn(move || {
                    let _entered = runtime.enter();
                    barrier.wait();
                    informer.start()
                })
            };
            runtime.block_on(async {
                barrier.wait();
                informer.stop().await.unwrap();
            });
            assert_eq!(informer.state(), InformerState::Stopped);
            let at_stop = calls.load(Ordering::SeqCst);
            let started = starting.join().unwrap();
            runtime.block_on(async {
                informer.stop().await.unwrap();
                assert!(informer.synced().await.is_ok() == informer.is_synced());
            });
            assert_eq!(calls.load(Ordering::SeqCst), at_stop, "started: {started}");
            assert_eq!(source.open_watches(), 0);
        }
    });
}

/// P9: a handler that is added while the informer is stopping is refused or never called.
#[tokio::test(start_paused = true)]
async fn a_handler_that_is_added_while_an_informer_stops_is_refused_and_never_called() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    let (_stuck, open, running) = add_stuck_handler(&informer);
    informer.start();
    wait_until(|| running.load(Ordering::SeqCst) == 1).await;
    let stopping = tokio::spawn({
        let informer = informer.clone();
        async move { informer.stop().await }
    });
    wait_until_idle().await;
    assert_eq!(informer.state(), InformerState::Stopping);

    let error = informer.subscribe().on_add(|_, _| panic!("called")).register().unwrap_err();
    assert!(error.to_string().contains("stopp"), "{error}");
    assert!(informer.subscribe().stream().is_err());
    assert!(!stopping.is_finished());
    let waited = informer.caught_up_to(&"99".into(), LONG).await;
    assert!(matches!(waited, Err(WaitError::Stopped { .. })), "{waited:?}");

    drop(open);
    stopping.await.unwrap().unwrap();
    assert_eq!(informer.state(), InformerState::Stopped);
    leaks.check();
}

/// A stop ends every wait with an error, and a cancelled stop stops the informer as well.
#[tokio::test(start_paused = true)]
async fn a_stop_ends_every_wait_of_an_informer_even_if_the_stop_is_cancelled() {
    let leaks = Leaks::watch();
    let source = source("10", &[("a", 1)], open_watch());
    let informer = informer(&source);
    let registration = informer.subscribe().register().unwrap();
    informer.start();
    informer.synced().await.unwrap();
    let wait = |of: fn(SharedInformer<()>) -> futures_util::future::BoxFuture<'static, bool>| {
        tokio::spawn(of(informer.clone()))
    };
    let waits = [
        wait(|informer| {
            async move { matches!(informer.caught_up_to(&"99".into(), LONG).await, Err(WaitError::Stopped { .. })) }
                .boxed()
        }),
        wait(|informer| {
            async move {
                let waited = informer.wait_for(&key("a"), &"99".into(), LONG).await;
                matches!(waited, Err(WaitError::Stopped { .. }))
            }
            .boxed()
        }),
        wait(|informer| {
            async move {
                let waited = informer.wait_until(&key("a"), |object| object.is_none(), LONG).await;
                matches!(waited, Err(WaitError::Stopped { .. }))
            }
            .boxed()
        }),
        wait(|informer| {
            async move {
                let a = informer.lister().get(&key("a")).unwrap();
                let waited = informer.wait_until_gone(a.identity(), LONG).await;
                matches!(waited, Err(WaitError::Stopped { .. }))
            }
            .boxed()
        }),
    ];
    let caught_up = tokio::spawn({
        let registration = registration.clone();
        async move { registration.caught_up_to(&"99".into()).await.is_err() }
    });
    wait_until_idle().await;
    assert!(waits.iter().all(|wait| !wait.is_finished()) && !caught_up.is_finished());

    // The call is dropped after its first poll.
    assert!(informer.stop().now_or_never().is_none());

    for wait in waits {
        assert!(within_limit(wait).await.unwrap());
    }
    assert!(within_limit(caught_up).await.unwrap());
    wait_until(|| informer.state() == InformerState::Stopped).await;
    assert!(informer.synced().await.is_ok(), "a synced informer stays synced");
    assert_eq!(source.open_watches(), 0);
    wait_until_idle().await;
    leaks.check();
}

/// A start on a runtime that has ended returns true, as any first start does, and the informer is stopped with the cause.
#[test]
fn an_informer_that_is_started_on_an_ended_runtime_is_stopped_with_the_cause() {
    without_deadlock(|| {
        let runtime = many_threads();
        let handle = runtime.handle().clone();
        runtime.shutdown_timeout(LONG);
        let _entered = handle.enter();
        let source = source("10", &[("a", 1)], open_watch());
        let informer = informer(&source);
        let calls = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&calls);
        let registration = informer
            .subscribe()
            .on_add(move |_, _| {
                count.fetch_add(1, Ordering::SeqCst);
            })
            .register()
            .unwrap();

        assert!(informer.start() && !informer.start());

        block_on(async {
            let error = show_error(&informer.synced().await.unwrap_err());
            assert!(
                error.contains("its runtime has ended"),
                "{error} {}",
                serde_json::to_string(&informer.status()).unwrap()
            );
            let waited = informer.caught_up_to(&"10".into(), LONG).await;
            assert!(matches!(waited, Err(WaitError::Stopped { .. })), "{waited:?}");
            informer.stop().await.unwrap();
        });
        assert_eq!(informer.state(), InformerState::Stopped);
        assert!(registration.is_removed() && informer.lister().has_stopped());
        let status = serde_json::to_value(informer.status()).unwrap();
        assert_eq!(status["crash"], "its runtime has ended");
        assert_eq!((calls.load(Ordering::SeqCst), source.requests().len()), (0, 0));
    });
}

/// Runs a future on a runtime of its own.
fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(future)
}

// Handlers.

/// `Registration::remove` inside the handler's own callback: this call is the last one.
#[tokio::test(start_paused = true)]
async fn a_handler_that_removes_itself_in_its_callback_is_not_called_again() {
    let leaks = Leaks::watch();
    let source = source("10", &[("a", 1), ("b", 2), ("c", 3)], open_watch());
    let informer = informer(&source);
    let (slot, calls) = (Arc::new(OnceLock::<Registration>::new()), Arc::new(AtomicUsize::new(0)));
    let (own, count) = (Arc::clone(&slot), Arc::clone(&calls));
    let registration = informer
        .subscribe()
        .on_add(move |_, _| {
            if count.fetch_add(1, Ordering::SeqCst) == 1 {
                own.get().unwrap().remove();
            }
        })
        .register()
        .unwrap();
    slot.set(registration.clone()).unwrap();
    informer.start();
    wait_until(|| registration.is_removed()).await;
    within_limit(registration.stop()).await.unwrap();
    sleep_seconds(1.0).await;
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    leaks.stop(&informer).await;
}

fn config(name: &str, number: u64) -> Value {
    json!({"metadata": {"namespace": "n", "name": name}, "data": {"number": number.to_string()}})
}

fn number(object: &Cached<ConfigMap>) -> u64 {
    object.data.as_ref().unwrap()["number"].parse().unwrap()
}

/// P4 with a filter and coalescing: the events of a slow stream are add, updates, delete, and add up to the objects that pass the filter.
#[tokio::test(start_paused = true)]
async fn the_events_of_a_slow_stream_with_a_filter_and_coalescing_add_up_to_the_filtered_cache() {
    for seed in 0..60 {
        let mut random = Random::new(seed);
        let (source, handle) = ScriptedSource::live();
        let informer = SharedInformer::<ConfigMap>::builder(source).build();
        let above = random.below(4) as usize;
        let passes = |object: &Cached<ConfigMap>| !number(object).is_multiple_of(3);
        let mut stream = informer.subscribe().filter(passes).coalesce_above(above).stream().unwrap();
        let mut exists = BTreeSet::new();
        let mut seen = BTreeMap::<Key, Cached<ConfigMap>>::new();
        let mut receive = |event: Event<ConfigMap>| match event {
            Event::Added { object, .. } => {
                assert!(passes(&object), "seed {seed}");
                assert!(seen.insert(object.key().clone(), object).is_none(), "added twice; seed {seed}");
            }
            Event::Updated { old, new } => {
                let before = seen.insert(new.key().clone(), new.clone());
                assert!(passes(&new) && before.is_some_and(|before| Cached::ptr_eq(&before, &old)), "seed {seed}");
            }
            Event::Deleted(deleted) => {
                let before = seen.remove(deleted.key()).unwrap_or_else(|| panic!("deleted twice; seed {seed}"));
                let same_uid = before.uid() == deleted.object().uid();
                assert!(same_uid, "the delete is of the incarnation that was seen; seed {seed}");
            }
            Event::Resynced(_) | Event::Synced => {}
        };
        informer.start();
        for _ in 0..80 {
            let name = format!("o{}", random.below(3));
            match (random.below(10), exists.contains(&name)) {
                (0, _) => handle.fail_watch(SourceError::expired),
                (1, _) => sleep_seconds(random.below(3) as f64).await,
                (2..=4, true) => {
                    exists.remove(&name);
                    handle.deleted(&*format!("n/{name}"));
                }
                (_, true) => drop(handle.modified(config(&name, random.below(9)))),
                (_, false) => {
                    exists.insert(name.clone());
                    handle.added(config(&name, random.below(9)));
                }
            }
            if random.happens(30) {
                wait_until_idle().await;
            }
            if random.happens(20)
                && let Some(Some(event)) = stream.next().now_or_never()
            {
                receive(event);
            }
        }
        informer.caught_up_to(&handle.version(), LONG).await.unwrap();
        sleep_seconds(1.0).await;
        while let Some(Some(event)) = stream.next().now_or_never() {
            receive(event);
        }
        let expected = informer.lister().list().into_iter().filter(|object| passes(object));
        assert_eq!(show_objects(seen.into_values()), show_objects(expected), "seed {seed}");
        assert_eq!(informer.lister().len(), exists.len(), "seed {seed}");
        informer.stop().await.unwrap();
    }
}

// Decoding.

/// The chunks of a response may end at any byte: every event is the same.
#[tokio::test(start_paused = true)]
async fn watch_lines_that_are_cut_at_every_byte_deliver_the_same_events() {
    let object = |name: &str, version: u64| {
        format!(
            r#"{{ "kind":"ConfigMap","apiVersion":"v1", "metadata":{{"name":"{name}","names\u0070ace":"n","uid":"u1","resourceVersion":"{version}","managedFields":[{{"a":"é}}\"{{"}}],"labels":{{"k\n":"漢\\"}}}} ,"data":{{"\ud83d\ude00":"]\u0000"}}}}"#
        )
    };
    let line = |event: &str, object: &str| format!("{{\"type\":\"{event}\",\"object\":{object}}}\r\n");
    let mut body = line("ADDED", &object("a", 11));
    body.push_str(" \n\r\n");
    body.push_str(&format!("{{ \"object\" : {} , \"type\":\"ADDED\"}}\n", object("b", 12)));
    body.push_str(&line("MODIFIED", &object("a", 13)));
    body.push_str(&line("BOOKMARK", r#"{"metadata":{"resourceVersion":"14"}}"#));
    body.push_str(&line("DELETED", &object("b", 15)));
    let body = body.into_bytes();
    for split in 0..=body.len() {
        let source = ScriptedSource::<Lazy<ConfigMap>>::new();
        source.on_list(ScriptedList::at("10"));
        let (first, second) = body.split_at(split);
        source.on_watch(ScriptedWatch::new().bytes(first.to_vec()).bytes(second.to_vec()).stays_open());
        let informer = SharedInformer::<Lazy<ConfigMap>>::builder(source.clone()).build();
        let probe = Probe::new();
        let registration = informer.subscribe().handler(probe.handler()).unwrap();
        informer.start();
        registration.caught_up_to(&"15".into()).await.unwrap();
        assert_eq!(probe.take(), ["synced", "A(n/a@11)", "A(n/b@12)", "U(n/a 11→13)", "D(n/b@15)"], "split at {split}");
        let a = informer.lister().get(&key("n/a")).unwrap();
        let expected = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","names\u0070ace":"n","uid":"u1","resourceVersion":"13","labels":{"k\n":"漢\\"}},"data":{"\ud83d\ude00":"]\u0000"}}"#;
        assert_eq!(&*a.json().unwrap(), expected, "split at {split}");
        assert_eq!(source.requests(), ["L(0, 500)", "W(10)"], "split at {split}");
        informer.stop().await.unwrap();
    }
}

/// P8: invalid UTF-8 in a kept field or in a cut field quarantines one object, in a list and in a watch.
#[tokio::test(start_paused = true)]
async fn invalid_utf8_in_a_kept_or_a_cut_field_quarantines_only_its_object() {
    for field in [&b"\"data\":{\"x\":\"?\"}"[..], b"\"status\":\"?\"", b"\"?\":1"] {
        for bad in [&b"\xff"[..], b"\xc3", b"\xed\xa0\x80"] {
            let object = |name: &str, version: u64, field: &[u8]| {
                let mut json = format!(
                    "{{\"metadata\":{{\"namespace\":\"n\",\"name\":\"{name}\",\"resourceVersion\":\"{version}\"}},"
                )
                .into_bytes();
                for byte in field {
                    if *byte == b'?' { json.extend_from_slice(bad) } else { json.push(*byte) }
                }
                json.push(b'}');
                json
            };
            let event = |json: &[u8]| [b"{\"type\":\"ADDED\",\"object\":", json, b"}\n"].concat();
            let source = ScriptedSource::<Lazy<ConfigMap>>::new();
            source.on_list(ScriptedList::at("10").json(object("a", 1, field)).json(object("b", 2, b"\"data\":{}")));
            let watch = ScriptedWatch::new().bytes(event(&object("c", 11, field)));
            source.on_watch(watch.bytes(event(&object("d", 12, b"\"data\":{}"))).stays_open());
            let builder = SharedInformer::<Lazy<ConfigMap>>::builder(source.clone());
            let informer = builder.cut(["status".parse().unwrap()]).build();
            informer.start();
            informer.caught_up_to(&"12".into(), LONG).await.unwrap();
            assert_eq!(cached(&informer), ["n/b@2", "n/d@12"]);
            let mut bad: Vec<_> = informer.quarantined().iter().map(|bad| bad.key.clone()).collect();
            bad.sort();
            assert_eq!(bad.len(), 2, "{bad:?}");
            assert_eq!(source.requests(), ["L(0, 500)", "W(10)"]);
            informer.stop().await.unwrap();
        }
    }
}

// Reads of the cache.

/// P6 and P8: an index function that panics for one state of an object, and reads the cache, affects neither other objects nor handlers.
#[tokio::test(start_paused = true)]
async fn an_index_function_that_panics_and_reads_the_cache_only_hides_its_object_from_that_index() {
    let _logs = Logs::capture();
    let (source, handle) = ScriptedSource::live();
    handle.added(config("a", 1));
    handle.added(config("b", 1));
    let informer = SharedInformer::<ConfigMap>::builder(source).build();
    let lister: Lister<ConfigMap> = informer.lister();
    let reader = lister.clone();
    let by_number = informer
        .add_index("number", move |object: &Cached<ConfigMap>| {
            let before = reader.get(object.key()).map(|object| number(&object));
            assert!(number(object) != 7, "seven");
            assert!(reader.len() <= 3 && before != Some(100));
            Some(number(object))
        })
        .unwrap();
    let probe = Probe::new();
    let registration = informer.subscribe().handler(probe.handler()).unwrap();
    informer.start();
    registration.synced().await.unwrap();
    assert_eq!(by_number.count(&1), 2);

    handle.modified(config("a", 7));
    handle.modified(config("b", 2));
    registration.caught_up_to(&handle.version()).await.unwrap();
    let snapshot = lister.snapshot();
    assert_eq!(number(&lister.get(&key("n/a")).unwrap()), 7, "the object is stored");
    assert_eq!((by_number.count(&1), by_number.count(&7), by_number.count(&2)), (0, 0, 1));
    assert_eq!(snapshot.index("number").unwrap().values().iter().map(|value| &**value).collect::<Vec<_>>(), ["2"]);

    handle.modified(config("a", 3));
    handle.deleted("n/b");
    registration.caught_up_to(&handle.version()).await.unwrap();
    assert_eq!((by_number.count(&3), by_number.count(&2)), (1, 0));
    assert_eq!(snapshot.index("number").unwrap().get("2").len(), 1, "the snapshot does not change");
    assert_eq!(probe.known().len(), 1);
    informer.stop().await.unwrap();
}

/// P6: every read method of a lister, a namespace lister and a snapshot agrees with a naive model.
#[test]
fn all_reads_of_a_cache_agree_with_a_naive_model() {
    for seed in 0..150 {
        let mut random = Random::new(seed);
        let indexer = Indexer::<ConfigMap>::new();
        let lister = indexer.lister();
        let mut model = BTreeMap::<Key, (u64, Option<String>)>::new();
        let mut indexes = None;
        for step in 0..60 {
            if step == random.below(30) || (step == 30 && indexes.is_none()) {
                indexes.get_or_insert_with(|| {
                    let by_number = indexer.add_index("number", |object: &Cached<ConfigMap>| Some(number(object)));
                    let both = |object: &Cached<ConfigMap>| vec![number(object) % 2, number(object) % 3, 1];
                    (by_number.unwrap(), indexer.add_index("both", both).unwrap())
                });
            }
            let namespace = ["", "x", "y"][random.below(3) as usize];
            let name = format!("o{}", random.below(5));
            let place = if namespace.is_empty() { key(&name) } else { key(&format!("{namespace}/{name}")) };
            if random.happens(35) {
                assert_eq!(indexer.remove(&place).is_some(), model.remove(&place).is_some(), "seed {seed}");
            } else {
                let (content, app) =
                    (random.below(5), ["red", "blue"].get(random.below(3) as usize).map(|app| (*app).to_owned()));
                let mut object = json!({"metadata": {"name": name}, "data": {"number": content.to_string()}});
                if !namespace.is_empty() {
                    object["metadata"]["namespace"] = namespace.into();
                }
                if let Some(app) = &app {
                    object["metadata"]["labels"] = json!({"app": app});
                }
                let object: ConfigMap = serde_json::from_value(object).unwrap();
                indexer.upsert(Cached::of(object).unwrap());
                model.insert(place, (content, app));
            }
            let snapshot = lister.snapshot();
            let keys = |objects: Vec<Cached<ConfigMap>>| {
                objects.iter().map(|object| object.key().clone()).collect::<BTreeSet<_>>()
            };
            let expected = |matches: &dyn Fn(&Key, u64, Option<&str>) -> bool| {
                let found = model.iter().filter(|(key, (number, app))| matches(key, *number, app.as_deref()));
                found.map(|(key, _)| key.clone()).collect::<BTreeSet<_>>()
            };
            let all = expected(&|_, _, _| true);
            assert_eq!((lister.len(), lister.is_empty()), (model.len(), model.is_empty()), "seed {seed}");
            assert_eq!((snapshot.len(), snapshot.is_empty()), (model.len(), model.is_empty()), "seed {seed}");
            assert_eq!(lister.keys().into_iter().collect::<BTreeSet<_>>(), all, "seed {seed}");
            assert_eq!((keys(lister.list()), keys(snapshot.list())), (all.clone(), all.clone()));
            for key in &all {
                let content = model[key].0;
                assert_eq!(lister.get(key).map(|object| number(&object)), Some(content), "seed {seed}");
                assert_eq!(snapshot.get(key).map(|object| number(&object)), Some(content), "seed {seed}");
                let of_namespace = lister.namespace(key.namespace().unwrap_or_default());
                assert_eq!(of_namespace.get(key.name()).map(|object| number(&object)), Some(content), "seed {seed}");
            }
            for namespace in ["", "x", "y", "z"] {
                let inside = expected(&|key, _, _| namespace.is_empty() || key.namespace() == Some(namespace));
                assert_eq!(keys(lister.namespace(namespace).list()), inside, "seed {seed}");
                assert_eq!(keys(snapshot.namespace(namespace).list()), inside, "seed {seed}");
                let red = expected(&|key, _, app| {
                    (namespace.is_empty() || key.namespace() == Some(namespace)) && app == Some("red")
                });
                assert_eq!(keys(lister.namespace(namespace).select("app=red".parse().unwrap())), red, "seed {seed}");
            }
            for selector in ["app=red", "app!=red", "!app", "app", "app in (red, blue)", "app notin (blue)", ""] {
                let selected = expected(&|_, _, app| match selector {
                    "app=red" => app == Some("red"),
                    "app!=red" => app != Some("red"),
                    "!app" => app.is_none(),
                    "app" | "app in (red, blue)" => app.is_some(),
                    "app notin (blue)" => app != Some("blue"),
                    _ => true,
                });
                assert_eq!(keys(lister.select(selector.parse().unwrap())), selected, "{selector}; seed {seed}");
                assert_eq!(keys(snapshot.select(selector.parse().unwrap())), selected, "{selector}; seed {seed}");
            }
            let Some((by_number, both)) = &indexes else { continue };
            for value in 0..5_u64 {
                let with = expected(&|_, number, _| number == value);
                let text = value.to_string();
                assert_eq!(keys(by_number.get(&value)), with, "seed {seed}");
                assert_eq!(
                    (by_number.count(&value), by_number.keys(&value)),
                    (with.len(), with.iter().cloned().collect())
                );
                assert_eq!(keys(lister.index("number").unwrap().get(&text)), with, "seed {seed}");
                assert_eq!(keys(snapshot.index("number").unwrap().get(&text)), with, "seed {seed}");
                assert_eq!(snapshot.index("number").unwrap().keys(&text), with.iter().cloned().collect::<Vec<_>>());
                assert_eq!(keys(snapshot.by_indexes([by_number.lookup(&value)]).unwrap()), with, "seed {seed}");
                let has = |number: u64, value: u64| number % 2 == value || number % 3 == value || value == 1;
                let in_both = expected(&|_, number, _| has(number, value));
                assert_eq!(
                    (keys(both.get(&value)), both.count(&value)),
                    (in_both.clone(), in_both.len()),
                    "seed {seed}"
                );
                for other in 0..3 {
                    let joined = expected(&|_, number, _| number == value && has(number, other));
                    let lookups = || [by_number.lookup(&value), both.lookup(&other)];
                    assert_eq!(keys(lister.by_indexes(lookups()).unwrap()), joined, "seed {seed}");
                    assert_eq!(keys(snapshot.by_indexes(lookups()).unwrap()), joined, "seed {seed}");
                }
            }
            let values: BTreeSet<_> = model.values().map(|(number, _)| number.to_string()).collect();
            let mut found: Vec<_> = by_number.values().iter().map(ToString::to_string).collect();
            found.sort();
            assert_eq!(found, values.into_iter().collect::<Vec<_>>(), "seed {seed}");
        }
    }
}
