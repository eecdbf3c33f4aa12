//! Objects that nobody reads are not decoded: the same pods whole, lazy, and as just the fields that are wanted.
//!
//! The server is the embedded one; with a cluster, the client would be `kube::Client::try_default().await?`.
#![allow(clippy::print_stdout, reason = "it shows what happens")]

use std::borrow::Cow;
use std::error::Error;

use informant::Cached;
use informant::Lazy;
use informant::SharedInformerFactory;
use informant::object::OfKind;
use informant::projection;
use informant_apiserver::ApiServer;
use informant_apiserver::Load;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;

/// Just what is wanted. Who it is stands beside it, so it needs no metadata.
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

/// The same with metadata, as `kube` spells it: then it is a `kube::Resource` as well.
#[derive(Resource, Deserialize, Clone, Debug)]
#[resource(inherit = Pod)]
struct PodWithNode {
    metadata: ObjectMeta,
    spec: NodeName,
}

/// Fields that are read where they stand: texts are borrowed.
#[derive(Deserialize)]
struct Peeked<'a> {
    #[serde(borrow)]
    spec: PeekedSpec<'a>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PeekedSpec<'a> {
    #[serde(borrow)]
    node_name: Option<Cow<'a, str>>,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let server = ApiServer::new();
    Load::of("pods", 2000).seed(3).fill(&server).await?;
    let client = server.client();

    let whole = nodes::<Pod>(&client, |pod| pod.spec.as_ref()?.node_name.clone()).await?;
    let lazy =
        nodes::<Lazy<Pod>>(&client, |pod| Some(pod.peek::<Peeked<'_>>().ok()?.spec.node_name?.into_owned())).await?;
    let projected = nodes::<PodNode>(&client, |pod| pod.spec.node_name.clone()).await?;
    let inherited = nodes::<PodWithNode>(&client, |pod| pod.spec.node_name.clone()).await?;

    println!(
        "pods on the first node: {whole} (whole), {lazy} (lazy), {projected} (projected), {inherited} (inherited)"
    );
    assert!(whole == lazy && lazy == projected && projected == inherited && whole > 0);
    Ok(())
}

/// Indexes all pods by node in a form of choice, and counts those of the first node.
async fn nodes<O: OfKind>(
    client: &kube::Client,
    node: impl Fn(&Cached<O>) -> Option<String> + Send + Sync + 'static,
) -> Result<usize, Box<dyn Error>> {
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
