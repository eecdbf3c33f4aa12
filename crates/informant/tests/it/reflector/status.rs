//! `ReflectorHandle::status` and `changed`.

use std::time::Duration;

use informant::{
    factory::Activity,
    testing::{ScriptedList, ScriptedSource, ScriptedWatch},
};
use tokio::time::Instant;

use crate::support::reflector::{
    backoff_without_jitter, connection_refused, item, list, open_watch, run, run_with, run_without_jitter,
    sleep_seconds, status_error, wait_until_idle,
};

#[tokio::test(start_paused = true)]
async fn the_status_has_the_activity_of_the_reflector_and_the_cause_of_a_backoff() {
    let source = ScriptedSource::new();
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    assert!(matches!(running.handle.status().activity, Activity::Idle));
    wait_until_idle().await;
    assert!(matches!(running.handle.status().activity, Activity::Listing { objects: 0 }));

    source.on_list(ScriptedList::fails(status_error(403, "Forbidden")));
    wait_until_idle().await;
    let status = running.handle.status();
    let Activity::BackingOff { until, because } = status.activity else { panic!("{:?}", status.activity) };
    assert_eq!(because.source.code(), Some(403));
    let left = until - Instant::now();
    assert!(left > Duration::from_millis(700) && left <= Duration::from_millis(800), "{left:?}");
    assert!(status.failing_since.is_some() && status.version.is_none());

    source.on_list(list("10", &[("a", 1)]));
    source.on_watch(ScriptedWatch::new().wait(Duration::from_secs(5)).added(item("b", 11)).stays_open());
    sleep_seconds(1.0).await;
    let status = running.handle.status();
    assert!(matches!(status.activity, Activity::Watching));
    assert!(status.failing_since.is_none(), "a successful list ends the failure");
    assert_eq!(status.last_error.unwrap().source.code(), Some(403), "the last error stays in the status");
    assert_eq!((status.lists, status.watches, status.events), (1, 1, 0));

    let before = status.last_event.unwrap();
    sleep_seconds(5.0).await;
    let status = running.handle.status();
    assert_eq!((status.version, status.events), (Some("11".into()), 1));
    assert!(status.last_event.unwrap() > before);

    let handle = running.handle.clone();
    running.stop().await;
    assert!(matches!(handle.status().activity, Activity::Stopped));
}

/// Lists are allowed, watches are not.
#[tokio::test(start_paused = true)]
async fn failing_since_is_the_time_of_the_first_failed_watch_although_lists_succeed() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[("a", 1)]));
    for _ in 0..100 {
        source.on_watch(ScriptedWatch::fails(status_error(403, "Forbidden")));
    }
    for version in ["11", "12"] {
        source.on_list(list(version, &[("a", 1)]));
    }
    source.on_watch(ScriptedWatch::new().stays_open());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    wait_until_idle().await;
    let first = running.handle.status();
    assert_eq!((first.lists, first.failing_since.is_some()), (1, true));

    sleep_seconds(150.0).await;
    let third = running.handle.status();
    assert_eq!((third.lists, third.failing_since), (3, first.failing_since), "one list a minute");

    sleep_seconds(80.0).await;
    let last = running.handle.status();
    assert!(matches!(last.activity, Activity::Watching));
    assert_eq!((last.lists, last.failing_since), (3, None));
    assert_eq!(last.failures, 100, "each refused watch counts");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn changed_returns_after_each_change_of_the_status() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    source.on_watch(ScriptedWatch::fails(connection_refused()));
    source.on_watch(ScriptedWatch::new().stays_open());
    let running = run(&source);
    let mut handle = running.handle.clone();
    let mut seen = Vec::new();
    while seen.last().is_none_or(|seen| *seen != "watching") {
        seen.push(match handle.changed().await.activity {
            Activity::Idle => "idle",
            Activity::Listing { .. } => "listing",
            Activity::Streaming { .. } => "streaming",
            Activity::Opening => "opening",
            Activity::Watching => "watching",
            Activity::BackingOff { .. } => "backing off",
            Activity::Stopped | _ => "other",
        });
    }
    assert!(seen.contains(&"backing off"), "{seen:?}");
    running.stop().await;
    assert!(matches!(handle.changed().await.activity, Activity::Stopped));
    assert!(matches!(handle.changed().await.activity, Activity::Stopped), "`changed` returns at once after the stop");
}

#[tokio::test(start_paused = true)]
async fn the_status_counts_the_objects_of_a_streamed_list_in_progress() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::new().added(item("a", 1)).added(item("b", 2)).stays_open());
    let running = run(&source);
    wait_until_idle().await;

    assert!(matches!(running.handle.status().activity, Activity::Streaming { objects: 2 }));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_status_counts_the_events_before_an_error_in_the_same_chunk() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    let bookmark = |version: u32| {
        format!("{{\"type\":\"BOOKMARK\",\"object\":{{\"metadata\":{{\"resourceVersion\":\"{version}\"}}}}}}\n")
    };
    let error = "{\"type\":\"ERROR\",\"object\":{\"kind\":\"Status\",\"code\":410,\"reason\":\"Expired\"}}\n";
    source.on_watch(ScriptedWatch::new().bytes(format!("{}{}{error}", bookmark(11), bookmark(12))));
    let running = run_without_jitter(&source);
    wait_until_idle().await;

    let status = running.handle.status();
    assert_eq!((status.version, status.events), (Some("12".into()), 2));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_status_distinguishes_a_pending_watch_request_from_a_backoff() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    source.on_watch(ScriptedWatch::fails(connection_refused()));
    source.on_watch(open_watch().after(Duration::from_secs(100)));
    let running = run_without_jitter(&source);
    sleep_seconds(60.0).await;

    assert!(matches!(running.handle.status().activity, Activity::Opening));
    running.stop().await;
}
