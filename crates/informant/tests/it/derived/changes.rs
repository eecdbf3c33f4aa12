//! How programs follow a map: streams, closures, wake-ups; promise D3; the end of a map.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    task::{Context, Poll, Wake},
    time::Duration,
};

use futures_util::Stream;
use informant::error::{SourceError, StopError};
use tokio::time::{Instant, sleep, timeout};

use super::*;

/// Counts how often a task is woken.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// D3
#[tokio::test(start_paused = true)]
async fn a_value_that_did_not_change_causes_no_wake_up() {
    let (map, _informer, handle) = map_of([config("x", "a", "1")]).await;
    let (mut changes, mut wake_ups) = (map.stream(), map.watch());
    assert_eq!(next_line(&mut changes).await, "+a=1");
    let value = map.get("a").unwrap();
    let wakes = Arc::new(Wakes::default());
    let waker = Arc::clone(&wakes).into();
    assert!(Pin::new(&mut changes).poll_next(&mut Context::from_waker(&waker)).is_pending());

    for other in ["p", "q"] {
        let mut object = config("x", "a", "1");
        object["data"]["other"] = other.into();
        handle.modified(object);
    }
    // A relist of the same objects.
    handle.fail_watch(SourceError::expired);

    assert!(timeout(Duration::from_secs(60), wake_ups.changed()).await.is_err());
    assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
    assert!(is_idle(&mut changes).await);
    assert!(Arc::ptr_eq(&value, &map.get("a").unwrap()));
    assert_eq!(map.snapshot().generation(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_not_read_holds_one_change_for_each_key() {
    let (map, _informer, handle) = map_of([config("x", "a b", "0")]).await;
    let (mut changes, mut unread) = (map.stream(), map.stream());
    for _ in 0..2 {
        next_line(&mut changes).await;
    }
    for number in 1..100 {
        handle.modified(config("x", "a b", &number.to_string()));
        handle.added(config("y", "c", "new"));
        sleep(Duration::from_millis(100)).await;
        handle.deleted("shop/y");
    }
    handle.modified(config("x", "b c", "0"));
    sleep(Duration::from_secs(1)).await;

    let mut lines = [next_line(&mut changes).await, next_line(&mut changes).await];
    lines.sort();
    assert_eq!(lines, ["+c=0", "-a=0"], "b has the value again that was read");
    assert!(is_idle(&mut changes).await);
    let mut lines = [next_line(&mut unread).await, next_line(&mut unread).await];
    lines.sort();
    assert_eq!(lines, ["+b=0", "+c=0"]);
    assert!(is_idle(&mut unread).await);
}

#[tokio::test(start_paused = true)]
async fn changes_come_in_groups_at_most_once_in_a_period() {
    let (map, _informer, handle) = map_of([config("x", "a", "0")]).await;
    let period = Duration::from_secs(10);
    let (mut changes, mut wake_ups) = (map.stream().at_most_every(period), map.watch().at_most_every(period));
    assert_eq!(next_line(&mut changes).await, "+a=0");
    let begun = Instant::now();
    tokio::spawn(async move {
        for number in 1..=300 {
            handle.modified(config("x", "a", &number.to_string()));
            sleep(Duration::from_millis(100)).await;
        }
        std::future::pending::<()>().await;
    });

    assert!(wake_ups.changed().await);
    let mut groups = Vec::new();
    for _ in 0..3 {
        groups.push((next_line(&mut changes).await, begun.elapsed().as_secs()));
    }
    let first_wake_up = Instant::now();
    assert!(wake_ups.changed().await);

    assert_eq!(groups.iter().map(|(_, second)| *second).collect::<Vec<_>>(), [10, 20, 30], "{groups:?}");
    assert!(groups[1].0.starts_with("~a=1"), "{groups:?}");
    assert!(first_wake_up.elapsed() < period, "its period was over while the stream was read");
}

#[tokio::test(start_paused = true)]
async fn changes_that_cancelled_each_other_do_not_delay_the_next_one() {
    let (map, _informer, handle) = map_of([config("x", "a", "0")]).await;
    let mut changes = map.stream().at_most_every(Duration::from_secs(10));
    assert_eq!(next_line(&mut changes).await, "+a=0");
    let begun = Instant::now();
    tokio::spawn(async move {
        for (value, seconds) in [("1", 2), ("0", 10), ("2", 1000)] {
            handle.modified(config("x", "a", value));
            sleep(Duration::from_secs(seconds)).await;
        }
    });

    assert_eq!(next_line(&mut changes).await, "~a=0→2");
    assert_eq!(begun.elapsed().as_secs(), 12, "the group that would have begun after 10 s is empty");
}

#[tokio::test(start_paused = true)]
async fn a_closure_is_called_with_each_change_also_after_a_panic() {
    let (map, _informer, handle) = map_of([config("x", "a", "1")]).await;
    let lines = Arc::new(Mutex::new(Vec::new()));
    let recorded = Arc::clone(&lines);
    map.on_change(move |change| {
        recorded.lock().unwrap().push(line(change));
        if recorded.lock().unwrap().len() == 1 {
            std::panic::resume_unwind(Box::new("once"));
        }
    });
    sleep(Duration::from_secs(1)).await;
    handle.modified(config("x", "a", "2"));
    handle.deleted("shop/x");
    sleep(Duration::from_secs(1)).await;

    map.stop().await.unwrap();

    let lines = std::mem::take(&mut *lines.lock().unwrap());
    assert!(lines == ["+a=1", "-a=1"] || lines == ["+a=1", "~a=1→2", "-a=2"], "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn streams_and_wake_ups_end_when_the_map_stops_and_the_entries_stay() {
    let (map, informer, handle) = map_of([config("x", "a", "1")]).await;
    let (mut changes, mut wake_ups) = (map.stream(), map.watch());

    map.stop().await.unwrap();
    handle.deleted("shop/x");
    sleep(Duration::from_secs(1)).await;

    assert_eq!((next_line(&mut changes).await.as_str(), wake_ups.changed().await), ("end", false));
    assert_eq!((next_line(&mut map.stream()).await.as_str(), map.watch().changed().await), ("end", false));
    assert_eq!((shown(&map).as_str(), informer.lister().len()), ("a=1", 0), "the informer goes on");
}

#[tokio::test(start_paused = true)]
async fn a_map_stops_when_its_last_handle_is_dropped_or_its_informer_stops() {
    let (map, informer, _handle) = map_of([config("x", "a", "1")]).await;
    let other = informer.derive(pairs).register().unwrap();
    let (clone, mut changes, mut of_other) = (map.clone(), map.stream(), other.stream());
    assert_eq!(next_line(&mut changes).await, "+a=1");
    drop(map);
    assert!(is_idle(&mut changes).await);
    drop(clone);
    assert_eq!(next_line(&mut changes).await, "end");
    assert_eq!(informer.status().handlers.len(), 1);

    assert_eq!(next_line(&mut of_other).await, "+a=1");
    informer.stop().await.unwrap();
    assert_eq!(next_line(&mut of_other).await, "end");
}

#[tokio::test(start_paused = true)]
async fn a_closure_cannot_wait_for_its_own_end() {
    let (map, _informer, _handle) = map_of([config("x", "a", "1")]).await;
    let (sender, mut outcome) = tokio::sync::mpsc::unbounded_channel();
    let stopped = map.clone();
    map.on_change(move |_| {
        let mut stop = Box::pin(stopped.stop());
        sender.send(futures_util::FutureExt::now_or_never(&mut stop)).unwrap();
    });

    let error = outcome.recv().await.unwrap().expect("it does not wait").unwrap_err();
    assert!(error.to_string().contains("callback"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_not_read_keeps_no_keys_that_came_and_went() {
    let (map, _informer, handle) = map_of([config("x", "a", "1")]).await;
    let changes = map.stream();
    let long = "k".repeat(100_000);
    for number in 0..10 {
        handle.modified(config("x", &format!("a {number}{long}"), "1"));
        sleep(Duration::from_secs(1)).await;
    }
    handle.modified(config("x", "a", "1"));
    sleep(Duration::from_secs(1)).await;

    let freed = -allocation_counter::measure(|| drop(changes)).bytes_current;

    assert!(freed < 10_000, "it held {freed} bytes");
}

#[tokio::test(start_paused = true)]
async fn streams_that_were_dropped_leave_nothing_behind() {
    let (map, _informer, _handle) = map_of([config("x", "a", "1")]).await;
    drop(map.stream());
    let left = || allocation_counter::measure(|| (0..1000).for_each(|_| drop(map.stream()))).bytes_current;
    assert!(left() < 10_000, "while nothing changes: {}", left());

    map.stop().await.unwrap();
    assert!(left() < 10_000, "after the stop: {}", left());
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_map_does_not_wait_for_the_period_of_its_readers() {
    let (map, _informer, handle) = map_of([config("x", "a", "1")]).await;
    let hour = Duration::from_secs(3600);
    let (mut changes, mut wake_ups) = (map.stream().at_most_every(hour), map.watch().at_most_every(hour));
    map.on_change(|_| ());
    next_line(&mut changes).await;
    let reader = tokio::spawn(async move { (next_line(&mut changes).await, Instant::now()) });
    handle.modified(config("x", "a", "2"));
    assert!(wake_ups.changed().await);
    let waiting = tokio::spawn(async move { (wake_ups.changed().await, Instant::now()) });
    handle.modified(config("x", "a", "3"));
    sleep(Duration::from_secs(1)).await;
    let begun = Instant::now();

    map.stop().await.unwrap();

    assert!(begun.elapsed() < Duration::from_secs(1), "stopping took {:?}", begun.elapsed());
    let ((line, read_at), (changed, woken_at)) = (reader.await.unwrap(), waiting.await.unwrap());
    assert_eq!((line.as_str(), changed), ("end", false));
    assert!(read_at.max(woken_at) - begun < Duration::from_secs(1), "{read_at:?} {woken_at:?}");
}

#[tokio::test(start_paused = true)]
async fn changes_during_a_pause_cause_no_wake_up() {
    let (map, _informer, handle) = map_of([config("x", "a", "1")]).await;
    let mut changes = map.stream().at_most_every(Duration::from_secs(3600));
    next_line(&mut changes).await;
    let wakes = Arc::new(Wakes::default());
    let waker = Arc::clone(&wakes).into();
    assert!(Pin::new(&mut changes).poll_next(&mut Context::from_waker(&waker)).is_pending());
    handle.modified(config("x", "a", "2"));
    sleep(Duration::from_secs(1)).await;
    assert_eq!(wakes.0.load(Ordering::Relaxed), 0);

    sleep(Duration::from_secs(3600)).await;
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert!(matches!(Pin::new(&mut changes).poll_next(&mut Context::from_waker(&waker)), Poll::Ready(Some(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn each_call_that_stops_a_map_waits_for_its_closures() {
    let (map, _informer, _handle) = map_of([config("x", "a", "1")]).await;
    let (entered, is_entered) = mpsc::channel();
    let (release, released) = mpsc::channel::<()>();
    map.on_change(move |_| {
        entered.send(()).unwrap();
        released.recv().unwrap();
    });
    tokio::task::spawn_blocking(move || is_entered.recv().unwrap()).await.unwrap();

    for _ in 0..2 {
        assert!(timeout(Duration::from_millis(50), map.stop()).await.is_err(), "the closure is running");
    }
    release.send(()).unwrap();
    map.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn other_tasks_run_between_the_calls_of_a_closure() {
    let keys: Vec<_> = (0..2000).map(|number| number.to_string()).collect();
    let (map, _informer, _handle) = map_of([config("x", &keys.join(" "), "1")]).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    map.on_change(move |_| {
        counted.fetch_add(1, Ordering::Relaxed);
    });

    let mut seen = Vec::new();
    while calls.load(Ordering::Relaxed) < 2000 {
        tokio::task::yield_now().await;
        seen.push(calls.load(Ordering::Relaxed));
    }

    assert!(seen.len() > 5, "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn a_period_may_be_endless() {
    let (map, _informer, handle) = map_of([config("x", "a", "1")]).await;
    let (mut changes, mut wake_ups) =
        (map.stream().at_most_every(Duration::MAX), map.watch().at_most_every(Duration::MAX));
    assert_eq!(next_line(&mut changes).await, "+a=1");
    handle.modified(config("x", "a", "2"));
    assert!(wake_ups.changed().await);
    handle.modified(config("x", "a", "3"));
    assert!(timeout(Duration::from_secs(60), wake_ups.changed()).await.is_err());
    assert!(is_idle(&mut changes).await);
}

/// Notes, whenever a task is woken, whether the map is synced, and the number of its problems.
struct Look {
    map: Map,
    seen: Mutex<Vec<(bool, usize)>>,
}

impl Wake for Look {
    fn wake(self: Arc<Self>) {
        let mut synced = Box::pin(self.map.synced());
        let is_synced = matches!(futures_util::FutureExt::now_or_never(&mut synced), Some(Ok(())));
        self.seen.lock().unwrap().push((is_synced && self.map.is_synced(), self.map.problems().len()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_a_change_wakes_sees_whether_the_map_is_fresh() {
    let (informer, handle) = informer([config("x", "a", "1")]);
    let function = |object: &Cached<ConfigMap>| {
        if field(object, "value") == "bad" {
            std::panic::resume_unwind(Box::new("no such value"));
        }
        pairs(object)
    };
    let map = informer.derive(function).register().unwrap();
    let mut changes = map.stream();
    let look = Arc::new(Look { map: map.clone(), seen: Mutex::default() });
    let waker = Arc::clone(&look).into();
    let mut context = Context::from_waker(&waker);
    assert!(Pin::new(&mut changes).poll_next(&mut context).is_pending());
    informer.start();
    map.synced().await.unwrap();
    assert!(Pin::new(&mut changes).poll_next(&mut context).is_ready());
    assert!(Pin::new(&mut changes).poll_next(&mut context).is_pending());
    handle.modified(config("x", "a", "bad"));
    sleep(Duration::from_secs(1)).await;

    assert_eq!(*look.seen.lock().unwrap(), [(true, 0), (true, 1)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn closures_that_stop_the_map_of_each_other_do_not_wait_for_ever() {
    let (informer, _handle) = informer([config("x", "a", "1")]);
    let maps = [informer.derive(pairs).register().unwrap(), informer.derive(pairs).register().unwrap()];
    informer.start();
    maps[0].synced().await.unwrap();
    maps[1].synced().await.unwrap();
    let both_run = Arc::new(std::sync::Barrier::new(2));
    let (sender, mut outcomes) = tokio::sync::mpsc::unbounded_channel();
    for (map, other, pause) in [(&maps[0], maps[1].clone(), 0), (&maps[1], maps[0].clone(), 100)] {
        let (both_run, sender) = (Arc::clone(&both_run), sender.clone());
        map.on_change(move |_| {
            both_run.wait();
            std::thread::sleep(Duration::from_millis(pause));
            let stopped = timeout(Duration::from_secs(60), other.stop());
            let stopped = tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(stopped));
            sender.send(stopped.ok().map(|stopped| stopped.is_ok())).unwrap();
        });
    }

    let mut outcomes = [outcomes.recv().await, outcomes.recv().await];
    outcomes.sort();
    assert_eq!(outcomes, [Some(Some(false)), Some(Some(true))]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn the_last_informer_of_a_map_to_stop_waits_for_its_closures() {
    for last in [0, 1] {
        let (of_map, _handle) = informer([config("x", "a", "1")]);
        let (other, _other_handle) = informer([]);
        let map = of_map.derive(pairs).with(&other, |_| []).register().unwrap();
        of_map.start();
        other.start();
        map.synced().await.unwrap();
        let (entered, is_entered) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        map.on_change(move |_| {
            entered.send(()).unwrap();
            released.recv().unwrap();
        });
        tokio::task::spawn_blocking(move || is_entered.recv().unwrap()).await.unwrap();
        let [first, last] = if last == 0 { [other, of_map] } else { [of_map, other] };

        first.stop().await.unwrap();
        assert!(timeout(Duration::from_millis(50), last.stop()).await.is_err(), "the closure is running");
        release.send(()).unwrap();
        last.stop().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_closure_cannot_wait_for_the_end_of_an_informer_of_its_map() {
    let (of_map, _handle) = informer([config("x", "a", "1")]);
    let (other, _other_handle) = informer([]);
    let map = of_map.derive(pairs).with(&other, |_| []).register().unwrap();
    of_map.start();
    other.start();
    map.synced().await.unwrap();
    let (sender, mut outcomes) = tokio::sync::mpsc::unbounded_channel();
    let stopped = [of_map.clone(), other.clone()];
    map.on_change(move |_| {
        for informer in &stopped {
            let runtime = tokio::runtime::Handle::current();
            sender.send(tokio::task::block_in_place(|| runtime.block_on(informer.stop()))).unwrap();
        }
    });

    for _ in 0..2 {
        let error = outcomes.recv().await.unwrap().unwrap_err();
        assert!(matches!(error, StopError::InsideCallback { .. }), "{error}");
    }
    of_map.stop().await.unwrap();
    other.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_map_has_stopped_when_its_closures_are_dropped() {
    /// Its destructor waits.
    struct Captured(mpsc::Receiver<()>);
    impl Drop for Captured {
        fn drop(&mut self) {
            self.0.recv().unwrap();
        }
    }
    let (map, _informer, _handle) = map_of([config("x", "a", "1")]).await;
    let (release, released) = mpsc::channel();
    let (called, mut is_called) = tokio::sync::mpsc::unbounded_channel();
    let captured = Captured(released);
    // A runtime of its own: a worker thread runs a task that it wakes only after the present one.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let entered = runtime.enter();
    map.on_change(move |_| {
        let _ = &captured;
        called.send(()).unwrap();
    });
    drop(entered);
    is_called.recv().await.unwrap();

    let stopped = timeout(Duration::from_millis(50), map.stop()).await;
    release.send(()).unwrap();
    map.stop().await.unwrap();

    runtime.shutdown_background();
    assert!(stopped.is_err(), "the closure was being dropped");
}

#[tokio::test]
async fn a_closure_in_a_runtime_that_is_idle_does_not_delay_the_stop() {
    let (map, informer, _handle) = map_of([config("x", "a", "1")]).await;
    let idle = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let of_idle = map.clone();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _entered = idle.enter();
            of_idle.on_change(|_| ());
        });
    });

    let stopped = timeout(Duration::from_secs(10), map.stop()).await.is_ok();
    let informer_stopped = timeout(Duration::from_secs(10), informer.stop()).await.is_ok();

    idle.shutdown_background();
    assert_eq!((stopped, informer_stopped), (true, true));
}

/// A waker may run the task at once, under the locks of the code that wakes it.
#[test]
fn a_waker_may_open_a_stream() {
    struct OpensStream(Map, AtomicUsize);
    impl Wake for OpensStream {
        fn wake(self: Arc<Self>) {
            drop(self.0.stream());
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
    let wakes = async |is_stopped: bool| {
        let (map, _informer, handle) = map_of([config("x", "a", "1")]).await;
        let opens = Arc::new(OpensStream(map.clone(), AtomicUsize::new(0)));
        let waker = Arc::clone(&opens).into();
        let mut changes = map.stream();
        next_line(&mut changes).await;
        assert!(Pin::new(&mut changes).poll_next(&mut Context::from_waker(&waker)).is_pending());
        if is_stopped {
            map.stop().await.unwrap();
        } else {
            handle.modified(config("x", "a", "2"));
            sleep(Duration::from_secs(1)).await;
        }
        opens.1.load(Ordering::Relaxed)
    };
    // In a thread, because a deadlock is no timeout.
    let (sender, outcome) = mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
        sender.send(runtime.block_on(async { [wakes(false).await, wakes(true).await] })).unwrap();
    });
    assert_eq!(outcome.recv_timeout(Duration::from_secs(20)), Ok([1, 1]));
}
