//! Time of the queue, the cache and decoding, compared with the same work on a bare hash map or with serde_json.
//!
//! The two sides run alternately, so that other load on the machine affects both; the fastest of all rounds is printed.
#![allow(clippy::print_stdout, reason = "the table is the result")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop")]

mod support;

use std::{hint::black_box, time::Instant};

use bytes::Bytes;
use hashbrown::{HashMap, HashSet};
use informant::{
    Cached, Key, Lazy, index,
    pipeline::{
        CutPart, Delta, DeltaFifo, EventType, Indexer, LineCutter, ListCutter, ListPart, Scanner, WatchEvent,
        WriteBatch,
    },
};
use k8s_openapi::api::core::v1::Pod;
use serde::de::IgnoredAny;

use self::support::{Content, KEYS, Table, Unit, key, object, shuffled, thousands};

const POD: &[u8] = include_bytes!("pod.json");
const ROUNDS: usize = 15;

type Object = Cached<Content>;

/// Nanoseconds per operation, for `count` operations per round, of the fastest round of each side.
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

/// The states of all objects for each round, created before the measurement.
fn states() -> Vec<Vec<Object>> {
    let order = shuffled();
    (0..ROUNDS).map(|round| order.iter().map(|&number| object(number, round)).collect()).collect()
}

fn queues(table: Table, states: &[Vec<Object>]) {
    const PEER: &str = "hash map, insert and remove";
    let fifo = DeltaFifo::new();
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
                fifo.push(Delta::Updated(object.clone()));
            }
            black_box(fifo.try_drain().unwrap().unwrap()).acknowledge();
        },
        &mut bare,
    );
    table.row("queue: push a change, take all objects, acknowledge", ours, (PEER, baseline), Some(4.0));

    let (ours, baseline) = compare(
        KEYS,
        |round| {
            for object in &states[round] {
                fifo.push(Delta::Updated(object.clone()));
            }
            while let Some(batch) = fifo.try_pop().unwrap() {
                black_box(batch).acknowledge();
            }
        },
        &mut bare,
    );
    table.row("queue: push a change, take one object, acknowledge", ours, (PEER, baseline), Some(4.0));
}

fn cache(table: Table, states: &[Vec<Object>]) {
    const INSERT: &str = "hash map, insert";
    let indexer = Indexer::new();
    let by_node = indexer.add_index("node", |object: &Cached<Content>| [object.node]).unwrap();
    let lister = indexer.lister();
    let mut map = HashMap::<Key, Object>::new();
    let mut writes = WriteBatch::new();
    // The states of the last round, so that the first round changes each object.
    for object in &states[ROUNDS - 1] {
        writes.upsert(object.clone());
        map.insert(object.key().clone(), object.clone());
    }
    indexer.apply(writes);

    // Separate keys, as a caller has them.
    let keys: Vec<_> = shuffled().into_iter().rev().map(key).collect();
    let (ours, baseline) = compare(
        KEYS,
        |_| keys.iter().for_each(|key| drop(black_box(lister.get(key)))),
        |_| keys.iter().for_each(|key| drop(black_box(map.get(key).cloned()))),
    );
    table.row(
        &format!("cache: get one of {} objects by key", thousands(KEYS)),
        ours,
        ("hash map, get", baseline),
        Some(2.0),
    );

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
    table.row("cache with two indexes: update an object, one index value changes", ours, (INSERT, baseline), Some(8.0));

    let (ours, baseline) = compare(
        KEYS,
        |round| {
            for chunk in states[round].chunks(100) {
                let mut writes = WriteBatch::with_capacity(chunk.len());
                chunk.iter().for_each(|object| writes.upsert(object.clone()));
                drop(black_box(indexer.apply(writes)));
            }
        },
        &mut insert,
    );
    let name = "cache with two indexes: update, batches of 100, one index value changes";
    table.row(name, ours, (INSERT, baseline), Some(8.0));

    // Alternate between two copies of one state: different objects with the same index values.
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
    table.row("cache with two indexes: update an object, no index value changes", ours, (INSERT, baseline), Some(8.0));

    let (ours, baseline) = compare(
        KEYS,
        |_| drop(black_box(lister.list())),
        |_| drop(black_box(map.values().cloned().collect::<Vec<_>>())),
    );
    table.row(
        &format!("cache: list {} objects, per object", thousands(KEYS)),
        ours,
        ("hash map, clone all values", baseline),
        None,
    );

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
    let peer = "hash map of key sets, then of objects";
    table.row("cache: look up 100 objects by an index value, per object", ours, (peer, baseline), None);
}

