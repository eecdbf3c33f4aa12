//! Tests of `DeltaFifo`.

mod batches;
mod deltas;
mod drops;
mod sync;
mod versions;
mod waiting;

use informant::{
    Origin,
    pipeline::{Batch, DeltaFifo},
};

use crate::support::{known, show_object_changes};

pub(super) type Fifo = DeltaFifo<()>;

/// A queue over a cache that holds these objects.
pub(super) fn fifo_with_known<const N: usize>(objects: [(&str, u64); N]) -> Fifo {
    DeltaFifo::builder().known_objects(known(objects)).build()
}

pub(super) fn pop(fifo: &Fifo) -> Batch<()> {
    fifo.try_pop().unwrap().expect("the queue is not empty")
}

pub(super) fn drain(fifo: &Fifo) -> Batch<()> {
    fifo.try_drain().unwrap().expect("the queue is not empty")
}

/// Takes and acknowledges all objects, one at a time.
pub(super) fn pop_all(fifo: &Fifo) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(batch) = fifo.try_pop().unwrap() {
        all.extend(show_object_changes(batch.items()));
        batch.acknowledge();
    }
    all
}

pub(super) fn origins(batch: &Batch<()>) -> Vec<Origin> {
    batch.items().iter().map(informant::pipeline::ObjectChanges::origin).collect()
}
