//! A server, the informers of a client that follow it through a proxy, and random writes.

use std::{collections::BTreeMap, time::Duration};

use informant::{SharedInformerFactory, factory::Activity};
use informant_apiserver::{ApiServer, Backup, LoggedRequest, Verb};
use serde_json::json;
use tokio::time::Instant;

use super::caches::{Cache, random_caches, random_factory};
use crate::{
    informer::histories::proxy::Proxy,
    support::{
        reflector::{is_lookup, sleep_seconds},
        servers::widgets,
    },
};

/// A server and the informers of a client that follow it through a proxy.
pub(super) struct World {
    pub(super) server: ApiServer,
    /// A second server behind the proxy, without requests. A rolling restore swaps the two.
    pub(super) other: ApiServer,
    pub(super) proxy: Proxy,
    pub(super) factory: SharedInformerFactory,
    caches: Vec<Cache>,
    /// The kinds that have an informer.
    kinds: Vec<&'static str>,
    /// The backup that the next restore uses.
    pub(super) backup: Backup,
    /// True if a backup was restored.
    pub(super) is_restored: bool,
    /// How many objects were written.
    writes: u64,
    /// When both servers started.
    started: Instant,
    log: Vec<String>,
}

/// The time after which a cache that is wrong counts as wrong for ever. Delays grow to half a minute, the time limit of a request that hangs to two
/// minutes, and everything is listed at most once a minute while watches are refused. This is more than all of them, one after the other.
pub(super) const EVENTUALLY: Duration = Duration::from_secs(400);

const NAMESPACES: [&str; 2] = ["shop", "bank"];

impl World {
    /// Starts servers with some objects, and waits until the informers are synced.
    pub(super) async fn new(random: &mut fastrand::Rng) -> Self {
        let changes = random.choice([30, 100_000, 100_000]).unwrap();
        let [server, other] = [random.u64(..), random.u64(..)].map(|seed| {
            let server = ApiServer::builder().seed(seed).history(changes).build();
            server.register(widgets());
            server
        });
        let proxy = Proxy::new(server.clone());
        let factory = random_factory(proxy.client(), random);
        let caches = random_caches(&factory, random);
        let mut kinds: Vec<_> = caches.iter().map(|cache| cache.kind).collect();
        kinds.dedup();
        let mut world = Self {
            backup: server.backup(),
            server,
            other,
            proxy,
            factory,
            caches,
            kinds,
            is_restored: false,
            writes: 0,
            started: Instant::now(),
            log: Vec::new(),
        };
        (0..random.usize(1..8)).for_each(|_| world.write(random));
        world.factory.start();
        world.factory.synced().await.unwrap();
        world
    }

    /// Writes or deletes a random object.
    pub(super) fn write(&mut self, random: &mut fastrand::Rng) {
        if random.u32(0..4) > 0 {
            return self.put(random);
        }
        let (namespace, name) = namespace_and_name(random);
        // The object may not exist.
        let _ = self.server.delete(self.kind(random), &format!("{namespace}/{name}"));
    }

    /// Writes a random object, with or without the label.
    fn put(&mut self, random: &mut fastrand::Rng) {
        let tier = random.choice(["x", "y"]).unwrap();
        self.put_at(&self.server.clone(), tier, random);
    }

    /// Writes a random object with the label at a server that may be restored.
    ///
    /// For no informer is this a delete. If a restored server made the delete again that was the newest event, of the same object at the same version,
    /// both histories would look the same (decision 20).
    pub(super) fn put_labelled_at(&mut self, server: &ApiServer, random: &mut fastrand::Rng) {
        self.put_at(server, "x", random);
    }

    fn put_at(&mut self, server: &ApiServer, tier: &str, random: &mut fastrand::Rng) {
        let kind = if random.bool() { "configmaps" } else { self.kind(random) };
        let (namespace, name) = namespace_and_name(random);
        self.writes += 1;
        put(server, kind, namespace, &name, tier, self.writes);
    }

    /// Writes objects so that each informer receives an event. An informer that received none since its list may not notice a restore in which no request
    /// fails (decision 20).
    pub(super) async fn deliver_writes(&mut self) {
        for kind in &self.kinds {
            for namespace in NAMESPACES {
                self.writes += 1;
                put(&self.server, kind, namespace, "o0", "x", self.writes);
            }
        }
        sleep_seconds(1.0).await;
    }

