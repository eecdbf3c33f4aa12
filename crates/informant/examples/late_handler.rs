//! A handler that is registered late: it receives all objects of the cache, and then every change, exactly once.
//!
//! The server is the embedded one; with a cluster, the client would be `kube::Client::try_default().await?`.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use informant::Cached;
use informant::Deleted;
use informant::EventHandler;
use informant::Key;
use informant::Lazy;
use informant::Origin;
use informant::SharedInformerFactory;
use informant_apiserver::ApiServer;
use informant_apiserver::Load;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;

/// Counts pods by the events that it receives.
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

    // Handlers are registered one after the other while pods are created and deleted.
    let churn = tokio::spawn(async move { load.churn(2000.0, 2000).await.map(drop) });
    let mut handlers = Vec::new();
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let census = Arc::new(Census::default());
        let registration = pods.add_handler(Arc::clone(&census))?;
        registration.synced().await?;
        println!("registered with {} pods", census.pods.lock().len());
        handlers.push(census);
    }
    churn.await??;

    let expected: BTreeSet<Key> = server.list("pods")?.iter().map(key).collect();
    let agree = || handlers.iter().all(|census| *census.pods.lock() == expected);
    while !agree() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!("all handlers have the {} pods of the server", expected.len());
    factory.stop().await?;
    Ok(())
}

fn key(pod: &serde_json::Value) -> Key {
    let text = |name: &str| pod["metadata"][name].as_str().unwrap_or_default();
    Key::namespaced(text("namespace"), text("name"))
}
