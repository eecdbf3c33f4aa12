//! Everything that exists, as a stream: when it is tried, what ends it, and when lists are used instead.

use std::time::Duration;

use informant::listwatch::ListWatchError;
use informant::listwatch::Reflector;
use informant::listwatch::ReflectorBuilder;
use informant::listwatch::ScriptedList;
use informant::listwatch::ScriptedSource;
use informant::listwatch::ScriptedWatch;
use informant::listwatch::SourceError;
use informant::listwatch::StreamingSupport;
use informant_apiserver::ApiServer;
use informant_apiserver::Fault;
use informant_apiserver::On;
use k8s_openapi::api::core::v1::ConfigMap;

use super::kube_source::config_maps;
use super::support::Recorder;
use super::support::Running;
use super::support::config_map;
use super::support::exact;
use super::support::list;
use super::support::lost;
use super::support::pauses;
use super::support::ready;
use super::support::refused;
use super::support::run;
use super::support::run_with;
use super::support::says;
use super::support::seconds;
use super::support::settle;
use super::support::start;
use crate::support::Logs;

fn stream() -> ScriptedWatch<()> {
    ScriptedWatch::new()
}

/// RE-52, RE-53, RE-54, RE-55
#[tokio::test(start_paused = true)]
async fn a_streamed_list_becomes_the_state_at_its_end_and_goes_on_as_a_watch() {
    let source = ScriptedSource::new();
    let initial = stream().added(ready("a", 3)).added(ready("b", 1)).modified(ready("a", 5)).deleted(ready("b", 6));
    source.on_stream(initial.bookmark("6").added(ready("c", 2)).list_ends("7").added(ready("d", 8)).stays_open());
    let running = run(&source);
    settle().await;

    assert_eq!(source.requests(), ["WL(\"\")"]);
    assert_eq!(running.told(), ["Replaced@7 [a@5 c@2]", "Added d@8"]);
    assert_eq!(running.handle.status().version, Some("8".into()));
    running.stop().await;
}

/// RE-53
#[tokio::test(start_paused = true)]
async fn nobody_sees_a_streamed_list_before_its_end() {
    let source = ScriptedSource::new();
    source.on_stream(stream().added(ready("a", 3)).bookmark("5").stays_open());
    let running = run(&source);
    seconds(5.0).await;

    assert!(running.told().is_empty());
    assert_eq!(running.handle.status().version, None);
    running.stop().await;
}

/// RE-51
#[tokio::test(start_paused = true)]
async fn a_source_that_cannot_stream_is_not_asked_to_and_neither_is_one_of_a_user_who_does_not_want_it() {
    let source = ScriptedSource::new();
    source.on_list(list("10", &[]));
    let running = run(&source);
    settle().await;
    assert_eq!(source.requests()[0], "L(0, 500)");
    running.stop().await;

    let source = ScriptedSource::new();
    source.on_stream(stream().stays_open());
    source.on_list(list("10", &[]));
    let running = run_with(&source, ReflectorBuilder::without_streaming);
    settle().await;
    assert_eq!(source.requests()[0], "L(0, 500)");
    running.stop().await;
}

/// RE-37: the stream that is inherited counts from its hand-over.
#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_right_after_its_list_was_a_short_watch() {
    let source = ScriptedSource::new();
    source.on_stream(stream().added(ready("a", 3)).wait(Duration::from_secs(5)).list_ends("7"));
    source.on_stream(stream().list_ends("8").stays_open());
    let running = run_with(&source, |builder| builder.backoff(exact()));
    seconds(6.0).await;

    assert_eq!(source.requests(), ["WL(\"\")", "WL(7)"]);
    assert_eq!(pauses(&source), [5.8]);
    running.stop().await;
}

/// RE-35 after RE-55
#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_later_goes_on_as_an_ordinary_watch() {
    let source = ScriptedSource::new();
    source.on_stream(stream().list_ends("7").added(ready("a", 8)));
    source.on_watch(stream().stays_open());
    let running = run(&source);
    settle().await;

    assert_eq!(source.requests(), ["WL(\"\")", "W(8)"]);
    running.stop().await;
}

