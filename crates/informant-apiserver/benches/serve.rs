//! Measures the costs of the server: memory per object, time per create, CPU time per listed object and per sent event.
//!
//! The server runs in its own thread, and the benchmark counts only the CPU time of that thread, not that of clients. Run it with
//! `cargo bench -p informant-apiserver`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and may panic")]

use std::{
    fs,
    net::SocketAddr,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use informant_apiserver::{ApiServer, Load};
use tokio::{runtime::Builder, sync::oneshot};
use tower::ServiceExt;

const PODS: usize = 20_000;
const EVENTS: usize = 20_000;
const ROUNDS: usize = 3;

fn main() {
    // Without `--bench`, as in `cargo test --benches`, a small run shows that the benchmark works.
    let (pods, events, rounds) =
        if std::env::args().any(|argument| argument == "--bench") { (PODS, EVENTS, ROUNDS) } else { (200, 200, 1) };
    memory(pods);
    creates(pods, rounds);
    lists(pods, rounds);
    watches(events, rounds);
}

/// Memory per object, in addition to its JSON.
fn memory(pods: usize) {
    let runtime = Builder::new_current_thread().enable_time().build().unwrap();
    let mut made = None;
    let fill = allocation_counter::measure(|| {
        let server = ApiServer::new();
        let load = runtime.block_on(Load::of("pods", pods).fill(&server)).unwrap();
        made = Some((server, load));
    });
    let (server, mut load) = made.unwrap();
    let json = server.list("pods").unwrap().iter().map(|pod| pod.to_string().len()).sum::<usize>();
    let mut time = Duration::ZERO;
    let churn = allocation_counter::measure(|| {
        let start = Instant::now();
        for _ in 0..2 * pods {
            load.step().unwrap();
        }
        time = start.elapsed();
    });

    let of = |bytes: i64| bytes / i64::try_from(pods).unwrap();
    let (stored, json) = (of(fill.bytes_current), of(i64::try_from(json).unwrap()));
    println!("memory, {pods} pods");
    println!("  JSON of a pod                  {json:>9} bytes");
    println!("  a stored pod                   {stored:>9} bytes   {:.2} of its JSON", ratio(stored, json));
    println!("  a change in-process            {:>9.1} µs", micros(time, 2 * pods));
    println!(
        "  history of 10,000 changes      {:>9} bytes   for each change, after many",
        churn.bytes_current / 10_000
    );
}

/// Creates by a client in this process, with managed fields and without.
fn creates(pods: usize, rounds: usize) {
    println!("a create by a client in-process, of a pod");
    let bodies = runtime().block_on(new_pods(pods));
    let servers =
        [("with managed fields", ApiServer::builder()), ("without", ApiServer::builder().without_managed_fields())];
    for (name, builder) in servers {
        let builder = builder.allow_missing_namespaces();
        let time = (0..rounds).map(|_| time_of_creates(&builder.clone().build(), &bodies)).min().unwrap();
        println!("  {name:<30} {:>9.1} µs", micros(time, pods));
    }
}

fn time_of_creates(server: &ApiServer, bodies: &[(String, Bytes)]) -> Duration {
    runtime().block_on(async {
        let start = Instant::now();
        for (path, body) in bodies {
            let request = Request::post(path).header("content-type", "application/json");
            let request = request.body(Full::new(body.clone())).unwrap();
            assert_eq!(server.service().oneshot(request).await.unwrap().status(), 201);
        }
        start.elapsed()
    })
}

/// The paths and bodies of creates, prepared before the measurement.
async fn new_pods(pods: usize) -> Vec<(String, Bytes)> {
    let server = ApiServer::new();
    Load::of("pods", pods).fill(&server).await.unwrap();
    let body = |mut pod: serde_json::Value| {
        let metadata = pod["metadata"].as_object_mut().unwrap();
        metadata.remove("resourceVersion");
        metadata.remove("managedFields");
        (format!("/api/v1/namespaces/{}/pods", text(metadata, "namespace")), pod.to_string().into())
    };
    server.list("pods").unwrap().into_iter().map(body).collect()
}

fn runtime() -> tokio::runtime::Runtime {
    Builder::new_current_thread().enable_time().build().unwrap()
}

fn lists(pods: usize, rounds: usize) {
    let mut best = Cost::MAX;
    let server = Server::start(ApiServer::new(), Load::of("pods", pods));
    for _ in 0..rounds {
        best = best.min(server.cost(async |address| {
            let body = get(address, "/api/v1/pods").await;
            let bytes = drain(body, |_| true).await;
            assert!(bytes > pods * 5000, "{bytes}");
        }));
    }
    server.stop();
    println!("list of {pods} pods, read through a socket");
    println!("  {}", best.of(pods, "objects"));
}

fn watches(events: usize, rounds: usize) {
    println!("{events} updates of pods by PUT, sent to watches through sockets");
    let mut base = Duration::MAX;
    for watchers in [0, 1, 10] {
        let mut best = Cost::MAX;
        for _ in 0..rounds {
            let api = ApiServer::builder().history(4 * events).build();
            let server = Server::start(api.clone(), Load::of("pods", 1000.min(events)));
            let bodies = updates(&api, events);
            best = best.min(server.cost(async |address| follow(address, &api, bodies, watchers).await));
            server.stop();
        }
        if watchers == 1 {
            base = best.cpu;
        }
        let compared = if watchers == 10 { best.cpu.as_secs_f64() / base.as_secs_f64() } else { f64::NAN };
        let compared =
            if compared.is_nan() { String::new() } else { format!("   {compared:.2} times the CPU of one watch") };
        println!("  {watchers:>2} watches: {}{compared}", best.of(events, "events"));
    }
}

/// The paths and bodies of updates, prepared before the measurement.
fn updates(api: &ApiServer, events: usize) -> Vec<(String, Bytes)> {
    let mut pods = api.list("pods").unwrap();
    let count = pods.len();
    (0..events)
        .map(|number| {
            let pod = &mut pods[number % count];
            let metadata = pod["metadata"].as_object_mut().unwrap();
            metadata.remove("resourceVersion");
            metadata["labels"]["round"] = (number / count).to_string().into();
            let path = format!("/api/v1/namespaces/{}/pods/{}", text(metadata, "namespace"), text(metadata, "name"));
            (path, pod.to_string().into())
        })
        .collect()
}

fn text<'a>(metadata: &'a serde_json::Map<String, serde_json::Value>, field: &str) -> &'a str {
    metadata[field].as_str().unwrap()
}

