//! The memory of caches: what is counted, and what a budget packs.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use informant::{
    Cached, Key, Lazy, SharedInformer, SharedInformerFactory,
    error::{ListWatchError, SourceError},
    factory::{FactoryBuilder, Problem},
    index,
};
use informant_apiserver::{ApiServer, Fault, On};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;

use crate::support::servers::{Leaks, client, stop_factory};

type Configs = SharedInformer<Lazy<ConfigMap>>;

/// A text of two kilobytes that differs from shape to shape.
fn text(shape: u64) -> String {
    let mut random = fastrand::Rng::with_seed(shape);
    (0..2000).map(|_| random.alphanumeric()).collect()
}

/// An object that resembles all others of its shape.
fn put(server: &ApiServer, shape: u64, number: u64, revision: u64) {
    let name = format!("web{shape}-{number}");
    let data = json!({"text": text(shape), "number": number.to_string(), "revision": revision.to_string()});
    let labels = json!({"shape": shape.to_string()});
    let metadata = json!({"namespace": "shop", "name": name, "labels": labels});
    server.put("configmaps", json!({"metadata": metadata, "data": data})).unwrap();
}

fn server(shapes: u64, objects: u64) -> ApiServer {
    let server = ApiServer::new();
    (0..objects).for_each(|number| put(&server, number % shapes, number, 1));
    server
}

fn builder(server: &ApiServer) -> FactoryBuilder {
    SharedInformerFactory::builder(client(server))
}

async fn started(builder: FactoryBuilder) -> (SharedInformerFactory, Configs) {
    let factory = builder.build();
    let configs = factory.informer::<Lazy<ConfigMap>>();
    factory.start();
    factory.synced().await.unwrap();
    (factory, configs)
}

/// The bytes of the cache, when they have not changed for some time.
async fn settled_bytes(configs: &Configs) -> usize {
    let mut bytes = 0;
    while configs.status().bytes != bytes {
        bytes = configs.status().bytes;
        tokio::time::sleep(Duration::from_secs(300)).await;
    }
    bytes
}

fn key(shape: u64, number: u64) -> Key {
    Key::namespaced("shop", &format!("web{shape}-{number}"))
}

/// Waits until the cache has this revision of an object.
async fn shows(configs: &Configs, key: &Key, wanted: u64) {
    let has_it = |object: Option<&Cached<Lazy<ConfigMap>>>| object.is_some_and(|it| revision(it) == wanted.to_string());
    configs.wait_until(key, has_it, Duration::from_secs(3000)).await.unwrap();
}

fn revision(object: &Cached<Lazy<ConfigMap>>) -> String {
    object.get().unwrap().data.as_ref().unwrap()["revision"].clone()
}

#[tokio::test(start_paused = true)]
async fn a_packed_object_is_read_as_a_plain_one() {
    let server = server(3, 60);
    let (plain, packed) = (builder(&server), builder(&server).memory_budget(0));
    let leaks = Leaks::watch();
    let (plain_factory, plain) = started(plain).await;
    let (factory, packed) = started(packed).await;
    let by_shape = packed.add_index("shape", index::label("shape")).unwrap();
    let by_number = packed.add_index("number", index::field("data.number").unwrap()).unwrap();
    put(&server, 1, 1, 2);
    put(&server, 0, 60, 2);
    for informer in [&plain, &packed] {
        shows(informer, &key(0, 60), 2).await;
    }

    for expected in plain.lister().list() {
        let object = packed.lister().require(expected.key()).unwrap();
        assert_eq!(object.json().unwrap(), expected.json().unwrap());
        assert_eq!(*object.get().unwrap(), *expected.get().unwrap());
        assert_eq!(object.labels(), expected.labels());
        assert_eq!(object.version(), expected.version());
    }
    assert_eq!((by_shape.count("0"), by_shape.count("2")), (21, 20));
    assert_eq!(by_number.get("60").len(), 1);
    assert_eq!(revision(&packed.lister().require(&key(1, 1)).unwrap()), "2");
    let (packed_bytes, plain_bytes) = (packed.status().bytes, plain.status().bytes);
    assert!(packed_bytes * 2 < plain_bytes, "{packed_bytes} and {plain_bytes} bytes");
    plain_factory.stop().await.unwrap();
    stop_factory(&factory, &leaks).await;
}

