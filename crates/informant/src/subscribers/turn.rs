//! Makes the workers of several informers call a shared handler one at a time.
//!
//! - **In:** workers that want to call the handler.
//! - **Out:** a turn, for one of them at a time; it is held while a future of the handler runs.
//! - **Knows nothing of:** the handler.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use tokio::sync::Notify;

/// The right to call a shared handler. Cheap to clone; all clones share one turn.
///
/// A free turn goes to the first worker that asks for it, not to the one that has waited longest: that one may belong to a runtime that
/// does not run any more, and the handler would never be called again.
#[derive(Clone, Default)]
pub(crate) struct Turn {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    is_taken: AtomicBool,
    freed: Notify,
}

/// A turn that is held. Dropping it frees the turn.
pub(crate) struct Taken<'a>(&'a Shared);

impl Turn {
    /// Takes the turn if it is free.
    pub(crate) fn try_take(&self) -> Option<Taken<'_>> {
        let was_taken = self.shared.is_taken.swap(true, Ordering::AcqRel);
        (!was_taken).then(|| Taken(&self.shared))
    }

    /// Waits until the turn is free, and takes it.
    ///
    /// Cancel safe.
    pub(crate) async fn take(&self) -> Taken<'_> {
        loop {
            let freed = self.shared.freed.notified();
            tokio::pin!(freed);
            // Registered before the check, so that a turn freed in between is not missed.
            freed.as_mut().enable();
            if let Some(taken) = self.try_take() {
                return taken;
            }
            freed.await;
        }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.is_taken.store(false, Ordering::Release);
        self.0.freed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_free_turn_goes_to_the_first_worker_that_asks_not_to_the_one_that_waited_longest() {
        let turn = Turn::default();
        let taken = turn.try_take().unwrap();
        assert!(turn.try_take().is_none());
        // It waits and is not polled any more.
        let mut asleep = Box::pin(turn.take());
        assert!(asleep.as_mut().now_or_never().is_none());

        drop(taken);

        drop(turn.take().now_or_never().unwrap());
        let taken = asleep.await;
        assert!(turn.try_take().is_none());
        drop(taken);
    }

    #[tokio::test]
    async fn all_waiting_workers_get_the_turn_one_at_a_time() {
        let (turn, mut waiting) = (Turn::default(), tokio::task::JoinSet::new());
        let inside = Arc::new(AtomicBool::new(false));
        for _ in 0..20 {
            let (turn, inside) = (turn.clone(), Arc::clone(&inside));
            waiting.spawn(async move {
                let _taken = turn.take().await;
                assert!(!inside.swap(true, Ordering::SeqCst), "no other task has the turn");
                tokio::task::yield_now().await;
                inside.store(false, Ordering::SeqCst);
            });
        }

        while let Some(ended) = waiting.join_next().await {
            ended.unwrap();
        }
    }
}
