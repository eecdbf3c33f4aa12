//! Asks a source whether it still has an event that a reflector received.
//!
//! - **In:** the [anchors](super::rules::anchors) of a reflector, and its source.
//! - **Out:** whether the source's history contains the anchors, as far as lookups show it.
//! - **Knows nothing of:** when to ask, and what follows.

use std::{cmp::Ordering, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::time::{Instant, timeout};

use super::{
    LookupAnswer, LookupRequest, SourceError,
    any_source::DynSource,
    decoder::identify,
    rules::{anchors::Anchor, error_class::ErrorClass},
};
use crate::{
    Key, ResourceVersion,
    object::{Identity, Scanner},
};

/// The newest event of a reflector, and the newest write of another object. A source that has them has everything that the reflector received.
pub(crate) struct Witness {
    pub(crate) newest: Anchor,
    pub(crate) second: Option<Anchor>,
    pub(crate) source: Arc<dyn DynSource>,
    pub(crate) scanner: Arc<Mutex<Scanner>>,
    /// The number of history changes before the event.
    pub(crate) history: u64,
    /// When the reflector last listed. The list may be of another history than what other reflectors received before.
    pub(crate) listed_at: Instant,
}

/// What a source answered about its history.
#[derive(Debug, Clone)]
pub(crate) struct HistoryAnswer {
    /// The newest version of the source.
    pub(crate) newest: ResourceVersion,
    pub(crate) verdict: Verdict,
}

/// Whether a source has the history of a witness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It has everything up to the version of the witness.
    Same,
    /// It has another event in place of the witness.
    Changed,
    /// It has an object of the same uid and version with another content: the server was upgraded and has new default fields, or it wrote this
    /// object at this version a second time.
    Differs,
    /// It no longer has the version, or there is no witness.
    Unproven,
    /// It does not support lookups.
    Unsupported,
    /// It refuses lookups.
    Refused,
}

/// The answer to a lookup.
struct ObservedState {
    version: ResourceVersion,
    /// The object that was asked for, and a hash of its JSON.
    object: Option<(Identity, u32)>,
}

/// The time limit for the answer to a lookup. A busy server may let a request wait for 15 s.
const LOOKUP_WITHIN: Duration = Duration::from_secs(20);

/// Asks a source for its newest version; `None` if it does not support lookups.
pub(crate) async fn ask_for_version(source: &dyn DynSource) -> Result<Option<ResourceVersion>, SourceError> {
    Ok(look_up(source, LookupRequest::default()).await?.map(|found| found.version))
}

/// Sends a lookup, with a time limit; `None` if the source does not support lookups.
pub(crate) async fn look_up(
    source: &dyn DynSource,
    request: LookupRequest,
) -> Result<Option<LookupAnswer<crate::object::Erased>>, SourceError> {
    timeout(LOOKUP_WITHIN, source.look_up(request)).await.map_err(|_| SourceError::Silent { after: LOOKUP_WITHIN })?
}

impl Verdict {
    /// Compares an object that was found with the anchor.
    fn from_match(anchor: &Anchor, found: &ObservedState) -> Self {
        let object = found.object.as_ref();
        match (anchor.has_identity(object), anchor.has_content(object)) {
            (true, true) => Self::Same,
            (true, false) => Self::Differs,
            (false, _) => Self::Changed,
        }
    }
}

impl Witness {
    pub(crate) fn version(&self) -> &ResourceVersion {
        &self.newest.identity.version
    }

    /// Asks the source about the events; `None` if it does not support lookups. Sends at most three lookups, or four if the newest event was a delete.
    pub(crate) async fn ask(&self) -> Result<Option<HistoryAnswer>, SourceError> {
        let asked_first = if self.newest.is_deleted { self.second.as_ref() } else { Some(&self.newest) };
        let key = asked_first.map(|anchor| &anchor.identity.key);
        let Some(now) = self.look_up(key, ResourceVersion::default()).await? else { return Ok(None) };
        let verdict = match now.version.compare(self.version()) {
            Some(Ordering::Less) => Verdict::Changed,
            Some(Ordering::Equal | Ordering::Greater) | None if self.newest.is_deleted => {
                self.prove_delete(&now).await?
            }
            Some(Ordering::Equal | Ordering::Greater) | None => self.prove_write(&now).await?,
        };
        Ok(Some(HistoryAnswer { newest: now.version, verdict }))
    }

