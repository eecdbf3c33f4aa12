//! Makes the workers of several informers call a shared handler one at a time.
//!
//! - **In:** workers that want to call the handler.
//! - **Out:** a guard, for one of them at a time; the guard is held while the handler is called and while a future of the handler runs.
//! - **Knows nothing of:** the handler.

use tokio::sync::watch;

/// The right to call a shared handler. Cheap to clone; all clones are one lock.
///
/// The first worker that asks for a free lock gets it. `tokio::sync::Mutex` would give it to the worker that has waited longest; if the
/// runtime of that worker does not run any more, the handler would never be called again.
#[derive(Clone, Default)]
pub(crate) struct CallLock {
    is_held: watch::Sender<bool>,
}

/// Dropping it frees the lock.
pub(crate) struct CallGuard<'a>(&'a CallLock);

impl CallLock {
    /// Takes the lock if it is free.
    pub(crate) fn try_lock(&self) -> Option<CallGuard<'_>> {
        let was_free = self.is_held.send_if_modified(|is_held| !std::mem::replace(is_held, true));
        was_free.then(|| CallGuard(self))
    }

    /// Waits until the lock is free, and takes it.
    ///
    /// Cancel safe.
    pub(crate) async fn lock(&self) -> CallGuard<'_> {
        let mut is_held = self.is_held.subscribe();
        loop {
            if let Some(guard) = self.try_lock() {
                return guard;
            }
            // `wait_for` fails only if the sender is dropped, but `self` holds it.
            let _ = is_held.wait_for(|is_held| !is_held).await;
        }
    }
}

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.0.is_held.send_replace(false);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    };

    use futures_util::FutureExt;

    use super::*;

    #[tokio::test]
    async fn a_free_call_lock_goes_to_the_first_worker_that_asks_not_to_the_one_that_waited_longest() {
        let call_lock = CallLock::default();
        let guard = call_lock.try_lock().unwrap();
        assert!(call_lock.try_lock().is_none());
        // It waits and is not polled any more.
        let mut asleep = Box::pin(call_lock.lock());
        assert!(asleep.as_mut().now_or_never().is_none());

        drop(guard);

        drop(call_lock.lock().now_or_never().unwrap());
        let guard = asleep.await;
        assert!(call_lock.try_lock().is_none());
        drop(guard);
    }

    #[tokio::test]
    async fn all_waiting_workers_get_the_call_lock_one_at_a_time() {
        let (call_lock, mut waiting) = (CallLock::default(), tokio::task::JoinSet::new());
        let inside = Arc::new(AtomicBool::new(false));
        for _ in 0..20 {
            let (call_lock, inside) = (call_lock.clone(), Arc::clone(&inside));
            waiting.spawn(async move {
                let _guard = call_lock.lock().await;
                assert!(!inside.swap(true, Ordering::SeqCst), "no other task has the lock");
                tokio::task::yield_now().await;
                inside.store(false, Ordering::SeqCst);
            });
        }

        while let Some(ended) = waiting.join_next().await {
            ended.unwrap();
        }
    }
}
