//! `DeltaFifo`: waiting for objects, waking, closing, and log lines.

use std::time::Duration;

use informant::pipeline::{Change, Closed, Delta, DeltaFifo};
use tokio::time::timeout;

use super::{Fifo, fifo_with_known, pop};
use crate::support::{Logs, key, list, object, observed, poll_once, show_object_changes};

// DF-30
#[tokio::test(start_paused = true)]
async fn close_wakes_every_waiting_pop_and_queued_objects_are_still_delivered() {
    let fifo = Fifo::new();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let fifo = fifo.clone();
            tokio::spawn(async move { fifo.pop().await.map(drop) })
        })
        .collect();
    tokio::task::yield_now().await;

    fifo.close();

    for pop in waiting {
        assert_eq!(pop.await.unwrap(), Err(Closed));
    }
    fifo.push(Delta::Added(object("x", 1)));
    let batch = fifo.pop().await.unwrap();
    assert_eq!(show_object_changes(batch.items()), ["Added x@1"]);
    batch.acknowledge();
    assert_eq!(fifo.pop().await.unwrap_err(), Closed);
    assert_eq!(fifo.drain().await.unwrap_err(), Closed);
}

// DF-30, decision 6
#[test]
fn a_closed_queue_still_delivers_newer_deltas_of_an_object_in_flight() {
    let fifo = Fifo::new();
    fifo.push(Delta::Added(object("x", 1)));
    let batch = pop(&fifo);
    fifo.push(Delta::Updated(object("x", 2)));
    fifo.close();

    assert!(matches!(fifo.try_pop(), Ok(None)));
    batch.acknowledge();

    let batch = pop(&fifo);
    assert_eq!(show_object_changes(batch.items()), ["Updated x@2"]);
    batch.acknowledge();
    assert_eq!(fifo.try_pop().unwrap_err(), Closed);
}

// DF-30, decision 8
#[tokio::test(start_paused = true)]
async fn a_closed_queue_does_not_end_while_an_object_in_flight_may_be_requeued() {
    let fifo = Fifo::new();
    fifo.push(Delta::Added(object("x", 1)));
    let batch = pop(&fifo);
    fifo.close();
    let mut next = Box::pin(fifo.pop());
    assert!(poll_once(&mut next).await.is_none());

    batch.requeue();

    let batch = next.await.unwrap();
    assert_eq!(show_object_changes(batch.items()), ["Added x@1"]);
    batch.acknowledge();
    assert_eq!(fifo.pop().await.unwrap_err(), Closed);
}

#[tokio::test(start_paused = true)]
async fn synced_fails_when_the_queue_is_closed() {
    let fifo = Fifo::new();
    let mut synced = Box::pin(fifo.synced());
    assert!(poll_once(&mut synced).await.is_none());

    fifo.close();

    assert_eq!(synced.await, Err(Closed));
}

/// Returns true if a pending future becomes ready after `act`.
async fn is_woken<F: Future>(future: F, act: impl FnOnce()) -> bool {
    let mut future = Box::pin(future);
    assert!(poll_once(&mut future).await.is_none(), "the future is ready before the act");
    act();
    timeout(Duration::from_secs(1), future).await.is_ok()
}

