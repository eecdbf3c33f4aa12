//! Audits: a cache that is wrong for whatever reason is found and listed again.

use std::{fmt::Write, sync::Arc, time::Duration};

use futures_util::StreamExt;
use informant::{
    Key, SharedInformer, SharedInformerFactory,
    factory::FactoryBuilder,
    listwatch::{
        Backoff, Item, ListPiece, ListRequest, ListStream, ListWatch, LookupAnswer, LookupRequest, SourceError,
        SourceEvent, WatchPiece, WatchRequest, WatchStream,
    },
    object::Identity,
};
use informant_apiserver::{ApiServer, Fault, LoggedRequest, On, Verb};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use parking_lot::Mutex;
use serde_json::{Value, json};

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
async fn an_audit_without_a_result_is_logged_and_follows_again_after_the_period() {
    let logs = Logs::capture();
    let world = World::new(|factory| factory.audit_every(HOUR), Some(event("ADDED", "ghost", "u-ghost"))).await;
    let silent = world.server.inject(On::watch(), Fault::NoBookmarks);
    world.server.cut_all_watches();
    sleep_seconds(60.0).await;
    // A version that the watch of the config maps does not show.
    world.server.put("secrets", json!({"metadata": {"namespace": "shop", "name": "s"}})).unwrap();
    sleep_seconds(1.4 * 3600.0).await;

    let logs = logs.take();
    assert_eq!(logs.matches("an audit has no result").count(), 1, "{logs}");
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
async fn a_failed_audit_is_repeated_after_five_minutes_and_does_not_disturb_the_watch() {
    let logs = Logs::capture();
    let world = World::new(|factory| factory.audit_every(HOUR), Some(event("ADDED", "ghost", "u-ghost"))).await;
    let fault = world.server.inject(On::list().of("configmaps"), Fault::status(406));
    sleep_seconds(1.3 * 3600.0).await;
    assert!(logs.take().matches("an audit failed; another one follows in five minutes").count() >= 2);
    assert!(world.factory.problems().is_empty() && !world.is_right());

    world.server.remove_fault(fault);
    sleep_seconds(310.0).await;
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
