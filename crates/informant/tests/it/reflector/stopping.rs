//! HC-29: a reflector stops at once in every state, closes its watch and sends no further request.

use std::time::Duration;

use informant::{
    error::SourceError,
    factory::Activity,
    pipeline::{DeltaFifo, ListRequest, ListStream, ListWatch, Reflector, WatchRequest, WatchStream},
    testing::{ScriptedList, ScriptedSource, ScriptedWatch},
};

use crate::support::reflector::{
    SmallQueue, connection_refused, item, list, run, sleep_seconds, status_error, wait_until_idle,
};

/// Stops a reflector and asserts that this takes no (paused) time.
macro_rules! stop_at_once {
    ($running:ident) => {{
        let before = tokio::time::Instant::now();
        let handle = $running.handle.clone();
        let recorder = $running.stop().await;
        assert_eq!(before.elapsed(), Duration::ZERO);
        assert!(matches!(handle.status().activity, Activity::Stopped));
        recorder
    }};
}

/// HC-29 a: RE-19. P9
#[tokio::test(start_paused = true)]
async fn a_reflector_stops_at_once_while_a_list_hangs() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[("a", 1)]).after(Duration::from_secs(5)));
    let running = run(&source);
    sleep_seconds(1.0).await;

    let recorder = stop_at_once!(running);
    sleep_seconds(100.0).await;
    assert!(recorder.lines().is_empty(), "the reflector does not pass on a list that arrives after the stop");
    assert_eq!(source.requests(), ["L(0, 500)"]);
}

/// HC-29 b
#[tokio::test(start_paused = true)]
async fn a_reflector_stops_at_once_during_the_backoff_after_a_failed_list() {
    let source = ScriptedSource::new();
    source.on_list(ScriptedList::fails(status_error(500, "InternalError")));
    let running = run(&source);
    wait_until_idle().await;

    stop_at_once!(running);
    sleep_seconds(100.0).await;
    assert_eq!(source.requests(), ["L(0, 500)"]);
}

/// HC-29 b
#[tokio::test(start_paused = true)]
async fn a_reflector_stops_at_once_during_the_backoff_after_a_failed_watch() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    source.on_watch(ScriptedWatch::fails(connection_refused()));
    let running = run(&source);
    wait_until_idle().await;

    stop_at_once!(running);
    sleep_seconds(100.0).await;
    assert_eq!(source.requests(), ["L(0, 500)", "W(10)"]);
}

/// HC-29 b: RE-62, in which this reflector differs from client-go
#[tokio::test(start_paused = true)]
async fn a_reflector_stops_at_once_during_the_backoff_after_a_failed_streamed_list() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::fails(status_error(429, "TooManyRequests")));
    let running = run(&source);
    wait_until_idle().await;

    stop_at_once!(running);
    sleep_seconds(100.0).await;
    assert_eq!(source.requests(), ["WL(\"\")"]);
}

/// RE-61
#[tokio::test(start_paused = true)]
async fn a_reflector_stops_at_once_while_a_list_is_streamed() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::new().added(item("a", 1)).stays_open());
    let running = run(&source);
    wait_until_idle().await;
    assert_eq!(source.open_watches(), 1);

    let recorder = stop_at_once!(running);
    assert_eq!(source.open_watches(), 0);
    assert!(recorder.lines().is_empty());
    assert_eq!(source.requests(), ["WL(\"\")"], "the reflector sends no list request after the stop");
}

/// HC-29 c: RE-45, RE-46
#[tokio::test(start_paused = true)]
async fn a_reflector_stops_at_once_and_closes_the_open_watch() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    source.on_watch(ScriptedWatch::new().stays_open());
    let running = run(&source);
    wait_until_idle().await;
    assert_eq!(source.open_watches(), 1);

    stop_at_once!(running);
    assert_eq!(source.open_watches(), 0);
}

