//! etcd: started, killed, compacted, and restored from a snapshot.

use std::{fs::File, io::Write, path::Path, time::Duration};

use anyhow::{Context, Result, bail};
use base64::{Engine, prelude::BASE64_STANDARD};
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{Folders, free_port};
use crate::process::Process;

/// An etcd with one member.
pub struct Etcd {
    folders: Folders,
    ports: Ports,
    /// Counts the data folders: each restore makes a new one.
    generation: u32,
    process: Option<Process>,
    http: Client<HttpConnector, Full<Bytes>>,
}

#[derive(Clone, Copy)]
struct Ports {
    client: u16,
    peer: u16,
}

impl Etcd {
    /// Starts an empty etcd.
    pub async fn start(folders: &Folders) -> Result<Self> {
        let http = Client::builder(TokioExecutor::new()).build_http();
        let mut last_error = None;
        for _ in 0..3 {
            let ports = Ports { client: free_port()?, peer: free_port()? };
            let mut etcd = Self { folders: folders.clone(), ports, generation: 0, process: None, http: http.clone() };
            match etcd.start_process().await {
                Ok(()) => return Ok(etcd),
                Err(error) => last_error = Some(error),
            }
        }
        Err(last_error.context("three tries")?)
    }

    /// Starts the process with the current data, and waits until it answers.
    async fn start_process(&mut self) -> Result<()> {
        let (client, peer) = (self.client_url(), self.peer_url());
        let flags = [
            format!("--data-dir={}", self.data_folder()),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
            // The tests kill processes, never the machine.
            "--unsafe-no-fsync".into(),
            "--log-level=warn".into(),
        ];
        let log = self.folders.case.join("etcd.log");
        self.process = Some(Process::start(&self.folders.programs.join("etcd"), &flags, &log)?);
        let answer = async {
            while self.revision().await.is_err() {
                self.process.as_mut().context("etcd does not run")?.check()?;
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Ok(())
        };
        tokio::time::timeout(Duration::from_secs(60), answer).await.context("etcd did not answer within 60 s")?
    }

    pub fn client_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.client)
    }

    fn peer_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.ports.peer)
    }

    fn data_folder(&self) -> String {
        self.folders.case.join(format!("etcd-{}", self.generation)).display().to_string()
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        self.process.as_ref().context("etcd does not run")?.signal(signal)
    }

    async fn kill(&mut self) -> Result<()> {
        self.process.take().context("etcd does not run")?.kill().await
    }

    /// Writes a snapshot of the current state to a file.
    pub async fn save_snapshot(&self, path: &Path) -> Result<()> {
        let body = self.send("/v3/maintenance/snapshot", &json!({})).await?.collect().await?.to_bytes();
        let mut file = File::create(path)?;
        for part in serde_json::Deserializer::from_slice(&body).into_iter::<Value>() {
            let part = part?;
            let blob = part["result"]["blob"].as_str().with_context(|| format!("a part of a snapshot: {part}"))?;
            file.write_all(&BASE64_STANDARD.decode(blob)?)?;
        }
        Ok(())
    }

    /// Kills etcd, and starts it with the state of a snapshot. `flags` are further flags of `etcdutl snapshot restore`.
    pub async fn restore(&mut self, snapshot: &Path, flags: &[&str]) -> Result<()> {
        self.kill().await?;
        self.generation += 1;
        let mut arguments = vec![
            "snapshot".into(),
            "restore".into(),
            snapshot.display().to_string(),
            format!("--data-dir={}", self.data_folder()),
            format!("--initial-cluster=default={}", self.peer_url()),
            format!("--initial-advertise-peer-urls={}", self.peer_url()),
        ];
        arguments.extend(flags.iter().copied().map(str::to_owned));
        let log = self.folders.case.join("etcdutl.log");
        Process::start(&self.folders.programs.join("etcdutl"), &arguments, &log)?.succeed().await?;
        self.start_process().await
    }

    /// Drops the history up to the current revision.
    pub async fn compact(&self) -> Result<()> {
        let revision = self.revision().await?;
        self.post("/v3/kv/compaction", &json!({"revision": revision.to_string(), "physical": true})).await?;
        Ok(())
    }

    /// The current revision, which is the newest resource version of the API server.
    pub async fn revision(&self) -> Result<u64> {
        let status = self.post("/v3/maintenance/status", &json!({})).await?;
        let revision = status["header"]["revision"].as_str().context("etcd's status has no revision")?;
        Ok(revision.parse()?)
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value> {
        let answer = tokio::time::timeout(Duration::from_secs(10), async {
            anyhow::Ok(self.send(path, body).await?.collect().await?.to_bytes())
        });
        Ok(serde_json::from_slice(&answer.await??)?)
    }

    async fn send(&self, path: &str, body: &Value) -> Result<Incoming> {
        let url = format!("{}{path}", self.client_url());
        let answer = self.http.request(Request::post(url).body(Full::from(body.to_string()))?).await?;
        if !answer.status().is_success() {
            bail!("etcd answered {path} with {}", answer.status());
        }
        Ok(answer.into_body())
    }
}
