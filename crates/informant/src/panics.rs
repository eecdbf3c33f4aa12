//! Runs users' code and drops users' values, and catches their panics.

use std::{
    any::Any,
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
};

use smallvec::SmallVec;
use tracing::error;

thread_local! {
    /// The number of destructors that have panicked inside [`drop_in_place_catching`] on this thread.
    static PANICKED_DROPS: Cell<u64> = const { Cell::new(0) };
}

/// Values whose destructors may be users' code: they are collected while a lock is held, and dropped after it was released.
///
/// The values are dropped one by one, so a destructor that panics does not keep the others from running. Up to two values need no
/// allocation.
#[must_use = "the values must be dropped after the lock was released"]
pub(crate) struct DeferredDrop<T> {
    values: SmallVec<[T; 2]>,
}

impl<T> DeferredDrop<T> {
    pub(crate) fn push(&mut self, value: T) {
        self.values.push(value);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Drops all values now, as [`drop_catching`] does; `log` is called for each value that panics.
    pub(crate) fn drop_catching(mut self, log: impl FnMut(&str)) -> u64 {
        self.drop_values(log)
    }

    fn drop_values(&mut self, mut log: impl FnMut(&str)) -> u64 {
        self.values.drain(..).map(|value| drop_catching(value, &mut log)).sum()
    }
}

impl<T> Drop for DeferredDrop<T> {
    fn drop(&mut self) {
        self.drop_values(|panic| error!(error = panic, "a destructor panicked"));
    }
}

impl<T> Default for DeferredDrop<T> {
    fn default() -> Self {
        Self { values: SmallVec::new() }
    }
}

impl<T> Extend<T> for DeferredDrop<T> {
    fn extend<I: IntoIterator<Item = T>>(&mut self, values: I) {
        self.values.extend(values);
    }
}

/// Runs a function; if it panics, returns the panic's message.
pub(crate) fn catch<R>(run: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(message)
}

/// Drops a value whose destructor may be users' code. If the destructor panics, the panic is caught and `log` is called with its message.
/// Returns the number of destructors that panicked, including the destructors of cached objects inside the value, which log by themselves.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deferred_drop_drops_every_value_although_destructors_panic() {
        struct Panics(u32);

        impl Drop for Panics {
            fn drop(&mut self) {
                panic!("value {}", self.0);
            }
        }

        let (mut values, mut log) = (DeferredDrop::default(), Vec::new());
        values.extend((0..3).map(Panics));

        let panics = values.drop_catching(|panic| log.push(panic.to_owned()));

        assert_eq!((panics, log), (3, vec!["value 0".to_owned(), "value 1".into(), "value 2".into()]));
    }
}
