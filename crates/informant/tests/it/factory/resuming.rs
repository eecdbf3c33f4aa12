//! How informers resume after an outage: what handlers receive, which requests are sent, and what may go wrong meanwhile.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::Duration,
};

use informant::{
    SharedInformer, SharedInformerFactory,
    error::{ListWatchError, SourceError},
    pipeline::{
        Item, KubeSource, ListRequest, ListStream, ListWatch, LookupAnswer, LookupRequest, ReflectorBuilder,
        WatchRequest, WatchStream,
    },
};
use informant_apiserver::{ApiServer, CutAfter, CutEnding, Fault, On};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service, ServiceAccount};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use crate::support::{
    reflector::{full_lists, sleep_seconds},
    servers::{Probe, client, config, keys, wait_until},
};

/// All connections break, and no new one is accepted for this long.
async fn outage(server: &ApiServer, length: f64) {
    // A watch that lasted is opened again at once, and that request then fails.
    sleep_seconds(2.0).await;
    let outage = server.inject(On::any(), Fault::Refuse);
    server.cut_all_watches();
    sleep_seconds(length).await;
    server.remove_fault(outage);
}

fn ghost(number: u32) -> serde_json::Value {
    json!({"metadata": {"namespace": "shop", "name": "ghost"}, "data": {"text": number.to_string()}})
}

/// Changes the answer to a lookup.
type Change = Box<dyn Fn(LookupAnswer<ConfigMap>) -> Result<LookupAnswer<ConfigMap>, SourceError> + Send + Sync>;

/// A Kubernetes source whose answers to lookups a test changes.
struct Wrapped {
    inner: KubeSource,
    change: Change,
}

impl Wrapped {
    fn new(
        server: &ApiServer,
        change: impl Fn(LookupAnswer<ConfigMap>) -> Result<LookupAnswer<ConfigMap>, SourceError> + Send + Sync + 'static,
    ) -> Self {
        Self { inner: KubeSource::of_kind::<ConfigMap>(client(server)), change: Box::new(change) }
    }
}

impl ListWatch<ConfigMap> for Wrapped {
    async fn list(&self, request: ListRequest) -> Result<ListStream<ConfigMap>, SourceError> {
        self.inner.list(request).await
    }

    async fn watch(&self, request: WatchRequest) -> Result<WatchStream<ConfigMap>, SourceError> {
        self.inner.watch(request).await
    }

    async fn look_up(&self, request: LookupRequest) -> Result<Option<LookupAnswer<ConfigMap>>, SourceError> {
        let found = self.inner.look_up(request).await?;
        found.map(|found| (self.change)(found)).transpose()
    }
}

/// P1: a watch that breaks just after it was opened is opened again after a delay; a restore meanwhile is noticed.
#[tokio::test(start_paused = true)]
async fn a_restore_while_the_reflector_waits_to_open_a_broken_watch_again_is_noticed() {
    let server = ApiServer::new();
    server.put("configmaps", config("shop/a")).unwrap();
    let informer = SharedInformer::<ConfigMap>::builder(KubeSource::of_kind::<ConfigMap>(client(&server)))
        .reflector(|reflector| reflector.backoff(crate::support::servers::backoff_without_jitter()))
        .build();
    informer.start();
    informer.synced().await.unwrap();
    server.wait_for_watches("configmaps", 1).await;
    sleep_seconds(2.0).await;
    let backup = server.backup();
    server.put("configmaps", config("shop/lost")).unwrap();
    sleep_seconds(1.0).await;
    outage(&server, 3.0).await;
    // The connection breaks again just after it was made, and then the storage is restored.
    while server.open_watches("configmaps") == 0 {
        sleep_seconds(0.01).await;
    }
    let rule = server.inject(On::any(), Fault::Refuse);
    server.restore(&backup);
    server.cut_all_watches();
    server.put("secrets", config("shop/x")).unwrap();
    server.put("secrets", config("shop/y")).unwrap();
    sleep_seconds(5.0).await;
    server.remove_fault(rule);
    sleep_seconds(300.0).await;

    assert_eq!(keys(&informer), ["shop/a"]);
    informer.stop().await.unwrap();
}

