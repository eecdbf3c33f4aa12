//! Results, written without keeping anybody else waiting; whoever reads them may go.

use std::io;

use tokio::io::AsyncWriteExt;

/// Where results go.
pub struct Stdout {
    out: tokio::io::Stdout,
}

/// Whether somebody still reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Audience {
    Reads,
    Gone,
}

/// Results cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("stdout cannot be written to")]
pub struct StdoutError(#[source] io::Error);

/// Waits until nobody reads any more, as far as that can be known without writing: of pipes.
#[cfg(unix)]
pub async fn gone() {
    use std::os::fd::AsFd;

    use tokio::io::Interest;
    use tokio::net::unix::pipe::Sender;

    // Nothing is written to it here, so it need not be made non-blocking, which others would notice. A file cannot be waited for.
    let stdout = io::stdout().as_fd().try_clone_to_owned().and_then(Sender::from_owned_fd_unchecked);
    match stdout {
        Ok(stdout) if stdout.ready(Interest::ERROR).await.is_ok() => {}
        Ok(_) | Err(_) => std::future::pending().await,
    }
}

/// Waits until nobody reads any more; here, that is known by writing alone.
#[cfg(not(unix))]
pub async fn gone() {
    std::future::pending::<()>().await;
}

impl Stdout {
    pub fn new() -> Self {
        Self { out: tokio::io::stdout() }
    }

    /// Writes all of it. A reader who has gone has had enough, which is no failure.
    pub async fn write(&mut self, text: &[u8]) -> Result<Audience, StdoutError> {
        let written = async {
            self.out.write_all(text).await?;
            self.out.flush().await
        };
        match written.await {
            Ok(()) => Ok(Audience::Reads),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(Audience::Gone),
            Err(error) => Err(StdoutError(error)),
        }
    }
}
