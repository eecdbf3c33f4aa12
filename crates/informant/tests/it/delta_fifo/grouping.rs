//! What is queued, and in which order it comes out.

use std::sync::Arc;

use informant::delta::{Delta, Deltas, DeltasError, Relist};
use informant::queue::{DeltaFifo, KnownObjects};
use informant::{Cached, Deleted, Key, Origin, Uid};

use super::{Fifo, drain, fifo_over, origins, pop, pop_all};
use crate::support::{Object, cache_of, key, list, object, object_of_life, observed, show_taken};

// DF-01, DF-02, DF-04
#[test]
fn all_changes_of_an_object_come_together_oldest_first() {
    let fifo = Fifo::new();
    fifo.add(object("x", 1));
    fifo.update(object("x", 2));
    fifo.delete(observed("x", 3));
    fifo.add(object("x", 4));

    assert_eq!(pop_all(&fifo), ["Added x@1, Updated x@2, Deleted x@3, Added x@4"]);
    assert!(fifo.is_empty());
}

// DF-02, DF-03
#[test]
fn an_object_keeps_its_place_when_it_changes_again_and_goes_to_the_end_after_it_was_taken() {
    let fifo = Fifo::new();
    fifo.add(object("a", 1));
    fifo.add(object("b", 2));
    fifo.update(object("a", 3));

    let first = pop(&fifo);
    assert_eq!(show_taken(first.items()), ["Added a@1, Updated a@3"]);
    first.acknowledge();
    fifo.update(object("a", 4));

    assert_eq!(pop_all(&fifo), ["Added b@2", "Updated a@4"]);
}

// DF-05
#[test]
fn the_key_of_a_list_of_deltas_is_that_of_its_newest_and_an_empty_list_is_an_error() {
    let deltas = Deltas::try_from(vec![Delta::Added(object("n/x", 1)), Delta::Updated(object("n/x", 2))]).unwrap();
    assert_eq!(deltas.key(), &key("n/x"));
    assert_eq!(deltas.newest().object().version().as_str(), "2");

    let gone = Deltas::from(Delta::Deleted(Deleted::Missed { last_known: object("n/y", 1) }));
    assert_eq!(gone.key(), &key("n/y"));

    assert_eq!(Deltas::<()>::try_from(vec![]).unwrap_err(), DeltasError::Empty);
    let mixed = Deltas::try_from(vec![Delta::Added(object("x", 1)), Delta::Added(object("y", 2))]).unwrap_err();
    assert_eq!(mixed.to_string(), "deltas of one object are expected, found x and y");
}

// HC-05, the part of this queue
#[test]
fn an_object_that_nobody_knows_is_not_deleted() {
    let fifo = Fifo::new();
    fifo.add(object("x", 1));
    fifo.update(object("x", 2));
    fifo.delete(observed("x", 3));
    fifo.delete(observed("y", 4));

    assert_eq!(pop_all(&fifo), ["Added x@1, Updated x@2, Deleted x@3"]);
}

// DF-07
#[test]
fn without_known_objects_a_delete_of_an_object_that_does_not_wait_is_dropped() {
    let fifo = Fifo::new();
    fifo.delete(observed("x", 1));
    fifo.add(object("y", 2));
    fifo.delete(observed("y", 3));

    assert_eq!(pop_all(&fifo), ["Added y@2, Deleted y@3"]);
}

// DF-08
#[test]
fn with_known_objects_a_delete_is_dropped_only_if_nobody_has_the_object() {
    let fifo = fifo_over([("known", 1)]);
    fifo.delete(observed("known", 2));
    fifo.add(object("queued", 3));
    fifo.delete(observed("queued", 4));
    fifo.delete(observed("nobody", 5));

    assert_eq!(pop_all(&fifo), ["Deleted known@2", "Added queued@3, Deleted queued@4"]);
}

