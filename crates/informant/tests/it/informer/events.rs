//! What happens at the source, as handlers hear of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use informant::listwatch::{Item, ScriptedList, ScriptedSource, ScriptedWatch};
use informant::object::Identity;
use informant::store::Lister;
use informant::{Cached, EventHandler, Key, Lazy, Origin, SharedInformer};
use k8s_openapi::api::core::v1::ConfigMap;

use super::support::{
    Leaks, Probe, QUEUES, Source, cached, informer_with, list, open_watch, ready, reborn, says, settle, source,
};
use crate::reflector::kube_source::config_maps;
use crate::reflector::support::{config_map, server_at_10};
use crate::support::Logs;

/// What a handler hears of a source until it is quiet, and what the cache has then; for both queues.
async fn hears(make: impl Fn() -> Source) -> [(Vec<String>, Vec<String>); 2] {
    let mut all = Vec::new();
    for queue in QUEUES {
        let leaks = Leaks::watch();
        let (source, probe) = (make(), Probe::new());
        let informer = informer_with(&source, queue);
        informer.add_handler(probe.handler()).unwrap();
        informer.start();
        tokio::time::sleep(Duration::from_secs(100)).await;
        all.push((probe.take(), cached(&informer)));
        leaks.stop(&informer).await;
        settle().await;
        assert!(probe.take().is_empty(), "P9");
        assert_eq!(source.open_watches(), 0);
    }
    all.try_into().unwrap()
}

/// As [`hears`], if both queues must tell the same in the same order.
async fn hears_alike(make: impl Fn() -> Source) -> (Vec<String>, Vec<String>) {
    let [grouped, in_order] = hears(make).await;
    assert_eq!(grouped, in_order);
    grouped
}

/// A watch on which one thing happens after the other, so that each is a batch of its own.
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
        self.0.breaks(says(410, "Expired"))
    }
}

/// CT-07, CT-08, SI-06, SI-27
#[tokio::test(start_paused = true)]
async fn an_object_is_added_updated_and_deleted() {
    let watch = || Steps::new().added(ready("b", 11)).modified(ready("a", 12)).deleted(ready("b", 13));
    let (heard, cached) = hears_alike(|| source("10", &[("a", 1)], watch().stays_open())).await;

    assert_eq!(heard, ["A(a@1, initial)", "synced", "A(b@11)", "U(a 1→12)", "D(b@13)"]);
    assert_eq!(cached, ["a@12"]);
}

/// CT-07: what the cache has decides, not what the server calls it.
#[tokio::test(start_paused = true)]
async fn an_added_object_that_is_there_is_updated_and_a_modified_one_that_is_not_is_added() {
    let watch = || Steps::new().added(ready("a", 11)).modified(ready("b", 12)).stays_open();
    let (heard, _) = hears_alike(|| source("10", &[("a", 1)], watch())).await;

    assert_eq!(heard, ["A(a@1, initial)", "synced", "U(a 1→11)", "A(b@12)"]);
}

/// HC-05, RF-02, CT-08, as we want them
#[tokio::test(start_paused = true)]
async fn nobody_is_told_of_the_delete_of_an_object_that_nobody_was_told_of() {
    let watch = || {
        let watch = Steps::new().added(ready("x", 11)).modified(ready("x", 12));
        watch.deleted(ready("x", 13)).deleted(ready("y", 14)).stays_open()
    };
    let (heard, cached) = hears_alike(|| source("10", &[], watch())).await;

    assert_eq!(heard, ["synced", "A(x@11)", "U(x 11→12)", "D(x@13)"]);
    assert!(cached.is_empty());
}

/// HC-01, ST-04, SI-05
#[tokio::test(start_paused = true)]
async fn an_empty_first_list_syncs_informer_and_handler_without_any_add() {
    for queue in QUEUES {
        let leaks = Leaks::watch();
        let source = source("50", &[], open_watch());
        let informer = informer_with(&source, queue);
        let probe = Probe::new();
        let registration = informer.add_handler(probe.handler()).unwrap();
        informer.start();

        registration.synced().await.unwrap();

        assert!(informer.is_synced());
        assert_eq!(probe.take(), ["synced"]);
        assert_eq!(informer.lister().version(), Some("50".into()));
        assert_eq!(informer.last_version(), Some("50".into()));
        leaks.stop(&informer).await;
    }
}

