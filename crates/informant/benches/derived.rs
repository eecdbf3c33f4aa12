//! Derived maps: CPU time per event that changes no entry, memory per entry, and the time of a read.
//!
//! CPU time is that of one thread with its own runtime, in which the whole informer runs; the fastest of three rounds is printed. For
//! reads, the elapsed time of the fastest of 20 rounds is printed.
#![allow(clippy::print_stdout, reason = "the table is the result")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop")]

mod support;

use std::{
    hint::black_box,
    sync::{Arc, Mutex},
    time::Instant,
};

use allocation_counter::measure;
use bytes::Bytes;
use futures_util::StreamExt;
use hashbrown::HashMap;
use informant::{
    Cached, Lazy, Object, SharedInformer,
    derived::DerivedMap,
    error::SourceError,
    pipeline::{
        Item, ListPiece, ListRequest, ListStream, ListWatch, SourceEvent, WatchPiece, WatchRequest, WatchStream,
    },
};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::RwLock;
use serde_json::Value;
use tokio::sync::mpsc;

use self::support::{KEYS, Table, Unit, cpu, shuffled, thousands};

const POD: &str = include_str!("pod.json");

/// What a gateway needs to know of a pod.
#[derive(PartialEq)]
struct Endpoint {
    node: String,
    is_ready: bool,
}

type Endpoints = DerivedMap<String, Endpoint>;

fn endpoint(pod: &Pod) -> Option<(String, Endpoint)> {
    let (node, status) = (pod.spec.as_ref()?.node_name.clone()?, pod.status.as_ref()?);
    let is_ready = status.conditions.iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True");
    Some((status.pod_ip.clone()?, Endpoint { node, is_ready }))
}

/// The JSON of pods with numbers.
struct Pods(Value);

impl Pods {
    fn new() -> Self {
        Self(serde_json::from_str(POD).unwrap())
    }

    fn json(&mut self, number: usize, version: usize) -> Bytes {
        let pod = &mut self.0;
        pod["metadata"]["name"] = format!("web-{number:06}").into();
        pod["metadata"]["uid"] = format!("0b7d2f1e-9a54-4c55-8f0e-{number:012}").into();
        pod["metadata"]["resourceVersion"] = version.to_string().into();
        pod["status"]["podIP"] = address(number).into();
        pod["status"]["qosClass"] = format!("changed at {version}").into();
        serde_json::to_vec(pod).unwrap().into()
    }
}

fn address(number: usize) -> String {
    format!("10.{}.{}.{}", number / 65536, number / 256 % 256, number % 256)
}

/// A source that lists pods; its watch delivers the events that the benchmark sends.
#[derive(Clone)]
struct Source {
    list: Arc<Mutex<Vec<Bytes>>>,
    events: Arc<Mutex<Option<mpsc::UnboundedReceiver<Bytes>>>>,
}

impl Source {
    fn new(pods: usize) -> (Self, mpsc::UnboundedSender<Bytes>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut json = Pods::new();
        let list = (0..pods).map(|number| json.json(number, number + 1)).collect();
        (Self { list: Arc::new(Mutex::new(list)), events: Arc::new(Mutex::new(Some(receiver))) }, sender)
    }
}

impl<O: Send + Sync + 'static> ListWatch<O> for Source {
    async fn list(&self, _: ListRequest) -> Result<ListStream<O>, SourceError> {
        let list = std::mem::take(&mut *self.list.lock().unwrap());
        Ok(ListPiece::page(list.len().to_string().as_str(), list.into_iter().map(Item::json)))
    }

    async fn watch(&self, _: WatchRequest) -> Result<WatchStream<O>, SourceError> {
        let events = self.events.lock().unwrap().take().unwrap();
        let stream = futures_util::stream::unfold(events, |mut events| async {
            let json = events.recv().await?;
            Some((Ok(WatchPiece::Event(SourceEvent::Modified(Item::json(json)))), events))
        });
        Ok(stream.boxed())
    }
}

