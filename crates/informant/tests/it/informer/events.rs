//! The events that handlers receive for the changes of a source.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use informant::{
    Cached, EventHandler, Identity, Key, Lazy, Lister, Origin, SharedInformer,
    pipeline::Item,
    testing::{ScriptedList, ScriptedSource, ScriptedWatch},
};
use k8s_openapi::api::core::v1::ConfigMap;

use crate::{
    reflector::kube_source::config_maps,
    support::{
        Logs,
        informers::{
            Leaks, Probe, Source, cached, informer, informer_with, item, item_of_incarnation, list, open_watch, source,
            status_error, wait_until_idle,
        },
        reflector::{config_map, server_at_10},
    },
};

/// Runs an informer over the source until nothing changes any more. Returns the lines of a probe, and the cache.
async fn events_of(make: impl Fn() -> Source) -> (Vec<String>, Vec<String>) {
    let leaks = Leaks::watch();
    let (source, probe) = (make(), Probe::new());
    let informer = informer(&source);
    informer.subscribe().handler(probe.handler()).unwrap();
    informer.start();
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(probe.known(), cached(&informer), "P4");
    let (received, cached) = (probe.take(), cached(&informer));
    leaks.stop(&informer).await;
    wait_until_idle().await;
    assert!(probe.take().is_empty(), "P9");
    assert_eq!(source.open_watches(), 0);
    check_resyncs(&make()).await;
    (received, cached)
}

/// P4: checks the events of a handler with a resync period.
async fn check_resyncs(source: &Source) {
    let leaks = Leaks::watch();
    let probe = Probe::new();
    let informer = informer_with(source, |builder| builder.resync_every(Duration::from_secs(30)));
    informer.subscribe().handler(probe.handler()).unwrap();
    informer.start();
    tokio::time::sleep(Duration::from_secs(100)).await;
    assert_eq!(probe.known(), cached(&informer), "P4");
    leaks.stop(&informer).await;
}

/// A watch with a delay before each event, so that each event is a batch of its own.
struct Steps(ScriptedWatch<()>);

impl Steps {
    fn new() -> Self {
        Self(ScriptedWatch::new())
    }

    fn then(self, step: impl FnOnce(ScriptedWatch<()>) -> ScriptedWatch<()>) -> Self {
        Self(step(self.0.wait(Duration::from_millis(1))))
    }

    fn added(self, object: Item<()>) -> Self {
        self.then(|watch| watch.added(object))
    }

    fn modified(self, object: Item<()>) -> Self {
        self.then(|watch| watch.modified(object))
    }

    fn deleted(self, object: Item<()>) -> Self {
        self.then(|watch| watch.deleted(object))
    }

    fn stays_open(self) -> ScriptedWatch<()> {
        self.0.stays_open()
    }

    fn expires(self) -> ScriptedWatch<()> {
        self.0.breaks(status_error(410, "Expired"))
    }
}

/// CT-07, CT-08, SI-06, SI-27
#[tokio::test(start_paused = true)]
async fn an_object_is_added_updated_and_deleted() {
    let watch = || Steps::new().added(item("b", 11)).modified(item("a", 12)).deleted(item("b", 13));
    let (received, cached) = events_of(|| source("10", &[("a", 1)], watch().stays_open())).await;

    assert_eq!(received, ["A(a@1, initial)", "synced", "A(b@11)", "U(a 1→12)", "D(b@13)"]);
    assert_eq!(cached, ["a@12"]);
}

/// CT-07: the cached objects decide between an add and an update, not the type of the watch event.
#[tokio::test(start_paused = true)]
async fn an_added_event_of_a_cached_object_is_an_update_and_a_modified_event_of_an_unknown_one_is_an_add() {
    let watch = || Steps::new().added(item("a", 11)).modified(item("b", 12)).stays_open();
    let (received, _) = events_of(|| source("10", &[("a", 1)], watch())).await;

    assert_eq!(received, ["A(a@1, initial)", "synced", "U(a 1→11)", "A(b@12)"]);
}

