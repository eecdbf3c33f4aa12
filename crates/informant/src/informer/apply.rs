//! Turns a batch of changes into writes to the cache, and the replaced objects into events for handlers.
//!
//! - **In:** the items of a receipt.
//! - **Out:** one batch of cache writes; then the events, derived from the replaced objects.
//! - **Knows nothing of:** handlers.

use super::relist_order::deletes_first;
use crate::{
    Cached, Deleted, Event, Origin, ResourceVersion,
    delta::{Change, Delta, Relist},
    event::CacheEvent,
    metrics::Tally,
    object::Erased,
    queue::{InOrderChange, ObjectChanges},
    store::{Applied, Indexer, Lister, Replacement, WriteBatch},
};

/// The settings of an informer that decide how changes are applied.
#[derive(Debug, Clone, Copy)]
pub(super) struct ApplyOptions {
    /// An object that was deleted and created again while the watch was down is one update, not a delete and an add.
    pub(super) recreated_as_update: bool,
    /// Objects with the same uid and version are treated as equal.
    pub(super) trusts_versions: bool,
}

/// The changes of the cache that one batch made.
#[derive(Default)]
pub(super) struct Outcome {
    /// The adds of the initial list.
    pub(super) initial: Vec<CacheEvent>,
    /// All later changes.
    pub(super) live: Vec<CacheEvent>,
    pub(super) tally: Tally,
    pub(super) index_panics: usize,
}

/// The writes of a batch, and the steps of the batch. A step whose object the cache already has in the same state has no write.
struct Plan {
    /// INV-A1: one write for each [`Step::Write`] of `steps`, in the same order.
    writes: WriteBatch<Erased>,
    steps: Vec<Step>,
}

/// One change of one object, in the order of the queue.
enum Step {
    /// The change must be written to the cache.
    Write(Write),
    /// The cache holds the same state already.
    Same(Cached<Erased>),
}

/// The change that a write stands for.
enum Write {
    /// The object exists, according to the watch or the initial list.
    Upserted(Origin),
    /// The object exists, according to a relist.
    Listed(Origin),
    /// The object was deleted; with its final state, if that is known.
    Removed(Option<Deleted<Erased>>),
}

/// Applies a batch of the grouping queue: all waiting changes of each object.
pub(super) fn apply_taken(
    items: &[ObjectChanges<Erased>],
    version: Option<&ResourceVersion>,
    cache: &Indexer<Erased>,
    lister: &Lister<Erased>,
    options: ApplyOptions,
) -> Outcome {
    let mut plan = Plan::with_capacity(items.len());
    for taken in items {
        let mut origin = taken.origin();
        for (position, delta) in taken.deltas().iter().enumerate() {
            match delta {
                // A listed object that the cache holds in the same state is not written and not indexed again.
                Delta::Replaced(object) | Delta::Sync(object) if position == 0 => match stored(lister, object, options)
                {
                    Some(stored) => plan.steps.push(Step::Same(stored)),
                    None => plan.push(delta, origin),
                },
                Delta::Added(_) | Delta::Updated(_) | Delta::Deleted(_) | Delta::Replaced(_) | Delta::Sync(_) => {
                    plan.push(delta, origin);
                }
            }
            // Later deltas of the object are not part of the initial list.
            if !delta.is_deleted() {
                origin = Origin::Live;
            }
        }
    }
    plan.apply(version, cache, options)
}

/// Applies a batch of the in-order queue, whose changes are in the server's order.
pub(super) fn apply_changes(
    items: &[InOrderChange<Erased>],
    version: Option<&ResourceVersion>,
    cache: &Indexer<Erased>,
    options: ApplyOptions,
) -> Outcome {
    let mut outcome = Outcome::default();
    let mut plan = Plan::with_capacity(items.len());
    for taken in items {
        match taken.change() {
            Change::One(delta) => plan.push(delta, taken.origin()),
            Change::Lost(key) => {
                plan.writes.remove(key.clone());
                plan.steps.push(Step::Write(Write::Removed(None)));
            }
            Change::ReplacedAll(relist) => {
                let before = std::mem::take(&mut plan).apply(None, cache, options);
                outcome = outcome.and(before).and(replace(relist, taken.origin(), cache, options));
            }
            // A bookmark's version is the receipt's version. A shared informer does not queue resyncs.
            Change::Bookmark(_) | Change::SyncAll => {}
        }
    }
    outcome.and(plan.apply(version, cache, options))
}

fn replace(relist: &Relist<Erased>, origin: Origin, cache: &Indexer<Erased>, options: ApplyOptions) -> Outcome {
    let Applied { replacements, index_panics } =
        cache.replace_unless(relist, |stored, listed| options.are_same(stored, listed));
    let mut outcome = Outcome { index_panics: index_panics.len(), ..Outcome::default() };
    for replacement in replacements {
        let write = if replacement.new.is_some() { Write::Upserted(origin) } else { Write::Removed(None) };
        outcome.push_event(write, replacement, options);
    }
    // The missed deletes of re-created objects stand directly before their adds.
    if outcome.tally.deleted > 0 {
        outcome.live = deletes_first(outcome.live, &[]);
    }
    outcome
}