/// P2: after an outage without a restore, objects that were deleted before the list are not added again.
#[tokio::test(start_paused = true)]
async fn after_an_outage_no_handler_is_called_for_objects_that_were_deleted_before_the_list() {
    let server = ApiServer::new();
    server.put("configmaps", config("shop/a")).unwrap();
    for number in 0..100 {
        server.put("configmaps", ghost(number)).unwrap();
    }
    server.delete("configmaps", "shop/ghost").unwrap();
    let informer = SharedInformer::<ConfigMap>::builder(KubeSource::of_kind::<ConfigMap>(client(&server))).build();
    let probe = Probe::new();
    let _handle = informer.subscribe().handler(probe.handler());
    informer.start();
    informer.synced().await.unwrap();
    server.wait_for_watches("configmaps", 1).await;
    let listed = server.version().to_string();
    informer.caught_up_to(&listed.as_str().into(), Duration::from_secs(1)).await.unwrap();
    probe.take();

    outage(&server, 1.0).await;
    sleep_seconds(10.0).await;

    assert_eq!(probe.take(), Vec::<String>::new());
    informer.stop().await.unwrap();
}

/// P2: the same for a cached object that a relist removed.
#[tokio::test(start_paused = true)]
async fn after_an_outage_an_object_that_a_relist_removed_is_not_added_again() {
    let server = ApiServer::new();
    server.put("configmaps", config("shop/a")).unwrap();
    server.put("configmaps", config("shop/ghost")).unwrap();
    server.put("configmaps", config("shop/b")).unwrap();
    let informer = SharedInformer::<ConfigMap>::new(KubeSource::of_kind::<ConfigMap>(client(&server)));
    let probe = Probe::new();
    let _handle = informer.subscribe().handler(probe.handler());
    informer.start();
    informer.synced().await.unwrap();
    server.wait_for_watches("configmaps", 1).await;
    // The watch is refused as expired once, so the informer relists.
    server.inject(On::watch().of("configmaps").once(), Fault::status(410));
    server.cut_all_watches();
    for number in 0..100 {
        server.put("configmaps", ghost(number)).unwrap();
    }
    server.delete("configmaps", "shop/ghost").unwrap();
    sleep_seconds(5.0).await;
    assert_eq!(keys(&informer), ["shop/a", "shop/b"]);
    probe.take();

    outage(&server, 1.0).await;
    sleep_seconds(10.0).await;

    assert_eq!(probe.take(), Vec::<String>::new());
    informer.stop().await.unwrap();
}

/// The version of a cache goes back only if the history changes.
#[tokio::test(start_paused = true)]
async fn a_version_that_the_cache_had_reached_stays_reached_after_an_ordinary_outage() {
    let server = ApiServer::new();
    server.put("configmaps", config("shop/a")).unwrap();
    server.put("configmaps", ghost(1)).unwrap();
    server.delete("configmaps", "shop/ghost").unwrap();
    server.put("secrets", config("shop/x")).unwrap();
    let informer = SharedInformer::<ConfigMap>::new(KubeSource::of_kind::<ConfigMap>(client(&server)));
    informer.start();
    informer.synced().await.unwrap();
    server.wait_for_watches("configmaps", 1).await;
    let listed = server.version().to_string();
    informer.caught_up_to(&listed.as_str().into(), Duration::from_secs(1)).await.unwrap();

    outage(&server, 1.0).await;
    sleep_seconds(10.0).await;

    assert!(informer.status().source.watches > 1, "the informer watches again");
    informer.caught_up_to(&listed.as_str().into(), Duration::from_secs(1)).await.unwrap();
    informer.stop().await.unwrap();
}

/// P10: a history check that always fails does not keep an informer from recovering, because lists and watches work.
#[tokio::test(start_paused = true)]
async fn an_informer_whose_lookups_always_fail_recovers_by_a_relist() {
    for code in [500, 504] {
        let server = ApiServer::new();
        server.put("configmaps", config("shop/a")).unwrap();
        let fails = Arc::new(AtomicBool::new(false));
        let source = Wrapped::new(&server, {
            let fails = Arc::clone(&fails);
            move |found| match fails.load(Ordering::Relaxed) {
                true => Err(kube::core::Status::failure("no", "InternalError").with_code(code).into()),
                false => Ok(found),
            }
        });
        let informer = SharedInformer::<ConfigMap>::new(source);
        informer.start();
        informer.synced().await.unwrap();
        server.wait_for_watches("configmaps", 1).await;

        fails.store(true, Ordering::Relaxed);
        outage(&server, 1.0).await;
        server.put("configmaps", config("shop/b")).unwrap();
        sleep_seconds(600.0).await;

        assert_eq!(keys(&informer), ["shop/a", "shop/b"], "{code}: {:?}", informer.status());
        informer.stop().await.unwrap();
    }
}

/// A source whose server is overloaded: it answers lookups, but the first four lists fail, and the fifth one crashes it.
struct Overloaded {
    inner: KubeSource,
    server: ApiServer,
    lists: AtomicU32,
}

