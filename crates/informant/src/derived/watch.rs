//! Wake-ups, for programs that read a map again whenever it has changed.
//!
//! - **In:** a signal for each change.
//! - **Out:** wake-ups, at most one in each period.
//! - **Knows nothing of:** entries.

use std::time::Duration;

use tokio::{
    sync::watch,
    time::{Instant, timeout},
};

/// Wakes a program when a [`DerivedMap`](super::DerivedMap) has changed. The program then reads the map.
#[derive(Debug)]
pub struct ChangeWatch {
    /// Receives a value for each change: whether the map has stopped.
    wake_ups: watch::Receiver<bool>,
    period: Duration,
    /// When the last call returned, if there is a period.
    last: Option<Instant>,
}

impl ChangeWatch {
    pub(super) fn new(wake_ups: watch::Receiver<bool>) -> Self {
        Self { wake_ups, period: Duration::ZERO, last: None }
    }

    fn has_stopped(&self) -> bool {
        *self.wake_ups.borrow()
    }

    /// Waits at least this long after a wake-up before the next one.
    pub fn at_most_every(mut self, period: Duration) -> Self {
        self.period = period;
        self
    }

    /// Waits until the map has changed since the last call, or since the watch was made; false when the map has stopped.
    ///
    /// Cancel safe.
    pub async fn changed(&mut self) -> bool {
        if let Some(last) = self.last {
            // Ends early if the map stops.
            let pause = self.period.saturating_sub(last.elapsed());
            let _ = timeout(pause, self.wake_ups.clone().wait_for(|is_stopped| *is_stopped)).await;
        }
        if self.has_stopped() || self.wake_ups.changed().await.is_err() || self.has_stopped() {
            return false;
        }
        self.last = (!self.period.is_zero()).then(Instant::now);
        true
    }
}
