//! Sets up the demo: a server on loopback, a load, a factory with informers for pods and nodes, and handlers.

use std::{error::Error, time::Duration};

use informant::{
    Cached, Index, Lazy, Registration, SharedInformer, SharedInformerFactory, pipeline::Backoff, projection,
};
use informant_apiserver::{ApiError, ApiServer, ChangeMix, Listening, Load};
use k8s_openapi::api::core::v1::{Node, Pod};
use serde::Deserialize;
use tokio::{task::JoinSet, time::Instant};

use super::{
    Options,
    faults::describe,
    recorder::Recorder,
    stats::{DemoStats, HandlerStats, InformerStats},
    version_times::VersionTimes,
};

/// A projection of a pod: only the field that a scheduler needs is decoded.
#[derive(Deserialize)]
pub struct PodPlacement {
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

projection!(PodPlacement of Pod);

/// The name of the handlers that are fast enough for the load.
pub const SCHEDULER: &str = "scheduler";

/// The number of nodes.
const NODES: usize = 20;
const NAMESPACES: usize = 5;

/// How many requests the server keeps in its log; the faults of these are shown.
const LOGGED_REQUESTS: usize = 200;

/// The fraction of changes that apply to nodes.
pub const SHARE_OF_NODES: f64 = 0.05;

/// How long the slow handler takes for one event, at most.
const SLOW_EVENT: Duration = Duration::from_millis(5);
/// How long the slow handler takes for the initial events of all pods, at most.
const SLOW_INITIAL_EVENTS: Duration = Duration::from_secs(10);
/// The backlog above which events of the slow handler are coalesced.
const COALESCE_ABOVE: usize = 100;

/// The running server, load, informers and handlers.
pub struct Scenario {
    pub server: ApiServer,
    listening: Listening,
    pub factory: SharedInformerFactory,
    pub pods: SharedInformer<PodPlacement>,
    pub nodes: SharedInformer<Lazy<Node>>,
    by_node: Index<PodPlacement>,
    pub handlers: Vec<SubscribedHandler>,
    load: JoinSet<ApiError>,
    times: VersionTimes,
    polling: JoinSet<()>,
    /// When the server was built; its log counts from there.
    started: Instant,
}

/// A handler and its registration with an informer.
pub struct SubscribedHandler {
    pub recorder: Recorder,
    pub registration: Registration,
    pub kind: &'static str,
}

impl Scenario {
    pub async fn start(options: &Options) -> Result<Self, Box<dyn Error>> {
        let started = Instant::now();
        let server = ApiServer::builder().seed(options.seed).remember_requests(LOGGED_REQUESTS).build();
        let (pods, rate) = (options.pods as usize, f64::from(options.rate));
        let only_updates = ChangeMix { update: 1, create: 0, delete: 0, recreate: 0 };
        let node_load = Load::of("nodes", NODES).seed(options.seed).mix(only_updates).fill(&server).await?;
        let load = Load::of("pods", pods).namespaces(NAMESPACES).nodes(NODES).seed(options.seed);
        let pod_load = load.fill(&server).await?;
        options.faults.inject(&server, rate * options.duration.as_secs_f64());
        let listening = server.listen(([127, 0, 0, 1], 0)).await?;

        let mut config = kube::Config::new(listening.url().parse()?);
        // The client must not hide faults by retrying.
        config.default_retry = false;
        let factory = SharedInformerFactory::builder(kube::Client::try_from(config)?)
            .configure::<PodPlacement>(|pods| pods.reflector(|reflector| reflector.backoff(short_backoff())))
            .configure::<Lazy<Node>>(|nodes| nodes.reflector(|reflector| reflector.backoff(short_backoff())))
            // Errors are shown on the screen instead of being logged.
            .on_error(|_| ())
            .build();
        let (pods, nodes) = (factory.informer::<PodPlacement>(), factory.informer::<Lazy<Node>>());
        let by_node = pods.add_index("node", |pod: &Cached<PodPlacement>| pod.spec.node_name.clone())?;
        let mut scenario = Self {
            server,
            listening,
            factory,
            pods,
            nodes,
            by_node,
            handlers: Vec::new(),
            load: JoinSet::new(),
            times: VersionTimes::default(),
            polling: JoinSet::new(),
            started,
        };
        scenario.polling.spawn(scenario.times.clone().poll(scenario.server.clone()));
        scenario.subscribe_to_pods(SCHEDULER, Duration::ZERO)?;
        scenario.subscribe_to_nodes(SCHEDULER)?;
        scenario.subscribe_to_pods("slow", SLOW_EVENT.min(SLOW_INITIAL_EVENTS / options.pods.max(1)))?;
        scenario.factory.start();
        scenario.load.spawn(pod_load.churn_forever(rate * (1.0 - SHARE_OF_NODES)));
        scenario.load.spawn(node_load.churn_forever(rate * SHARE_OF_NODES));
        Ok(scenario)
    }

