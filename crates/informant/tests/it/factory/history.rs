//! Servers whose storage is restored from a backup: P1 holds also then.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use informant::{SharedInformer, SharedInformerFactory, error::WaitError};
use informant_apiserver::{ApiServer, Backup, Fault, FaultId, On, Verb};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use parking_lot::Mutex;
use serde_json::json;
use tower::Service;

use crate::support::{
    reflector::{is_lookup, sleep_seconds},
    servers::{Leaks, SECOND, client, config, keys, server, stop_factory},
};

const KINDS: [&str; 3] = ["configmaps", "secrets", "serviceaccounts"];

/// A server, and a factory with an informer of each kind, synced.
struct World {
    server: ApiServer,
    factory: SharedInformerFactory,
    configs: SharedInformer<ConfigMap>,
    secrets: SharedInformer<Secret>,
    accounts: SharedInformer<ServiceAccount>,
    errors: Arc<Mutex<Vec<String>>>,
    leaks: Leaks,
}

impl World {
    async fn new() -> Self {
        let server = ApiServer::new();
        for kind in KINDS {
            for name in ["a", "b", "c"] {
                put(&server, kind, name, "first");
            }
        }
        let errors = Arc::<Mutex<Vec<String>>>::default();
        let recorded = Arc::clone(&errors);
        let factory = SharedInformerFactory::builder(client(&server))
            .on_error(move |error| recorded.lock().push(format!("{}: {}", error.resource, error.source)))
            .build();
        let leaks = Leaks::watch();
        let (configs, secrets, accounts) = (factory.informer(), factory.informer(), factory.informer());
        factory.start();
        factory.synced().await.unwrap();
        for kind in KINDS {
            server.wait_for_watches(kind, 1).await;
        }
        Self { server, factory, configs, secrets, accounts, errors, leaks }
    }

    /// All objects of all caches, each with its version and its label.
    fn cached(&self) -> Vec<String> {
        fn of<O: kube::Resource + Send + Sync + 'static>(kind: &str, informer: &SharedInformer<O>) -> Vec<String> {
            let all = informer.lister().list();
            let shown = all.iter().map(|object| {
                let text = object.meta().labels.as_ref().map_or("", |labels| &*labels["text"]);
                format!("{kind} {}@{} {} {text}", object.key(), object.version(), object.uid())
            });
            shown.collect()
        }
        let mut all = of("configmaps", &self.configs);
        all.extend(of("secrets", &self.secrets));
        all.extend(of("serviceaccounts", &self.accounts));
        all.sort();
        all
    }

    /// As [`cached`](Self::cached), for the objects of the server.
    fn served(&self) -> Vec<String> {
        let mut all = Vec::new();
        for kind in KINDS {
            for object in self.server.list(kind).unwrap() {
                let metadata = &object["metadata"];
                let field = |name: &str| metadata[name].as_str().unwrap().to_owned();
                let text = metadata["labels"]["text"].as_str().unwrap();
                let key = format!("{}/{}", field("namespace"), field("name"));
                all.push(format!("{kind} {key}@{} {} {text}", field("resourceVersion"), field("uid")));
            }
        }
        all.sort();
        all
    }

    /// Changes, creates and deletes objects of all kinds, and waits until the caches have the changes.
    async fn change(&self, text: &str) {
        self.change_silently(text);
        sleep_seconds(0.1).await;
        assert_eq!(self.cached(), self.served());
    }

    fn change_silently(&self, text: &str) {
        for kind in KINDS {
            put(&self.server, kind, "a", text);
            put(&self.server, kind, &format!("new-{text}"), text);
            let _ = self.server.delete(kind, "shop/b");
        }
    }

    /// Refuses connections, breaks all watches and restores the storage.
    fn restore(&self, backup: &Backup) -> FaultId {
        let outage = self.server.inject(On::any(), Fault::Refuse);
        self.server.restore(backup);
        outage
    }

    /// Counts the requests for one object, or for the version alone.
    fn lookups(&self) -> usize {
        self.server.requests().iter().filter(|request| is_lookup(request)).count()
    }

    fn full_lists(&self) -> usize {
        let lists = |request: &informant_apiserver::LoggedRequest| {
            request.verb == Verb::WatchList || (request.verb == Verb::List && !is_lookup(request))
        };
        self.server.requests().iter().filter(|request| lists(request)).count()
    }

    fn history_changes(&self) -> Vec<u64> {
        self.factory.status().iter().map(|status| status.source.history_changes).collect()
    }

    async fn stop(self) {
        stop_factory(&self.factory, &self.leaks).await;
        drop(self);
        // Waits for the end of the client's own task.
        sleep_seconds(0.1).await;
    }
}

