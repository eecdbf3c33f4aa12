//! A scheduler that keeps its own cache of node capacities, computed from the events of two informers.
//!
//! The handlers of the two informers add and subtract the CPU requests of pods in the scheduler's cache. Pods without a node are in a
//! queue of their own. Two filtered handlers separate the two sets: when a pod gets a node, the filter of the queue's handler
//! turns the update into a delete, and the filter of the cache's handler turns it into an add. Meanwhile, watches break and requests
//! fail. At the end, the example compares the scheduler's cache with the server.
#![allow(clippy::print_stdout, reason = "the example prints its results")]

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    sync::Arc,
    time::Duration,
};

use informant::{InformerBuilder, ResourceVersion, index, pipeline::Backoff, prelude::*};
use informant_apiserver::{ApiServer, Fault, On};
use k8s_openapi::api::core::v1::{Node, Pod};
use parking_lot::Mutex;
use serde_json::{Value, json};

/// The scheduler's cache: the capacity of each node, and how much of it the node's pods request.
#[derive(Default)]
struct SchedulerCache {
    nodes: Mutex<BTreeMap<String, NodeInfo>>,
}

/// A node in the scheduler's cache. CPU is in thousandths.
#[derive(Default, Debug, Clone, PartialEq, Eq)]
struct NodeInfo {
    /// `None` if the node does not exist: its pods may be added before it, or deleted after it.
    allocatable: Option<u64>,
    /// The sum of the requests of `pods`.
    requested: u64,
    pods: BTreeSet<String>,
}

impl SchedulerCache {
    /// Changes the entry of a node; an entry without node and pods is removed.
    fn change(&self, node: &str, change: impl FnOnce(&mut NodeInfo)) {
        let mut nodes = self.nodes.lock();
        let info = nodes.entry(node.to_owned()).or_default();
        change(info);
        if *info == NodeInfo::default() {
            nodes.remove(node);
        }
    }

    fn add_pod(&self, pod: &Cached<Pod>) {
        if let Some(node) = node_of(pod) {
            self.change(node, |info| {
                info.requested += requested(pod);
                info.pods.insert(pod.key().to_string());
            });
        }
    }

    fn remove_pod(&self, pod: &Cached<Pod>) {
        if let Some(node) = node_of(pod) {
            self.change(node, |info| {
                info.requested -= requested(pod);
                info.pods.remove(pod.key().as_str());
            });
        }
    }

    /// Returns the node with the most free CPU, and how much that is.
    fn node_with_most_free_cpu(&self) -> Option<(String, u64)> {
        let nodes = self.nodes.lock();
        let free = |info: &NodeInfo| Some(info.allocatable?.saturating_sub(info.requested));
        nodes.iter().filter_map(|(name, info)| Some((name.clone(), free(info)?))).max_by_key(|(_, free)| *free)
    }

    fn snapshot(&self) -> BTreeMap<String, NodeInfo> {
        self.nodes.lock().clone()
    }
}

/// Handles events of pods that have a node. `old` of an update is the state that the previous event delivered, so the sums stay correct.
impl EventHandler<Pod> for SchedulerCache {
    fn on_add(&self, pod: &Cached<Pod>, _: Origin) {
        self.add_pod(pod);
    }

    fn on_update(&self, old: &Cached<Pod>, new: &Cached<Pod>) {
        self.remove_pod(old);
        self.add_pod(new);
    }

    fn on_delete(&self, pod: &Deleted<Pod>) {
        // For a missed delete, this is the last known state, which is the state that was added.
        self.remove_pod(pod.object());
    }

    fn name(&self) -> String {
        "scheduler cache: pods".into()
    }
}

impl EventHandler<Node> for SchedulerCache {
    fn on_add(&self, node: &Cached<Node>, _: Origin) {
        self.change(node.key().name(), |info| info.allocatable = Some(allocatable(node)));
    }

    fn on_update(&self, _: &Cached<Node>, new: &Cached<Node>) {
        self.change(new.key().name(), |info| info.allocatable = Some(allocatable(new)));
    }

    fn on_delete(&self, node: &Deleted<Node>) {
        self.change(node.key().name(), |info| info.allocatable = None);
    }

    fn name(&self) -> String {
        "scheduler cache: nodes".into()
    }
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn requested(pod: &Pod) -> u64 {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let requests = containers.filter_map(|container| container.resources.as_ref()?.requests.as_ref()?.get("cpu"));
    requests.filter_map(|cpu| cpu.0.strip_suffix('m')?.parse::<u64>().ok()).sum()
}

fn allocatable(node: &Node) -> u64 {
    let cpu = node.status.as_ref().and_then(|status| status.allocatable.as_ref()?.get("cpu"));
    cpu.and_then(|cpu| cpu.0.strip_suffix('m')?.parse().ok()).unwrap_or_default()
}

fn node(name: &str, cpu: u64) -> Value {
    json!({"metadata": {"name": name}, "status": {"allocatable": {"cpu": format!("{cpu}m")}}})
}

fn pod(name: &str, cpu: u64, node: Option<&str>) -> Value {
    let requests = json!({"requests": {"cpu": format!("{cpu}m")}});
    let container = json!({"name": "main", "image": "registry/main:1", "resources": requests});
    json!({"metadata": {"namespace": "shop", "name": name}, "spec": {"nodeName": node, "containers": [container]}})
}

/// Shortens the delays after failures, so that the example ends soon.
fn retry_quickly<O: Object>(informer: InformerBuilder<O>) -> InformerBuilder<O> {
    let backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(20));
    informer.reflector(|reflector| reflector.backoff(backoff))
}

