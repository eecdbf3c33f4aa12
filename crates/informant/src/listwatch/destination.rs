//! Where the reflector puts what it learns.

use std::sync::Arc;

use crate::Cached;
use crate::Key;
use crate::Relist;
use crate::ResourceVersion;

/// Takes what a reflector learns, in the server's order. Both queues are one.
///
/// The calls must not block: the reflector reads nothing meanwhile.
pub trait Destination<O>: Send + Sync + 'static {
    /// An object was created.
    fn add(&self, object: Arc<Cached<O>>);

    /// An object exists, delivered in no particular order by a watch that began without a version. Its version must not count as
    /// reached. Default: calls [`add`](Self::add).
    fn add_unordered(&self, object: Arc<Cached<O>>) {
        self.add(object);
    }

    /// An object was changed.
    fn update(&self, object: Arc<Cached<O>>);

    /// An object is gone.
    fn delete(&self, final_state: Arc<Cached<O>>);

    /// An object is gone, and its final state could not be read.
    fn delete_unread(&self, key: &Key, version: Option<ResourceVersion>);

    /// This is all that exists.
    fn replace(&self, relist: Relist<O>);

    /// Everything up to a version was told.
    fn bookmark(&self, version: ResourceVersion);

    /// The consumer shall hear of everything again.
    fn resync(&self);

    /// Waits while there is too much to do already. Must be cancel safe. Default: takes everything.
    fn room(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}
