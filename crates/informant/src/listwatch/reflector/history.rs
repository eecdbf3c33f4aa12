//! Checks, after an outage, whether the server still has the history that the reflector followed.
//!
//! - **In:** the anchors: the newest events that were received before the outage; what other reflectors of the client know.
//! - **Out:** whether and where the watch can be resumed.
//! - **Knows nothing of:** how lists and watches are read.
//!
//! A server whose storage was restored from a backup has another history from the backup's version on. It accepts a watch at a
//! version of the old history, and does not send the events of the new history before that version. So, after an outage, the reflector
//! opens the watch, holds its events, and asks for the newest event that it or another reflector of the same storage received: see
//! [`witness`](crate::listwatch::witness). If the server has that event, both histories are the same up to it. The watch is resumed there, not at a later
//! bookmark, so that every later event of either history is delivered.

use std::{cmp::Ordering, pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use tracing::debug;

use super::{Shared, intake::Intake, requests::Requests, retry::Retry, status::Activity};
use crate::{
    ResourceVersion,
    error::Chain,
    listwatch::{
        SourceError,
        health::covers,
        rules::{
            anchors::{Anchor, Anchors},
            error_class::ErrorClass,
            outage::Outage,
            resume::Resume,
        },
        witness::{HistoryAnswer, Verdict, Witness},
    },
    object::Scanner,
};

/// What is known of the server's history.
pub(super) struct HistoryCheck {
    shared: Shared,
    pub(super) outage: Outage,
    /// How many history changes of the client's server this reflector has taken into account.
    changes: u64,
    /// The newest event when the last watch or list ended, if it proves that the server has everything that was received.
    witness: Option<Arc<Witness>>,
    /// When the last list was accepted.
    listed_at: Instant,
    /// When the last list or byte was received. What a reflector receives that lists later may be of another history.
    received_at: Instant,
    /// Reads the answers about the witness.
    scanner: Arc<Mutex<Scanner>>,
}

/// The time limit for the lookups about a witness of another kind, before the reflector asks about its own.
const OTHER_KIND_WITHIN: Duration = Duration::from_secs(5);

/// The same, if the reflector has none of its own and would list everything: a starting server may be slow.
const ONLY_WITNESS_WITHIN: Duration = Duration::from_secs(15);

impl HistoryCheck {
    pub(super) fn new(shared: Shared, scanner: Scanner) -> Self {
        let changes = shared.health.history_changes();
        let (now, scanner) = (Instant::now(), Arc::new(Mutex::new(scanner)));
        Self { shared, outage: Outage::new(now), changes, witness: None, listed_at: now, received_at: now, scanner }
    }

    /// Checks, after an outage, whether a watch that was opened now can be resumed. Returns true if it can, but nothing has proven the history.
    ///
    /// # Errors
    ///
    /// If everything must be listed again, or the server cannot be asked now.
    pub(super) async fn check(
        &mut self,
        intake: &mut Intake,
        requests: &mut Requests,
        retry: &mut Retry,
    ) -> Result<bool, SourceError> {
        // The history change is known already, and the next list takes it into account.
        if intake.resume.has_history_changed() {
            return Ok(false);
        }
        self.check_other_reflectors(intake)?;
        let opened_at = Instant::now();
        let is_suspicious = self.shared.health.is_suspicious(opened_at);
        let since = self.outage.needs_check_since(opened_at, is_suspicious).filter(|_| intake.resume.is_versioned());
        let Some(since) = since else { return Ok(false) };
        // No request may have failed: those that hang are made again when the server answers.
        if self.shared.health.has_been_silent_since(since) {
            self.outage.note_failed_attempt(ErrorClass::Unreachable);
        }
        self.shared.reporter.set(Activity::CheckingHistory);
        let asked = {
            let asked = pin!(async {
                match is_suspicious {
                    true => self.ask(self.witness.as_ref(), &mut intake.resume, requests, retry).await,
                    false => self.ask_storage((since, opened_at), intake, requests, retry).await,
                }
            });
            match select(asked, pin!(self.next_change())).await {
                Either::Left((verdict, _)) => Some(verdict?),
                Either::Right(_) => None,
            }
        };
        // Another reflector has found a history change. This one may have asked a kind that hangs.
        let verdict = asked.unwrap_or_else(|| {
            self.shared.reporter.update(|status| status.pending = None);
            Verdict::Changed
        });
        let unproven = || SourceError::HistoryUnproven { reached: intake.resume.reached() };
        let is_unchecked = match verdict {
            Verdict::Changed => return Err(self.note_history_change(intake)),
            Verdict::Differs => return Err(unproven()),
            Verdict::Unproven if self.outage.needs_proof(is_suspicious) => return Err(unproven()),
            Verdict::Unproven => self.outage.restorable_since(opened_at).is_some(),
            Verdict::Refused => true,
            Verdict::Same | Verdict::Unsupported => false,
        };
        self.outage.end_outage(Instant::now());
        Ok(is_unchecked)
    }

    /// Checks whether another reflector of the same client has found a history change.
    ///
    /// # Errors
    ///
    /// If there is a history change that this reflector has not taken into account.
    pub(super) fn check_other_reflectors(&mut self, intake: &mut Intake) -> Result<(), SourceError> {
        let changes = self.shared.health.history_changes();
        if changes != self.changes && intake.resume.has_observed() {
            return Err(self.note_history_change(intake));
        }
        self.changes = changes;
        Ok(())
    }

    /// Completes when another reflector of the same client has found a history change.
    pub(super) fn next_change(&self) -> impl Future<Output = ()> + Send + use<> {
        self.shared.health.clone().history_change_after(self.changes)
    }

    /// Notes a history change: cached objects and versions can no longer be compared with the objects and versions of the server. Returns the error
    /// that ends the watch.
    pub(super) fn note_history_change(&mut self, intake: &mut Intake) -> SourceError {
        self.changes = self.shared.health.note_history_change(self.changes, Instant::now());
        self.shared.storage.forget_answers();
        intake.begin_new_history();
        SourceError::HistoryChanged { reached: intake.resume.newest() }
    }

    /// Notes a list that was accepted now, with these newest items.
    pub(super) fn note_list(&mut self, anchors: &Anchors) {
        self.listed_at = Instant::now();
        self.received_at = self.listed_at;
        self.offer_witness(anchors);
    }

    /// Notes the end of a watch, with its newest events. Its last byte arrived at `last_byte_at`.
    pub(super) fn note_watch_end(&mut self, anchors: &Anchors, last_byte_at: Instant) {
        self.received_at = last_byte_at;
        self.offer_witness(anchors);
    }

    /// Offers the newest event to the other reflectors of the storage.
    fn offer_witness(&mut self, anchors: &Anchors) {
        let newest = anchors.newest.as_ref().filter(|_| anchors.are_complete()).cloned();
        // While servers may have different histories, one of them may mix them: then its newest events are right, and older ones are not.
        let first = anchors.first.as_ref().filter(|_| self.shared.health.is_suspicious(Instant::now()));
        let is_newest = |first: &&Anchor| newest.as_ref().is_some_and(|newest| newest.identity == first.identity);
        let second = first.filter(|first| !is_newest(first)).or(anchors.second.as_ref()).cloned();
        self.witness = newest.map(|newest| {
            Arc::new(Witness {
                newest,
                second,
                source: Arc::clone(&self.shared.source),
                scanner: Arc::clone(&self.scanner),
                history: self.changes,
                listed_at: self.listed_at,
            })
        });
        if let Some(witness) = &self.witness {
            self.shared.storage.offer(witness);
        }
    }

    /// Uses what the reflectors of the storage know about its history between these times, or asks the source.
    async fn ask_storage(
        &self,
        (lost_at, opened_at): (Instant, Instant),
        intake: &mut Intake,
        requests: &mut Requests,
        retry: &mut Retry,
    ) -> Result<Verdict, SourceError> {
        let storage = &self.shared.storage;
        let turn = storage.turn().await;
        let own = self.witness.as_ref().filter(|own| !storage.has_compacted(own));
        let content = intake.anchors.content().cloned().unwrap_or_else(|| intake.resume.reached());
        // The newest event of the storage proves the most; if it is not conclusive, this reflector's own event may be. If another reflector has
        // asked for long, the kind of that witness may hang.
        let is_of_our_history = |best: &Arc<Witness>| best.listed_at <= self.received_at;
        let best =
            storage.witness(self.changes).filter(is_of_our_history).filter(|best| covers(best.version(), &content));
        let best = best.filter(|_| turn.is_some() || own.is_none());
        if let Some(newest) = storage.newest(lost_at, opened_at) {
            if intake.resume.note_newest_version(&newest) == Ordering::Less {
                return Ok(Verdict::Changed);
            }
            match storage.proven(&content, self.received_at, lost_at, opened_at) {
                Some(version) => {
                    self.resume_at_latest(&version, &mut intake.resume);
                    return Ok(Verdict::Same);
                }
                // Without a newest event, only the version can be compared.
                None if best.is_none() && own.is_none() => return Ok(Verdict::Unproven),
                None => {}
            }
        }
        // What another kind answers counts only if it is conclusive: it may be forbidden, gone, broken or hang.
        if let Some(other) = best.filter(|best| own.is_none_or(|own| !Arc::ptr_eq(own, best))) {
            let asked = self.ask(Some(&other), &mut intake.resume, requests, retry);
            let within = if own.is_some() { OTHER_KIND_WITHIN } else { ONLY_WITNESS_WITHIN };
            match timeout(within, asked).await {
                Ok(Ok(verdict @ (Verdict::Same | Verdict::Changed | Verdict::Differs))) => return Ok(verdict),
                Ok(Err(error)) if error.class() == ErrorClass::Unreachable => return Err(error),
                Ok(Ok(Verdict::Unproven | Verdict::Unsupported | Verdict::Refused) | Err(_)) => {}
                Err(_) => self.shared.reporter.update(|status| status.pending = None),
            }
        }
        let own = own.filter(|own| !storage.has_compacted(own));
        self.ask(own, &mut intake.resume, requests, retry).await
    }

    /// Asks the source for the events of a witness, or for its version.
    async fn ask(
        &self,
        witness: Option<&Arc<Witness>>,
        resume: &mut Resume,
        requests: &mut Requests,
        retry: &mut Retry,
    ) -> Result<Verdict, SourceError> {
        let asked_at = Instant::now();
        let HistoryAnswer { newest, verdict } = match requests.check_history(witness).await {
            Ok(Some(answer)) => {
                retry.note_storage(Instant::now());
                answer
            }
            Ok(None) => return Ok(Verdict::Unsupported),
            Err(error) => return self.judge_refusal(error, retry.is_server_starting()),
        };
        if resume.note_newest_version(&newest) == Ordering::Less {
            return Ok(Verdict::Changed);
        }
        if let (Some(witness), Verdict::Unproven) = (witness, verdict) {
            self.shared.storage.note_compacted(witness);
        }
        let proven = witness.filter(|_| verdict == Verdict::Same);
        let proof = proven.map(|witness| (witness.version().clone(), witness.listed_at));
        self.shared.storage.note_answer(asked_at, proof, newest);
        proven.into_iter().for_each(|witness| self.resume_at_latest(witness.version(), resume));
        Ok(verdict)
    }

    /// The server has everything up to this version, which covers what the reflector received: makes the next watch begin there, unless it begins
    /// earlier anyway.
    fn resume_at_latest(&self, version: &ResourceVersion, resume: &mut Resume) {
        debug!(rv = %version, "the server has the same history; resuming the watch");
        if !covers(version, &resume.watch_version()) {
            resume.resume_from(version);
        }
    }

    /// Decides what a failed question means.
    ///
    /// # Errors
    ///
    /// If the question may be answered later.
    fn judge_refusal(&self, error: SourceError, is_server_starting: bool) -> Result<Verdict, SourceError> {
        let class = error.class();
        if class == ErrorClass::Expired {
            return Ok(Verdict::Unproven);
        }
        // A starting server may refuse requests that it allows a moment later.
        let may_be_lasting = matches!(class, ErrorClass::NotFound | ErrorClass::Other) && !is_server_starting;
        let is_unsupported = class == ErrorClass::Unsupported || matches!(error, SourceError::NoVersion);
        if !is_unsupported && !may_be_lasting {
            return Err(error);
        }
        debug!(error = %Chain(&error), "the history cannot be checked; resuming the watch");
        Ok(Verdict::Refused)
    }
}
