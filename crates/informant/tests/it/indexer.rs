//! `Indexer`: writing the cache and its indexes.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
    mpsc,
};

use informant::{
    Cached, Identity, Key, Uid,
    error::IndexError,
    index::{IndexFunction, IndexValue, NAMESPACE_INDEX},
    pipeline::{Indexer, Relist, WriteBatch},
};

use crate::support::{Logs, cache_of, key, list, object, show_objects};

type Tagged = Cached<Vec<&'static str>>;

fn tagged(name: &str, tags: &[&'static str]) -> Tagged {
    Cached::new(Identity::of_key(key(name)), tags.to_vec())
}

/// A cache of three objects, without an index.
fn fruits() -> Indexer<Vec<&'static str>> {
    let fruits = Indexer::new();
    fruits.upsert(tagged("n/apple", &["red", "round"]));
    fruits.upsert(tagged("n/banana", &["yellow"]));
    fruits.upsert(tagged("m/cherry", &["red"]));
    fruits
}

fn tags(object: &Tagged) -> Vec<&'static str> {
    object.to_vec()
}

// IX-01, IX-24, IX-32
#[test]
fn upsert_and_remove_return_the_old_object_and_get_the_stored_handle() {
    let cache = Indexer::new();
    let (first, second) = (object("n/x", 1), object("n/x", 2));

    assert!(cache.upsert(first.clone()).is_none());
    assert!(Cached::ptr_eq(&cache.upsert(second.clone()).unwrap(), &first));
    assert!(Cached::ptr_eq(&cache.lister().get(&key("n/x")).unwrap(), &second));
    assert_eq!(cache.lister().keys(), [key("n/x")]);

    assert!(Cached::ptr_eq(&cache.remove(&key("n/x")).unwrap(), &second));
    assert!(cache.remove(&key("n/x")).is_none(), "removing a missing object does nothing");
    assert!(cache.lister().is_empty());
}

// IX-06
#[test]
fn replace_sets_all_objects_and_uses_the_last_one_of_a_repeated_key() {
    let cache = cache_of([("stays", 1), ("goes", 2)]);

    let applied = cache.replace(&list(9, [("stays", 1), ("new", 3), ("new", 4)]));

    assert_eq!(show_objects(cache.lister().list()), ["new@4", "stays@1"]);
    assert_eq!(cache.lister().version(), Some("9".into()));
    let changes: Vec<_> =
        applied.replacements.iter().map(|change| format!("{:?} {:?}", change.old, change.new)).collect();
    assert_eq!(changes, ["Some(goes@2) None", "Some(stays@1) Some(stays@1)", "None Some(new@4)"]);
}

// Decision 3
#[test]
fn replace_keeps_quarantined_objects_of_the_same_uid() {
    let cache = cache_of([("same", 1), ("other", 2)]);
    let quarantined = vec![(key("same"), Uid::new("u1")), (key("other"), Uid::new("u2"))];

    cache.replace(&Relist { version: "9".into(), objects: vec![], quarantined, history_changed: false });

    assert_eq!(show_objects(cache.lister().list()), ["same@1"]);
}

// Decision 2: relists of unchanged objects cost little
#[test]
fn replace_does_not_index_objects_again_that_the_cache_holds() {
    let calls = Arc::new(AtomicUsize::new(0));
    let cache = Indexer::new();
    let counter = Arc::clone(&calls);
    let counting = move |object: &Cached<()>| {
        counter.fetch_add(1, Ordering::Relaxed);
        [object.version().to_string()]
    };
    cache.add_index("version", counting).unwrap();
    let same = object("same", 1);
    cache.upsert(same.clone());

    cache.replace(&Relist {
        version: "9".into(),
        objects: vec![same, object("new", 2)],
        quarantined: vec![],
        history_changed: false,
    });

    assert_eq!(calls.load(Ordering::Relaxed), 2, "the index function is called once for each object");
    assert_eq!(cache.lister().index("version").unwrap().keys("1"), [key("same")]);
}

