//! What was taken from a queue becomes writes to the cache, and what they did becomes notices.
//!
//! - **In:** what a receipt has.
//! - **Out:** one batch of writes; then, from what the writes replaced, what there is to tell.
//! - **Knows nothing of:** who is told.

use super::relist_order::deletes_first;
use crate::Cached;
use crate::Deleted;
use crate::Origin;
use crate::ResourceVersion;
use crate::delta::Change;
use crate::delta::Delta;
use crate::delta::Relist;
use crate::metrics::Tally;
use crate::object::Erased;
use crate::queue::InOrderChange;
use crate::queue::ObjectChanges;
use crate::store::Applied;
use crate::store::Indexer;
use crate::store::Lister;
use crate::store::Replacement;
use crate::store::WriteBatch;
use crate::subscribers::Notice;

/// What can be chosen.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules {
    /// An object that was deleted and created again while nobody watched is one update, not a delete and an add.
    pub(super) recreated_as_update: bool,
    /// An object of the same uid and version has the same content.
    pub(super) trusts_versions: bool,
}

/// What happened to the cache.
#[derive(Default)]
pub(super) struct Outcome {
    /// What belongs to the initial list.
    pub(super) initial: Vec<Notice>,
    /// What came after it.
    pub(super) live: Vec<Notice>,
    pub(super) tally: Tally,
    pub(super) index_panics: usize,
}

/// Writes, and what was said of each, with what need not be written in between.
struct Plan {
    /// INV-A1: as many as there are steps that write, in the same order.
    writes: WriteBatch<Erased>,
    steps: Vec<Step>,
}

/// What a queue says of one object, one after the other.
enum Step {
    /// There is something to write.
    Write(Said),
    /// The cache has the very same.
    Same(Cached<Erased>),
}

/// What a queue says of an object that is to be written.
enum Said {
    There(Origin),
    /// As `There`, by a relist.
    Listed(Origin),
    /// With its final state, if that is known.
    Gone(Option<Deleted<Erased>>),
}

/// What was taken from the grouping queue: all changes of each object.
pub(super) fn apply_taken(
    items: &[ObjectChanges<Erased>],
    version: Option<&ResourceVersion>,
    cache: &Indexer<Erased>,
    lister: &Lister<Erased>,
    rules: Rules,
) -> Outcome {
    let mut plan = Plan::with_capacity(items.len());
    for taken in items {
        let mut origin = taken.origin();
        for (position, delta) in taken.deltas().iter().enumerate() {
            match delta {
                // What a list repeats is left alone: it need not be indexed again, and stays the very same.
                Delta::Replaced(object) | Delta::Sync(object) if position == 0 => match stored(lister, object, rules) {
                    Some(stored) => plan.steps.push(Step::Same(stored)),
                    None => plan.push(delta, origin),
                },
                Delta::Added(_) | Delta::Updated(_) | Delta::Deleted(_) | Delta::Replaced(_) | Delta::Sync(_) => {
                    plan.push(delta, origin);
                }
            }
            // What came after the list is not part of it.
            if !delta.is_deleted() {
                origin = Origin::Live;
            }
        }
    }
    plan.apply(version, cache, rules)
}

/// What was taken from the in-order queue: changes one after the other.
pub(super) fn apply_changes(
    items: &[InOrderChange<Erased>],
    version: Option<&ResourceVersion>,
    cache: &Indexer<Erased>,
    rules: Rules,
) -> Outcome {
    let mut outcome = Outcome::default();
    let mut plan = Plan::with_capacity(items.len());
    for taken in items {
        match taken.change() {
            Change::One(delta) => plan.push(delta, taken.origin()),
            Change::Lost(key) => {
                plan.writes.remove(key.clone());
                plan.steps.push(Step::Write(Said::Gone(None)));
            }
            Change::ReplacedAll(relist) => {
                let before = std::mem::take(&mut plan).apply(None, cache, rules);
                outcome = outcome.and(before).and(replace(relist, taken.origin(), cache, rules));
            }
            // A bookmark comes with the receipt's version, and resyncs do not come this way.
            Change::Bookmark(_) | Change::SyncAll => {}
        }
    }
    outcome.and(plan.apply(version, cache, rules))
}

fn replace(relist: &Relist<Erased>, origin: Origin, cache: &Indexer<Erased>, rules: Rules) -> Outcome {
    let Applied { replacements, index_panics } =
        cache.replace_unless(relist, |stored, listed| rules.are_same(stored, listed));
    let mut outcome = Outcome { index_panics: index_panics.len(), ..Outcome::default() };
    for replacement in replacements {
        let said = if replacement.new.is_some() { Said::There(origin) } else { Said::Gone(None) };
        outcome.tell(said, replacement, rules);
    }
    // The missed deletes of re-created objects stand directly before their adds.
    if outcome.tally.deleted > 0 {
        outcome.live = deletes_first(outcome.live, &[]);
    }
    outcome
}