/// HC-05, RF-02, CT-08 (differs from client-go)
#[tokio::test(start_paused = true)]
async fn no_handler_receives_the_delete_of_an_unknown_object_or_a_second_delete() {
    let watch = || {
        let watch = Steps::new().added(item("x", 11)).modified(item("x", 12));
        watch.deleted(item("x", 13)).deleted(item("y", 14)).stays_open()
    };
    let (received, cached) = events_of(|| source("10", &[], watch())).await;

    assert_eq!(received, ["synced", "A(x@11)", "U(x 11→12)", "D(x@13)"]);
    assert!(cached.is_empty());
}

/// HC-01, ST-04, SI-05
#[tokio::test(start_paused = true)]
async fn an_empty_first_list_syncs_informer_and_handler_without_any_add() {
    let leaks = Leaks::watch();
    let source = source("50", &[], open_watch());
    let informer = informer(&source);
    let probe = Probe::new();
    let registration = informer.subscribe().handler(probe.handler()).unwrap();
    informer.start();

    registration.synced().await.unwrap();

    assert!(informer.is_synced());
    assert_eq!(probe.take(), ["synced"]);
    assert_eq!(informer.lister().version(), Some("50".into()));
    assert_eq!(informer.last_version(), Some("50".into()));
    leaks.stop(&informer).await;
}

fn relist(first: &[(&str, u64)], watch: ScriptedWatch<()>, second: &[(&str, u64)]) -> Source {
    let source = ScriptedSource::new();
    source.on_list(list("10", first));
    source.on_watch(watch.breaks(status_error(410, "Expired")));
    source.on_list(list("20", second));
    source.on_watch(open_watch());
    source
}

/// CT-11, CT-12, CT-14, P5: the changes that a relist finds are events, not resyncs.
#[tokio::test(start_paused = true)]
async fn handlers_without_a_resync_period_receive_the_changes_that_a_relist_finds() {
    let first = [("gone", 1), ("same", 2), ("newer", 3)];
    let second = [("same", 2), ("newer", 15), ("new", 16)];
    let (received, cached) = events_of(|| relist(&first, ScriptedWatch::new(), &second)).await;

    assert_eq!(received[4..], ["T(gone, last@1)", "U(newer 3→15)", "A(new@16)"]);
    assert_eq!(cached, ["new@16", "newer@15", "same@2"]);
}

/// CT-11, CT-12: the names are chosen so that neither the order of the list nor that of the cache has the deletes first by chance.
#[tokio::test(start_paused = true)]
async fn a_relist_delivers_all_deletes_before_all_adds_and_updates() {
    let make = || {
        let source = ScriptedSource::new();
        source.on_list(list("10", &[("b", 1), ("c", 2), ("d", 3), ("e", 4)]));
        source.on_watch(ScriptedWatch::new().breaks(status_error(410, "Expired")));
        let second = ScriptedList::at("20").object(item("a", 11)).object(item("b", 12));
        let second = second
            .object(item_of_incarnation("c", 13, "u2"))
            .object(item("f", 14))
            .object(item_of_incarnation("e", 15, "u3"));
        source.on_list(second);
        source.on_watch(open_watch());
        source
    };

    let (received, cached) = events_of(make).await;
    let mut deletes = received[5..8].to_vec();
    deletes.sort();
    assert_eq!(deletes, ["T(c, last@2)", "T(d, last@3)", "T(e, last@4)"], "{received:?}");
    assert_eq!(received[8..], ["A(a@11)", "U(b 1→12)", "A(c@13)", "A(f@14)", "A(e@15)"], "in the order of the list");
    assert_eq!(cached, ["a@11", "b@12", "c@13", "e@15", "f@14"]);
}

/// Maps the addresses of pods to their names.
#[derive(Default)]
struct Addresses(std::sync::Mutex<std::collections::BTreeMap<&'static str, String>>);

impl EventHandler<&'static str> for Addresses {
    fn on_add(&self, pod: &Cached<&'static str>, _: Origin) {
        self.0.lock().unwrap().insert(**pod, pod.key().to_string());
    }

    fn on_update(&self, old: &Cached<&'static str>, new: &Cached<&'static str>) {
        let mut addresses = self.0.lock().unwrap();
        addresses.remove(**old);
        addresses.insert(**new, new.key().to_string());
    }

    fn on_delete(&self, deleted: &informant::Deleted<&'static str>) {
        self.0.lock().unwrap().remove(**deleted.object());
    }
}

