//! What a stage may ask the cache: which objects does the consumer have already?

use crate::Cached;
use crate::Key;

/// The consumer's cache as other stages see it: a queue finds with it what a new list no longer has, and what to replay; the
/// reflector finds what it need not decode again.
///
/// It is asked while a queue is locked, so it must not call the queue.
pub trait KnownObjects<O>: Send + Sync {
    /// The object of this key, if the consumer has one.
    fn get(&self, key: &Key) -> Option<Cached<O>>;

    /// All objects that the consumer has.
    fn list(&self) -> Vec<Cached<O>>;
}
