//! Thousands of rounds of random faults: when the faults end, the cache equals the server's state.
//!
//! `INFORMANT_SEED` repeats a run, `INFORMANT_CASES` multiplies the number of rounds; `--nocapture` shows the figures.
#![allow(clippy::print_stderr, reason = "`--nocapture` shows the figures")]

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use informant::{
    Lazy, Lister, OfKind,
    factory::Activity,
    pipeline::{Backoff, Delta, DeltaFifo, Destination, Indexer, KnownObjects, Reflector, ReflectorHandle, WriteBatch},
};
use informant_apiserver::{ApiServer, CutAfter, CutEnding, Fault, GzipMode, On};
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::task::JoinHandle;

use super::kube_source::config_maps;
use crate::support::reflector::{config_map, server_at_10, sleep_seconds};

/// Reads the text of a config map, whatever its object type.
pub(crate) trait Texted: OfKind {
    /// A field that is checked while the object is decoded; a wrong type in it quarantines the object.
    const CHECKED: &str;

    fn text(&self) -> String;
}

impl Texted for ConfigMap {
    const CHECKED: &str = "data";

    fn text(&self) -> String {
        self.data.as_ref().and_then(|data| data.get("text").cloned()).unwrap_or_default()
    }
}

impl Texted for Lazy<ConfigMap> {
    const CHECKED: &str = "metadata.labels";

    fn text(&self) -> String {
        self.get().unwrap().text()
    }
}

/// A reflector, a queue and a cache.
struct Pipeline<O> {
    cache: Lister<O>,
    handle: ReflectorHandle,
    tasks: [JoinHandle<()>; 2],
    close: Box<dyn FnOnce()>,
    /// Counts updates within one incarnation that lower the version.
    out_of_order: Arc<std::sync::atomic::AtomicUsize>,
}

fn pipeline<O: Texted>(server: &ApiServer, streams: bool) -> Pipeline<O> {
    let indexer = Indexer::<O>::new();
    let cache = indexer.lister();
    let known: Arc<dyn KnownObjects<O>> = Arc::new(cache.clone());
    let queue = DeltaFifo::builder().known_objects(Arc::clone(&known)).build();
    let out_of_order = Arc::default();
    let consumer = tokio::spawn(consume(queue.clone(), indexer, Arc::clone(&out_of_order)));
    let (handle, reflector) = reflect(server, queue.clone(), known, streams);
    Pipeline { cache, handle, tasks: [reflector, consumer], close: Box::new(move || queue.close()), out_of_order }
}

fn reflect<O: Texted>(
    server: &ApiServer,
    queue: impl Destination<O>,
    known: Arc<dyn KnownObjects<O>>,
    streams: bool,
) -> (ReflectorHandle, JoinHandle<()>) {
    let builder = Reflector::builder(config_maps(server)).known_objects(known);
    // The seed of the backoff makes runs repeatable.
    let builder = builder.backoff(Backoff::default().seed(7)).on_error(|_| {}).on_quarantine(|_| {});
    let reflector = if streams { builder } else { builder.without_streaming() }.build(queue);
    (reflector.handle(), tokio::spawn(reflector.run(std::future::pending())))
}

type Counter = Arc<std::sync::atomic::AtomicUsize>;

async fn consume<O: Texted>(queue: DeltaFifo<O>, cache: Indexer<O>, out_of_order: Counter) {
    while let Ok(batch) = queue.drain().await {
        let mut writes = WriteBatch::new();
        for delta in batch.items().iter().flat_map(|item| item.deltas().iter()) {
            write(delta, &mut writes);
        }
        check_order(&cache.apply(writes), &out_of_order);
        batch.acknowledge();
    }
}

fn write<O>(delta: &Delta<O>, writes: &mut WriteBatch<O>) {
    match delta {
        Delta::Deleted(deleted) => writes.remove(deleted.key().clone()),
        Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) | Delta::Sync(object) => {
            writes.upsert(object.clone());
        }
    }
}

/// P2
fn check_order<O>(applied: &informant::pipeline::Applied<O>, out_of_order: &Counter) {
    for replacement in &applied.replacements {
        let (Some(old), Some(new)) = (&replacement.old, &replacement.new) else { continue };
        if old.uid() == new.uid() && new.version().compare(old.version()) == Some(std::cmp::Ordering::Less) {
            out_of_order.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        }
    }
}

impl<O: Texted> Pipeline<O> {
    /// The contents of the cache: version and text by key.
    fn state(&self) -> BTreeMap<String, String> {
        let shown = |object: informant::Cached<O>| {
            (object.key().to_string(), format!("@{} {}", object.version(), object.text()))
        };
        self.cache.list().into_iter().map(shown).collect()
    }

