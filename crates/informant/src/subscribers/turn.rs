//! Who may call a handler that several informers have: one at a time.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering;

use tokio::sync::Notify;

/// Whoever holds it calls the handler. Clones are of the same.
///
/// It is taken by whoever is awake when it is free, not given to whoever has waited longest: that one may be in a runtime that
/// nobody drives any more, and then nobody would be called.
#[derive(Clone, Default)]
pub(crate) struct Turn {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    is_taken: AtomicBool,
    freed: Notify,
}

/// It is over when this is dropped.
pub(crate) struct Taken<'a>(&'a Shared);

impl Turn {
    /// Takes it, if nobody has it.
    pub(crate) fn try_take(&self) -> Option<Taken<'_>> {
        let was_taken = self.shared.is_taken.swap(true, Ordering::AcqRel);
        (!was_taken).then(|| Taken(&self.shared))
    }

    /// Waits until nobody has it, and takes it.
    ///
    /// Cancel safe.
    pub(crate) async fn take(&self) -> Taken<'_> {
        loop {
            let freed = self.shared.freed.notified();
            tokio::pin!(freed);
            // Enlisted before looking, so that it cannot become free in between unnoticed.
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
    async fn whoever_asks_when_it_is_free_has_it_also_if_others_have_waited_longer() {
        let turn = Turn::default();
        let taken = turn.try_take().unwrap();
        assert!(turn.try_take().is_none());
        // It waits, and then nobody drives it any more.
        let mut asleep = Box::pin(turn.take());
        assert!(asleep.as_mut().now_or_never().is_none());

        drop(taken);

        drop(turn.take().now_or_never().unwrap());
        let taken = asleep.await;
        assert!(turn.try_take().is_none());
        drop(taken);
    }

    #[tokio::test]
    async fn all_who_wait_come_to_have_it_one_at_a_time() {
        let (turn, mut waiting) = (Turn::default(), tokio::task::JoinSet::new());
        let inside = Arc::new(AtomicBool::new(false));
        for _ in 0..20 {
            let (turn, inside) = (turn.clone(), Arc::clone(&inside));
            waiting.spawn(async move {
                let _taken = turn.take().await;
                assert!(!inside.swap(true, Ordering::SeqCst), "nobody else has it");
                tokio::task::yield_now().await;
                inside.store(false, Ordering::SeqCst);
            });
        }

        while let Some(ended) = waiting.join_next().await {
            ended.unwrap();
        }
    }
}
