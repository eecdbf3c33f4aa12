//! Quarantine: objects that cannot be decoded or transformed do not affect other objects, in lists, streamed lists and watches.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use informant::{
    Cached, Lazy, Object,
    pipeline::{Reflector, ReflectorBuilder},
    projection,
    testing::{ScriptedList, ScriptedSource, ScriptedWatch},
};
use informant_apiserver::{ApiServer, Fault, On};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::{DynamicObject, PartialObjectMeta};
use serde_json::json;

use super::kube_source::config_maps;
use crate::support::reflector::{
    Recorder, Running, backoff_without_jitter, config_map, server_at_10, show_error, sleep_seconds, start,
    wait_until_idle,
};

type Builder = ReflectorBuilder<ConfigMap>;

/// The objects that the `on_quarantine` callback received, as lines.
type QuarantineLog = Arc<Mutex<Vec<String>>>;

fn run_reflector(server: &ApiServer, settings: impl FnOnce(Builder) -> Builder) -> (Running<ConfigMap>, QuarantineLog) {
    let recorder = Recorder::new();
    let log = QuarantineLog::default();
    let callback_log = Arc::clone(&log);
    let builder = Reflector::builder(config_maps(server)).backoff(backoff_without_jitter());
    let builder = builder.on_quarantine(move |object| {
        let key = object.key.as_ref().map_or("?".to_owned(), ToString::to_string);
        callback_log.lock().unwrap().push(format!("{key}@{}: {}", object.version, show_error(&*object.error)));
    });
    (start(settings(builder), recorder), log)
}

/// A config map that cannot be decoded: its data is a number. The embedded server does not check that.
fn bad(name: &str) -> serde_json::Value {
    json!({"metadata": {"namespace": "shop", "name": name}, "data": {"text": 5}})
}

fn quarantined_keys(running: &Running<ConfigMap>) -> Vec<String> {
    let mut names: Vec<_> =
        running.handle.quarantined().iter().map(|bad| bad.key.clone().unwrap().to_string()).collect();
    names.sort();
    names
}

/// P8, HC-35, but the list does not fail
#[tokio::test(start_paused = true)]
async fn a_bad_object_in_a_list_is_quarantined_and_the_list_is_passed_on() {
    for streams in [true, false] {
        let server = server_at_10();
        server.put("configmaps", config_map("a", "1")).unwrap();
        server.put("configmaps", bad("b")).unwrap();
        let (running, log) =
            run_reflector(&server, |builder| if streams { builder } else { builder.without_streaming() });
        running.wait_for_line("Replaced@12 [shop/a@11] without shop/b").await;

        let lines = log.lock().unwrap().clone();
        assert_eq!(lines.len(), 1);
        assert!(lines[0].starts_with("shop/b@12: shop/b: cannot decode data.text: invalid type"), "{lines:?}");
        let quarantined = &running.handle.quarantined()[0];
        assert_eq!((quarantined.uid.is_empty(), quarantined.version.as_str()), (false, "12"));
        let json: serde_json::Value = serde_json::from_slice(quarantined.json.as_ref().unwrap()).unwrap();
        assert_eq!(json["data"]["text"], 5, "the quarantined object has its JSON");
        assert!(running.errors().is_empty(), "the list does not fail");
        running.stop().await;
    }
}

