//! Lists: their versions, pages and retries.

use std::time::Duration;

use informant::testing::{ScriptedList, ScriptedSource, ScriptedWatch};
use kube::core::{
    Status,
    response::{StatusCause, StatusDetails},
};

use crate::support::reflector::{
    backoff_without_jitter, connection_lost, item, list, open_watch, run, run_with, seconds_between_requests,
    sleep_seconds, status_error, wait_until_idle,
};

/// A watch that fails so that a relist follows.
fn broken_watch() -> ScriptedWatch<()> {
    ScriptedWatch::new().breaks(status_error(400, "BadRequest"))
}

/// RE-08, RE-09, RE-21, RE-24
#[tokio::test(start_paused = true)]
async fn the_first_list_requests_version_0_and_the_watch_begins_at_its_version() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[("b", 2), ("a", 1)]));
    source.on_watch(open_watch());
    let running = run(&source);
    wait_until_idle().await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)"]);
    assert_eq!(running.lines(), ["Replaced@10 [a@1 b@2]"]);
    assert_eq!(running.handle.status().version, Some("10".into()));
    running.stop().await;
}

/// RE-01, RE-08, RE-09: the relist follows after a delay, and may not be older than the reached version.
#[tokio::test(start_paused = true)]
async fn a_relist_requests_the_reached_version_without_pages() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    source.on_watch(ScriptedWatch::new().added(item("a", 12)).breaks(status_error(400, "BadRequest")));
    source.on_list(list("15", &[("a", 12)]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(1.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "L(12, no limit)", "W(15)"]);
    assert_eq!(seconds_between_requests(&source), [0.0, 0.8, 0.0]);
    running.stop().await;
}

/// HC-23, RE-10, RE-11
#[tokio::test(start_paused = true)]
async fn pages_in_answer_to_version_0_make_later_lists_paged() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[("a", 1)]).more("C1"));
    source.on_list(list("11", &[("b", 2)]).more("C2"));
    source.on_list(list("12", &[("c", 3)]));
    source.on_watch(broken_watch());
    source.on_list(list("20", &[]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(1.0).await;

    let requests = ["L(0, 500)", "L(\"\", 500, C1)", "L(\"\", 500, C2)", "W(10)", "L(10, 500)", "W(20)"];
    assert_eq!(source.requests(), requests);
    assert_eq!(
        running.lines(),
        ["Replaced@10 [a@1 b@2 c@3]", "Replaced@20 []"],
        "the list has the version of its first page"
    );
    running.stop().await;
}

/// HC-23, the opposite case: RE-10
#[tokio::test(start_paused = true)]
async fn pages_of_a_list_without_a_version_do_not_make_later_lists_paged() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    source.on_watch(broken_watch());
    source.on_list(ScriptedList::fails(status_error(410, "Expired")));
    source.on_list(list("20", &[]).more("C1"));
    source.on_list(list("20", &[]));
    source.on_watch(broken_watch());
    source.on_list(list("30", &[]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(3.0).await;

    let lists: Vec<_> = source.requests().into_iter().filter(|request| request.starts_with('L')).collect();
    assert_eq!(lists, ["L(0, 500)", "L(10, no limit)", "L(\"\", 500)", "L(\"\", 500, C1)", "L(20, no limit)"]);
    running.stop().await;
}

/// RE-09
#[tokio::test(start_paused = true)]
async fn a_configured_page_size_is_used_for_every_list() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    source.on_watch(broken_watch());
    source.on_list(list("20", &[]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()).page_size(7));
    sleep_seconds(1.0).await;

    assert_eq!(source.requests(), ["L(0, 7)", "W(10)", "L(10, 7)", "W(20)"]);
    running.stop().await;
}

/// RE-12
#[tokio::test(start_paused = true)]
async fn a_list_whose_page_has_expired_is_repeated_at_once_without_pages() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[("a", 1)]).more("C1"));
    source.on_list(ScriptedList::fails(status_error(410, "Expired")));
    source.on_list(list("12", &[("b", 2)]));
    source.on_watch(open_watch());
    let running = run(&source);
    wait_until_idle().await;

    assert_eq!(source.requests(), ["L(0, 500)", "L(\"\", 500, C1)", "L(0, no limit)", "W(12)"]);
    assert_eq!(running.lines(), ["Replaced@12 [b@2]"], "the objects of the first page are discarded");
    assert!(running.errors().is_empty());
    running.stop().await;
}

