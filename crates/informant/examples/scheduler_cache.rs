//! A scheduler's cache: the CPU and memory of each node, and how much of it is requested, derived from nodes and pods.
//!
//! The map is derived from the nodes, and its function reads the pods of each node through an index: a join. A second map has the pods
//! without a node. Meanwhile, watches break and requests fail. At the end, the example compares the maps with the server.
#![allow(clippy::print_stdout, reason = "the example prints its results")]

use std::{
    collections::{BTreeMap, BTreeSet},
    error::Error,
    time::Duration,
};

use informant::{InformerBuilder, ResourceVersion, derived::DerivedMap, index, pipeline::Backoff, prelude::*};
use informant_apiserver::{ApiServer, Fault, On};
use k8s_openapi::{
    api::core::v1::{Node, Pod},
    apimachinery::pkg::api::resource::Quantity,
};
use serde_json::{Value, json};

/// CPU in thousandths, and memory in MiB.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Resources {
    cpu: u64,
    memory: u64,
}

/// A node in the scheduler's cache.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NodeInfo {
    allocatable: Resources,
    /// The sum of the requests of `pods`.
    requested: Resources,
    pods: BTreeSet<String>,
}

impl NodeInfo {
    fn of<'a>(node: &Node, pods: impl IntoIterator<Item = &'a Cached<Pod>>) -> Self {
        let mut info = Self { allocatable: allocatable(node), requested: Resources::default(), pods: BTreeSet::new() };
        for pod in pods {
            let Resources { cpu, memory } = requested(pod);
            (info.requested.cpu, info.requested.memory) = (info.requested.cpu + cpu, info.requested.memory + memory);
            info.pods.insert(pod.key().to_string());
        }
        info
    }

    fn free(&self) -> Resources {
        let Self { allocatable, requested, .. } = self;
        Resources {
            cpu: allocatable.cpu.saturating_sub(requested.cpu),
            memory: allocatable.memory.saturating_sub(requested.memory),
        }
    }
}

