//! Failures that somebody can act on: which informer, why, and what to do.

use std::time::Duration;

use futures_util::FutureExt;
use informant::SharedInformerFactory;
use informant::informer::{Problem, SyncError, SyncErrors};
use informant_apiserver::{ApiServer, Fault, On};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use kube::{Client, Config};
use tokio::time::{Instant, timeout};

use super::support::{
    LONG, Leaks, Logs, Probe, SECOND, client, factory, server, settle, stop_factory, until, widget, widget_resource,
    widgets,
};
use crate::informer::support::one_thread;

fn fails_fast(client: Client) -> SharedInformerFactory {
    SharedInformerFactory::builder(client).fail_fast().build()
}

/// Lessons A9
#[tokio::test(start_paused = true)]
async fn no_permission_is_told_within_a_second_of_the_first_answer_by_a_factory_that_fails_fast() {
    let _logs = Logs::capture();
    let server = server(&["shop/a"]);
    server.inject(On::any().of("configmaps"), Fault::status(403));
    let factory = fails_fast(client(&server));
    let leaks = Leaks::watch();
    let (configs, nodes) = (factory.informer::<ConfigMap>(), factory.informer::<Node>());
    factory.start();
    server.wait_for_request(|request| request.resource == "configmaps").await;
    let answered = Instant::now();

    let error = factory.synced().await.unwrap_err();
    assert!(answered.elapsed() < SECOND, "{:?}", answered.elapsed());
    assert_eq!((error.informers, error.errors.len()), (2, 1));
    let message = error.to_string();
    assert!(message.starts_with("1 of 2 informers is not synced: informer configmaps cannot sync"), "{message}");
    assert!(message.contains("grant the client's user `list` and `watch` on it"), "{message}");
    assert!(message.contains("configmaps failed: the server answered: ") && message.contains("403"), "{message}");
    assert!(matches!(configs.synced().await, Err(SyncError::Permanent { .. })), "so does the informer itself");
    nodes.synced().await.unwrap();

    // It goes on trying all the same, and what was true before is not held against it.
    server.clear_faults();
    server.inject(On::any().of("configmaps").once(), Fault::Delay(SECOND * 5));
    server.clear_requests();
    server.wait_for_request(|request| request.resource == "configmaps").await;
    let waiting = factory.synced();
    assert!(timeout(SECOND * 3, waiting).await.is_err(), "while it tries anew, it is waited for");
    until(|| configs.is_synced()).await;
    factory.synced().await.unwrap();
    assert!(factory.problems().is_empty());
    stop_factory(&factory, &leaks).await;
}

/// Lessons A9, decision 11, FA-12 as we want it
#[tokio::test(start_paused = true)]
async fn a_factory_that_keeps_trying_waits_and_says_meanwhile_what_is_wrong() {
    let logs = Logs::capture();
    let server = server(&["shop/a"]);
    server.inject(On::any().of("configmaps"), Fault::status(403));
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let configs = factory.informer::<ConfigMap>();
    factory.informer::<Node>();
    factory.start();

    let error = factory.synced_within(SECOND * 2).await.unwrap_err();
    assert!(matches!(&error.errors[..], [SyncError::TimedOut { reason: Some(_), .. }]), "{error:?}");
    assert!(
        error
            .to_string()
            .contains("informer configmaps is not synced after 2s: listing configmaps failed: the server answered: "),
        "{error}"
    );
    let problems = factory.problems();
    let [problem @ Problem::Failing { is_synced: false, .. }] = &problems[..] else { panic!("{problems:?}") };
    let said = problem.to_string();
    assert!(
        said.starts_with("informer configmaps is not synced: listing configmaps failed: the server answered: "),
        "{said}"
    );
    assert!(
        said.contains("(grant the client's user `list` and `watch` on it); failing for "),
        "the cause first: {said}"
    );
    assert!(logs.take().contains("listing configmaps failed"), "it is logged as well");

    let mut waiting = Box::pin(factory.synced());
    assert!(timeout(SECOND * 100, &mut waiting).await.is_err(), "it waits");
    server.clear_faults();
    waiting.await.unwrap();
    assert!(configs.is_synced() && factory.problems().is_empty());
    stop_factory(&factory, &leaks).await;
}

