//! Turns a batch of changes into writes to the cache, and the replaced objects into events for handlers.
//!
//! - **In:** a batch of the queue.
//! - **Out:** one batch of cache writes; then the events, derived from the replaced objects, in the server's order.
//! - **Knows nothing of:** handlers.

use crate::{
    Cached, Deleted, Event, Origin,
    delta::Delta,
    event::CacheEvent,
    metrics::Tally,
    object::Erased,
    queue::Batch,
    store::{Applied, Indexer, Lister, Replacement, WriteBatch},
};

/// The changes of the cache that one batch made.
#[derive(Default)]
pub(crate) struct Outcome {
    /// The adds of the initial list.
    pub(crate) initial: Vec<CacheEvent>,
    /// All later changes, in the server's order.
    pub(crate) live: Vec<CacheEvent>,
    pub(crate) tally: Tally,
    pub(crate) index_panics: usize,
    /// The number of objects in the cache after the batch.
    pub(crate) objects: usize,
}

/// Applies a batch to the cache, all deltas at once, and derives the events.
pub(crate) fn apply(batch: &Batch<Erased>, cache: &Indexer<Erased>, lister: &Lister<Erased>) -> Outcome {
    let mut writes = WriteBatch::with_capacity(batch.items().len());
    for item in batch.items() {
        for (position, delta) in item.deltas().iter().enumerate() {
            match delta {
                Delta::Deleted(deleted) => writes.remove(deleted.key().clone()),
                Delta::Replaced(object) | Delta::Sync(object) if position == 0 => {
                    match find_same(lister, object) {
                        // A listed object that the cache holds in the same state is not written and not indexed again.
                        Some(stored) => writes.keep(stored),
                        None => writes.upsert(object.clone()),
                    }
                }
                Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) | Delta::Sync(object) => {
                    writes.upsert(object.clone());
                }
            }
        }
    }
    if let Some(version) = batch.version() {
        writes.at(version.clone());
    }
    writes.keep_same_states();
    Outcome::of(batch, cache.apply(writes))
}

/// Returns the cached object if it is in the same state as this one.
fn find_same(lister: &Lister<Erased>, object: &Cached<Erased>) -> Option<Cached<Erased>> {
    lister.get(object.key()).filter(|stored| Cached::ptr_eq(stored, object) || stored.is_same_state(object))
}

impl Outcome {
    fn of(batch: &Batch<Erased>, applied: Applied<Erased>) -> Self {
        // INV-A1: one replacement for each delta, in the same order.
        let mut replacements = applied.replacements.into_iter();
        let (index_panics, objects) = (applied.index_panics.len(), applied.objects);
        let mut outcome = Self { index_panics, objects, ..Self::default() };
        // The number of the change of each event in `outcome.live`.
        let mut numbers = Vec::with_capacity(batch.items().len());
        for item in batch.items() {
            let mut origin = item.origin();
            for (number, delta) in item.deltas().numbered() {
                outcome.push_events(delta, origin, replacements.next().expect("INV-A1"));
                numbers.resize(outcome.live.len(), *number);
                // Later deltas of the object are not part of the initial list.
                if !delta.is_deleted() {
                    origin = Origin::Live;
                }
            }
        }
        outcome.live = in_arrival_order(outcome.live, numbers);
        outcome
    }

    /// Translates one replacement in the cache into the events that handlers receive.
    fn push_events(&mut self, delta: &Delta<Erased>, origin: Origin, Replacement { old, new }: Replacement<Erased>) {
        match (old, new) {
            (None, Some(object)) => self.push(Event::Added { object, origin }.into()),
            (Some(old), Some(new)) => {
                if !old.identity().may_be_same_incarnation(new.uid()) {
                    self.push(Event::Deleted(Deleted::Missed { last_known: old }).into());
                    self.push(Event::Added { object: new, origin }.into());
                } else if Cached::ptr_eq(&old, &new) {
                    self.push(Event::Resynced(new).into());
                } else {
                    self.push(Event::Updated { old, new }.into());
                }
            }
            (Some(last), None) => {
                let deleted = match delta {
                    Delta::Deleted(deleted) if last.identity().may_be_same_incarnation(deleted.object().uid()) => {
                        deleted.clone()
                    }
                    // The deleted state is of another incarnation, so the delete of the cached incarnation was missed.
                    Delta::Deleted(_) | Delta::Added(_) | Delta::Updated(_) | Delta::Replaced(_) | Delta::Sync(_) => {
                        Deleted::Missed { last_known: last.clone() }
                    }
                };
                self.push(CacheEvent::deleted(deleted, last));
            }
            // The cache does not have the deleted object, so no handler has it.
            (None, None) => {}
        }
    }

    fn push(&mut self, event: CacheEvent) {
        let count = match &event.event {
            Event::Added { .. } => &mut self.tally.added,
            Event::Updated { .. } => &mut self.tally.updated,
            Event::Resynced(_) => &mut self.tally.unchanged,
            Event::Deleted(_) => &mut self.tally.deleted,
            Event::Synced => return,
        };
        *count += 1;
        match &event.event {
            Event::Added { origin: Origin::InitialList, .. } => self.initial.push(event),
            Event::Added { origin: Origin::Live, .. }
            | Event::Updated { .. }
            | Event::Resynced(_)
            | Event::Deleted(_)
            | Event::Synced => self.live.push(event),
        }
    }
}

/// Sorts events by the numbers of their changes. The events of a relist have one number; its deletes come first.
fn in_arrival_order(events: Vec<CacheEvent>, numbers: Vec<u64>) -> Vec<CacheEvent> {
    // Most batches have one delta of each object, and no relist: they are sorted already.
    if numbers.iter().zip(&events).is_sorted_by_key(|(number, shared)| (*number, !shared.event.is_delete())) {
        return events;
    }
    let mut sorted: Vec<_> = numbers.into_iter().zip(events).collect();
    sorted.sort_by_key(|(number, shared)| (*number, !shared.event.is_delete()));
    sorted.into_iter().map(|(_, shared)| shared).collect()
}
