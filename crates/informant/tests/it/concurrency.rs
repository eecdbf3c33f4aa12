//! Many threads that use one cache, and many tasks that use one queue.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use informant::{
    Cached, Identity, Key, Lister,
    pipeline::{Delta, DeltaFifo, Indexer, ItemOutcome, WriteBatch},
};

use crate::support::{key, list, object};

/// A member of a group: each writes writes the same value to all members of a group.
type Member = Cached<u64>;

const GROUPS: u64 = 8;
const MEMBERS: u64 = 16;

fn member(group: u64, member: u64, value: u64) -> Member {
    Cached::new(Identity::of_key(Key::namespaced(&format!("group-{group}"), &member.to_string())), value)
}

fn write_group(cache: &Indexer<u64>, group: u64, value: u64) {
    let mut writes = WriteBatch::new();
    (0..MEMBERS).for_each(|number| writes.upsert(member(group, number, value)));
    writes.at(value.to_string().as_str().into());
    cache.apply(writes);
}

/// Asserts that the snapshot has no partial writes (a group with two values) and no index that differs from the objects.
fn assert_consistent(snapshot: &Lister<u64>) {
    for group in 0..GROUPS {
        let members = snapshot.index("namespace").unwrap().get(&format!("group-{group}"));
        let values: BTreeSet<u64> = members.iter().map(|member| *member.object()).collect();
        assert!(values.len() <= 1, "partial writes: {values:?}");
        assert!(members.is_empty() || members.len() as u64 == MEMBERS);
    }
    for name in ["value", "parity", "later-1", "later-2"] {
        // It may not have been added yet.
        let Ok(index) = snapshot.index(name) else { continue };
        let indexed: usize = index.values().iter().map(|value| index.get(value).len()).sum();
        assert_eq!(indexed, snapshot.len(), "index {name} differs from the objects");
        for value in index.values() {
            let divisor = if name == "parity" { 2 } else { u64::MAX };
            for found in index.get(&value) {
                assert_eq!((*found.object() % divisor).to_string(), *value);
                assert!(Cached::ptr_eq(&found, &snapshot.get(found.key()).unwrap()));
            }
        }
    }
}

// P6
#[test]
fn snapshots_have_no_partial_batch_and_consistent_indexes_while_indexes_are_added() {
    let cache = Indexer::new();
    cache.add_index("value", |member: &Member| [*member.object()]).unwrap();
    cache.add_index("parity", |member: &Member| [*member.object() % 2]).unwrap();
    let is_writing = AtomicBool::new(true);

    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..2)
            .map(|writer| {
                let cache = &cache;
                scope.spawn(move || {
                    for value in 0..150 {
                        for group in (writer..GROUPS).step_by(2) {
                            write_group(cache, group, value);
                        }
                    }
                })
            })
            .collect();
        for _ in 0..3 {
            scope.spawn(|| {
                let (lister, mut reads) = (cache.lister(), 0);
                while is_writing.load(Ordering::Relaxed) || reads == 0 {
                    assert_consistent(&lister.snapshot());
                    let group = lister.namespace("group-3").list();
                    let values: BTreeSet<u64> = group.iter().map(|member| *member.object()).collect();
                    assert!(values.len() <= 1, "partial writes: {values:?}");
                    reads += 1;
                }
            });
        }
        for name in ["later-1", "later-2"] {
            cache.add_index(name, |member: &Member| [*member.object()]).unwrap();
        }
        writers.into_iter().for_each(|writer| writer.join().unwrap());
        is_writing.store(false, Ordering::Relaxed);
    });

    assert_consistent(&cache.lister().snapshot());
    assert_eq!(cache.lister().index("later-2").unwrap().get("149").len() as u64, GROUPS * MEMBERS);
}

// P6: a large writes is applied to a copy, which then replaces the state
#[test]
fn readers_see_no_partial_large_batch() {
    let cache = Indexer::new();
    let is_writing = AtomicBool::new(true);

    std::thread::scope(|scope| {
        scope.spawn(|| {
            for value in 0..10 {
                let mut writes = WriteBatch::new();
                (0..5000).for_each(|number| writes.upsert(member(0, number, value)));
                cache.apply(writes);
            }
            is_writing.store(false, Ordering::Relaxed);
        });
        scope.spawn(|| {
            let lister = cache.lister();
            while is_writing.load(Ordering::Relaxed) {
                let values: BTreeSet<u64> = lister.list().iter().map(|member| *member.object()).collect();
                assert!(values.len() <= 1, "partial writes: {values:?}");
            }
        });
    });

    assert_eq!(cache.lister().len(), 5000);
}