impl ListWatch<ConfigMap> for Overloaded {
    async fn list(&self, request: ListRequest) -> Result<ListStream<ConfigMap>, SourceError> {
        match self.lists.fetch_add(1, Ordering::Relaxed) {
            0..4 => return Err(kube::core::Status::failure("no", "ServiceUnavailable").with_code(503).into()),
            4 => drop(self.server.inject(On::any(), Fault::Refuse)),
            5.. => {}
        }
        self.inner.list(request).await
    }

    async fn watch(&self, request: WatchRequest) -> Result<WatchStream<ConfigMap>, SourceError> {
        self.inner.watch(request).await
    }

    async fn look_up(&self, request: LookupRequest) -> Result<Option<LookupAnswer<ConfigMap>>, SourceError> {
        self.inner.look_up(request).await
    }
}

/// P10: what was known of an overloaded server does not count after its crash.
#[tokio::test(start_paused = true)]
async fn lists_succeed_within_five_seconds_after_the_restart_of_an_overloaded_server() {
    let server = ApiServer::new();
    server.put("configmaps", config("shop/a")).unwrap();
    let inner = KubeSource::of_kind::<ConfigMap>(client(&server));
    let source = Overloaded { inner, server: server.clone(), lists: AtomicU32::new(0) };
    let informer = SharedInformer::<ConfigMap>::new(source);
    informer.start();
    sleep_seconds(120.0).await;
    assert!(!informer.is_synced());
    server.clear_faults();
    let starting = server.inject(On::any(), Fault::status(503));
    sleep_seconds(10.0).await;
    server.remove_fault(starting);

    let begun = Instant::now();
    informer.synced().await.unwrap();

    assert!(begun.elapsed() <= Duration::from_secs(5), "{:?}", begun.elapsed());
    informer.stop().await.unwrap();
}

/// P10: after a restore, the history is checked before each watch for ten minutes.
#[tokio::test(start_paused = true)]
async fn after_a_restore_an_informer_whose_lookups_always_fail_lists_once_a_minute() {
    let server = ApiServer::new();
    server.put("configmaps", config("shop/a")).unwrap();
    let backup = server.backup();
    server.put("configmaps", config("shop/lost")).unwrap();
    let source =
        Wrapped::new(&server, |_| Err(kube::core::Status::failure("no", "InternalError").with_code(500).into()));
    let informer = SharedInformer::<ConfigMap>::builder(source).reflector(ReflectorBuilder::without_streaming).build();
    informer.start();
    informer.synced().await.unwrap();
    server.wait_for_watches("configmaps", 1).await;
    sleep_seconds(100.0).await;

    server.restore(&backup);
    sleep_seconds(60.0).await;
    assert_eq!((keys(&informer), informer.status().source.history_changes), (vec!["shop/a".into()], 1));
    server.clear_requests();
    sleep_seconds(300.0).await;

    let lists = full_lists(&server, "configmaps");
    assert!((4..=6).contains(&lists), "{lists}");
    informer.stop().await.unwrap();
}

/// P8, P10
#[tokio::test(start_paused = true)]
async fn a_kind_whose_connections_break_does_not_keep_another_from_resuming() {
    for code in [400, 403, 404] {
        let server = ApiServer::new();
        server.put("configmaps", config("shop/a")).unwrap();
        let factory = SharedInformerFactory::new(client(&server));
        let informer = factory.informer::<ConfigMap>();
        let _secrets = factory.informer::<Secret>();
        factory.start();
        factory.synced().await.unwrap();
        server.wait_for_watches("configmaps", 1).await;

        server.inject(On::any().of("secrets"), Fault::Drop);
        server.inject(On::list().of("configmaps"), Fault::status(code));
        outage(&server, 1.0).await;
        server.put("configmaps", config("shop/b")).unwrap();
        sleep_seconds(1200.0).await;

        assert_eq!(keys(&informer), ["shop/a", "shop/b"], "{code}: {:?}", informer.status());
        factory.stop().await.unwrap();
    }
}

/// P10: requests of other kinds do not reset the delays of a kind that fails.
#[tokio::test(start_paused = true)]
async fn a_kind_whose_connections_break_is_tried_with_growing_delays_while_others_work() {
    let server = ApiServer::new();
    server.put("configmaps", config("shop/a")).unwrap();
    let factory = SharedInformerFactory::new(client(&server));
    let _informer = factory.informer::<ConfigMap>();
    let _secrets = factory.informer::<Secret>();
    factory.start();
    factory.synced().await.unwrap();
    server.wait_for_watches("configmaps", 1).await;

    server.inject(On::any().of("secrets"), Fault::Drop);
    server.cut_all_watches();
    sleep_seconds(600.0).await;
    server.clear_requests();
    // The watches of a hundred informers end about this often.
    for _ in 0..120 {
        server.put("configmaps", config("shop/a")).unwrap();
        sleep_seconds(5.0).await;
        server.inject(On::watch().of("configmaps").once(), Fault::cut_after_events(1));
        server.cut_all_watches();
    }
    let requests = server.requests().iter().filter(|request| request.resource == "secrets").count();
    assert!(requests <= 60, "{requests} in ten minutes");
    factory.stop().await.unwrap();
}

