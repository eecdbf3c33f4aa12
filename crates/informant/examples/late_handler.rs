//! A handler that is registered late receives all objects of the cache as adds, and then every change, each exactly once.
//!
//! The example runs the embedded server. With a cluster, use `kube::Client::try_default().await?` as the client.
#![allow(clippy::print_stdout, reason = "the example prints its results")]

use std::{collections::BTreeSet, error::Error, sync::Arc, time::Duration};

use informant::prelude::*;
use informant_apiserver::{ApiServer, Load};
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;

/// A handler that keeps the keys of all pods, computed only from the events that it receives.
#[derive(Default)]
struct Census {
    pods: Mutex<BTreeSet<Key>>,
}

impl EventHandler<Lazy<Pod>> for Census {
    fn on_add(&self, pod: &Cached<Lazy<Pod>>, _: Origin) {
        assert!(self.pods.lock().insert(pod.key().clone()), "no pod is added twice");
    }

    fn on_delete(&self, pod: &Deleted<Lazy<Pod>>) {
        assert!(self.pods.lock().remove(pod.key()), "a deleted pod was added before");
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::builder().seed(1).build();
    let mut load = Load::of("pods", 500).seed(1).fill(&server).await?;
    let factory = SharedInformerFactory::new(server.client());
    let pods = factory.informer::<Lazy<Pod>>();
    factory.start();
    factory.synced().await?;

    // Register handlers one after the other while pods are created, changed and deleted.
    let churn = tokio::spawn(async move { load.churn(2000.0, 2000).await.map(drop) });
    let mut handlers = Vec::new();
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let census = Arc::new(Census::default());
        let registration = pods.subscribe().handler(Arc::clone(&census))?;
        registration.synced().await?;
        println!("a new handler received {} pods", census.pods.lock().len());
        handlers.push(census);
    }
    churn.await??;

    let expected: BTreeSet<Key> = server.list("pods")?.iter().map(key).collect();
    let agree = || handlers.iter().all(|census| *census.pods.lock() == expected);
    while !agree() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("all handlers have the same {} pods as the server", expected.len());
    factory.stop().await?;
    Ok(())
}

fn key(pod: &serde_json::Value) -> Key {
    let text = |name: &str| pod["metadata"][name].as_str().unwrap_or_default();
    Key::namespaced(text("namespace"), text("name"))
}
