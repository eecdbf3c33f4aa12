//! A handler that records the state of each object from the events that it receives. At the end, `verify` compares it with the server.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use informant::{Cached, Deleted, EventHandler, Key, Origin, ResourceVersion, Uid};
use parking_lot::Mutex;
use serde::Serialize;

use super::version_times::VersionTimes;

/// The incarnation (uid) and version of each object.
pub type ObjectStates = BTreeMap<Key, (Uid, ResourceVersion)>;

/// A handler that applies each event to its own map of object states. Cheap to clone; all clones share one map.
#[derive(Clone)]
pub struct Recorder {
    shared: Arc<Mutex<Recorded>>,
    /// How long each call sleeps.
    delay: Duration,
    times: VersionTimes,
}

/// The recorded states and counters.
#[derive(Default)]
struct Recorded {
    states: ObjectStates,
    counts: Counts,
    /// How old the last event was when it was delivered.
    lag: Duration,
}

/// Number of received events by type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub added: u64,
    /// Those of `added` that were in the first list.
    pub initial: u64,
    pub updated: u64,
    pub deleted: u64,
    /// Missed deletes: deletions found by a relist.
    pub missed: u64,
    /// Events that contradict earlier events, such as an update of an unknown object. Must be zero.
    pub inconsistent: u64,
}

impl Recorder {
    pub fn new(delay: Duration, times: VersionTimes) -> Self {
        Self { shared: Arc::default(), delay, times }
    }

    pub fn states(&self) -> ObjectStates {
        self.shared.lock().states.clone()
    }

    pub fn counts(&self) -> Counts {
        self.shared.lock().counts
    }

    /// Time between the last received change and its delivery.
    pub fn lag(&self) -> Duration {
        self.shared.lock().lag
    }

    fn record(&self, version: &ResourceVersion, record: impl FnOnce(&mut Recorded)) {
        if !self.delay.is_zero() {
            // A slow handler is registered as a blocking one, with its own thread.
            std::thread::sleep(self.delay);
        }
        let lag = self.times.age(version.as_str().parse().unwrap_or(u64::MAX));
        let mut recorded = self.shared.lock();
        record(&mut recorded);
        recorded.lag = lag;
    }
}

fn state<O>(object: &Cached<O>) -> (Uid, ResourceVersion) {
    (object.uid().clone(), object.version().clone())
}

impl<O: Send + Sync + 'static> EventHandler<O> for Recorder {
    fn on_add(&self, object: &Cached<O>, origin: Origin) {
        self.record(object.version(), |recorded| {
            let before = recorded.states.insert(object.key().clone(), state(object));
            recorded.counts.added += 1;
            recorded.counts.initial += u64::from(origin == Origin::InitialList);
            recorded.counts.inconsistent += u64::from(before.is_some());
        });
    }

    fn on_update(&self, old: &Cached<O>, new: &Cached<O>) {
        self.record(new.version(), |recorded| {
            let before = recorded.states.insert(new.key().clone(), state(new));
            recorded.counts.updated += 1;
            recorded.counts.inconsistent += u64::from(before != Some(state(old)));
        });
    }

    fn on_delete(&self, deleted: &Deleted<O>) {
        self.record(deleted.object().version(), |recorded| {
            let before = recorded.states.remove(deleted.key());
            match deleted {
                Deleted::Observed(_) => recorded.counts.deleted += 1,
                Deleted::Missed { .. } => recorded.counts.missed += 1,
            }
            recorded.counts.inconsistent += u64::from(before.is_none());
        });
    }
}

#[cfg(test)]
mod tests {
    use informant::Identity;

    use super::*;

    fn pod(uid: &str, version: &str) -> Cached<()> {
        let key = Key::namespaced("shop", "web");
        Cached::new(Identity { key, uid: uid.into(), version: version.into() }, ())
    }

    #[test]
    fn events_are_applied_to_the_recorded_states() {
        let recorder = Recorder::new(Duration::ZERO, VersionTimes::default());

        recorder.on_add(&pod("u1", "1"), Origin::InitialList);
        recorder.on_update(&pod("u1", "1"), &pod("u1", "2"));
        assert_eq!(recorder.states().values().next(), Some(&("u1".into(), "2".into())));
        recorder.on_delete(&Deleted::Observed(pod("u1", "3")));
        recorder.on_add(&pod("u2", "4"), Origin::Live);
        recorder.on_delete(&Deleted::Missed { last_known: pod("u2", "4") });

        assert!(recorder.states().is_empty());
        let expected = Counts { added: 2, initial: 1, updated: 1, deleted: 1, missed: 1, inconsistent: 0 };
        assert_eq!(recorder.counts(), expected);
    }

    #[test]
    fn contradictory_events_are_counted() {
        let inconsistent = |send: &dyn Fn(&Recorder)| {
            let recorder = Recorder::new(Duration::ZERO, VersionTimes::default());
            recorder.on_add(&pod("u1", "1"), Origin::Live);
            send(&recorder);
            recorder.counts().inconsistent
        };

        assert_eq!(
            inconsistent(&|recorder| recorder.on_add(&pod("u2", "2"), Origin::Live)),
            1,
            "an add of a known object"
        );
        assert_eq!(
            inconsistent(&|recorder| recorder.on_update(&pod("u1", "0"), &pod("u1", "2"))),
            1,
            "an update from another old state"
        );
        let twice = |recorder: &Recorder| (0..2).for_each(|_| recorder.on_delete(&Deleted::Observed(pod("u1", "2"))));
        assert_eq!(inconsistent(&twice), 1, "a delete of an unknown object");
    }
}
