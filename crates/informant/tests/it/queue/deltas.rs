//! `DeltaFifo`: which deltas are queued, and in which order they are taken.

use std::sync::Arc;

use informant::{
    Cached, Deleted, Key, Origin, Uid,
    pipeline::{Change, Delta, DeltaFifo, KnownObjects, Relist},
};

use super::{Fifo, drain, fifo_with_known, origins, pop, pop_all};
use crate::support::{Object, cache_of, key, list, object, object_of_incarnation, observed, show_object_changes};

// DF-01, DF-02, DF-04
#[test]
fn all_deltas_of_an_object_are_taken_together_oldest_first() {
    let fifo = Fifo::new();
    fifo.push(Delta::Added(object("x", 1)));
    fifo.push(Delta::Updated(object("x", 2)));
    fifo.push(Delta::Deleted(observed("x", 3)));
    fifo.push(Delta::Added(object("x", 4)));

    assert_eq!(pop_all(&fifo), ["Added x@1, Updated x@2, Deleted x@3, Added x@4"]);
    assert!(fifo.is_empty());
}

// DF-02, DF-03
#[test]
fn an_object_keeps_its_place_in_the_queue_until_it_is_taken() {
    let fifo = Fifo::new();
    fifo.push(Delta::Added(object("a", 1)));
    fifo.push(Delta::Added(object("b", 2)));
    fifo.push(Delta::Updated(object("a", 3)));

    let first = pop(&fifo);
    assert_eq!(show_object_changes(first.items()), ["Added a@1, Updated a@3"]);
    first.acknowledge();
    fifo.push(Delta::Updated(object("a", 4)));

    assert_eq!(pop_all(&fifo), ["Added b@2", "Updated a@4"]);
}

// DF-05
#[test]
fn deltas_have_one_key_and_are_never_empty() {
    let fifo = Fifo::new();
    fifo.push(Delta::Added(object("n/x", 1)));
    fifo.push(Delta::Updated(object("n/x", 2)));
    let deltas = fifo.waiting(&key("n/x")).unwrap();
    assert_eq!((deltas.key(), deltas.len()), (&key("n/x"), 2));
    assert_eq!(deltas.newest().object().version().as_str(), "2");
    assert!(fifo.waiting(&key("n/y")).is_none());

    fifo.push(Delta::Added(object("n/y", 1)));
    fifo.push(Delta::Deleted(Deleted::Missed { last_known: object("n/y", 1) }));
    let gone = fifo.waiting(&key("n/y")).unwrap();
    assert_eq!((gone.key(), gone.newest().is_deleted()), (&key("n/y"), true));
}

// HC-05, as far as this queue is concerned
#[test]
fn a_delete_of_an_unknown_object_is_dropped() {
    let fifo = Fifo::new();
    fifo.push(Delta::Added(object("x", 1)));
    fifo.push(Delta::Updated(object("x", 2)));
    fifo.push(Delta::Deleted(observed("x", 3)));
    fifo.push(Delta::Deleted(observed("y", 4)));

    assert_eq!(pop_all(&fifo), ["Added x@1, Updated x@2, Deleted x@3"]);
}

// DF-07
#[test]
fn without_known_objects_a_delete_of_an_object_that_is_not_queued_is_dropped() {
    let fifo = Fifo::new();
    fifo.push(Delta::Deleted(observed("x", 1)));
    fifo.push(Delta::Added(object("y", 2)));
    fifo.push(Delta::Deleted(observed("y", 3)));

    assert_eq!(pop_all(&fifo), ["Added y@2, Deleted y@3"]);
}

// DF-08
#[test]
fn with_known_objects_a_delete_is_dropped_only_if_the_object_is_neither_known_nor_queued() {
    let fifo = fifo_with_known([("known", 1)]);
    fifo.push(Delta::Deleted(observed("known", 2)));
    fifo.push(Delta::Added(object("queued", 3)));
    fifo.push(Delta::Deleted(observed("queued", 4)));
    fifo.push(Delta::Deleted(observed("unknown", 5)));

    assert_eq!(pop_all(&fifo), ["Deleted known@2", "Added queued@3, Deleted queued@4"]);
}