fn decoding(table: Table) {
    const PODS: usize = 200;
    let decode =
        |_: usize| (0..PODS).for_each(|_| drop(black_box(serde_json::from_slice::<Pod>(black_box(POD)).unwrap())));
    let mut scanner = Scanner::of_kind::<Pod>();
    let mut row = |name: &str, aim: Option<f64>, ours: &mut dyn FnMut(&mut Scanner)| {
        let (ours, baseline) = compare(PODS, |_| (0..PODS).for_each(|_| ours(&mut scanner)), decode);
        table.row(name, ours, ("serde_json into Pod", baseline), aim);
    };

    row("decode a pod into Lazy<Pod>", Some(0.2), &mut |scanner| {
        drop(black_box(scanner.scan(black_box(POD)).unwrap().decode::<Lazy<Pod>>().unwrap()));
    });
    let cut = ["status".parse().unwrap(), "spec.containers.env".parse().unwrap()];
    let mut cutting = Scanner::of_kind::<Pod>().cut(&cut);
    row("decode a pod into Lazy<Pod>, without status and environment variables", None, &mut |_| {
        drop(black_box(cutting.scan(black_box(POD)).unwrap().decode::<Lazy<Pod>>().unwrap()));
    });
    row("scan a pod for its identity", None, &mut |scanner| drop(black_box(scanner.scan(black_box(POD)).unwrap())));
    row("decode a pod into Pod, without managedFields", None, &mut |scanner| {
        drop(black_box(scanner.scan(black_box(POD)).unwrap().decode::<Pod>().unwrap()));
    });
    let pod = Scanner::of_kind::<Pod>().scan(POD).unwrap().decode::<Lazy<Pod>>().unwrap();
    row("read the labels of a Lazy<Pod>", None, &mut |_| drop(black_box(pod.object().labels())));
    for (name, index) in [
        ("a label", Box::new(|pod: &_| drop(index::label("app")(pod))) as Box<dyn Fn(&Cached<Lazy<Pod>>)>),
        ("spec.nodeName", Box::new(|pod| drop(index::field("spec.nodeName").unwrap()(pod)))),
        ("status.phase", Box::new(|pod| drop(index::field("status.phase").unwrap()(pod)))),
    ] {
        row(&format!("index a Lazy<Pod> by {name}, first call"), None, &mut |_| index(black_box(&pod)));
        let mut scanner = Scanner::of_kind::<Pod>();
        let mut decode = || scanner.scan(POD).unwrap().decode::<Lazy<Pod>>().unwrap();
        // From now on, the scan notes the value.
        index(&decode());
        let noted = decode();
        row(&format!("index a Lazy<Pod> by {name}"), None, &mut |_| index(black_box(&noted)));
        row(&format!("decode a pod into Lazy<Pod>, indexed by {name}"), Some(0.2), &mut |_| drop(black_box(decode())));
    }
}

/// Splits a body of many pods into objects without decoding them; serde_json skips over the same bytes.
fn frames(table: Table) {
    const PEER: &str = "serde_json into IgnoredAny";
    const PODS: usize = 200;
    const CHUNK: usize = 64 << 10;
    let chunks = |body: Vec<u8>| body.chunks(CHUNK).map(Bytes::copy_from_slice).collect::<Vec<_>>();
    let items = vec![POD; PODS].join(&b","[..]);
    let list = chunks([&br#"{"kind":"PodList","items":["#[..], &items, b"]}"].concat());
    let line = [&br#"{"type":"ADDED","object":"#[..], POD.trim_ascii_end(), b"}\n"].concat();
    let watch = chunks(line.repeat(PODS));
    let skip = |_: usize| (0..PODS).for_each(|_| drop(black_box(serde_json::from_slice::<IgnoredAny>(black_box(POD)))));

    let (ours, baseline) = compare(
        PODS,
        |_| {
            let (mut cutter, mut items) = (ListCutter::with_limit(64 << 20), 0);
            for chunk in &list {
                cutter.push(chunk.clone());
                while let Some(part) = cutter.next().unwrap() {
                    items += usize::from(matches!(black_box(part), ListPart::Item(_)));
                }
            }
            assert_eq!(items, PODS);
        },
        skip,
    );
    table.row("cut one pod out of a list", ours, (PEER, baseline), None);
    let (ours, baseline) = compare(
        PODS,
        |_| {
            let (mut cutter, mut lines) = (LineCutter::with_limit(64 << 20), 0);
            for chunk in &watch {
                cutter.push(chunk.clone());
                while let Some(CutPart::Whole(line)) = cutter.next().unwrap() {
                    lines += usize::from(black_box(WatchEvent::read(&line).unwrap()).kind == EventType::Added);
                }
            }
            assert_eq!(lines, PODS);
        },
        skip,
    );
    table.row("cut one watch event of a pod and read its type", ours, (PEER, baseline), None);
}

fn main() {
    println!("\nTime per operation, with {} objects.", thousands(KEYS));
    let table = Table::new(Unit::Nanoseconds);
    let states = states();
    queues(table, &states);
    cache(table, &states);
    println!("\nTime per pod; its JSON has {} bytes.", POD.len());
    let table = Table::new(Unit::Nanoseconds);
    decoding(table);
    frames(table);
}
