//! What runs in the demo: a server on loopback, a load, a factory with two informers, and handlers.

use std::error::Error;
use std::time::Duration;

use informant::Cached;
use informant::Lazy;
use informant::Registration;
use informant::SharedInformer;
use informant::SharedInformerFactory;
use informant::listwatch::Backoff;
use informant::projection;
use informant::store::Index;
use informant_apiserver::ApiError;
use informant_apiserver::ApiServer;
use informant_apiserver::ChangeMix;
use informant_apiserver::Listening;
use informant_apiserver::Load;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::core::v1::Pod;
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Options;
use super::faults::described;
use super::follower::Follower;
use super::picture::HandlerFigures;
use super::picture::InformerFigures;
use super::picture::Picture;
use super::times::Times;

/// What a scheduler wants to know of a pod; nothing else is decoded.
#[derive(Deserialize)]
pub struct Placed {
    spec: Spec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

projection!(Placed of Pod);

/// The handlers that keep up.
pub const SCHEDULER: &str = "scheduler";

/// How many nodes there are.
const NODES: usize = 20;
const NAMESPACES: usize = 5;

/// How many of the newest requests are remembered; their faults are shown.
const REMEMBERED_REQUESTS: usize = 200;

/// Which part of the changes are those of nodes.
pub const SHARE_OF_NODES: f64 = 0.05;

/// How long the slow handler takes for one event at most, and for all pods at first; how many events may wait before they are coalesced.
const SLOW: Duration = Duration::from_millis(5);
const SLOW_AT_FIRST: Duration = Duration::from_secs(10);
const COALESCE_ABOVE: usize = 100;

/// Everything that runs.
pub struct World {
    pub server: ApiServer,
    listening: Listening,
    pub factory: SharedInformerFactory,
    pub pods: SharedInformer<Placed>,
    pub nodes: SharedInformer<Lazy<Node>>,
    by_node: Index<Placed>,
    pub followers: Vec<Following>,
    load: JoinSet<ApiError>,
    times: Times,
    looking: JoinSet<()>,
    begun: Instant,
}

/// A handler and what it follows.
pub struct Following {
    pub follower: Follower,
    pub registration: Registration,
    pub kind: &'static str,
}

impl World {
    pub async fn start(options: &Options) -> Result<Self, Box<dyn Error>> {
        let server = ApiServer::builder().seed(options.seed).remember_requests(REMEMBERED_REQUESTS).build();
        let (pods, rate) = (options.pods as usize, f64::from(options.rate));
        let only_updates = ChangeMix { update: 1, create: 0, delete: 0, recreate: 0 };
        let node_load = Load::of("nodes", NODES).seed(options.seed).mix(only_updates).fill(&server).await?;
        let load = Load::of("pods", pods).namespaces(NAMESPACES).nodes(NODES).seed(options.seed);
        let pod_load = load.fill(&server).await?;
        options.faults.inject(&server, rate * options.duration.as_secs_f64());
        let listening = server.listen(([127, 0, 0, 1], 0)).await?;

        let mut config = kube::Config::new(listening.url().parse()?);
        // So that what goes wrong is seen here, and not hidden in the client.
        config.default_retry = false;
        let factory = SharedInformerFactory::builder(kube::Client::try_from(config)?)
            .configure::<Placed>(|pods| pods.reflector(|reflector| reflector.backoff(quick())))
            .configure::<Lazy<Node>>(|nodes| nodes.reflector(|reflector| reflector.backoff(quick())))
            // What fails is shown, not logged.
            .on_error(|_| ())
            .build();
        let (pods, nodes) = (factory.informer::<Placed>(), factory.informer::<Lazy<Node>>());
        let by_node = pods.add_index("node", |pod: &Cached<Placed>| pod.spec.node_name.clone())?;
        let mut world = Self {
            server,
            listening,
            factory,
            pods,
            nodes,
            by_node,
            followers: Vec::new(),
            load: JoinSet::new(),
            times: Times::default(),
            looking: JoinSet::new(),
            begun: Instant::now(),
        };
        world.looking.spawn(world.times.clone().look_at(world.server.clone()));
        world.follow_pods(SCHEDULER, Duration::ZERO)?;
        world.follow_nodes(SCHEDULER)?;
        world.follow_pods("slow", SLOW.min(SLOW_AT_FIRST / options.pods.max(1)))?;
        world.factory.start();
        world.load.spawn(pod_load.churn_forever(rate * (1.0 - SHARE_OF_NODES)));
        world.load.spawn(node_load.churn_forever(rate * SHARE_OF_NODES));
        Ok(world)
    }

    fn follow_pods(&mut self, name: &'static str, slowness: Duration) -> Result<(), Box<dyn Error>> {
        let follower = Follower::new(slowness, self.times.clone());
        let subscribe = self.pods.subscribe().named(name);
        let registration = match slowness.is_zero() {
            true => subscribe.handler(follower.clone())?,
            false => subscribe.coalesce_above(COALESCE_ABOVE).blocking_handler(follower.clone())?,
        };
        self.followers.push(Following { follower, registration, kind: "pods" });
        Ok(())
    }

    fn follow_nodes(&mut self, name: &'static str) -> Result<(), Box<dyn Error>> {
        let follower = Follower::new(Duration::ZERO, self.times.clone());
        let registration = self.nodes.subscribe().named(name).handler(follower.clone())?;
        self.followers.push(Following { follower, registration, kind: "nodes" });
        Ok(())
    }

    pub fn has_late(&self) -> bool {
        self.followers.iter().any(|following| &*following.registration.name() == "late")
    }

    /// One more handler, in the middle of it.
    pub fn join_late(&mut self) -> Result<(), Box<dyn Error>> {
        self.follow_pods("late", Duration::ZERO)
    }

    /// Waits until the load breaks, which it should not.
    pub async fn broken(&mut self) -> Box<dyn Error> {
        match self.load.join_next().await {
            Some(Ok(error)) => error.into(),
            Some(Err(error)) => error.into(),
            // It goes on until it is stopped.
            None => std::future::pending().await,
        }
    }

    /// Nothing changes any more, and nothing goes wrong.
    pub fn calm(&mut self) {
        self.load.abort_all();
        self.server.clear_faults();
    }

    pub async fn stop(mut self) -> Result<(), Box<dyn Error>> {
        self.load.shutdown().await;
        self.looking.shutdown().await;
        self.factory.stop().await?;
        self.listening.stop().await;
        Ok(())
    }

    pub fn picture(&self) -> Picture {
        let newest = self.server.version();
        let busiest = self.by_node.values().into_iter().map(|node| (self.by_node.count(&*node), node)).max();
        let handlers = self.followers.iter().map(HandlerFigures::of);
        let requests = self.server.requests();
        let newest_of = |kind: &str| requests.iter().rev().find(|request| request.resource == kind);
        Picture {
            seconds: self.begun.elapsed().as_secs_f64(),
            server_version: newest,
            server_pods: self.server.count("pods").unwrap_or_default(),
            informers: self.factory.status().iter().map(InformerFigures::of).collect(),
            handlers: handlers.collect(),
            busiest_node: busiest.map(|(pods, node)| (node.to_string(), pods)),
            active_faults: ["nodes", "pods"].into_iter().filter_map(newest_of).filter_map(described).collect(),
            last_fault: requests.iter().rev().find_map(described),
            problems: self.factory.problems().iter().map(ToString::to_string).collect(),
        }
    }
}

/// Trouble is over soon, so that there is something to see.
fn quick() -> Backoff {
    Backoff::new(Duration::from_millis(100), Duration::from_secs(1))
}
