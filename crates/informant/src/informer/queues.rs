//! Both queues as a controller uses them.

use super::controller::ControllerQueue;
use crate::Key;
use crate::queue::Closed;
use crate::queue::DeltaFifo;
use crate::queue::InOrderFifo;
use crate::queue::Receipt;
use crate::queue::Taken;
use crate::queue::TakenChange;

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
