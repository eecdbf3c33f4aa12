//! What a shared informer does with what was taken: write the cache, then tell everybody, in one turn.
//!
//! - **In:** receipts of everything that waits; ticks for resyncs.
//! - **Out:** writes to the cache, notices to the processor.
//! - **Knows nothing of:** where changes come from, who is told.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use std::time::Instant as Clock;

use tokio::time::Instant;
use tracing::debug;
use tracing::error;
use tracing::info;

use super::apply::Outcome;
use super::apply::Rules;
use super::controller::Process;
use super::controller::Takes;
use super::core::Core;
use super::queues::SharedQueue;
use crate::queue::Receipt;

/// The turns of one informer.
pub(super) struct Turns<Q> {
    pub(super) core: Arc<Core>,
    pub(super) queue: Q,
    pub(super) rules: Rules,
    pub(super) ticks: Option<Ticks>,
}

/// When to look who is due for a resync.
pub(super) struct Ticks {
    next: Instant,
    period: Duration,
}

impl Ticks {
    pub(super) fn every(period: Duration) -> Option<Self> {
        Some(Self { next: Instant::now().checked_add(period)?, period })
    }

    /// The tick that is due, and those that were missed, are over; gives when the last of them should have been. By that time
    /// it is decided who is due: a clock that wakes us a little late would make the next tick a little early.
    fn pass(&mut self, now: Instant) -> Instant {
        let mut last = self.next;
        while self.next <= now {
            last = self.next;
            self.next += self.period;
        }
        last
    }
}

impl<Q: SharedQueue> Process<Q> for Turns<Q> {
    const TAKES: Takes = Takes::All;

    fn process(&mut self, receipt: Receipt<Q>) {
        let begun = Clock::now();
        let core = &*self.core;
        core.metrics.taken(receipt.items().len());
        let rules = self.rules;
        let history_changed = receipt.history_changed();
        let mut receipt = Some(receipt);
        let done = core.in_turn(|processor| {
            let receipt = receipt.take()?;
            let Outcome { initial, live, index_panics, tally } = Q::apply(&receipt, core, rules);
            let initial = processor.distribute(initial);
            // Holds the last reference to objects that were superseded in the queue; dropped after the turn.
            let processed = receipt.acknowledge_returning_items();
            if !core.is_synced() && self.queue.has_synced() {
                // Before anybody hears of it, since whoever does may ask.
                let _ = core.sync.set(Ok(()));
                processor.set_synced();
                info!(
                    kind = &*core.name,
                    rv = core.version().map(tracing::field::display),
                    count = core.lister.len(),
                    "synced"
                );
            }
            // What came after the initial list is told after its end.
            let live = processor.distribute(live);
            Some((tally, index_panics, processed, initial, live))
        });
        if history_changed && matches!(done, Ok(Some(_))) {
            core.history_changes.fetch_add(1, Ordering::AcqRel);
        }
        core.moved.notify_waiters();
        if let Ok(Some((tally, index_panics, processed, initial, live))) = done {
            core.metrics.batch(begun.elapsed(), tally, index_panics);
            core.let_go([processed]);
            core.let_go([initial, live]);
        }
        if let Some(receipt) = receipt {
            // Somebody drives the runtime from inside an index function; it comes again.
            error!(kind = &*core.name, "a turn inside a turn: an index function must not run the informer's runtime");
            receipt.requeue();
        }
        core.metrics.levels(core.queued(), core.lister.len(), core.version().as_ref());
        core.metrics.confirmed(core.confirmed_age());
    }

    fn wakes_at(&self) -> Option<Instant> {
        self.ticks.as_ref().map(|ticks| ticks.next)
    }

    fn wake(&mut self, now: Instant) {
        let Some(tick) = self.ticks.as_mut().map(|ticks| ticks.pass(now)) else { return };
        let core = &*self.core;
        if !core.is_synced() {
            return;
        }
        let told = core.in_turn(|processor| processor.resync(tick, || core.lister.list()));
        debug!(kind = &*core.name, count = told.unwrap_or_default(), "resync");
    }
}