/// RE-13, RE-14, RE-15
#[tokio::test(start_paused = true)]
async fn a_list_at_an_expired_version_is_repeated_at_once_without_a_version() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    source.on_watch(broken_watch());
    source.on_list(ScriptedList::fails(status_error(410, "Expired")));
    source.on_list(list("20", &[]));
    source.on_watch(broken_watch());
    source.on_list(list("21", &[]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(3.0).await;

    let requests = ["L(0, 500)", "W(10)", "L(10, no limit)", "L(\"\", 500)", "W(20)", "L(20, no limit)", "W(21)"];
    assert_eq!(source.requests(), requests);
    assert_eq!(seconds_between_requests(&source), [0.0, 0.8, 0.0, 0.0, 1.6, 0.0]);
    running.stop().await;
}

/// P10; RE-15: lists have no version until one succeeds.
#[tokio::test(start_paused = true)]
async fn an_expired_list_has_one_immediate_retry_per_round() {
    let source = ScriptedSource::new();
    for _ in 0..4 {
        source.on_list(ScriptedList::fails(status_error(410, "Expired")));
    }
    source.on_list(list("10", &[]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(10.0).await;

    assert_eq!(
        source.requests(),
        ["L(0, 500)", "L(\"\", 500)", "L(\"\", 500)", "L(\"\", 500)", "L(\"\", 500)", "W(10)"]
    );
    assert_eq!(
        seconds_between_requests(&source),
        [0.0, 0.5, 0.8, 1.6, 0.0],
        "the first delay is within a second, later ones grow"
    );
    assert_eq!(running.errors().len(), 1, "the cause does not change");
    running.stop().await;
}

fn timeout_with(message: &str, cause_reason: &str, cause_message: &str) -> Status {
    let cause = StatusCause { reason: cause_reason.into(), message: cause_message.into(), field: String::new() };
    Status::failure(message, "Timeout").with_code(504).with_details(StatusDetails {
        name: String::new(),
        group: String::new(),
        kind: String::new(),
        uid: String::new(),
        causes: vec![cause],
        retry_after_seconds: 0,
    })
}

/// HC-21: RE-14, RE-17
#[tokio::test(start_paused = true)]
async fn a_list_whose_version_is_too_large_is_repeated_without_a_version_for_each_encoding_of_the_error() {
    let phrase = "Too large resource version: 20, current: 10";
    let encodings = [
        timeout_with("timed out", "ResourceVersionTooLarge", "the scripted status"),
        timeout_with("timed out", "", phrase),
        timeout_with(phrase, "", ""),
    ];
    let source = ScriptedSource::new();
    source.on_list(list("20", &[]));
    for (encoding, version) in encodings.into_iter().zip(["30", "40", "50"]) {
        source.on_watch(broken_watch());
        source.on_list(ScriptedList::fails(encoding.into()));
        source.on_list(list(version, &[]));
    }
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(10.0).await;

    let lists = source.requests().into_iter().filter(|request| request.starts_with('L'));
    let versions: Vec<_> = lists.map(|list| list[2..list.find(',').unwrap()].to_owned()).collect();
    assert_eq!(versions, ["0", "20", "\"\"", "30", "\"\"", "40", "\"\""]);
    running.stop().await;
}

/// HC-21, the opposite case
#[tokio::test(start_paused = true)]
async fn an_ordinary_timeout_of_a_list_leads_to_the_same_list_after_a_delay() {
    let source = ScriptedSource::new();
    source.on_list(ScriptedList::fails(timeout_with("timed out", "", "it took too long").into()));
    source.on_list(list("10", &[]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(1.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "L(0, 500)", "W(10)"]);
    assert_eq!(seconds_between_requests(&source), [0.8, 0.0]);
    running.stop().await;
}

/// RE-18, RE-06, HC-27
#[tokio::test(start_paused = true)]
async fn a_list_that_keeps_failing_is_reported_once_and_no_watch_is_opened() {
    let source = ScriptedSource::new();
    for _ in 0..3 {
        source.on_list(ScriptedList::fails(status_error(403, "Forbidden")));
    }
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(4.0).await;

    assert_eq!(source.requests(), ["L(0, 500)"; 4], "each round sends a list request");
    assert_eq!(
        running.errors(),
        ["listing objects failed: the server answered: the scripted status (Forbidden, 403)"],
        "the cause does not change"
    );
    assert!(running.lines().is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_incomplete_list_is_not_passed_on() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[("a", 1)]).breaks(connection_lost()));
    source.on_list(list("10", &[("a", 1)]).more("C1"));
    source.on_list(list("10", &[("b", 1)]).breaks(connection_lost()));
    source.on_list(list("11", &[("c", 1)]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(3.0).await;

    assert_eq!(running.lines(), ["Replaced@11 [c@1]"]);
    running.stop().await;
}

/// P10
#[tokio::test(start_paused = true)]
async fn a_list_that_returns_the_same_continue_token_twice_fails() {
    let source = ScriptedSource::new();
    for _ in 0..3 {
        source.on_list(list("10", &[("a", 1)]).more("C1"));
    }
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    wait_until_idle().await;

    assert_eq!(source.requests(), ["L(0, 500)", "L(\"\", 500, C1)"]);
    assert!(running.last_error().contains("same continue token twice"), "{}", running.last_error());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_list_without_an_answer_is_retried_after_65_seconds() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]).after(Duration::from_secs(1000)));
    source.on_list(list("20", &[]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(122.0).await;

    assert_eq!(seconds_between_requests(&source), [65.8, 0.0]);
    assert_eq!(running.errors(), ["listing objects failed: the connection was silent for 65 seconds"]);
    assert_eq!(running.lines(), ["Replaced@20 []"]);
    running.stop().await;
}

/// RE-07
#[tokio::test(start_paused = true)]
async fn without_an_on_error_callback_errors_are_logged_as_warnings_except_expected_ones() {
    let logs = crate::support::Logs::capture();
    let source = ScriptedSource::<()>::new();
    source.on_list(list("10", &[]));
    source.on_watch(ScriptedWatch::fails(status_error(410, "Expired")));
    source.on_list(list("11", &[]));
    source.on_watch(ScriptedWatch::new().breaks(status_error(500, "InternalError")));
    for _ in 0..4 {
        source.on_list(ScriptedList::fails(status_error(403, "Forbidden")));
    }
    let reflector =
        informant::pipeline::Reflector::of_decoded_objects(source.clone()).backoff(backoff_without_jitter());
    let queue = informant::pipeline::DeltaFifo::new();
    let task = tokio::spawn(reflector.build(queue).run(std::future::pending()));
    source.wait_for_requests(9).await;

    let logged = logs.take();
    let lines: Vec<_> = logged.lines().collect();
    assert_eq!(lines.len(), 1, "{logged}");
    assert!(lines[0].contains("WARN") && lines[0].contains("(Forbidden, 403)"), "{logged}");
    assert!(lines[0].contains(r#"reflector{informer="objects"}"#), "{logged}");
    task.abort();
}
