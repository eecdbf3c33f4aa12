//! A factory starts, awaits and stops its informers together; a single informer can be stopped too.

use std::sync::{Arc, Mutex};

use futures_util::{FutureExt, future::join_all};
use informant::{
    Lazy, SharedInformerFactory,
    error::{RequestError, StopError, SyncError},
    factory::{InformerState, Problem},
};
use informant_apiserver::{Fault, On};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Secret};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};

use crate::support::{
    Tracked,
    informers::{add_stuck_handler, many_threads, without_deadlock},
    servers::{
        LONG, Leaks, Logs, Probe, SECOND, cached, client, config, factory, is_same, keys, server, stop_factory,
        wait_until, wait_until_idle,
    },
};

/// FA-05
#[tokio::test(start_paused = true)]
async fn start_of_a_factory_starts_the_new_informers_and_may_be_called_again() {
    let logs = Logs::capture();
    let server = server(&["shop/a"]);
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let configs = factory.informer::<ConfigMap>();
    wait_until_idle().await;
    assert!(server.requests().is_empty(), "no request is sent before the start");
    assert_eq!(configs.state(), InformerState::New);

    assert_eq!(factory.start(), 1);
    assert_eq!(factory.start(), 0);
    factory.synced().await.unwrap();
    let nodes = factory.informer::<Node>();
    let secrets = factory.informer::<Secret>();
    wait_until_idle().await;
    assert_eq!(nodes.state(), InformerState::New, "an informer that is requested later needs another start");

    assert_eq!(factory.start(), 2);
    factory.synced().await.unwrap();
    assert!(nodes.is_synced() && secrets.is_synced());
    assert_eq!(server.requests_for("configmaps"), [r#"WL("")"#]);
    assert!(!logs.take().contains("WARN"), "a second start logs no warning");
    stop_factory(&factory, &leaks).await;
}

/// FA-10
#[tokio::test(start_paused = true)]
async fn synced_of_a_factory_waits_for_the_informers_that_run_when_it_is_called() {
    let logs = Logs::capture();
    let server = server(&["shop/a"]);
    let factory = factory(&server);
    let leaks = Leaks::watch();
    factory.synced().now_or_never().unwrap().unwrap();
    let configs = factory.informer::<ConfigMap>();
    factory.synced().now_or_never().expect("no informer runs").unwrap();
    assert!(logs.take().contains("the informer was not started; `synced` of the factory does not wait for it"));

    server.inject(On::any().of("nodes"), Fault::Hang);
    factory.start();
    let waiting = factory.synced();
    factory.informer::<Node>();
    factory.start();
    waiting.await.unwrap();
    assert!(configs.is_synced());

    let error = factory.synced_within(SECOND).await.unwrap_err();
    assert!(matches!(&error, SyncError::Several { informers: 2, errors } if errors.len() == 1), "{error}");
    assert!(matches!(&error.errors()[0], SyncError::TimedOut { informer, .. } if &**informer == "nodes"), "{error}");
    stop_factory(&factory, &leaks).await;
}

/// FA-07 (differs from client-go), FA-08
#[tokio::test(start_paused = true)]
async fn stop_of_a_factory_cancels_waits_and_refuses_restarts() {
    let logs = Logs::capture();
    let server = server(&["shop/a"]);
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let (configs, never_started) = (factory.informer::<ConfigMap>(), Arc::new(()));
    let probe = Probe::new();
    configs.subscribe().handler(probe.handler()).unwrap();
    factory.start();
    factory.synced().await.unwrap();
    let held = Arc::clone(&never_started);
    let unstarted = factory.informer::<Node>();
    unstarted.subscribe().on_synced(move || drop(Arc::clone(&held))).register().unwrap();

    factory.stop().await.unwrap();
    leaks.check();
    assert_eq!(configs.state(), InformerState::Stopped);
    assert_eq!(unstarted.state(), InformerState::Stopped);
    assert_eq!(Arc::strong_count(&never_started), 1, "the handlers of the informer are dropped");
    assert!(factory.is_stopped());
    assert_eq!(server.open_watches("configmaps"), 0);

    assert_eq!(factory.start(), 0);
    assert!(logs.take().contains("the factory was stopped; no informer is started"));
    let late = factory.informer::<ConfigMap>();
    assert!(!late.start());
    assert!(matches!(late.subscribe().handler(probe.handler()), Err(RequestError::Stopped { .. })));
    assert!(matches!(late.synced().await, Err(SyncError::Stopped { .. })));
    assert_eq!(cached(&configs).len(), 1, "the cache can still be read");
    let status: Vec<_> = factory.status().iter().map(|status| (status.name.to_string(), status.state)).collect();
    assert_eq!(
        status,
        [("configmaps".to_owned(), InformerState::Stopped), ("nodes".to_owned(), InformerState::Stopped)]
    );
    assert!(factory.problems().iter().all(|problem| matches!(problem, Problem::Stopped { .. })));
    let error = factory.synced().await.unwrap_err();
    assert!(matches!(error, SyncError::FactoryStopped));
    assert!(matches!(factory.synced_within(SECOND).await, Err(SyncError::FactoryStopped)));
    assert_eq!(error.to_string(), "the factory has stopped, so its informers will not sync; create a new factory");
}

/// FA-07
#[tokio::test(start_paused = true)]
async fn stop_of_a_factory_without_informers_returns_at_once_and_stop_may_be_called_again() {
    let server = server(&["shop/a"]);
    let empty = factory(&server);
    empty.stop().now_or_never().expect("an empty factory has no informer to wait for").unwrap();
    empty.stop().now_or_never().unwrap().unwrap();

    let factory = factory(&server);
    let leaks = Leaks::watch();
    let configs = factory.informer::<ConfigMap>();
    factory.start();
    factory.synced().await.unwrap();
    for ended in join_all((0..5).map(|_| factory.stop())).await {
        ended.unwrap();
    }
    assert_eq!(configs.state(), InformerState::Stopped);
    leaks.check();
}

/// FA-07
#[tokio::test]
async fn stop_waits_for_running_callbacks_and_names_those_that_do_not_return() {
    let server = server(&["shop/a"]);
    let factory = factory(&server);
    let (configs, nodes) = (factory.informer::<ConfigMap>(), factory.informer::<Node>());
    let (_, gate, running) = add_stuck_handler(&configs);
    factory.start();
    wait_until(|| running.load(std::sync::atomic::Ordering::SeqCst) == 1).await;

    let error = factory.stop_within(SECOND / 10).await.unwrap_err();
    assert_eq!(nodes.state(), InformerState::Stopped, "other informers do not wait for it");
    let [StopError::StillRunning { informer, callbacks: handlers, .. }] = error.errors() else { panic!("{error}") };
    assert_eq!((&**informer, &*handlers[0]), ("configmaps", "stuck"));
    assert!(error.to_string().contains("callbacks of stuck have not returned"), "{error}");

    drop(gate);
    factory.stop().await.unwrap();
    assert_eq!(running.load(std::sync::atomic::Ordering::SeqCst), 0);
}

/// Decision 16
#[tokio::test(start_paused = true)]
async fn stop_of_a_factory_inside_a_callback_is_an_error_not_a_deadlock() {
    let server = server(&["shop/a"]);
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let (configs, nodes) = (factory.informer::<ConfigMap>(), factory.informer::<Node>());
    let outcome = Arc::new(Mutex::new(None));
    let (asked, recorded) = (factory.clone(), Arc::clone(&outcome));
    configs
        .subscribe()
        .on_add(move |_, _| {
            let mut stopping = Box::pin(asked.stop());
            *recorded.lock().unwrap() = stopping.as_mut().now_or_never();
        })
        .register()
        .unwrap();
    factory.start();

    wait_until(|| configs.state() == InformerState::Stopped && nodes.state() == InformerState::Stopped).await;
    let outcome = outcome.lock().unwrap().take().expect("at once");
    let inside = StopError::InsideCallback { informer: "configmaps".into(), handler: None };
    assert_eq!(outcome.unwrap_err().errors(), [inside]);
    factory.stop().await.unwrap();
    leaks.check();
}

/// Decision 16
#[tokio::test(start_paused = true)]
async fn one_informer_can_be_stopped_and_the_next_request_returns_a_new_one() {
    let server = server(&["shop/a"]);
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let (configs, nodes) = (factory.informer::<ConfigMap>(), factory.informer::<Node>());
    let probe = Probe::new();
    let registration = configs.subscribe().handler(probe.handler()).unwrap();
    let mut stream = configs.subscribe().stream().unwrap();
    factory.start();
    factory.synced().await.unwrap();
    registration.synced().await.unwrap();
    let lister = configs.lister();
    assert!(!lister.has_stopped());

    configs.stop().await.unwrap();

    assert!(registration.is_removed());
    assert!(stream.next().await.is_none(), "streams end");
    assert_eq!(keys(&configs), ["shop/a"], "the cache keeps its objects");
    assert!(lister.has_stopped() && format!("{lister:?}").contains("stopped"));
    let missing = lister.require(&"shop/x".parse().unwrap()).unwrap_err();
    assert_eq!(missing.to_string(), "shop/x not found in the cache of configmaps, whose informer has stopped");
    assert_eq!(nodes.state(), InformerState::Running, "other informers keep running");

    server.put("configmaps", config("shop/b")).unwrap();
    let fresh = factory.informer::<ConfigMap>();
    assert!(!is_same(&configs, &fresh));
    assert_eq!((fresh.state(), fresh.lister().len()), (InformerState::New, 0));
    probe.take();
    assert_eq!(factory.start(), 1);
    factory.synced().await.unwrap();
    assert_eq!(keys(&fresh), ["shop/a", "shop/b"]);
    wait_until_idle().await;
    assert!(probe.lines().is_empty(), "handlers are not moved to the new informer");
    stop_factory(&factory, &leaks).await;
}

/// Decision 16
#[tokio::test(start_paused = true)]
async fn a_handler_whose_informer_stops_before_the_delivery_of_the_initial_list_is_not_synced() {
    let server = server(&[]);
    server.inject(On::any(), Fault::Hang);
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let nodes = factory.informer::<Node>();
    let probe = Probe::new();
    let registration = nodes.subscribe().handler(probe.handler()).unwrap();
    factory.start();
    wait_until_idle().await;

    nodes.stop().await.unwrap();

    assert!(matches!(registration.synced().await, Err(SyncError::Stopped { .. })));
    factory.synced().await.expect("the factory does not wait for an informer that was stopped on purpose");
    stop_factory(&factory, &leaks).await;
}

/// Decision 16
#[tokio::test(start_paused = true)]
async fn a_cache_is_freed_when_its_informer_has_stopped_and_no_lister_is_left() {
    let server = server(&["shop/a"]);
    let factory = factory(&server);
    let request = |factory: &SharedInformerFactory| {
        let configs = factory.informer::<Tracked<ConfigMap>>();
        factory.start();
        configs
    };
    let configs = request(&factory);
    configs.synced().await.unwrap();
    let first = configs.lister().list()[0].watch();
    configs.stop().await.unwrap();
    drop(configs);
    assert!(factory.problems().is_empty());
    assert!(first.upgrade().is_none(), "the next call of the factory frees the cache");

    let configs = request(&factory);
    configs.synced().await.unwrap();
    let second = configs.lister().list()[0].watch();
    drop(configs);
    factory.stop().await.unwrap();
    assert!(second.upgrade().is_none());
}

/// Decision 16: also if another informer replaced it while it was stopping.
#[tokio::test]
async fn a_cache_is_freed_if_its_informer_took_long_to_stop() {
    let server = server(&["shop/a"]);
    let factory = factory(&server);
    let configs = factory.informer::<Tracked<ConfigMap>>();
    let (_, gate, running) = add_stuck_handler(&configs);
    factory.start();
    wait_until(|| running.load(std::sync::atomic::Ordering::SeqCst) == 1).await;
    let object = configs.lister().list()[0].watch();
    configs.stop_within(SECOND / 100).await.unwrap_err();
    factory.informer::<Tracked<ConfigMap>>();
    drop(gate);
    configs.stop().await.unwrap();
    drop(configs);
    assert_eq!(factory.status().len(), 1);

    assert!(object.upgrade().is_none());
    factory.stop().await.unwrap();
}

/// Decision 16: each callback would wait for the other one.
#[test]
fn callbacks_of_two_informers_that_stop_their_factory_at_once_both_get_an_error() {
    without_deadlock(|| {
        let runtime = many_threads();
        runtime.block_on(async {
            let server = server(&["shop/a"]);
            let factory = factory(&server);
            let (handle, outcomes) = (tokio::runtime::Handle::current(), Arc::new(Mutex::new(Vec::new())));
            let both = Arc::new(std::sync::Barrier::new(2));
            let stop_factory = || {
                let (factory, handle, both) = (factory.clone(), handle.clone(), Arc::clone(&both));
                let outcomes = Arc::clone(&outcomes);
                move || {
                    both.wait();
                    let outcome = handle.block_on(factory.stop());
                    outcomes.lock().unwrap().push(outcome.unwrap_err().errors().len());
                }
            };
            let (of_configs, of_nodes) = (stop_factory(), stop_factory());
            factory.informer::<ConfigMap>().subscribe().on_add(move |_, _| of_configs()).register_blocking().unwrap();
            factory.informer::<Node>().subscribe().on_add(move |_, _| of_nodes()).register_blocking().unwrap();
            factory.start();

            wait_until(|| outcomes.lock().unwrap().len() == 2).await;
            assert_eq!(*outcomes.lock().unwrap(), [1, 1]);
            factory.stop().await.unwrap();
        });
    });
}

/// The gauges belong to the new informer from its creation on.
#[tokio::test]
async fn an_informer_that_stops_late_does_not_overwrite_the_metrics_of_the_next_one() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let objects = || {
        let figures = snapshotter.snapshot().into_vec();
        let mut of_cache = figures.into_iter().filter(|(key, ..)| key.key().name() == "informant_cache_objects");
        of_cache.next().map(|(_, _, _, value)| value)
    };
    let server = server(&["shop/a"]);
    let factory = factory(&server);
    let request = || metrics::with_local_recorder(&recorder, || factory.informer::<ConfigMap>());
    let configs = request();
    let (_, gate, running) = add_stuck_handler(&configs);
    factory.start();
    wait_until(|| running.load(std::sync::atomic::Ordering::SeqCst) == 1).await;
    configs.stop_within(SECOND / 100).await.unwrap_err();

    let fresh = request();
    factory.start();
    fresh.synced().await.unwrap();
    drop(gate);
    configs.stop().await.unwrap();
    drop(configs);

    // A snapshot resets the metrics, so there is only one.
    assert_eq!(objects(), Some(DebugValue::Gauge(1.0.into())));
    factory.stop().await.unwrap();
}

/// Decision 16: also for an informer that is still stopping.
#[tokio::test]
async fn stop_of_a_factory_waits_for_an_informer_that_was_replaced() {
    let server = server(&["shop/a"]);
    let factory = factory(&server);
    let configs = factory.informer::<ConfigMap>();
    let (_, gate, running) = add_stuck_handler(&configs);
    factory.start();
    wait_until(|| running.load(std::sync::atomic::Ordering::SeqCst) == 1).await;
    configs.stop_within(SECOND / 100).await.unwrap_err();

    let fresh = factory.informer::<ConfigMap>();
    assert!(!is_same(&configs, &fresh));
    let error = factory.stop_within(SECOND / 10).await.unwrap_err();
    assert_eq!(error.errors().len(), 1, "{error}");

    drop(gate);
    factory.stop().await.unwrap();
    assert_eq!(configs.state(), InformerState::Stopped);
}

/// Decision 16, P9
#[tokio::test(start_paused = true)]
async fn an_informer_runs_until_its_factory_and_all_its_handles_are_dropped() {
    let server = server(&["shop/a"]);
    // The client has a task of its own.
    let client = client(&server);
    let leaks = Leaks::watch();
    let factory = SharedInformerFactory::new(client.clone());
    let clone = factory.clone();
    drop(factory.informer::<ConfigMap>());
    factory.start();
    factory.synced().await.unwrap();
    drop(factory);
    wait_until_idle().await;
    let configs = clone.informer::<ConfigMap>();
    assert_eq!(configs.state(), InformerState::Running, "a clone of the factory exists");

    drop(clone);
    server.put("configmaps", config("shop/b")).unwrap();
    wait_until(|| configs.lister().len() == 2).await;
    assert_eq!(configs.state(), InformerState::Running, "a handle exists");

    let lister = configs.lister();
    drop(configs);
    wait_until(|| lister.has_stopped()).await;
    wait_until_idle().await;
    leaks.check();
}

/// Decision 16
#[tokio::test(start_paused = true)]
async fn a_function_may_return_an_informer_without_its_factory() {
    async fn synced_configs(client: kube::Client) -> informant::SharedInformer<ConfigMap> {
        let factory = SharedInformerFactory::new(client);
        let configs = factory.informer::<ConfigMap>();
        factory.start();
        factory.synced().await.unwrap();
        configs
    }
    let server = server(&["shop/a"]);
    let client = client(&server);
    let leaks = Leaks::watch();

    let configs = synced_configs(client.clone()).await;
    let probe = Probe::new();
    configs.subscribe().handler(probe.handler()).unwrap();
    server.delete("configmaps", "shop/a").unwrap();

    wait_until(|| configs.lister().is_empty()).await;
    probe.until_lines(|lines| lines.iter().any(|line| line.starts_with("D(shop/a"))).await;
    leaks.stop(&configs).await;
}

/// Decision 16
#[tokio::test(start_paused = true)]
async fn views_and_informers_of_dynamic_kinds_also_run_without_the_factory() {
    let server = server(&["shop/a", "bank/a"]);
    let client = client(&server);
    let leaks = Leaks::watch();
    let factory = SharedInformerFactory::new(client.clone());
    let view = factory.request::<ConfigMap>().in_namespaces(["shop", "bank"]).view().unwrap();
    let nodes = factory.dynamic(&kube::core::ApiResource::erase::<Node>(&()));
    factory.start();
    factory.synced().await.unwrap();

    drop(factory);
    server.put("configmaps", config("bank/b")).unwrap();
    server.delete("nodes", "n1").unwrap();

    wait_until(|| view.len() == 3 && nodes.lister().is_empty()).await;
    view.stop().await.unwrap();
    leaks.stop(&nodes).await;
}

/// Decision 16
#[tokio::test(start_paused = true)]
async fn an_informer_that_was_not_started_can_be_started_after_its_factory_was_dropped() {
    let server = server(&["shop/a"]);
    let client = client(&server);
    let leaks = Leaks::watch();
    let factory = SharedInformerFactory::new(client.clone());
    let configs = factory.informer::<ConfigMap>();
    let probe = Probe::new();
    let registration = configs.subscribe().handler(probe.handler()).unwrap();
    drop(factory.informer::<Node>());
    drop(factory);
    assert_eq!(configs.state(), InformerState::New);

    assert!(configs.start());
    registration.synced().await.unwrap();

    assert_eq!(keys(&configs), ["shop/a"]);
    assert!(server.requests_for("nodes").is_empty());
    leaks.stop(&configs).await;
}

/// Decisions 16, 18
#[tokio::test(start_paused = true)]
async fn an_informer_that_stops_because_all_handles_were_dropped_logs_it() {
    let logs = Logs::capture();
    let server = server(&["shop/a"]);
    let client = client(&server);
    let leaks = Leaks::watch();
    let factory = SharedInformerFactory::new(client.clone());
    let configs = factory.informer::<ConfigMap>();
    let probe = Probe::new();
    let (lister, registration) = (configs.lister(), configs.subscribe().handler(probe.handler()).unwrap());
    let mut stream = configs.subscribe().stream().unwrap();
    factory.start();
    registration.synced().await.unwrap();
    drop(configs);
    assert!(!logs.take().contains("was dropped"));

    drop(factory);
    while stream.next().await.is_some() {}
    wait_until_idle().await;

    let logged = logs.take();
    let message = "the last handle of the informer was dropped, so it stops; its listers keep the last state";
    assert!(logged.contains(message) && logged.contains("informer=\"configmaps\""), "{logged}");
    assert!(lister.has_stopped() && registration.is_removed());
    drop((registration, stream));
    leaks.check();

    let stopped = SharedInformerFactory::new(client).informer::<ConfigMap>();
    stopped.start();
    stopped.synced().await.unwrap();
    stopped.stop().await.unwrap();
    drop(stopped);
    assert!(!logs.take().contains("was dropped"), "the informer was stopped on purpose");
}

/// P9
#[test]
fn informers_that_start_and_stop_a_thousand_times_leak_no_task_and_no_memory() {
    const RUNS: usize = 1000;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    let server = informant_apiserver::ApiServer::builder().remember_requests(1).build();
    server.put("configmaps", config("shop/a")).unwrap();
    let inside = runtime.enter();
    let factory = SharedInformerFactory::new(client(&server));
    drop(inside);
    let start_and_stop = |times: usize| {
        runtime.block_on(async {
            let leaks = Leaks::watch();
            for _ in 0..times {
                let (configs, nodes) = (factory.informer::<Lazy<ConfigMap>>(), factory.informer::<Node>());
                let probe = Probe::new();
                configs.subscribe().handler(probe.handler()).unwrap();
                assert_eq!(factory.start(), 2);
                factory.synced().await.unwrap();
                assert_eq!(configs.lister().len(), 1);
                configs.stop().await.unwrap();
                nodes.stop().await.unwrap();
            }
            leaks.check();
        });
    };
    start_and_stop(20);

    let few = allocation_counter::measure(|| start_and_stop(RUNS / 10)).bytes_current;
    let many = allocation_counter::measure(|| start_and_stop(RUNS)).bytes_current;

    assert_eq!(server.open_watches("configmaps"), 0);
    assert!(factory.status().len() <= 2);
    assert!(many < few.max(0) + 20_000, "{few} bytes stayed after {}, {many} after {RUNS} runs", RUNS / 10);
    drop(factory);
}

/// Decision 16: the informers stop although the future of `stop` is dropped.
#[tokio::test(start_paused = true)]
async fn a_dropped_stop_future_still_stops_the_factory() {
    let server = server(&["shop/a"]);
    let factory = factory(&server);
    let leaks = Leaks::watch();
    let configs = factory.informer::<ConfigMap>();
    factory.start();
    factory.synced().await.unwrap();

    assert!(factory.stop().now_or_never().is_none());

    wait_until(|| configs.state() == InformerState::Stopped).await;
    assert!(factory.is_stopped());
    tokio::time::timeout(LONG, factory.stop()).await.unwrap().unwrap();
    leaks.check();
}
