//! Two controllers of kube-runtime share one informer of pods: one gives every pod a config map, the other labels its pods.
//!
//! The server is the embedded one; with a cluster, the client would be `kube::Client::try_default().await?`.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use informant::Key;
use informant::Lister;
use informant::SharedInformer;
use informant::SharedInformerFactory;
use informant::kube_runtime::Shared;
use informant_apiserver::ApiServer;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::Client;
use kube::Resource;
use kube::ResourceExt;
use kube::api::Patch;
use kube::core::PartialObjectMetaExt;
use kube::runtime::Controller;
use kube::runtime::WatchStreamExt;
use kube::runtime::controller::Action;
use serde_json::json;
use tokio::task::JoinHandle;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::new();
    server.put("namespaces", json!({"metadata": {"name": "shop"}}))?;
    for name in ["web", "db"] {
        let spec = json!({"containers": [{"name": "main", "image": "web:1"}]});
        server.put("pods", json!({"metadata": {"namespace": "shop", "name": name}, "spec": spec}))?;
    }
    let client = server.client();
    let factory = SharedInformerFactory::new(client.clone());
    let (pods, configs) = (factory.informer::<Pod>(), factory.informer::<ConfigMap>());

    let configuring = give_each_pod_a_config(&client, &pods, &configs)?;
    let labelling = label_pods(&client, &pods)?;
    factory.start();
    factory.synced().await?;

    let is_labelled = |pod: &informant::Cached<Pod>| pod.labels().contains_key("team");
    until(|| configs.lister().len() == 2 && pods.lister().list().iter().all(is_labelled)).await;
    println!("every pod has a config map and a label");

    // A child is deleted: its owner is reconciled, and the child is there again.
    let key = Key::namespaced("shop", "web");
    let deleted = configs.lister().require(&key)?;
    server.delete("configmaps", key.as_str())?;
    until(|| configs.lister().get(&key).is_some_and(|config| config.uid() != deleted.uid())).await;
    println!("the config map of {key} was created again");

    println!("list and watch requests for pods of both controllers:");
    server
        .requests_for("pods")
        .iter()
        .filter(|request| !request.starts_with("patch"))
        .for_each(|one| println!("  {one}"));

    // Ends the streams of both controllers: they finish what they are doing, and end.
    factory.stop().await?;
    configuring.await?;
    labelling.await?;
    Ok(())
}

/// What the first controller reads and writes.
struct Configuring {
    client: Client,
    configs: Lister<ConfigMap>,
}

/// Runs a controller of pods that own config maps.
fn give_each_pod_a_config(
    client: &Client,
    pods: &SharedInformer<Pod>,
    configs: &SharedInformer<ConfigMap>,
) -> Result<JoinHandle<()>, Box<dyn Error>> {
    let context = Configuring { client: client.clone(), configs: configs.lister() };
    let (store, stream) = pods.subscribe().named("config controller").watcher()?.for_controller();
    // Only the metadata of a child is needed to find its owner.
    let children = configs.subscribe().named("config controller").watcher()?;
    let children = children.map_objects(|config| config.metadata.clone().into_response_partial::<ConfigMap>());
    let controller = Controller::for_stream(stream, store).owns_stream(children.touched_objects());
    let results = controller.run(configure, |_, error, _| retry(error), Arc::new(context));
    Ok(tokio::spawn(results.for_each(|_| std::future::ready(()))))
}

async fn configure(pod: Arc<Shared<Pod>>, context: Arc<Configuring>) -> Result<Action, kube::Error> {
    let namespace = pod.namespace().unwrap_or_default();
    let name = pod.name_any();
    if context.configs.get(&Key::namespaced(&namespace, &name)).is_none() {
        let mut config = ConfigMap::default();
        config.metadata.name = Some(name.clone());
        config.metadata.owner_references = pod.controller_owner_ref(&()).map(|owner| vec![owner]);
        match Api::namespaced(context.client.clone(), &namespace).create(&Default::default(), &config).await {
            Ok(_) => println!("created the config map of {name}"),
            // The cache did not show it yet.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Action::await_change())
}

/// Runs a controller of the same pods that labels them.
fn label_pods(client: &Client, pods: &SharedInformer<Pod>) -> Result<JoinHandle<()>, Box<dyn Error>> {
    let (store, stream) = pods.subscribe().named("label controller").watcher()?.for_controller();
    let controller = Controller::for_stream(stream, store);
    let results = controller.run(label, |_, error, _| retry(error), Arc::new(client.clone()));
    Ok(tokio::spawn(results.for_each(|_| std::future::ready(()))))
}

async fn label(pod: Arc<Shared<Pod>>, client: Arc<Client>) -> Result<Action, kube::Error> {
    if !pod.labels().contains_key("team") {
        let api = Api::<Pod>::namespaced(Client::clone(&client), &pod.namespace().unwrap_or_default());
        let patch = Patch::Merge(json!({"metadata": {"labels": {"team": "shop"}}}));
        api.patch(&pod.name_any(), &Default::default(), &patch).await?;
        println!("labelled {}", pod.name_any());
    }
    Ok(Action::await_change())
}

fn retry(error: &kube::Error) -> Action {
    println!("failed, will retry: {error}");
    Action::requeue(Duration::from_secs(1))
}

async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
