//! `DeltaFifo`: the reached version, and the versions of batches.

use informant::pipeline::{Change, Delta, ItemOutcome, Relist};

use super::{Fifo, drain, fifo_with_known, pop};
use crate::support::{list, object, observed};

// Decision 13
#[test]
fn a_dropped_delete_advances_the_reached_version() {
    let fifo = Fifo::new();

    fifo.push(Delta::Deleted(observed("x", 7)));

    let batch = pop(&fifo);
    assert_eq!((batch.items().len(), batch.version()), (0, Some(&"7".into())));
    batch.acknowledge();
    assert_eq!(fifo.reached(), Some("7".into()));
}

// DF-31
#[test]
fn a_resync_does_not_change_the_reached_version() {
    let fifo = fifo_with_known([("x", 1)]);
    fifo.push(Change::Bookmark("9".into()));
    pop(&fifo).acknowledge();

    fifo.push(Change::Resync);

    let batch = pop(&fifo);
    assert_eq!(batch.version(), None);
    batch.acknowledge();
    assert_eq!(fifo.reached(), Some("9".into()));
}

// Decision 13
#[test]
fn a_bookmark_is_taken_as_an_empty_batch_with_its_version() {
    let fifo = Fifo::new();
    fifo.push(Change::Bookmark("7".into()));
    fifo.push(Change::Bookmark("8".into()));
    assert!(!fifo.is_synced());

    let batch = pop(&fifo);
    assert_eq!((batch.items().len(), batch.version()), (0, Some(&"8".into())));
    assert_eq!(fifo.reached(), None, "the version is not reached before the batch is acknowledged");
    batch.acknowledge();

    assert_eq!(fifo.reached(), Some("8".into()));
    assert!(fifo.try_pop().unwrap().is_none());
}

// Decision 13
#[test]
fn a_version_is_reached_when_all_changes_up_to_it_are_acknowledged() {
    let fifo = Fifo::new();
    fifo.push(Delta::Added(object("a", 1)));
    fifo.push(Delta::Added(object("b", 2)));
    fifo.push(Delta::Updated(object("a", 3)));
    fifo.push(Change::Bookmark("4".into()));

    let a = pop(&fifo);
    let b = pop(&fifo);
    assert_eq!(a.version(), Some(&"1".into()), "the newest change of a is not reached before the older one of b");
    b.acknowledge();
    assert_eq!(fifo.reached(), None);
    a.acknowledge();
    assert_eq!(fifo.reached(), Some("4".into()));
}

// Decision 13
#[test]
fn a_drained_batch_has_the_version_that_it_leads_to() {
    let fifo = Fifo::new();
    fifo.push(Delta::Added(object("a", 1)));
    fifo.push(Delta::Deleted(observed("a", 5)));
    fifo.push(Delta::Added(object("b", 6)));

    let batch = drain(&fifo);

    assert_eq!(batch.version(), Some(&"6".into()));
    batch.acknowledge();
    assert_eq!(fifo.reached(), Some("6".into()));
}

// Decision 13
#[test]
fn a_version_is_not_reached_while_an_older_change_is_requeued() {
    let fifo = Fifo::new();
    fifo.push(Delta::Added(object("a", 1)));
    fifo.push(Delta::Added(object("b", 2)));
    drain(&fifo).settle(|taken| match taken.key().name() {
        "a" => ItemOutcome::Requeue { processed: 0 },
        _ => ItemOutcome::Done,
    });
    assert_eq!(fifo.reached(), None);

    let again = pop(&fifo);
    fifo.push(Delta::Updated(object("a", 3)));
    again.requeue();
    assert_eq!(fifo.reached(), None, "the newer delta replaces the requeued one, and is not acknowledged");
    pop(&fifo).acknowledge();

    assert_eq!(fifo.reached(), Some("3".into()));
}

// Decision 13
#[test]
fn a_version_that_no_batch_had_is_delivered_with_an_empty_batch() {
    let fifo = Fifo::new();
    fifo.push(Delta::Added(object("a", 1)));
    fifo.push(Delta::Added(object("b", 2)));
    let (a, b) = (pop(&fifo), pop(&fifo));
    assert_eq!((a.version(), b.version()), (Some(&"1".into()), None));

    b.acknowledge();
    a.acknowledge();

    let batch = pop(&fifo);
    assert_eq!((batch.items().len(), batch.version()), (0, Some(&"2".into())));
    batch.acknowledge();
    assert!(fifo.try_pop().unwrap().is_none());
}

// Decision 13
#[test]
fn the_version_of_a_requeued_empty_batch_is_delivered_again() {
    let fifo = Fifo::new();
    fifo.push(list(50, []));

    pop(&fifo).requeue();

    assert_eq!(fifo.reached(), None);
    assert!(fifo.is_synced(), "the queue is synced after the first attempt");
    let batch = pop(&fifo);
    assert_eq!(batch.version(), Some(&"50".into()));
    batch.acknowledge();
    assert_eq!(fifo.reached(), Some("50".into()));
}

// Decision 13
#[test]
fn an_object_that_existed_before_the_watch_does_not_change_the_reached_version() {
    let fifo = Fifo::new();
    fifo.push(Change::Bookmark("9".into()));
    pop(&fifo).acknowledge();

    fifo.push(Change::Existing(object("x", 10)));
    let batch = pop(&fifo);

    assert_eq!(batch.version(), None);
    batch.acknowledge();
    assert_eq!(fifo.reached(), Some("9".into()));
}

// Decision 13
#[test]
fn a_list_without_a_version_does_not_change_the_reached_version() {
    let fifo = fifo_with_known([("x", 1)]);
    fifo.push(Change::Bookmark("7".into()));
    fifo.push(Relist { version: "".into(), ..list(0, []) });

    drain(&fifo).acknowledge();

    assert_eq!(fifo.reached(), Some("7".into()));
}

// Decision 13
#[test]
fn a_version_that_was_requeued_is_not_reached_although_a_newer_one_is_requeued_after_it() {
    let fifo = Fifo::new();
    fifo.push(Change::Bookmark("1".into()));
    let first = pop(&fifo);
    fifo.push(Change::Bookmark("2".into()));
    let second = pop(&fifo);

    first.requeue();
    second.requeue();

    assert_eq!(fifo.reached(), None);
    pop(&fifo).acknowledge();
    assert_eq!(fifo.reached(), Some("2".into()));
}
