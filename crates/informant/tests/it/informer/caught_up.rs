//! Waiting until a handler has received all events up to a version.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt;
use informant::{
    Cached, Registration, SharedInformer,
    error::WaitError,
    testing::{ScriptedSource, ScriptedWatch},
};
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};

use super::callbacks::Received;
use crate::support::{
    Logs,
    informers::{Leaks, Probe, informer, item, list, open_watch, source, status_error, wait_until_idle},
};

const SECOND: Duration = Duration::from_secs(1);

/// Registers async callbacks that receive updates, each of which waits for a permit.
fn gated(informer: &SharedInformer<()>, coalesce_above: usize) -> (Registration, Received, Arc<Semaphore>) {
    let (received, gate) = (Received::default(), Arc::new(Semaphore::new(0)));
    let (lines, permits) = (received.clone(), Arc::clone(&gate));
    let update = move |_: Cached<()>, new: Cached<()>| {
        let (lines, permits) = (lines.clone(), Arc::clone(&permits));
        async move {
            permits.acquire().await.unwrap().forget();
            lines.push(format!("{new:?}"));
        }
    };
    let subscribe = informer.subscribe().named("gated").coalesce_above(coalesce_above);
    (subscribe.on_update_async(update).register().unwrap(), received, gate)
}

/// A source that lists `a` and then changes `a` and `b` by turns, to the versions 11 to 16, one per second.
fn changes() -> ScriptedSource<()> {
    let mut watch = ScriptedWatch::new();
    for version in 11..=16 {
        watch = watch.wait(SECOND).modified(item(if version % 2 == 1 { "a" } else { "b" }, version));
    }
    source("10", &[("a", 5), ("b", 6)], watch.stays_open())
}

#[tokio::test(start_paused = true)]
async fn a_handler_has_caught_up_when_it_has_returned_from_all_events_up_to_the_version() {
    let leaks = Leaks::watch();
    let informer = informer(&changes());
    let probe = Probe::new();
    let fast = informer.subscribe().handler(probe.handler()).unwrap();
    let (slow, received, gate) = gated(&informer, usize::MAX);
    let early = {
        let slow = slow.clone();
        // These waits begin before the informer starts.
        tokio::spawn(async move { slow.caught_up_to(&"13".into()).await })
    };
    informer.start();
    slow.caught_up_to(&"10".into()).await.unwrap();
    assert!(slow.is_synced());

    fast.caught_up_to(&"13".into()).await.unwrap();
    assert_eq!(probe.lines().last().unwrap(), "U(a 11→13)", "the wait ends at the handler's newest event");
    sleep(10 * SECOND).await;
    fast.caught_up_to(&"16".into()).now_or_never().expect("at once").unwrap();
    assert!(!early.is_finished() && slow.caught_up_to(&"11".into()).now_or_never().is_none());

    gate.add_permits(1);
    wait_until_idle().await;
    assert!(!early.is_finished(), "one of three events was delivered");
    gate.add_permits(2);
    wait_until_idle().await;
    assert!(!slow.is_removed() && slow.backlog() == 2);
    // The wait for version 13 began before the later events arrived.
    early.await.unwrap().unwrap();
    assert_eq!(received.lines(), ["a@11", "b@12", "a@13"]);
    assert!(timeout(SECOND, slow.caught_up_to(&"14".into())).await.is_err());
    gate.add_permits(3);
    slow.caught_up_to(&"14".into()).await.unwrap();
    assert_eq!(slow.backlog(), 0, "a wait that begins late waits for all events that are in the buffer");
    leaks.stop(&informer).await;
}

/// A version is reached by a bookmark, without an event.
#[tokio::test(start_paused = true)]
async fn a_bookmark_completes_the_wait_of_an_idle_handler() {
    let leaks = Leaks::watch();
    let watch = ScriptedWatch::new().wait(SECOND).bookmark("20").stays_open();
    let informer = informer(&source("10", &[("a", 5)], watch));
    let probe = Probe::new();
    let registration = informer.subscribe().handler(probe.handler()).unwrap();
    informer.start();
    registration.synced().await.unwrap();

    assert!(registration.caught_up_to(&"20".into()).now_or_never().is_none());
    registration.caught_up_to(&"20".into()).await.unwrap();

    leaks.stop(&informer).await;
}

/// Decision 10
#[tokio::test(start_paused = true)]
async fn coalesced_events_count_as_delivered_with_the_event_that_stands_for_them() {
    let leaks = Leaks::watch();
    let informer = informer(&changes());
    let (registration, received, gate) = gated(&informer, 1);
    informer.start();
    informer.caught_up_to(&"16".into(), 60 * SECOND).await.unwrap();
    wait_until_idle().await;
    // The first event is being delivered; of the others, one of each object is left.
    assert_eq!(registration.backlog(), 2);
    let (own, version) = (registration.clone(), "16".into());
    let waiting = tokio::spawn(async move { own.caught_up_to(&version).await });

    gate.add_permits(2);
    wait_until_idle().await;
    assert!(!waiting.is_finished());
    gate.add_permits(1);
    waiting.await.unwrap().unwrap();

    let mut lines = received.lines();
    lines[1..].sort_unstable();
    assert_eq!(lines, ["a@11", "a@15", "b@16"]);
    leaks.stop(&informer).await;
}

