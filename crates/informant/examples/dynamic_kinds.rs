//! Kinds that are known at run time: found by discovery, cached as dynamic objects, and cached again after the kind was reinstalled.
//!
//! The server is the embedded one; with a cluster, the client would be `kube::Client::try_default().await?`.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

use std::error::Error;
use std::time::Duration;

use informant::SharedInformerFactory;
use informant_apiserver::ApiServer;
use informant_apiserver::Kind;
use kube::core::DynamicObject;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::new();
    let widgets = || Kind::new("example.com", "v1", "Widget", "widgets");
    server.register(widgets());
    server.put("widgets.example.com", json!({"metadata": {"namespace": "shop", "name": "w1"}, "spec": {"size": 3}}))?;
    let factory = SharedInformerFactory::new(server.client());

    // Discovery of an unknown kind fails at once.
    let unknown = factory.discover::<DynamicObject>("example.com", "Gadget").await;
    println!("{}", unknown.err().ok_or("there are no gadgets")?);

    let informer = factory.discover::<DynamicObject>("example.com", "Widget").await?.informer()?;
    informer
        .subscribe()
        .on_add(|widget, _| println!("+ {} of size {}", widget.key(), widget.data["spec"]["size"]))
        .on_delete(|widget| println!("- {}", widget.key()))
        .register()?;
    factory.start();
    factory.synced().await?;

    // The kind is removed: its objects leave the cache, and `problems` shows why.
    server.remove_kind("widgets.example.com");
    until(|| informer.lister().is_empty()).await;
    factory.problems().iter().for_each(|problem| println!("{problem}"));

    // The kind is installed again, and the cache has its objects.
    server.register(widgets());
    server.put("widgets.example.com", json!({"metadata": {"namespace": "shop", "name": "w2"}, "spec": {"size": 5}}))?;
    until(|| informer.lister().len() == 1 && factory.problems().is_empty()).await;
    println!("{:?}", informer.lister().keys());
    factory.stop().await?;
    Ok(())
}

async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
