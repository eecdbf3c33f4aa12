//! `DeltaFifo`: batches are in flight until they are acknowledged or requeued.

use informant::{
    Deleted,
    pipeline::{Delta, ItemOutcome, Relist},
};

use super::{Fifo, drain, fifo_with_known, pop, pop_all};
use crate::support::{
    key, list, object, object_of_incarnation, observed, show_delta, show_deltas, show_object_changes,
};

// DF-27, but the consumer does not hold the lock of the queue
#[test]
fn producers_and_readers_do_not_wait_while_a_batch_is_in_flight() {
    let fifo = Fifo::new();
    fifo.push(Delta::Added(object("x", 1)));

    let batch = pop(&fifo);
    fifo.push(Delta::Updated(object("x", 2)));
    fifo.push(Delta::Added(object("y", 3)));

    assert_eq!(show_deltas(&fifo.waiting(&key("x")).unwrap()), "Updated x@2");
    assert_eq!(fifo.waiting_keys(), [key("y"), key("x")]);
    batch.acknowledge();
}

// Decision 6
#[test]
fn newer_deltas_of_an_object_in_flight_are_not_taken_until_it_is_acknowledged() {
    let fifo = Fifo::new();
    fifo.push(Delta::Added(object("x", 1)));
    let batch = pop(&fifo);

    fifo.push(Delta::Updated(object("x", 2)));
    assert_eq!(fifo.len(), 0);
    assert!(fifo.try_drain().unwrap().is_none());
    batch.acknowledge();

    assert_eq!(pop_all(&fifo), ["Updated x@2"]);
}

// Decision 6
#[test]
fn a_dropped_batch_is_requeued() {
    let fifo = Fifo::new();
    fifo.push(list(9, [("x", 1), ("y", 2)]));

    drop(drain(&fifo));

    assert_eq!((fifo.len(), fifo.reached()), (2, None));
    let batch = drain(&fifo);
    assert_eq!(show_object_changes(batch.items()), ["Replaced x@1", "Replaced y@2"]);
    assert_eq!(batch.version(), Some(&"9".into()));
    batch.acknowledge();
    assert_eq!(fifo.reached(), Some("9".into()));
}

// Decision 6
#[test]
fn a_batch_whose_processing_panics_is_requeued() {
    let fifo = Fifo::new();
    fifo.push(Delta::Added(object("x", 1)));
    let batch = pop(&fifo);

    let settle = || batch.settle(|_| panic!("on purpose"));
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(settle)).is_err());

    assert_eq!(pop_all(&fifo), ["Added x@1"]);
}

// DF-29, decision 8
#[test]
fn requeue_keeps_only_the_unprocessed_deltas() {
    let fifo = Fifo::new();
    fifo.push(Delta::Added(object("x", 1)));
    fifo.push(Delta::Updated(object("x", 2)));
    fifo.push(Delta::Updated(object("x", 3)));

    pop(&fifo).settle(|_| ItemOutcome::Requeue { processed: 1 });
    let batch = pop(&fifo);
    assert_eq!(show_object_changes(batch.items()), ["Updated x@2, Updated x@3"]);
    batch.settle(|_| ItemOutcome::Requeue { processed: 2 });

    assert!(fifo.is_empty(), "all deltas were processed");
}

// DF-29, decision 8
#[test]
fn newer_deltas_replace_requeued_ones_except_deletes() {
    let fifo = fifo_with_known([("x", 0), ("y", 0)]);
    fifo.push(Delta::Updated(object("x", 1)));
    fifo.push(Delta::Updated(object("y", 2)));
    fifo.push(Delta::Deleted(observed("y", 3)));
    fifo.push(Delta::Added(object("y", 4)));
    let batch = drain(&fifo);
    fifo.push(Delta::Updated(object("x", 5)));
    fifo.push(Delta::Updated(object("y", 6)));

    batch.requeue();

    assert_eq!(pop_all(&fifo), ["Updated x@5", "Deleted y@3, Updated y@6"]);
}

