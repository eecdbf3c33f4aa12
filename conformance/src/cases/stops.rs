//! A process stands still for 30 s (SIGSTOP), or etcd drops its history.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::time::sleep;

use super::{Case, run};
use crate::stage::{Failure, Stage};

const STOPPED: Duration = Duration::from_secs(30);

pub fn cases() -> [Case; 4] {
    [
        Case::new("etcd-stopped", "etcd stands still for 30 s", 5, run!(etcd_stopped)),
        Case::new("server-stopped", "kube-apiserver stands still for 30 s", 5, run!(server_stopped)),
        Case::new(
            "client-stopped",
            "the client stands still for 30 s, while the writer goes on",
            5,
            run!(client_stopped),
        ),
        Case::new("compacted", "etcd drops its history while the server is down", 5, run!(compacted)),
    ]
}

async fn etcd_stopped(stage: &mut Stage) -> Result<(), Failure> {
    stage.writer.resume();
    sleep(Duration::from_secs(2)).await;
    stage.etcd.signal(Signal::STOP)?;
    sleep(STOPPED).await;
    stage.etcd.signal(Signal::CONT)?;
    stage.server.ready().await?;
    stage.recover(Instant::now()).await
}

async fn server_stopped(stage: &mut Stage) -> Result<(), Failure> {
    stage.writer.resume();
    sleep(Duration::from_secs(2)).await;
    stage.server.signal(Signal::STOP)?;
    stage.wait_while_down(STOPPED).await?;
    stage.server.signal(Signal::CONT)?;
    stage.server.ready().await?;
    stage.recover(Instant::now()).await
}

async fn client_stopped(stage: &mut Stage) -> Result<(), Failure> {
    stage.client.signal(Signal::STOP)?;
    stage.writer.run_for(STOPPED).await?;
    stage.client.signal(Signal::CONT)?;
    stage.recover(Instant::now()).await
}

/// The client misses changes that the server cannot replay: its watches get 410.
async fn compacted(stage: &mut Stage) -> Result<(), Failure> {
    stage.write_behind_the_client(Duration::from_secs(5)).await?;
    stage.server.kill().await?;
    stage.etcd.compact().await?;
    stage.server.restart().await?;
    stage.proxy.set(|proxy| proxy.holds_new_connections = false);
    stage.recover(Instant::now()).await
}