/// B9: RE-56 as we want it, with a delay. Nothing of what came before may come back.
#[tokio::test(start_paused = true)]
async fn a_streamed_list_that_is_cut_off_is_forgotten_and_begun_anew_after_a_delay() {
    for ending in [None, Some(lost())] {
        let source = ScriptedSource::new();
        let cut = stream().added(ready("gone", 3));
        source.on_stream(match ending {
            None => cut,
            Some(error) => cut.breaks(error),
        });
        source.on_stream(stream().added(ready("a", 4)).list_ends("7").stays_open());
        let running = run_with(&source, |builder| builder.backoff(exact()));
        seconds(1.0).await;

        assert_eq!(source.requests(), ["WL(\"\")", "WL(\"\")"]);
        assert_eq!(pauses(&source), [0.8]);
        assert_eq!(running.told(), ["Replaced@7 [a@4]"]);
        running.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn streams_that_are_cut_off_again_and_again_give_way_to_a_list_for_this_round() {
    let source = ScriptedSource::new();
    for _ in 0..3 {
        source.on_stream(stream().added(ready("a", 3)));
    }
    source.on_list(list("10", &[("a", 3)]));
    source.on_watch(stream().breaks(says(400, "BadRequest")));
    source.on_stream(stream().list_ends("11").stays_open());
    let running = run_with(&source, |builder| builder.backoff(exact()));
    seconds(10.0).await;

    assert_eq!(source.requests(), ["WL(\"\")", "WL(\"\")", "WL(\"\")", "L(0, 500)", "W(10)", "WL(10)"]);
    running.stop().await;
}

/// RE-57
#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_at_once_gives_way_to_a_list_for_this_round() {
    let source = ScriptedSource::new();
    source.on_stream(stream());
    source.on_list(list("10", &[]));
    source.on_watch(stream().breaks(says(400, "BadRequest")));
    source.on_stream(stream().list_ends("11").stays_open());
    let running = run_with(&source, |builder| builder.backoff(exact()));
    seconds(1.0).await;

    assert_eq!(source.requests(), ["WL(\"\")", "L(0, 500)", "W(10)", "WL(10)"]);
    running.stop().await;
}

/// RE-58
#[tokio::test(start_paused = true)]
async fn a_stream_that_is_refused_or_too_much_is_asked_for_again_later() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::fails(refused()));
    source.on_stream(ScriptedWatch::fails(says(429, "TooManyRequests")));
    source.on_stream(stream().added(ready("a", 3)).breaks(says(429, "TooManyRequests")));
    source.on_stream(stream().list_ends("7").stays_open());
    let running = run_with(&source, |builder| builder.backoff(exact()));
    seconds(10.0).await;

    assert_eq!(source.requests(), ["WL(\"\")"; 4]);
    assert_eq!(pauses(&source), [0.8, 1.3, 1.3], "sooner than usual, since the server may be starting");
    assert_eq!(running.told(), ["Replaced@7 []"]);
    running.stop().await;
}

/// RE-59
#[tokio::test(start_paused = true)]
async fn a_stream_from_a_version_that_is_not_available_is_asked_for_as_the_newest_state_at_once() {
    let source = ScriptedSource::new();
    source.on_stream(stream().list_ends("10").breaks(says(400, "BadRequest")));
    source.on_stream(ScriptedWatch::fails(says(410, "Expired")));
    source.on_stream(stream().list_ends("20").breaks(says(400, "BadRequest")));
    source.on_stream(stream().added(ready("a", 1)).breaks(says(410, "Expired")));
    source.on_stream(stream().breaks(says(410, "Expired")));
    source.on_stream(stream().list_ends("30").stays_open());
    let running = run_with(&source, |builder| builder.backoff(exact()));
    seconds(10.0).await;

    assert_eq!(source.requests(), ["WL(\"\")", "WL(10)", "WL(\"\")", "WL(20)", "WL(\"\")", "WL(\"\")"]);
    assert_eq!(pauses(&source), [0.8, 0.0, 1.6, 0.0, 0.5], "at once only once in a round, then within a second");
    running.stop().await;
}

fn run_config_maps(server: &ApiServer, support: &StreamingSupport) -> Running<ConfigMap> {
    let recorder = Recorder::new();
    let builder = Reflector::builder(config_maps(server));
    start(builder.backoff(exact()).streaming(support.clone()), recorder)
}

