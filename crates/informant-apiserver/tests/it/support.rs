//! A plain HTTP client for tests, in-process or through a socket.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::BodyExt;
use hyper_util::rt::TokioExecutor;
use informant_apiserver::ApiServer;
use kube::client::{Body, ConfigExt};
use serde_json::Value;

/// Generates two tests for each function: one in-process, one through a socket.
macro_rules! both_ways {
    ($($name:ident)*) => {
        $(mod $name {
            #[tokio::test]
            async fn in_process() {
                super::in_process(super::$name).await;
            }

            #[tokio::test]
            async fn through_a_socket() {
                super::through_a_socket(super::$name).await;
            }
        })*
    };
}
pub(crate) use both_ways;

/// An HTTP client of a server.
#[derive(Clone)]
pub struct Web {
    pub client: kube::Client,
}

/// A response with its body.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Value,
}

/// An open watch.
#[derive(Debug)]
pub struct Lines {
    pub headers: HeaderMap,
    body: Body,
    read: Vec<u8>,
    lines: VecDeque<Value>,
}

/// A client that never retries, unlike that of `Client::try_from`.
pub fn plain_client(config: &kube::Config) -> kube::Client {
    let connector = config.rustls_https_connector().unwrap();
    let service = tower::ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().unwrap())
        .map_err(Box::<dyn std::error::Error + Send + Sync>::from)
        .service(hyper_util::client::legacy::Client::builder(TokioExecutor::new()).build(connector));
    kube::Client::new(service, "default")
}

impl Web {
    pub fn new(client: kube::Client) -> Self {
        Self { client }
    }

    pub fn in_process(server: &ApiServer) -> Self {
        Self::new(server.client())
    }

    pub fn at(url: &str) -> Self {
        Self::new(plain_client(&kube::Config::new(url.parse().unwrap())))
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

    pub async fn patch(&self, path: &str, content_type: &str, change: &Value) -> Answer {
        self.send(Method::PATCH, path, Some(change), &[("content-type", content_type)]).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, None, &[]).await
    }

    pub async fn delete_with(&self, path: &str, options: &Value) -> Answer {
        self.send(Method::DELETE, path, Some(options), &[]).await
    }

    pub async fn send(&self, method: Method, path: &str, body: Option<&Value>, headers: &[(&str, &str)]) -> Answer {
        let body = body.map(Value::to_string).unwrap_or_default();
        self.send_text(method, path, body, headers).await
    }

    pub async fn send_text(&self, method: Method, path: &str, body: String, headers: &[(&str, &str)]) -> Answer {
        self.try_send(method, path, body, headers).await.unwrap()
    }

    /// The response, or an error if it is incomplete.
    pub async fn try_get(&self, path: &str) -> Result<Answer, kube::Error> {
        self.try_send(Method::GET, path, String::new(), &[]).await
    }

    async fn try_send(
        &self,
        method: Method,
        path: &str,
        body: String,
        headers: &[(&str, &str)],
    ) -> Result<Answer, kube::Error> {
        let response = self.respond(method, path, body, headers).await?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        let text = || String::from_utf8_lossy(&body).into();
        let body = serde_json::from_slice(&body).unwrap_or_else(|_| text());
        Ok(Answer { code: parts.status.as_u16(), headers: parts.headers, body })
    }

    /// The response, with its body unread.
    pub async fn respond(
        &self,
        method: Method,
        path: &str,
        body: String,
        headers: &[(&str, &str)],
    ) -> Result<Response<Body>, kube::Error> {
        let mut request = Request::builder().method(method).uri(path);
        if headers.iter().all(|(name, _)| *name != "content-type") {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.client.send(request.body(Body::from(body.into_bytes())).unwrap()).await
    }

    /// Opens a watch; the query needs no `watch=true`.
    pub async fn watch(&self, path: &str, query: &str) -> Lines {
        self.watch_with(path, query, &[]).await
    }

    pub async fn watch_with(&self, path: &str, query: &str, headers: &[(&str, &str)]) -> Lines {
        let uri = format!("{path}?watch=true&{query}");
        let response = self.respond(Method::GET, &uri, String::new(), headers).await.unwrap();
        assert_eq!(response.status(), 200);
        response.into()
    }
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
        let items = self.body["items"].as_array().unwrap_or_else(|| panic!("{self:?} is not a list"));
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
    }

    /// The code and reason of a `Status` with a failure.
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

impl From<Response<Body>> for Lines {
    fn from(response: Response<Body>) -> Self {
        let (parts, body) = response.into_parts();
        Self { headers: parts.headers, body, read: Vec::new(), lines: VecDeque::new() }
    }
}

impl Lines {
    /// The next chunk of the stream; `None` at the end.
    pub async fn piece(&mut self) -> Option<Result<Bytes, kube::Error>> {
        Some(self.body.frame().await?.map(|frame| frame.into_data().unwrap()))
    }

    /// The next event; `None` at the end, an error if the connection breaks.
    pub async fn try_next(&mut self) -> Result<Option<Value>, kube::Error> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Ok(Some(line));
            }
            let Some(piece) = self.piece().await.transpose()? else { return Ok(None) };
            self.read.extend_from_slice(&piece);
            while let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line = self.read.drain(..=end).collect::<Vec<_>>();
                let text = || String::from_utf8_lossy(&line).into();
                self.lines.push_back(serde_json::from_slice(&line).unwrap_or_else(|_| text()));
            }
        }
    }

    /// The next event; `None` at the end. Panics if there is no event for a long time.
    pub async fn next(&mut self) -> Option<Value> {
        let next = tokio::time::timeout(Duration::from_secs(600), self.try_next());
        next.await.expect("the watch sends an event or ends").unwrap()
    }

    /// The next event as type and name.
    pub async fn next_short(&mut self) -> String {
        short(&self.next().await.expect("an event"))
    }

    /// This many events, as type and name.
    pub async fn take(&mut self, count: usize) -> Vec<String> {
        let mut taken = Vec::new();
        for _ in 0..count {
            taken.push(self.next_short().await);
        }
        taken
    }

    /// The bytes of the incomplete last line.
    pub fn unfinished(&self) -> &[u8] {
        &self.read
    }
}

/// An event as type and name.
pub fn short(event: &Value) -> String {
    let name = event["object"]["metadata"]["name"].as_str().unwrap_or("-");
    format!("{} {name}", event["type"].as_str().unwrap_or("?"))
}
