//! Gives every batch to every follower.
//!
//! - **In:** notices of one turn of the cache's writer; followers who join.
//! - **Out:** batches, in the buffers of all followers.
//! - **Knows nothing of:** the cache, nor of turns: whoever calls it sees to it that writing, telling and joining take them.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;

use super::Listener;
use super::Notice;
use super::ResyncRequest;
use super::buffer::Batch;
use super::calling::Caller;
use super::resync::CheckPeriod;
use super::resync::Schedule;
use crate::Cached;
use crate::Origin;
use crate::object::Erased;

/// All who follow one informer.
pub(crate) struct SharedProcessor {
    id: u64,
    followers: Vec<Follower>,
    check: CheckPeriod,
    is_synced: bool,
    is_closed: bool,
    next_listener: u64,
}

struct Follower {
    listener: Arc<Listener>,
    resync: Schedule,
}

/// What somebody who has joined gets.
pub(crate) struct Joined {
    pub(crate) listener: Arc<Listener>,
    /// How often it is told of everything again.
    pub(crate) resync: Option<Duration>,
}

/// What everybody was told.
pub(crate) struct Told {
    _all: Batch,
    _news: Batch,
}

impl SharedProcessor {
    pub(crate) fn new(resync: Option<Duration>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            followers: Vec::new(),
            check: CheckPeriod::new(resync),
            is_synced: false,
            is_closed: false,
            next_listener: 0,
        }
    }

    /// Tells it from all others.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// How often to look who is due for a resync.
    pub(crate) fn check_period(&self) -> Option<Duration> {
        self.check.period()
    }

    /// From now on the check period stays. Gives those who have joined before.
    pub(crate) fn start(&mut self) -> Vec<Arc<Listener>> {
        self.check.fix();
        self.followers.iter().map(|follower| Arc::clone(&follower.listener)).collect()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Forgets those who have left, and gives them, since dropping what they hold is users' code.
    pub(crate) fn take_left(&mut self) -> Vec<Arc<Listener>> {
        let left = self.followers.extract_if(.., |follower| follower.listener.is_closed());
        left.map(|follower| follower.listener).collect()
    }

    /// Somebody joins: is told of what is there, and of everything from now on.
    pub(crate) fn join(
        &mut self,
        make: impl FnOnce(Caller) -> Listener,
        wish: ResyncRequest,
        objects: Vec<Cached<Erased>>,
        now: Instant,
    ) -> Joined {
        let listener = Arc::new(make(Caller { informer: self.id, listener: Some(self.next_listener) }));
        self.next_listener += 1;
        let initial = objects.into_iter().map(|object| Notice::Added { object, origin: Origin::InitialList });
        listener.push(initial.collect());
        if self.is_synced {
            listener.push(Arc::from([Notice::Synced]));
        }
        let resync = self.check.grant(wish);
        let follower = Follower { listener: Arc::clone(&listener), resync: Schedule::new(resync, now) };
        self.followers.push(follower);
        Joined { listener, resync }
    }

    /// Appends the notices to the buffer of every listener. Resyncs, which a relist has for unchanged objects, go only to listeners
    /// that have a resync period and have taken all earlier resyncs. Returns the notices, since dropping the last reference to
    /// an object runs users' code.
    pub(crate) fn distribute(&mut self, notices: Vec<Notice>) -> Option<Told> {
        if notices.is_empty() {
            return None;
        }
        let all: Batch = notices.into();
        let has_resyncs = all.iter().any(Notice::is_resync);
        let news: Batch = match has_resyncs {
            true => all.iter().filter(|notice| !notice.is_resync()).cloned().collect(),
            false => Arc::clone(&all),
        };
        for Follower { listener, resync } in &self.followers {
            if has_resyncs && resync.has_period() && !listener.skip_replay_if_waiting() {
                listener.push_replay(Arc::clone(&all));
            } else if !news.is_empty() {
                listener.push(Arc::clone(&news));
            }
        }
        Some(Told { _all: all, _news: news })
    }

    /// All of the initial list was told.
    pub(crate) fn set_synced(&mut self) {
        if self.is_synced {
            return;
        }
        self.is_synced = true;
        let marker: Batch = Arc::from([Notice::Synced]);
        for follower in &self.followers {
            follower.listener.push(Arc::clone(&marker));
        }
    }

    /// Replays the cache to the listeners that are due, except those that have not taken all of their last replay. Returns the
    /// number of objects that were replayed.
    pub(crate) fn resync(&mut self, now: Instant, objects: impl FnOnce() -> Vec<Cached<Erased>>) -> usize {
        let due = self.followers.iter_mut().filter_map(|Follower { listener, resync }| {
            let is_replayed = resync.is_due(now) && !listener.skip_replay_if_waiting();
            is_replayed.then_some(listener)
        });
        let due: Vec<_> = due.collect();
        if due.is_empty() {
            return 0;
        }
        let batch: Batch = objects().into_iter().map(Notice::Unchanged).collect();
        if !batch.is_empty() {
            due.iter().for_each(|listener| listener.push_replay(Arc::clone(&batch)));
        }
        batch.len()
    }

    /// Nobody is told anything any more, and nobody can join. Gives those who followed.
    pub(crate) fn close(&mut self) -> Vec<Arc<Listener>> {
        self.is_closed = true;
        std::mem::take(&mut self.followers).into_iter().map(|follower| follower.listener).collect()
    }
}
