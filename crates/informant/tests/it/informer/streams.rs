//! Streams of events, and the filters of handlers and streams.

use std::{
    sync::{Arc, Mutex},
    task::{Context, Wake, Waker},
    time::Duration,
};

use futures_util::{FutureExt, StreamExt};
use informant::{Event, Origin, SharedInformer, listwatch::ScriptedWatch};

use crate::support::{
    Logs,
    informers::{Leaks, Probe, informer, informer_with, item, open_watch, sleep_seconds, source, wait_until_idle},
};

#[tokio::test(start_paused = true)]
async fn a_stream_has_every_event_in_order_and_ends_with_the_informer() {
    let leaks = Leaks::watch();
    let watch = ScriptedWatch::new().wait(Duration::from_secs(1)).modified(item("a", 11)).deleted(item("a", 12));
    let informer = informer(&source("10", &[("a", 1)], watch.stays_open()));
    let mut stream = informer.stream().unwrap();
    informer.start();
    let probe = Probe::new();
    for _ in 0..4 {
        probe.receive(&stream.next().await.unwrap());
    }

    assert_eq!(probe.take(), ["A(a@1, initial)", "synced", "U(a 1→11)", "D(a@12)"]);
    assert!(stream.next().now_or_never().is_none(), "no further event");
    leaks.stop(&informer).await;
    assert!(stream.next().await.is_none());
    assert!(stream.next().await.is_none(), "the stream stays ended");
}

/// SI-05: a request for the next event acknowledges the earlier ones.
#[tokio::test(start_paused = true)]
async fn a_stream_is_synced_when_its_reader_has_requested_the_event_after_the_initial_list() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    let mut stream = informer.stream().unwrap();
    informer.start();
    let first = stream.next().await.unwrap();
    assert!(matches!(first, Event::Added { origin: Origin::InitialList, .. }));
    assert!(!stream.registration().is_synced());

    assert!(matches!(stream.next().await, Some(Event::Synced)));

    assert!(stream.registration().is_synced());
    leaks.stop(&informer).await;
}

/// P7: the waker is called under the apply lock, at the moment at which a reader on another thread would continue.
#[tokio::test(start_paused = true)]
async fn an_informer_is_synced_when_a_stream_receives_synced() {
    struct Asks(SharedInformer<()>, Mutex<Vec<bool>>);
    impl Wake for Asks {
        fn wake(self: Arc<Self>) {
            self.1.lock().unwrap().push(self.0.is_synced());
        }
    }
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[], open_watch()));
    let mut stream = informer.stream().unwrap();
    let asks = Arc::new(Asks(informer.clone(), Mutex::default()));
    let waker = Waker::from(Arc::clone(&asks));
    assert!(stream.poll_next_unpin(&mut Context::from_waker(&waker)).is_pending());

    informer.start();
    informer.synced().await.unwrap();

    assert_eq!(*asks.1.lock().unwrap(), [true]);
    assert!(matches!(stream.next().await, Some(Event::Synced)));
    drop(asks);
    leaks.stop(&informer).await;
}

/// The waiting reader is woken for the first event that passes the filter.
#[tokio::test(start_paused = true)]
async fn a_reader_of_a_filtered_stream_receives_the_next_event_that_passes() {
    let leaks = Leaks::watch();
    let second = Duration::from_secs(1);
    let watch = ScriptedWatch::new().wait(second).added(item("other", 11)).wait(second).added(item("mine", 12));
    let informer = informer(&source("10", &[], watch.stays_open()));
    let mut stream = informer.subscribe().filter(|object| object.key().name() == "mine").stream().unwrap();
    informer.start();
    assert!(matches!(stream.next().await, Some(Event::Synced)));

    let event = stream.next().await.unwrap();

    assert_eq!(event.key().unwrap().name(), "mine");
    leaks.stop(&informer).await;
}

#[tokio::test(start_paused = true)]
async fn dropping_a_stream_unregisters_it() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    let stream = informer.subscribe().named("reader").stream().unwrap();
    let registration = stream.registration().clone();
    informer.start();
    informer.synced().await.unwrap();
    assert_eq!(informer.status().handlers[0].name, "reader".into());

    drop(stream);
    wait_until_idle().await;

    assert!(registration.is_removed());
    assert!(informer.status().handlers.is_empty());
    registration.stop().await.unwrap();
    assert!(registration.synced().await.is_err());
    leaks.stop(&informer).await;
}

