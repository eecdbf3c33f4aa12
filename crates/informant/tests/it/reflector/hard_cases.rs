//! What a source or server may do to us that is not in any book.

use std::sync::Arc;
use std::time::Duration;

use informant::Cached;
use informant::Identity;
use informant::Key;
use informant::Lazy;
use informant::listwatch::Activity;
use informant::listwatch::Reflector;
use informant::listwatch::ScriptedList;
use informant::listwatch::ScriptedSource;
use informant::listwatch::ScriptedWatch;
use informant::listwatch::Served;
use informant::listwatch::SourceError;
use informant_apiserver::Canned;
use informant_apiserver::Fault;
use informant_apiserver::On;
use k8s_openapi::api::core::v1::ConfigMap;

use super::kube_source::config_maps;
use super::support::Recorder;
use super::support::Running;
use super::support::config_map;
use super::support::exact;
use super::support::list;
use super::support::pauses;
use super::support::ready;
use super::support::refused;
use super::support::run_with;
use super::support::says;
use super::support::seconds;
use super::support::server_at_10;
use super::support::settle;
use super::support::start;

fn run(source: &ScriptedSource<()>) -> Running<()> {
    run_with(source, |builder| builder.backoff(exact()))
}

fn open_watch() -> ScriptedWatch<()> {
    ScriptedWatch::new().stays_open()
}

/// P10
#[tokio::test(start_paused = true)]
async fn events_that_say_nothing_do_not_make_it_spin() {
    for line in [r#"{"type":"BOOKMARK","object":{}}"#, r#"{"type":"HELLO","object":{}}"#] {
        let source = ScriptedSource::new();
        source.on_list(list("10", &[]));
        for _ in 0..1000 {
            source.on_watch(ScriptedWatch::new().bytes(format!("{line}\n")));
        }
        let running = run(&source);
        seconds(0.5).await;

        assert_eq!(source.requests(), ["L(0, 500)", "W(10)"]);
        assert_eq!(running.told(), ["Replaced@10 []"], "and nobody is told of no version");
        running.stop().await;
    }
}

/// P9: a source that is always ready cannot keep it from being stopped.
#[tokio::test(start_paused = true)]
async fn a_source_that_is_always_ready_lets_others_run() {
    let source = ScriptedSource::<()>::new();
    let objects = (0..10_000).map(|number| ready(&format!("o{number}"), number));
    source.on_list(objects.fold(ScriptedList::at("10000"), ScriptedList::object));
    for number in 10_001..20_000 {
        source.on_watch(ScriptedWatch::new().added(ready("a", number)));
    }
    let reflector = Reflector::of_ready_objects(source.clone(), Recorder::new()).build();
    let handle = reflector.handle();
    let task = tokio::spawn(reflector.run(std::future::pending()));
    let (mut while_listing, mut while_watching) = (0, 0);
    while handle.status().watches < 9_999 {
        tokio::task::yield_now().await;
        if handle.status().lists == 0 { while_listing += 1 } else { while_watching += 1 }
    }

    assert!(while_listing > 50 && while_watching > 50, "{while_listing} {while_watching}");
    task.abort();
}

/// P10
#[tokio::test(start_paused = true)]
async fn continue_tokens_that_go_in_a_circle_are_found_out() {
    let source = ScriptedSource::new();
    for token in ["A", "B", "A", "B", "A", "B"] {
        source.on_list(list("10", &[]).more(token));
    }
    let running = run(&source);
    seconds(0.5).await;

    assert_eq!(source.requests(), ["L(0, 500)", "L(\"\", 500, A)", "L(\"\", 500, B)"]);
    running.stop().await;
}

