//! Memory of cache and objects, in bytes, beside a bare hash map or the raw JSON. The figures are exact.
#![allow(clippy::print_stdout, reason = "the table is the result")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop")]

mod support;

use std::sync::Arc;

use allocation_counter::measure;
use hashbrown::HashMap;
use informant::Cached;
use informant::Lazy;
use informant::Object;
use informant::object::Scanner;
use informant::store::Indexer;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector;
use kube::runtime::watcher;

use self::support::Content;
use self::support::KEYS;
use self::support::identity;
use self::support::object;
use self::support::pipeline::Pipeline;
use self::support::pipeline::run;
use self::support::print_head;
use self::support::print_row;
use self::support::static_server::StaticServer;

const POD: &[u8] = include_bytes!("pod.json");

/// Bytes that stay allocated, for each of `count`, less the object itself.
fn held<T>(count: usize, object: usize, make: impl FnOnce() -> T) -> f64 {
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
    let map = held(KEYS, size, || {
        let content = |number| Content { node: number as u32, app: 0 };
        // What a user would write: the key as a text, uid and version beside the object.
        let entry = |number: usize| {
            let identity = identity(number, 1);
            let uid = identity.uid.as_str().to_owned();
            let version = identity.version.as_str().to_owned();
            (identity.key.as_str().to_owned(), Arc::new((uid, version, content(number))))
        };
        (0..KEYS).map(entry).collect::<HashMap<_, _>>()
    });
    let by_node = |object: &Cached<Content>| [object.node];

    let none = held(KEYS, size, || filled(Indexer::builder().namespace_index(false).build()));
    print_row("per object beyond itself, no index", none, map, None);
    let namespace = held(KEYS, size, || filled(Indexer::new()));
    // The aim is 300 bytes with one index.
    let aim = Some((300.0 / map * 100.0).round() / 100.0);
    print_row("per object beyond itself, index by namespace", namespace, map, aim);
    let node = held(KEYS, size, || {
        let cache = Indexer::builder().namespace_index(false).build();
        cache.add_index("node", by_node).unwrap();
        filled(cache)
    });
    print_row("per object beyond itself, index of 1000 values", node, map, aim);
    let unique = held(KEYS, size, || {
        let cache = Indexer::builder().namespace_index(false).build();
        cache.add_index("uid", |object: &Cached<Content>| [object.uid().clone()]).unwrap();
        filled(cache)
    });
    print_row("per object beyond itself, index of unique values", unique, map, None);
    let both = held(KEYS, size, || {
        let cache = Indexer::new();
        cache.add_index("node", by_node).unwrap();
        filled(cache)
    });
    print_row("per object beyond itself, by namespace and node", both, map, None);
}

fn decode<O: Object>() -> Cached<O> {
    Scanner::of_kind::<Pod>().scan(POD).unwrap().decode().unwrap()
}

fn pods() {
    let raw = decode::<Lazy<Pod>>().json().len() as f64;
    print_row("Lazy<Pod>, beside its JSON without managedFields", held(1, 0, decode::<Lazy<Pod>>), raw, Some(1.15));
    print_row("Pod without managedFields", held(1, 0, decode::<Pod>), raw, None);
    let whole = held(1, 0, || serde_json::from_slice::<Pod>(POD).unwrap());
    print_row("Pod as serde_json decodes it", whole, raw, None);
}

/// A thousand pods in a cache, beside the same in kube-runtime's store.
fn caches() {
    const PODS: usize = 1000;
    let named = |number: usize| {
        let text = std::str::from_utf8(POD).unwrap();
        let name = decode::<Lazy<Pod>>().key().name().to_owned();
        text.replacen(&format!("{name:?}"), &format!("\"pod-{number}\""), 1)
    };
    let texts: Vec<_> = (0..PODS).map(named).collect();
    let theirs = held(PODS, 0, || {
        let (reader, mut writer) = reflector::store::<Pod>();
        for text in &texts {
            writer.apply_watcher_event(&watcher::Event::Apply(serde_json::from_str(text).unwrap()));
        }
        assert_eq!(reader.state().len(), PODS);
        (reader, writer)
    });
    let lazy = held(PODS, 0, || filled_with::<Lazy<Pod>>(&texts));
    print_row("Lazy<Pod> in the cache", lazy, theirs, None);
    print_row("Pod in the cache", held(PODS, 0, || filled_with::<Pod>(&texts)), theirs, None);
}

fn filled_with<O: Object>(texts: &[String]) -> Indexer<O> {
    let (cache, mut scanner) = (Indexer::new(), Scanner::of_kind::<Pod>());
    texts.iter().for_each(|text| drop(cache.upsert(scanner.scan(text.as_bytes()).unwrap().decode().unwrap())));
    assert_eq!(cache.lister().len(), texts.len());
    cache
}

/// Bytes for each pod: the most that was held while they came through a socket, and what stays.
fn listing<O: Object>(name: &str, server: &StaticServer) {
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
    print_row(name, each(measured.bytes_max as i64), each(measured.bytes_current), Some(1.1));
}

fn main() {
    println!("\nMemory in bytes, {KEYS} objects.");
    print_head("informant", "hash map");
    cache();
    println!("\nMemory in bytes for a pod of {} bytes.", POD.len());
    print_head("held", "JSON");
    pods();
    println!("\nMemory in bytes for each of 1000 such pods in a cache.");
    print_head("informant", "kube-runtime");
    caches();

    let server = StaticServer::start(20_000);
    println!("\nMemory in bytes for each of {} pods while their first list comes, beside what stays.", server.pods);
    print_head("most", "stays");
    listing::<Lazy<Pod>>("Lazy<Pod>", &server);
    listing::<Pod>("Pod", &server);
}
