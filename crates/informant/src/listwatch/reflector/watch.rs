//! Opens one watch after another and passes their events to the destination. Asks the server for its version when a watch is silent.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::{BoxFuture, Either, select};
use tokio::{
    sync::watch,
    task::{coop::consume_budget, yield_now},
    time::{Instant, timeout, timeout_at},
};
use tracing::{debug, trace, warn};

use super::{
    super::{
        Lookup, LookupRequest, Operation, Quarantined, SourceError, WatchRequest,
        decoder::DecodeResult,
        rules::{
            resume::VersionOrder,
            silence::{Silence, SilenceStep, VersionAnswer},
            state::{Input, WatchStats},
        },
    },
    main_loop::{Failure, ReflectorLoop},
    reader::{DecodedEvent, EventReader},
    status::Activity,
};
use crate::{
    Cached, Deleted, ResourceVersion,
    delta::{Change, Delta},
    object::{Erased, Identity},
};

/// The progress of one watch.
struct Progress {
    /// True while a watch that began without a version delivers the existing objects, which are in no order. The first change ends that.
    is_unordered: bool,
    /// True if the watch delivered a newer version.
    has_moved: bool,
    /// The number of events that the status does not show yet.
    events: u64,
    /// The number of events passed on since the consumer last ran.
    unapplied: usize,
}

/// After this number of events, the reflector yields so that the consumer can apply them. The consumer runs in the same task, and a source
/// that always has another event ready would keep it from running.
const EVENTS_BEFORE_YIELD: usize = 64;

/// How long the source has to answer when it is asked because the watch is silent.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Within this time, all reflectors of a client list again after one of them has found that the history changed.
const RELIST_SPREAD: Duration = Duration::from_secs(3);

impl ReflectorLoop {
    /// Opens a watch, or continues the one that began with a streamed list, and passes on its events until it ends.
    pub(super) async fn watch(&mut self, stream: Option<EventReader>) -> Result<Input, Failure> {
        let asked_at = Instant::now();
        let is_unordered = stream.is_none() && !self.resume.is_versioned();
        let mut progress = Progress { is_unordered, has_moved: false, events: 0, unapplied: 0 };
        let opened = match stream {
            Some(reader) => Ok(reader),
            None => self.open_checked_watch().await,
        };
        let mut reader = opened.map_err(|error| Failure::refused(Operation::OpenWatch, error))?;
        let opened_at = Instant::now();
        self.watching();
        let read = self.read_changes(&mut reader, &mut progress).await;
        // A clean end counts as contact with the server; after an error, the last byte does.
        self.contact.watch_ended(if read.is_ok() { Instant::now() } else { reader.last_byte_at });
        let (since_asked, since_opened) = (asked_at.elapsed(), opened_at.elapsed());
        let stats = WatchStats { has_moved: progress.has_moved, since_asked, since_opened };
        let operation = Operation::Watch;
        Err(match read {
            Err(error) => Failure::broken(operation, error, stats),
            Ok(()) => {
                let error = match self.resume.is_versioned() {
                    true => SourceError::ShortWatch { lived: since_asked },
                    false => SourceError::Ended,
                };
                Failure { operation, error, input: Input::Ended(stats) }
            }
        })
    }

    /// Opens a watch. If that takes long, the server may have been restored meanwhile, so its history is checked again.
    async fn open_checked_watch(&mut self) -> Result<EventReader, SourceError> {
        loop {
            let version = self.resume.watch();
            let reader = self.open_watch().await?;
            self.check_history_after_outage().await?;
            if self.resume.watch() == version {
                return Ok(reader);
            }
        }
    }

    async fn open_watch(&mut self) -> Result<EventReader, SourceError> {
        let version = self.resume.watch();
        self.status.set(Activity::Opening);
        debug!(informer = self.resource(), rv = %version, "opening a watch");
        let timeout = self.random_watch_timeout();
        self.open(WatchRequest { version, sends_initial_events: false, timeout }).await
    }

