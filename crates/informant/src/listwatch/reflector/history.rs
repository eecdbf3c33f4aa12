//! Checks, after an outage, whether the server still has the history that the reflector followed.
//!
//! - **In:** the anchors: the newest events that were received before the outage; what other reflectors of the client know.
//! - **Out:** whether and where the watch can be resumed.
//! - **Knows nothing of:** how lists and watches are read.
//!
//! A server whose storage was restored from a backup has another history from the backup's version on. It accepts a watch at a
//! version of the old history, and does not send the events of the new history before that version. So, after an outage, the reflector
//! opens the watch, holds its events, and asks for the newest event that it or another reflector of the same storage received: see
//! [`witness`](super::super::witness). If the server has that event, both histories are the same up to it. The watch is resumed there, not at a later
//! bookmark, so that every later event of either history is delivered.

use std::{cmp::Ordering, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;
use tracing::debug;

use super::{
    super::{
        Operation, SourceError,
        any_source::DynSource,
        error::Chain,
        health::covers,
        rules::error_class::ErrorClass,
        witness::{HistoryAnswer, Verdict, Witness, ask_for_version},
    },
    Reflector,
    status::Activity,
};
use crate::ResourceVersion;

/// The time limit for the lookups about one witness. The events of the watch are held meanwhile.
const CHECKED_WITHIN: Duration = Duration::from_secs(30);

/// What is known of the server's history.
enum HistoryCheck {
    /// The server has everything up to this version, which covers what the reflector received: the watch is resumed there.
    Same(ResourceVersion),
    /// The server has another history; everything is listed.
    Changed,
    /// The server has the newest event with another content; everything is listed.
    Differs,
    /// The server cannot prove that it has the newest event, or there is none.
    Unproven,
    /// The source does not support lookups.
    Unsupported,
    /// The source refuses lookups.
    Refused,
}

impl Reflector {
    /// Checks, after an outage, whether a watch that was opened now can be resumed.
    ///
    /// # Errors
    ///
    /// If everything must be listed again, or the server cannot be asked now.
    pub(super) async fn check_history_after_outage(&mut self) -> Result<(), SourceError> {
        // The history change is known already, and the next list takes it into account.
        if self.resume.has_history_changed() {
            return Ok(());
        }
        self.check_other_reflectors()?;
        let opened_at = Instant::now();
        let is_suspicious = self.settings.health.is_suspicious(opened_at);
        let since = self.contact.check_since(opened_at, is_suspicious).filter(|_| self.resume.is_versioned());
        let Some(since) = since else { return Ok(()) };
        self.status.set(Activity::CheckingHistory);
        let check = self.check_history(since, opened_at, is_suspicious).await?;
        let is_outage = self.contact.lost_at(opened_at).is_some();
        let is_unchecked = match &check {
            HistoryCheck::Changed => return Err(self.begin_new_history()),
            HistoryCheck::Differs => return Err(self.unproven()),
            // Without a failed request, a proxy has probably cut the connection.
            HistoryCheck::Unproven if self.contact.has_failed() || (is_suspicious && self.contact.is_broken()) => {
                return Err(self.unproven());
            }
            HistoryCheck::Unproven => is_outage,
            HistoryCheck::Refused => true,
            HistoryCheck::Same(_) | HistoryCheck::Unsupported => false,
        };
        if let HistoryCheck::Same(version) = check {
            self.resume_at_latest(&version);
        }
        self.status.update_silently(|status| status.unchecked_outages += u64::from(is_unchecked));
        self.contact.end_outage(Instant::now());
        Ok(())
    }

    fn unproven(&self) -> SourceError {
        SourceError::HistoryUnproven { reached: self.resume.reached() }
    }

    /// Makes the next watch begin at this version, unless it begins earlier anyway.
    fn resume_at_latest(&mut self, version: &ResourceVersion) {
        debug!(informer = %self.resource, rv = %version, "the server has the same history; resuming the watch");
        if !covers(version, &self.resume.watch_version()) {
            self.resume.resume_from(version);
        }
    }

    /// Checks whether another reflector of the same client has found a history change.
    ///
    /// # Errors
    ///
    /// If there is a history change that this reflector has not taken into account.
    pub(super) fn check_other_reflectors(&mut self) -> Result<(), SourceError> {
        let changes = *self.history_changes.borrow_and_update();
        match changes == self.history_changes_seen || !self.resume.has_observed() {
            true => {
                self.history_changes_seen = changes;
                Ok(())
            }
            false => Err(self.begin_new_history()),
        }
    }

    /// Notes a history change: cached objects and versions can no longer be compared with the objects and versions of the server. Returns the error
    /// that ends the watch.
    pub(super) fn begin_new_history(&mut self) -> SourceError {
        self.history_changes_seen = self.settings.health.note_history_change(self.history_changes_seen, Instant::now());
        self.storage.forget_answers();
        self.decoder.begin_history();
        self.resume.note_history_change();
        SourceError::HistoryChanged { reached: self.resume.newest() }
    }

    /// Offers the newest event to the other reflectors of the storage, because the watch ended.
    pub(super) fn offer_witness(&mut self) {
        let newest = self.anchors.newest().filter(|_| self.anchors.are_complete()).cloned();
        self.witness = newest.map(|newest| {
            Arc::new(Witness {
                newest,
                second: self.anchors.second().cloned(),
                source: Arc::clone(&self.settings.source),
                scanner: Mutex::new(self.settings.scanner()),
                history: self.history_changes_seen,
            })
        });
        if let Some(witness) = &self.witness {
            self.storage.offer(witness);
        }
    }

    async fn check_history(
        &mut self,
        since: Instant,
        opened_at: Instant,
        is_suspicious: bool,
    ) -> Result<HistoryCheck, SourceError> {
        if is_suspicious {
            let own = self.witness.clone();
            return self.ask(own.as_ref()).await;
        }
        let storage = Arc::clone(&self.storage);
        let _turn = storage.turn().await;
        let content = self.anchors.content().cloned().unwrap_or_else(|| self.resume.reached());
        // The newest event of the storage proves the most; if it is not conclusive, this reflector's own event may be.
        let best = storage.witness(self.history_changes_seen).filter(|best| covers(best.version(), &content));
        let own = self.witness.clone();
        if let Some(newest) = storage.newest(since, opened_at) {
            if self.resume.note_newest_version(&newest) == Ordering::Less {
                return Ok(HistoryCheck::Changed);
            }
            match storage.proven(&content, since, opened_at) {
                Some(version) => return Ok(HistoryCheck::Same(version)),
                // Without a newest event, only the version can be compared.
                None if best.is_none() && own.is_none() => return Ok(HistoryCheck::Unproven),
                None => {}
            }
        }
        let Some(best) = best else { return self.ask(own.as_ref()).await };
        if own.as_ref().is_some_and(|own| Arc::ptr_eq(own, &best)) {
            return self.ask(Some(&best)).await;
        }
        // What another kind answers counts only if it is conclusive: it may be forbidden, gone or broken.
        match self.ask(Some(&best)).await {
            Ok(check @ (HistoryCheck::Same(_) | HistoryCheck::Changed | HistoryCheck::Differs)) => Ok(check),
            Err(error) if error.code().is_none() => Err(error),
            Ok(_) | Err(_) => self.ask(own.as_ref()).await,
        }
    }

    /// Asks the source for the events of a witness, or for its version.
    async fn ask(&mut self, witness: Option<&Arc<Witness>>) -> Result<HistoryCheck, SourceError> {
        let asked_at = Instant::now();
        let source = Arc::clone(&self.settings.source);
        let question = || ask_source(Arc::clone(&source), witness.cloned());
        let asked = self.response(Operation::CheckHistory, CHECKED_WITHIN, question).await;
        let HistoryAnswer { newest, verdict } = match asked {
            Ok(Some(answer)) => answer,
            Ok(None) => return Ok(HistoryCheck::Unsupported),
            Err(error) => return self.judge_refusal(error),
        };
        if self.resume.note_newest_version(&newest) == Ordering::Less {
            return Ok(HistoryCheck::Changed);
        }
        let proven = witness.filter(|_| verdict == Verdict::Same).map(|witness| witness.version().clone());
        self.storage.note_answer(asked_at, proven.clone(), newest);
        Ok(match (verdict, proven) {
            (Verdict::Same, Some(version)) => HistoryCheck::Same(version),
            (Verdict::Changed, _) => HistoryCheck::Changed,
            (Verdict::Differs, _) => HistoryCheck::Differs,
            (Verdict::Same | Verdict::Unproven, _) => HistoryCheck::Unproven,
        })
    }

    /// Decides what a failed question means.
    ///
    /// # Errors
    ///
    /// If the question may be answered later.
    fn judge_refusal(&self, error: SourceError) -> Result<HistoryCheck, SourceError> {
        let class = error.class();
        if class == ErrorClass::Expired {
            return Ok(HistoryCheck::Unproven);
        }
        // A starting server may refuse requests that it allows a moment later.
        let may_be_lasting = matches!(class, ErrorClass::NotFound | ErrorClass::Other) && !self.is_server_starting();
        if class != ErrorClass::Unsupported && !may_be_lasting {
            return Err(error);
        }
        debug!(informer = %self.resource, error = %Chain(&error), "the history cannot be checked; resuming the watch");
        Ok(HistoryCheck::Refused)
    }
}

/// Asks for the events of a witness or, without one, for the version of the source; `None` if the source does not support lookups.
async fn ask_source(
    source: Arc<dyn DynSource>,
    witness: Option<Arc<Witness>>,
) -> Result<Option<HistoryAnswer>, SourceError> {
    match witness {
        Some(witness) => witness.ask().await,
        None => {
            let newest = ask_for_version(&*source).await?;
            Ok(newest.map(|newest| HistoryAnswer { newest, verdict: Verdict::Unproven }))
        }
    }
}