async fn follow(address: SocketAddr, api: &ApiServer, updates: Vec<(String, Bytes)>, watchers: usize) {
    let events = updates.len();
    let mut tasks = Vec::new();
    for _ in 0..watchers {
        let path = format!("/api/v1/pods?watch=true&resourceVersion={}", api.version());
        let body = get(address, &path).await;
        tasks.push(tokio::spawn(async move {
            let mut lines = 0;
            drain(body, |piece| {
                lines += piece.iter().filter(|byte| **byte == b'\n').count();
                lines < events
            })
            .await;
            assert_eq!(lines, events);
        }));
    }
    let client = client();
    for (path, body) in updates {
        let request = Request::put(format!("http://{address}{path}")).header("content-type", "application/json");
        let answer = client.request(request.body(Full::new(body)).unwrap()).await.unwrap();
        assert_eq!(answer.status(), 200);
        answer.into_body().collect().await.unwrap();
    }
    for task in tasks {
        task.await.unwrap();
    }
}

fn client() -> Client<HttpConnector, Full<Bytes>> {
    Client::builder(TokioExecutor::new()).build_http()
}

async fn get(address: SocketAddr, path: &str) -> Incoming {
    let request = Request::get(format!("http://{address}{path}")).body(Full::default()).unwrap();
    client().request(request).await.unwrap().into_body()
}

/// Reads the body to its end, or until `wants_more` returns false. Returns the number of bytes.
async fn drain(mut body: Incoming, mut wants_more: impl FnMut(&[u8]) -> bool) -> usize {
    let mut bytes = 0;
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.unwrap().into_data() else { continue };
        bytes += piece.len();
        if !wants_more(&piece) {
            break;
        }
    }
    bytes
}

/// A server in its own thread.
struct Server {
    address: SocketAddr,
    thread: thread::JoinHandle<()>,
    id: String,
    stop: oneshot::Sender<()>,
}

impl Server {
    fn start(api: ApiServer, load: Load) -> Self {
        let (ready, started) = mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::spawn(move || {
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                load.fill(&api).await.unwrap();
                let listening = api.listen(([127, 0, 0, 1], 0)).await.unwrap();
                let id = fs::read_link("/proc/thread-self").unwrap().display().to_string();
                ready.send((listening.address(), id)).unwrap();
                stopped.await.unwrap();
                listening.stop().await;
            });
        });
        let (address, id) = started.recv().unwrap();
        Self { address, thread, id, stop }
    }

    /// The CPU time of the server while a client works.
    fn cost(&self, work: impl AsyncFnOnce(SocketAddr)) -> Cost {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let (cpu, wall) = (self.cpu(), Instant::now());
        runtime.block_on(work(self.address));
        Cost { cpu: self.cpu() - cpu, wall: wall.elapsed() }
    }

    fn stop(self) {
        self.stop.send(()).unwrap();
        self.thread.join().unwrap();
    }

    /// The CPU time of the server's thread, from Linux.
    fn cpu(&self) -> Duration {
        let text = fs::read_to_string(format!("/proc/{}/schedstat", self.id)).unwrap();
        Duration::from_nanos(text.split_whitespace().next().unwrap().parse().unwrap())
    }
}

#[derive(Clone, Copy)]
struct Cost {
    cpu: Duration,
    wall: Duration,
}

impl Cost {
    const MAX: Self = Self { cpu: Duration::MAX, wall: Duration::MAX };

    fn min(self, other: Self) -> Self {
        if other.cpu < self.cpu { other } else { self }
    }

    fn of(&self, count: usize, what: &str) -> String {
        let (micros, rate) = (micros(self.cpu, count), 1e6 / micros(self.wall, count));
        format!("{micros:>6.1} µs of the server's CPU each, {rate:>7.0} {what}/s")
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count is small")]
fn micros(time: Duration, count: usize) -> f64 {
    time.as_secs_f64() * 1e6 / count as f64
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a pod")]
fn ratio(left: i64, right: i64) -> f64 {
    left as f64 / right as f64
}
