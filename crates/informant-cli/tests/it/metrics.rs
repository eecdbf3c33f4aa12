//! `--metrics`: the pages for metrics, health and readiness.

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::support::{Running, Server, TIMEOUT};

/// The status code and the body of a page.
pub fn page(address: &str, request: &str) -> (u16, String) {
    let (head, body) = head_and_body(address, request);
    (head.split_whitespace().nth(1).unwrap().parse().unwrap(), body)
}

fn head_and_body(address: &str, request: &str) -> (String, String) {
    let mut connection = TcpStream::connect(address).unwrap();
    write!(connection, "{request} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_lowercase(), body.to_owned())
}

/// Requests a page until its body is as wanted; returns the body.
pub fn wait_for_page(address: &str, request: &str, is_wanted: impl Fn(&str) -> bool) -> String {
    let started = Instant::now();
    loop {
        let (_, page) = page(address, request);
        if is_wanted(&page) {
            return page;
        }
        assert!(started.elapsed() < TIMEOUT, "{page}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The address of the metrics server, from the message on stderr.
pub fn address(running: &Running) -> String {
    let message = running.stderr_line();
    let url =
        message.strip_prefix("informant: serving metrics at http://").and_then(|url| url.strip_suffix("/metrics"));
    url.unwrap_or_else(|| panic!("{message}")).to_owned()
}

#[tokio::test]
async fn a_watch_serves_its_metrics() {
    let server = Server::start(&[]);
    server.put("prices", json!({})).await;
    let watching = server.watch(&["cm", "-A", "-o", "json", "--metrics", "0"]);
    let address = address(&watching);
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    assert_eq!((watching.event()["type"].take(), watching.event()["type"].take()), (json!("ADDED"), json!("SYNCED")));

    assert_eq!(page(&address, "GET /healthz"), (200, "ok\n".into()));
    assert_eq!(page(&address, "GET /readyz"), (200, "ok\n".into()), "ready when SYNCED has been printed");
    let (code, metrics) = page(&address, "GET /metrics");
    assert_eq!(code, 200);
    assert!(metrics.contains("# HELP informant_cache_objects Objects in the cache."), "{metrics}");
    assert!(metrics.contains("informant_cache_objects{informer=\"configmaps\"} 1\n"), "{metrics}");
    assert!(metrics.contains("informant_events_total{informer=\"configmaps\",type=\"added\"} 1\n"), "{metrics}");
    assert!(metrics.contains("informant_batch_seconds_bucket{informer=\"configmaps\",le=\"+Inf\"} "), "{metrics}");
    assert_eq!(page(&address, "GET /").0, 404);
    assert_eq!(page(&address, "POST /metrics").0, 405);
    let (head, body) = head_and_body(&address, "HEAD /metrics");
    assert!(head.starts_with("http/1.1 200") && head.contains("content-type: text/plain; version=0.0.4"), "{head}");
    assert!(body.is_empty());
}

#[tokio::test]
async fn a_watch_is_not_ready_before_it_is_synced() {
    let server = Server::start(&["--faults", "read=503"]);
    let watching = server.watch(&["cm", "-A", "--metrics", "127.0.0.1:0"]);
    let address = address(&watching);

    let why = wait_for_page(&address, "GET /readyz", |why| why.contains("503"));
    assert_eq!(page(&address, "GET /readyz").0, 503);
    assert!(why.starts_with("informer configmaps is not synced"), "{why}");
    assert_eq!(page(&address, "GET /healthz").0, 200);
}

#[tokio::test]
async fn a_watch_stays_ready_when_the_server_is_down() {
    let mut server = Server::start(&[]);
    let watching = server.watch(&["cm", "-A", "--metrics", "0"]);
    let address = address(&watching);
    wait_for_page(&address, "GET /readyz", |ready| ready == "ok\n");

    server.running.kill();
    watching.wait_for_message("may be out of date");
    assert_eq!(page(&address, "GET /readyz"), (200, "ok\n".into()), "the cache is still readable");
}

#[tokio::test]
async fn the_api_server_serves_its_metrics() {
    let running = Running::start(&["apiserver", "--metrics", "0", "--load", "pods=7"]);
    let address = address(&running);
    let url = running.line();
    crate::support::stdout_of(&["get", "pods", "-A", "--server", &url]);

    let (_, metrics) = page(&address, "GET /metrics");

    assert!(metrics.contains("# HELP informant_apiserver_objects Stored objects per resource."), "{metrics}");
    assert!(metrics.contains("informant_apiserver_objects{resource=\"pods\"} 7\n"), "{metrics}");
    assert!(
        metrics.contains("informant_apiserver_requests_total{verb=\"watchlist\",resource=\"pods\"} 1\n"),
        "{metrics}"
    );
    assert_eq!(page(&address, "GET /readyz").0, 200);

    // Unknown resources are counted without their names, so that clients cannot add labels.
    let server_address = url.strip_prefix("http://").unwrap();
    (0..5).for_each(|number| assert_eq!(page(server_address, &format!("GET /api/v1/made-up-{number}")).0, 404));
    let _watching = Running::start(&["watch", "pods", "-A", "--server", &url]);
    let watched = |metrics: &str| metrics.contains("informant_apiserver_watches{resource=\"pods\"} 1\n");
    let metrics = wait_for_page(&address, "GET /metrics", watched);
    assert!(!metrics.contains("made-up"), "{metrics}");
}

#[test]
fn the_demo_serves_its_metrics() {
    let running = Running::start(&["demo", "--json", "--duration", "1h", "--pods", "30", "--metrics", "0"]);
    let address = address(&running);
    running.event();

    let filled = |metrics: &str| metrics.contains("informant_cache_objects{informer=\"nodes\"} 20\n");
    let metrics = wait_for_page(&address, "GET /metrics", filled);

    assert!(
        metrics.contains("# HELP informant_apiserver_requests_total Requests that the API server received"),
        "{metrics}"
    );
    for name in ["scheduler", "slow"] {
        assert!(
            metrics.contains(&format!("informant_handler_backlog{{informer=\"pods\",handler=\"{name}\"}}")),
            "{metrics}"
        );
    }
}