// Decision 6
#[tokio::test(start_paused = true)]
async fn every_push_wakes_a_waiting_pop_and_drain() {
    type Push = (&'static str, fn(&Fifo));
    let pushes: [Push; 10] = [
        ("add", |fifo| fifo.push(Delta::Added(object("x", 5)))),
        ("update", |fifo| fifo.push(Delta::Updated(object("x", 5)))),
        ("delete", |fifo| fifo.push(Delta::Deleted(observed("known", 5)))),
        ("a delete that is dropped", |fifo| fifo.push(Delta::Deleted(observed("unknown", 5)))),
        ("an unread delete", |fifo| fifo.push(Change::DeletedUnread { key: key("known"), version: Some("5".into()) })),
        ("replace", |fifo| fifo.push(list(5, [("x", 5)]))),
        ("an empty list", |fifo| fifo.push(list(5, []))),
        ("resync", |fifo| fifo.push(Change::Resync)),
        ("bookmark", |fifo| fifo.push(Change::Bookmark("5".into()))),
        ("an existing object", |fifo| fifo.push(Change::Existing(object("x", 5)))),
    ];
    for (name, push) in pushes {
        let fifo = fifo_with_known([("known", 1)]);
        assert!(is_woken(fifo.pop(), || push(&fifo)).await, "pop after {name}");
        let fifo = fifo_with_known([("known", 1)]);
        assert!(is_woken(fifo.drain(), || push(&fifo)).await, "drain after {name}");
    }
}

// Decision 6
#[tokio::test(start_paused = true)]
async fn acknowledge_and_requeue_wake_a_waiting_pop_and_synced() {
    for requeues in [false, true] {
        let fifo = Fifo::new();
        fifo.push(list(9, [("x", 1)]));
        let batch = pop(&fifo);
        fifo.push(Delta::Updated(object("x", 10)));
        let respond = || if requeues { batch.requeue() } else { batch.acknowledge() };
        assert!(is_woken(fifo.pop(), respond).await);

        let fifo = Fifo::new();
        fifo.push(list(9, [("x", 1)]));
        let batch = pop(&fifo);
        let respond = || if requeues { batch.requeue() } else { batch.acknowledge() };
        assert!(is_woken(fifo.synced(), respond).await);
    }
}

#[tokio::test(start_paused = true)]
async fn pop_waits_until_an_object_is_pushed_and_a_dropped_pop_takes_none() {
    let fifo = Fifo::new();
    assert!(timeout(Duration::from_secs(60), fifo.pop()).await.is_err());

    let mut dropped = Box::pin(fifo.pop());
    assert!(poll_once(&mut dropped).await.is_none());
    fifo.push(Delta::Added(object("x", 1)));
    drop(dropped);

    assert_eq!(show_object_changes(fifo.pop().await.unwrap().items()), ["Added x@1"]);
}

// DF-36
#[tokio::test(start_paused = true)]
async fn slow_processing_is_logged_if_more_than_ten_objects_wait() {
    let logs = Logs::capture();
    for (waiting, elapsed_ms, is_logged) in [(11, 100, true), (11, 99, false), (10, 100, false)] {
        let fifo = DeltaFifo::builder().name("pods").build();
        (0..=waiting).for_each(|number| fifo.push(Delta::Added(object(&number.to_string(), 1))));
        let batch = fifo.pop().await.unwrap();

        tokio::time::advance(Duration::from_millis(elapsed_ms)).await;
        batch.acknowledge();

        let logged = logs.take();
        assert_eq!(logged.contains("processing changes is slow"), is_logged, "{waiting} {elapsed_ms}: {logged}");
        assert!(!is_logged || logged.contains(r#"informer="pods" count=1 waiting=11 elapsed_ms=100"#), "{logged}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_batch_of_many_objects_is_logged_after_at_most_a_second() {
    let logs = Logs::capture();
    for (size, elapsed_ms, is_logged) in [(2, 199, false), (2, 200, true), (50, 999, false), (50, 1000, true)] {
        let fifo = Fifo::new();
        (0..size).for_each(|number| fifo.push(Delta::Added(object(&number.to_string(), 1))));
        let batch = fifo.drain().await.unwrap();
        (size..size + 11).for_each(|number| fifo.push(Delta::Added(object(&number.to_string(), 1))));

        tokio::time::advance(Duration::from_millis(elapsed_ms)).await;
        batch.acknowledge();

        let logged = logs.take();
        assert_eq!(logged.contains("processing changes is slow"), is_logged, "{size} {elapsed_ms}: {logged}");
    }
}
