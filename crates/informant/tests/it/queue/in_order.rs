//! `Queue`, in the server's order.

use std::{
    collections::BTreeSet,
    num::NonZeroUsize,
    sync::{Arc, Weak},
    time::Duration,
};

use informant::{
    Cached, Origin, Uid,
    delta::{Change, Delta, Relist},
    queue::{Batch, Closed, ItemOutcome, Queue},
    store::Indexer,
};
use tokio::time::timeout;

use crate::support::{
    Logs, Tracked, key, known, list, object, object_of_incarnation, observed, poll_once, show_object_changes,
};

type Fifo = Queue<()>;

/// A queue over a cache that holds these objects.
fn fifo_with_known<const N: usize>(objects: [(&str, u64); N]) -> Fifo {
    Queue::builder().in_order().known_objects(known(objects)).build()
}

fn pop(fifo: &Fifo) -> Batch<()> {
    fifo.try_pop().unwrap().expect("the queue is not empty")
}

fn drain(fifo: &Fifo) -> Batch<()> {
    fifo.try_drain().unwrap().expect("the queue is not empty")
}

/// Takes and acknowledges all changes, one at a time.
fn pop_all(fifo: &Fifo) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(batch) = fifo.try_pop().unwrap() {
        all.extend(show_object_changes(batch.items()));
        batch.acknowledge();
    }
    all
}

/// Takes and acknowledges all batches: the changes and the origin of each.
fn drain_all(fifo: &Fifo) -> Vec<(Vec<String>, Origin)> {
    let mut all = Vec::new();
    while let Some(batch) = fifo.try_drain().unwrap() {
        let origins: Vec<_> = batch.items().iter().map(informant::queue::ObjectChanges::origin).collect();
        assert!(origins.windows(2).all(|pair| pair[0] == pair[1]), "all changes of a batch have the same origin");
        // A batch without changes only carries a version.
        if let [origin, ..] = origins[..] {
            all.push((show_object_changes(batch.items()), origin));
        }
        batch.acknowledge();
    }
    all
}

// RF-01, RF-02, RF-03, HC-05
#[test]
fn no_change_is_coalesced_reordered_or_dropped() {
    for fifo in [Fifo::in_order(), fifo_with_known([])] {
        fifo.push(Delta::Added(object("x", 1)));
        fifo.push(Delta::Updated(object("x", 2)));
        fifo.push(Delta::Deleted(observed("x", 3)));
        fifo.push(Delta::Deleted(observed("y", 4)));

        assert_eq!(pop_all(&fifo), ["Added x@1", "Updated x@2", "Deleted x@3", "Deleted y@4"]);
    }
}

// RF-07, RF-09
#[test]
fn a_relist_becomes_deletes_of_queued_and_known_objects_and_the_listed_ones() {
    let fifo = fifo_with_known([("known", 1), ("both", 2), ("listed", 3)]);
    fifo.push(Delta::Added(object("queued-2nd", 4)));
    fifo.push(Delta::Added(object("queued-1st", 5)));
    fifo.push(Delta::Updated(object("both", 6)));
    fifo.push(Delta::Updated(object("queued-2nd", 7)));

    fifo.push(list(9, [("new", 8), ("listed", 3)]));

    let before = ["Added queued-2nd@4", "Added queued-1st@5", "Updated both@6", "Updated queued-2nd@7"];
    let deletes = ["Missed queued-2nd@7", "Missed queued-1st@5", "Missed both@6", "Missed known@1"];
    let listed = ["Replaced new@8", "Replaced listed@3"];
    assert_eq!(pop_all(&fifo), [&before[..], &deletes, &listed].concat());
}

// RF-08
#[test]
fn a_relist_repeats_a_queued_delete_only_after_an_add() {
    let fifo = fifo_with_known([("x", 1)]);
    fifo.push(list(5, []));
    fifo.push(list(6, []));
    assert_eq!(pop_all(&fifo), ["Missed x@1"]);
    assert_eq!(fifo.reached(), Some("6".into()));

    let fifo = fifo_with_known([("x", 1)]);
    fifo.push(list(5, []));
    fifo.push(Delta::Added(object("x", 6)));
    fifo.push(list(7, []));
    assert_eq!(pop_all(&fifo), ["Missed x@1", "Added x@6", "Missed x@6"]);
}

