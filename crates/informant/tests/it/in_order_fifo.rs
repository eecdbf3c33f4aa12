//! Tests of `InOrderFifo`, the queue that keeps every change in server order.

use std::{
    num::NonZeroUsize,
    sync::{Arc, Weak},
    time::Duration,
};

use informant::{
    Cached, Origin, Uid,
    delta::Relist,
    queue::{Closed, InOrderFifo, ItemOutcome, Receipt},
    store::Indexer,
};
use tokio::time::timeout;

use crate::support::{
    Logs, Tracked, key, known, list, object, object_of_incarnation, observed, poll_once, show_changes,
};

type Fifo = InOrderFifo<()>;

/// A queue over a cache that holds these objects; it splits a relist into one change per object.
fn fifo_with_known<const N: usize>(objects: [(&str, u64); N]) -> Fifo {
    InOrderFifo::builder().known_objects(known(objects)).build()
}

fn pop(fifo: &Fifo) -> Receipt<Fifo> {
    fifo.try_pop().unwrap().expect("the queue is not empty")
}

fn drain(fifo: &Fifo) -> Receipt<Fifo> {
    fifo.try_drain().unwrap().expect("the queue is not empty")
}

/// Takes and acknowledges all changes, one at a time.
fn pop_all(fifo: &Fifo) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(receipt) = fifo.try_pop().unwrap() {
        all.extend(show_changes(receipt.items()));
        receipt.acknowledge();
    }
    all
}

/// Takes and acknowledges all batches: the changes and the origin of each.
fn drain_all(fifo: &Fifo) -> Vec<(Vec<String>, Origin)> {
    let mut all = Vec::new();
    while let Some(receipt) = fifo.try_drain().unwrap() {
        let origins: Vec<_> = receipt.items().iter().map(informant::queue::InOrderChange::origin).collect();
        assert!(origins.windows(2).all(|pair| pair[0] == pair[1]), "all changes of a batch have the same origin");
        all.push((show_changes(receipt.items()), origins[0]));
        receipt.acknowledge();
    }
    all
}

// RF-01, RF-02, RF-03, HC-05
#[test]
fn no_change_is_coalesced_reordered_or_dropped() {
    for fifo in [Fifo::new(), fifo_with_known([])] {
        fifo.add(object("x", 1));
        fifo.update(object("x", 2));
        fifo.delete(observed("x", 3));
        fifo.delete(observed("y", 4));

        assert_eq!(pop_all(&fifo), ["Added x@1", "Updated x@2", "Deleted x@3", "Deleted y@4"]);
    }
}

// RF-07, RF-09
#[test]
fn with_known_objects_a_relist_is_split_into_deletes_of_queued_and_known_objects_and_the_listed_ones() {
    let fifo = fifo_with_known([("known", 1), ("both", 2), ("listed", 3)]);
    fifo.add(object("queued-2nd", 4));
    fifo.add(object("queued-1st", 5));
    fifo.update(object("both", 6));
    fifo.update(object("queued-2nd", 7));

    fifo.replace(list(9, [("new", 8), ("listed", 3)]));

    let before = ["Added queued-2nd@4", "Added queued-1st@5", "Updated both@6", "Updated queued-2nd@7"];
    let deletes = ["Missed queued-2nd@7", "Missed queued-1st@5", "Missed both@6", "Missed known@1"];
    let listed = ["Replaced new@8", "Replaced listed@3"];
    assert_eq!(pop_all(&fifo), [&before[..], &deletes, &listed].concat());
}

// RF-08
#[test]
fn with_known_objects_a_relist_repeats_a_queued_delete_only_after_an_add() {
    let fifo = fifo_with_known([("x", 1)]);
    fifo.replace(list(5, []));
    fifo.replace(list(6, []));
    assert_eq!(pop_all(&fifo), ["Missed x@1", "Bookmark@6"]);

    let fifo = fifo_with_known([("x", 1)]);
    fifo.replace(list(5, []));
    fifo.add(object("x", 6));
    fifo.replace(list(7, []));
    assert_eq!(pop_all(&fifo), ["Missed x@1", "Added x@6", "Missed x@6"]);
}