fn put(server: &ApiServer, kind: &str, name: &str, text: &str) {
    let labels = json!({"text": text});
    server.put(kind, json!({"metadata": {"namespace": "shop", "name": name, "labels": labels}})).unwrap();
}

/// P1: the restored server has smaller versions than the cache, and sends nothing.
#[tokio::test(start_paused = true)]
async fn after_a_restore_the_caches_equal_an_idle_server_within_seconds() {
    let world = World::new().await;
    let backup = world.server.backup();
    world.change("lost").await;

    let outage = world.restore(&backup);
    sleep_seconds(5.0).await;
    world.server.remove_fault(outage);
    sleep_seconds(5.0).await;

    assert_eq!(world.cached(), world.served());
    assert_eq!(world.history_changes(), [1, 1, 1]);
    assert!(world.factory.problems().is_empty(), "{:?}", world.factory.problems());
    world.stop().await;
}

/// P1: the versions of the restored server pass the old ones while the informers are connected.
#[tokio::test(start_paused = true)]
async fn after_a_restore_the_caches_equal_a_server_that_keeps_changing() {
    let world = World::new().await;
    let backup = world.server.backup();
    world.change("lost").await;
    let old = world.server.version();

    let outage = world.restore(&backup);
    sleep_seconds(2.0).await;
    world.server.remove_fault(outage);
    while world.server.version() < old + 20 {
        put(&world.server, "configmaps", "c", &format!("busy-{}", world.server.version()));
        sleep_seconds(0.3).await;
    }
    sleep_seconds(5.0).await;

    assert_eq!(world.cached(), world.served());
    world.stop().await;
}

/// P1: the restored server passes the old version before the informers reconnect, so no version goes backwards.
#[tokio::test(start_paused = true)]
async fn after_a_restore_the_caches_equal_a_server_that_has_passed_the_old_version() {
    let world = World::new().await;
    let backup = world.server.backup();
    world.change("lost").await;
    let old = world.server.version();

    let outage = world.restore(&backup);
    world.change_silently("other");
    while world.server.version() < old + 20 {
        put(&world.server, "configmaps", "other", &world.server.version().to_string());
    }
    sleep_seconds(2.0).await;
    world.server.remove_fault(outage);
    sleep_seconds(8.0).await;

    assert_eq!(world.cached(), world.served());
    assert_eq!(world.history_changes(), [1, 1, 1]);
    let errors = world.errors.lock().clone();
    assert!(errors.iter().any(|error| error.contains("the server's history has changed")), "{errors:?}");
    world.stop().await;
}

/// P1: in the restored history, the same uid and version may have another content.
#[tokio::test(start_paused = true)]
async fn an_object_of_the_same_uid_and_version_in_another_history_replaces_the_cached_one() {
    let world = World::new().await;
    let backup = world.server.backup();
    put(&world.server, "configmaps", "c", "lost");
    put(&world.server, "configmaps", "a", "lost");
    sleep_seconds(0.1).await;

    let outage = world.restore(&backup);
    put(&world.server, "configmaps", "c", "other");
    put(&world.server, "configmaps", "b", "other");
    world.server.delete("configmaps", "shop/b").unwrap();
    sleep_seconds(2.0).await;
    world.server.remove_fault(outage);
    sleep_seconds(5.0).await;

    assert_eq!(world.cached(), world.served());
    world.stop().await;
}

