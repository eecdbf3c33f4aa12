//! The writer: creates, changes and deletes objects of all kinds of the stage, about 75 times a second.
//!
//! Several tasks write at the same time, each its own objects. A single write may fail, because servers fail in these tests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Result, ensure};
use fastrand::Rng;
use http::Request;
use kube::Client;
use serde_json::{Value, json};
use tokio::{
    sync::{OwnedRwLockWriteGuard, RwLock},
    task::JoinSet,
    time::MissedTickBehavior,
};

use super::scopes::{GROUP, NAMESPACES, STAMP};

/// Writers that work at the same time.
const TASKS: u64 = 3;

/// The time between two writes of one task.
const PERIOD: Duration = Duration::from_millis(40);

/// The number of names of each kind and task.
const NAMES: u64 = 24;

/// A writer that writes or pauses.
pub struct Writer {
    /// A task has read access while it writes, the writer has write access while it pauses.
    gate: Arc<RwLock<()>>,
    pause: Option<OwnedRwLockWriteGuard<()>>,
    /// The number of successful writes.
    written: Arc<AtomicU64>,
    _tasks: JoinSet<()>,
}

/// What one task needs.
struct Task {
    client: Client,
    number: u64,
    rng: Rng,
}

#[derive(Clone, Copy)]
enum Kind {
    ConfigMap,
    Secret,
    Deployment,
    Widget,
    Pod,
}

impl Writer {
    /// Starts a writer, which pauses first.
    pub async fn start(client: Client, seed: u64) -> Self {
        let gate = Arc::<RwLock<()>>::default();
        let written = Arc::<AtomicU64>::default();
        let pause = Arc::clone(&gate).write_owned().await;
        let mut tasks = JoinSet::new();
        for number in 0..TASKS {
            let rng = Rng::with_seed(seed.wrapping_add(number));
            let mut task = Task { client: client.clone(), number, rng };
            let (gate, written) = (Arc::clone(&gate), Arc::clone(&written));
            tasks.spawn(async move {
                let mut ticks = tokio::time::interval(PERIOD);
                ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    ticks.tick().await;
                    let _open = gate.read().await;
                    if task.write().await.is_ok() {
                        written.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        Self { gate, pause: Some(pause), written, _tasks: tasks }
    }

    pub fn resume(&mut self) {
        self.pause = None;
    }

    /// Pauses, and waits for the writes that are in progress.
    pub async fn pause(&mut self) {
        if self.pause.is_none() {
            self.pause = Some(Arc::clone(&self.gate).write_owned().await);
        }
    }

    /// Writes for some time, then pauses. Fails if nothing could be written.
    pub async fn run_for(&mut self, duration: Duration) -> Result<()> {
        let before = self.written.load(Ordering::Relaxed);
        self.resume();
        tokio::time::sleep(duration).await;
        self.pause().await;
        ensure!(self.written.load(Ordering::Relaxed) > before, "the writer could not write for {duration:?}");
        Ok(())
    }
}

impl Task {
    async fn write(&mut self) -> Result<(), kube::Error> {
        let kinds = [Kind::ConfigMap, Kind::Secret, Kind::Deployment, Kind::Widget, Kind::Pod];
        let kind = kinds[self.rng.usize(..kinds.len())];
        let name = format!("{}-{}", self.number, self.rng.u64(..NAMES));
        let collection = kind.collection(NAMESPACES[self.rng.usize(..NAMESPACES.len())]);
        let path = format!("{collection}/{name}");
        if self.rng.u8(..100) < 15 {
            return self.send(Request::delete(path), JSON, &json!({"gracePeriodSeconds": 0})).await;
        }
        let stamp = format!("{}-{}", self.number, self.rng.u64(..));
        let tier = if self.rng.bool() { "front" } else { "back" };
        let metadata = json!({"labels": {"tier": tier}, "annotations": {STAMP: stamp}});
        let changed = match kind {
            Kind::Pod => {
                let phase = if self.rng.bool() { "Running" } else { "Pending" };
                let change = json!({"metadata": metadata, "status": {"phase": phase}});
                self.send(Request::patch(format!("{path}/status")), MERGE_PATCH, &change).await
            }
            Kind::ConfigMap | Kind::Secret | Kind::Deployment | Kind::Widget => {
                self.send(Request::patch(&path), MERGE_PATCH, &json!({"metadata": metadata})).await
            }
        };
        match changed {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let mut object = kind.template();
                object["metadata"] = metadata;
                object["metadata"]["name"] = name.into();
                self.send(Request::post(collection), JSON, &object).await
            }
            other => other,
        }
    }

    async fn send(&self, request: http::request::Builder, content_type: &str, body: &Value) -> Result<(), kube::Error> {
        let request = request.header("content-type", content_type).body(body.to_string().into_bytes());
        let request = request.map_err(kube::Error::HttpError)?;
        self.client.request_text(request).await.map(drop)
    }
}

const JSON: &str = "application/json";
const MERGE_PATCH: &str = "application/merge-patch+json";

impl Kind {
    fn collection(self, namespace: &str) -> String {
        match self {
            Self::ConfigMap => format!("/api/v1/namespaces/{namespace}/configmaps"),
            Self::Secret => format!("/api/v1/namespaces/{namespace}/secrets"),
            Self::Pod => format!("/api/v1/namespaces/{namespace}/pods"),
            Self::Deployment => format!("/apis/apps/v1/namespaces/{namespace}/deployments"),
            Self::Widget => format!("/apis/{GROUP}/v1/namespaces/{namespace}/widgets"),
        }
    }

    /// A valid object without metadata.
    fn template(self) -> Value {
        let pod = json!({"containers": [{"name": "main", "image": "web:1"}]});
        match self {
            Self::ConfigMap => json!({"data": {"colour": "red"}}),
            Self::Secret => json!({"stringData": {"password": "none"}}),
            Self::Pod => json!({"spec": pod}),
            Self::Deployment => {
                let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": pod});
                json!({"spec": {"selector": {"matchLabels": {"app": "web"}}, "template": template}})
            }
            Self::Widget => json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Widget", "spec": {"size": 1}}),
        }
    }
}
