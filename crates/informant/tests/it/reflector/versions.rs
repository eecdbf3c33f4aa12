//! Versions that go backwards: the reflector repeats the list of a lagging replica, and accepts a history change.

use std::{sync::Arc, time::Duration};

use informant::{
    Identity, Key,
    error::SourceError,
    pipeline::{Item, Reflector},
    testing::{ScriptedList, ScriptedSource, ScriptedWatch},
};
use informant_apiserver::{Fault, On};
use k8s_openapi::api::core::v1::ConfigMap;

use super::kube_source::config_maps;
use crate::support::reflector::{
    Recorder, backoff_without_jitter, config_map, connection_refused, item, list, open_watch, run_with,
    run_without_jitter, seconds_between_requests, server_at_10, sleep_seconds, start, status_error, wait_until_idle,
};

/// RE-27, but the watch ends. P2
#[tokio::test(start_paused = true)]
async fn a_watch_event_older_than_the_one_before_it_ends_the_watch_and_is_not_passed_on() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    source.on_watch(ScriptedWatch::new().added(item("a", 55)).modified(item("a", 32)).stays_open());
    source.on_list(list("60", &[("a", 55)]));
    source.on_watch(ScriptedWatch::new().stays_open());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(1.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "L(55, no limit)", "W(60)"]);
    assert_eq!(running.lines(), ["Replaced@10 []", "Added a@55", "Replaced@60 [a@55]"]);
    assert!(running.errors().is_empty());
    running.stop().await;
}

/// A lagging replica answers with an older state, which must not replace the newer one in the cache.
#[tokio::test(start_paused = true)]
async fn a_list_older_than_the_reached_version_is_requested_again_without_a_version() {
    let source = ScriptedSource::new();
    source.on_list(list("100", &[("a", 90)]));
    source.on_watch(ScriptedWatch::new().breaks(status_error(400, "BadRequest")));
    source.on_list(list("60", &[]));
    source.on_list(list("120", &[("a", 110)]));
    source.on_watch(ScriptedWatch::new().stays_open());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(1.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(100)", "L(100, no limit)", "L(\"\", 500)", "W(120)"]);
    assert_eq!(seconds_between_requests(&source), [0.0, 0.8, 0.0, 0.0]);
    assert_eq!(running.lines(), ["Replaced@100 [a@90]", "Replaced@120 [a@110]"]);
    assert_eq!(running.handle.status().history_changes, 0);
    running.stop().await;
}

/// This is how a restored backup of etcd appears to the reflector.
#[tokio::test(start_paused = true)]
async fn a_newest_list_of_an_older_version_is_a_history_change_and_no_cached_object_is_reused() {
    let object = |content: u32| {
        let identity = Identity { key: Key::cluster_scoped("a"), uid: "u1".into(), version: "50".into() };
        Item::new(identity, content)
    };
    let source = ScriptedSource::<u32>::new();
    source.on_list(ScriptedList::at("100").object(object(1)));
    source.on_watch(ScriptedWatch::new().breaks(status_error(400, "BadRequest")));
    source.on_list(ScriptedList::at("60").object(object(2)));
    source.on_list(ScriptedList::at("61").object(object(3)));
    source.on_watch(ScriptedWatch::new().stays_open());
    let recorder = Recorder::new();
    let builder = Reflector::of_decoded_objects(source.clone()).backoff(backoff_without_jitter());
    let running = start(builder.known_objects(Arc::new(recorder.clone())), recorder);
    sleep_seconds(3.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(100)", "L(100, no limit)", "L(\"\", 500)", "W(61)"]);
    assert_eq!(running.handle.status().history_changes, 1);
    assert_eq!(running.handle.status().version, Some("61".into()));
    let content = running.recorder.object("a").unwrap();
    assert_eq!(*content, 3, "the same uid and version, but another content");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_streamed_list_older_than_the_reached_version_is_requested_again_without_a_version() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::new().list_ends("100").breaks(status_error(400, "BadRequest")));
    source.on_stream(ScriptedWatch::new().added(item("a", 5)).list_ends("60").stays_open());
    source.on_stream(ScriptedWatch::new().added(item("b", 6)).list_ends("61").stays_open());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(1.0).await;

    assert_eq!(source.requests(), ["WL(\"\")", "WL(100)", "WL(\"\")"]);
    assert_eq!(running.lines(), ["Replaced@100 []", "Replaced@61 [b@6]"]);
    assert_eq!(running.handle.status().history_changes, 1);
    running.stop().await;
}

