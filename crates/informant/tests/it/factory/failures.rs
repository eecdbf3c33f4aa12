//! Errors of factories name the informer, the cause and the next step.

use std::time::Duration;

use futures_util::FutureExt;
use informant::{SharedInformerFactory, error::SyncError, factory::Problem};
use informant_apiserver::{ApiServer, Fault, On};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kube::{Client, Config};
use tokio::time::{Instant, timeout};

use crate::support::{
    informers::one_thread,
    servers::{
        LONG, Leaks, Logs, Probe, SECOND, client, factory, server, stop_factory, wait_until, wait_until_idle, widget,
        widget_resource, widgets,
    },
};

fn factory_that_fails_fast(client: Client) -> SharedInformerFactory {
    SharedInformerFactory::builder(client).fail_fast().build()
}

/// Decision 11
#[tokio::test(start_paused = true)]
async fn synced_of_a_factory_that_fails_fast_reports_a_missing_permission_within_a_second() {
    let _logs = Logs::capture();
    let server = server(&["shop/a"]);
    server.inject(On::any().of("configmaps"), Fault::status(403));
    let factory = factory_that_fails_fast(client(&server));
    let leaks = Leaks::watch();
    let (configs, nodes) = (factory.informer::<ConfigMap>(), factory.informer::<Node>());
    factory.start();
    server.wait_for_request(|request| request.resource == "configmaps").await;
    let answered = Instant::now();

    let error = factory.synced().await.unwrap_err();
    assert!(answered.elapsed() < SECOND, "{:?}", answered.elapsed());
    assert!(matches!(&error, SyncError::Several { informers: 2, errors } if errors.len() == 1), "{error}");
    let message = error.to_string();
    assert!(message.starts_with("1 of 2 informers is not synced: informer configmaps cannot sync"), "{message}");
    assert!(message.contains("grant the client's user `list` and `watch` on it"), "{message}");
    assert!(message.contains("configmaps failed: the server answered: ") && message.contains("403"), "{message}");
    assert!(matches!(configs.synced().await, Err(SyncError::Permanent { .. })), "`synced` of the informer fails too");
    nodes.synced().await.unwrap();

    // The informer keeps trying, and an earlier permanent error does not fail a new wait.
    server.clear_faults();
    server.inject(On::any().of("configmaps").once(), Fault::Delay(SECOND * 5));
    server.clear_requests();
    server.wait_for_request(|request| request.resource == "configmaps").await;
    let waiting = factory.synced();
    assert!(timeout(SECOND * 3, waiting).await.is_err(), "the factory waits while the informer tries again");
    wait_until(|| configs.is_synced()).await;
    factory.synced().await.unwrap();
    assert!(factory.problems().is_empty());
    stop_factory(&factory, &leaks).await;
}

/// Decision 11, FA-12 (differs from client-go)
#[tokio::test(start_paused = true)]
async fn a_factory_that_keeps_trying_reports_the_error_while_it_waits() {
    let logs = Logs::capture();
    let server = server(&["shop/a"]);
    server.inject(On::any().of("configmaps"), Fault::status(403));
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let configs = factory.informer::<ConfigMap>();
    factory.informer::<Node>();
    factory.start();

    let error = factory.synced_within(SECOND * 2).await.unwrap_err();
    assert!(matches!(error.errors(), [SyncError::TimedOut { reason: Some(_), .. }]), "{error:?}");
    assert!(
        error
            .to_string()
            .contains("informer configmaps is not synced after 2s: listing configmaps failed: the server answered: "),
        "{error}"
    );
    let problems = factory.problems();
    let [problem @ Problem::Failing { is_synced: false, .. }] = &problems[..] else { panic!("{problems:?}") };
    let text = problem.to_string();
    assert!(
        text.starts_with("informer configmaps is not synced: listing configmaps failed: the server answered: "),
        "{text}"
    );
    assert!(
        text.contains("(grant the client's user `list` and `watch` on it); failing for "),
        "the cause first: {text}"
    );
    assert!(logs.take().contains("listing configmaps failed"), "the error is logged as well");

    let mut waiting = Box::pin(factory.synced());
    assert!(timeout(SECOND * 100, &mut waiting).await.is_err(), "`synced` waits");
    server.clear_faults();
    waiting.await.unwrap();
    assert!(configs.is_synced() && factory.problems().is_empty());
    stop_factory(&factory, &leaks).await;
}

