//! Objects whose destructor reads the queue that drops them.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use informant::{
    Cached, Deleted, Identity, Key,
    pipeline::{Change, Delta, DeltaFifo, ItemOutcome, KnownObjects, Relist},
};

use crate::support::informers::{OnDrop, without_deadlock};

type Object = Cached<OnDrop>;

/// A queue, and a factory of objects whose destructor uses the queue.
struct Fixture {
    queue: DeltaFifo<OnDrop>,
    make: ObjectFactory,
}

/// Makes objects and counts how many of them are dropped.
#[derive(Clone)]
struct ObjectFactory {
    act: Arc<dyn Fn() + Send + Sync>,
    dropped: Arc<AtomicUsize>,
}

impl ObjectFactory {
    fn new(act: impl Fn() + Send + Sync + 'static) -> Self {
        Self { act: Arc::new(act), dropped: Arc::default() }
    }

    fn object(&self, name: &str, version: u64) -> Object {
        let (act, dropped) = (Arc::clone(&self.act), Arc::clone(&self.dropped));
        let on_drop = OnDrop::new(move || {
            dropped.fetch_add(1, Ordering::SeqCst);
            act();
        });
        let identity =
            Identity { key: Key::cluster_scoped(name), uid: "u".into(), version: version.to_string().as_str().into() };
        Cached::new(identity, on_drop)
    }

    fn list(&self, version: u64, names: &[&str]) -> Relist<OnDrop> {
        let objects = names.iter().map(|name| self.object(name, version)).collect();
        Relist {
            version: version.to_string().as_str().into(),
            objects,
            quarantined: Vec::new(),
            history_changed: false,
        }
    }

    fn dropped(&self) -> usize {
        self.dropped.load(Ordering::SeqCst)
    }
}

/// A cache of `known-1` and `known-2` that returns new copies, so that the queue holds the only handle of each.
struct Copies(ObjectFactory);

impl KnownObjects<OnDrop> for Copies {
    fn get(&self, key: &Key) -> Option<Object> {
        key.name().starts_with("known").then(|| self.0.object(key.name(), 1))
    }

    fn list(&self) -> Vec<Object> {
        ["known-1", "known-2"].map(|name| self.0.object(name, 1)).into()
    }
}

/// Uses a queue; returns how many objects the queue must have dropped at its end.
type Act = fn(&Fixture) -> usize;

fn observed(object: Object) -> Deleted<OnDrop> {
    Deleted::Observed(object)
}

const ACTS: [(&str, Act); 10] = [
    ("a delete of an unknown object", |Fixture { queue, make }| {
        queue.push(Delta::Deleted(observed(make.object("a", 1))));
        1
    }),
    ("a delete of a known object", |Fixture { queue, make }| {
        queue.push(Delta::Deleted(observed(make.object("known-1", 2))));
        1
    }),
    ("two deletes in a row", |Fixture { queue, make }| {
        queue.push(Delta::Added(make.object("a", 1)));
        queue.push(Delta::Deleted(observed(make.object("a", 2))));
        queue.push(Delta::Deleted(observed(make.object("a", 3))));
        1
    }),
    ("an observed delete after a missed one", |Fixture { queue, make }| {
        queue.push(Delta::Added(make.object("a", 1)));
        queue.push(Delta::Deleted(Deleted::Missed { last_known: make.object("a", 1) }));
        queue.push(Delta::Deleted(observed(make.object("a", 2))));
        1
    }),
    ("a list that has a known object", |Fixture { queue, make }| {
        queue.push(make.list(9, &["known-1"]));
        1
    }),
    ("a resync while a known object waits", |Fixture { queue, make }| {
        queue.push(Delta::Added(make.object("known-1", 2)));
        queue.push(Change::Resync);
        1
    }),
    ("a delete that cannot be read", |Fixture { queue, make }| {
        queue.push(Delta::Added(make.object("a", 2)));
        queue.push(Change::DeletedUnread { key: Key::cluster_scoped("a"), version: Some("3".into()) });
        queue.push(Change::DeletedUnread { key: Key::cluster_scoped("a"), version: Some("4".into()) });
        queue.push(Change::DeletedUnread { key: Key::cluster_scoped("known-1"), version: None });
        queue.try_drain().unwrap().unwrap().acknowledge();
        2
    }),
    ("a batch that is acknowledged", |Fixture { queue, make }| {
        queue.push(Delta::Added(make.object("a", 1)));
        queue.push(Delta::Updated(make.object("a", 2)));
        queue.push(Delta::Added(make.object("b", 3)));
        queue.try_drain().unwrap().unwrap().acknowledge();
        3
    }),
    ("a batch that is requeued in part", |Fixture { queue, make }| {
        queue.push(Delta::Added(make.object("a", 1)));
        queue.push(Delta::Updated(make.object("a", 2)));
        queue.try_drain().unwrap().unwrap().settle(|_| ItemOutcome::Requeue { processed: 1 });
        1
    }),
    ("a requeued delete before a newer one", |Fixture { queue, make }| {
        queue.push(Delta::Added(make.object("a", 1)));
        queue.push(Delta::Deleted(observed(make.object("a", 2))));
        queue.push(Delta::Added(make.object("a", 3)));
        let batch = queue.try_drain().unwrap().unwrap();
        queue.push(Delta::Deleted(observed(make.object("a", 4))));
        batch.requeue();
        3
    }),
];

/// Runs each act on a new queue. The destructor of each object calls `on_drop` with the queue.
fn run(on_drop: impl Fn(&DeltaFifo<OnDrop>) + Clone + Send + Sync + 'static) {
    for (name, act) in ACTS {
        let slot = Arc::new(Mutex::new(None::<DeltaFifo<_>>));
        let (seen, on_drop) = (Arc::clone(&slot), on_drop.clone());
        let make = ObjectFactory::new(move || {
            let queue = seen.lock().unwrap().clone();
            queue.iter().for_each(&on_drop);
        });
        let queue = DeltaFifo::builder().known_objects(Arc::new(Copies(make.clone()))).build();
        *slot.lock().unwrap() = Some(queue.clone());
        let expected = act(&Fixture { queue, make: make.clone() });
        assert_eq!(make.dropped(), expected, "{name}");
        // Breaks the cycle: the queue holds objects whose destructors hold the queue.
        let queue = slot.lock().unwrap().take();
        drop(queue);
    }
}

/// Decision 7
#[test]
fn the_destructor_of_an_object_may_read_the_queue_that_drops_it() {
    without_deadlock(|| {
        run(|queue| {
            let _ = (queue.len(), queue.reached(), queue.waiting_keys());
        });
    });
}

/// Decision 7: the queue is unlocked and consistent when it drops objects, so a destructor may push.
#[test]
fn the_destructor_of_an_object_may_push_to_the_queue_that_drops_it() {
    without_deadlock(|| {
        run(|queue| queue.push(Change::Bookmark("7".into())));
    });
}
