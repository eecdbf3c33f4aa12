//! Implements the traits through which one stage uses another: a queue is the destination of a reflector, and the cache holds the objects that the
//! queue and the reflector know.

use crate::{Cached, Key, delta::Change, known::KnownObjects, listwatch::Destination, queue::DeltaFifo, store::Lister};

impl<O: Send + Sync + 'static> Destination<O> for DeltaFifo<O> {
    fn push(&self, change: Change<O>) {
        DeltaFifo::push(self, change);
    }
}

impl<O: Send + Sync> KnownObjects<O> for Lister<O> {
    fn get(&self, key: &Key) -> Option<Cached<O>> {
        Lister::get(self, key)
    }

    fn list(&self) -> Vec<Cached<O>> {
        Lister::list(self)
    }
}
