//! Somebody wants it to end: Ctrl-C, or on Unix a polite `kill`.

use std::io;

/// The exit code of a command that was interrupted before it was done, as shells know it.
pub const CODE: u8 = 130;

/// Ends when somebody wants that.
pub async fn interrupted() -> io::Result<()> {
    Interrupts::new()?.next().await
}

/// Ends when somebody wants it badly: what ends well may still be busy with that.
pub async fn interrupted_twice() -> io::Result<()> {
    let mut interrupts = Interrupts::new()?;
    interrupts.next().await?;
    interrupts.next().await
}

struct Interrupts {
    #[cfg(unix)]
    terminated: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupted: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Interrupts {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::SignalKind;
        use tokio::signal::unix::signal;

        Ok(Self { terminated: signal(SignalKind::terminate())?, interrupted: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> io::Result<()> {
        tokio::select! {
            _ = self.terminated.recv() => Ok(()),
            _ = self.interrupted.recv() => Ok(()),
        }
    }
}

#[cfg(not(unix))]
impl Interrupts {
    fn new() -> io::Result<Self> {
        Ok(Self {})
    }

    async fn next(&mut self) -> io::Result<()> {
        tokio::signal::ctrl_c().await
    }
}