fn server_with_one() -> ApiServer {
    let server = ApiServer::new();
    server.skip_to_version(9);
    server.put("configmaps", config_map("a", "1")).unwrap();
    server
}

/// RE-60 as we want it: remembered. WatchList facts: a server that does not know it, or refuses.
#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_to_stream_is_asked_for_lists_until_an_hour_has_passed() {
    let server = server_with_one();
    server.inject(On::any(), Fault::WatchListRefused);
    let support = StreamingSupport::new();
    let running = run_config_maps(&server, &support);
    running.until("Replaced@10 [shop/a@10]").await;
    server.wait_for_watches("configmaps", 1).await;
    assert_eq!(server.requests_for("configmaps"), ["WL(\"\")", "L(0, 500)", "W(10)"]);

    server.inject(On::watch().of("configmaps").once(), Fault::ErrorEvent { code: 400, after: 0 });
    server.clear_requests();
    server.inject(On::watch().of("configmaps").once(), Fault::status(400));
    seconds(700.0).await;
    let requests = server.requests_for("configmaps");
    assert!(requests.iter().all(|request| !request.starts_with("WL")), "{requests:?}");
    assert!(requests.iter().any(|request| request.starts_with('L')), "{requests:?}");
    running.stop().await;

    server.clear_requests();
    let running = run_config_maps(&server, &support);
    running.until("Replaced@10 [shop/a@10]").await;
    assert_eq!(server.requests_for("configmaps")[0], "L(0, 500)", "another reflector knows as well");
    running.stop().await;

    seconds(3600.0).await;
    server.clear_faults();
    server.clear_requests();
    let running = run_config_maps(&server, &support);
    running.until("Replaced@10 [shop/a@10]").await;
    assert_eq!(server.requests_for("configmaps"), ["WL(\"\")"]);
    running.stop().await;
}

/// WatchList facts: an etcd that is too old answers with an error event in a 200 stream.
#[tokio::test(start_paused = true)]
async fn a_server_whose_stream_is_an_error_event_is_asked_for_lists() {
    let server = server_with_one();
    server.inject(On::any(), Fault::WatchListFails);
    let support = StreamingSupport::new();
    let running = run_config_maps(&server, &support);
    server.wait_for_watches("configmaps", 1).await;
    assert_eq!(server.requests_for("configmaps"), ["WL(\"\")", "L(0, 500)", "W(10)"]);
    running.stop().await;

    let running = run_config_maps(&server, &support);
    running.until("Replaced@10 [shop/a@10]").await;
    assert_eq!(server.requests_for("configmaps")[3], "L(0, 500)", "remembered");
    running.stop().await;
}