fn relist(first: &[(&str, u64)], watch: ScriptedWatch<()>, second: &[(&str, u64)]) -> Source {
    let source = ScriptedSource::new();
    source.on_list(list("10", first));
    source.on_watch(watch.breaks(says(410, "Expired")));
    source.on_list(list("20", second));
    source.on_watch(open_watch());
    source
}

/// CT-11, CT-12, CT-14, P5: B3 of the past: what a relist finds out is news, not a resync.
#[tokio::test(start_paused = true)]
async fn what_a_relist_finds_out_is_told_to_handlers_that_want_no_resyncs() {
    let first = [("gone", 1), ("same", 2), ("newer", 3)];
    let second = [("same", 2), ("newer", 15), ("new", 16)];
    let [(mut grouped, cached), (in_order, _)] = hears(|| relist(&first, ScriptedWatch::new(), &second)).await;

    let in_order_after = &in_order[4..];
    assert_eq!(in_order_after, ["T(gone, last@1)", "U(newer 3→15)", "A(new@16)"]);
    // The grouping queue does not keep the order of adds and updates.
    grouped[5..].sort();
    assert_eq!(grouped[4..], ["T(gone, last@1)", "A(new@16)", "U(newer 3→15)"]);
    assert_eq!(cached, ["new@16", "newer@15", "same@2"]);
}

/// CT-11, CT-12: both queues; names are chosen so that neither list order nor cache order does it by chance.
#[tokio::test(start_paused = true)]
async fn a_relist_delivers_all_deletes_before_all_adds_and_updates() {
    let make = || {
        let source = ScriptedSource::new();
        source.on_list(list("10", &[("b", 1), ("c", 2), ("d", 3), ("e", 4)]));
        source.on_watch(ScriptedWatch::new().breaks(says(410, "Expired")));
        let second = ScriptedList::at("20").object(ready("a", 11)).object(ready("b", 12));
        let second = second.object(reborn("c", 13, "u2")).object(ready("f", 14)).object(reborn("e", 15, "u3"));
        source.on_list(second);
        source.on_watch(open_watch());
        source
    };

    for (heard, cached) in hears(make).await {
        let (mut deletes, mut others) = (heard[5..8].to_vec(), heard[8..].to_vec());
        deletes.sort();
        others.sort();
        assert_eq!(deletes, ["T(c, last@2)", "T(d, last@3)", "T(e, last@4)"], "{heard:?}");
        assert_eq!(others, ["A(a@11)", "A(c@13)", "A(e@15)", "A(f@14)", "U(b 1→12)"]);
        assert_eq!(cached, ["a@11", "b@12", "c@13", "e@15", "f@14"]);
    }
}

/// Maps the addresses of pods to their names.
#[derive(Default)]
struct Addresses(std::sync::Mutex<std::collections::BTreeMap<&'static str, String>>);

impl EventHandler<&'static str> for Addresses {
    fn on_add(&self, pod: &Cached<&'static str>, _: Origin) {
        self.0.lock().unwrap().insert(**pod, pod.key().to_string());
    }

    fn on_delete(&self, deleted: &informant::Deleted<&'static str>) {
        self.0.lock().unwrap().remove(**deleted.object());
    }
}

/// CT-11, CT-12
#[tokio::test(start_paused = true)]
async fn an_address_that_another_object_got_while_the_watch_was_down_is_not_lost() {
    let pod = |name: &str, version: u64, uid: &str, address: &'static str| {
        let identity =
            Identity { key: Key::cluster_scoped(name), uid: uid.into(), version: version.to_string().as_str().into() };
        Item::new(identity, address)
    };
    for in_order in [false, true] {
        let leaks = Leaks::watch();
        let source = ScriptedSource::new();
        let first = ScriptedList::at("4").object(pod("old", 1, "u1", "10.0.0.1"));
        source.on_list(first.object(pod("recreated", 2, "u2", "10.0.0.2")));
        source.on_watch(ScriptedWatch::new().breaks(says(410, "Expired")));
        let second = ScriptedList::at("9").object(pod("again", 8, "u3", "10.0.0.2"));
        let second = second.object(pod("another", 7, "u4", "10.0.0.1"));
        source.on_list(second.object(pod("recreated", 6, "u5", "10.0.0.3")));
        source.on_watch(ScriptedWatch::new().stays_open());
        let builder = SharedInformer::of_decoded_objects(source);
        let informer = if in_order { builder.in_order().build() } else { builder.build() };
        let addresses = Arc::new(Addresses::default());
        informer.add_handler(Arc::clone(&addresses)).unwrap();
        informer.start();

        informer.caught_up_to(&"9".into(), Duration::from_secs(100)).await.unwrap();
        settle().await;

        let expected = [("10.0.0.1", "another"), ("10.0.0.2", "again"), ("10.0.0.3", "recreated")];
        assert_eq!(*addresses.0.lock().unwrap(), expected.map(|(address, name)| (address, name.to_owned())).into());
        leaks.stop(&informer).await;
    }
}

