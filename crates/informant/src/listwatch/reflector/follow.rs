//! The changes, one watch after the other.

use std::sync::Arc;

use tokio::task::coop::consume_budget;
use tokio::time::Instant;
use tokio::time::timeout_at;
use tracing::debug;
use tracing::trace;
use tracing::warn;

use super::super::Attempt;
use super::super::Destination;
use super::super::ListWatch;
use super::super::SourceError;
use super::super::WatchRequest;
use super::super::intake::Taken;
use super::super::rules::endings::AfterWatch;
use super::super::rules::endings::Ending;
use super::super::rules::endings::Life;
use super::super::rules::endings::Streak;
use super::super::rules::endings::after_watch;
use super::super::rules::resume::Moved;
use super::reader::EventReader;
use super::reader::Happening;
use super::rounds::Over;
use super::rounds::Rounds;
use super::status::Activity;
use crate::Cached;
use crate::ResourceVersion;

/// How far one watch has come.
struct Progress {
    /// The watch began without a version: what exists is told in no order, until something changes.
    is_unordered: bool,
    has_moved: bool,
    events: u64,
}

impl<O, L, D> Rounds<O, L, D>
where
    O: Send + Sync + 'static,
    L: ListWatch<O>,
    D: Destination<O>,
{
    /// Watches from where the list ended, or goes on with a stream that began with the list, until that cannot go on.
    pub(super) async fn follow(&mut self, mut stream: Option<EventReader<O>>) -> Over {
        let mut streak = Streak::default();
        let mut resync_at = self.next_resync();
        loop {
            let begun = Instant::now();
            let mut opened_at = begun;
            let version = self.resume.watch();
            let is_unordered = stream.is_none() && !self.resume.is_versioned();
            let mut progress = Progress { is_unordered, has_moved: false, events: 0 };
            let opened = match stream.take() {
                Some(reader) => Ok(reader),
                None => {
                    self.status.set(Activity::Opening);
                    debug!(kind = self.resource(), rv = %version, "opening a watch");
                    let timeout = self.random_watch_timeout();
                    self.open(WatchRequest { version, sends_initial_events: false, timeout }).await
                }
            };
            let (ending, error) = match opened {
                Err(error) => (Ending::Unopened(error.meaning()), Some(error)),
                Ok(mut reader) => {
                    opened_at = Instant::now();
                    self.watching();
                    match self.read_changes(&mut reader, &mut progress, &mut resync_at).await {
                        Ok(()) => (Ending::Cleanly, None),
                        Err(error) => (Ending::Failed(error.meaning()), Some(error)),
                    }
                }
            };
            let attempt = match ending {
                Ending::Unopened(_) => Attempt::OpenWatch,
                Ending::Cleanly | Ending::Failed(_) => Attempt::Watch,
            };
            let (since_asked, since_opened) = (begun.elapsed(), opened_at.elapsed());
            let was_of_use = Life { has_moved: progress.has_moved, since_asked, since_opened }.was_of_use(ending);
            let failures = streak.count(ending, was_of_use);
            let now = Instant::now();
            let window = &mut self.window;
            let next = match self.resume.is_versioned() {
                true => after_watch(ending, was_of_use, failures, || window.allows(now)),
                // There is no place to go on from: what happens between two watches would be lost.
                false => AfterWatch::Relist,
            };
            // Also if a watch is opened and ends at once: others must be able to run.
            consume_budget().await;
            match next {
                AfterWatch::Reopen => {
                    if let Some(error) = error {
                        self.failed(attempt, error);
                    }
                }
                AfterWatch::ReopenLater => {
                    let error = self.failed(attempt, error.unwrap_or(SourceError::ShortWatch { lived: since_asked }));
                    self.wait(error).await;
                }
                AfterWatch::Relist => {
                    let ended = match self.resume.is_versioned() {
                        true => SourceError::ShortWatch { lived: since_asked },
                        false => SourceError::Ended,
                    };
                    let error = self.failed(attempt, error.unwrap_or(ended));
                    // Those that come within a watch are everyday life.
                    return Over { error, is_heard: attempt == Attempt::OpenWatch };
                }
            }
        }
    }

    /// Passes on what comes until the watch ends.
    async fn read_changes(
        &mut self,
        reader: &mut EventReader<O>,
        progress: &mut Progress,
        resync_at: &mut Option<Instant>,
    ) -> Result<(), SourceError> {
        loop {
            let passed_on = self.pass_on_all(reader, progress);
            self.show(reader, progress);
            passed_on?;
            consume_budget().await;
            let full_since = Instant::now();
            self.destination.room().await;
            // While we do not listen, the watch is not silent.
            reader.heard += full_since.elapsed();

            let patience = self.watchdog.patience(reader.timeout);
            let deadline = reader.heard + patience;
            let wake = resync_at.map_or(deadline, |resync_at| resync_at.min(deadline));
            match timeout_at(wake, reader.wait()).await {
                Ok(Ok(true)) => {}
                Ok(Ok(false)) => return Ok(()),
                Ok(Err(error)) => return Err(error),
                Err(_) if resync_at.is_some_and(|resync_at| Instant::now() >= resync_at) => {
                    self.resync();
                    *resync_at = self.next_resync();
                }
                Err(_) => return Err(SourceError::Silent { after: patience }),
            }
        }
    }

    /// What has come already.
    fn pass_on_all(&mut self, reader: &mut EventReader<O>, progress: &mut Progress) -> Result<(), SourceError> {
        while let Some(incoming) = reader.next_here()? {
            // What a watch brings is news, so there is no point in looking for it in the cache.
            let happening = incoming.understand(&mut self.intake, &|_| None)?;
            self.pass_on(happening, progress, reader.heard)?;
        }
        Ok(())
    }

    fn pass_on(&mut self, happening: Happening<O>, progress: &mut Progress, heard: Instant) -> Result<(), SourceError> {
        match happening {
            Happening::Added(taken) => {
                if let Some(object) = self.check(taken, progress, !progress.is_unordered)? {
                    self.destination.add(object);
                }
            }
            Happening::Modified(taken) => {
                progress.is_unordered = false;
                if let Some(object) = self.check(taken, progress, true)? {
                    self.destination.update(object);
                }
            }
            Happening::Deleted(taken) => {
                progress.is_unordered = false;
                self.pass_on_delete(taken, progress)?;
            }
            Happening::Bookmark { version, .. } => {
                progress.is_unordered = false;
                self.watchdog.bookmark(heard);
                self.pass_on_version(version, progress)?;
            }
            Happening::Unknown { kind, version } => {
                progress.is_unordered = false;
                warn!(kind = self.resource(), event = kind, rv = %version, "unknown event");
                self.pass_on_version(version, progress)?;
            }
        }
        Ok(())
    }

    /// An event without an object. One without a version as well says nothing.
    fn pass_on_version(&mut self, version: ResourceVersion, progress: &mut Progress) -> Result<(), SourceError> {
        if version.is_empty() {
            return Ok(());
        }
        self.advance(&version, progress)?;
        self.destination.bookmark(version);
        Ok(())
    }

    /// The object, if it is one; else it is set aside, and counts as told.
    fn check(
        &mut self,
        taken: Taken<O>,
        progress: &mut Progress,
        is_ordered: bool,
    ) -> Result<Option<Arc<Cached<O>>>, SourceError> {
        let version = match &taken {
            Ok(object) => object.version(),
            Err(bad) => &bad.version,
        };
        if !is_ordered {
            progress.events += 1;
        }
        let is_certain = taken.as_ref().map_or_else(|bad| !bad.version.is_empty(), |_| true);
        if is_ordered && is_certain {
            self.advance(version, progress)?;
        }
        match taken {
            Ok(object) => {
                self.quarantine.release(object.key(), object.version());
                Ok(Some(object))
            }
            Err(bad) => {
                let version = Some(bad.version.clone()).filter(|_| is_ordered && is_certain);
                let known = bad.key.as_ref().and_then(|key| self.settings.known.as_ref()?.get(key));
                match known {
                    // It is another life, so the one that is known is over.
                    Some(known) if !known.identity().may_be_same_life(&bad.uid) => {
                        self.destination.delete_unread(known.key(), version);
                    }
                    Some(_) | None => {
                        if let Some(version) = version {
                            self.destination.bookmark(version);
                        }
                    }
                }
                if self.quarantine.add((*bad).clone()) {
                    self.tell_of_quarantined(&bad);
                }
                Ok(None)
            }
        }
    }

    fn pass_on_delete(&mut self, taken: Taken<O>, progress: &mut Progress) -> Result<(), SourceError> {
        match taken {
            Ok(object) => {
                self.advance(object.version(), progress)?;
                self.quarantine.release(object.key(), object.version());
                self.destination.delete(object);
            }
            Err(bad) => {
                let version = Some(bad.version.clone()).filter(|version| !version.is_empty());
                if let Some(version) = &version {
                    self.advance(version, progress)?;
                }
                self.tell_of_quarantined(&bad);
                match &bad.key {
                    Some(key) => {
                        self.quarantine.release(key, &bad.version);
                        self.destination.delete_unread(key, version);
                    }
                    None => {
                        self.quarantine.add(*bad);
                    }
                }
            }
        }
        Ok(())
    }

    /// An event of this version has come.
    fn advance(&mut self, version: &ResourceVersion, progress: &mut Progress) -> Result<(), SourceError> {
        trace!(kind = self.resource(), rv = %version, "event");
        progress.events += 1;
        match self.resume.observe(version) {
            Moved::Forward => progress.has_moved = true,
            Moved::Nowhere => {}
            Moved::Back => {
                self.end_reuse();
                return Err(SourceError::WentBack { from: self.resume.watch(), to: version.clone() });
            }
        }
        Ok(())
    }

    fn show(&mut self, reader: &EventReader<O>, progress: &mut Progress) {
        let events = std::mem::take(&mut progress.events);
        if events == 0 {
            return;
        }
        let version = self.resume.watch();
        self.status.note(|status| {
            status.version = Some(version);
            status.last_event = Some(reader.heard);
            status.events += events;
        });
    }

    fn resync(&self) {
        if let Some(resync) = &self.settings.resync
            && self.call("resync_every_if", || (resync.is_due)()).unwrap_or(false)
        {
            self.destination.resync();
        }
    }

    fn next_resync(&self) -> Option<Instant> {
        self.settings.resync.as_ref().map(|resync| Instant::now() + resync.period)
    }
}
