//! [`KnownObjects`], the read access of queues and reflectors to the objects that the consumer already has.

use crate::{Cached, Key};

/// The consumer's cache as other stages see it. A queue finds with it the objects that a relist no longer has, and those to replay in a
/// resync; the reflector finds the objects that it need not decode again.
///
/// A queue calls it while the queue is locked, so an implementation must not call the queue.
pub trait KnownObjects<O>: Send + Sync {
    /// Returns the object with this key, if the consumer has it.
    fn get(&self, key: &Key) -> Option<Cached<O>>;

    /// Returns all objects that the consumer has.
    fn list(&self) -> Vec<Cached<O>>;
}
