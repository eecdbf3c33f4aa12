//! It never spins, never hangs, and lets others run.

use std::time::Duration;

use informant::listwatch::Activity;
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
use super::support::exact;
use super::support::list;
use super::support::open_watch;
use super::support::pauses;
use super::support::ready;
use super::support::refused;
use super::support::run_exactly;
use super::support::run_with;
use super::support::says;
use super::support::seconds;
use super::support::server_at_10;
use super::support::start;

/// P10
#[tokio::test(start_paused = true)]
async fn events_that_say_nothing_do_not_make_it_spin() {
    for line in [r#"{"type":"BOOKMARK","object":{}}"#, r#"{"type":"HELLO","object":{}}"#] {
        let source = ScriptedSource::new();
        source.on_list(list("10", &[]));
        for _ in 0..1000 {
            source.on_watch(ScriptedWatch::new().bytes(format!("{line}\n")));
        }
        let running = run_exactly(&source);
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
    let reflector = Reflector::of_decoded_objects(source.clone()).build(Recorder::new());
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
        let reflector = Reflector::of_decoded_objects(source.clone()).build(Recorder::new());
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

/// P10
#[tokio::test(start_paused = true)]
async fn continue_tokens_that_go_in_a_circle_are_found_out() {
    let source = ScriptedSource::new();
    for token in ["A", "B", "A", "B", "A", "B"] {
        source.on_list(list("10", &[]).more(token));
    }
    let running = run_exactly(&source);
    seconds(0.5).await;

    assert_eq!(source.requests(), ["L(0, 500)", "L(\"\", 500, A)", "L(\"\", 500, B)"]);
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
        let running = run_exactly(&source);
        seconds(60.0).await;

        assert_eq!(source.requests()[5..], ["W(10)", "L(10, no limit)", "W(20)"]);
        assert_eq!(pauses(&source)[1..4], [1.9, 2.7, 4.3]);
        running.stop().await;
    }
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
    let running = run_exactly(&source);
    seconds(10.0).await;

    let page = "L(\"\", 500)";
    let next = "L(\"\", 500, C1)";
    assert_eq!(source.requests()[2..], ["L(100, no limit)", page, next, page, next, "W(102)"]);
    assert_eq!(pauses(&source)[2..], [0.0, 0.0, 0.8, 0.0, 0.0]);
    running.stop().await;
}

/// The server's wish comes in the header, or in the status.
#[tokio::test(start_paused = true)]
async fn how_long_to_wait_is_read_from_header_and_status() {
    let body = r#"{"kind":"Status","status":"Failure","reason":"TooManyRequests","details":{"retryAfterSeconds":9}}"#;
    let answers = [Fault::too_many_requests(Duration::from_secs(9)), Fault::Response(CannedResponse::new(429, body))];
    for answer in answers {
        let server = server_at_10();
        server.inject(On::list().of("configmaps").once(), answer);
        let recorder = Recorder::<ConfigMap>::new();
        let builder = Reflector::builder(config_maps(&server)).without_streaming();
        let running = start(builder.backoff(exact()), recorder);
        running.until("Replaced@10 []").await;

        let log = server.requests();
        assert_eq!((log[1].at - log[0].at).as_secs(), 9);
        assert_eq!(running.handle.status().last_error.unwrap().source.code(), Some(429));
        running.stop().await;
    }
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
    let reflector = Reflector::of_decoded_objects(source.clone()).build(queue.clone());
    let task = tokio::spawn(reflector.run(std::future::pending()));
    let receipt = queue.drain().await.unwrap();
    seconds(3000.0).await;
    receipt.acknowledge();
    let mut seen = 0;
    while seen < 20 {
        let receipt = queue.drain().await.unwrap();
        seen += receipt.items().len();
        receipt.acknowledge();
    }
    seconds(60.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)"]);
    task.abort();
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

#[tokio::test(start_paused = true)]
async fn whoever_means_never_can_say_so() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::new().list_ends("10").stays_open());
    let running = run_with(&source, |builder| {
        builder
            .resync_every(Duration::MAX)
            .streaming_deadline(Duration::MAX)
            .watch_timeout(Duration::MAX)
            .idle_timeout(Duration::MAX)
            .backoff(informant::listwatch::Backoff::new(Duration::MAX, Duration::MAX))
    });
    seconds(1.0).await;

    assert!(matches!(running.handle.status().activity, Activity::Watching));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_watch_is_not_given_more_time_than_it_could_live() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    let bookmarks = ScriptedWatch::new().bookmark("11").wait(Duration::from_secs(290)).bookmark("12");
    source.on_watch(bookmarks.stays_open());
    source.on_watch(open_watch());
    let running = run_exactly(&source);
    source.wait_for_requests(3).await;

    let pause = pauses(&source)[1] - 290.0;
    assert!((330.0..=630.0).contains(&pause), "{pause}");
    running.stop().await;
}

/// The time between two watches is no pause between bookmarks.
#[tokio::test(start_paused = true)]
async fn the_watchdog_does_not_learn_from_an_outage() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    let minute = Duration::from_secs(60);
    source.on_watch(ScriptedWatch::new().bookmark("11").wait(minute).bookmark("12").breaks(refused()));
    for _ in 0..12 {
        source.on_watch(ScriptedWatch::fails(refused()));
    }
    source.on_watch(ScriptedWatch::new().bookmark("13").stays_open());
    source.on_watch(open_watch());
    let running = run_exactly(&source);
    source.wait_for_requests(16).await;

    assert_eq!(pauses(&source)[14], 180.0, "three minutes, not three times the outage");
    running.stop().await;
}

/// RE-49: a predicate that panics says no.
#[tokio::test(start_paused = true)]
async fn a_predicate_that_panics_stops_nothing() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    source.on_watch(ScriptedWatch::new().wait(Duration::from_secs(25)).added(ready("a", 11)).stays_open());
    let running =
        run_with(&source, |builder| builder.resync_every_if(Duration::from_secs(10), || panic!("I cannot say")));
    seconds(30.0).await;

    assert_eq!(running.told(), ["Replaced@10 []", "Added a@11"]);
    running.stop().await;
}
