//! Versions that go back: whoever lags is asked again, whoever really went back is believed.

use std::sync::Arc;
use std::time::Duration;

use informant::Cached;
use informant::Identity;
use informant::Key;
use informant::listwatch::Reflector;
use informant::listwatch::ScriptedList;
use informant::listwatch::ScriptedSource;
use informant::listwatch::ScriptedWatch;

use super::support::Recorder;
use super::support::exact;
use super::support::list;
use super::support::pauses;
use super::support::ready;
use super::support::run_with;
use super::support::says;
use super::support::seconds;
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
    assert_eq!(running.handle.status().rewinds, 0);
    running.stop().await;
}

/// Of the decision on rewinds: an etcd restore looks like this.
#[tokio::test(start_paused = true)]
async fn a_server_that_went_back_is_believed_and_nothing_of_the_cache_is_used_again() {
    let object = |content: u32| {
        let identity = Identity { key: Key::cluster("a"), uid: "u1".into(), version: "50".into() };
        Cached::new(identity, content)
    };
    let source = ScriptedSource::<u32>::new();
    source.on_list(ScriptedList::at("100").object(object(1)));
    source.on_watch(ScriptedWatch::new().breaks(says(400, "BadRequest")));
    source.on_list(ScriptedList::at("60").object(object(2)));
    source.on_list(ScriptedList::at("61").object(object(3)));
    source.on_watch(ScriptedWatch::new().stays_open());
    let recorder = Recorder::new();
    let builder = Reflector::of_ready_objects(source.clone(), recorder.clone()).backoff(exact());
    let running = start(builder.known_objects(Arc::new(recorder.clone())), recorder);
    seconds(3.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(100)", "L(100, no limit)", "L(\"\", 500)", "W(61)"]);
    assert_eq!(running.handle.status().rewinds, 1);
    assert_eq!(running.handle.status().version, Some("61".into()));
    let content = running.recorder.object("a").unwrap();
    assert_eq!(**content, 3, "the same uid and version, but another content");
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
    assert_eq!(running.handle.status().rewinds, 1);
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
    let object = |name: &str| Cached::new(Identity::of_key(Key::cluster(name)), ());
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
