//! Tokens and certificates are replaced.

use std::time::{Duration, Instant};

use super::{Case, run};
use crate::{
    servers::Authority,
    stage::{Failure, Stage},
    tls,
};

/// kube reads a token file again when its token is this old.
const TOKEN_AGE: Duration = Duration::from_secs(50);

pub fn cases() -> [Case; 2] {
    [
        Case::new("token-replaced", "the token and the server's certificate are replaced", 10, run!(token_replaced)),
        Case::new("other-authority", "certificates of another authority for 30 s", 10, run!(other_authority)),
    ]
}

/// The old token is refused at once, and the client reads the new one up to 50 s later.
async fn token_replaced(stage: &mut Stage) -> Result<(), Failure> {
    stage.writer.run_for(Duration::from_secs(2)).await?;
    stage.server.kill().await?;
    stage.write_token("client-1")?;
    let read_again = Instant::now() + TOKEN_AGE;
    stage.server.set_client_token("client-1");
    let acceptor = tls::acceptor(&stage.authority.issue()?)?;
    stage.proxy.set(|proxy| proxy.acceptor = acceptor);
    stage.server.restart().await?;
    stage.wait_while_down(read_again.saturating_duration_since(Instant::now())).await?;
    stage.recover(Instant::now()).await
}

async fn other_authority(stage: &mut Stage) -> Result<(), Failure> {
    let right = tls::acceptor(&stage.authority.issue()?)?;
    let wrong = tls::acceptor(&Authority::new("another authority")?.issue()?)?;
    stage.proxy.set(|proxy| proxy.acceptor = wrong);
    stage.proxy.cut();
    stage.writer.run_for(Duration::from_secs(2)).await?;
    stage.wait_while_down(Duration::from_secs(28)).await?;
    stage.proxy.set(|proxy| proxy.acceptor = right);
    stage.recover(Instant::now()).await
}
