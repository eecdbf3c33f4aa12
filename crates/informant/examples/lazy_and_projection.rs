//! The same index of pods by node with four object types: the whole `Pod`, `Lazy<Pod>` (JSON, decoded on demand), and two projections
//! that hold only some fields.
//!
//! The example runs the embedded server. With a cluster, use `kube::Client::try_default().await?` as the client.
#![allow(clippy::print_stdout, reason = "the example prints its results")]

use std::error::Error;

use informant::{OfKind, prelude::*, projection};
use informant_apiserver::{ApiServer, Load};
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

/// A projection: the only field of a pod that this program needs. Key, uid and version are part of `Cached`, so it needs no metadata.
#[derive(Deserialize)]
struct PodNode {
    spec: NodeName,
}

#[derive(Deserialize, Clone, Debug)]
#[serde(rename_all = "camelCase")]
struct NodeName {
    node_name: Option<String>,
}

projection!(PodNode of Pod);

/// A projection with metadata, which is also a `kube::Resource`, by `kube`'s own derive.
#[derive(Resource, Deserialize, Clone, Debug)]
#[resource(inherit = Pod)]
struct PodWithNode {
    metadata: ObjectMeta,
    spec: NodeName,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::new();
    Load::of("pods", 2000).seed(3).fill(&server).await?;
    let client = server.client();

    let whole = count_on_first_node::<Pod>(&client, |pod| pod.spec.as_ref()?.node_name.clone()).await?;
    // `peek` decodes only the fields of the given type.
    let lazy = count_on_first_node::<Lazy<Pod>>(&client, |pod| pod.peek::<PodNode>().ok()?.spec.node_name).await?;
    let projected = count_on_first_node::<PodNode>(&client, |pod| pod.spec.node_name.clone()).await?;
    let inherited = count_on_first_node::<PodWithNode>(&client, |pod| pod.spec.node_name.clone()).await?;

    println!(
        "pods on the first node: {whole} (Pod), {lazy} (Lazy<Pod>), {projected} (PodNode), {inherited} (PodWithNode)"
    );
    assert!(whole == lazy && lazy == projected && projected == inherited && whole > 0);
    Ok(())
}

/// Caches all pods as objects of type `O`, indexes them by node, and counts those of the first node.
async fn count_on_first_node<O: OfKind>(
    client: &kube::Client,
    node: impl Fn(&Cached<O>) -> Option<String> + Send + Sync + 'static,
) -> informant::Result<usize> {
    let factory = SharedInformerFactory::new(client.clone());
    let pods = factory.informer::<O>();
    let by_node = pods.add_index("node", node)?;
    factory.start();
    factory.synced().await?;
    let mut nodes = by_node.values();
    nodes.sort();
    let count = nodes.first().map_or(0, |first| by_node.count(&**first));
    factory.stop().await?;
    Ok(count)
}
