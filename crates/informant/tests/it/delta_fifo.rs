//! The queue that groups changes by object.

use std::sync::Arc;
use std::time::Duration;

use informant::Deleted;
use informant::Delta;
use informant::Deltas;
use informant::DeltasError;
use informant::Key;
use informant::Origin;
use informant::Relist;
use informant::Uid;
use informant::queue::Answer;
use informant::queue::Closed;
use informant::queue::DeltaFifo;
use informant::queue::KnownObjects;
use informant::queue::Receipt;
use tokio::time::timeout;

use crate::support::Logs;
use crate::support::Object;
use crate::support::cache_of;
use crate::support::key;
use crate::support::known;
use crate::support::list;
use crate::support::object;
use crate::support::object_of_life;
use crate::support::observed;
use crate::support::poll_once;
use crate::support::show_deltas;
use crate::support::show_taken;

type Fifo = DeltaFifo<()>;

fn fifo_over<const N: usize>(objects: [(&str, u64); N]) -> Fifo {
    DeltaFifo::builder().known_objects(known(objects)).build()
}

fn pop(fifo: &Fifo) -> Receipt<Fifo> {
    fifo.try_pop().unwrap().expect("something waits")
}

fn drain(fifo: &Fifo) -> Receipt<Fifo> {
    fifo.try_drain().unwrap().expect("something waits")
}

/// Takes and finishes everything, one object at a time.
fn pop_all(fifo: &Fifo) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(receipt) = fifo.try_pop().unwrap() {
        all.extend(show_taken(receipt.items()));
        receipt.done();
    }
    all
}

fn origins(receipt: &Receipt<Fifo>) -> Vec<Origin> {
    receipt.items().iter().map(informant::queue::Taken::origin).collect()
}

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
    first.done();
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

// Decision 13
#[test]
fn a_dropped_delete_still_tells_its_version() {
    let fifo = Fifo::new();

    fifo.delete(observed("x", 7));

    let receipt = pop(&fifo);
    assert_eq!((receipt.items().len(), receipt.version()), (0, Some(&"7".into())));
    receipt.done();
    assert_eq!(fifo.reached(), Some("7".into()));
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

// DF-21, DF-22, DF-24
#[test]
fn a_queue_that_begins_with_a_list_is_synced_when_every_listed_key_is_done() {
    let fifo = Fifo::new();
    fifo.replace(&list(9, [("a", 1), ("b", 2), ("a", 3)]));
    assert!(!fifo.is_synced());

    let receipt = pop(&fifo);
    assert_eq!(show_taken(receipt.items()), ["Replaced a@1, Replaced a@3"]);
    receipt.done();
    assert!(!fifo.is_synced());
    pop(&fifo).done();
    assert!(fifo.is_synced());

    fifo.replace(&list(10, [("c", 4)]));
    assert!(fifo.is_synced(), "once synced, for ever");
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

// DF-21, DF-25
#[test]
fn deletes_that_the_first_list_brings_belong_to_the_initial_list() {
    let fifo = fifo_over([("gone", 1)]);
    fifo.replace(&list(9, [("here", 2)]));
    fifo.add(object("later", 10));

    let receipt = drain(&fifo);

    assert_eq!(show_taken(receipt.items()), ["Replaced here@2", "Missed gone@1", "Added later@10"]);
    assert_eq!(origins(&receipt), [Origin::InitialList, Origin::InitialList, Origin::Live]);
    receipt.done();
    assert!(fifo.is_synced());
}

// DF-23 and HC-01, with our outcome
#[test]
fn an_empty_first_list_is_synced_when_its_empty_receipt_is_done() {
    let fifo = Fifo::new();

    fifo.replace(&list(50, []));

    assert!(!fifo.is_synced());
    let receipt = pop(&fifo);
    assert_eq!((receipt.items().len(), receipt.version()), (0, Some(&"50".into())));
    assert!(!fifo.is_synced());
    receipt.done();
    assert!(fifo.is_synced());
    assert_eq!(fifo.reached(), Some("50".into()));
}

// DF-26, RF-19
#[tokio::test(start_paused = true)]
async fn sync_is_announced_after_the_last_initial_object_was_processed_not_when_it_is_taken() {
    let fifo = Fifo::new();
    fifo.replace(&list(9, [("x", 1)]));

    let receipt = fifo.pop().await.unwrap();
    assert!(!fifo.is_synced());
    assert!(timeout(Duration::from_secs(60), fifo.synced()).await.is_err());
    receipt.done();

    assert!(fifo.is_synced());
    fifo.synced().await.unwrap();
}

// DF-27, with our outcome
#[test]
fn producers_and_getters_do_not_wait_for_processing() {
    let fifo = Fifo::new();
    fifo.add(object("x", 1));

    let receipt = pop(&fifo);
    fifo.update(object("x", 2));
    fifo.add(object("y", 3));

    assert_eq!(show_deltas(&fifo.waiting(&key("x")).unwrap()), "Updated x@2");
    assert_eq!(fifo.waiting_keys(), [key("y"), key("x")]);
    receipt.done();
}

// Decision 6
#[test]
fn newer_changes_of_an_object_in_flight_are_not_handed_out_until_it_is_answered() {
    let fifo = Fifo::new();
    fifo.add(object("x", 1));
    let receipt = pop(&fifo);

    fifo.update(object("x", 2));
    assert_eq!(fifo.len(), 0);
    assert!(fifo.try_drain().unwrap().is_none());
    receipt.done();

    assert_eq!(pop_all(&fifo), ["Updated x@2"]);
}

// Decision 6
#[test]
fn a_dropped_receipt_is_done() {
    let fifo = Fifo::new();
    fifo.replace(&list(9, [("x", 1)]));

    drop(pop(&fifo));

    assert!(fifo.is_synced());
    assert_eq!(fifo.reached(), Some("9".into()));
}

// Decision 6
#[test]
fn a_receipt_whose_processing_panics_is_done() {
    let fifo = Fifo::new();
    fifo.add(object("x", 1));
    let receipt = pop(&fifo);

    let settled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| receipt.settle(|_| panic!("on purpose"))));

    assert!(settled.is_err());
    fifo.update(object("x", 2));
    assert_eq!(pop_all(&fifo), ["Updated x@2"]);
}

