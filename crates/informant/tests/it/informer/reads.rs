//! Waits for versions, writes and deletions, by which a program reads its own writes.

use std::time::Duration;

use informant::{
    Identity, Key, SharedInformer,
    error::WaitError,
    pipeline::{Backoff, KubeSource},
    testing::{ScriptedList, ScriptedSource, ScriptedWatch},
};
use informant_apiserver::ApiServer;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;

use crate::{
    reflector::kube_source::config_maps,
    support::{
        informers::{
            Leaks, connection_refused, informer, informer_with, item, item_of_incarnation, list, one_thread,
            open_watch, show_error, source, status_error, wait_until, wait_until_idle,
        },
        reflector::{config_map, server_at_10},
    },
};

const SECOND: Duration = Duration::from_secs(1);
const LONG: Duration = Duration::from_secs(1000);

fn identity(name: &str, version: &str, uid: &str) -> Identity {
    Identity { key: Key::cluster_scoped(name), uid: uid.into(), version: version.into() }
}

/// Decision 13
#[tokio::test(start_paused = true)]
async fn caught_up_to_returns_when_all_changes_up_to_the_version_are_in_the_cache() {
    let leaks = Leaks::watch();
    let watch = ScriptedWatch::new().wait(SECOND).added(item("a", 15)).wait(SECOND).bookmark("20").stays_open();
    let informer = informer(&source("10", &[], watch));
    informer.start();

    informer.caught_up_to(&"7".into(), LONG).await.unwrap();
    assert_eq!(informer.lister().version(), Some("10".into()));
    informer.caught_up_to(&"12".into(), LONG).await.unwrap();
    assert_eq!(informer.lister().version(), Some("15".into()));
    informer.caught_up_to(&"20".into(), LONG).await.unwrap();

    let error = informer.caught_up_to(&"21".into(), SECOND).await.unwrap_err();
    assert_eq!(error.to_string(), "informer things has not seen version 21 within 1s; its cache is at version 20");
    leaks.stop(&informer).await;
    let error = informer.caught_up_to(&"21".into(), LONG).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "informer things has stopped and will not see version 21; its cache stays at version 20"
    );
    informer.caught_up_to(&"20".into(), LONG).await.unwrap();
}

/// Decision 13
#[tokio::test(start_paused = true)]
async fn wait_for_returns_the_object_or_none_if_it_was_deleted_meanwhile() {
    let leaks = Leaks::watch();
    let watch = ScriptedWatch::new().wait(SECOND).added(item("a", 15)).wait(SECOND);
    let watch = watch.added(item("b", 16)).deleted(item("b", 17)).stays_open();
    let informer = informer(&source("10", &[], watch));
    informer.start();
    let (a, b) = (Key::cluster_scoped("a"), Key::cluster_scoped("b"));

    let found = informer.wait_for(&a, &"15".into(), LONG).await.unwrap();
    assert_eq!(format!("{:?}", found.unwrap()), "a@15");
    let found = informer.wait_for(&a, &"12".into(), LONG).await.unwrap();
    assert_eq!(format!("{:?}", found.unwrap()), "a@15", "a newer version ends the wait too");
    assert!(informer.wait_for(&b, &"16".into(), LONG).await.unwrap().is_none());

    let error = informer.wait_for(&a, &"30".into(), SECOND).await.unwrap_err();
    assert_eq!(error.to_string(), "informer things has not seen a at version 30 within 1s; its cache is at version 17");
    leaks.stop(&informer).await;
}

/// Decision 13
#[tokio::test(start_paused = true)]
async fn wait_until_gone_returns_when_that_incarnation_is_not_in_the_cache_any_more() {
    let leaks = Leaks::watch();
    let watch =
        ScriptedWatch::new().wait(SECOND).deleted(item("a", 15)).added(item_of_incarnation("a", 16, "u2")).stays_open();
    let informer = informer(&source("10", &[("a", 1)], watch));
    informer.start();
    informer.synced().await.unwrap();

    let error = informer.wait_until_gone(&identity("a", "1", "u1"), SECOND / 2).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "informer things has not seen the deletion of a within 500ms; its cache is at version 10"
    );
    informer.wait_until_gone(&identity("a", "1", "u1"), LONG).await.unwrap();
    assert_eq!(*informer.lister().list()[0].uid(), "u2", "the next incarnation is cached");
    assert!(informer.wait_until_gone(&identity("a", "16", "u2"), SECOND).await.is_err());
    leaks.stop(&informer).await;
}