/// P10, RE-03: a connection that breaks again just after the end of an outage does not make the informer wait for long.
#[tokio::test(start_paused = true)]
async fn a_connection_that_breaks_again_just_after_an_outage_is_made_again_within_five_seconds() {
    let server = ApiServer::new();
    server.put("configmaps", config("shop/a")).unwrap();
    let factory = SharedInformerFactory::new(client(&server));
    let informer = factory.informer::<ConfigMap>();
    factory.start();
    factory.synced().await.unwrap();
    server.wait_for_watches("configmaps", 1).await;
    outage(&server, 20.0).await;
    while server.open_watches("configmaps") == 0 {
        sleep_seconds(0.01).await;
    }

    server.cut_all_watches();
    server.put("configmaps", config("shop/b")).unwrap();
    let begun = Instant::now();
    while informer.lister().len() < 2 {
        sleep_seconds(0.1).await;
    }

    assert!(begun.elapsed() <= Duration::from_secs(5), "{:?}", begun.elapsed());
    factory.stop().await.unwrap();
}

/// A server of a newer release may fill in a default on reading: the cached content is outdated, but nothing was restored.
#[tokio::test(start_paused = true)]
async fn an_upgraded_server_that_fills_in_a_new_default_causes_a_relist_and_no_history_change() {
    let server = ApiServer::new();
    server.put("configmaps", config("shop/a")).unwrap();
    let is_upgraded = Arc::new(AtomicBool::new(false));
    let source = Wrapped::new(&server, {
        let (server, is_upgraded) = (server.clone(), Arc::clone(&is_upgraded));
        move |mut found| {
            if is_upgraded.load(Ordering::Relaxed) && found.object.is_some() {
                let mut object = server.get("configmaps", "shop/a").unwrap();
                object["immutable"] = json!(false);
                found.object = Some(Item::json(serde_json::to_vec(&object).unwrap()));
            }
            Ok(found)
        }
    });
    let informer = SharedInformer::<ConfigMap>::new(source);
    informer.start();
    informer.synced().await.unwrap();
    server.wait_for_watches("configmaps", 1).await;

    is_upgraded.store(true, Ordering::Relaxed);
    outage(&server, 1.0).await;
    sleep_seconds(10.0).await;

    assert_eq!(informer.status().source.history_changes, 0);
    informer.stop().await.unwrap();
}

/// P10: a server that cannot look up one object by name (400) is watched again within seconds.
#[tokio::test(start_paused = true)]
async fn a_server_without_lookups_is_watched_again_within_five_seconds() {
    let server = ApiServer::new();
    server.put("configmaps", config("shop/a")).unwrap();
    let factory = SharedInformerFactory::new(client(&server));
    let informer = factory.informer::<ConfigMap>();
    factory.start();
    factory.synced().await.unwrap();
    server.wait_for_watches("configmaps", 1).await;

    outage(&server, 3.0).await;
    server.inject(On::list().of("configmaps"), Fault::status(400));
    server.put("configmaps", config("shop/b")).unwrap();
    let begun = Instant::now();
    while informer.lister().len() < 2 {
        sleep_seconds(0.1).await;
    }

    assert!(begun.elapsed() <= Duration::from_secs(5), "{:?}", begun.elapsed());
    factory.stop().await.unwrap();
}

/// P1: a relist does not discard the newest delete.
#[tokio::test(start_paused = true)]
async fn a_delete_observed_before_a_relist_still_proves_a_history_change() {
    let server = ApiServer::new();
    for key in ["shop/a", "shop/b", "shop/c"] {
        server.put("configmaps", config(key)).unwrap();
    }
    let informer = SharedInformer::<ConfigMap>::new(KubeSource::of_kind::<ConfigMap>(client(&server)));
    informer.start();
    informer.synced().await.unwrap();
    server.wait_for_watches("configmaps", 1).await;
    let backup = server.backup();
    server.delete("configmaps", "shop/a").unwrap();
    sleep_seconds(1.0).await;
    assert_eq!(keys(&informer), ["shop/b", "shop/c"]);
    server.inject(On::watch().of("configmaps").once(), Fault::status(410));
    server.cut_all_watches();
    sleep_seconds(5.0).await;

    let rule = server.inject(On::any(), Fault::Refuse);
    server.restore(&backup);
    server.put("secrets", config("shop/x")).unwrap();
    server.put("secrets", config("shop/y")).unwrap();
    server.put("secrets", config("shop/z")).unwrap();
    sleep_seconds(2.0).await;
    server.remove_fault(rule);
    sleep_seconds(30.0).await;

    assert_eq!(keys(&informer), ["shop/a", "shop/b", "shop/c"]);
    informer.stop().await.unwrap();
}