// RF-10
#[test]
fn a_deleted_object_that_is_in_the_relist_has_a_delete_and_a_replaced_delta() {
    let fifo = fifo_with_known([("x", 1)]);
    fifo.push(Delta::Deleted(observed("x", 5)));

    fifo.push(list(9, [("x", 8)]));

    assert_eq!(pop_all(&fifo), ["Deleted x@5", "Replaced x@8"]);
}

// HC-07, as far as the queue is concerned
#[test]
fn an_observed_delete_precedes_the_next_incarnation_and_a_missed_one_shows_in_the_uid() {
    for is_delete_observed in [true, false] {
        let fifo = fifo_with_known([("x", 1), ("p2", 2), ("p3", 3)]);
        if is_delete_observed {
            fifo.push(Delta::Deleted(observed("x", 5)));
        }

        let objects = vec![object_of_incarnation("x", 8, "u2"), object("p2", 2), object("p4", 6)];
        fifo.push(Relist { version: "9".into(), objects, quarantined: vec![], history_changed: false });

        let observed: &[&str] = if is_delete_observed { &["Deleted x@5"] } else { &[] };
        let rest = ["Missed p3@3", "Replaced x@8", "Replaced p2@2", "Replaced p4@6"];
        assert_eq!(pop_all(&fifo), [observed, &rest].concat());
    }
}

// RF-12
#[test]
fn a_resync_skips_objects_that_are_queued_or_in_flight() {
    let fifo = fifo_with_known([("deleted", 1), ("updated", 2), ("taken", 3), ("idle", 4)]);
    fifo.push(Delta::Updated(object("taken", 5)));
    let batch = pop(&fifo);
    fifo.push(Delta::Deleted(observed("deleted", 6)));
    fifo.push(Delta::Updated(object("updated", 7)));

    fifo.push(Change::Resync);

    batch.acknowledge();
    assert_eq!(pop_all(&fifo), ["Deleted deleted@6", "Updated updated@7", "Sync idle@4"]);
}

// RF-11, RF-13, RF-14, but a relist is a batch of its own and not one change
#[test]
fn a_relist_keeps_its_place_in_server_order() {
    let fifo = fifo_with_known([("y", 1)]);
    fifo.push(Delta::Added(object("x", 2)));
    fifo.push(list(5, [("x", 4), ("z", 3)]));
    fifo.push(Delta::Updated(object("x", 6)));
    fifo.push(list(7, []));

    let batches: Vec<_> = drain_all(&fifo).into_iter().map(|(batch, _)| batch).collect();
    let expected: [&[&str]; 4] = [
        &["Added x@2"],
        &["Missed y@1", "Replaced x@4", "Replaced z@3"],
        &["Updated x@6"],
        &["Missed x@6", "Missed z@3"],
    ];
    assert_eq!(batches, expected);
    assert_eq!(fifo.reached(), Some("7".into()));
}

// RF-15, but a resync is a batch of its own and not one change
#[test]
fn a_resync_keeps_its_place_in_server_order() {
    let fifo = fifo_with_known([("y", 1), ("z", 1)]);
    fifo.push(Delta::Updated(object("x", 1)));
    fifo.push(Change::Resync);
    fifo.push(Delta::Updated(object("x", 2)));

    let batches: Vec<_> = drain_all(&fifo).into_iter().map(|(batch, _)| batch.len()).collect();
    assert_eq!(batches, [1, 2, 1]);
}

// RF-16, but bookmarks are always on (decision 13)
#[test]
fn a_bookmark_is_taken_with_its_version_and_does_not_make_the_queue_synced() {
    let fifo = Fifo::in_order();
    fifo.push(Change::Bookmark("7".into()));
    assert!(!fifo.is_synced());
    let batch = pop(&fifo);
    assert_eq!(batch.version(), Some(&"7".into()));
    batch.acknowledge();
    assert_eq!(fifo.reached(), Some("7".into()));
    assert!(!fifo.is_synced());
}