// IX-08, IX-09, IX-10, IX-11, IX-17
#[test]
fn an_index_finds_an_object_by_each_of_its_current_values() {
    let cache = fruits();
    let by_tag = cache.add_index("tag", tags).unwrap();
    assert_eq!(by_tag.keys("red"), [key("m/cherry"), key("n/apple")]);

    cache.upsert(tagged("n/apple", &["green", "round"]));
    assert_eq!(by_tag.keys("red"), [key("m/cherry")]);
    assert_eq!(by_tag.keys("green"), [key("n/apple")]);
    assert_eq!(by_tag.keys("round"), [key("n/apple")]);

    cache.upsert(tagged("n/apple", &[]));
    cache.remove(&key("m/cherry"));
    let values: Vec<_> = by_tag.values().iter().map(ToString::to_string).collect();
    assert_eq!(values, ["yellow"], "the index drops values without objects");
    assert!(cache.lister().get(&key("n/apple")).is_some(), "an object without index values is still in the cache");
}

// IX-12, but the index remembers the old values instead of computing them again
#[test]
fn an_index_function_with_changing_results_does_not_corrupt_the_index() {
    let calls = AtomicUsize::new(0);
    let cache = Indexer::new();
    let by_call =
        cache.add_index("call", move |_: &Cached<()>| [calls.fetch_add(1, Ordering::Relaxed) as u64]).unwrap();

    cache.upsert(object("x", 1));
    cache.upsert(object("x", 2));

    assert_eq!([0_u64, 1].map(|call| by_call.count(&call)), [0, 1]);
    assert_eq!(by_call.values().len(), 1);
}

// IX-13
#[test]
fn a_panic_of_an_index_function_is_reported_and_affects_neither_the_object_nor_other_indexes() {
    let cache = fruits();
    let by_tag = cache.add_index("tag", tags).unwrap();
    let fragile = |object: &Tagged| {
        assert!(!object.contains(&"rotten"), "rotten fruit");
        tags(object)
    };
    let by_fragile = cache.add_index("fragile", fragile).unwrap();

    let logs = Logs::capture();
    let mut batch = WriteBatch::new();
    batch.upsert(tagged("n/apple", &["rotten"]));
    batch.upsert(tagged("n/banana", &["green"]));
    let applied = cache.apply(batch);

    let logged = logs.take();
    assert!(
        logged.contains("ERROR") && logged.contains(r#"index="fragile" key="n/apple" error="rotten fruit""#),
        "{logged}"
    );

    assert_eq!(applied.index_panics.len(), 1);
    assert_eq!(
        applied.index_panics[0].to_string(),
        "the function of index \"fragile\" panicked on n/apple: rotten fruit"
    );
    assert_eq!(by_tag.keys("rotten"), [key("n/apple")]);
    assert_eq!(by_fragile.count("rotten"), 0);
    assert_eq!(by_fragile.keys("green"), [key("n/banana")]);
}

// IX-13
#[test]
fn an_index_function_that_panics_in_its_iterator_leaves_no_values() {
    let cache = Indexer::new();
    let half_way = |_: &Cached<()>| (0..3_u32).inspect(|value| assert!(*value < 2, "half-way"));
    let by_value = cache.add_index("value", half_way).unwrap();

    cache.upsert(object("x", 1));

    assert_eq!([0, 1].map(|value: u32| by_value.count(&value)), [0, 0]);
    assert_eq!(cache.lister().len(), 1);
}

// Decision 7
#[test]
fn an_index_function_that_writes_to_its_cache_is_reported_instead_of_deadlocking() {
    let cache = Arc::new(Indexer::new());
    let own_cache = Arc::downgrade(&cache);
    let writes = move |_: &Cached<()>| own_cache.upgrade().map(|cache| cache.upsert(object("y", 2)).is_some());
    cache.add_index("writes", writes).unwrap();

    let mut batch = WriteBatch::new();
    batch.upsert(object("x", 1));
    let applied = cache.apply(batch);

    let message = "the function of index \"writes\" panicked on x: an index function must not write";
    assert!(applied.index_panics[0].to_string().starts_with(message), "{}", applied.index_panics[0]);
    assert_eq!(show_objects(cache.lister().list()), ["x@1"]);
}

/// An index value that writes to its cache, if it has one, while its text is read.
struct WritesOnRead(Option<Arc<Indexer<()>>>);

impl IndexValue for WritesOnRead {
    fn text(&self) -> std::borrow::Cow<'_, str> {
        if let Some(cache) = &self.0 {
            cache.upsert(object("x", 1));
        }
        "same".into()
    }
}

