//! Records which listener or informer runs on the current thread, and for which others it waits, so that callbacks that wait for themselves
//! or for each other get an error instead of a deadlock.
//!
//! - **In:** futures and functions that run on behalf of a listener or an informer; each poll of a future is recorded.
//! - **Out:** whether the current thread is inside one of them, and whether it can wait for another one.
//! - **Knows nothing of:** what they do.

use std::{cell::RefCell, future::poll_fn, pin::pin, task::Poll};

use parking_lot::Mutex;

use super::wait_graph::{WaitConflict, WaitGraph};

/// The listener or informer on whose behalf user code runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkOwner {
    pub(crate) informer: u64,
    /// `None` for the informer's own work: index functions and callbacks of its reflector. As the target of a wait, `None` means all work of
    /// the informer, with that of its listeners.
    pub(crate) listener: Option<u64>,
}

impl WorkOwner {
    /// Whether a wait for this work is also a wait for the work of `other`.
    pub(super) fn includes(self, other: Self) -> bool {
        self.informer == other.informer && (self.listener.is_none() || self.listener == other.listener)
    }
}

thread_local! {
    static OWNERS: RefCell<Vec<WorkOwner>> = const { RefCell::new(Vec::new()) };
}

/// The waits of all callbacks of the process: a callback can wait for any informer. No other lock is taken while it is held.
static WAITS: Mutex<WaitGraph> = Mutex::new(WaitGraph::new());

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

/// Whether this thread runs code on behalf of this listener.
pub(super) fn is_inside(owner: WorkOwner) -> bool {
    OWNERS.with_borrow(|owners| owners.contains(&owner))
}

/// Returns why the code that runs on this thread cannot wait for the end of this work; `None` if it can.
pub(crate) fn wait_conflict(awaited: WorkOwner) -> Option<WaitConflict> {
    OWNERS.with_borrow(|owners| WAITS.lock().conflict(owners, &[awaited]))
}

/// Waits for the end of some work. Fails if a callback makes the call and the work waits for that callback.
pub(crate) async fn wait_for_end(awaited: &[WorkOwner], ended: impl Future<Output = ()>) -> Result<(), WaitConflict> {
    let mut ended = pin!(ended);
    let mut recorded = RecordedWait::default();
    poll_fn(|context| match recorded.update(awaited) {
        Ok(()) => ended.as_mut().poll(context).map(Ok),
        Err(conflict) => Poll::Ready(Err(conflict)),
    })
    .await
}

/// A wait that [`WAITS`] contains until this is dropped.
#[derive(Default)]
struct RecordedWait {
    /// Empty outside of callbacks; the wait is then not recorded.
    waiters: Vec<WorkOwner>,
    id: Option<u64>,
}

impl RecordedWait {
    /// Records who waits now: a callback may pass the future to another task after it has polled it.
    fn update(&mut self, awaited: &[WorkOwner]) -> Result<(), WaitConflict> {
        OWNERS.with_borrow(|owners| {
            if *owners == self.waiters {
                return Ok(());
            }
            self.remove();
            if !owners.is_empty() {
                self.id = Some(WAITS.lock().add(owners, awaited)?);
            }
            self.waiters.clone_from(owners);
            Ok(())
        })
    }

    fn remove(&mut self) {
        if let Some(id) = self.id.take() {
            WAITS.lock().remove(id);
        }
    }
}

impl Drop for RecordedWait {
    fn drop(&mut self) {
        self.remove();
    }
}
