//! What the feature `kube` adds: a client of the server, and definitions of Rust types that derive `CustomResource`.
//!
//! - **In:** a server or its builder.
//! - **Out:** a [`kube::Client`]; a definition, as JSON, that the builder creates with the server.
//! - **Knows nothing of:** requests, storage.

use kube::Client;
use kube::CustomResourceExt;
use serde_json::Value;

use crate::builder::ApiServerBuilder;
use crate::server::ApiServer;

impl ApiServer {
    /// A client of this server, in-process, with the default namespace `default`.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime, since a [`Client`] starts a task.
    pub fn client(&self) -> Client {
        Client::new(self.service(), "default")
    }
}

impl ApiServerBuilder {
    /// Creates the custom resource definition of a Rust type that derives `CustomResource`, so that its objects are served from the start.
    ///
    /// ```
    /// use informant_apiserver::ApiServer;
    /// use kube::{Api, CustomResource, api::PostParams};
    /// use schemars::JsonSchema;
    /// use serde::{Deserialize, Serialize};
    ///
    /// #[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
    /// #[kube(group = "example.com", version = "v1", kind = "Fleet", namespaced)]
    /// struct FleetSpec {
    ///     ships: u32,
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), kube::Error> {
    /// let server = ApiServer::builder().crd::<Fleet>().build();
    /// let fleets: Api<Fleet> = Api::default_namespaced(server.client());
    /// fleets.create(&PostParams::default(), &Fleet::new("north", FleetSpec { ships: 3 })).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Panics
    ///
    /// [`build`](Self::build) panics if the server refuses the definition, for example because the builder has another one
    /// of the same name.
    #[must_use]
    pub fn crd<K: CustomResourceExt>(self) -> Self {
        // A definition is a tree of texts, numbers and lists, which JSON can always express.
        self.definition(serde_json::to_value(K::crd()).unwrap_or(Value::Null))
    }
}