#[tokio::test(start_paused = true)]
async fn all_that_fail_are_named_at_once_each_with_its_reason() {
    let _logs = Logs::capture();
    let server = server(&["shop/a"]);
    let factory = fails_fast(client(&server));
    let leaks = Leaks::watch();
    server.inject(On::any().of("nodes"), Fault::status(401));
    server.inject(On::any().of("secrets"), Fault::status(403));
    factory.informer::<ConfigMap>();
    factory.informer::<Node>();
    factory.informer::<Secret>();
    factory.request::<ConfigMap>().with_labels("not a selector").informer().unwrap();
    factory.dynamic(&widget_resource());
    factory.start();

    let error = factory.synced().await.unwrap_err();
    let failed: Vec<_> = error.errors.iter().map(|error| error.informer().to_string()).collect();
    assert_eq!(failed, ["configmaps with not a selector", "nodes", "secrets", "widgets.example.com"]);
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

/// Whoever gives little time hears the same of what has failed already.
#[tokio::test(start_paused = true)]
async fn failures_a_little_apart_are_told_together_if_there_is_time() {
    let _logs = Logs::capture();
    let server = server(&["shop/a"]);
    let factory = fails_fast(client(&server));
    let leaks = Leaks::watch();
    server.inject(On::any().of("secrets"), Fault::status(403));
    server.inject(On::any().of("nodes"), Fault::Delay(SECOND / 20));
    server.inject(On::any().of("nodes"), Fault::status(403));
    factory.informer::<ConfigMap>();
    factory.informer::<Node>();
    factory.informer::<Secret>();
    factory.start();
    let failed = |error: &SyncErrors| {
        assert!(error.errors.iter().all(|error| matches!(error, SyncError::Permanent { .. })), "{error}");
        error.errors.iter().map(|error| error.informer().to_string()).collect::<Vec<_>>()
    };

    let (hasty, patient) = (factory.synced_within(SECOND / 50), factory.synced());
    let (hasty, patient) = tokio::join!(hasty, patient);
    assert_eq!(failed(&hasty.unwrap_err()), ["secrets"]);
    assert_eq!(failed(&patient.unwrap_err()), ["nodes", "secrets"]);
    stop_factory(&factory, &leaks).await;
}

/// What passes by itself is waited for also by those who fail fast.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_busy_or_in_trouble_is_waited_for() {
    let _logs = Logs::capture();
    let server = server(&["shop/a"]);
    server.inject(On::any().times(4), Fault::status(503));
    server.inject(On::any().skip(4).times(4), Fault::too_many_requests(SECOND));
    server.inject(On::any().skip(8).times(2), Fault::Drop);
    server.inject(On::any().skip(10).times(2), Fault::Truncate);
    server.inject(On::watch_list(), Fault::WatchListRefused);
    let factory = fails_fast(client(&server));
    let leaks = Leaks::watch();
    factory.informer::<ConfigMap>();
    factory.start();

    factory.synced().await.unwrap();
    stop_factory(&factory, &leaks).await;
}

#[tokio::test]
async fn a_server_that_is_not_there_or_not_to_be_trusted_is_named() {
    let _logs = Logs::capture();
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let listening = ApiServer::new().listen(([127, 0, 0, 1], 0)).await.unwrap();
    let no_tls = listening.url().replace("http:", "https:");
    for (url, reason) in [
        (format!("http://{nobody}"), "the connection was refused"),
        ("http://nobody.invalid".to_owned(), "the server cannot be reached"),
        (no_tls, "the server cannot be reached"),
    ] {
        let factory = fails_fast(Client::try_from(Config::new(url.parse().unwrap())).unwrap());
        factory.informer::<ConfigMap>();
        factory.start();

        let error = timeout(LONG, factory.synced()).await.unwrap().unwrap_err().to_string();
        assert!(error.contains("is the server running, and is its address right?"), "{error}");
        assert!(error.contains(reason), "{error}");
        assert!(!error.contains("ServiceError") && !error.contains("client error"), "only what matters: {error}");
        factory.stop().await.unwrap();
    }
}

