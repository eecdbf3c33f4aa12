//! Servers whose storage is restored from a backup: P1 holds also then.

use std::sync::Arc;
use std::time::Duration;

use informant::informer::{InformerBuilder, WaitError};
use informant::{SharedInformer, SharedInformerFactory};
use informant_apiserver::{ApiServer, Backup, Fault, FaultId, On, Verb};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use parking_lot::Mutex;
use serde_json::json;

use super::support::{Leaks, SECOND, client, stop_factory};
use crate::reflector::support::{is_lookup, seconds};

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
    async fn new(in_order: bool) -> Self {
        let server = ApiServer::new();
        for kind in KINDS {
            for name in ["a", "b", "c"] {
                put(&server, kind, name, "first");
            }
        }
        let errors = Arc::<Mutex<Vec<String>>>::default();
        let recorded = Arc::clone(&errors);
        let mut builder = SharedInformerFactory::builder(client(&server))
            .on_error(move |error| recorded.lock().push(format!("{}: {}", error.resource, error.source)));
        if in_order {
            builder = builder
                .configure::<ConfigMap>(InformerBuilder::in_order)
                .configure::<Secret>(InformerBuilder::in_order)
                .configure::<ServiceAccount>(InformerBuilder::in_order);
        }
        let factory = builder.build();
        let leaks = Leaks::watch();
        let (configs, secrets, accounts) = (factory.informer(), factory.informer(), factory.informer());
        factory.start();
        factory.synced().await.unwrap();
        for kind in KINDS {
            server.wait_for_watches(kind, 1).await;
        }
        Self { server, factory, configs, secrets, accounts, errors, leaks }
    }

    /// Every object of every cache, with its version and its label.
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

    /// The same of the server.
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

    /// Changes, creates and deletes objects of all kinds, and waits until the caches have it.
    async fn change(&self, text: &str) {
        self.change_silently(text);
        seconds(0.1).await;
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

    /// How many requests for one object, or for the version alone, there were.
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
        // The client's own task ends.
        seconds(0.1).await;
    }
}

fn put(server: &ApiServer, kind: &str, name: &str, text: &str) {
    let labels = json!({"text": text});
    server.put(kind, json!({"metadata": {"namespace": "shop", "name": name, "labels": labels}})).unwrap();
}

/// P1: the restored server has smaller versions than the cache, and sends nothing.
#[tokio::test(start_paused = true)]
async fn after_a_restore_the_caches_of_a_quiet_server_are_right_within_seconds() {
    for in_order in [false, true] {
        let world = World::new(in_order).await;
        let backup = world.server.backup();
        world.change("lost").await;

        let outage = world.restore(&backup);
        seconds(5.0).await;
        world.server.remove_fault(outage);
        seconds(5.0).await;

        assert_eq!(world.cached(), world.served());
        assert_eq!(world.history_changes(), [1, 1, 1]);
        assert!(world.factory.problems().is_empty(), "{:?}", world.factory.problems());
        world.stop().await;
    }
}

/// P1: the versions of the restored server pass the old ones while the informers are connected.
#[tokio::test(start_paused = true)]
async fn after_a_restore_the_caches_of_a_busy_server_are_right() {
    for in_order in [false, true] {
        let world = World::new(in_order).await;
        let backup = world.server.backup();
        world.change("lost").await;
        let old = world.server.version();

        let outage = world.restore(&backup);
        seconds(2.0).await;
        world.server.remove_fault(outage);
        while world.server.version() < old + 20 {
            put(&world.server, "configmaps", "c", &format!("busy-{}", world.server.version()));
            seconds(0.3).await;
        }
        seconds(5.0).await;

        assert_eq!(world.cached(), world.served());
        world.stop().await;
    }
}

/// P1: the restored server had passed the old version before the informers came back, so no version ever went backwards.
#[tokio::test(start_paused = true)]
async fn after_a_restore_the_caches_are_right_also_if_the_server_has_passed_the_old_version() {
    for in_order in [false, true] {
        let world = World::new(in_order).await;
        let backup = world.server.backup();
        world.change("lost").await;
        let old = world.server.version();

        let outage = world.restore(&backup);
        world.change_silently("other");
        while world.server.version() < old + 20 {
            put(&world.server, "configmaps", "other", &world.server.version().to_string());
        }
        seconds(2.0).await;
        world.server.remove_fault(outage);
        seconds(8.0).await;

        assert_eq!(world.cached(), world.served());
        assert_eq!(world.history_changes(), [1, 1, 1]);
        let errors = world.errors.lock().clone();
        assert!(errors.iter().any(|error| error.contains("the server's history has changed")), "{errors:?}");
        world.stop().await;
    }
}

