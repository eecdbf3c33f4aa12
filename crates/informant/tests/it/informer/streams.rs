//! Streams of events.

use std::{
    sync::{Arc, Mutex},
    task::{Context, Wake, Waker},
    time::Duration,
};

use futures_util::{FutureExt, StreamExt};
use informant::{Event, Origin, SharedInformer, testing::ScriptedWatch};

use crate::support::informers::{Leaks, Probe, informer, item, open_watch, source, wait_until_idle};

#[tokio::test(start_paused = true)]
async fn a_stream_has_every_event_in_order_and_ends_with_the_informer() {
    let leaks = Leaks::watch();
    let watch = ScriptedWatch::new().wait(Duration::from_secs(1)).modified(item("a", 11)).deleted(item("a", 12));
    let informer = informer(&source("10", &[("a", 1)], watch.stays_open()));
    let mut stream = informer.subscribe().stream().unwrap();
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
    let mut stream = informer.subscribe().stream().unwrap();
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
    let mut stream = informer.subscribe().stream().unwrap();
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
    let mut stream = informer.subscribe().stream().unwrap();
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