/// HC-07 A, SI-26
#[tokio::test(start_paused = true)]
async fn a_delete_that_was_seen_before_a_gap_is_told_and_the_new_life_is_an_add() {
    let make = || {
        let source = ScriptedSource::new();
        source.on_list(list("4", &[("x", 1)]));
        source.on_watch(Steps::new().deleted(ready("x", 5)).expires());
        source.on_list(ScriptedList::at("9").object(reborn("x", 8, "u2")));
        source.on_watch(open_watch());
        source
    };
    let (heard, _) = hears_alike(make).await;

    assert_eq!(heard, ["A(x@1, initial)", "synced", "D(x@5)", "A(x@8)"]);
}

fn recreated_in_a_gap() -> Source {
    let source = ScriptedSource::new();
    source.on_list(list("4", &[("x", 1)]));
    source.on_watch(ScriptedWatch::new().breaks(says(410, "Expired")));
    source.on_list(ScriptedList::at("9").object(reborn("x", 8, "u2")));
    source.on_watch(open_watch());
    source
}

/// HC-07 B, SI-26, as we want them; B6 of the past
#[tokio::test(start_paused = true)]
async fn an_object_that_was_recreated_in_a_gap_is_a_missed_delete_and_an_add() {
    let (heard, cached) = hears_alike(recreated_in_a_gap).await;

    assert_eq!(heard, ["A(x@1, initial)", "synced", "T(x, last@1)", "A(x@8)"]);
    assert_eq!(cached, ["x@8"]);
}

/// HC-07 B, SI-26
#[tokio::test(start_paused = true)]
async fn an_object_that_was_recreated_in_a_gap_is_one_update_for_those_who_want_it_so() {
    for queue in QUEUES {
        let leaks = Leaks::watch();
        let probe = Probe::new();
        let informer = informer_with(&recreated_in_a_gap(), |builder| queue(builder).recreated_as_update());
        informer.add_handler(probe.handler()).unwrap();
        informer.start();

        probe.until("U(x 1→8)").await;

        assert_eq!(probe.take(), ["A(x@1, initial)", "synced", "U(x 1→8)"]);
        leaks.stop(&informer).await;
    }
}

/// A watch that skips the delete between two lives.
#[tokio::test(start_paused = true)]
async fn a_new_life_that_a_watch_tells_without_the_end_of_the_old_one_is_a_delete_and_an_add() {
    let watch = || Steps::new().modified(reborn("x", 11, "u2")).stays_open();
    let (heard, _) = hears_alike(|| source("10", &[("x", 1)], watch())).await;

    assert_eq!(heard, ["A(x@1, initial)", "synced", "T(x, last@1)", "A(x@11)"]);
}

/// The delete of another life says that the one we know is gone, but not how it ended.
#[tokio::test(start_paused = true)]
async fn a_delete_of_another_life_is_a_missed_delete_of_the_one_that_was_told() {
    let watch = || Steps::new().deleted(reborn("x", 11, "u2")).stays_open();
    let (heard, cached) = hears_alike(|| source("10", &[("x", 1)], watch())).await;

    assert_eq!(heard, ["A(x@1, initial)", "synced", "T(x, last@1)"]);
    assert!(cached.is_empty());
}

/// Decision 8: what waits together is grouped by object, and each object's history is told in order.
#[tokio::test(start_paused = true)]
async fn what_waits_together_is_told_object_by_object_or_in_the_servers_order() {
    let watch = || ScriptedWatch::new().added(ready("b", 11)).modified(ready("a", 12)).deleted(ready("b", 13));
    let [(grouped, _), (in_order, _)] = hears(|| source("10", &[("a", 1)], watch().stays_open())).await;

    assert_eq!(grouped, ["A(a@1, initial)", "synced", "U(a 1→12)", "A(b@11)", "D(b@13)"]);
    assert_eq!(in_order, ["A(a@1, initial)", "synced", "A(b@11)", "U(a 1→12)", "D(b@13)"]);
}

