//! Functions and mappings that panic, are slow, return very much, or read their own map.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::sleep;

use super::*;
use crate::support::Logs;

fn panicky(object: &Cached<ConfigMap>) -> Vec<(String, String)> {
    if field(object, "value") == "bad" {
        std::panic::resume_unwind(Box::new("no such value"));
    }
    pairs(object)
}

#[tokio::test(start_paused = true)]
async fn an_object_at_which_the_function_panics_has_no_entries_and_is_a_problem() {
    let logs = Logs::capture();
    let (informer, handle) = informer([config("x", "a", "bad"), config("y", "b", "2")]);
    let map = informer.derive(panicky).named("texts").register().unwrap();
    informer.start();
    map.synced().await.unwrap();
    assert_eq!((shown(&map).as_str(), map.is_fresh()), ("b=2", false));
    let expected =
        "derived map texts is incomplete: its function panicked at shop/x: no such value; objects with this problem: 1";
    assert_eq!(map.problems().iter().map(ToString::to_string).collect::<Vec<_>>(), [expected]);
    let json = serde_json::to_value(&map.problems()[0]).unwrap();
    assert_eq!((&json["type"], &json["map"], &json["key"]), (&"not_derived".into(), &"texts".into(), &"shop/x".into()));
    assert!(logs.take().contains("the function of a derived map panicked"));

    handle.modified(config("y", "b", "bad"));
    handle.modified(config("x", "a", "1"));
    sleep(Duration::from_secs(1)).await;
    let problems: Vec<_> = map.problems().iter().map(ToString::to_string).collect();
    assert_eq!((shown(&map).as_str(), problems.len()), ("a=1", 1));
    assert!(problems[0].contains("panicked at shop/y"), "{problems:?}");

    handle.deleted("shop/y");
    sleep(Duration::from_secs(1)).await;
    assert!(map.is_fresh());
}

#[tokio::test(start_paused = true)]
async fn all_objects_are_derived_again_when_a_mapping_panics() {
    let logs = Logs::capture();
    let ((pods, _pod_handle), (services, handle)) =
        (informer([config("p", "a", "")]), informer([config("s", "", "1")]));
    let lister = services.lister();
    let map = pods
        .derive(move |pod| {
            let service = lister.list().pop();
            [(field(pod, "keys"), service.map(|service| field(&service, "value")).unwrap_or_default())]
        })
        .named("texts")
        .with(&services, |service| -> Vec<informant::Key> {
            match field(service, "value").as_str() {
                "2" => std::panic::resume_unwind(Box::new("no such service")),
                _ => Vec::new(),
            }
        })
        .register()
        .unwrap();
    pods.start();
    services.start();
    map.synced().await.unwrap();
    assert_eq!(shown(&map), "a=1");

    handle.modified(config("s", "", "2"));
    sleep(Duration::from_secs(1)).await;

    assert_eq!((shown(&map).as_str(), map.is_fresh()), ("a=2", true));
    let logs = logs.take();
    assert!(logs.contains("a mapping of a derived map panicked") && logs.contains("key=\"shop/s\""), "{logs}");
}

