//! Packs the objects of the cache, some at a time, while the informers of the factory take more memory than their budget.
//!
//! - **In:** the objects of the cache, in the order of their slots.
//! - **Out:** the same objects, packed in place.
//! - **Knows nothing of:** how an object is packed. Objects that arrive meanwhile are packed before they are cached.

use std::time::Duration;

use tokio::time::Instant;

use super::core::Core;
use crate::error::SourceError;

/// A sweep over all objects, again and again.
pub(super) struct Sweep {
    /// Reports, once, that packing is not enough.
    report: Box<dyn Fn(SourceError) + Send + Sync>,
    /// The slot of the next object.
    next: usize,
    /// The number of objects that were packed since the first slot.
    packed: usize,
    /// When the next sweep begins, after the end of one.
    pause: Option<Instant>,
}

/// The number of objects of one turn, so that other work waits for less than a millisecond.
const TURN: usize = 64;

/// The pause after a sweep. The next one packs the objects that were not read during the pause.
const PAUSE: Duration = Duration::from_secs(10);

/// The time between two checks of the budget. An informer whose objects do not change makes no others.
const CHECKS: Duration = Duration::from_secs(5);

impl Sweep {
    pub(super) fn new(report: impl Fn(SourceError) + Send + Sync + 'static) -> Self {
        Self { report: Box::new(report), next: 0, packed: 0, pause: None }
    }

    /// Returns when the next turn is due, or when to ask again, because another informer may use up the budget meanwhile; `None` if objects are not
    /// packed.
    pub(super) fn next_turn(&self, core: &Core, now: Instant) -> Option<Instant> {
        let is_over_budget = core.memory.packing()?.is_over_budget();
        Some(if is_over_budget { self.pause.unwrap_or(now) } else { now + CHECKS })
    }

    /// Packs a few objects.
    pub(super) fn take_turn(&mut self, core: &Core, now: Instant) {
        let (objects, next) = core.lister.in_slots(self.next, TURN);
        self.pause = None;
        self.packed += objects.iter().filter(|object| object.pack()).count();
        self.next = next.unwrap_or_default();
        if next.is_none() {
            let is_done = std::mem::take(&mut self.packed) == 0;
            self.pause = Some(now + PAUSE);
            let exceeded = core.memory.packing().and_then(|packing| packing.set_swept(is_done));
            exceeded.into_iter().for_each(&self.report);
        }
    }
}
