//! The log of requests.

use std::time::Duration;

use informant_apiserver::ApiServer;
use informant_apiserver::Verb;
use serde_json::json;

use crate::support::Web;

const PATH: &str = "/api/v1/namespaces/shop/configmaps";

#[tokio::test]
async fn requests_are_logged_in_the_notation_of_the_specification() {
    let server = ApiServer::builder().watch_cache(false).build();
    let web = Web::in_process(&server);
    for name in ["a", "b", "c"] {
        assert_eq!(web.post(PATH, &json!({"metadata": {"name": name}})).await.code, 201);
    }
    server.clear_requests();

    let first = web.get(&format!("{PATH}?resourceVersion=0&limit=1")).await;
    let token = first.text("/metadata/continue").to_owned();
    let second = web.get(&format!("{PATH}?limit=1&continue={token}")).await;
    web.get(&format!("{PATH}?limit=1&continue={}", second.text("/metadata/continue"))).await;
    web.get(&format!("{PATH}?resourceVersion=4")).await;
    web.get(&format!("{PATH}?continue=made-up")).await;
    web.watch(PATH, "resourceVersion=4").await;
    web.watch(PATH, "sendInitialEvents=true&resourceVersionMatch=NotOlderThan").await;
    web.get(&format!("{PATH}/a")).await;
    web.delete(&format!("{PATH}/a")).await;
    web.get("/api/v1/pods").await;

    assert_eq!(
        server.requests_for("configmaps"),
        [
            "L(0, 1)",
            "L(\"\", 1, C1)",
            "L(\"\", 1, C2)",
            "L(4, no limit)",
            "L(\"\", no limit, C?)",
            "W(4)",
            "WL(\"\")",
            "get(a)",
            "delete(a)"
        ]
    );
    assert_eq!(server.requests_for("pods"), ["L(\"\", no limit)"]);
}

#[tokio::test(start_paused = true)]
async fn a_logged_request_has_its_time_and_parameters() {
    let server = ApiServer::new();
    let web = Web::in_process(&server);
    tokio::time::advance(Duration::from_secs(5)).await;

    let query = "labelSelector=a%3Db&fieldSelector=c%3Dd&timeoutSeconds=9&allowWatchBookmarks=true";
    web.watch_with(PATH, query, &[("accept", "application/json"), ("accept-encoding", "identity")]).await;

    let requests = server.requests();
    let request = &requests[0];
    assert_eq!((request.at, request.verb), (Duration::from_secs(5), Verb::Watch));
    assert_eq!((&*request.resource, &*request.namespace, &*request.name), ("configmaps", "shop", ""));
    assert_eq!((&*request.label_selector, &*request.field_selector), ("a=b", "c=d"));
    assert_eq!((request.timeout_seconds, request.bookmarks), (Some(9), true));
    assert_eq!((&*request.accept, &*request.accept_encoding), ("application/json", "identity"));
}

#[tokio::test]
async fn a_test_can_wait_for_a_request() {
    let server = ApiServer::new();
    let web = Web::in_process(&server);

    let waits = server.requested(|requests| requests.iter().any(|request| request.verb == Verb::Watch));
    let asks = async {
        tokio::task::yield_now().await;
        web.get(PATH).await;
        tokio::task::yield_now().await;
        web.watch(PATH, "").await
    };
    let ((), _watch) = tokio::join!(waits, asks);

    assert_eq!(server.requests_for("configmaps"), ["L(\"\", no limit)", "W(\"\")"]);
}

#[tokio::test]
async fn the_log_is_bounded() {
    let server = ApiServer::builder().remember_requests(3).build();
    let web = Web::in_process(&server);

    for limit in 1..=5 {
        web.get(&format!("{PATH}?limit={limit}")).await;
    }

    assert_eq!(server.requests_for("configmaps"), ["L(\"\", 3)", "L(\"\", 4)", "L(\"\", 5)"]);
}
