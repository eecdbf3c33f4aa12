//! `DeltaFifo`: batches are in flight until they are acknowledged or requeued.

use informant::{
    Deleted,
    delta::{Delta, Deltas, Relist},
    queue::ItemOutcome,
};

use super::{Fifo, drain, fifo_with_known, pop, pop_all};
use crate::support::{key, list, object, object_of_incarnation, observed, show_deltas, show_object_changes};

// DF-27, but the consumer does not hold the lock of the queue
#[test]
fn producers_and_readers_do_not_wait_while_a_batch_is_in_flight() {
    let fifo = Fifo::new();
    fifo.add(object("x", 1));

    let receipt = pop(&fifo);
    fifo.update(object("x", 2));
    fifo.add(object("y", 3));

    assert_eq!(show_deltas(&fifo.waiting(&key("x")).unwrap()), "Updated x@2");
    assert_eq!(fifo.waiting_keys(), [key("y"), key("x")]);
    receipt.acknowledge();
}

// Decision 6
#[test]
fn newer_deltas_of_an_object_in_flight_are_not_taken_until_it_is_acknowledged() {
    let fifo = Fifo::new();
    fifo.add(object("x", 1));
    let receipt = pop(&fifo);

    fifo.update(object("x", 2));
    assert_eq!(fifo.len(), 0);
    assert!(fifo.try_drain().unwrap().is_none());
    receipt.acknowledge();

    assert_eq!(pop_all(&fifo), ["Updated x@2"]);
}

// Decision 6
#[test]
fn a_dropped_batch_is_acknowledged() {
    let fifo = Fifo::new();
    fifo.replace(&list(9, [("x", 1)]));

    drop(pop(&fifo));

    assert!(fifo.is_synced());
    assert_eq!(fifo.reached(), Some("9".into()));
}

// Decision 6
#[test]
fn a_batch_whose_processing_panics_is_acknowledged() {
    let fifo = Fifo::new();
    fifo.add(object("x", 1));
    let receipt = pop(&fifo);

    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| receipt.settle(|_| panic!("on purpose"))));

    assert!(outcome.is_err());
    fifo.update(object("x", 2));
    assert_eq!(pop_all(&fifo), ["Updated x@2"]);
}

// DF-29, decision 8
#[test]
fn requeue_keeps_only_the_unprocessed_deltas() {
    let fifo = Fifo::new();
    fifo.add(object("x", 1));
    fifo.update(object("x", 2));
    fifo.update(object("x", 3));

    pop(&fifo).settle(|_| ItemOutcome::Requeue { processed: 1 });
    let receipt = pop(&fifo);
    assert_eq!(show_object_changes(receipt.items()), ["Updated x@2, Updated x@3"]);
    receipt.settle(|_| ItemOutcome::Requeue { processed: 2 });

    assert!(fifo.is_empty(), "all deltas were processed");
}

// DF-29, decision 8
#[test]
fn newer_deltas_replace_requeued_ones_except_deletes() {
    let fifo = fifo_with_known([("x", 0), ("y", 0)]);
    fifo.update(object("x", 1));
    fifo.update(object("y", 2));
    fifo.delete(observed("y", 3));
    fifo.add(object("y", 4));
    let receipt = drain(&fifo);
    fifo.update(object("x", 5));
    fifo.update(object("y", 6));

    receipt.requeue();

    assert_eq!(pop_all(&fifo), ["Updated x@5", "Deleted y@3, Updated y@6"]);
}

// Decision 6
#[test]
fn each_object_of_a_batch_is_acknowledged_or_requeued_by_itself() {
    let fifo = Fifo::new();
    for (name, version) in [("a", 1), ("b", 2), ("c", 3)] {
        fifo.add(object(name, version));
    }

    drain(&fifo).settle(|taken| match taken.key().name() {
        "b" => ItemOutcome::Requeue { processed: 0 },
        _ => ItemOutcome::Done,
    });
    assert_eq!(fifo.waiting_keys(), [key("b")]);

    fifo.add(object("d", 4));
    let mut receipts = drain(&fifo).split();
    receipts.pop().unwrap().acknowledge();
    fifo.update(object("b", 5));
    assert!(fifo.is_empty(), "b is still in flight");
    receipts.pop().unwrap().acknowledge();
    assert_eq!(pop_all(&fifo), ["Updated b@5"]);
}

// Decision 8
#[test]
fn a_requeued_missed_delete_is_not_replaced_by_a_delete_of_a_later_incarnation() {
    let fifo = fifo_with_known([("x", 1)]);
    fifo.replace(&list(5, []));
    fifo.add(object_of_incarnation("x", 6, "u2"));
    let receipt = drain(&fifo);
    fifo.delete(Deleted::Observed(object_of_incarnation("x", 7, "u2")));

    receipt.requeue();

    assert_eq!(pop_all(&fifo), ["Missed x@1, Deleted x@7"]);
}

// DF-28, DF-29
#[test]
fn a_requeued_object_goes_to_the_end_of_the_queue() {
    let fifo = Fifo::new();
    fifo.add(object("x", 1));
    fifo.add(object("y", 2));

    pop(&fifo).requeue();

    assert_eq!(pop_all(&fifo), ["Added y@2", "Added x@1"]);
}

// DF-29
#[test]
fn add_if_not_present_does_not_change_objects_that_are_queued_or_in_flight() {
    let fifo = Fifo::new();
    let deltas = |version| Deltas::from(Delta::Updated(object("x", version)));

    assert!(fifo.add_if_not_present(deltas(1)));
    assert!(!fifo.add_if_not_present(deltas(2)));
    let receipt = pop(&fifo);
    assert!(!fifo.add_if_not_present(deltas(3)));
    assert_eq!(show_object_changes(receipt.items()), ["Updated x@1"]);
    receipt.acknowledge();
    assert!(fifo.add_if_not_present(deltas(4)));

    assert_eq!(pop_all(&fifo), ["Updated x@4"]);
}

#[test]
fn a_batch_has_the_history_change_of_its_relist_until_it_is_acknowledged() {
    let fifo = fifo_with_known([("a", 1)]);
    fifo.replace(&Relist { history_changed: true, ..list(9, [("a", 1)]) });
    fifo.update(object("a", 10));

    let receipt = drain(&fifo);
    assert!(receipt.history_changed());
    receipt.requeue();
    let receipt = drain(&fifo);
    assert!(receipt.history_changed(), "a requeued batch has it as well");
    receipt.acknowledge();

    fifo.replace(&list(11, [("a", 10)]));
    assert!(!drain(&fifo).history_changed());
}
