//! Tests of `Queue`. The files other than `in_order` test the ordering that groups changes by object.

mod batches;
mod drops;
mod grouping;
mod in_order;
mod sync;
mod versions;
mod waiting;

use informant::{
    Origin,
    queue::{Batch, Queue},
};

use crate::support::{known, show_object_changes};

pub(super) type Fifo = Queue<()>;

/// A queue over a cache that holds these objects.
pub(super) fn fifo_with_known<const N: usize>(objects: [(&str, u64); N]) -> Fifo {
    Queue::builder().known_objects(known(objects)).build()
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
    batch.items().iter().map(informant::queue::ObjectChanges::origin).collect()
}
