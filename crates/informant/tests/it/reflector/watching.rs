//! Watches: how they resume, which delays they have, and which errors lead to a relist.

use std::time::Duration;

use informant::{
    Cached,
    error::SourceError,
    pipeline::{Backoff, Reflector},
    testing::{ScriptedSource, ScriptedWatch},
};
use informant_apiserver::{ApiServer, Fault, On};
use k8s_openapi::api::core::v1::ConfigMap;

use super::kube_source::config_maps;
use crate::support::{
    Tracked,
    reflector::{
        Recorder, backoff_without_jitter, config_map, connection_lost, connection_refused, item, list, open_watch, run,
        run_with, seconds_between_requests, sleep_seconds, start, status_error, wait_until_idle,
    },
};

/// A source whose first list has version 10 and no objects.
fn source_listed_at_10() -> ScriptedSource<()> {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    source
}

fn count_lists(source: &ScriptedSource<()>) -> usize {
    source.requests().iter().filter(|request| request.starts_with("L(")).count()
}

/// RE-26, RE-31, RE-32, RE-47
#[tokio::test(start_paused = true)]
async fn watch_events_are_passed_on_in_order_and_advance_the_version() {
    let source = source_listed_at_10();
    let watch = ScriptedWatch::new().added(item("a", 11)).modified(item("a", 12)).bookmark("20");
    source.on_watch(watch.deleted(item("a", 21)).stays_open());
    let running = run(&source);
    wait_until_idle().await;

    assert_eq!(running.lines(), ["Replaced@10 []", "Added a@11", "Updated a@12", "Bookmark@20", "Deleted a@21"]);
    let status = running.handle.status();
    assert_eq!((status.version, status.events), (Some("21".into()), 4));
    running.stop().await;
}

/// RE-35
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_after_an_event_is_resumed_at_once() {
    let source = source_listed_at_10();
    source.on_watch(ScriptedWatch::new().added(item("a", 15)));
    source.on_watch(open_watch());
    let running = run(&source);
    wait_until_idle().await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "W(15)"]);
    assert!(running.handle.status().last_error.is_none(), "the end of such a watch is not an error");
    running.stop().await;
}

/// RE-35, RE-37: the second counts from before the request.
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_after_a_second_is_resumed_at_once() {
    let source = source_listed_at_10();
    source.on_watch(ScriptedWatch::new().after(Duration::from_millis(600)).wait(Duration::from_millis(400)));
    source.on_watch(open_watch());
    let running = run(&source);
    sleep_seconds(1.1).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "W(10)"]);
    assert_eq!(seconds_between_requests(&source), [0.0, 1.0]);
    running.stop().await;
}

/// RE-36, HC-27
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_within_a_second_without_an_event_leads_to_a_relist_after_a_delay() {
    let source = source_listed_at_10();
    source.on_watch(ScriptedWatch::new().wait(Duration::from_millis(900)));
    source.on_list(list("11", &[]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(2.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "L(10, no limit)", "W(11)"]);
    assert_eq!(running.last_error(), "watching objects failed: the watch ended after 900 ms without an event");
    assert!(running.errors().is_empty());
    running.stop().await;
}

/// P10: a bookmark of the reached version is no progress.
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_after_a_bookmark_of_the_reached_version_is_not_reopened_at_once() {
    let source = source_listed_at_10();
    source.on_watch(ScriptedWatch::new().bookmark("10"));
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(0.5).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)"]);
    running.stop().await;
}

/// HC-24, HC-27: RE-38
#[tokio::test(start_paused = true)]
async fn a_refused_watch_is_resumed_at_the_same_version_and_not_reported_within_five_seconds() {
    let source = source_listed_at_10();
    source.on_watch(ScriptedWatch::fails(connection_refused()));
    source.on_watch(ScriptedWatch::fails(connection_refused()));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(3.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "W(10)", "W(10)"]);
    assert_eq!(seconds_between_requests(&source), [0.0, 0.8, 1.3]);
    assert!(running.errors().is_empty());
    running.stop().await;
}

/// HC-24: RE-02, with jitter
#[tokio::test(start_paused = true)]
async fn the_default_backoff_adds_jitter_of_up_to_the_delay() {
    let source = source_listed_at_10();
    for _ in 0..3 {
        source.on_watch(ScriptedWatch::new().breaks(status_error(429, "TooManyRequests")));
    }
    let running = run_with(&source, |builder| builder.backoff(Backoff::default()));
    sleep_seconds(12.0).await;

    let times = source.times();
    for (pause, least) in times[1..].windows(2).map(|pair| pair[1] - pair[0]).zip([0.8, 1.6, 3.2]) {
        assert!((least - 0.001..least * 2.0 + 0.002).contains(&pause.as_secs_f64()), "{pause:?} for {least} s");
    }
    assert_eq!(times.len(), 5);
    running.stop().await;
}

