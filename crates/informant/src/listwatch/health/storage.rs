//! What the reflectors of one client know of one storage of the server.
//!
//! - **In:** the newest event of each reflector whose watch ended; the answers about the storage's history.
//! - **Out:** the event to ask for; an earlier answer that another reflector can use.
//! - **Knows nothing of:** how a storage is asked, and what follows from the answer.
//!
//! All kinds of one storage have one history, so one question answers for all of them. If the storage has the event of version V, it has
//! everything up to V. So it has everything that a reflector received, if the newest of that is not newer than V.

use std::{cmp::Ordering, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{
    sync::MutexGuard,
    time::{Instant, timeout},
};

use super::gate::Gate;
use crate::{
    ResourceVersion,
    listwatch::{rules::outage::SHORTEST_RESTORE, witness::Witness},
};

/// The shared knowledge of one storage.
#[derive(Default)]
pub(crate) struct Storage {
    /// Closed while the storage's requests fail (5xx).
    pub(crate) gate: Gate,
    /// Held while one reflector asks.
    asking: tokio::sync::Mutex<()>,
    witness: Mutex<Option<Arc<Witness>>>,
    proofs: Mutex<Proofs>,
}

/// The newest answers about the history of a storage.
#[derive(Debug, Default)]
struct Proofs {
    /// With the time of the list before the proven event.
    proven: Option<(Answer, Instant)>,
    newest: Option<Answer>,
    /// The version of the newest witness that the storage no longer has.
    compacted: Option<ResourceVersion>,
}

/// An answer: the storage has its old history up to `version`, or `version` is its newest one.
#[derive(Debug, Clone)]
struct Answer {
    asked_at: Instant,
    version: ResourceVersion,
}

/// How long a reflector waits for the answer to another one.
const LONGEST_TURN: Duration = Duration::from_secs(5);

impl Storage {
    /// Waits until no other reflector asks; `None` after five seconds.
    pub(crate) async fn turn(&self) -> Option<MutexGuard<'_, ()>> {
        timeout(LONGEST_TURN, self.asking.lock()).await.ok()
    }

    /// Stores a witness if no other one is newer.
    pub(crate) fn offer(&self, witness: &Arc<Witness>) {
        let replaced = {
            let mut best = self.witness.lock();
            let is_better = best.as_ref().is_none_or(|best| {
                best.history < witness.history
                    || (best.history == witness.history
                        && best.version().compare(witness.version()) != Some(Ordering::Greater))
            });
            if is_better { best.replace(Arc::clone(witness)) } else { None }
        };
        // Dropped without the lock: a source is users' code.
        drop(replaced);
    }

    /// Returns the newest witness of a history, if the storage may have it.
    pub(crate) fn witness(&self, history: u64) -> Option<Arc<Witness>> {
        self.witness.lock().clone().filter(|witness| witness.history == history && !self.has_compacted(witness))
    }

    /// Notes that the storage no longer has a witness.
    pub(crate) fn note_compacted(&self, witness: &Witness) {
        let compacted = &mut self.proofs.lock().compacted;
        if compacted.as_ref().is_none_or(|older| covers(witness.version(), older)) {
            *compacted = Some(witness.version().clone());
        }
    }

    /// Returns true if the storage is known to have this witness no longer: it need not be asked again. An older write may still be proven by its object's
    /// present state, an older delete cannot.
    pub(crate) fn has_compacted(&self, witness: &Witness) -> bool {
        let (proofs, version) = (self.proofs.lock(), witness.version());
        let has_compacted = |newest| newest == version || (witness.newest.is_deleted && covers(newest, version));
        proofs.compacted.as_ref().is_some_and(has_compacted)
    }

    /// Notes that the storage, when it was asked, had the history that a reflector followed since it listed, up to the version `proven`, and that its newest
    /// version was `newest`.
    pub(crate) fn note_answer(
        &self,
        asked_at: Instant,
        proven: Option<(ResourceVersion, Instant)>,
        newest: ResourceVersion,
    ) {
        let mut proofs = self.proofs.lock();
        if let Some((version, listed_at)) = proven {
            proofs.proven = Some((Answer { asked_at, version }, listed_at));
        }
        proofs.newest = Some(Answer { asked_at, version: newest });
    }

    /// Returns the version up to which the storage has its old history, if that covers `content`, which was received until `received_at`. See
    /// [`Answer::counts_for`] for the other times.
    pub(crate) fn proven(
        &self,
        content: &ResourceVersion,
        received_at: Instant,
        lost_at: Instant,
        opened_at: Instant,
    ) -> Option<ResourceVersion> {
        let proofs = self.proofs.lock();
        let (proven, _) = proofs.proven.as_ref().filter(|(answer, listed_at)| {
            *listed_at <= received_at && answer.counts_for(lost_at, opened_at) && covers(&answer.version, content)
        })?;
        Some(proven.version.clone())
    }

    /// Returns the newest version of the storage.
    pub(crate) fn newest(&self, lost_at: Instant, opened_at: Instant) -> Option<ResourceVersion> {
        let newest = self.proofs.lock().newest.clone();
        newest.filter(|answer| answer.counts_for(lost_at, opened_at)).map(|answer| answer.version)
    }

    /// Forgets all answers, because the history changed.
    pub(crate) fn forget_answers(&self) {
        *self.proofs.lock() = Proofs::default();
    }
}

