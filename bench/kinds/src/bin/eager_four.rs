//! Four kinds, decoded objects.

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
        follow::<Pod>(factory)?;
        follow::<Deployment>(factory)?;
        follow::<Service>(factory)?;
        follow::<Node>(factory)?;
        Ok(())
    })
    .await
}
