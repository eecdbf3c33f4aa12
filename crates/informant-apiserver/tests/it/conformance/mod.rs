//! Conformance tests: requests in plain HTTP whose responses are the same in every Kubernetes API server.
//!
//! Each test runs in-process and through a socket. With `INFORMANT_CONFORMANCE_URL` (and `INFORMANT_CONFORMANCE_TOKEN` if
//! that server needs one), the second run uses that server instead: `INFORMANT_CONFORMANCE_URL=https://127.0.0.1:6443
//! INFORMANT_CONFORMANCE_TOKEN=… cargo test -p informant-apiserver conformance`. The tests
//! use no call that only the embedded server has, and each test has its own namespace.

mod apply;
mod definitions;
mod discovery;
mod events;
mod explain;
mod fields;
mod garbage;
mod kubectl;
mod lists;
mod namespaces;
mod objects;
mod patches;
mod propagation;
mod rules;
mod scales;
mod schemas;
mod sequences;
mod strategic;
mod subresources;
mod tables;
mod types;
mod watches;

use std::ops::Deref;

use http::Method;
use informant_apiserver::ApiServer;
use serde_json::{Value, json};

use crate::support::{Answer, Lines, Web, both_ways, plain_client, version};

/// A server under test, and a namespace in it.
pub struct Api {
    web: Web,
    pub namespace: String,
}

async fn in_process(promise: impl AsyncFnOnce(Api)) {
    let server = ApiServer::new();
    promise(Api::new(Web::in_process(&server)).await).await;
}

async fn through_a_socket(promise: impl AsyncFnOnce(Api)) {
    if let Ok(url) = std::env::var("INFORMANT_CONFORMANCE_URL") {
        return promise(Api::new(other_server(&url)).await).await;
    }
    let server = ApiServer::new();
    let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
    promise(Api::new(Web::at(&listening.url())).await).await;
    listening.stop().await;
}

impl Api {
    async fn new(web: Web) -> Self {
        let mut api = Self { web, namespace: String::new() };
        let namespace = json!({"metadata": {"generateName": "conformance-"}});
        let created = api.post("/api/v1/namespaces", &namespace).await;
        assert_eq!(created.code, 201, "{created:?}");
        api.namespace = created.text("/metadata/name").to_owned();
        api
    }

    /// The path of a namespaced collection: `configmaps`, `apps/deployments`.
    pub fn path(&self, resource: &str) -> String {
        match resource.split_once('/') {
            None => format!("/api/v1/namespaces/{}/{resource}", self.namespace),
            Some((group, plural)) => format!("/apis/{group}/v1/namespaces/{}/{plural}", self.namespace),
        }
    }

    pub fn config_map(&self, name: &str) -> String {
        format!("{}/{name}", self.path("configmaps"))
    }

    /// Creates a config map.
    pub async fn add(&self, name: &str) -> Value {
        self.add_labelled(name, json!({})).await
    }

    pub async fn add_labelled(&self, name: &str, labels: Value) -> Value {
        let created = self.post(&self.path("configmaps"), &config_map(name, &labels)).await;
        assert_eq!(created.code, 201, "{created:?}");
        created.body
    }

    /// Changes an object and stores it.
    pub async fn change(&self, path: &str, change: impl FnOnce(&mut Value)) -> Answer {
        let mut object = self.get(path).await.body;
        change(&mut object);
        self.put(path, &object).await
    }
}

impl Deref for Api {
    type Target = Web;

    fn deref(&self) -> &Web {
        &self.web
    }
}

fn other_server(url: &str) -> Web {
    let mut config = kube::Config::new(url.parse().unwrap());
    // Test servers have self-signed certificates.
    config.accept_invalid_certs = true;
    config.auth_info.token = std::env::var("INFORMANT_CONFORMANCE_TOKEN").ok().map(Into::into);
    Web::new(plain_client(&config))
}

pub fn config_map(name: &str, labels: &Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels},
        "data": {"colour": "red"},
    })
}