/// A cache that has not reached the object's version cannot prove that the object is gone.
#[tokio::test(start_paused = true)]
async fn wait_until_gone_does_not_return_before_the_cache_has_reached_the_objects_version() {
    let leaks = Leaks::watch();
    let watch = ScriptedWatch::new().wait(SECOND).added(item("a", 15)).wait(SECOND).deleted(item("a", 16));
    let informer = informer(&source("10", &[], watch.stays_open()));
    informer.start();
    informer.synced().await.unwrap();
    let start = tokio::time::Instant::now();

    informer.wait_until_gone(&identity("a", "15", "u1"), LONG).await.unwrap();

    assert!(start.elapsed() >= Duration::from_millis(1900), "{:?}", start.elapsed());
    leaks.stop(&informer).await;
}

/// Decision 13: also before the first list.
#[tokio::test(start_paused = true)]
async fn waits_for_versions_that_cannot_be_compared_are_an_error() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    let error = informer.caught_up_to(&"v7".into(), LONG).await.unwrap_err();
    assert!(matches!(error, WaitError::NotComparable { .. }));
    assert!(informer.wait_for(&Key::cluster_scoped("a"), &"".into(), LONG).await.is_err());
    informer.start();
    informer.synced().await.unwrap();
    let error = informer.wait_for(&Key::cluster_scoped("a"), &"v7".into(), LONG).await.unwrap_err();
    assert!(show_error(&error).contains("\"v7\" cannot be compared"), "{}", show_error(&error));
    leaks.stop(&informer).await;
}

/// Decision 13: the server's storage was restored from a backup.
#[tokio::test(start_paused = true)]
async fn a_history_change_fails_waits_and_updates_every_object() {
    let leaks = Leaks::watch();
    let source = ScriptedSource::new();
    source.on_list(list("100", &[("a", 90), ("same", 5)]));
    source.on_watch(ScriptedWatch::new().wait(SECOND).breaks(status_error(410, "Expired")));
    // The list is older than the cache: the reflector lists again, and then accepts it.
    source.on_list(list("50", &[("a", 40), ("same", 5)]));
    source.on_list(list("50", &[("a", 40), ("same", 5)]));
    // The reflector lists once more without reusing cached objects.
    source.on_list(list("50", &[("a", 40), ("same", 5)]));
    source.on_watch(ScriptedWatch::new().wait(SECOND).modified(item("a", 200)).stays_open());
    let informer = informer_with(&source, |builder| builder.on_error(|_| {}));
    let probe = crate::support::informers::Probe::of_changing_history();
    informer.subscribe().handler(probe.handler()).unwrap();
    informer.start();
    informer.synced().await.unwrap();

    let error = informer.caught_up_to(&"150".into(), LONG).await.unwrap_err();

    assert!(matches!(error, WaitError::HistoryChanged { .. }), "{error}");
    assert!(error.to_string().ends_with("its cache is at version 50"), "{error}");
    assert_eq!(informer.lister().version(), Some("50".into()));
    assert_eq!(informer.status().source.history_changes, 1);
    informer.caught_up_to(&"150".into(), LONG).await.unwrap();
    probe.until("U(a 40→200)").await;
    let received = probe.take();
    assert!(received.contains(&"U(a 90→40)".into()) && received.contains(&"U(same 5→5)".into()), "{received:?}");
    leaks.stop(&informer).await;
}

/// Decision 3: the wait fails at once, because a quarantined object does not reach the cache.
#[tokio::test(start_paused = true)]
async fn wait_for_a_quarantined_object_is_an_error() {
    let leaks = Leaks::watch();
    let server = server_at_10();
    server.put("configmaps", config_map("a", "good")).unwrap();
    let informer = SharedInformer::<ConfigMap>::builder(config_maps(&server)).on_quarantine(|_| {}).build();
    informer.start();
    informer.synced().await.unwrap();
    let bad = serde_json::json!({"metadata": {"namespace": "shop", "name": "a"}, "data": {"text": 5}});
    let stored = server.put("configmaps", bad).unwrap();
    let version = stored["metadata"]["resourceVersion"].as_str().unwrap().into();
    let key: Key = "shop/a".parse().unwrap();

    let error = informer.wait_for(&key, &version, LONG).await.unwrap_err();

    assert!(matches!(error, WaitError::Quarantined { .. }), "{error}");
    assert!(show_error(&error).contains("cannot read shop/a"), "{}", show_error(&error));
    assert_eq!(informer.quarantined().len(), 1);
    assert_eq!(informer.status().quarantined, 1);
    drop(server);
    informer.stop().await.unwrap();
    drop(informer);
    wait_until_idle().await;
    leaks.check();
}