/// The first list fits into the budget, and the last third of the objects does not.
async fn over_budget(server: &ApiServer) -> (SharedInformerFactory, Configs, usize) {
    over_budget_of(server, builder(server)).await
}

async fn over_budget_of(server: &ApiServer, builder: FactoryBuilder) -> (SharedInformerFactory, Configs, usize) {
    let (factory, plain) = started(self::builder(server)).await;
    let budget = plain.status().bytes + 10_000;
    factory.stop().await.unwrap();
    let (factory, configs) = started(builder.memory_budget(budget)).await;
    assert!(configs.status().bytes + 20_000 > budget, "nothing is packed: {} of {budget}", configs.status().bytes);
    (factory, configs, budget)
}

#[tokio::test(start_paused = true)]
async fn objects_are_packed_when_the_budget_is_used_up() {
    let server = server(3, 300);
    let (factory, configs, budget) = over_budget(&server).await;

    (300..2000).for_each(|number| put(&server, number % 3, number, 1));
    shows(&configs, &key(1, 1999), 1).await;
    settled_bytes(&configs).await;

    assert!(configs.status().bytes < budget, "{} of {budget}", configs.status().bytes);
    assert!(factory.problems().is_empty(), "{:?}", factory.problems());
    for number in 0..2000 {
        assert_eq!(revision(&configs.lister().require(&key(number % 3, number)).unwrap()), "1");
    }
    factory.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_budget_holds_after_relists_under_load() {
    let server = server(10, 2000);
    let budget = 2_000_000;
    let (factory, configs) = started(builder(&server).memory_budget(budget)).await;
    let by_shape = configs.add_index("shape", index::label("shape")).unwrap();

    for round in 2..12 {
        server.inject(On::watch().of("configmaps").once(), Fault::ErrorEvent { code: 410, after: 50 });
        (0..2000).filter(|number| number % 7 == round % 7).for_each(|number| put(&server, number % 10, number, round));
        put(&server, 9, 1999, round);
        shows(&configs, &key(9, 1999), round).await;
    }
    let bytes = settled_bytes(&configs).await;

    assert!(bytes <= budget * 11 / 10, "{bytes} of {budget}");
    assert!(factory.problems().is_empty(), "{:?}", factory.problems());
    assert_eq!(by_shape.count("3"), 200);
    for number in 0..1999 {
        let newest = (2..12).rev().find(|round| number % 7 == round % 7).unwrap_or(1);
        assert_eq!(revision(&configs.lister().require(&key(number % 10, number)).unwrap()), newest.to_string());
    }
    factory.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cached_objects_that_were_read_are_packed_some_seconds_later() {
    let server = server(3, 300);
    let (factory, configs, budget) = over_budget(&server).await;

    configs.lister().list().iter().for_each(|object| drop(object.json().unwrap()));
    (300..400).for_each(|number| put(&server, number % 3, number, 1));
    shows(&configs, &key(0, 399), 1).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(configs.status().bytes > budget, "{} of {budget}", configs.status().bytes);
    tokio::time::sleep(Duration::from_secs(10)).await;

    assert!(configs.status().bytes < budget, "{} of {budget}", configs.status().bytes);
    factory.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_counted_bytes_are_those_of_the_allocator() {
    for budget in [usize::MAX, 0] {
        let server = server(3, 3000);
        let builder = builder(&server).memory_budget(budget);
        let (factory, configs) = started(builder).await;
        configs.add_index("shape", index::label("shape")).unwrap();
        put(&server, 0, 0, 2);
        shows(&configs, &key(0, 0), 2).await;
        let counted = configs.status().bytes as i64;

        // What the objects and tables free is what they took. The test runs in one thread.
        let mut lister = Some(configs.lister().clone());
        factory.stop().await.unwrap();
        drop((factory, configs));
        let freed = -allocation_counter::measure(|| lister = None).bytes_current;

        assert!((freed - counted).abs() * 10 <= counted, "budget {budget}: {freed} bytes freed, {counted} counted");
    }
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_packing_cannot_meet_is_a_problem_and_reported_once() {
    let server = server(3, 300);
    let reports = Arc::new(Mutex::new(Vec::new()));
    let reported = Arc::clone(&reports);
    let builder = builder(&server).memory_budget(50_000).on_error(move |error| {
        let ListWatchError { source: SourceError::MemoryExceeded { budget, .. }, .. } = error else {
            panic!("{error}")
        };
        reported.lock().unwrap().push((error.to_string(), *budget));
    });
    let leaks = Leaks::watch();
    let (factory, configs) = started(builder).await;
    settled_bytes(&configs).await;

    let problems = factory.problems();
    let [Problem::MemoryExceeded { informer, bytes, used, budget, .. }] = &problems[..] else { panic!("{problems:?}") };
    assert_eq!((&**informer, *budget, *bytes), ("configmaps", 50_000, configs.status().bytes));
    assert_eq!(bytes, used);
    assert!(problems[0].to_string().contains("select fewer objects"), "{}", problems[0]);
    assert_eq!(*reports.lock().unwrap(), [("packing configmaps failed".to_owned(), 50_000)]);
    assert_eq!(configs.lister().len(), 300, "nothing is dropped");
    assert_eq!(revision(&configs.lister().require(&key(0, 0)).unwrap()), "1");
    stop_factory(&factory, &leaks).await;
}

#[tokio::test(start_paused = true)]
async fn relists_and_old_states_of_packed_objects_leave_nothing_behind() {
    let server = server(5, 500);
    let builder = builder(&server).memory_budget(0);
    let leaks = Leaks::watch();
    let (factory, configs) = started(builder).await;
    let olds = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&olds);
    let handler =
        configs.subscribe().on_update(move |old, _| kept.lock().unwrap().push(old.clone())).register().unwrap();
    handler.synced().await.unwrap();
    let before = configs.status().bytes;

    for round in 2..12 {
        (0..500).for_each(|number| put(&server, number % 5, number, round));
        server.inject(On::watch().of("configmaps").once(), Fault::ErrorEvent { code: 410, after: 0 });
        shows(&configs, &key(4, 499), round).await;
    }
    handler.caught_up().await.unwrap();
    let with_olds = configs.status().bytes;
    assert_eq!(revision(&olds.lock().unwrap()[0]), "1", "an old state can be read while it is held");
    olds.lock().unwrap().clear();
    tokio::time::sleep(Duration::from_secs(60)).await;
    let after = configs.status().bytes;

    assert!(with_olds > after + 5000 * 200, "old states count: {with_olds} and {after} bytes");
    assert!(after < before * 11 / 10, "{before} and {after} bytes");
    stop_factory(&factory, &leaks).await;
}

#[tokio::test(start_paused = true)]
async fn an_edited_object_is_packed() {
    let server = server(1, 100);
    let edit = |config: &mut Lazy<ConfigMap>| {
        config.edit(|config| drop(config.data.as_mut().unwrap().insert("edited".into(), "yes".into())))
    };
    let builder = builder(&server).memory_budget(0);
    let leaks = Leaks::watch();
    let (factory, configs) =
        started(builder.configure::<Lazy<ConfigMap>>(move |configs| configs.transform(edit))).await;
    let by_edit = configs.add_index("edited", index::field("data.edited").unwrap()).unwrap();
    put(&server, 0, 0, 2);
    shows(&configs, &key(0, 0), 2).await;

    assert_eq!(by_edit.count("yes"), 100);
    assert!(configs.status().bytes < 100 * 1000, "{} bytes", configs.status().bytes);
    stop_factory(&factory, &leaks).await;
}

#[tokio::test(start_paused = true)]
async fn objects_that_are_not_lazy_are_counted_by_an_estimate() {
    let server = server(1, 100);
    let factory = builder(&server).build();
    let leaks = Leaks::watch();
    let (eager, lazy) = (factory.informer::<ConfigMap>(), factory.informer::<Lazy<ConfigMap>>());
    factory.start();
    factory.synced().await.unwrap();

    assert!(eager.status().bytes_are_estimated && eager.status().bytes > 100 * 2000);
    assert!(!lazy.status().bytes_are_estimated);
    stop_factory(&factory, &leaks).await;
}

// The clock runs, because the informer compares times that it reads one after another.
#[tokio::test]
async fn cached_objects_are_packed_soon_after_the_budget_is_used_up() {
    let server = server(3, 300);
    let (factory, configs, budget) = over_budget(&server).await;

    (300..400).for_each(|number| put(&server, number % 3, number, 1));
    shows(&configs, &key(0, 399), 1).await;
    let packed = async {
        while configs.status().bytes > budget {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let packed = tokio::time::timeout(Duration::from_secs(120), packed).await;

    assert!(packed.is_ok(), "{} of {budget}", configs.status().bytes);
    factory.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_informer_without_changes_packs_its_objects_when_others_use_up_the_budget() {
    let server = server(3, 300);
    let (factory, plain) = started(builder(&server)).await;
    let budget = plain.status().bytes + 100_000;
    factory.stop().await.unwrap();
    let (factory, configs) = started(builder(&server).memory_budget(budget)).await;
    let secrets = factory.informer::<Secret>();
    factory.start();
    for number in 0..10 {
        let metadata = json!({"namespace": "shop", "name": format!("s{number}")});
        server.put("secrets", json!({"metadata": metadata, "stringData": {"text": text(number).repeat(2)}})).unwrap();
    }

    tokio::time::sleep(Duration::from_secs(20)).await;

    let bytes = [configs.status().bytes, secrets.status().bytes];
    assert!(bytes[1] > 100_000 && bytes[0] + bytes[1] < budget, "{bytes:?} of {budget}");
    factory.stop().await.unwrap();
}

/// Counts the calls of `on_error`.
fn counting(builder: FactoryBuilder) -> (FactoryBuilder, Arc<Mutex<Vec<String>>>) {
    let reports = Arc::new(Mutex::new(Vec::new()));
    let reported = Arc::clone(&reports);
    (builder.on_error(move |error| reported.lock().unwrap().push(error.to_string())), reports)
}

/// No problem is shown or reported for half a minute.
async fn has_no_problem(factory: &SharedInformerFactory, reports: &Mutex<Vec<String>>) {
    for _ in 0..30 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(factory.problems().is_empty(), "{:?}", factory.problems());
    }
    assert_eq!(*reports.lock().unwrap(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn objects_that_were_read_once_are_no_problem() {
    let server = server(3, 300);
    let (builder, reports) = counting(builder(&server));
    let (factory, configs, _) = over_budget_of(&server, builder).await;

    // An index function reads each object before a sweep finds it.
    configs.add_index("revision", |config: &Cached<Lazy<ConfigMap>>| [revision(config)]).unwrap();
    (300..400).for_each(|number| put(&server, number % 3, number, 1));

    has_no_problem(&factory, &reports).await;
    factory.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_informer_whose_objects_are_packed_reports_no_problem_while_others_are_being_packed() {
    let server = server(3, 300);
    let (builder, reports) = counting(builder(&server));
    let (factory, configs, _) = over_budget_of(&server, builder).await;
    let _secrets = factory.informer::<Secret>();

    // These cannot be packed, so this informer has nothing to do.
    for number in 0..10 {
        let metadata = json!({"namespace": "shop", "name": format!("s{number}")});
        server.put("secrets", json!({"metadata": metadata, "stringData": {"text": text(number)}})).unwrap();
    }
    factory.start();

    has_no_problem(&factory, &reports).await;
    drop(configs);
    factory.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_counted_bytes_of_small_objects_and_large_indexes_are_those_of_the_allocator() {
    for budget in [usize::MAX, 0] {
        let server = ApiServer::new();
        for number in 0..5000 {
            let labels = json!({"unique": format!("{number:0>60}")});
            let finalizers: Vec<_> = (0..8).map(|shift| format!("example.com/{}", (number + shift) % 50)).collect();
            let metadata = json!({"namespace": "shop", "name": format!("a{}-b{}-{number}", number % 7, number % 90), "labels": labels, "finalizers": finalizers});
            server.put("configmaps", json!({"metadata": metadata})).unwrap();
        }
        let (factory, configs) = started(builder(&server).memory_budget(budget)).await;
        configs.add_index("unique", index::label("unique")).unwrap();
        configs.add_index("finalizers", index::field("metadata.finalizers").unwrap()).unwrap();
        let counted = configs.status().bytes as i64;

        let mut lister = Some(configs.lister().clone());
        factory.stop().await.unwrap();
        drop((factory, configs));
        let freed = -allocation_counter::measure(|| lister = None).bytes_current;

        assert!((freed - counted).abs() * 10 <= freed, "budget {budget}: {freed} bytes freed, {counted} counted");
    }
}

#[tokio::test(start_paused = true)]
async fn small_objects_take_less_when_they_are_packed() {
    let server = ApiServer::new();
    for number in 0..3000 {
        let metadata = json!({"namespace": "shop", "name": format!("a{}-b{}-{number}", number % 7, number % 90)});
        let data =
            json!({"first": "the same text in all of them", "second": "another text", "number": number.to_string()});
        server.put("configmaps", json!({"metadata": metadata, "data": data})).unwrap();
    }
    let (plain_factory, plain) = started(builder(&server)).await;
    let (factory, packed) = started(builder(&server).memory_budget(0)).await;

    let (packed_bytes, plain_bytes) = (packed.status().bytes, plain.status().bytes);
    assert!(packed_bytes * 5 < plain_bytes * 4, "{packed_bytes} and {plain_bytes} bytes");
    plain_factory.stop().await.unwrap();
    factory.stop().await.unwrap();
}

// The clock runs, so that sweeps, relists and changes get in each other's way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_holds_while_objects_are_read_changed_and_listed_again() {
    let server = server(5, 1000);
    let (factory, plain) = started(builder(&server)).await;
    let budget = plain.status().bytes / 2;
    factory.stop().await.unwrap();
    let (factory, configs) = started(builder(&server).memory_budget(budget)).await;
    configs.add_index("shape", index::label("shape")).unwrap();
    let lister = configs.lister().clone();
    let readers = [(); 2].map(|()| {
        let lister = lister.clone();
        tokio::spawn(async move {
            while !lister.has_stopped() {
                lister.list().iter().step_by(7).for_each(|object| assert!(!revision(object).is_empty()));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        })
    });

    for round in 2..12 {
        (0..1000).filter(|number| number % 3 == round % 3).for_each(|number| put(&server, number % 5, number, round));
        server.inject(On::watch().of("configmaps").once(), Fault::ErrorEvent { code: 410, after: 0 });
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    for number in 0..1000 {
        let last = (2..12).rev().find(|round| number % 3 == round % 3).unwrap();
        shows(&configs, &key(number % 5, number), last).await;
    }
    let packed = async {
        while configs.status().bytes > budget * 11 / 10 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let packed = tokio::time::timeout(Duration::from_secs(120), packed).await;

    assert!(packed.is_ok(), "{} of {budget}", configs.status().bytes);
    factory.stop().await.unwrap();
    for reader in readers {
        reader.await.unwrap();
    }
}