/// Runs a measurement in its own thread and runtime.
fn in_own_thread<R: Send + 'static>(run: impl AsyncFnOnce() -> R + Send + 'static) -> R {
    let thread = std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run())
    });
    thread.join().unwrap()
}

fn derive<O: Object>(
    informer: &SharedInformer<O>,
    endpoint: fn(&Cached<O>) -> Option<(String, Endpoint)>,
) -> Option<Endpoints> {
    Some(informer.derive(endpoint).register().unwrap())
}

fn handle<O: Object>(
    informer: &SharedInformer<O>,
    _: fn(&Cached<O>) -> Option<(String, Endpoint)>,
) -> Option<Endpoints> {
    informer.subscribe().on_event(|_| ()).register().unwrap();
    None
}

type Follow<O> = fn(&SharedInformer<O>, fn(&Cached<O>) -> Option<(String, Endpoint)>) -> Option<Endpoints>;

/// CPU time per event in nanoseconds, of updates that change no entry.
async fn per_event<O: Object>(follow: Follow<O>, endpoint: fn(&Cached<O>) -> Option<(String, Endpoint)>) -> f64 {
    let (source, events) = Source::new(KEYS);
    let informer = SharedInformer::<O>::new(source);
    let map = follow(&informer, endpoint);
    informer.start();
    let delivered = || informer.status().handlers[0].delivered;
    while delivered() <= KEYS as u64 {
        tokio::task::yield_now().await;
    }
    let mut json = Pods::new();
    let updates: Vec<_> = (0..KEYS).map(|number| json.json(number * 7919 % KEYS, KEYS + number + 1)).collect();
    let start = cpu();
    updates.into_iter().for_each(|update| events.send(update).unwrap());
    while delivered() <= 2 * KEYS as u64 {
        tokio::task::yield_now().await;
    }
    let spent = cpu() - start;
    assert!(map.is_none_or(|map| map.len() == KEYS && map.snapshot().generation() == 1));
    informer.stop().await.unwrap();
    spent * 1000.0 / KEYS as f64
}

fn show_events<O: Object>(table: Table, name: &str, aim: f64, endpoint: fn(&Cached<O>) -> Option<(String, Endpoint)>) {
    let (mut derived, mut handled) = (f64::MAX, f64::MAX);
    for _ in 0..3 {
        handled = handled.min(in_own_thread(async move || per_event::<O>(handle, endpoint).await));
        derived = derived.min(in_own_thread(async move || per_event::<O>(derive, endpoint).await));
    }
    let name = format!("{name}: update that changes no entry of a derived map, CPU per event");
    table.row(&name, derived, ("an empty handler", handled), Some(aim));
}

/// The bytes that an informer of lazy pods holds for each of them.
fn memory(follow: Follow<Lazy<Pod>>) -> f64 {
    let allocated = measure(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let kept = runtime.block_on(async {
            let (source, events) = Source::new(KEYS);
            let informer = SharedInformer::<Lazy<Pod>>::new(source);
            let map = follow(&informer, of_lazy);
            informer.start();
            while informer.status().handlers[0].delivered <= KEYS as u64 {
                tokio::task::yield_now().await;
            }
            (informer, map, events)
        });
        std::mem::forget((kept, runtime));
    });
    allocated.bytes_current as f64 / KEYS as f64
}

fn show_memory() {
    let (with, without) = (memory(derive), memory(handle));
    let text = |text: &str| text.len() + size_of::<String>();
    let node = endpoint(&serde_json::from_str(POD).unwrap()).unwrap().1.node;
    let value = size_of::<Endpoint>() + node.len();
    let keys = 2 * text(&address(KEYS / 2));
    let overhead = with - without - (value + keys) as f64;
    let name = format!("derived map of {} entries: memory per entry, beyond its value and two keys", thousands(KEYS));
    Table::new(Unit::Bytes).row(&name, overhead, ("aim", 200.0), Some(1.0));
}