// RF-10
#[test]
fn a_deleted_object_that_is_in_the_relist_has_a_delete_and_a_replaced_delta() {
    let fifo = fifo_with_known([("x", 1)]);
    fifo.delete(observed("x", 5));

    fifo.replace(list(9, [("x", 8)]));

    assert_eq!(pop_all(&fifo), ["Deleted x@5", "Replaced x@8"]);
}

// HC-07, as far as the queue is concerned
#[test]
fn an_observed_delete_precedes_the_next_incarnation_and_a_missed_one_shows_in_the_uid() {
    for is_delete_observed in [true, false] {
        let fifo = fifo_with_known([("x", 1), ("p2", 2), ("p3", 3)]);
        if is_delete_observed {
            fifo.delete(observed("x", 5));
        }

        let objects = vec![object_of_incarnation("x", 8, "u2"), object("p2", 2), object("p4", 6)];
        fifo.replace(Relist { version: "9".into(), objects, quarantined: vec![], history_changed: false });

        let observed: &[&str] = if is_delete_observed { &["Deleted x@5"] } else { &[] };
        let rest = ["Missed p3@3", "Replaced x@8", "Replaced p2@2", "Replaced p4@6"];
        assert_eq!(pop_all(&fifo), [observed, &rest].concat());
    }
}

// RF-12
#[test]
fn with_known_objects_a_resync_skips_objects_that_are_queued_or_in_flight() {
    let fifo = fifo_with_known([("deleted", 1), ("updated", 2), ("taken", 3), ("idle", 4)]);
    fifo.update(object("taken", 5));
    let receipt = pop(&fifo);
    fifo.delete(observed("deleted", 6));
    fifo.update(object("updated", 7));

    fifo.resync();

    receipt.acknowledge();
    assert_eq!(pop_all(&fifo), ["Deleted deleted@6", "Updated updated@7", "Sync idle@4"]);
}

// RF-11, RF-13, RF-14
#[test]
fn a_relist_is_one_change_in_server_order() {
    let fifo = Fifo::new();
    fifo.add(object("x", 1));
    fifo.replace(list(5, [("x", 4), ("y", 2)]));
    fifo.update(object("x", 6));
    fifo.replace(list(7, []));

    let all = ["Added x@1", "ReplacedAll@5 [x@4 y@2]", "Updated x@6", "ReplacedAll@7 []"];
    assert_eq!(pop_all(&fifo), all);
}

// RF-15
#[test]
fn a_resync_is_one_change_in_push_order() {
    let fifo = Fifo::new();
    fifo.update(object("x", 1));
    fifo.resync();
    fifo.update(object("x", 2));

    assert_eq!(pop_all(&fifo), ["Updated x@1", "SyncAll", "Updated x@2"]);
}

// RF-16, but bookmarks are always on (decision 13)
#[test]
fn a_bookmark_is_taken_with_its_version_and_does_not_make_the_queue_synced() {
    let fifo = Fifo::new();
    fifo.bookmark("7".into());
    assert!(!fifo.is_synced());
    let receipt = pop(&fifo);
    assert_eq!(receipt.version(), Some(&"7".into()));
    receipt.acknowledge();
    assert_eq!(fifo.reached(), Some("7".into()));
    assert!(!fifo.is_synced());
}

// RF-17, RF-19
#[test]
fn a_queue_that_begins_with_a_list_is_synced_when_all_its_changes_are_acknowledged() {
    let fifo = fifo_with_known([("gone", 1)]);
    fifo.bookmark("3".into());
    fifo.replace(list(9, [("a", 2), ("a", 4)]));
    fifo.update(object("a", 10));

    for taken in ["Bookmark@3", "Missed gone@1", "Replaced a@2", "Replaced a@4"] {
        assert!(!fifo.is_synced());
        let receipt = pop(&fifo);
        assert_eq!(
            (show_changes(receipt.items()), receipt.items()[0].origin()),
            (vec![taken.to_owned()], Origin::InitialList)
        );
        assert!(!fifo.is_synced(), "the queue is not synced while the change is in flight");
        receipt.acknowledge();
    }
    assert!(fifo.is_synced());
    assert_eq!(pop(&fifo).items()[0].origin(), Origin::Live);
}

