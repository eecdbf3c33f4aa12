//! Implements, for both queues, what the process loop and a shared informer need of a queue.

use super::{
    apply::{ApplyOptions, Outcome, apply_changes, apply_taken},
    controller::ControllerQueue,
    core::Core,
};
use crate::{
    Key,
    listwatch::Destination,
    object::Erased,
    queue::{Closed, DeltaFifo, InOrderChange, InOrderFifo, ObjectChanges, Receipt},
};

/// A queue that a shared informer can use.
pub(super) trait SharedQueue: ControllerQueue + Destination<Erased> {
    /// Returns the number of queued items.
    fn waiting(&self) -> usize;

    /// Returns true if the first list was processed.
    fn has_synced(&self) -> bool;

    /// Applies the items of a receipt to the cache, and returns the resulting events.
    fn apply(receipt: &Receipt<Self>, core: &Core, options: ApplyOptions) -> Outcome;
}

impl<O: Send + Sync + 'static> ControllerQueue for DeltaFifo<O> {
    async fn take_one(&self) -> Result<Receipt<Self>, Closed> {
        self.pop().await
    }

    async fn take_all(&self) -> Result<Receipt<Self>, Closed> {
        self.drain().await
    }

    fn end(&self) {
        self.close();
    }

    fn key_of(item: &ObjectChanges<O>) -> Option<&Key> {
        Some(item.key())
    }

    fn changes_of(item: &ObjectChanges<O>) -> usize {
        item.deltas().len()
    }
}

impl SharedQueue for DeltaFifo<Erased> {
    fn waiting(&self) -> usize {
        self.len()
    }

    fn has_synced(&self) -> bool {
        self.is_synced()
    }

    fn apply(receipt: &Receipt<Self>, core: &Core, options: ApplyOptions) -> Outcome {
        apply_taken(receipt.items(), receipt.version(), &core.indexer, &core.lister, options)
    }
}

impl<O: Send + Sync + 'static> ControllerQueue for InOrderFifo<O> {
    async fn take_one(&self) -> Result<Receipt<Self>, Closed> {
        self.pop().await
    }

    async fn take_all(&self) -> Result<Receipt<Self>, Closed> {
        self.drain().await
    }

    fn end(&self) {
        self.close();
    }

    fn key_of(item: &InOrderChange<O>) -> Option<&Key> {
        item.change().key()
    }

    fn changes_of(_: &InOrderChange<O>) -> usize {
        1
    }
}

impl SharedQueue for InOrderFifo<Erased> {
    fn waiting(&self) -> usize {
        self.len()
    }

    fn has_synced(&self) -> bool {
        self.is_synced()
    }

    fn apply(receipt: &Receipt<Self>, core: &Core, options: ApplyOptions) -> Outcome {
        apply_changes(receipt.items(), receipt.version(), &core.indexer, options)
    }
}