// DF-28, DF-29
#[test]
fn what_is_requeued_comes_again_after_what_waits() {
    let fifo = Fifo::new();
    fifo.add(object("x", 1));
    fifo.add(object("y", 2));

    pop(&fifo).requeue();

    assert_eq!(pop_all(&fifo), ["Added y@2", "Added x@1"]);
}

// DF-29, decision 8
#[test]
fn only_the_unprocessed_rest_is_requeued() {
    let fifo = Fifo::new();
    fifo.add(object("x", 1));
    fifo.update(object("x", 2));
    fifo.update(object("x", 3));

    pop(&fifo).settle(|_| Answer::Requeue { processed: 1 });
    let receipt = pop(&fifo);
    assert_eq!(show_taken(receipt.items()), ["Updated x@2, Updated x@3"]);
    receipt.settle(|_| Answer::Requeue { processed: 2 });

    assert!(fifo.is_empty(), "nothing was left to requeue");
}

// DF-29, decision 8
#[test]
fn newer_changes_take_the_place_of_what_is_requeued_but_for_a_delete() {
    let fifo = fifo_over([("x", 0), ("y", 0)]);
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
fn each_object_of_a_receipt_is_answered_by_itself() {
    let fifo = Fifo::new();
    for (name, version) in [("a", 1), ("b", 2), ("c", 3)] {
        fifo.add(object(name, version));
    }

    drain(&fifo).settle(|taken| match taken.key().name() {
        "b" => Answer::Requeue { processed: 0 },
        _ => Answer::Done,
    });
    assert_eq!(fifo.waiting_keys(), [key("b")]);

    fifo.add(object("d", 4));
    let mut receipts = drain(&fifo).split();
    receipts.pop().unwrap().done();
    fifo.update(object("b", 5));
    assert!(fifo.is_empty(), "b is still in flight");
    receipts.pop().unwrap().done();
    assert_eq!(pop_all(&fifo), ["Updated b@5"]);
}

// Decision 8
#[test]
fn sync_does_not_wait_for_what_failed_once_but_it_still_belongs_to_the_initial_list() {
    let fifo = Fifo::new();
    fifo.replace(&list(9, [("x", 1)]));

    pop(&fifo).requeue();

    assert!(fifo.is_synced());
    assert_eq!(fifo.reached(), None, "nothing of the list is processed yet");
    let receipt = pop(&fifo);
    assert_eq!(origins(&receipt), [Origin::InitialList]);
    receipt.done();
    assert_eq!(fifo.reached(), Some("9".into()));
}

// DF-29
#[test]
fn add_if_not_present_leaves_what_waits_or_is_in_flight_alone() {
    let fifo = Fifo::new();
    let deltas = |version| Deltas::from(Delta::Updated(object("x", version)));

    assert!(fifo.add_if_not_present(deltas(1)));
    assert!(!fifo.add_if_not_present(deltas(2)));
    let receipt = pop(&fifo);
    assert!(!fifo.add_if_not_present(deltas(3)));
    assert_eq!(show_taken(receipt.items()), ["Updated x@1"]);
    receipt.done();
    assert!(fifo.add_if_not_present(deltas(4)));

    assert_eq!(pop_all(&fifo), ["Updated x@4"]);
}

// DF-30
#[tokio::test(start_paused = true)]
async fn close_wakes_every_waiting_pop_and_the_rest_is_still_delivered() {
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
    fifo.add(object("x", 1));
    assert_eq!(show_taken(fifo.pop().await.unwrap().items()), ["Added x@1"]);
    assert_eq!(fifo.pop().await.unwrap_err(), Closed);
    assert_eq!(fifo.drain().await.unwrap_err(), Closed);
}

// DF-30, decision 6
#[test]
fn a_closed_queue_still_delivers_what_waits_behind_a_receipt() {
    let fifo = Fifo::new();
    fifo.add(object("x", 1));
    let receipt = pop(&fifo);
    fifo.update(object("x", 2));
    fifo.close();

    assert!(matches!(fifo.try_pop(), Ok(None)));
    receipt.done();

    assert_eq!(show_taken(pop(&fifo).items()), ["Updated x@2"]);
    assert_eq!(fifo.try_pop().unwrap_err(), Closed);
}

// DF-30, decision 8
#[tokio::test(start_paused = true)]
async fn a_closed_queue_is_not_at_its_end_while_something_in_flight_could_come_back() {
    let fifo = Fifo::new();
    fifo.add(object("x", 1));
    let receipt = pop(&fifo);
    fifo.close();
    let mut next = Box::pin(fifo.pop());
    assert!(poll_once(&mut next).await.is_none());

    receipt.requeue();

    assert_eq!(show_taken(next.await.unwrap().items()), ["Added x@1"]);
    assert_eq!(fifo.pop().await.unwrap_err(), Closed);
}

#[tokio::test(start_paused = true)]
async fn whoever_waits_for_sync_hears_when_it_cannot_come_any_more() {
    let fifo = Fifo::new();
    let mut synced = Box::pin(fifo.synced());
    assert!(poll_once(&mut synced).await.is_none());

    fifo.close();

    assert_eq!(synced.await, Err(Closed));
}

/// Waits until a future that was not ready is, after something was done to the queue.
async fn is_woken<F: Future>(future: F, act: impl FnOnce()) -> bool {
    let mut future = Box::pin(future);
    assert!(poll_once(&mut future).await.is_none(), "it should wait");
    act();
    timeout(Duration::from_secs(1), future).await.is_ok()
}

// Decision 6
#[tokio::test(start_paused = true)]
async fn everything_that_gives_the_consumer_something_wakes_it() {
    type Push = (&'static str, fn(&Fifo));
    let pushes: [Push; 10] = [
        ("add", |fifo| fifo.add(object("x", 5))),
        ("update", |fifo| fifo.update(object("x", 5))),
        ("delete", |fifo| fifo.delete(observed("known", 5))),
        ("a delete that is dropped", |fifo| fifo.delete(observed("nobody", 5))),
        ("delete_unread", |fifo| fifo.delete_unread(&key("known"), Some("5".into()))),
        ("replace", |fifo| fifo.replace(&list(5, [("x", 5)]))),
        ("a list that changes nothing", |fifo| fifo.replace(&list(5, []))),
        ("resync", |fifo| fifo.resync()),
        ("bookmark", |fifo| fifo.bookmark("5".into())),
        ("add_if_not_present", |fifo| assert!(fifo.add_if_not_present(Delta::Added(object("x", 5)).into()))),
    ];
    for (name, push) in pushes {
        let fifo = fifo_over([("known", 1)]);
        assert!(is_woken(fifo.pop(), || push(&fifo)).await, "pop after {name}");
        let fifo = fifo_over([("known", 1)]);
        assert!(is_woken(fifo.drain(), || push(&fifo)).await, "drain after {name}");
    }
}

// Decision 6
#[tokio::test(start_paused = true)]
async fn an_answer_wakes_whoever_waits_for_what_it_held_back() {
    for requeues in [false, true] {
        let fifo = Fifo::new();
        fifo.replace(&list(9, [("x", 1)]));
        let receipt = pop(&fifo);
        fifo.update(object("x", 10));
        let answer = || if requeues { receipt.requeue() } else { receipt.done() };
        assert!(is_woken(fifo.pop(), answer).await);

        let fifo = Fifo::new();
        fifo.replace(&list(9, [("x", 1)]));
        let receipt = pop(&fifo);
        let answer = || if requeues { receipt.requeue() } else { receipt.done() };
        assert!(is_woken(fifo.synced(), answer).await);
    }
}

#[tokio::test(start_paused = true)]
async fn pop_waits_until_something_is_pushed_and_a_dropped_pop_takes_nothing() {
    let fifo = Fifo::new();
    assert!(timeout(Duration::from_secs(60), fifo.pop()).await.is_err());

    let mut dropped = Box::pin(fifo.pop());
    assert!(poll_once(&mut dropped).await.is_none());
    fifo.add(object("x", 1));
    drop(dropped);

    assert_eq!(show_taken(fifo.pop().await.unwrap().items()), ["Added x@1"]);
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
    assert!(Arc::ptr_eq(receipt.items()[0].deltas().newest().object(), &stored));
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
    receipt.done();
    assert!(fifo.is_empty());
}

// DF-31
#[test]
fn a_resync_does_not_move_the_version() {
    let fifo = fifo_over([("x", 1)]);
    fifo.bookmark("9".into());
    pop(&fifo).done();

    fifo.resync();

    let receipt = pop(&fifo);
    assert_eq!(receipt.version(), None);
    receipt.done();
    assert_eq!(fifo.reached(), Some("9".into()));
}

// Decision 13
#[test]
fn a_bookmark_wakes_the_consumer_with_its_version_and_is_not_a_first_change() {
    let fifo = Fifo::new();
    fifo.bookmark("7".into());
    fifo.bookmark("8".into());
    assert!(!fifo.is_synced());

    let receipt = pop(&fifo);
    assert_eq!((receipt.items().len(), receipt.version()), (0, Some(&"8".into())));
    assert_eq!(fifo.reached(), None, "not before it is done");
    receipt.done();

    assert_eq!(fifo.reached(), Some("8".into()));
    assert!(fifo.try_pop().unwrap().is_none());
}

// Decision 13
#[test]
fn a_version_is_reached_when_everything_pushed_up_to_it_is_done() {
    let fifo = Fifo::new();
    fifo.add(object("a", 1));
    fifo.add(object("b", 2));
    fifo.update(object("a", 3));
    fifo.bookmark("4".into());

    let a = pop(&fifo);
    let b = pop(&fifo);
    assert_eq!(a.version(), Some(&"1".into()), "the newest change of a is not reached before the older one of b");
    b.done();
    assert_eq!(fifo.reached(), None);
    a.done();
    assert_eq!(fifo.reached(), Some("4".into()));
}

// Decision 13
#[test]
fn a_drained_receipt_knows_the_version_that_it_leads_to() {
    let fifo = Fifo::new();
    fifo.add(object("a", 1));
    fifo.delete(observed("a", 5));
    fifo.add(object("b", 6));

    let receipt = drain(&fifo);

    assert_eq!(receipt.version(), Some(&"6".into()));
    receipt.done();
    assert_eq!(fifo.reached(), Some("6".into()));
}

// Decision 13
#[test]
fn a_version_is_not_reached_while_an_older_change_is_requeued() {
    let fifo = Fifo::new();
    fifo.add(object("a", 1));
    fifo.add(object("b", 2));
    drain(&fifo).settle(|taken| match taken.key().name() {
        "a" => Answer::Requeue { processed: 0 },
        _ => Answer::Done,
    });
    assert_eq!(fifo.reached(), None);

    let again = pop(&fifo);
    fifo.update(object("a", 3));
    again.requeue();
    assert_eq!(fifo.reached(), None, "the newer change stands for the older one, and is not done");
    pop(&fifo).done();

    assert_eq!(fifo.reached(), Some("3".into()));
}

// Decision 13
#[test]
fn a_version_that_no_receipt_could_tell_comes_with_an_empty_one() {
    let fifo = Fifo::new();
    fifo.add(object("a", 1));
    fifo.add(object("b", 2));
    let (a, b) = (pop(&fifo), pop(&fifo));
    assert_eq!((a.version(), b.version()), (Some(&"1".into()), None));

    b.done();
    a.done();

    let receipt = pop(&fifo);
    assert_eq!((receipt.items().len(), receipt.version()), (0, Some(&"2".into())));
    receipt.done();
    assert!(fifo.try_pop().unwrap().is_none());
}

// Decision 13
#[test]
fn a_version_that_could_not_be_stored_is_told_again() {
    let fifo = Fifo::new();
    fifo.replace(&list(50, []));

    pop(&fifo).requeue();

    assert_eq!(fifo.reached(), None);
    assert!(fifo.is_synced(), "but it was attempted");
    let receipt = pop(&fifo);
    assert_eq!(receipt.version(), Some(&"50".into()));
    receipt.done();
    assert_eq!(fifo.reached(), Some("50".into()));
}

// Decision 13
#[test]
fn what_is_put_back_does_not_set_the_version_back() {
    let fifo = Fifo::new();
    fifo.bookmark("9".into());
    pop(&fifo).done();

    assert!(fifo.add_if_not_present(Delta::Updated(object("x", 1)).into()));
    let receipt = pop(&fifo);

    assert_eq!(receipt.version(), None);
    receipt.done();
    assert_eq!(fifo.reached(), Some("9".into()));
}

// Decision 8
#[test]
fn a_missed_delete_is_not_dropped_for_that_of_a_later_life() {
    let fifo = fifo_over([("x", 1)]);
    fifo.replace(&list(5, []));
    fifo.add(object_of_life("x", 6, "u2"));
    let receipt = drain(&fifo);
    fifo.delete(Deleted::Observed(object_of_life("x", 7, "u2")));

    receipt.requeue();

    assert_eq!(pop_all(&fifo), ["Missed x@1, Deleted x@7"]);
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

    fifo.replace(&Relist { version: "9".into(), objects: vec![], quarantined });

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

    receipt.done();
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
        fifo.replace(&Relist { version: "9".into(), objects, quarantined: vec![] });

        let receipt = drain(&fifo);
        let x = if is_delete_seen { "Deleted x@5, Replaced x@8" } else { "Replaced x@8" };
        assert_eq!(show_taken(receipt.items()), [x, "Replaced p2@2", "Replaced p4@6", "Missed p3@3"]);
        assert_eq!(receipt.items()[0].deltas().newest().object().uid().as_str(), "u2");
    }
}

// DF-36
#[tokio::test(start_paused = true)]
async fn slow_processing_is_logged_if_more_than_ten_objects_wait_behind_it() {
    let logs = Logs::capture();
    for (waiting, elapsed_ms, is_logged) in [(11, 100, true), (11, 99, false), (10, 100, false)] {
        let fifo = DeltaFifo::builder().name("pods").build();
        (0..=waiting).for_each(|number| fifo.add(object(&number.to_string(), 1)));
        let receipt = fifo.pop().await.unwrap();

        tokio::time::advance(Duration::from_millis(elapsed_ms)).await;
        receipt.done();

        let logged = logs.take();
        assert_eq!(logged.contains("processing is slow"), is_logged, "{waiting} {elapsed_ms}: {logged}");
        assert!(!is_logged || logged.contains(r#"queue="pods" count=1 waiting=11 elapsed_ms=100"#), "{logged}");
    }
}
