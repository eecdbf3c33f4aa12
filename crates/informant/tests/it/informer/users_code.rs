//! What users write may block, panic, hang or call back, when it is called and when it is dropped: it harms only itself.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::StreamExt;
use informant::Cached;
use informant::Event;
use informant::Handler;
use informant::Identity;
use informant::Key;
use informant::Registration;
use informant::SharedInformer;
use informant::informer::InformerState;
use informant::informer::StopError;
use informant::listwatch::ListRequest;
use informant::listwatch::ListStream;
use informant::listwatch::ListWatch;
use informant::listwatch::ScriptedList;
use informant::listwatch::ScriptedSource;
use informant::listwatch::ScriptedWatch;
use informant::listwatch::SourceError;
use informant::listwatch::WatchRequest;
use informant::listwatch::WatchStream;
use tokio::runtime::Runtime;

use super::support::Leaks;
use super::support::Probe;
use super::support::Source;
use super::support::informer;
use super::support::list;
use super::support::open_watch;
use super::support::ready;
use super::support::source;
use super::support::stuck;
use super::support::until;
use crate::support::Logs;

const fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

const LONG: Duration = Duration::from_secs(60);

fn one_thread() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

fn many_threads() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(3).enable_all().build().unwrap()
}

/// Runs in a thread of its own; what hangs fails.
fn without_deadlock(run: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        run();
        let _ = done.send(());
    });
    match is_done.recv_timeout(LONG) {
        Ok(()) => {}
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => std::panic::resume_unwind(thread.join().unwrap_err()),
    }
}

/// Has whoever calls it hold something.
fn keep<T>(_: &T) {}

/// Does something when it is dropped.
struct OnDrop(Box<dyn Fn() + Send + Sync>);

impl OnDrop {
    fn new(act: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Box::new(act))
    }

    /// A handler that holds it.
    fn held(self) -> Handler<()> {
        Handler::<()>::new().on_synced(move || keep(&self))
    }
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A payload of a panic that panics when it is dropped.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        std::panic::resume_unwind(Box::new("and again"));
    }
}

fn object<O>(version: u64, content: O) -> Cached<O> {
    let version = version.to_string().as_str().into();
    Cached::new(Identity { key: Key::cluster("a"), uid: "u".into(), version }, content)
}

/// A blocking handler may do what may not be done inside a runtime.
#[test]
fn a_blocking_handler_may_block_on_the_runtime_itself() {
    without_deadlock(|| {
        let runtime = many_threads();
        let informer = informer(&source("10", &[("a", 1)], open_watch()));
        let (send, mut receive) = tokio::sync::mpsc::channel(1);
        let handle = runtime.handle().clone();
        let handler = Handler::<()>::new().on_add(move |object, _| {
            handle.block_on(tokio::time::sleep(milliseconds(1)));
            send.blocking_send(object.key().to_string()).unwrap();
        });
        let registration = informer.subscribe().blocking_handler(handler).unwrap();
        runtime.block_on(async {
            informer.start();
            registration.synced().await.unwrap();
            assert_eq!(receive.recv().await.as_deref(), Some("a"));
            assert_eq!(registration.status().panics, 0);
            informer.stop().await.unwrap();
        });
    });
}

/// P9: the first poll may never come.
#[test]
fn a_runtime_that_ends_before_the_informer_has_begun_ends_it() {
    without_deadlock(|| {
        let runtime = one_thread();
        let informer = informer(&source("10", &[("a", 1)], open_watch()));
        let registration = informer.add_handler(Probe::new()).unwrap();
        runtime.block_on(async { assert!(informer.start()) });

        drop(runtime);

        assert!(registration.is_removed());
        one_thread().block_on(informer.stop()).unwrap();
        assert_eq!(informer.state(), InformerState::Stopped);
    });
}

/// P9
#[test]
fn stopping_waits_for_a_blocking_callback_also_if_the_runtime_is_gone() {
    without_deadlock(|| {
        let runtime = one_thread();
        let informer = informer(&source("10", &[("a", 1)], open_watch()));
        let (_, open, running) = stuck(&informer);
        runtime.block_on(async {
            informer.start();
            until(|| running.load(Ordering::SeqCst) == 1).await;
        });
        drop(runtime);

        assert!(informer.stop().now_or_never().is_none());
        assert_eq!(informer.state(), InformerState::Stopping);
        drop(open);
        one_thread().block_on(informer.stop()).unwrap();

        assert_eq!(running.load(Ordering::SeqCst), 0);
    });
}