type Read<'a> = &'a dyn Fn(&str) -> Option<Arc<Endpoint>>;

async fn show_reads() {
    let (source, _events) = Source::new(KEYS);
    let informer = SharedInformer::<Lazy<Pod>>::new(source);
    let map = informer.derive(of_lazy).register().unwrap();
    // What a program without derived maps would fill in a handler.
    let plain = Arc::new(Mutex::new(HashMap::new()));
    let filled = Arc::clone(&plain);
    // The locked map has values of its own: each read is as cold as the others.
    let locked = Arc::new(RwLock::new(HashMap::new()));
    let filled_too = Arc::clone(&locked);
    let handler = informer.subscribe().on_add(move |pod, _| {
        let (key, endpoint) = of_lazy(pod).unwrap();
        filled.lock().unwrap().insert(key, Arc::new(endpoint));
        let (key, endpoint) = of_lazy(pod).unwrap();
        filled_too.write().insert(key, Arc::new(endpoint));
    });
    let handler = handler.register().unwrap();
    informer.start();
    map.synced().await.unwrap();
    handler.synced().await.unwrap();
    let plain = std::mem::take(&mut *plain.lock().unwrap());
    let keys: Vec<_> = shuffled().into_iter().map(address).collect();
    let snapshot = map.snapshot();
    let reads: [Read<'_>; 4] =
        [&|key| map.get(key), &|key| snapshot.get(key).cloned(), &|key| plain.get(key).cloned(), &|key| {
            locked.read().get(key).cloned()
        }];
    let mut best = [f64::MAX; 4];
    // In turns, because other programs use the processor's caches as well.
    for _ in 0..20 {
        for (get, best) in reads.iter().zip(&mut best) {
            // The clock of the CPU time advances in steps that are longer than a round.
            let begun = Instant::now();
            keys.iter().for_each(|key| drop(black_box(get(key))));
            *best = best.min(begun.elapsed().as_secs_f64() * 1e9 / KEYS as f64);
        }
    }
    let [ours, of_snapshot, theirs, of_locked] = best;
    let table = Table::new(Unit::Nanoseconds);
    table.row("derived map: get one of 100,000 entries", ours, ("hash map", theirs), Some(1.5));
    table.row("derived map: get one of 100,000 entries", ours, ("hash map behind a lock", of_locked), None);
    table.row("snapshot of a derived map: get one of 100,000 entries", of_snapshot, ("hash map", theirs), Some(1.5));
    informer.stop().await.unwrap();
}

fn of_pod(pod: &Cached<Pod>) -> Option<(String, Endpoint)> {
    endpoint(pod)
}

/// The fields of a pod that the function reads.
#[derive(serde::Deserialize)]
struct Fields<'a> {
    #[serde(borrow)]
    spec: Spec<'a>,
    #[serde(borrow)]
    status: Status<'a>,
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    node_name: &'a str,
}

#[derive(serde::Deserialize)]
struct Status<'a> {
    #[serde(rename = "podIP")]
    pod_ip: &'a str,
    #[serde(borrow)]
    conditions: Vec<Condition<'a>>,
}

#[derive(serde::Deserialize)]
struct Condition<'a> {
    r#type: &'a str,
    status: &'a str,
}

fn of_lazy(pod: &Cached<Lazy<Pod>>) -> Option<(String, Endpoint)> {
    let json = pod.json().ok()?;
    let Fields { spec, status } = json.peek().ok()?;
    let is_ready = status.conditions.iter().any(|condition| (condition.r#type, condition.status) == ("Ready", "True"));
    Some((status.pod_ip.to_owned(), Endpoint { node: spec.node_name.to_owned(), is_ready }))
}

fn main() {
    in_own_thread(show_reads);
    show_memory();
    let table = Table::new(Unit::Nanoseconds);
    show_events::<Pod>(table, "Pod", 1.15, of_pod);
    show_events::<Lazy<Pod>>(table, "Lazy<Pod>, read by peek", 1.6, of_lazy);
}