/// P1
#[tokio::test(start_paused = true)]
async fn a_stream_that_is_never_available_gives_way_to_a_list() {
    let source = ScriptedSource::new();
    for _ in 0..10 {
        source.on_stream(ScriptedWatch::fails(SourceError::expired()));
    }
    source.on_list(list("10", &[]));
    source.on_watch(open_watch());
    let running = run(&source);
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
    let running = run(&source);
    seconds(301.0).await;

    assert_eq!(source.requests(), ["WL(\"\")", "L(0, 500)", "W(100)"]);
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

/// A list that does not say which version it is of, after one that did, is none; and nothing is lost.
#[tokio::test(start_paused = true)]
async fn a_list_without_a_version_empties_nothing() {
    for body in [r#"{"kind":"ConfigMapList"}"#, r#"{"items":null}"#, r#"{"items":[]}"#] {
        let server = server_at_10();
        server.put("configmaps", config_map("a", "1")).unwrap();
        server.inject(On::watch().of("configmaps").once(), Fault::ErrorEvent { after: 0, code: 410 });
        server.inject(On::list().of("configmaps").skip(1).once(), Fault::Answer(Canned::new(200, body)));
        let recorder = Recorder::<Lazy<ConfigMap>>::new();
        let builder = Reflector::builder(config_maps(&server), recorder.clone());
        let running = start(builder.backoff(exact()).without_streaming(), recorder);
        running.recorder.until(|lines, _| lines.len() == 2).await;

        assert_eq!(running.told(), ["Replaced@11 [shop/a@11]"; 2], "{body}");
        assert_eq!(running.errors(), ["listing configmaps failed: the list does not say which version it is of"]);
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
    let running = run(&source);
    seconds(1.0).await;

    assert_eq!(source.requests(), ["WL(\"\")", "WL(10)", "L(10, no limit)", "W(12)"]);
    assert_eq!(running.told(), ["Replaced@10 [a@5]", "Replaced@12 [a@5]"]);
    running.stop().await;
}

/// P1, P5: a damaged event that may be of any object comes once more.
#[tokio::test(start_paused = true)]
async fn an_event_that_is_damaged_beyond_recognition_is_asked_for_again() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[("a", 1)]));
    let damaged = "{\"type\":\"DELETED\",\"object\":{\"metadata\":{\"name\":\"\u{1}\"}}}\n";
    source.on_watch(ScriptedWatch::new().bytes(damaged).stays_open());
    source.on_watch(ScriptedWatch::new().deleted(ready("a", 11)).stays_open());
    let running = run(&source);
    seconds(1.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "W(10)"]);
    assert_eq!(running.told(), ["Replaced@10 [a@1]", "Deleted a@11"]);
    assert!(running.last_error().contains("an event of an object that cannot be told"), "{}", running.last_error());
    running.stop().await;
}

/// A server that went back and has overtaken us meanwhile.
#[tokio::test(start_paused = true)]
async fn after_versions_went_back_within_a_watch_nothing_of_the_cache_is_used_for_the_next_list() {
    let object = |content: u32| {
        let identity = Identity { key: Key::cluster("a"), uid: "u1".into(), version: "70".into() };
        Cached::new(identity, content)
    };
    let newcomer = Cached::new(Identity { key: Key::cluster("b"), uid: "u2".into(), version: "61".into() }, 0);
    let source = ScriptedSource::<u32>::new();
    source.on_list(ScriptedList::at("100").object(object(1)));
    source.on_watch(ScriptedWatch::new().added(newcomer));
    source.on_list(ScriptedList::at("105").object(object(2)));
    source.on_watch(ScriptedWatch::new().stays_open());
    let recorder = Recorder::new();
    let builder = Reflector::of_ready_objects(source.clone(), recorder.clone()).backoff(exact());
    let running = start(builder.known_objects(Arc::new(recorder.clone())), recorder);
    seconds(5.0).await;

    assert_eq!(**running.recorder.object("a").unwrap(), 2);
    running.stop().await;
}

/// B7, K#83651: a limit beside a version would mean that very version, for ever.
#[tokio::test(start_paused = true)]
async fn a_page_of_a_version_may_be_of_a_newer_one() {
    let server = server_at_10();
    server.put("configmaps", config_map("a", "1")).unwrap();
    server.inject(On::watch().of("configmaps").once(), Fault::ErrorEvent { after: 0, code: 410 });
    let recorder = Recorder::<ConfigMap>::new();
    let builder = Reflector::builder(config_maps(&server), recorder.clone());
    let running = start(builder.backoff(exact()).without_streaming().page_size(20), recorder);
    running.until("Replaced@11 [shop/a@11]").await;
    server.put("configmaps", config_map("b", "1")).unwrap();
    running.until("Replaced@12 [shop/a@11 shop/b@12]").await;

    let requests = server.requests();
    let list = requests.iter().find(|request| request.to_string() == "L(11, 20)").unwrap();
    assert_eq!(list.resource_version_match, "NotOlderThan");
    running.stop().await;
}

