//! Runs users' code and drops users' values, and catches their panics.

use std::{
    any::Any,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

thread_local! {
    /// The number of destructors that have panicked inside [`drop_in_place_catching`] on this thread.
    static PANICKED_DROPS: Cell<u64> = const { Cell::new(0) };
}

/// Runs a function; if it panics, returns the panic's message.
pub(crate) fn catch<R>(run: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(message)
}

/// Drops a value whose destructor may be users' code. If the destructor panics, the panic is caught and `log` is called with its message.
/// Returns the number of destructors that panicked, including those of cached objects inside the value, which log by themselves.
///
/// The caller must hold no lock that a reader needs: the destructor may read the informer.
///
/// If one value holds several values of users, a second panic while the first one unwinds would abort the process. That is why each
/// [`Cached`](crate::Cached) drops its own object with this function.
pub(crate) fn drop_catching<T>(value: T, log: impl FnOnce(&str)) -> u64 {
    drop_in_place_catching(|| drop(value), log)
}

/// As [`drop_catching`], for a value that is too large to be moved: `clear` drops it where it is.
pub(crate) fn drop_in_place_catching(clear: impl FnOnce(), log: impl FnOnce(&str)) -> u64 {
    let before = PANICKED_DROPS.get();
    if let Err(panic) = catch(clear) {
        PANICKED_DROPS.set(PANICKED_DROPS.get() + 1);
        log(&panic);
    }
    PANICKED_DROPS.get() - before
}

/// Returns the message of a panic, and drops its payload.
pub(crate) fn message(payload: Box<dyn Any + Send>) -> String {
    let message = message_of(&*payload);
    // The payload's destructor may panic as well.
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
        std::mem::forget(another);
    }
    message
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}
