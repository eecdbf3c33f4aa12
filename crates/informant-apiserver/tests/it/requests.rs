//! The log of requests.

use std::time::Duration;

use informant_apiserver::{ApiServer, Verb};
use serde_json::json;

use crate::support::Web;

const PATH: &str = "/api/v1/namespaces/shop/configmaps";

#[tokio::test]
async fn requests_are_logged_in_the_notation_of_the_specification() {
    let server = ApiServer::builder().watch_cache(false).allow_missing_namespaces().build();
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

    let query = "labelSelector=a%3Db&fieldSelector=metadata.name%3Dd&timeoutSeconds=9&allowWatchBookmarks=true";
    web.watch_with(PATH, query, &[("accept", "application/json"), ("accept-encoding", "identity")]).await;

    let requests = server.requests();
    let request = &requests[0];
    assert_eq!((request.at, request.verb), (Duration::from_secs(5), Verb::Watch));
    assert_eq!((&*request.resource, &*request.namespace, &*request.name), ("configmaps", "shop", ""));
    assert_eq!((&*request.label_selector, &*request.field_selector), ("a=b", "metadata.name=d"));
    assert_eq!((request.timeout_seconds, request.bookmarks), (Some(9), true));
    assert_eq!((&*request.accept, &*request.accept_encoding), ("application/json", "identity"));
}

#[tokio::test]
async fn a_test_can_wait_for_a_request() {
    let server = ApiServer::new();
    let web = Web::in_process(&server);

    let waits = server.wait_for_request(|request| request.verb == Verb::Watch);
    let asks = async {
        tokio::task::yield_now().await;
        web.get(PATH).await;
        tokio::task::yield_now().await;
        web.watch(PATH, "").await
    };
    let (found, _watch) = tokio::join!(waits, asks);

    assert_eq!(found.to_string(), "W(\"\")");
    assert_eq!(
        server.wait_for_request(|request| request.verb == Verb::List).await.verb,
        Verb::List,
        "one that was there before"
    );
    assert_eq!(server.requests_for("configmaps"), ["L(\"\", no limit)", "W(\"\")"]);
}

#[tokio::test]
async fn a_test_can_wait_for_a_watch() {
    let server = ApiServer::new();
    let web = Web::in_process(&server);

    let (watch, ()) = tokio::join!(web.watch(PATH, ""), server.wait_for_watches("configmaps", 1));
    let ((), ()) = tokio::join!(server.wait_for_watches("configmaps", 0), async { drop(watch) });

    assert_eq!(server.open_watches("configmaps"), 0);
}

#[tokio::test]
async fn requests_are_found_by_short_names_too() {
    let server = ApiServer::new();
    Web::in_process(&server).get("/apis/apps/v1/deployments").await;

    assert_eq!(server.requests_for("deployments"), ["L(\"\", no limit)"]);
    assert_eq!(server.requests_for("deployments.apps"), ["L(\"\", no limit)"]);
    assert_eq!(server.requests_for("pods"), Vec::<String>::new());
}

#[tokio::test]
async fn updates_of_the_status_can_be_told_apart() {
    let server = ApiServer::new();
    let web = Web::in_process(&server);
    let pod = server.put("pods", json!({"metadata": {"namespace": "shop", "name": "web"}})).unwrap();

    web.put("/api/v1/namespaces/shop/pods/web", &pod).await;
    web.put("/api/v1/namespaces/shop/pods/web/status", &pod).await;

    assert_eq!(server.requests_for("pods"), ["update(web)", "update(web/status)"]);
}

#[tokio::test]
async fn a_log_of_nothing_stays_empty() {
    let server = ApiServer::builder().remember_requests(0).build();
    Web::in_process(&server).get(PATH).await;

    assert_eq!(server.requests(), []);
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
