//! Applies a batch in a shared informer: writes the cache, then distributes the events, under one lock.
//!
//! - **In:** batches of queued changes; the times at which resyncs are checked.
//! - **Out:** writes to the cache, and events to the processor.
//! - **Knows nothing of:** where changes come from, and which handlers exist.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant as StdInstant},
};

use tokio::time::Instant;
use tracing::{debug, error, info};

#[cfg(feature = "packing")]
use super::sweep::Sweep;
use super::{
    apply::apply,
    core::{ApplyState, Core},
};
use crate::{
    object::Erased,
    queue::{Batch, DeltaFifo},
};

/// Applies batches, and triggers resyncs.
pub(super) struct BatchApplier {
    pub(super) core: Arc<Core>,
    pub(super) queue: DeltaFifo<Erased>,
    pub(super) ticks: Option<Ticks>,
    #[cfg(feature = "packing")]
    pub(super) sweep: Sweep,
}

/// The times at which the informer checks which listeners are due for a resync.
pub(super) struct Ticks {
    next: Instant,
    period: Duration,
}

impl Ticks {
    pub(super) fn every(period: Duration) -> Option<Self> {
        Some(Self { next: Instant::now().checked_add(period)?, period })
    }

    /// Advances past the ticks that are due, and returns the scheduled time of the last one. Listeners are due according to that time and
    /// not to the current time: the task may wake up late, and the next tick would then come too early for them.
    fn advance(&mut self, now: Instant) -> Instant {
        let mut last = self.next;
        while self.next <= now {
            last = self.next;
            self.next += self.period;
        }
        last
    }
}

impl BatchApplier {
    /// Applies a batch to the cache, distributes the events, and acknowledges the batch.
    pub(super) fn apply(&mut self, batch: Batch<Erased>) {
        let begun = StdInstant::now();
        let core = &*self.core;
        core.metrics.queue_depth.set(batch.items().len() as f64);
        let version = batch.version().cloned();
        let history_changed = batch.history_changed();
        let mut batch = Some(batch);
        let done = core.with_apply_lock(|ApplyState { writer, processor }| {
            let batch = batch.take()?;
            // Incremented here and again after the write: a call that waits for a version notices the history change whether it began before
            // or during the write, and never returns a version of the old history.
            if history_changed {
                core.history_changes.fetch_add(1, Ordering::AcqRel);
            }
            let mut outcome = apply(&batch, writer, &core.lister);
            let initial = processor.distribute(std::mem::take(&mut outcome.initial));
            // `processed` may hold the last references to objects that newer changes have replaced; it is dropped after the lock is released.
            let (processed, waiting) = batch.acknowledge_returning_items();
            if !core.is_synced() && self.queue.is_synced() {
                // Set before handlers receive the event, because they may call `is_synced`.
                core.lister.set_synced(true);
                processor.set_synced();
                info!(rv = core.version().map(tracing::field::display), count = core.lister.len(), "synced");
            }
            // Later changes are distributed after the `Synced` event.
            let live = processor.distribute(std::mem::take(&mut outcome.live));
            Some((outcome, waiting, processed, [initial, live]))
        });
        if history_changed && matches!(done, Ok(Some(_))) {
            core.history_changes.fetch_add(1, Ordering::AcqRel);
        }
        core.cache_changed.notify_waiters();
        if let Ok(Some((outcome, waiting, processed, distributed))) = done {
            core.metrics.record_batch(begun.elapsed(), outcome.tally, outcome.index_panics);
            core.metrics.record_levels(waiting, outcome.objects, version.as_ref());
            core.metrics.bytes.set(core.memory.bytes() as f64);
            drop((outcome, processed, distributed));
        }
        if let Some(batch) = batch {
            // An index function runs the runtime, and so polls this task while the lock is held; the batch is retried later.
            error!("an index function runs the informer's runtime, which it must not; retrying the batch");
            batch.requeue();
        }
        core.metrics.record_confirmed(core.confirmed_age());
    }

    /// Returns when the applier has something to do without a batch.
    pub(super) fn next_wake(&mut self) -> Option<Instant> {
        let times = self.ticks.iter().map(|ticks| ticks.next);
        #[cfg(feature = "packing")]
        let times = times.chain(self.sweep.next_turn(&self.core, Instant::now()));
        times.min()
    }

    /// Packs a few objects of the cache if memory is short. Returns whether it did.
    #[cfg(feature = "packing")]
    pub(super) fn pack_some(&mut self, now: Instant) -> bool {
        let is_due = self.sweep.next_turn(&self.core, now).is_some_and(|at| at <= now);
        if is_due {
            self.sweep.take_turn(&self.core, now);
            self.core.metrics.bytes.set(self.core.memory.bytes() as f64);
        }
        is_due
    }

    /// Replays the cache to the listeners that are due for a resync.
    pub(super) fn resync_due(&mut self, now: Instant) {
        let Some(ticks) = self.ticks.as_mut().filter(|ticks| ticks.next <= now) else { return };
        let tick = ticks.advance(now);
        let core = &*self.core;
        if !core.is_synced() {
            return;
        }
        let listeners = core.with_apply_lock(|state| state.processor.resync(tick, || core.lister.list()));
        debug!(count = listeners.unwrap_or_default(), "resync");
    }
}
