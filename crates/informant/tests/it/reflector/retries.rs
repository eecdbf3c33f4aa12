//! Retries, delays and timeouts: the reflector does not spin, does not hang, and yields to other tasks.

use std::time::Duration;

use informant::{
    error::SourceError,
    factory::Activity,
    pipeline::{Backoff, Reflector},
    testing::{ScriptedList, ScriptedSource, ScriptedWatch},
};
use informant_apiserver::{CannedResponse, Fault, On};
use k8s_openapi::api::core::v1::ConfigMap;

use super::kube_source::config_maps;
use crate::support::reflector::{
    Recorder, SmallQueue, backoff_without_jitter, connection_lost, connection_refused, item, list, open_watch,
    run_with, run_without_jitter, seconds_between_requests, server_at_10, sleep_seconds, start, status_error,
};

/// P10
#[tokio::test(start_paused = true)]
async fn watches_that_end_after_events_without_a_version_are_not_reopened_at_once() {
    for line in [r#"{"type":"BOOKMARK","object":{}}"#, r#"{"type":"HELLO","object":{}}"#] {
        let source = ScriptedSource::new();
        source.on_list(list("10", &[]));
        for _ in 0..1000 {
            source.on_watch(ScriptedWatch::new().bytes(format!("{line}\n")));
        }
        let running = run_without_jitter(&source);
        sleep_seconds(0.5).await;

        assert_eq!(source.requests(), ["L(0, 500)", "W(10)"]);
        assert_eq!(running.lines(), ["Replaced@10 []"], "an empty version is not passed on");
        running.stop().await;
    }
}

