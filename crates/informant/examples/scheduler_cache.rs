//! A scheduler's own view of the cluster, fed by two informers: which node has how much room.
//!
//! The classic use of shared informers: one cache of the scheduler's own, kept up to date by add, update and delete functions,
//! and a queue of pods that wait for a node. Pods move from the one to the other by a filter: what leaves the filter is a
//! delete, what enters it an add. A server with faults does its worst meanwhile; at the end all is compared with the server.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use informant::Cached;
use informant::Deleted;
use informant::EventHandler;
use informant::Handler;
use informant::Key;
use informant::Origin;
use informant::ResourceVersion;
use informant::SharedInformer;
use informant::index;
use informant::listwatch::Backoff;
use informant::listwatch::KubeSource;
use informant_apiserver::ApiServer;
use informant_apiserver::Fault;
use informant_apiserver::On;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::core::v1::Pod;
use parking_lot::Mutex;
use serde_json::Value;
use serde_json::json;

/// What the scheduler knows: of each node, how much it has and how much of that is taken.
#[derive(Default)]
struct SchedulerCache {
    nodes: Mutex<BTreeMap<String, NodeInfo>>,
}

/// In thousandths of a CPU.
#[derive(Default, Debug, Clone, PartialEq, Eq)]
struct NodeInfo {
    /// None if the node is not there: its pods may be known before it, or outlive it.
    allocatable: Option<u64>,
    taken: u64,
    pods: BTreeSet<String>,
}

impl SchedulerCache {
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
                info.taken += requested(pod);
                info.pods.insert(pod.key().to_string());
            });
        }
    }

    fn remove_pod(&self, pod: &Cached<Pod>) {
        if let Some(node) = node_of(pod) {
            self.change(node, |info| {
                info.taken -= requested(pod);
                info.pods.remove(pod.key().as_str());
            });
        }
    }

    /// The node with the most room.
    fn roomiest(&self) -> Option<(String, u64)> {
        let nodes = self.nodes.lock();
        let room = |info: &NodeInfo| Some(info.allocatable?.saturating_sub(info.taken));
        nodes.iter().filter_map(|(name, info)| Some((name.clone(), room(info)?))).max_by_key(|(_, room)| *room)
    }

    fn snapshot(&self) -> BTreeMap<String, NodeInfo> {
        self.nodes.lock().clone()
    }
}

/// Pods that have a node. Each update says what was told before, so that sums stay right.
impl EventHandler<Pod> for SchedulerCache {
    fn on_add(&self, pod: &Cached<Pod>, _: Origin) {
        self.add_pod(pod);
    }

    fn on_update(&self, old: &Cached<Pod>, new: &Cached<Pod>) {
        self.remove_pod(old);
        self.add_pod(new);
    }

