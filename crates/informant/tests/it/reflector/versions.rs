//! Versions that go back: whoever lags is asked again, whoever really went back is believed.

use std::sync::Arc;
use std::time::Duration;

use informant::Key;
use informant::listwatch::Item;
use informant::listwatch::Reflector;
use informant::listwatch::ScriptedList;
use informant::listwatch::ScriptedSource;
use informant::listwatch::ScriptedWatch;
use informant::listwatch::SourceError;
use informant::object::Identity;
use informant_apiserver::Fault;
use informant_apiserver::On;
use k8s_openapi::api::core::v1::ConfigMap;

use super::kube_source::config_maps;
use super::support::Recorder;
use super::support::config_map;
use super::support::exact;
use super::support::list;
use super::support::open_watch;
use super::support::pauses;
use super::support::ready;
use super::support::run_exactly;
use super::support::run_with;
use super::support::says;
use super::support::seconds;
use super::support::server_at_10;
use super::support::settle;
use super::support::start;

/// B7: RE-27 as we want it. P2
#[tokio::test(start_paused = true)]
async fn an_event_older_than_the_one_before_it_ends_the_watch_and_is_not_passed_on() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    source.on_watch(ScriptedWatch::new().added(ready("a", 55)).modified(ready("a", 32)).stays_open());
    source.on_list(list("60", &[("a", 55)]));
    source.on_watch(ScriptedWatch::new().stays_open());
    let running = run_with(&source, |builder| builder.backoff(exact()));
    seconds(1.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "L(55, no limit)", "W(60)"]);
    assert_eq!(running.told(), ["Replaced@10 []", "Added a@55", "Replaced@60 [a@55]"]);
    assert!(running.errors().is_empty());
    running.stop().await;
}

/// B7: a replica that lags must not take us back in time.
#[tokio::test(start_paused = true)]
async fn a_list_older_than_what_was_seen_is_asked_for_once_more_as_the_newest_state() {
    let source = ScriptedSource::new();
    source.on_list(list("100", &[("a", 90)]));
    source.on_watch(ScriptedWatch::new().breaks(says(400, "BadRequest")));
    source.on_list(list("60", &[]));
    source.on_list(list("120", &[("a", 110)]));
    source.on_watch(ScriptedWatch::new().stays_open());
    let running = run_with(&source, |builder| builder.backoff(exact()));
    seconds(1.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(100)", "L(100, no limit)", "L(\"\", 500)", "W(120)"]);
    assert_eq!(pauses(&source), [0.0, 0.8, 0.0, 0.0]);
    assert_eq!(running.told(), ["Replaced@100 [a@90]", "Replaced@120 [a@110]"]);
    assert_eq!(running.handle.status().history_changes, 0);
    running.stop().await;
}

/// An etcd restore looks like this.
#[tokio::test(start_paused = true)]
async fn a_newest_list_of_an_older_version_is_a_history_change_and_no_cached_object_is_reused() {
    let object = |content: u32| {
        let identity = Identity { key: Key::cluster_scoped("a"), uid: "u1".into(), version: "50".into() };
        Item::new(identity, content)
    };
    let source = ScriptedSource::<u32>::new();
    source.on_list(ScriptedList::at("100").object(object(1)));
    source.on_watch(ScriptedWatch::new().breaks(says(400, "BadRequest")));
    source.on_list(ScriptedList::at("60").object(object(2)));
    source.on_list(ScriptedList::at("61").object(object(3)));
    source.on_watch(ScriptedWatch::new().stays_open());
    let recorder = Recorder::new();
    let builder = Reflector::of_decoded_objects(source.clone()).backoff(exact());
    let running = start(builder.known_objects(Arc::new(recorder.clone())), recorder);
    seconds(3.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(100)", "L(100, no limit)", "L(\"\", 500)", "W(61)"]);
    assert_eq!(running.handle.status().history_changes, 1);
    assert_eq!(running.handle.status().version, Some("61".into()));
    let content = running.recorder.object("a").unwrap();
    assert_eq!(*content, 3, "the same uid and version, but another content");
    running.stop().await;
}

/// The same with a streamed list.
#[tokio::test(start_paused = true)]
async fn a_streamed_list_that_is_older_is_asked_for_once_more_too() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::new().list_ends("100").breaks(says(400, "BadRequest")));
    source.on_stream(ScriptedWatch::new().added(ready("a", 5)).list_ends("60").stays_open());
    source.on_stream(ScriptedWatch::new().added(ready("b", 6)).list_ends("61").stays_open());
    let running = run_with(&source, |builder| builder.backoff(exact()));
    seconds(1.0).await;

    assert_eq!(source.requests(), ["WL(\"\")", "WL(100)", "WL(\"\")"]);
    assert_eq!(running.told(), ["Replaced@100 []", "Replaced@61 [b@6]"]);
    assert_eq!(running.handle.status().history_changes, 1);
    running.stop().await;
}

/// RE-33
#[tokio::test(start_paused = true)]
async fn a_watch_without_a_version_begins_with_what_exists_in_no_order() {
    let source = ScriptedSource::new();
    source.on_list(list("0", &[]));
    let events = ScriptedWatch::new().added(ready("a", 9)).added(ready("b", 3));
    source.on_watch(events.modified(ready("a", 12)).added(ready("c", 13)).breaks(super::support::refused()));
    source.on_watch(ScriptedWatch::new().stays_open());
    let running = run_with(&source, |builder| builder.backoff(exact()));
    seconds(0.5).await;

    assert_eq!(running.told()[1..], ["Added a@9", "Added b@3", "Updated a@12", "Added c@13"]);
    seconds(0.5).await;
    assert_eq!(source.requests(), ["L(0, 500)", "W(0)", "W(13)"]);
    running.stop().await;
}

