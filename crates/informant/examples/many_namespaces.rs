//! Caches two namespaces of two clusters. Each namespace has its own informer, and a view reads all of them as one cache.
//!
//! The example runs two embedded servers. With clusters, create one `kube::Client` for each.
#![allow(clippy::print_stdout, reason = "the example prints its results")]

use std::error::Error;

use informant::{ClusterKey, prelude::*};
use informant_apiserver::ApiServer;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let (east, west) = (cluster("east")?, cluster("west")?);
    // Two of the three namespaces of a cluster: two lists and two watches. The third namespace is never requested.
    let of_cluster =
        |factory: &SharedInformerFactory| factory.request::<ConfigMap>().in_namespaces(["shop", "bank"]).view();
    let configs = View::of_clusters([of_cluster(&east)?, of_cluster(&west)?])?;
    let registration = configs
        .subscribe()
        .on_add(|config, _| println!("+ {} of {}", config.key(), config.cluster().map_or("no cluster", |name| name)))
        .on_synced(|| println!("all initial config maps were delivered"))
        .register()?;

    east.start();
    west.start();
    configs.synced().await?;
    registration.synced().await?;

    let hours = configs.require(&ClusterKey::new("west", "shop/hours".parse()?))?;
    println!("west opens at {:?}", hours.data.as_ref().and_then(|data| data.get("open")));
    println!("{} config maps, {} of them in namespaces named shop", configs.len(), configs.list_in("shop").len());
    assert_eq!((configs.len(), configs.list_in("shop").len(), configs.list_in("home").len()), (4, 2, 0));
    assert_eq!(configs.cluster("east").map(|east| east.len()), Some(2));
    east.stop().await?;
    west.stop().await?;
    Ok(())
}

/// Starts a server with a config map in each of three namespaces, and returns a factory for it.
fn cluster(name: &str) -> Result<SharedInformerFactory, Box<dyn Error>> {
    let server = ApiServer::new();
    for namespace in ["shop", "bank", "home"] {
        let data = json!({"open": if name == "east" { "9-17" } else { "7-15" }});
        server.put("configmaps", json!({"metadata": {"namespace": namespace, "name": "hours"}, "data": data}))?;
    }
    Ok(SharedInformerFactory::builder(server.client()).of_cluster(name).build())
}
