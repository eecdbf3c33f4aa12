//! Watches lose events, and nothing else fails: only an audit can find it.

use std::time::{Duration, Instant};

use super::{Case, run};
use crate::stage::{Failure, Stage};

/// The client is audited every five minutes, 10 % earlier or later. An audit waits for the next bookmark, which takes a minute at most.
const BAR_S: u64 = 400;

pub fn cases() -> [Case; 1] {
    [Case::new(
        "lost-events",
        "a proxy loses the events of three seconds, and an audit finds it",
        BAR_S,
        run!(lost_events),
    )]
}

async fn lost_events(stage: &mut Stage) -> Result<(), Failure> {
    stage.proxy.set(|proxy| proxy.loses_events = true);
    stage.writer.run_for(Duration::from_secs(3)).await?;
    stage.proxy.set(|proxy| proxy.loses_events = false);
    let end = Instant::now();
    if stage.become_right().await.is_ok() {
        return Err(Failure::Broken("the client became right without an audit".into()));
    }
    while end.elapsed() < Duration::from_secs(BAR_S) && stage.become_right().await.is_err() {}
    stage.recover_without_writes(end).await
}
