//! Checks, after an outage, whether the server still has the history that the reflector followed.
//!
//! - **In:** the anchors: the newest events that were received before the outage.
//! - **Out:** whether and where the watch can be resumed.
//! - **Knows nothing of:** how lists and watches are read.
//!
//! A server whose storage was restored from a backup has another history from the backup's version on. It accepts a watch at a
//! version of the old history, and does not send the events of the new history before that version. So, after an outage, the reflector
//! looks up the newest event that it received. If the server has that event, both histories are the same up to it. The watch is resumed
//! at that event, not at a later bookmark, so that every later event of either history is delivered.

use std::cmp::Ordering;

use tokio::time::{Instant, timeout};
use tracing::debug;

use super::{
    super::{
        LookupAnswer, LookupRequest, SourceError,
        error::Chain,
        rules::{anchors::Anchor, error_class::ErrorClass},
    },
    Reflector,
    status::Activity,
};
use crate::{Key, ResourceVersion, object::Identity};

/// Whether a server has the history that the reflector followed, as far as lookups show it.
#[derive(PartialEq, Eq)]
enum HistoryCheck {
    /// The server has the anchor: the watch is resumed there.
    Same,
    /// The server has another history; everything is listed.
    Changed,
    /// There is no anchor, or the server cannot prove that it has the anchor; everything is listed.
    Unproven,
    /// The source does not support lookups, or refuses them; the watch is resumed where it ended.
    Unknown,
}

/// The answer to a lookup.
struct ObservedState {
    version: ResourceVersion,
    /// The object that was asked for, and a hash of its JSON.
    object: Option<(Identity, u64)>,
}

impl HistoryCheck {
    /// Compares an object that was found with the anchor.
    fn from_match(anchor: &Anchor, found: &ObservedState) -> Self {
        let object = found.object.as_ref();
        match (anchor.has_identity(object), anchor.has_content(object)) {
            (true, true) => Self::Same,
            // The server was upgraded and has new default fields, or it wrote this object at this version a second time.
            (true, false) => Self::Unproven,
            (false, _) => Self::Changed,
        }
    }
}

impl Reflector {
    /// Checks, after an outage and before a watch is opened, whether the watch can be resumed.
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
        if !self.resume.is_versioned() || !self.contact.was_lost(Instant::now()) {
            return Ok(());
        }
        let history = self.check_history().await?;
        self.contact.end_outage(Instant::now());
        match (history, self.anchors.newest()) {
            (HistoryCheck::Same, Some(anchor)) => {
                let version = &anchor.identity.version;
                debug!(informer = %self.resource, rv = %version, "the server has the same history; resuming the watch");
                self.resume.resume_from(version);
                Ok(())
            }
            (HistoryCheck::Same, None) | (HistoryCheck::Unknown, _) => Ok(()),
            (HistoryCheck::Unproven, _) => Err(SourceError::HistoryUnproven { reached: self.resume.reached() }),
            (HistoryCheck::Changed, _) => Err(self.begin_new_history()),
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
        self.history_changes_seen = self.settings.health.note_history_change(self.history_changes_seen);
        self.decoder.begin_history();
        self.resume.note_history_change();
        SourceError::HistoryChanged { reached: self.resume.newest() }
    }

    async fn check_history(&mut self) -> Result<HistoryCheck, SourceError> {
        self.status.set(Activity::CheckingHistory);
        let health = self.settings.health.clone();
        let _permit = health.check_permit().await;
        let error = match self.compare_history().await {
            Ok(check) => return Ok(check),
            Err(error) => error,
        };
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
        self.status.update_silently(|status| status.unchecked_outages += 1);
        Ok(HistoryCheck::Unknown)
    }

    /// Looks up the anchors. Sends at most three lookups, or four if the newest event was a delete.
    async fn compare_history(&mut self) -> Result<HistoryCheck, SourceError> {
        let (newest, second) = (self.anchors.newest().cloned(), self.anchors.second().cloned());
        let asked_first = match &newest {
            Some(newest) if newest.is_deleted => second.as_ref(),
            newest => newest.as_ref(),
        };
        let key = asked_first.map(|anchor| &anchor.identity.key);
        let Some(now) = self.look_up(key, ResourceVersion::default()).await? else { return Ok(HistoryCheck::Unknown) };
        if self.resume.note_newest_version(&now.version) == Ordering::Less {
            return Ok(HistoryCheck::Changed);
        }
        let Some(newest) = newest.filter(|_| self.anchors.are_complete()) else { return Ok(HistoryCheck::Unproven) };
        match newest.is_deleted {
            true => self.prove_delete(&newest, second.as_ref(), &now).await,
            false => self.prove_write(&newest, second.as_ref(), &now).await,
        }
    }

