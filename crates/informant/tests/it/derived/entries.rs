//! Which entries a map has: its promises D1, D2 and D4, several objects with one key, entries that linger.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use informant::{Lazy, SharedInformer, View, error::SourceError, pipeline::KubeSource, testing::ScriptedSource};
use informant_apiserver::ApiServer;
use k8s_openapi::api::core::v1::ConfigMap;
use tokio::time::sleep;

use super::*;

#[tokio::test(start_paused = true)]
async fn the_entries_follow_the_objects() {
    let (map, informer, handle) = map_of([config("x", "a b", "1"), config("y", "", "2")]).await;
    assert_eq!((shown(&map).as_str(), map.len(), map.is_empty()), ("a=1 b=1", 2, false));
    assert_eq!((map.get("a").as_deref().map(String::as_str), map.get("z")), (Some("1"), None));

    handle.modified(config("x", "b c", "3"));
    handle.added(config("z", "d", "4"));
    let version = handle.version();
    informer.caught_up_to(&version, Duration::from_secs(10)).await.unwrap();
    map.caught_up().await.unwrap();
    assert_eq!(shown(&map), "b=3 c=3 d=4");

    handle.deleted("shop/x");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(shown(&map), "d=4");
}

#[tokio::test(start_paused = true)]
async fn a_map_is_empty_until_it_has_all_objects_of_the_initial_list() {
    let (informer, _handle) = informer([config("x", "a", "1"), config("y", "b", "2")]);
    let map = informer.derive(pairs).register().unwrap();
    let mut wake_ups = map.watch();
    assert!((map.is_empty(), map.is_synced(), map.is_fresh()) == (true, false, false));
    informer.start();

    assert!(wake_ups.changed().await);
    let size = map.len();

    map.synced().await.unwrap();
    assert_eq!((size, map.snapshot().generation(), map.is_fresh()), (2, 1, true));
}

#[tokio::test(start_paused = true)]
async fn a_map_of_a_running_informer_has_its_objects() {
    let (informer, _handle) = informer([config("x", "a", "1")]);
    informer.start();
    informer.synced().await.unwrap();

    let map = informer.derive(pairs).register().unwrap();
    map.synced().await.unwrap();

    assert_eq!(shown(&map), "a=1");
}

/// D2
#[tokio::test(start_paused = true)]
async fn a_removal_that_the_watch_missed_is_not_lost_and_does_not_remove_the_entry_of_another_object() {
    let (map, _informer, handle) = map_of([config("x", "10.0.0.7", "old"), config("y", "10.0.0.8", "1")]).await;
    handle.fail_watch(SourceError::expired);
    handle.deleted("shop/x");
    handle.deleted("shop/y");
    handle.added(config("y", "10.0.0.9", "created again"));
    handle.added(config("z", "10.0.0.7", "new"));
    sleep(Duration::from_secs(10)).await;

    assert_eq!(shown(&map), "10.0.0.7=new 10.0.0.9=created again");
}

