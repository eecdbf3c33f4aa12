//! What cannot be told: damaged, of another kind, without a version. Nothing is lost by it.

use std::time::Duration;

use informant::Lazy;
use informant::listwatch::Reflector;
use informant::listwatch::ScriptedList;
use informant::listwatch::ScriptedSource;
use informant::listwatch::ScriptedWatch;
use informant::listwatch::SourceError;
use informant_apiserver::CannedResponse;
use informant_apiserver::Fault;
use informant_apiserver::On;
use k8s_openapi::api::core::v1::ConfigMap;

use super::kube_source::config_maps;
use super::support::Recorder;
use super::support::Running;
use super::support::config_map;
use super::support::exact;
use super::support::list;
use super::support::open_watch;
use super::support::ready;
use super::support::run_exactly;
use super::support::seconds;
use super::support::server_at_10;
use super::support::settle;
use super::support::start;

/// Objects that nobody can tell: damaged, or of another kind.
const DAMAGED: [&str; 3] = [
    r#"{"metadata":{"name":"\x"}}"#,
    r#"{"metadata":{"name":5,"resourceVersion":"11"}}"#,
    r#"{"metadata":{"uid":"u1","uid":"u2","resourceVersion":"11"}}"#,
];

/// P1, P5: a damaged event that may be of any object comes once more.
#[tokio::test(start_paused = true)]
async fn an_event_that_is_damaged_beyond_recognition_is_asked_for_again() {
    for (kind, damaged) in ["ADDED", "MODIFIED", "DELETED"].into_iter().zip(DAMAGED) {
        let source = ScriptedSource::new();
        source.on_list(list("10", &[("a", 1)]));
        let line = format!("{{\"type\":\"{kind}\",\"object\":{damaged}}}\n");
        source.on_watch(ScriptedWatch::new().bytes(line).stays_open());
        source.on_watch(ScriptedWatch::new().deleted(ready("a", 11)).stays_open());
        let running = run_exactly(&source);
        seconds(1.0).await;

        assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "W(10)"], "{damaged}");
        assert_eq!(running.told(), ["Replaced@10 [a@1]", "Deleted a@11"]);
        assert!(running.last_error().contains("too damaged to determine its object"), "{}", running.last_error());
        running.stop().await;
    }
}

/// The same within a streamed list, which gives way to an ordinary one.
#[tokio::test(start_paused = true)]
async fn a_streamed_list_with_an_event_that_is_damaged_beyond_recognition_is_not_believed() {
    for (kind, damaged) in ["ADDED", "MODIFIED", "DELETED"].into_iter().zip(DAMAGED) {
        let source = ScriptedSource::new();
        let line = format!("{{\"type\":\"{kind}\",\"object\":{damaged}}}\n");
        source.on_stream(ScriptedWatch::new().added(ready("a", 5)).bytes(line).list_ends("10").stays_open());
        source.on_list(list("11", &[]));
        source.on_watch(open_watch());
        let running = run_exactly(&source);
        settle().await;

        assert_eq!(source.requests(), ["WL(\"\")", "L(0, 500)", "W(11)"], "{damaged}");
        assert_eq!(running.told(), ["Replaced@11 []"]);
        running.stop().await;
    }
}

/// P1: a list with such an item is asked for once more; if it stays so, that is how it is.
#[tokio::test(start_paused = true)]
async fn a_list_with_an_item_that_is_damaged_beyond_recognition_is_doubted_once() {
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
    let running = run_exactly(&source);
    seconds(20.0).await;

    assert_eq!(running.told(), ["Replaced@10 [a@1]", "Replaced@12 [a@1]", "Replaced@13 []"]);
    assert_eq!(running.errors().len(), 2);
    assert_eq!(running.handle.quarantined().len(), 1);
    running.stop().await;
}

/// P1: what says that it is of another kind may be an object of ours all the same, so it comes once more.
#[tokio::test(start_paused = true)]
async fn an_event_of_another_kind_changes_nothing_and_is_asked_for_again() {
    let server = server_at_10();
    server.put("configmaps", config_map("a", "1")).unwrap();
    server.inject(On::watch().of("configmaps").skip(1).once(), Fault::WrongKind);
    server.inject(On::watch().of("configmaps").once(), Fault::cut_after_events(3));
    let recorder = Recorder::<Lazy<ConfigMap>>::new();
    let running = start(Reflector::builder(config_maps(&server)).backoff(exact()), recorder);
    running.until("Replaced@11 [shop/a@11]").await;
    server.put("configmaps", config_map("b", "1")).unwrap();
    running.until("Added shop/b@12").await;
    server.put("configmaps", config_map("a", "2")).unwrap();
    server.delete("configmaps", "shop/b").unwrap();
    running.until("Deleted shop/b@14").await;

    assert_eq!(running.told()[2..], ["Updated shop/a@13", "Deleted shop/b@14"]);
    assert_eq!(server.requests_for("configmaps"), ["WL(\"\")", "W(12)", "W(12)"]);
    running.stop().await;
}