/// HC-29 d: RE-46
#[tokio::test(start_paused = true)]
async fn a_reflector_that_is_stopped_before_its_first_request_sends_none() {
    let source = ScriptedSource::<()>::new();
    let queue = DeltaFifo::new();
    let reflector = Reflector::of_decoded_objects(source.clone()).build(queue);

    reflector.run(std::future::ready(())).await;

    assert!(source.requests().is_empty());
}

/// HC-29 d: the reflector does not wait between list and watch, so this test stops it while the watch request is pending.
#[tokio::test(start_paused = true)]
async fn a_reflector_stops_at_once_while_a_watch_request_is_pending() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    source.on_watch(ScriptedWatch::new().after(Duration::from_secs(5)).added(item("a", 11)));
    let running = run(&source);
    sleep_seconds(1.0).await;

    let recorder = stop_at_once!(running);
    sleep_seconds(10.0).await;
    assert_eq!((recorder.lines(), source.open_watches()), (vec!["Replaced@10 []".to_owned()], 0));
}

/// RE-45
#[tokio::test(start_paused = true)]
async fn a_reflector_has_one_open_watch_at_a_time() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    for number in 11..20 {
        source.on_watch(ScriptedWatch::new().added(item("a", number)));
    }
    source.on_watch(ScriptedWatch::new().stays_open());
    let running = run(&source);
    wait_until_idle().await;

    assert_eq!((source.requests().len(), source.open_watches()), (11, 1));
    running.stop().await;
    assert_eq!(source.open_watches(), 0);
}

/// P9: dropping the future of `run` stops the reflector.
#[tokio::test(start_paused = true)]
async fn a_reflector_whose_task_is_aborted_is_stopped_and_closes_its_watch() {
    let source = ScriptedSource::<()>::new();
    source.on_list(list("10", &[]));
    source.on_watch(ScriptedWatch::new().stays_open());
    let reflector = Reflector::of_decoded_objects(source.clone()).build(DeltaFifo::new());
    let handle = reflector.handle();
    let task = tokio::spawn(reflector.run(std::future::pending()));
    wait_until_idle().await;

    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert_eq!(source.open_watches(), 0);
    assert!(matches!(handle.status().activity, Activity::Stopped));
}

/// RE-20
#[tokio::test(start_paused = true)]
async fn a_panic_of_the_source_ends_the_task_of_the_reflector() {
    struct Panics;
    impl ListWatch<()> for Panics {
        async fn list(&self, _: ListRequest) -> Result<ListStream<()>, SourceError> {
            panic!("no more lists")
        }

        async fn watch(&self, _: WatchRequest) -> Result<WatchStream<()>, SourceError> {
            panic!("no more watches")
        }
    }
    let reflector = Reflector::of_decoded_objects(Panics).build(DeltaFifo::new());
    let handle = reflector.handle();

    assert!(tokio::spawn(reflector.run(std::future::pending())).await.unwrap_err().is_panic());

    assert!(matches!(handle.status().activity, Activity::Stopped));
}

/// A full queue makes the reflector wait for room; a stop ends that wait.
#[tokio::test(start_paused = true)]
async fn a_reflector_stops_at_once_while_the_queue_has_no_room() {
    let source = ScriptedSource::<()>::new();
    source.on_list(list("10", &[]));
    let mut watch = ScriptedWatch::new().wait(Duration::from_secs(1));
    for number in 0..20 {
        watch = watch.added(item(&format!("o{number}"), 11 + number));
    }
    source.on_watch(watch.stays_open());
    let destination = SmallQueue::default();
    let queue = destination.queue.clone();
    let reflector = Reflector::of_decoded_objects(source.clone()).build(destination);
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let task = tokio::spawn(reflector.run(async { stopped.await.unwrap_or_default() }));
    sleep_seconds(2.0).await;
    let waiting = queue.len();
    assert!(waiting < 10, "the reflector reads no further event while the queue is full, but {waiting} wait");

    drop(stop);
    task.await.unwrap();
    assert_eq!(queue.len(), waiting);
}
