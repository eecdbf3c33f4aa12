//! `Lister` and its snapshots: reading the cache.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use informant::{
    Cached, Identity, LabelSelector, Lazy, Object,
    error::IndexError,
    index::{Labelled, Lookup},
    pipeline::{Indexer, Scanner, WriteBatch},
};
use k8s_openapi::api::core::v1::Pod;
use kube::core::{Expression, Selector};

use crate::support::{cache_of, key, object, show_objects};

/// Four pods in two namespaces, of any object type.
fn pods<O: Object>() -> Indexer<O> {
    let indexer = Indexer::of_resource("pods");
    for (namespace, name, app) in
        [("shop", "web-1", "web"), ("shop", "web-2", "web"), ("shop", "db", "db"), ("ops", "web-3", "web")]
    {
        let json =
            format!(r#"{{"metadata":{{"namespace":"{namespace}","name":"{name}","labels":{{"app":"{app}"}}}}}}"#);
        indexer.upsert(Scanner::of_kind::<Pod>().scan(json.as_bytes()).unwrap().decode().unwrap());
    }
    indexer
}

fn app(name: &str) -> LabelSelector {
    Expression::Equal("app".into(), name.into()).into()
}

fn check_label_selectors<O: Object + Labelled>() {
    let pods = pods::<O>().lister();

    assert_eq!(show_objects(pods.select(app("web"))), ["ops/web-3@", "shop/web-1@", "shop/web-2@"]);
    assert_eq!(show_objects(pods.namespace("shop").select(app("web"))), ["shop/web-1@", "shop/web-2@"]);
    assert_eq!(show_objects(pods.select(app("api"))), [""; 0]);
    let not_web = Selector::from(Expression::NotIn("app".into(), BTreeSet::from(["web".to_owned()])));
    assert_eq!(show_objects(pods.select(not_web.into())), ["shop/db@"]);
    assert_eq!(show_objects(pods.select("app notin (web)".parse().unwrap())), ["shop/db@"]);
    assert_eq!(show_objects(pods.snapshot().select("app=web,!tier".parse().unwrap())).len(), 3);
    assert_eq!(show_objects(pods.namespace("ops").select("app".parse().unwrap())), ["ops/web-3@"]);
}

// LI-02
#[test]
fn select_returns_exactly_the_objects_with_matching_labels() {
    check_label_selectors::<Pod>();
    check_label_selectors::<Lazy<Pod>>();
}

// LI-02
#[test]
fn select_returns_handles_of_the_cached_objects() {
    let pods = pods::<Pod>().lister();

    let selected = pods.select(app("db"));

    assert!(Cached::ptr_eq(&selected[0], &pods.get(&key("shop/db")).unwrap()));
}

/// An object that counts how often its labels are read.
struct CountsLabelReads(Arc<AtomicUsize>);

impl Labelled for CountsLabelReads {
    fn label_map(&self) -> Cow<'_, BTreeMap<String, String>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Cow::Owned(BTreeMap::new())
    }
}

// LI-01
#[test]
fn a_selector_that_matches_everything_or_nothing_reads_no_labels() {
    let (reads, indexer) = (Arc::new(AtomicUsize::new(0)), Indexer::new());
    indexer.upsert(Cached::new(Identity::of_key(key("x")), CountsLabelReads(Arc::clone(&reads))));
    let lister = indexer.lister();

    assert_eq!(lister.select(Selector::default().into()).len(), 1);
    assert_eq!(lister.select(Expression::In("app".into(), BTreeSet::new()).into()).len(), 0);
    assert_eq!(reads.load(Ordering::Relaxed), 0);

    assert_eq!(lister.select(app("web")).len(), 0);
    assert_eq!(reads.load(Ordering::Relaxed), 1);
}

/// An object that writes to its own cache while its labels are read.
struct WritesOnLabelRead(Arc<Mutex<Option<Indexer<WritesOnLabelRead>>>>);