/// RE-33
#[tokio::test(start_paused = true)]
async fn a_watch_without_a_version_begins_with_all_objects_in_any_order() {
    let source = ScriptedSource::new();
    source.on_list(list("0", &[]));
    let events = ScriptedWatch::new().added(item("a", 9)).added(item("b", 3));
    source.on_watch(events.modified(item("a", 12)).added(item("c", 13)).breaks(connection_refused()));
    source.on_watch(ScriptedWatch::new().stays_open());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(0.5).await;

    assert_eq!(running.lines()[1..], ["Added a@9", "Added b@3", "Updated a@12", "Added c@13"]);
    sleep_seconds(0.5).await;
    assert_eq!(source.requests(), ["L(0, 500)", "W(0)", "W(13)"]);
    running.stop().await;
}

/// RE-33: the initial objects do not advance the version, and without a version the events between two watches would be lost.
#[tokio::test(start_paused = true)]
async fn the_initial_objects_of_a_watch_without_a_version_do_not_advance_it_and_a_relist_follows() {
    let source = ScriptedSource::new();
    source.on_list(list("0", &[]));
    source.on_watch(ScriptedWatch::new().added(item("a", 9)).breaks(connection_refused()));
    source.on_watch(ScriptedWatch::new().stays_open());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(1.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(0)", "L(0, 500)"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_source_without_versions_is_relisted_after_each_watch() {
    let object = |name: &str| Item::new(Identity::of_key(Key::cluster_scoped(name)), ());
    let source = ScriptedSource::new();
    source.on_list(ScriptedList::at("").object(object("a")));
    source.on_watch(ScriptedWatch::new().added(object("b")).deleted(object("a")).wait(Duration::from_secs(100)));
    // Between the watches, c is created and b is deleted.
    source.on_list(ScriptedList::at("").object(object("c")));
    source.on_watch(ScriptedWatch::new().modified(object("c")).stays_open());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(101.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(\"\")", "L(\"\", 500)", "W(\"\")"]);
    assert_eq!(running.lines(), ["Replaced@ [a@]", "Added b@", "Deleted a@", "Replaced@ [c@]", "Updated c@"]);
    running.stop().await;
}

fn versioned(content: u32) -> Item<u32> {
    Item::new(Identity { key: Key::cluster_scoped("a"), uid: "u1".into(), version: "70".into() }, content)
}

/// The reflector has reused cached objects before the list's version shows the history change, so it lists once more.
#[tokio::test(start_paused = true)]
async fn a_list_that_reveals_a_history_change_is_repeated_without_reuse_of_cached_objects() {
    for streams in [true, false] {
        let source = ScriptedSource::<u32>::new();
        let mut expected = vec!["L(0, 500)", "W(100)", "L(100, no limit)", "L(\"\", 500)", "L(\"\", 500)", "W(62)"];
        if streams {
            expected = vec!["WL(\"\")", "WL(100)", "WL(\"\")", "WL(\"\")"];
            source.on_stream(ScriptedWatch::new().added(versioned(1)).list_ends("100").breaks(SourceError::expired()));
            source.on_stream(ScriptedWatch::fails(SourceError::expired()));
            source.on_stream(ScriptedWatch::new().added(versioned(2)).list_ends("61").stays_open());
            source.on_stream(ScriptedWatch::new().added(versioned(3)).list_ends("62").stays_open());
        } else {
            source.on_list(ScriptedList::at("100").object(versioned(1)));
            source.on_watch(ScriptedWatch::new().breaks(SourceError::expired()));
            source.on_list(ScriptedList::fails(SourceError::expired()));
            source.on_list(ScriptedList::at("61").object(versioned(2)));
            source.on_list(ScriptedList::at("62").object(versioned(3)));
            source.on_watch(ScriptedWatch::new().stays_open());
        }
        let recorder = Recorder::new();
        let builder = Reflector::of_decoded_objects(source.clone()).backoff(backoff_without_jitter());
        let running = start(builder.known_objects(Arc::new(recorder.clone())), recorder);
        sleep_seconds(10.0).await;

        assert_eq!(source.requests(), expected);
        assert_eq!(*running.recorder.object("a").unwrap(), 3);
        assert_eq!(running.handle.status().history_changes, 1);
        running.stop().await;
    }
}

/// The answer "version too large" may mean a history change, so the next list reuses no cached objects.
#[tokio::test(start_paused = true)]
async fn after_a_version_too_large_one_relist_reuses_no_cached_objects() {
    let too_large = || {
        let status = kube::core::Status::failure("Too large resource version", "Timeout").with_code(504);
        ScriptedList::fails(status.into())
    };
    let source = ScriptedSource::<u32>::new();
    source.on_list(ScriptedList::at("100").object(versioned(1)));
    source.on_watch(ScriptedWatch::new().breaks(SourceError::expired()));
    source.on_list(too_large());
    source.on_list(ScriptedList::at("105").object(versioned(2)));
    source.on_watch(ScriptedWatch::new().breaks(SourceError::expired()));
    source.on_list(ScriptedList::at("106").object(versioned(3)));
    source.on_watch(ScriptedWatch::new().stays_open());
    let recorder = Recorder::new();
    let builder = Reflector::of_decoded_objects(source.clone()).backoff(backoff_without_jitter());
    let running = start(builder.known_objects(Arc::new(recorder.clone())), recorder);
    sleep_seconds(1.0).await;
    assert_eq!(*running.recorder.object("a").unwrap(), 2);
    sleep_seconds(5.0).await;

    assert_eq!(running.handle.status().version, Some("106".into()));
    assert_eq!(*running.recorder.object("a").unwrap(), 2, "the later relist reuses the cached object");
    running.stop().await;
}

/// The version of the server has passed the reached one again since its history changed.
#[tokio::test(start_paused = true)]
async fn after_a_watch_whose_versions_go_backwards_the_relist_reuses_no_cached_objects() {
    let object = |content: u32| {
        let identity = Identity { key: Key::cluster_scoped("a"), uid: "u1".into(), version: "70".into() };
        Item::new(identity, content)
    };
    let newcomer = Item::new(Identity { key: Key::cluster_scoped("b"), uid: "u2".into(), version: "61".into() }, 0);
    let source = ScriptedSource::<u32>::new();
    source.on_list(ScriptedList::at("100").object(object(1)));
    source.on_watch(ScriptedWatch::new().added(newcomer));
    source.on_list(ScriptedList::at("105").object(object(2)));
    source.on_watch(ScriptedWatch::new().stays_open());
    let recorder = Recorder::new();
    let builder = Reflector::of_decoded_objects(source.clone()).backoff(backoff_without_jitter());
    let running = start(builder.known_objects(Arc::new(recorder.clone())), recorder);
    sleep_seconds(5.0).await;

    assert_eq!(*running.recorder.object("a").unwrap(), 2);
    running.stop().await;
}

/// Without `NotOlderThan`, a limit beside a version would request exactly that version.
#[tokio::test(start_paused = true)]
async fn a_paged_relist_accepts_a_newer_version_than_it_requests() {
    let server = server_at_10();
    server.put("configmaps", config_map("a", "1")).unwrap();
    server.inject(On::watch().of("configmaps").once(), Fault::ErrorEvent { after: 0, code: 410 });
    let recorder = Recorder::<ConfigMap>::new();
    let builder = Reflector::builder(config_maps(&server));
    let running = start(builder.backoff(backoff_without_jitter()).without_streaming().page_size(20), recorder);
    running.wait_for_line("Replaced@11 [shop/a@11]").await;
    server.inject(On::list(), Fault::Delay(Duration::from_secs(1)));
    let relist = || server.requests().into_iter().find(|request| request.to_string() == "L(11, 20)");
    while relist().is_none() {
        sleep_seconds(0.1).await;
    }
    server.put("configmaps", config_map("b", "1")).unwrap();
    running.wait_for_line("Replaced@12 [shop/a@11 shop/b@12]").await;

    assert_eq!(relist().unwrap().resource_version_match, "NotOlderThan");
    running.stop().await;
}

/// RE-33: any event but ADDED ends the initial objects.
#[tokio::test(start_paused = true)]
async fn a_bookmark_or_a_delete_ends_the_initial_objects_of_a_watch_without_a_version() {
    for ends_with_delete in [true, false] {
        let source = ScriptedSource::new();
        source.on_list(list("0", &[]));
        let watch = ScriptedWatch::new().added(item("a", 9)).added(item("b", 3));
        let watch = if ends_with_delete { watch.deleted(item("a", 12)) } else { watch.bookmark("12") };
        source.on_watch(watch.added(item("c", 13)));
        source.on_watch(open_watch());
        let running = run_without_jitter(&source);
        wait_until_idle().await;

        assert_eq!(source.requests(), ["L(0, 500)", "W(0)", "W(13)"]);
        assert_eq!(running.handle.status().events, 4);
        running.stop().await;
    }
}