    /// Checks that the server has the newest event, which was a write, and the second one. `now` is the object's current state.
    async fn prove_write(&self, now: &ObservedState) -> Result<Verdict, SourceError> {
        let newest = &self.newest;
        let is_unchanged = newest.has_identity(now.object.as_ref());
        let proof = match is_unchanged {
            true => Verdict::from_match(newest, now),
            false => self.prove_at_version(newest).await?,
        };
        let is_older =
            |second: &&Anchor| second.identity.version.compare(&newest.identity.version) == Some(Ordering::Less);
        let Some(second) = self.second.as_ref().filter(is_older).filter(|_| proof == Verdict::Same) else {
            return Ok(proof);
        };
        // The newest event needed only one lookup, so another one may be spent on the second event.
        if is_unchanged
            && let Some(now) = self.look_up(Some(&second.identity.key), ResourceVersion::default()).await?
            && second.has_identity(now.object.as_ref())
        {
            return Ok(Verdict::from_match(second, &now));
        }
        // A compacted second anchor does not disprove the newest event.
        let is_changed = self.prove_at_version(second).await? == Verdict::Changed;
        Ok(if is_changed { Verdict::Changed } else { Verdict::Same })
    }

    /// Checks that the server has the newest event, which was a delete: the object exists at the version before it, and not at its version.
    /// `now` is the current state of the second anchor's object, if there is one.
    async fn prove_delete(&self, now: &ObservedState) -> Result<Verdict, SourceError> {
        let proof = match &self.second {
            Some(second) if second.has_identity(now.object.as_ref()) => Verdict::from_match(second, now),
            Some(second) => self.prove_at_version(second).await?,
            None => Verdict::Same,
        };
        if proof == Verdict::Changed {
            return Ok(proof);
        }
        let Identity { key, uid, version } = &self.newest.identity;
        let Some(before) = version.predecessor() else { return Ok(Verdict::Unproven) };
        for (version, was_there) in [(&before, true), (version, false)] {
            match self.state_at(key, version).await? {
                Some(found) if found.object.as_ref().is_some_and(|(object, _)| object.uid == *uid) == was_there => {}
                Some(_) => return Ok(Verdict::Changed),
                None => return Ok(Verdict::Unproven),
            }
        }
        Ok(Verdict::Same)
    }

    /// Checks that the server has a write, by a lookup at its version.
    async fn prove_at_version(&self, anchor: &Anchor) -> Result<Verdict, SourceError> {
        let found = self.state_at(&anchor.identity.key, &anchor.identity.version).await?;
        Ok(found.map_or(Verdict::Unproven, |found| Verdict::from_match(anchor, &found)))
    }

    /// Looks up the object at exactly this version; `None` if the server has compacted that version.
    async fn state_at(&self, key: &Key, version: &ResourceVersion) -> Result<Option<ObservedState>, SourceError> {
        match self.look_up(Some(key), version.clone()).await {
            Err(error) if error.class() == ErrorClass::Expired => Ok(None),
            found => found,
        }
    }

    async fn look_up(&self, key: Option<&Key>, version: ResourceVersion) -> Result<Option<ObservedState>, SourceError> {
        let request = LookupRequest { key: key.cloned(), version };
        let Some(LookupAnswer { version, object }) = look_up(&*self.source, request).await? else { return Ok(None) };
        let object = object.and_then(|object| identify(&mut self.scanner.lock(), &object));
        Ok(Some(ObservedState { version, object: object.filter(|(object, _)| Some(&object.key) == key) }))
    }
}