    /// Keys of objects that a fault damaged on their way; they stay quarantined until they change again.
    fn quarantined(&self) -> BTreeSet<String> {
        self.handle.quarantined().into_iter().filter_map(|bad| bad.key.map(|key| key.to_string())).collect()
    }

    /// Waits until the cache equals the server's state; returns false if it does not within 4,000 seconds.
    async fn converges(&self, server: &ApiServer) -> bool {
        for _ in 0..400 {
            let quarantined = self.quarantined();
            let except = |mut state: BTreeMap<String, String>| {
                state.retain(|key, _| !quarantined.contains(key));
                state
            };
            if self.handle.status().lists > 0 && except(self.state()) == except(contents(server)) {
                return true;
            }
            sleep_seconds(10.0).await;
        }
        false
    }

    async fn stop(self) -> usize {
        let [reflector, consumer] = self.tasks;
        reflector.abort();
        let _ = reflector.await;
        (self.close)();
        consumer.await.unwrap();
        self.out_of_order.load(std::sync::atomic::Ordering::SeqCst)
    }
}

pub(crate) fn contents(server: &ApiServer) -> BTreeMap<String, String> {
    let shown = |object: serde_json::Value| {
        let metadata = &object["metadata"];
        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
        let key = format!("{}/{}", text(&metadata["namespace"]), text(&metadata["name"]));
        (key, format!("@{} {}", text(&metadata["resourceVersion"]), text(&object["data"]["text"])))
    };
    server.list("configmaps").unwrap().into_iter().map(shown).collect()
}

/// Makes up to five random changes on the server.
fn change_objects(server: &ApiServer, random: &mut fastrand::Rng) {
    for _ in 0..random.usize(0..6) {
        let name = format!("c{}", random.u32(0..12));
        if random.u32(0..4) == 0 {
            // The object may not exist.
            let _ = server.delete("configmaps", &format!("shop/{name}"));
        } else {
            server.put("configmaps", config_map(&name, &format!("text {}", random.u32(..)))).unwrap();
        }
    }
}

/// A random fault after which a watch can resume.
fn transient_fault(random: &mut fastrand::Rng) -> (On, usize, Fault) {
    let ending = if random.u32(0..6) == 0 { CutEnding::Silence } else { CutEnding::Reset };
    let faults = [
        Fault::Refuse,
        Fault::Drop,
        Fault::status(429),
        Fault::status(500),
        Fault::status(503),
        Fault::too_many_requests(Duration::from_secs(3)),
        Fault::Delay(Duration::from_secs(random.u64(1..10))),
        Fault::Cut { after: CutAfter::Events(random.usize(0..4)), ending },
        Fault::Cut { after: CutAfter::Bytes(random.usize(0..2000)), ending },
        Fault::Cut {
            after: CutAfter::HalfLine(random.usize(0..4)),
            ending: [CutEnding::Close, ending][random.usize(0..2)],
        },
        Fault::ErrorEvent { code: 429, after: random.usize(0..4) },
        Fault::ExtraLine { after: random.usize(0..4), text: "not an event\n".into() },
        Fault::Truncate,
        Fault::ByteByByte,
        Fault::Split { pieces: 3 },
        Fault::Pack { lines: 5 },
        Fault::NoBookmarks,
    ];
    (On::watch().of("configmaps"), random.usize(1..4), faults[random.usize(0..faults.len())].clone())
}

