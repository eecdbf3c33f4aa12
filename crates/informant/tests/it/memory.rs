//! What was large once gives its memory back.

use informant::Cached;
use informant::object::Scanner;
use informant::queue::{DeltaFifo, InOrderFifo};
use informant::store::{Indexer, WriteBatch};
use kube::core::TypeMeta;

use crate::support::{key, list, object};

const MANY: u64 = 50_000;

fn names() -> impl Iterator<Item = String> {
    (0..MANY).map(|number| format!("n/{number}"))
}

/// Bytes that `run` leaves allocated.
fn left_by(run: impl FnOnce()) -> i64 {
    allocation_counter::measure(run).bytes_current
}

#[test]
fn a_delta_queue_that_is_not_busy_any_more_holds_no_memory_of_a_long_line() {
    let fifo = DeltaFifo::new();

    let left = left_by(|| {
        names().for_each(|name| fifo.add(object(&name, 1)));
        fifo.try_drain().unwrap().unwrap().acknowledge();
        fifo.add(object("n/x", 1));
        fifo.try_drain().unwrap().unwrap().acknowledge();
    });

    assert!(left < 100_000, "{left} bytes stayed");
    fifo.add(object("n/x", 1));
    assert_eq!(fifo.waiting_keys(), [key("n/x")]);
}

#[test]
fn an_in_order_queue_that_is_not_busy_any_more_holds_no_memory_of_a_long_line() {
    let fifo = InOrderFifo::new();

    let left = left_by(|| {
        names().for_each(|name| fifo.add(object(&name, 1)));
        while let Some(receipt) = fifo.try_drain().unwrap() {
            receipt.acknowledge();
        }
        fifo.add(object("n/x", 1));
        fifo.try_drain().unwrap().unwrap().acknowledge();
    });

    assert!(left < 100_000, "{left} bytes stayed");
}

#[test]
fn what_is_done_behind_a_receipt_that_is_held_for_long_does_not_pile_up() {
    let fifo = DeltaFifo::new();
    fifo.add(object("held", 1));
    let held = fifo.try_pop().unwrap().unwrap();
    let states: Vec<_> = (2..MANY).map(|version| object(if version % 2 == 0 { "a" } else { "b" }, version)).collect();

    let left = left_by(|| {
        // One of them always waits, so that the marks of the others are never at the end of the line.
        fifo.add(object("b", 1));
        for state in &states {
            fifo.update(state.clone());
            fifo.try_pop().unwrap().unwrap().acknowledge();
        }
    });

    assert!(left < 50_000, "{left} bytes stayed");
    held.acknowledge();
    fifo.try_drain().unwrap().unwrap().acknowledge();
    assert_eq!(fifo.reached(), Some((MANY - 1).to_string().as_str().into()));
}

#[test]
fn bookmarks_that_nobody_reads_do_not_pile_up() {
    let fifo = DeltaFifo::<()>::new();
    fifo.bookmark("0".into());

    let left = left_by(|| (1..MANY).for_each(|version| fifo.bookmark(version.to_string().as_str().into())));

    assert!(left < 1000, "{left} bytes stayed");
    assert_eq!(fifo.try_pop().unwrap().unwrap().version(), Some(&(MANY - 1).to_string().as_str().into()));
}

#[test]
fn a_cache_that_has_lost_most_of_its_objects_moves_together() {
    let cache = Indexer::new();
    let by_last = cache.add_index("last", |object: &Cached<()>| object.key().name().chars().last()).unwrap();
    cache.upsert(object("n/first", 1));

    let left = left_by(|| {
        let mut batch = WriteBatch::new();
        names().for_each(|name| batch.upsert(object(&name, 1)));
        cache.apply(batch);
        names().skip(100).for_each(|name| drop(cache.remove(&key(&name))));
        cache.upsert(object("n/last", 1));
    });

    assert!(left < 500_000, "{left} bytes stayed for 101 objects");
    assert_eq!(cache.lister().len(), 102);
    assert_eq!(by_last.count(&'7'), 10);
    assert_eq!(cache.lister().namespace("n").list().len(), 102);
}

#[test]
fn a_cache_that_is_emptied_at_once_holds_nothing() {
    let cache = Indexer::new();
    cache.add_index("last", |object: &Cached<()>| object.key().name().chars().last()).unwrap();

    let left = left_by(|| {
        let mut batch = WriteBatch::new();
        names().for_each(|name| batch.upsert(object(&name, 1)));
        cache.apply(batch);
        cache.replace(&list(9, []));
    });

    assert!(left < 10_000, "{left} bytes stayed");
}

#[test]
fn one_huge_object_does_not_leave_a_huge_buffer() {
    let mut scanner = Scanner::new(TypeMeta::default());
    let huge = format!(r#"{{"metadata":{{"name":"a"}},"data":"{}"}}"#, "x".repeat(8 << 20));

    let left = left_by(|| {
        scanner.scan(huge.as_bytes()).unwrap();
        scanner.scan(br#"{"metadata":{"name":"a"}}"#).unwrap();
    });

    assert!(left < 10_000, "{left} bytes stayed");
}
