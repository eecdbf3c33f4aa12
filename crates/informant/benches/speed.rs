//! Time of queue, cache and decoding, beside the same work on a bare hash map or with serde_json, in the same run.
//!
//! The two sides take turns, so that a noisy machine disturbs both; of all rounds the fastest counts.
#![allow(clippy::print_stdout, reason = "the table is the result")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop")]

mod support;

use std::hint::black_box;
use std::time::Instant;

use bytes::Bytes;
use hashbrown::HashMap;
use hashbrown::HashSet;
use informant::Cached;
use informant::Key;
use informant::Lazy;
use informant::listwatch::frames::EventType;
use informant::listwatch::frames::LineCutter;
use informant::listwatch::frames::ListCutter;
use informant::listwatch::frames::ListPart;
use informant::listwatch::frames::WatchEvent;
use informant::object::Scanner;
use informant::queue::DeltaFifo;
use informant::queue::InOrderFifo;
use informant::store::Indexer;
use informant::store::WriteBatch;
use k8s_openapi::api::core::v1::Pod;
use serde::de::IgnoredAny;

use self::support::Content;
use self::support::KEYS;
use self::support::key;
use self::support::object;
use self::support::print_head;
use self::support::print_row;
use self::support::shuffled;

const POD: &[u8] = include_bytes!("pod.json");
const ROUNDS: usize = 15;

type Object = Cached<Content>;

/// Nanoseconds for each of `count` operations, of the fastest round on each side.
fn compare(count: usize, mut ours: impl FnMut(usize), mut baseline: impl FnMut(usize)) -> (f64, f64) {
    let time = |round: usize, work: &mut dyn FnMut(usize)| {
        let start = Instant::now();
        work(round);
        start.elapsed().as_nanos() as f64 / count as f64
    };
    let mut best = (f64::INFINITY, f64::INFINITY);
    for round in 0..ROUNDS {
        best.0 = best.0.min(time(round, &mut ours));
        best.1 = best.1.min(time(round, &mut baseline));
    }
    best
}

/// States of all objects, one for each round, so that making them is not measured.
fn states() -> Vec<Vec<Object>> {
    let order = shuffled();
    (0..ROUNDS).map(|round| order.iter().map(|&number| object(number, round)).collect()).collect()
}

fn queues(states: &[Vec<Object>]) {
    let fifo = DeltaFifo::new();
    let in_order = InOrderFifo::new();
    let mut map = HashMap::<Key, Object>::new();
    let mut bare = |round: usize| {
        for object in &states[round] {
            map.insert(object.key().clone(), object.clone());
        }
        for object in &states[round] {
            black_box(map.remove(object.key()));
        }
    };

    let (ours, baseline) = compare(
        KEYS,
        |round| {
            for object in &states[round] {
                fifo.update(object.clone());
            }
            black_box(fifo.try_drain().unwrap().unwrap()).acknowledge();
        },
        &mut bare,
    );
    print_row("DeltaFifo: update, take all, answer", ours, baseline, Some(4.0));

    let (ours, baseline) = compare(
        KEYS,
        |round| {
            for object in &states[round] {
                fifo.update(object.clone());
            }
            while let Some(receipt) = fifo.try_pop().unwrap() {
                black_box(receipt).acknowledge();
            }
        },
        &mut bare,
    );
    print_row("DeltaFifo: update, take one by one, answer", ours, baseline, Some(4.0));

    let (ours, baseline) = compare(
        KEYS,
        |round| {
            for object in &states[round] {
                in_order.update(object.clone());
            }
            while let Some(receipt) = in_order.try_drain().unwrap() {
                black_box(receipt).acknowledge();
            }
        },
        &mut bare,
    );
    print_row("InOrderFifo: update, take in batches, answer", ours, baseline, None);
}

fn cache(states: &[Vec<Object>]) {
    let indexer = Indexer::builder().namespace_index(false).build();
    let by_node = indexer.add_index("node", |object: &Cached<Content>| [object.node]).unwrap();
    indexer.add_index("app", |object: &Cached<Content>| [object.app]).unwrap();
    let lister = indexer.lister();
    let mut map = HashMap::<Key, Object>::new();
    let mut batch = WriteBatch::new();
    // The last round's, so that the first round finds something else.
    for object in &states[ROUNDS - 1] {
        batch.upsert(object.clone());
        map.insert(object.key().clone(), object.clone());
    }
    indexer.apply(batch);

    // Keys of their own, as a caller has them.
    let keys: Vec<_> = shuffled().into_iter().rev().map(key).collect();
    let (ours, baseline) = compare(
        KEYS,
        |_| keys.iter().for_each(|key| drop(black_box(lister.get(key)))),
        |_| keys.iter().for_each(|key| drop(black_box(map.get(key).cloned()))),
    );
    print_row("get", ours, baseline, Some(2.0));

    let mut insert = |round: usize| {
        for object in &states[round] {
            black_box(map.insert(object.key().clone(), object.clone()));
        }
    };
    let (ours, baseline) = compare(
        KEYS,
        |round| states[round].iter().for_each(|object| drop(black_box(indexer.upsert(object.clone())))),
        &mut insert,
    );
    print_row("update with two indexes, one value changes", ours, baseline, Some(8.0));

    let (ours, baseline) = compare(
        KEYS,
        |round| {
            for chunk in states[round].chunks(100) {
                let mut batch = WriteBatch::with_capacity(chunk.len());
                chunk.iter().for_each(|object| batch.upsert(object.clone()));
                drop(black_box(indexer.apply(batch)));
            }
        },
        &mut insert,
    );
    print_row("the same in batches of 100", ours, baseline, Some(8.0));

    // Two copies of one state in turn: other objects, the same index values.
    let copy: Vec<_> = shuffled().into_iter().map(|number| object(number, ROUNDS - 1)).collect();
    let same = [&copy, &states[ROUNDS - 1]];
    let (ours, baseline) = compare(
        KEYS,
        |round| same[round % 2].iter().for_each(|object| drop(black_box(indexer.upsert(object.clone())))),
        |round| {
            for object in same[round % 2] {
                black_box(map.insert(object.key().clone(), object.clone()));
            }
        },
    );
    print_row("update with two indexes, no value changes", ours, baseline, Some(8.0));

    let (ours, baseline) = compare(
        KEYS,
        |_| drop(black_box(lister.list())),
        |_| drop(black_box(map.values().cloned().collect::<Vec<_>>())),
    );
    print_row("list, per object", ours, baseline, None);

    let mut keys_by_node = HashMap::<u32, HashSet<Key>>::new();
    for object in map.values() {
        keys_by_node.entry(object.node).or_default().insert(object.key().clone());
    }
    let (ours, baseline) = compare(
        KEYS,
        |_| (0..1000).for_each(|node| drop(black_box(by_node.get(&node)))),
        |_| {
            for node in 0..1000 {
                let keys = &keys_by_node[&node];
                drop(black_box(keys.iter().map(|key| map[key].clone()).collect::<Vec<_>>()));
            }
        },
    );
    print_row("by index, 100 objects a value, per object", ours, baseline, None);
}