/// Lists one object, then does what it is told when a watch is opened.
struct Trouble(fn() -> OnDrop);

impl ListWatch<()> for Trouble {
    async fn list(&self, request: ListRequest) -> Result<ListStream<()>, SourceError> {
        let source = ScriptedSource::new();
        source.on_list(list("10", &[("a", 1)]));
        source.list(request).await
    }

    async fn watch(&self, _: WatchRequest) -> Result<WatchStream<()>, SourceError> {
        // After the list was processed.
        tokio::time::sleep(milliseconds(20)).await;
        let _held = (self.0)();
        std::future::pending().await
    }
}

/// P9: a source that panics, also when its panic or itself is dropped.
#[test]
fn stopping_waits_for_callbacks_whatever_the_source_does() {
    let _logs = Logs::capture();
    let troubles: [fn() -> OnDrop; 3] = [
        || std::panic::resume_unwind(Box::new("boom")),
        || std::panic::resume_unwind(Box::new(Bomb)),
        || OnDrop::new(|| std::panic::resume_unwind(Box::new("when it is dropped"))),
    ];
    for trouble in troubles {
        without_deadlock(move || {
            let runtime = many_threads();
            let informer = SharedInformer::of_ready_objects(Trouble(trouble)).build();
            let (_, open, running) = stuck(&informer);
            runtime.block_on(async {
                informer.start();
                until(|| running.load(Ordering::SeqCst) == 1).await;
                let error = informer.stop_within(milliseconds(50)).await.unwrap_err();
                assert!(error.to_string().ends_with("callbacks of stuck have not returned"), "{error}");
                drop(open);
                informer.stop().await.unwrap();
                assert_eq!(running.load(Ordering::SeqCst), 0);
            });
        });
    }
}

/// An informer that cannot go on does not look healthy while a callback of it hangs.
#[test]
fn an_informer_that_has_crashed_says_so_at_once() {
    without_deadlock(|| {
        let _logs = Logs::capture();
        let runtime = many_threads();
        let informer =
            SharedInformer::of_ready_objects(Trouble(|| std::panic::resume_unwind(Box::new("boom")))).build();
        let (_, open, running) = stuck(&informer);
        runtime.block_on(async {
            informer.start();
            until(|| running.load(Ordering::SeqCst) == 1).await;
            until(|| informer.state() == InformerState::Stopping).await;
            assert!(informer.status().is_stale());
            assert!(informer.add_handler(Probe::new()).is_err());
            drop(open);
            until(|| informer.state() == InformerState::Stopped).await;
        });
    });
}

/// P9: who has left, or was never called, is let go with all that it holds.
#[tokio::test]
async fn handlers_and_filters_are_dropped_when_they_are_removed_or_at_the_end() {
    let leaks = Leaks::watch();
    let token = Arc::new(());
    let held = || Arc::strong_count(&token) - 1;
    let hold = |informer: &SharedInformer<()>| {
        // A handler that holds its informer would keep it for ever.
        let (by_handler, by_filter, own) = (Arc::clone(&token), Arc::clone(&token), informer.clone());
        let filter = move |_: &Cached<()>| Arc::strong_count(&by_filter) > 0;
        let handler = Handler::<()>::new().on_synced(move || keep(&(&by_handler, &own)));
        informer.subscribe().filter(filter).handler(handler).unwrap()
    };
    let unstarted = informer(&source("10", &[("a", 1)], open_watch()));
    for _ in 0..10 {
        hold(&unstarted).shut_down().await.unwrap();
        assert!(held() <= 1, "a filter may stay until somebody joins or something happens");
    }
    hold(&unstarted);
    unstarted.stop().await.unwrap();
    assert_eq!(held(), 0, "after the end of one that never started");

    let started = informer(&source("10", &[("a", 1)], open_watch()));
    started.start();
    started.synced().await.unwrap();
    for _ in 0..10 {
        hold(&started).shut_down().await.unwrap();
        assert!(held() <= 1);
    }
    hold(&started);
    started.stop().await.unwrap();
    assert_eq!(held(), 0, "after the end");
    leaks.check();
}

/// A handler is gone when its shut-down returns.
#[tokio::test]
async fn after_the_shut_down_the_handler_is_dropped() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    let gone = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&gone);
    let registration = informer.add_handler(OnDrop::new(move || told.store(true, Ordering::SeqCst)).held()).unwrap();
    informer.start();
    registration.synced().await.unwrap();

    registration.shut_down().await.unwrap();

    assert!(gone.load(Ordering::SeqCst));
    leaks.stop(&informer).await;
}

