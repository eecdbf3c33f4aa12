//! Where the reflector puts what it learns.

use std::marker::PhantomData;

use futures_util::future::BoxFuture;

use crate::Cached;
use crate::Key;
use crate::ResourceVersion;
use crate::delta::Relist;
use crate::object::Erased;

/// Takes what a reflector learns, in the server's order. Both queues are one.
///
/// The calls must not block: the reflector reads nothing meanwhile.
pub trait Destination<O>: Send + Sync + 'static {
    /// An object was created.
    fn add(&self, object: Cached<O>);

    /// An object exists, delivered in no particular order by a watch that began without a version. Its version must not count as
    /// reached. Default: calls [`add`](Self::add).
    fn add_unordered(&self, object: Cached<O>) {
        self.add(object);
    }

    /// An object was changed.
    fn update(&self, object: Cached<O>);

    /// An object is gone.
    fn delete(&self, final_state: Cached<O>);

    /// An object is gone, and its final state could not be read.
    fn delete_unread(&self, key: &Key, version: Option<ResourceVersion>);

    /// This is all that exists.
    fn replace(&self, relist: Relist<O>);

    /// Everything up to a version was told.
    fn bookmark(&self, version: ResourceVersion);

    /// The consumer shall hear of everything again.
    fn resync(&self);

    /// Completes when there is room for more. The reflector awaits it before it reads further events. Must be cancel safe. Default: there
    /// is always room.
    ///
    /// An implementation writes `Box::pin(async move { … })`; each call allocates the future.
    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// Adapts a `Destination<O>` to the erased objects of the reflector.
pub(super) struct ErasedDestination<O, D> {
    destination: D,
    object_type: PhantomData<fn(O) -> O>,
}

impl<O, D: Destination<O>> ErasedDestination<O, D> {
    pub(super) fn new(destination: D) -> Self {
        Self { destination, object_type: PhantomData }
    }
}

impl<O: 'static, D: Destination<O>> Destination<Erased> for ErasedDestination<O, D> {
    fn add(&self, object: Cached<Erased>) {
        self.destination.add(object.typed());
    }

    fn add_unordered(&self, object: Cached<Erased>) {
        self.destination.add_unordered(object.typed());
    }

    fn update(&self, object: Cached<Erased>) {
        self.destination.update(object.typed());
    }

    fn delete(&self, final_state: Cached<Erased>) {
        self.destination.delete(final_state.typed());
    }

    fn delete_unread(&self, key: &Key, version: Option<ResourceVersion>) {
        self.destination.delete_unread(key, version);
    }

    fn replace(&self, relist: Relist<Erased>) {
        self.destination.replace(relist.typed());
    }

    fn bookmark(&self, version: ResourceVersion) {
        self.destination.bookmark(version);
    }

    fn resync(&self) {
        self.destination.resync();
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        self.destination.room()
    }
}