// Decision 7
#[test]
fn lookups_read_the_text_of_an_index_value_without_a_lock_of_the_cache() {
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        let cache = Arc::new(Indexer::new());
        let by_value = cache.add_index("value", |_: &Cached<()>| [WritesOnRead(None)]).unwrap();
        let example = WritesOnRead(Some(Arc::clone(&cache)));
        done.send((by_value.get(&example).len(), by_value.keys(&example).len(), by_value.count(&example))).unwrap();
    });

    // The limit turns a deadlock into a failure.
    let found =
        is_done.recv_timeout(std::time::Duration::from_secs(60)).expect("the write waits for the lock of the lookup");
    assert_eq!(found, (1, 1, 1));
}

// Decision 7: the work under the lock is not quadratic in the number of values
#[test]
fn an_object_may_have_30000_index_values() {
    let cache = Indexer::new();
    let by_value = cache.add_index("value", |object: &Cached<Vec<u32>>| object.to_vec()).unwrap();
    let many = |values: std::ops::Range<u32>| Cached::new(Identity::of_key(key("x")), values.collect::<Vec<_>>());

    cache.upsert(many(0..30_000));
    cache.upsert(many(10_000..40_000));

    assert_eq!([9_999, 10_000, 39_999].map(|value: u32| by_value.count(&value)), [0, 1, 1]);
    assert_eq!(by_value.values().len(), 30_000);
}

// IX-13
#[test]
fn add_indexes_reports_panics_on_stored_objects() {
    let cache = fruits();
    let fragile = |object: &Tagged| {
        assert!(!object.contains(&"yellow"), "no yellow");
        tags(object)
    };

    let panics = cache.add_indexes([IndexFunction::new("fragile", fragile)]).unwrap();

    assert!(
        matches!(&panics[..], [IndexError::Panicked { key: broken, .. }] if *broken == key("n/banana")),
        "{panics:?}"
    );
    assert_eq!(cache.lister().index("fragile").unwrap().keys("red"), [key("m/cherry"), key("n/apple")]);
}

// IX-14, IX-15
#[test]
fn an_unknown_index_is_an_error_and_an_unknown_value_finds_nothing() {
    let cache = fruits();
    cache.add_index("tag", tags).unwrap();
    let lister = cache.lister();

    let unknown: IndexError = lister.index("tags").unwrap_err();
    assert_eq!(unknown.to_string(), "no index is named \"tags\"; the existing ones are [\"namespace\", \"tag\"]");
    assert!(lister.index("tag").unwrap().get("blue").is_empty());
}

// IX-18
#[test]
fn keys_by_index_are_sorted() {
    let cache = Indexer::new();
    for name in ["n/c", "a", "n/a", "m/z"] {
        cache.upsert(tagged(name, &["x"]));
    }
    cache.add_index("tag", tags).unwrap();

    let keys = cache.lister().index("tag").unwrap().keys("x");

    assert_eq!(keys, ["a", "m/z", "n/a", "n/c"].map(key));
}

// IX-19, IX-21
#[test]
fn an_index_that_is_added_later_contains_the_stored_objects() {
    let cache = fruits();

    let by_tag = cache.add_index("tag", tags).unwrap();
    assert_eq!(by_tag.count("red"), 2);

    cache.upsert(tagged("n/date", &["red"]));
    assert_eq!(by_tag.count("red"), 3);
}

