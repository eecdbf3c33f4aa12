//! The definition of a custom kind is deleted and created.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::{Case, run};
use crate::stage::{Failure, Stage, define_widgets, delete_widgets};

pub fn cases() -> [Case; 2] {
    [
        Case::new("kind-deleted", "a custom kind is deleted, and created 40 s later", 5, run!(deleted, 40)),
        Case::new("kind-recreated", "a custom kind is deleted and created at once", 5, run!(deleted, 0)),
    ]
}

async fn deleted(stage: &mut Stage, seconds: u64) -> Result<(), Failure> {
    stage.writer.resume();
    delete_widgets(&stage.server.admin).await?;
    sleep(Duration::from_secs(seconds)).await;
    define_widgets(&stage.server.admin).await?;
    stage.recover(Instant::now()).await
}