/// A 404 alone empties nothing, not even one of everything.
#[tokio::test(start_paused = true)]
async fn a_proxy_that_finds_nothing_at_all_empties_nothing() {
    let server = server_at_10();
    server.put("configmaps", config_map("a", "1")).unwrap();
    server.inject(On::watch().of("configmaps").once(), Fault::freeze_after_events(2));
    let recorder = Recorder::<ConfigMap>::new();
    let running = start(Reflector::builder(config_maps(&server), recorder.clone()).backoff(exact()), recorder);
    running.until("Replaced@11 [shop/a@11]").await;

    let not_found = Canned::new(404, "default backend - 404").header("content-type", "text/plain");
    server.inject(On::any(), Fault::Answer(not_found));
    seconds(3000.0).await;

    assert_eq!(running.recorder.state(), ["shop/a@11"]);
    assert!(!running.handle.status().is_gone);
    assert!(running.errors().last().unwrap().contains("default backend - 404"), "{:?}", running.errors());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_back_when_it_is_asked_for_again_was_never_gone() {
    let source = ScriptedSource::new();
    source.serves(Served::No);
    source.on_list(list("10", &[("a", 1)]));
    source.on_watch(ScriptedWatch::fails(says(404, "NotFound")));
    source.on_list(ScriptedList::fails(says(404, "NotFound")));
    source.on_list(list("12", &[("a", 1)]));
    source.on_watch(open_watch());
    let running = run(&source);
    seconds(60.0).await;

    let requests = ["L(0, 500)", "W(10)", "L(10, no limit)", "is it served?", "L(10, no limit)", "W(12)"];
    assert_eq!(source.requests(), requests);
    assert_eq!(running.told(), ["Replaced@10 [a@1]", "Replaced@12 [a@1]"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_means_never_can_say_so() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::new().list_ends("10").stays_open());
    let running = run_with(&source, |builder| {
        builder
            .resync_every(Duration::MAX)
            .streaming_deadline(Duration::MAX)
            .watch_timeout(Duration::MAX)
            .patience(Duration::MAX)
            .backoff(informant::listwatch::Backoff::new(Duration::MAX, Duration::MAX))
    });
    seconds(1.0).await;

    assert!(matches!(running.handle.status().activity, Activity::Watching));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_listed_twice_first_bad_then_good_is_good() {
    let source = ScriptedSource::new();
    let bad = r#"{"metadata":{"name":"a","uid":"u1","resourceVersion":"4"}}"#;
    source.on_list(ScriptedList::at("10").json(bad).object(ready("a", 5)));
    source.on_watch(open_watch());
    let running = run(&source);
    settle().await;

    assert_eq!(running.told(), ["Replaced@10 [a@5]"]);
    assert!(running.handle.quarantined().is_empty());
    running.stop().await;
}

/// A failure to get anything at all is never silent.
#[tokio::test(start_paused = true)]
async fn a_stream_that_nobody_answers_is_told_of() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::fails(refused()));
    let running = run(&source);
    settle().await;

    assert_eq!(running.errors(), ["streaming the list of objects failed: the connection was refused: nobody is there"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_not_given_more_time_than_it_could_live() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    let bookmarks = ScriptedWatch::new().bookmark("11").wait(Duration::from_secs(290)).bookmark("12");
    source.on_watch(bookmarks.stays_open());
    source.on_watch(open_watch());
    let running = run(&source);
    source.asked(3).await;

    let pause = pauses(&source)[1] - 290.0;
    assert!((330.0..=630.0).contains(&pause), "{pause}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_status_is_right_also_when_a_watch_ends_with_an_error() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    let bookmark = |version: u32| {
        format!("{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{version}\"}}}}}}\n")
    };
    let error = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}}\n";
    source.on_watch(ScriptedWatch::new().bytes(format!("{}{}{error}", bookmark(11), bookmark(12))));
    let running = run(&source);
    settle().await;

    let status = running.handle.status();
    assert_eq!((status.version, status.events), (Some("12".into()), 2));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_status_tells_a_watch_that_is_being_opened_from_a_wait() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    source.on_watch(ScriptedWatch::fails(refused()));
    source.on_watch(open_watch().after(Duration::from_secs(100)));
    let running = run(&source);
    seconds(60.0).await;

    assert!(matches!(running.handle.status().activity, Activity::Opening));
    running.stop().await;
}
