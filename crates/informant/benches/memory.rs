//! Memory of the cache and of objects, compared with a bare hash map, with raw JSON and with kube-runtime. Allocations are counted, so
//! the results are exact.
#![allow(clippy::print_stdout, reason = "the table is the result")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop")]

mod support;

use std::sync::Arc;

use allocation_counter::measure;
use hashbrown::HashMap;
use informant::{
    Cached, Lazy, Object,
    pipeline::{Indexer, Scanner},
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    core::PartialObjectMeta,
    runtime::{reflector, watcher},
};

use self::support::{
    Content, KEYS, PodNode, Table, Unit, identity, object,
    pipeline::{Pipeline, run},
    static_server::StaticServer,
    thousands,
};

const POD: &[u8] = include_bytes!("pod.json");

/// The bytes that `make` leaves allocated, divided by `count`, minus the size of the object itself.
fn bytes_per_object<T>(count: usize, object: usize, make: impl FnOnce() -> T) -> f64 {
    let mut kept = None;
    let bytes = measure(|| kept = Some(make())).bytes_current;
    drop(kept);
    bytes as f64 / count as f64 - object as f64
}

fn filled(cache: Indexer<Content>) -> Indexer<Content> {
    (0..KEYS).for_each(|number| drop(cache.upsert(object(number, 1))));
    cache
}

fn cache() {
    let size = size_of::<Content>();
    let map = bytes_per_object(KEYS, size, || {
        let content = |number| Content { node: number as u32, app: 0 };
        // What a program without informant would store: the key as a string; uid and version beside the object.
        let entry = |number: usize| {
            let identity = identity(number, 1);
            let uid = identity.uid.to_string();
            let version = identity.version.as_str().to_owned();
            (identity.key.as_str().to_owned(), Arc::new((uid, version, content(number))))
        };
        (0..KEYS).map(entry).collect::<HashMap<_, _>>()
    });
    let by_node = |object: &Cached<Content>| [object.node];
    let table = Table::new(Unit::Bytes);
    let row = |index: &str, ours: f64, aim| {
        let name = format!("cache of {} objects, {index}: overhead per object", thousands(KEYS));
        table.row(&name, ours, ("hash map of key, uid, version and object", map), aim);
    };

    let namespace = bytes_per_object(KEYS, size, || filled(Indexer::new()));
    // The aim is 300 bytes with one index.
    let aim = Some((300.0 / map * 100.0).round() / 100.0);
    row("index by namespace", namespace, aim);
    let unique = bytes_per_object(KEYS, size, || {
        let cache = Indexer::new();
        cache.add_index("uid", |object: &Cached<Content>| [object.uid().clone()]).unwrap();
        filled(cache)
    });
    row("indexes by namespace and with unique values", unique, None);
    let both = bytes_per_object(KEYS, size, || {
        let cache = Indexer::new();
        cache.add_index("node", by_node).unwrap();
        filled(cache)
    });
    row("indexes by namespace and with 1,000 values", both, None);
}

fn decode<O: Object>() -> Cached<O> {
    Scanner::of_kind::<Pod>().scan(POD).unwrap().decode().unwrap()
}

fn pods() {
    let raw = decode::<Lazy<Pod>>().json().unwrap().len() as f64;
    let whole = bytes_per_object(1, 0, || serde_json::from_slice::<Pod>(POD).unwrap());
    let table = Table::new(Unit::Bytes);
    let json = ("its JSON without managedFields", raw);
    table.row("memory of one pod as Lazy<Pod>", bytes_per_object(1, 0, decode::<Lazy<Pod>>), json, Some(1.15));
    let decoded = ("Pod by serde_json, with managedFields", whole);
    table.row("memory of one pod as Pod, without managedFields", bytes_per_object(1, 0, decode::<Pod>), decoded, None);
}

/// A thousand pods in a cache, compared with kube-runtime's store.
fn caches() {
    const PODS: usize = 1000;
    let named = |number: usize| {
        let text = std::str::from_utf8(POD).unwrap();
        let name = decode::<Lazy<Pod>>().key().name().to_owned();
        text.replacen(&format!("{name:?}"), &format!("\"pod-{number}\""), 1)
    };
    let texts: Vec<_> = (0..PODS).map(named).collect();
    let store = |change: fn(&mut Pod)| {
        bytes_per_object(PODS, 0, || {
            let (reader, mut writer) = reflector::store::<Pod>();
            for text in &texts {
                let mut pod: Pod = serde_json::from_str(text).unwrap();
                change(&mut pod);
                writer.apply_watcher_event(&watcher::Event::Apply(pod));
            }
            assert_eq!(reader.state().len(), PODS);
            (reader, writer)
        })
    };
    let theirs = store(|_| {});
    let without_managed_fields = store(|pod| pod.metadata.managed_fields = None);
    let lazy = bytes_per_object(PODS, 0, || filled_with::<Lazy<Pod>>(&texts));
    let eager = bytes_per_object(PODS, 0, || filled_with::<Pod>(&texts));
    let projection = bytes_per_object(PODS, 0, || filled_with::<PodNode>(&texts));
    let metadata = bytes_per_object(PODS, 0, || filled_with::<PartialObjectMeta<Pod>>(&texts));
    let table = Table::new(Unit::Bytes);
    let peer = ("kube-runtime's store", theirs);
    table.row("cache of 1,000 pods as Lazy<Pod>: memory per pod", lazy, peer, None);
    table.row("cache of 1,000 pods as Pod: memory per pod", eager, peer, None);
    let peer_without = ("kube-runtime's store, managedFields removed", without_managed_fields);
    table.row("cache of 1,000 pods as Pod: memory per pod", eager, peer_without, None);
    table.row("cache of 1,000 pods as a projection of two fields: memory per pod", projection, peer, None);
    table.row("cache of 1,000 pods as PartialObjectMeta<Pod>: memory per pod", metadata, peer, None);
}

fn filled_with<O: Object>(texts: &[String]) -> Indexer<O> {
    let (cache, mut scanner) = (Indexer::new(), Scanner::of_kind::<Pod>());
    texts.iter().for_each(|text| drop(cache.upsert(scanner.scan(text.as_bytes()).unwrap().decode().unwrap())));
    assert_eq!(cache.lister().len(), texts.len());
    cache
}

/// The peak memory per pod during the first list, compared with the memory after it.
fn listing<O: Object>(table: Table, object_type: &str, server: &StaticServer) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    server.begin();
    let mut kept = None;
    let measured = measure(|| {
        kept = Some(runtime.block_on(run(server, async |pipeline: &Pipeline<O>| {
            pipeline.consume(server.pods).await;
            pipeline.cache.lister()
        })));
    });
    assert_eq!(kept.map(|cache| cache.len()), Some(server.pods));
    let each = |bytes: i64| bytes as f64 / server.pods as f64;
    let name = format!("first list of {} pods as {object_type}: peak memory per pod", thousands(server.pods));
    table.row(&name, each(measured.bytes_max as i64), ("after the list", each(measured.bytes_current)), Some(1.1));
}

fn main() {
    println!("\nMemory of the cache besides the objects.");
    cache();
    println!("\nMemory of pods; the JSON of each has {} bytes.", POD.len());
    pods();
    caches();

    let server = StaticServer::start(20_000);
    println!("\nPeak memory during the first list, from a socket.");
    let table = Table::new(Unit::Bytes);
    listing::<Lazy<Pod>>(table, "Lazy<Pod>", &server);
    listing::<Pod>(table, "Pod", &server);
}
