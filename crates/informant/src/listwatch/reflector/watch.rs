//! Reads an open watch until it ends. Asks the server for its version when the watch is silent.
//!
//! - **In:** the events of a watch; findings of audits; the client's history changes.
//! - **Out:** the same events, to the [intake](super::intake); resyncs; how the watch ended.
//! - **Knows nothing of:** what becomes of an event, and what follows the watch.

use std::{cmp::Ordering, future::poll_fn, pin::Pin, task::Poll, time::Duration};

use futures_util::future::BoxFuture;
use tokio::{
    sync::mpsc,
    task::{coop::consume_budget, yield_now},
    time::{Instant, Sleep, sleep_until},
};

use super::{
    Reflector, Shared,
    history::HistoryCheck,
    intake::{Intake, WatchProgress},
    main_loop::Failure,
    reader::{DecodedEvent, EventReader},
    requests::ask_server,
};
use crate::{
    ResourceVersion,
    delta::Change,
    listwatch::{
        SourceError,
        health::covers,
        rules::{
            error_class::ErrorClass,
            failure_delays::FailureDelays,
            silence::{Silence, SilenceStep, VersionAnswer},
            state::{Input, WatchStats},
            watchdog::Watchdog,
        },
    },
};

/// What outlives a watch.
pub(super) struct WatchContext {
    watchdog: Watchdog,
    resync_every: Option<Duration>,
    /// When the next resync is requested.
    resync_at: Option<Instant>,
    /// Receives why everything must be listed again, from the informer's audits.
    findings: Option<mpsc::Receiver<SourceError>>,
}

/// An open watch, and the parts of the reflector that it uses.
pub(super) struct OpenWatch<'a> {
    reader: EventReader,
    shared: &'a Shared,
    intake: &'a mut Intake,
    history: &'a mut HistoryCheck,
    delays: &'a mut FailureDelays,
    context: &'a mut WatchContext,
    progress: WatchProgress,
    /// The number of events passed on since the consumer last ran.
    unapplied: usize,
    silence: Silence,
    /// The question for the source's version, because the watch is silent.
    question: Option<BoxFuture<'static, Answer>>,
    /// True if the source has not answered a question since the last byte.
    is_unanswered: bool,
    /// Completes when another reflector of the client finds a history change.
    history_change: BoxFuture<'static, ()>,
    /// When to list because of that change.
    relist_at: Option<Instant>,
    timer: Pin<Box<Sleep>>,
}

/// The answer of the source to the question for its version.
type Answer = Result<Option<ResourceVersion>, SourceError>;

/// Why the loop that reads a watch wakes up.
enum Wake {
    /// The watch delivered bytes or an event.
    Received,
    /// The watch ended.
    Ended,
    /// The source answered, or did not in time.
    Answer(Answer),
    /// Another reflector of the same client found that the server's history changed.
    HistoryChanged,
    /// An audit found that everything must be listed again.
    Finding(SourceError),
    /// A deadline has passed: a resync, a relist, the silence check or the watchdog.
    Time,
}

/// After this number of events, the reflector yields so that the consumer can apply them. The consumer runs in the same task, and a source
/// that always has another event ready would keep it from running.
const EVENTS_BEFORE_YIELD: usize = 64;

/// The time limit for the source's answer, when the reflector asks for its version because the watch is silent.
const VERSION_WITHIN: Duration = Duration::from_secs(5);

/// Within this time, all reflectors of a client list again after one of them has found that the history changed.
const RELIST_SPREAD: Duration = Duration::from_secs(3);

impl WatchContext {
    pub(super) fn new(resync_every: Option<Duration>, findings: Option<mpsc::Receiver<SourceError>>) -> Self {
        Self { watchdog: Watchdog::default(), resync_every, resync_at: None, findings }
    }

    /// Begins the period of resyncs again.
    pub(super) fn restart_resyncs(&mut self, now: Instant) {
        self.resync_at = self.resync_every.map(|period| now + period);
    }
}

impl<'a> OpenWatch<'a> {
    pub(super) fn new(reader: EventReader, reflector: &'a mut Reflector) -> Self {
        let Reflector { shared, intake, history, retry, watches: context, .. } = reflector;
        context.watchdog.note_opened_watch();
        intake.decoder.begin(false);
        let is_unordered = !reader.is_streamed_list && !intake.resume.is_versioned();
        Self {
            shared,
            delays: &mut retry.delays,
            progress: WatchProgress { is_unordered, has_moved: false, events: 0 },
            unapplied: 0,
            silence: Silence::new(reader.last_byte_at, context.watchdog.longest),
            question: None,
            is_unanswered: false,
            history_change: Box::pin(history.next_change()),
            relist_at: None,
            timer: Box::pin(sleep_until(reader.last_byte_at + context.watchdog.idle_timeout(reader.timeout))),
            reader,
            intake,
            history,
            context,
        }
    }