fn version_of(stored: &Value) -> ResourceVersion {
    stored["metadata"]["resourceVersion"].as_str().unwrap_or_default().into()
}

/// Computes what the scheduler's cache must contain, from the objects on the server.
fn expected(server: &ApiServer) -> Result<BTreeMap<String, NodeInfo>, Box<dyn Error>> {
    let cache = SchedulerCache::default();
    for value in server.list("nodes")? {
        let node: Node = serde_json::from_value(value)?;
        EventHandler::<Node>::on_add(&cache, &Cached::of(node)?, Origin::InitialList);
    }
    for value in server.list("pods")? {
        cache.add_pod(&Cached::of(serde_json::from_value(value)?)?);
    }
    Ok(cache.snapshot())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::builder().seed(7).build();
    let mut random = fastrand::Rng::with_seed(7);
    for number in 0..20 {
        server.put("nodes", node(&format!("node-{number}"), 4000))?;
    }
    // Many watches break, and many requests fail.
    server.inject(On::watch().with_probability(0.7), Fault::cut_after_events(60));
    server.inject(On::any().with_probability(0.2), Fault::status(503));
    server.inject(On::watch().with_probability(0.3), Fault::status(410));

    let factory = SharedInformerFactory::builder(server.client())
        .configure(retry_quickly::<Pod>)
        .configure(retry_quickly::<Node>)
        // The faults are expected, so the error callback does nothing.
        .on_error(|_| {})
        .build();
    let (pods, nodes) = (factory.informer::<Pod>(), factory.informer::<Node>());

    // An index of the informer's own cache, which is compared with the scheduler's cache at the end.
    let by_node = pods.add_index("node", index::text(|pod: &Cached<Pod>| node_of(pod)))?;
    // One object handles the events of both informers.
    let cache = Arc::new(SchedulerCache::default());
    let assigned_pods = pods.subscribe().filter(|pod| node_of(pod).is_some()).handler(Arc::clone(&cache))?;
    let known_nodes = nodes.subscribe().handler(Arc::clone(&cache))?;
    // The scheduling queue. A pod that gets a node leaves the filter, which the handler receives as a delete.
    let pending = Arc::new(Mutex::new(BTreeSet::<Key>::new()));
    let (insert, remove) = (Arc::clone(&pending), Arc::clone(&pending));
    let pending_pods = pods
        .subscribe()
        .named("scheduling queue")
        .filter(|pod| node_of(pod).is_none())
        .on_add(move |pod, _| drop(insert.lock().replace(pod.key().clone())))
        .on_delete(move |pod| drop(remove.lock().take(pod.key())))
        .register()?;

    factory.start();
    for handler in [&assigned_pods, &known_nodes, &pending_pods] {
        handler.synced().await?;
    }
    println!("synced: {} nodes, {} pods", nodes.lister().len(), pods.lister().len());

    let mut bound = 0;
    for step in 0..1500_u32 {
        let name = format!("pod-{}", random.u32(0..300));
        match random.u32(0..10) {
            // The pod may not exist.
            0..2 => drop(server.delete("pods", &format!("shop/{name}"))),
            2 => {
                let number = random.u32(0..20);
                match random.bool() {
                    true => drop(server.delete("nodes", &format!("node-{number}"))),
                    false => drop(server.put("nodes", node(&format!("node-{number}"), random.u64(2..8) * 1000))?),
                }
            }
            // A pod cannot change its node, so only pods that do not exist are created.
            3..7 if server.get("pods", &format!("shop/{name}")).is_err() => {
                server.put("pods", pod(&name, random.u64(1..20) * 10, None))?;
            }
            _ => {
                // One step of the scheduler: it binds the first pending pod to the node with the most free CPU.
                let next = pending.lock().first().cloned();
                if let (Some(key), Some((node, _))) = (next, cache.node_with_most_free_cpu())
                    && let Ok(mut value) = server.get("pods", key.as_str())
                    && value["spec"]["nodeName"].is_null()
                {
                    value["spec"]["nodeName"] = node.into();
                    let stored = server.put("pods", value)?;
                    bound += 1;
                    // Wait until the informer's cache has the write.
                    pods.wait_for(&key, &version_of(&stored), Duration::from_secs(10)).await?;
                }
            }
        }
        // Gives the informers time to follow.
        if step % 10 == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    server.clear_faults();
    // One more change of each kind: the waits below end with it, and do not depend on a bookmark.
    let last_node = version_of(&server.put("nodes", node("last", 1000))?);
    let last_pod = version_of(&server.put("pods", pod("last", 10, Some("last")))?);
    known_nodes.caught_up_to(&last_node).await?;
    assigned_pods.caught_up_to(&last_pod).await?;
    pending_pods.caught_up_to(&last_pod).await?;
    factory.stop().await?;

    let (known, expected) = (cache.snapshot(), expected(&server)?);
    let source = pods.status().source;
    println!(
        "bound {bound} pods; the pod informer received {} lists, {} watches and {} events",
        source.lists, source.watches, source.events
    );
    let requested: u64 = known.values().map(|info| info.requested).sum();
    println!("the scheduler's cache has {} nodes, whose pods request {requested}m of CPU", known.len());
    if known != expected {
        return Err(format!("the scheduler's cache differs from the server:\n{known:#?}\n{expected:#?}").into());
    }
    for (node, info) in &known {
        let indexed: BTreeSet<String> = by_node.keys(node).iter().map(ToString::to_string).collect();
        if indexed != info.pods {
            return Err(
                format!("the index and the scheduler's cache have different pods on {node}: {indexed:?}").into()
            );
        }
    }
    println!("the server and the index by node have the same pods and nodes");
    Ok(())
}