impl Labelled for WritesOnLabelRead {
    fn label_map(&self) -> Cow<'_, BTreeMap<String, String>> {
        if let Some(indexer) = self.0.lock().unwrap().take() {
            indexer.remove(&key("gone"));
        }
        Cow::Owned(BTreeMap::new())
    }
}

// Decision 7
#[test]
fn select_reads_labels_without_a_lock_of_the_cache() {
    let (done, is_done) = mpsc::channel();
    std::thread::spawn(move || {
        let (shared, indexer) = (Arc::new(Mutex::new(None)), Indexer::new());
        indexer.upsert(Cached::new(Identity::of_key(key("x")), WritesOnLabelRead(Arc::clone(&shared))));
        let lister = indexer.lister();
        *shared.lock().unwrap() = Some(indexer);
        lister.select(app("web"));
        done.send(shared.lock().unwrap().is_none()).unwrap();
    });

    // The limit turns a deadlock into a failure.
    let has_written =
        is_done.recv_timeout(Duration::from_secs(60)).expect("the write waits for the lock of the reader");
    assert!(has_written);
}

// LI-03
#[test]
fn a_namespace_lister_lists_its_namespace_and_that_of_the_empty_namespace_all_objects() {
    let pods = pods::<Pod>().lister();

    assert_eq!(show_objects(pods.namespace("ops").list()), ["ops/web-3@"]);
    assert_eq!(pods.namespace("").list().len(), 4);
    assert!(pods.namespace("nowhere").list().is_empty());
}

// LI-03
#[test]
fn a_namespace_lister_uses_the_namespace_index() {
    let indexer = Indexer::new();
    let mut batch = WriteBatch::new();
    (0..20_000).for_each(|number| batch.upsert(object(&format!("large/{number}"), 1)));
    batch.upsert(object("small/x", 1));
    indexer.apply(batch);
    let small = indexer.lister().namespace("small");

    let allocated = allocation_counter::measure(|| assert_eq!(small.list().len(), 1)).bytes_max;

    assert!(allocated < 1000, "listing one object allocates {allocated} bytes");
}

/// Filters all objects: the reference for lookups in several indexes.
fn scan<'a>(pods: &Indexer<Lazy<Pod>>, has: impl Fn(&Cached<Lazy<Pod>>) -> bool + 'a) -> Vec<String> {
    show_objects(pods.lister().list().into_iter().filter(|pod| has(pod)))
}

#[test]
fn by_indexes_returns_the_objects_that_have_all_values() {
    let pods = pods::<Lazy<Pod>>();
    let by_app = pods.add_index("app", |pod: &Cached<Lazy<Pod>>| pod.labels().remove("app")).unwrap();
    let by_letter = pods
        .add_index("letter", |pod: &Cached<Lazy<Pod>>| pod.key().name().chars().map(String::from).collect::<Vec<_>>())
        .unwrap();
    let lister = pods.lister();
    let (app, letter) =
        (|pod: &Cached<Lazy<Pod>>| pod.labels()["app"].clone(), |pod: &Cached<Lazy<Pod>>| pod.key().name().to_owned());

    let web_in_shop = lister.by_indexes([("app", "web"), ("namespace", "shop")]).unwrap();
    assert_eq!(show_objects(web_in_shop), ["shop/web-1@", "shop/web-2@"]);
    for (wanted, number) in [("web", '1'), ("web", 'b'), ("db", 'b'), ("db", '1'), ("none", 'b')] {
        let expected = scan(&pods, |pod| app(pod) == wanted && letter(pod).contains(number));
        let text = number.to_string();
        let found = lister.by_indexes([by_app.lookup(wanted), by_letter.lookup(text.as_str())]).unwrap();
        assert_eq!(show_objects(found), expected);
        let found = lister.snapshot().by_indexes([by_letter.lookup(text.as_str()), by_app.lookup(wanted)]).unwrap();
        assert_eq!(show_objects(found), expected, "the order of the lookups does not matter");
    }
    // The value with the fewest objects is the last; the first one alone would return more.
    let last = lister.by_indexes([by_app.lookup("web"), by_letter.lookup("w"), by_letter.lookup("3")]).unwrap();
    assert_eq!(show_objects(last), ["ops/web-3@"]);
    let none = lister.by_indexes([by_app.lookup("web"), by_letter.lookup("d")]).unwrap();
    assert_eq!(none.len(), 0, "no object has both values");
    let twice = lister.by_indexes([by_letter.lookup("b"), by_letter.lookup("d")]).unwrap();
    assert_eq!(show_objects(twice), ["shop/db@"], "two values of one index");
    assert_eq!(lister.by_indexes(Vec::<Lookup>::new()).unwrap().len(), 4, "no lookup matches all objects");
    let error = lister.by_indexes([("app", "web"), ("nope", "x")]).unwrap_err();
    assert!(matches!(error, IndexError::Unknown { name, .. } if name == "nope"));
}