// DF-09
#[test]
fn a_dropped_delete_counts_as_the_first_change_and_makes_the_queue_synced() {
    let fifo = Fifo::new();
    assert!(!fifo.is_synced());

    fifo.push(Delta::Deleted(observed("x", 1)));

    assert!(fifo.is_synced());
    fifo.push(list(2, [("y", 2)]));
    assert_eq!(origins(&pop(&fifo)), [Origin::Live]);
}

// DF-10, DF-14, DF-15, DF-17, HC-04
#[test]
fn of_two_consecutive_deletes_the_one_with_the_final_state_is_kept() {
    let fifo = fifo_with_known([("x", 1)]);
    fifo.push(Delta::Deleted(observed("x", 5)));
    fifo.push(list(6, []));
    assert_eq!(pop_all(&fifo), ["Deleted x@5"]);

    for fifo in [Fifo::new(), fifo_with_known([]), fifo_with_known([("x", 1)])] {
        fifo.push(Delta::Added(object("x", 1)));
        fifo.push(list(6, []));
        fifo.push(Delta::Deleted(observed("x", 7)));
        assert_eq!(pop_all(&fifo), ["Added x@1, Deleted x@7"]);
    }

    for fifo in [Fifo::new(), fifo_with_known([])] {
        fifo.push(Delta::Added(object("x", 1)));
        fifo.push(list(6, []));
        fifo.push(list(7, []));
        assert_eq!(pop_all(&fifo), ["Added x@1, Missed x@1"]);
    }
}

// DF-11
#[test]
fn no_deltas_but_deletes_are_coalesced() {
    let fifo = Fifo::new();
    fifo.push(Delta::Added(object("x", 1)));
    fifo.push(Delta::Added(object("x", 1)));
    fifo.push(Delta::Updated(object("x", 2)));
    fifo.push(Delta::Updated(object("x", 2)));
    fifo.push(list(3, [("x", 2)]));
    fifo.push(list(3, [("x", 2)]));

    let all = "Added x@1, Added x@1, Updated x@2, Updated x@2, Replaced x@2, Replaced x@2";
    assert_eq!(pop_all(&fifo), [all]);
}

// DF-12
#[test]
fn a_relist_is_queued_in_list_order_as_replaced_or_as_sync_deltas() {
    let fifo = Fifo::new();
    fifo.push(list(3, [("b", 2), ("a", 1)]));
    assert_eq!(pop_all(&fifo), ["Replaced b@2", "Replaced a@1"]);

    let fifo = DeltaFifo::builder().emit_replaced(false).build();
    fifo.push(list(3, [("b", 2), ("a", 1)]));
    assert_eq!(pop_all(&fifo), ["Sync b@2", "Sync a@1"]);
}

// DF-13, DF-14, DF-15, DF-18
#[test]
fn a_relist_deletes_absent_objects_with_their_newest_state_queued_ones_first() {
    let fifo = fifo_with_known([("known", 1), ("both", 2), ("listed", 3)]);
    fifo.push(Delta::Updated(object("both", 4)));
    fifo.push(Delta::Added(object("queued", 5)));

    fifo.push(list(9, [("listed", 3)]));

    let all =
        ["Updated both@4, Missed both@4", "Added queued@5, Missed queued@5", "Missed known@1", "Replaced listed@3"];
    assert_eq!(pop_all(&fifo), all);
}

// DF-16
#[test]
fn a_deleted_object_that_is_in_the_relist_has_a_delete_and_a_replaced_delta() {
    let fifo = fifo_with_known([("x", 1)]);
    fifo.push(Delta::Deleted(observed("x", 5)));

    fifo.push(list(9, [("x", 8)]));

    assert_eq!(pop_all(&fifo), ["Deleted x@5, Replaced x@8"]);
}

/// Known objects whose methods panic.
struct PanickingCache;

impl KnownObjects<()> for PanickingCache {
    fn get(&self, _: &Key) -> Option<Object> {
        panic!("on purpose")
    }

    fn list(&self) -> Vec<Object> {
        panic!("on purpose")
    }
}

// DF-20, but a relist cannot stop half-way
#[test]
fn a_relist_whose_known_objects_panic_changes_nothing() {
    let fifo = DeltaFifo::builder().known_objects(Arc::new(PanickingCache)).build();

    let replaced = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| fifo.push(list(9, [("x", 1)]))));

    assert!(replaced.is_err());
    assert!(fifo.try_pop().unwrap().is_none());
    assert!(!fifo.is_synced());
}

