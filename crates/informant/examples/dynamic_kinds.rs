//! An informer of a kind that is known only at run time: discovery finds the kind, and its objects are cached as `DynamicObject`.
//! When the kind is removed and installed again, the informer follows.
//!
//! The example runs the embedded server. With a cluster, use `kube::Client::try_default().await?` as the client.
#![allow(clippy::print_stdout, reason = "the example prints its results")]

use std::{error::Error, time::Duration};

use informant::prelude::*;
use informant_apiserver::{ApiServer, Kind};
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
    println!("{}", unknown.err().ok_or("discovery of an unknown kind must fail")?);

    let informer = factory.discover::<DynamicObject>("example.com", "Widget").await?.informer()?;
    informer
        .subscribe()
        .on_add(|widget, _| println!("+ {} of size {}", widget.key(), widget.data["spec"]["size"]))
        .on_delete(|widget| println!("- {}", widget.key()))
        .register()?;
    factory.start();
    factory.synced().await?;

    // Remove the kind: the informer deletes its objects from the cache, and `problems` returns the reason.
    server.remove_kind("widgets.example.com");
    until(|| informer.lister().is_empty()).await;
    factory.problems().iter().for_each(|problem| println!("{problem}"));

    // Install the kind again: the informer lists its objects.
    server.register(widgets());
    server.put("widgets.example.com", json!({"metadata": {"namespace": "shop", "name": "w2"}, "spec": {"size": 5}}))?;
    until(|| informer.lister().len() == 1 && factory.problems().is_empty()).await;
    println!("cached after the kind was installed again: {:?}", informer.lister().keys());
    factory.stop().await?;
    Ok(())
}

/// Waits until a condition holds.
async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