    fn subscribe_to_pods(&mut self, name: &'static str, delay: Duration) -> Result<(), Box<dyn Error>> {
        let recorder = Recorder::new(delay, self.times.clone());
        let subscribe = self.pods.subscribe().named(name);
        let registration = match delay.is_zero() {
            true => subscribe.handler(recorder.clone())?,
            false => subscribe.coalesce_above(COALESCE_ABOVE).blocking_handler(recorder.clone())?,
        };
        self.handlers.push(SubscribedHandler { recorder, registration, kind: "pods" });
        Ok(())
    }

    fn subscribe_to_nodes(&mut self, name: &'static str) -> Result<(), Box<dyn Error>> {
        let recorder = Recorder::new(Duration::ZERO, self.times.clone());
        let registration = self.nodes.subscribe().named(name).handler(recorder.clone())?;
        self.handlers.push(SubscribedHandler { recorder, registration, kind: "nodes" });
        Ok(())
    }

    pub fn has_late_handler(&self) -> bool {
        self.handlers.iter().any(|handler| &*handler.registration.name() == "late")
    }

    /// Adds a handler while the informers run.
    pub fn add_late_handler(&mut self) -> Result<(), Box<dyn Error>> {
        self.subscribe_to_pods("late", Duration::ZERO)
    }

    /// Waits until the load fails, which it should not.
    pub async fn load_failed(&mut self) -> Box<dyn Error> {
        match self.load.join_next().await {
            Some(Ok(error)) => error.into(),
            Some(Err(error)) => error.into(),
            // The load runs until it is stopped.
            None => std::future::pending().await,
        }
    }

    /// Stops all changes and removes all faults.
    pub fn stop_load_and_faults(&mut self) {
        // Dropping the set aborts its tasks.
        self.load = JoinSet::new();
        self.server.clear_faults();
    }

    pub async fn stop(mut self) -> Result<(), Box<dyn Error>> {
        self.load.shutdown().await;
        self.polling.shutdown().await;
        self.factory.stop().await?;
        self.listening.stop().await;
        Ok(())
    }

    pub fn stats(&self) -> DemoStats {
        let newest = self.server.version();
        let busiest = self.by_node.values().into_iter().map(|node| (self.by_node.count(&*node), node)).max();
        let handlers = self.handlers.iter().map(HandlerStats::of);
        let requests = self.server.requests();
        let past = requests.iter().rev();
        let faults = past.filter_map(|request| {
            describe(request).map(|fault| format!("{:6.1} s  {fault}", request.at.as_secs_f64()))
        });
        let newest_of = |kind: &str| requests.iter().rev().find(|request| request.resource == kind);
        DemoStats {
            seconds: self.started.elapsed().as_secs_f64(),
            is_loaded: !self.load.is_empty(),
            server_version: newest,
            server_pods: self.server.count("pods").unwrap_or_default(),
            informers: self.factory.status().iter().map(InformerStats::of).collect(),
            handlers: handlers.collect(),
            busiest_node: busiest.map(|(pods, node)| (node.to_string(), pods)),
            active_faults: ["nodes", "pods"].into_iter().filter_map(newest_of).filter_map(describe).collect(),
            last_fault: requests.iter().rev().find_map(describe),
            fault_history: faults.collect(),
            problems: self.factory.problems().iter().map(ToString::to_string).collect(),
        }
    }
}

/// A backoff that is short enough to show several recoveries within the demo.
fn short_backoff() -> Backoff {
    Backoff::new(Duration::from_millis(100), Duration::from_secs(1))
}