// RF-17, RF-19
#[test]
fn a_queue_that_begins_with_a_list_is_synced_when_all_its_changes_are_acknowledged() {
    let fifo = fifo_with_known([("gone", 1)]);
    fifo.push(Change::Bookmark("3".into()));
    fifo.push(list(9, [("b", 2), ("a", 3), ("a", 4)]));
    fifo.push(Delta::Updated(object("a", 10)));

    for taken in ["Missed gone@1", "Replaced b@2", "Replaced a@4"] {
        assert!(!fifo.is_synced());
        let batch = pop(&fifo);
        assert_eq!(
            (show_object_changes(batch.items()), batch.items()[0].origin()),
            (vec![taken.to_owned()], Origin::InitialList)
        );
        assert!(!fifo.is_synced(), "the queue is not synced while the change is in flight");
        batch.acknowledge();
    }
    assert!(fifo.is_synced());
    assert_eq!(pop(&fifo).items()[0].origin(), Origin::Live);
}

// RF-18 and HC-01, but the empty list must be processed
#[test]
fn a_queue_that_begins_with_an_empty_list_is_synced_when_its_version_is_acknowledged() {
    for fifo in [Fifo::in_order(), fifo_with_known([])] {
        fifo.push(list(50, []));

        assert!(!fifo.is_synced());
        let batch = pop(&fifo);
        assert_eq!((batch.items().len(), batch.version()), (0, Some(&"50".into())));
        assert!(!fifo.is_synced());
        batch.acknowledge();
        assert!(fifo.is_synced());
        assert_eq!(fifo.reached(), Some("50".into()));
    }
}

// RF-20; RF-30, but the change is requeued
#[test]
fn a_requeued_change_is_taken_next_and_the_queue_is_synced_without_it() {
    let fifo = Fifo::in_order();
    fifo.push(list(9, [("x", 1)]));
    fifo.push(Delta::Updated(object("y", 10)));

    drain(&fifo).requeue();

    assert!(fifo.is_synced());
    assert_eq!(fifo.reached(), None);
    assert_eq!(
        drain_all(&fifo),
        [(vec!["Replaced x@1".to_owned()], Origin::InitialList), (vec!["Updated y@10".to_owned()], Origin::Live),]
    );
    assert_eq!(fifo.reached(), Some("10".into()));
}

// Decision 8, decision 13
#[test]
fn the_reached_version_waits_for_a_requeued_part_of_a_batch() {
    let fifo = Fifo::in_order();
    for (name, version) in [("a", 1), ("b", 2), ("c", 3)] {
        fifo.push(Delta::Added(object(name, version)));
    }
    fifo.push(Delta::Added(object("b", 4)));

    drain(&fifo).settle(|item| match item.key().name() {
        "b" => ItemOutcome::Requeue { processed: 0 },
        _ => ItemOutcome::Done,
    });

    assert_eq!(fifo.reached(), Some("1".into()), "all changes before b are acknowledged");
    let batch = drain(&fifo);
    assert_eq!(show_object_changes(batch.items()), ["Added b@2"]);
    assert_eq!(batch.version(), Some(&"3".into()), "c is acknowledged already");
    batch.acknowledge();
    assert_eq!(fifo.reached(), Some("3".into()));
}

// Decision 13
#[test]
fn a_resync_and_a_list_without_a_version_do_not_change_the_reached_version() {
    let fifo = fifo_with_known([("x", 1)]);
    fifo.push(Change::Bookmark("7".into()));
    pop(&fifo).acknowledge();

    fifo.push(Change::Resync);
    let batch = pop(&fifo);

    assert_eq!((show_object_changes(batch.items()), batch.version()), (vec!["Sync x@1".to_owned()], None));
    batch.acknowledge();
    let fifo = fifo_with_known([("x", 1)]);
    fifo.push(Change::Bookmark("7".into()));
    fifo.push(Relist { version: "".into(), objects: vec![], quarantined: vec![], history_changed: false });
    pop_all(&fifo);
    assert_eq!(fifo.reached(), Some("7".into()), "a list without a version keeps the reached one");
}