/// CT-13
#[tokio::test(start_paused = true)]
async fn an_object_that_is_listed_twice_is_one_object() {
    let [(grouped, cached), (in_order, _)] = hears(|| source("10", &[("a", 1), ("a", 2)], open_watch())).await;

    assert_eq!(grouped, ["A(a@1, initial)", "synced", "U(a 1→2)"]);
    assert_eq!(in_order, ["A(a@2, initial)", "synced"]);
    assert_eq!(cached, ["a@2"]);
}

/// SI-23, SI-25: without a version nobody can tell whether something changed.
#[tokio::test(start_paused = true)]
async fn an_object_without_a_version_is_always_news() {
    let unversioned = || Item::new(Identity::of_key(Key::cluster_scoped("a")), ());
    let make = || {
        let source = ScriptedSource::new();
        source.on_list(ScriptedList::at("10").object(unversioned()));
        source.on_watch(Steps::new().modified(unversioned()).stays_open());
        source
    };
    let (heard, _) = hears_alike(make).await;

    assert_eq!(heard, ["A(a@, initial)", "synced", "U(a →)"]);
}

/// Looks into the cache while it is told.
struct Looker {
    lister: std::sync::OnceLock<Lister<()>>,
    seen: std::sync::Mutex<Vec<String>>,
}

impl EventHandler<()> for Looker {
    fn on_add(&self, object: &Cached<()>, _: Origin) {
        let lister = self.lister.get().unwrap();
        let all = crate::support::show_objects(lister.list()).join(" ");
        self.seen.lock().unwrap().push(format!("{object:?}: {all} at {}", lister.version().unwrap()));
    }
}

/// P3, CT-09, CT-11, CT-17, HC-36
#[tokio::test(start_paused = true)]
async fn the_cache_has_all_of_a_batch_before_a_handler_hears_of_any_of_it() {
    for queue in QUEUES {
        let leaks = Leaks::watch();
        let informer = informer_with(&source("10", &[("a", 1), ("b", 2), ("c", 3)], open_watch()), queue);
        let looker = Arc::new(Looker { lister: informer.lister().into(), seen: Default::default() });
        let registration = informer.add_handler(Arc::clone(&looker)).unwrap();
        informer.start();

        registration.synced().await.unwrap();

        let seen = looker.seen.lock().unwrap().clone();
        assert_eq!(seen, ["a@1", "b@2", "c@3"].map(|object| format!("{object}: a@1 b@2 c@3 at 10")));
        leaks.stop(&informer).await;
    }
}

/// CT-16, CT-22
#[tokio::test(start_paused = true)]
async fn the_cache_has_the_version_of_what_was_processed_bookmarks_included() {
    for queue in QUEUES {
        let leaks = Leaks::watch();
        let second = Duration::from_secs(1);
        let watch = ScriptedWatch::new().wait(second).modified(ready("a", 11)).wait(second).bookmark("15");
        let watch = watch.wait(second).deleted(ready("a", 17)).stays_open();
        let informer = informer_with(&source("10", &[("a", 1)], watch), queue);
        informer.start();
        let mut versions = Vec::new();
        for _ in 0..4 {
            settle().await;
            versions.push(informer.lister().version().unwrap().to_string());
            tokio::time::sleep(second).await;
        }

        assert_eq!(versions, ["10", "11", "15", "17"]);
        leaks.stop(&informer).await;
    }
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
    let heard = Arc::clone(&deleted);
    let handler = informant::Handler::<ConfigMap>::new().on_delete(move |deleted| {
        *heard.lock().unwrap() = Some(deleted.object().data.clone());
    });
    informer.add_handler(handler).unwrap();
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
    settle().await;
    leaks.check();
}

/// P8, IX-13
#[tokio::test(start_paused = true)]
async fn an_index_function_that_panics_harms_only_its_own_index() {
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
    let registration = informer.add_handler(probe.handler()).unwrap();
    informer.start();

    registration.synced().await.unwrap();

    assert_eq!(probe.take(), ["A(a@1, initial)", "A(bad@2, initial)", "synced"]);
    assert_eq!((by_name.get("a").len(), by_name.get("bad").len()), (1, 0));
    leaks.stop(&informer).await;
}

