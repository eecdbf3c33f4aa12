//! A shared informer without a network: what handlers cost, how late they hear, what they hold while they are blocked, and
//! how long readers wait.
//!
//! CPU time is that of one thread with its own runtime, in which all of an informer runs; of several rounds the fastest
//! counts. Latencies are by the clock, so run it on a quiet machine.
#![allow(clippy::print_stdout, reason = "the table is the result")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop")]

mod support;

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant;

use informant::Cached;
use informant::EventHandler;
use informant::SharedInformer;
use informant::store::Indexer;
use informant::store::Lister;

use self::support::Content;
use self::support::cpu;
use self::support::feed::Feed;
use self::support::feed::Order;
use self::support::feed::modified;
use self::support::key;
use self::support::object;
use self::support::print_head;
use self::support::print_row;

/// Counts what it hears.
#[derive(Default)]
struct Counting {
    updates: AtomicU64,
}

impl EventHandler<Content> for Counting {
    fn on_update(&self, _: &Cached<Content>, _: &Cached<Content>) {
        // One handler at a time is called, so this is not contended.
        self.updates.fetch_add(1, Ordering::Relaxed);
    }
}

/// Runs in a thread with a runtime of its own.
fn alone<R: Send + 'static>(run: impl AsyncFnOnce() -> R + Send + 'static) -> R {
    let thread = std::thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(run())
    });
    thread.join().unwrap()
}

fn informer(feed: &Feed, is_in_order: bool) -> SharedInformer<Content> {
    let builder = SharedInformer::of_ready_objects(feed.clone());
    let informer = if is_in_order { builder.in_order() } else { builder }.build();
    informer.add_index("node", |object: &Cached<Content>| [object.node.to_string()]).unwrap();
    informer
}

/// CPU and wall time of one event, in nanoseconds, with so many handlers.
async fn throughput(handlers: usize, is_in_order: bool) -> (f64, f64) {
    const OBJECTS: usize = 10_000;
    const EVENTS: usize = 200_000;
    let (feed, orders) = Feed::new(OBJECTS);
    let informer = informer(&feed, is_in_order);
    let counting: Vec<_> = (0..handlers).map(|_| Arc::new(Counting::default())).collect();
    let registrations: Vec<_> =
        counting.iter().map(|handler| informer.add_handler(Arc::clone(handler)).unwrap()).collect();
    informer.start();
    for registration in &registrations {
        registration.synced().await.unwrap();
    }
    // Chunks as large as a read of a busy socket.
    let chunks: Vec<_> = (0..EVENTS).collect::<Vec<_>>();
    let chunks: Vec<Vec<_>> = chunks
        .chunks(100)
        .map(|chunk| chunk.iter().map(|number| modified(number * 7919 % OBJECTS, number + 2)).collect())
        .collect();
    let (begun, clock) = (cpu(), Instant::now());
    for chunk in chunks {
        orders.send(Order::Events(chunk)).unwrap();
    }
    while counting.iter().any(|handler| handler.updates.load(Ordering::Relaxed) < EVENTS as u64) {
        tokio::task::yield_now().await;
    }
    let (cpu, wall) = (cpu() - begun, clock.elapsed());
    informer.stop().await.unwrap();
    (cpu * 1000.0 / EVENTS as f64, wall.as_nanos() as f64 / EVENTS as f64)
}

fn show_throughput() {
    let mut best = [[(f64::MAX, f64::MAX); 3]; 2];
    for _ in 0..5 {
        for (is_in_order, row) in [false, true].into_iter().zip(&mut best) {
            for (handlers, cell) in [1, 10, 100].into_iter().zip(row) {
                let (cpu, wall) = alone(async move || throughput(handlers, is_in_order).await);
                *cell = (cell.0.min(cpu), cell.1.min(wall));
            }
        }
    }
    println!("\nFrom the source to all handlers, in one thread; 200,000 updates of 10,000 objects, one index.");
    println!("| queue    | handlers | CPU per event |      events/s |");
    println!("|----------|---------:|--------------:|--------------:|");
    for (queue, row) in ["grouped", "in order"].into_iter().zip(best) {
        for (handlers, (cpu, wall)) in [1, 10, 100].into_iter().zip(row) {
            println!("| {queue:<8} | {handlers:>8} | {cpu:>10.0} ns | {:>13.0} |", 1e9 / wall);
        }
    }
    print_head("10 handlers", "1 handler");
    print_row("grouped: CPU per event, ns", best[0][1].0, best[0][0].0, Some(1.3));
    print_row("in order: CPU per event, ns", best[1][1].0, best[1][0].0, Some(1.3));
}

