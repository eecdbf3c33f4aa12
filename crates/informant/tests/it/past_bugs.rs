//! Bugs that client-go had, each with the object queued and with the object in flight.

use std::sync::Arc;

use informant::{
    Cached, Identity,
    pipeline::{Batch, Change, Delta, DeltaFifo, Indexer, WriteBatch},
};

use crate::support::{cache_of, key, list, object, observed, show_objects};

/// A cache and its queue, connected as in an informer.
struct Pipeline {
    cache: Arc<Indexer<()>>,
    queue: DeltaFifo<()>,
}

impl Pipeline {
    fn with_cached<const N: usize>(objects: [(&str, u64); N]) -> Self {
        let cache = cache_of(objects);
        let queue = DeltaFifo::builder().known_objects(Arc::new(cache.lister())).build();
        Self { cache, queue }
    }

    fn take(&self) -> Batch<()> {
        self.queue.try_drain().unwrap().expect("the queue is not empty")
    }

    /// Applies the deltas of a writes to the cache and acknowledges it.
    fn apply(&self, batch: Batch<()>) {
        let mut writes = WriteBatch::new();
        for delta in batch.in_arrival_order() {
            match delta {
                Delta::Deleted(deleted) => writes.remove(deleted.key().clone()),
                Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) | Delta::Sync(object) => {
                    writes.upsert(object.clone());
                }
            }
        }
        self.cache.apply(writes);
        batch.acknowledge();
    }

    fn apply_all(&self) {
        while let Some(batch) = self.queue.try_drain().unwrap() {
            self.apply(batch);
        }
    }

    fn cached(&self) -> Vec<String> {
        show_objects(self.cache.lister().list())
    }
}

// kubernetes#115658
#[test]
fn a_relist_deletes_an_object_that_is_only_in_the_queue() {
    let pipeline = Pipeline::with_cached([]);
    pipeline.queue.push(Delta::Added(object("ghost", 1)));

    pipeline.queue.push(list(5, []));

    pipeline.apply_all();
    assert_eq!(pipeline.cached(), [""; 0]);
}

// kubernetes#115658, with the object in flight
#[test]
fn a_relist_deletes_an_object_that_is_only_in_flight() {
    let pipeline = Pipeline::with_cached([]);
    pipeline.queue.push(Delta::Added(object("ghost", 1)));
    let batch = pipeline.take();

    pipeline.queue.push(list(5, []));

    pipeline.apply(batch);
    assert_eq!(pipeline.cached(), ["ghost@1"], "the cache holds the object until the relist is processed");
    pipeline.apply_all();
    assert_eq!(pipeline.cached(), [""; 0]);
}

// kubernetes#83810
#[test]
fn a_relist_restores_an_object_whose_delete_is_queued() {
    let pipeline = Pipeline::with_cached([("x", 1)]);
    pipeline.queue.push(Delta::Deleted(observed("x", 2)));

    pipeline.queue.push(list(5, [("x", 4)]));

    pipeline.apply_all();
    assert_eq!(pipeline.cached(), ["x@4"]);
}

// kubernetes#83810, with the delete in flight
#[test]
fn a_relist_restores_an_object_whose_delete_is_in_flight() {
    let pipeline = Pipeline::with_cached([("x", 1)]);
    pipeline.queue.push(Delta::Deleted(observed("x", 2)));
    let batch = pipeline.take();

    pipeline.queue.push(list(5, [("x", 4)]));

    pipeline.apply(batch);
    assert_eq!(pipeline.cached(), [""; 0]);
    pipeline.apply_all();
    assert_eq!(pipeline.cached(), ["x@4"]);
}

// kubernetes#26167
#[test]
fn a_resync_does_not_restore_an_object_whose_delete_is_queued() {
    let pipeline = Pipeline::with_cached([("x", 1)]);
    pipeline.queue.push(Delta::Deleted(observed("x", 2)));

    pipeline.queue.push(Change::Resync);

    pipeline.apply_all();
    assert_eq!(pipeline.cached(), [""; 0]);
}

