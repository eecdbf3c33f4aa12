//! Follows a server through trouble: a queue stays in step with it whatever happens, and the status says what does.
//!
//! The server is the embedded one; with a cluster, the client would be `kube::Client::try_default().await?`.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use informant::Lazy;
use informant::delta::Delta;
use informant::listwatch::Activity;
use informant::listwatch::Backoff;
use informant::listwatch::KubeSource;
use informant::listwatch::Reflector;
use informant::listwatch::ReflectorHandle;
use informant::queue::DeltaFifo;
use informant::store::Indexer;
use informant::store::WriteBatch;
use informant_apiserver::ApiServer;
use informant_apiserver::Fault;
use informant_apiserver::Load;
use informant_apiserver::On;
use k8s_openapi::api::core::v1::Pod;
use tokio::sync::oneshot;

const PODS: usize = 500;
const CHANGES: u64 = 1000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::builder().seed(7).build();
    let mut load = Load::of("pods", PODS).seed(7).fill(&server).await?;
    // Every watch breaks after some events, and many requests go wrong.
    server.inject(On::watch().of("pods"), Fault::cut_after_events(700));
    server.inject(On::any().of("pods").with_probability(0.1), Fault::status(503));
    server.inject(On::any().of("pods").with_probability(0.1), Fault::status(410));

    // Nobody reads these pods, so nothing of them is ever decoded.
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
    let reflecting = tokio::spawn(reflector.run(async { stopped.await.unwrap_or_default() }));
    let showing = tokio::spawn(show(handle.clone()));
    let consuming = tokio::spawn(consume(queue.clone(), cache));

    load.churn(5000.0, CHANGES).await?;
    server.clear_faults();
    let newest = server.version().to_string();
    while queue.reached().is_none_or(|reached| reached.as_str() != newest) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }

    drop(stop);
    reflecting.await?;
    queue.close();
    consuming.await?;
    showing.await?;
    let status = handle.status();
    println!("{} lists, {} watches, {} events", status.lists, status.watches, status.events);
    let expected = server.list("pods")?.len();
    println!("the cache has {} pods, the server has {expected}", known.len());
    if known.len() != expected {
        return Err("the cache is not what the server is".into());
    }
    Ok(())
}

/// Takes what comes into the cache.
async fn consume(queue: DeltaFifo<Lazy<Pod>>, cache: Indexer<Lazy<Pod>>) {
    while let Ok(receipt) = queue.drain().await {
        let mut batch = WriteBatch::new();
        for taken in receipt.items() {
            match taken.deltas().newest() {
                Delta::Deleted(deleted) => batch.remove(deleted.key().clone()),
                Delta::Added(pod) | Delta::Updated(pod) | Delta::Replaced(pod) | Delta::Sync(pod) => {
                    batch.upsert(pod.clone());
                }
            }
        }
        cache.apply(batch);
        receipt.acknowledge();
    }
}

/// Says what the reflector does, until it stops.
async fn show(mut handle: ReflectorHandle) {
    let mut before = String::new();
    loop {
        let status = handle.changed().await;
        let version = status.version.map(|version| version.to_string()).unwrap_or_default();
        let now = match status.activity {
            Activity::Listing { .. } => "listing".to_owned(),
            Activity::Streaming { .. } => "streaming the list".to_owned(),
            Activity::Watching => format!("watching from {version}"),
            Activity::BackingOff { because, .. } => format!("waiting: {because}: {}", because.source),
            Activity::Stopped => return,
            Activity::Idle | Activity::Opening | _ => continue,
        };
        if now != before {
            println!("{now}");
        }
        before = now;
    }
}
