//! A shared informer without a network: CPU time per event, the delay until a handler is called, the backlog of a blocked handler, and
//! how long reads of the cache take.
//!
//! CPU time is that of one thread with its own runtime, in which the whole informer runs; the fastest of several rounds is printed.
//! Delays are wall-clock times, so run this benchmark on an idle machine.
#![allow(clippy::print_stdout, reason = "the table is the result")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop")]

mod support;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use informant::{Cached, EventHandler, Lister, SharedInformer, pipeline::Indexer};

use self::support::{
    Content, Table, Unit, cpu,
    feed::{Feed, Order, modified},
    key, object,
};

/// A handler that counts updates.
#[derive(Default)]
struct Counting {
    updates: AtomicU64,
}

impl EventHandler<Content> for Counting {
    fn on_update(&self, _: &Cached<Content>, _: &Cached<Content>) {
        // All handlers run in one thread, so the counter is not contended.
        self.updates.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs a measurement in its own thread and runtime.
fn in_own_thread<R: Send + 'static>(run: impl AsyncFnOnce() -> R + Send + 'static) -> R {
    let thread = std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run())
    });
    thread.join().unwrap()
}

fn informer(feed: &Feed) -> SharedInformer<Content> {
    let informer = SharedInformer::of_decoded_objects(feed.clone()).build();
    informer.add_index("node", |object: &Cached<Content>| [object.node.to_string()]).unwrap();
    informer
}

/// CPU and wall time per event in nanoseconds.
async fn throughput(handlers: usize) -> (f64, f64) {
    const OBJECTS: usize = 10_000;
    const EVENTS: usize = 200_000;
    let (feed, orders) = Feed::new(OBJECTS);
    let informer = informer(&feed);
    let counting: Vec<_> = (0..handlers).map(|_| Arc::new(Counting::default())).collect();
    let registrations: Vec<_> =
        counting.iter().map(|handler| informer.subscribe().handler(Arc::clone(handler)).unwrap()).collect();
    informer.start();
    for registration in &registrations {
        registration.synced().await.unwrap();
    }
    // Chunks of 100 events, as one read of a busy socket would contain.
    let chunks: Vec<_> = (0..EVENTS).collect::<Vec<_>>();
    let chunks: Vec<Vec<_>> = chunks
        .chunks(100)
        .map(|chunk| chunk.iter().map(|number| modified(number * 7919 % OBJECTS, number + 2)).collect())
        .collect();
    let (start, clock) = (cpu(), Instant::now());
    for chunk in chunks {
        orders.send(Order::Events(chunk)).unwrap();
    }
    while counting.iter().any(|handler| handler.updates.load(Ordering::Relaxed) < EVENTS as u64) {
        tokio::task::yield_now().await;
    }
    let (cpu, wall) = (cpu() - start, clock.elapsed());
    informer.stop().await.unwrap();
    (cpu * 1000.0 / EVENTS as f64, wall.as_nanos() as f64 / EVENTS as f64)
}

fn show_throughput() {
    let handlers = [1, 10, 100];
    let mut best = [(f64::MAX, f64::MAX); 3];
    for _ in 0..5 {
        for (handlers, cell) in handlers.into_iter().zip(&mut best) {
            let (cpu, wall) = in_own_thread(async move || throughput(handlers).await);
            *cell = (cell.0.min(cpu), cell.1.min(wall));
        }
    }
    println!("\nFrom the source to all handlers, in one thread; 200,000 updates of 10,000 objects, one index.");
    println!("| {:<46} | CPU per event | events per second |", "informer without network");
    println!("|{:-<48}|--------------:|------------------:|", "");
    for (handlers, (cpu, wall)) in handlers.into_iter().zip(best) {
        println!("| {:<46} | {cpu:>10.0} ns | {:>17.0} |", format!("handlers: {handlers}"), 1e9 / wall);
    }
    let name = "informer without network, 10 handlers: CPU per event";
    Table::new(Unit::Nanoseconds).row(name, best[1].0, ("1 handler", best[0].0), Some(1.3));
}