    /// Passes on the events until the watch ends. Returns how it ended.
    pub(super) async fn run(mut self) -> Failure {
        self.shared.health.note_byte(Instant::now());
        self.shared.reporter.note_watch();
        let begun = Instant::now();
        let read = self.read().await;
        let Self { reader, shared, intake, history, is_unanswered, .. } = &mut self;
        history.outage.note_watch_end(read.is_ok().then(|| reader.life()), Instant::now());
        // A server that did not answer while the watch was silent may have been restored meanwhile.
        if *is_unanswered || shared.health.has_been_silent_since(reader.last_byte_at) {
            history.outage.note_failed_attempt(ErrorClass::Unreachable);
        }
        history.note_watch_end(&intake.anchors, reader.last_byte_at);
        let since_opened = begun.elapsed();
        let since_asked = if reader.is_streamed_list { since_opened } else { reader.asked_at.elapsed() };
        let stats = WatchStats { has_moved: self.progress.has_moved, since_asked, since_opened };
        self.delays.note_watch(stats);
        match read {
            Err(error) => Failure::broken(error, stats),
            Ok(()) if self.intake.resume.is_versioned() => {
                Failure { error: SourceError::ShortWatch { lived: since_asked }, input: Input::Ended(stats) }
            }
            Ok(()) => Failure { error: SourceError::Ended, input: Input::Ended(stats) },
        }
    }

    async fn read(&mut self) -> Result<(), SourceError> {
        loop {
            let begun = Instant::now();
            let has_more = self.pass_on_events();
            self.intake.decoder.end_group(begun);
            self.show_events();
            if has_more? {
                self.unapplied = 0;
                yield_now().await;
                continue;
            }
            consume_budget().await;
            self.wait_for_destination().await;
            let mut step = SilenceStep::Nothing;
            match self.wake().await? {
                Wake::Ended => return Ok(()),
                Wake::Received => self.note_byte(),
                Wake::Answer(answer) => step = self.note_answer(answer)?,
                Wake::HistoryChanged => {
                    self.relist_at = Some(Instant::now() + self.delays.delays.between(Duration::ZERO, RELIST_SPREAD));
                }
                Wake::Finding(finding) => self.accept_finding(finding)?,
                Wake::Time => step = self.examine_silence(),
            }
            self.perform(step)?;
            self.check_deadlines()?;
        }
    }

    /// Passes on the events that have been read, up to a limit; returns whether there may be more.
    ///
    /// # Errors
    ///
    /// If an event cannot be read, or everything must be listed because of an unclear event.
    fn pass_on_events(&mut self) -> Result<bool, SourceError> {
        let received_at = self.reader.last_byte_at;
        let mut has_more = false;
        while let Some(event) = self.reader.next(&mut self.intake.decoder)? {
            if let DecodedEvent::Bookmark { .. } = event {
                self.context.watchdog.note_bookmark(received_at);
            }
            self.intake.pass_on(event, &mut self.progress, received_at)?;
            self.unapplied += 1;
            if self.unapplied >= EVENTS_BEFORE_YIELD {
                has_more = true;
                break;
            }
        }
        let unclear_events = &mut self.intake.unclear_events;
        match unclear_events.due_at().and_then(|_| unclear_events.take_due(Instant::now())) {
            Some(event) => Err(event),
            None => Ok(has_more),
        }
    }

    /// Shows the events since the last call in the status.
    fn show_events(&mut self) {
        let count = std::mem::take(&mut self.progress.events);
        if count > 0 {
            let version = self.intake.resume.watch_version();
            self.shared.reporter.note_events(count, version, self.reader.last_byte_at);
        }
    }

    /// Waits until the destination accepts more changes.
    async fn wait_for_destination(&mut self) {
        let full_since = Instant::now();
        self.intake.destination.room().await;
        // The time in which the reflector did not read does not count as silence.
        self.reader.last_byte_at += full_since.elapsed();
    }

