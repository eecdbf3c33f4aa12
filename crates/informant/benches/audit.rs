//! How much an audit of 100,000 objects disturbs reads of the cache and the delivery of events.
//!
//! The embedded API server runs in threads of its own and is asked over a socket. Delays are wall-clock times, so run this benchmark on an
//! idle machine.
#![allow(clippy::print_stdout, reason = "the table is the result")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop")]

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use informant::{Lazy, SharedInformer, SharedInformerFactory};
use informant_apiserver::ApiServer;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, Config};
use serde_json::{Value, json};

const OBJECTS: usize = 100_000;
const EVENTS: usize = 40_000;
/// The time between two events.
const PACE: Duration = Duration::from_millis(1);

fn config_map(number: usize, text: &str) -> Value {
    let name = format!("config-{number}");
    json!({"metadata": {"namespace": "shop", "name": name}, "data": {"text": text, "filler": "x".repeat(500)}})
}

/// Starts a server with the objects. Its thread ends with the process.
fn start_server() -> (ApiServer, String) {
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        // Two threads: a page must not delay the server's own watches.
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(async {
            let server = ApiServer::new();
            (0..OBJECTS).for_each(|number| drop(server.put("configmaps", config_map(number, "")).unwrap()));
            let listening = server.listen(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
            sender.send((server, listening.url())).unwrap();
            std::future::pending::<()>().await;
        });
    });
    receiver.recv().unwrap()
}

/// The delays that one run measured.
struct Measured {
    reads: Vec<Duration>,
    events: Vec<Duration>,
}

/// Reads the cache, and writes one object each millisecond, beside an audit or without one.
fn measure(server: &ApiServer, url: &str, is_audited: bool) -> Measured {
    let config = Config::new(url.parse().unwrap());
    let is_over = Arc::new(AtomicBool::new(false));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let factory = SharedInformerFactory::builder(Client::try_from(config).unwrap())
            .audit_every(Duration::from_secs(300))
            .build();
        let configs = factory.informer::<Lazy<ConfigMap>>();
        let delays = Arc::<Mutex<Vec<Duration>>>::default();
        // When each write returned, in nanoseconds. The write itself waits while the embedded server collects a page.
        let written: Arc<Vec<AtomicU64>> = Arc::new((0..EVENTS).map(|_| AtomicU64::new(u64::MAX)).collect());
        let (begun, recorded, times) = (Instant::now(), Arc::clone(&delays), Arc::clone(&written));
        configs
            .subscribe()
            .on_update(move |_, new| {
                let now = begun.elapsed();
                let config = new.get().unwrap();
                let number: usize = config.data.as_ref().unwrap()["text"].parse().unwrap();
                let written = Duration::from_nanos(times[number % EVENTS].load(Ordering::Acquire));
                recorded.lock().unwrap().push(now.saturating_sub(written));
            })
            .register()
            .unwrap();
        factory.start();
        factory.synced().await.unwrap();
        if is_audited {
            // The first audit becomes due. The watch is opened again, because it seems to be silent for long.
            tokio::time::pause();
            tokio::time::advance(Duration::from_secs(331)).await;
            tokio::time::resume();
        }
        let reader = std::thread::spawn({
            let (configs, is_over) = (configs.clone(), Arc::clone(&is_over));
            move || read(&configs, &is_over)
        });
        let writer = std::thread::spawn({
            let server = server.clone();
            // Texts that no earlier measurement has written: an equal object is no change.
            let first = usize::from(is_audited) * EVENTS;
            move || write(&server, begun, first, &written)
        });
        let audits = u64::from(is_audited);
        while delays.lock().unwrap().len() < EVENTS || configs.status().audits < audits {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        is_over.store(true, Ordering::Relaxed);
        writer.join().unwrap();
        let reads = reader.join().unwrap();
        assert_eq!(configs.status().audits, audits);
        factory.stop().await.unwrap();
        let events = std::mem::take(&mut *delays.lock().unwrap());
        Measured { reads, events }
    })
}

fn read(configs: &SharedInformer<Lazy<ConfigMap>>, is_over: &AtomicBool) -> Vec<Duration> {
    let (lister, keys) = (configs.lister(), configs.lister().keys());
    let mut delays = Vec::with_capacity(10_000_000);
    while !is_over.load(Ordering::Relaxed) {
        for number in 0..64 {
            let key = &keys[(delays.len() + number) * 7919 % OBJECTS];
            let begun = Instant::now();
            let found = lister.get(key);
            delays.push(begun.elapsed());
            assert!(found.is_some());
        }
        // A reader does other work between its reads.
        std::thread::sleep(Duration::from_micros(500));
    }
    delays
}

/// Writes objects with the numbers from `first` on, and notes when each write returned.
fn write(server: &ApiServer, begun: Instant, first: usize, written: &[AtomicU64]) {
    for (number, time) in (first..).zip(written) {
        server.put("configmaps", config_map(number * 7919 % OBJECTS, &number.to_string())).unwrap();
        time.store(begun.elapsed().as_nanos() as u64, Ordering::Release);
        std::thread::sleep(PACE);
    }
}

fn percentile(delays: &mut [Duration], percent: f64) -> f64 {
    delays.sort_unstable();
    delays[((delays.len() - 1) as f64 * percent / 100.0) as usize].as_secs_f64() * 1e6
}

fn main() {
    let (server, url) = start_server();
    let [mut idle, mut audited] = [false, true].map(|is_audited| measure(&server, &url, is_audited));
    println!("An audit of {OBJECTS} objects beside {EVENTS} events, in µs:\n");
    println!("| | with an audit | without | ratio |\n| --- | ---: | ---: | ---: |");
    for percent in [50.0, 99.0, 99.9] {
        for (name, audited, idle) in [
            ("get", &mut audited.reads, &mut idle.reads),
            ("delay from the write to the handler", &mut audited.events, &mut idle.events),
        ] {
            let (audited, idle) = (percentile(audited, percent), percentile(idle, percent));
            println!("| {name}, p{percent} | {audited:.1} | {idle:.1} | {:.2} |", audited / idle);
        }
    }
}
