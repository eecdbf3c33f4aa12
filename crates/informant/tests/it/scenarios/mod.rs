//! End-to-end scenarios: a client writes to a server over HTTP, and informers of every object type for pods show the changes.
//!
//! The scenarios run against any server. The default is the embedded one; with `INFORMANT_CONFORMANCE_URL` (and
//! `INFORMANT_CONFORMANCE_TOKEN` if the server needs one) they use that server: `INFORMANT_CONFORMANCE_URL=https://127.0.0.1:6443
//! INFORMANT_CONFORMANCE_TOKEN=… cargo test -p informant scenarios`. Its admission must accept pods without a service account, and
//! the namespaces are not deleted afterwards.

mod cluster;
mod pod_types;
mod pods;
mod scopes;
mod storm;

/// A test of a scenario for each object type.
macro_rules! for_every_pod_type {
    ($($(#[$doc:meta])* $scenario:ident),+ $(,)?) => {$(
        $(#[$doc])*
        mod $scenario {
            use informant::Lazy;
            use k8s_openapi::api::core::v1::Pod;

            use crate::scenarios::pod_types::Inherited;
            use crate::scenarios::pod_types::Projected;

            #[tokio::test]
            async fn whole() {
                super::$scenario::<Pod>().await;
            }

            #[tokio::test]
            async fn lazy() {
                super::$scenario::<Lazy<Pod>>().await;
            }

            #[tokio::test]
            async fn projected() {
                super::$scenario::<Projected>().await;
            }

            #[tokio::test]
            async fn inherited() {
                super::$scenario::<Inherited>().await;
            }
        }
    )+};
}
use for_every_pod_type;