// DF-09
#[test]
fn a_dropped_delete_counts_as_the_first_change() {
    let fifo = Fifo::new();
    assert!(!fifo.is_synced());

    fifo.delete(observed("x", 1));

    assert!(fifo.is_synced());
    fifo.replace(&list(2, [("y", 2)]));
    assert_eq!(origins(&pop(&fifo)), [Origin::Live]);
}

// DF-10, DF-14, DF-15, DF-17, HC-04
#[test]
fn of_two_deletes_in_a_row_the_one_with_the_final_state_stays() {
    let fifo = fifo_over([("x", 1)]);
    fifo.delete(observed("x", 5));
    fifo.replace(&list(6, []));
    assert_eq!(pop_all(&fifo), ["Deleted x@5"]);

    for fifo in [Fifo::new(), fifo_over([]), fifo_over([("x", 1)])] {
        fifo.add(object("x", 1));
        fifo.replace(&list(6, []));
        fifo.delete(observed("x", 7));
        assert_eq!(pop_all(&fifo), ["Added x@1, Deleted x@7"]);
    }

    for fifo in [Fifo::new(), fifo_over([])] {
        fifo.add(object("x", 1));
        fifo.replace(&list(6, []));
        fifo.replace(&list(7, []));
        assert_eq!(pop_all(&fifo), ["Added x@1, Missed x@1"]);
    }
}

// DF-11
#[test]
fn nothing_but_deletes_is_merged() {
    let fifo = Fifo::new();
    fifo.add(object("x", 1));
    fifo.add(object("x", 1));
    fifo.update(object("x", 2));
    fifo.update(object("x", 2));
    fifo.replace(&list(3, [("x", 2)]));
    fifo.replace(&list(3, [("x", 2)]));

    let all = "Added x@1, Added x@1, Updated x@2, Updated x@2, Replaced x@2, Replaced x@2";
    assert_eq!(pop_all(&fifo), [all]);
}

// DF-12
#[test]
fn a_list_comes_in_list_order_as_replaced_or_if_so_chosen_as_sync() {
    let fifo = Fifo::new();
    fifo.replace(&list(3, [("b", 2), ("a", 1)]));
    assert_eq!(pop_all(&fifo), ["Replaced b@2", "Replaced a@1"]);

    let fifo = DeltaFifo::builder().emit_replaced(false).build();
    fifo.replace(&list(3, [("b", 2), ("a", 1)]));
    assert_eq!(pop_all(&fifo), ["Sync b@2", "Sync a@1"]);
}

// DF-13, DF-14, DF-15, DF-18
#[test]
fn what_a_list_no_longer_has_is_deleted_with_its_newest_state_first_queued_then_known() {
    let fifo = fifo_over([("known", 1), ("both", 2), ("listed", 3)]);
    fifo.update(object("both", 4));
    fifo.add(object("queued", 5));

    fifo.replace(&list(9, [("listed", 3)]));

    let all =
        ["Updated both@4, Missed both@4", "Added queued@5, Missed queued@5", "Replaced listed@3", "Missed known@1"];
    assert_eq!(pop_all(&fifo), all);
}

// DF-16
#[test]
fn an_object_that_was_deleted_and_is_listed_again_comes_as_delete_and_replaced() {
    let fifo = fifo_over([("x", 1)]);
    fifo.delete(observed("x", 5));

    fifo.replace(&list(9, [("x", 8)]));

    assert_eq!(pop_all(&fifo), ["Deleted x@5, Replaced x@8"]);
}

/// A cache that cannot be asked.
struct Broken;

impl KnownObjects<()> for Broken {
    fn get(&self, _: &Key) -> Option<Object> {
        panic!("on purpose")
    }

    fn list(&self) -> Vec<Object> {
        panic!("on purpose")
    }
}

// DF-20, with our outcome
#[test]
fn a_replace_that_fails_leaves_nothing_behind() {
    let fifo = DeltaFifo::builder().known_objects(Arc::new(Broken)).build();

    let replaced = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| fifo.replace(&list(9, [("x", 1)]))));

    assert!(replaced.is_err());
    assert!(fifo.try_pop().unwrap().is_none());
    assert!(!fifo.is_synced());
}

