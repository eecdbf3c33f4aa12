//! `DeltaFifo`: when the queue is synced, and which changes belong to the initial list.

use std::time::Duration;

use informant::{Origin, delta::Delta};
use tokio::time::timeout;

use super::{Fifo, drain, fifo_with_known, origins, pop};
use crate::support::{list, object, observed, show_object_changes};

// DF-21, DF-25
#[test]
fn missed_deletes_of_the_first_list_belong_to_the_initial_list() {
    let fifo = fifo_with_known([("gone", 1)]);
    fifo.replace(&list(9, [("here", 2)]));
    fifo.add(object("later", 10));

    let receipt = drain(&fifo);

    assert_eq!(show_object_changes(receipt.items()), ["Replaced here@2", "Missed gone@1", "Added later@10"]);
    assert_eq!(origins(&receipt), [Origin::InitialList, Origin::InitialList, Origin::Live]);
    receipt.acknowledge();
    assert!(fifo.is_synced());
}

// DF-21, DF-22, DF-24
#[test]
fn a_queue_that_begins_with_a_list_is_synced_when_every_listed_object_is_acknowledged() {
    let fifo = Fifo::new();
    fifo.replace(&list(9, [("a", 1), ("b", 2), ("a", 3)]));
    assert!(!fifo.is_synced());

    let receipt = pop(&fifo);
    assert_eq!(show_object_changes(receipt.items()), ["Replaced a@1, Replaced a@3"]);
    receipt.acknowledge();
    assert!(!fifo.is_synced());
    pop(&fifo).acknowledge();
    assert!(fifo.is_synced());

    fifo.replace(&list(10, [("c", 4)]));
    assert!(fifo.is_synced(), "a synced queue stays synced");
}

// DF-21
#[test]
fn a_queue_that_begins_with_a_single_change_is_synced_at_once() {
    let begin: [fn(&Fifo); 4] = [
        |fifo| fifo.add(object("x", 1)),
        |fifo| fifo.update(object("x", 1)),
        |fifo| fifo.delete(observed("x", 1)),
        |fifo| assert!(fifo.add_if_not_present(Delta::Added(object("x", 1)).into())),
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

    fifo.replace(&list(50, []));

    assert!(!fifo.is_synced());
    let receipt = pop(&fifo);
    assert_eq!((receipt.items().len(), receipt.version()), (0, Some(&"50".into())));
    assert!(!fifo.is_synced());
    receipt.acknowledge();
    assert!(fifo.is_synced());
    assert_eq!(fifo.reached(), Some("50".into()));
}

// DF-26, RF-19
#[tokio::test(start_paused = true)]
async fn a_queue_is_synced_when_the_last_initial_object_is_acknowledged_not_when_it_is_taken() {
    let fifo = Fifo::new();
    fifo.replace(&list(9, [("x", 1)]));

    let receipt = fifo.pop().await.unwrap();
    assert!(!fifo.is_synced());
    assert!(timeout(Duration::from_secs(60), fifo.synced()).await.is_err());
    receipt.acknowledge();

    assert!(fifo.is_synced());
    fifo.synced().await.unwrap();
}

// Decision 8
#[test]
fn a_queue_is_synced_although_an_initial_object_is_requeued() {
    let fifo = Fifo::new();
    fifo.replace(&list(9, [("x", 1)]));

    pop(&fifo).requeue();

    assert!(fifo.is_synced());
    assert_eq!(fifo.reached(), None, "no object of the list is processed yet");
    let receipt = pop(&fifo);
    assert_eq!(origins(&receipt), [Origin::InitialList]);
    receipt.acknowledge();
    assert_eq!(fifo.reached(), Some("9".into()));
}
