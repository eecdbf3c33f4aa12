//! Implements the traits through which one stage uses another: a queue is the destination of a reflector, and the cache holds the objects that the
//! queue and the reflector know.

use futures_util::future::BoxFuture;

use crate::{Cached, Key, delta::Change, known::KnownObjects, listwatch::Destination, queue::Queue, store::Lister};

impl<O: Send + Sync + 'static> Destination<O> for Queue<O> {
    fn push(&self, change: Change<O>) {
        Queue::push(self, change);
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(Queue::room(self))
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
