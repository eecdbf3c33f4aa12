//! Distributes every batch of events to every listener.
//!
//! - **In:** the events of one batch of cache writes; listeners that join.
//! - **Out:** batches, in the buffers of all listeners.
//! - **Knows nothing of:** the cache and its lock: the caller makes sure that a batch of writes with its events, and a join, are atomic.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{
    Listener, Notice, ResyncRequest,
    buffer::Batch,
    calling::Caller,
    listener::RemovedEvents,
    resync::{CheckPeriod, Schedule},
};
use crate::{Cached, Origin, object::Erased};

/// The listeners of one informer.
pub(crate) struct SharedProcessor {
    id: u64,
    members: Vec<Member>,
    check: CheckPeriod,
    is_synced: bool,
    is_closed: bool,
    next_listener: u64,
    /// Coalesced events, until the caller takes them.
    removed: Vec<RemovedEvents>,
}

/// Values to be dropped after the caller has released its lock: dropping them runs users' code.
pub(crate) struct Leftovers {
    /// Listeners that were closed.
    pub(crate) listeners: Vec<Arc<Listener>>,
    /// Events that were coalesced into others.
    pub(crate) events: Vec<RemovedEvents>,
}

struct Member {
    listener: Arc<Listener>,
    resync: Schedule,
}

/// A listener that has joined.
pub(crate) struct Joined {
    pub(crate) listener: Arc<Listener>,
    /// Its resync period.
    pub(crate) resync: Option<Duration>,
}

/// Events that were distributed. Dropping users' objects runs users' code, so the caller drops this without a lock.
pub(crate) struct Distributed {
    _all: Batch,
    _changes: Batch,
}

impl SharedProcessor {
    pub(crate) fn new(resync: Option<Duration>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            members: Vec::new(),
            check: CheckPeriod::new(resync),
            is_synced: false,
            is_closed: false,
            next_listener: 0,
            removed: Vec::new(),
        }
    }

    /// Unique among the informers of the process.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// How often to look for listeners that are due for a resync.
    pub(crate) fn check_period(&self) -> Option<Duration> {
        self.check.period()
    }

    /// Fixes the check period. Returns the listeners that have joined so far.
    pub(crate) fn start(&mut self) -> Vec<Arc<Listener>> {
        self.check.fix();
        self.members.iter().map(|member| Arc::clone(&member.listener)).collect()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Removes the listeners that were closed, and returns them with the events that were coalesced into others since the last call.
    pub(crate) fn take_leftovers(&mut self) -> Leftovers {
        let closed = self.members.extract_if(.., |member| member.listener.is_closed());
        let listeners = closed.map(|member| member.listener).collect();
        Leftovers { listeners, events: std::mem::take(&mut self.removed) }
    }

    /// Adds a listener: it receives the objects of the cache as adds, and all later events.
    pub(crate) fn join(
        &mut self,
        make: impl FnOnce(Caller) -> Listener,
        request: ResyncRequest,
        objects: Vec<Cached<Erased>>,
        now: Instant,
    ) -> Joined {
        let listener = Arc::new(make(Caller { informer: self.id, listener: Some(self.next_listener) }));
        self.next_listener += 1;
        let initial = objects.into_iter().map(|object| Notice::Added { object, origin: Origin::InitialList });
        self.removed.extend(listener.push(initial.collect()));
        if self.is_synced {
            self.removed.extend(listener.push(Arc::from([Notice::Synced])));
        }
        let resync = self.check.grant(request);
        let member = Member { listener: Arc::clone(&listener), resync: Schedule::new(resync, now) };
        self.members.push(member);
        Joined { listener, resync }
    }

    /// Appends the events to the buffer of every listener. Resyncs, which a relist has for unchanged objects, go only to listeners
    /// that have a resync period and have taken all earlier resyncs. Returns the events, since dropping the last reference to
    /// an object runs users' code.
    pub(crate) fn distribute(&mut self, notices: Vec<Notice>) -> Option<Distributed> {
        if notices.is_empty() {
            return None;
        }
        let all: Batch = notices.into();
        let has_resyncs = all.iter().any(Notice::is_resync);
        let changes: Batch = match has_resyncs {
            true => all.iter().filter(|notice| !notice.is_resync()).cloned().collect(),
            false => Arc::clone(&all),
        };
        for Member { listener, resync } in &self.members {
            if has_resyncs && resync.has_period() && !listener.skip_replay_if_waiting() {
                self.removed.extend(listener.push_replay(Arc::clone(&all)));
            } else if !changes.is_empty() {
                self.removed.extend(listener.push(Arc::clone(&changes)));
            }
        }
        Some(Distributed { _all: all, _changes: changes })
    }

    /// Appends the end of the initial list to the buffer of every listener, once.
    pub(crate) fn set_synced(&mut self) {
        if self.is_synced {
            return;
        }
        self.is_synced = true;
        let marker: Batch = Arc::from([Notice::Synced]);
        for member in &self.members {
            self.removed.extend(member.listener.push(Arc::clone(&marker)));
        }
    }

    /// Replays the cache to the listeners that are due, except those that have not taken all of their last replay. Returns the
    /// number of objects that were replayed.
    pub(crate) fn resync(&mut self, now: Instant, objects: impl FnOnce() -> Vec<Cached<Erased>>) -> usize {
        let due = self.members.iter_mut().filter_map(|Member { listener, resync }| {
            let is_replayed = resync.is_due(now) && !listener.skip_replay_if_waiting();
            is_replayed.then_some(listener)
        });
        let due: Vec<_> = due.collect();
        if due.is_empty() {
            return 0;
        }
        let batch: Batch = objects().into_iter().map(Notice::Unchanged).collect();
        if !batch.is_empty() {
            self.removed.extend(due.iter().filter_map(|listener| listener.push_replay(Arc::clone(&batch))));
        }
        batch.len()
    }

    /// Distributes no more events and accepts no more listeners. Returns those it had.
    pub(crate) fn close(&mut self) -> Vec<Arc<Listener>> {
        self.is_closed = true;
        std::mem::take(&mut self.members).into_iter().map(|member| member.listener).collect()
    }
}
