//! Somebody wants it to end: Ctrl-C, or on Unix a polite `kill`.

use std::io;

/// Waits for it.
#[cfg(unix)]
pub async fn interrupted() -> io::Result<()> {
    use tokio::signal::unix::SignalKind;
    use tokio::signal::unix::signal;

    let mut terminated = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted,
        _ = terminated.recv() => Ok(()),
    }
}

/// Waits for it.
#[cfg(not(unix))]
pub async fn interrupted() -> io::Result<()> {
    tokio::signal::ctrl_c().await
}