#[tokio::test(start_paused = true)]
async fn events_that_the_filter_hides_and_events_that_panic_count_as_delivered() {
    let _logs = Logs::capture();
    let leaks = Leaks::watch();
    let informer = informer(&changes());
    let probe = Probe::new();
    let hides = informer.subscribe().filter(|object| object.key().name() == "b").handler(probe.handler()).unwrap();
    let panics = informer.subscribe().on_update(|_, _| std::panic::resume_unwind(Box::new("oh"))).register().unwrap();
    informer.start();

    hides.caught_up_to(&"15".into()).await.unwrap();
    // The wait ends at once, although the handler pauses for a second after the panic.
    panics.caught_up_to(&"15".into()).await.unwrap();

    assert_eq!(panics.status().panics, 5);
    leaks.stop(&informer).await;
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_joins_late_has_caught_up_when_it_has_received_the_cache() {
    let leaks = Leaks::watch();
    let informer = informer(&changes());
    informer.start();
    informer.caught_up_to(&"16".into(), 60 * SECOND).await.unwrap();
    let probe = Probe::new();
    let registration = informer.subscribe().handler(probe.handler()).unwrap();

    registration.caught_up_to(&"12".into()).await.unwrap();

    assert_eq!(probe.known(), ["a@15", "b@16"]);
    leaks.stop(&informer).await;
}

#[tokio::test(start_paused = true)]
async fn an_event_of_a_stream_counts_as_delivered_when_the_next_one_is_requested() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 5)], open_watch()));
    let mut stream = informer.subscribe().stream().unwrap();
    let registration = stream.registration().clone();
    informer.start();
    informer.synced().await.unwrap();
    let waiting = tokio::spawn(async move { registration.caught_up_to(&"10".into()).await });

    for _ in ["add", "synced"] {
        stream.next().await.unwrap();
        wait_until_idle().await;
        assert!(!waiting.is_finished());
    }
    assert!(stream.next().now_or_never().is_none());

    waiting.await.unwrap().unwrap();
    leaks.stop(&informer).await;
}

#[tokio::test(start_paused = true)]
async fn a_wait_for_a_version_ends_with_the_handler_and_with_the_informer() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 5)], open_watch()));
    let probes = [Probe::new(), Probe::new()];
    let [removed, stopped] =
        std::array::from_fn(|number| informer.subscribe().named("h").handler(probes[number].handler()).unwrap());
    informer.start();
    let wait = |registration: &Registration| {
        let registration = registration.clone();
        tokio::spawn(async move { registration.caught_up_to(&"11".into()).await.unwrap_err() })
    };
    let (first, second) = (wait(&removed), wait(&stopped));
    wait_until_idle().await;

    removed.remove();
    assert_eq!(
        first.await.unwrap().to_string(),
        "h was removed from informer things and may not have received all events up to version 11"
    );
    informer.stop().await.unwrap();

    let error = second.await.unwrap();
    assert!(matches!(error, WaitError::Stopped { .. }));
    assert_eq!(
        error.to_string(),
        "informer things has stopped, and h (2) may not have received all events up to version 11"
    );
    let dropped = informer.clone();
    drop((informer, dropped));
    assert!(matches!(stopped.caught_up_to(&"10".into()).await, Err(WaitError::Stopped { .. })));
    leaks.check();
}

/// P9: also when the cache has reached the version and the handler is stuck.
#[tokio::test(start_paused = true)]
async fn a_wait_for_a_stuck_handler_ends_when_the_handler_is_removed() {
    let leaks = Leaks::watch();
    let informer = informer(&changes());
    let (registration, _, gate) = gated(&informer, usize::MAX);
    informer.start();
    informer.caught_up_to(&"16".into(), 60 * SECOND).await.unwrap();
    let own = registration.clone();
    let waiting = tokio::spawn(async move { own.caught_up_to(&"16".into()).await });
    wait_until_idle().await;

    registration.remove();

    assert!(matches!(waiting.await.unwrap(), Err(WaitError::Removed { .. })));
    gate.add_permits(1);
    leaks.stop(&informer).await;
}

#[tokio::test(start_paused = true)]
async fn a_version_that_is_no_number_cannot_be_awaited() {
    let informer = informer(&source("10", &[], open_watch()));
    let probe = Probe::new();
    let registration = informer.subscribe().handler(probe.handler()).unwrap();
    informer.start();
    registration.synced().await.unwrap();

    let error = registration.caught_up_to(&"v7".into()).await.unwrap_err();

    assert!(
        error.to_string().ends_with(r#"and "v7" cannot be compared: both must be decimals without leading zeros"#),
        "{error}"
    );
    assert!(matches!(error, WaitError::NotComparable { .. }));
    informer.stop().await.unwrap();
}

/// A relist of a restored server has an older version.
#[tokio::test(start_paused = true)]
async fn a_history_change_ends_the_wait_of_a_handler() {
    let _logs = Logs::capture();
    let source = source("100", &[("a", 90)], ScriptedWatch::new().wait(SECOND).breaks(status_error(410, "Expired")));
    for _ in 0..3 {
        source.on_list(list("50", &[("a", 40)]));
    }
    source.on_watch(open_watch());
    let informer = informer(&source);
    let probe = Probe::of_changing_history();
    let registration = informer.subscribe().handler(probe.handler()).unwrap();
    informer.start();
    registration.synced().await.unwrap();

    let error = registration.caught_up_to(&"150".into()).await.unwrap_err();

    assert!(matches!(error, WaitError::HistoryChanged { .. }), "{error}");
    informer.stop().await.unwrap();
}
