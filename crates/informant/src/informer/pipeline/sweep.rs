//! Packs the objects of the cache, some at a time, while the informers of the factory take more memory than their budget.
//!
//! - **In:** the objects of the cache, in the order of their slots.
//! - **Out:** the same objects, packed in place; a report if packing is not enough.
//! - **Knows nothing of:** how an object is packed. Objects that arrive meanwhile are packed before they are cached.

use std::time::Duration;

use tokio::time::Instant;

use super::core::Core;
use crate::error::SourceError;

/// How far the sweep over the cache is. After each sweep comes another one, as long as too much memory is used.
pub(super) struct Sweep {
    /// Reports, once, that packing is not enough.
    report: Box<dyn Fn(SourceError) + Send + Sync>,
    /// The slot of the next object.
    next: usize,
    /// The number of objects that all informers had packed at the end of the last sweep; `None` before that, and when the budget suffices.
    packed: Option<usize>,
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
        Self { report: Box::new(report), next: 0, packed: None, pause: None }
    }

    /// Returns when the next turn is due, or when to ask again, because another informer may use up the budget meanwhile; `None` if that cannot happen.
    /// Within the budget, forgets the last sweep, so that an excess is reported again.
    pub(super) fn next_turn(&mut self, core: &Core, now: Instant) -> Option<Instant> {
        let packing = core.memory.packing().filter(|packing| !packing.packs_everything())?;
        if packing.is_over_budget() {
            return Some(self.pause.unwrap_or(now));
        }
        // Objects that arrive now stay plain.
        self.packed = None;
        packing.note_within_budget();
        Some(now + CHECKS)
    }

    /// Packs a few objects. If no informer has packed any since the end of the last sweep, packing is not enough. (One sweep without any does not
    /// suffice: all objects may have been read before it.)
    pub(super) fn take_turn(&mut self, core: &Core, now: Instant) {
        let Some(packing) = core.memory.packing() else { return };
        let (objects, next) = core.lister.in_slots(self.next, TURN);
        self.pause = None;
        let packed = packing.add_packed(objects.iter().filter(|object| object.pack()).count());
        self.next = next.unwrap_or_default();
        if next.is_none() {
            self.pause = Some(now + PAUSE);
            packing.set_packs_no_more(self.packed.replace(packed) == Some(packed));
            if let Some(problem) = packing.new_problem() {
                (self.report)(problem);
            }
        }
    }
}
