//! The servers answer, but not with what was asked for.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use super::{Case, run};
use crate::{
    proxy::Answer,
    stage::{Failure, Stage, set_permissions},
};

pub fn cases() -> [Case; 8] {
    [
        Case::new("answers-429", "60 s of 429 with Retry-After: 1, three times", 5, run!(refused, 429)),
        Case::new("answers-503", "60 s of 503, three times", 5, run!(refused, 503)),
        Case::new("answers-401", "60 s of 401, three times", 5, run!(refused, 401)),
        Case::new("answers-403", "60 s of 403, three times", 5, run!(refused, 403)),
        // A request that hangs is given up after some time; only the next one can succeed.
        Case::new("answers-hang", "60 s of requests that are never answered", 25, run!(hanging)),
        Case::new(
            "answers-delayed",
            "60 s of answers that are delayed by 3 s, with a cut every 10 s",
            5,
            run!(delayed),
        ),
        Case::new("watch-forbidden", "`watch` is forbidden for 45 s, `list` is not", 5, run!(watch_forbidden)),
        Case::new("role-granted", "everything is forbidden until a role is granted after 50 s", 5, run!(role_granted)),
    ]
}

/// Answers all requests of the client with a fault for a minute, after two seconds of writes.
async fn answer_for_a_minute(stage: &mut Stage, answer: Answer) -> Result<(), Failure> {
    stage.proxy.set(|proxy| proxy.answer = Some(answer));
    stage.proxy.cut();
    stage.writer.run_for(Duration::from_secs(2)).await?;
    stage.wait_while_down(Duration::from_secs(58)).await?;
    stage.proxy.set(|proxy| proxy.answer = None);
    Ok(())
}

/// Three times: the delay that is left at the end of the minute is random.
async fn refused(stage: &mut Stage, code: u16) -> Result<(), Failure> {
    for _ in 0..3 {
        answer_for_a_minute(stage, Answer::Status(code)).await?;
        if code == 429 {
            sleep(Duration::from_secs(1)).await; // Retry-After
        }
        stage.recover(Instant::now()).await?;
    }
    Ok(())
}

async fn hanging(stage: &mut Stage) -> Result<(), Failure> {
    answer_for_a_minute(stage, Answer::Hang).await?;
    stage.recover(Instant::now()).await
}

async fn delayed(stage: &mut Stage) -> Result<(), Failure> {
    stage.proxy.set(|proxy| proxy.answer = Some(Answer::Delay(Duration::from_secs(3))));
    for _ in 0..6 {
        stage.proxy.cut();
        stage.writer.run_for(Duration::from_secs(10)).await?;
    }
    stage.proxy.set(|proxy| proxy.answer = None);
    stage.recover(Instant::now()).await
}

async fn watch_forbidden(stage: &mut Stage) -> Result<(), Failure> {
    forbid_all_but(stage, &["get", "list"], Duration::from_secs(45)).await
}

async fn role_granted(stage: &mut Stage) -> Result<(), Failure> {
    forbid_all_but(stage, &[], Duration::from_secs(50)).await
}

/// Restricts the client's role for some time, while the writer goes on.
async fn forbid_all_but(stage: &mut Stage, verbs: &[&str], duration: Duration) -> Result<(), Failure> {
    set_permissions(&stage.server.admin, verbs).await?;
    stage.proxy.cut();
    stage.writer.resume();
    sleep(duration).await;
    stage.writer.pause().await;
    set_permissions(&stage.server.admin, &["get", "list", "watch"]).await?;
    stage.recover(Instant::now()).await
}
