//! `ProcessLoop`, the low-level informer: a user's process function over a queue.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::FutureExt;
use informant::{
    pipeline::{Backoff, Delta, DeltaFifo, Indexer, ObjectChanges, ProcessLoop, Reflector, ReflectorBuilder},
    testing::ScriptedWatch,
};
use tokio::{sync::oneshot, time::Instant};

use crate::support::{
    Logs,
    informers::{Leaks, Source, item, list, open_watch, show_error, sleep_seconds, source, status_error},
    show_deltas,
};

type Lines = Arc<Mutex<Vec<(u128, String)>>>;

/// Records the processed items, with the milliseconds since the start.
fn writer() -> (Lines, impl Fn(String) + Clone + Send) {
    let lines = Lines::default();
    let (writing, start) = (Arc::clone(&lines), Instant::now());
    (lines, move |line| writing.lock().unwrap().push((start.elapsed().as_millis(), line)))
}

fn shown(lines: &Lines) -> Vec<String> {
    lines.lock().unwrap().iter().map(|(_, line)| line.clone()).collect()
}

fn without_jitter() -> Backoff {
    Backoff::new(Duration::from_millis(100), Duration::from_secs(1)).without_jitter()
}

fn reflector_and_queue(source: &Source) -> (ReflectorBuilder<()>, DeltaFifo<()>) {
    let queue = DeltaFifo::new();
    (Reflector::of_decoded_objects(source.clone()), queue)
}

/// CT-01, CT-06
#[tokio::test(start_paused = true)]
async fn the_process_function_receives_the_changes_that_the_reflector_queues() {
    let leaks = Leaks::watch();
    let watch = ScriptedWatch::new().wait(Duration::from_secs(1)).modified(item("a", 11)).stays_open();
    let source = source("10", &[("a", 1), ("b", 2)], watch);
    let (reflector, queue) = reflector_and_queue(&source);
    let (lines, write) = writer();
    let process_loop = ProcessLoop::new(reflector, queue.clone(), move |item: &ObjectChanges<()>| {
        write(show_deltas(item.deltas()));
        Ok(())
    });
    assert!(!queue.is_synced());
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(process_loop.run(async { stopped.await.unwrap_or_default() }));
    queue.synced().await.unwrap();
    sleep_seconds(2.0).await;

    drop(stop);
    running.await.unwrap();

    assert_eq!(shown(&lines), ["Replaced a@1", "Replaced b@2", "Updated a@11"]);
    assert_eq!(source.open_watches(), 0);
    assert!(queue.try_pop().is_err(), "CT-02: the queue is closed");
    leaks.check();
}

/// CT-03 (differs from client-go), decision 8
#[tokio::test(start_paused = true)]
async fn a_failed_item_is_reported_and_retried_while_other_items_are_processed() {
    let leaks = Leaks::watch();
    let second = Duration::from_secs(1);
    let watch = ScriptedWatch::new().wait(second / 20).added(item("c", 11)).stays_open();
    let source = source("10", &[("a", 1), ("b", 2)], watch);
    let (reflector, queue) = reflector_and_queue(&source);
    let (lines, write) = writer();
    let (errors, report) = writer();
    let mut attempts = 0;
    let process_loop = ProcessLoop::new(reflector, queue.clone(), move |item: &ObjectChanges<()>| {
        if item.key().name() == "a" && attempts < 3 {
            attempts += 1;
            return Err("not today".into());
        }
        write(show_deltas(item.deltas()));
        Ok(())
    });
    let process_loop = process_loop.backoff(without_jitter()).on_error(move |error| report(show_error(error)));
    process_loop.run(sleep_seconds(5.0)).await;

    let lines = lines.lock().unwrap().clone();
    let times: Vec<_> = lines.iter().map(|(at, line)| (at / 10 * 10, line.as_str())).collect();
    assert_eq!(times, [(0, "Replaced b@2"), (50, "Added c@11"), (700, "Replaced a@1")], "after 100, 200 and 400 ms");
    assert_eq!(
        shown(&errors),
        [
            "processing a failed (attempt 1); retrying in 100 ms: not today",
            "processing a failed (attempt 2); retrying in 200 ms: not today",
            "processing a failed (attempt 3); retrying in 400 ms: not today",
        ]
    );
    assert!(queue.is_synced(), "the first attempt counts");
    leaks.check();
}

/// CT-05 (differs from client-go): a panic is a failure like any other, and the item is not lost.
#[tokio::test(start_paused = true)]
async fn a_panic_of_the_process_function_is_retried_and_logged_if_there_is_no_error_callback() {
    let leaks = Leaks::watch();
    let logs = Logs::capture();
    let source = source("10", &[("a", 1)], open_watch());
    let (reflector, queue) = reflector_and_queue(&source);
    let (lines, write) = writer();
    let mut is_first = true;
    let process_loop = ProcessLoop::new(reflector, queue, move |item: &ObjectChanges<()>| {
        if std::mem::take(&mut is_first) {
            std::panic::resume_unwind(Box::new("what a day"));
        }
        write(show_deltas(item.deltas()));
        Ok(())
    });
    process_loop.backoff(without_jitter()).run(sleep_seconds(5.0)).await;

    assert_eq!(shown(&lines), ["Replaced a@1"]);
    let log = logs.take();
    assert!(log.contains("processing an item failed; retrying") && log.contains("panicked: what a day"), "{log}");
    leaks.check();
}