// Decision 6
#[test]
fn each_object_of_a_batch_is_acknowledged_or_requeued_by_itself() {
    let fifo = Fifo::new();
    for (name, version) in [("a", 1), ("b", 2), ("c", 3)] {
        fifo.push(Delta::Added(object(name, version)));
    }

    drain(&fifo).settle(|taken| match taken.key().name() {
        "b" => ItemOutcome::Requeue { processed: 0 },
        _ => ItemOutcome::Done,
    });
    assert_eq!(fifo.waiting_keys(), [key("b")]);

    fifo.push(Delta::Added(object("d", 4)));
    let (b, d) = (pop(&fifo), pop(&fifo));
    d.acknowledge();
    fifo.push(Delta::Updated(object("b", 5)));
    assert!(fifo.is_empty(), "b is still in flight");
    b.acknowledge();
    assert_eq!(pop_all(&fifo), ["Updated b@5"]);
}

// Decision 8
#[test]
fn a_requeued_missed_delete_is_not_replaced_by_a_delete_of_a_later_incarnation() {
    let fifo = fifo_with_known([("x", 1)]);
    fifo.push(list(5, []));
    fifo.push(Delta::Added(object_of_incarnation("x", 6, "u2")));
    let batch = drain(&fifo);
    fifo.push(Delta::Deleted(Deleted::Observed(object_of_incarnation("x", 7, "u2"))));

    batch.requeue();

    assert_eq!(pop_all(&fifo), ["Missed x@1, Deleted x@7"]);
}

#[test]
fn a_batch_can_be_read_in_arrival_order_and_the_deletes_of_a_relist_come_first() {
    let fifo = fifo_with_known([("a", 1), ("gone", 2)]);
    fifo.push(Delta::Added(object("b", 3)));
    fifo.push(Delta::Updated(object("a", 4)));
    fifo.push(Delta::Updated(object("b", 5)));
    fifo.push(list(6, [("c", 6), ("a", 4)]));
    fifo.push(Delta::Deleted(observed("b", 7)));
    fifo.push(Delta::Updated(object("a", 8)));

    let batch = drain(&fifo);

    assert_eq!(
        show_object_changes(batch.items()),
        [
            "Added b@3, Updated b@5, Deleted b@7",
            "Updated a@4, Replaced a@4, Updated a@8",
            "Missed gone@2",
            "Replaced c@6"
        ]
    );
    let in_order = batch.in_arrival_order().into_iter().map(show_delta).collect::<Vec<_>>();
    let relist = ["Deleted b@7", "Missed gone@2", "Replaced a@4", "Replaced c@6"];
    assert_eq!(in_order, [&["Added b@3", "Updated a@4", "Updated b@5"], &relist[..], &["Updated a@8"]].concat());
}

#[test]
fn deltas_keep_their_place_in_arrival_order_when_they_are_requeued_or_wait_for_a_batch_in_flight() {
    let fifo = fifo_with_known([("x", 1)]);
    fifo.push(Delta::Updated(object("a", 2)));
    fifo.push(Delta::Deleted(observed("x", 3)));
    let batch = drain(&fifo);
    fifo.push(Delta::Added(object("b", 4)));
    fifo.push(Delta::Added(object("x", 5)));
    fifo.push(Delta::Added(object("c", 6)));

    batch.requeue();

    let batch = drain(&fifo);
    assert_eq!(batch.items()[0].key(), &key("b"), "requeued objects are at the end");
    let in_order = batch.in_arrival_order().into_iter().map(show_delta).collect::<Vec<_>>();
    assert_eq!(in_order, ["Updated a@2", "Deleted x@3", "Added b@4", "Added x@5", "Added c@6"]);
}

// DF-28, DF-29
#[test]
fn a_requeued_object_goes_to_the_end_of_the_queue() {
    let fifo = Fifo::new();
    fifo.push(Delta::Added(object("x", 1)));
    fifo.push(Delta::Added(object("y", 2)));

    pop(&fifo).requeue();

    assert_eq!(pop_all(&fifo), ["Added y@2", "Added x@1"]);
}

#[test]
fn a_batch_has_the_history_change_of_its_relist_until_it_is_acknowledged() {
    let fifo = fifo_with_known([("a", 1)]);
    fifo.push(Relist { history_changed: true, ..list(9, [("a", 1)]) });
    fifo.push(Delta::Updated(object("a", 10)));

    let batch = drain(&fifo);
    assert!(batch.history_changed());
    batch.requeue();
    let batch = drain(&fifo);
    assert!(batch.history_changed(), "a requeued batch has it as well");
    batch.acknowledge();

    fifo.push(list(11, [("a", 10)]));
    assert!(!drain(&fifo).history_changed());
}
