//! Stage 3: the cache, an indexed copy of all objects of a kind that always shows one consistent state.
//!
//! - **In:** batches of writes from the apply loop; index functions from users, at any time.
//! - **Out:** shared objects, by key, namespace, labels or index; snapshots; the objects that each write replaced.
//! - **Knows nothing of:** queues, handlers, sources.
//!
//! [`Indexer`] writes. Each read is a function of the table: [`Lister`], [`NamespaceLister`] and [`Index`] call it under the table lock, a
//! [snapshot](Lister::snapshot) without a lock. A reader waits only while a few thousand entries are written or a pointer is swapped: index functions run,
//! large batches are built and old objects are freed while readers go on.

mod buckets; // the objects that have one index value
mod cache; // the table and its lock
mod compute; // runs index functions
mod index; // `Index`, the typed handle of one index, and `Lookup`, a value in an index
mod indexer; // `Indexer`, the writer with a lock
mod lister; // `Lister`, which reads the cache
#[cfg(test)]
mod model; // model test of the cache
mod selector; // `LabelSelector`, parsed from text
mod table; // objects and indexes, without locks
mod write; // batches of writes, and what they replaced
mod writer; // writes the cache, without a lock

pub(crate) use compute::AnyIndexFunction;
pub use compute::{IndexFunction, IndexValue, IndexValues, LookupValue};
pub use index::{Index, Lookup};
pub use indexer::Indexer;
pub use lister::{Lister, NamespaceLister};
pub use selector::LabelSelector;
pub use write::{Applied, Replacement, WriteBatch};
pub(crate) use writer::Writer;

/// The panic of a write inside an index function of the same cache.
pub(crate) const WRITES_INSIDE_INDEX_FUNCTION: &str = "an index function must not write to the cache that it indexes";

/// The name of the built-in index by namespace. Cluster-scoped objects have the empty value.
pub const NAMESPACE_INDEX: &str = "namespace";
