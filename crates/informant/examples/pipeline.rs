//! The stages of an informer, used one by one: JSON is scanned, queued as deltas, and applied to an indexed cache.
//!
//! A simulated server lists 1,000 pods and then changes some of them. Their JSON is scanned, waits in a [`DeltaFifo`](informant::pipeline::DeltaFifo)
//! and is applied to an [`Indexer`](informant::pipeline::Indexer). At the end, the example compares the cache with the server.
//!
//! ```text
//! cargo run --release -p informant --example pipeline
//! ```
#![allow(clippy::print_stdout, reason = "the example prints its results")]

use std::{collections::BTreeMap, error::Error, sync::Arc};

use informant::{
    index,
    pipeline::{Delta, DeltaFifo, Indexer, Relist, Scanner, WriteBatch},
    prelude::*,
};
use k8s_openapi::api::core::v1::Pod;

/// Pods are held as JSON and decoded on demand.
type Pods = Lazy<Pod>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let cache = Indexer::of_resource("pods");
    let pods = cache.lister();
    // Reads the field from the JSON. A pod without the field has no value in the index.
    let by_node = cache.add_index("node", index::field("spec.nodeName")?)?;
    let queue = DeltaFifo::builder().known_objects(Arc::new(pods.clone())).name("pods").build();
    let mut server = Server::default();

    (0..1000).for_each(|number| server.put(number));
    queue.push(server.list()?);
    process(&queue, &cache).await?;
    println!("listed    {:>4} pods at version {}", pods.len(), shown(pods.version()));
    println!("on node-7 {:>4} pods", by_node.count("node-7"));

    for number in 0..100 {
        server.put(number);
        queue.push(Delta::Updated(server.pod(number)?));
    }
    for number in 100..150 {
        let last_state = server.delete(number);
        queue.push(Delta::Deleted(Deleted::Observed(decode(&last_state)?)));
    }
    println!("\nqueued 150 changes of {} objects", queue.len());
    process(&queue, &cache).await?;
    println!("now       {:>4} pods at version {}", pods.len(), shown(pods.version()));

    // Pods that are deleted while no watch is open: the next list does not have them, so the queue reports missed deletes.
    (150..200).for_each(|number| drop(server.delete(number)));
    queue.push(server.list()?);
    process(&queue, &cache).await?;
    let web = pods.namespace("team-3").select("app=web".parse()?);
    println!("\nrelisted  {:>4} pods; {} of them are app=web in team-3", pods.len(), web.len());

    let pod = pods.require(&Server::key(7))?;
    let containers = pod.get()?.spec.as_ref().map_or(0, |spec| spec.containers.len());
    println!("{} has labels {:?} and {containers} container(s)", pod.key(), pod.labels());

    server.compare_with(&cache)
}

/// Does what the apply loop of an informer does: takes a batch from the queue, applies it to the cache, acknowledges it.
async fn process(queue: &DeltaFifo<Pods>, cache: &Indexer<Pods>) -> Result<(), Box<dyn Error>> {
    let batch = queue.drain().await?;
    let mut writes = WriteBatch::with_capacity(batch.items().len());
    for taken in batch.items() {
        match taken.deltas().newest() {
            Delta::Deleted(deleted) => writes.remove(deleted.key().clone()),
            Delta::Added(pod) | Delta::Updated(pod) | Delta::Replaced(pod) | Delta::Sync(pod) => {
                writes.upsert(pod.clone());
            }
        }
    }
    if let Some(version) = batch.version() {
        writes.at(version.clone());
    }
    cache.apply(writes);
    batch.acknowledge();
    Ok(())
}

/// A simulated API server: pods as JSON, and a version that each write increments.
#[derive(Default)]
struct Server {
    pods: BTreeMap<usize, String>,
    version: u64,
}

impl Server {
    fn key(number: usize) -> Key {
        Key::namespaced(&format!("team-{}", number % 10), &format!("web-{number}"))
    }

    fn put(&mut self, number: usize) {
        let json = self.next_state(number);
        self.pods.insert(number, json);
    }

    /// Deletes a pod, and returns its final state, which has the version of the deletion.
    fn delete(&mut self, number: usize) -> String {
        self.pods.remove(&number);
        self.next_state(number)
    }

    fn next_state(&mut self, number: usize) -> String {
        self.version += 1;
        let (key, node, version) = (Self::key(number), number % 20, self.version);
        let (namespace, name) = (key.namespace().unwrap_or_default(), key.name());
        format!(
            r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","uid":"uid-{number}","resourceVersion":"{version}",
                "labels":{{"app":"web"}},"managedFields":[{{"manager":"kubelet"}}]}},
                "spec":{{"nodeName":"node-{node}","containers":[{{"name":"web","image":"nginx"}}]}}}}"#
        )
    }

    fn pod(&self, number: usize) -> Result<Cached<Pods>, Box<dyn Error>> {
        decode(self.pods.get(&number).ok_or("no such pod")?)
    }

    fn list(&self) -> Result<Relist<Pods>, Box<dyn Error>> {
        let objects: Result<_, _> = self.pods.keys().map(|&number| self.pod(number)).collect();
        Ok(Relist {
            version: self.version.to_string().as_str().into(),
            objects: objects?,
            quarantined: Vec::new(),
            history_changed: false,
        })
    }

    fn compare_with(&self, cache: &Indexer<Pods>) -> Result<(), Box<dyn Error>> {
        let pods = cache.lister();
        for number in self.pods.keys() {
            let (ours, theirs) = (pods.require(&Self::key(*number))?, self.pod(*number)?);
            if ours.json()? != theirs.json()? {
                return Err(format!("{} differs from the server's", ours.key()).into());
            }
        }
        if pods.len() != self.pods.len() {
            return Err(format!("{} pods in the cache, {} on the server", pods.len(), self.pods.len()).into());
        }
        println!("\nthe cache equals the server: {} pods at version {}", pods.len(), shown(pods.version()));
        Ok(())
    }
}

fn decode(json: &str) -> Result<Cached<Pods>, Box<dyn Error>> {
    Ok(Scanner::of_kind::<Pod>().scan(json.as_bytes())?.decode()?)
}

fn shown(version: Option<ResourceVersion>) -> String {
    version.map_or_else(|| "none".to_owned(), |version| version.to_string())
}