    /// Waits until there is something to do.
    async fn wake(&mut self) -> Result<Wake, SourceError> {
        let client_last_byte = self.shared.health.last_byte();
        let deadlines = [
            self.context.resync_at,
            self.silence.wakes_at(Instant::now(), client_last_byte),
            self.relist_at,
            self.intake.unclear_events.due_at(),
        ];
        let wakes_at =
            deadlines.into_iter().flatten().fold(self.reader.last_byte_at + self.idle_timeout(), Instant::min);
        let Self { reader, question, context: watches, relist_at, history_change, timer, .. } = self;
        // A timer that elapses too early does no harm. It is not set again for each event, which would take locks of the runtime.
        if timer.is_elapsed() || wakes_at < timer.deadline() {
            timer.as_mut().reset(wakes_at);
        }
        poll_fn(|context| {
            if let Poll::Ready(read) = reader.poll_wait(context) {
                return Poll::Ready(read.map(|is_open| if is_open { Wake::Received } else { Wake::Ended }));
            }
            if let Some(question) = question
                && let Poll::Ready(answer) = question.as_mut().poll(context)
            {
                return Poll::Ready(Ok(Wake::Answer(answer)));
            }
            if let Some(findings) = &mut watches.findings
                && let Poll::Ready(Some(finding)) = findings.poll_recv(context)
            {
                return Poll::Ready(Ok(Wake::Finding(finding)));
            }
            if relist_at.is_none() && history_change.as_mut().poll(context).is_ready() {
                return Poll::Ready(Ok(Wake::HistoryChanged));
            }
            timer.as_mut().poll(context).map(|()| Ok(Wake::Time))
        })
        .await
    }

    /// Returns how long the watch may be silent.
    fn idle_timeout(&self) -> Duration {
        self.context.watchdog.idle_timeout(self.reader.timeout)
    }

    fn note_byte(&mut self) {
        self.silence.reset(self.reader.last_byte_at);
        self.shared.health.note_byte(self.reader.last_byte_at);
        (self.question, self.is_unanswered) = (None, false);
    }

    /// Compares the source's answer with the version that the watch has reached.
    ///
    /// # Errors
    ///
    /// If the answer shows that the history changed.
    fn note_answer(&mut self, answer: Answer) -> Result<SilenceStep, SourceError> {
        self.question = None;
        let answer = match answer {
            Ok(Some(newest)) => match self.intake.resume.note_newest_version(&newest) {
                Ordering::Less => return Err(self.history.note_history_change(self.intake)),
                Ordering::Equal | Ordering::Greater if newest == self.intake.resume.reached() => VersionAnswer::Same,
                Ordering::Equal | Ordering::Greater => VersionAnswer::Newer,
            },
            Err(error) if error.class().is_outage() => {
                self.is_unanswered = true;
                VersionAnswer::Nothing
            }
            Err(_) => VersionAnswer::Refused,
            Ok(None) => VersionAnswer::Unsupported,
        };
        Ok(self.silence.answer(Instant::now(), answer))
    }

    /// Ends the watch because of a finding of an audit, unless the reflector has found the same history change meanwhile, and listed the new history.
    fn accept_finding(&mut self, finding: SourceError) -> Result<(), SourceError> {
        if let SourceError::HistoryChanged { reached } = &finding {
            return match covers(&self.intake.resume.reached(), reached) {
                true => Err(self.history.note_history_change(self.intake)),
                false => Ok(()),
            };
        }
        self.intake.resume.distrust_cache();
        Err(finding)
    }

    fn examine_silence(&mut self) -> SilenceStep {
        let (now, health) = (Instant::now(), &self.shared.health);
        self.silence.wake(now, health.last_byte(), health.is_silent(), || health.begin_question(now))
    }

    fn perform(&mut self, step: SilenceStep) -> Result<(), SourceError> {
        let (reporter, last_byte_at) = (&self.shared.reporter, self.reader.last_byte_at);
        match step {
            SilenceStep::Nothing => {}
            SilenceStep::Ask => {
                let shared = self.shared.clone();
                self.question = Some(Box::pin(async move { ask_server(&shared, VERSION_WITHIN).await }));
            }
            SilenceStep::Confirm(at) => reporter.note_confirmation(at),
            SilenceStep::ReportStale => reporter.note_no_answer(last_byte_at),
            SilenceStep::Reopen => return Err(SourceError::Silent { after: last_byte_at.elapsed() }),
        }
        Ok(())
    }

    /// Does what is due by now.
    ///
    /// # Errors
    ///
    /// If everything must be listed, or the watch was silent for too long.
    fn check_deadlines(&mut self) -> Result<(), SourceError> {
        let now = Instant::now();
        if self.relist_at.is_some_and(|at| at <= now) {
            self.history.check_other_reflectors(self.intake)?;
            self.relist_at = None;
            self.history_change = Box::pin(self.history.next_change());
        }
        if self.context.resync_at.is_some_and(|at| at <= now) {
            self.intake.destination.push(Change::Resync);
            self.context.restart_resyncs(now);
        }
        let after = self.idle_timeout();
        if self.reader.last_byte_at + after <= now {
            return Err(SourceError::Silent { after });
        }
        Ok(())
    }
}