#[tokio::test(start_paused = true)]
async fn the_sync_error_of_a_factory_names_all_failed_informers_with_their_reasons() {
    let _logs = Logs::capture();
    let server = server(&["shop/a"]);
    let factory = factory_that_fails_fast(client(&server));
    let leaks = Leaks::watch();
    server.inject(On::any().of("nodes"), Fault::status(401));
    server.inject(On::any().of("secrets"), Fault::status(403));
    factory.informer::<ConfigMap>();
    factory.informer::<Node>();
    factory.informer::<Secret>();
    factory.request::<ConfigMap>().with_fields("no.such.field=1").informer().unwrap();
    factory.dynamic(&widget_resource());
    factory.start();

    let error = factory.synced().await.unwrap_err();
    let failed: Vec<_> = error.errors().iter().map(|error| error.informer().unwrap().to_string()).collect();
    assert_eq!(failed, ["configmaps where no.such.field=1", "nodes", "secrets", "widgets.example.com"]);
    let message = error.to_string();
    assert!(message.starts_with("4 of 5 informers are not synced: "), "{message}");
    for advice in [
        "are its label and field selectors right?",
        "are the client's credentials valid?",
        "grant the client's user `list` and `watch` on it",
        "is this kind installed in the cluster, in this version and scope?",
    ] {
        assert!(message.contains(advice), "{message}");
    }
    stop_factory(&factory, &leaks).await;
}

/// A short time limit returns the failures so far.
#[tokio::test(start_paused = true)]
async fn one_sync_error_contains_failures_that_happen_shortly_after_each_other() {
    let _logs = Logs::capture();
    let server = server(&["shop/a"]);
    let factory = factory_that_fails_fast(client(&server));
    let leaks = Leaks::watch();
    server.inject(On::any().of("secrets"), Fault::status(403));
    server.inject(On::any().of("nodes"), Fault::Delay(SECOND / 20));
    server.inject(On::any().of("nodes"), Fault::status(403));
    factory.informer::<ConfigMap>();
    factory.informer::<Node>();
    factory.informer::<Secret>();
    factory.start();
    let failed = |error: &SyncError| {
        assert!(error.errors().iter().all(|error| matches!(error, SyncError::Permanent { .. })), "{error}");
        error.errors().iter().map(|error| error.informer().unwrap().to_string()).collect::<Vec<_>>()
    };

    let (hasty, patient) = (factory.synced_within(SECOND / 50), factory.synced());
    let (hasty, patient) = tokio::join!(hasty, patient);
    assert_eq!(failed(&hasty.unwrap_err()), ["secrets"]);
    assert_eq!(failed(&patient.unwrap_err()), ["nodes", "secrets"]);
    stop_factory(&factory, &leaks).await;
}

/// Temporary errors are not permanent errors, also for a factory that fails fast.
#[tokio::test(start_paused = true)]
async fn synced_waits_for_a_server_that_is_overloaded_or_fails() {
    let _logs = Logs::capture();
    let server = server(&["shop/a"]);
    server.inject(On::any().times(4), Fault::status(503));
    server.inject(On::any().skip(4).times(4), Fault::too_many_requests(SECOND));
    server.inject(On::any().skip(8).times(2), Fault::Drop);
    server.inject(On::any().skip(10).times(2), Fault::Truncate);
    server.inject(On::watch_list(), Fault::WatchListRefused);
    let factory = factory_that_fails_fast(client(&server));
    let leaks = Leaks::watch();
    factory.informer::<ConfigMap>();
    factory.start();

    factory.synced().await.unwrap();
    stop_factory(&factory, &leaks).await;
}

#[tokio::test]
async fn the_sync_error_explains_that_a_server_cannot_be_reached_or_does_not_speak_tls() {
    let _logs = Logs::capture();
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let listening = ApiServer::new().listen(([127, 0, 0, 1], 0)).await.unwrap();
    let no_tls = listening.url().replace("http:", "https:");
    for (url, reason) in [
        (format!("http://{closed}"), "the connection was refused"),
        ("http://unknown.invalid".to_owned(), "the server cannot be reached"),
        (no_tls, "the server cannot be reached"),
    ] {
        let factory = factory_that_fails_fast(Client::try_from(Config::new(url.parse().unwrap())).unwrap());
        factory.informer::<ConfigMap>();
        factory.start();

        let error = timeout(LONG, factory.synced()).await.unwrap().unwrap_err().to_string();
        assert!(error.contains("is the server running, and is its address right?"), "{error}");
        assert!(error.contains(reason), "{error}");
        assert!(!error.contains("ServiceError") && !error.contains("client error"), "no internal error types: {error}");
        factory.stop().await.unwrap();
    }
}

/// FA-14: the kind may be installed later.
#[tokio::test(start_paused = true)]
async fn an_unknown_kind_is_named_in_the_error_and_syncs_when_it_is_installed() {
    let _logs = Logs::capture();
    let server = ApiServer::new();
    let factory = factory_that_fails_fast(client(&server));
    let leaks = Leaks::watch();
    let informer = factory.dynamic(&widget_resource());
    let probe = Probe::new();
    informer.subscribe().handler(probe.handler()).unwrap();
    factory.start();

    let error = factory.synced().await.unwrap_err().to_string();
    assert!(error.contains("is this kind installed in the cluster, in this version and scope?"), "{error}");
    assert!(error.contains("informer widgets.example.com cannot sync"), "{error}");
    tokio::time::sleep(SECOND * 600).await;
    assert!(!informer.is_synced());

    server.register(widgets());
    server.put("widgets.example.com", widget("w")).unwrap();
    wait_until(|| informer.is_synced()).await;
    probe.until("synced").await;
    assert_eq!(probe.lines(), ["A(shop/w@2, initial)", "synced"]);
    factory.synced().await.unwrap();
    stop_factory(&factory, &leaks).await;
}

