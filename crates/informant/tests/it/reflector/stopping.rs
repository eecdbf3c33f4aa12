//! HC-29: a reflector stops at once, wherever it is, and leaves nothing behind.

use std::time::Duration;

use informant::listwatch::Activity;
use informant::listwatch::Destination;
use informant::listwatch::Reflector;
use informant::listwatch::ScriptedList;
use informant::listwatch::ScriptedSource;
use informant::listwatch::ScriptedWatch;
use informant::queue::InOrderFifo;

use super::support::list;
use super::support::ready;
use super::support::refused;
use super::support::run;
use super::support::says;
use super::support::seconds;
use super::support::settle;

/// Stops a reflector; it must take no time.
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
async fn while_a_list_hangs() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[("a", 1)]).after(Duration::from_secs(5)));
    let running = run(&source);
    seconds(1.0).await;

    let recorder = stop_at_once!(running);
    seconds(100.0).await;
    assert!(recorder.lines().is_empty(), "what comes later is ignored");
    assert_eq!(source.requests(), ["L(0, 500)"]);
}

/// HC-29 b
#[tokio::test(start_paused = true)]
async fn during_the_delay_after_a_list() {
    let source = ScriptedSource::new();
    source.on_list(ScriptedList::fails(says(500, "InternalError")));
    let running = run(&source);
    settle().await;

    stop_at_once!(running);
    seconds(100.0).await;
    assert_eq!(source.requests(), ["L(0, 500)"]);
}

/// HC-29 b
#[tokio::test(start_paused = true)]
async fn during_the_delay_after_a_watch() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    source.on_watch(ScriptedWatch::fails(refused()));
    let running = run(&source);
    settle().await;

    stop_at_once!(running);
    seconds(100.0).await;
    assert_eq!(source.requests(), ["L(0, 500)", "W(10)"]);
}

/// HC-29 b: RE-62 as we want it
#[tokio::test(start_paused = true)]
async fn during_the_delay_after_a_streamed_list() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::fails(says(429, "TooManyRequests")));
    let running = run(&source);
    settle().await;

    stop_at_once!(running);
    seconds(100.0).await;
    assert_eq!(source.requests(), ["WL(\"\")"]);
}

/// RE-61
#[tokio::test(start_paused = true)]
async fn while_a_list_is_streamed() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::new().added(ready("a", 1)).stays_open());
    let running = run(&source);
    settle().await;
    assert_eq!(source.open_watches(), 1);

    let recorder = stop_at_once!(running);
    assert_eq!(source.open_watches(), 0);
    assert!(recorder.lines().is_empty());
    assert_eq!(source.requests(), ["WL(\"\")"], "and no list is tried");
}

/// HC-29 c: RE-45, RE-46
#[tokio::test(start_paused = true)]
async fn while_a_watch_is_open() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    source.on_watch(ScriptedWatch::new().stays_open());
    let running = run(&source);
    settle().await;
    assert_eq!(source.open_watches(), 1);

    stop_at_once!(running);
    assert_eq!(source.open_watches(), 0);
}

/// HC-29 d: RE-46
#[tokio::test(start_paused = true)]
async fn before_it_has_begun() {
    let source = ScriptedSource::<()>::new();
    let queue = informant::queue::DeltaFifo::new();
    let reflector = Reflector::of_decoded_objects(source.clone()).build(queue);

    reflector.run(std::future::ready(())).await;

    assert!(source.requests().is_empty());
}

/// HC-29 d: between list and watch there is no wait at which it could be stopped, so here while the watch is asked for.
#[tokio::test(start_paused = true)]
async fn while_a_watch_is_asked_for() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    source.on_watch(ScriptedWatch::new().after(Duration::from_secs(5)).added(ready("a", 11)));
    let running = run(&source);
    seconds(1.0).await;

    let recorder = stop_at_once!(running);
    seconds(10.0).await;
    assert_eq!((recorder.lines(), source.open_watches()), (vec!["Replaced@10 []".to_owned()], 0));
}

/// RE-45
#[tokio::test(start_paused = true)]
async fn of_all_watches_that_were_opened_one_is_open() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    for number in 11..20 {
        source.on_watch(ScriptedWatch::new().added(ready("a", number)));
    }
    source.on_watch(ScriptedWatch::new().stays_open());
    let running = run(&source);
    settle().await;

    assert_eq!((source.requests().len(), source.open_watches()), (11, 1));
    running.stop().await;
    assert_eq!(source.open_watches(), 0);
}

/// P9: dropping it is stopping it.
#[tokio::test(start_paused = true)]
async fn a_reflector_whose_task_is_aborted_has_stopped() {
    let source = ScriptedSource::<()>::new();
    source.on_list(list("10", &[]));
    source.on_watch(ScriptedWatch::new().stays_open());
    let reflector = Reflector::of_decoded_objects(source.clone()).build(informant::queue::DeltaFifo::new());
    let handle = reflector.handle();
    let task = tokio::spawn(reflector.run(std::future::pending()));
    settle().await;

    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert_eq!(source.open_watches(), 0);
    assert!(matches!(handle.status().activity, Activity::Stopped));
}

/// RE-20
#[tokio::test(start_paused = true)]
async fn a_source_that_panics_is_heard_of_by_who_runs_the_reflector() {
    struct Panics;
    impl informant::listwatch::ListWatch<()> for Panics {
        async fn list(
            &self,
            _: informant::listwatch::ListRequest,
        ) -> Result<informant::listwatch::ListStream<()>, informant::listwatch::SourceError> {
            panic!("no more lists")
        }

        async fn watch(
            &self,
            _: informant::listwatch::WatchRequest,
        ) -> Result<informant::listwatch::WatchStream<()>, informant::listwatch::SourceError> {
            panic!("no more watches")
        }
    }
    let reflector = Reflector::of_decoded_objects(Panics).build(informant::queue::DeltaFifo::new());
    let handle = reflector.handle();

    assert!(tokio::spawn(reflector.run(std::future::pending())).await.unwrap_err().is_panic());

    assert!(matches!(handle.status().activity, Activity::Stopped));
}

/// A queue that is full makes the reflector wait, not the other way round; and that wait can be ended too.
#[tokio::test(start_paused = true)]
async fn while_the_queue_has_no_room() {
    let source = ScriptedSource::<()>::new();
    source.on_list(list("10", &[]));
    let mut watch = ScriptedWatch::new().wait(Duration::from_secs(1));
    for number in 0..20 {
        watch = watch.added(ready(&format!("o{number}"), 11 + number));
    }
    source.on_watch(watch.stays_open());
    let queue = InOrderFifo::builder().batch_size(2.try_into().unwrap()).build();
    let reflector = Reflector::of_decoded_objects(source.clone()).build(queue.clone());
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let task = tokio::spawn(reflector.run(async { stopped.await.unwrap_or_default() }));
    let receipt = queue.drain().await.unwrap();
    seconds(2.0).await;
    let waiting = queue.len();
    assert!(waiting < 10, "{waiting} wait, and the rest was not read");

    drop(stop);
    task.await.unwrap();
    receipt.acknowledge();
    Destination::room(&queue).await;
    assert_eq!(queue.len(), waiting);
}
