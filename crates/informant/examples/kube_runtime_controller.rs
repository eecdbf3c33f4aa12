//! Two controllers of kube-runtime share one informer of pods: the first creates a config map for every pod, the second labels
//! every pod. The API server receives one list and one watch of pods.
//!
//! The example runs the embedded server. With a cluster, use `kube::Client::try_default().await?` as the client.
#![allow(clippy::print_stdout, reason = "the example prints its results")]

use std::{error::Error, sync::Arc, time::Duration};

use futures_util::StreamExt;
use informant::{kube_runtime::Shared, prelude::*};
use informant_apiserver::ApiServer;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::Patch,
    core::PartialObjectMetaExt,
    runtime::{Controller, WatchStreamExt, controller::Action},
};
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

    let config_controller = create_configs(&client, &pods, &configs)?;
    let label_controller = label_pods(&client, &pods)?;
    factory.start();
    factory.synced().await?;

    let is_labelled = |pod: &Cached<Pod>| pod.labels().contains_key("team");
    until(|| configs.lister().len() == 2 && pods.lister().list().iter().all(is_labelled)).await;
    println!("every pod has a config map and a label");

    // Delete a config map: the first controller reconciles the pod that owns it, and creates it again.
    let key = Key::namespaced("shop", "web");
    let deleted = configs.lister().require(&key)?;
    server.delete("configmaps", key.as_str())?;
    until(|| configs.lister().get(&key).is_some_and(|config| config.uid() != deleted.uid())).await;
    println!("the config map of {key} was created again");

    println!("list and watch requests for pods, of both controllers together:");
    server
        .requests_for("pods")
        .iter()
        .filter(|request| !request.starts_with("patch"))
        .for_each(|one| println!("  {one}"));

    // Ends the streams of both controllers. The controllers finish running reconciliations, and end.
    factory.stop().await?;
    config_controller.await?;
    label_controller.await?;
    Ok(())
}

/// The context of the first controller.
struct ConfigContext {
    client: Client,
    configs: Lister<ConfigMap>,
}

/// Runs a controller that creates a config map for each pod, which the pod owns.
fn create_configs(
    client: &Client,
    pods: &SharedInformer<Pod>,
    configs: &SharedInformer<ConfigMap>,
) -> informant::Result<JoinHandle<()>> {
    let context = ConfigContext { client: client.clone(), configs: configs.lister() };
    let (store, stream) = pods.subscribe().named("config controller").watcher()?.for_controller();
    // Only the metadata of a child is needed to find its owner.
    let children = configs.subscribe().named("config controller").watcher()?;
    let children = children.map_objects(|config| config.metadata.clone().into_response_partial::<ConfigMap>());
    let controller = Controller::for_stream(stream, store).owns_stream(children.touched_objects());
    let results = controller.run(configure, |_, error, _| retry(error), Arc::new(context));
    Ok(tokio::spawn(results.for_each(|_| std::future::ready(()))))
}

async fn configure(pod: Arc<Shared<Pod>>, context: Arc<ConfigContext>) -> Result<Action, kube::Error> {
    let namespace = pod.namespace().unwrap_or_default();
    let name = pod.name_any();
    if context.configs.get(&Key::namespaced(&namespace, &name)).is_none() {
        let mut config = ConfigMap::default();
        config.metadata.name = Some(name.clone());
        config.metadata.owner_references = pod.controller_owner_ref(&()).map(|owner| vec![owner]);
        match Api::namespaced(context.client.clone(), &namespace).create(&Default::default(), &config).await {
            Ok(_) => println!("created the config map of {name}"),
            // The config map exists, but the cache does not have it yet.
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Action::await_change())
}

/// Runs a controller that labels the same pods.
fn label_pods(client: &Client, pods: &SharedInformer<Pod>) -> informant::Result<JoinHandle<()>> {
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
    println!("reconciliation failed, retrying in a second: {error}");
    Action::requeue(Duration::from_secs(1))
}

/// Waits until a condition holds.
async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
