//! A first informer: request it from a factory, register a handler, start, wait until it is synced, read the cache, stop.
//!
//! The example runs the embedded server. With a cluster, use `kube::Client::try_default().await?` as the client.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the example prints its results")]

use std::{error::Error, process::ExitCode, time::Duration};

use informant::{Identity, error::Report, prelude::*};
use informant_apiserver::ApiServer;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::json;

#[tokio::main]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", Report::new(&*error)); // with its causes
            ExitCode::FAILURE
        }
    }
}

async fn run() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::new();
    server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "hours"}, "data": {"open": "9-17"}}))?;
    let client = server.client();

    let factory = SharedInformerFactory::new(client.clone());
    let configs = factory.informer::<ConfigMap>();
    let printer = configs
        .subscribe()
        .on_add(|config, origin| println!("+ {} ({origin:?})", config.key()))
        .on_update(|old, new| println!("~ {} {} → {}", new.key(), old.version(), new.version()))
        .on_delete(|config| println!("- {}", config.key()))
        .register()?;

    // The factory sends no request before this call.
    factory.start();
    factory.synced().await?;
    printer.synced().await?;
    println!("{} config maps are cached", configs.lister().len());

    // After a write, wait until the cache has it.
    let api = Api::<ConfigMap>::namespaced(client, "shop");
    let mut hours = api.get("hours").await?;
    hours.data.get_or_insert_default().insert("open".into(), "7-15".into());
    let written = api.replace("hours", &Default::default(), &hours).await?;
    let cached = configs.wait_for_write(&written, Duration::from_secs(10)).await?;
    println!("the cache has {:?}", cached.as_ref().and_then(|config| config.data.as_ref()));

    api.delete("hours", &Default::default()).await?;
    configs.wait_until_gone(&Identity::of(&written)?, Duration::from_secs(10)).await?;
    println!("{} config maps are cached", configs.lister().len());

    // Waits for the running callback and all tasks of the informer. Undelivered events are dropped.
    factory.stop().await?;
    Ok(())
}
