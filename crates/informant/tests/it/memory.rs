//! Memory: queues, caches and scanners that were large once release their memory.

use bytes::Bytes;
use informant::{
    Cached,
    pipeline::{Change, CutPart, Delta, DeltaFifo, Indexer, LineCutter, ListCutter, ListPart, Scanner, WriteBatch},
};
use k8s_openapi::api::core::v1::Pod;
use kube::core::TypeMeta;

use crate::support::{key, list, object};

const MANY: u64 = 50_000;

fn names() -> impl Iterator<Item = String> {
    (0..MANY).map(|number| format!("n/{number}"))
}

/// The bytes that stay allocated after `run`.
fn bytes_left_by(run: impl FnOnce()) -> i64 {
    allocation_counter::measure(run).bytes_current
}

#[test]
fn a_decoded_object_has_no_spare_memory() {
    let json = br#"{"metadata":{"name":"web"},"spec":{"containers":[{"name":"main","env":[{"name":"A"}]}]}}"#;
    let mut pod = None;

    let bytes = bytes_left_by(|| pod = Some(Scanner::of_kind::<Pod>().scan(json).unwrap().decode::<Pod>().unwrap()));

    let pod = pod.unwrap();
    let containers = &pod.spec.as_ref().unwrap().containers;
    assert_eq!((containers.capacity(), containers[0].env.as_ref().unwrap().capacity()), (1, 1));
    let of_clone = bytes_left_by(|| std::mem::forget(Box::new(Pod::clone(&pod))));
    assert!(bytes < of_clone + 500, "{bytes} bytes, a clone has {of_clone}");
}

#[test]
fn an_empty_delta_fifo_releases_the_memory_of_a_long_backlog() {
    let fifo = DeltaFifo::new();

    let left = bytes_left_by(|| {
        names().for_each(|name| fifo.push(Delta::Added(object(&name, 1))));
        fifo.try_drain().unwrap().unwrap().acknowledge();
        fifo.push(Delta::Added(object("n/x", 1)));
        fifo.try_drain().unwrap().unwrap().acknowledge();
    });

    assert!(left < 100_000, "{left} bytes stay allocated");
    fifo.push(Delta::Added(object("n/x", 1)));
    assert_eq!(fifo.waiting_keys(), [key("n/x")]);
}

#[test]
fn acknowledged_batches_take_no_memory_while_an_earlier_batch_is_in_flight() {
    let fifo = DeltaFifo::new();
    fifo.push(Delta::Added(object("held", 1)));
    let held = fifo.try_pop().unwrap().unwrap();
    let states: Vec<_> = (2..MANY).map(|version| object(if version % 2 == 0 { "a" } else { "b" }, version)).collect();

    let left = bytes_left_by(|| {
        // One of the two objects is always queued, so that the version of the other one is never the last one in the queue.
        fifo.push(Delta::Added(object("b", 1)));
        for state in &states {
            fifo.push(Delta::Updated(state.clone()));
            fifo.try_pop().unwrap().unwrap().acknowledge();
        }
    });

    assert!(left < 50_000, "{left} bytes stay allocated");
    held.acknowledge();
    fifo.try_drain().unwrap().unwrap().acknowledge();
    assert_eq!(fifo.reached(), Some((MANY - 1).to_string().as_str().into()));
}

#[test]
fn queued_bookmarks_take_constant_memory() {
    let fifo = DeltaFifo::<()>::new();
    fifo.push(Change::Bookmark("0".into()));

    let left = bytes_left_by(|| {
        (1..MANY).for_each(|version| fifo.push(Change::Bookmark(version.to_string().as_str().into())));
    });

    assert!(left < 1000, "{left} bytes stay allocated");
    assert_eq!(fifo.try_pop().unwrap().unwrap().version(), Some(&(MANY - 1).to_string().as_str().into()));
}

#[test]
fn a_cache_shrinks_after_most_of_its_objects_are_removed() {
    let cache = Indexer::new();
    let by_last = cache.add_index("last", |object: &Cached<()>| object.key().name().chars().last()).unwrap();
    cache.upsert(object("n/first", 1));

    let left = bytes_left_by(|| {
        let mut writes = WriteBatch::new();
        names().for_each(|name| writes.upsert(object(&name, 1)));
        cache.apply(writes);
        names().skip(100).for_each(|name| drop(cache.remove(&key(&name))));
        cache.upsert(object("n/last", 1));
    });

    assert!(left < 500_000, "{left} bytes stay allocated for 101 objects");
    assert_eq!(cache.lister().len(), 102);
    assert_eq!(by_last.count(&'7'), 10);
    assert_eq!(cache.lister().namespace("n").list().len(), 102);
}

#[test]
fn a_cache_that_a_relist_empties_releases_its_memory() {
    let cache = Indexer::new();
    cache.add_index("last", |object: &Cached<()>| object.key().name().chars().last()).unwrap();

    let left = bytes_left_by(|| {
        let mut writes = WriteBatch::new();
        names().for_each(|name| writes.upsert(object(&name, 1)));
        cache.apply(writes);
        cache.replace(&list(9, []));
    });

    assert!(left < 10_000, "{left} bytes stay allocated");
}

#[test]
fn a_scanner_releases_the_buffer_of_a_huge_object() {
    let mut scanner = Scanner::new(TypeMeta::default());
    let huge = format!(r#"{{"metadata":{{"name":"a"}},"data":"{}"}}"#, "x".repeat(8 << 20));

    let left = bytes_left_by(|| {
        scanner.scan(huge.as_bytes()).unwrap();
        scanner.scan(br#"{"metadata":{"name":"a"}}"#).unwrap();
    });

    assert!(left < 10_000, "{left} bytes stay allocated");
}

/// The most bytes that are allocated at a time while an object of 32 MiB is cut from these lines, or from this list.
fn peak_bytes(before: &str, after: &str, mut push: impl FnMut(Bytes)) -> u64 {
    let text = Bytes::from("x".repeat(64 << 10));
    let measured = allocation_counter::measure(|| {
        push(Bytes::copy_from_slice(before.as_bytes()));
        (0..512).for_each(|_| push(text.clone()));
        push(Bytes::copy_from_slice(after.as_bytes()));
    });
    measured.bytes_max
}

#[test]
fn an_object_above_the_size_limit_takes_no_more_memory_than_the_limit() {
    const LIMIT: usize = 1 << 20;
    let (mut lines, mut line) = (LineCutter::with_limit(LIMIT), None);
    let (mut list, mut item) = (ListCutter::with_limit(LIMIT), None);

    let in_lines = peak_bytes(r#"{"type":"ADDED","object":{"a":""#, "\",\"kind\":\"A\"}}\n", |chunk| {
        lines.push(chunk);
        line = lines.next().unwrap();
    });
    let in_list = peak_bytes(r#"{"items":[{"a":""#, r#"","kind":"A"}"#, |chunk| {
        list.push(chunk);
        item = list.next().unwrap();
    });

    assert_eq!(line, Some(CutPart::Outline(r#"{"type":"ADDED","object":{"kind":"A"}}"#.into())));
    assert_eq!(item, Some(ListPart::ItemOutline(r#"{"kind":"A"}"#.into())));
    assert!(in_lines.max(in_list) < 4 << 20, "{in_lines} and {in_list} bytes");
}
