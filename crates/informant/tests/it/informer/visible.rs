//! Metrics, log spans and the status of an informer.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use futures_util::{FutureExt, StreamExt};
use informant::{
    Cached, Identity, Key, Object, RawObject, SharedInformer,
    error::{DecodeError, SourceError},
    factory::InformerState,
    pipeline::{Item, ListPiece, ListRequest, ListStream, ListWatch, Provenance, WatchRequest, WatchStream},
    testing::{ScriptedList, ScriptedSource, ScriptedWatch},
};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::core::TypeMeta;
use metrics_util::debugging::{DebugValue, DebuggingRecorder, Snapshotter};
use serde_json::json;
use tracing::Level;

use crate::{
    reflector::kube_source::config_maps,
    support::{
        Logs,
        informers::{
            Leaks, Probe, informer, informer_with, item, list, open_watch, sleep_seconds, source, status_error,
            wait_until_idle,
        },
        reflector::{config_map, server_at_10},
    },
};

/// All metrics as `name{label=value,…}`, without the prefix, with their values; for a histogram, the number of its values.
fn figures_of(snapshotter: &Snapshotter) -> BTreeMap<String, f64> {
    let shown = snapshotter.snapshot().into_vec().into_iter().map(|(key, _, _, value)| {
        let (_, key) = key.into_parts();
        let labels: Vec<_> = key.labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
        let name = key.name().strip_prefix("informant_").unwrap().to_owned();
        let value = match value {
            DebugValue::Counter(count) => count as f64,
            DebugValue::Gauge(level) => level.into_inner(),
            DebugValue::Histogram(values) => values.len() as f64,
        };
        (format!("{name}{{{}}}", labels.join(",")), value)
    });
    shown.collect()
}

/// Decision 18; MX-01, MX-02, MX-03 under other names
#[tokio::test(start_paused = true)]
async fn metrics_are_recorded_under_their_documented_names() {
    let _logs = Logs::capture();
    let leaks = Leaks::watch();
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let source = ScriptedSource::new();
    source.on_list(list("10", &[("a", 1), ("b", 2)]));
    let second = Duration::from_secs(1);
    let watch = ScriptedWatch::new().wait(second).modified(item("a", 11)).wait(second).deleted(item("b", 12));
    source.on_watch(watch.wait(second).breaks(status_error(410, "Expired")));
    source.on_list(list("20", &[("a", 11)]));
    source.on_watch(open_watch());
    // The informer records to the recorder that is installed in this thread when it is built.
    let (informer, registration) = metrics::with_local_recorder(&recorder, || {
        let informer = informer_with(&source, |builder| builder);
        let registration = informer
            .subscribe()
            .named("h")
            .on_update(|_, _| std::panic::resume_unwind(Box::new("oh")))
            .register()
            .unwrap();
        (informer, registration)
    });
    informer
        .add_index("odd", |object: &Cached<()>| match object.version().as_str() {
            "11" => std::panic::resume_unwind(Box::new("odd")),
            _ => None::<String>,
        })
        .unwrap();
    informer.start();
    registration.synced().await.unwrap();
    sleep_seconds(20.0).await;

    let figures = figures_of(&snapshotter);

    let of_informer = |name: &str| figures[&format!("{name}{{informer=things}}")];
    assert_eq!(of_informer("cache_objects"), 1.0);
    assert_eq!(of_informer("cache_version"), 20.0);
    assert_eq!(of_informer("queue_depth"), 0.0);
    assert_eq!(
        (of_informer("lists_total"), of_informer("watches_total"), of_informer("history_changes_total")),
        (2.0, 2.0, 0.0)
    );
    assert_eq!((of_informer("failing"), of_informer("quarantined_objects")), (0.0, 0.0));
    assert_eq!(of_informer("index_panics_total"), 1.0);
    assert_eq!(of_informer("batch_seconds"), 4.0, "the list, two events, the relist");
    let events = |kind: &str| figures[&format!("events_total{{informer=things,type={kind}}}")];
    assert_eq!([events("added"), events("updated"), events("deleted"), events("unchanged")], [2.0, 1.0, 1.0, 1.0]);
    let of_handler = |name: &str| figures[&format!("{name}{{informer=things,handler=h}}")];
    assert_eq!((of_handler("handler_backlog"), of_handler("handler_panics_total")), (0.0, 1.0));
    assert!(of_handler("handler_seconds") >= 3.0);

    // The table in the module docs lists exactly these metrics.
    let page = include_str!("../../../src/metrics.rs");
    let named: Vec<_> =
        page.lines().filter_map(|line| line.strip_prefix("//! | `informant_")?.split('`').next()).collect();
    let mut recorded: Vec<_> = figures.keys().map(|name| name.split('{').next().unwrap()).collect();
    recorded.dedup();
    let mut named_sorted = named.clone();
    named_sorted.sort_unstable();
    assert_eq!(recorded, named_sorted);

    leaks.stop(&informer).await;
    let figures = figures_of(&snapshotter);
    assert_eq!(figures["cache_objects{informer=things}"], 0.0, "the gauges of a stopped informer are zero");
}

