//! Runs the interpreter of rules in a thread of its own.
//!
//! - **In:** work that may panic, or call itself many times.
//! - **Out:** its result; nothing if it panicked.
//!
//! The interpreter reads and evaluates a rule by recursion, which needs more stack than other threads have, and panics where integers
//! overflow.

use std::thread;

/// Enough for rules whose brackets are nested [`DEEPEST`](super::compile::DEEPEST) levels deep, also in a debug build.
const STACK: usize = 64 << 20;

/// Runs work in a thread with a large stack, and waits for it.
pub(super) fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
    let builder = thread::Builder::new().name("cel-rules".to_owned()).stack_size(STACK);
    thread::scope(|scope| builder.spawn_scoped(scope, work).ok()?.join().ok())
}
