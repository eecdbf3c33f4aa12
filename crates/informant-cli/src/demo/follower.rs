//! A handler that knows what there is by what it was told: folded, and compared with the server at the end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use informant::Cached;
use informant::Deleted;
use informant::EventHandler;
use informant::Key;
use informant::Origin;
use informant::ResourceVersion;
use informant::Uid;
use parking_lot::Mutex;
use serde::Serialize;

use super::times::Times;

/// What is known of an object: which life, which state.
pub type Known = BTreeMap<Key, (Uid, ResourceVersion)>;

/// Follows an informer.
#[derive(Clone)]
pub struct Follower {
    shared: Arc<Mutex<Folded>>,
    /// How long each call takes.
    slowness: Duration,
    times: Times,
}

/// What it has come to know.
#[derive(Default)]
struct Folded {
    known: Known,
    counts: Counts,
    /// How old the last news was.
    lag: Duration,
}

/// How often it was called for what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    pub added: u64,
    pub updated: u64,
    pub deleted: u64,
    /// Deletes that were found by a new list.
    pub missed: u64,
    /// What does not fit to what was told before. There must be none.
    pub nonsense: u64,
}

impl Follower {
    pub fn new(slowness: Duration, times: Times) -> Self {
        Self { shared: Arc::default(), slowness, times }
    }

    pub fn known(&self) -> Known {
        self.shared.lock().known.clone()
    }

    pub fn counts(&self) -> Counts {
        self.shared.lock().counts
    }

    /// How long before it heard of it the last thing that it heard of had happened.
    pub fn lag(&self) -> Duration {
        self.shared.lock().lag
    }

    fn fold(&self, version: &ResourceVersion, fold: impl FnOnce(&mut Folded)) {
        if !self.slowness.is_zero() {
            // It has a thread of its own.
            std::thread::sleep(self.slowness);
        }
        let lag = self.times.since(version.as_str().parse().unwrap_or(u64::MAX));
        let mut folded = self.shared.lock();
        fold(&mut folded);
        folded.lag = lag;
    }
}

fn state<O>(object: &Cached<O>) -> (Uid, ResourceVersion) {
    (object.uid().clone(), object.version().clone())
}

impl<O: Send + Sync + 'static> EventHandler<O> for Follower {
    fn on_add(&self, object: &Cached<O>, _: Origin) {
        self.fold(object.version(), |folded| {
            let before = folded.known.insert(object.key().clone(), state(object));
            folded.counts.added += 1;
            folded.counts.nonsense += u64::from(before.is_some());
        });
    }

    fn on_update(&self, old: &Cached<O>, new: &Cached<O>) {
        self.fold(new.version(), |folded| {
            let before = folded.known.insert(new.key().clone(), state(new));
            folded.counts.updated += 1;
            folded.counts.nonsense += u64::from(before != Some(state(old)));
        });
    }

    fn on_delete(&self, deleted: &Deleted<O>) {
        self.fold(deleted.object().version(), |folded| {
            let before = folded.known.remove(deleted.key());
            match deleted {
                Deleted::Observed(_) => folded.counts.deleted += 1,
                Deleted::Missed { .. } => folded.counts.missed += 1,
            }
            folded.counts.nonsense += u64::from(before.is_none());
        });
    }
}

#[cfg(test)]
mod tests {
    use informant::object::Identity;

    use super::*;

    fn pod(uid: &str, version: &str) -> Cached<()> {
        let key = Key::namespaced("shop", "web");
        Cached::new(Identity { key, uid: uid.into(), version: version.into() }, ())
    }

    #[test]
    fn what_is_told_is_folded() {
        let follower = Follower::new(Duration::ZERO, Times::default());

        follower.on_add(&pod("u1", "1"), Origin::InitialList);
        follower.on_update(&pod("u1", "1"), &pod("u1", "2"));
        assert_eq!(follower.known().values().next(), Some(&("u1".into(), "2".into())));
        follower.on_delete(&Deleted::Observed(pod("u1", "3")));
        follower.on_add(&pod("u2", "4"), Origin::Live);
        follower.on_delete(&Deleted::Missed { last_known: pod("u2", "4") });

        assert!(follower.known().is_empty());
        assert_eq!(follower.counts(), Counts { added: 2, updated: 1, deleted: 1, missed: 1, nonsense: 0 });
    }

    #[test]
    fn what_does_not_fit_is_nonsense() {
        let nonsense = |tell: &dyn Fn(&Follower)| {
            let follower = Follower::new(Duration::ZERO, Times::default());
            follower.on_add(&pod("u1", "1"), Origin::Live);
            tell(&follower);
            follower.counts().nonsense
        };

        assert_eq!(nonsense(&|follower| follower.on_add(&pod("u2", "2"), Origin::Live)), 1, "it is there already");
        assert_eq!(nonsense(&|follower| follower.on_update(&pod("u1", "0"), &pod("u1", "2"))), 1, "another old state");
        let twice = |follower: &Follower| (0..2).for_each(|_| follower.on_delete(&Deleted::Observed(pod("u1", "2"))));
        assert_eq!(nonsense(&twice), 1, "it is gone already");
    }
}