// LI-05
#[test]
fn require_fails_with_the_resource_and_the_key_of_a_missing_object() {
    let pods = pods::<Pod>().lister();

    assert_eq!(pods.require(&key("shop/db")).unwrap().key(), &key("shop/db"));
    assert_eq!(pods.require(&key("shop/api")).unwrap_err().to_string(), "shop/api not found in the cache of pods");
    let shop = pods.namespace("shop");
    assert_eq!(shop.require("db").unwrap().key(), &key("shop/db"));
    assert_eq!(shop.require("api").unwrap_err().key, key("shop/api"));
    assert!(shop.get("web-3").is_none(), "web-3 is in another namespace");
}

// LI-05
#[test]
fn cluster_scoped_objects_are_found_by_name() {
    let nodes = cache_of([("node-1", 1)]).lister();

    assert!(nodes.get(&key("node-1")).is_some());
    assert!(nodes.namespace("").get("node-1").is_some());
    assert!(nodes.namespace("n").get("node-1").is_none());
}

// LI-06
#[test]
fn get_finds_an_object_by_a_key_parsed_from_text() {
    let pods = pods::<Pod>().lister();

    assert!(pods.get(&"shop/db".parse().unwrap()).is_some());
    assert!(pods.get(&"db".parse().unwrap()).is_none());
}

// LI-07, but decoding fails
#[test]
fn an_object_whose_labels_cannot_be_read_is_refused_when_it_is_decoded() {
    let json = br#"{"metadata":{"namespace":"shop","name":"odd","labels":{"app":7}}}"#;

    assert!(Scanner::of_kind::<Pod>().scan(json).is_err());
}

#[test]
fn a_snapshot_keeps_its_objects_indexes_and_version() {
    let indexer = pods::<Lazy<Pod>>();
    let by_app = indexer.add_index("app", |pod: &Cached<Lazy<Pod>>| pod.labels().get("app").cloned()).unwrap();
    let snapshot = indexer.lister().snapshot();

    indexer.remove(&key("shop/db"));
    let by_later = indexer.add_index("later", |_: &Cached<Lazy<Pod>>| ["x"]).unwrap();

    assert_eq!((snapshot.len(), snapshot.version()), (4, None));
    assert_eq!(show_objects(snapshot.by_indexes([by_app.lookup("db")]).unwrap()), ["shop/db@"]);
    assert_eq!(show_objects(snapshot.select(app("db"))), ["shop/db@"]);
    assert_eq!(show_objects(snapshot.namespace("shop").list()), ["shop/db@", "shop/web-1@", "shop/web-2@"]);
    assert!(snapshot.by_indexes([by_later.lookup("x")]).is_err());
    assert_eq!(snapshot.index("app").unwrap().keys("db"), [key("shop/db")]);
    assert!(snapshot.get(&key("shop/db")).is_some());
    assert!(snapshot.index("later").is_err());
    assert_eq!(indexer.lister().len(), 3);
    assert_eq!(indexer.lister().index("later").unwrap().get("x").len(), 3);
}
