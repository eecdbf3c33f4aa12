//! Takes in complete lists and events: checks their versions, and passes them on as changes.
//!
//! - **In:** a complete list; one event after the other.
//! - **Out:** changes, to the destination; quarantined objects.
//! - **Knows nothing of:** requests, and what follows.

use std::{cmp::Ordering, sync::Arc};

use tokio::time::Instant;
use tracing::{debug, trace, warn};

use super::{history::HistoryCheck, reader::DecodedEvent, received::ReceivedList, report::Reporter};
use crate::{
    ResourceVersion,
    delta::{Change, Relist},
    error::Chain,
    listwatch::{
        Destination, Quarantined, SourceError,
        decoder::Decoder,
        frames::EventType,
        quarantine::{Entries, Quarantine},
        rules::{
            anchors::Anchors,
            resume::{ListVerdict, Resume},
            unclear::UnclearEvents,
        },
    },
    object::{Erased, Identity},
};

/// What was received, and where it is passed on.
pub(super) struct Intake {
    pub(super) decoder: Decoder,
    /// The received versions.
    pub(super) resume: Resume,
    /// The newest events, by which the server's history is recognised.
    pub(super) anchors: Anchors,
    pub(super) unclear_events: UnclearEvents,
    pub(super) quarantine: Quarantine,
    pub(super) destination: Box<dyn Destination<Erased>>,
    reporter: Arc<Reporter>,
}

/// The progress of one watch.
pub(super) struct WatchProgress {
    /// True while a watch that began without a version delivers the existing objects, which are in no order. The first change sets it to false.
    pub(super) is_unordered: bool,
    /// True if the watch delivered a newer version.
    pub(super) has_moved: bool,
    /// The number of events that the status does not show yet.
    pub(super) events: u64,
}

impl Intake {
    pub(super) fn new(
        decoder: Decoder,
        resume: Resume,
        destination: Box<dyn Destination<Erased>>,
        reporter: Arc<Reporter>,
    ) -> Self {
        let (anchors, unclear_events) = (Anchors::default(), UnclearEvents::default());
        Self { decoder, resume, anchors, unclear_events, quarantine: Quarantine::default(), destination, reporter }
    }

    /// Cached objects and versions can no longer be compared with the objects and versions of the server.
    pub(super) fn begin_new_history(&mut self) {
        self.decoder.begin_history();
        self.resume.note_history_change();
    }

    /// Passes on a complete list. `asked` is the requested version.
    ///
    /// # Errors
    ///
    /// If the list is older than the reached version, has no version, or has a damaged item that may be any object.
    pub(super) fn accept(
        &mut self,
        asked: &ResourceVersion,
        mut list: ReceivedList,
        history: &mut HistoryCheck,
    ) -> Result<(), SourceError> {
        let version = list.version.clone();
        if let Some(damage) = list.damage()
            && self.resume.refuses_damage()
        {
            return Err(SourceError::Damaged { source: Arc::clone(damage) });
        }
        match self.resume.judge(asked, &version) {
            ListVerdict::Unversioned => return Err(SourceError::NoVersion),
            ListVerdict::Stale => return Err(SourceError::OlderVersion { from: self.resume.newest(), to: version }),
            ListVerdict::HistoryChanged => {
                let error = history.note_history_change(self);
                // Objects that were reused from the cache may differ from the server's, although uid and version are the same.
                if self.decoder.reused() > 0 {
                    return Err(error);
                }
                list.objects.iter_mut().for_each(|object| self.decoder.move_to_new_history(object));
            }
            ListVerdict::Accepted => {}
        }
        let history_changed = self.resume.has_history_changed();
        if history_changed {
            let reached = self.resume.newest();
            warn!(rv = %version, %reached, "the server's history changed; everything was listed again");
            self.reporter.update_silently(|status| status.history_changes += 1);
        }
        self.anchors = list.anchors();
        history.note_list(&self.anchors);
        self.resume.note_accepted_list(asked, &version, list.pages > 1);
        self.unclear_events.note_accepted_list();
        debug!(rv = %version, count = list.objects.len(), "listed");
        let (relist, quarantined) = list.into_relist(history_changed);
        for object in self.quarantine.replace(quarantined, &version) {
            self.reporter.report_quarantined(&object);
        }
        self.destination.push(relist.into());
        Ok(())
    }

