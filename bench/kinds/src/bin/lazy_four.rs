//! Four kinds, lazy objects.

use informant::Lazy;
use informant_kinds::{Failure, follow, run};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Node, Pod, Service},
};

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
