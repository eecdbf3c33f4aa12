//! The changes: how a watch goes on, and when everything is listed anew.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use informant::Cached;
use informant::listwatch::{Backoff, Reflector, ScriptedSource, ScriptedWatch, SourceError};
use informant_apiserver::{ApiServer, Fault, On};
use k8s_openapi::api::core::v1::ConfigMap;

use super::kube_source::config_maps;
use super::support::{
    Recorder, backoff_without_jitter, config_map, connection_lost, connection_refused, item, list, open_watch, run,
    run_with, seconds_between_requests, sleep_seconds, start, status_error, wait_until_idle,
};
use crate::support::Tracked;

/// A source that was listed at 10.
fn listed() -> ScriptedSource<()> {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    source
}

fn lists(source: &ScriptedSource<()>) -> usize {
    source.requests().iter().filter(|request| request.starts_with("L(")).count()
}

/// RE-26, RE-31, RE-32, RE-47
#[tokio::test(start_paused = true)]
async fn events_are_passed_on_in_their_order_and_move_the_version() {
    let source = listed();
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
async fn a_watch_that_ends_after_an_event_is_opened_again_at_once() {
    let source = listed();
    source.on_watch(ScriptedWatch::new().added(item("a", 15)));
    source.on_watch(open_watch());
    let running = run(&source);
    wait_until_idle().await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "W(15)"]);
    assert!(running.handle.status().last_error.is_none(), "that is no failure");
    running.stop().await;
}