// RF-21
#[test]
fn a_queue_that_begins_with_a_single_change_is_synced_at_once() {
    let begin: [fn(&Fifo); 3] = [
        |fifo| fifo.push(Delta::Added(object("x", 1))),
        |fifo| fifo.push(Delta::Updated(object("x", 1))),
        |fifo| fifo.push(Delta::Deleted(observed("x", 1))),
    ];
    for begin in begin {
        let fifo = Fifo::in_order();
        begin(&fifo);
        assert!(fifo.is_synced());
    }
}

// RF-22, RF-23, RF-24, RF-25, RF-26, HC-36
#[test]
fn a_batch_has_each_object_once_and_a_list_is_a_batch_of_its_own() {
    type Batches<'a> = &'a [&'a [&'a str]];
    let check = |size: usize, initial: &[&str], updates: &[&str], expected: Batches<'_>| {
        let fifo =
            Queue::builder().in_order().known_objects(known([])).batch_size(NonZeroUsize::new(size).unwrap()).build();
        let objects = initial.iter().map(|name| object(name, 1)).collect();
        fifo.push(Relist { version: "2".into(), objects, quarantined: vec![], history_changed: false });
        for name in updates {
            match *name {
                "bookmark" => fifo.push(Change::Bookmark("4".into())),
                name => fifo.push(Delta::Updated(object(name, 3))),
            }
        }
        let batches = drain_all(&fifo);
        for (batch, origin) in &batches {
            let is_initial = batch.iter().all(|change| change.starts_with("Replaced"));
            assert_eq!(*origin == Origin::InitialList, is_initial);
        }
        let shown: Vec<_> = batches.into_iter().map(|(batch, _)| batch).collect();
        let expected: Vec<Vec<_>> =
            expected.iter().map(|batch| batch.iter().map(|change| (*change).to_owned()).collect()).collect();
        assert_eq!(shown, expected);
    };

    let [r1, r2, r3] = ["Replaced 1@1", "Replaced 2@1", "Replaced 3@1"];
    let [u1, u2, u3, u4] = ["Updated 1@3", "Updated 2@3", "Updated 3@3", "Updated 4@3"];
    check(2, &["1", "2"], &["3", "4"], &[&[r1, r2], &[u3, u4]]);
    check(1000, &["1"], &["1", "1"], &[&[r1], &[u1], &[u1]]);
    check(1000, &["1", "2"], &["2", "3"], &[&[r1, r2], &[u2, u3]]);
    check(2, &["1", "2", "3"], &["4"], &[&[r1, r2, r3], &[u4]]);
    check(1000, &["1"], &["2", "bookmark", "3"], &[&[r1], &[u2, u3]]);
}

// RF-25, but a bookmark is the version of a batch
#[test]
fn a_relist_and_a_resync_have_a_batch_of_their_own() {
    let fifo =
        Fifo::builder().batch_size(NonZeroUsize::new(2).unwrap()).known_objects(known([("c", 1), ("d", 1)])).build();
    fifo.push(Delta::Updated(object("a", 1)));
    fifo.push(Change::Resync);
    fifo.push(Change::DeletedUnread { key: key("a"), version: Some("3".into()) });
    fifo.push(Delta::Updated(object("b", 4)));
    fifo.push(list(5, []));
    fifo.push(Change::Bookmark("6".into()));

    let batches: Vec<_> = drain_all(&fifo).into_iter().map(|(batch, _)| batch).collect();

    assert_eq!(batches[0], ["Updated a@1"]);
    assert_eq!(
        batches[1].iter().collect::<BTreeSet<_>>(),
        ["Sync c@1".to_owned(), "Sync d@1".to_owned()].iter().collect()
    );
    assert_eq!(batches[2], ["Missed a@1", "Updated b@4"]);
    assert_eq!(batches[3].len(), 3, "all deletes of the relist, although they are more than the size of a batch");
    assert_eq!(fifo.reached(), Some("6".into()));
}