/// RE-33: what exists does not move the version; and without one, what happens between two watches would be lost.
#[tokio::test(start_paused = true)]
async fn what_exists_does_not_move_the_version_so_after_the_watch_everything_is_listed_anew() {
    let source = ScriptedSource::new();
    source.on_list(list("0", &[]));
    source.on_watch(ScriptedWatch::new().added(ready("a", 9)).breaks(super::support::refused()));
    source.on_watch(ScriptedWatch::new().stays_open());
    let running = run_with(&source, |builder| builder.backoff(exact()));
    seconds(1.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(0)", "L(0, 500)"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_source_without_versions_is_watched_all_the_same_and_listed_anew_after_each_watch() {
    let object = |name: &str| Item::new(Identity::of_key(Key::cluster_scoped(name)), ());
    let source = ScriptedSource::new();
    source.on_list(ScriptedList::at("").object(object("a")));
    source.on_watch(ScriptedWatch::new().added(object("b")).deleted(object("a")).wait(Duration::from_secs(100)));
    // Before the next watch, c came and b went.
    source.on_list(ScriptedList::at("").object(object("c")));
    source.on_watch(ScriptedWatch::new().modified(object("c")).stays_open());
    let running = run_with(&source, |builder| builder.backoff(exact()));
    seconds(101.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(\"\")", "L(\"\", 500)", "W(\"\")"]);
    assert_eq!(running.told(), ["Replaced@ [a@]", "Added b@", "Deleted a@", "Replaced@ [c@]", "Updated c@"]);
    running.stop().await;
}

fn versioned(content: u32) -> Item<u32> {
    Item::new(Identity { key: Key::cluster_scoped("a"), uid: "u1".into(), version: "70".into() }, content)
}

/// Of a list whose version turns out to be older, what was taken from the cache on the way may not be kept.
#[tokio::test(start_paused = true)]
async fn a_list_that_reveals_a_history_change_is_read_once_more_without_the_cache() {
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
        let builder = Reflector::of_decoded_objects(source.clone()).backoff(exact());
        let running = start(builder.known_objects(Arc::new(recorder.clone())), recorder);
        seconds(10.0).await;

        assert_eq!(source.requests(), expected);
        assert_eq!(*running.recorder.object("a").unwrap(), 3);
        assert_eq!(running.handle.status().history_changes, 1);
        running.stop().await;
    }
}

/// A version too large may be that of a server that went back: the next list does not trust the cache.
#[tokio::test(start_paused = true)]
async fn after_a_version_too_large_the_next_list_is_read_without_the_cache_and_those_after_it_with_it() {
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
    let builder = Reflector::of_decoded_objects(source.clone()).backoff(exact());
    let running = start(builder.known_objects(Arc::new(recorder.clone())), recorder);
    seconds(1.0).await;
    assert_eq!(*running.recorder.object("a").unwrap(), 2);
    seconds(5.0).await;

    assert_eq!(running.handle.status().version, Some("106".into()));
    assert_eq!(*running.recorder.object("a").unwrap(), 2, "the same state, taken from the cache");
    running.stop().await;
}

/// A server that went back and has overtaken us meanwhile.
#[tokio::test(start_paused = true)]
async fn after_versions_went_back_within_a_watch_nothing_of_the_cache_is_used_for_the_next_list() {
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
    let builder = Reflector::of_decoded_objects(source.clone()).backoff(exact());
    let running = start(builder.known_objects(Arc::new(recorder.clone())), recorder);
    seconds(5.0).await;

    assert_eq!(*running.recorder.object("a").unwrap(), 2);
    running.stop().await;
}

/// B7, K#83651: a limit beside a version would mean that very version, for ever.
#[tokio::test(start_paused = true)]
async fn a_page_of_a_version_may_be_of_a_newer_one() {
    let server = server_at_10();
    server.put("configmaps", config_map("a", "1")).unwrap();
    server.inject(On::watch().of("configmaps").once(), Fault::ErrorEvent { after: 0, code: 410 });
    let recorder = Recorder::<ConfigMap>::new();
    let builder = Reflector::builder(config_maps(&server));
    let running = start(builder.backoff(exact()).without_streaming().page_size(20), recorder);
    running.until("Replaced@11 [shop/a@11]").await;
    server.put("configmaps", config_map("b", "1")).unwrap();
    running.until("Replaced@12 [shop/a@11 shop/b@12]").await;

    let requests = server.requests();
    let list = requests.iter().find(|request| request.to_string() == "L(11, 20)").unwrap();
    assert_eq!(list.resource_version_match, "NotOlderThan");
    running.stop().await;
}

/// RE-33: any event but ADDED says that what exists was told.
#[tokio::test(start_paused = true)]
async fn a_bookmark_or_a_delete_ends_the_part_without_order_as_well() {
    for ends_with_delete in [true, false] {
        let source = ScriptedSource::new();
        source.on_list(list("0", &[]));
        let watch = ScriptedWatch::new().added(ready("a", 9)).added(ready("b", 3));
        let watch = if ends_with_delete { watch.deleted(ready("a", 12)) } else { watch.bookmark("12") };
        source.on_watch(watch.added(ready("c", 13)));
        source.on_watch(open_watch());
        let running = run_exactly(&source);
        settle().await;

        assert_eq!(source.requests(), ["L(0, 500)", "W(0)", "W(13)"]);
        assert_eq!(running.handle.status().events, 4);
        running.stop().await;
    }
}