/// HC-24: RE-40, RE-38, RE-04
#[tokio::test(start_paused = true)]
async fn status_429_of_a_watch_delays_it_and_leads_to_no_relist() {
    let source = source_listed_at_10();
    for _ in 0..5 {
        source.on_watch(ScriptedWatch::fails(status_error(429, "TooManyRequests")));
    }
    source.on_watch(ScriptedWatch::new().added(item("a", 15)).breaks(status_error(429, "TooManyRequests")));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(60.0).await;

    let watches = ["W(10)", "W(10)", "W(10)", "W(10)", "W(10)", "W(10)", "W(15)"];
    assert_eq!(source.requests()[1..], watches);
    assert_eq!(
        seconds_between_requests(&source),
        [0.0, 0.8, 1.3, 1.3, 1.3, 1.3, 0.8],
        "the last watch delivered an event, which resets the backoff"
    );
    assert_eq!(running.errors().len(), 1, "only the first outage lasts for five seconds");
    running.stop().await;
}

/// HC-25 and RE-03, but the delays do not start again during an outage: the reflector recovers from a short outage within seconds, and
/// does not burden the server in a long one.
#[tokio::test(start_paused = true)]
async fn an_unreachable_server_is_retried_within_two_seconds_at_first_and_less_often_later() {
    let source = source_listed_at_10();
    for _ in 0..250 {
        source.on_watch(ScriptedWatch::fails(connection_refused()));
    }
    source.on_watch(ScriptedWatch::new().wait(Duration::from_secs(300)).breaks(connection_refused()));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(1100.0).await;

    let pauses = seconds_between_requests(&source);
    assert_eq!(pauses[..5], [0.0, 0.8, 1.3, 1.3, 1.3]);
    assert!(pauses[1..96].iter().all(|pause| *pause <= 1.3), "delays stay short for two minutes");
    assert!(pauses[96..250].is_sorted() && pauses[249] > 5.0 && pauses[249] < 30.0, "{pauses:?}");
    assert_eq!(pauses[251], 300.8, "five healthy minutes reset the backoff");
    assert_eq!(count_lists(&source), 1);
    running.stop().await;
}

/// HC-25: RE-05
#[tokio::test(start_paused = true)]
async fn a_configured_backoff_is_used() {
    let source = source_listed_at_10();
    for _ in 0..5 {
        source.on_watch(ScriptedWatch::fails(connection_refused()));
    }
    let backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(100)).without_jitter();
    let running = run_with(&source, |builder| builder.backoff(backoff));
    sleep_seconds(1.0).await;

    let times = source.times();
    assert_eq!((times[6] - times[1]).as_millis(), 250);
    running.stop().await;
}

/// RE-39, RE-06, HC-27: a 410 to the watch request has the same effect as a 410 inside the watch.
#[tokio::test(start_paused = true)]
async fn status_410_to_a_watch_request_leads_to_a_relist() {
    let source = source_listed_at_10();
    source.on_watch(ScriptedWatch::fails(status_error(410, "Expired")));
    source.on_list(list("20", &[]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(1.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "L(10, no limit)", "W(20)"]);
    assert!(running.errors().is_empty(), "the watch works again within five seconds");
    running.stop().await;
}

/// RE-41, HC-27
#[tokio::test(start_paused = true)]
async fn status_410_within_a_watch_leads_to_a_relist_at_the_last_version() {
    let source = source_listed_at_10();
    source.on_watch(ScriptedWatch::new().added(item("a", 15)).breaks(status_error(410, "Expired")));
    source.on_list(list("20", &[]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(1.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "L(15, no limit)", "W(20)"]);
    assert!(running.errors().is_empty());
    running.stop().await;
}

/// RE-42, RE-44, HC-27
#[tokio::test(start_paused = true)]
async fn other_errors_within_a_watch_lead_to_a_relist_and_are_not_reported() {
    for error in
        [status_error(500, "InternalError"), status_error(403, "Forbidden"), SourceError::other("the source gave up")]
    {
        let source = source_listed_at_10();
        source.on_watch(ScriptedWatch::new().added(item("a", 11)).breaks(error));
        source.on_list(list("20", &[]));
        source.on_watch(open_watch());
        let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
        sleep_seconds(1.0).await;

        assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "L(11, no limit)", "W(20)"]);
        assert!(running.errors().is_empty());
        running.stop().await;
    }
}

/// P10: the version stays valid, so a relist is not needed.
#[tokio::test(start_paused = true)]
async fn a_watch_resumes_at_its_version_after_a_lost_connection() {
    let source = source_listed_at_10();
    source.on_watch(ScriptedWatch::new().added(item("a", 11)).breaks(connection_lost()));
    source.on_watch(ScriptedWatch::new().breaks(connection_lost()));
    source.on_watch(ScriptedWatch::fails(connection_lost()));
    source.on_watch(ScriptedWatch::fails(status_error(503, "ServiceUnavailable")));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(10.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "W(11)", "W(11)", "W(11)", "W(11)"]);
    assert_eq!(seconds_between_requests(&source), [0.0, 0.0, 0.8, 0.8, 1.3]);
    running.stop().await;
}