/// The error of the time limit contains the last error of the source.
#[tokio::test(start_paused = true)]
async fn the_time_limit_error_of_a_wait_contains_the_last_error_and_the_version_of_the_cache() {
    let leaks = Leaks::watch();
    let source = ScriptedSource::new();
    for _ in 0..20 {
        source.on_list(ScriptedList::fails(connection_refused()));
    }
    let informer = informer_with(&source, |builder| builder.on_error(|_| {}));
    informer.start();

    let error = informer.caught_up_to(&"5".into(), 5 * SECOND).await.unwrap_err();

    assert_eq!(
        show_error(&error),
        "informer things has not seen version 5 within 5s; its cache is at no version yet: \
         listing objects failed: the connection was refused: no server listens there"
    );
    leaks.stop(&informer).await;
}

/// Decisions 11 and 13: after a history change was applied, equal versions mean equal states again.
#[tokio::test(start_paused = true)]
async fn after_a_history_change_an_unchanged_relist_delivers_no_events_again() {
    let leaks = Leaks::watch();
    let source = ScriptedSource::new();
    let expires = || ScriptedWatch::new().wait(100 * SECOND).breaks(status_error(410, "Expired"));
    source.on_list(list("100", &[("a", 5)]));
    source.on_watch(expires());
    for _ in 0..2 {
        source.on_list(list("50", &[("a", 5)]));
    }
    for version in ["200", "300"] {
        source.on_watch(expires());
        source.on_list(list(version, &[("a", 5)]));
    }
    source.on_watch(open_watch());
    let informer = informer_with(&source, |builder| builder.on_error(|_| {}));
    let probe = crate::support::informers::Probe::new();
    informer.subscribe().handler(probe.handler()).unwrap();
    informer.start();
    informer.caught_up_to(&"300".into(), LONG).await.unwrap_err();
    assert_eq!(informer.status().source.history_changes, 1);
    wait_until_idle().await;
    assert_eq!(probe.take(), ["A(a@5, initial)", "synced", "U(a 5→5)"], "the content may differ in the new history");

    informer.caught_up_to(&"300".into(), LONG).await.unwrap();
    wait_until_idle().await;

    assert!(probe.take().is_empty());
    leaks.stop(&informer).await;
}

/// An object may have no version, although the list has one.
#[tokio::test(start_paused = true)]
async fn wait_for_an_object_without_a_version_uses_the_version_of_the_cache() {
    let leaks = Leaks::watch();
    let source = ScriptedSource::new();
    let object = informant::pipeline::Item::new(Identity::of_key(Key::cluster_scoped("a")), ());
    source.on_list(ScriptedList::at("10").object(object));
    source.on_watch(open_watch());
    let informer = informer(&source);
    informer.start();

    assert!(informer.wait_for(&Key::cluster_scoped("a"), &"5".into(), SECOND).await.unwrap().is_some());
    assert!(informer.wait_for(&Key::cluster_scoped("a"), &"11".into(), SECOND).await.is_err());

    leaks.stop(&informer).await;
}

/// `Duration::ZERO` and `Duration::MAX` do not panic.
#[tokio::test(start_paused = true)]
async fn waits_accept_the_smallest_and_the_largest_time_limit() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    informer.start();
    informer.synced_within(Duration::MAX).await.unwrap();

    informer.caught_up_to(&"10".into(), Duration::ZERO).await.unwrap();
    informer.caught_up_to(&"10".into(), Duration::MAX).await.unwrap();
    assert!(informer.caught_up_to(&"11".into(), Duration::ZERO).await.is_err());

    informer.stop_within(Duration::MAX).await.unwrap();
    leaks.check();
}

/// The wait does not last until its time limit.
#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_the_informer_stops() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1)], open_watch()));
    informer.start();
    informer.synced().await.unwrap();
    let waiting = informer.clone();
    let waiting = tokio::spawn(async move { waiting.caught_up_to(&"99".into(), LONG).await });
    wait_until_idle().await;
    let start = tokio::time::Instant::now();

    informer.stop().await.unwrap();
    let error = waiting.await.unwrap().unwrap_err();

    assert!(matches!(error, WaitError::Stopped { .. }), "{error}");
    assert!(start.elapsed() < SECOND);
    leaks.check();
}