// RF-28 and HC-37, but the producer waits in `room`
#[tokio::test(start_paused = true)]
async fn room_waits_while_a_batch_is_in_flight_and_two_more_are_queued() {
    let filled = |count: u64| {
        let fifo = Fifo::in_order();
        (0..count).for_each(|number| fifo.push(Delta::Added(object(&format!("x{number}"), number + 1))));
        fifo
    };

    let fifo = filled(3000);
    fifo.room().await;
    let batch = fifo.drain().await.unwrap();
    assert_eq!(batch.items().len(), 1000);
    assert!(timeout(Duration::from_secs(60), fifo.room()).await.is_err());
    assert!(fifo.is_synced(), "the queue can be read while it is full");
    batch.acknowledge();
    fifo.room().await;

    let fifo = filled(2999);
    let batch = fifo.drain().await.unwrap();
    fifo.room().await;
    batch.acknowledge();
}

// RF-29, decision 6
#[tokio::test(start_paused = true)]
async fn only_one_batch_is_in_flight_at_a_time() {
    let fifo = Fifo::in_order();
    fifo.push(Delta::Added(object("x", 1)));
    fifo.push(Delta::Added(object("y", 2)));
    let first = fifo.pop().await.unwrap();

    let mut second = Box::pin(fifo.pop());
    assert!(poll_once(&mut second).await.is_none());
    assert!(fifo.try_drain().unwrap().is_none());
    first.acknowledge();

    assert_eq!(show_object_changes(second.await.unwrap().items()), ["Added y@2"]);
}

