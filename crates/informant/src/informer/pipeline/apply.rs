//! Turns a batch of changes into writes to the cache, and the replaced objects into events for handlers.
//!
//! - **In:** a batch of the queue.
//! - **Out:** one batch of cache writes; then the events, derived from the replaced objects, in the server's order.
//! - **Knows nothing of:** handlers.

use crate::{
    Cached, Deleted, Event, Origin,
    delta::Delta,
    metrics::Tally,
    object::Erased,
    queue::Batch,
    store::{Applied, Lister, Replacement, WriteBatch, Writer},
};

/// The changes of the cache that one batch made.
#[derive(Default)]
pub(crate) struct Outcome {
    /// The adds of the initial list.
    pub(crate) initial: Vec<Event<Erased>>,
    /// All later changes, in the server's order.
    pub(crate) live: Vec<Event<Erased>>,
    /// The cached states of deleted objects, which handlers may no longer have: dropping them runs users' code.
    pub(crate) removed: Vec<Cached<Erased>>,
    pub(crate) tally: Tally,
    pub(crate) index_panics: usize,
    /// The number of objects in the cache after the batch.
    pub(crate) objects: usize,
}

/// Applies a batch to the cache, all deltas at once, and derives the events.
pub(crate) fn apply(batch: &Batch<Erased>, writer: &mut Writer, lister: &Lister<Erased>) -> Outcome {
    let mut writes = WriteBatch::with_capacity(batch.items().len());
    let cache = lister.table();
    for item in batch.items() {
        // The state of the object before the next delta.
        let mut current = cache.get(item.key());
        for delta in item.deltas().iter() {
            match (delta, current) {
                (Delta::Deleted(deleted), _) => {
                    writes.remove(deleted.key().clone());
                    current = None;
                }
                // An object in the same state is not written, and index functions are not called for it.
                (
                    Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) | Delta::Sync(object),
                    Some(same),
                ) if Cached::ptr_eq(same, object) || same.is_same_state(object) => writes.keep(same.clone()),
                (Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) | Delta::Sync(object), _) => {
                    writes.upsert(object.clone());
                    current = Some(object);
                }
            }
        }
    }
    // A held snapshot would make the write copy the table.
    drop(cache);
    if let Some(version) = batch.version() {
        writes.at(version.clone());
    }
    Outcome::of(batch, writer.apply(writes))
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
            (None, Some(object)) => self.push(Event::Added { object, origin }),
            (Some(old), Some(new)) => {
                if !old.identity().may_be_same_incarnation(new.uid()) {
                    self.push(Event::Deleted(Deleted::Missed { last_known: old }));
                    self.push(Event::Added { object: new, origin });
                } else if Cached::ptr_eq(&old, &new) {
                    self.push(Event::Resynced(new));
                } else {
                    self.push(Event::Updated { old, new });
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
                self.push(Event::Deleted(deleted));
                self.removed.push(last);
            }
            // The cache does not have the deleted object, so no handler has it.
            (None, None) => {}
        }
    }

    fn push(&mut self, event: Event<Erased>) {
        let (count, events) = match event {
            Event::Added { origin: Origin::InitialList, .. } => (&mut self.tally.added, &mut self.initial),
            Event::Added { origin: Origin::Live, .. } => (&mut self.tally.added, &mut self.live),
            Event::Updated { .. } => (&mut self.tally.updated, &mut self.live),
            Event::Resynced(_) => (&mut self.tally.unchanged, &mut self.live),
            Event::Deleted(_) => (&mut self.tally.deleted, &mut self.live),
            Event::Synced => return,
        };
        *count += 1;
        events.push(event);
    }
}

/// Sorts events by the numbers of their changes. The events of a relist have one number; its deletes come first.
fn in_arrival_order(events: Vec<Event<Erased>>, numbers: Vec<u64>) -> Vec<Event<Erased>> {
    // Most batches have one delta of each object, and no relist: they are sorted already.
    if numbers.iter().zip(&events).is_sorted_by_key(|(number, event)| (*number, !event.is_delete())) {
        return events;
    }
    let mut sorted: Vec<_> = numbers.into_iter().zip(events).collect();
    sorted.sort_by_key(|(number, event)| (*number, !event.is_delete()));
    sorted.into_iter().map(|(_, event)| event).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;
    use crate::{object::Identity, queue::DeltaFifo, store::IndexFunction};

    #[test]
    fn index_functions_are_not_called_for_an_object_in_the_state_that_the_cache_has_whatever_delta_it_is_in() {
        let object = |version| Cached::new(Identity::new("shop/web", "u1", version), ()).erase();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&calls);
        let count = IndexFunction::new("count", move |_: &Cached<()>| {
            counted.fetch_add(1, Ordering::Relaxed);
            None::<String>
        });
        let mut writer = Writer::new("pods".into());
        writer.add_indexes(vec![count.into_any()]).unwrap();
        let (lister, queue) = (writer.lister(), DeltaFifo::new());
        let mut apply_all = |deltas: &[Delta<Erased>]| {
            deltas.iter().for_each(|delta| queue.push(delta.clone()));
            let batch = queue.try_drain().unwrap().unwrap();
            let events = apply(&batch, &mut writer, &lister).live.len();
            batch.acknowledge();
            (events, calls.load(Ordering::Relaxed))
        };

        assert_eq!(apply_all(&[Delta::Added(object(1))]), (1, 1));
        assert_eq!(apply_all(&[Delta::Added(object(1))]), (1, 1));
        assert_eq!(apply_all(&[Delta::Updated(object(1))]), (1, 1));
        assert_eq!(apply_all(&[Delta::Replaced(object(1))]), (1, 1));
        assert_eq!(apply_all(&[Delta::Updated(object(2)), Delta::Updated(object(2))]), (2, 2));
    }
}