/// Only one informer can detect the change: the others have only events that the restored server has too.
#[tokio::test(start_paused = true)]
async fn a_history_change_that_one_informer_detects_makes_all_others_relist() {
    let world = World::new().await;
    let backup = world.server.backup();
    put(&world.server, "configmaps", "c", "lost");
    sleep_seconds(0.1).await;
    let outage = world.restore(&backup);
    for number in 0..5 {
        put(&world.server, "configmaps", "other", &number.to_string());
    }

    sleep_seconds(2.0).await;
    world.server.remove_fault(outage);
    sleep_seconds(10.0).await;

    assert_eq!(world.cached(), world.served());
    assert_eq!(world.history_changes(), [1, 1, 1]);
    world.stop().await;
}

/// P10: without a restore, no informer relists, and each sends at most three lookups.
#[tokio::test(start_paused = true)]
async fn after_an_outage_without_a_restore_watches_are_resumed_after_at_most_three_lookups_each() {
    let world = World::new().await;
    world.change("before").await;
    world.server.clear_requests();

    let outage = world.server.inject(On::any(), Fault::Refuse);
    world.server.cut_all_watches();
    world.change_silently("meanwhile");
    sleep_seconds(20.0).await;
    world.server.remove_fault(outage);
    sleep_seconds(5.0).await;

    assert_eq!(world.cached(), world.served());
    assert_eq!((world.full_lists(), world.history_changes()), (0, vec![0, 0, 0]));
    let refused = world.server.requests().iter().filter(|request| request.faults.contains(&Fault::Refuse)).count();
    assert!(world.lookups() <= 3 * KINDS.len() + refused, "{:?}", world.server.requests_for("configmaps"));
    assert_eq!(world.history_changes(), [0, 0, 0]);
    world.stop().await;
}

/// The newest event is a delete, which only the server's history can prove.
#[tokio::test(start_paused = true)]
async fn the_history_check_accepts_a_delete_in_the_servers_history_and_rejects_one_that_is_not() {
    for is_restored in [false, true] {
        let world = World::new().await;
        put(&world.server, "configmaps", "d", "short-lived");
        let backup = world.server.backup();
        world.server.delete("configmaps", "shop/d").unwrap();
        sleep_seconds(0.1).await;
        world.server.clear_requests();

        let outage = world.server.inject(On::any(), Fault::Refuse);
        world.server.cut_all_watches();
        if is_restored {
            world.server.restore(&backup);
            put(&world.server, "configmaps", "c", "other");
            world.server.delete("configmaps", "shop/d").unwrap();
            put(&world.server, "configmaps", "d", "again");
        }
        sleep_seconds(2.0).await;
        world.server.remove_fault(outage);
        sleep_seconds(8.0).await;

        assert_eq!(world.cached(), world.served());
        let expected = if is_restored { 1 } else { 0 };
        assert_eq!(world.configs.status().source.history_changes, expected, "restored: {is_restored}");
        if !is_restored {
            let is_list = |text: &String| text.starts_with("WL");
            assert!(!world.server.requests_for("configmaps").iter().any(is_list), "the watch was resumed");
        }
        world.stop().await;
    }
}

/// A bookmark's version is no proof: writes of the restored server between the newest event and the bookmark would be missed.
#[tokio::test(start_paused = true)]
async fn a_watch_is_resumed_from_the_newest_event_and_not_from_a_later_bookmark() {
    let world = World::new().await;
    put(&world.server, "configmaps", "a", "newest");
    sleep_seconds(0.1).await;
    let newest = world.configs.lister().version().unwrap();
    world.server.put("nodes", json!({"metadata": {"name": "of-another-kind"}})).unwrap();
    sleep_seconds(70.0).await;
    assert_ne!(world.configs.lister().version().unwrap(), newest, "a bookmark has arrived");
    world.server.clear_requests();

    let outage = world.server.inject(On::any(), Fault::Refuse);
    world.server.cut_all_watches();
    sleep_seconds(2.0).await;
    world.server.remove_fault(outage);
    sleep_seconds(5.0).await;

    let watches: Vec<_> =
        world.server.requests_for("configmaps").into_iter().filter(|text| text.starts_with("W(")).collect();
    assert_eq!(
        watches.last(),
        Some(&format!("W({newest})")),
        "{:?} {:?} {:?}",
        world.server.requests().iter().map(|r| format!("{} {r} {}", r.resource, r.field_selector)).collect::<Vec<_>>(),
        world.errors.lock(),
        world.history_changes()
    );
    world.stop().await;
}