/// CT-02, but failed items are requeued: the queue is closed, and holds them until it is dropped.
#[tokio::test(start_paused = true)]
async fn stopping_a_process_loop_does_not_wait_for_retries() {
    let leaks = Leaks::watch();
    let _logs = Logs::capture();
    let source = source("10", &[("a", 1)], open_watch());
    let (reflector, queue) = reflector_and_queue(&source);
    let process_loop = ProcessLoop::new(reflector, queue, |_: &ObjectChanges<()>| Err("never".into()));
    let start = Instant::now();

    process_loop
        .backoff(Backoff::new(Duration::from_secs(3600), Duration::from_secs(3600)))
        .run(sleep_seconds(1.0))
        .await;

    assert!(start.elapsed() < Duration::from_secs(2));
    assert_eq!(source.open_watches(), 0);
    leaks.check();
}

/// P5: both deletes of the watch and missed deletes.
#[tokio::test(start_paused = true)]
async fn the_process_function_receives_deletes_if_the_queue_has_known_objects() {
    let leaks = Leaks::watch();
    let second = Duration::from_secs(1);
    let source = source(
        "10",
        &[("a", 1), ("b", 2)],
        ScriptedWatch::new().wait(second).deleted(item("a", 11)).wait(second).breaks(status_error(410, "Expired")),
    );
    source.on_list(list("20", &[]));
    source.on_watch(open_watch());
    let store = Arc::new(Indexer::new());
    let queue = DeltaFifo::builder().known_objects(Arc::new(store.lister())).build();
    let reflector = Reflector::of_decoded_objects(source);
    let (lines, write) = writer();
    let written = Arc::clone(&store);
    let process_loop = ProcessLoop::new(reflector, queue, move |item: &ObjectChanges<()>| {
        write(show_deltas(item.deltas()));
        match item.deltas().newest() {
            Delta::Deleted(deleted) => drop(written.remove(deleted.key())),
            Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) | Delta::Sync(object) => {
                written.upsert(object.clone());
            }
        }
        Ok(())
    });
    process_loop.run(sleep_seconds(100.0)).await;

    assert_eq!(shown(&lines), ["Replaced a@1", "Replaced b@2", "Deleted a@11", "Missed b@2"]);
    assert!(store.lister().is_empty());
    leaks.check();
}

#[tokio::test(start_paused = true)]
async fn each_object_has_its_own_retry_delays_and_a_success_resets_them() {
    let leaks = Leaks::watch();
    let second = Duration::from_secs(1);
    let watch = ScriptedWatch::new().wait(second / 20).added(item("b", 11)).wait(10 * second).modified(item("a", 12));
    let source = source("10", &[("a", 1)], watch.stays_open());
    let (reflector, queue) = reflector_and_queue(&source);
    let (errors, report) = writer();
    let mut failures = std::collections::BTreeMap::from([("a@1", 2), ("b@11", 1), ("a@12", 1)]);
    let process_loop = ProcessLoop::new(reflector, queue, move |item: &ObjectChanges<()>| {
        let state = format!("{:?}", item.deltas().newest().object());
        match failures.get_mut(&*state) {
            Some(left) if *left > 0 => {
                *left -= 1;
                Err("no".into())
            }
            Some(_) | None => Ok(()),
        }
    });
    let process_loop = process_loop.backoff(without_jitter()).on_error(move |error| {
        report(format!("{} attempt {} at", error.key, error.attempt));
    });
    process_loop.run(sleep_seconds(20.0)).await;

    let errors: Vec<_> = errors.lock().unwrap().iter().map(|(at, line)| format!("{line} {}", at / 10 * 10)).collect();
    assert_eq!(
        errors,
        ["a attempt 1 at 0", "b attempt 1 at 50", "a attempt 2 at 100", "a attempt 1 at 10050"],
        "b waits from 50 to 150, while a comes again at 100 and at 300"
    );
    leaks.check();
}

/// CT-01, DF-36: handlers and indexes do not run here.
#[tokio::test(start_paused = true)]
async fn a_slow_process_function_is_named_in_the_log_if_more_than_ten_objects_wait() {
    let logs = Logs::capture();
    let names: Vec<_> = (0..12).map(|number| number.to_string()).collect();
    let objects: Vec<_> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let source = source("10", &objects, open_watch());
    let (reflector, queue) = reflector_and_queue(&source);
    let process_loop = ProcessLoop::new(reflector, queue, |_: &ObjectChanges<()>| {
        // The clock advances at the first poll.
        let _ = tokio::time::advance(Duration::from_millis(100)).now_or_never();
        Ok(())
    });

    process_loop.run(sleep_seconds(5.0)).await;

    let log = logs.take();
    let slow: Vec<_> = log.lines().filter(|line| line.contains("is slow")).collect();
    assert!(slow.len() == 1 && slow[0].contains("waiting=11"), "{log}");
    assert!(slow[0].contains("the process function") && !slow[0].contains("index"), "{log}");
}