// RF-18 and HC-01, but the empty list must be processed
#[test]
fn a_queue_that_begins_with_an_empty_list_is_synced_when_its_marker_is_acknowledged() {
    for (fifo, marker) in [(Fifo::new(), "ReplacedAll@50 []"), (fifo_with_known([]), "Bookmark@50")] {
        fifo.replace(list(50, []));

        assert!(!fifo.is_synced());
        let receipt = pop(&fifo);
        assert_eq!(show_changes(receipt.items()), [marker]);
        assert_eq!(receipt.version(), Some(&"50".into()));
        assert!(!fifo.is_synced());
        receipt.acknowledge();
        assert!(fifo.is_synced());
        assert_eq!(fifo.reached(), Some("50".into()));
    }
}

// RF-20; RF-30, but the change is requeued
#[test]
fn a_requeued_change_is_taken_next_and_the_queue_is_synced_without_it() {
    let fifo = Fifo::new();
    fifo.replace(list(9, [("x", 1)]));
    fifo.update(object("y", 10));

    pop(&fifo).requeue();

    assert!(fifo.is_synced());
    assert_eq!(fifo.reached(), None);
    assert_eq!(
        drain_all(&fifo),
        [
            (vec!["ReplacedAll@9 [x@1]".to_owned()], Origin::InitialList),
            (vec!["Updated y@10".to_owned()], Origin::Live),
        ]
    );
    assert_eq!(fifo.reached(), Some("10".into()));
}

// Decision 8, decision 13
#[test]
fn the_reached_version_waits_for_a_requeued_part_of_a_batch() {
    let fifo = Fifo::new();
    for (name, version) in [("a", 1), ("b", 2), ("c", 3)] {
        fifo.add(object(name, version));
    }
    fifo.add(object("b", 4));

    drain(&fifo).settle(|taken| match taken.change().key().unwrap().name() {
        "b" => ItemOutcome::Requeue { processed: 0 },
        _ => ItemOutcome::Done,
    });

    assert_eq!(fifo.reached(), Some("1".into()), "all changes before b are acknowledged");
    let receipt = drain(&fifo);
    assert_eq!(show_changes(receipt.items()), ["Added b@2"]);
    assert_eq!(receipt.version(), Some(&"3".into()), "c is acknowledged already");
    receipt.acknowledge();
    assert_eq!(fifo.reached(), Some("3".into()));
}

// Decision 13
#[test]
fn a_resync_and_a_list_without_a_version_do_not_change_the_reached_version() {
    let fifo = Fifo::new();
    fifo.bookmark("7".into());
    pop(&fifo).acknowledge();

    fifo.resync();
    let receipt = pop(&fifo);

    assert_eq!((show_changes(receipt.items()), receipt.version()), (vec!["SyncAll".to_owned()], None));
    receipt.acknowledge();
    let fifo = fifo_with_known([("x", 1)]);
    fifo.bookmark("7".into());
    fifo.replace(Relist { version: "".into(), objects: vec![], quarantined: vec![], history_changed: false });
    pop_all(&fifo);
    assert_eq!(fifo.reached(), Some("7".into()), "a list without a version keeps the reached one");
}

// RF-21
#[test]
fn a_queue_that_begins_with_a_single_change_is_synced_at_once() {
    let begin: [fn(&Fifo); 3] =
        [|fifo| fifo.add(object("x", 1)), |fifo| fifo.update(object("x", 1)), |fifo| fifo.delete(observed("x", 1))];
    for begin in begin {
        let fifo = Fifo::new();
        begin(&fifo);
        assert!(fifo.is_synced());
    }
}

