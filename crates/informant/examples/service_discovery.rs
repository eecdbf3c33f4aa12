//! Service discovery: the endpoints of a label selector by address, and whether they are ready, for a gateway or a router.
#![allow(clippy::print_stdout, reason = "the example prints its results")]

use std::{error::Error, time::Duration};

use informant::{Lazy, SharedInformerFactory, derived::Change};
use informant_apiserver::ApiServer;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

/// What the gateway needs to know of a pod.
#[derive(Debug, PartialEq)]
struct Endpoint {
    pod: String,
    is_ready: bool,
}

fn endpoint(pod: &Pod) -> Option<(String, Endpoint)> {
    let (name, status) = (pod.metadata.name.clone()?, pod.status.as_ref()?);
    let is_ready = status.conditions.iter().flatten().any(|it| it.type_ == "Ready" && it.status == "True");
    Some((status.pod_ip.clone()?, Endpoint { pod: name, is_ready }))
}

fn pod(name: &str, ip: &str, ready: &str) -> Value {
    json!({
        "metadata": {"namespace": "shop", "name": name, "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "web:1"}]},
        "status": {"podIP": ip, "conditions": [{"type": "Ready", "status": ready}]},
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::new();
    server.put("pods", pod("web-1", "10.0.0.7", "True"))?;
    server.put("pods", pod("web-2", "10.0.0.8", "False"))?;

    let factory = SharedInformerFactory::new(server.client());
    let pods = factory.request::<Lazy<Pod>>().with_labels("app=web").informer()?;
    let endpoints = pods
        .derive(|pod| endpoint(&pod.peek().ok()?))
        .named("endpoints")
        .linger(Duration::from_secs(60)) // for log lines of pods that are gone
        .register()?;
    factory.start();
    endpoints.synced().await?; // before, an empty map would not mean that there are no endpoints
    let ready = endpoints.snapshot().iter().filter(|(_, endpoint)| endpoint.is_ready).count();
    println!("{ready} of {} endpoints are ready; fresh: {}", endpoints.len(), endpoints.is_fresh());

    // A load balancer that follows the changes, as slowly as it likes: it holds at most one change for each address.
    let mut changes = endpoints.stream().at_most_every(Duration::from_millis(100));
    // The address is used again by another pod while the watch is down.
    server.cut_watches("pods");
    server.delete("pods", "shop/web-1")?;
    server.put("pods", pod("web-3", "10.0.0.7", "True"))?;
    server.delete("pods", "shop/web-2")?;
    while let Some(change) = changes.next().await {
        match change {
            Change::Added { key, value } => println!("+ {key} {value:?}"),
            Change::Changed { key, new, .. } => println!("~ {key} {new:?}"),
            Change::Removed { key, value } => {
                println!("- {key} {value:?}; its name can still be read: {:?}", endpoints.get_lingering(&key));
                break;
            }
        }
    }
    assert_eq!(endpoints.get("10.0.0.7").ok_or("no such endpoint")?.pod, "web-3");
    factory.stop().await?;
    println!("fresh: {}, because: {}", endpoints.is_fresh(), endpoints.problems()[0]);
    Ok(())
}
