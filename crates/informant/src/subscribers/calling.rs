//! Who is at work on this thread: so that whoever waits for itself gets an error, not a deadlock.

use std::cell::RefCell;
use std::future::poll_fn;
use std::pin::pin;

/// Who is at work: a listener of an informer, or the informer itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) informer: u64,
    /// None for the informer's own work: index functions, and callbacks of its reflector.
    pub(crate) listener: Option<u64>,
}

thread_local! {
    static CALLERS: RefCell<Vec<Caller>> = const { RefCell::new(Vec::new()) };
}

/// Until it is dropped, what runs on this thread is somebody's work.
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

/// Whatever runs while this is polled is the caller's work.
pub(crate) async fn as_work_of<R>(caller: Caller, work: impl Future<Output = R>) -> R {
    let mut work = pin!(work);
    poll_fn(|context| {
        let _calling = Calling::begin(caller);
        work.as_mut().poll(context)
    })
    .await
}

/// As [`as_work_of`], for what does not wait.
pub(crate) fn do_as<R>(caller: Caller, work: impl FnOnce() -> R) -> R {
    let _calling = Calling::begin(caller);
    work()
}

/// Whether this thread is inside any work of an informer.
pub(crate) fn is_inside_informer(informer: u64) -> bool {
    CALLERS.with_borrow(|callers| callers.iter().any(|caller| caller.informer == informer))
}

/// Whether this thread is inside the work of this very listener.
pub(super) fn is_inside(caller: Caller) -> bool {
    CALLERS.with_borrow(|callers| callers.contains(&caller))
}
