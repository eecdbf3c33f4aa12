//! Records which listener or informer runs on the current thread, so that a callback that waits for itself gets an error instead of a
//! deadlock.
//!
//! - **In:** futures and functions that run on behalf of a listener or an informer; each poll of a future is recorded.
//! - **Out:** whether the current thread is inside one of them.
//! - **Knows nothing of:** what they do.

use std::{cell::RefCell, future::poll_fn, pin::pin};

/// The listener or informer on whose behalf user code runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkOwner {
    pub(crate) informer: u64,
    /// `None` for the informer's own work: index functions and callbacks of its reflector.
    pub(crate) listener: Option<u64>,
}

thread_local! {
    static OWNERS: RefCell<Vec<WorkOwner>> = const { RefCell::new(Vec::new()) };
}

/// Records an owner: until the guard is dropped, code on this thread runs on behalf of that owner.
struct OwnerGuard;

impl OwnerGuard {
    fn new(owner: WorkOwner) -> Self {
        OWNERS.with_borrow_mut(|owners| owners.push(owner));
        Self
    }
}

impl Drop for OwnerGuard {
    fn drop(&mut self) {
        OWNERS.with_borrow_mut(Vec::pop);
    }
}

/// Runs a future on behalf of the owner, at every poll.
pub(crate) async fn as_work_of<R>(owner: WorkOwner, work: impl Future<Output = R>) -> R {
    let mut work = pin!(work);
    poll_fn(|context| {
        let _guard = OwnerGuard::new(owner);
        work.as_mut().poll(context)
    })
    .await
}

/// Runs a function on behalf of the owner.
pub(crate) fn run_as_work_of<R>(owner: WorkOwner, work: impl FnOnce() -> R) -> R {
    let _guard = OwnerGuard::new(owner);
    work()
}

/// Whether this thread runs code on behalf of the informer or one of its listeners.
pub(crate) fn is_inside_informer(informer: u64) -> bool {
    OWNERS.with_borrow(|owners| owners.iter().any(|owner| owner.informer == informer))
}

/// Whether this thread runs code on behalf of this listener.
pub(super) fn is_inside(owner: WorkOwner) -> bool {
    OWNERS.with_borrow(|owners| owners.contains(&owner))
}