/// P9: the reflector can be stopped although its source is always ready.
#[tokio::test(start_paused = true)]
async fn the_reflector_yields_to_other_tasks_if_its_source_is_always_ready() {
    let source = ScriptedSource::<()>::new();
    let objects = (0..10_000).map(|number| item(&format!("o{number}"), number));
    source.on_list(objects.fold(ScriptedList::at("10000"), ScriptedList::object));
    for number in 10_001..20_000 {
        source.on_watch(ScriptedWatch::new().added(item("a", number)));
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

/// P9
#[tokio::test(start_paused = true)]
async fn the_reflector_yields_to_other_tasks_during_one_watch_or_streamed_list_that_is_always_ready() {
    for streams in [true, false] {
        let source = ScriptedSource::<()>::new();
        let events = (1..20_000).fold(ScriptedWatch::new(), |watch, number| watch.added(item("a", 10 + number)));
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
async fn a_list_whose_continue_tokens_repeat_in_a_circle_fails() {
    let source = ScriptedSource::new();
    for token in ["A", "B", "A", "B", "A", "B"] {
        source.on_list(list("10", &[]).more(token));
    }
    let running = run_without_jitter(&source);
    sleep_seconds(0.5).await;

    assert_eq!(source.requests(), ["L(0, 500)", "L(\"\", 500, A)", "L(\"\", 500, B)"]);
    running.stop().await;
}

/// P1, P10: the time until the watch is open does not count as progress.
#[tokio::test(start_paused = true)]
async fn watches_that_open_slowly_and_then_fail_are_delayed_and_lead_to_a_relist() {
    let slow = Duration::from_millis(1100);
    for garbled in [true, false] {
        let source = ScriptedSource::new();
        source.on_list(list("10", &[]));
        for _ in 0..5 {
            let watch = ScriptedWatch::new().after(slow);
            source.on_watch(if garbled { watch.bytes("garbage\n") } else { watch.breaks(connection_lost()) });
        }
        source.on_list(list("20", &[]));
        source.on_watch(open_watch());
        let running = run_without_jitter(&source);
        sleep_seconds(60.0).await;

        assert_eq!(source.requests()[5..], ["W(10)", "L(10, no limit)", "W(20)"]);
        assert_eq!(seconds_between_requests(&source)[1..4], [1.9, 2.7, 4.3]);
        running.stop().await;
    }
}

/// P10
#[tokio::test(start_paused = true)]
async fn a_round_has_one_immediate_retry_whatever_the_reasons() {
    let source = ScriptedSource::new();
    source.on_list(list("100", &[]));
    source.on_watch(ScriptedWatch::new().breaks(SourceError::expired()));
    // This list is older than the reached version; then a page expires.
    source.on_list(list("60", &[]));
    source.on_list(list("101", &[]).more("C1"));
    source.on_list(ScriptedList::fails(SourceError::expired()));
    source.on_list(list("102", &[]).more("C1"));
    source.on_list(list("102", &[]));
    source.on_watch(open_watch());
    let running = run_without_jitter(&source);
    sleep_seconds(10.0).await;

    let page = "L(\"\", 500)";
    let next = "L(\"\", 500, C1)";
    assert_eq!(source.requests()[2..], ["L(100, no limit)", page, next, page, next, "W(102)"]);
    assert_eq!(seconds_between_requests(&source)[2..], [0.0, 0.0, 0.8, 0.0, 0.0]);
    running.stop().await;
}

/// The server sends the delay in the header `Retry-After` or in the details of the status.
#[tokio::test(start_paused = true)]
async fn the_retry_delay_is_read_from_header_and_status() {
    let body = r#"{"kind":"Status","status":"Failure","reason":"TooManyRequests","details":{"retryAfterSeconds":9}}"#;
    let answers = [Fault::too_many_requests(Duration::from_secs(9)), Fault::Response(CannedResponse::new(429, body))];
    for answer in answers {
        let server = server_at_10();
        server.inject(On::list().of("configmaps").once(), answer);
        let recorder = Recorder::<ConfigMap>::new();
        let builder = Reflector::builder(config_maps(&server)).without_streaming();
        let running = start(builder.backoff(backoff_without_jitter()), recorder);
        running.wait_for_line("Replaced@10 []").await;

        let log = server.requests();
        assert_eq!((log[1].at - log[0].at).as_secs(), 9);
        assert_eq!(running.handle.status().last_error.unwrap().source.code(), Some(429));
        running.stop().await;
    }
}

/// The idle timeout does not count the time in which the reflector waits for room in the queue.
#[tokio::test(start_paused = true)]
async fn a_watch_survives_a_slow_consumer() {
    let source = ScriptedSource::<()>::new();
    source.on_list(list("10", &[]));
    let mut watch = ScriptedWatch::new().wait(Duration::from_secs(1));
    for number in 0..20 {
        watch = watch.added(item(&format!("o{number}"), 11 + number));
    }
    source.on_watch(watch.stays_open());
    let destination = SmallQueue::default();
    let reflector = Reflector::of_decoded_objects(source.clone()).build(destination.clone());
    let task = tokio::spawn(reflector.run(std::future::pending()));
    sleep_seconds(3000.0).await;
    assert!(destination.queue.len() < 20, "the reflector waits for room");
    let mut seen = 0;
    while seen < 20 {
        let batch = destination.queue.drain().await.unwrap();
        seen += batch.items().len();
        batch.acknowledge();
        destination.taken.notify_one();
    }
    sleep_seconds(60.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)"]);
    task.abort();
}

/// The setting is a mistake, but the reflector must not spin.
#[tokio::test(start_paused = true)]
async fn a_backoff_of_zero_still_delays_retries() {
    let source = ScriptedSource::new();
    for _ in 0..5000 {
        source.on_list(ScriptedList::fails(status_error(500, "InternalError")));
    }
    let backoff = Backoff::new(Duration::ZERO, Duration::ZERO);
    let running = run_with(&source, |builder| builder.backoff(backoff));
    sleep_seconds(0.1).await;

    assert!(source.requests().len() < 150, "{}", source.requests().len());
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn durations_may_be_duration_max() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::new().list_ends("10").stays_open());
    let running = run_with(&source, |builder| {
        builder.resync_every(Duration::MAX).backoff(Backoff::new(Duration::MAX, Duration::MAX))
    });
    sleep_seconds(1.0).await;

    assert!(matches!(running.handle.status().activity, Activity::Watching));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_idle_timeout_ends_at_most_30_seconds_after_the_requested_duration_of_a_watch() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    let bookmarks = ScriptedWatch::new().bookmark("11").wait(Duration::from_secs(290)).bookmark("12");
    source.on_watch(bookmarks.stays_open());
    source.on_watch(open_watch());
    let running = run_without_jitter(&source);
    source.wait_for_requests(3).await;

    let pause = seconds_between_requests(&source)[1] - 290.0;
    assert!((330.0..=630.0).contains(&pause), "{pause}");
    running.stop().await;
}

/// The time between two watches does not count as a pause between bookmarks.
#[tokio::test(start_paused = true)]
async fn the_idle_timeout_does_not_grow_with_an_outage() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    let minute = Duration::from_secs(60);
    source.on_watch(ScriptedWatch::new().bookmark("11").wait(minute).bookmark("12").breaks(connection_refused()));
    for _ in 0..12 {
        source.on_watch(ScriptedWatch::fails(connection_refused()));
    }
    source.on_watch(ScriptedWatch::new().bookmark("13").stays_open());
    source.on_watch(open_watch());
    let running = run_without_jitter(&source);
    source.wait_for_requests(16).await;

    assert_eq!(
        seconds_between_requests(&source)[14],
        180.0,
        "the idle timeout is three minutes, not three times the outage"
    );
    running.stop().await;
}