/// Decision 7: lock order.
#[test]
fn an_index_function_that_wants_a_turn_while_others_write_is_no_deadlock() {
    without_deadlock(|| {
        let runtime = many_threads();
        let mut watch = ScriptedWatch::new();
        for version in 11..200 {
            watch = watch.modified(ready("b", version)).wait(milliseconds(1));
        }
        let informer = informer(&source("10", &[("a", 1)], watch.stays_open()));
        runtime.block_on(async {
            informer.start();
            informer.synced().await.unwrap();
        });
        for number in 0..5 {
            let own = informer.clone();
            let values = move |_: &Cached<()>| {
                std::thread::sleep(milliseconds(5));
                let period = own.resync_check_period().is_some();
                (own.add_handler(Handler::new()).is_ok() || period).then(String::new)
            };
            informer.add_index(&format!("index {number}"), values).unwrap();
        }
        runtime.block_on(informer.stop()).unwrap();
    });
}

/// Decision 7: no user's code under a lock.
#[test]
fn an_object_may_look_at_the_informer_when_it_is_dropped() {
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
            let informer = SharedInformer::of_ready_objects(source).build();
            let mut stream = match coalesces {
                true => informer.subscribe().coalesce_above(0).stream().unwrap(),
                false => informer.stream().unwrap(),
            };
            slot.set((informer.clone(), stream.registration().clone())).ok().unwrap();
            one_thread().block_on(async {
                informer.start();
                informer.caught_up_to(&"20".into(), LONG).await.unwrap();
                while let Some(Some(event)) = stream.next().now_or_never() {
                    drop(event);
                }
                until(|| dropped.load(Ordering::SeqCst) == 11).await;
                informer.stop().await.unwrap();
            });
        });
    }
}

/// P8
#[tokio::test]
async fn an_object_that_panics_when_it_is_dropped_ends_no_handler() {
    let leaks = Leaks::watch();
    let logs = Logs::capture();
    let bad = || object(1, OnDrop::new(|| std::panic::resume_unwind(Box::new("my last word"))));
    let good = |version| object(version, OnDrop::new(|| {}));
    let source = ScriptedSource::new();
    source.on_list(ScriptedList::at("10").object(bad()));
    let watch = ScriptedWatch::new().wait(milliseconds(5)).modified(good(11)).wait(milliseconds(5)).modified(good(12));
    source.on_watch(watch.stays_open());
    let informer = SharedInformer::of_ready_objects(source).build();
    let updates = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&updates);
    let handler = Handler::<OnDrop>::new().on_update(move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let registration = informer.add_handler(handler).unwrap();
    informer.start();

    until(|| updates.load(Ordering::SeqCst) == 2).await;

    assert!(!registration.is_removed());
    until(|| logs.take().contains("my last word") || registration.status().panics > 0).await;
    leaks.stop(&informer).await;
}

/// P8, P9
#[tokio::test]
async fn what_waits_for_a_removed_handler_may_panic_when_it_is_dropped() {
    let leaks = Leaks::watch();
    let _logs = Logs::capture();
    let source = ScriptedSource::new();
    source.on_list(ScriptedList::at("10").object(object(1, OnDrop::new(|| std::panic::resume_unwind(Box::new(Bomb))))));
    source.on_watch(ScriptedWatch::new().wait(milliseconds(1)).modified(object(11, OnDrop::new(|| {}))).stays_open());
    let informer = SharedInformer::of_ready_objects(source).build();
    let stream = informer.stream().unwrap();
    let registration = stream.registration().clone();
    informer.start();
    informer.caught_up_to(&"11".into(), LONG).await.unwrap();

    registration.shut_down().await.unwrap();

    assert!(registration.is_removed());
    assert_eq!(registration.status().panics, 1);
    leaks.stop(&informer).await;
}

/// P8
#[tokio::test]
async fn a_handler_that_panics_when_it_is_dropped_harms_nobody() {
    let leaks = Leaks::watch();
    let _logs = Logs::capture();
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    let bad = || OnDrop::new(|| std::panic::resume_unwind(Box::new(Bomb))).held();
    let first = informer.add_handler(bad()).unwrap();
    let second = informer.add_handler(bad()).unwrap();
    informer.start();
    second.synced().await.unwrap();
    first.shut_down().await.unwrap();

    let probe = Probe::new();
    informer.add_handler(probe.clone()).unwrap().synced().await.unwrap();
    leaks.stop(&informer).await;

    assert_eq!(probe.known(), ["a@1"]);
    assert!(second.is_removed());
}