/// Returns true if a storage that has the event of version `proven` has everything up to `content`.
pub(crate) fn covers(proven: &ResourceVersion, content: &ResourceVersion) -> bool {
    proven == content || matches!(content.compare(proven), Some(Ordering::Less | Ordering::Equal))
}

impl Answer {
    /// Returns true if the answer counts for a watch that was lost and opened again at these times: it was asked for after the watch was lost, and the watch
    /// was opened before a restore could have followed the question.
    fn counts_for(&self, lost_at: Instant, opened_at: Instant) -> bool {
        lost_at <= self.asked_at && opened_at <= self.asked_at + SHORTEST_RESTORE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn an_answer_counts_for_watches_that_were_lost_before_the_question_and_opened_within_two_seconds_after_it() {
        let begun = Instant::now();
        let at = |seconds: u32| begun + seconds * SECOND;
        let storage = Storage::default();
        storage.note_answer(at(10), Some(("100".into(), at(5))), "120".into());

        let table = [(10, 5, true), (9, 12, true), (11, 12, false), (9, 13, false)];
        for (lost, opened, counts) in table {
            let proven = storage.proven(&"100".into(), at(5), at(lost), at(opened));
            assert_eq!(proven.is_some(), counts, "{lost} {opened}");
            assert_eq!(storage.newest(at(lost), at(opened)).is_some(), counts, "{lost} {opened}");
        }
        assert_eq!(storage.proven(&"100".into(), at(4), at(10), at(10)), None, "the list may be of another history");
    }

    #[test]
    fn an_answer_covers_content_that_is_not_newer_than_the_proven_version() {
        let now = Instant::now();
        let storage = Storage::default();
        storage.note_answer(now, Some(("100".into(), now)), "120".into());
        for (content, is_covered) in [("99", true), ("100", true), ("101", false), ("v1", false)] {
            let proven = storage.proven(&content.into(), now, now, now);
            assert_eq!(proven, is_covered.then(|| "100".into()), "{content}");
        }
        storage.note_answer(now, None, "130".into());
        assert_eq!(storage.newest(now, now), Some("130".into()));
        assert_eq!(storage.proven(&"100".into(), now, now, now), Some("100".into()), "the proof is kept");

        storage.forget_answers();
        assert_eq!((storage.newest(now, now), storage.proven(&"1".into(), now, now, now)), (None, None));
    }
}