#[test]
fn adding_an_index_again_returns_the_existing_one_if_the_function_is_certainly_the_same() {
    let cache = fruits();
    let shout = |mark: char| move |object: &Tagged| object.iter().map(|tag| format!("{tag}{mark}")).collect::<Vec<_>>();
    cache.add_index("tag", tags).unwrap();
    cache.add_index("shouted", shout('!')).unwrap();

    assert_eq!(cache.add_index("tag", tags).unwrap().count("red"), 2);

    let error = cache.add_index("tag", |object: &Tagged| object.first().copied()).unwrap_err();
    assert!(error.to_string().contains("read the existing one with `lister.index(\"tag\")`"), "{error}");
    let error = cache.add_index("shouted", shout('?')).unwrap_err();
    assert!(matches!(error, IndexError::Exists { .. }), "functions that capture values may differ: {error}");
}

// IX-20
#[test]
fn add_indexes_adds_none_if_one_name_exists() {
    let cache = fruits();
    cache.add_index("tag", tags).unwrap();

    let first = |object: &Tagged| object.first().copied();
    let both = [IndexFunction::new("new", tags), IndexFunction::new("tag", first)];
    assert_eq!(
        cache.add_indexes(both).unwrap_err().to_string(),
        "an index named \"tag\" exists already; choose another name, or read the existing one with `lister.index(\"tag\")`"
    );
    let twice = [IndexFunction::new("new", tags), IndexFunction::new("new", first)];
    assert!(cache.add_indexes(twice).is_err());

    assert!(cache.lister().index("new").is_err());
    assert!(cache.add_index("tag", first).is_err());
    assert!(cache.add_indexes([IndexFunction::new("new", tags)]).is_ok());
}

// IX-22
#[test]
fn the_namespace_index_finds_cluster_scoped_objects_by_the_empty_value() {
    let cache = cache_of([("n/a", 1), ("n/b", 2), ("m/c", 3), ("d", 4)]);
    let by_namespace = |namespace| cache.lister().index(NAMESPACE_INDEX).unwrap().keys(namespace);

    assert_eq!(by_namespace("n"), [key("n/a"), key("n/b")]);
    assert_eq!(by_namespace("m"), [key("m/c")]);
    assert_eq!(by_namespace(""), [key("d")]);
}

// IX-25 to IX-28, but the version is the reached one (decision 13)
#[test]
fn the_version_of_the_cache_is_that_of_the_batch_and_not_of_its_objects() {
    let cache = Indexer::new();
    cache.upsert(object("x", 5));
    assert_eq!(cache.lister().version(), None);

    let mut batch = WriteBatch::new();
    batch.upsert(object("x", 6));
    batch.remove(key("x"));
    batch.at("9".into());
    cache.apply(batch);
    assert_eq!(cache.lister().version(), Some("9".into()));

    cache.remove(&key("x"));
    cache.apply(WriteBatch::new());
    assert_eq!(cache.lister().version(), Some("9".into()));

    cache.replace(&list(3, []));
    assert_eq!(cache.lister().version(), Some("3".into()), "a smaller version is accepted");
}

// IX-30, IX-31
#[test]
fn a_batch_is_applied_in_order_and_returns_the_old_and_new_object_of_each_write() {
    let cache = cache_of([("x", 1)]);
    let mut batch = WriteBatch::new();
    batch.upsert(object("x", 2));
    batch.upsert(object("y", 3));
    batch.remove(key("x"));
    batch.remove(key("unknown"));
    batch.upsert(object("x", 4));

    let applied = cache.apply(batch);

    let changes: Vec<_> =
        applied.replacements.iter().map(|change| format!("{:?} {:?}", change.old, change.new)).collect();
    assert_eq!(changes, ["Some(x@1) Some(x@2)", "None Some(y@3)", "Some(x@2) None", "None None", "None Some(x@4)"]);
    assert_eq!(show_objects(cache.lister().list()), ["x@4", "y@3"]);
    assert!(cache.apply(WriteBatch::new()).replacements.is_empty());
}

