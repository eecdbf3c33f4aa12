//! A reflector without an informer: it follows a server whose watches break and whose requests fail, and fills a queue. The status of
//! the reflector shows its activity.
//!
//! The example runs the embedded server. With a cluster, use `kube::Client::try_default().await?` as the client.
#![allow(clippy::print_stdout, reason = "the example prints its results")]

use std::{error::Error, sync::Arc, time::Duration};

use informant::{
    Lazy,
    factory::Activity,
    pipeline::{Backoff, Delta, DeltaFifo, Indexer, KubeSource, Reflector, ReflectorHandle, WriteBatch},
};
use informant_apiserver::{ApiServer, Fault, Load, On};
use k8s_openapi::api::core::v1::Pod;
use tokio::sync::oneshot;

const PODS: usize = 500;
const CHANGES: u64 = 1000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::builder().seed(7).build();
    let mut load = Load::of("pods", PODS).seed(7).fill(&server).await?;
    // Every watch breaks after 700 events, and one of five requests fails.
    server.inject(On::watch().of("pods"), Fault::cut_after_events(700));
    server.inject(On::any().of("pods").with_probability(0.1), Fault::status(503));
    server.inject(On::any().of("pods").with_probability(0.1), Fault::status(410));

    // `Lazy` pods are decoded on demand, and this program reads only their keys.
    let cache = Indexer::<Lazy<Pod>>::new();
    let known = Arc::new(cache.lister());
    let queue = DeltaFifo::builder().known_objects(known.clone()).build();
    let source = KubeSource::of_kind::<Pod>(server.client());
    let reflector = Reflector::builder(source)
        .known_objects(known.clone())
        .backoff(Backoff::new(Duration::from_millis(5), Duration::from_millis(50)))
        .on_error(|error| println!("  {error}"))
        .build(queue.clone());
    let handle = reflector.handle();

    let (stop, stopped) = oneshot::channel::<()>();
    let reflector = tokio::spawn(reflector.run(async { stopped.await.unwrap_or_default() }));
    let printer = tokio::spawn(print_activity(handle.clone()));
    let consumer = tokio::spawn(consume(queue.clone(), cache));

    load.churn(5000.0, CHANGES).await?;
    server.clear_faults();
    let newest = server.version().to_string();
    while queue.reached().is_none_or(|reached| reached.as_str() != newest) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    drop(stop);
    reflector.await?;
    queue.close();
    consumer.await?;
    printer.await?;
    let status = handle.status();
    println!("{} lists, {} watches, {} events", status.lists, status.watches, status.events);
    let expected = server.list("pods")?.len();
    println!("the cache has {} pods, the server has {expected}", known.len());
    if known.len() != expected {
        return Err("the cache and the server have different pods".into());
    }
    Ok(())
}

/// Applies the deltas of the queue to the cache until the queue is closed.
async fn consume(queue: DeltaFifo<Lazy<Pod>>, cache: Indexer<Lazy<Pod>>) {
    while let Ok(batch) = queue.drain().await {
        let mut writes = WriteBatch::new();
        for taken in batch.items() {
            match taken.deltas().newest() {
                Delta::Deleted(deleted) => writes.remove(deleted.key().clone()),
                Delta::Added(pod) | Delta::Updated(pod) | Delta::Replaced(pod) | Delta::Sync(pod) => {
                    writes.upsert(pod.clone());
                }
            }
        }
        cache.apply(writes);
        batch.acknowledge();
    }
}

/// Prints the reflector's activity whenever it changes, until the reflector stops.
async fn print_activity(mut handle: ReflectorHandle) {
    let mut before = String::new();
    loop {
        let status = handle.changed().await;
        let version = status.version.map(|version| version.to_string()).unwrap_or_default();
        let now = match status.activity {
            Activity::Listing { .. } => "listing".to_owned(),
            Activity::Streaming { .. } => "receiving a streamed list".to_owned(),
            Activity::Watching => format!("watching from {version}"),
            Activity::BackingOff { because, .. } => format!("backing off: {because}: {}", because.source),
            Activity::Stopped => return,
            Activity::Idle | Activity::Opening | _ => continue,
        };
        if now != before {
            println!("{now}");
        }
        before = now;
    }
}