/// Compacted versions prove nothing.
#[tokio::test(start_paused = true)]
async fn an_informer_relists_without_a_history_change_if_the_server_has_compacted_the_newest_event() {
    let world = World::new().await;
    world.change("before").await;

    let outage = world.server.inject(On::any(), Fault::Refuse);
    world.server.cut_all_watches();
    world.change_silently("meanwhile");
    world.server.compact();
    sleep_seconds(2.0).await;
    world.server.remove_fault(outage);
    sleep_seconds(8.0).await;

    assert_eq!(world.cached(), world.served());
    assert_eq!(world.history_changes(), [0, 0, 0]);
    let errors = world.errors.lock().clone();
    assert!(!errors.iter().any(|error| error.contains("history has changed")), "{errors:?}");
    world.stop().await;
}

/// P10: an ordinary reconnect is no outage.
#[tokio::test(start_paused = true)]
async fn watches_that_end_at_their_time_limit_are_resumed_without_a_lookup() {
    let world = World::new().await;
    world.change("before").await;
    world.server.clear_requests();

    sleep_seconds(3600.0).await;

    let watches = world.server.requests().iter().filter(|request| request.verb == Verb::Watch).count();
    assert!(watches >= 18, "{watches}");
    let is_check = |request: &informant_apiserver::LoggedRequest| request.field_selector.contains("metadata.name=");
    let checks = world.server.requests().into_iter().filter(is_check).count();
    assert_eq!((checks, world.full_lists()), (0, 0));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn watches_are_resumed_if_the_history_check_is_forbidden_and_the_status_counts_it() {
    let world = World::new().await;
    world.change("before").await;
    let outage = world.server.inject(On::any(), Fault::Refuse);
    world.server.cut_all_watches();
    world.change_silently("meanwhile");
    sleep_seconds(2.0).await;
    world.server.inject(On::list(), Fault::status(403));
    world.server.remove_fault(outage);
    sleep_seconds(45.0).await;

    assert_eq!(world.cached(), world.served(), "half a minute later, when the server counts as started");
    assert!(world.factory.status().iter().all(|status| status.source.unchecked_outages == 1));
    world.server.clear_faults();
    world.stop().await;
}

/// Each list is preceded by a check, which is refused as well.
#[tokio::test(start_paused = true)]
async fn checks_before_lists_do_not_count_as_unchecked_outages() {
    let world = World::new().await;
    world.change("before").await;
    let refusal = world.server.inject(On::any().of("secrets"), Fault::status(403));
    world.server.cut_watches("secrets");
    sleep_seconds(600.0).await;
    world.server.remove_fault(refusal);
    sleep_seconds(60.0).await;

    let unchecked = world.secrets.status().source.unchecked_outages;
    assert!(unchecked <= 1, "{unchecked}");
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_history_change_fails_waits_for_versions() {
    let world = World::new().await;
    let backup = world.server.backup();
    world.change("lost").await;
    let far = (world.server.version() + 100).to_string();
    let configs = world.configs.clone();
    let waiting = tokio::spawn(async move { configs.caught_up_to(&far.as_str().into(), 60 * SECOND).await });
    let outage = world.restore(&backup);
    sleep_seconds(2.0).await;
    world.server.remove_fault(outage);

    let error = waiting.await.unwrap().unwrap_err();

    assert!(matches!(error, WaitError::HistoryChanged { .. }), "{error}");
    world.stop().await;
}

/// P1: the client, or a proxy, stands still while the server is restored. No request fails.
#[tokio::test(start_paused = true)]
async fn a_restore_is_noticed_although_no_request_fails() {
    for (pause, holds) in [(0.0, true), (9.0, true), (0.0, false), (30.0, false)] {
        let world = World::new().await;
        let backup = world.server.backup();
        world.change("lost").await;
        let before = world.server.version();
        if holds {
            // A proxy holds new connections.
            world.server.inject(On::watch(), Fault::Delay(Duration::from_secs_f64(pause + 0.5)));
        }
        world.server.restore(&backup);
        while world.server.version() <= before {
            world.change_silently(&format!("passed-{}", world.server.version()));
        }
        sleep_seconds(pause).await;
        world.server.clear_faults();

        sleep_seconds(10.0).await;

        assert_eq!(world.cached(), world.served(), "{pause} {holds}");
        assert_eq!(world.history_changes(), [1; 3], "{pause} {holds}");
        world.stop().await;
    }
}

/// All watches break at the same time, 1,000 times, while objects are written.
#[tokio::test(start_paused = true)]
async fn a_hundred_informers_whose_connections_break_every_minute_send_four_lookups_a_minute_and_never_list_again() {
    const INFORMERS: usize = 100;
    let server = ApiServer::new();
    let write = |number: usize| {
        let name = json!({"namespace": format!("n{}", number % INFORMERS), "name": format!("a{}", number % 7)});
        server.put("configmaps", json!({"metadata": name, "data": {"number": number.to_string()}})).unwrap();
    };
    (0..INFORMERS).for_each(write);
    let factory = SharedInformerFactory::new(client(&server));
    let leaks = Leaks::watch();
    for number in 0..INFORMERS {
        factory.request::<ConfigMap>().in_namespace(format!("n{number}")).informer().unwrap();
    }
    factory.start();
    factory.synced().await.unwrap();
    server.wait_for_watches("configmaps", INFORMERS).await;

    for round in 0..10 {
        // Half of the informers receive an event. The others have nothing by which they could recognise the history.
        (0..INFORMERS / 2).for_each(|number| write(round * 37 + number));
        sleep_seconds(59.0).await;
        server.clear_requests();
        server.cut_all_watches();
        (0..INFORMERS / 2).for_each(|number| write(round * 37 + number));
        sleep_seconds(1.0).await;

        let requests = server.requests();
        let lookups = requests.iter().filter(|request| is_lookup(request)).count();
        assert!(lookups <= 4, "round {round}: {lookups} lookups");
        assert_eq!(server.open_watches("configmaps"), INFORMERS, "round {round}");
        let lists = requests.iter().filter(|request| request.verb == Verb::WatchList || request.verb == Verb::List);
        assert_eq!(lists.count(), lookups, "round {round}: nothing is listed");
    }
    let changes = factory.status().iter().map(|status| status.source.history_changes).sum::<u64>();
    assert_eq!(changes, 0, "1,000 checked reconnects");
    stop_factory(&factory, &leaks).await;
}

/// Nothing proves the history: ten informers last received a delete that the server has compacted, and the others have no event.
#[tokio::test(start_paused = true)]
async fn a_hundred_informers_whose_newest_event_cannot_be_proven_send_four_lookups_a_minute_and_never_list_again() {
    const INFORMERS: usize = 100;
    let server = ApiServer::new();
    for number in 0..INFORMERS {
        put_in(&server, number, "a");
        put_in(&server, number, "b");
    }
    put(&server, "services", "newest", "first");
    let factory = SharedInformerFactory::new(client(&server));
    let leaks = Leaks::watch();
    for number in 0..INFORMERS {
        factory.request::<ConfigMap>().in_namespace(format!("n{number}")).informer().unwrap();
    }
    factory.start();
    factory.synced().await.unwrap();
    server.wait_for_watches("configmaps", INFORMERS).await;
    for number in 3..13 {
        put_in(&server, number, "a");
        server.delete("configmaps", &format!("n{number}/b")).unwrap();
    }
    put(&server, "services", "newest", "second");
    // Bookmarks carry the newest version, so that all watches can be resumed.
    sleep_seconds(70.0).await;
    server.compact();

    for round in 0..5 {
        sleep_seconds(59.0).await;
        server.clear_requests();
        server.cut_all_watches();
        sleep_seconds(1.0).await;

        let requests = server.requests();
        let lookups = requests.iter().filter(|request| is_lookup(request)).count();
        assert!(lookups <= 4, "round {round}: {lookups} lookups");
        assert_eq!(server.open_watches("configmaps"), INFORMERS, "round {round}");
        let lists = requests.iter().filter(|request| request.verb == Verb::WatchList || request.verb == Verb::List);
        assert_eq!(lists.count(), lookups, "round {round}: nothing is listed");
    }
    stop_factory(&factory, &leaks).await;
}

fn put_in(server: &ApiServer, number: usize, name: &str) {
    let labels = json!({"version": server.version().to_string()});
    let metadata = json!({"namespace": format!("n{number}"), "name": name, "labels": labels});
    server.put("configmaps", json!({"metadata": metadata})).unwrap();
}

/// P1: the newest write before the list was of another kind, and no event followed, so that nothing can prove the history; and no list or watch failed.
#[tokio::test(start_paused = true)]
async fn a_restore_is_noticed_although_only_the_questions_of_a_silent_watch_failed() {
    let server = server(&["shop/a", "shop/b"]);
    let backup = server.backup();
    server.put("configmaps", config("shop/lost")).unwrap();
    put(&server, "secrets", "a", "first");
    let version = server.version();
    server.inject(On::watch().of("configmaps").once(), Fault::freeze_after_events(0));
    let factory = SharedInformerFactory::builder(client(&server)).without_streaming().build();
    let leaks = Leaks::watch();
    let configs = factory.informer::<ConfigMap>();
    factory.start();
    factory.synced().await.unwrap();
    sleep_seconds(1.0).await;

    let outage = server.inject(On::any(), Fault::Refuse);
    server.restore(&backup);
    // The writes pass the version before the restore.
    while server.version() <= version {
        server.put("configmaps", config(&format!("shop/new-{}", server.version()))).unwrap();
    }
    sleep_seconds(100.0).await;
    server.remove_fault(outage);
    server.put("configmaps", config("shop/newest")).unwrap();
    sleep_seconds(200.0).await;

    let served = server.list("configmaps").unwrap().len();
    assert!(!keys(&configs).contains(&"shop/lost".into()), "{:?}", keys(&configs));
    assert_eq!(keys(&configs).len(), served);
    stop_factory(&factory, &leaks).await;
}

/// P1: one of two servers behind a proxy keeps the lost history in its cache, and adds the writes of the new one.
#[tokio::test(start_paused = true)]
async fn a_server_that_mixes_the_lost_history_with_the_new_one_leaves_no_lost_object_behind() {
    // The same seed and the same writes: the same uids and versions.
    let servers = [(); 2].map(|()| ApiServer::builder().seed(7).build());
    let both = |key: &str, text: &str| servers.iter().for_each(|server| put(server, "configmaps", key, text));
    ["a", "b", "c"].iter().for_each(|key| both(key, "first"));
    let backups = servers.each_ref().map(ApiServer::backup);
    both("a", "lost-before");
    let current = Arc::new(AtomicUsize::new(0));
    let (services, at) = (servers.each_ref().map(ApiServer::service), Arc::clone(&current));
    let proxy = tower::service_fn(move |request| services[at.load(Ordering::Relaxed)].clone().call(request));
    let factory = SharedInformerFactory::new(kube::Client::new(proxy, "default"));
    let leaks = Leaks::watch();
    let configs = factory.informer::<ConfigMap>();
    factory.start();
    factory.synced().await.unwrap();
    sleep_seconds(10.0).await;
    servers.iter().zip(&backups).for_each(|(server, backup)| server.restore(backup));
    sleep_seconds(10.0).await;
    assert_eq!(configs.status().source.history_changes, 1);

    let flip_to = async |server: usize| {
        current.store(server, Ordering::Relaxed);
        servers.iter().for_each(ApiServer::cut_all_watches);
        sleep_seconds(10.0).await;
    };
    flip_to(1).await;
    put(&servers[1], "configmaps", "a", "lost");
    servers[0].skip_to_version(servers[1].version());
    both("b", "second");
    both("c", "second");
    sleep_seconds(1.0).await;
    let text = || configs.lister().require(&"shop/a".parse().unwrap()).unwrap().metadata.labels.clone().unwrap();
    assert_eq!(text()["text"], "lost");
    flip_to(0).await;

    assert_eq!(text()["text"], "first");
    stop_factory(&factory, &leaks).await;
}
