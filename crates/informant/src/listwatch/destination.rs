//! Where the reflector puts what it learns.

use std::marker::PhantomData;

use futures_util::future::BoxFuture;

use crate::Cached;
use crate::Key;
use crate::Relist;
use crate::ResourceVersion;
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

    /// Waits while there is too much to do already. Must be cancel safe. Default: takes everything.
    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
}

/// A destination of objects of type `O`, as the reflector holds it: it takes objects that have lost their type.
pub(super) struct OfType<O, D> {
    destination: D,
    object: PhantomData<fn() -> O>,
}

impl<O, D: Destination<O>> OfType<O, D> {
    pub(super) fn new(destination: D) -> Self {
        Self { destination, object: PhantomData }
    }
}

impl<O: 'static, D: Destination<O>> Destination<Erased> for OfType<O, D> {
    fn add(&self, object: Cached<Erased>) {
        self.destination.add(object.cast());
    }

    fn add_unordered(&self, object: Cached<Erased>) {
        self.destination.add_unordered(object.cast());
    }

    fn update(&self, object: Cached<Erased>) {
        self.destination.update(object.cast());
    }

    fn delete(&self, final_state: Cached<Erased>) {
        self.destination.delete(final_state.cast());
    }

    fn delete_unread(&self, key: &Key, version: Option<ResourceVersion>) {
        self.destination.delete_unread(key, version);
    }

    fn replace(&self, relist: Relist<Erased>) {
        self.destination.replace(relist.cast());
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