    /// Passes on the events of a watch until it ends.
    async fn read_changes(&mut self, reader: &mut EventReader, progress: &mut Progress) -> Result<(), SourceError> {
        let mut silence = Silence::new(reader.last_byte_at, self.watchdog.longest_pause());
        let mut question: Option<Question> = None;
        let mut relist_at = None;
        loop {
            let has_more = self.pass_on_all(reader, progress);
            self.show(reader, progress);
            if has_more? || progress.unapplied >= EVENTS_BEFORE_YIELD {
                progress.unapplied = 0;
                yield_now().await;
                continue;
            }
            consume_budget().await;
            let full_since = Instant::now();
            self.destination.room().await;
            // The time in which the reflector did not read does not count as silence.
            reader.last_byte_at += full_since.elapsed();

            let idle_timeout = self.watchdog.idle_timeout(reader.timeout);
            let deadline = reader.last_byte_at + idle_timeout;
            let wakes_at = [Some(deadline), self.resync_at, silence.wakes_at(), relist_at].into_iter().flatten().min();
            let input = {
                let read = pin!(reader.wait());
                let signal = pin!(next_signal(&mut question, &mut self.history_changes, relist_at.is_none()));
                match timeout_at(wakes_at.unwrap_or(deadline), select(read, signal)).await {
                    Ok(Either::Left((read, _))) => Wake::Read(read),
                    Ok(Either::Right((signal, _))) => signal,
                    Err(_) => Wake::Time,
                }
            };
            let step = match input {
                Wake::Read(Ok(true)) => {
                    silence.reset(reader.last_byte_at);
                    question = None;
                    SilenceStep::Nothing
                }
                Wake::Read(Ok(false)) => return Ok(()),
                Wake::Read(Err(error)) => return Err(error),
                Wake::HistoryChanged => {
                    relist_at = Some(Instant::now() + self.machine.delays.between(Duration::ZERO, RELIST_SPREAD));
                    SilenceStep::Nothing
                }
                Wake::Answer(answer) => {
                    question = None;
                    silence.answer(Instant::now(), self.interpret_answer(answer)?)
                }
                Wake::Time => silence.wake(Instant::now()),
            };
            match step {
                SilenceStep::Nothing => {}
                SilenceStep::Ask => question = Some(self.ask_for_version()),
                SilenceStep::Confirm(at) => self.status.update(|status| {
                    status.confirmed = Some(at);
                    status.unanswered_since = None;
                }),
                SilenceStep::ReportStale => self.status.update(|status| {
                    status.unanswered_since.get_or_insert_with(Instant::now);
                }),
                SilenceStep::Reopen => return Err(SourceError::Silent { after: reader.last_byte_at.elapsed() }),
            }
            let now = Instant::now();
            if relist_at.is_some_and(|at| at <= now) {
                self.check_other_reflectors()?;
                relist_at = None;
            }
            if self.resync_at.is_some_and(|at| at <= now) {
                self.resync();
                self.resync_at = self.next_resync();
            }
            if reader.last_byte_at + idle_timeout <= now {
                return Err(SourceError::Silent { after: idle_timeout });
            }
        }
    }

    /// Asks the source for its version, because the watch is silent.
    fn ask_for_version(&self) -> Question {
        let source = Arc::clone(&self.settings.source);
        Box::pin(async move { timeout(ANSWER_WITHIN, source.look_up(LookupRequest::default())).await.ok() })
    }

    /// Compares the source's answer with the version that the watch has reached.
    ///
    /// # Errors
    ///
    /// If the answer shows that the history changed.
    fn interpret_answer(
        &mut self,
        answer: Option<Result<Option<Lookup<Erased>>, SourceError>>,
    ) -> Result<VersionAnswer, SourceError> {
        let found = match answer {
            None => return Ok(VersionAnswer::Nothing),
            Some(Err(error)) if error.class().is_temporary() => return Ok(VersionAnswer::Nothing),
            Some(Ok(None) | Err(_)) => return Ok(VersionAnswer::Unsupported),
            Some(Ok(Some(found))) => found,
        };
        if self.resume.note_newest_version(&found.version) == VersionOrder::Older {
            return Err(self.begin_new_history());
        }
        Ok(if found.version == self.resume.reached() { VersionAnswer::Same } else { VersionAnswer::Newer })
    }

