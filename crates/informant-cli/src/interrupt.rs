//! Somebody wants it to end: Ctrl-C, or on Unix a polite `kill`. Once, and it ends well; twice, and it ends at once.

use std::io;

use tokio::sync::watch;

/// The exit code of a command that was interrupted before it was done, as shells know it.
pub const CODE: u8 = 130;

/// Hears of it from the moment it is made.
pub struct Interrupts {
    signals: Signals,
    first: watch::Sender<bool>,
}

/// Whether it has happened, for a command that ends well then.
pub struct Interrupt {
    first: watch::Receiver<bool>,
}

impl Interrupts {
    /// Within a runtime.
    pub fn new() -> io::Result<(Self, Interrupt)> {
        let (sender, receiver) = watch::channel(false);
        Ok((Self { signals: Signals::new()?, first: sender }, Interrupt { first: receiver }))
    }

    /// Ends when it has happened twice.
    pub async fn twice(mut self) -> io::Result<()> {
        self.signals.next().await?;
        self.first.send_replace(true);
        self.signals.next().await
    }
}

impl Interrupt {
    /// Ends when it has happened, also if that was before.
    pub async fn happened(&mut self) {
        if self.first.wait_for(|happened| *happened).await.is_err() {
            // Nobody listens to signals any more: it will not happen.
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