/// FA-14: it may come later.
#[tokio::test(start_paused = true)]
async fn a_kind_that_is_not_there_is_named_and_syncs_by_itself_when_it_comes() {
    let _logs = Logs::capture();
    let server = ApiServer::new();
    let factory = fails_fast(client(&server));
    let leaks = Leaks::watch();
    let informer = factory.dynamic(&widget_resource());
    let probe = Probe::new();
    informer.add_handler(probe.handler()).unwrap();
    factory.start();

    let error = factory.synced().await.unwrap_err().to_string();
    assert!(error.contains("is this kind installed in the cluster, in this version and scope?"), "{error}");
    assert!(error.contains("informer widgets.example.com cannot sync"), "{error}");
    tokio::time::sleep(SECOND * 600).await;
    assert!(!informer.is_synced());

    server.register(widgets());
    server.put("widgets.example.com", widget("w")).unwrap();
    until(|| informer.is_synced()).await;
    probe.until("synced").await;
    assert_eq!(probe.lines(), ["A(shop/w@2, initial)", "synced"]);
    factory.synced().await.unwrap();
    stop_factory(&factory, &leaks).await;
}

/// Decision 15
#[tokio::test(start_paused = true)]
async fn a_kind_that_is_deleted_takes_its_objects_along_and_brings_them_back() {
    let _logs = Logs::capture();
    let server = ApiServer::new();
    server.register(widgets());
    server.put("widgets.example.com", widget("w")).unwrap();
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let informer = factory.dynamic(&widget_resource());
    let probe = Probe::new();
    informer.add_handler(probe.handler()).unwrap();
    factory.start();
    probe.until("synced").await;
    assert!(factory.problems().is_empty());

    assert!(server.remove_kind("widgets.example.com"));
    until(|| factory.problems().iter().any(|problem| matches!(problem, Problem::Gone { .. }))).await;
    probe
        .until_lines(|lines| {
            lines.last().unwrap().starts_with("T(shop/w") || lines.last().unwrap().starts_with("D(shop/w")
        })
        .await;
    assert!(informer.lister().is_empty());
    let said = factory.problems()[0].to_string();
    assert_eq!(said, "informer widgets.example.com has no objects: the server has no such kind any more");

    server.register(widgets());
    server.put("widgets.example.com", widget("again")).unwrap();
    until(|| informer.lister().len() == 1).await;
    probe.until_lines(|lines| lines.last().unwrap().starts_with("A(shop/again")).await;
    until(|| factory.problems().is_empty()).await;
    stop_factory(&factory, &leaks).await;
}

/// Decision 16
#[test]
fn informers_whose_runtime_is_gone_are_seen() {
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
        let said: Vec<_> = factory.problems().iter().map(ToString::to_string).collect();
        assert_eq!(said, ["informer configmaps has stopped: its runtime has ended"]);
        factory.stop().await.unwrap();
    });
}

#[tokio::test(start_paused = true)]
async fn problems_say_what_each_informer_lacks() {
    let _logs = Logs::capture();
    let server = server(&["shop/a"]);
    server.inject(On::any().of("nodes"), Fault::Hang);
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let configs = factory.informer::<ConfigMap>();
    let said = || factory.problems().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(said(), ["informer configmaps has not been started"]);

    factory.start();
    factory.informer::<Node>().start();
    configs.synced().await.unwrap();
    settle().await;
    assert_eq!(said(), ["informer nodes is syncing: 0 objects so far"]);

    server.clear_faults();
    // What hangs is given up after two minutes.
    tokio::time::sleep(SECOND * 150).await;
    until(|| factory.problems().is_empty()).await;
    server.inject(On::any().of("configmaps"), Fault::status(403));
    // The watch breaks when the server forgets it.
    tokio::time::sleep(Duration::from_secs(1200)).await;
    until(|| said().len() == 1).await;
    assert!(said()[0].starts_with("informer configmaps may be out of date"), "{:?}", said());

    configs.stop().await.unwrap();
    assert_eq!(said(), [""; 0], "one that was stopped on purpose is nobody's problem");
    factory.synced().now_or_never().expect("nor is it waited for").unwrap();
    let status = configs.status();
    assert_eq!(status.problem().unwrap().to_string(), "informer configmaps has stopped", "but it says so itself");
    stop_factory(&factory, &leaks).await;
}