/// The waiting reader receives the end of the stream.
#[tokio::test(start_paused = true)]
async fn removing_a_stream_ends_it_for_a_waiting_reader() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[], open_watch()));
    let mut stream = informer.stream().unwrap();
    let registration = stream.registration().clone();
    informer.start();
    let reading = tokio::spawn(async move {
        let mut count = 0;
        while stream.next().await.is_some() {
            count += 1;
        }
        count
    });
    wait_until_idle().await;

    registration.remove();

    assert_eq!(reading.await.unwrap(), 1, "the end of the initial list");
    leaks.stop(&informer).await;
}

/// CT-26
#[tokio::test(start_paused = true)]
async fn a_filter_delivers_objects_that_begin_to_pass_as_adds_and_that_stop_passing_as_deletes() {
    let leaks = Leaks::watch();
    // Even versions pass.
    let mut watch = ScriptedWatch::new().wait(Duration::from_secs(1));
    for version in [12, 14, 15, 17, 18] {
        watch = watch.modified(item("a", version));
    }
    let watch = watch.deleted(item("a", 19)).added(item("b", 21)).deleted(item("b", 22)).stays_open();
    let informer = informer(&source("10", &[("a", 1), ("c", 2)], watch));
    let is_even = |version: &str| version.parse::<u64>().unwrap() % 2 == 0;
    let probe = Probe::new();
    let stream = Probe::new();
    let passes = move |object: &informant::Cached<()>| is_even(object.version().as_str());
    informer.subscribe().filter(passes).handler(probe.handler()).unwrap();
    let mut events = informer.subscribe().filter(passes).stream().unwrap();
    informer.start();
    sleep_seconds(5.0).await;
    while let Some(Some(event)) = events.next().now_or_never() {
        stream.receive(&event);
    }

    // The last delete is delivered although its final state does not pass, because the delivered state before it did.
    let expected = ["A(c@2, initial)", "synced", "A(a@12)", "U(a 12→14)", "D(a@14)", "A(a@18)", "D(a@19)"];
    assert_eq!(probe.take(), expected);
    assert_eq!(stream.take(), expected);
    leaks.stop(&informer).await;
}

/// P8
#[tokio::test(start_paused = true)]
async fn an_object_at_which_a_filter_panics_does_not_pass() {
    let logs = Logs::capture();
    let leaks = Leaks::watch();
    let informer = informer_with(&source("10", &[("a", 1), ("bad", 2), ("c", 3)], open_watch()), |builder| builder);
    let passes = |object: &informant::Cached<()>| match object.key().name() {
        "bad" => std::panic::resume_unwind(Box::new("so bad")),
        _ => true,
    };
    let probe = Probe::new();
    let handler = informer.subscribe().filter(passes).handler(probe.handler()).unwrap();
    let mut stream = informer.subscribe().named("reader").filter(passes).stream().unwrap();
    informer.start();
    handler.synced().await.unwrap();
    let read = Probe::new();
    while !stream.registration().is_synced() {
        read.receive(&stream.next().await.unwrap());
    }

    assert_eq!(probe.take(), ["A(a@1, initial)", "A(c@3, initial)", "synced"]);
    assert_eq!(read.take(), ["A(a@1, initial)", "A(c@3, initial)", "synced"]);
    assert_eq!((handler.status().panics, stream.registration().status().panics), (1, 1));
    assert!(logs.take().contains("a filter panicked"));
    leaks.stop(&informer).await;
}

/// P4, P8: a state at which the filter panics does not pass, as old state and as new state.
#[tokio::test(start_paused = true)]
async fn a_filter_that_panics_at_one_state_gives_a_well_formed_history() {
    let _logs = Logs::capture();
    let leaks = Leaks::watch();
    let second = Duration::from_secs(1);
    let watch = ScriptedWatch::new().wait(second).modified(item("a", 12)).wait(second).modified(item("a", 13));
    let watch = watch.wait(second).modified(item("a", 14)).wait(second).deleted(item("a", 15)).stays_open();
    let informer = informer(&source("10", &[("a", 1)], watch));
    let passes = |object: &informant::Cached<()>| match object.version().as_str() {
        "1" | "14" => std::panic::resume_unwind(Box::new("no label")),
        _ => true,
    };
    let probe = Probe::new();
    let registration = informer.subscribe().filter(passes).handler(probe.handler()).unwrap();
    informer.start();
    sleep_seconds(20.0).await;

    assert_eq!(probe.take(), ["synced", "A(a@12)", "U(a 12→13)", "D(a@13)"]);
    let status = registration.status();
    assert_eq!(status.delivered, 4, "hidden events do not count as delivered");
    assert!(status.panics >= 2, "{status:?}");
    leaks.stop(&informer).await;
}