/// P1: lists may still work where watches fail.
#[tokio::test(start_paused = true)]
async fn refused_watches_in_a_row_lead_to_a_relist_once_a_minute() {
    let source = source_listed_at_10();
    for _ in 0..50 {
        source.on_watch(ScriptedWatch::fails(status_error(503, "ServiceUnavailable")));
    }
    source.on_list(list("20", &[]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(70.0).await;

    assert_eq!(source.requests()[50..], ["W(10)", "L(10, no limit)", "W(20)"]);
    assert_eq!(running.errors().len(), 1);
    running.stop().await;
}

/// The reflector waits at most a minute, even if the server asks for more.
#[tokio::test(start_paused = true)]
async fn the_reflector_waits_for_the_retry_delay_of_the_server() {
    let source = source_listed_at_10();
    let wait = |seconds| {
        let status = Box::new(kube::core::Status::failure("wait", "TooManyRequests").with_code(429));
        ScriptedWatch::fails(SourceError::Status { status, retry_after: Some(Duration::from_secs(seconds)) })
    };
    source.on_watch(wait(7));
    source.on_watch(wait(100_000));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(100.0).await;

    assert_eq!(seconds_between_requests(&source), [0.0, 7.0, 60.0]);
    running.stop().await;
}

/// Before it has received bookmarks, the idle timeout is the requested duration of the watch and half a minute.
#[tokio::test(start_paused = true)]
async fn a_watch_without_any_event_is_reopened_after_the_idle_timeout() {
    let source = source_listed_at_10();
    source.on_watch(open_watch());
    source.on_watch(open_watch());
    let running = run(&source);
    sleep_seconds(329.0).await;
    assert_eq!(source.requests(), ["L(0, 500)", "W(10)"]);
    sleep_seconds(302.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "W(10)"]);
    assert_eq!(source.open_watches(), 1, "the idle watch was closed");
    running.stop().await;
}

/// With bookmarks, the idle timeout is three times the longest pause between them, but at least three minutes.
#[tokio::test(start_paused = true)]
async fn a_watch_that_becomes_idle_after_bookmarks_is_resumed_at_its_version() {
    let minute = Duration::from_secs(60);
    let source = source_listed_at_10();
    source.on_watch(
        ScriptedWatch::new().bookmark("11").wait(minute).bookmark("12").wait(minute).bookmark("13").stays_open(),
    );
    source.on_watch(open_watch());
    let running = run(&source);
    sleep_seconds(299.0).await;
    assert_eq!(source.requests(), ["L(0, 500)", "W(10)"]);
    sleep_seconds(2.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "W(13)"]);
    assert_eq!(running.last_error(), "watching objects failed: the connection was silent for 180 seconds");
    running.stop().await;
}

/// RE-48
#[tokio::test(start_paused = true)]
async fn resyncs_are_requested_periodically_while_a_watch_is_open() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]).after(Duration::from_secs(50)));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.resync_every(Duration::from_secs(10)));
    sleep_seconds(59.0).await;
    assert_eq!(running.lines(), ["Replaced@10 []"], "no resync is requested before the first list");

    sleep_seconds(12.0).await;
    assert_eq!(running.lines(), ["Replaced@10 []", "Resync", "Resync"]);
    running.stop().await;
}

/// RE-48
#[tokio::test(start_paused = true)]
async fn a_resync_period_of_zero_disables_resyncs() {
    let source = source_listed_at_10();
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.resync_every(Duration::ZERO));
    sleep_seconds(250.0).await;

    assert_eq!(running.lines(), ["Replaced@10 []"]);
    running.stop().await;
}

/// RE-23: a listed object does not keep the bytes of its list alive.
#[tokio::test(start_paused = true)]
async fn a_lazy_object_does_not_hold_the_response_that_it_was_listed_in() {
    let server = ApiServer::new();
    for number in 0..100 {
        server.put("configmaps", config_map(&format!("c{number:02}"), &"x".repeat(1000))).unwrap();
    }
    let recorder = Recorder::<Tracked<informant::Lazy<ConfigMap>>>::new();
    let builder = Reflector::builder(config_maps(&server)).without_streaming();
    let running = start(builder, recorder);
    running.recorder.wait_until(|_, state| state.len() == 100).await;

    let object: Cached<_> = running.recorder.remove("shop/c50").unwrap();
    assert!(object.object().object.json().unwrap().len() < 2000);
    let watch = object.watch();
    drop(object);
    assert!(watch.upgrade().is_none(), "only the recorder and this test had a handle of the object");
    running.stop().await;
}

/// RE-25
#[tokio::test(start_paused = true)]
async fn the_requested_duration_of_a_watch_is_random_between_five_and_ten_minutes() {
    let server = ApiServer::new();
    server.inject(On::watch().of("configmaps").skip(1).times(20), Fault::status(503));
    let running = start(Reflector::builder(config_maps(&server)).without_streaming(), Recorder::<ConfigMap>::new());
    sleep_seconds(1000.0).await;

    let timeouts: Vec<_> = server.requests().iter().filter_map(|request| request.timeout_seconds).collect();
    assert!(timeouts.len() > 3);
    assert!(timeouts.iter().all(|timeout| (300..600).contains(timeout)), "{timeouts:?}");
    assert!(timeouts.iter().any(|timeout| *timeout != timeouts[0]), "durations are random: {timeouts:?}");
    running.stop().await;
}