/// An outage of less than five seconds is not reported, also if there is no object.
#[tokio::test(start_paused = true)]
async fn a_short_outage_of_an_empty_kind_is_not_reported() {
    let server = ApiServer::new();
    let errors = Arc::<Mutex<Vec<String>>>::default();
    let recorded = Arc::clone(&errors);
    let callback = move |error: &ListWatchError| recorded.lock().push(error.source.to_string());
    let factory = SharedInformerFactory::builder(client(&server))
        .on_error(callback)
        .configure::<ConfigMap>(|builder| {
            builder.reflector(|reflector| reflector.backoff(crate::support::servers::backoff_without_jitter()))
        })
        .build();
    let _informer = factory.informer::<ConfigMap>();
    factory.start();
    factory.synced().await.unwrap();
    server.wait_for_watches("configmaps", 1).await;

    outage(&server, 1.0).await;
    sleep_seconds(10.0).await;

    assert_eq!(*errors.lock(), Vec::<String>::new());
    factory.stop().await.unwrap();
}

/// Without bookmarks and events, a resumed watch is confirmed like any other.
#[tokio::test(start_paused = true)]
async fn after_an_outage_an_idle_watch_without_bookmarks_is_not_opened_again_every_two_minutes() {
    let server = ApiServer::new();
    server.put("configmaps", config("shop/a")).unwrap();
    server.put("secrets", config("shop/x")).unwrap();
    server.inject(On::watch(), Fault::NoBookmarks);
    server.inject(On::watch_list(), Fault::WatchListRefused);
    let informer = SharedInformer::<ConfigMap>::new(KubeSource::of_kind::<ConfigMap>(client(&server)));
    informer.start();
    informer.synced().await.unwrap();
    server.wait_for_watches("configmaps", 1).await;
    server.clear_requests();
    sleep_seconds(3600.0).await;
    let before = server.requests().len();

    outage(&server, 2.0).await;
    server.clear_requests();
    sleep_seconds(3600.0).await;

    let after = server.requests().len();
    assert!(after <= before + 20, "{after} requests in an hour; {before} in the hour before the outage");
    informer.stop().await.unwrap();
}

/// Lookups of secrets, which have the newest event, hang. Returns how long the config maps, whose watch breaks a second later, are not up to date.
async fn behind_a_kind_that_hangs(its_watches_hang: bool) -> Duration {
    let server = ApiServer::new();
    let factory = SharedInformerFactory::builder(client(&server)).without_streaming().build();
    let (configs, secrets) = (factory.informer::<ConfigMap>(), factory.informer::<Secret>());
    factory.start();
    factory.synced().await.unwrap();
    for kind in ["configmaps", "secrets"] {
        server.wait_for_watches(kind, 1).await;
        ["shop/a", "shop/b"].iter().for_each(|key| drop(server.put(kind, config(key)).unwrap()));
    }
    sleep_seconds(2.0).await;
    server.inject(On::list().of("secrets"), Fault::Hang);
    if its_watches_hang {
        server.inject(On::watch().of("secrets"), Fault::Hang);
    }
    server.cut_watches("secrets");
    sleep_seconds(1.0).await;
    server.cut_watches("configmaps");
    sleep_seconds(0.1).await;
    server.put("configmaps", config("shop/c")).unwrap();
    let begun = Instant::now();
    wait_until(|| keys(&configs).len() == 3).await;
    let elapsed = begun.elapsed();
    drop(secrets);
    factory.stop().await.unwrap();
    elapsed
}

/// P8
#[tokio::test(start_paused = true)]
async fn a_kind_whose_lookups_hang_delays_another_by_five_seconds_at_most() {
    for its_watches_hang in [false, true] {
        let elapsed = behind_a_kind_that_hangs(its_watches_hang).await;
        assert!(elapsed < Duration::from_secs(6), "{elapsed:?} {its_watches_hang}");
    }
}