    /// One of the kinds that have an informer.
    pub(super) fn kind(&self, random: &mut fastrand::Rng) -> &'static str {
        random.choice(self.kinds.iter()).unwrap()
    }

    /// Lets up to twelve minutes pass, with a few writes.
    pub(super) async fn quiet_time(&mut self, random: &mut fastrand::Rng) {
        (0..random.usize(0..5)).for_each(|_| self.write(random));
        let longest = random.choice([2.0, 20.0, 700.0]).unwrap();
        sleep_seconds(random.f64() * longest).await;
        if random.u32(0..3) == 0 {
            self.backup = self.server.backup();
            self.note("a backup is made");
        }
        if random.u32(0..6) == 0 {
            self.server.compact();
            self.note("the server compacts its history");
        }
    }

    /// Waits until all caches equal the server, and returns how long that took; describes the wrong caches if it took longer than the limit.
    pub(super) async fn catch_up_within(&self, limit: Duration) -> Result<Duration, String> {
        if let Some(took) = self.caught_up_within(limit).await {
            return Ok(took);
        }
        let state = self.state();
        Err(match self.caught_up_within(EVENTUALLY).await {
            Some(more) => {
                format!("the caches equal the server only after {:?}; after {limit:?}: {state}", limit + more)
            }
            None => format!("the caches never equal the server; after {limit:?}: {state}"),
        })
    }

    async fn caught_up_within(&self, limit: Duration) -> Option<Duration> {
        let begun = Instant::now();
        while self.caches.iter().any(|cache| cache.is_wrong(&self.server)) {
            if begun.elapsed() > limit {
                return None;
            }
            sleep_seconds(0.1).await;
        }
        Some(begun.elapsed())
    }

    /// Waits until all informers watch and have no problem, so that delays of an earlier trouble do not count in the next one.
    pub(super) async fn recover(&self) -> Result<(), String> {
        let begun = Instant::now();
        let is_watching =
            || self.factory.status().iter().all(|status| matches!(status.source.activity, Activity::Watching));
        while !self.factory.problems().is_empty() || !is_watching() {
            if begun.elapsed() > EVENTUALLY {
                return Err(format!("not all informers recover: {:?}; {}", self.factory.problems(), self.state()));
            }
            sleep_seconds(1.0).await;
        }
        Ok(())
    }

    /// Describes each cache that is wrong, and what each informer does.
    fn state(&self) -> String {
        let wrong = self.caches.iter().filter(|cache| cache.is_wrong(&self.server));
        let mut lines: Vec<_> = wrong.map(|cache| cache.describe(&self.server)).collect();
        for status in self.factory.status() {
            lines.push(format!("{}: {:?}, {:?}", status.name, status.source.activity, status.source.last_error));
        }
        lines.join("\n")
    }

    /// The number of lists of the informer that has requested the most of them since the last trouble began.
    pub(super) fn most_lists(&self) -> usize {
        let is_list = |request: &LoggedRequest| {
            request.verb == Verb::WatchList || (request.verb == Verb::List && !is_lookup(request))
        };
        let mut lists = BTreeMap::<_, usize>::new();
        for (_, request) in self.requests() {
            if request.faults.is_empty() && is_list(&request) {
                *lists.entry((request.resource, request.namespace, request.label_selector)).or_default() += 1;
            }
        }
        lists.into_values().max().unwrap_or_default()
    }

    /// Without a restored backup, a server has only one history, and no fault damages an event or a list. So no informer reports another history, and no
    /// audit finds a wrong object.
    pub(super) fn raised_no_false_alarm(&self) -> Result<(), String> {
        let mut alarms = self.factory.status();
        alarms.retain(|status| !self.is_restored && status.source.history_changes + status.wrong_objects > 0);
        if alarms.is_empty() { Ok(()) } else { Err(format!("false alarms: {alarms:?}")) }
    }

    pub(super) fn note(&mut self, what: impl std::fmt::Display) {
        self.log.push(format!("{:8.1} {what}", self.started.elapsed().as_secs_f64()));
    }

    pub(super) fn clear_requests(&self) {
        [&self.server, &self.other].into_iter().for_each(ApiServer::clear_requests);
    }

    /// The requests since the last trouble began, each with its server.
    fn requests(&self) -> Vec<(&'static str, LoggedRequest)> {
        let of = |name, server: &ApiServer| server.requests().into_iter().map(move |request| (name, request));
        let mut requests: Vec<_> = of("server", &self.server).chain(of("other", &self.other)).collect();
        requests.sort_by_key(|(_, request)| request.at);
        requests
    }

    /// What happened in the run, and the requests since the last trouble began.
    pub(super) fn report(&self) -> String {
        let show = |(name, request): (&str, LoggedRequest)| {
            format!("{:8.1} {name}: {} {:?}", request.at.as_secs_f64(), request.line, request.faults)
        };
        let requests: Vec<_> = self.requests().into_iter().map(show).collect();
        format!("the run:\n{}\nrequests since the last trouble began:\n{}", self.log.join("\n"), requests.join("\n"))
    }
}

fn namespace_and_name(random: &mut fastrand::Rng) -> (&'static str, String) {
    (random.choice(NAMESPACES).unwrap(), format!("o{}", random.u32(0..5)))
}

fn put(server: &ApiServer, kind: &str, namespace: &str, name: &str, tier: &str, text: u64) {
    let labels = json!({"tier": tier});
    let annotations = json!({"text": text.to_string()});
    let metadata = json!({"namespace": namespace, "name": name, "labels": labels, "annotations": annotations});
    server.put(kind, json!({"metadata": metadata})).unwrap();
}