/// P8: RE-29
#[tokio::test(start_paused = true)]
async fn a_bad_object_in_a_watch_is_quarantined_and_the_version_advances() {
    let server = server_at_10();
    server.put("configmaps", config_map("a", "1")).unwrap();
    let (running, log) = run_reflector(&server, |builder| builder);
    running.wait_for_line("Replaced@11 [shop/a@11]").await;

    server.put("configmaps", bad("a")).unwrap();
    server.put("configmaps", bad("b")).unwrap();
    wait_until_idle().await;
    assert_eq!(running.lines()[1..], ["Bookmark@12", "Bookmark@13"]);
    assert_eq!(running.recorder.state(), ["shop/a@11"], "the last good state stays in the cache");
    assert_eq!(quarantined_keys(&running), ["shop/a", "shop/b"]);
    assert_eq!(log.lock().unwrap().len(), 2);

    server.put("configmaps", config_map("a", "good again")).unwrap();
    wait_until_idle().await;
    assert_eq!(running.recorder.state(), ["shop/a@14"]);
    assert_eq!(quarantined_keys(&running), ["shop/b"]);
    assert_eq!(server.requests_for("configmaps").len(), 1, "the reflector sends no further request");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_quarantined_object_whose_final_state_cannot_be_decoded_is_deleted_by_its_key() {
    let server = server_at_10();
    server.put("configmaps", config_map("a", "1")).unwrap();
    let (running, _) = run_reflector(&server, |builder| builder);
    running.wait_for_line("Replaced@11 [shop/a@11]").await;

    server.put("configmaps", bad("a")).unwrap();
    server.delete("configmaps", "shop/a").unwrap();
    wait_until_idle().await;
    assert_eq!(running.lines()[1..], ["Bookmark@12", "Lost shop/a@13"]);
    assert!(running.recorder.state().is_empty() && running.handle.quarantined().is_empty());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_relist_ends_the_quarantine_of_objects_that_it_lacks_and_keeps_that_of_others() {
    let server = server_at_10();
    for name in ["a", "b", "c"] {
        server.put("configmaps", config_map(name, "1")).unwrap();
    }
    let (running, log) = run_reflector(&server, ReflectorBuilder::without_streaming);
    running.wait_for_line("Replaced@13 [shop/a@11 shop/b@12 shop/c@13]").await;
    server.put("configmaps", bad("a")).unwrap();
    server.put("configmaps", bad("b")).unwrap();
    wait_until_idle().await;
    assert_eq!(log.lock().unwrap().len(), 2);

    // While no watch is open, b is deleted and c becomes bad; the server compacts both events.
    let outage = server.inject(On::any(), Fault::Refuse);
    server.cut_all_watches();
    server.wait_for_request(|request| request.faults.contains(&Fault::Refuse)).await;
    server.delete("configmaps", "shop/b").unwrap();
    server.put("configmaps", bad("c")).unwrap();
    server.compact();
    server.remove_fault(outage);
    running.recorder.wait_until(|lines, _| lines.last().is_some_and(|line| line.contains("without"))).await;

    assert_eq!(running.lines().last().unwrap(), "Replaced@17 [] without shop/a shop/c");
    assert_eq!(running.recorder.state(), ["shop/a@11", "shop/c@13"]);
    assert_eq!(quarantined_keys(&running), ["shop/a", "shop/c"]);
    assert_eq!(log.lock().unwrap().len(), 3, "the callback is not called again for a");
    running.stop().await;
}

/// HC-35: RE-64, RE-65, but a transform that fails affects only its object.
#[tokio::test(start_paused = true)]
async fn each_object_is_transformed_once_and_quarantined_if_its_transform_fails() {
    for streams in [true, false] {
        let server = server_at_10();
        server.put("configmaps", config_map("a", "1")).unwrap();
        server.put("configmaps", config_map("bad", "1")).unwrap();
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let (running, log) = run_reflector(&server, |builder| {
            let builder = if streams { builder } else { builder.without_streaming() };
            builder.resync_every(Duration::from_secs(5)).transform(move |object: &mut ConfigMap| {
                counted.fetch_add(1, Ordering::SeqCst);
                match object.metadata.name.as_deref() {
                    Some("bad") => Err("error of the transform"),
                    Some("worse") => panic!("panic of the transform"),
                    _ => {
                        object.data.get_or_insert_default().insert("seen".into(), "yes".into());
                        Ok(())
                    }
                }
            })
        });
        running.wait_for_line("Replaced@12 [shop/a@11] without shop/bad").await;
        assert_eq!(count.load(Ordering::SeqCst), 2);
        assert_eq!(running.recorder.object("shop/a").unwrap().data.as_ref().unwrap()["seen"], "yes");

        server.put("configmaps", config_map("bad", "2")).unwrap();
        server.put("configmaps", config_map("worse", "1")).unwrap();
        server.put("configmaps", config_map("b", "1")).unwrap();
        server.delete("configmaps", "shop/a").unwrap();
        wait_until_idle().await;
        assert_eq!(running.lines()[1..], ["Bookmark@13", "Bookmark@14", "Added shop/b@15", "Deleted shop/a@16"]);
        assert_eq!(count.load(Ordering::SeqCst), 6);
        sleep_seconds(11.0).await;
        assert_eq!(count.load(Ordering::SeqCst), 6, "a resync transforms nothing");
        let lines = log.lock().unwrap().clone();
        assert_eq!(lines[0], "shop/bad@12: shop/bad: the transform failed: error of the transform");
        assert_eq!(lines[2], "shop/worse@14: shop/worse: the transform failed: panicked: panic of the transform");
        running.stop().await;
    }
}

/// RE-28: an event without a name does not advance the version.
#[tokio::test(start_paused = true)]
async fn a_watch_event_without_a_name_is_quarantined_and_does_not_advance_the_version() {
    let server = server_at_10();
    server.put("configmaps", config_map("a", "1")).unwrap();
    let lines = [
        r#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":{"resourceVersion":"71"}}}"#,
        r#"{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1"}}"#,
        r#"{"type":"MODIFIED","object":{"kind":"Table","apiVersion":"meta.k8s.io/v1","rows":[]}}"#,
    ];
    for (after, line) in lines.iter().enumerate() {
        let text = format!("{line}\n");
        server.inject(On::watch().of("configmaps").once(), Fault::ExtraLine { after: after + 2, text });
    }
    let (running, log) = run_reflector(&server, |builder| builder);
    running.wait_for_line("Replaced@11 [shop/a@11]").await;
    wait_until_idle().await;

    assert_eq!(log.lock().unwrap().len(), 3, "{:?}", log.lock().unwrap());
    assert_eq!(running.handle.status().version, Some("11".into()));
    server.put("configmaps", config_map("b", "1")).unwrap();
    wait_until_idle().await;
    assert_eq!(running.lines()[1..], ["Added shop/b@12"]);
    running.stop().await;
}

/// P8
#[tokio::test(start_paused = true)]
async fn an_on_quarantine_callback_that_panics_does_not_stop_the_reflector() {
    let server = server_at_10();
    server.put("configmaps", bad("a")).unwrap();
    let recorder = Recorder::<ConfigMap>::new();
    let builder = Reflector::builder(config_maps(&server));
    let running = start(builder.on_quarantine(|_| panic!("panic of the callback")), recorder);
    running.wait_for_line("Replaced@11 [] without shop/a").await;

    server.put("configmaps", config_map("b", "1")).unwrap();
    running.wait_for_line("Added shop/b@12").await;
    running.stop().await;
}

/// The reflector does not decode lazy objects, so that `get` is the first to find a field of a wrong type.
#[tokio::test(start_paused = true)]
async fn a_lazy_object_with_a_field_of_a_wrong_type_is_not_quarantined_and_get_fails() {
    let server = server_at_10();
    server.put("configmaps", bad("a")).unwrap();
    let recorder = Recorder::<Lazy<ConfigMap>>::new();
    let running = start(Reflector::builder(config_maps(&server)), recorder);
    running.wait_for_line("Replaced@11 [shop/a@11]").await;

    assert!(running.recorder.object("shop/a").unwrap().get().is_err());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_relist_reuses_known_objects_of_the_same_version_instead_of_decoding_them() {
    for streams in [true, false] {
        let server = server_at_10();
        server.put("configmaps", config_map("same", "1")).unwrap();
        server.put("configmaps", config_map("changes", "1")).unwrap();
        let recorder = Recorder::new();
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let builder = Reflector::builder(config_maps(&server))
            .backoff(backoff_without_jitter())
            .known_objects(Arc::new(recorder.clone()))
            .transform(move |_: &mut ConfigMap| {
                counted.fetch_add(1, Ordering::SeqCst);
                Ok::<_, String>(())
            });
        let running = start(if streams { builder } else { builder.without_streaming() }, recorder);
        running.recorder.wait_until(|_, state| state.len() == 2).await;
        let before = running.recorder.object("shop/same").unwrap();
        server.wait_for_watches("configmaps", 1).await;

        server.inject(On::watch().of("configmaps").once(), Fault::status(410));
        server.put("configmaps", config_map("changes", "2")).unwrap();
        server.compact();
        sleep_seconds(1300.0).await;
        assert!(running.handle.status().lists >= 2, "{:?}", server.requests_for("configmaps"));
        assert!(Cached::ptr_eq(&before, &running.recorder.object("shop/same").unwrap()));
        assert_eq!(count.load(Ordering::SeqCst), 3, "two objects in the first list, then the one that changed");
        running.stop().await;
    }
}

#[derive(serde::Deserialize)]
struct ConfigNames {}

projection!(ConfigNames of ConfigMap);

/// What an informer of a source that declares no kind caches of these objects, and the errors of those that it quarantines.
async fn received_from_a_source_without_a_kind<O: Object>() -> (Vec<String>, Vec<String>) {
    let object = |kind: &str, name: &str, version: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": name, "uid": name, "resourceVersion": version}});
    let untyped = json!({"metadata": {"name": "untyped", "uid": "untyped", "resourceVersion": "3"}});
    let source = ScriptedSource::<O>::new();
    let list =
        ScriptedList::at("10").object(object("ConfigMap", "listed", "1")).object(object("Pod", "listed-pod", "2"));
    source.on_list(list.object(untyped));
    let watch = ScriptedWatch::new().added(object("Pod", "watched-pod", "11"));
    source.on_watch(watch.added(object("ConfigMap", "watched", "12")).stays_open());
    let running = start(Reflector::builder(source), Recorder::new());
    running.wait_for_line("Added watched@12").await;
    let mut errors: Vec<_> = running.handle.quarantined().iter().map(|bad| bad.error.to_string()).collect();
    errors.sort();
    (running.stop().await.state(), errors)
}

#[tokio::test(start_paused = true)]
async fn an_object_of_another_kind_is_quarantined_in_every_object_type_if_the_source_declares_no_kind() {
    let of_another_kind =
        ["listed-pod: expected v1, ConfigMap, found v1, Pod", "watched-pod: expected v1, ConfigMap, found v1, Pod"];
    for (objects, errors) in [
        received_from_a_source_without_a_kind::<ConfigMap>().await,
        received_from_a_source_without_a_kind::<Lazy<ConfigMap>>().await,
        received_from_a_source_without_a_kind::<ConfigNames>().await,
        received_from_a_source_without_a_kind::<Lazy<ConfigNames>>().await,
    ] {
        assert_eq!(objects, ["listed@1", "untyped@3", "watched@12"]);
        assert_eq!(errors, of_another_kind);
    }

    for (objects, errors) in [
        received_from_a_source_without_a_kind::<DynamicObject>().await,
        received_from_a_source_without_a_kind::<Lazy<PartialObjectMeta<ConfigMap>>>().await,
    ] {
        assert_eq!(objects.len(), 5, "the type holds objects of any kind");
        assert!(errors.is_empty(), "{errors:?}");
    }
}