/// When an object was sent, by its number.
struct Timing {
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
    let mut latencies = alone(async || {
        let (feed, orders) = Feed::new(1000);
        let informer = informer(&feed, false);
        let sent = Arc::new(Mutex::new(Vec::with_capacity(EVENTS)));
        let timing = Arc::new(Timing { sent: Arc::clone(&sent), latencies: Mutex::default() });
        informer.add_handler(Arc::clone(&timing)).unwrap();
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
    println!("\nFrom the source to a handler at 1,000 events/s: p50 {p50:?}, p99 {p99:?} ({} events)", latencies.len());
}

fn show_blocked() {
    const OBJECTS: usize = 1000;
    const EVENTS: usize = 1_000_000;
    let (backlog, coalesced) = alone(async || {
        let (feed, orders) = Feed::new(OBJECTS);
        let informer = informer(&feed, false);
        // Nobody reads it.
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
        "\nA handler blocked for {EVENTS} events over {OBJECTS} objects, coalescing above 1,000, holds {backlog} entries \
         (aim ≤ 2,000); {coalesced} were coalesced"
    );
}

/// How long a reader waits for each get, until it is told to end.
fn read(lister: &Lister<Content>, objects: usize, is_over: &AtomicBool) -> Vec<Duration> {
    let keys: Vec<_> = (0..objects).map(key).collect();
    let mut latencies = Vec::with_capacity(10_000_000);
    let mut number = 0;
    while !is_over.load(Ordering::Relaxed) {
        let key = &keys[number * 7919 % objects];
        number += 1;
        let begun = Instant::now();
        let found = lister.get(key);
        latencies.push(begun.elapsed());
        assert!(found.is_some());
        if number % 64 == 0 {
            // A reader has other things to do.
            std::thread::sleep(Duration::from_micros(50));
        }
    }
    latencies
}

/// Which cache is read.
#[derive(Clone, Copy)]
enum Whose {
    Own,
    /// One that nobody writes: what its reader waits for is the machine.
    Bystander,
}

/// Reads while the informer does something.
fn read_while(
    objects: usize,
    whose: Whose,
    act: impl AsyncFnOnce(&SharedInformer<Content>, &Feed, tokio::sync::mpsc::UnboundedSender<Order>) + Send + 'static,
) -> Vec<Duration> {
    let (feed, orders) = Feed::new(objects);
    let informer = informer(&feed, false);
    let bystander = Indexer::new();
    let lister = match whose {
        Whose::Own => informer.lister(),
        Whose::Bystander => {
            (0..objects).for_each(|number| drop(bystander.upsert(object(number, 1))));
            bystander.lister()
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
    let mut idle = read_while(OBJECTS, Whose::Own, async |_, _, _| tokio::time::sleep(Duration::from_secs(2)).await);
    let mut busy = read_while(OBJECTS, Whose::Own, async |informer, _, orders| {
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
    println!("\nA reader's get, ns; 100,000 objects, one index.");
    print_head("50,000 ev/s", "idle");
    print_row("p50", of(&mut busy, 50.0), of(&mut idle, 50.0), None);
    print_row("p99", of(&mut busy, 99.0), of(&mut idle, 99.0), Some(10.0));
    print_row("p99.9", of(&mut busy, 99.9), of(&mut idle, 99.9), None);
    print_row("longest, which is mostly the machine's", of(&mut busy, 100.0), of(&mut idle, 100.0), None);

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
    let mut own = read_while(OBJECTS, Whose::Own, relists);
    let mut bystander = read_while(OBJECTS, Whose::Bystander, relists);
    println!("\nA reader's get, ns, during five relists of 100,000 objects that all have changed.");
    print_head("this cache", "bystander's");
    for (name, percent) in [("p99", 99.0), ("p99.9", 99.9), ("longest (aim: 20,000,000)", 100.0)] {
        print_row(name, of(&mut own, percent), of(&mut bystander, percent), None);
    }
}

fn main() {
    show_throughput();
    show_latency();
    show_blocked();
    show_readers();
}