    fn on_delete(&self, pod: &Deleted<Pod>) {
        // Seen or missed, it is gone.
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

fn version_of(stored: &Value) -> ResourceVersion {
    stored["metadata"]["resourceVersion"].as_str().unwrap_or_default().into()
}

/// What the scheduler must have come to, by what the server has.
fn expected(server: &ApiServer) -> Result<BTreeMap<String, NodeInfo>, Box<dyn Error>> {
    let truth = SchedulerCache::default();
    for value in server.list("nodes")? {
        let node: Node = serde_json::from_value(value)?;
        EventHandler::<Node>::on_add(&truth, &Cached::of(node)?, Origin::InitialList);
    }
    for value in server.list("pods")? {
        truth.add_pod(&Cached::of(serde_json::from_value(value)?)?);
    }
    Ok(truth.snapshot())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::builder().seed(7).build();
    let mut random = fastrand::Rng::with_seed(7);
    for number in 0..20 {
        server.put("nodes", node(&format!("node-{number}"), 4000))?;
    }
    // Watches break, and many requests fail.
    server.inject(On::watch().with_probability(0.7), Fault::cut_after_events(60));
    server.inject(On::any().with_probability(0.2), Fault::status(503));
    server.inject(On::watch().with_probability(0.3), Fault::status(410));

    let client = server.client();
    let backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(20));
    let quiet = |_: &informant::listwatch::ListWatchError| {};
    let pods = SharedInformer::<Pod>::builder(KubeSource::of_kind::<Pod>(client.clone()));
    let pods = pods.reflector(|reflector| reflector.backoff(backoff)).on_error(quiet).build();
    let nodes = SharedInformer::<Node>::builder(KubeSource::of_kind::<Node>(client));
    let nodes = nodes.reflector(|reflector| reflector.backoff(backoff)).on_error(quiet).build();

    // The informer's cache finds the pods of a node as well; at the end it must agree with the scheduler's own cache.
    let by_node = pods.add_index("node", index::text(|pod: &Cached<Pod>| node_of(pod)))?;
    // One cache of the scheduler's own, two kinds.
    let cache = Arc::new(SchedulerCache::default());
    let assigned = pods.subscribe().filter(|pod| node_of(pod).is_some()).handler(Arc::clone(&cache))?;
    let known_nodes = nodes.add_handler(Arc::clone(&cache))?;
    // Pods without a node wait to be scheduled; that they leave the filter says that they need not any more.
    let pending = Arc::new(Mutex::new(BTreeSet::<Key>::new()));
    let (enter, leave) = (Arc::clone(&pending), Arc::clone(&pending));
    let queue = Handler::<Pod>::new()
        .on_add(move |pod, _| drop(enter.lock().replace(pod.key().clone())))
        .on_delete(move |pod| drop(leave.lock().take(pod.key())));
    let waiting = pods.subscribe().named("scheduling queue").filter(|pod| node_of(pod).is_none()).handler(queue)?;

    pods.start();
    nodes.start();
    for handler in [&assigned, &known_nodes, &waiting] {
        handler.synced().await?;
    }
    println!("synced: {} nodes, {} pods", nodes.lister().len(), pods.lister().len());

    let mut bound = 0;
    for step in 0..1500_u32 {
        let name = format!("pod-{}", random.u32(0..300));
        match random.u32(0..10) {
            // It may not be there.
            0..2 => drop(server.delete("pods", &format!("shop/{name}"))),
            2 => {
                let number = random.u32(0..20);
                match random.bool() {
                    true => drop(server.delete("nodes", &format!("node-{number}"))),
                    false => drop(server.put("nodes", node(&format!("node-{number}"), random.u64(2..8) * 1000))?),
                }
            }
            // A pod cannot change its node, so only those that have none are written again.
            3..7 if server.get("pods", &format!("shop/{name}")).is_err() => {
                server.put("pods", pod(&name, random.u64(1..20) * 10, None))?;
            }
            _ => {
                // The scheduler at work: the first pod that waits goes to the node with the most room.
                let next = pending.lock().first().cloned();
                if let (Some(key), Some((node, _))) = (next, cache.roomiest())
                    && let Ok(mut value) = server.get("pods", key.as_str())
                    && value["spec"]["nodeName"].is_null()
                {
                    value["spec"]["nodeName"] = node.into();
                    let stored = server.put("pods", value)?;
                    bound += 1;
                    // It reads its own writes, so that it does not schedule the same pod twice.
                    pods.wait_for(&key, &version_of(&stored), Duration::from_secs(10)).await?;
                }
            }
        }
        if step % 50 == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    server.clear_faults();
    // One more change of each kind, so that nobody has to wait for a bookmark.
    let last_node = version_of(&server.put("nodes", node("last", 1000))?);
    let last_pod = version_of(&server.put("pods", pod("last", 10, Some("last")))?);
    nodes.caught_up_to(&last_node, Duration::from_secs(30)).await?;
    pods.caught_up_to(&last_pod, Duration::from_secs(30)).await?;
    while [&assigned, &known_nodes, &waiting].iter().any(|handler| handler.backlog() > 0) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    pods.stop().await?;
    nodes.stop().await?;

    let (known, expected) = (cache.snapshot(), expected(&server)?);
    let source = pods.status().source;
    println!(
        "bound {bound} pods; pods came in {} lists, {} watches, {} events",
        source.lists, source.watches, source.events
    );
    let taken: u64 = known.values().map(|info| info.taken).sum();
    println!("the scheduler knows {} nodes with {taken}m of CPU taken", known.len());
    if known != expected {
        return Err(format!("the scheduler's cache is not what the server has:\n{known:#?}\n{expected:#?}").into());
    }
    for (node, info) in &known {
        let indexed: BTreeSet<String> = by_node.keys(node).iter().map(ToString::to_string).collect();
        if indexed != info.pods {
            return Err(format!("the index has other pods on {node} than the scheduler's cache: {indexed:?}").into());
        }
    }
    println!("which is what the server and the index by node have");
    Ok(())
}