    /// Deletes all objects, because the source does not serve the kind.
    pub(super) fn delete_all(&mut self) {
        if !self.resume.has_observed() {
            return;
        }
        warn!("the source no longer serves this kind; its objects count as deleted");
        let version = self.resume.watch_version();
        self.quarantine.replace(Entries::default(), &version);
        self.reporter.update(|status| status.is_gone = true);
        let relist = Relist { version, objects: Vec::new(), quarantined: Vec::new(), history_changed: false };
        self.destination.push(relist.into());
    }

    /// Passes on one event. `anchors` collects the newest events: after an outage, the server is asked about them, to see whether it still has
    /// the same history.
    pub(super) fn pass_on(
        &mut self,
        event: DecodedEvent,
        progress: &mut WatchProgress,
        received_at: Instant,
    ) -> Result<(), SourceError> {
        progress.events += 1;
        let is_existing = progress.is_unordered && event.is_added();
        progress.is_unordered = is_existing;
        match event {
            DecodedEvent::Delta(delta) if is_existing => {
                let object = delta.into_object();
                self.anchors.consider(object.identity(), object.digest());
                self.quarantine.release(object.key(), object.version());
                self.destination.push(Change::Existing(object));
            }
            DecodedEvent::Delta(delta) => {
                let object = delta.object();
                self.advance(object.version(), progress)?;
                self.anchors.observe(object.identity().clone(), object.digest(), delta.is_deleted());
                self.quarantine.release(object.key(), object.version());
                self.destination.push(delta.into());
            }
            DecodedEvent::Undecodable { event, object } => {
                let version = Some(&object.version).filter(|version| !is_existing && !version.is_empty()).cloned();
                if let Some(version) = &version {
                    self.advance(version, progress)?;
                }
                self.pass_on_undecodable(object, event == EventType::Deleted, version);
            }
            DecodedEvent::Bookmark { version, .. } => {
                if !version.is_empty() {
                    self.advance(&version, progress)?;
                    self.destination.push(Change::Bookmark(version));
                }
            }
            DecodedEvent::Unclear(event) => {
                let error = Chain(&event).to_string();
                if self.unclear_events.note(event, received_at) {
                    warn!(
                        error,
                        "the watch delivered an event that may concern any object; everything is listed again, at most once a minute"
                    );
                }
            }
        }
        Ok(())
    }

    /// Quarantines an object that could not be decoded, and passes on what is known of it. `version` is the version of the
    /// event; `None` if the event does not advance the watch.
    fn pass_on_undecodable(&mut self, object: Box<Quarantined>, is_deleted: bool, version: Option<ResourceVersion>) {
        if let Some(key) = object.key.clone() {
            let identity = Identity { key, uid: object.uid.clone(), version: object.version.clone() };
            self.anchors.observe(identity, 0, is_deleted);
        }
        if is_deleted {
            self.reporter.report_quarantined(&object);
            match object.key.clone() {
                Some(key) => {
                    self.quarantine.release(&key, &object.version);
                    self.destination.push(Change::DeletedUnread { key, version });
                }
                None => {
                    self.quarantine.add(*object);
                }
            }
            return;
        }
        let cached = object.key.as_ref().and_then(|key| self.decoder.cached(key));
        match (cached, version) {
            // The event is of another incarnation, so the cached incarnation was deleted.
            (Some(cached), version) if !cached.identity().may_be_same_incarnation(&object.uid) => {
                self.destination.push(Change::DeletedUnread { key: cached.key().clone(), version });
            }
            (_, Some(version)) => self.destination.push(Change::Bookmark(version)),
            (_, None) => {}
        }
        if self.quarantine.add((*object).clone()) {
            self.reporter.report_quarantined(&object);
        }
    }

    /// Notes an event of this version.
    ///
    /// # Errors
    ///
    /// If the version is older than the reached version.
    fn advance(&mut self, version: &ResourceVersion, progress: &mut WatchProgress) -> Result<(), SourceError> {
        trace!(rv = %version, "received an event");
        let order = self.resume.observe(version);
        progress.has_moved |= order == Ordering::Greater;
        match order {
            Ordering::Less => Err(SourceError::OlderVersion { from: self.resume.watch_version(), to: version.clone() }),
            Ordering::Equal | Ordering::Greater => Ok(()),
        }
    }
}
