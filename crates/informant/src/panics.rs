//! Runs what users gave us: if it panics, that is told and goes no further.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

/// Runs it; if it panics, gives what the panic said.
pub(crate) fn catch<R>(run: impl FnOnce() -> R) -> Result<R, String> {
    catch_unwind(AssertUnwindSafe(run)).map_err(said)
}

/// What a panic said.
pub(crate) fn said(payload: Box<dyn Any + Send>) -> String {
    let message = message_of(&*payload);
    // Even a payload may panic, when it is dropped.
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