/// Without the proof of another kind, they would have to be listed.
#[tokio::test(start_paused = true)]
async fn kinds_without_events_resume_also_if_lookups_are_slow_or_fail_at_first() {
    for (fault, seconds) in [(Fault::Delay(Duration::from_secs(3)), 60.0), (Fault::status(503), 4.0)] {
        let server = ApiServer::new();
        let factory = SharedInformerFactory::builder(client(&server)).without_streaming().on_error(|_| {}).build();
        let (configs, secrets) = (factory.informer::<ConfigMap>(), factory.informer::<Secret>());
        let (pods, services) = (factory.informer::<Pod>(), factory.informer::<Service>());
        factory.start();
        factory.synced().await.unwrap();
        server.wait_for_watches("configmaps", 1).await;
        ["shop/a", "shop/b"].iter().for_each(|key| drop(server.put("configmaps", config(key)).unwrap()));

        let slow = server.inject(On::list(), fault.clone());
        outage(&server, 5.0).await;
        sleep_seconds(seconds).await;
        server.remove_fault(slow);
        sleep_seconds(60.0).await;

        let lists = |status: informant::factory::InformerStatus| status.source.lists;
        let lists = [configs.status(), secrets.status(), pods.status(), services.status()].map(lists);
        assert_eq!(lists, [1; 4], "{fault:?}");
        factory.stop().await.unwrap();
    }
}

/// P8
#[tokio::test(start_paused = true)]
async fn a_kind_that_hangs_does_not_make_others_list_again_or_report_a_silent_server() {
    let server = ApiServer::new();
    let reports = Arc::<Mutex<Vec<String>>>::default();
    let reported = Arc::clone(&reports);
    let on_error = move |error: &ListWatchError| reported.lock().push(error.to_string());
    let factory = SharedInformerFactory::builder(client(&server)).without_streaming().on_error(on_error).build();
    let (configs, secrets) = (factory.informer::<ConfigMap>(), factory.informer::<Secret>());
    let pods = factory.informer::<Pod>();
    factory.start();
    factory.synced().await.unwrap();
    server.wait_for_watches("secrets", 1).await;

    server.inject(On::any().of("secrets"), Fault::Hang);
    server.cut_watches("secrets");
    sleep_seconds(3600.0).await;

    assert_eq!((configs.status().source.lists, pods.status().source.lists), (1, 1));
    assert!(reports.lock().iter().all(|report| report.contains("secrets")), "{:?}", reports.lock());
    assert_eq!(factory.problems().iter().map(|problem| &**problem.informer()).collect::<Vec<_>>(), ["secrets"]);
    drop(secrets);
    factory.stop().await.unwrap();
}

/// P8
#[tokio::test(start_paused = true)]
async fn a_kind_whose_lookups_hang_does_not_make_others_report_a_silent_server_while_all_watches_are_silent() {
    let server = ApiServer::new();
    server.inject(On::watch(), Fault::NoBookmarks);
    let reports = Arc::<Mutex<Vec<String>>>::default();
    let reported = Arc::clone(&reports);
    let on_error = move |error: &ListWatchError| reported.lock().push(error.to_string());
    let factory = SharedInformerFactory::builder(client(&server)).without_streaming().on_error(on_error).build();
    let (configs, secrets) = (factory.informer::<ConfigMap>(), factory.informer::<Secret>());
    let pods = factory.informer::<Pod>();
    factory.start();
    factory.synced().await.unwrap();
    server.wait_for_watches("secrets", 1).await;

    server.inject(On::list().of("secrets"), Fault::Hang);
    sleep_seconds(200.0).await;
    server.cut_watches("configmaps");
    server.cut_watches("pods");
    sleep_seconds(60.0).await;

    assert_eq!((configs.status().source.lists, pods.status().source.lists), (1, 1));
    assert!(!reports.lock().is_empty(), "the silence of the secrets is reported");
    assert!(reports.lock().iter().all(|report| report.contains("secrets")), "{:?}", reports.lock());
    drop(secrets);
    factory.stop().await.unwrap();
}

/// P10: the list of the reflector that retries for all begins, and takes long.
#[tokio::test(start_paused = true)]
async fn after_an_outage_no_kind_waits_for_the_end_of_the_list_of_another() {
    for slow in ["configmaps", "secrets"] {
        let server = ApiServer::new();
        let outage = server.inject(On::any(), Fault::Refuse);
        let factory = SharedInformerFactory::builder(client(&server)).without_streaming().on_error(|_| {}).build();
        let (configs, secrets) = (factory.informer::<ConfigMap>(), factory.informer::<Secret>());
        factory.start();
        sleep_seconds(600.0).await;

        let body = Fault::Cut { after: CutAfter::Bytes(20), ending: CutEnding::Silence };
        server.inject(On::list().of(slow), body);
        server.remove_fault(outage);
        sleep_seconds(13.0).await;

        let synced = [configs.is_synced(), secrets.is_synced()];
        assert_eq!(synced, [slow != "configmaps", slow != "secrets"]);
        factory.stop().await.unwrap();
    }
}

