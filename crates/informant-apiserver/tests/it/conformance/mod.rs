//! What every Kubernetes API server does, asked in plain HTTP.
//!
//! Each test runs in-process and through a socket. With `INFORMANT_CONFORMANCE_URL` (and `INFORMANT_CONFORMANCE_TOKEN` if
//! it wants one), the second run asks that server instead: `INFORMANT_CONFORMANCE_URL=https://127.0.0.1:6443
//! INFORMANT_CONFORMANCE_TOKEN=… cargo test -p informant-apiserver conformance`. Nothing here relies on what only the
//! embedded server can do, so each test keeps to a namespace of its own.

mod lists;
mod objects;
mod watches;

use std::collections::VecDeque;
use std::time::Duration;

use http::Method;
use http::Request;
use http_body_util::BodyExt;
use hyper_util::rt::TokioExecutor;
use informant_apiserver::ApiServer;
use informant_apiserver::Listening;
use kube::client::Body;
use kube::client::ConfigExt;
use serde_json::Value;
use serde_json::json;

/// A server to ask, and a namespace in it.
pub struct Api {
    client: kube::Client,
    pub namespace: String,
    /// Keeps the socket open.
    _listening: Option<Listening>,
    embedded: Option<ApiServer>,
}

/// One answer.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub body: Value,
}

/// A watch that is open.
pub struct Lines {
    body: Body,
    read: Vec<u8>,
    lines: VecDeque<Value>,
}

/// Makes two tests of one: in-process, and through a socket.
macro_rules! conformance {
    ($($(#[$doc:meta])* async fn $name:ident($api:ident: Api) $body:block)*) => {
        $(mod $name {
            use super::*;

            $(#[$doc])*
            async fn promise($api: Api) $body

            #[tokio::test]
            async fn in_process() {
                promise(Api::in_process().await).await;
            }

            #[tokio::test]
            async fn through_a_socket() {
                promise(Api::through_a_socket().await).await;
            }
        })*
    };
}
pub(crate) use conformance;

impl Api {
    pub async fn in_process() -> Self {
        let server = ApiServer::new();
        Self::new(kube::Client::new(server.service(), "default"), None, Some(server)).await
    }

    pub async fn through_a_socket() -> Self {
        if let Ok(url) = std::env::var("INFORMANT_CONFORMANCE_URL") {
            return Self::new(other_server(&url), None, None).await;
        }
        let server = ApiServer::new();
        let listening = server.listen(([127, 0, 0, 1], 0)).await.unwrap();
        let client = plain_client(kube::Config::new(listening.url().parse().unwrap()));
        Self::new(client, Some(listening), Some(server)).await
    }

    async fn new(client: kube::Client, listening: Option<Listening>, embedded: Option<ApiServer>) -> Self {
        let mut api = Self { client, namespace: String::new(), _listening: listening, embedded };
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
        let created = self.post(&self.path("configmaps"), &config_map(name, labels)).await;
        assert_eq!(created.code, 201, "{created:?}");
        created.body
    }

    /// Changes an object and stores it.
    pub async fn change(&self, path: &str, change: impl FnOnce(&mut Value)) -> Answer {
        let mut object = self.get(path).await.body;
        change(&mut object);
        self.put(path, &object).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None, &[]).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::POST, path, Some(body), &[]).await
    }

    pub async fn put(&self, path: &str, body: &Value) -> Answer {
        self.send(Method::PUT, path, Some(body), &[]).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, None, &[]).await
    }

    pub async fn delete_with(&self, path: &str, options: &Value) -> Answer {
        self.send(Method::DELETE, path, Some(options), &[]).await
    }

    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>, headers: &[(&str, &str)]) -> Answer {
        let body = body.map(Value::to_string).unwrap_or_default();
        let body = self.send_text(method, path, body, headers).await;
        let (code, body) = body;
        Answer { code, body: serde_json::from_slice(&body).unwrap_or_else(|_| String::from_utf8_lossy(&body).into()) }
    }

    pub async fn send_text(
        &self,
        method: Method,
        path: &str,
        body: String,
        headers: &[(&str, &str)],
    ) -> (u16, Vec<u8>) {
        let mut request = Request::builder().method(method).uri(path);
        if headers.iter().all(|(name, _)| *name != "content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.into_bytes())).unwrap();
        let response = self.client.send(request).await.unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, body.to_vec())
    }

    /// Opens a watch; the query needs no `watch=true`.
    pub async fn watch(&self, path: &str, query: &str) -> Lines {
        self.watch_as(path, query, "application/json").await
    }

    pub async fn watch_as(&self, path: &str, query: &str, accept: &str) -> Lines {
        let uri = format!("{path}?watch=true&{query}");
        let request = Request::builder().uri(uri).header("accept", accept).body(Body::empty()).unwrap();
        let response = self.client.send(request).await.unwrap();
        assert_eq!(response.status(), 200);
        Lines { body: response.into_body(), read: Vec::new(), lines: VecDeque::new() }
    }

    /// Makes version 1 too old, if that takes anything.
    pub fn forget_the_beginning(&self) {
        if let Some(server) = &self.embedded {
            server.compact();
        }
    }
}

