//! Four kinds, decoded objects.

use informant_kinds::{Failure, follow, run};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Node, Pod, Service},
};

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
