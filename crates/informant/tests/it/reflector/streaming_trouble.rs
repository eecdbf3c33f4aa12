//! Streamed lists that do not come to an end, and what is made of them.

use std::time::Duration;

use informant::listwatch::{ScriptedList, ScriptedSource, ScriptedWatch, SourceError};

use super::support::{exact, list, open_watch, ready, refused, run_exactly, run_with, says, seconds, settle};

/// P1
#[tokio::test(start_paused = true)]
async fn a_stream_that_is_never_available_gives_way_to_a_list() {
    let source = ScriptedSource::new();
    for _ in 0..10 {
        source.on_stream(ScriptedWatch::fails(SourceError::expired()));
    }
    source.on_list(list("10", &[]));
    source.on_watch(open_watch());
    let running = run_exactly(&source);
    seconds(10.0).await;

    assert_eq!(source.requests(), ["WL(\"\")", "WL(\"\")", "WL(\"\")", "L(\"\", 500)", "W(10)"]);
    running.stop().await;
}

/// P1
#[tokio::test(start_paused = true)]
async fn a_server_that_ignores_streaming_and_always_has_something_new_gives_way_to_a_list() {
    let source = ScriptedSource::new();
    let mut stream = ScriptedWatch::new();
    for number in 0..100 {
        stream = stream.added(ready(&format!("o{number}"), number)).wait(Duration::from_secs(20));
    }
    source.on_stream(stream);
    source.on_list(list("100", &[]));
    source.on_watch(open_watch());
    let running = run_exactly(&source);
    seconds(301.0).await;

    assert_eq!(source.requests(), ["WL(\"\")", "L(0, 500)", "W(100)"]);
    running.stop().await;
}

/// RE-54
#[tokio::test(start_paused = true)]
async fn only_the_right_word_ends_a_streamed_list() {
    let mark = |value: &str| {
        let annotations = format!(r#"{{"k8s.io/initial-events-end":"{value}"}}"#);
        let metadata = format!(r#"{{"resourceVersion":"10","annotations":{annotations}}}"#);
        format!("{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{metadata}}}}}\n")
    };
    let source = ScriptedSource::new();
    let stream = ScriptedWatch::new().bytes(mark("false")).bytes(mark("TRUE")).bytes(mark(""));
    source.on_stream(stream.wait(Duration::from_secs(1)).bytes(mark("true")).stays_open());
    let running = run_exactly(&source);
    seconds(0.9).await;
    assert!(running.told().is_empty());
    seconds(0.2).await;

    assert_eq!(running.told(), ["Replaced@10 []"]);
    running.stop().await;
}

/// A failure to get anything at all is never silent.
#[tokio::test(start_paused = true)]
async fn a_stream_that_nobody_answers_is_told_of() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::fails(refused()));
    let running = run_exactly(&source);
    settle().await;

    assert_eq!(running.errors(), ["streaming the list of objects failed: the connection was refused: nobody is there"]);
    running.stop().await;
}

/// Who answers after a lost connection may be another server, which can stream.
#[tokio::test(start_paused = true)]
async fn a_connection_that_broke_lets_streaming_be_tried_again() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::fails(says(422, "Invalid")));
    source.on_list(list("10", &[]));
    source.on_watch(ScriptedWatch::new().added(ready("a", 11)).breaks(super::support::lost()));
    source.on_watch(ScriptedWatch::new().breaks(SourceError::expired()));
    source.on_stream(ScriptedWatch::new().list_ends("12").stays_open());
    let running = run_exactly(&source);
    seconds(1.0).await;

    assert_eq!(source.requests(), ["WL(\"\")", "L(0, 500)", "W(10)", "W(11)", "WL(11)"]);
    running.stop().await;
}

/// RE-67
#[tokio::test(start_paused = true)]
async fn a_streamed_list_that_cannot_be_compared_is_believed() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::new().added(ready("a", 1)).list_ends("10").stays_open());
    source.on_list(ScriptedList::fails(SourceError::expired()));
    let running = run_with(&source, |builder| builder.backoff(exact()).verify_streams());
    settle().await;

    assert_eq!(source.requests(), ["WL(\"\")", "L(10, no limit)"]);
    assert_eq!(running.told(), ["Replaced@10 [a@1]"]);
    running.stop().await;
}

/// RE-67: without a version there is nothing to compare with, and after a difference lists are used.
#[tokio::test(start_paused = true)]
async fn a_streamed_list_is_compared_if_it_has_a_version_and_believed_no_more_if_it_differs() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::new().added(ready("a", 1)).list_ends("0").stays_open());
    let running = run_with(&source, |builder| builder.backoff(exact()).verify_streams());
    settle().await;
    assert_eq!(source.requests(), ["WL(\"\")"]);
    assert_eq!(running.told(), ["Replaced@0 [a@1]"]);
    running.stop().await;

    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::new().added(ready("a", 1)).list_ends("10").stays_open());
    source.on_list(list("10", &[]));
    source.on_list(list("11", &[]));
    source.on_watch(ScriptedWatch::new().breaks(SourceError::expired()));
    let running = run_with(&source, |builder| builder.backoff(exact()).verify_streams());
    seconds(1.0).await;
    let requests = ["WL(\"\")", "L(10, no limit)", "L(0, 500)", "W(11)", "L(11, no limit)"];
    assert_eq!(source.requests(), requests, "also in the next round");
    running.stop().await;
}