/// RE-35, RE-37: the second is counted from before the request.
#[tokio::test(start_paused = true)]
async fn a_watch_that_ends_after_a_second_is_opened_again_at_once() {
    let source = listed();
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
async fn a_watch_that_ends_at_once_without_a_word_is_listed_anew_after_a_delay() {
    let source = listed();
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

/// P10: a bookmark of the version that is known says nothing new.
#[tokio::test(start_paused = true)]
async fn a_watch_that_only_repeats_what_is_known_and_ends_does_not_spin() {
    let source = listed();
    source.on_watch(ScriptedWatch::new().bookmark("10"));
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(0.5).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)"]);
    running.stop().await;
}

/// HC-24, HC-27: RE-38
#[tokio::test(start_paused = true)]
async fn a_refused_watch_is_opened_again_soon_from_the_same_version_and_is_not_reported_if_it_is_over_within_three_seconds()
 {
    let source = listed();
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

/// HC-24: RE-02 with chance
#[tokio::test(start_paused = true)]
async fn by_default_a_delay_is_up_to_twice_as_long_by_chance() {
    let source = listed();
    for _ in 0..3 {
        source.on_watch(ScriptedWatch::fails(status_error(503, "ServiceUnavailable")));
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
async fn an_overloaded_server_is_left_alone_for_a_while_and_not_listed() {
    let source = listed();
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
        [0.0, 0.8, 1.6, 3.2, 6.4, 12.8, 0.8],
        "the last watch delivered something"
    );
    assert_eq!(running.errors().len(), 1, "the outage of 25 seconds");
    running.stop().await;
}

/// HC-25 and RE-03 as we want them: a short outage is over within seconds, a long one does not burden the server.
#[tokio::test(start_paused = true)]
async fn a_server_that_cannot_be_reached_is_tried_every_two_seconds_at_first_and_more_rarely_later() {
    let source = listed();
    for _ in 0..250 {
        source.on_watch(ScriptedWatch::fails(connection_refused()));
    }
    source.on_watch(ScriptedWatch::new().wait(Duration::from_secs(300)).breaks(connection_refused()));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(1100.0).await;

    let pauses = seconds_between_requests(&source);
    assert_eq!(pauses[..5], [0.0, 0.8, 1.3, 1.3, 1.3]);
    assert!(pauses[1..96].iter().all(|pause| *pause <= 1.3), "two minutes");
    assert!(pauses[96..250].is_sorted() && pauses[249] > 5.0 && pauses[249] < 30.0, "{pauses:?}");
    assert_eq!(pauses[251], 300.8, "five healthy minutes, then one failure");
    assert_eq!(lists(&source), 1);
    running.stop().await;
}

/// HC-25: RE-05
#[tokio::test(start_paused = true)]
async fn a_backoff_of_the_users_own_is_kept_to() {
    let source = listed();
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

/// B8: an HTTP 410 on opening leads to a list as one within the stream does. RE-39, RE-06, HC-27
#[tokio::test(start_paused = true)]
async fn a_version_that_has_expired_when_a_watch_is_opened_leads_to_a_list() {
    let source = listed();
    source.on_watch(ScriptedWatch::fails(status_error(410, "Expired")));
    source.on_list(list("20", &[]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(1.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "L(10, no limit)", "W(20)"]);
    assert_eq!(
        running.errors(),
        ["opening a watch of objects failed: the server answered: the scripted status (Expired, 410)"]
    );
    running.stop().await;
}

/// RE-41, HC-27
#[tokio::test(start_paused = true)]
async fn a_version_that_expires_within_a_watch_leads_to_a_list_from_what_was_seen_last() {
    let source = listed();
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
async fn other_errors_within_a_watch_lead_to_a_list_and_nobody_hears_of_them() {
    for error in
        [status_error(500, "InternalError"), status_error(403, "Forbidden"), SourceError::other("the source gave up")]
    {
        let source = listed();
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

/// HC-28 as we want it: RE-42, RE-43, with a delay for each attempt.
#[tokio::test(start_paused = true)]
async fn errors_of_the_server_are_passing_for_as_long_as_the_user_says() {
    let source = listed();
    for _ in 0..100 {
        source.on_watch(ScriptedWatch::new().breaks(status_error(500, "InternalError")));
    }
    let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(1)).without_jitter();
    let settings = |builder: super::support::ScriptedBuilder| builder.backoff(backoff);
    let running = run_with(&source, |builder| settings(builder).retry_server_errors_for(Duration::from_secs(30)));
    sleep_seconds(60.0).await;

    let watches = source.requests().iter().filter(|request| request.starts_with("W(")).count();
    assert_eq!((lists(&source), watches), (2, 32), "31 times within the window, then a list that has no answer");
    assert_eq!(seconds_between_requests(&source)[1..], [1.0; 32]);
    running.stop().await;
}

/// P10: the version is not in doubt, so there is no reason to list.
#[tokio::test(start_paused = true)]
async fn a_lost_connection_goes_on_from_where_it_was() {
    let source = listed();
    source.on_watch(ScriptedWatch::new().added(item("a", 11)).breaks(connection_lost()));
    source.on_watch(ScriptedWatch::new().breaks(connection_lost()));
    source.on_watch(ScriptedWatch::fails(connection_lost()));
    source.on_watch(ScriptedWatch::fails(status_error(503, "ServiceUnavailable")));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(10.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "W(11)", "W(11)", "W(11)", "W(11)"]);
    assert_eq!(seconds_between_requests(&source), [0.0, 0.0, 0.8, 1.3, 1.3]);
    running.stop().await;
}

/// P1: perhaps lists still work where watches do not.
#[tokio::test(start_paused = true)]
async fn watches_that_fail_again_and_again_lead_to_a_list() {
    let source = listed();
    for _ in 0..5 {
        source.on_watch(ScriptedWatch::fails(status_error(503, "ServiceUnavailable")));
    }
    source.on_list(list("20", &[]));
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(60.0).await;

    assert_eq!(source.requests()[5..], ["W(10)", "L(10, no limit)", "W(20)"]);
    assert_eq!(running.errors().len(), 1);
    running.stop().await;
}

/// The server's wish is granted, within reason.
#[tokio::test(start_paused = true)]
async fn a_server_that_says_how_long_to_wait_is_listened_to() {
    let source = listed();
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

/// The watchdog, before it has seen bookmarks: the time that the watch was asked to last, and half a minute.
#[tokio::test(start_paused = true)]
async fn a_watch_that_says_nothing_at_all_is_given_up_after_its_time() {
    let source = listed();
    source.on_watch(open_watch());
    source.on_watch(open_watch());
    let running = run(&source);
    sleep_seconds(329.0).await;
    assert_eq!(source.requests(), ["L(0, 500)", "W(10)"]);
    sleep_seconds(302.0).await;

    assert_eq!(source.requests(), ["L(0, 500)", "W(10)", "W(10)"]);
    assert_eq!(source.open_watches(), 1, "the silent one was let go");
    running.stop().await;
}

/// The watchdog: three times the longest pause between bookmarks, but at least three minutes.
#[tokio::test(start_paused = true)]
async fn a_watch_that_falls_silent_is_given_up_and_goes_on_from_where_it_was() {
    let minute = Duration::from_secs(60);
    let source = listed();
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

/// RE-48, RE-49
#[tokio::test(start_paused = true)]
async fn everything_is_told_again_at_its_time_while_a_watch_lasts() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]).after(Duration::from_secs(100)));
    source.on_watch(open_watch());
    let is_due = Arc::new(AtomicBool::new(true));
    let asked = Arc::clone(&is_due);
    let running = run_with(&source, |builder| {
        builder.resync_every_if(Duration::from_secs(10), move || asked.load(Ordering::SeqCst))
    });
    sleep_seconds(109.0).await;
    assert_eq!(running.lines(), ["Replaced@10 []"], "not while there is nothing to tell");

    sleep_seconds(12.0).await;
    assert_eq!(running.lines(), ["Replaced@10 []", "Resync", "Resync"]);
    is_due.store(false, Ordering::SeqCst);
    sleep_seconds(100.0).await;
    assert_eq!(running.lines().len(), 3);
    running.stop().await;
}

/// RE-48
#[tokio::test(start_paused = true)]
async fn without_a_period_nothing_is_told_again() {
    let source = listed();
    source.on_watch(open_watch());
    let running = run_with(&source, |builder| builder.resync_every(Duration::ZERO));
    sleep_seconds(250.0).await;

    assert_eq!(running.lines(), ["Replaced@10 []"]);
    running.stop().await;
}

/// RE-23: a listed object keeps nothing else alive.
#[tokio::test(start_paused = true)]
async fn an_object_that_is_kept_does_not_keep_the_bytes_it_came_with() {
    let server = ApiServer::new();
    for number in 0..100 {
        server.put("configmaps", config_map(&format!("c{number:02}"), &"x".repeat(1000))).unwrap();
    }
    let recorder = Recorder::<Tracked<informant::Lazy<ConfigMap>>>::new();
    let builder = Reflector::builder(config_maps(&server)).without_streaming();
    let running = start(builder, recorder);
    running.recorder.wait_until(|_, state| state.len() == 100).await;

    let object: Cached<_> = running.recorder.remove("shop/c50").unwrap();
    assert!(object.object().object.json().len() < 2000);
    let watch = object.watch();
    drop(object);
    assert!(watch.upgrade().is_none(), "nobody but the consumer and we had it");
    running.stop().await;
}

/// RE-25
#[tokio::test(start_paused = true)]
async fn a_watch_is_asked_to_last_five_to_ten_minutes_or_as_much_longer_as_the_user_says() {
    for (least, expected) in [(None, 300), (Some(10), 300), (Some(1000), 1000)] {
        let server = ApiServer::new();
        let recorder = Recorder::<ConfigMap>::new();
        let mut builder = Reflector::builder(config_maps(&server));
        if let Some(least) = least {
            builder = builder.watch_timeout(Duration::from_secs(least));
        }
        server.inject(On::watch().of("configmaps").skip(1).times(20), Fault::status(503));
        let running = start(builder.without_streaming(), recorder);
        sleep_seconds(2.0 * expected as f64 + 400.0).await;

        let timeouts: Vec<_> = server.requests().iter().filter_map(|request| request.timeout_seconds).collect();
        assert!(timeouts.len() > 3);
        assert!(timeouts.iter().all(|timeout| (expected..2 * expected).contains(timeout)), "{timeouts:?}");
        assert!(timeouts.iter().any(|timeout| *timeout != timeouts[0]), "by chance: {timeouts:?}");
        running.stop().await;
    }
}
