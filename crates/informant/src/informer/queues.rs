//! Both queues as a controller uses them, and as a shared informer does.

use super::apply::Outcome;
use super::apply::Rules;
use super::apply::apply_changes;
use super::apply::apply_taken;
use super::controller::ControllerQueue;
use super::core::Core;
use crate::Key;
use crate::queue::Closed;
use crate::queue::DeltaFifo;
use crate::queue::InOrderFifo;
use crate::queue::Receipt;
use crate::queue::Taken;
use crate::queue::TakenChange;

/// What else a shared informer asks of its queue.
pub(super) trait SharedQueue<O>: ControllerQueue<O> {
    /// How much waits.
    fn waiting(&self) -> usize;

    /// Whether the first list was processed.
    fn has_synced(&self) -> bool;

    /// Writes to the cache what was taken, and says what that changed.
    fn apply(receipt: &Receipt<Self>, core: &Core<O>, rules: Rules) -> Outcome<O>;
}

impl<O: Send + Sync + 'static> ControllerQueue<O> for DeltaFifo<O> {
    async fn take_one(&self) -> Result<Receipt<Self>, Closed> {
        self.pop().await
    }

    async fn take_all(&self) -> Result<Receipt<Self>, Closed> {
        self.drain().await
    }

    fn end(&self) {
        self.close();
    }

    fn key_of(item: &Taken<O>) -> Option<&Key> {
        Some(item.key())
    }

    fn changes_of(item: &Taken<O>) -> usize {
        item.deltas().len()
    }
}

impl<O: Send + Sync + 'static> SharedQueue<O> for DeltaFifo<O> {
    fn waiting(&self) -> usize {
        self.len()
    }

    fn has_synced(&self) -> bool {
        self.is_synced()
    }

    fn apply(receipt: &Receipt<Self>, core: &Core<O>, rules: Rules) -> Outcome<O> {
        apply_taken(receipt.items(), receipt.version(), &core.indexer, &core.lister, rules)
    }
}

impl<O: Send + Sync + 'static> ControllerQueue<O> for InOrderFifo<O> {
    async fn take_one(&self) -> Result<Receipt<Self>, Closed> {
        self.pop().await
    }

    async fn take_all(&self) -> Result<Receipt<Self>, Closed> {
        self.drain().await
    }

    fn end(&self) {
        self.close();
    }

    fn key_of(item: &TakenChange<O>) -> Option<&Key> {
        item.change().key()
    }

    fn changes_of(_: &TakenChange<O>) -> usize {
        1
    }
}

impl<O: Send + Sync + 'static> SharedQueue<O> for InOrderFifo<O> {
    fn waiting(&self) -> usize {
        self.len()
    }

    fn has_synced(&self) -> bool {
        self.is_synced()
    }

    fn apply(receipt: &Receipt<Self>, core: &Core<O>, rules: Rules) -> Outcome<O> {
        apply_changes(receipt.items(), receipt.version(), &core.indexer, rules)
    }
}