/// A handler that measures the delay of each event.
struct Timing {
    /// When each event was sent, by its number.
    sent: Arc<Mutex<Vec<Instant>>>,
    latencies: Mutex<Vec<Duration>>,
}

impl EventHandler<Content> for Timing {
    fn on_update(&self, _: &Cached<Content>, new: &Cached<Content>) {
        let now = Instant::now();
        let number: usize = new.version().as_str().parse().unwrap();
        self.latencies.lock().unwrap().push(now - self.sent.lock().unwrap()[number - 2]);
    }
}

fn percentile(latencies: &mut [Duration], percent: f64) -> Duration {
    latencies.sort_unstable();
    latencies[((latencies.len() - 1) as f64 * percent / 100.0) as usize]
}

fn show_latency() {
    const EVENTS: usize = 5000;
    let mut latencies = in_own_thread(async || {
        let (feed, orders) = Feed::new(1000);
        let informer = informer(&feed);
        let sent = Arc::new(Mutex::new(Vec::with_capacity(EVENTS)));
        let timing = Arc::new(Timing { sent: Arc::clone(&sent), latencies: Mutex::default() });
        informer.subscribe().handler(Arc::clone(&timing)).unwrap();
        informer.start();
        informer.synced().await.unwrap();
        let mut pace = tokio::time::interval(Duration::from_millis(1));
        for number in 0..EVENTS {
            pace.tick().await;
            let event = modified(number % 1000, number + 2);
            sent.lock().unwrap().push(Instant::now());
            orders.send(Order::Events(vec![event])).unwrap();
        }
        informer.caught_up_to(&(EVENTS + 1).to_string().as_str().into(), Duration::from_secs(10)).await.unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        informer.stop().await.unwrap();
        timing.latencies.lock().unwrap().clone()
    });
    let (p50, p99) = (percentile(&mut latencies, 50.0), percentile(&mut latencies, 99.0));
    println!(
        "\nDelay from the source to a handler, at 1,000 events per second: p50 {p50:?}, p99 {p99:?} ({} events)",
        latencies.len()
    );
}

fn show_blocked() {
    const OBJECTS: usize = 1000;
    const EVENTS: usize = 1_000_000;
    let (backlog, coalesced) = in_own_thread(async || {
        let (feed, orders) = Feed::new(OBJECTS);
        let informer = informer(&feed);
        // The stream is not read.
        let stream = informer.subscribe().coalesce_above(1000).stream().unwrap();
        informer.start();
        informer.synced().await.unwrap();
        for first in (0..EVENTS).step_by(100) {
            orders.send(Order::Events((first..first + 100).map(|n| modified(n % OBJECTS, n + 2)).collect())).unwrap();
            tokio::task::yield_now().await;
        }
        informer.caught_up_to(&(EVENTS + 1).to_string().as_str().into(), Duration::from_secs(100)).await.unwrap();
        let status = stream.registration().status();
        informer.stop().await.unwrap();
        (status.backlog, status.coalesced)
    });
    println!(
        "\nBacklog of a blocked handler after {EVENTS} events of {OBJECTS} objects, with coalesce_above(1000): {backlog} events \
         (aim: at most 2,000); {coalesced} events were coalesced"
    );
}