// kubernetes#26167, with the delete in flight
#[test]
fn a_resync_does_not_restore_an_object_whose_delete_is_in_flight() {
    let pipeline = Pipeline::with_cached([("x", 1), ("y", 1)]);
    pipeline.queue.push(Delta::Deleted(observed("x", 2)));
    pipeline.queue.push(Delta::Updated(object("y", 3)));
    let batch = pipeline.take();

    pipeline.queue.push(Change::Resync);

    pipeline.apply(batch);
    pipeline.apply_all();
    assert_eq!(pipeline.cached(), ["y@3"], "the resync does not replace y by its old state");
}

// kubernetes#26966
#[test]
fn a_delete_during_the_initial_list_is_not_dropped_while_the_cache_is_empty() {
    let pipeline = Pipeline::with_cached([]);
    pipeline.queue.push(list(5, [("x", 1)]));

    pipeline.queue.push(Delta::Deleted(observed("x", 6)));

    pipeline.apply_all();
    assert_eq!(pipeline.cached(), [""; 0]);
}

// kubernetes#26966, with the object in flight
#[test]
fn a_delete_during_the_initial_list_is_not_dropped_while_the_object_is_in_flight() {
    let pipeline = Pipeline::with_cached([]);
    pipeline.queue.push(list(5, [("x", 1)]));
    let batch = pipeline.take();

    pipeline.queue.push(Delta::Deleted(observed("x", 6)));

    pipeline.apply(batch);
    assert_eq!(pipeline.cached(), ["x@1"]);
    pipeline.apply_all();
    assert_eq!(pipeline.cached(), [""; 0]);
}

fn tagged(name: &str, tags: &[&'static str]) -> Cached<Vec<&'static str>> {
    Cached::new(Identity::of_key(key(name)), tags.to_vec())
}

// kubernetes#109115
#[test]
fn an_index_value_that_an_update_keeps_is_still_found() {
    let cache = Indexer::new();
    let by_tag = cache.add_index("tag", |object: &Cached<Vec<&'static str>>| object.to_vec()).unwrap();

    cache.upsert(tagged("x", &["a"]));
    cache.upsert(tagged("x", &["a", "b"]));
    assert_eq!(["a", "b"].map(|tag| by_tag.count(tag)), [1, 1]);

    cache.upsert(tagged("x", &["b"]));
    assert_eq!(["a", "b"].map(|tag| by_tag.count(tag)), [0, 1]);
}

// kubernetes#43605
#[test]
fn a_panicking_index_function_leaves_no_keys_of_the_object_in_the_index() {
    let cache = Indexer::new();
    let by_tag = cache
        .add_index("tag", |object: &Cached<Vec<&'static str>>| {
            assert!(!object.contains(&"bad"), "bad tag");
            object.to_vec()
        })
        .unwrap();
    cache.upsert(tagged("x", &["a"]));

    let mut writes = WriteBatch::new();
    writes.upsert(tagged("x", &["b", "bad"]));
    let applied = cache.apply(writes);

    assert_eq!(applied.index_panics[0].to_string(), "the function of index \"tag\" panicked on x: bad tag");
    assert_eq!(["a", "b"].map(|tag| by_tag.count(tag)), [0, 0]);
    assert_eq!(
        **cache.lister().get(&key("x")).unwrap(),
        ["b", "bad"],
        "the object is stored although it is not indexed"
    );
    cache.upsert(tagged("x", &["c"]));
    assert_eq!(by_tag.keys("c"), [key("x")]);
}

// kubernetes#84959
#[test]
fn an_index_value_without_objects_takes_no_memory() {
    let cache = Indexer::new();
    let by_tag = cache.add_index("tag", |object: &Cached<String>| [object.object().clone()]).unwrap();
    let churn = |rounds: std::ops::Range<u32>| {
        for round in rounds {
            cache.upsert(Cached::new(Identity::of_key(key("x")), format!("value-{round}")));
        }
    };
    churn(0..10);

    let growth = allocation_counter::measure(|| churn(10..1000)).bytes_current;

    assert_eq!(by_tag.values().len(), 1);
    assert!(growth.abs() < 100, "{growth} bytes stay allocated after 990 values");
}