#[tokio::test(start_paused = true)]
async fn the_first_slow_call_of_a_function_or_mapping_is_logged() {
    for slow in ["function", "mapping"] {
        let logs = Logs::capture();
        let (of_map, _handle) = informer([config("x", "a", "1"), config("y", "b", "2")]);
        let (other, others) = informer([]);
        let pause = move |name| {
            if name == slow {
                std::thread::sleep(Duration::from_millis(110));
            }
        };
        let derive = of_map.derive(move |object| {
            pause("function");
            pairs(object)
        });
        let mapping = move |_: &_| {
            pause("mapping");
            []
        };
        let map = derive.with(&other, mapping).named("texts").register().unwrap();
        of_map.start();
        other.start();
        map.synced().await.unwrap();
        for name in ["p", "q"] {
            others.added(config(name, "", ""));
        }
        sleep(Duration::from_secs(1)).await;

        let logs = logs.take();
        let warnings: Vec<_> = logs.lines().filter(|line| line.contains("of a derived map is slow")).collect();
        assert_eq!(warnings.len(), 1, "{logs}");
        assert!(warnings[0].contains("map=\"texts\" key=\"shop/"), "{logs}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_may_have_a_million_entries() {
    let (informer, handle) = informer([config("x", "", "1000000"), config("y", "", "0")]);
    let numbers = |object: &Cached<ConfigMap>| 0..field(object, "value").parse().unwrap();
    let map = informer.derive(move |object| numbers(object).map(|number: u32| (number, ()))).register().unwrap();
    informer.start();
    map.synced().await.unwrap();

    handle.modified(config("y", "", "1"));
    sleep(Duration::from_secs(1)).await;

    assert_eq!((map.len(), map.get_all(&0).len(), map.get_all(&999_999).len()), (1_000_000, 2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_function_may_read_its_own_map() {
    let (informer, handle) = informer([config("x", "a", "1")]);
    let own = Arc::new(OnceLock::<std::sync::Weak<Map>>::new());
    let (read, was_read) = (Arc::clone(&own), Arc::new(AtomicBool::new(false)));
    let noted = Arc::clone(&was_read);
    let map = informer
        .derive(move |object| {
            if let Some(map) = read.get().and_then(std::sync::Weak::upgrade) {
                noted.store(map.get("a").is_some() && map.snapshot().len() == 1, Ordering::Relaxed);
            }
            pairs(object)
        })
        .register()
        .unwrap();
    let map = Arc::new(map);
    own.set(Arc::downgrade(&map)).unwrap();
    informer.start();
    map.synced().await.unwrap();

    handle.modified(config("x", "b", "2"));
    sleep(Duration::from_secs(1)).await;

    assert_eq!((shown(&map).as_str(), was_read.load(Ordering::Relaxed)), ("b=2", true));
}

#[tokio::test(start_paused = true)]
async fn the_problem_names_an_object_that_has_it_now() {
    let (informer, handle) = informer([config("x", "a", "bad"), config("y", "b", "2")]);
    let map = informer
        .derive(|object| {
            let value = field(object, "value");
            if value.starts_with("bad") {
                std::panic::resume_unwind(Box::new(value));
            }
            pairs(object)
        })
        .named("texts")
        .register()
        .unwrap();
    informer.start();
    map.synced().await.unwrap();
    let problem = || map.problems().iter().map(ToString::to_string).collect::<String>();
    assert!(problem().contains("shop/x: bad;"), "{}", problem());

    handle.modified(config("x", "a", "bad too"));
    sleep(Duration::from_secs(1)).await;
    assert!(problem().contains("shop/x: bad too;"), "{}", problem());

    // Both in one batch.
    handle.fail_watch(informant::error::SourceError::expired);
    handle.modified(config("x", "a", "1"));
    handle.modified(config("y", "b", "bad"));
    sleep(Duration::from_secs(10)).await;
    assert!(problem().contains("shop/y: bad;"), "{}", problem());
}

#[tokio::test(start_paused = true)]
async fn values_at_which_the_preference_panics_are_preferred_alike() {
    let objects = [config("x", "a", "1"), config("y", "a", "NaN")];
    let number = |value: &String| value.parse::<f64>().unwrap();
    let compare = move |one: &String, other: &String| number(one).partial_cmp(&number(other)).unwrap();
    let (map, _informer, handle) = map_with(objects, |derive| derive.prefer(compare)).await;
    assert_eq!(shown(&map), "a=NaN");

    handle.modified(config("x", "a b", "2"));
    handle.modified(config("y", "a c", "1"));
    sleep(Duration::from_secs(10)).await;

    assert_eq!(shown(&map), "a=2 b=2 c=1");
}