    /// Passes on the events that have been read, up to a limit; returns whether there may be more.
    fn pass_on_all(&mut self, reader: &mut EventReader, progress: &mut Progress) -> Result<bool, SourceError> {
        while let Some(incoming) = reader.next_here()? {
            // A watch delivers changes, so the cache is not searched for the same state.
            let event = incoming.decode(&mut self.decoder, &|_| None)?;
            self.pass_on(event, progress, reader.last_byte_at)?;
            progress.unapplied += 1;
            if progress.unapplied >= EVENTS_BEFORE_YIELD {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn pass_on(
        &mut self,
        event: DecodedEvent,
        progress: &mut Progress,
        received_at: Instant,
    ) -> Result<(), SourceError> {
        match event {
            DecodedEvent::Added(taken) => {
                let is_unordered = progress.is_unordered;
                match self.check(taken, progress, !is_unordered)? {
                    Some(object) if is_unordered => self.destination.push(Change::Existing(object)),
                    Some(object) => self.destination.push(Delta::Added(object).into()),
                    None => {}
                }
            }
            DecodedEvent::Modified(taken) => {
                progress.is_unordered = false;
                if let Some(object) = self.check(taken, progress, true)? {
                    self.destination.push(Delta::Updated(object).into());
                }
            }
            DecodedEvent::Deleted(taken) => {
                progress.is_unordered = false;
                self.pass_on_delete(taken, progress)?;
            }
            DecodedEvent::Bookmark { version, .. } => {
                progress.is_unordered = false;
                self.watchdog.bookmark(received_at);
                self.pass_on_version(version, progress)?;
            }
            DecodedEvent::Unknown { kind, version } => {
                progress.is_unordered = false;
                warn!(informer = self.resource(), event = kind, rv = %version, "the watch delivered an event of an unknown type; skipped");
                self.pass_on_version(version, progress)?;
            }
        }
        Ok(())
    }

    /// Passes on the version of an event without an object. Ignores an empty version.
    fn pass_on_version(&mut self, version: ResourceVersion, progress: &mut Progress) -> Result<(), SourceError> {
        if version.is_empty() {
            return Ok(());
        }
        self.advance(&version, progress)?;
        self.destination.push(Change::Bookmark(version));
        Ok(())
    }

    /// Notes the version of an event. Returns its object, or quarantines the object and returns `None` if it could not be decoded.
    fn check(
        &mut self,
        taken: DecodeResult,
        progress: &mut Progress,
        is_ordered: bool,
    ) -> Result<Option<Cached<Erased>>, SourceError> {
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
        match &taken {
            Ok(object) if !is_ordered => self.anchors.consider(object.identity(), object.digest()),
            Ok(object) => self.anchors.observe(object.identity().clone(), object.digest(), false),
            Err(bad) => self.anchor_bad(bad, false),
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
                    // The event is of another incarnation, so the cached one was deleted.
                    Some(known) if !known.identity().may_be_same_incarnation(&bad.uid) => {
                        self.destination.push(Change::DeletedUnread { key: known.key().clone(), version });
                    }
                    Some(_) | None => {
                        if let Some(version) = version {
                            self.destination.push(Change::Bookmark(version));
                        }
                    }
                }
                if self.quarantine.add((*bad).clone()) {
                    self.report_quarantined(&bad);
                }
                Ok(None)
            }
        }
    }

    fn pass_on_delete(&mut self, taken: DecodeResult, progress: &mut Progress) -> Result<(), SourceError> {
        match taken {
            Ok(object) => {
                self.advance(object.version(), progress)?;
                self.anchors.observe(object.identity().clone(), object.digest(), true);
                self.quarantine.release(object.key(), object.version());
                self.destination.push(Delta::Deleted(Deleted::Observed(object)).into());
            }
            Err(bad) => {
                let version = Some(bad.version.clone()).filter(|version| !version.is_empty());
                if let Some(version) = &version {
                    self.advance(version, progress)?;
                    self.anchor_bad(&bad, true);
                }
                self.report_quarantined(&bad);
                match &bad.key {
                    Some(key) => {
                        self.quarantine.release(key, &bad.version);
                        self.destination.push(Change::DeletedUnread { key: key.clone(), version });
                    }
                    None => {
                        self.quarantine.add(*bad);
                    }
                }
            }
        }
        Ok(())
    }

    /// Stores the event of an object that could not be decoded as an anchor of the server's history.
    fn anchor_bad(&mut self, bad: &Quarantined, is_deleted: bool) {
        if let Some(key) = bad.key.clone() {
            let identity = Identity { key, uid: bad.uid.clone(), version: bad.version.clone() };
            self.anchors.observe(identity, 0, is_deleted);
        }
    }

    /// Notes an event of this version.
    ///
    /// # Errors
    ///
    /// If the version is older than the reached one.
    fn advance(&mut self, version: &ResourceVersion, progress: &mut Progress) -> Result<(), SourceError> {
        trace!(informer = self.resource(), rv = %version, "received an event");
        progress.events += 1;
        match self.resume.observe(version) {
            VersionOrder::Newer => progress.has_moved = true,
            VersionOrder::Same => {}
            VersionOrder::Older => {
                return Err(SourceError::OlderVersion { from: self.resume.watch(), to: version.clone() });
            }
        }
        Ok(())
    }

    fn show(&mut self, reader: &EventReader, progress: &mut Progress) {
        let events = std::mem::take(&mut progress.events);
        if events == 0 {
            return;
        }
        let version = self.resume.watch();
        self.status.note(|status| {
            status.version = Some(version);
            status.last_event = Some(reader.last_byte_at);
            status.confirmed = Some(reader.last_byte_at);
            status.unanswered_since = None;
            status.events += events;
        });
    }

    fn resync(&self) {
        if let Some(resync) = &self.settings.resync
            && self.call("resync_every_if", || (resync.is_due)()).unwrap_or(false)
        {
            self.destination.push(Change::Resync);
        }
    }

    pub(super) fn next_resync(&self) -> Option<Instant> {
        self.settings.resync.as_ref().map(|resync| Instant::now() + resync.period)
    }
}

/// A pending question for the source's version. Its result is `None` if the source does not answer in time.
type Question = BoxFuture<'static, Option<Result<Option<Lookup<Erased>>, SourceError>>>;

/// Why the loop that reads a watch wakes up.
enum Wake {
    /// The watch delivered bytes or an event (true), or ended (false).
    Read(Result<bool, SourceError>),
    /// The source answered, or did not in time.
    Answer(Option<Result<Option<Lookup<Erased>>, SourceError>>),
    /// Another reflector of the same client found that the server's history changed.
    HistoryChanged,
    /// A deadline has passed: a resync, a relist, the silence check or the watchdog.
    Time,
}

/// Waits for the answer to a pending question, or for a history change. Cancel safe.
async fn next_signal(
    question: &mut Option<Question>,
    history_changes: &mut watch::Receiver<u64>,
    waits_for_history: bool,
) -> Wake {
    let answered = async {
        match question {
            Some(question) => question.await,
            None => std::future::pending().await,
        }
    };
    let changed = async {
        // An error would mean that no reflector is left, but this one is.
        if !waits_for_history || history_changes.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    match select(pin!(answered), pin!(changed)).await {
        Either::Left((answer, _)) => Wake::Answer(answer),
        Either::Right(_) => Wake::HistoryChanged,
    }
}