/// Reads objects until `is_over`; returns how long each `get` took.
fn read(lister: &Lister<Content>, objects: usize, is_over: &AtomicBool) -> Vec<Duration> {
    let keys: Vec<_> = (0..objects).map(key).collect();
    let mut latencies = Vec::with_capacity(10_000_000);
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        let key = &keys[number * 7919 % objects];
        number += 1;
        let start = Instant::now();
        let found = lister.get(key);
        latencies.push(start.elapsed());
        assert!(found.is_some());
        if number % 64 == 0 {
            // A reader does other work between its reads.
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    latencies
}

/// Which cache is read.
#[derive(Clone, Copy)]
enum ReadCache {
    /// The cache of the informer.
    OfInformer,
    /// A separate cache without writes: its delays are caused by the machine, not by the informer.
    Unwritten,
}

/// Measures reads while the informer does `act`.
fn read_while(
    objects: usize,
    read_cache: ReadCache,
    act: impl AsyncFnOnce(&SharedInformer<Content>, &Feed, tokio::sync::mpsc::UnboundedSender<Order>) + Send + 'static,
) -> Vec<Duration> {
    let (feed, orders) = Feed::new(objects);
    let informer = informer(&feed);
    let unwritten = Indexer::new();
    let lister = match read_cache {
        ReadCache::OfInformer => informer.lister(),
        ReadCache::Unwritten => {
            (0..objects).for_each(|number| drop(unwritten.upsert(object(number, 1))));
            unwritten.lister()
        }
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let (ready, is_ready) = std::sync::mpsc::channel();
    let over = Arc::clone(&is_over);
    let writer = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            informer.start();
            informer.synced().await.unwrap();
            ready.send(()).unwrap();
            act(&informer, &feed, orders).await;
            over.store(true, Ordering::Relaxed);
            informer.stop().await.unwrap();
        });
    });
    is_ready.recv().unwrap();
    let latencies = read(&lister, objects, &is_over);
    writer.join().unwrap();
    latencies
}

fn show_readers() {
    const OBJECTS: usize = 100_000;
    let mut idle =
        read_while(OBJECTS, ReadCache::OfInformer, async |_, _, _| tokio::time::sleep(Duration::from_secs(2)).await);
    let mut busy = read_while(OBJECTS, ReadCache::OfInformer, async |informer, _, orders| {
        let mut pace = tokio::time::interval(Duration::from_millis(1));
        let mut number = 0;
        for _ in 0..2000 {
            pace.tick().await;
            orders
                .send(Order::Events((number..number + 50).map(|n| modified(n * 7919 % OBJECTS, n + 2)).collect()))
                .unwrap();
            number += 50;
        }
        informer.caught_up_to(&(number + 1).to_string().as_str().into(), Duration::from_secs(100)).await.unwrap();
    });
    let of = |latencies: &mut [Duration], percent| percentile(latencies, percent).as_nanos() as f64;
    println!(
        "\nReads from a cache of 100,000 objects with one index. The longest reads are mostly delays of the machine."
    );
    let table = Table::new(Unit::Nanoseconds);
    for (name, percent, aim) in
        [("p50", 50.0, None), ("p99", 99.0, Some(10.0)), ("p99.9", 99.9, None), ("longest", 100.0, None)]
    {
        let name = format!("get while 50,000 events per second are applied, {name}");
        table.row(&name, of(&mut busy, percent), ("get while idle", of(&mut idle, percent)), aim);
    }

    let relists = async |informer: &SharedInformer<Content>, feed: &Feed, orders| {
        let mut orders = orders;
        for round in 1..=5 {
            let version = 10 * round;
            feed.relist(OBJECTS, version);
            let (next, later) = tokio::sync::mpsc::unbounded_channel();
            tokio::sync::mpsc::UnboundedSender::send(&orders, Order::Expire(later)).unwrap();
            orders = next;
            informer.caught_up_to(&version.to_string().as_str().into(), Duration::from_secs(100)).await.unwrap();
        }
    };
    let mut own = read_while(OBJECTS, ReadCache::OfInformer, relists);
    let mut unwritten = read_while(OBJECTS, ReadCache::Unwritten, relists);
    for (name, percent) in [("p99", 99.0), ("p99.9", 99.9), ("longest (aim: 20 ms)", 100.0)] {
        let name = format!("get during five relists that change all 100,000 objects, {name}");
        table.row(&name, of(&mut own, percent), ("get from a cache without writes", of(&mut unwritten, percent)), None);
    }
}

fn main() {
    show_throughput();
    show_latency();
    show_blocked();
    show_readers();
}