// Decision 3
#[test]
fn a_list_keeps_what_is_quarantined_under_the_same_uid_and_deletes_it_under_another() {
    let fifo = fifo_over([("same", 1), ("other", 2), ("unknown-uid", 3)]);
    fifo.update(object("queued", 4));
    let quarantined = [("same", "u1"), ("other", "u2"), ("unknown-uid", ""), ("queued", "u1"), ("never-seen", "u9")];
    let quarantined = quarantined.map(|(name, uid)| (key(name), Uid::new(uid))).to_vec();

    fifo.replace(&Relist { version: "9".into(), objects: vec![], quarantined, history_changed: false });

    assert_eq!(pop_all(&fifo), ["Updated queued@4", "Missed other@2"]);
}

// Decision 3
#[test]
fn a_delete_that_cannot_be_read_deletes_by_key_with_the_newest_state() {
    let fifo = fifo_over([("known", 1), ("in-flight", 2)]);
    fifo.update(object("in-flight", 3));
    let receipt = pop(&fifo);
    fifo.update(object("queued", 4));

    for (name, version) in [("known", "5"), ("in-flight", "6"), ("queued", "7"), ("nobody", "8")] {
        fifo.delete_unread(&key(name), Some(version.into()));
    }

    receipt.acknowledge();
    let rest = drain(&fifo);
    let mut shown = show_taken(rest.items());
    shown.sort();
    assert_eq!(shown, ["Missed in-flight@3", "Missed known@1", "Updated queued@4, Missed queued@4"]);
    assert_eq!(rest.version(), Some(&"8".into()));
}

// HC-07, the part of the queue
#[test]
fn a_delete_that_was_seen_comes_before_the_next_life_and_one_that_was_missed_shows_in_the_uid() {
    for is_delete_seen in [true, false] {
        let fifo = fifo_over([("x", 1), ("p2", 2), ("p3", 3)]);
        if is_delete_seen {
            fifo.delete(observed("x", 5));
        }
        let reborn: Object = object_of_life("x", 8, "u2");

        let objects = vec![reborn, object("p2", 2), object("p4", 6)];
        fifo.replace(&Relist { version: "9".into(), objects, quarantined: vec![], history_changed: false });

        let receipt = drain(&fifo);
        let x = if is_delete_seen { "Deleted x@5, Replaced x@8" } else { "Replaced x@8" };
        assert_eq!(show_taken(receipt.items()), [x, "Replaced p2@2", "Replaced p4@6", "Missed p3@3"]);
        assert_eq!(receipt.items()[0].deltas().newest().object().uid().as_str(), "u2");
    }
}

// DF-31, DF-33
#[test]
fn a_resync_replays_what_is_known_and_without_known_objects_does_nothing() {
    let fifo = Fifo::new();
    fifo.resync();
    assert!(fifo.try_pop().unwrap().is_none());

    let cache = cache_of([("x", 1)]);
    let fifo = DeltaFifo::builder().known_objects(Arc::new(cache.lister())).build();
    fifo.resync();
    assert!(!fifo.is_synced(), "a resync is not a first change");
    let receipt = pop(&fifo);
    assert_eq!(show_taken(receipt.items()), ["Sync x@1"]);
    let stored = cache.lister().get(&key("x")).unwrap();
    assert!(Cached::ptr_eq(receipt.items()[0].deltas().newest().object(), &stored));
}

// DF-32
#[test]
fn a_resync_skips_what_has_news_waiting_or_in_flight() {
    let fifo = fifo_over([("deleted", 1), ("updated", 2), ("taken", 3), ("idle", 4)]);
    fifo.update(object("taken", 5));
    let receipt = pop(&fifo);
    fifo.delete(observed("deleted", 6));
    fifo.update(object("updated", 7));

    fifo.resync();

    assert_eq!(pop_all(&fifo), ["Deleted deleted@6", "Updated updated@7", "Sync idle@4"]);
    receipt.acknowledge();
    assert!(fifo.is_empty());
}
