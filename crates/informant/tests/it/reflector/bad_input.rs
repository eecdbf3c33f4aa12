//! Responses that make no sense: the reflector reports an error, waits, and loses no event.

use std::time::Duration;

use informant::{Lazy, pipeline::Reflector};
use informant_apiserver::{ApiServer, CannedResponse, CutAfter, CutEnding, Fault, GzipMode, On};
use k8s_openapi::api::core::v1::ConfigMap;

use super::kube_source::config_maps;
use crate::support::reflector::{Recorder, Running, backoff_without_jitter, config_map, sleep_seconds, start};

fn server() -> ApiServer {
    let server = ApiServer::new();
    server.skip_to_version(9);
    server.put("configmaps", config_map("a", "1")).unwrap();
    server
}

fn run_reflector(server: &ApiServer) -> Running<Lazy<ConfigMap>> {
    let recorder = Recorder::new();
    let builder = Reflector::builder(config_maps(server));
    start(builder.backoff(backoff_without_jitter()).without_streaming().size_limit(10_000), recorder)
}

fn canned(code: u16, body: &str) -> Fault {
    Fault::Response(CannedResponse::new(code, body))
}

/// RE-22: the first list has the fault; the second one succeeds after a delay.
#[tokio::test(start_paused = true)]
async fn a_list_response_that_makes_no_sense_is_reported_and_requested_again_after_a_delay() {
    let html =
        CannedResponse::new(200, "<html>Please log in</html>").header("content-type", "text/html; charset=utf-8");
    let moved = CannedResponse::new(302, "").header("location", "https://elsewhere/");
    let huge = format!(r#"{{"kind":"ConfigMapList","items":[],"a":"{}"}}"#, "x".repeat(20_000));
    let cases = [
        (canned(200, ""), "the response ends after 0 bytes, in the middle of the list"),
        (canned(200, "garbage"), "byte 0 of the response is 'g'"),
        (
            canned(200, r#"{"kind":"ConfigMapList","items":[{"metadata":"#),
            "ends after 45 bytes, in the middle of an item",
        ),
        (canned(200, r#"{"kind":"ConfigMapList","items":[]} and more"#), "expected the end of the response"),
        (canned(200, r#"{"kind":"Status","status":"Success"}"#), "the response is a \"Status\", not a list"),
        (canned(200, r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[]}"#), "a \"Table\", not a list"),
        (
            canned(200, r#"{"kind":"DeploymentList","apiVersion":"apps/v1","items":[]}"#),
            "the response is a list of apps/v1, DeploymentList, not of v1, ConfigMapList",
        ),
        (
            canned(200, r#"{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"50"},"items":[]}"#),
            "the response is a list of v1, SecretList, not of v1, ConfigMapList",
        ),
        (
            canned(200, r#"{"items":[{"kind":"Secret","apiVersion":"v1","metadata":{"name":"a"}}]}"#),
            "the response is a list of v1, Secret, not of v1, ConfigMap",
        ),
        (Fault::WrongKind, "the response is a list of"),
        (canned(200, &huge), "a field of the list is larger than 10000 bytes"),
        (
            Fault::Response(html),
            "\"text/html; charset=utf-8\", not JSON; it begins with \"<html>Please log in</html>\"",
        ),
        (Fault::Response(moved), "redirects to \"https://elsewhere/\" (HTTP 302)"),
        (canned(502, "<h1>Bad Gateway</h1>"), "the server answered: <h1>Bad Gateway</h1> (no reason given, 502)"),
        (Fault::Gzip(GzipMode::Always), "the response is compressed (gzip), which the request did not allow"),
        (Fault::status(401), "Unauthorized"),
        (Fault::Garbage, "\"text/html\", not JSON"),
        (Fault::Truncate, "the response ends after"),
        (Fault::Refuse, "the connection was refused"),
        (Fault::Drop, "the connection failed"),
        (Fault::Cut { after: CutAfter::Bytes(50), ending: CutEnding::Reset }, "the connection failed"),
        (
            Fault::Cut { after: CutAfter::Bytes(50), ending: CutEnding::Silence },
            "the connection was silent for 120 seconds",
        ),
        (Fault::Hang, "the connection was silent for 65 seconds"),
    ];
    for (fault, expected) in cases {
        let server = server();
        server.inject(On::list().of("configmaps").once(), fault.clone());
        let running = run_reflector(&server);
        running.wait_for_line("Replaced@10 [shop/a@10]").await;

        let errors = running.errors();
        assert_eq!(errors.len(), 1, "{fault:?}: {errors:?}");
        assert!(errors[0].starts_with("listing configmaps failed: "), "{}", errors[0]);
        assert!(errors[0].contains(expected), "{fault:?}: {}", errors[0]);
        // A refused list is requested again when the server answers a probe.
        let mut requests = server.requests_for("configmaps");
        requests.retain(|request| request != "L(\"\", 1)");
        assert_eq!(requests[..2], ["L(0, 500)", "L(0, 500)"]);
        let log = server.requests();
        assert!(log[1].at - log[0].at >= Duration::from_millis(800), "{fault:?}: the second request has no delay");
        running.stop().await;
    }
}

/// RE-34: the first watch has the fault. The second one delivers the events since, after a relist only if the version is invalid.
#[tokio::test(start_paused = true)]
async fn a_watch_response_that_makes_no_sense_is_reported_and_the_watch_resumes() {
    let line = |text: &str| Fault::ExtraLine { after: 0, text: text.into() };
    let html = CannedResponse::new(200, "<html>Please log in</html>").header("content-type", "text/html");
    let endless = line(&format!("{{\"type\":\"ADDED\",\"object\":{{\"a\":\"{}", "x".repeat(20_000)));
    let (resumes, relists) = (true, false);
    let cases = [
        (line("garbage\n"), resumes, "a line of 7 bytes is not a watch event"),
        (line("{\"type\":\"ADDED\",\"object\":\n"), resumes, "is not a watch event"),
        (line("{\"type\":\"ADDED\"}\n"), resumes, "it has no object"),
        (line("[]\n"), resumes, "is not a watch event"),
        (endless, resumes, "a line of the watch is larger than 10000 bytes"),
        (Fault::Garbage, resumes, "is not a watch event"),
        (Fault::Truncate, resumes, "in the middle of a line of the watch"),
        (Fault::Cut { after: CutAfter::HalfLine(0), ending: CutEnding::Reset }, resumes, "the connection failed"),
        (Fault::Cut { after: CutAfter::HalfLine(0), ending: CutEnding::Close }, resumes, "in the middle of a line"),
        (Fault::cut_after_events(0), resumes, "the connection failed"),
        (Fault::Refuse, resumes, "the connection was refused"),
        (Fault::Drop, resumes, "the connection failed"),
        (Fault::status(500), resumes, "500"),
        (Fault::status(503), resumes, "503"),
        (Fault::status(429), resumes, "429"),
        (Fault::ErrorEvent { code: 429, after: 0 }, resumes, "429"),
        (Fault::status(401), resumes, "401"),
        (Fault::status(410), relists, "410"),
        (Fault::ErrorEvent { code: 410, after: 0 }, relists, "410"),
        (Fault::ErrorEvent { code: 500, after: 0 }, relists, "500"),
        (line("{\"kind\":\"Status\",\"code\":410,\"reason\":\"Gone\"}\n"), relists, "Gone (410)"),
        (line("{\"type\":\"ERROR\",\"object\":{\"kind\":\"Pod\"}}\n"), relists, "an error event without a status"),
        (canned(200, ""), relists, "ended after 0 ms without an event"),
        (Fault::Response(html), relists, "not JSON"),
        (Fault::Gzip(GzipMode::Always), relists, "compressed"),
    ];
    for (fault, resumes, expected) in cases {
        let server = server();
        server.inject(On::watch().of("configmaps").once(), fault.clone());
        let running = run_reflector(&server);
        running.wait_for_line("Replaced@10 [shop/a@10]").await;
        sleep_seconds(0.01).await;
        server.put("configmaps", config_map("b", "1")).unwrap();
        running.recorder.wait_until(|_, state| state == ["shop/a@10", "shop/b@11"]).await;

        assert!(running.last_error().contains(expected), "{fault:?}: {}", running.last_error());
        let lists = crate::support::reflector::full_lists(&server, "configmaps");
        assert_eq!(lists == 1, resumes, "{fault:?}: {:?}", server.requests_for("configmaps"));
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_that_makes_no_sense_is_replaced_and_no_object_is_lost() {
    let line = |text: &str| Fault::ExtraLine { after: 1, text: text.into() };
    let cases = [
        line("garbage\n"),
        line("{\"kind\":\"Status\",\"code\":410,\"reason\":\"Gone\"}\n"),
        Fault::Garbage,
        Fault::Truncate,
        Fault::cut_after_events(1),
        Fault::Cut { after: CutAfter::HalfLine(1), ending: CutEnding::Close },
        Fault::freeze_after_events(1),
        Fault::Hang,
        Fault::Refuse,
        Fault::Drop,
        Fault::status(401),
        Fault::status(410),
        Fault::status(429),
        Fault::status(500),
        Fault::Gzip(GzipMode::Always),
        canned(200, ""),
        canned(200, "{}"),
        Fault::ErrorEvent { code: 500, after: 1 },
        Fault::WatchListRefused,
        Fault::WatchListFails,
        Fault::WatchListNeverEnds,
        Fault::ByteByByte,
        Fault::Split { pieces: 3 },
    ];
    for fault in cases {
        let server = server();
        server.put("configmaps", config_map("b", "1")).unwrap();
        server.inject(On::watch_list().of("configmaps").once(), fault.clone());
        let recorder = Recorder::<ConfigMap>::new();
        let running = start(Reflector::builder(config_maps(&server)).backoff(backoff_without_jitter()), recorder);
        running.wait_for_line("Replaced@11 [shop/a@10 shop/b@11]").await;

        server.delete("configmaps", "shop/a").unwrap();
        running.wait_for_line("Deleted shop/a@12").await;
        assert_eq!(running.lines().len(), 2, "{fault:?}: {:?}", running.lines());
        running.stop().await;
    }
}

/// RE-31
#[tokio::test(start_paused = true)]
async fn the_reflector_works_without_bookmarks() {
    let server = server();
    server.inject(On::any(), Fault::NoBookmarks);
    let running = run_reflector(&server);
    running.wait_for_line("Replaced@10 [shop/a@10]").await;
    sleep_seconds(3600.0).await;

    server.put("configmaps", config_map("b", "1")).unwrap();
    running.wait_for_line("Added shop/b@11").await;
    assert_eq!(crate::support::reflector::full_lists(&server, "configmaps"), 1);
    running.stop().await;
}

/// The server answers with 401 until the token is renewed.
#[tokio::test(start_paused = true)]
async fn the_reflector_recovers_after_an_expired_token_is_renewed() {
    let server = server();
    let running = run_reflector(&server);
    server.wait_for_watches("configmaps", 1).await;
    server.inject(On::any().of("configmaps").times(20), Fault::status(401));
    server.cut_all_watches();
    sleep_seconds(700.0).await;
    server.put("configmaps", config_map("b", "1")).unwrap();

    running.recorder.wait_until(|_, state| state == ["shop/a@10", "shop/b@11"]).await;
    assert!(!running.errors().is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_last_of_two_items_with_the_same_key_in_a_list_is_used() {
    let server = server();
    let item =
        |version: u32| format!(r#"{{"metadata":{{"namespace":"shop","name":"a","resourceVersion":"{version}"}}}}"#);
    let body = format!(
        r#"{{"kind":"ConfigMapList","apiVersion":"v1","metadata":{{"resourceVersion":"10"}},"items":[{},{}]}}"#,
        item(3),
        item(10)
    );
    server.inject(On::list().of("configmaps").once(), canned(200, &body));
    let running = run_reflector(&server);
    running.recorder.wait_until(|lines, _| lines.len() == 1).await;

    assert_eq!(running.recorder.state(), ["shop/a@10"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_version_of_a_list_may_come_after_its_items() {
    let server = server();
    let body = r#"{"items":[{"metadata":{"name":"x","resourceVersion":"3"}}],"apiVersion":"v1","kind":"ConfigMapList","metadata":{"resourceVersion":"10"}}"#;
    server.inject(On::list().of("configmaps").once(), canned(200, body));
    let running = run_reflector(&server);
    running.wait_for_line("Replaced@10 [x@3]").await;
    server.wait_for_request(|request| request.to_string() == "W(10)").await;
    running.stop().await;
}
