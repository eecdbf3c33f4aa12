//! Items and events that are damaged, of another kind, or without a version: the reflector requests them again and loses no object.

use std::time::Duration;

use informant::{
    Lazy,
    error::SourceError,
    pipeline::Reflector,
    testing::{ScriptedList, ScriptedSource, ScriptedWatch},
};
use informant_apiserver::{CannedResponse, Fault, On};
use k8s_openapi::api::core::v1::ConfigMap;

use super::kube_source::config_maps;
use crate::support::reflector::{
    Recorder, Running, backoff_without_jitter, config_map, item, list, open_watch, run_without_jitter, server_at_10,
    sleep_seconds, start, wait_until_idle,
};

/// Objects without a readable identity.
const DAMAGED: [&str; 3] = [
    r#"{"metadata":{"name":"\x"}}"#,
    r#"{"metadata":{"name":5,"resourceVersion":"11"}}"#,
    r#"{"metadata":{"uid":"u1","uid":"u2","resourceVersion":"11"}}"#,
];

/// P1, P5: the event may belong to any object, so the watch is resumed before it.
#[tokio::test(start_paused = true)]
async fn a_watch_resumes_before_an_event_without_a_readable_identity() {
    for (kind, damaged) in ["ADDED", "MODIFIED", "DELETED"].into_iter().zip(DAMAGED) {
        let source = ScriptedSource::new();
        source.on_list(list("10", &[("a", 1)]));
        let line = format!("{{\"type\":\"{kind}\",\"object\":{damaged}}}\n");
        source.on_watch(ScriptedWatch::new().bytes(line).stays_open());
        source.on_watch(ScriptedWatch::new().deleted(item("a", 11)).stays_open());
        let running = run_without_jitter(&source);
        sleep_seconds(1.0).await;

        assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "W(10)"], "{damaged}");
        assert_eq!(running.lines(), ["Replaced@10 [a@1]", "Deleted a@11"]);
        assert!(running.last_error().contains("too damaged to determine its object"), "{}", running.last_error());
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_with_an_event_without_a_readable_identity_is_replaced_by_an_ordinary_list() {
    for (kind, damaged) in ["ADDED", "MODIFIED", "DELETED"].into_iter().zip(DAMAGED) {
        let source = ScriptedSource::new();
        let line = format!("{{\"type\":\"{kind}\",\"object\":{damaged}}}\n");
        source.on_stream(ScriptedWatch::new().added(item("a", 5)).bytes(line).list_ends("10").stays_open());
        source.on_list(list("11", &[]));
        source.on_watch(open_watch());
        let running = run_without_jitter(&source);
        wait_until_idle().await;

        assert_eq!(source.requests(), ["WL(\"\")", "L(0, 500)", "W(11)"], "{damaged}");
        assert_eq!(running.lines(), ["Replaced@11 []"]);
        running.stop().await;
    }
}

/// P1: the reflector accepts the second list even if it has the same item.
#[tokio::test(start_paused = true)]
async fn a_list_with_an_item_without_a_readable_identity_is_requested_once_more() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[("a", 1)]));
    source.on_watch(ScriptedWatch::new().breaks(SourceError::expired()));
    source.on_list(list("12", &[]).json(DAMAGED[1]));
    source.on_list(list("12", &[("a", 1)]));
    source.on_watch(ScriptedWatch::new().breaks(SourceError::expired()));
    for _ in 0..2 {
        source.on_list(list("13", &[]).json(DAMAGED[1]));
    }
    source.on_watch(open_watch());
    let running = run_without_jitter(&source);
    sleep_seconds(20.0).await;

    assert_eq!(running.lines(), ["Replaced@10 [a@1]", "Replaced@12 [a@1]", "Replaced@13 []"]);
    assert!(running.errors().is_empty(), "each failure is over within five seconds");
    assert_eq!(running.handle.quarantined().len(), 1);
    running.stop().await;
}

/// P1: the event may belong to an object of the watched kind, so the watch is resumed before it.
#[tokio::test(start_paused = true)]
async fn a_watch_resumes_before_an_event_of_another_kind() {
    let server = server_at_10();
    server.put("configmaps", config_map("a", "1")).unwrap();
    server.inject(On::watch().of("configmaps").skip(1).once(), Fault::WrongKind);
    server.inject(On::watch().of("configmaps").once(), Fault::cut_after_events(3));
    let recorder = Recorder::<Lazy<ConfigMap>>::new();
    let running = start(Reflector::builder(config_maps(&server)).backoff(backoff_without_jitter()), recorder);
    running.wait_for_line("Replaced@11 [shop/a@11]").await;
    server.put("configmaps", config_map("b", "1")).unwrap();
    running.wait_for_line("Added shop/b@12").await;
    server.put("configmaps", config_map("a", "2")).unwrap();
    server.delete("configmaps", "shop/b").unwrap();
    running.wait_for_line("Deleted shop/b@14").await;

    assert_eq!(running.lines()[2..], ["Updated shop/a@13", "Deleted shop/b@14"]);
    let check = ["L(\"\", no limit)", "L(12, no limit)", "L(11, no limit)"];
    assert_eq!(server.requests_for("configmaps")[..2], ["WL(\"\")", "W(12)"]);
    assert_eq!(server.requests_for("configmaps")[2..5], check);
    assert_eq!(server.requests_for("configmaps")[5..], ["W(12)"]);
    running.stop().await;
}

