//! Interrupt signals: Ctrl-C, and SIGTERM on Unix. The first one asks the command to stop; the second one ends the process at once.

use std::io;

use tokio::sync::watch;

/// The exit code of a command that was interrupted before it completed; the shells' code for SIGINT.
pub const CODE: u8 = 130;

/// Receives the signals from the moment it is created.
pub struct Interrupts {
    signals: Signals,
    first: watch::Sender<bool>,
}

/// A command's view of the first signal.
pub struct Interrupt {
    first: watch::Receiver<bool>,
}

impl Interrupts {
    /// Installs the signal handlers. Must be called within a tokio runtime.
    pub fn new() -> io::Result<(Self, Interrupt)> {
        let (sender, receiver) = watch::channel(false);
        Ok((Self { signals: Signals::new()?, first: sender }, Interrupt { first: receiver }))
    }

    /// Completes at the second signal; reports the first one to [`Interrupt`].
    pub async fn twice(mut self) -> io::Result<()> {
        self.signals.next().await?;
        self.first.send_replace(true);
        self.signals.next().await
    }
}

impl Interrupt {
    /// Completes at the first signal, or at once if it has already been received.
    pub async fn received(&mut self) {
        if self.first.wait_for(|is_received| *is_received).await.is_err() {
            // The signal receiver is gone, so no signal will arrive.
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(unix)]
struct Signals {
    terminated: tokio::signal::unix::Signal,
    interrupted: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};

        Ok(Self { terminated: signal(SignalKind::terminate())?, interrupted: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) -> io::Result<()> {
        tokio::select! {
            _ = self.terminated.recv() => Ok(()),
            _ = self.interrupted.recv() => Ok(()),
        }
    }
}

#[cfg(windows)]
struct Signals {
    interrupted: tokio::signal::windows::CtrlC,
}

#[cfg(windows)]
impl Signals {
    fn new() -> io::Result<Self> {
        Ok(Self { interrupted: tokio::signal::windows::ctrl_c()? })
    }

    async fn next(&mut self) -> io::Result<()> {
        self.interrupted.recv().await;
        Ok(())
    }
}
