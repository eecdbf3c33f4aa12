//! CPU time to bring 20,000 pods and 20,000 changes from a socket into the cache, compared with kube-runtime.
//!
//! Each run has its own thread and runtime, and measures the CPU time of that thread, without the server's. The two libraries run
//! alternately; the fastest of all rounds is printed. `INFORMANT_PODS` sets the number of pods.
#![allow(clippy::print_stdout, reason = "the table is the result")]
#![allow(clippy::unwrap_used, reason = "a benchmark may stop")]

mod support;

use std::{pin::pin, sync::Arc};

use futures_util::TryStreamExt;
use informant::{Lazy, Object};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    runtime::{WatchStreamExt, reflector, watcher},
};

use self::support::{
    PodNode, Table, Unit, cpu,
    pipeline::{Pipeline, run},
    static_server::{Order, StaticServer},
    thousands,
};

const ROUNDS: usize = 3;

/// CPU time in microseconds; `f64::MAX` if it was not measured.
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

/// Runs a measurement in its own thread and runtime.
fn in_own_thread(server: &Arc<StaticServer>, run: impl AsyncFnOnce(&StaticServer) -> Cost + Send + 'static) -> Cost {
    let server = Arc::clone(server);
    server.begin();
    let thread = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(run(&server))
    });
    thread.join().unwrap()
}

async fn measure_kube_runtime(server: &StaticServer) -> Cost {
    let start = cpu();
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
    Cost { per_object: (listed - start) / pods, per_event: (done - listed) / pods, per_relisted: f64::MAX }
}

async fn measure_informant<O: Object>(server: &StaticServer) -> Cost {
    let start = cpu();
    run(server, async |pipeline: &Pipeline<O>| {
        pipeline.consume(server.pods).await;
        assert_eq!(pipeline.cache.lister().len(), server.pods);
        let listed = cpu();
        server.order(Order::SendEvents);
        pipeline.consume(server.pods).await;
        let (pods, done) = (server.pods as f64, cpu());
        Cost { per_object: (listed - start) / pods, per_event: (done - listed) / pods, per_relisted: f64::MAX }
    })
    .await
}

/// Lists the pods twice; the second list has the same objects in the same versions.
async fn measure_relist<O: Object>(server: &StaticServer) -> Cost {
    let start = cpu();
    run(server, async |pipeline: &Pipeline<O>| {
        pipeline.consume(server.pods).await;
        let listed = cpu();
        server.order(Order::Expire);
        pipeline.consume(server.pods).await;
        let (pods, done) = (server.pods as f64, cpu());
        Cost { per_object: (listed - start) / pods, per_event: f64::MAX, per_relisted: (done - listed) / pods }
    })
    .await
}

fn main() {
    let pods = std::env::var("INFORMANT_PODS").map_or(20_000, |text| text.parse().unwrap());
    let server = Arc::new(StaticServer::start(pods));
    let mut best = [Cost::MAX; 6];
    for _ in 0..ROUNDS {
        best[0] = best[0].min(in_own_thread(&server, measure_kube_runtime));
        best[1] = best[1].min(in_own_thread(&server, measure_informant::<Lazy<Pod>>));
        best[2] = best[2].min(in_own_thread(&server, measure_informant::<Pod>));
        best[3] = best[3].min(in_own_thread(&server, measure_relist::<Pod>));
        best[4] = best[4].min(in_own_thread(&server, measure_relist::<Lazy<Pod>>));
        best[5] = best[5].min(in_own_thread(&server, measure_informant::<PodNode>));
    }
    let [kube, lazy, eager, relist, lazy_relist, projection] = best;

    println!("\nCPU time from the socket into the cache.");
    let table = Table::new(Unit::Nanoseconds);
    let row = |name: &str, ours: f64, peer: &str, theirs: f64, aim| {
        table.row(
            &format!("socket to cache, {} pods, {name}", thousands(pods)),
            ours * 1000.0,
            (peer, theirs * 1000.0),
            aim,
        );
    };
    let peer = "kube-runtime";
    row("Lazy<Pod>: first list, CPU per object", lazy.per_object, peer, kube.per_object, Some(0.15));
    row("Lazy<Pod>: watch, CPU per event", lazy.per_event, peer, kube.per_event, Some(0.10));
    row("Pod: first list, CPU per object", eager.per_object, peer, kube.per_object, Some(0.8));
    row("Pod: watch, CPU per event", eager.per_event, peer, kube.per_event, Some(0.4));
    row("projection of two fields: first list, CPU per object", projection.per_object, peer, kube.per_object, None);
    row("projection of two fields: watch, CPU per event", projection.per_event, peer, kube.per_event, None);
    let peer = "first list";
    row("Pod: relist without changes, CPU per object", relist.per_relisted, peer, relist.per_object, Some(0.2));
    let (again, first) = (lazy_relist.per_relisted, lazy_relist.per_object);
    row("Lazy<Pod>: relist without changes, CPU per object", again, peer, first, None);
}
