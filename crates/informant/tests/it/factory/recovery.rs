//! Recovery where one kind, one request or one server differs from the others.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use informant::{
    SharedInformer, SharedInformerFactory,
    error::SourceError,
    factory::ServerHealth,
    pipeline::{
        KubeSource, ListRequest, ListStream, ListWatch, LookupAnswer, LookupRequest, WatchRequest, WatchStream,
    },
};
use informant_apiserver::{ApiServer, Fault, On, Verb};
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use crate::support::{
    reflector::{full_lists, sleep_seconds},
    servers::{SECOND, client, config, keys},
};

/// A server with two kinds, and a factory with an informer of each, synced.
struct World {
    server: ApiServer,
    factory: SharedInformerFactory,
    configs: SharedInformer<ConfigMap>,
    secrets: SharedInformer<Secret>,
    errors: Arc<Mutex<Vec<String>>>,
}

fn secret(key: &str) -> serde_json::Value {
    let mut object = config(key);
    object.as_object_mut().unwrap().remove("data");
    object
}

impl World {
    async fn new(server: ApiServer) -> Self {
        server.put("configmaps", config("shop/a")).unwrap();
        server.put("secrets", secret("shop/a")).unwrap();
        let errors = Arc::<Mutex<Vec<String>>>::default();
        let recorded = Arc::clone(&errors);
        let factory = SharedInformerFactory::builder(client(&server))
            .on_error(move |error| recorded.lock().push(error.source.to_string()))
            .build();
        let (configs, secrets) = (factory.informer(), factory.informer());
        factory.start();
        factory.synced().await.unwrap();
        server.wait_for_watches("configmaps", 1).await;
        server.wait_for_watches("secrets", 1).await;
        Self { server, factory, configs, secrets, errors }
    }

    fn errors(&self) -> Vec<String> {
        std::mem::take(&mut *self.errors.lock())
    }
}

/// P1: the newest event is of a kind that cannot be asked for any more. The quiet kind has received no event of its own.
#[tokio::test(start_paused = true)]
async fn a_restore_is_noticed_although_the_kind_of_the_newest_event_is_refused() {
    for code in [403, 404, 503] {
        let server = ApiServer::new();
        let backup = server.backup();
        server.put("secrets", secret("shop/lost")).unwrap();
        let world = World::new(server.clone()).await;
        server.put("configmaps", config("shop/newest")).unwrap();
        sleep_seconds(3.0).await;
        let outage = server.inject(On::any(), Fault::Refuse);
        server.restore(&backup);
        for number in 0..20 {
            server.put("configmaps", config(&format!("shop/{number}"))).unwrap();
        }
        sleep_seconds(5.0).await;
        server.inject(On::any().of("configmaps"), Fault::status(code));
        server.remove_fault(outage);

        sleep_seconds(60.0).await;

        assert_eq!(world.secrets.lister().len(), 0, "{code}: the lost secret is gone");
        world.factory.stop().await.unwrap();
    }
}

