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
        let running = run(&source);
        seconds(1.0).await;

        assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "W(10)"], "{damaged}");
        assert_eq!(running.told(), ["Replaced@10 [a@1]", "Deleted a@11"]);
        assert!(running.last_error().contains("an object that cannot be told"), "{}", running.last_error());
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
        let running = run(&source);
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
    let running = run(&source);
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
    let running = start(Reflector::builder(config_maps(&server), recorder.clone()).backoff(exact()), recorder);
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
    let running = start(Reflector::builder(config_maps(&server), recorder.clone()).backoff(exact()), recorder);
    running.recorder.until(|lines, _| lines.len() == 2).await;

    assert_eq!(running.told(), ["Replaced@11 [shop/a@11]"; 2]);
    assert_eq!(server.requests_for("configmaps")[..3], ["WL(\"\")", "WL(11)", "L(11, no limit)"]);
    running.stop().await;
}

/// P1, P10: how long it takes to open a watch says nothing of its use.
#[tokio::test(start_paused = true)]
async fn watches_that_are_slow_to_open_and_then_fail_are_delayed_and_lead_to_a_list() {
    let slow = Duration::from_millis(1100);
    for garbled in [true, false] {
        let source = ScriptedSource::new();
        source.on_list(list("10", &[]));
        for _ in 0..5 {
            let watch = ScriptedWatch::new().after(slow);
            source.on_watch(if garbled { watch.bytes("garbage\n") } else { watch.breaks(super::support::lost()) });
        }
        source.on_list(list("20", &[]));
        source.on_watch(open_watch());
        let running = run(&source);
        seconds(60.0).await;

        assert_eq!(source.requests()[5..], ["W(10)", "L(10, no limit)", "W(20)"]);
        assert_eq!(pauses(&source)[1..4], [1.9, 2.7, 4.3]);
        running.stop().await;
    }
}

fn versioned(content: u32) -> Cached<u32> {
    Cached::new(Identity { key: Key::cluster("a"), uid: "u1".into(), version: "70".into() }, content)
}

/// Of a list whose version turns out to be older, what was taken from the cache on the way may not be kept.
#[tokio::test(start_paused = true)]
async fn a_list_that_turns_out_to_be_of_a_server_that_went_back_is_read_once_more_without_the_cache() {
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
        let builder = Reflector::of_ready_objects(source.clone(), recorder.clone()).backoff(exact());
        let running = start(builder.known_objects(Arc::new(recorder.clone())), recorder);
        seconds(10.0).await;

        assert_eq!(source.requests(), expected);
        assert_eq!(**running.recorder.object("a").unwrap(), 3);
        assert_eq!(running.handle.status().rewinds, 1);
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
    let builder = Reflector::of_ready_objects(source.clone(), recorder.clone()).backoff(exact());
    let running = start(builder.known_objects(Arc::new(recorder.clone())), recorder);
    seconds(1.0).await;
    assert_eq!(**running.recorder.object("a").unwrap(), 2);
    seconds(5.0).await;

    assert_eq!(running.handle.status().version, Some("106".into()));
    assert_eq!(**running.recorder.object("a").unwrap(), 2, "the same state, taken from the cache");
    running.stop().await;
}

/// P10: one immediate repeat in a round, for whatever reason.
#[tokio::test(start_paused = true)]
async fn a_round_repeats_a_request_at_once_only_once_for_whatever_reason() {
    let source = ScriptedSource::new();
    source.on_list(list("100", &[]));
    source.on_watch(ScriptedWatch::new().breaks(SourceError::expired()));
    // Older than what was seen; then a page that expires.
    source.on_list(list("60", &[]));
    source.on_list(list("101", &[]).more("C1"));
    source.on_list(ScriptedList::fails(SourceError::expired()));
    source.on_list(list("102", &[]).more("C1"));
    source.on_list(list("102", &[]));
    source.on_watch(open_watch());
    let running = run(&source);
    seconds(10.0).await;

    let page = "L(\"\", 500)";
    let next = "L(\"\", 500, C1)";
    assert_eq!(source.requests()[2..], ["L(100, no limit)", page, next, page, next, "W(102)"]);
    assert_eq!(pauses(&source)[2..], [0.0, 0.0, 1.6, 0.0, 0.0]);
    running.stop().await;
}

/// The server's wish comes in the header, or in the status.
#[tokio::test(start_paused = true)]
async fn how_long_to_wait_is_read_from_header_and_status() {
    let body = r#"{"kind":"Status","status":"Failure","reason":"TooManyRequests","details":{"retryAfterSeconds":9}}"#;
    let answers = [Fault::too_many_requests(Duration::from_secs(9)), Fault::Answer(Canned::new(429, body))];
    for answer in answers {
        let server = server_at_10();
        server.inject(On::list().of("configmaps").once(), answer);
        let recorder = Recorder::<ConfigMap>::new();
        let builder = Reflector::builder(config_maps(&server), recorder.clone()).without_streaming();
        let running = start(builder.backoff(exact()), recorder);
        running.until("Replaced@10 []").await;

        let log = server.requests();
        assert_eq!((log[1].at - log[0].at).as_secs(), 9);
        assert_eq!(running.handle.status().last_error.unwrap().source.code(), Some(429));
        running.stop().await;
    }
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
    let running = run(&source);
    seconds(0.9).await;
    assert!(running.told().is_empty());
    seconds(0.2).await;

    assert_eq!(running.told(), ["Replaced@10 []"]);
    running.stop().await;
}