// IX-34
#[test]
fn an_index_of_numbers_is_queried_with_numbers_or_by_name_with_text() {
    let cache = fruits();
    let by_count = cache.add_index("count", |object: &Tagged| Some(object.len())).unwrap();

    assert_eq!(by_count.keys(&2), [key("n/apple")]);
    assert_eq!(cache.lister().index("count").unwrap().keys("2"), [key("n/apple")]);
    assert_eq!(cache.lister().index("count").unwrap().keys("2"), [key("n/apple")]);
}

// Decision 6: a large batch is applied to a copy, which then replaces the state
#[test]
fn batches_of_any_size_are_applied_whether_or_not_a_snapshot_is_held() {
    for count in [1, 500, 5_000, 40_000] {
        for holds_snapshot in [false, true] {
            let cache = Indexer::new();
            let by_last = cache.add_index("last", |object: &Cached<()>| object.key().name().chars().last()).unwrap();
            let snapshot = holds_snapshot.then(|| cache.lister().snapshot());
            let mut batch = WriteBatch::new();
            (0..count).for_each(|number| batch.upsert(object(&format!("n/{number}"), 1)));

            cache.apply(batch);

            assert_eq!(cache.lister().len(), count as usize);
            let by_any: usize = ('0'..='9').map(|digit| by_last.count(&digit)).sum();
            assert_eq!(by_any, count as usize);
            assert!(snapshot.is_none_or(|snapshot| snapshot.is_empty()));
        }
    }
}

// Decision 7
#[test]
fn readers_do_not_wait_while_an_index_function_runs() {
    let cache = Arc::new(cache_of([("x", 1)]));
    let (entered, has_entered) = mpsc::channel();
    let (release, is_released) = mpsc::channel();
    let is_released = std::sync::Mutex::new(is_released);
    let blocking = move |object: &Cached<()>| {
        if object.version().as_str() == "2" {
            entered.send(()).unwrap();
            is_released.lock().unwrap().recv().unwrap();
        }
        [object.version().to_string()]
    };
    cache.add_index("version", blocking).unwrap();

    std::thread::scope(|scope| {
        let writer = scope.spawn(|| cache.upsert(object("x", 2)));
        has_entered.recv().unwrap();
        assert_eq!(show_objects(cache.lister().list()), ["x@1"], "the write is not visible yet");
        assert_eq!(cache.lister().index("version").unwrap().keys("1"), [key("x")]);
        release.send(()).unwrap();
        writer.join().unwrap();
    });

    assert_eq!(cache.lister().index("version").unwrap().keys("2"), [key("x")]);
}

// Decision 7
#[test]
fn an_index_function_may_read_the_cache() {
    let cache = Indexer::new();
    let lister = cache.lister();
    let by_size = cache.add_index("size-before", move |_: &Cached<()>| [lister.len()]).unwrap();

    cache.upsert(object("a", 1));
    cache.upsert(object("b", 2));

    assert_eq!(by_size.keys(&1), [key("b")]);
}

/// An object whose destructor reads the cache.
struct ReadsOnDrop(informant::Lister<ReadsOnDrop>);

impl Drop for ReadsOnDrop {
    fn drop(&mut self) {
        self.0.len();
    }
}

// Decision 7
#[test]
fn replaced_objects_are_dropped_without_a_lock_of_the_cache() {
    let cache = Indexer::new();
    let new = |name: &str| Cached::new(Identity::of_key(key(name)), ReadsOnDrop(cache.lister()));
    cache.upsert(new("a"));
    cache.upsert(new("a"));
    cache.upsert(new("b"));
    cache.remove(&key("a"));
    let snapshot = cache.lister().snapshot();
    cache.replace(&Relist {
        version: "9".into(),
        objects: vec![new("c")],
        quarantined: vec![],
        history_changed: false,
    });
    drop(snapshot);

    let names: Vec<Key> = cache.lister().keys();

    assert_eq!(names, [key("c")]);
}
