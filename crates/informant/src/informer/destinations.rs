//! Implements the reflector's destination for both queues.

use futures_util::future::BoxFuture;

use crate::{
    Cached, Deleted, Key, ResourceVersion,
    delta::Relist,
    listwatch::Destination,
    queue::{DeltaFifo, InOrderFifo},
};

impl<O: Send + Sync + 'static> Destination<O> for DeltaFifo<O> {
    fn add(&self, object: Cached<O>) {
        DeltaFifo::add(self, object);
    }

    fn add_unordered(&self, object: Cached<O>) {
        DeltaFifo::add_unordered(self, object);
    }

    fn update(&self, object: Cached<O>) {
        DeltaFifo::update(self, object);
    }

    fn delete(&self, final_state: Cached<O>) {
        DeltaFifo::delete(self, Deleted::Observed(final_state));
    }

    fn delete_unread(&self, key: &Key, version: Option<ResourceVersion>) {
        DeltaFifo::delete_unread(self, key, version);
    }

    fn replace(&self, relist: Relist<O>) {
        DeltaFifo::replace(self, &relist);
    }

    fn bookmark(&self, version: ResourceVersion) {
        DeltaFifo::bookmark(self, version);
    }

    fn resync(&self) {
        DeltaFifo::resync(self);
    }

    // `room` keeps its default: the queue coalesces the deltas of each object, so it accepts any number of them.
}

impl<O: Send + Sync + 'static> Destination<O> for InOrderFifo<O> {
    fn add(&self, object: Cached<O>) {
        InOrderFifo::add(self, object);
    }

    fn add_unordered(&self, object: Cached<O>) {
        InOrderFifo::add_unordered(self, object);
    }

    fn update(&self, object: Cached<O>) {
        InOrderFifo::update(self, object);
    }

    fn delete(&self, final_state: Cached<O>) {
        InOrderFifo::delete(self, Deleted::Observed(final_state));
    }

    fn delete_unread(&self, key: &Key, version: Option<ResourceVersion>) {
        InOrderFifo::delete_unread(self, key, version);
    }

    fn replace(&self, relist: Relist<O>) {
        InOrderFifo::replace(self, relist);
    }

    fn bookmark(&self, version: ResourceVersion) {
        InOrderFifo::bookmark(self, version);
    }

    fn resync(&self) {
        InOrderFifo::resync(self);
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(InOrderFifo::room(self))
    }
}
