//! The way of 20,000 pods and 20,000 changes from a socket into the cache, beside kube-runtime's, in the same run.
//!
//! Each run is a thread of its own with a runtime of its own, and its CPU time is what counts; the server's does not. The
//! sides take turns, and of all rounds the fastest counts. `INFORMANT_PODS` sets the number of pods.
#![allow(clippy::print_stdout, reason = "the table is the result")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop")]

mod support;

use std::pin::pin;
use std::sync::Arc;

use futures_util::TryStreamExt;
use informant::Lazy;
use informant::Object;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector;
use kube::runtime::watcher;

use self::support::cpu;
use self::support::pipeline::Pipeline;
use self::support::pipeline::run;
use self::support::print_head;
use self::support::print_row;
use self::support::static_server::Order;
use self::support::static_server::StaticServer;

const ROUNDS: usize = 3;

/// CPU time in microseconds.
#[derive(Clone, Copy)]
struct Cost {
    per_object: f64,
    per_event: f64,
    per_relisted: f64,
}

impl Cost {
    const MAX: Self = Self { per_object: f64::MAX, per_event: f64::MAX, per_relisted: f64::MAX };

    fn min(self, other: Self) -> Self {
        Self {
            per_object: self.per_object.min(other.per_object),
            per_event: self.per_event.min(other.per_event),
            per_relisted: self.per_relisted.min(other.per_relisted),
        }
    }
}

/// Runs in a thread of its own.
fn alone(server: &Arc<StaticServer>, run: impl AsyncFnOnce(&StaticServer) -> Cost + Send + 'static) -> Cost {
    let server = Arc::clone(server);
    server.begin();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(&server))
    });
    thread.join().unwrap()
}

async fn of_kube_runtime(server: &StaticServer) -> Cost {
    let begun = cpu();
    let (store, writer) = reflector::store::<Pod>();
    let pods = Api::<Pod>::all(server.client());
    let mut stream = pin!(watcher(pods, watcher::Config::default()).reflect(writer));
    while let Some(event) = stream.try_next().await.unwrap() {
        if let watcher::Event::InitDone = event {
            break;
        }
    }
    assert_eq!(store.len(), server.pods);
    let listed = cpu();
    server.order(Order::SendEvents);
    for _ in 0..server.pods {
        stream.try_next().await.unwrap();
    }
    let (pods, done) = (server.pods as f64, cpu());
    Cost { per_object: (listed - begun) / pods, per_event: (done - listed) / pods, per_relisted: f64::MAX }
}

async fn of_informant<O: Object>(server: &StaticServer) -> Cost {
    let begun = cpu();
    run(server, async |pipeline: &Pipeline<O>| {
        pipeline.consume(server.pods).await;
        assert_eq!(pipeline.cache.lister().len(), server.pods);
        let listed = cpu();
        server.order(Order::SendEvents);
        pipeline.consume(server.pods).await;
        let (pods, done) = (server.pods as f64, cpu());
        Cost { per_object: (listed - begun) / pods, per_event: (done - listed) / pods, per_relisted: f64::MAX }
    })
    .await
}

/// A list of what is known already.
async fn of_relist<O: Object>(server: &StaticServer) -> Cost {
    let begun = cpu();
    run(server, async |pipeline: &Pipeline<O>| {
        pipeline.consume(server.pods).await;
        let listed = cpu();
        server.order(Order::Expire);
        pipeline.consume(server.pods).await;
        let (pods, done) = (server.pods as f64, cpu());
        Cost { per_object: (listed - begun) / pods, per_event: f64::MAX, per_relisted: (done - listed) / pods }
    })
    .await
}

fn main() {
    let pods = std::env::var("INFORMANT_PODS").map_or(20_000, |text| text.parse().unwrap());
    let server = Arc::new(StaticServer::start(pods));
    let mut best = [Cost::MAX; 5];
    for _ in 0..ROUNDS {
        best[0] = best[0].min(alone(&server, of_kube_runtime));
        best[1] = best[1].min(alone(&server, of_informant::<Lazy<Pod>>));
        best[2] = best[2].min(alone(&server, of_informant::<Pod>));
        best[3] = best[3].min(alone(&server, of_relist::<Pod>));
        best[4] = best[4].min(alone(&server, of_relist::<Lazy<Pod>>));
    }
    let [kube, lazy, eager, relist, lazy_relist] = best;

    println!("\nFrom the socket into the cache, µs of CPU; {pods} pods, {pods} changes.");
    print_head("informant", "kube-runtime");
    print_row("Lazy<Pod>: initial list, per object", lazy.per_object, kube.per_object, Some(0.15));
    print_row("Lazy<Pod>: watch, per event", lazy.per_event, kube.per_event, Some(0.10));
    print_row("Pod: initial list, per object", eager.per_object, kube.per_object, Some(0.8));
    print_row("Pod: watch, per event", eager.per_event, kube.per_event, Some(0.4));
    print_head("relist", "first list");
    print_row("Pod: list of what is known, per object", relist.per_relisted, relist.per_object, Some(0.2));
    print_row("Lazy<Pod>: list of what is known, per object", lazy_relist.per_relisted, lazy_relist.per_object, None);
}