/// P1: the same content of an object may not be there although uid and version are the same.
#[tokio::test(start_paused = true)]
async fn an_object_of_the_same_uid_and_version_in_another_history_replaces_the_cached_one() {
    for in_order in [false, true] {
        let world = World::new(in_order).await;
        let backup = world.server.backup();
        put(&world.server, "configmaps", "c", "lost");
        put(&world.server, "configmaps", "a", "lost");
        seconds(0.1).await;

        let outage = world.restore(&backup);
        put(&world.server, "configmaps", "c", "other");
        put(&world.server, "configmaps", "b", "other");
        world.server.delete("configmaps", "shop/b").unwrap();
        seconds(2.0).await;
        world.server.remove_fault(outage);
        seconds(5.0).await;

        assert_eq!(world.cached(), world.served());
        world.stop().await;
    }
}

/// Only one of them can find out: the others have seen nothing that the restored server does not have.
#[tokio::test(start_paused = true)]
async fn a_history_change_that_one_informer_finds_makes_all_others_list_again() {
    let world = World::new(false).await;
    let backup = world.server.backup();
    put(&world.server, "configmaps", "c", "lost");
    seconds(0.1).await;
    let outage = world.restore(&backup);
    for number in 0..5 {
        put(&world.server, "configmaps", "other", &number.to_string());
    }

    seconds(2.0).await;
    world.server.remove_fault(outage);
    seconds(10.0).await;

    assert_eq!(world.cached(), world.served());
    assert_eq!(world.history_changes(), [1, 1, 1]);
    world.stop().await;
}

/// P10: nothing was restored, so nothing is listed again; and it costs no more than three lookups for each informer.
#[tokio::test(start_paused = true)]
async fn after_an_outage_without_a_restore_watches_are_resumed_after_at_most_three_lookups_each() {
    let world = World::new(false).await;
    world.change("before").await;
    world.server.clear_requests();

    let outage = world.server.inject(On::any(), Fault::Refuse);
    world.server.cut_all_watches();
    world.change_silently("meanwhile");
    seconds(20.0).await;
    world.server.remove_fault(outage);
    seconds(5.0).await;

    assert_eq!(world.cached(), world.served());
    assert_eq!((world.full_lists(), world.history_changes()), (0, vec![0, 0, 0]));
    let refused = world.server.requests().iter().filter(|request| request.faults.contains(&Fault::Refuse)).count();
    assert!(world.lookups() <= 3 * KINDS.len() + refused, "{:?}", world.server.requests_for("configmaps"));
    assert_eq!(world.history_changes(), [0, 0, 0]);
    world.stop().await;
}