/// P10: a list whose response begins and then breaks has not ended the outage.
#[tokio::test(start_paused = true)]
async fn a_list_that_breaks_in_the_middle_is_repeated_less_and_less_often() {
    let server = ApiServer::new();
    server.put("secrets", config("shop/a")).unwrap();
    let body = Fault::Cut { after: CutAfter::Bytes(20), ending: CutEnding::Reset };
    server.inject(On::list().of("secrets"), body);
    let factory = SharedInformerFactory::builder(client(&server)).without_streaming().on_error(|_| {}).build();
    let _secrets = factory.informer::<Secret>();
    factory.start();
    sleep_seconds(600.0).await;
    server.clear_requests();
    sleep_seconds(600.0).await;

    let lists = full_lists(&server, "secrets");

    assert!(lists <= 100, "{lists} in ten minutes");
    factory.stop().await.unwrap();
}

/// The server is silent, and is then restored and passes the old version. No informer has an event to ask for.
async fn restore_a_silent_server(breaks_watches_first: bool) {
    let server = ApiServer::new();
    server.inject(On::watch(), Fault::NoBookmarks);
    let kinds = ["configmaps", "secrets", "serviceaccounts"];
    let put =
        |kind, name: &str| drop(server.put(kind, json!({"metadata": {"namespace": "shop", "name": name}})).unwrap());
    kinds.iter().for_each(|kind| put(kind, "a"));
    let backup = server.backup();
    kinds.iter().for_each(|kind| put(kind, "lost"));
    // No list has the newest item, so there is no event to ask for.
    put("services", "x");
    let factory = SharedInformerFactory::builder(client(&server)).without_streaming().on_error(|_| {}).build();
    let (configs, secrets) = (factory.informer::<ConfigMap>(), factory.informer::<Secret>());
    let accounts = factory.informer::<ServiceAccount>();
    factory.start();
    factory.synced().await.unwrap();
    for kind in kinds {
        server.wait_for_watches(kind, 1).await;
    }

    // A watch that lasted is opened again at once.
    sleep_seconds(2.0).await;
    let silent = server.inject(if breaks_watches_first { On::any() } else { On::list() }, Fault::Hang);
    if breaks_watches_first {
        server.cut_all_watches();
    }
    sleep_seconds(if breaks_watches_first { 13.0 } else { 45.0 }).await;
    server.restore(&backup);
    ["y0", "y1", "y2", "y3", "y4", "y5"].iter().for_each(|name| put("services", name));
    sleep_seconds(1.0).await;
    server.remove_fault(silent);
    if !breaks_watches_first {
        server.cut_all_watches();
    }
    sleep_seconds(120.0).await;

    assert_eq!([keys(&configs), keys(&secrets), keys(&accounts)], [["shop/a"]; 3]);
    factory.stop().await.unwrap();
}

/// P1: no request fails but the question of one informer.
#[tokio::test(start_paused = true)]
async fn a_restore_while_the_server_is_silent_is_noticed_by_all_informers_when_their_watches_break() {
    restore_a_silent_server(false).await;
}

/// P1: the requests for new watches hang, and are made again when the server answers.
#[tokio::test(start_paused = true)]
async fn a_restore_while_the_server_is_silent_is_noticed_by_all_informers_whose_watches_broke_before() {
    restore_a_silent_server(true).await;
}

/// P8: the other kind that is asked whether the server works is not the same kind in another namespace.
#[tokio::test(start_paused = true)]
async fn a_kind_that_hangs_in_several_namespaces_does_not_make_others_list_again() {
    let server = ApiServer::new();
    let reports = Arc::<Mutex<Vec<String>>>::default();
    let reported = Arc::clone(&reports);
    let on_error = move |error: &ListWatchError| reported.lock().push(error.to_string());
    let factory = SharedInformerFactory::builder(client(&server)).without_streaming().on_error(on_error).build();
    let (configs, pods) = (factory.informer::<ConfigMap>(), factory.informer::<Pod>());
    let namespaced = |namespace| factory.request::<Secret>().in_namespace(namespace).informer().unwrap();
    let secrets: Vec<_> = ["n0", "n1", "n2"].into_iter().map(namespaced).collect();
    factory.start();
    factory.synced().await.unwrap();
    server.wait_for_watches("secrets", 3).await;

    server.inject(On::any().of("secrets"), Fault::Hang);
    server.cut_watches("secrets");
    sleep_seconds(60.0).await;
    let problems: Vec<_> = factory.problems().iter().map(ToString::to_string).collect();
    sleep_seconds(3600.0).await;

    assert_eq!((configs.status().source.lists, pods.status().source.lists), (1, 1));
    assert!(reports.lock().iter().all(|report| report.contains("secrets")), "{:?}", reports.lock());
    assert!(problems.iter().all(|problem| problem.ends_with("; it answers other requests")), "{problems:?}");
    drop(secrets);
    factory.stop().await.unwrap();
}