/// The node with the most free CPU and, of equal ones, the most free memory.
fn best_node(nodes: &DerivedMap<String, NodeInfo>) -> Option<String> {
    let nodes = nodes.snapshot();
    nodes.iter().max_by_key(|(_, info)| info.free()).map(|(name, _)| name.clone())
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn requested(pod: &Pod) -> Resources {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let requests: Vec<_> = containers.filter_map(|container| container.resources.as_ref()?.requests.as_ref()).collect();
    Resources {
        cpu: requests.iter().map(|requests| quantity(requests, "cpu", "m")).sum(),
        memory: requests.iter().map(|requests| quantity(requests, "memory", "Mi")).sum(),
    }
}

fn allocatable(node: &Node) -> Resources {
    let allocatable = node.status.as_ref().and_then(|status| status.allocatable.as_ref());
    let of = |name, unit| allocatable.map_or(0, |quantities| quantity(quantities, name, unit));
    Resources { cpu: of("cpu", "m"), memory: of("memory", "Mi") }
}

/// The amount of a resource, in the one unit that this example uses.
fn quantity(quantities: &BTreeMap<String, Quantity>, name: &str, unit: &str) -> u64 {
    let amount = quantities.get(name).and_then(|quantity| quantity.0.strip_suffix(unit));
    amount.and_then(|amount| amount.parse().ok()).unwrap_or_default()
}

fn node(name: &str, cpu: u64) -> Value {
    let allocatable = json!({"cpu": format!("{cpu}m"), "memory": format!("{}Mi", cpu * 4)});
    json!({"metadata": {"name": name}, "status": {"allocatable": allocatable}})
}

fn pod(name: &str, cpu: u64, node: Option<&str>) -> Value {
    let requests = json!({"requests": {"cpu": format!("{cpu}m"), "memory": format!("{}Mi", cpu * 2)}});
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
    let pods = server.list("pods")?.into_iter().map(|value| Ok(Cached::of(serde_json::from_value::<Pod>(value)?)?));
    let pods = pods.collect::<Result<Vec<_>, Box<dyn Error>>>()?;
    let nodes = server.list("nodes")?.into_iter().map(|value| {
        let node = Cached::of(serde_json::from_value::<Node>(value)?)?;
        let name = node.key().name().to_owned();
        let assigned = pods.iter().filter(|pod| node_of(pod) == Some(&name));
        Ok((name.clone(), NodeInfo::of(&node, assigned)))
    });
    nodes.collect()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::builder().seed(12).build();
    let mut random = fastrand::Rng::with_seed(7);
    for number in 0..20 {
        server.put("nodes", node(&format!("node-{number}"), 4000))?;
    }
    // Many watches break, and many requests fail.
    server.inject(On::watch().with_probability(0.7), Fault::cut_after_events(20));
    server.inject(On::any().with_probability(0.2), Fault::status(503));
    server.inject(On::watch().with_probability(0.3), Fault::status(410));

    let factory = SharedInformerFactory::builder(server.client())
        .configure(retry_quickly::<Pod>)
        .configure(retry_quickly::<Node>)
        // The faults are expected, so the error callback does nothing.
        .on_error(|_| {})
        .build();
    let (pods, nodes) = (factory.informer::<Pod>(), factory.informer::<Node>());

    // The scheduler's cache. When a pod changes, its node is derived again: the node of the old state, and that of the new state.
    let by_node = pods.add_index("node", index::text(|pod: &Cached<Pod>| node_of(pod)))?;
    let cache = nodes
        .derive(move |node| {
            let name = node.key().name();
            [(name.to_owned(), NodeInfo::of(node, &by_node.get(name)))]
        })
        .named("scheduler cache")
        .with(&pods, |pod| node_of(pod).map(Key::cluster_scoped))
        .register()?;
    // The scheduling queue: a pod leaves it when it gets a node, or is deleted.
    let pending = pods
        .derive(|pod| node_of(pod).is_none().then(|| (pod.key().clone(), ())))
        .named("scheduling queue")
        .register()?;

    factory.start();
    cache.synced().await?;
    pending.synced().await?;
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
                let next = pending.snapshot().iter().map(|(key, _)| key.clone()).min();
                if let (Some(key), Some(node)) = (next, best_node(&cache))
                    && let Ok(mut value) = server.get("pods", key.as_str())
                    && value["spec"]["nodeName"].is_null()
                {
                    value["spec"]["nodeName"] = node.into();
                    let stored = server.put("pods", value)?;
                    bound += 1;
                    // Wait until the informer's cache has the write, and then the maps.
                    pods.wait_for(&key, &version_of(&stored), Duration::from_secs(10)).await?;
                    pending.caught_up().await?;
                    cache.caught_up().await?;
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
    nodes.wait_for(&Key::cluster_scoped("last"), &last_node, Duration::from_secs(10)).await?;
    pods.wait_for(&"shop/last".parse()?, &last_pod, Duration::from_secs(10)).await?;
    cache.caught_up().await?;
    pending.caught_up().await?;
    factory.stop().await?;

    let snapshot = cache.snapshot();
    let known: BTreeMap<_, _> = snapshot.iter().map(|(name, info)| (name.clone(), (**info).clone())).collect();
    let expected = expected(&server)?;
    let source = pods.status().source;
    println!(
        "bound {bound} pods; the pod informer received {} lists, {} watches and {} events",
        source.lists, source.watches, source.events
    );
    let cpu: u64 = known.values().map(|info| info.requested.cpu).sum();
    let memory: u64 = known.values().map(|info| info.requested.memory).sum();
    println!(
        "the scheduler's cache has {} nodes, whose pods request {cpu}m of CPU and {memory}Mi; it changed {} times",
        known.len(),
        snapshot.generation()
    );
    if known != expected {
        return Err(format!("the scheduler's cache differs from the server:\n{known:#?}\n{expected:#?}").into());
    }
    let waiting = pods.lister().list().iter().filter(|pod| node_of(pod).is_none()).count();
    if pending.len() != waiting {
        return Err(format!("{} pods are in the queue, and {waiting} have no node", pending.len()).into());
    }
    println!("the server and the scheduler's cache have the same pods and nodes");
    Ok(())
}
