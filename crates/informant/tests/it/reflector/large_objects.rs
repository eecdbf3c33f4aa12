//! Objects above the size limit: they are quarantined, and other objects are not affected.

use std::{sync::Arc, time::Duration};

use informant::{
    Lazy,
    pipeline::{Item, Reflector, ReflectorBuilder},
    testing::{ScriptedList, ScriptedSource, ScriptedWatch},
};
use informant_apiserver::{Fault, On};
use k8s_openapi::api::core::v1::ConfigMap;

use super::kube_source::config_maps;
use crate::support::reflector::{
    Recorder, Running, backoff_without_jitter, config_map, server_at_10, sleep_seconds, start, wait_until_idle,
};

const LIMIT: usize = 10_000;

type Builder = ReflectorBuilder<Lazy<ConfigMap>>;

fn large() -> String {
    "x".repeat(3 * LIMIT)
}

fn run(builder: Builder) -> Running<Lazy<ConfigMap>> {
    let recorder = Recorder::new();
    let builder = builder.known_objects(Arc::new(recorder.clone())).size_limit(LIMIT).backoff(backoff_without_jitter());
    start(builder, recorder)
}

/// The quarantined objects, as lines.
fn quarantined(running: &Running<Lazy<ConfigMap>>) -> Vec<String> {
    let show = |bad: &informant::Quarantined| {
        assert!(bad.json.is_none());
        let key = bad.key.as_ref().map_or("?", |key| key.as_str()).to_owned();
        format!("{key}@{} {}: {}", bad.version, if bad.uid.is_empty() { "without uid" } else { "with uid" }, bad.error)
    };
    running.handle.quarantined().iter().map(show).collect()
}

fn too_large(key: &str, version: u64) -> String {
    format!("{key}@{version} with uid: {key}: larger than 10000 bytes; raise `size_limit` if such objects are valid")
}

/// P1, P8: Decision 3
#[tokio::test(start_paused = true)]
async fn an_object_above_the_size_limit_is_quarantined_and_other_objects_are_delivered() {
    for pieces in [1, 7, 1000] {
        let server = server_at_10();
        server.inject(On::any().of("configmaps"), Fault::Split { pieces });
        server.put("configmaps", config_map("a", "1")).unwrap();
        server.put("configmaps", config_map("b", "1")).unwrap();
        let running = run(Reflector::builder(config_maps(&server)));
        running.wait_for_line("Replaced@12 [shop/a@11 shop/b@12]").await;

        server.put("configmaps", config_map("a", &large())).unwrap();
        server.put("configmaps", config_map("b", "2")).unwrap();
        running.wait_for_line("Updated shop/b@14").await;
        assert_eq!(quarantined(&running), [too_large("shop/a", 13)]);
        assert_eq!(running.recorder.state(), ["shop/a@11", "shop/b@14"], "the last state below the limit stays");

        server.put("configmaps", config_map("a", "small again")).unwrap();
        running.wait_for_line("Updated shop/a@15").await;
        assert!(quarantined(&running).is_empty());

        server.put("configmaps", config_map("a", &large())).unwrap();
        server.delete("configmaps", "shop/a").unwrap();
        server.put("configmaps", config_map("c", &large())).unwrap();
        server.put("configmaps", config_map("b", "3")).unwrap();
        running.wait_for_line("Updated shop/b@19").await;
        assert_eq!(running.lines()[4..], ["Bookmark@16", "Lost shop/a@17", "Bookmark@18", "Updated shop/b@19"]);
        assert_eq!(quarantined(&running), [too_large("shop/c", 18)]);
        assert_eq!(server.requests_for("configmaps"), ["WL(\"\")"], "the watch goes on");
        running.stop().await;
    }
}

/// P1, P7, P8: Decision 3
#[tokio::test(start_paused = true)]
async fn an_object_above_the_size_limit_in_a_list_is_quarantined_and_the_list_is_passed_on() {
    for streams in [true, false] {
        for pieces in [1, 7, 1000] {
            let server = server_at_10();
            server.inject(On::any().of("configmaps"), Fault::Split { pieces });
            server.put("configmaps", config_map("a", "1")).unwrap();
            server.put("configmaps", config_map("b", &large())).unwrap();
            server.put("configmaps", config_map("c", "1")).unwrap();
            let builder = Reflector::builder(config_maps(&server));
            let running = run(if streams { builder } else { builder.without_streaming() });
            running.wait_for_line("Replaced@13 [shop/a@11 shop/c@13] without shop/b").await;

            assert_eq!(quarantined(&running), [too_large("shop/b", 12)]);
            server.delete("configmaps", "shop/b").unwrap();
            running.wait_for_line("Lost shop/b@14").await;
            assert!(quarantined(&running).is_empty() && running.errors().is_empty());
            running.stop().await;
        }
    }
}

