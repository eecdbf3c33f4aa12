//! From end to end: a client writes to a server over HTTP, and informers of every form of pods show it.
//!
//! Nothing here knows which server it is. By default it is the embedded one; with `INFORMANT_CONFORMANCE_URL` (and
//! `INFORMANT_CONFORMANCE_TOKEN` if it wants one) it is that one: `INFORMANT_CONFORMANCE_URL=https://127.0.0.1:6443
//! INFORMANT_CONFORMANCE_TOKEN=… cargo test -p informant scenarios`. Its admission must let in pods without a service account, and
//! the namespaces stay there.

mod cluster;
mod forms;
mod lives;
mod scopes;
mod storm;

/// A test of a scenario for each form.
macro_rules! for_every_form {
    ($($(#[$doc:meta])* $scenario:ident),+ $(,)?) => {$(
        $(#[$doc])*
        mod $scenario {
            use informant::Lazy;
            use k8s_openapi::api::core::v1::Pod;

            use crate::scenarios::forms::Inherited;
            use crate::scenarios::forms::Projected;

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
use for_every_form;
