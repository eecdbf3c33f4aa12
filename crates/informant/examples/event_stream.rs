//! Receives events as an asynchronous stream, with a filter. If the consumer is slow, pending events of the same object are coalesced.
//!
//! The example runs the embedded server. With a cluster, use `kube::Client::try_default().await?` as the client.
#![allow(clippy::print_stdout, reason = "the example prints its results")]

use std::{error::Error, sync::Arc, time::Duration};

use informant::prelude::*;
use informant_apiserver::ApiServer;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use tokio::sync::Notify;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::new();
    let config =
        |name: &str, text: &str| json!({"metadata": {"namespace": "shop", "name": name}, "data": {"text": text}});
    server.put("configmaps", config("hours", "9-17"))?;
    server.put("configmaps", config("secret-plan", "none"))?;
    let factory = SharedInformerFactory::new(server.client());
    let configs = factory.informer::<ConfigMap>();
    let mut events = configs
        .subscribe()
        .named("printer")
        .filter(|config| !config.key().name().starts_with("secret"))
        .coalesce_above(1000)
        .stream()?;
    factory.start();

    let deleted = Arc::new(Notify::new());
    let notify_deleted = Arc::clone(&deleted);
    let consumer = tokio::spawn(async move {
        let mut count = 0;
        while let Some(event) = events.next().await {
            count += 1;
            match event {
                Event::Added { object, origin } => println!("+ {} ({origin:?})", object.key()),
                Event::Updated { old, new } => println!("~ {} {} → {}", new.key(), old.version(), new.version()),
                Event::Deleted(Deleted::Observed(object)) => {
                    println!("- {}", object.key());
                    notify_deleted.notify_one();
                }
                Event::Deleted(Deleted::Missed { last_known }) => println!("- {} (missed delete)", last_known.key()),
                Event::Resynced(object) => println!("= {}", object.key()),
                Event::Synced => println!("all objects of the initial list were delivered"),
            }
            // Slow work can be awaited here: only the events of this stream wait for it, not other handlers or the cache.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        count
    });

    factory.synced().await?;
    server.put("configmaps", config("hours", "7-15"))?;
    server.put("configmaps", config("secret-plan", "more"))?;
    server.delete("configmaps", "shop/hours")?;
    deleted.notified().await;

    // The stream ends with the informer.
    factory.stop().await?;
    let count = consumer.await?;
    println!("{count} events");
    assert_eq!(count, 4);
    Ok(())
}
