//! Audits: a cache that is wrong for whatever reason is found and listed again.

use std::{
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt;
use informant::{
    Identity, Key, SharedInformer, SharedInformerFactory,
    error::SourceError,
    factory::FactoryBuilder,
    pipeline::{
        Backoff, Item, ListPiece, ListRequest, ListStream, ListWatch, LookupAnswer, LookupRequest, SourceEvent,
        WatchPiece, WatchRequest, WatchStream,
    },
};
use informant_apiserver::{ApiServer, CannedResponse, Fault, LoggedRequest, On, Verb};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{
    Logs,
    reflector::{is_lookup, sleep_seconds},
    servers::{Leaks, SECOND, client, config, keys, server, stop_factory, wait_until},
};

const HOUR: Duration = Duration::from_secs(3600);

/// A server with three config maps, and a synced informer whose watch delivers false events at its beginning.
struct World {
    server: ApiServer,
    factory: SharedInformerFactory,
    configs: SharedInformer<ConfigMap>,
    errors: Arc<Mutex<Vec<String>>>,
    leaks: Leaks,
}

impl World {
    async fn new(
        settings: impl FnOnce(FactoryBuilder) -> FactoryBuilder,
        false_events: impl IntoIterator<Item = Value>,
    ) -> Self {
        let server = server(&["shop/a", "shop/b", "shop/c"]);
        let mut text = String::new();
        for mut event in false_events {
            // The version of the event before it.
            event["object"]["metadata"]["resourceVersion"] = (server.version() + 1).to_string().into();
            writeln!(text, "{event}").unwrap();
        }
        if !text.is_empty() {
            server.inject(On::watch().of("configmaps").once(), Fault::ExtraLine { after: 1, text });
        }
        let errors = Arc::<Mutex<Vec<String>>>::default();
        let recorded = Arc::clone(&errors);
        let builder = SharedInformerFactory::builder(client(&server))
            .without_streaming()
            .on_error(move |error| recorded.lock().push(error.source.to_string()));
        let factory = settings(builder).build();
        let leaks = Leaks::watch();
        let configs = factory.informer::<ConfigMap>();
        factory.start();
        factory.synced().await.unwrap();
        server.wait_for_watches("configmaps", 1).await;
        // The false events follow the first of these. The history is checked by the others.
        ["shop/d", "shop/e", "shop/f"].iter().for_each(|key| drop(server.put("configmaps", config(key)).unwrap()));
        sleep_seconds(1.0).await;
        Self { server, factory, configs, errors, leaks }
    }

    /// The keys and versions of the cache, and of the server.
    fn states(&self) -> (Vec<String>, Vec<String>) {
        let shown = |key: &str, version: &str| format!("{key}@{version}");
        let cached = self.configs.lister().list();
        let mut cached: Vec<_> =
            cached.iter().map(|object| shown(object.key().as_str(), object.version().as_str())).collect();
        let served = self.server.list("configmaps").unwrap();
        let mut served: Vec<_> = served
            .iter()
            .map(|object| {
                let metadata = &object["metadata"];
                let key = format!("shop/{}", metadata["name"].as_str().unwrap());
                shown(&key, metadata["resourceVersion"].as_str().unwrap())
            })
            .collect();
        cached.sort();
        served.sort();
        (cached, served)
    }

    fn is_right(&self) -> bool {
        let (cached, served) = self.states();
        cached == served
    }

    fn audit_pages(&self) -> Vec<LoggedRequest> {
        let mut requests = self.server.requests();
        requests.retain(is_audit);
        requests
    }

    async fn stop(self) {
        stop_factory(&self.factory, &self.leaks).await;
        drop(self);
        // Waits for the end of the client's own task.
        sleep_seconds(0.1).await;
    }
}

fn is_audit(request: &LoggedRequest) -> bool {
    request.verb == Verb::List && !is_lookup(request) && request.accept.contains("PartialObjectMetadataList")
}

/// An event with a state of an object that it never had.
fn event(kind: &str, name: &str, uid: &str) -> Value {
    let metadata = json!({"namespace": "shop", "name": name, "uid": uid});
    json!({"type": kind, "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}})
}

/// P1: the causes of a wrong cache are a lost delete, a lost add and a lost update.
#[tokio::test(start_paused = true)]
async fn an_audit_finds_objects_that_are_missing_stale_or_too_many_and_everything_is_listed_again() {
    for (false_event, object) in [
        (event("ADDED", "ghost", "u-ghost"), "shop/ghost"),
        (event("DELETED", "a", "u-a"), "shop/a"),
        (event("MODIFIED", "b", "u-b"), "shop/b"),
    ] {
        let world = World::new(|factory| factory.audit_every(HOUR), Some(false_event)).await;
        assert!(!world.is_right(), "{object} is wrong");

        sleep_seconds(0.8 * 3600.0).await;
        assert!(!world.is_right() && world.errors.lock().is_empty(), "{object}: no audit was due");
        sleep_seconds(0.4 * 3600.0).await;

        assert!(world.is_right(), "{object}: {:?}", world.states());
        assert_eq!(*world.errors.lock(), [format!("the cache differs from the server in {object}")]);
        let status = world.configs.status();
        assert_eq!((status.wrong_objects, status.source.lists), (1, 2), "{object}");
        assert!(status.problem().is_none(), "{object}: {:?}", status.problem());
        world.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_audit_of_a_right_cache_requests_metadata_in_pages_and_looks_nothing_up() {
    let world = World::new(
        |factory| {
            let of_two = |builder: informant::InformerBuilder<_>| builder.reflector(|reflector| reflector.page_size(2));
            factory.audit_every(HOUR).configure::<ConfigMap>(of_two)
        },
        None,
    )
    .await;
    world.server.clear_requests();
    sleep_seconds(1.2 * 3600.0).await;

    let pages = world.audit_pages();
    assert_eq!(
        pages.iter().map(|page| (page.limit, page.token.is_some())).collect::<Vec<_>>(),
        [(2, false), (2, true), (2, true)]
    );
    assert!(pages[1].at - pages[0].at >= Duration::from_millis(100), "there is a pause between the pages");
    let status = world.configs.status();
    assert_eq!((status.audits, status.wrong_objects, status.source.lists), (1, 0, 1));
    let looked_up = |request: &LoggedRequest| request.field_selector.contains("metadata.name=");
    assert!(!world.server.requests().iter().any(looked_up));
    world.stop().await;
}

/// The cache changes while the audit's list is read.
#[tokio::test(start_paused = true)]
async fn changes_during_an_audit_raise_no_alarm() {
    let world = World::new(
        |factory| {
            let of_two = |builder: informant::InformerBuilder<_>| builder.reflector(|reflector| reflector.page_size(2));
            factory.audit_every(HOUR).configure::<ConfigMap>(of_two)
        },
        None,
    )
    .await;
    let names: Vec<_> = (0..100).map(|number| format!("shop/n{number}")).collect();
    names.iter().for_each(|name| drop(world.server.put("configmaps", config(name)).unwrap()));

    for audit in 1..=3 {
        let now = world.server.requests().last().unwrap().at;
        let is_new = |request: &LoggedRequest| request.at > now && is_audit(request);
        tokio::time::timeout(2 * HOUR, world.server.wait_for_request(is_new)).await.unwrap();
        let mut round = 0;
        while world.configs.status().audits < audit {
            let name = &names[7 * round % names.len()];
            match round % 3 {
                // It may be deleted already.
                0 => drop(world.server.delete("configmaps", name)),
                _ => drop(world.server.put("configmaps", config(name)).unwrap()),
            }
            round += 1;
            sleep_seconds(0.03).await;
        }
        assert!(round > 100, "many changes fall into the audit");
    }

    let status = world.configs.status();
    assert_eq!((status.audits, status.wrong_objects, status.source.lists), (3, 0, 1));
    assert_eq!(*world.errors.lock(), [""; 0]);
    world.stop().await;
}

/// Between the comparison and the lookups, each of them passes for wrong.
#[tokio::test(start_paused = true)]
async fn objects_that_are_updated_before_the_list_of_an_audit_and_deleted_after_it_are_looked_up_and_not_wrong() {
    let world = World::new(
        |factory| {
            let of_two = |builder: informant::InformerBuilder<_>| builder.reflector(|reflector| reflector.page_size(2));
            factory.audit_every(HOUR).configure::<ConfigMap>(of_two)
        },
        None,
    )
    .await;
    let slow = world.server.inject(On::list().of("configmaps"), Fault::Delay(Duration::from_secs(10)));
    let begun = |request: &LoggedRequest| is_audit(request) && request.token.is_none();
    tokio::time::timeout(2 * HOUR, world.server.wait_for_request(begun)).await.unwrap();
    let names = ["shop/d", "shop/e", "shop/f"];
    for name in names {
        let mut updated = config(name);
        updated["data"] = json!({"is": "new"});
        world.server.put("configmaps", updated).unwrap();
    }
    let goes_on = |request: &LoggedRequest| is_audit(request) && request.token.is_some();
    tokio::time::timeout(HOUR, world.server.wait_for_request(goes_on)).await.unwrap();
    world.server.remove_fault(slow);
    world.server.clear_requests();
    names.iter().for_each(|name| drop(world.server.delete("configmaps", name).unwrap()));
    wait_until(|| world.configs.status().audits == 1).await;

    let requests = world.server.requests();
    let lookups = requests.iter().filter(|request| request.field_selector.contains("metadata.name="));
    assert_eq!((lookups.count(), world.configs.status().wrong_objects), (3, 0));
    assert!(world.is_right());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_expired_continue_token_starts_the_audit_again() {
    let world = World::new(
        |factory| {
            let of_two = |builder: informant::InformerBuilder<_>| builder.reflector(|reflector| reflector.page_size(2));
            factory.audit_every(HOUR).configure::<ConfigMap>(of_two)
        },
        Some(event("ADDED", "ghost", "u-ghost")),
    )
    .await;
    world.server.inject(On::list().of("configmaps").once(), Fault::ExpireToken);
    sleep_seconds(1.2 * 3600.0).await;

    let tokens: Vec<_> = world.audit_pages().iter().map(|page| page.token.is_some()).collect();
    assert_eq!(tokens[..4], [false, true, false, true], "{tokens:?}");
    assert!(world.is_right(), "{:?}", world.states());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn quarantined_objects_are_not_wrong() {
    let server = server(&["shop/a"]);
    server.put("configmaps", json!({"metadata": {"namespace": "shop", "name": "bad"}, "data": {"n": "1"}})).unwrap();
    let refuse = |config: &mut ConfigMap| match config.metadata.name.as_deref() {
        Some("bad") => Err("bad"),
        _ => Ok(()),
    };
    let factory = SharedInformerFactory::builder(client(&server))
        .audit_every(HOUR)
        .on_quarantine(|_, _| {})
        .configure::<ConfigMap>(move |configs| configs.transform(refuse))
        .build();
    let leaks = Leaks::watch();
    let configs = factory.informer::<ConfigMap>();
    factory.start();
    factory.synced().await.unwrap();
    sleep_seconds(1.2 * 3600.0).await;

    let status = configs.status();
    assert_eq!((status.quarantined, status.audits, status.wrong_objects, status.source.lists), (1, 1, 0, 1));
    stop_factory(&factory, &leaks).await;
}

#[tokio::test(start_paused = true)]
async fn one_informer_of_a_client_is_audited_at_a_time() {
    let server = server(&["shop/a"]);
    server.put("secrets", json!({"metadata": {"namespace": "shop", "name": "s"}})).unwrap();
    // The same seed, so that both audits are due at the same time.
    let backoff = Backoff::default().seed(7);
    let factory = SharedInformerFactory::builder(client(&server))
        .audit_every(HOUR)
        .configure::<ConfigMap>(move |configs| configs.reflector(|reflector| reflector.backoff(backoff)))
        .configure::<Secret>(move |secrets| secrets.reflector(|reflector| reflector.backoff(backoff)))
        .build();
    let leaks = Leaks::watch();
    let (configs, secrets) = (factory.informer::<ConfigMap>(), factory.informer::<Secret>());
    factory.start();
    factory.synced().await.unwrap();
    for kind in ["configmaps", "secrets"] {
        server.inject(On::list().of(kind), Fault::Delay(Duration::from_secs(20)));
    }
    tokio::time::timeout(2 * HOUR, server.wait_for_request(is_audit)).await.unwrap();
    sleep_seconds(1200.0).await;

    let mut audits: Vec<_> = server.requests().into_iter().filter(is_audit).map(|request| request.at).collect();
    audits.sort();
    assert_eq!(audits.len(), 2);
    assert!(audits[1] - audits[0] >= Duration::from_secs(20), "{audits:?}");
    assert_eq!((configs.status().audits, secrets.status().audits), (1, 1));
    stop_factory(&factory, &leaks).await;
}

#[tokio::test(start_paused = true)]
async fn an_audit_names_up_to_ten_of_many_wrong_objects_and_all_of_them_are_repaired() {
    let ghosts = (0..50).map(|number| event("ADDED", &format!("ghost-{number}"), &format!("u-{number}")));
    let world = World::new(|factory| factory.audit_every(HOUR), ghosts).await;
    assert_eq!(world.configs.lister().len(), 56);
    sleep_seconds(1.2 * 3600.0).await;

    assert!(world.is_right(), "{:?}", world.states());
    assert_eq!(world.configs.status().wrong_objects, 10);
    let errors = world.errors.lock().clone();
    assert_eq!((errors.len(), errors[0].matches("shop/ghost-").count()), (1, 10), "{errors:?}");
    world.stop().await;
}

/// P9
#[tokio::test(start_paused = true)]
async fn stopping_does_not_wait_for_an_audit() {
    let world = World::new(|factory| factory.audit_every(HOUR), None).await;
    world.server.inject(On::list().of("configmaps"), Fault::Delay(Duration::from_secs(15)));
    tokio::time::timeout(2 * HOUR, world.server.wait_for_request(is_audit)).await.unwrap();
    let begun = tokio::time::Instant::now();
    world.stop().await;
    assert!(begun.elapsed() < SECOND);
}

/// The cache never reaches the version of the list, so that a suspect may be right.
#[tokio::test(start_paused = true)]
async fn an_audit_without_a_result_is_logged_and_repeated_until_it_has_one() {
    let logs = Logs::capture();
    let world = World::new(|factory| factory.audit_every(HOUR), Some(event("ADDED", "ghost", "u-ghost"))).await;
    let silent = world.server.inject(On::watch(), Fault::NoBookmarks);
    world.server.cut_all_watches();
    sleep_seconds(60.0).await;
    // A version that the watch of the config maps does not show.
    world.server.put("secrets", json!({"metadata": {"namespace": "shop", "name": "s"}})).unwrap();
    sleep_seconds(1.4 * 3600.0).await;

    let logs = logs.take();
    assert!(logs.matches("the cache did not reach the version of the list").count() >= 2, "{logs}");
    assert_eq!((world.configs.status().audits, world.is_right()), (0, false));
    world.server.remove_fault(silent);
    world.server.cut_all_watches();
    sleep_seconds(1.2 * 3600.0).await;
    assert!(world.is_right());
    world.stop().await;
}

/// Also without `audit_every`.
#[tokio::test(start_paused = true)]
async fn after_a_history_change_each_informer_is_audited_once_within_a_minute_after_ten_minutes() {
    let world = World::new(|factory| factory, None).await;
    let backup = world.server.backup();
    world.server.put("configmaps", config("shop/lost")).unwrap();
    sleep_seconds(1.0).await;
    let outage = world.server.inject(On::any(), Fault::Refuse);
    world.server.restore(&backup);
    sleep_seconds(5.0).await;
    world.server.remove_fault(outage);
    wait_until(|| world.is_right()).await;
    world.server.clear_requests();

    sleep_seconds(590.0).await;
    assert!(world.audit_pages().is_empty());
    sleep_seconds(80.0).await;
    assert_eq!(world.configs.status().audits, 1);
    sleep_seconds(3.0 * 3600.0).await;
    assert_eq!((world.configs.status().audits, world.audit_pages().len()), (1, 1));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_audit_that_found_something_is_repeated_after_ten_minutes() {
    let world = World::new(|factory| factory.audit_every(10 * HOUR), Some(event("ADDED", "ghost", "u-ghost"))).await;
    while world.configs.status().audits == 0 {
        sleep_seconds(1.0).await;
    }
    assert_eq!(world.configs.status().wrong_objects, 1);

    sleep_seconds(590.0).await;
    assert_eq!(world.configs.status().audits, 1);
    sleep_seconds(20.0).await;
    assert_eq!((world.configs.status().audits, world.configs.status().wrong_objects), (2, 1));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_audit_is_repeated_after_five_minutes_and_then_less_often_and_does_not_disturb_the_watch() {
    let logs = Logs::capture();
    let world = World::new(|factory| factory.audit_every(HOUR), Some(event("ADDED", "ghost", "u-ghost"))).await;
    let fault = world.server.inject(On::list().of("configmaps"), Fault::status(406));
    sleep_seconds(1.3 * 3600.0).await;
    let failures = logs.take();
    assert!(failures.contains("an audit failed") && failures.contains("406"), "{failures}");
    assert!(failures.contains("retry_in=300s") && failures.contains("retry_in=600s"), "{failures}");
    assert!(world.factory.problems().is_empty() && !world.is_right());

    world.server.remove_fault(fault);
    sleep_seconds(3600.0).await;
    assert!(world.is_right());
    world.stop().await;
}

/// A source without versions.
struct Shop;

impl ListWatch<u32> for Shop {
    async fn list(&self, _: ListRequest) -> Result<ListStream<u32>, SourceError> {
        let apples = Item::new(Identity::of_key(Key::cluster_scoped("apples")), 12);
        Ok(ListPiece::page("", [apples]))
    }

    async fn watch(&self, _: WatchRequest) -> Result<WatchStream<u32>, SourceError> {
        let pears = Item::new(Identity::of_key(Key::cluster_scoped("pears")), 3);
        let added = WatchPiece::Event(SourceEvent::Added(pears));
        Ok(futures_util::stream::iter([Ok(added)]).chain(futures_util::stream::pending()).boxed())
    }
}

#[tokio::test(start_paused = true)]
async fn a_source_without_versions_is_not_audited_and_the_log_says_so() {
    let logs = Logs::capture();
    let leaks = Leaks::watch();
    let goods = SharedInformer::of_decoded_objects(Shop).name("goods").audit_every(HOUR).build();
    goods.start();
    goods.synced().await.unwrap();
    sleep_seconds(5.0 * 3600.0).await;

    assert_eq!((goods.status().audits, keys(&goods).len()), (0, 2));
    let logs = logs.take();
    assert_eq!(logs.matches("the informer cannot be audited").count(), 1, "{logs}");
    assert!(logs.contains("its source has no versions that can be compared"), "{logs}");
    leaks.stop(&goods).await;
}

/// A proxy before two servers: the watch stays at one of them, the audit reaches the other one, which was restored.
struct HalfRestored;

impl ListWatch<u32> for HalfRestored {
    async fn list(&self, request: ListRequest) -> Result<ListStream<u32>, SourceError> {
        let apples = Item::new(Identity::new("apples", "u-1", 3), 12);
        Ok(ListPiece::page(if request.needs_only_metadata { "5" } else { "10" }, [apples]))
    }

    async fn watch(&self, _: WatchRequest) -> Result<WatchStream<u32>, SourceError> {
        Ok(futures_util::stream::pending().boxed())
    }

    async fn look_up(&self, _: LookupRequest) -> Result<Option<LookupAnswer<u32>>, SourceError> {
        Ok(Some(LookupAnswer { version: "10".into(), object: None }))
    }
}

#[tokio::test(start_paused = true)]
async fn an_audit_whose_list_is_older_than_the_cache_reports_a_history_change() {
    let errors = Arc::<Mutex<Vec<String>>>::default();
    let recorded = Arc::clone(&errors);
    let leaks = Leaks::watch();
    let goods = SharedInformer::of_decoded_objects(HalfRestored)
        .audit_every(HOUR)
        .on_error(move |error| recorded.lock().push(error.source.to_string()))
        .build();
    goods.start();
    goods.synced().await.unwrap();
    while goods.status().audits == 0 {
        sleep_seconds(1.0).await;
    }
    sleep_seconds(1.0).await;

    let error = "the server's history has changed since version 10; was it restored from a backup?";
    assert_eq!(*errors.lock(), [error]);
    assert_eq!((goods.status().source.lists, goods.status().wrong_objects), (2, 0));
    leaks.stop(&goods).await;
}

#[tokio::test(start_paused = true)]
async fn the_longest_possible_period_does_not_stop_the_informer() {
    let world = World::new(|factory| factory.audit_every(Duration::MAX), None).await;
    assert!(world.factory.problems().is_empty());
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_period_of_less_than_five_minutes_is_raised_with_a_warning() {
    let logs = Logs::capture();
    let world = World::new(|factory| factory.audit_every(SECOND), None).await;
    let logs = logs.take();
    assert!(logs.contains("the period of audits is raised") && logs.contains("requested=1s"), "{logs}");
    assert!(logs.contains("granted=300s"), "{logs}");
    sleep_seconds(265.0).await;
    assert_eq!(world.configs.status().audits, 0);
    sleep_seconds(70.0).await;
    assert_eq!(world.configs.status().audits, 1);
    world.stop().await;
}

/// One odd answer of a gateway must not end all audits.
#[tokio::test(start_paused = true)]
async fn an_answer_without_a_version_does_not_end_all_audits() {
    let world = World::new(|factory| factory.audit_every(HOUR), Some(event("ADDED", "ghost", "u-ghost"))).await;
    let odd = CannedResponse::new(200, r#"{"kind":"List","apiVersion":"v1","metadata":{},"items":[]}"#);
    let gateway = world.server.inject(On::list().of("configmaps"), Fault::Response(odd));
    sleep_seconds(1.2 * 3600.0).await;
    world.server.remove_fault(gateway);
    sleep_seconds(6.0 * 3600.0).await;
    assert!(world.is_right(), "audits {}: {:?}", world.configs.status().audits, world.states());
    world.stop().await;
}

async fn restored() -> World {
    let world = World::new(|factory| factory, None).await;
    let backup = world.server.backup();
    world.server.put("configmaps", config("shop/lost")).unwrap();
    sleep_seconds(1.0).await;
    let outage = world.server.inject(On::any(), Fault::Refuse);
    world.server.restore(&backup);
    sleep_seconds(5.0).await;
    world.server.remove_fault(outage);
    wait_until(|| world.is_right()).await;
    world
}

#[tokio::test(start_paused = true)]
async fn an_informer_that_starts_within_ten_minutes_after_a_history_change_is_audited_too() {
    let world = restored().await;
    sleep_seconds(60.0).await;
    let secrets = world.factory.informer::<Secret>();
    world.factory.start();
    world.factory.synced().await.unwrap();
    sleep_seconds(900.0).await;
    assert_eq!((world.configs.status().audits, secrets.status().audits), (1, 1));
    drop(secrets);
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_audit_after_a_history_change_is_repeated_if_it_has_no_result() {
    let world = restored().await;
    let silent = world.server.inject(On::watch(), Fault::NoBookmarks);
    let mut ghost = event("ADDED", "ghost", "u-ghost");
    ghost["object"]["metadata"]["resourceVersion"] = (world.server.version() + 1).to_string().into();
    world.server.inject(On::watch().of("configmaps").once(), Fault::ExtraLine { after: 1, text: format!("{ghost}\n") });
    world.server.cut_all_watches();
    sleep_seconds(5.0).await;
    ["shop/x", "shop/y", "shop/z"].iter().for_each(|key| drop(world.server.put("configmaps", config(key)).unwrap()));
    sleep_seconds(1.0).await;
    assert!(!world.is_right(), "the ghost is cached");
    world.server.put("secrets", json!({"metadata": {"namespace": "shop", "name": "s"}})).unwrap();
    sleep_seconds(1500.0).await;
    assert_eq!((world.configs.status().audits, world.is_right()), (0, false), "no result");
    world.server.remove_fault(silent);
    // From now on the cache reaches every version.
    for number in 0..100 {
        world.server.put("configmaps", config(&format!("shop/w{number}"))).unwrap();
        sleep_seconds(300.0).await;
    }
    assert!(world.is_right(), "audits {}, pages {}", world.configs.status().audits, world.audit_pages().len());
    world.stop().await;
}

/// The first page of an audit takes five seconds to arrive; all objects are deleted meanwhile.
#[derive(Default)]
struct Busy {
    objects: u64,
    /// The version of the objects in the audit's list; in the cache, it is 3.
    audited_version: u64,
    /// Whether the cache has an object that the server does not have.
    has_ghost: bool,
    audited: Arc<Notify>,
}

impl Busy {
    fn item(n: u64, version: u64) -> Item<u32> {
        Item::new(Identity::new(&*format!("d{n}"), &*format!("u-{n}"), version), 1)
    }
}

impl ListWatch<u32> for Busy {
    async fn list(&self, request: ListRequest) -> Result<ListStream<u32>, SourceError> {
        let version = if request.needs_only_metadata { self.audited_version } else { 3 };
        let ghost = self.has_ghost && !request.needs_only_metadata;
        let ghost = ghost.then(|| Item::new(Identity::new("ghost", "u-ghost", 3), 1));
        let items = (0..self.objects).map(|n| Self::item(n, version)).chain(ghost);
        let page = ListPiece::page("10", items.collect::<Vec<_>>());
        if !request.needs_only_metadata {
            return Ok(page);
        }
        self.audited.notify_one();
        let arrives = async move {
            sleep_seconds(5.0).await;
            page
        };
        Ok(futures_util::stream::once(arrives).flatten().boxed())
    }

    async fn watch(&self, _: WatchRequest) -> Result<WatchStream<u32>, SourceError> {
        let (audited, objects) = (Arc::clone(&self.audited), self.objects);
        let deletes = async move {
            audited.notified().await;
            let deletes = (0..objects).map(|n| SourceEvent::Deleted(Self::item(n, 11 + n)));
            futures_util::stream::iter(deletes.map(|event| Ok(WatchPiece::Event(event))))
        };
        Ok(futures_util::stream::once(deletes).flatten().chain(futures_util::stream::pending()).boxed())
    }

    async fn look_up(&self, _: LookupRequest) -> Result<Option<LookupAnswer<u32>>, SourceError> {
        Ok(Some(LookupAnswer { version: "30".into(), object: None }))
    }
}

#[tokio::test(start_paused = true)]
async fn deletes_while_the_first_page_arrives_do_not_use_up_the_lookups() {
    // In the second case, the objects were also updated before the list.
    for audited_version in [3, 9] {
        let leaks = Leaks::watch();
        let source = Busy { objects: 20, audited_version, has_ghost: true, ..Busy::default() };
        let goods = SharedInformer::of_decoded_objects(source).audit_every(HOUR).on_error(|_| {}).build();
        goods.start();
        goods.synced().await.unwrap();
        sleep_seconds(1.2 * 3600.0).await;
        assert_eq!(goods.status().wrong_objects, 1, "the ghost is found");
        leaks.stop(&goods).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_audit_fails_if_the_server_sends_the_same_continue_token_again() {
    let logs = Logs::capture();
    let world = World::new(|factory| factory.audit_every(HOUR), []).await;
    let body = r#"{"metadata":{"resourceVersion":"9","continue":"again"},"items":[]}"#;
    world.server.inject(On::list().of("configmaps"), Fault::Response(CannedResponse::new(200, body)));
    world.server.clear_requests();

    sleep_seconds(1.2 * 3600.0).await;

    let pages = world.audit_pages().len();
    assert!((2..10).contains(&pages), "{pages}");
    let log = logs.take();
    assert!(log.contains("an audit failed") && log.contains("the same continue token twice"), "{log}");
    world.stop().await;
}

/// `a` and `x` are updated before the audit's list, and deleted while the page arrives; `x` is created again while `a` is looked up.
#[derive(Default)]
struct Recreates {
    audited: Arc<Notify>,
    looked_up: Arc<Notify>,
}

impl ListWatch<u32> for Recreates {
    async fn list(&self, request: ListRequest) -> Result<ListStream<u32>, SourceError> {
        let version = if request.needs_only_metadata { 9 } else { 3 };
        let items = [("a", "u-a"), ("x", "u-x")].map(|(name, uid)| Item::new(Identity::new(name, uid, version), 1));
        let page = ListPiece::page("10", items);
        if !request.needs_only_metadata {
            return Ok(page);
        }
        self.audited.notify_one();
        let arrives = async move {
            sleep_seconds(5.0).await;
            page
        };
        Ok(futures_util::stream::once(arrives).flatten().boxed())
    }

    async fn watch(&self, _: WatchRequest) -> Result<WatchStream<u32>, SourceError> {
        let (audited, looked_up) = (Arc::clone(&self.audited), Arc::clone(&self.looked_up));
        let item = |name: &str, uid: &str, version: u64, value| Item::new(Identity::new(name, uid, version), value);
        let deletes = async move {
            audited.notified().await;
            let events = [SourceEvent::Deleted(item("a", "u-a", 11, 1)), SourceEvent::Deleted(item("x", "u-x", 12, 1))];
            futures_util::stream::iter(events.map(|event| Ok(WatchPiece::Event(event))))
        };
        let bad = async move {
            looked_up.notified().await;
            Ok(WatchPiece::Event(SourceEvent::Added(item("x", "u-x2", 13, 99))))
        };
        let deletes = futures_util::stream::once(deletes).flatten();
        Ok(deletes.chain(futures_util::stream::once(bad)).chain(futures_util::stream::pending()).boxed())
    }

    async fn look_up(&self, request: LookupRequest) -> Result<Option<LookupAnswer<u32>>, SourceError> {
        let object = match request.key {
            Some(key) if key.name() == "a" => {
                self.looked_up.notify_one();
                sleep_seconds(5.0).await;
                None
            }
            Some(_) => Some(Item::new(Identity::new("x", "u-x2", 13), 99)),
            None => None,
        };
        Ok(Some(LookupAnswer { version: "13".into(), object }))
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_is_quarantined_during_the_lookups_is_not_wrong() {
    let leaks = Leaks::watch();
    let goods = SharedInformer::of_decoded_objects(Recreates::default())
        .transform(|value: &mut u32| if *value == 99 { Err("bad") } else { Ok(()) })
        .audit_every(HOUR)
        .on_error(|_| {})
        .build();
    goods.start();
    goods.synced().await.unwrap();
    while goods.status().audits == 0 {
        sleep_seconds(1.0).await;
    }
    let status = goods.status();
    assert_eq!((status.quarantined, status.wrong_objects), (1, 0));
    leaks.stop(&goods).await;
}

/// Three ghosts; the lookup of one of them always fails.
struct OneFails;

impl ListWatch<u32> for OneFails {
    async fn list(&self, request: ListRequest) -> Result<ListStream<u32>, SourceError> {
        let ghosts = ["g1", "g2", "g3"].map(|name| Item::new(Identity::new(name, name, 3), 1));
        let ghosts = ghosts.into_iter().filter(|_| !request.needs_only_metadata);
        Ok(ListPiece::page("10", ghosts.collect::<Vec<_>>()))
    }

    async fn watch(&self, _: WatchRequest) -> Result<WatchStream<u32>, SourceError> {
        Ok(futures_util::stream::pending().boxed())
    }

    async fn look_up(&self, request: LookupRequest) -> Result<Option<LookupAnswer<u32>>, SourceError> {
        match request.key {
            Some(key) if key.name() == "g2" => Err(SourceError::other("unreadable")),
            _ => Ok(Some(LookupAnswer { version: "10".into(), object: None })),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_lookup_does_not_discard_what_other_lookups_confirmed() {
    let leaks = Leaks::watch();
    let goods = SharedInformer::of_decoded_objects(OneFails).audit_every(HOUR).on_error(|_| {}).build();
    goods.start();
    goods.synced().await.unwrap();
    sleep_seconds(24.0 * 3600.0).await;
    assert!(goods.status().wrong_objects > 0);
    leaks.stop(&goods).await;
}

#[tokio::test(start_paused = true)]
async fn an_audit_whose_ten_suspects_are_all_cleared_has_a_result() {
    let leaks = Leaks::watch();
    let source = Busy { objects: 10, audited_version: 9, ..Busy::default() };
    let goods = SharedInformer::of_decoded_objects(source).audit_every(HOUR).on_error(|_| {}).build();
    goods.start();
    goods.synced().await.unwrap();
    sleep_seconds(2.0 * 3600.0).await;
    assert!(goods.status().audits > 0);
    leaks.stop(&goods).await;
}

/// The server that an audit reaches was restored.
#[derive(Default)]
struct Restored {
    audited: Arc<Notify>,
    is_audited: AtomicBool,
    lists: AtomicU32,
    /// True if the watch and later lists reach the restored server, too; they then begin late.
    is_only_server: bool,
}

impl Restored {
    fn version(&self) -> &'static str {
        if self.is_only_server && self.is_audited.load(Ordering::Relaxed) { "5" } else { "10" }
    }
}

impl ListWatch<u32> for Restored {
    async fn list(&self, request: ListRequest) -> Result<ListStream<u32>, SourceError> {
        let page = |version| ListPiece::page(version, [Item::new(Identity::new("apples", "u-1", 3), 12)]);
        if request.needs_only_metadata {
            self.is_audited.store(true, Ordering::Relaxed);
            self.audited.notify_one();
            let seconds = if self.is_only_server { 0.0 } else { 3.0 };
            sleep_seconds(seconds).await;
            return Ok(page("5"));
        }
        if self.lists.fetch_add(1, Ordering::Relaxed) == 1 && !self.is_only_server {
            sleep_seconds(10.0).await;
        }
        Ok(page(self.version()))
    }

    async fn watch(&self, _: WatchRequest) -> Result<WatchStream<u32>, SourceError> {
        if self.is_audited.load(Ordering::Relaxed) {
            sleep_seconds(3.0).await;
            return Ok(futures_util::stream::pending().boxed());
        }
        let audited = Arc::clone(&self.audited);
        let breaks = async move {
            audited.notified().await;
            Err(SourceError::other("broken"))
        };
        Ok(futures_util::stream::once(breaks).boxed())
    }

    async fn look_up(&self, _: LookupRequest) -> Result<Option<LookupAnswer<u32>>, SourceError> {
        Ok(Some(LookupAnswer { version: self.version().into(), object: None }))
    }
}

/// The number of history changes that are reported within five minutes of the first audit.
async fn reported_changes(source: Restored) -> usize {
    let errors = Arc::<Mutex<Vec<String>>>::default();
    let recorded = Arc::clone(&errors);
    let leaks = Leaks::watch();
    let goods = SharedInformer::of_decoded_objects(source)
        .audit_every(HOUR)
        .on_error(move |error| recorded.lock().push(error.source.to_string()))
        .build();
    goods.start();
    goods.synced().await.unwrap();
    while goods.status().audits == 0 {
        sleep_seconds(1.0).await;
    }
    sleep_seconds(300.0).await;
    leaks.stop(&goods).await;
    errors.lock().iter().filter(|error| error.contains("history has changed")).count()
}

#[tokio::test(start_paused = true)]
async fn a_history_change_that_an_audit_and_the_reflector_find_is_reported_once() {
    assert_eq!(reported_changes(Restored { is_only_server: true, ..Restored::default() }).await, 1);
}

/// The list that is on its way reaches another server, which has the old history.
#[tokio::test(start_paused = true)]
async fn a_history_change_that_an_audit_finds_during_a_list_is_reported_after_it() {
    assert_eq!(reported_changes(Restored::default()).await, 1);
}

/// A source that lost the delete of an object. One list of an audit has no version.
#[derive(Default)]
struct NoVersionOnce {
    has_answered: AtomicBool,
}

impl ListWatch<u32> for NoVersionOnce {
    async fn list(&self, request: ListRequest) -> Result<ListStream<u32>, SourceError> {
        let ghost = (!request.needs_only_metadata).then(|| Item::new(Identity::new("ghost", "u-ghost", 3), 1));
        let is_odd = request.needs_only_metadata && !self.has_answered.swap(true, Ordering::Relaxed);
        Ok(ListPiece::page(if is_odd { "" } else { "10" }, ghost))
    }

    async fn watch(&self, _: WatchRequest) -> Result<WatchStream<u32>, SourceError> {
        Ok(futures_util::stream::pending().boxed())
    }

    async fn look_up(&self, _: LookupRequest) -> Result<Option<LookupAnswer<u32>>, SourceError> {
        Ok(Some(LookupAnswer { version: "10".into(), object: None }))
    }
}

#[tokio::test(start_paused = true)]
async fn an_audit_whose_list_has_no_version_is_repeated() {
    let leaks = Leaks::watch();
    let goods = SharedInformer::of_decoded_objects(NoVersionOnce::default()).audit_every(HOUR).on_error(|_| {}).build();
    goods.start();
    goods.synced().await.unwrap();
    sleep_seconds(1.3 * 3600.0).await;
    assert!(goods.status().wrong_objects > 0);
    leaks.stop(&goods).await;
}