/// Decision 15
#[tokio::test(start_paused = true)]
async fn deleting_a_kind_deletes_its_objects_and_installing_it_again_adds_them() {
    let _logs = Logs::capture();
    let server = ApiServer::new();
    server.register(widgets());
    server.put("widgets.example.com", widget("w")).unwrap();
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let informer = factory.dynamic(&widget_resource());
    let probe = Probe::new();
    informer.subscribe().handler(probe.handler()).unwrap();
    factory.start();
    probe.until("synced").await;
    assert!(factory.problems().is_empty());

    assert!(server.remove_kind("widgets.example.com"));
    wait_until(|| factory.problems().iter().any(|problem| matches!(problem, Problem::Gone { .. }))).await;
    probe
        .until_lines(|lines| {
            lines.last().unwrap().starts_with("T(shop/w") || lines.last().unwrap().starts_with("D(shop/w")
        })
        .await;
    assert!(informer.lister().is_empty());
    let text = factory.problems()[0].to_string();
    assert_eq!(text, "informer widgets.example.com has no objects: the server has no such kind any more");

    server.register(widgets());
    server.put("widgets.example.com", widget("again")).unwrap();
    wait_until(|| informer.lister().len() == 1).await;
    probe.until_lines(|lines| lines.last().unwrap().starts_with("A(shop/again")).await;
    wait_until(|| factory.problems().is_empty()).await;
    stop_factory(&factory, &leaks).await;
}

/// Decision 16
#[test]
fn problems_contain_informers_whose_runtime_has_ended() {
    let (one, other) = (one_thread(), one_thread());
    let factory = one.block_on(async {
        let factory = factory(&server(&["shop/a"]));
        factory.informer::<ConfigMap>();
        factory.start();
        factory.synced().await.unwrap();
        factory
    });
    drop(one);

    other.block_on(async {
        let text: Vec<_> = factory.problems().iter().map(ToString::to_string).collect();
        assert_eq!(text, ["informer configmaps has stopped: its runtime has ended"]);
        factory.stop().await.unwrap();
    });
}

#[tokio::test(start_paused = true)]
async fn problems_describe_the_state_of_each_informer() {
    let _logs = Logs::capture();
    let server = server(&["shop/a"]);
    server.inject(On::any().of("nodes"), Fault::Hang);
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let configs = factory.informer::<ConfigMap>();
    let text = || factory.problems().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(text(), ["informer configmaps has not been started"]);

    factory.start();
    factory.informer::<Node>().start();
    configs.synced().await.unwrap();
    wait_until_idle().await;
    assert_eq!(text(), ["informer nodes is syncing: 0 objects so far"]);

    server.clear_faults();
    // A request without an answer times out after two minutes.
    tokio::time::sleep(SECOND * 150).await;
    wait_until(|| factory.problems().is_empty()).await;
    server.inject(On::any().of("configmaps"), Fault::status(403));
    // The watch breaks when the server ends it.
    tokio::time::sleep(Duration::from_secs(1200)).await;
    wait_until(|| text().len() == 1).await;
    assert!(text()[0].starts_with("informer configmaps may be out of date"), "{:?}", text());

    configs.stop().await.unwrap();
    assert_eq!(text(), [""; 0], "an informer that was stopped on purpose is no problem");
    factory.synced().now_or_never().expect("`synced` does not wait for it").unwrap();
    let status = configs.status();
    assert_eq!(
        status.problem().unwrap().to_string(),
        "informer configmaps has stopped",
        "its own status shows that it has stopped"
    );
    stop_factory(&factory, &leaks).await;
}

/// The others take 30 s to sync.
#[tokio::test(start_paused = true)]
async fn settled_waits_for_all_informers_that_can_sync_and_names_those_that_cannot() {
    let _logs = Logs::capture();
    let server = server(&["shop/a", "bank/b", "home/c"]);
    let denied = server.inject(On::any().in_namespace("bank"), Fault::forbidden());
    server.inject(On::list().in_namespace("home"), Fault::Delay(30 * SECOND));
    let factory = SharedInformerFactory::builder(client(&server)).without_streaming().build();
    let leaks = Leaks::watch();
    let configs = factory.request::<ConfigMap>().in_namespaces(["shop", "bank", "home"]).view().unwrap();
    factory.start();
    let begun = Instant::now();

    let error = configs.settled().await.unwrap_err();

    assert_eq!((begun.elapsed().as_secs(), configs.len()), (30, 2));
    let SyncError::Several { informers: 3, errors } = &error else { panic!("{error:?}") };
    let names: Vec<_> = errors.iter().map(|error| error.informer().unwrap().to_string()).collect();
    assert_eq!(names, ["configmaps in bank"]);
    assert_eq!(factory.settled().await.unwrap_err().to_string(), error.to_string());

    server.remove_fault(denied);
    factory.synced().await.unwrap();
    assert_eq!((configs.settled().await.is_ok(), configs.len()), (true, 3));
    stop_factory(&factory, &leaks).await;
}
