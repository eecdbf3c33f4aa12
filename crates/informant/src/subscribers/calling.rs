//! Records which listener or informer runs on the current thread, so that a callback that waits for itself gets an error instead of a
//! deadlock.
//!
//! - **In:** futures and functions that run on behalf of a listener or an informer; each poll of a future is recorded.
//! - **Out:** whether the current thread is inside one of them.
//! - **Knows nothing of:** what they do.

use std::{cell::RefCell, future::poll_fn, pin::pin};

/// On whose behalf code runs: a listener of an informer, or the informer itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) informer: u64,
    /// `None` for the informer's own work: index functions and callbacks of its reflector.
    pub(crate) listener: Option<u64>,
}

thread_local! {
    static CALLERS: RefCell<Vec<Caller>> = const { RefCell::new(Vec::new()) };
}

/// Until it is dropped, code on this thread runs on behalf of a caller.
struct Calling;

impl Calling {
    fn begin(caller: Caller) -> Self {
        CALLERS.with_borrow_mut(|callers| callers.push(caller));
        Self
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        CALLERS.with_borrow_mut(Vec::pop);
    }
}

/// Runs a future on behalf of the caller, at every poll.
pub(crate) async fn as_work_of<R>(caller: Caller, work: impl Future<Output = R>) -> R {
    let mut work = pin!(work);
    poll_fn(|context| {
        let _calling = Calling::begin(caller);
        work.as_mut().poll(context)
    })
    .await
}

/// Runs a function on behalf of the caller.
pub(crate) fn do_as<R>(caller: Caller, work: impl FnOnce() -> R) -> R {
    let _calling = Calling::begin(caller);
    work()
}

/// Whether this thread runs code on behalf of the informer or one of its listeners.
pub(crate) fn is_inside_informer(informer: u64) -> bool {
    CALLERS.with_borrow(|callers| callers.iter().any(|caller| caller.informer == informer))
}

/// Whether this thread runs code on behalf of this listener.
pub(super) fn is_inside(caller: Caller) -> bool {
    CALLERS.with_borrow(|callers| callers.contains(&caller))
}