/// P8
#[tokio::test(start_paused = true)]
async fn two_kinds_that_hang_do_not_make_others_list_again() {
    let server = ApiServer::new();
    let factory = SharedInformerFactory::builder(client(&server)).without_streaming().on_error(|_| {}).build();
    let (pods, secrets) = (factory.informer::<Pod>(), factory.informer::<Secret>());
    let configs = factory.informer::<ConfigMap>();
    factory.start();
    factory.synced().await.unwrap();
    server.wait_for_watches("pods", 1).await;

    for kind in ["pods", "secrets"] {
        server.inject(On::any().of(kind), Fault::Hang);
        server.cut_watches(kind);
    }
    sleep_seconds(60.0).await;
    let problems: Vec<_> = factory.problems().iter().map(ToString::to_string).collect();
    sleep_seconds(7200.0).await;

    assert_eq!(configs.status().source.lists, 1);
    assert!(problems.iter().all(|problem| problem.ends_with("; it answers other requests")), "{problems:?}");
    drop((pods, secrets));
    factory.stop().await.unwrap();
}

/// P8: the same behind a server that takes almost two seconds for a lookup.
#[tokio::test(start_paused = true)]
async fn a_kind_that_hangs_does_not_make_others_list_again_if_the_server_is_slow() {
    let server = ApiServer::new();
    let factory = SharedInformerFactory::builder(client(&server)).without_streaming().on_error(|_| {}).build();
    let (configs, secrets) = (factory.informer::<ConfigMap>(), factory.informer::<Secret>());
    factory.start();
    factory.synced().await.unwrap();
    server.wait_for_watches("secrets", 1).await;

    server.inject(On::list().of("configmaps"), Fault::Delay(Duration::from_millis(1800)));
    server.inject(On::any().of("secrets"), Fault::Hang);
    server.cut_watches("secrets");
    sleep_seconds(16.0).await;
    let problems: Vec<_> = factory.problems().iter().map(ToString::to_string).collect();
    sleep_seconds(3600.0).await;

    assert_eq!(configs.status().source.lists, 1, "{problems:?}");
    assert!(problems.iter().all(|problem| problem.ends_with("; it answers other requests")), "{problems:?}");
    drop(secrets);
    factory.stop().await.unwrap();
}

/// P10: the informer that retries for all of its storage passes the role on when it watches again.
#[tokio::test(start_paused = true)]
async fn an_informer_that_watches_again_without_an_answer_about_the_history_does_not_keep_others_waiting() {
    let server = ApiServer::new();
    let backoff = crate::support::servers::backoff_without_jitter();
    let factory = SharedInformerFactory::builder(client(&server))
        .without_streaming()
        .on_error(|_| {})
        .configure::<ConfigMap>(move |builder| builder.reflector(|reflector| reflector.backoff(backoff)))
        .configure::<Secret>(move |builder| builder.reflector(|reflector| reflector.backoff(backoff)))
        .build();
    let (configs, secrets) = (factory.informer::<ConfigMap>(), factory.informer::<Secret>());
    factory.start();
    factory.synced().await.unwrap();
    server.wait_for_watches("configmaps", 1).await;
    server.wait_for_watches("secrets", 1).await;
    sleep_seconds(2.0).await;
    server.inject(On::list().of("configmaps"), Fault::status(400));
    server.inject(On::watch().of("configmaps").times(2), Fault::status(503));
    server.cut_watches("configmaps");
    sleep_seconds(20.0).await;
    assert_eq!(server.open_watches("configmaps"), 1);

    let refusal = server.inject(On::any().of("secrets"), Fault::status(503));
    server.cut_watches("secrets");
    sleep_seconds(30.0).await;
    server.put("secrets", json!({"metadata": {"namespace": "shop", "name": "a"}})).unwrap();
    server.remove_fault(refusal);
    let begun = Instant::now();
    wait_until(|| !secrets.lister().is_empty()).await;

    assert!(begun.elapsed() <= Duration::from_secs(5), "{:?}", begun.elapsed());
    drop(configs);
    factory.stop().await.unwrap();
}