fn decoding() {
    const PODS: usize = 200;
    let decode =
        |_: usize| (0..PODS).for_each(|_| drop(black_box(serde_json::from_slice::<Pod>(black_box(POD)).unwrap())));
    let mut scanner = Scanner::of_kind::<Pod>();
    let mut row = |name: &str, aim: Option<f64>, ours: &mut dyn FnMut(&mut Scanner)| {
        let (ours, baseline) = compare(PODS, |_| (0..PODS).for_each(|_| ours(&mut scanner)), decode);
        print_row(name, ours, baseline, aim);
    };

    row("Lazy<Pod>: decode in", Some(0.2), &mut |scanner| {
        drop(black_box(scanner.scan(black_box(POD)).unwrap().decode::<Lazy<Pod>>().unwrap()));
    });
    let cut = ["status".parse().unwrap(), "spec.containers.env".parse().unwrap()];
    let mut cutting = Scanner::of_kind::<Pod>().cut(&cut);
    row("Lazy<Pod>, status and environments cut: decode in", None, &mut |_| {
        drop(black_box(cutting.scan(black_box(POD)).unwrap().decode::<Lazy<Pod>>().unwrap()));
    });
    row("the scan alone", None, &mut |scanner| drop(black_box(scanner.scan(black_box(POD)).unwrap())));
    row("Pod without managedFields: decode in", None, &mut |scanner| {
        drop(black_box(scanner.scan(black_box(POD)).unwrap().decode::<Pod>().unwrap()));
    });
    let pod = Scanner::of_kind::<Pod>().scan(POD).unwrap().decode::<Lazy<Pod>>().unwrap();
    row("Lazy<Pod>: labels", None, &mut |_| drop(black_box(pod.object().labels())));
}

/// A body of many pods in large chunks, cut and not decoded, beside a walk of serde_json over the same bytes.
fn frames() {
    const PODS: usize = 200;
    const CHUNK: usize = 64 << 10;
    let chunks = |body: Vec<u8>| body.chunks(CHUNK).map(Bytes::copy_from_slice).collect::<Vec<_>>();
    let items = vec![POD; PODS].join(&b","[..]);
    let list = chunks([&br#"{"kind":"PodList","items":["#[..], &items, b"]}"].concat());
    let line = [&br#"{"type":"ADDED","object":"#[..], POD.trim_ascii_end(), b"}\n"].concat();
    let watch = chunks(line.repeat(PODS));
    let walk = |_: usize| (0..PODS).for_each(|_| drop(black_box(serde_json::from_slice::<IgnoredAny>(black_box(POD)))));

    let (ours, baseline) = compare(
        PODS,
        |_| {
            let (mut cutter, mut items) = (ListCutter::new(), 0);
            for chunk in &list {
                cutter.push(chunk.clone());
                while let Some(part) = cutter.next().unwrap() {
                    items += usize::from(matches!(black_box(part), ListPart::Item(_)));
                }
            }
            assert_eq!(items, PODS);
        },
        walk,
    );
    print_row("cut a list item", ours, baseline, None);
    let (ours, baseline) = compare(
        PODS,
        |_| {
            let (mut cutter, mut lines) = (LineCutter::new(), 0);
            for chunk in &watch {
                cutter.push(chunk.clone());
                while let Some(line) = cutter.next().unwrap() {
                    lines += usize::from(black_box(WatchEvent::read(&line).unwrap()).kind == EventType::Added);
                }
            }
            assert_eq!(lines, PODS);
        },
        walk,
    );
    print_row("cut and read a watch event", ours, baseline, None);
}

fn main() {
    println!("\nTime in nanoseconds for each operation, {KEYS} keys.");
    print_head("informant", "hash map");
    let states = states();
    queues(&states);
    cache(&states);
    println!("\nTime in nanoseconds for each pod of {} bytes.", POD.len());
    print_head("informant", "serde_json");
    decoding();
    println!("\nThe same, cut from a stream and not decoded.");
    print_head("informant", "serde_json, ignoring it");
    frames();
}
