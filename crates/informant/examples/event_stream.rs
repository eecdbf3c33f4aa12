//! Events as a stream: the asynchronous way to follow an informer, with a filter, and bounded when it is slow.
//!
//! The server is the embedded one; with a cluster, the client would be `kube::Client::try_default().await?`.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use informant::Deleted;
use informant::Event;
use informant::SharedInformerFactory;
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
        .named("follower")
        .filter(|config| !config.key().name().starts_with("secret"))
        .coalesce_above(1000)
        .stream()?;
    factory.start();

    let gone = Arc::new(Notify::new());
    let seen = Arc::clone(&gone);
    let following = tokio::spawn(async move {
        let mut heard = 0;
        while let Some(event) = events.next().await {
            heard += 1;
            match event {
                Event::Added { object, origin } => println!("+ {} ({origin:?})", object.key()),
                Event::Updated { old, new } => println!("~ {} {} → {}", new.key(), old.version(), new.version()),
                Event::Deleted(Deleted::Observed(object)) => {
                    println!("- {}", object.key());
                    seen.notify_one();
                }
                Event::Deleted(Deleted::Missed { last_known }) => println!("- {}, some time ago", last_known.key()),
                Event::Resynced(object) => println!("= {}", object.key()),
                Event::Synced => println!("that was all that was there"),
            }
            // Work that takes its time may be awaited here: meanwhile events wait, and nobody else does.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        heard
    });

    factory.synced().await?;
    server.put("configmaps", config("hours", "7-15"))?;
    server.put("configmaps", config("secret-plan", "more"))?;
    server.delete("configmaps", "shop/hours")?;
    gone.notified().await;

    // The stream ends with the informer.
    factory.stop().await?;
    let heard = following.await?;
    println!("{heard} events");
    assert_eq!(heard, 4);
    Ok(())
}