/// B9, WatchList facts: a stream that never says that its list is complete. Its deadline counts from the last object that
/// was new.
#[tokio::test(start_paused = true)]
async fn a_stream_whose_list_never_ends_gives_way_to_a_list() {
    let server = server_with_one();
    server.inject(On::any(), Fault::WatchListNeverEnds);
    let running = run_config_maps(&server, &StreamingSupport::new());
    let begun = tokio::time::Instant::now();
    for _ in 0..3 {
        seconds(20.0).await;
        server.put("configmaps", config_map("a", "changes, but is not new")).unwrap();
        if begun.elapsed().as_secs() == 20 {
            server.put("configmaps", config_map("b", "new")).unwrap();
        }
    }
    assert_eq!(server.requests_for("configmaps"), ["WL(\"\")", "L(0, 500)", "W(12)"]);
    let log = server.requests();
    assert_eq!((log[1].at - log[0].at).as_secs(), 50, "thirty seconds after the last new object");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_lets_streaming_be_tried_again() {
    let server = server_with_one();
    server.inject(On::any(), Fault::WatchListRefused);
    let running = run_config_maps(&server, &StreamingSupport::new());
    server.wait_for_watches("configmaps", 1).await;
    server.clear_faults();
    server.clear_requests();

    // The connection is lost, and everything must be listed anew.
    server.inject(On::any().of("configmaps").times(1), Fault::Refuse);
    server.inject(On::any().of("configmaps").skip(1).once(), Fault::status(410));
    seconds(700.0).await;

    let check = "L(\"\", no limit)";
    assert_eq!(server.requests_for("configmaps")[..3], ["W(10)", check, "WL(10)"]);
    running.stop().await;
}

/// RE-60
#[tokio::test(start_paused = true)]
async fn a_passing_trouble_gives_way_to_a_list_for_this_round_only() {
    for error in [says(503, "ServiceUnavailable"), says(403, "Forbidden"), says(401, "Unauthorized")] {
        let source = ScriptedSource::new();
        source.on_stream(ScriptedWatch::fails(error));
        source.on_list(ScriptedList::fails(says(503, "ServiceUnavailable")));
        source.on_stream(stream().list_ends("10").stays_open());
        let running = run_with(&source, |builder| builder.backoff(exact()));
        seconds(1.0).await;

        assert_eq!(source.requests(), ["WL(\"\")", "L(0, 500)", "WL(\"\")"]);
        running.stop().await;
    }
}

/// RE-63
#[tokio::test(start_paused = true)]
async fn a_stream_that_says_nothing_is_complained_of_every_ten_seconds() {
    let logs = Logs::capture();
    let source = ScriptedSource::new();
    source.on_stream(stream().wait(Duration::from_secs(21)).added(ready("a", 1)).stays_open());
    source.on_list(list("10", &[]));
    source.on_watch(stream().stays_open());
    let running = run_with(&source, |builder| builder.backoff(exact()));

    seconds(9.0).await;
    assert_eq!(logs.take(), "");
    seconds(12.5).await;
    let said = logs.take();
    assert_eq!(said.matches("has delivered nothing yet").count(), 2, "{said}");
    seconds(30.0).await;
    let said = logs.take();
    assert_eq!(said.matches("has delivered nothing more").count(), 2, "{said}");
    running.stop().await;
}

/// RE-67
#[tokio::test(start_paused = true)]
async fn a_streamed_list_can_be_compared_with_a_list_of_its_version() {
    let source = ScriptedSource::new();
    source.on_stream(stream().added(ready("a", 3)).added(ready("b", 4)).list_ends("7").stays_open());
    source.on_list(ScriptedList::fails(says(503, "ServiceUnavailable")));
    source.on_list(list("7", &[("b", 4), ("a", 3)]));
    let running = run_with(&source, |builder| builder.backoff(exact()).verify_streams());
    seconds(1.0).await;
    assert_eq!(source.requests(), ["WL(\"\")", "L(7, no limit)", "L(7, no limit)"]);
    assert_eq!(running.told(), ["Replaced@7 [a@3 b@4]"]);
    assert!(running.errors().is_empty());
    running.stop().await;

    let source = ScriptedSource::new();
    source.on_stream(stream().added(ready("a", 3)).added(ready("b", 4)).list_ends("7").stays_open());
    source.on_list(list("7", &[("a", 3), ("b", 5), ("c", 6)]));
    source.on_list(list("8", &[]));
    source.on_watch(stream().stays_open());
    let running = run_with(&source, ReflectorBuilder::verify_streams);
    settle().await;
    assert_eq!(source.requests(), ["WL(\"\")", "L(7, no limit)", "L(0, 500)", "W(8)"]);
    assert_eq!(running.told(), ["Replaced@8 []"], "the streamed list is not believed");
    let difference = "the streamed list at version 7 differs from the list: 2 missing, 1 too many";
    assert_eq!(running.errors(), [format!("streaming the list of objects failed: {difference}")]);
    running.stop().await;
}

/// The error type can be looked into.
#[tokio::test(start_paused = true)]
async fn what_failed_can_be_told_apart() {
    let source = ScriptedSource::new();
    source.on_stream(ScriptedWatch::fails(says(422, "Invalid")));
    let running = run(&source);
    settle().await;

    let error = running.handle.status().last_error.unwrap();
    let ListWatchError { operation, source, .. } = &*error;
    assert_eq!(operation.to_string(), "streaming the list of");
    assert!(matches!(source, SourceError::Status { .. }));
    assert_eq!(source.code(), Some(422));
    running.stop().await;
}
