//! Who is being called on this thread: so that a callback that waits for itself gets an error, not a deadlock.

use std::cell::RefCell;

/// Who calls: an informer and one of its listeners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) processor: u64,
    pub(crate) listener: u64,
}

thread_local! {
    static CALLERS: RefCell<Vec<Caller>> = const { RefCell::new(Vec::new()) };
}

/// Until it is dropped, calls on this thread are those of a listener.
pub(super) struct Calling {
    _private: (),
}

impl Calling {
    pub(super) fn begin(caller: Caller) -> Self {
        CALLERS.with_borrow_mut(|callers| callers.push(caller));
        Self { _private: () }
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        CALLERS.with_borrow_mut(Vec::pop);
    }
}

/// Whether this thread is inside a callback of a listener of this processor.
pub(crate) fn is_inside_callback_of(processor: u64) -> bool {
    CALLERS.with_borrow(|callers| callers.iter().any(|caller| caller.processor == processor))
}

/// Whether this thread is inside a callback of this very listener.
pub(super) fn is_inside(caller: Caller) -> bool {
    CALLERS.with_borrow(|callers| callers.contains(&caller))
}
