//! A small controller: it counts pods per node, and keeps one ConfigMap with a summary for each Deployment.
//!
//! It shows what most controllers need: two indexes, a synchronous handler, an async handler that writes through `kube::Api` and waits until the
//! cache shows the write, a retry of failed writes by resyncs, a health report as JSON, and a stop in the right order. The server is the embedded one;
//! for a cluster, the client is `kube::Client::try_default().await?`.
#![allow(clippy::print_stdout, reason = "the output is the result")]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use informant::{
    Cached, Index, Key, LabelSelector, Registration, Result, SharedInformer, SharedInformerFactory, Uid, index,
};
use informant_apiserver::{ApiServer, Fault, On};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Pod},
};
use kube::{
    Api, Client, Resource,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Deployments whose ConfigMap could not be written are tried again this often.
const RETRY: Duration = Duration::from_secs(1);

/// The number of pods on each node.
#[derive(Clone, Default)]
struct NodeCounts(Arc<Mutex<BTreeMap<String, usize>>>);

impl NodeCounts {
    fn get(&self, node: &str) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(node).copied().unwrap_or(0)
    }

    /// Moves a pod from one node to another; `None` is no node.
    fn change(&self, from: Option<&str>, to: Option<&str>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = from.and_then(|node| counts.get_mut(node)) {
            *count -= 1;
        }
        if let Some(node) = to {
            *counts.entry(node.to_owned()).or_default() += 1;
        }
    }

    /// Keeps the counts current with an informer.
    fn follow(&self, pods: &SharedInformer<Pod>) -> Result<Registration> {
        let (add, update, delete) = (self.clone(), self.clone(), self.clone());
        Ok(pods
            .subscribe()
            .named("pods per node")
            .on_add(move |pod, _| add.change(None, node_of(pod)))
            .on_update(move |old, new| update.change(node_of(old), node_of(new)))
            .on_delete(move |pod| delete.change(node_of(pod.object()), None))
            .register()?)
    }
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Writes one ConfigMap for each Deployment, and waits until the cache shows it.
#[derive(Clone)]
struct Summaries {
    client: Client,
    configs: SharedInformer<ConfigMap>,
}

impl Summaries {
    async fn write(&self, deployment: &Deployment) -> Result<()> {
        let (Some(namespace), Some(name)) = (&deployment.metadata.namespace, &deployment.metadata.name) else {
            return Ok(());
        };
        let replicas = deployment.spec.replicas.unwrap_or(1);
        let summary = ConfigMap {
            metadata: ObjectMeta {
                namespace: Some(namespace.clone()),
                name: Some(format!("{name}-summary")),
                owner_references: deployment.controller_owner_ref(&()).map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            data: Some(BTreeMap::from([("replicas".to_owned(), replicas.to_string())])),
            ..ConfigMap::default()
        };
        // This handler may run before the cache of ConfigMaps has its first list.
        self.configs.synced().await?;
        let key = Key::of(&summary)?;
        let api: Api<ConfigMap> = Api::namespaced(self.client.clone(), namespace);
        let written = match self.configs.lister().get(&key) {
            Some(current) if current.data == summary.data => return Ok(()),
            Some(_) => api.patch(key.name(), &PatchParams::default(), &Patch::Merge(&summary)).await?,
            None => api.create(&PostParams::default(), &summary).await?,
        };
        // Without this wait, the next event could find the old state in the cache and write again.
        self.configs.wait_for_write(&written, TIMEOUT).await?;
        println!("{key}: {replicas} replicas");
        Ok(())
    }

    /// A failed write is logged; the next resync calls the handler again.
    async fn write_or_log(self, deployment: Cached<Deployment>) {
        // `stop` waits for this future, so it must end.
        match tokio::time::timeout(3 * TIMEOUT, self.write(&deployment)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => println!("{}: the write failed and is tried again: {error}", deployment.key()),
            Err(_) => println!("{}: the write timed out and is tried again", deployment.key()),
        }
    }

    fn follow(self, deployments: &SharedInformer<Deployment>) -> Result<Registration> {
        let on_update = self.clone();
        Ok(deployments
            .subscribe()
            .named("summaries")
            .coalesce_above(100)
            .on_add_async(move |deployment, _| self.clone().write_or_log(deployment))
            .on_update_async(move |_, deployment| on_update.clone().write_or_log(deployment))
            .register()?)
    }
}

/// The informers, indexes and handlers of the program.
struct App {
    factory: SharedInformerFactory,
    deployments: SharedInformer<Deployment>,
    pods: SharedInformer<Pod>,
    configs: SharedInformer<ConfigMap>,
    by_node: Index<Pod>,
    by_controller: Index<Pod, Uid>,
    counts: NodeCounts,
    counter: Registration,
    writer: Registration,
}

impl App {
    /// Creates the informers and registers the handlers; sends no request.
    fn new(client: Client) -> Result<Self> {
        let factory = SharedInformerFactory::builder(client.clone())
            .fail_fast()
            .configure::<Deployment>(|deployments| deployments.resync_every(RETRY))
            .build();
        let deployments = factory.informer::<Deployment>();
        let pods = factory.informer::<Pod>();
        let configs = factory.informer::<ConfigMap>();
        let by_node = pods.add_index("node", |pod| node_of(pod).map(str::to_owned))?;
        let by_controller = pods.add_index("controller", index::controller_uid())?;
        let counts = NodeCounts::default();
        let counter = counts.follow(&pods)?;
        let writer = Summaries { client, configs: configs.clone() }.follow(&deployments)?;
        Ok(Self { factory, deployments, pods, configs, by_node, by_controller, counts, counter, writer })
    }

    /// Starts, and waits until the caches and the handlers have the initial state.
    async fn start(&self) -> Result<()> {
        self.factory.start();
        self.factory.synced_within(6 * TIMEOUT).await?;
        self.counter.synced().await?;
        self.writer.synced().await?;
        Ok(())
    }

    /// The pods that the selector of a deployment matches.
    fn pods_of(&self, deployment: &Deployment) -> Result<Vec<Cached<Pod>>> {
        let selector = LabelSelector::try_from(&deployment.spec.selector)?;
        let namespace = deployment.metadata.namespace.as_deref().unwrap_or_default();
        Ok(self.pods.lister().namespace(namespace).select(selector))
    }

    /// The response of a health endpoint.
    fn health(&self) -> Value {
        let problems = self.factory.problems();
        json!({"healthy": problems.is_empty(), "problems": problems, "informers": self.factory.status()})
    }

    /// Stops the writer first, while the cache that it waits for still runs; then everything else.
    async fn stop(&self) -> Result<()> {
        self.writer.stop().await?;
        self.factory.stop_within(TIMEOUT).await?;
        Ok(())
    }
}

fn deployment(replicas: u32) -> Value {
    let labels = json!({"app": "web"});
    let containers = json!([{"name": "main", "image": "web:1"}]);
    json!({
        "metadata": {"namespace": "shop", "name": "web"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
        },
    })
}

fn pod(name: &str, node: Option<&str>) -> Value {
    let owner =
        json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs-web", "controller": true});
    json!({
        "metadata": {"namespace": "shop", "name": name, "labels": {"app": "web"}, "ownerReferences": [owner]},
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "web:1"}]},
    })
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let server = ApiServer::new();
    server.put("namespaces", json!({"metadata": {"name": "shop"}}))?;
    server.put("deployments", deployment(2))?;
    server.put("pods", pod("web-1", Some("n1")))?;
    server.put("pods", pod("web-2", None))?;
    // The first write fails; the resync after a second repeats it.
    server.inject(On::writes().of("configmaps").once(), Fault::status(500));

    let app = App::new(server.client())?;
    app.start().await?;
    assert_eq!((app.counts.get("n1"), app.by_node.count("n1"), app.by_controller.count("rs-web")), (1, 1, 2));
    let web = app.deployments.lister().require(&"shop/web".parse()?)?;
    assert_eq!(app.pods_of(&web)?.len(), 2);

    // The pod gets a node, and the deployment is scaled.
    server.put("pods", pod("web-2", Some("n1")))?;
    app.counter.caught_up_to(&server.version().into()).await?;
    assert_eq!(app.counts.get("n1"), 2);
    server.put("deployments", deployment(5))?;
    app.writer.caught_up_to(&server.version().into()).await?;
    let summary = app.configs.lister().require(&"shop/web-summary".parse()?)?;
    assert_eq!(summary.data.as_ref().and_then(|data| data.get("replicas")).map(String::as_str), Some("5"));

    println!("{:#}", app.health()["problems"]);
    app.stop().await?;
    Ok(())
}
