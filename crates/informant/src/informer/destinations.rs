//! Implements the reflector's destination for both queues.

use futures_util::future::BoxFuture;

use crate::{
    delta::{Change, Delta},
    listwatch::Destination,
    queue::{DeltaFifo, InOrderFifo},
};

impl<O: Send + Sync + 'static> Destination<O> for DeltaFifo<O> {
    fn push(&self, change: Change<O>) {
        match change {
            Change::Delta(Delta::Added(object)) => self.add(object),
            Change::Delta(Delta::Updated(object) | Delta::Replaced(object) | Delta::Sync(object)) => {
                self.update(object);
            }
            Change::Delta(Delta::Deleted(deleted)) => self.delete(deleted),
            Change::Existing(object) => self.add_unordered(object),
            Change::DeletedUnread { key, version } => self.delete_unread(&key, version),
            Change::Relist(relist) => self.replace(&relist),
            Change::Bookmark(version) => self.bookmark(version),
            Change::Resync => self.resync(),
        }
    }
}

impl<O: Send + Sync + 'static> Destination<O> for InOrderFifo<O> {
    fn push(&self, change: Change<O>) {
        match change {
            Change::Delta(Delta::Added(object)) => self.add(object),
            Change::Delta(Delta::Updated(object) | Delta::Replaced(object) | Delta::Sync(object)) => {
                self.update(object);
            }
            Change::Delta(Delta::Deleted(deleted)) => self.delete(deleted),
            Change::Existing(object) => self.add_unordered(object),
            Change::DeletedUnread { key, version } => self.delete_unread(&key, version),
            Change::Relist(relist) => self.replace(relist),
            Change::Bookmark(version) => self.bookmark(version),
            Change::Resync => self.resync(),
        }
    }

    fn room(&self) -> BoxFuture<'_, ()> {
        Box::pin(InOrderFifo::room(self))
    }
}