/// P1: what an informer received that listed after the restore proves nothing about the history before.
#[tokio::test(start_paused = true)]
async fn a_restore_is_noticed_although_another_informer_was_started_after_it() {
    let server = ApiServer::new();
    server.put("secrets", secret("shop/a")).unwrap();
    let factory = SharedInformerFactory::builder(client(&server)).on_error(|_| {}).build();
    let secrets = factory.informer::<Secret>();
    factory.start();
    factory.synced().await.unwrap();
    let backup = server.backup();
    server.put("secrets", secret("shop/lost")).unwrap();
    sleep_seconds(1.0).await;
    let outage = server.inject(On::any().of("secrets"), Fault::Refuse);
    server.restore(&backup);
    for number in 0..20 {
        server.put("configmaps", config(&format!("shop/{number}"))).unwrap();
    }
    let configs = factory.informer::<ConfigMap>();
    factory.start();
    configs.synced().await.unwrap();
    server.remove_fault(outage);

    sleep_seconds(60.0).await;

    assert_eq!(keys(&secrets), ["shop/a"]);
    factory.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_is_refused_after_an_outage_does_not_delay_another_kind() {
    for code in [403, 404, 503] {
        let world = World::new(ApiServer::new()).await;
        let server = &world.server;
        server.put("secrets", secret("shop/b")).unwrap();
        server.put("configmaps", config("shop/b")).unwrap();
        sleep_seconds(3.0).await;
        let outage = server.inject(On::any(), Fault::Refuse);
        server.cut_all_watches();
        sleep_seconds(20.0).await;
        server.inject(On::any().of("configmaps"), Fault::status(code));
        server.remove_fault(outage);
        server.put("secrets", secret("shop/c")).unwrap();

        let begun = Instant::now();
        while world.secrets.lister().len() < 3 {
            sleep_seconds(0.1).await;
        }

        assert!(begun.elapsed() <= 5 * SECOND, "{code}: {:?}", begun.elapsed());
        world.factory.stop().await.unwrap();
    }
}

/// After a history change, a quiet kind cannot prove its history; that must not lead to one list after the other.
#[tokio::test(start_paused = true)]
async fn after_a_history_change_watches_that_open_slowly_are_opened_and_nothing_is_listed_again() {
    let server = ApiServer::new();
    server.inject(On::watch_list(), Fault::WatchListRefused);
    let world = World::new(server.clone()).await;
    let backup = server.backup();
    server.put("configmaps", config("shop/b")).unwrap();
    sleep_seconds(1.0).await;
    let outage = server.inject(On::any(), Fault::Refuse);
    server.restore(&backup);
    sleep_seconds(5.0).await;
    server.remove_fault(outage);
    // The newest item of the list is now older than the list.
    server.put("secrets", secret("shop/c")).unwrap();
    server.inject(On::verbs([Verb::Watch]), Fault::Delay(3 * SECOND));
    server.clear_requests();

    sleep_seconds(500.0).await;

    assert!(full_lists(&server, "configmaps") <= 3, "{}", full_lists(&server, "configmaps"));
    server.put("configmaps", config("shop/z")).unwrap();
    // The watch may have ended a moment ago, and takes three seconds to open.
    sleep_seconds(5.0).await;
    assert_eq!(world.configs.lister().len(), 2);
    world.factory.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_reported_although_a_silent_watch_was_reported_before() {
    let world = World::new(ApiServer::new()).await;
    let server = &world.server;
    let hang = server.inject(On::list(), Fault::Hang);
    sleep_seconds(40.0).await;
    for kind in ["configmaps", "secrets"] {
        server.put(kind, secret("shop/b")).unwrap();
    }
    sleep_seconds(1.0).await;
    server.remove_fault(hang);
    assert_eq!(world.errors().len(), 2, "both watches are silent");
    sleep_seconds(3600.0).await;

    server.inject(On::any(), Fault::Drop);
    server.cut_all_watches();
    sleep_seconds(120.0).await;

    assert_eq!(world.errors().len(), 2);
    world.factory.stop().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_history_change_that_is_found_before_a_list_is_reported_once() {
    let world = World::new(ApiServer::new()).await;
    let server = &world.server;
    let backup = server.backup();
    server.put("configmaps", config("shop/b")).unwrap();
    sleep_seconds(1.0).await;
    server.inject(On::watch().of("configmaps").once(), Fault::status(410));
    server.restore(&backup);

    sleep_seconds(30.0).await;

    let errors = world.errors();
    assert!(errors.len() == 2 && errors.iter().all(|error| error.contains("history has changed")), "{errors:?}");
    world.factory.stop().await.unwrap();
}

/// A laptop that slept, or a stopped container.
#[tokio::test(start_paused = true)]
async fn a_process_that_stood_still_does_not_report_a_silent_server() {
    let world = World::new(ApiServer::new()).await;
    sleep_seconds(1.0).await;

    tokio::time::advance(40 * SECOND).await;
    sleep_seconds(5.0).await;

    assert!(world.errors().is_empty() && world.factory.problems().is_empty(), "{:?}", world.factory.problems());
    world.factory.stop().await.unwrap();
}

/// The server has too many requests, and its watches work.
#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_the_question_for_its_version_with_429_does_not_count_as_silent() {
    let world = World::new(ApiServer::new()).await;
    sleep_seconds(1.0).await;
    world.server.inject(On::list(), Fault::status(429));
    world.server.clear_requests();

    for _ in 0..300 {
        sleep_seconds(1.0).await;
        assert!(world.factory.problems().is_empty(), "{:?}", world.factory.problems());
    }

    assert!(world.errors().is_empty());
    assert!(world.server.requests().len() <= 12, "twice a minute");
    world.factory.stop().await.unwrap();
}

/// The newest event is of a kind that hangs. One informer asks for its own event after 5 s; another one waits for its turn meanwhile.
#[tokio::test(start_paused = true)]
async fn a_restore_is_noticed_by_all_at_once_although_one_kind_hangs() {
    let server = ApiServer::new();
    let backup = server.backup();
    let world = World::new(server.clone()).await;
    let services = world.factory.informer::<Service>();
    world.factory.start();
    services.synced().await.unwrap();
    let service = json!({"metadata": {"namespace": "shop", "name": "a"}});
    server.put("services", service).unwrap();
    server.put("secrets", secret("shop/b")).unwrap();
    server.put("configmaps", config("shop/newest")).unwrap();
    sleep_seconds(1.0).await;
    let outage = server.inject(On::any(), Fault::Refuse);
    server.restore(&backup);
    sleep_seconds(10.0).await;
    server.inject(On::any().of("configmaps"), Fault::Hang);
    server.remove_fault(outage);

    sleep_seconds(9.0).await;

    assert_eq!((world.secrets.lister().len(), services.lister().len()), (0, 0));
    world.factory.stop().await.unwrap();
}

/// A source whose lists take 20 s, and whose lookups take 3 s and 1 s by turns.
struct Slow {
    source: KubeSource,
    lists: Arc<AtomicUsize>,
    lookups: AtomicUsize,
}

impl ListWatch<ConfigMap> for Slow {
    async fn list(&self, request: ListRequest) -> Result<ListStream<ConfigMap>, SourceError> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(20 * SECOND).await;
        self.source.list(request).await
    }

    async fn watch(&self, request: WatchRequest) -> Result<WatchStream<ConfigMap>, SourceError> {
        self.source.watch(request).await
    }

    async fn look_up(&self, request: LookupRequest) -> Result<Option<LookupAnswer<ConfigMap>>, SourceError> {
        let is_slow = self.lookups.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        tokio::time::sleep(Duration::from_secs(if is_slow { 3 } else { 1 })).await;
        self.source.look_up(request).await
    }
}

/// Each answered question after an unanswered one looks as if the server were back.
#[tokio::test(start_paused = true)]
async fn a_slow_list_is_repeated_at_most_once_while_the_server_answers_some_questions() {
    let server = ApiServer::new();
    let lists = Arc::<AtomicUsize>::default();
    let source = Slow {
        source: KubeSource::of_kind::<ConfigMap>(client(&server)),
        lists: Arc::clone(&lists),
        lookups: AtomicUsize::new(0),
    };
    let informer = SharedInformer::<ConfigMap>::builder(source).build();
    informer.start();

    informer.synced().await.unwrap();

    assert!(lists.load(Ordering::Relaxed) <= 2);
    informer.stop().await.unwrap();
}

/// The versions of two servers have nothing in common.
#[tokio::test(start_paused = true)]
async fn sources_that_name_no_storage_share_no_history() {
    let servers = [ApiServer::new(), ApiServer::new()];
    servers[1].skip_to_version(100_000);
    let health = ServerHealth::new();
    let informers = servers.each_ref().map(|server| {
        server.put("configmaps", config("shop/a")).unwrap();
        let source = Slow {
            source: KubeSource::of_kind::<ConfigMap>(client(server)),
            lists: Arc::default(),
            lookups: AtomicUsize::new(1),
        };
        let health = health.clone();
        SharedInformer::<ConfigMap>::builder(source).reflector(|reflector| reflector.server_health(health)).build()
    });
    for informer in &informers {
        informer.start();
        informer.synced().await.unwrap();
    }
    for number in 0..3 {
        sleep_seconds(30.0).await;
        for server in &servers {
            server.put("configmaps", config(&format!("shop/{number}"))).unwrap();
        }
        sleep_seconds(1.0).await;
        servers.iter().for_each(ApiServer::cut_all_watches);
    }
    sleep_seconds(30.0).await;

    for informer in informers {
        assert_eq!(informer.status().source.history_changes, 0);
        assert_eq!(informer.lister().len(), 4);
        informer.stop().await.unwrap();
    }
}

/// One of the two kinds retries for both, and is then refused by itself.
#[tokio::test(start_paused = true)]
async fn a_kind_that_is_refused_does_not_keep_others_from_retrying_soon_in_the_next_outage() {
    for denied in ["configmaps", "secrets"] {
        let world = World::new(ApiServer::new()).await;
        let healthy = if denied == "secrets" { "configmaps" } else { "secrets" };
        let outage = world.server.inject(On::any(), Fault::status(503));
        world.server.cut_all_watches();
        sleep_seconds(10.0).await;
        world.server.inject(On::any().of(denied), Fault::forbidden());
        world.server.remove_fault(outage);
        sleep_seconds(60.0).await;

        let outage = world.server.inject(On::any().of(healthy), Fault::status(503));
        world.server.cut_watches(healthy);
        sleep_seconds(55.0).await;
        let probes = world.server.requests_for(healthy).len();
        sleep_seconds(5.0).await;
        assert!(
            world.server.requests_for(healthy).len() >= probes + 2,
            "{healthy} retries every two seconds or more often"
        );
        world.server.remove_fault(outage);
        world.factory.stop().await.unwrap();
    }
}

/// A Kubernetes source whose lists begin after 90 s, except for the first one.
struct BeginsLate {
    source: KubeSource,
    lists: AtomicUsize,
}

impl ListWatch<ConfigMap> for BeginsLate {
    async fn list(&self, request: ListRequest) -> Result<ListStream<ConfigMap>, SourceError> {
        if self.lists.fetch_add(1, Ordering::Relaxed) > 0 {
            sleep_seconds(90.0).await;
        }
        self.source.list(request).await
    }

    async fn watch(&self, request: WatchRequest) -> Result<WatchStream<ConfigMap>, SourceError> {
        self.source.watch(request).await
    }

    async fn look_up(&self, request: LookupRequest) -> Result<Option<LookupAnswer<ConfigMap>>, SourceError> {
        self.source.look_up(request).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_begins_after_the_time_limit_has_twice_the_time_although_other_requests_are_answered() {
    let server = ApiServer::new();
    server.put("configmaps", config("shop/a")).unwrap();
    let source = KubeSource::of_kind::<ConfigMap>(client(&server));
    let source = BeginsLate { source, lists: AtomicUsize::new(0) };
    let informer = SharedInformer::<ConfigMap>::builder(source).on_error(|_| {}).build();
    informer.start();
    informer.synced().await.unwrap();

    server.put("configmaps", config("shop/b")).unwrap();
    sleep_seconds(1.0).await;
    server.inject(On::watch().times(1), Fault::status(410));
    server.cut_all_watches();
    server.compact();
    server.put("configmaps", config("shop/c")).unwrap();
    sleep_seconds(300.0).await;

    assert_eq!((informer.lister().len(), informer.status().source.lists), (3, 2));
    informer.stop().await.unwrap();
}

/// A source whose lists fail with 503 until a time; lookups and watches fail until an earlier one.
struct Refusing {
    source: KubeSource,
    until: Instant,
    lists_until: Instant,
}

impl Refusing {
    fn check(until: Instant) -> Result<(), SourceError> {
        let status = kube::core::Status { code: 503, message: "no".into(), ..kube::core::Status::default() };
        if Instant::now() < until {
            Err(SourceError::Status { status: Box::new(status), retry_after: None })
        } else {
            Ok(())
        }
    }
}

impl ListWatch<ConfigMap> for Refusing {
    async fn list(&self, request: ListRequest) -> Result<ListStream<ConfigMap>, SourceError> {
        Self::check(self.lists_until)?;
        self.source.list(request).await
    }

    async fn watch(&self, request: WatchRequest) -> Result<WatchStream<ConfigMap>, SourceError> {
        Self::check(self.until)?;
        self.source.watch(request).await
    }

    async fn look_up(&self, request: LookupRequest) -> Result<Option<LookupAnswer<ConfigMap>>, SourceError> {
        Self::check(self.until)?;
        self.source.look_up(request).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_that_is_refused_soon_after_the_first_answered_probe_is_repeated_soon() {
    let server = ApiServer::new();
    server.put("configmaps", config("shop/a")).unwrap();
    let begun = Instant::now();
    let source = Refusing {
        source: KubeSource::of_kind::<ConfigMap>(client(&server)),
        until: begun + 55 * SECOND,
        lists_until: begun + 57 * SECOND,
    };
    let informer = SharedInformer::<ConfigMap>::builder(source).on_error(|_| {}).build();
    informer.start();

    informer.synced().await.unwrap();

    assert!(begun.elapsed() <= 62 * SECOND, "{:?}", begun.elapsed());
    informer.stop().await.unwrap();
}