/// D4: the watch delivers the changes one after the other, and a relist all at once, however many there are.
#[tokio::test(start_paused = true)]
async fn all_changes_of_a_relist_are_seen_together() {
    for count in [50, 3000] {
        let (informer, handle) = informer([]);
        for number in 0..count {
            handle.added(config(&format!("x{number}"), &format!("k{number}"), "1"));
        }
        let map = informer.derive(pairs).register().unwrap();
        informer.start();
        map.synced().await.unwrap();
        let mut wake_ups = map.watch();
        handle.fail_watch(SourceError::expired);
        for number in 0..count {
            handle.modified(config(&format!("x{number}"), &format!("k{number} l{number}"), "2"));
        }

        assert!(wake_ups.changed().await);

        let seen = map.snapshot();
        assert!(seen.len() == 2 * count && seen.iter().all(|(_, value)| **value == "2"), "{count}");
        assert_eq!(seen.generation(), 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_stays_as_it_is() {
    let (map, _informer, handle) = map_of([config("x", "a", "1")]).await;
    let before = map.snapshot();
    let version = handle.modified(config("x", "a b", "2"));
    sleep(Duration::from_secs(1)).await;
    let after = map.snapshot();

    assert_eq!((before.get("a").unwrap().as_str(), before.len(), before.generation()), ("1", 1, 1));
    assert_eq!((after.get("a").unwrap().as_str(), after.len(), after.generation()), ("2", 2, 2));
    assert_eq!(after.versions(), [version]);
}

#[tokio::test(start_paused = true)]
async fn of_two_objects_with_one_key_the_one_that_took_it_last_is_read() {
    let (map, _informer, handle) = map_of([config("x", "a", "1")]).await;
    let mut changes = map.stream();
    assert_eq!(next_line(&mut changes).await, "+a=1");
    handle.added(config("y", "a", "2"));
    assert_eq!(next_line(&mut changes).await, "~a=1→2");

    // A changed value does not reorder, and a hidden value changes nothing.
    handle.modified(config("x", "a", "3"));
    assert!(is_idle(&mut changes).await);
    let all = map.get_all("a");
    assert_eq!([all[0].as_str(), all[1].as_str(), map.get("a").unwrap().as_str()], ["2", "3", "2"]);

    handle.deleted("shop/y");
    assert_eq!(next_line(&mut changes).await, "~a=2→3");
    handle.deleted("shop/x");
    assert_eq!(next_line(&mut changes).await, "-a=3");
}

/// A list has no order, so versions decide who took a key last.
#[tokio::test(start_paused = true)]
async fn of_two_listed_objects_with_one_key_the_newer_one_is_read() {
    for names in [["x", "y"], ["y", "x"]] {
        let versions = |name: &&str| if *name == "x" { "9" } else { "10" };
        let (source, handle) = ScriptedSource::live();
        for name in names {
            let mut object = config(name, "a", name);
            object["metadata"]["resourceVersion"] = versions(&name).into();
            handle.added(object);
        }
        let informer = SharedInformer::<ConfigMap>::new(source);
        let map = informer.derive(pairs).register().unwrap();
        informer.start();
        map.synced().await.unwrap();
        assert_eq!(shown(&map), "a=y", "{names:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_preferred_value_of_a_key_is_read() {
    let objects = [config("x", "a", "running"), config("y", "a", "finished")];
    let running_first = |one: &String, other: &String| (one == "running").cmp(&(other == "running"));
    let (map, _informer, handle) = map_with(objects, |derive| derive.prefer(running_first)).await;
    assert_eq!(shown(&map), "a=running");

    handle.added(config("z", "a", "running"));
    handle.modified(config("x", "a", "finished"));
    sleep(Duration::from_secs(1)).await;
    let all: Vec<_> = map.get_all("a").iter().map(ToString::to_string).collect();
    assert_eq!(all, ["running", "finished", "finished"]);

    handle.deleted("shop/z");
    sleep(Duration::from_secs(1)).await;
    assert_eq!(shown(&map), "a=finished");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_an_object_has_twice_has_its_last_value() {
    let (informer, handle) = informer([config("x", "1 2", "")]);
    let map = informer
        .derive(|object| field(object, "keys").split(' ').map(|value| ("a", value.to_owned())).collect::<Vec<_>>())
        .register()
        .unwrap();
    informer.start();
    map.synced().await.unwrap();
    assert_eq!((map.get("a").unwrap().as_str(), map.get_all("a").len()), ("2", 1));

    for (keys, value) in [("2", "2"), ("2 3", "3"), ("0 1 2 3 4 5 6 7 8 9", "9"), ("9 8", "8")] {
        handle.modified(config("x", keys, ""));
        sleep(Duration::from_secs(1)).await;
        assert_eq!((map.get("a").unwrap().as_str(), map.get_all("a").len()), (value, 1), "{keys}");
    }
}

#[tokio::test(start_paused = true)]
async fn removed_entries_linger_for_a_while_and_live_ones_hide_them() {
    let objects = [config("x", "a", "1"), config("y", "b", "2")];
    let (map, _informer, handle) = map_with(objects, |derive| derive.linger(Duration::from_secs(60))).await;
    let lingering = |key| map.get_lingering(key).map(|value| value.to_string());
    handle.deleted("shop/x");
    sleep(Duration::from_secs(50)).await;
    assert_eq!((shown(&map).as_str(), map.get("a")), ("b=2", None));
    assert_eq!((lingering("a").as_deref(), lingering("b").as_deref(), lingering("c")), (Some("1"), Some("2"), None));

    handle.added(config("z", "a", "3"));
    sleep(Duration::from_secs(5)).await;
    assert_eq!(lingering("a").as_deref(), Some("3"));
    handle.deleted("shop/z");
    sleep(Duration::from_secs(50)).await;
    assert_eq!(lingering("a").as_deref(), Some("3"), "its time begins with the last removal");
    sleep(Duration::from_secs(20)).await;
    assert_eq!(lingering("a"), None);
}

#[tokio::test(start_paused = true)]
async fn only_the_last_removed_entries_linger() {
    let objects = [config("x", "a b c", "1")];
    let (map, _informer, handle) =
        map_with(objects, |derive| derive.linger(Duration::from_secs(60)).linger_at_most(2)).await;
    for keys in ["b c", "c", ""] {
        handle.modified(config("x", keys, "1"));
        sleep(Duration::from_secs(1)).await;
    }

    assert_eq!(["a", "b", "c"].map(|key| map.get_lingering(key).is_some()), [false, true, true]);

    // Removals of a key that comes and goes count, too.
    for keys in ["d", "", "d", ""] {
        handle.modified(config("x", keys, "1"));
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(["b", "c", "d"].map(|key| map.get_lingering(key).is_some()), [false, false, true]);
}

#[tokio::test(start_paused = true)]
async fn a_map_of_a_view_has_the_objects_of_all_members_also_if_their_names_are_equal() {
    let servers = [ApiServer::new(), ApiServer::new()];
    let mut members = Vec::new();
    for (server, cluster) in servers.iter().zip(["east", "west"]) {
        server.put("configmaps", config("x", "a", cluster)).unwrap();
        let source = KubeSource::of_kind::<ConfigMap>(server.client()).of_cluster(cluster);
        members.push(SharedInformer::<Lazy<ConfigMap>>::new(source));
    }
    let view = View::of_clusters(members).unwrap();
    let map = view
        .derive(|object| {
            let config = object.peek::<ConfigMap>().unwrap();
            [(object.key().name().to_owned(), field(&config, "value"))]
        })
        .register()
        .unwrap();
    view.start();
    map.synced().await.unwrap();
    let all = || {
        let mut all: Vec<_> = map.get_all("x").iter().map(ToString::to_string).collect();
        all.sort();
        all
    };
    assert_eq!((map.len(), all()), (1, vec!["east".to_owned(), "west".to_owned()]));

    servers[0].delete("configmaps", "shop/x").unwrap();
    sleep(Duration::from_secs(1)).await;

    assert_eq!(all(), ["west"]);
    view.stop().await.unwrap();
    assert_eq!(map.problems().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_map_is_fresh_while_its_informers_are() {
    let (map, informer, _handle) = map_of([config("x", "a", "1")]).await;
    assert!(map.is_fresh());

    informer.stop().await.unwrap();

    assert_eq!((map.is_fresh(), shown(&map).as_str()), (false, "a=1"));
    assert_eq!(map.problems()[0].to_string(), format!("informer {} has stopped", informer.name()));
    let refused = informer.derive(|_| [("a", 1)]).register().unwrap_err();
    assert!(refused.to_string().contains("has stopped"), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn a_map_that_was_stopped_is_not_fresh() {
    let (map, _informer, handle) = map_of([config("x", "a", "1")]).await;
    map.stop().await.unwrap();
    handle.deleted("shop/x");
    sleep(Duration::from_secs(1)).await;

    assert_eq!((shown(&map).as_str(), map.is_fresh()), ("a=1", false));
    assert_eq!(map.problems().iter().map(ToString::to_string).collect::<Vec<_>>(), ["derived map texts has stopped"]);
}

#[tokio::test(start_paused = true)]
async fn entries_may_linger_for_ever() {
    let (map, _informer, handle) =
        map_with([config("x", "a", "1"), config("y", "b", "2")], |derive| derive.linger(Duration::MAX)).await;
    handle.deleted("shop/x");
    sleep(Duration::from_secs(1)).await;
    handle.deleted("shop/y");
    sleep(Duration::from_secs(1_000_000)).await;

    assert_eq!((shown(&map).as_str(), map.get_lingering("a").as_deref().map(String::as_str)), ("", Some("1")));
}

#[tokio::test(start_paused = true)]
async fn a_key_that_comes_and_goes_lingers_once() {
    let (informer, handle) = informer([]);
    let keys = Arc::new(Mutex::new(Vec::new()));
    let made = Arc::clone(&keys);
    let map = informer
        .derive(move |_| {
            let key = Arc::new(1);
            made.lock().unwrap().push(Arc::downgrade(&key));
            Some((key, ()))
        })
        .linger(Duration::from_secs(3600))
        .linger_at_most(2)
        .register()
        .unwrap();
    informer.start();
    map.synced().await.unwrap();
    for _ in 0..1000 {
        handle.added(config("x", "", ""));
        sleep(Duration::from_millis(100)).await;
        handle.deleted("shop/x");
        sleep(Duration::from_millis(100)).await;
    }

    let kept = keys.lock().unwrap().iter().filter(|key| key.strong_count() > 0).count();
    assert!(map.get_lingering(&1).is_some() && kept < 20, "{kept} keys are kept");
}

#[tokio::test(start_paused = true)]
async fn values_that_lingered_are_freed_at_the_next_event() {
    let objects = [config("x", "a", "1"), config("y", "b", "2")];
    let (map, _informer, handle) = map_with(objects, |derive| derive.linger(Duration::from_secs(60))).await;
    let value = Arc::downgrade(&map.get("a").unwrap());
    handle.deleted("shop/x");
    sleep(Duration::from_secs(70)).await;

    // It changes no entry.
    let mut object = config("y", "b", "2");
    object["data"]["other"] = "p".into();
    handle.modified(object);
    sleep(Duration::from_secs(1)).await;

    assert!(value.upgrade().is_none());
}

#[test]
fn a_map_that_was_large_frees_its_memory() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let [small, large] = [10, 50_000].map(|most| {
        let held = allocation_counter::measure(|| {
            let runtime = runtime();
            let kept = runtime.block_on(async {
                let (informer, handle) = informer([config("x", "", "10")]);
                let numbers = |object: &Cached<ConfigMap>| 0..field(object, "value").parse::<u32>().unwrap();
                let map = informer.derive(move |object| numbers(object).map(|number| (number, ()))).register().unwrap();
                informer.start();
                map.synced().await.unwrap();
                for count in [most, 10, 9] {
                    handle.modified(config("x", "", &count.to_string()));
                    sleep(Duration::from_secs(1)).await;
                    assert_eq!(map.len(), count);
                }
                (map, informer, handle)
            });
            std::mem::forget((kept, runtime));
        });
        held.bytes_current
    });
    assert!(large < small + 100_000, "{small} {large}");
}

/// Compared with a model.
#[tokio::test(start_paused = true)]
async fn the_preferred_value_is_the_greatest_of_all_objects_that_have_the_key() {
    let mut random = fastrand::Rng::with_seed(5);
    for _ in 0..30 {
        let (map, informer, handle) = map_with([], |derive| derive.prefer(Ord::cmp)).await;
        let mut existing = BTreeSet::new();
        for _ in 0..60 {
            if random.u32(0..10) == 0 {
                handle.fail_watch(SourceError::expired);
            }
            let name = format!("x{}", random.u32(0..6));
            if random.u32(0..4) == 0 {
                if existing.remove(&name) {
                    handle.deleted(format!("shop/{name}"));
                }
                continue;
            }
            let keys: Vec<_> = (0..random.usize(0..14)).map(|_| format!("k{}", random.u32(0..9))).collect();
            let object = config(&name, &keys.join(" "), &random.u32(0..4).to_string());
            match existing.insert(name) {
                true => drop(handle.added(object)),
                false => drop(handle.modified(object)),
            }
            if random.bool() {
                sleep(Duration::from_millis(random.u64(0..3000))).await;
            }
        }
        sleep(Duration::from_secs(100)).await;

        let mut expected = BTreeMap::<String, BTreeSet<String>>::new();
        for (key, value) in informer.lister().list().iter().flat_map(pairs) {
            expected.entry(key).or_default().insert(value);
        }
        let (all, keys) = (map.snapshot(), expected.keys().collect::<Vec<_>>());
        assert_eq!(all.iter().map(|(key, _)| key).collect::<BTreeSet<_>>(), keys.into_iter().collect());
        for (key, values) in &expected {
            let found: BTreeSet<_> = all.get_all(key).iter().map(ToString::to_string).collect();
            assert_eq!((all.get(key).map(|value| &**value), &found), (values.last(), values));
        }
    }
}