/// What was set before is dropped without a lock, and so is a handler that is refused.
#[test]
fn what_is_replaced_or_refused_may_call_the_informer_when_it_is_dropped() {
    without_deadlock(|| {
        let informer = informer(&source("10", &[("a", 1)], open_watch()));
        let own = informer.clone();
        let guard = OnDrop::new(move || drop(own.stop().now_or_never()));
        informer.set_on_error(move |_| keep(&guard)).unwrap();
        informer.set_on_error(|_| {}).unwrap();

        let said = Arc::new(Mutex::new(String::new()));
        let (told, own) = (Arc::clone(&said), informer.clone());
        let guard = OnDrop::new(move || {
            *told.lock().unwrap() = own.add_handler(Handler::new()).unwrap_err().to_string();
        });
        assert!(informer.add_handler(guard.held()).is_err());
        assert!(said.lock().unwrap().contains("has stopped"), "{}", said.lock().unwrap());
    });
}

/// P9: those are named for whom one waits, and no others.
#[test]
fn a_handler_that_hangs_when_it_is_dropped_is_named_and_a_stream_never_is() {
    without_deadlock(|| {
        let runtime = many_threads();
        let informer = informer(&source("10", &[("a", 1)], open_watch()));
        let (open, gate) = mpsc::channel::<()>();
        let gate = Mutex::new(gate);
        let slow = OnDrop::new(move || {
            let _ = gate.lock().unwrap().recv();
        });
        let registration = informer.subscribe().named("slow to go").handler(slow.held()).unwrap();
        let _stream = informer.stream().unwrap();
        runtime.block_on(async {
            informer.start();
            registration.synced().await.unwrap();
            let error = informer.stop_within(milliseconds(50)).await.unwrap_err();
            let StopError::StillRunning { handlers, .. } = error else { panic!("{error}") };
            assert_eq!(handlers, ["slow to go".into()]);
            drop(open);
            informer.stop().await.unwrap();
        });
    });
}

/// B11 of the past: also index functions and callbacks of the reflector cannot wait for themselves.
#[tokio::test(start_paused = true)]
async fn stopping_from_inside_an_index_function_or_a_transform_is_an_error() {
    for in_transform in [false, true] {
        let leaks = Leaks::watch();
        let informer = informer(&source("10", &[("a", 1)], open_watch()));
        let errors = Arc::new(Mutex::new(Vec::new()));
        let (own, told) = (informer.clone(), Arc::clone(&errors));
        let stop = move || told.lock().unwrap().push(own.stop().now_or_never().expect("at once"));
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
        until(|| informer.state() == InformerState::Stopped).await;

        let errors = std::mem::take(&mut *errors.lock().unwrap());
        assert!(matches!(errors[..], [Err(StopError::InsideCallback { .. })]), "{errors:?}");
        leaks.check();
    }
}

fn many(objects: u64) -> Source {
    let source = ScriptedSource::new();
    let listed = (0..objects)
        .fold(ScriptedList::at("1000000000"), |list, number| list.object(ready(&format!("o{number}"), number + 1)));
    source.on_list(listed);
    source.on_watch(open_watch());
    source
}

/// Counts how often another task gets its turn until it is told to end.
async fn count_turns(is_over: Arc<AtomicBool>) -> usize {
    let mut turns = 0;
    while !is_over.load(Ordering::SeqCst) {
        turns += 1;
        tokio::task::yield_now().await;
    }
    turns
}

/// P8: who has much to hear lets others run.
#[tokio::test(start_paused = true)]
async fn a_long_backlog_does_not_starve_others() {
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

        let handler = informer.subscribe().filter(passes).handler(Handler::new()).unwrap();
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

/// P8: also if calls become slow all of a sudden.
#[tokio::test]
async fn a_handler_that_becomes_slow_lets_others_run_after_a_few_calls() {
    let leaks = Leaks::watch();
    let informer = informer(&many(2000));
    let (calls, others) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    // Of the slow calls: in which turn of others each was made.
    let turns = Arc::new(Mutex::new(Vec::new()));
    let (seen, told) = (Arc::clone(&others), Arc::clone(&turns));
    let handler = Handler::<()>::new().on_add(move |_, _| {
        if (1000..1100).contains(&calls.fetch_add(1, Ordering::SeqCst)) {
            told.lock().unwrap().push(seen.load(Ordering::SeqCst));
            std::thread::sleep(milliseconds(2));
        }
    });
    let registration = informer.add_handler(handler).unwrap();
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