/// What is stored, if it is as good as this.
fn stored(lister: &Lister<Erased>, object: &Cached<Erased>, rules: Rules) -> Option<Cached<Erased>> {
    lister.get(object.key()).filter(|stored| Cached::ptr_eq(stored, object) || rules.are_same(stored, object))
}

impl Plan {
    fn with_capacity(writes: usize) -> Self {
        Self { writes: WriteBatch::with_capacity(writes), steps: Vec::with_capacity(writes) }
    }

    fn push(&mut self, delta: &Delta<Erased>, origin: Origin) {
        match delta {
            Delta::Added(object) | Delta::Updated(object) => {
                self.writes.upsert(object.clone());
                self.steps.push(Step::Write(Said::There(origin)));
            }
            Delta::Replaced(object) | Delta::Sync(object) => {
                self.writes.upsert(object.clone());
                self.steps.push(Step::Write(Said::Listed(origin)));
            }
            Delta::Deleted(deleted) => {
                self.writes.remove(deleted.key().clone());
                self.steps.push(Step::Write(Said::Gone(Some(deleted.clone()))));
            }
        }
    }

    /// All writes at once; then what they did.
    fn apply(mut self, version: Option<&ResourceVersion>, cache: &Indexer<Erased>, rules: Rules) -> Outcome {
        if let Some(version) = version {
            self.writes.at(version.clone());
        }
        if rules.trusts_versions {
            self.writes.keep_same_states();
        }
        let Applied { replacements, index_panics } = match self.writes.is_empty() && version.is_none() {
            true => Applied { replacements: Vec::new(), index_panics: Vec::new() },
            false => cache.apply(self.writes),
        };
        let mut replacements = replacements.into_iter();
        let mut outcome = Outcome { index_panics: index_panics.len(), ..Outcome::default() };
        // Positions in `outcome.live` of the notices of objects that a relist listed.
        let mut listed = Vec::new();
        for step in self.steps {
            match (step, &mut replacements) {
                (Step::Same(object), _) => outcome.push(Notice::Unchanged(object)),
                (Step::Write(said), replacements) => {
                    let replacement = replacements.next().expect("INV-A1");
                    let is_listed = matches!(said, Said::Listed(_));
                    let before = outcome.live.len();
                    outcome.tell(said, replacement, rules);
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
    /// What one write means to whoever was told of everything before.
    fn tell(&mut self, said: Said, replacement: Replacement<Erased>, rules: Rules) {
        let Replacement { old, new } = replacement;
        match (said, old, new) {
            (Said::There(origin) | Said::Listed(origin), None, Some(object)) => {
                self.push(Notice::Added { object, origin });
            }
            (Said::There(origin) | Said::Listed(origin), Some(old), Some(new)) => {
                if !old.identity().may_be_same_life(new.uid()) && !rules.recreated_as_update {
                    let deleted = Deleted::Missed { last_known: old.clone() };
                    self.push(Notice::Deleted { deleted, last: old });
                    self.push(Notice::Added { object: new, origin });
                } else if Cached::ptr_eq(&old, &new) {
                    self.push(Notice::Unchanged(new));
                } else {
                    self.push(Notice::Updated { old, new });
                }
            }
            (Said::Gone(deleted), Some(last), None) => {
                // Of another life, its end was not seen.
                let deleted = deleted.filter(|deleted| last.identity().may_be_same_life(deleted.object().uid()));
                let deleted = deleted.unwrap_or_else(|| Deleted::Missed { last_known: last.clone() });
                self.push(Notice::Deleted { deleted, last });
            }
            // Nobody was told of it, so nobody has to hear that it is gone.
            (Said::Gone(_), None, None) => {}
            (Said::There(_) | Said::Listed(_), _, None) | (Said::Gone(_), _, Some(_)) => unreachable!("INV-A1"),
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

    fn and(mut self, other: Self) -> Self {
        self.initial.extend(other.initial);
        self.live.extend(other.live);
        self.tally.add(other.tally);
        self.index_panics += other.index_panics;
        self
    }
}

impl Rules {
    /// Whether the stored object is as good as the one that came.
    fn are_same(self, stored: &Cached<Erased>, came: &Cached<Erased>) -> bool {
        self.trusts_versions && stored.is_same_state(came)
    }
}

impl Default for Plan {
    fn default() -> Self {
        Self::with_capacity(0)
    }
}
