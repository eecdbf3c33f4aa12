//! `DeltaFifo`: when the queue is synced, and which changes belong to the initial list.

use std::time::Duration;

use informant::{
    Origin,
    pipeline::{Change, Delta, ItemOutcome},
};
use tokio::time::timeout;

use super::{Fifo, drain, fifo_with_known, origins, pop};
use crate::support::{list, object, observed, show_object_changes};

// DF-21, DF-25
#[test]
fn missed_deletes_of_the_first_list_belong_to_the_initial_list() {
    let fifo = fifo_with_known([("gone", 1)]);
    fifo.push(list(9, [("here", 2)]));
    fifo.push(Delta::Added(object("later", 10)));

    let batch = drain(&fifo);

    assert_eq!(show_object_changes(batch.items()), ["Missed gone@1", "Replaced here@2", "Added later@10"]);
    assert_eq!(origins(&batch), [Origin::InitialList, Origin::InitialList, Origin::Live]);
    batch.acknowledge();
    assert!(fifo.is_synced());
}

// DF-21, DF-22, DF-24
#[test]
fn a_queue_that_begins_with_a_list_is_synced_when_every_listed_object_is_acknowledged() {
    let fifo = Fifo::new();
    fifo.push(list(9, [("a", 1), ("b", 2), ("a", 3)]));
    assert!(!fifo.is_synced());

    let batch = pop(&fifo);
    assert_eq!(show_object_changes(batch.items()), ["Replaced b@2"]);
    batch.acknowledge();
    assert!(!fifo.is_synced());
    pop(&fifo).acknowledge();
    assert!(fifo.is_synced());

    fifo.push(list(10, [("c", 4)]));
    assert!(fifo.is_synced(), "a synced queue stays synced");
}

// DF-21
#[test]
fn a_queue_that_begins_with_a_single_change_is_synced_at_once() {
    let begin: [fn(&Fifo); 4] = [
        |fifo| fifo.push(Delta::Added(object("x", 1))),
        |fifo| fifo.push(Delta::Updated(object("x", 1))),
        |fifo| fifo.push(Delta::Deleted(observed("x", 1))),
        |fifo| fifo.push(Change::Existing(object("x", 1))),
    ];
    for begin in begin {
        let fifo = Fifo::new();
        begin(&fifo);
        assert!(fifo.is_synced());
    }
}

// DF-23 and HC-01, but the empty list must be processed
#[test]
fn a_queue_that_begins_with_an_empty_list_is_synced_when_its_empty_batch_is_acknowledged() {
    let fifo = Fifo::new();

    fifo.push(list(50, []));

    assert!(!fifo.is_synced());
    let batch = pop(&fifo);
    assert_eq!((batch.items().len(), batch.version()), (0, Some(&"50".into())));
    assert!(!fifo.is_synced());
    batch.acknowledge();
    assert!(fifo.is_synced());
    assert_eq!(fifo.reached(), Some("50".into()));
}

// DF-26, RF-19
#[tokio::test(start_paused = true)]
async fn a_queue_is_synced_when_the_last_initial_object_is_acknowledged_not_when_it_is_taken() {
    let fifo = Fifo::new();
    fifo.push(list(9, [("x", 1)]));

    let batch = fifo.pop().await.unwrap();
    assert!(!fifo.is_synced());
    assert!(timeout(Duration::from_secs(60), fifo.synced()).await.is_err());
    batch.acknowledge();

    assert!(fifo.is_synced());
    fifo.synced().await.unwrap();
}

// Decision 8
#[test]
fn a_queue_is_synced_although_an_initial_object_is_requeued() {
    let fifo = Fifo::new();
    fifo.push(list(9, [("x", 1)]));

    pop(&fifo).requeue();

    assert!(fifo.is_synced());
    assert_eq!(fifo.reached(), None, "no object of the list is processed yet");
    let batch = pop(&fifo);
    assert_eq!(origins(&batch), [Origin::InitialList]);
    batch.acknowledge();
    assert_eq!(fifo.reached(), Some("9".into()));
}

// Decision 8: the newer delta replaces those of the initial list.
#[test]
fn an_item_without_deltas_of_the_initial_list_is_live_although_such_deltas_were_requeued() {
    let fifo = Fifo::new();
    fifo.push(list(9, [("a", 1)]));
    let batch = pop(&fifo);
    fifo.push(Delta::Updated(object("a", 10)));
    batch.requeue();

    assert!(fifo.is_synced());
    let batch = pop(&fifo);
    assert_eq!(show_object_changes(batch.items()), ["Updated a@10"]);
    assert_eq!(origins(&batch), [Origin::Live]);
}

// As above, if the deltas of the initial list were processed.
#[test]
fn the_unprocessed_rest_of_an_item_is_live_if_the_deltas_of_the_initial_list_were_processed() {
    let fifo = Fifo::new();
    fifo.push(list(9, [("a", 1)]));
    fifo.push(Delta::Updated(object("a", 10)));
    pop(&fifo).settle(|_| ItemOutcome::Requeue { processed: 1 });

    let batch = pop(&fifo);
    assert_eq!(show_object_changes(batch.items()), ["Updated a@10"]);
    assert_eq!(origins(&batch), [Origin::Live]);
}

#[test]
fn a_bookmark_taken_before_the_first_list_does_not_make_the_queue_synced() {
    let fifo = Fifo::new();
    fifo.push(Change::Bookmark("3".into()));
    let bookmark = pop(&fifo);
    fifo.push(list(9, [("x", 1)]));

    bookmark.acknowledge();

    assert!(!fifo.is_synced(), "the queue is not synced while the list is queued");
    pop(&fifo).acknowledge();
    assert!(fifo.is_synced());
}
