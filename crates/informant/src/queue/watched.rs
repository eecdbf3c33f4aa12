//! A plain state behind a lock, with a wake-up: the shell that both queues share.

use parking_lot::Mutex;
use tokio::sync::Notify;

/// A state that many may change and wait for.
pub(super) struct Watched<S> {
    state: Mutex<S>,
    changed: Notify,
}

impl<S> Watched<S> {
    pub(super) fn new(state: S) -> Self {
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    /// Looks, or changes something that nobody waits for.
    pub(super) fn with<R>(&self, look: impl FnOnce(&mut S) -> R) -> R {
        look(&mut self.state.lock())
    }

    /// Changes the state and wakes all who wait.
    pub(super) fn update<R>(&self, change: impl FnOnce(&mut S) -> R) -> R {
        let result = self.with(change);
        self.changed.notify_waiters();
        result
    }

    /// Waits until `attempt` gives something. It is tried at once, and again after each update.
    ///
    /// Cancel safe: `attempt` either has given its result to the caller, or was not successful.
    pub(super) async fn wait_for<R>(&self, mut attempt: impl FnMut(&mut S) -> Option<R>) -> R {
        if let Some(result) = self.with(&mut attempt) {
            return result;
        }
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Enlisted before looking, so that no update can slip in between unnoticed.
            changed.as_mut().enable();
            if let Some(result) = self.with(&mut attempt) {
                return result;
            }
            changed.await;
        }
    }
}