/// Decision 13: also if many changes wait in the queue before the relist.
#[test]
fn a_history_change_replaces_objects_of_the_same_version() {
    let object = |name: &str, version: u64, content: u32| {
        let version = version.to_string().as_str().into();
        informant::pipeline::Item::new(Identity { key: Key::cluster_scoped(name), uid: "u1".into(), version }, content)
    };
    let source = ScriptedSource::new();
    source.on_list(ScriptedList::at("10").object(object("a", 5, 1)));
    let busy = (11..300).fold(ScriptedWatch::new(), |watch, version| watch.modified(object("b", version, 0)));
    source.on_watch(busy.breaks(status_error(410, "Expired")));
    for _ in 0..2 {
        source.on_list(ScriptedList::at("6").object(object("a", 5, 2)));
    }
    source.on_watch(ScriptedWatch::new().stays_open());
    let quickly = Backoff::new(Duration::from_millis(1), Duration::from_millis(1)).without_jitter();
    let builder = SharedInformer::of_decoded_objects(source).reflector(|reflector| reflector.backoff(quickly));
    let informer = builder.on_error(|_| {}).build();
    // The sleep is real, in a synchronous transform: the relist must arrive while changes wait in the queue.
    let slow = |_: &informant::Cached<u32>| {
        std::thread::sleep(Duration::from_millis(1));
        None::<String>
    };
    informer.add_index("slow", slow).unwrap();
    one_thread().block_on(async {
        informer.start();
        wait_until(|| informer.lister().version() == Some("6".into())).await;
        assert_eq!(informer.status().source.history_changes, 1);
        assert_eq!(*informer.lister().get(&Key::cluster_scoped("a")).unwrap(), 2);
        informer.stop().await.unwrap();
    });
}

/// A watch that begins without a version delivers what exists in any order.
#[tokio::test(start_paused = true)]
async fn versions_of_a_watch_without_order_do_not_count_as_reached() {
    for version in ["0", ""] {
        let leaks = Leaks::watch();
        let source = ScriptedSource::new();
        source.on_list(list(version, &[]));
        let events = ScriptedWatch::new().added(item("a", 100)).wait(SECOND * 10).added(item("b", 50));
        source.on_watch(events.wait(SECOND * 10).modified(item("a", 120)).stays_open());
        let informer = informer(&source);
        informer.start();
        informer.synced().await.unwrap();
        informer.wait_for(&Key::cluster_scoped("a"), &"100".into(), SECOND).await.unwrap();

        let error = informer.caught_up_to(&"60".into(), SECOND).await.unwrap_err();
        assert!(matches!(error, WaitError::TimedOut { .. }), "{error}");
        let found = informer.wait_for(&Key::cluster_scoped("b"), &"50".into(), LONG).await.unwrap();
        assert!(found.is_some(), "b is not gone; it has not arrived yet");
        informer.caught_up_to(&"120".into(), LONG).await.unwrap();
        leaks.stop(&informer).await;
    }
}

/// Decision 13
#[tokio::test]
async fn wait_for_write_returns_the_object_that_a_request_wrote() {
    let server = ApiServer::new();
    let client = server.client();
    let informer = SharedInformer::<ConfigMap>::new(KubeSource::of_kind::<ConfigMap>(client.clone()));
    informer.start();
    let api = Api::<ConfigMap>::default_namespaced(client);
    let mut config = ConfigMap::default();
    config.metadata.name = Some("hours".into());

    let created = api.create(&PostParams::default(), &config).await.unwrap();
    let cached = informer.wait_for_write(&created, LONG).await.unwrap().unwrap();
    assert_eq!(cached.metadata.uid, created.metadata.uid);

    let patch = Patch::Merge(json!({"data": {"open": "9-17"}}));
    let patched = api.patch("hours", &PatchParams::default(), &patch).await.unwrap();
    let cached = informer.wait_for_write(&patched, LONG).await.unwrap().unwrap();
    assert_eq!(cached.data, patched.data);

    let error = informer.wait_for_write(&config, LONG).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "informer configmaps cannot wait for an object without name or resourceVersion; pass the object that the write returned"
    );
    informer.stop().await.unwrap();
}