/// P1
#[tokio::test(start_paused = true)]
async fn a_streamed_list_of_another_kind_deletes_no_objects() {
    let server = server_at_10();
    server.put("configmaps", config_map("a", "1")).unwrap();
    server.inject(On::watch().of("configmaps").once(), Fault::ErrorEvent { after: 2, code: 410 });
    server.inject(On::watch_list().of("configmaps").skip(1).once(), Fault::WrongKind);
    let recorder = Recorder::<Lazy<ConfigMap>>::new();
    let running = start(Reflector::builder(config_maps(&server)).backoff(backoff_without_jitter()), recorder);
    running.recorder.wait_until(|lines, _| lines.len() == 2).await;

    assert_eq!(running.lines(), ["Replaced@11 [shop/a@11]"; 2]);
    let check = "L(\"\", no limit)";
    assert_eq!(server.requests_for("configmaps")[..4], ["WL(\"\")", check, "WL(11)", "L(11, no limit)"]);
    running.stop().await;
}

/// The first list had a version, so a list without one is an error.
#[tokio::test(start_paused = true)]
async fn a_list_without_a_version_deletes_no_objects() {
    for body in [r#"{"kind":"ConfigMapList"}"#, r#"{"items":null}"#, r#"{"items":[]}"#] {
        let server = server_at_10();
        server.put("configmaps", config_map("a", "1")).unwrap();
        server.inject(On::watch().of("configmaps").once(), Fault::ErrorEvent { after: 0, code: 410 });
        // The second request checks the history.
        server.inject(On::list().of("configmaps").skip(2).once(), Fault::Response(CannedResponse::new(200, body)));
        let recorder = Recorder::<Lazy<ConfigMap>>::new();
        let builder = Reflector::builder(config_maps(&server));
        let running = start(builder.backoff(backoff_without_jitter()).without_streaming(), recorder);
        running.recorder.wait_until(|lines, _| lines.len() == 2).await;

        assert_eq!(running.lines(), ["Replaced@11 [shop/a@11]"; 2], "{body}");
        let error = running.handle.status().last_error.unwrap();
        assert_eq!(error.source.to_string(), "the list has no resourceVersion");
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_that_ends_without_a_version_is_replaced_by_an_ordinary_list() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::new().added(item("a", 5)).list_ends("10").breaks(SourceError::expired()));
    source.on_stream(ScriptedWatch::new().list_ends("").stays_open());
    source.on_list(list("12", &[("a", 5)]));
    source.on_watch(open_watch());
    let running = run_without_jitter(&source);
    sleep_seconds(1.0).await;

    assert_eq!(source.requests(), ["WL(\"\")", "WL(10)", "L(10, no limit)", "W(12)"]);
    assert_eq!(running.lines(), ["Replaced@10 [a@5]", "Replaced@12 [a@5]"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_listed_twice_is_not_quarantined_if_the_second_item_is_good() {
    let source = ScriptedSource::new();
    let bad = r#"{"metadata":{"name":"a","uid":"u1","resourceVersion":"4"}}"#;
    source.on_list(ScriptedList::at("10").json(bad).object(item("a", 5)));
    source.on_watch(open_watch());
    let running = run_without_jitter(&source);
    wait_until_idle().await;

    assert_eq!(running.lines(), ["Replaced@10 [a@5]"]);
    assert!(running.handle.quarantined().is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn quarantine_ends_when_the_object_is_deleted_or_can_be_decoded_again() {
    let bad = |name: &str| format!(r#"{{"metadata":{{"name":"{name}","uid":"u1","resourceVersion":"11"}}}}"#);
    let line = |kind: &str, name: &str| format!("{{\"type\":\"{kind}\",\"object\":{}}}\n", bad(name));
    let source = ScriptedSource::new();
    let stream = ScriptedWatch::new().bytes(line("ADDED", "good-again")).bytes(line("ADDED", "gone"));
    let stream = stream.added(item("good-again", 12)).deleted(item("gone", 12)).list_ends("12");
    let stream = stream.bytes(line("MODIFIED", "later").replace("11", "13"));
    source.on_stream(stream.wait(Duration::from_secs(1)).deleted(item("later", 14)).stays_open());
    let running = run_without_jitter(&source);
    wait_until_idle().await;
    let names = |running: &Running<()>| {
        running.handle.quarantined().iter().map(|bad| bad.key.clone().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(running.lines(), ["Replaced@12 [good-again@12]", "Bookmark@13"]);
    assert_eq!(names(&running), ["later"]);

    sleep_seconds(1.0).await;
    assert!(names(&running).is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_delete_whose_final_state_cannot_be_decoded_advances_the_version() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[("a", 1)]));
    let line = r#"{"type":"DELETED","object":{"metadata":{"name":"a","uid":"u1","resourceVersion":"11"}}}"#;
    source.on_watch(ScriptedWatch::new().bytes(format!("{line}\n")));
    source.on_watch(open_watch());
    let running = run_without_jitter(&source);
    wait_until_idle().await;

    assert_eq!(running.lines(), ["Replaced@10 [a@1]", "Lost a@11"]);
    assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "W(11)"]);
    running.stop().await;
}
