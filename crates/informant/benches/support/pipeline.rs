//! A reflector, a queue and a cache, connected as in an informer.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use informant::{
    Object,
    pipeline::{Backoff, Delta, DeltaFifo, Indexer, KubeSource, Reflector, WriteBatch},
};
use k8s_openapi::api::core::v1::Pod;

use super::static_server::StaticServer;

/// The queue and the cache of an informer, without handlers.
pub struct Pipeline<O> {
    pub cache: Indexer<O>,
    queue: DeltaFifo<O>,
}

impl<O: Object> Pipeline<O> {
    /// Takes `changes` changes from the queue and applies them to the cache.
    pub async fn consume(&self, changes: usize) {
        let mut left = changes;
        while left > 0 {
            let batch = self.queue.drain().await.unwrap();
            let mut writes = WriteBatch::with_capacity(batch.items().len());
            for taken in batch.items() {
                left -= taken.deltas().len();
                match taken.deltas().newest() {
                    Delta::Deleted(deleted) => writes.remove(deleted.key().clone()),
                    Delta::Added(pod) | Delta::Updated(pod) | Delta::Replaced(pod) | Delta::Sync(pod) => {
                        writes.upsert(pod.clone());
                    }
                }
            }
            self.cache.apply(writes);
            batch.acknowledge();
        }
    }
}

/// Runs a reflector and `consume` concurrently, until `consume` completes.
pub async fn run<O: Object, R>(server: &StaticServer, consume: impl AsyncFnOnce(&Pipeline<O>) -> R) -> R {
    let cache = Indexer::<O>::new();
    let known = Arc::new(cache.lister());
    let queue = DeltaFifo::builder().known_objects(known.clone()).build();
    let reflector = Reflector::builder(KubeSource::of_kind::<Pod>(server.client()))
        .known_objects(known)
        .without_streaming()
        .backoff(Backoff::new(Duration::from_millis(1), Duration::from_millis(1)))
        .build(queue.clone());
    let pipeline = Pipeline { cache, queue };
    match select(pin!(consume(&pipeline)), pin!(reflector.run(std::future::pending()))).await {
        Either::Left((result, _)) => result,
        Either::Right(_) => panic!("the reflector stopped by itself"),
    }
}