/// Decision 18
#[tokio::test(start_paused = true)]
async fn the_status_shows_a_healthy_informer_and_its_handlers() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1), ("b", 2)], open_watch()));
    let fresh = informer.status();
    assert_eq!((fresh.state, fresh.problem().is_some(), fresh.source.last_event), (InformerState::New, true, None));
    let probe = Probe::new();
    informer.subscribe().handler(probe.handler()).unwrap();
    let stream = informer.subscribe().named("idle").stream().unwrap();
    informer.start();
    sleep_seconds(5.0).await;

    let status = informer.status();

    assert!(status.is_synced && status.is_watching() && status.problem().is_none());
    assert_eq!((status.objects, status.queued, status.version), (2, 0, Some("10".into())));
    let handlers: Vec<_> = status.handlers.iter().map(|h| (&*h.name, h.is_synced, h.backlog, h.delivered)).collect();
    assert_eq!(handlers, [("probe", true, 0, 3), ("idle", false, 3, 0)]);
    drop(stream);
    leaks.stop(&informer).await;
    assert!(informer.status().problem().is_some());
}

/// Decision 18
#[tokio::test(start_paused = true)]
async fn the_status_of_an_informer_whose_source_fails_is_stale_and_shows_since_when() {
    let leaks = Leaks::watch();
    let server = server_at_10();
    server.put("configmaps", config_map("a", "1")).unwrap();
    let informer = SharedInformer::<ConfigMap>::builder(config_maps(&server)).on_error(|_| {}).build();
    informer.start();
    informer.synced().await.unwrap();
    sleep_seconds(1.0).await;
    assert!(informer.status().problem().is_none());

    server.inject(informant_apiserver::On::any(), informant_apiserver::Fault::Refuse);
    server.compact();
    sleep_seconds(3600.0).await;

    let status = informer.status();
    assert!(status.is_synced && status.problem().is_some() && !status.is_watching());
    assert!(status.source.last_event.unwrap().elapsed() > Duration::from_secs(600));
    assert_eq!(informer.lister().len(), 1, "the cache keeps its objects");
    server.clear_faults();
    sleep_seconds(120.0).await;
    assert!(informer.status().problem().is_none());
    drop(server);
    informer.stop().await.unwrap();
    drop(informer);
    wait_until_idle().await;
    leaks.check();
}

