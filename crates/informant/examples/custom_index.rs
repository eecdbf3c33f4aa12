//! Indexes: pods by label, by node, by image, and by several of them at once, without reading all pods.
//!
//! The server is the embedded one; with a cluster, the client would be `kube::Client::try_default().await?`.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

use std::error::Error;

use informant::{SharedInformerFactory, index};
use informant_apiserver::ApiServer;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::new();
    for number in 0..1000 {
        let (node, image) = (format!("node-{}", number % 10), format!("app-{}:1", number % 7));
        let team = format!("team-{}", number % 3);
        server.put(
            "pods",
            json!({
                "metadata": {"namespace": "shop", "name": format!("pod-{number}"), "labels": {"team": team}},
                "spec": {"nodeName": node, "containers": [{"name": "main", "image": image}, {"name": "proxy", "image": "proxy:3"}]},
            }),
        )?;
    }
    let factory = SharedInformerFactory::new(server.client());
    let pods = factory.informer::<Pod>();

    // A ready-made index function: the value of a label. There are others by controller, by owner and by field path.
    let by_team = pods.add_index("team", index::label("team"))?;
    // A function of your own that returns one value or `None`.
    let by_node = pods.add_index("node", |pod| pod.spec.as_ref()?.node_name.clone())?;
    factory.start();
    factory.synced().await?;
    // A function that returns any number of values. Indexes can also be added while the informer runs.
    let by_image = pods.add_index("image", |pod| {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        containers.filter_map(|container| container.image.clone()).collect::<Vec<_>>()
    })?;

    println!("of team-1: {} pods", by_team.count("team-1"));
    println!("on node-3: {} pods", by_node.count("node-3"));
    println!("with proxy:3: {} pods", by_image.count("proxy:3"));
    let both = pods.lister().by_indexes([by_node.lookup("node-3"), by_image.lookup("app-2:1")])?;
    let mut names: Vec<_> = both.iter().map(|pod| pod.name_any()).collect();
    names.sort();
    println!("app-2:1 on node-3: {names:?}");

    let expected = (0..1000).filter(|number| number % 10 == 3 && number % 7 == 2).count();
    assert_eq!(names.len(), expected);
    assert_eq!(by_team.count("team-1"), (0..1000).filter(|number| number % 3 == 1).count());
    factory.stop().await?;
    Ok(())
}
