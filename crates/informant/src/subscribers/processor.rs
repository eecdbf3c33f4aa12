//! Distributes every batch of events to every listener.
//!
//! - **In:** the events of one batch of cache writes; new listeners.
//! - **Out:** batches, in the buffers of all listeners.
//! - **Knows nothing of:** the cache and its lock: the caller makes sure that a batch of writes with its events is atomic, and that adding a
//!   listener is.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use super::{
    Listener,
    buffer::{EventBatch, RemovedEvents},
    calling::WorkOwner,
    resync::{CheckPeriod, ResyncSchedule},
};
use crate::{Cached, Event, Origin, object::Erased};

/// The listeners of one informer.
pub(crate) struct SharedProcessor {
    id: u64,
    listeners: Vec<ScheduledListener>,
    check: CheckPeriod,
    is_synced: bool,
    is_closed: bool,
    next_listener: u64,
    /// Coalesced events, until the caller takes them.
    removed: RemovedEvents,
}

struct ScheduledListener {
    listener: Arc<Listener>,
    resync: ResyncSchedule,
}

impl SharedProcessor {
    pub(crate) fn new(resync: Option<Duration>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            listeners: Vec::new(),
            check: CheckPeriod::new(resync),
            is_synced: false,
            is_closed: false,
            next_listener: 0,
            removed: RemovedEvents::default(),
        }
    }

    /// Unique among the informers of the process.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The period at which the informer checks which listeners are due for a resync.
    pub(crate) fn check_period(&self) -> Option<Duration> {
        self.check.period()
    }

    /// Fixes the check period. Returns the listeners that were added so far.
    pub(crate) fn start(&mut self) -> Vec<Arc<Listener>> {
        self.check.fix();
        self.listeners.iter().map(|scheduled| Arc::clone(&scheduled.listener)).collect()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_closed
    }

    /// Removes the listeners that were closed, and returns them with the events that were coalesced into others since the last call. The
    /// caller drops them after it has released its lock: dropping them runs users' code.
    pub(crate) fn take_removed(&mut self) -> (Vec<Arc<Listener>>, RemovedEvents) {
        let closed = self.listeners.extract_if(.., |scheduled| scheduled.listener.is_closed());
        (closed.map(|scheduled| scheduled.listener).collect(), std::mem::take(&mut self.removed))
    }

    /// Adds a listener: it receives the objects of the cache as adds, and all later events. Returns it with its resync period.
    pub(crate) fn add_listener(
        &mut self,
        make: impl FnOnce(WorkOwner) -> Listener,
        request: Option<Duration>,
        objects: Vec<Cached<Erased>>,
        now: Instant,
    ) -> (Arc<Listener>, Option<Duration>) {
        let listener = Arc::new(make(WorkOwner { informer: self.id, listener: Some(self.next_listener) }));
        self.next_listener += 1;
        let initial = objects.into_iter().map(|object| Event::Added { object, origin: Origin::InitialList });
        self.removed.extend(listener.push(initial.collect()));
        if self.is_synced {
            self.removed.extend(listener.push(synced()));
        }
        let period = self.check.grant(request);
        let resync = ResyncSchedule::new(period, now);
        self.listeners.push(ScheduledListener { listener: Arc::clone(&listener), resync });
        (listener, period)
    }

    /// Appends the events to the buffer of every listener. Resync events, which a relist causes for unchanged objects, go only to listeners
    /// that have a resync period and have taken all earlier resync events. Returns the events, since dropping the last reference to
    /// an object runs users' code.
    pub(crate) fn distribute(&mut self, events: Vec<Event<Erased>>) -> RemovedEvents {
        let mut distributed = RemovedEvents::default();
        if events.is_empty() {
            return distributed;
        }
        let all = EventBatch::from(events);
        let has_resyncs = all.iter().any(Event::is_resync);
        let changes = match has_resyncs {
            true => all.iter().filter(|event| !event.is_resync()).cloned().collect(),
            false => all.clone(),
        };
        for ScheduledListener { listener, resync } in &self.listeners {
            if has_resyncs && resync.has_period() && !listener.skip_resync_if_waiting() {
                self.removed.extend(listener.push_resync(all.clone()));
            } else if !changes.is_empty() {
                self.removed.extend(listener.push(changes.clone()));
            }
        }
        distributed.extend([all, changes]);
        distributed
    }

    /// Appends the end of the initial list to the buffer of every listener, once.
    pub(crate) fn set_synced(&mut self) {
        if self.is_synced {
            return;
        }
        self.is_synced = true;
        let marker = synced();
        self.removed.extend(self.listeners.iter().flat_map(|scheduled| scheduled.listener.push(marker.clone())));
    }

    /// Replays the cache to the listeners that are due, except those that have not taken all events of their last resync. Returns the
    /// number of objects that were replayed.
    pub(crate) fn resync(&mut self, now: Instant, objects: impl FnOnce() -> Vec<Cached<Erased>>) -> usize {
        let due = self.listeners.iter_mut().filter_map(|ScheduledListener { listener, resync }| {
            let is_replayed = resync.is_due(now) && !listener.skip_resync_if_waiting();
            is_replayed.then_some(listener)
        });
        let due: Vec<_> = due.collect();
        if due.is_empty() {
            return 0;
        }
        let batch: EventBatch = objects().into_iter().map(Event::Resynced).collect();
        if !batch.is_empty() {
            self.removed.extend(due.iter().flat_map(|listener| listener.push_resync(batch.clone())));
        }
        batch.len()
    }

    /// Distributes no more events and accepts no more listeners. Returns the listeners that it had.
    pub(crate) fn close(&mut self) -> Vec<Arc<Listener>> {
        self.is_closed = true;
        std::mem::take(&mut self.listeners).into_iter().map(|scheduled| scheduled.listener).collect()
    }
}

/// The end of the initial list.
fn synced() -> EventBatch {
    std::iter::once(Event::Synced).collect()
}
