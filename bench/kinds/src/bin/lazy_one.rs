//! One kind, lazy objects.

use informant::Lazy;
use informant_kinds::{Failure, follow, run};
use k8s_openapi::api::core::v1::Pod;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    run(|factory| {
        follow::<Lazy<Pod>>(factory)?;
        Ok(())
    })
    .await
}
