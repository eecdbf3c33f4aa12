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