// Decision 3
#[test]
fn a_relist_keeps_quarantined_objects_of_the_same_uid_and_deletes_those_of_another() {
    let fifo = fifo_with_known([("same", 1), ("other", 2), ("unknown-uid", 3)]);
    fifo.push(Delta::Updated(object("queued", 4)));
    let quarantined = [("same", "u1"), ("other", "u2"), ("unknown-uid", ""), ("queued", "u1"), ("never-seen", "u9")];
    let quarantined = quarantined.map(|(name, uid)| (key(name), Uid::new(uid))).to_vec();

    fifo.push(Relist { version: "9".into(), objects: vec![], quarantined, history_changed: false });

    assert_eq!(pop_all(&fifo), ["Updated queued@4", "Missed other@2"]);
}

// Decision 3
#[test]
fn delete_unread_queues_a_missed_delete_with_the_newest_state() {
    let fifo = fifo_with_known([("known", 1), ("in-flight", 2)]);
    fifo.push(Delta::Updated(object("in-flight", 3)));
    let batch = pop(&fifo);
    fifo.push(Delta::Updated(object("queued", 4)));

    for (name, version) in [("known", "5"), ("in-flight", "6"), ("queued", "7"), ("unknown", "8")] {
        fifo.push(Change::DeletedUnread { key: key(name), version: Some(version.into()) });
    }

    batch.acknowledge();
    let rest = drain(&fifo);
    let mut shown = show_object_changes(rest.items());
    shown.sort();
    assert_eq!(shown, ["Missed in-flight@3", "Missed known@1", "Updated queued@4, Missed queued@4"]);
    assert_eq!(rest.version(), Some(&"8".into()));
}

// HC-07, as far as the queue is concerned
#[test]
fn an_observed_delete_precedes_the_next_incarnation_and_a_missed_one_shows_in_the_uid() {
    for is_delete_observed in [true, false] {
        let fifo = fifo_with_known([("x", 1), ("p2", 2), ("p3", 3)]);
        if is_delete_observed {
            fifo.push(Delta::Deleted(observed("x", 5)));
        }
        let recreated: Object = object_of_incarnation("x", 8, "u2");

        let objects = vec![recreated, object("p2", 2), object("p4", 6)];
        fifo.push(Relist { version: "9".into(), objects, quarantined: vec![], history_changed: false });

        let batch = drain(&fifo);
        let (expected, x) = match is_delete_observed {
            true => (["Deleted x@5, Replaced x@8", "Missed p3@3", "Replaced p2@2", "Replaced p4@6"], 0),
            false => (["Missed p3@3", "Replaced x@8", "Replaced p2@2", "Replaced p4@6"], 1),
        };
        assert_eq!(show_object_changes(batch.items()), expected);
        assert_eq!(batch.items()[x].deltas().newest().object().uid(), &Uid::new("u2"));
        batch.acknowledge();
    }
}

// DF-31, DF-33
#[test]
fn a_resync_replays_the_known_objects() {
    let fifo = Fifo::new();
    fifo.push(Change::Resync);
    assert!(fifo.try_pop().unwrap().is_none());

    let cache = cache_of([("x", 1)]);
    let fifo = DeltaFifo::builder().known_objects(Arc::new(cache.lister())).build();
    fifo.push(Change::Resync);
    assert!(!fifo.is_synced(), "a resync does not count as the first change");
    let batch = pop(&fifo);
    assert_eq!(show_object_changes(batch.items()), ["Sync x@1"]);
    let stored = cache.lister().get(&key("x")).unwrap();
    assert!(Cached::ptr_eq(batch.items()[0].deltas().newest().object(), &stored));
}

// DF-32
#[test]
fn a_resync_skips_objects_that_are_queued_or_in_flight() {
    let fifo = fifo_with_known([("deleted", 1), ("updated", 2), ("taken", 3), ("idle", 4)]);
    fifo.push(Delta::Updated(object("taken", 5)));
    let batch = pop(&fifo);
    fifo.push(Delta::Deleted(observed("deleted", 6)));
    fifo.push(Delta::Updated(object("updated", 7)));

    fifo.push(Change::Resync);

    assert_eq!(pop_all(&fifo), ["Deleted deleted@6", "Updated updated@7", "Sync idle@4"]);
    batch.acknowledge();
    assert!(fifo.is_empty());
}