/// Returns the cached object if it is in the same state as this one.
fn stored(lister: &Lister<Erased>, object: &Cached<Erased>, options: ApplyOptions) -> Option<Cached<Erased>> {
    lister.get(object.key()).filter(|stored| Cached::ptr_eq(stored, object) || options.are_same(stored, object))
}

impl Plan {
    fn with_capacity(writes: usize) -> Self {
        Self { writes: WriteBatch::with_capacity(writes), steps: Vec::with_capacity(writes) }
    }

    fn push(&mut self, delta: &Delta<Erased>, origin: Origin) {
        match delta {
            Delta::Added(object) | Delta::Updated(object) => {
                self.writes.upsert(object.clone());
                self.steps.push(Step::Write(Write::Upserted(origin)));
            }
            Delta::Replaced(object) | Delta::Sync(object) => {
                self.writes.upsert(object.clone());
                self.steps.push(Step::Write(Write::Listed(origin)));
            }
            Delta::Deleted(deleted) => {
                self.writes.remove(deleted.key().clone());
                self.steps.push(Step::Write(Write::Removed(Some(deleted.clone()))));
            }
        }
    }

    /// Applies all writes at once, and derives the events.
    fn apply(mut self, version: Option<&ResourceVersion>, cache: &Indexer<Erased>, options: ApplyOptions) -> Outcome {
        if let Some(version) = version {
            self.writes.at(version.clone());
        }
        if options.trusts_versions {
            self.writes.keep_same_states();
        }
        let Applied { replacements, index_panics } = match self.writes.is_empty() && version.is_none() {
            true => Applied { replacements: Vec::new(), index_panics: Vec::new() },
            false => cache.apply(self.writes),
        };
        let mut replacements = replacements.into_iter();
        let mut outcome = Outcome { index_panics: index_panics.len(), ..Outcome::default() };
        // Positions in `outcome.live` of the adds and updates of a relist.
        let mut listed = Vec::new();
        for step in self.steps {
            match (step, &mut replacements) {
                (Step::Same(object), _) => outcome.push(Event::Resynced(object).into()),
                (Step::Write(write), replacements) => {
                    let replacement = replacements.next().expect("INV-A1");
                    let is_listed = matches!(write, Write::Listed(_));
                    let before = outcome.live.len();
                    outcome.push_event(write, replacement, options);
                    if is_listed && outcome.live.len() > before {
                        listed.push(outcome.live.len() - 1);
                    }
                }
            }
        }
        if !listed.is_empty() && outcome.tally.deleted > 0 {
            outcome.live = deletes_first(outcome.live, &listed);
        }
        outcome
    }
}

impl Outcome {
    /// Translates one cache write into the events that handlers receive.
    fn push_event(&mut self, write: Write, replacement: Replacement<Erased>, options: ApplyOptions) {
        let Replacement { old, new } = replacement;
        match (write, old, new) {
            (Write::Upserted(origin) | Write::Listed(origin), None, Some(object)) => {
                self.push(Event::Added { object, origin }.into());
            }
            (Write::Upserted(origin) | Write::Listed(origin), Some(old), Some(new)) => {
                if !old.identity().may_be_same_incarnation(new.uid()) && !options.recreated_as_update {
                    self.push(Event::Deleted(Deleted::Missed { last_known: old }).into());
                    self.push(Event::Added { object: new, origin }.into());
                } else if Cached::ptr_eq(&old, &new) {
                    self.push(Event::Resynced(new).into());
                } else {
                    self.push(Event::Updated { old, new }.into());
                }
            }
            (Write::Removed(deleted), Some(last), None) => {
                // The deleted state is of another incarnation, so the delete of the cached one was missed.
                let deleted = deleted.filter(|deleted| last.identity().may_be_same_incarnation(deleted.object().uid()));
                let deleted = deleted.unwrap_or_else(|| Deleted::Missed { last_known: last.clone() });
                self.push(CacheEvent::deleted(deleted, last));
            }
            // The object was never in the cache, so no handler knows it.
            (Write::Removed(_), None, None) => {}
            (Write::Upserted(_) | Write::Listed(_), _, None) | (Write::Removed(_), _, Some(_)) => {
                unreachable!("INV-A1")
            }
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

    fn and(mut self, other: Self) -> Self {
        self.initial.extend(other.initial);
        self.live.extend(other.live);
        self.tally.add(other.tally);
        self.index_panics += other.index_panics;
        self
    }
}

impl ApplyOptions {
    /// Returns true if the cached object is in the same state as the received one, so that it need not be replaced.
    fn are_same(self, stored: &Cached<Erased>, received: &Cached<Erased>) -> bool {
        self.trusts_versions && stored.is_same_state(received)
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}
