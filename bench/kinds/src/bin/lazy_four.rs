//! Four kinds, lazy objects.

use informant::Lazy;
use informant_kinds::Failure;
use informant_kinds::follow;
use informant_kinds::run;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::core::v1::Service;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    run(|factory| {
        follow::<Lazy<Pod>>(factory)?;
        follow::<Lazy<Deployment>>(factory)?;
        follow::<Lazy<Service>>(factory)?;
        follow::<Lazy<Node>>(factory)?;
        Ok(())
    })
    .await
}
