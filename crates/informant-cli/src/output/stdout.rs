//! Results on stdout, written without blocking other tasks. A reader that closes the pipe is not an error.

use std::io;

use tokio::io::AsyncWriteExt;

/// Writes results to stdout.
pub struct Stdout {
    out: tokio::io::Stdout,
}

/// Whether stdout still has a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum StdoutState {
    Open,
    /// The reader has closed the pipe.
    Closed,
}

/// Writing to stdout failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to stdout")]
pub struct StdoutError(#[source] io::Error);

/// Waits until the reader closes stdout. Without a write this can be detected only if stdout is a pipe; otherwise it waits forever.
#[cfg(unix)]
pub async fn closed() {
    use std::os::fd::AsFd;

    use tokio::{io::Interest, net::unix::pipe::Sender};

    // Nothing is written here, so stdout is not made non-blocking; other users of the same stdout would notice that. For a file
    // this fails.
    let stdout = io::stdout().as_fd().try_clone_to_owned().and_then(Sender::from_owned_fd_unchecked);
    match stdout {
        Ok(stdout) if stdout.ready(Interest::ERROR).await.is_ok() => {}
        Ok(_) | Err(_) => std::future::pending().await,
    }
}

/// Waits forever: on this platform, a closed stdout is detected only by a write.
#[cfg(not(unix))]
pub async fn closed() {
    std::future::pending::<()>().await;
}

impl Stdout {
    pub fn new() -> Self {
        Self { out: tokio::io::stdout() }
    }

    /// Writes all of the text and flushes it. A closed pipe is a result, not an error.
    pub async fn write(&mut self, text: &[u8]) -> Result<StdoutState, StdoutError> {
        let written = async {
            self.out.write_all(text).await?;
            self.out.flush().await
        };
        match written.await {
            Ok(()) => Ok(StdoutState::Open),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(StdoutState::Closed),
            Err(error) => Err(StdoutError(error)),
        }
    }
}
