//! Tests of `DeltaFifo`, the queue that groups changes by object.

mod grouping;
mod receipts;
mod sync;
mod versions;
mod waiting;

use informant::{
    Origin,
    queue::{DeltaFifo, Receipt},
};

use crate::support::{known, show_object_changes};

pub(super) type Fifo = DeltaFifo<()>;

/// A queue over a cache that holds these objects.
pub(super) fn fifo_with_known<const N: usize>(objects: [(&str, u64); N]) -> Fifo {
    DeltaFifo::builder().known_objects(known(objects)).build()
}

pub(super) fn pop(fifo: &Fifo) -> Receipt<Fifo> {
    fifo.try_pop().unwrap().expect("the queue is not empty")
}

pub(super) fn drain(fifo: &Fifo) -> Receipt<Fifo> {
    fifo.try_drain().unwrap().expect("the queue is not empty")
}

/// Takes and acknowledges all objects, one at a time.
pub(super) fn pop_all(fifo: &Fifo) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(receipt) = fifo.try_pop().unwrap() {
        all.extend(show_object_changes(receipt.items()));
        receipt.acknowledge();
    }
    all
}

pub(super) fn origins(receipt: &Receipt<Fifo>) -> Vec<Origin> {
    receipt.items().iter().map(informant::queue::ObjectChanges::origin).collect()
}
