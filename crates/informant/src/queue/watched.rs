//! A lock with wake-ups around the plain state of a queue. Both queues use it.

use parking_lot::Mutex;
use tokio::sync::Notify;

/// The plain state of a queue, which holds its rules.
pub(super) trait QueueState {
    /// The objects that a call displaced.
    type Discarded;

    /// Takes the objects that the last call displaced. The caller drops them after it has released the lock: their destructors
    /// are users' code, which may call the queue.
    fn take_discarded(&mut self) -> Self::Discarded;
}

/// A state that several tasks change and wait for.
pub(super) struct Watched<S> {
    state: Mutex<S>,
    changed: Notify,
}

impl<S: QueueState> Watched<S> {
    pub(super) fn new(state: S) -> Self {
        Self { state: Mutex::new(state), changed: Notify::new() }
    }

    /// Reads the state, or makes a change that no task waits for.
    pub(super) fn with<R>(&self, look: impl FnOnce(&mut S) -> R) -> R {
        let (result, discarded) = self.locked(look);
        drop(discarded);
        result
    }

    /// Changes the state and wakes all waiting tasks.
    pub(super) fn update<R>(&self, change: impl FnOnce(&mut S) -> R) -> R {
        let (result, discarded) = self.locked(change);
        self.changed.notify_waiters();
        drop(discarded);
        result
    }

    fn locked<R>(&self, act: impl FnOnce(&mut S) -> R) -> (R, S::Discarded) {
        let mut state = self.state.lock();
        let result = act(&mut state);
        (result, state.take_discarded())
    }

    /// Waits until `attempt` returns a result. It is called at once, and again after each update.
    ///
    /// Cancel safe: the result of `attempt` is returned without a further await.
    pub(super) async fn wait_for<R>(&self, mut attempt: impl FnMut(&mut S) -> Option<R>) -> R {
        if let Some(result) = self.with(&mut attempt) {
            return result;
        }
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registers for the notification before the state is read, so that an update in between is not missed.
            changed.as_mut().enable();
            if let Some(result) = self.with(&mut attempt) {
                return result;
            }
            changed.await;
        }
    }
}