/// A random fault of any kind.
pub(crate) fn random_fault<O: Texted>(random: &mut fastrand::Rng) -> (On, usize, Fault) {
    let code = |random: &mut fastrand::Rng| [401, 403, 404, 410, 429, 500, 503, 504][random.usize(0..8)];
    let ending = [CutEnding::Close, CutEnding::Reset, CutEnding::Reset, CutEnding::Silence][random.usize(0..4)];
    let faults = [
        Fault::Hang,
        Fault::status(code(random)),
        Fault::status(code(random)),
        Fault::Garbage,
        Fault::WrongKind,
        Fault::BadItem { field: O::CHECKED.into() },
        Fault::Cut { after: CutAfter::Events(random.usize(0..4)), ending },
        Fault::Cut { after: CutAfter::Bytes(random.usize(0..3000)), ending },
        Fault::ErrorEvent { code: code(random), after: random.usize(0..4) },
        Fault::WatchListRefused,
        Fault::WatchListFails,
        Fault::WatchListNeverEnds,
        Fault::ExpireToken,
        Fault::Stale { versions: random.u64(1..8) },
        Fault::Gzip(GzipMode::Always),
    ];
    if random.bool() {
        let (_, times, fault) = transient_fault(random);
        return (On::any().of("configmaps"), times, fault);
    }
    (On::any().of("configmaps"), random.usize(1..4), faults[random.usize(0..faults.len())].clone())
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Severity {
    /// Faults after which a watch can resume.
    Transient,
    Any,
}

#[derive(Default, Debug)]
struct Figures {
    rounds: usize,
    faults: usize,
    lists: usize,
    streamed_lists: usize,
    watches: usize,
    quarantined: usize,
    out_of_order: usize,
    mismatches: usize,
}

impl Figures {
    fn count(&mut self, server: &ApiServer) {
        for request in server.requests() {
            self.faults += request.faults.len();
            if crate::support::reflector::is_lookup(&request) {
                continue;
            }
            match request.to_string().split('(').next() {
                Some("L") => self.lists += 1,
                Some("WL") => self.streamed_lists += 1,
                Some("W") => self.watches += 1,
                _ => {}
            }
        }
    }
}

/// Runs rounds of changes and faults; every 25 rounds it removes all faults and compares the cache with the server.
async fn soak<O: Texted>(random: &mut fastrand::Rng, rounds: usize, streams: bool, severity: Severity) -> Figures {
    let server = server_at_10();
    change_objects(&server, random);
    let pipeline = pipeline::<O>(&server, streams);
    let mut figures = Figures::default();
    assert!(pipeline.converges(&server).await, "the cache equals the server's state before the first fault");
    let mut pending = None;
    for round in 1..=rounds {
        figures.rounds += 1;
        if round % 25 == 1 {
            // Short watches give many requests that faults can hit.
            server.inject(On::watch().of("configmaps"), Fault::cut_after_events(random.usize(2..5)));
        }
        let (on, times, fault) = match severity {
            Severity::Transient => transient_fault(random),
            Severity::Any => random_fault::<O>(random),
        };
        // One transient fault at a time: several in a row would lead to a relist.
        let is_over = |(rule, times)| server.fault_hits(rule) == Some(times);
        let is_watching = matches!(pipeline.handle.status().activity, Activity::Watching);
        if severity == Severity::Any || (is_watching && pending.is_none_or(is_over)) {
            pending = Some((server.inject(on.times(times), fault), times));
        }
        change_objects(&server, random);
        // One sleep in eight is long enough for the idle timeout of a watch.
        let longest = if random.u32(0..8) == 0 { 700.0 } else { 20.0 };
        sleep_seconds(random.f64() * longest).await;
        change_objects(&server, random);
        if severity == Severity::Any && random.u32(0..20) == 0 {
            server.compact();
        }
        if round % 25 == 0 {
            server.clear_faults();
            pending = None;
            figures.mismatches += usize::from(!pipeline.converges(&server).await);
            figures.quarantined = figures.quarantined.max(pipeline.quarantined().len());
        }
    }
    figures.count(&server);
    figures.out_of_order = pipeline.stop().await;
    figures
}

pub(crate) fn seed() -> u64 {
    let seed = std::env::var("INFORMANT_SEED").ok().map(|text| text.parse().expect("a number"));
    seed.unwrap_or_else(|| fastrand::u64(..))
}

pub(crate) fn times() -> usize {
    std::env::var("INFORMANT_CASES").map_or(1, |text| text.parse().expect("a number"))
}

/// P1, P2, P10
#[tokio::test(start_paused = true)]
async fn after_random_faults_the_cache_equals_the_state_of_the_server() {
    let seed = seed();
    fastrand::seed(seed);
    let mut random = fastrand::Rng::with_seed(seed);
    let random = &mut random;
    for number in 0..8 * times() {
        let streams = number % 2 == 0;
        let figures = match number % 4 / 2 {
            0 => soak::<ConfigMap>(random, 250, streams, Severity::Any).await,
            _ => soak::<Lazy<ConfigMap>>(random, 250, streams, Severity::Any).await,
        };
        eprintln!("{figures:?}");
        let repeat = format!("{figures:?}; repeat with INFORMANT_SEED={seed}");
        assert_eq!((figures.mismatches, figures.out_of_order), (0, 0), "{repeat}");
        assert!(figures.faults > 100, "too few faults: {repeat}");
    }
}

/// P10: the reflector resumes every watch that can be resumed.
#[tokio::test(start_paused = true)]
async fn transient_faults_lead_to_no_relist() {
    let seed = seed();
    fastrand::seed(seed);
    let mut random = fastrand::Rng::with_seed(seed);
    for number in 0..4 * times() {
        let figures = soak::<Lazy<ConfigMap>>(&mut random, 250, number % 2 == 0, Severity::Transient).await;
        eprintln!("{figures:?}");
        let repeat = format!("{figures:?}; repeat with INFORMANT_SEED={seed}");
        assert_eq!(figures.mismatches, 0, "{repeat}");
        assert_eq!(figures.lists + figures.streamed_lists, 1, "{repeat}");
        assert!(figures.faults > 100 && figures.watches > 100, "too few faults: {repeat}");
    }
}
