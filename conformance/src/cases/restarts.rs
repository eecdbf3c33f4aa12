//! kube-apiserver ends and is started again.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::{Case, run};
use crate::stage::{Failure, Stage};

pub fn cases() -> [Case; 6] {
    [
        Case::new("killed", "killed and restarted ten times, at random moments", 5, run!(killed)).quick(),
        Case::new("terminated", "ended with SIGTERM and restarted", 5, run!(terminated)),
        Case::new("down-30s", "killed, restarted after 30 s", 5, run!(down, 30)),
        Case::new("down-60s", "killed, restarted after 60 s", 5, run!(down, 60)),
        Case::new("down-60s-again", "killed for 60 s, 4 s after a recovery", 5, run!(down_again)),
        Case::new("crash-loop", "up for 3 s without an event, down for 25 s, four times", 5, run!(crash_loop)).quick(),
    ]
}

async fn killed(stage: &mut Stage) -> Result<(), Failure> {
    for _ in 0..if stage.is_quick { 1 } else { 10 } {
        stage.writer.resume();
        sleep(Duration::from_millis(stage.rng.u64(200..4000))).await;
        stage.server.kill().await?;
        restart(stage).await?;
    }
    Ok(())
}

async fn terminated(stage: &mut Stage) -> Result<(), Failure> {
    stage.writer.resume();
    sleep(Duration::from_secs(2)).await;
    stage.server.terminate().await?;
    restart(stage).await
}

async fn down(stage: &mut Stage, seconds: u64) -> Result<(), Failure> {
    stage.writer.resume();
    sleep(Duration::from_secs(2)).await;
    stage.server.kill().await?;
    stage.wait_while_down(Duration::from_secs(seconds)).await?;
    restart(stage).await
}

/// The client lists after the first outage, and receives no event before the second one.
async fn down_again(stage: &mut Stage) -> Result<(), Failure> {
    make_the_client_list(stage).await?;
    stage.be_right_before_the_fault().await?;
    sleep(Duration::from_secs(4)).await;
    stage.server.kill().await?;
    stage.wait_while_down(Duration::from_secs(60)).await?;
    restart(stage).await
}

async fn crash_loop(stage: &mut Stage) -> Result<(), Failure> {
    make_the_client_list(stage).await?;
    for _ in 0..if stage.is_quick { 2 } else { 4 } {
        sleep(Duration::from_secs(3)).await;
        stage.server.kill().await?;
        stage.wait_while_down(Duration::from_secs(25)).await?;
        stage.server.restart().await?;
    }
    stage.recover(Instant::now()).await
}

/// Kills and restarts the server after the client has missed changes: the server has dropped them from its watch cache, so the client
/// lists.
async fn make_the_client_list(stage: &mut Stage) -> Result<(), Failure> {
    stage.write_behind_the_client(Duration::from_secs(2)).await?;
    stage.server.kill().await?;
    stage.server.restart().await?;
    stage.proxy.set(|proxy| proxy.holds_new_connections = false);
    Ok(())
}

/// Starts the server, and measures the time from its `/readyz` on.
async fn restart(stage: &mut Stage) -> Result<(), Failure> {
    stage.server.restart().await?;
    stage.recover(Instant::now()).await
}
