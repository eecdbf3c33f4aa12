//! The feature `kube`: an in-process client, and definitions of Rust types that derive `CustomResource`.
//!
//! - **In:** a server or its builder.
//! - **Out:** a [`kube::Client`]; a definition as JSON, for the builder.
//! - **Knows nothing of:** requests, storage.

use kube::{Client, CustomResourceExt};
use serde_json::Value;

use crate::{builder::ApiServerBuilder, server::ApiServer};

impl ApiServer {
    /// Returns an in-process client of this server, with the default namespace `default`.
    ///
    /// # Panics
    ///
    /// If called outside of a tokio runtime: a [`Client`] spawns a task.
    pub fn client(&self) -> Client {
        Client::new(self.service(), "default")
    }
}

impl ApiServerBuilder {
    /// Creates the custom resource definition of a Rust type that derives `CustomResource`, so that its kind is served from the start.
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
    /// [`build`](Self::build) panics if the server rejects the definition, for example because another one has the same name.
    #[must_use]
    pub fn crd<K: CustomResourceExt>(self) -> Self {
        // A definition has only JSON types, so serializing it does not fail.
        self.definition(serde_json::to_value(K::crd()).unwrap_or(Value::Null))
    }
}