    /// Checks that the server has the newest event, which was a write, and the second one. `now` is the object's current state.
    async fn prove_write(
        &mut self,
        newest: &Anchor,
        second: Option<&Anchor>,
        now: &ObservedState,
    ) -> Result<HistoryCheck, SourceError> {
        let is_unchanged = newest.has_identity(now.object.as_ref());
        let proof = match is_unchanged {
            true => HistoryCheck::from_match(newest, now),
            false => self.prove_at_version(newest).await?,
        };
        let is_older =
            |second: &&Anchor| second.identity.version.compare(&newest.identity.version) == Ok(Ordering::Less);
        let Some(second) = second.filter(is_older).filter(|_| proof == HistoryCheck::Same) else { return Ok(proof) };
        // The newest event needed only one lookup, so another one may be spent on the second event.
        if is_unchanged
            && let Some(now) = self.look_up(Some(&second.identity.key), ResourceVersion::default()).await?
            && second.has_identity(now.object.as_ref())
        {
            return Ok(HistoryCheck::from_match(second, &now));
        }
        Ok(match self.prove_at_version(second).await? {
            HistoryCheck::Changed => HistoryCheck::Changed,
            // A compacted second anchor does not disprove the newest event.
            HistoryCheck::Same | HistoryCheck::Unproven | HistoryCheck::Unknown => HistoryCheck::Same,
        })
    }

    /// Checks that the server has the newest event, which was a delete: the object exists at the version before it, and not at its version.
    /// `now` is the current state of the second anchor's object, if there is one.
    async fn prove_delete(
        &mut self,
        newest: &Anchor,
        second: Option<&Anchor>,
        now: &ObservedState,
    ) -> Result<HistoryCheck, SourceError> {
        let proof = match second {
            Some(second) if second.has_identity(now.object.as_ref()) => HistoryCheck::from_match(second, now),
            Some(second) => self.prove_at_version(second).await?,
            None => HistoryCheck::Same,
        };
        if proof == HistoryCheck::Changed {
            return Ok(proof);
        }
        let Identity { key, uid, version } = &newest.identity;
        let Some(before) = version.predecessor() else { return Ok(HistoryCheck::Unproven) };
        for (version, was_there) in [(&before, true), (version, false)] {
            match self.state_at(key, version).await? {
                Some(found) if found.object.as_ref().is_some_and(|(object, _)| object.uid == *uid) == was_there => {}
                Some(_) => return Ok(HistoryCheck::Changed),
                None => return Ok(HistoryCheck::Unproven),
            }
        }
        Ok(HistoryCheck::Same)
    }

    /// Checks that the server has a write, by a lookup at its version.
    async fn prove_at_version(&mut self, anchor: &Anchor) -> Result<HistoryCheck, SourceError> {
        let found = self.state_at(&anchor.identity.key, &anchor.identity.version).await?;
        Ok(found.map_or(HistoryCheck::Unproven, |found| HistoryCheck::from_match(anchor, &found)))
    }

    /// Looks up the object at exactly this version; `None` if the server has compacted that version.
    async fn state_at(&mut self, key: &Key, version: &ResourceVersion) -> Result<Option<ObservedState>, SourceError> {
        match self.look_up(Some(key), version.clone()).await {
            Err(error) if error.class() == ErrorClass::Expired => Ok(None),
            found => found,
        }
    }

    async fn look_up(
        &mut self,
        key: Option<&Key>,
        version: ResourceVersion,
    ) -> Result<Option<ObservedState>, SourceError> {
        let idle_timeout = self.settings.idle_timeout;
        let request = LookupRequest { key: key.cloned(), version };
        let found = timeout(idle_timeout, self.settings.source.look_up(request)).await;
        let Some(LookupAnswer { version, object }) =
            found.map_err(|_| SourceError::Silent { after: idle_timeout })??
        else {
            return Ok(None);
        };
        let object = object.and_then(|object| self.decoder.identify(&object));
        Ok(Some(ObservedState { version, object: object.filter(|(object, _)| Some(&object.key) == key) }))
    }
}