/// The newest event is a delete, which can only be proven by what the server remembers.
#[tokio::test(start_paused = true)]
async fn a_delete_that_the_server_remembers_proves_its_history_and_one_that_it_never_made_disproves_it() {
    for is_restored in [false, true] {
        let world = World::new(false).await;
        put(&world.server, "configmaps", "d", "short-lived");
        let backup = world.server.backup();
        world.server.delete("configmaps", "shop/d").unwrap();
        seconds(0.1).await;
        world.server.clear_requests();

        let outage = world.server.inject(On::any(), Fault::Refuse);
        world.server.cut_all_watches();
        if is_restored {
            world.server.restore(&backup);
            put(&world.server, "configmaps", "c", "other");
            world.server.delete("configmaps", "shop/d").unwrap();
            put(&world.server, "configmaps", "d", "again");
        }
        seconds(2.0).await;
        world.server.remove_fault(outage);
        seconds(8.0).await;

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

/// A bookmark's version is no proof: what the restored server wrote between the newest event and the bookmark would be missed.
#[tokio::test(start_paused = true)]
async fn a_watch_is_resumed_from_the_newest_event_and_not_from_a_later_bookmark() {
    let world = World::new(false).await;
    put(&world.server, "configmaps", "a", "newest");
    seconds(0.1).await;
    let newest = world.configs.lister().version().unwrap();
    world.server.put("nodes", json!({"metadata": {"name": "of-another-kind"}})).unwrap();
    seconds(70.0).await;
    assert_ne!(world.configs.lister().version().unwrap(), newest, "a bookmark has come");
    world.server.clear_requests();

    let outage = world.server.inject(On::any(), Fault::Refuse);
    world.server.cut_all_watches();
    seconds(2.0).await;
    world.server.remove_fault(outage);
    seconds(5.0).await;

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

/// Versions that the server has forgotten prove nothing either way.
#[tokio::test(start_paused = true)]
async fn if_the_server_has_compacted_the_newest_event_everything_is_listed_and_no_history_change_is_reported() {
    let world = World::new(false).await;
    world.change("before").await;

    let outage = world.server.inject(On::any(), Fault::Refuse);
    world.server.cut_all_watches();
    world.change_silently("meanwhile");
    world.server.compact();
    seconds(2.0).await;
    world.server.remove_fault(outage);
    seconds(8.0).await;

    assert_eq!(world.cached(), world.served());
    assert_eq!(world.history_changes(), [0, 0, 0]);
    let errors = world.errors.lock().clone();
    assert!(!errors.iter().any(|error| error.contains("history has changed")), "{errors:?}");
    world.stop().await;
}

/// P10: an ordinary reconnect is no outage.
#[tokio::test(start_paused = true)]
async fn watches_that_end_when_they_are_due_are_resumed_without_any_lookup() {
    let world = World::new(false).await;
    world.change("before").await;
    world.server.clear_requests();

    seconds(3600.0).await;

    let watches = world.server.requests().iter().filter(|request| request.verb == Verb::Watch).count();
    assert!(watches >= 18, "{watches}");
    assert_eq!((world.lookups(), world.full_lists()), (0, 0));
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn if_the_check_is_forbidden_watches_are_resumed_and_it_is_counted() {
    let world = World::new(false).await;
    world.change("before").await;
    let outage = world.server.inject(On::any(), Fault::Refuse);
    world.server.cut_all_watches();
    world.change_silently("meanwhile");
    seconds(2.0).await;
    world.server.inject(On::list(), Fault::status(403));
    world.server.remove_fault(outage);
    seconds(45.0).await;

    assert_eq!(world.cached(), world.served(), "half a minute later, when the server counts as started");
    assert!(world.factory.status().iter().all(|status| status.source.unchecked_outages == 1));
    world.server.clear_faults();
    world.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_history_change_fails_waits_for_versions() {
    let world = World::new(false).await;
    let backup = world.server.backup();
    world.change("lost").await;
    let far = (world.server.version() + 100).to_string();
    let configs = world.configs.clone();
    let waiting = tokio::spawn(async move { configs.caught_up_to(&far.as_str().into(), 60 * SECOND).await });
    let outage = world.restore(&backup);
    seconds(2.0).await;
    world.server.remove_fault(outage);

    let error = waiting.await.unwrap().unwrap_err();

    assert!(matches!(error, WaitError::HistoryChanged { .. }), "{error}");
    world.stop().await;
}

/// Four informers check at a time; all of them are right in the end.
#[tokio::test(start_paused = true)]
async fn no_more_than_four_informers_check_at_the_same_time() {
    let server = ApiServer::new();
    for number in 0..20 {
        server.put("configmaps", json!({"metadata": {"namespace": format!("n{number}"), "name": "a"}})).unwrap();
    }
    let factory = SharedInformerFactory::new(client(&server));
    let leaks = Leaks::watch();
    for number in 0..20 {
        factory.request::<ConfigMap>().in_namespace(format!("n{number}")).informer().unwrap();
    }
    factory.start();
    factory.synced().await.unwrap();
    server.wait_for_watches("configmaps", 20).await;
    server.inject(On::list(), Fault::Delay(Duration::from_secs(1)));
    server.clear_requests();

    let outage = server.inject(On::any(), Fault::Refuse);
    server.cut_all_watches();
    seconds(2.0).await;
    server.remove_fault(outage);
    seconds(60.0).await;

    let lookups: Vec<_> = server.requests().into_iter().filter(is_lookup).filter(|one| one.faults.len() == 1).collect();
    assert!(lookups.len() >= 20, "{}", lookups.len());
    for lookup in &lookups {
        let at_once = lookups.iter().filter(|other| other.at <= lookup.at && lookup.at - other.at < SECOND).count();
        assert!(at_once <= 4, "{at_once} at {:?}", lookup.at);
    }
    assert_eq!(server.open_watches("configmaps"), 20);
    stop_factory(&factory, &leaks).await;
}