/// Objects above the limit, with their metadata before, after and around the large part.
fn with_metadata_anywhere() -> [String; 4] {
    let identity = r#""namespace":"shop","name":"a","uid":"u1","resourceVersion":"11""#;
    let text = large();
    [
        format!(r#"{{"metadata":{{{identity}}},"data":{{"a":"{text}"}}}}"#),
        format!(r#"{{"data":{{"metadata":{{"name":"{text}"}}}},"metadata":{{{identity}}}}}"#),
        format!(r#"{{"metadata":{{"annotations":{{"name":"{text}"}},{identity}}}}}"#),
        format!(r#"{{"metadata":{{{identity},"managedFields":[{{"uid":"{text}"}}]}},"kind":"ConfigMap"}}"#),
    ]
}

#[tokio::test(start_paused = true)]
async fn an_object_above_the_size_limit_is_identified_wherever_its_metadata_is() {
    for object in with_metadata_anywhere() {
        let lines = [
            format!("{{\"type\":\"MODIFIED\",\"object\":{object}}}\n"),
            format!("{{\"object\":{object},\"type\":\"ADDED\"}}\n"),
        ];
        for line in lines {
            let source = ScriptedSource::new();
            source.on_list(ScriptedList::at("10"));
            source.on_watch(ScriptedWatch::new().bytes(line).stays_open());
            let running = run(Reflector::builder(source.clone()));
            wait_until_idle().await;

            assert_eq!(running.lines(), ["Replaced@10 []", "Bookmark@11"]);
            assert_eq!(quarantined(&running), [too_large("shop/a", 11)]);
            running.stop().await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_size_limit_applies_to_json_items_of_custom_sources() {
    for object in with_metadata_anywhere() {
        let source = ScriptedSource::new();
        source.on_list(ScriptedList::at("11").json(object.clone()));
        source.on_watch(
            ScriptedWatch::new().deleted(Item::json(object.clone())).modified(Item::json(object)).stays_open(),
        );
        let running = run(Reflector::builder(source.clone()));
        wait_until_idle().await;

        assert_eq!(running.lines(), ["Replaced@11 [] without shop/a", "Lost shop/a@11", "Bookmark@11"]);
        assert_eq!(quarantined(&running), [too_large("shop/a", 11)]);
        running.stop().await;
    }
}

/// P1, P10: the object may be any one, so everything is listed; other events do not wait for that.
#[tokio::test(start_paused = true)]
async fn an_object_above_the_size_limit_without_an_identity_leads_to_one_list_a_minute() {
    let small = |name: &str, version: u32| {
        Item::json(format!(r#"{{"metadata":{{"name":"{name}","uid":"u","resourceVersion":"{version}"}}}}"#))
    };
    let nameless = format!(r#"{{"metadata":{{"name":5}},"data":{{"a":"{}"}}}}"#, large());
    let line = format!("{{\"type\":\"MODIFIED\",\"object\":{nameless}}}\n");
    let source = ScriptedSource::new();
    source.on_list(ScriptedList::at("10").object(small("a", 1)));
    source.on_watch(ScriptedWatch::new().bytes(line.clone()).stays_open());
    // The item is in the list, too. To request the list again would not help.
    source.on_list(ScriptedList::at("12").object(small("b", 12)).json(nameless.clone()));
    let watch =
        ScriptedWatch::new().bytes(line.clone()).added(small("c", 14)).wait(Duration::from_secs(20)).bytes(line);
    source.on_watch(watch.added(small("d", 16)).stays_open());
    let running = run(Reflector::builder(source.clone()));
    sleep_seconds(55.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "L(10, no limit)", "W(12)"]);
    assert_eq!(running.lines(), ["Replaced@10 [a@1]", "Replaced@12 [b@12]", "Added c@14", "Added d@16"]);
    let error = "too damaged to determine its object: object without a readable name: larger than 10000 bytes";
    assert!(running.last_error().contains(error), "{}", running.last_error());
    sleep_seconds(10.0).await;
    assert_eq!(source.requests()[4..], ["L(16, no limit)"]);
    running.stop().await;
}

/// Decision 20: the newest event is one of a large object, by which the history is recognised.
#[tokio::test(start_paused = true)]
async fn a_watch_is_resumed_after_an_outage_whose_last_event_was_above_the_size_limit() {
    let server = server_at_10();
    server.put("configmaps", config_map("a", "1")).unwrap();
    let running = run(Reflector::builder(config_maps(&server)));
    running.wait_for_line("Replaced@11 [shop/a@11]").await;
    server.put("configmaps", config_map("a", &large())).unwrap();
    running.wait_for_line("Bookmark@12").await;

    sleep_seconds(2.0).await;
    let outage = server.inject(On::any(), Fault::Refuse);
    server.cut_all_watches();
    sleep_seconds(3.0).await;
    server.remove_fault(outage);
    server.put("configmaps", config_map("b", "1")).unwrap();
    running.wait_for_line("Added shop/b@13").await;

    assert_eq!(crate::support::reflector::full_lists(&server, "configmaps"), 0);
    running.stop().await;
}