/// A handler of lazy objects decodes nothing unless it asks.
#[tokio::test(start_paused = true)]
async fn lazy_objects_reach_handlers_with_their_keys_and_labels() {
    let leaks = Leaks::watch();
    let server = server_at_10();
    server.put("configmaps", config_map("a", "text")).unwrap();
    let informer = SharedInformer::<Lazy<ConfigMap>>::new(config_maps(&server));
    let probe = Probe::new();
    informer.add_handler(probe.handler()).unwrap();
    informer.start();

    probe.until("A(shop/a@11, initial)").await;
    server.put("configmaps", config_map("a", "other")).unwrap();
    probe.until("U(shop/a 11→12)").await;

    assert_eq!(informer.lister().list()[0].get().unwrap().data.as_ref().unwrap()["text"], "other");
    drop(server);
    informer.stop().await.unwrap();
    drop(informer);
    settle().await;
    leaks.check();
}

/// The object that was told stays the same one, also if the source repeats itself.
#[tokio::test(start_paused = true)]
async fn an_event_that_repeats_the_known_state_is_no_news_and_changes_nothing() {
    let watch = || Steps::new().modified(ready("a", 10)).modified(ready("a", 12)).stays_open();
    let (heard, _) = hears_alike(|| source("10", &[("a", 10)], watch())).await;

    // A probe checks that the old object of an update is the very one that it was told of.
    assert_eq!(heard, ["A(a@10, initial)", "synced", "U(a 10→12)"]);
}

/// P7: whatever else has come by then, nothing but the initial list is told before its end.
#[tokio::test(start_paused = true)]
async fn what_comes_together_with_the_initial_list_is_told_after_its_end() {
    for queue in QUEUES {
        let leaks = Leaks::watch();
        let source = ScriptedSource::new();
        let stream = ScriptedWatch::new().added(ready("a", 5)).added(ready("b", 6)).list_ends("10");
        let stream = stream.added(ready("c", 11)).modified(ready("a", 12)).deleted(ready("b", 13));
        source.on_stream(stream.added(ready("b", 14)).stays_open());
        let informer = informer_with(&source, queue);
        let probe = Probe::new();
        informer.add_handler(probe.handler()).unwrap();
        informer.start();
        tokio::time::sleep(Duration::from_secs(10)).await;

        let mut heard = probe.take();
        heard[..2].sort();
        assert_eq!(heard[..3], ["A(a@5, initial)", "A(b@6, initial)", "synced"]);
        heard[3..].sort();
        assert_eq!(heard[3..], ["A(b@14)", "A(c@11)", "D(b@13)", "U(a 5→12)"]);
        leaks.stop(&informer).await;
    }
}

/// RE-21, RE-55: also of a list that came as a stream, in which an object has changed and one has come back meanwhile.
#[tokio::test(start_paused = true)]
async fn the_initial_list_is_told_in_the_order_of_the_server() {
    for queue in QUEUES {
        let (listed, streamed) = (ScriptedSource::new(), ScriptedSource::new());
        listed.on_list(list("10", &[("d", 1), ("b", 2), ("a", 3), ("c", 4)]));
        let stream =
            ["d", "gone", "b", "a"].iter().fold(ScriptedWatch::new(), |stream, name| stream.added(ready(name, 1)));
        let stream =
            stream.modified(ready("d", 2)).deleted(ready("gone", 2)).added(ready("c", 3)).deleted(ready("b", 4));
        streamed.on_stream(stream.added(ready("b", 5)).list_ends("10").stays_open());
        for (source, order) in [(listed, ["d@1", "b@2", "a@3", "c@4"]), (streamed, ["d@2", "a@1", "c@3", "b@5"])] {
            let leaks = Leaks::watch();
            let (informer, probe) = (informer_with(&source, queue), Probe::new());
            informer.add_handler(probe.handler()).unwrap();
            informer.start();
            tokio::time::sleep(Duration::from_millis(10)).await;

            let told: Vec<_> = probe.take().into_iter().take_while(|heard| heard != "synced").collect();
            assert_eq!(told, order.map(|object| format!("A({object}, initial)")));
            leaks.stop(&informer).await;
        }
    }
}

/// An unchanged relist: nothing is decoded, indexed or replaced.
#[tokio::test(start_paused = true)]
async fn what_a_relist_repeats_is_neither_transformed_nor_indexed_again_and_stays_the_very_same() {
    for queue in QUEUES {
        let leaks = Leaks::watch();
        let (transformed, indexed) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (transforms, indexes) = (Arc::clone(&transformed), Arc::clone(&indexed));
        let first = [("same", 2)];
        let watch = ScriptedWatch::new().wait(Duration::from_secs(1));
        let informer = informer_with(&relist(&first, watch, &first), |builder| {
            queue(builder).transform(move |_| {
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
}