/// Discovery is believed if it says something.
#[tokio::test(start_paused = true)]
async fn discovery_that_says_nothing_empties_nothing() {
    for body in ["{}", r#"{"groupVersion":"v1","resources":[]}"#, r#"{"groupVersion":"apps/v1","resources":[]}"#] {
        let server = server_at_10();
        server.put("configmaps", config_map("a", "1")).unwrap();
        server.inject(On::watch().of("configmaps").once(), Fault::freeze_after_events(2));
        let recorder = Recorder::<ConfigMap>::new();
        let running = start(Reflector::builder(config_maps(&server), recorder.clone()).backoff(exact()), recorder);
        running.until("Replaced@11 [shop/a@11]").await;
        server.inject(On::any().of("configmaps"), Fault::status(404));
        server.inject(On::verbs([informant_apiserver::Verb::Discover]), Fault::Answer(Canned::new(200, body)));
        seconds(3000.0).await;

        assert_eq!(running.recorder.state(), ["shop/a@11"], "{body}");
        running.stop().await;
    }
}

/// What discovery said long ago counts nothing.
#[tokio::test(start_paused = true)]
async fn a_kind_that_was_denied_before_other_trouble_is_asked_for_again() {
    let source = ScriptedSource::new();
    source.serves(Served::No);
    source.on_list(list("10", &[("a", 1)]));
    source.on_watch(ScriptedWatch::fails(says(404, "NotFound")));
    source.on_list(ScriptedList::fails(says(404, "NotFound")));
    source.on_list(ScriptedList::fails(says(503, "ServiceUnavailable")));
    source.on_list(ScriptedList::fails(says(404, "NotFound")));
    let running = run(&source);
    seconds(3.0).await;
    source.serves(Served::Yes);
    seconds(60.0).await;

    assert_eq!(running.told(), ["Replaced@10 [a@1]"]);
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
    let running = run(&source);
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

/// A destination that is full for long does not make a watch silent.
#[tokio::test(start_paused = true)]
async fn a_consumer_that_is_slow_for_long_does_not_cost_the_watch() {
    let source = ScriptedSource::<()>::new();
    source.on_list(list("10", &[]));
    let mut watch = ScriptedWatch::new().wait(Duration::from_secs(1));
    for number in 0..20 {
        watch = watch.added(ready(&format!("o{number}"), 11 + number));
    }
    source.on_watch(watch.stays_open());
    let queue = informant::queue::InOrderFifo::builder().batch_size(2.try_into().unwrap()).build();
    let reflector = Reflector::of_ready_objects(source.clone(), queue.clone()).build();
    let task = tokio::spawn(reflector.run(std::future::pending()));
    let receipt = queue.drain().await.unwrap();
    seconds(3000.0).await;
    receipt.done();
    let mut seen = 0;
    while seen < 20 {
        let receipt = queue.drain().await.unwrap();
        seen += receipt.items().len();
        receipt.done();
    }
    seconds(60.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)"]);
    task.abort();
}

/// P9: also a single watch, and a single stream.
#[tokio::test(start_paused = true)]
async fn a_watch_or_stream_that_is_always_ready_lets_others_run() {
    for streams in [true, false] {
        let source = ScriptedSource::<()>::new();
        let events = (1..20_000).fold(ScriptedWatch::new(), |watch, number| watch.added(ready("a", 10 + number)));
        match streams {
            true => source.on_stream(events.list_ends("30000").stays_open()),
            false => {
                source.on_list(list("10", &[]));
                source.on_watch(events.stays_open());
            }
        }
        let reflector = Reflector::of_ready_objects(source.clone(), Recorder::new()).build();
        let handle = reflector.handle();
        let task = tokio::spawn(reflector.run(std::future::pending()));
        let mut yields = 0;
        while handle.status().version.is_none_or(|version| version.as_str().len() < 5) {
            tokio::task::yield_now().await;
            yields += 1;
        }

        assert!(yields > 50, "{yields}");
        task.abort();
    }
}

/// Nobody means it, but it must not spin.
#[tokio::test(start_paused = true)]
async fn a_backoff_of_nothing_waits_all_the_same() {
    let source = ScriptedSource::new();
    for _ in 0..5000 {
        source.on_list(ScriptedList::fails(says(500, "InternalError")));
    }
    let backoff = informant::listwatch::Backoff::new(Duration::ZERO, Duration::ZERO);
    let running = run_with(&source, |builder| builder.backoff(backoff));
    seconds(0.1).await;

    assert!(source.requests().len() < 150, "{}", source.requests().len());
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