/// Decision 18
#[tokio::test(start_paused = true)]
async fn log_lines_of_an_informer_are_in_its_span() {
    let logs = Logs::capture();
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    informer.start();
    informer.synced().await.unwrap();
    leaks.stop(&informer).await;

    let log = logs.take();
    let lines: Vec<_> = log.lines().collect();
    assert_eq!(lines.len(), 3, "{log}");
    for (line, message) in lines.iter().zip(["started", "synced", "stopped"]) {
        assert!(line.contains("INFO informer{informer=\"things\"}") && line.contains(message), "{line}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_log_line_of_an_informer_and_of_its_handlers_names_it_once() {
    for level in [Level::TRACE, Level::WARN] {
        let logs = Logs::capture_from(level);
        let (minute, watch) = (Duration::from_secs(60), ScriptedWatch::new().modified(item("a", 11)));
        let watch = watch.wait(minute).bookmark("12").wait(minute).bookmark("13");
        let source = source("10", &[("a", 1)], watch.breaks(status_error(503, "Unavailable")));
        let informer = informer(&source);
        let passes = |_: &Cached<()>| std::panic::resume_unwind(Box::new("oh"));
        let mut stream = informer.subscribe().named("reader").filter(passes).stream().unwrap();
        let updates = informer.subscribe().named("worker").on_update(|_, _| std::panic::resume_unwind(Box::new("oh")));
        let _worker = updates.register().unwrap();
        informer.start();
        sleep_seconds(180.0).await;
        stream.next().await;
        informer.stop().await.unwrap();

        let log = logs.take();
        for line in log.lines().filter(|line| line.contains(" informant::")) {
            assert_eq!(line.matches(r#"informer="things""#).count(), 1, "{line}\n\n{log}");
        }
        for message in
            ["a list or watch failed", "a handler panicked", "an event has waited too long", "a filter panicked"]
        {
            assert!(log.contains(message), "{message}: {log}");
        }
    }
}

/// Decision 16 and 18
#[tokio::test(start_paused = true)]
async fn counters_of_a_second_informer_of_the_same_name_add_to_those_of_the_first() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    for _ in 0..2 {
        let source = ScriptedSource::new();
        source.on_list(list("10", &[("a", 1)]));
        source.on_watch(ScriptedWatch::new().wait(Duration::from_secs(1)).breaks(status_error(410, "Expired")));
        source.on_list(list("20", &[("a", 1)]));
        source.on_watch(open_watch());
        let informer = metrics::with_local_recorder(&recorder, || informer(&source));
        informer.start();
        sleep_seconds(10.0).await;
        informer.stop().await.unwrap();
    }

    // A snapshot contains the counts since the previous one.
    assert_eq!(figures_of(&snapshotter)["lists_total{informer=things}"], 4.0);
}

/// Decision 18
#[tokio::test(start_paused = true)]
async fn the_backlog_of_each_stream_is_shown_and_falls_when_it_is_read() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let (informer, mut read, unread) = metrics::with_local_recorder(&recorder, || {
        let informer = informer(&source("10", &[("a", 1), ("b", 2)], open_watch()));
        let (read, unread) = (informer.subscribe().stream().unwrap(), informer.subscribe().stream().unwrap());
        (informer, read, unread)
    });
    informer.start();
    informer.synced().await.unwrap();
    for _ in 0..3 {
        read.next().await.unwrap();
    }
    assert!(read.next().now_or_never().is_none());

    let figures = figures_of(&snapshotter);
    assert_eq!(figures["handler_backlog{informer=things,handler=stream}"], 0.0);
    assert_eq!(figures["handler_backlog{informer=things,handler=stream (2)}"], 3.0);

    drop(unread);
    assert_eq!(figures_of(&snapshotter)["handler_backlog{informer=things,handler=stream (2)}"], 0.0);
    informer.stop().await.unwrap();
}

/// Decision 18: a batch that is stuck is visible.
#[tokio::test]
async fn the_queue_depth_includes_the_batch_that_is_being_applied() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let (send, seen) = std::sync::mpsc::channel();
    let informer =
        metrics::with_local_recorder(&recorder, || informer(&source("10", &[("a", 1), ("b", 2)], open_watch())));
    informer
        .add_index("look", move |_: &Cached<()>| {
            send.send(figures_of(&snapshotter)["queue_depth{informer=things}"]).unwrap();
            None::<String>
        })
        .unwrap();
    informer.start();
    informer.synced().await.unwrap();

    assert_eq!(seen.recv().unwrap(), 2.0);
    informer.stop().await.unwrap();
}

/// Ready objects get the name of their source's cluster, unless they have one.
#[tokio::test(start_paused = true)]
async fn objects_get_the_cluster_name_of_their_source_whether_they_are_json_or_ready() {
    struct East;

    impl ListWatch<()> for East {
        async fn list(&self, _: ListRequest) -> Result<ListStream<()>, SourceError> {
            let object = |name: &str, provenance: Provenance| {
                Item::with_provenance(Identity::of_key(Key::cluster_scoped(name)), Arc::new(provenance), ())
            };
            let types = TypeMeta { api_version: "v1".into(), kind: "Thing".into() };
            let mut of_west = Provenance::default();
            of_west.cluster = Some("west".into());
            Ok(ListPiece::page(
                "1",
                [
                    Item::new(Identity::of_key(Key::cluster_scoped("a")), ()),
                    Item::new(Identity::of_key(Key::cluster_scoped("b")), ()),
                    object("c", Provenance::new(types)),
                    object("d", of_west),
                ],
            ))
        }

        async fn watch(&self, _: WatchRequest) -> Result<WatchStream<()>, SourceError> {
            Ok(futures_util::stream::pending().boxed())
        }

        fn cluster(&self) -> Option<Arc<str>> {
            Some("east".into())
        }
    }
    let leaks = Leaks::watch();
    let informer = SharedInformer::of_decoded_objects(East).build();
    informer.start();
    informer.synced().await.unwrap();

    let cluster =
        |name: &str| informer.lister().require(&Key::cluster_scoped(name)).unwrap().cluster().unwrap().to_string();
    assert_eq!(["a", "b", "c", "d"].map(cluster), ["east", "east", "east", "west"]);
    assert_eq!(informer.lister().require(&Key::cluster_scoped("c")).unwrap().types().kind, "Thing");
    assert_eq!(informer.cluster().map(|name| &**name), Some("east"));
    leaks.stop(&informer).await;
}

#[tokio::test(start_paused = true)]
async fn the_status_of_an_informer_is_serialized_with_ages_in_seconds_and_errors_as_text() {
    let leaks = Leaks::watch();
    let source = source("10", &[("a", 1), ("b", 2)], open_watch());
    let informer = informer(&source);
    let json = |informer: &SharedInformer<()>| serde_json::to_string(&informer.status()).unwrap();
    let registration = informer.subscribe().named("printer").register().unwrap();

    informer.start();
    informer.synced().await.unwrap();
    registration.synced().await.unwrap();
    tokio::time::sleep(Duration::from_millis(2500)).await;

    assert_eq!(
        json(&informer).replace(&format!("\"bytes\":{},", informer.status().bytes), "\"bytes\":7,"),
        concat!(
            r#"{"name":"things","namespace":null,"state":"running","is_synced":true,"problem":null,"objects":2,"version":"10","bytes":7,"#,
            r#""bytes_are_estimated":false,"queued":0,"#,
            r#""quarantined":0,"audits":0,"wrong_objects":0,"source":{"activity":{"type":"watching"},"version":"10","last_event_age_seconds":2.5,"#,
            r#""confirmed_age_seconds":2.5,"unanswered_seconds":null,"last_error":null,"pending":null,"failing_seconds":null,"#,
            r#""is_gone":false,"lists":1,"watches":1,"events":0,"failures":0,"history_changes":0,"unchecked_outages":0},"crash":null,"handlers":[{"#,
            r#""name":"printer","is_synced":true,"backlog":0,"delivered":3,"coalesced":0,"panics":0,"resyncs_skipped":0}]}"#,
        )
    );
    informer.stop().await.unwrap();
    leaks.check();
}

#[tokio::test(start_paused = true)]
async fn the_problem_of_an_informer_is_serialized_with_its_type_and_its_message() {
    let _logs = Logs::capture();
    let leaks = Leaks::watch();
    let source = ScriptedSource::new();
    source.on_list(ScriptedList::fails(status_error(403, "Forbidden")));
    let informer = informer(&source);
    let status = |informer: &SharedInformer<()>| serde_json::to_value(informer.status()).unwrap();
    assert_eq!(
        status(&informer)["problem"],
        json!({"type": "not_started", "informer": "things", "message": "informer things has not been started"})
    );

    informer.start();
    source.wait_for_requests(1).await;
    wait_until_idle().await;

    let reason = format!("{:#}", informer.status().source.last_error.unwrap().report());
    let failing = status(&informer);
    let message = format!("informer things is not synced: {reason}; failing for 0 s");
    assert_eq!(
        failing["problem"],
        json!({
            "type": "failing",
            "informer": "things",
            "failing_seconds": 0.001,
            "is_synced": false,
            "code": 403,
            "reason": reason,
            "message": message,
        })
    );
    let activity = json!({"type": "backing_off", "retry_in_seconds": 0.799, "because": reason});
    assert_eq!(failing["source"]["activity"], activity);
    assert_eq!(failing["source"]["last_error"], reason);
    informer.stop().await.unwrap();
    let stopped = "informer things has stopped";
    assert_eq!(
        status(&informer)["problem"],
        json!({"type": "stopped", "informer": "things", "crash": null, "message": stopped})
    );
    leaks.check();
}

/// Advances the paused clock, as if the caller had blocked.
fn block_for(time: Duration) {
    // The clock advances at the first poll.
    let _ = tokio::time::advance(time).now_or_never();
}

/// The messages about slow code, without those about other things.
fn slow_messages(logs: &Logs) -> String {
    logs.take().lines().filter(|line| line.contains("slow")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_slow_transform_is_named_in_the_log_once_a_minute() {
    let logs = Logs::capture();
    for (takes, reports) in [(99, 0), (100, 2)] {
        let leaks = Leaks::watch();
        let mut watch = ScriptedWatch::new();
        for version in 11..19 {
            watch = watch.wait(Duration::from_secs(10)).modified(item("a", version));
        }
        let source = source("10", &[("a", 1), ("b", 2)], watch.stays_open());
        let transform = move |_: &mut ()| block_for(Duration::from_millis(takes));
        let informer = informer_with(&source, |builder| builder.transform(transform));
        informer.start();
        sleep_seconds(100.0).await;

        let log = slow_messages(&logs);
        assert_eq!(log.matches("the transform is slow").count(), reports, "{log}");
        assert!(!log.contains("decoding"), "{log}");
        leaks.stop(&informer).await;
    }
}

/// An object whose decoding takes long.
struct Slow;

impl Object for Slow {
    fn decode(_: &RawObject<'_>) -> Result<Self, DecodeError> {
        block_for(Duration::from_millis(100));
        Ok(Self)
    }
}

#[tokio::test(start_paused = true)]
async fn slow_decoding_is_named_in_the_log_whether_or_not_there_is_a_transform() {
    let logs = Logs::capture();
    for has_transform in [false, true] {
        let server = server_at_10();
        server.put("configmaps", config_map("a", "1")).unwrap();
        let builder = SharedInformer::<Slow>::builder(config_maps(&server));
        let informer = if has_transform { builder.transform(|_| ()).build() } else { builder.build() };
        informer.start();
        informer.synced().await.unwrap();
        assert_eq!(slow_messages(&logs).matches("decoding is slow").count(), usize::from(!has_transform));

        server.put("configmaps", config_map("a", "2")).unwrap();
        sleep_seconds(1.0).await;

        assert_eq!(slow_messages(&logs).matches("decoding is slow").count(), usize::from(has_transform));
        informer.stop().await.unwrap();
    }
}

/// The informer takes everything that waits as one batch, so nothing waits behind the slow one.
#[tokio::test]
async fn slow_index_functions_are_named_in_the_log_although_no_change_waits() {
    let logs = Logs::capture();
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    // The sleep is real: the cache measures index functions with the real clock.
    let slow = |_: &Cached<()>| {
        std::thread::sleep(Duration::from_millis(110));
        ["x"]
    };
    informer.add_index("by-sloth", slow).unwrap();
    informer.start();
    informer.synced().await.unwrap();

    let log = slow_messages(&logs);
    assert!(log.contains("index functions are slow") && log.contains(r#"indexes="by-sloth""#), "{log}");
    leaks.stop(&informer).await;
}
