//! Measures what a write of a custom object costs: without a schema, with a schema of 50 fields, and with three CEL rules.
//!
//! Run it with `cargo bench -p informant-apiserver --bench schemas --features cel`.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a benchmark prints, and may panic")]

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use informant_apiserver::{ApiServer, Kind};
use serde_json::{Map, Value, json};
use tower::ServiceExt;

const WRITES: usize = 20_000;

fn main() {
    // Without `--bench`, as in `cargo test --benches`, a small run shows that the benchmark works.
    let writes = if std::env::args().any(|argument| argument == "--bench") { WRITES } else { 20 };
    let plain = ApiServer::new();
    plain.register(Kind::new("example.com", "v1", "Widget", "widgets"));
    measure("without a schema", &plain, writes);
    measure("with a schema of 50 fields", &with_rules(&json!([])), writes);
    if cfg!(feature = "cel") {
        let rules = json!([
            {"rule": "self.number0 <= self.number1 + 100"},
            {"rule": "self.text0.startsWith('text') && self.text1.matches('^[a-z0-9-]+$')"},
            {"rule": "self.list.all(item, item.size() < 20)"},
        ]);
        measure("with three CEL rules", &with_rules(&rules), writes);
    }
}

/// A server with widgets whose spec has 50 fields and these rules.
fn with_rules(rules: &Value) -> ApiServer {
    let mut properties = Map::new();
    for number in 0..17 {
        let text = json!({"type": "string", "pattern": "^[a-z0-9-]+$", "maxLength": 100});
        properties.insert(format!("text{number}"), text);
        properties.insert(format!("number{number}"), json!({"type": "integer", "minimum": 0, "maximum": 1000}));
    }
    for number in 0..15 {
        properties.insert(format!("default{number}"), json!({"type": "string", "default": "x", "enum": ["x", "y"]}));
    }
    let list = json!({"type": "array", "maxItems": 10, "items": {"type": "string", "maxLength": 20}});
    properties.insert("list".to_owned(), list);
    let spec =
        json!({"type": "object", "required": ["text0"], "properties": properties, "x-kubernetes-validations": rules});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let definition = json!({
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "widgets", "kind": "Widget"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    let server = ApiServer::new();
    server.put("customresourcedefinitions.apiextensions.k8s.io", definition).unwrap();
    server
}

fn widget(number: usize) -> Value {
    let mut spec = Map::new();
    for field in 0..17 {
        spec.insert(format!("text{field}"), json!(format!("text-{field}")));
        spec.insert(format!("number{field}"), json!(field));
    }
    spec.insert("list".to_owned(), json!(["a", "b", "c"]));
    let name = format!("widget-{number}");
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name, "namespace": "default"}, "spec": spec})
}

/// Prints the time of a create in-process, and of an update that changes one field.
fn measure(name: &str, server: &ApiServer, writes: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let path = "/apis/example.com/v1/namespaces/default/widgets";
    let creates: Vec<_> = (0..writes).map(|number| (path.to_owned(), widget(number).to_string())).collect();
    let created = runtime.block_on(send(server, Method::POST, creates));
    let updates = (0..writes).map(|number| {
        let mut widget = server.get("widgets.example.com", &format!("default/widget-{number}")).unwrap();
        widget["spec"]["number1"] = json!(999);
        (format!("{path}/widget-{number}"), widget.to_string())
    });
    let updated = runtime.block_on(send(server, Method::PUT, updates.collect()));
    let micros = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(u32::try_from(writes).unwrap());
    println!("{name:<28} create {:>7.1} µs   update {:>7.1} µs", micros(created), micros(updated));
}

async fn send(server: &ApiServer, method: Method, requests: Vec<(String, String)>) -> Duration {
    let start = Instant::now();
    for (path, body) in requests {
        let request = Request::builder().method(&method).uri(path).body(Full::new(Bytes::from(body))).unwrap();
        let response = server.service().oneshot(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!([StatusCode::CREATED, StatusCode::OK].contains(&status), "{}", String::from_utf8_lossy(&body));
    }
    start.elapsed()
}