// RF-22, RF-23, RF-24, RF-25, RF-26, HC-36
#[test]
fn a_batch_has_each_object_once_and_does_not_extend_beyond_the_initial_list() {
    type Batches<'a> = &'a [&'a [&'a str]];
    let check = |size: usize, initial: &[&str], updates: &[&str], expected: Batches<'_>| {
        let fifo = InOrderFifo::builder().known_objects(known([])).batch_size(NonZeroUsize::new(size).unwrap()).build();
        let objects = initial.iter().map(|name| object(name, 1)).collect();
        fifo.replace(Relist { version: "2".into(), objects, quarantined: vec![], history_changed: false });
        for name in updates {
            match *name {
                "bookmark" => fifo.bookmark("4".into()),
                name => fifo.update(object(name, 3)),
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
    check(2, &["1", "2", "3"], &["4"], &[&[r1, r2], &[r3], &[u4]]);
    check(1000, &["1"], &["2", "bookmark", "3"], &[&[r1], &[u2], &["Bookmark@4"], &[u3]]);
}

// RF-25
#[test]
fn changes_that_concern_all_objects_have_a_batch_of_their_own() {
    let fifo = Fifo::new();
    fifo.update(object("a", 1));
    fifo.update(object("b", 2));
    fifo.resync();
    fifo.delete_unread(&key("a"), Some("3".into()));
    fifo.update(object("b", 4));
    fifo.replace(list(5, []));
    fifo.bookmark("6".into());

    let batches: Vec<_> = drain_all(&fifo).into_iter().map(|(batch, _)| batch).collect();

    let expected: [&[&str]; 5] = [
        &["Updated a@1", "Updated b@2"],
        &["SyncAll"],
        &["Lost a", "Updated b@4"],
        &["ReplacedAll@5 []"],
        &["Bookmark@6"],
    ];
    assert_eq!(batches, expected);
}

// RF-28 and HC-37, but the producer waits in `room`
#[tokio::test(start_paused = true)]
async fn room_waits_while_a_batch_is_in_flight_and_two_more_are_queued() {
    let filled = |count: u64| {
        let fifo = Fifo::new();
        (0..count).for_each(|number| fifo.add(object(&format!("x{number}"), number + 1)));
        fifo
    };

    let fifo = filled(3000);
    fifo.room().await;
    let receipt = fifo.drain().await.unwrap();
    assert_eq!(receipt.items().len(), 1000);
    assert!(timeout(Duration::from_secs(60), fifo.room()).await.is_err());
    assert!(fifo.is_synced(), "the queue can be read while it is full");
    receipt.acknowledge();
    fifo.room().await;

    let fifo = filled(2999);
    let receipt = fifo.drain().await.unwrap();
    fifo.room().await;
    receipt.acknowledge();
}

// RF-29, decision 6
#[tokio::test(start_paused = true)]
async fn only_one_batch_is_in_flight_at_a_time() {
    let fifo = Fifo::new();
    fifo.add(object("x", 1));
    fifo.add(object("y", 2));
    let first = fifo.pop().await.unwrap();

    let mut second = Box::pin(fifo.pop());
    assert!(poll_once(&mut second).await.is_none());
    assert!(fifo.try_drain().unwrap().is_none());
    first.acknowledge();

    assert_eq!(show_changes(second.await.unwrap().items()), ["Added y@2"]);
}

// Decision 6
#[tokio::test(start_paused = true)]
async fn every_push_wakes_a_waiting_drain() {
    type Push = (&'static str, fn(&Fifo));
    let pushes: [Push; 7] = [
        ("add", |fifo| fifo.add(object("x", 5))),
        ("update", |fifo| fifo.update(object("x", 5))),
        ("delete", |fifo| fifo.delete(observed("x", 5))),
        ("delete_unread", |fifo| fifo.delete_unread(&key("x"), Some("5".into()))),
        ("replace", |fifo| fifo.replace(list(5, []))),
        ("resync", |fifo| fifo.resync()),
        ("bookmark", |fifo| fifo.bookmark("5".into())),
    ];
    for (name, push) in pushes {
        for fifo in [Fifo::new(), fifo_with_known([("x", 1)])] {
            let mut next = Box::pin(fifo.drain());
            assert!(poll_once(&mut next).await.is_none());
            push(&fifo);
            assert!(timeout(Duration::from_secs(1), next).await.is_ok(), "drain after {name}");
        }
    }
}

// Decision 6
#[tokio::test(start_paused = true)]
async fn acknowledge_wakes_waiting_synced_and_room() {
    let fifo = Fifo::builder().batch_size(NonZeroUsize::MIN).build();
    fifo.replace(list(9, []));
    fifo.add(object("x", 10));
    fifo.add(object("y", 11));
    let receipt = fifo.pop().await.unwrap();
    let (mut synced, mut room) = (Box::pin(fifo.synced()), Box::pin(fifo.room()));
    assert!(poll_once(&mut synced).await.is_none());
    assert!(poll_once(&mut room).await.is_none());

    receipt.acknowledge();

    assert_eq!(timeout(Duration::from_secs(1), synced).await, Ok(Ok(())));
    assert!(timeout(Duration::from_secs(1), room).await.is_ok());
}

// RF-31
#[tokio::test(start_paused = true)]
async fn close_wakes_every_waiting_drain_and_queued_changes_are_still_delivered() {
    let fifo = Fifo::new();
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
    fifo.add(object("x", 1));
    fifo.add(object("y", 2));
    assert_eq!(show_changes(fifo.pop().await.unwrap().items()), ["Added x@1"]);
    assert_eq!(show_changes(fifo.pop().await.unwrap().items()), ["Added y@2"]);
    assert_eq!(fifo.pop().await.unwrap_err(), Closed);
}

// RF-36
#[test]
fn the_queue_holds_no_handle_of_acknowledged_objects() {
    let known = Arc::new(Indexer::new().lister());
    for fifo in [InOrderFifo::new(), InOrderFifo::builder().known_objects(known).build()] {
        let held = Cached::new(object("x", 1).identity().clone(), Tracked::new(()));
        let watch = held.watch();
        fifo.add(held);

        fifo.try_pop().unwrap().expect("the queue is not empty").acknowledge();

        assert!(Weak::upgrade(&watch).is_none());
    }
}

// RF-39, but the count is exact
#[test]
fn a_bookmark_taken_before_the_first_list_does_not_make_the_queue_synced() {
    let fifo = Fifo::new();
    fifo.bookmark("3".into());
    let bookmark = pop(&fifo);
    fifo.replace(list(9, [("x", 1)]));

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

    fifo.replace(Relist { version: "9".into(), objects: vec![], quarantined, history_changed: false });

    assert_eq!(pop_all(&fifo), ["Missed other@2"]);
}

// Decision 3
#[test]
fn delete_unread_queues_a_lost_change_or_a_missed_delete_with_the_newest_known_state() {
    let fifo = Fifo::new();
    fifo.delete_unread(&key("x"), Some("5".into()));
    let receipt = pop(&fifo);
    assert_eq!((show_changes(receipt.items()), receipt.version()), (vec!["Lost x".to_owned()], Some(&"5".into())));
    receipt.acknowledge();

    let fifo = fifo_with_known([("known", 1), ("in-flight", 2)]);
    fifo.update(object("in-flight", 3));
    let receipt = pop(&fifo);
    for (name, version) in [("known", "5"), ("in-flight", "6"), ("unknown", "7"), ("known", "8")] {
        fifo.delete_unread(&key(name), Some(version.into()));
    }
    receipt.acknowledge();
    assert_eq!(pop_all(&fifo), ["Missed known@1", "Missed in-flight@3", "Bookmark@7", "Bookmark@8"]);
    assert_eq!(fifo.reached(), Some("8".into()));
}

// RF-37, RF-38
#[tokio::test(start_paused = true)]
async fn a_slow_batch_is_logged_with_the_name_of_the_queue_after_at_most_a_second() {
    let logs = Logs::capture();
    for (batch, elapsed_ms, is_logged) in [(2, 199, false), (2, 200, true), (50, 999, false), (50, 1000, true)] {
        let fifo = InOrderFifo::builder().name("pods").batch_size(NonZeroUsize::new(batch).unwrap()).build();
        (0..batch + 11).for_each(|number| fifo.add(object(&number.to_string(), 1)));
        let receipt = fifo.drain().await.unwrap();

        tokio::time::advance(Duration::from_millis(elapsed_ms)).await;
        receipt.acknowledge();

        let logged = logs.take();
        assert_eq!(logged.contains("processing changes is slow"), is_logged, "{batch} {elapsed_ms}: {logged}");
        assert!(!is_logged || logged.contains(&format!(r#"informer="pods" count={batch} waiting=11"#)), "{logged}");
    }
}

#[test]
fn a_batch_has_the_history_change_of_its_relist_until_it_is_acknowledged() {
    for fifo in [Fifo::new(), fifo_with_known([("a", 1)]), fifo_with_known([])] {
        fifo.replace(Relist { history_changed: true, ..list(9, []) });
        fifo.update(object("a", 10));

        let receipt = drain(&fifo);
        assert!(receipt.history_changed());
        receipt.requeue();
        let receipt = drain(&fifo);
        assert!(receipt.history_changed(), "a requeued batch has it as well");
        receipt.acknowledge();

        fifo.replace(list(11, []));
        assert!(!drain(&fifo).history_changed());
    }
}