/// A pod whose content is its address.
fn pod(name: &str, version: u64, uid: &str, address: &'static str) -> Item<&'static str> {
    let identity =
        Identity { key: Key::cluster_scoped(name), uid: uid.into(), version: version.to_string().as_str().into() };
    Item::new(identity, address)
}

/// P2: the changes are one batch.
#[tokio::test(start_paused = true)]
async fn events_of_one_batch_have_the_servers_order_so_an_address_that_moves_to_another_pod_is_not_lost() {
    let leaks = Leaks::watch();
    let source = ScriptedSource::new();
    source.on_list(ScriptedList::at("10").object(pod("a", 1, "u1", "10.0.0.1")));
    let watch = ScriptedWatch::new().wait(Duration::from_secs(1)).added(pod("b", 11, "u2", ""));
    let watch = watch.modified(pod("a", 12, "u1", "10.0.0.1")).deleted(pod("a", 13, "u1", "10.0.0.1"));
    source.on_watch(watch.modified(pod("b", 14, "u2", "10.0.0.1")).stays_open());
    let informer = SharedInformer::of_decoded_objects(source).build();
    let (addresses, probe) = (Arc::new(Addresses::default()), Probe::new());
    informer.subscribe().handler(Arc::clone(&addresses)).unwrap();
    informer.subscribe().handler(probe.handler()).unwrap();
    informer.start();

    informer.caught_up_to(&"14".into(), Duration::from_secs(100)).await.unwrap();
    wait_until_idle().await;

    let events = ["A(a@1, initial)", "synced", "A(b@11)", "U(a 1→12)", "D(a@13)", "U(b 11→14)"];
    assert_eq!(probe.take(), events);
    assert_eq!(*addresses.0.lock().unwrap(), [("10.0.0.1", "b".to_owned())].into());
    leaks.stop(&informer).await;
}

/// CT-11, CT-12
#[tokio::test(start_paused = true)]
async fn a_relist_keeps_an_address_that_moved_to_another_object_while_the_watch_was_down() {
    let leaks = Leaks::watch();
    let source = ScriptedSource::new();
    let first = ScriptedList::at("4").object(pod("old", 1, "u1", "10.0.0.1"));
    source.on_list(first.object(pod("recreated", 2, "u2", "10.0.0.2")));
    source.on_watch(ScriptedWatch::new().breaks(status_error(410, "Expired")));
    let second = ScriptedList::at("9").object(pod("again", 8, "u3", "10.0.0.2"));
    let second = second.object(pod("another", 7, "u4", "10.0.0.1"));
    source.on_list(second.object(pod("recreated", 6, "u5", "10.0.0.3")));
    source.on_watch(ScriptedWatch::new().stays_open());
    let informer = SharedInformer::of_decoded_objects(source).build();
    let addresses = Arc::new(Addresses::default());
    informer.subscribe().handler(Arc::clone(&addresses)).unwrap();
    informer.start();

    informer.caught_up_to(&"9".into(), Duration::from_secs(100)).await.unwrap();
    wait_until_idle().await;

    let expected = [("10.0.0.1", "another"), ("10.0.0.2", "again"), ("10.0.0.3", "recreated")];
    assert_eq!(*addresses.0.lock().unwrap(), expected.map(|(address, name)| (address, name.to_owned())).into());
    leaks.stop(&informer).await;
}

/// HC-07 A, SI-26
#[tokio::test(start_paused = true)]
async fn a_delete_before_the_watch_breaks_is_delivered_and_the_new_incarnation_is_an_add() {
    let make = || {
        let source = ScriptedSource::new();
        source.on_list(list("4", &[("x", 1)]));
        source.on_watch(Steps::new().deleted(item("x", 5)).expires());
        source.on_list(ScriptedList::at("9").object(item_of_incarnation("x", 8, "u2")));
        source.on_watch(open_watch());
        source
    };
    let (received, _) = events_of(make).await;

    assert_eq!(received, ["A(x@1, initial)", "synced", "D(x@5)", "A(x@8)"]);
}

fn recreated_while_the_watch_was_down() -> Source {
    let source = ScriptedSource::new();
    source.on_list(list("4", &[("x", 1)]));
    source.on_watch(ScriptedWatch::new().breaks(status_error(410, "Expired")));
    source.on_list(ScriptedList::at("9").object(item_of_incarnation("x", 8, "u2")));
    source.on_watch(open_watch());
    source
}

/// HC-07 B, SI-26 (differs from client-go)
#[tokio::test(start_paused = true)]
async fn an_object_recreated_while_the_watch_was_down_is_a_missed_delete_and_an_add() {
    let (received, cached) = events_of(recreated_while_the_watch_was_down).await;

    assert_eq!(received, ["A(x@1, initial)", "synced", "T(x, last@1)", "A(x@8)"]);
    assert_eq!(cached, ["x@8"]);
}

/// The watch skips the delete between two incarnations.
#[tokio::test(start_paused = true)]
async fn a_new_incarnation_without_a_delete_of_the_old_one_is_a_missed_delete_and_an_add() {
    let watch = || Steps::new().modified(item_of_incarnation("x", 11, "u2")).stays_open();
    let (received, _) = events_of(|| source("10", &[("x", 1)], watch())).await;

    assert_eq!(received, ["A(x@1, initial)", "synced", "T(x, last@1)", "A(x@11)"]);
}

/// The delete of another incarnation proves that the cached one is gone, but its final state is unknown.
#[tokio::test(start_paused = true)]
async fn a_delete_of_another_incarnation_is_a_missed_delete_of_the_cached_one() {
    let watch = || Steps::new().deleted(item_of_incarnation("x", 11, "u2")).stays_open();
    let (received, cached) = events_of(|| source("10", &[("x", 1)], watch())).await;

    assert_eq!(received, ["A(x@1, initial)", "synced", "T(x, last@1)"]);
    assert!(cached.is_empty());
}

/// P2: the changes are one batch with the initial list.
#[tokio::test(start_paused = true)]
async fn changes_that_follow_the_initial_list_in_its_batch_are_delivered_in_the_servers_order() {
    let watch = || ScriptedWatch::new().added(item("b", 11)).modified(item("a", 12)).deleted(item("b", 13));
    let (received, _) = events_of(|| source("10", &[("a", 1)], watch().stays_open())).await;

    assert_eq!(received, ["A(a@1, initial)", "synced", "A(b@11)", "U(a 1→12)", "D(b@13)"]);
}

/// CT-13
#[tokio::test(start_paused = true)]
async fn an_object_that_a_list_contains_twice_is_one_object() {
    let (received, cached) = events_of(|| source("10", &[("a", 1), ("a", 2)], open_watch())).await;

    assert_eq!(received, ["A(a@2, initial)", "synced"]);
    assert_eq!(cached, ["a@2"]);
}

/// SI-23, SI-25: states without a version cannot be compared, so each one counts as a change.
#[tokio::test(start_paused = true)]
async fn every_event_of_an_object_without_a_version_is_an_update() {
    let unversioned = || Item::new(Identity::of_key(Key::cluster_scoped("a")), ());
    let make = || {
        let source = ScriptedSource::new();
        source.on_list(ScriptedList::at("10").object(unversioned()));
        source.on_watch(Steps::new().modified(unversioned()).stays_open());
        source
    };
    let (received, _) = events_of(make).await;

    assert_eq!(received, ["A(a@, initial)", "synced", "U(a →)"]);
}

/// A handler that reads the cache at each add.
struct CacheReader {
    lister: std::sync::OnceLock<Lister<()>>,
    seen: std::sync::Mutex<Vec<String>>,
}

impl EventHandler<()> for CacheReader {
    fn on_add(&self, object: &Cached<()>, _: Origin) {
        let lister = self.lister.get().unwrap();
        let all = crate::support::show_objects(lister.list()).join(" ");
        self.seen.lock().unwrap().push(format!("{object:?}: {all} at {}", lister.version().unwrap()));
    }
}

/// P3, CT-09, CT-11, CT-17
#[tokio::test(start_paused = true)]
async fn the_cache_has_all_changes_of_a_batch_before_a_handler_receives_the_first_one() {
    let leaks = Leaks::watch();
    let informer = informer(&source("10", &[("a", 1), ("b", 2), ("c", 3)], open_watch()));
    let reader = Arc::new(CacheReader { lister: informer.lister().into(), seen: Default::default() });
    let registration = informer.subscribe().handler(Arc::clone(&reader)).unwrap();
    informer.start();

    registration.synced().await.unwrap();

    let seen = reader.seen.lock().unwrap().clone();
    assert_eq!(seen, ["a@1", "b@2", "c@3"].map(|object| format!("{object}: a@1 b@2 c@3 at 10")));
    leaks.stop(&informer).await;
}

/// CT-16, CT-22
#[tokio::test(start_paused = true)]
async fn the_cache_has_the_version_of_the_last_applied_event_or_bookmark() {
    let leaks = Leaks::watch();
    let second = Duration::from_secs(1);
    let watch = ScriptedWatch::new().wait(second).modified(item("a", 11)).wait(second).bookmark("15");
    let watch = watch.wait(second).deleted(item("a", 17)).stays_open();
    let informer = informer(&source("10", &[("a", 1)], watch));
    informer.start();
    let mut versions = Vec::new();
    for _ in 0..4 {
        wait_until_idle().await;
        versions.push(informer.lister().version().unwrap().to_string());
        tokio::time::sleep(second).await;
    }

    assert_eq!(versions, ["10", "11", "15", "17"]);
    leaks.stop(&informer).await;
}

/// CT-23, CT-24
#[tokio::test(start_paused = true)]
async fn handlers_and_cache_see_transformed_objects_each_transformed_once() {
    let leaks = Leaks::watch();
    let server = server_at_10();
    server.put("configmaps", config_map("a", "secret")).unwrap();
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let informer =
        SharedInformer::<ConfigMap>::builder(config_maps(&server)).resync_every(Duration::from_secs(1)).build();
    informer
        .set_transform(move |object: &mut ConfigMap| {
            counted.fetch_add(1, Ordering::SeqCst);
            object.data = None;
            Ok::<_, std::convert::Infallible>(())
        })
        .unwrap();
    let deleted = Arc::new(std::sync::Mutex::new(None));
    let received = Arc::clone(&deleted);
    informer
        .subscribe()
        .on_delete(move |deleted| {
            *received.lock().unwrap() = Some(deleted.object().data.clone());
        })
        .register()
        .unwrap();
    informer.start();
    informer.synced().await.unwrap();
    assert_eq!(informer.lister().list()[0].data, None);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(calls.load(Ordering::SeqCst), 1, "resyncs transform nothing");

    server.delete("configmaps", "shop/a").unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;

    assert_eq!(*deleted.lock().unwrap(), Some(None));
    drop(server);
    informer.stop().await.unwrap();
    drop(informer);
    wait_until_idle().await;
    leaks.check();
}

/// P8, IX-13
#[tokio::test(start_paused = true)]
async fn an_index_function_that_panics_affects_only_its_own_index() {
    let _logs = Logs::capture();
    let leaks = Leaks::watch();
    let probe = Probe::new();
    let informer = informer_with(&source("10", &[("a", 1), ("bad", 2)], open_watch()), |builder| builder);
    let by_name = informer
        .add_index("name", |object: &Cached<()>| {
            assert_ne!(object.key().name(), "bad");
            [object.key().name().to_owned()]
        })
        .unwrap();
    let registration = informer.subscribe().handler(probe.handler()).unwrap();
    informer.start();

    registration.synced().await.unwrap();

    assert_eq!(probe.take(), ["A(a@1, initial)", "A(bad@2, initial)", "synced"]);
    assert_eq!((by_name.get("a").len(), by_name.get("bad").len()), (1, 0));
    leaks.stop(&informer).await;
}

/// The keys and labels of a lazy object can be read without decoding it.
#[tokio::test(start_paused = true)]
async fn lazy_objects_reach_handlers_with_their_keys_and_labels() {
    let leaks = Leaks::watch();
    let server = server_at_10();
    server.put("configmaps", config_map("a", "text")).unwrap();
    let informer = SharedInformer::<Lazy<ConfigMap>>::new(config_maps(&server));
    let probe = Probe::new();
    informer.subscribe().handler(probe.handler()).unwrap();
    informer.start();

    probe.until("A(shop/a@11, initial)").await;
    server.put("configmaps", config_map("a", "other")).unwrap();
    probe.until("U(shop/a 11→12)").await;

    assert_eq!(informer.lister().list()[0].get().unwrap().data.as_ref().unwrap()["text"], "other");
    drop(server);
    informer.stop().await.unwrap();
    drop(informer);
    wait_until_idle().await;
    leaks.check();
}

/// The cached object is not replaced when the source repeats its state.
#[tokio::test(start_paused = true)]
async fn a_watch_event_that_repeats_the_cached_state_is_not_delivered_and_replaces_nothing() {
    let watch = || Steps::new().modified(item("a", 10)).modified(item("a", 12)).stays_open();
    let (received, _) = events_of(|| source("10", &[("a", 10)], watch())).await;

    // The probe checks that the old object of the update is the one that it received first.
    assert_eq!(received, ["A(a@10, initial)", "synced", "U(a 10→12)"]);
}

/// P7: the handler receives nothing but the initial list before its end, even if later changes are in the same batch.
#[tokio::test(start_paused = true)]
async fn changes_in_the_batch_of_the_initial_list_are_delivered_after_synced() {
    let leaks = Leaks::watch();
    let source = ScriptedSource::new();
    let stream = ScriptedWatch::new().added(item("a", 5)).added(item("b", 6)).list_ends("10");
    let stream = stream.added(item("c", 11)).modified(item("a", 12)).deleted(item("b", 13));
    source.on_stream(stream.added(item("b", 14)).stays_open());
    let informer = informer(&source);
    let probe = Probe::new();
    informer.subscribe().handler(probe.handler()).unwrap();
    informer.start();
    tokio::time::sleep(Duration::from_secs(10)).await;

    let mut received = probe.take();
    received[..2].sort();
    assert_eq!(received[..3], ["A(a@5, initial)", "A(b@6, initial)", "synced"]);
    received[3..].sort();
    assert_eq!(received[3..], ["A(b@14)", "A(c@11)", "D(b@13)", "U(a 5→12)"]);
    leaks.stop(&informer).await;
}

/// RE-21, RE-55: also for a streamed list in which one object changes and one is created again.
#[tokio::test(start_paused = true)]
async fn the_initial_list_is_delivered_in_the_servers_order() {
    let (listed, streamed) = (ScriptedSource::new(), ScriptedSource::new());
    listed.on_list(list("10", &[("d", 1), ("b", 2), ("a", 3), ("c", 4)]));
    let stream = ["d", "gone", "b", "a"].iter().fold(ScriptedWatch::new(), |stream, name| stream.added(item(name, 1)));
    let stream = stream.modified(item("d", 2)).deleted(item("gone", 2)).added(item("c", 3)).deleted(item("b", 4));
    streamed.on_stream(stream.added(item("b", 5)).list_ends("10").stays_open());
    for (source, order) in [(listed, ["d@1", "b@2", "a@3", "c@4"]), (streamed, ["d@2", "a@1", "c@3", "b@5"])] {
        let leaks = Leaks::watch();
        let (informer, probe) = (informer(&source), Probe::new());
        informer.subscribe().handler(probe.handler()).unwrap();
        informer.start();
        tokio::time::sleep(Duration::from_millis(10)).await;

        let received: Vec<_> = probe.take().into_iter().take_while(|received| received != "synced").collect();
        assert_eq!(received, order.map(|object| format!("A({object}, initial)")));
        leaks.stop(&informer).await;
    }
}

/// Of an unchanged relist, no object is decoded, indexed or replaced.
#[tokio::test(start_paused = true)]
async fn an_unchanged_object_of_a_relist_is_not_transformed_indexed_or_replaced() {
    let leaks = Leaks::watch();
    let (transformed, indexed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (transforms, indexes) = (Arc::clone(&transformed), Arc::clone(&indexed));
    let first = [("same", 2)];
    let watch = ScriptedWatch::new().wait(Duration::from_secs(1));
    let informer = informer_with(&relist(&first, watch, &first), |builder| {
        builder.transform(move |_| {
            transforms.fetch_add(1, Ordering::SeqCst);
            Ok::<_, std::convert::Infallible>(())
        })
    });
    let values = move |_: &Cached<()>| {
        indexes.fetch_add(1, Ordering::SeqCst);
        None::<String>
    };
    informer.add_index("count", values).unwrap();
    informer.start();
    informer.synced().await.unwrap();
    let before = informer.lister().list();

    informer.caught_up_to(&"20".into(), Duration::from_secs(100)).await.unwrap();

    assert!(Cached::ptr_eq(&before[0], &informer.lister().list()[0]));
    assert_eq!((transformed.load(Ordering::SeqCst), indexed.load(Ordering::SeqCst)), (1, 1));
    leaks.stop(&informer).await;
}