/// P1
#[tokio::test(start_paused = true)]
async fn a_streamed_list_of_another_kind_empties_nothing() {
    let server = server_at_10();
    server.put("configmaps", config_map("a", "1")).unwrap();
    server.inject(On::watch().of("configmaps").once(), Fault::ErrorEvent { after: 2, code: 410 });
    server.inject(On::watch_list().of("configmaps").skip(1).once(), Fault::WrongKind);
    let recorder = Recorder::<Lazy<ConfigMap>>::new();
    let running = start(Reflector::builder(config_maps(&server)).backoff(exact()), recorder);
    running.recorder.until(|lines, _| lines.len() == 2).await;

    assert_eq!(running.told(), ["Replaced@11 [shop/a@11]"; 2]);
    assert_eq!(server.requests_for("configmaps")[..3], ["WL(\"\")", "WL(11)", "L(11, no limit)"]);
    running.stop().await;
}

/// A list that does not say which version it is of, after one that did, is none; and nothing is lost.
#[tokio::test(start_paused = true)]
async fn a_list_without_a_version_empties_nothing() {
    for body in [r#"{"kind":"ConfigMapList"}"#, r#"{"items":null}"#, r#"{"items":[]}"#] {
        let server = server_at_10();
        server.put("configmaps", config_map("a", "1")).unwrap();
        server.inject(On::watch().of("configmaps").once(), Fault::ErrorEvent { after: 0, code: 410 });
        server.inject(On::list().of("configmaps").skip(1).once(), Fault::Response(CannedResponse::new(200, body)));
        let recorder = Recorder::<Lazy<ConfigMap>>::new();
        let builder = Reflector::builder(config_maps(&server));
        let running = start(builder.backoff(exact()).without_streaming(), recorder);
        running.recorder.until(|lines, _| lines.len() == 2).await;

        assert_eq!(running.told(), ["Replaced@11 [shop/a@11]"; 2], "{body}");
        assert_eq!(running.errors(), ["listing configmaps failed: the list has no resourceVersion"]);
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_of_a_streamed_list_without_a_version_is_none() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::new().added(ready("a", 5)).list_ends("10").breaks(SourceError::expired()));
    source.on_stream(ScriptedWatch::new().list_ends("").stays_open());
    source.on_list(list("12", &[("a", 5)]));
    source.on_watch(open_watch());
    let running = run_exactly(&source);
    seconds(1.0).await;

    assert_eq!(source.requests(), ["WL(\"\")", "WL(10)", "L(10, no limit)", "W(12)"]);
    assert_eq!(running.told(), ["Replaced@10 [a@5]", "Replaced@12 [a@5]"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_listed_twice_first_bad_then_good_is_good() {
    let source = ScriptedSource::new();
    let bad = r#"{"metadata":{"name":"a","uid":"u1","resourceVersion":"4"}}"#;
    source.on_list(ScriptedList::at("10").json(bad).object(ready("a", 5)));
    source.on_watch(open_watch());
    let running = run_exactly(&source);
    settle().await;

    assert_eq!(running.told(), ["Replaced@10 [a@5]"]);
    assert!(running.handle.quarantined().is_empty());
    running.stop().await;
}

/// Quarantine ends with the object, by whatever way that is heard.
#[tokio::test(start_paused = true)]
async fn what_is_gone_or_good_again_is_no_longer_quarantined() {
    let bad = |name: &str| format!(r#"{{"metadata":{{"name":"{name}","uid":"u1","resourceVersion":"11"}}}}"#);
    let line = |kind: &str, name: &str| format!("{{\"type\":\"{kind}\",\"object\":{}}}\n", bad(name));
    let source = ScriptedSource::new();
    let stream = ScriptedWatch::new().bytes(line("ADDED", "good-again")).bytes(line("ADDED", "gone"));
    let stream = stream.added(ready("good-again", 12)).deleted(ready("gone", 12)).list_ends("12");
    let stream = stream.bytes(line("MODIFIED", "later").replace("11", "13"));
    source.on_stream(stream.wait(Duration::from_secs(1)).deleted(ready("later", 14)).stays_open());
    let running = run_exactly(&source);
    settle().await;
    let names = |running: &Running<()>| {
        running.handle.quarantined().iter().map(|bad| bad.key.clone().unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(running.told(), ["Replaced@12 [good-again@12]", "Bookmark@13"]);
    assert_eq!(names(&running), ["later"]);

    seconds(1.0).await;
    assert!(names(&running).is_empty());
    running.stop().await;
}

/// B15: the version of a delete counts also if its final state cannot be read.
#[tokio::test(start_paused = true)]
async fn a_delete_that_cannot_be_read_moves_the_version() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[("a", 1)]));
    let line = r#"{"type":"DELETED","object":{"metadata":{"name":"a","uid":"u1","resourceVersion":"11"}}}"#;
    source.on_watch(ScriptedWatch::new().bytes(format!("{line}\n")));
    source.on_watch(open_watch());
    let running = run_exactly(&source);
    settle().await;

    assert_eq!(running.told(), ["Replaced@10 [a@1]", "Lost a@11"]);
    assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "W(11)"]);
    running.stop().await;
}
