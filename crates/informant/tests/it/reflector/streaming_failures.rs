//! Streamed lists that fail, do not end or cannot be verified.

use std::time::Duration;

use informant::{
    error::SourceError,
    testing::{ScriptedSource, ScriptedWatch},
};

use crate::support::reflector::{
    connection_lost, connection_refused, item, list, open_watch, run_without_jitter, sleep_seconds, status_error,
    wait_until_idle,
};

/// P1
#[tokio::test(start_paused = true)]
async fn after_three_expired_streamed_lists_the_reflector_uses_an_ordinary_list() {
    let source = ScriptedSource::new();
    for _ in 0..10 {
        source.on_stream(ScriptedWatch::fails(SourceError::expired()));
    }
    source.on_list(list("10", &[]));
    source.on_watch(open_watch());
    let running = run_without_jitter(&source);
    sleep_seconds(10.0).await;

    assert_eq!(source.requests(), ["WL(\"\")", "WL(\"\")", "WL(\"\")", "L(\"\", 500)", "W(10)"]);
    running.stop().await;
}

/// P1
#[tokio::test(start_paused = true)]
async fn a_streamed_list_that_only_grows_is_replaced_by_an_ordinary_list_after_five_minutes() {
    let source = ScriptedSource::new();
    let mut stream = ScriptedWatch::new();
    for number in 0..100 {
        stream = stream.added(item(&format!("o{number}"), number)).wait(Duration::from_secs(20));
    }
    source.on_stream(stream);
    source.on_list(list("100", &[]));
    source.on_watch(open_watch());
    let running = run_without_jitter(&source);
    sleep_seconds(301.0).await;

    assert_eq!(source.requests(), ["WL(\"\")", "L(0, 500)", "W(100)"]);
    running.stop().await;
}

/// RE-54
#[tokio::test(start_paused = true)]
async fn only_the_annotation_value_true_ends_a_streamed_list() {
    let mark = |value: &str| {
        let annotations = format!(r#"{{"k8s.io/initial-events-end":"{value}"}}"#);
        let metadata = format!(r#"{{"resourceVersion":"10","annotations":{annotations}}}"#);
        format!("{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{metadata}}}}}\n")
    };
    let source = ScriptedSource::new();
    let stream = ScriptedWatch::new().bytes(mark("false")).bytes(mark("TRUE")).bytes(mark(""));
    source.on_stream(stream.wait(Duration::from_secs(1)).bytes(mark("true")).stays_open());
    let running = run_without_jitter(&source);
    sleep_seconds(0.9).await;
    assert!(running.lines().is_empty());
    sleep_seconds(0.2).await;

    assert_eq!(running.lines(), ["Replaced@10 []"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_connection_of_the_first_streamed_list_is_reported() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::fails(connection_refused()));
    let running = run_without_jitter(&source);
    wait_until_idle().await;

    assert_eq!(
        running.errors(),
        ["streaming the list of objects failed: the connection was refused: no server listens there"]
    );
    running.stop().await;
}

/// After a lost connection another server may answer, one that can stream.
#[tokio::test(start_paused = true)]
async fn after_a_lost_connection_a_streamed_list_is_tried_again() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::fails(status_error(422, "Invalid")));
    source.on_list(list("10", &[]));
    source.on_watch(ScriptedWatch::new().added(item("a", 11)).breaks(connection_lost()));
    source.on_watch(ScriptedWatch::new().breaks(SourceError::expired()));
    source.on_stream(ScriptedWatch::new().list_ends("12").stays_open());
    let running = run_without_jitter(&source);
    sleep_seconds(1.0).await;

    assert_eq!(source.requests(), ["WL(\"\")", "L(0, 500)", "W(10)", "W(11)", "WL(11)"]);
    running.stop().await;
}
