//! Turns a batch of changes into writes to the cache, and the replaced objects into events for handlers.
//!
//! - **In:** a batch of the queue.
//! - **Out:** one batch of cache writes; then the events, derived from the replaced objects.
//! - **Knows nothing of:** handlers.

use super::relist_order::deletes_first;
use crate::{
    Cached, Deleted, Origin,
    delta::Delta,
    metrics::Tally,
    object::Erased,
    queue::Batch,
    store::{Applied, Indexer, Lister, Replacement, WriteBatch},
    subscribers::Notice,
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
    pub(super) initial: Vec<Notice>,
    /// All later changes.
    pub(super) live: Vec<Notice>,
    pub(super) tally: Tally,
    pub(super) index_panics: usize,
}

/// One delta of the batch.
struct Step<'a> {
    delta: &'a Delta<Erased>,
    origin: Origin,
    /// The cached object, if it is in the state that the delta has. Then nothing is written.
    unchanged: Option<Cached<Erased>>,
}

/// Applies a batch to the cache, all writes at once, and derives the events.
pub(super) fn apply(
    batch: &Batch<Erased>,
    cache: &Indexer<Erased>,
    lister: &Lister<Erased>,
    options: ApplyOptions,
) -> Outcome {
    let mut writes = WriteBatch::with_capacity(batch.items().len());
    let mut steps = Vec::with_capacity(batch.items().len());
    for item in batch.items() {
        let mut origin = item.origin();
        for (position, delta) in item.deltas().iter().enumerate() {
            let unchanged = match delta {
                // A listed object that the cache holds in the same state is not written and not indexed again.
                Delta::Replaced(object) | Delta::Sync(object) if position == 0 => stored(lister, object, options),
                Delta::Added(_) | Delta::Updated(_) | Delta::Replaced(_) | Delta::Sync(_) | Delta::Deleted(_) => None,
            };
            match delta {
                Delta::Deleted(deleted) => writes.remove(deleted.key().clone()),
                Delta::Added(object) | Delta::Updated(object) | Delta::Replaced(object) | Delta::Sync(object) => {
                    if unchanged.is_none() {
                        writes.upsert(object.clone());
                    }
                }
            }
            steps.push(Step { delta, origin, unchanged });
            // Later deltas of the object are not part of the initial list.
            if !delta.is_deleted() {
                origin = Origin::Live;
            }
        }
    }
    if let Some(version) = batch.version() {
        writes.at(version.clone());
    }
    if options.trusts_versions {
        writes.keep_same_states();
    }
    let is_nothing_new = writes.is_empty() && batch.version().is_none();
    // INV-A1: one replacement for each step that writes, in the same order.
    let Applied { replacements, index_panics } = match is_nothing_new {
        true => Applied { replacements: Vec::new(), index_panics: Vec::new() },
        false => cache.apply(writes),
    };
    Outcome::of(steps, replacements, index_panics.len(), options)
}

/// Returns the cached object if it is in the same state as this one.
fn stored(lister: &Lister<Erased>, object: &Cached<Erased>, options: ApplyOptions) -> Option<Cached<Erased>> {
    lister
        .get(object.key())
        .filter(|stored| Cached::ptr_eq(stored, object) || (options.trusts_versions && stored.is_same_state(object)))
}

impl Outcome {
    fn of(
        steps: Vec<Step<'_>>,
        replacements: Vec<Replacement<Erased>>,
        index_panics: usize,
        options: ApplyOptions,
    ) -> Self {
        let mut replacements = replacements.into_iter();
        let mut outcome = Self { index_panics, ..Self::default() };
        // Positions in `outcome.live` of the adds and updates of a relist.
        let mut listed = Vec::new();
        for Step { delta, origin, unchanged } in steps {
            if let Some(object) = unchanged {
                outcome.push(Notice::Unchanged(object));
                continue;
            }
            let before = outcome.live.len();
            outcome.push_events(delta, origin, replacements.next().expect("INV-A1"), options);
            let is_listed = matches!(delta, Delta::Replaced(_) | Delta::Sync(_));
            if is_listed && outcome.live.len() > before {
                listed.push(outcome.live.len() - 1);
            }
        }
        if !listed.is_empty() && outcome.tally.deleted > 0 {
            outcome.live = deletes_first(outcome.live, &listed);
        }
        outcome
    }

    /// Translates one cache write into the events that handlers receive.
    fn push_events(
        &mut self,
        delta: &Delta<Erased>,
        origin: Origin,
        Replacement { old, new }: Replacement<Erased>,
        options: ApplyOptions,
    ) {
        match (old, new) {
            (None, Some(object)) => self.push(Notice::Added { object, origin }),
            (Some(old), Some(new)) => {
                if !old.identity().may_be_same_incarnation(new.uid()) && !options.recreated_as_update {
                    let deleted = Deleted::Missed { last_known: old.clone() };
                    self.push(Notice::Deleted { deleted, last: old });
                    self.push(Notice::Added { object: new, origin });
                } else if Cached::ptr_eq(&old, &new) {
                    self.push(Notice::Unchanged(new));
                } else {
                    self.push(Notice::Updated { old, new });
                }
            }
            (Some(last), None) => {
                let final_state = match delta {
                    // If the deleted state is of another incarnation, the delete of the cached one was missed.
                    Delta::Deleted(deleted) => Some(deleted.clone())
                        .filter(|deleted| last.identity().may_be_same_incarnation(deleted.object().uid())),
                    Delta::Added(_) | Delta::Updated(_) | Delta::Replaced(_) | Delta::Sync(_) => None,
                };
                let deleted = final_state.unwrap_or_else(|| Deleted::Missed { last_known: last.clone() });
                self.push(Notice::Deleted { deleted, last });
            }
            // The cache does not have the deleted object, so no handler has it.
            (None, None) => {}
        }
    }

    fn push(&mut self, notice: Notice) {
        let count = match &notice {
            Notice::Added { .. } => &mut self.tally.added,
            Notice::Updated { .. } => &mut self.tally.updated,
            Notice::Unchanged(_) => &mut self.tally.unchanged,
            Notice::Deleted { .. } => &mut self.tally.deleted,
            Notice::Synced => return,
        };
        *count += 1;
        match &notice {
            Notice::Added { origin: Origin::InitialList, .. } => self.initial.push(notice),
            Notice::Added { origin: Origin::Live, .. }
            | Notice::Updated { .. }
            | Notice::Unchanged(_)
            | Notice::Deleted { .. }
            | Notice::Synced => self.live.push(notice),
        }
    }
}