// A wake-up between the check of the queue and the wait must not be lost.
#[test]
fn a_producer_and_a_consumer_of_a_queue_lose_no_wake_up() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let fifo = DeltaFifo::<()>::new();
    runtime.block_on(async {
        let consumer = tokio::spawn({
            let fifo = fifo.clone();
            async move {
                while let Ok(batch) = fifo.pop().await {
                    batch.acknowledge();
                }
            }
        });
        let producer = async {
            fifo.push(list(1, []));
            fifo.synced().await.unwrap();
            for version in 0..20_000 {
                fifo.push(Delta::Updated(object("x", version)));
                while !fifo.is_empty() {
                    tokio::task::yield_now().await;
                }
            }
            fifo.close();
        };
        // The threads run on real time. The limit is far above the usual duration and turns a lost wake-up into a failure.
        tokio::time::timeout(std::time::Duration::from_secs(300), producer).await.expect("a lost wake-up");
        consumer.await.unwrap();
    });
}

// P2, P5
#[test]
fn many_consumers_of_one_queue_lose_no_delta_and_never_process_an_object_at_the_same_time() {
    const OBJECTS: usize = 20;
    const CHANGES: u64 = 200;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_all().build().unwrap();
    let fifo = DeltaFifo::<()>::new();
    let histories: Arc<Vec<history::ObjectHistory>> =
        Arc::new((0..OBJECTS).map(|_| history::ObjectHistory::default()).collect());

    runtime.block_on(async {
        let consumers: Vec<_> = (0..4)
            .map(|consumer| {
                let (fifo, histories) = (fifo.clone(), Arc::clone(&histories));
                tokio::spawn(async move {
                    let mut taken = 0_u64;
                    loop {
                        let batch = if consumer % 2 == 0 { fifo.pop().await } else { fifo.drain().await };
                        let Ok(batch) = batch else { return };
                        taken += 1;
                        let requeues = taken.is_multiple_of(5);
                        for item in batch.items() {
                            let object: usize = item.key().name().parse().unwrap();
                            let versions =
                                item.deltas().iter().map(|delta| delta.object().version().as_str().parse().unwrap());
                            histories[object].process(versions, requeues);
                        }
                        tokio::task::yield_now().await;
                        for item in batch.items() {
                            histories[item.key().name().parse::<usize>().unwrap()].finish();
                        }
                        batch.settle(
                            |_| {
                                if requeues { ItemOutcome::Requeue { processed: 0 } } else { ItemOutcome::Done }
                            },
                        );
                    }
                })
            })
            .collect();
        let producers: Vec<_> = (0..2_usize)
            .map(|producer| {
                let fifo = fifo.clone();
                tokio::spawn(async move {
                    for version in 1..=CHANGES {
                        for number in (producer..OBJECTS).step_by(2) {
                            fifo.push(Delta::Updated(object(&number.to_string(), version)));
                        }
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        for producer in producers {
            producer.await.unwrap();
        }
        fifo.close();
        for consumer in consumers {
            consumer.await.unwrap();
        }
    });

    for (number, history) in histories.iter().enumerate() {
        assert_eq!(history.newest(), CHANGES, "{}", key(&number.to_string()));
    }
}

/// The deltas of one object that consumers have processed.
mod history {
    use std::sync::Mutex;

    #[derive(Default)]
    pub(super) struct ObjectHistory(Mutex<State>);

    #[derive(Default)]
    struct State {
        newest: u64,
        is_in_flight: bool,
    }

    impl ObjectHistory {
        pub(super) fn process(&self, versions: impl Iterator<Item = u64>, is_requeued: bool) {
            let mut state = self.0.lock().unwrap();
            assert!(!std::mem::replace(&mut state.is_in_flight, true), "two consumers process the same object");
            for version in versions {
                assert!(version > state.newest, "version {version} comes after {}", state.newest);
                if !is_requeued {
                    state.newest = version;
                }
            }
        }

        pub(super) fn finish(&self) {
            self.0.lock().unwrap().is_in_flight = false;
        }

        pub(super) fn newest(&self) -> u64 {
            self.0.lock().unwrap().newest
        }
    }
}