fn other_server(url: &str) -> kube::Client {
    let mut config = kube::Config::new(url.parse().unwrap());
    // A server that is made for a test has a certificate that nobody knows.
    config.accept_invalid_certs = true;
    config.auth_info.token = std::env::var("INFORMANT_CONFORMANCE_TOKEN").ok().map(Into::into);
    plain_client(config)
}

/// A client that gives each answer as it is; that of `Client::try_from` tries again after some.
pub fn plain_client(config: kube::Config) -> kube::Client {
    let connector = config.rustls_https_connector().unwrap();
    let service = tower::ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().unwrap())
        .map_err(Box::<dyn std::error::Error + Send + Sync>::from)
        .service(hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(connector));
    kube::Client::new(service, "default")
}

pub fn config_map(name: &str, labels: Value) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels},
        "data": {"colour": "red"},
    })
}

impl Answer {
    pub fn text(&self, pointer: &str) -> &str {
        self.body.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn version(&self) -> u64 {
        version(&self.body)
    }

    /// The names of a list's items.
    pub fn names(&self) -> Vec<&str> {
        let items = self.body["items"].as_array().unwrap_or_else(|| panic!("{self:?} is no list"));
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
    }

    /// Code and reason, if it is a `Status` of a failure.
    pub fn failure(&self) -> (u16, &str) {
        assert_eq!(self.text("/kind"), "Status", "{self:?}");
        assert_eq!(self.text("/status"), "Failure", "{self:?}");
        assert_eq!(self.body["code"], self.code, "{self:?}");
        assert!(!self.text("/message").is_empty(), "{self:?}");
        (self.code, self.text("/reason"))
    }
}

pub fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

impl Lines {
    /// The next event, or none at the end. Fails if nothing comes for a long time.
    pub async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(line);
            }
            let frame = tokio::time::timeout(Duration::from_secs(60), self.body.frame());
            let frame = frame.await.expect("the watch says something")?.unwrap();
            self.read.extend_from_slice(&frame.into_data().unwrap());
            while let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line = self.read.drain(..=end).collect::<Vec<_>>();
                self.lines.push_back(serde_json::from_slice(&line).unwrap());
            }
        }
    }

    /// The next event as type and name.
    pub async fn next_short(&mut self) -> String {
        let event = self.next().await.expect("an event");
        let name = event["object"]["metadata"]["name"].as_str().unwrap_or("-");
        format!("{} {name}", event["type"].as_str().unwrap())
    }

    /// So many events, as type and name.
    pub async fn take(&mut self, count: usize) -> Vec<String> {
        let mut taken = Vec::new();
        for _ in 0..count {
            taken.push(self.next_short().await);
        }
        taken
    }
}
