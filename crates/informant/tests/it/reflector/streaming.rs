//! Streamed lists: when the reflector requests one, what ends it, and when the reflector uses ordinary lists instead.

use std::time::Duration;

use informant::{
    error::{ListWatchError, SourceError},
    factory::ServerHealth,
    pipeline::{Reflector, ReflectorBuilder},
    testing::{ScriptedList, ScriptedSource, ScriptedWatch},
};
use informant_apiserver::{ApiServer, Fault, On};
use k8s_openapi::api::core::v1::ConfigMap;

use super::kube_source::config_maps;
use crate::support::{
    Logs,
    reflector::{
        Recorder, Running, backoff_without_jitter, config_map, connection_lost, connection_refused, item, list, run,
        run_with, seconds_between_requests, sleep_seconds, start, status_error, wait_until_idle,
    },
};

fn stream() -> ScriptedWatch<()> {
    ScriptedWatch::new()
}

/// RE-52, RE-53, RE-54, RE-55
#[tokio::test(start_paused = true)]
async fn a_streamed_list_replaces_the_state_at_its_end_and_continues_as_a_watch() {
    let source = ScriptedSource::new();
    let initial = stream().added(item("a", 3)).added(item("b", 1)).modified(item("a", 5)).deleted(item("b", 6));
    source.on_stream(initial.bookmark("6").added(item("c", 2)).list_ends("7").added(item("d", 8)).stays_open());
    let running = run(&source);
    wait_until_idle().await;

    assert_eq!(source.requests(), ["WL(\"\")"]);
    assert_eq!(running.lines(), ["Replaced@7 [a@5 c@2]", "Added d@8"]);
    assert_eq!(running.handle.status().version, Some("8".into()));
    running.stop().await;
}

/// RE-53
#[tokio::test(start_paused = true)]
async fn an_incomplete_streamed_list_is_not_passed_on() {
    let source = ScriptedSource::new();
    source.on_stream(stream().added(item("a", 3)).bookmark("5").stays_open());
    let running = run(&source);
    sleep_seconds(5.0).await;

    assert!(running.lines().is_empty());
    assert_eq!(running.handle.status().version, None);
    running.stop().await;
}

/// RE-51
#[tokio::test(start_paused = true)]
async fn no_streamed_list_is_requested_if_the_source_cannot_stream_or_streaming_is_disabled() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    let running = run(&source);
    wait_until_idle().await;
    assert_eq!(source.requests()[0], "L(0, 500)");
    running.stop().await;

    let source = ScriptedSource::new();
    source.on_stream(stream().stays_open());
    source.on_list(list("10", &[]));
    let running = run_with(&source, ReflectorBuilder::without_streaming);
    wait_until_idle().await;
    assert_eq!(source.requests()[0], "L(0, 500)");
    running.stop().await;
}

/// RE-37: the duration of a watch that continues a streamed list counts from the end of the list.
#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_right_after_its_list_counts_as_a_short_watch() {
    let source = ScriptedSource::new();
    source.on_stream(stream().added(item("a", 3)).wait(Duration::from_secs(5)).list_ends("7"));
    source.on_stream(stream().list_ends("8").stays_open());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(6.0).await;

    assert_eq!(source.requests(), ["WL(\"\")", "WL(7)"]);
    assert_eq!(seconds_between_requests(&source), [5.8]);
    running.stop().await;
}

/// RE-35 after RE-55
#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_after_an_event_is_resumed_by_an_ordinary_watch() {
    let source = ScriptedSource::new();
    source.on_stream(stream().list_ends("7").added(item("a", 8)));
    source.on_watch(stream().stays_open());
    let running = run(&source);
    wait_until_idle().await;

    assert_eq!(source.requests(), ["WL(\"\")", "W(8)"]);
    running.stop().await;
}

