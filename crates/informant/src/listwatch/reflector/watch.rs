//! Opens a watch and passes its events to the destination. Asks the server for its version when the watch is silent.
//!
//! - **In:** the events of a watch.
//! - **Out:** deltas and bookmarks, to the destination; how the watch ended.
//! - **Knows nothing of:** what follows the watch.

use std::{cmp::Ordering, future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

use futures_util::future::BoxFuture;
use tokio::{
    sync::watch,
    task::{coop::consume_budget, yield_now},
    time::{Instant, sleep_until, timeout},
};
use tracing::{debug, trace, warn};

use super::{
    super::{
        ListWatchError, Operation, Quarantined, SourceError,
        error::Chain,
        frames::EventType,
        rules::{
            error_class::ErrorClass,
            silence::{Silence, SilenceStep, VersionAnswer},
            state::{Input, WatchStats},
        },
        witness::ask_for_version,
    },
    Reflector,
    main_loop::Failure,
    reader::{DecodedEvent, EventReader},
    status::Activity,
};
use crate::{ResourceVersion, delta::Change, object::Identity};

/// The progress of one watch.
struct WatchProgress {
    /// True while a watch that began without a version delivers the existing objects, which are in no order. The first change sets it to false.
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

/// The time limit for the source's answer, when the reflector asks for its version because the watch is silent.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// Within this time, all reflectors of a client list again after one of them has found that the history changed.
const RELIST_SPREAD: Duration = Duration::from_secs(3);

impl Reflector {
    /// Opens a watch.
    pub(super) async fn open_watch(&mut self, opened: &mut Option<EventReader>) -> Result<Input, Failure> {
        let version = self.resume.watch_version();
        self.status.set(Activity::Opening);
        debug!(informer = %self.resource, rv = %version, "opening a watch");
        let reader = self.open(version, false).await;
        *opened = Some(reader.map_err(|error| Failure::refused(Operation::OpenWatch, error))?);
        self.note_response_of_watch();
        Ok(Input::Done)
    }

    /// Passes on the events of an open watch until it ends. Returns how it ended.
    pub(super) async fn watch(&mut self, mut reader: EventReader) -> Failure {
        let is_unordered = !reader.is_streamed_list && !self.resume.is_versioned();
        let mut progress = WatchProgress { is_unordered, has_moved: false, events: 0, unapplied: 0 };
        self.note_opened_watch();
        let begun = Instant::now();
        let read = self.read_changes(&mut reader, &mut progress).await;
        self.contact.note_watch_end(read.is_ok().then(|| reader.life()), Instant::now());
        // A server that did not answer while the watch was silent may have been restored meanwhile.
        if self.settings.health.has_been_silent_since(reader.last_byte_at) {
            self.contact.note_failed_attempt(ErrorClass::Unreachable);
        }
        self.offer_witness();
        let since_opened = begun.elapsed();
        let since_asked = if reader.is_streamed_list { since_opened } else { reader.asked_at.elapsed() };
        let stats = WatchStats { has_moved: progress.has_moved, since_asked, since_opened };
        let operation = Operation::Watch;
        match read {
            Err(error) => Failure::broken(operation, error, stats),
            Ok(()) => {
                let error = match self.resume.is_versioned() {
                    true => SourceError::ShortWatch { lived: since_asked },
                    false => SourceError::Ended,
                };
                Failure { operation, error, input: Input::Ended(stats) }
            }
        }
    }

    /// Passes on the events of a watch until it ends.
    async fn read_changes(
        &mut self,
        reader: &mut EventReader,
        progress: &mut WatchProgress,
    ) -> Result<(), SourceError> {
        let mut silence = Silence::new(reader.last_byte_at, self.watchdog.longest_pause());
        let mut question: Option<Question> = None;
        let mut relist_at = None;
        let mut history_changed = pin!(next_history_change(self.history_changes.clone()));
        let mut timer = pin!(sleep_until(reader.last_byte_at + self.watchdog.idle_timeout(reader.timeout)));
        loop {
            let begun = Instant::now();
            let has_more = self.pass_on_events(reader, progress);
            self.decoder.end_group(begun, &self.resource);
            self.update_status(reader, progress);
            if has_more? {
                progress.unapplied = 0;
                yield_now().await;
                continue;
            }
            consume_budget().await;
            let full_since = Instant::now();
            self.destination.room().await;
            let now = Instant::now();
            // The time in which the reflector did not read does not count as silence.
            reader.last_byte_at += now - full_since;

            let idle_timeout = self.watchdog.idle_timeout(reader.timeout);
            let deadlines = [
                self.resync_at,
                silence.wakes_at(now, self.settings.health.last_byte()),
                relist_at,
                self.unclear_events.due_at(),
            ];
            let wakes_at = deadlines.into_iter().flatten().fold(reader.last_byte_at + idle_timeout, Instant::min);
            // A timer that elapses too early does no harm. It is not set again for each event, which would take locks of the runtime.
            if timer.is_elapsed() || wakes_at < timer.deadline() {
                timer.as_mut().reset(wakes_at);
            }
            let waiting = poll_fn(|context| {
                if let Poll::Ready(read) = reader.poll_wait(context) {
                    return Poll::Ready(Wake::Read(read));
                }
                if let Some(question) = &mut question
                    && let Poll::Ready(answer) = question.as_mut().poll(context)
                {
                    return Poll::Ready(Wake::Answer(answer));
                }
                if let Some(findings) = &mut self.settings.findings
                    && let Poll::Ready(Some(finding)) = findings.poll_recv(context)
                {
                    return Poll::Ready(Wake::Finding(finding));
                }
                if relist_at.is_none() && history_changed.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Wake::HistoryChanged);
                }
                timer.as_mut().poll(context).map(|()| Wake::Time)
            });
            let wake = waiting.await;
            let step = match wake {
                Wake::Read(Ok(true)) => {
                    silence.reset(reader.last_byte_at);
                    self.settings.health.note_byte(reader.last_byte_at);
                    question = None;
                    SilenceStep::Nothing
                }
                Wake::Read(Ok(false)) => return Ok(()),
                Wake::Read(Err(error)) => return Err(error),
                Wake::Finding(finding) if finding.class() == ErrorClass::HistoryChanged => {
                    return Err(self.begin_new_history());
                }
                Wake::Finding(finding) => {
                    self.resume.distrust_cache();
                    return Err(finding);
                }
                Wake::HistoryChanged => {
                    relist_at = Some(Instant::now() + self.machine.delays.between(Duration::ZERO, RELIST_SPREAD));
                    SilenceStep::Nothing
                }
                Wake::Answer(answer) => {
                    question = None;
                    let answer = self.interpret_answer(answer)?;
                    self.settings.health.note_question(answer != VersionAnswer::Nothing, Instant::now());
                    silence.answer(Instant::now(), answer)
                }
                Wake::Time => {
                    let (now, health) = (Instant::now(), &self.settings.health);
                    silence.wake(now, health.last_byte(), health.is_silent(), || health.may_ask(now))
                }
            };
            match step {
                SilenceStep::Nothing => {}
                SilenceStep::Ask => question = Some(self.ask_for_version()),
                SilenceStep::Confirm(at) => self.status.update(|status| {
                    status.confirmed = Some(at);
                    status.unanswered_since = None;
                }),
                SilenceStep::ReportStale => self.note_unanswered(reader.last_byte_at),
                SilenceStep::Reopen => return Err(SourceError::Silent { after: reader.last_byte_at.elapsed() }),
            }
            let now = Instant::now();
            if relist_at.is_some_and(|at| at <= now) {
                self.check_other_reflectors()?;
                relist_at = None;
                history_changed.set(next_history_change(self.history_changes.clone()));
            }
            if self.resync_at.is_some_and(|at| at <= now) {
                self.destination.push(Change::Resync);
                self.resync_at = self.next_resync();
            }
            if reader.last_byte_at + idle_timeout <= now {
                return Err(SourceError::Silent { after: idle_timeout });
            }
        }
    }

    /// Notes that the server does not answer, and reports it once.
    fn note_unanswered(&self, last_byte_at: Instant) {
        let was_known = self.status.unanswered_since().is_some();
        self.status.update(|status| {
            status.unanswered_since.get_or_insert_with(Instant::now);
        });
        if !was_known {
            self.reporter.tell(&ListWatchError {
                operation: Operation::Watch,
                resource: Arc::clone(&self.resource),
                source: SourceError::Silent { after: last_byte_at.elapsed() },
                server_may_be_starting: false,
            });
        }
    }

    /// Asks the source for its version, because the watch is silent.
    fn ask_for_version(&self) -> Question {
        let source = Arc::clone(&self.settings.source);
        Box::pin(async move {
            let answer = timeout(ANSWER_WITHIN, ask_for_version(&*source)).await;
            answer.unwrap_or(Err(SourceError::Silent { after: ANSWER_WITHIN }))
        })
    }

    /// Compares the source's answer with the version that the watch has reached.
    ///
    /// # Errors
    ///
    /// If the answer shows that the history changed.
    fn interpret_answer(&mut self, answer: Answer) -> Result<VersionAnswer, SourceError> {
        let newest = match answer {
            Ok(Some(newest)) => newest,
            Err(error) if error.class().may_succeed_later() => return Ok(VersionAnswer::Nothing),
            Ok(None) | Err(_) => return Ok(VersionAnswer::Unsupported),
        };
        if self.resume.note_newest_version(&newest) == Ordering::Less {
            return Err(self.begin_new_history());
        }
        Ok(if newest == self.resume.reached() { VersionAnswer::Same } else { VersionAnswer::Newer })
    }

    /// Passes on the events that have been read, up to a limit; returns whether there may be more.
    ///
    /// # Errors
    ///
    /// If an event cannot be read, or everything must be listed because of an unclear event.
    fn pass_on_events(&mut self, reader: &mut EventReader, progress: &mut WatchProgress) -> Result<bool, SourceError> {
        let mut has_more = false;
        // `|_| None`: does not look for an identical object in the cache, because each event of a watch has a new state.
        while let Some(event) = reader.next(&mut self.decoder, &|_| None)? {
            self.pass_on(event, progress, reader.last_byte_at)?;
            progress.unapplied += 1;
            if progress.unapplied >= EVENTS_BEFORE_YIELD {
                has_more = true;
                break;
            }
        }
        match self.unclear_events.due_at().and_then(|_| self.unclear_events.take_due(Instant::now())) {
            Some(event) => Err(event),
            None => Ok(has_more),
        }
    }

    /// Passes on one event. `anchors` collects the newest events: after an outage, the server is asked about them, to see whether it still has
    /// the same history.
    fn pass_on(
        &mut self,
        event: DecodedEvent,
        progress: &mut WatchProgress,
        received_at: Instant,
    ) -> Result<(), SourceError> {
        let is_existing = progress.is_unordered && event.is_added();
        progress.is_unordered = is_existing;
        match event {
            DecodedEvent::Delta(delta) => {
                let object = delta.object();
                match is_existing {
                    true => self.anchors.consider(object.identity(), object.digest()),
                    false => {
                        self.advance(object.version(), progress)?;
                        self.anchors.observe(object.identity().clone(), object.digest(), delta.is_deleted());
                    }
                }
                self.quarantine.release(object.key(), object.version());
                self.destination.push(match is_existing {
                    true => Change::Existing(delta.into_object()),
                    false => delta.into(),
                });
            }
            DecodedEvent::Undecodable { event, object } => {
                let version = Some(&object.version).filter(|version| !is_existing && !version.is_empty()).cloned();
                if let Some(version) = &version {
                    self.advance(version, progress)?;
                }
                self.pass_on_undecodable(object, event == EventType::Deleted, version);
            }
            DecodedEvent::Bookmark { version, .. } => {
                self.watchdog.note_bookmark(received_at);
                if !version.is_empty() {
                    self.advance(&version, progress)?;
                    self.destination.push(Change::Bookmark(version));
                }
            }
            DecodedEvent::Unclear(event) => {
                let error = Chain(&event).to_string();
                if self.unclear_events.note(event, received_at) {
                    warn!(informer = %self.resource, error, "the watch delivered an event that may concern any object; everything is listed again, at most once a minute");
                }
            }
        }
        progress.events += u64::from(is_existing);
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
            self.report_quarantined(&object);
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
        let cached = object.key.as_ref().and_then(|key| self.settings.known.as_ref()?.get(key));
        match (cached, version) {
            // The event is of another incarnation, so the cached incarnation was deleted.
            (Some(cached), version) if !cached.identity().may_be_same_incarnation(&object.uid) => {
                self.destination.push(Change::DeletedUnread { key: cached.key().clone(), version });
            }
            (_, Some(version)) => self.destination.push(Change::Bookmark(version)),
            (_, None) => {}
        }
        if self.quarantine.add((*object).clone()) {
            self.report_quarantined(&object);
        }
    }

    /// Notes an event of this version.
    ///
    /// # Errors
    ///
    /// If the version is older than the reached version.
    fn advance(&mut self, version: &ResourceVersion, progress: &mut WatchProgress) -> Result<(), SourceError> {
        trace!(informer = %self.resource, rv = %version, "received an event");
        progress.events += 1;
        match self.resume.observe(version) {
            Ordering::Greater => progress.has_moved = true,
            Ordering::Equal => {}
            Ordering::Less => {
                return Err(SourceError::OlderVersion { from: self.resume.watch_version(), to: version.clone() });
            }
        }
        Ok(())
    }

    /// Shows the events since the last call in the status.
    fn update_status(&mut self, reader: &EventReader, progress: &mut WatchProgress) {
        let events = std::mem::take(&mut progress.events);
        if events == 0 {
            return;
        }
        let version = self.resume.watch_version();
        self.status.update_silently(|status| {
            status.version = Some(version);
            status.last_event = Some(reader.last_byte_at);
            status.confirmed = Some(reader.last_byte_at);
            status.unanswered_since = None;
            status.events += events;
        });
    }

    pub(super) fn next_resync(&self) -> Option<Instant> {
        self.settings.resync_every.map(|period| Instant::now() + period)
    }
}

/// The answer of the source to the question for its version.
type Answer = Result<Option<ResourceVersion>, SourceError>;

type Question = BoxFuture<'static, Answer>;

/// Why the loop that reads a watch wakes up.
enum Wake {
    /// The watch delivered bytes or an event (true), or ended (false).
    Read(Result<bool, SourceError>),
    /// The source answered, or did not in time.
    Answer(Answer),
    /// Another reflector of the same client found that the server's history changed.
    HistoryChanged,
    /// An audit found that everything must be listed again.
    Finding(SourceError),
    /// A deadline has passed: a resync, a relist, the silence check or the watchdog.
    Time,
}

/// Waits until a reflector of the same client reports a history change, which increases the number in the channel.
async fn next_history_change(mut number: watch::Receiver<u64>) {
    // The channel does not close while this reflector runs. If it did, no history change could follow, so the wait would not end.
    if number.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}