// Decision 6
#[tokio::test(start_paused = true)]
async fn every_push_wakes_a_waiting_drain() {
    type Push = (&'static str, fn(&Fifo));
    let pushes: [Push; 7] = [
        ("add", |fifo| fifo.push(Delta::Added(object("x", 5)))),
        ("update", |fifo| fifo.push(Delta::Updated(object("x", 5)))),
        ("delete", |fifo| fifo.push(Delta::Deleted(observed("x", 5)))),
        ("delete_unread", |fifo| fifo.push(Change::DeletedUnread { key: key("x"), version: Some("5".into()) })),
        ("replace", |fifo| fifo.push(list(5, []))),
        ("resync", |fifo| fifo.push(Change::Resync)),
        ("bookmark", |fifo| fifo.push(Change::Bookmark("5".into()))),
    ];
    for (name, push) in pushes {
        let fifo = fifo_with_known([("x", 1)]);
        let mut next = Box::pin(fifo.drain());
        assert!(poll_once(&mut next).await.is_none());
        push(&fifo);
        assert!(timeout(Duration::from_secs(1), next).await.is_ok(), "drain after {name}");
    }
}

// Decision 6
#[tokio::test(start_paused = true)]
async fn acknowledge_wakes_waiting_synced_and_room() {
    let fifo = Fifo::builder().in_order().batch_size(NonZeroUsize::MIN).build();
    fifo.push(list(9, [("a", 1)]));
    fifo.push(Delta::Added(object("x", 10)));
    fifo.push(Delta::Added(object("y", 11)));
    let batch = fifo.pop().await.unwrap();
    let (mut synced, mut room) = (Box::pin(fifo.synced()), Box::pin(fifo.room()));
    assert!(poll_once(&mut synced).await.is_none());
    assert!(poll_once(&mut room).await.is_none());

    batch.acknowledge();

    assert_eq!(timeout(Duration::from_secs(1), synced).await, Ok(Ok(())));
    assert!(timeout(Duration::from_secs(1), room).await.is_ok());
}

// RF-31
#[tokio::test(start_paused = true)]
async fn close_wakes_every_waiting_drain_and_queued_changes_are_still_delivered() {
    let fifo = Fifo::in_order();
    let waiting: Vec<_> = (0..3)
        .map(|_| {
            let fifo = fifo.clone();
            tokio::spawn(async move { fifo.drain().await.map(drop) })
        })
        .collect();
    tokio::task::yield_now().await;

    fifo.close();

    for drain in waiting {
        assert_eq!(drain.await.unwrap(), Err(Closed));
    }
    fifo.push(Delta::Added(object("x", 1)));
    fifo.push(Delta::Added(object("y", 2)));
    for expected in ["Added x@1", "Added y@2"] {
        let batch = fifo.pop().await.unwrap();
        assert_eq!(show_object_changes(batch.items()), [expected]);
        batch.acknowledge();
    }
    assert_eq!(fifo.pop().await.unwrap_err(), Closed);
}

// RF-36
#[test]
fn the_queue_holds_no_handle_of_acknowledged_objects() {
    let known = Arc::new(Indexer::new().lister());
    for fifo in [Queue::in_order(), Queue::builder().in_order().known_objects(known).build()] {
        let held = Cached::new(object("x", 1).identity().clone(), Tracked::new(()));
        let watch = held.watch();
        fifo.push(Delta::Added(held));

        fifo.try_pop().unwrap().expect("the queue is not empty").acknowledge();

        assert!(Weak::upgrade(&watch).is_none());
    }
}

// RF-39, but the count is exact
#[test]
fn a_bookmark_taken_before_the_first_list_does_not_make_the_queue_synced() {
    let fifo = Fifo::in_order();
    fifo.push(Change::Bookmark("3".into()));
    let bookmark = pop(&fifo);
    fifo.push(list(9, [("x", 1)]));

    bookmark.acknowledge();

    assert!(!fifo.is_synced(), "the queue is not synced while the list is queued");
    pop(&fifo).acknowledge();
    assert!(fifo.is_synced());
}

// Decision 3
#[test]
fn a_relist_keeps_quarantined_objects_of_the_same_uid_and_deletes_those_of_another() {
    let fifo = fifo_with_known([("same", 1), ("other", 2)]);
    let quarantined = vec![(key("same"), Uid::new("u1")), (key("other"), Uid::new("u2"))];

    fifo.push(Relist { version: "9".into(), objects: vec![], quarantined, history_changed: false });

    assert_eq!(pop_all(&fifo), ["Missed other@2"]);
}

// Decision 3
#[test]
fn an_unread_delete_becomes_a_missed_delete_with_the_newest_known_state() {
    let fifo = fifo_with_known([("known", 1), ("in-flight", 2)]);
    fifo.push(Delta::Updated(object("in-flight", 3)));
    let batch = pop(&fifo);
    for (name, version) in [("known", "5"), ("in-flight", "6"), ("unknown", "7"), ("known", "8")] {
        fifo.push(Change::DeletedUnread { key: key(name), version: Some(version.into()) });
    }
    batch.acknowledge();
    assert_eq!(pop_all(&fifo), ["Missed known@1", "Missed in-flight@3"]);
    assert_eq!(fifo.reached(), Some("8".into()));
}

// RF-37, RF-38
#[tokio::test(start_paused = true)]
async fn a_slow_batch_is_logged_with_the_name_of_the_queue_after_at_most_a_second() {
    let logs = Logs::capture();
    for (size, elapsed_ms, is_logged) in [(2, 199, false), (2, 200, true), (50, 999, false), (50, 1000, true)] {
        let fifo = Queue::builder().in_order().name("pods").batch_size(NonZeroUsize::new(size).unwrap()).build();
        (0..size + 11).for_each(|number| fifo.push(Delta::Added(object(&number.to_string(), 1))));
        let batch = fifo.drain().await.unwrap();

        tokio::time::advance(Duration::from_millis(elapsed_ms)).await;
        batch.acknowledge();

        let logged = logs.take();
        assert_eq!(logged.contains("processing changes is slow"), is_logged, "{size} {elapsed_ms}: {logged}");
        assert!(!is_logged || logged.contains(&format!(r#"informer="pods" count={size} waiting=11"#)), "{logged}");
    }
}

#[test]
fn a_batch_has_the_history_change_of_its_relist_until_it_is_acknowledged() {
    for fifo in [Fifo::in_order(), fifo_with_known([("a", 1)]), fifo_with_known([])] {
        fifo.push(Relist { history_changed: true, ..list(9, []) });
        fifo.push(Delta::Updated(object("a", 10)));

        let batch = drain(&fifo);
        assert!(batch.history_changed());
        batch.requeue();
        let batch = drain(&fifo);
        assert!(batch.history_changed(), "a requeued batch has it as well");
        batch.acknowledge();

        drain_all(&fifo);
        fifo.push(list(11, []));
        assert!(!drain(&fifo).history_changed());
    }
}
