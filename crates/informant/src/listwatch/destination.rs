//! The receiver of the reflector's changes.
//!
//! - **In:** changes from the reflector, in the server's order.
//! - **Out:** the same changes, with the user's object type.
//! - **Knows nothing of:** queues; both of them implement the trait.

use std::marker::PhantomData;

use futures_util::future::BoxFuture;

use crate::{Cached, Key, ResourceVersion, delta::Relist, object::Erased};

/// Receives the changes that a reflector reads, in the server's order. Both [queues](crate::queue) implement it.
///
/// The calls must not block: the reflector reads nothing while they run.
pub trait Destination<O>: Send + Sync + 'static {
    /// Receives an added object.
    fn add(&self, object: Cached<O>);

    /// Receives an object from a watch that began without a version. Such objects arrive in no order, so their versions must not count as
    /// reached. Default: calls [`add`](Self::add).
    fn add_unordered(&self, object: Cached<O>) {
        self.add(object);
    }

    /// Receives a changed object.
    fn update(&self, object: Cached<O>);

    /// Receives the final state of a deleted object.
    fn delete(&self, final_state: Cached<O>);

    /// Receives the key of a deleted object whose final state could not be decoded.
    fn delete_unread(&self, key: &Key, version: Option<ResourceVersion>);

    /// Receives a list: all objects that exist at its version.
    fn replace(&self, relist: Relist<O>);

    /// Receives a bookmark: all changes up to this version have been delivered.
    fn bookmark(&self, version: ResourceVersion);

    /// Receives a resync request: the consumer should replay its cache to the handlers.
    fn resync(&self);

    /// Completes when the destination accepts more changes. The reflector awaits it before it reads further events, which slows the server down
    /// instead of using more memory. Must be cancel safe. Default: completes at once.
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
