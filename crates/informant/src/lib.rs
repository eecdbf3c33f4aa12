//! Shared informers for Rust.

mod delta;
mod event;
mod informer;
mod key;
mod object;
pub mod queue;
#[cfg(test)]
#[path = "../tests/it/random.rs"]
mod random;
mod slots;
pub mod store;
mod version;

pub use delta::*;
pub use event::*;
pub use key::*;
pub use object::*;
pub use version::*;
