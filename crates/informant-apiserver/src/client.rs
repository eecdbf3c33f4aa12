//! The feature `kube`: an in-process client, kinds of Rust types, and definitions of those that derive `CustomResource`.
//!
//! - **In:** a server or its builder; Rust types.
//! - **Out:** a [`kube::Client`]; a [`Kind`]; a definition as JSON, for the builder.
//! - **Knows nothing of:** requests, storage.

use std::{any, any::TypeId, panic};

use kube::{Client, CustomResourceExt, Resource, core::ClusterResourceScope};

use crate::{
    builder::ApiServerBuilder,
    error::ApiError,
    registry::{Registry, kind::Kind},
    server::ApiServer,
};

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

impl Kind {
    /// Returns the kind of a Rust type, for [`register`](ApiServer::register).
    ///
    /// A type of `k8s_openapi` gets the built-in kind with all its subresources. For other types, the names and the scope are those of
    /// the type; add [`with_status`](Self::with_status) if it has a `status` subresource.
    ///
    /// ```
    /// use informant_apiserver::{ApiServer, Kind};
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// let server = ApiServer::builder().without_built_in_kinds().build();
    /// server.register(Kind::of::<Pod>());
    /// assert!(server.check_kind("pods").is_ok() && server.check_kind("nodes").is_err());
    /// ```
    pub fn of<K: Resource<DynamicType = (), Scope: 'static>>() -> Self {
        let kind = Self::new(K::group(&()), K::version(&()), K::kind(&()), K::plural(&()));
        let built_in = Registry::builtin_kinds().find(|built_in| built_in.path() == kind.path());
        let is_cluster_scoped = TypeId::of::<K::Scope>() == TypeId::of::<ClusterResourceScope>();
        built_in.unwrap_or(if is_cluster_scoped { kind.cluster_scoped() } else { kind })
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
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let server = ApiServer::builder().crd::<Fleet>()?.build();
    /// let fleets: Api<Fleet> = Api::default_namespaced(server.client());
    /// fleets.create(&PostParams::default(), &Fleet::new("north", FleetSpec { ships: 3 })).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// If kube cannot generate the definition, as for an enum whose variants have different types, or the server rejects it, for
    /// example because another one has the same name.
    pub fn crd<K: CustomResourceExt>(self) -> Result<Self, ApiError> {
        let name = any::type_name::<K>();
        let failed = |why: &str| {
            ApiError::BadRequest(format!("kube cannot generate the custom resource definition of {name}: {why}"))
        };
        // kube panics for a schema that Kubernetes does not support.
        let definition = panic::catch_unwind(K::crd).map_err(|payload| {
            let text = payload.downcast_ref::<String>().map(String::as_str);
            failed(text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("it panicked"))
        })?;
        self.definition(serde_json::to_value(definition).map_err(|error| failed(&error.to_string()))?)
    }
}
