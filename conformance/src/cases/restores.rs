//! The servers are restored from a snapshot of etcd: the writes since then are lost, and versions are used a second time.

use std::{
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rustix::process::Signal;
use tokio::time::{Instant as TokioInstant, sleep, sleep_until};

use super::{Case, run};
use crate::{
    servers::ApiServer,
    stage::{Failure, Stage},
};

pub fn cases() -> [Case; 10] {
    [
        Case::new("restored-quiet", "restored; nothing is written afterwards", 10, run!(quiet))
            .changing_history()
            .quick(),
        Case::new("restored-busy", "restored; the writer goes on", 10, run!(busy)).changing_history(),
        Case::new(
            "restored-overtaken",
            "restored and past the old version while the client stands still",
            10,
            run!(overtaken),
        )
        .changing_history()
        .quick(),
        Case::new("restored-kept", "restored while the proxy keeps connections, for at least 13 s", 10, run!(kept))
            .changing_history()
            .quick(),
        Case::new(
            "restored-held",
            "restored, then the proxy holds new connections for 9 s while the writer goes on",
            10,
            run!(held),
        )
        .changing_history(),
        Case::new("restored-twice", "restored twice, 5 s apart", 10, run!(twice)).changing_history(),
        Case::new("restored-twice-at-once", "restored twice in a row", 10, run!(twice_at_once)).changing_history(),
        Case::new("restored-again", "restored again before the client received an event", 10, run!(again))
            .changing_history(),
        Case::new("restored-bumped", "restored with --bump-revision and --mark-compacted", 10, run!(bumped))
            .changing_history()
            .unnamed(),
        Case::new(
            "restored-rolling",
            "one server restored, another with its old cache; the proxy flips",
            10,
            run!(rolling),
        )
        .changing_history(),
    ]
}

/// Writes, takes a snapshot, and writes more, which a restore then loses.
async fn snapshot(stage: &mut Stage) -> Result<PathBuf, Failure> {
    let path = stage.file("snapshot.db");
    stage.writer.run_for(Duration::from_secs(2)).await?;
    stage.etcd.save_snapshot(&path).await?;
    stage.writer.run_for(Duration::from_secs(3)).await?;
    stage.be_right_before_the_fault().await?;
    Ok(path)
}

/// Ends the servers, and starts them with the state of the snapshot.
async fn restore(stage: &mut Stage, snapshot: &Path, flags: &[&str]) -> Result<(), Failure> {
    stage.server.kill().await?;
    stage.etcd.restore(snapshot, flags).await?;
    Ok(stage.server.restart().await?)
}

/// Restores, and writes until the versions of the lost history are used again.
async fn restore_and_overtake(stage: &mut Stage, snapshot: &Path) -> Result<(), Failure> {
    let old = stage.etcd.revision().await?;
    restore(stage, snapshot, &[]).await?;
    while stage.etcd.revision().await? < old + 20 {
        stage.writer.run_for(Duration::from_millis(300)).await?;
    }
    Ok(())
}

async fn quiet(stage: &mut Stage) -> Result<(), Failure> {
    let snapshot = snapshot(stage).await?;
    restore(stage, &snapshot, &[]).await?;
    stage.recover_without_writes(Instant::now()).await
}

async fn busy(stage: &mut Stage) -> Result<(), Failure> {
    let snapshot = snapshot(stage).await?;
    stage.writer.resume();
    restore(stage, &snapshot, &[]).await?;
    stage.recover(Instant::now()).await
}

async fn overtaken(stage: &mut Stage) -> Result<(), Failure> {
    let snapshot = snapshot(stage).await?;
    stage.client.signal(Signal::STOP)?;
    let wake = TokioInstant::now() + Duration::from_secs(25);
    restore_and_overtake(stage, &snapshot).await?;
    sleep_until(wake).await;
    stage.client.signal(Signal::CONT)?;
    stage.recover(Instant::now()).await
}

async fn kept(stage: &mut Stage) -> Result<(), Failure> {
    let snapshot = snapshot(stage).await?;
    stage.proxy.set(|proxy| proxy.keeps_broken_connections = true);
    let cut = TokioInstant::now() + Duration::from_secs(13);
    restore_and_overtake(stage, &snapshot).await?;
    sleep_until(cut).await;
    stage.proxy.set(|proxy| proxy.keeps_broken_connections = false);
    stage.proxy.cut();
    stage.recover(Instant::now()).await
}

/// The client's connections are kept until the server is back, so that it loses no more than the nine seconds of the hold.
async fn held(stage: &mut Stage) -> Result<(), Failure> {
    let snapshot = snapshot(stage).await?;
    stage.proxy.set(|proxy| proxy.keeps_broken_connections = true);
    restore_and_overtake(stage, &snapshot).await?;
    stage.proxy.set(|proxy| (proxy.keeps_broken_connections, proxy.holds_new_connections) = (false, true));
    stage.proxy.cut();
    stage.writer.run_for(Duration::from_secs(9)).await?;
    stage.proxy.set(|proxy| proxy.holds_new_connections = false);
    stage.recover(Instant::now()).await
}

/// The writer goes on between the two restores.
async fn twice(stage: &mut Stage) -> Result<(), Failure> {
    let snapshot = snapshot(stage).await?;
    restore(stage, &snapshot, &[]).await?;
    stage.writer.run_for(Duration::from_secs(5)).await?;
    restore(stage, &snapshot, &[]).await?;
    stage.recover(Instant::now()).await
}

async fn twice_at_once(stage: &mut Stage) -> Result<(), Failure> {
    let snapshot = snapshot(stage).await?;
    restore(stage, &snapshot, &[]).await?;
    restore(stage, &snapshot, &[]).await?;
    stage.recover(Instant::now()).await
}

/// The client lists after the first restore.
async fn again(stage: &mut Stage) -> Result<(), Failure> {
    let snapshot = snapshot(stage).await?;
    restore(stage, &snapshot, &[]).await?;
    stage.be_right_before_the_fault().await?;
    restore(stage, &snapshot, &[]).await?;
    stage.recover(Instant::now()).await
}

async fn bumped(stage: &mut Stage) -> Result<(), Failure> {
    let snapshot = snapshot(stage).await?;
    restore(stage, &snapshot, &["--bump-revision=1000000000", "--mark-compacted"]).await?;
    stage.recover(Instant::now()).await
}

/// The other server has the lost history in its watch cache. The client lists on the restored server, and the other one sends it the
/// lost changes as news. Then the writer overtakes the old version, so that both servers have the newest event of the client.
async fn rolling(stage: &mut Stage) -> Result<(), Failure> {
    let mut other = ApiServer::start("kube-apiserver-b", &stage.folders, &stage.authority, &stage.etcd, &[]).await?;
    let snapshot = snapshot(stage).await?;
    let old = stage.etcd.revision().await?;
    restore(stage, &snapshot, &[]).await?;
    let servers = [stage.server.address(), other.address()];
    for flip in 0..8 {
        stage.proxy.set(|proxy| proxy.server = servers[flip % 2]);
        stage.proxy.cut();
        sleep(Duration::from_secs(7)).await;
        if flip == 1 {
            // Not for longer than needed: each write hides a lost one.
            while stage.etcd.revision().await? < old + 20 {
                stage.writer.run_for(Duration::from_millis(300)).await?;
            }
        }
    }
    stage.proxy.set(|proxy| proxy.server = servers[0]);
    stage.proxy.cut();
    other.kill().await?;
    other.restart().await?;
    stage.recover(Instant::now()).await
}