/// RE-56, with a delay. No object of the incomplete list may be in the next one.
#[tokio::test(start_paused = true)]
async fn a_streamed_list_that_is_cut_off_is_discarded_and_requested_again_after_a_delay() {
    for ending in [None, Some(connection_lost())] {
        let source = ScriptedSource::new();
        let cut = stream().added(item("gone", 3));
        source.on_stream(match ending {
            None => cut,
            Some(error) => cut.breaks(error),
        });
        source.on_stream(stream().added(item("a", 4)).list_ends("7").stays_open());
        let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
        sleep_seconds(1.0).await;

        assert_eq!(source.requests(), ["WL(\"\")", "WL(\"\")"]);
        assert_eq!(seconds_between_requests(&source), [0.8]);
        assert_eq!(running.lines(), ["Replaced@7 [a@4]"]);
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn after_three_streamed_lists_are_cut_off_the_round_uses_an_ordinary_list() {
    let source = ScriptedSource::new();
    for _ in 0..3 {
        source.on_stream(stream().added(item("a", 3)));
    }
    source.on_list(list("10", &[("a", 3)]));
    source.on_watch(stream().breaks(status_error(400, "BadRequest")));
    source.on_stream(stream().list_ends("11").stays_open());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(10.0).await;

    assert_eq!(source.requests(), ["WL(\"\")", "WL(\"\")", "WL(\"\")", "L(0, 500)", "W(10)", "WL(10)"]);
    running.stop().await;
}

/// RE-57
#[tokio::test(start_paused = true)]
async fn after_a_streamed_list_ends_at_once_the_round_uses_an_ordinary_list() {
    let source = ScriptedSource::new();
    source.on_stream(stream());
    source.on_list(list("10", &[]));
    source.on_watch(stream().breaks(status_error(400, "BadRequest")));
    source.on_stream(stream().list_ends("11").stays_open());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(1.0).await;

    assert_eq!(source.requests(), ["WL(\"\")", "L(0, 500)", "W(10)", "WL(10)"]);
    running.stop().await;
}

/// RE-58
#[tokio::test(start_paused = true)]
async fn a_streamed_list_is_retried_after_a_refused_connection_or_status_429() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::fails(connection_refused()));
    source.on_stream(ScriptedWatch::fails(status_error(429, "TooManyRequests")));
    for _ in 0..2 {
        source.on_stream(stream().added(item("a", 3)).breaks(status_error(429, "TooManyRequests")));
    }
    source.on_stream(stream().list_ends("7").stays_open());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(10.0).await;

    assert_eq!(source.requests(), ["WL(\"\")"; 5]);
    assert_eq!(
        seconds_between_requests(&source),
        [0.8, 1.3, 0.8, 1.6],
        "the delays grow if the server answers a probe and then refuses the list"
    );
    assert_eq!(running.lines(), ["Replaced@7 []"]);
    running.stop().await;
}

/// RE-59
#[tokio::test(start_paused = true)]
async fn a_streamed_list_at_an_expired_version_is_requested_again_at_once_without_a_version() {
    let source = ScriptedSource::new();
    source.on_stream(stream().list_ends("10").breaks(status_error(400, "BadRequest")));
    source.on_stream(ScriptedWatch::fails(status_error(410, "Expired")));
    source.on_stream(stream().list_ends("20").breaks(status_error(400, "BadRequest")));
    source.on_stream(stream().added(item("a", 1)).breaks(status_error(410, "Expired")));
    source.on_stream(stream().breaks(status_error(410, "Expired")));
    source.on_stream(stream().list_ends("30").stays_open());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
    sleep_seconds(10.0).await;

    assert_eq!(source.requests(), ["WL(\"\")", "WL(10)", "WL(\"\")", "WL(20)", "WL(\"\")", "WL(\"\")"]);
    assert_eq!(
        seconds_between_requests(&source),
        [0.8, 0.0, 1.6, 0.0, 0.5],
        "one immediate retry per round, then one within a second"
    );
    running.stop().await;
}

fn run_config_maps(server: &ApiServer, health: &ServerHealth) -> Running<ConfigMap> {
    let recorder = Recorder::new();
    let builder = Reflector::builder(config_maps(server));
    start(builder.backoff(backoff_without_jitter()).server_health(health.clone()), recorder)
}

fn server_with_one() -> ApiServer {
    let server = ApiServer::new();
    server.skip_to_version(9);
    server.put("configmaps", config_map("a", "1")).unwrap();
    server
}

/// RE-60, but the refusal is remembered. The server does not know streamed lists, or refuses them.
#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_streamed_lists_receives_ordinary_lists_for_an_hour() {
    let server = server_with_one();
    server.inject(On::any(), Fault::WatchListRefused);
    let health = ServerHealth::new();
    let running = run_config_maps(&server, &health);
    running.wait_for_line("Replaced@10 [shop/a@10]").await;
    server.wait_for_watches("configmaps", 1).await;
    assert_eq!(server.requests_for("configmaps"), ["WL(\"\")", "L(0, 500)", "W(10)"]);

    server.inject(On::watch().of("configmaps").once(), Fault::ErrorEvent { code: 400, after: 0 });
    server.clear_requests();
    server.inject(On::watch().of("configmaps").once(), Fault::status(400));
    sleep_seconds(700.0).await;
    let requests = server.requests_for("configmaps");
    assert!(requests.iter().all(|request| !request.starts_with("WL")), "{requests:?}");
    assert!(requests.iter().any(|request| request.starts_with('L')), "{requests:?}");
    running.stop().await;

    server.clear_requests();
    let running = run_config_maps(&server, &health);
    running.wait_for_line("Replaced@10 [shop/a@10]").await;
    assert_eq!(
        server.requests_for("configmaps")[0],
        "L(0, 500)",
        "a reflector that shares the `ServerHealth` does not try either"
    );
    running.stop().await;

    sleep_seconds(3600.0).await;
    server.clear_faults();
    server.clear_requests();
    let running = run_config_maps(&server, &health);
    running.wait_for_line("Replaced@10 [shop/a@10]").await;
    assert_eq!(server.requests_for("configmaps"), ["WL(\"\")"]);
    running.stop().await;
}

/// A server whose etcd is too old for streamed lists answers with an error event in a 200 stream.
#[tokio::test(start_paused = true)]
async fn a_server_that_answers_streamed_lists_with_an_error_event_receives_ordinary_lists() {
    let server = server_with_one();
    server.inject(On::any(), Fault::WatchListFails);
    let health = ServerHealth::new();
    let running = run_config_maps(&server, &health);
    server.wait_for_watches("configmaps", 1).await;
    assert_eq!(server.requests_for("configmaps"), ["WL(\"\")", "L(0, 500)", "W(10)"]);
    running.stop().await;

    let running = run_config_maps(&server, &health);
    running.wait_for_line("Replaced@10 [shop/a@10]").await;
    assert_eq!(server.requests_for("configmaps")[3], "L(0, 500)", "the refusal is remembered");
    running.stop().await;
}

/// The server never sends the end of the streamed list. The deadline counts from the last object that was new.
#[tokio::test(start_paused = true)]
async fn a_streamed_list_without_an_end_is_replaced_by_an_ordinary_list_after_the_deadline() {
    let server = server_with_one();
    server.inject(On::any(), Fault::WatchListNeverEnds);
    let running = run_config_maps(&server, &ServerHealth::new());
    let begun = tokio::time::Instant::now();
    for _ in 0..3 {
        sleep_seconds(20.0).await;
        server.put("configmaps", config_map("a", "changes, but is not new")).unwrap();
        if begun.elapsed().as_secs() == 20 {
            server.put("configmaps", config_map("b", "new")).unwrap();
        }
    }
    assert_eq!(server.requests_for("configmaps"), ["WL(\"\")", "L(0, 500)", "W(12)"]);
    let log = server.requests();
    assert_eq!((log[1].at - log[0].at).as_secs(), 50, "the deadline is thirty seconds after the last new object");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_refused_connection_a_streamed_list_is_tried_again() {
    let server = server_with_one();
    server.inject(On::any(), Fault::WatchListRefused);
    let running = run_config_maps(&server, &ServerHealth::new());
    server.wait_for_watches("configmaps", 1).await;
    server.clear_faults();
    server.clear_requests();

    // The watch cannot connect, and its version has expired when it can.
    server.inject(On::watch().of("configmaps").once(), Fault::Refuse);
    server.inject(On::list().of("configmaps").once(), Fault::status(410));
    server.cut_all_watches();
    sleep_seconds(20.0).await;

    let check = "L(\"\", no limit)";
    assert_eq!(server.requests_for("configmaps"), ["W(10)", "W(10)", check, check, "WL(10)"]);
    running.stop().await;
}

/// RE-60
#[tokio::test(start_paused = true)]
async fn a_transient_error_of_a_streamed_list_leads_to_an_ordinary_list_for_one_round() {
    for error in
        [status_error(503, "ServiceUnavailable"), status_error(403, "Forbidden"), status_error(401, "Unauthorized")]
    {
        let source = ScriptedSource::new();
        source.on_stream(ScriptedWatch::fails(error));
        source.on_list(ScriptedList::fails(status_error(503, "ServiceUnavailable")));
        source.on_stream(stream().list_ends("10").stays_open());
        let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));
        sleep_seconds(1.0).await;

        assert_eq!(source.requests(), ["WL(\"\")", "L(0, 500)", "WL(\"\")"]);
        running.stop().await;
    }
}

/// RE-63
#[tokio::test(start_paused = true)]
async fn a_streamed_list_without_progress_is_logged_every_ten_seconds() {
    let logs = Logs::capture();
    let source = ScriptedSource::new();
    source.on_stream(stream().wait(Duration::from_secs(21)).added(item("a", 1)).stays_open());
    source.on_list(list("10", &[]));
    source.on_watch(stream().stays_open());
    let running = run_with(&source, |builder| builder.backoff(backoff_without_jitter()));

    sleep_seconds(9.0).await;
    assert_eq!(logs.take(), "");
    sleep_seconds(12.5).await;
    let logged = logs.take();
    assert_eq!(logged.matches("has delivered nothing yet").count(), 2, "{logged}");
    sleep_seconds(30.0).await;
    let logged = logs.take();
    assert_eq!(logged.matches("has delivered nothing more").count(), 2, "{logged}");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_last_error_in_the_status_has_its_operation_and_its_source() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::fails(status_error(422, "Invalid")));
    let running = run(&source);
    wait_until_idle().await;

    let error = running.handle.status().last_error.unwrap();
    let ListWatchError { operation, source, .. } = &*error;
    assert_eq!(operation.to_string(), "streaming the list of");
    assert!(matches!(source, SourceError::Status { .. }));
    assert_eq!(source.code(), Some(422));
    running.stop().await;
}
