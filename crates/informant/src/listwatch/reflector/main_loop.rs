//! The main loop of a reflector: performs each state, and passes the result to the state machine.
//!
//! - **In:** the state, and how its request ended.
//! - **Out:** the next state; failures, to the parts that keep account of them.
//! - **Knows nothing of:** which state follows, and how a part does its work.
//!
//! Only this file, the [settings](super::settings), the check of the [history](super::history) and an open [watch](super::watch) see more than two parts of a reflector.

use std::{convert::Infallible, sync::Arc, time::Duration};

use tokio::{sync::OwnedSemaphorePermit, task::coop::consume_budget, time::Instant};
use tracing::{debug, info};

use super::{
    Reflector,
    reader::EventReader,
    received::{ReceivedList, ReceivedStream},
    status::Activity,
    stream::read_streamed_list,
    watch::OpenWatch,
};
use crate::{
    ResourceVersion,
    listwatch::{
        ListRequest, ListWatchError, Operation, Served, SourceError,
        rules::{
            error_class::{ErrorClass, RetryRule},
            state::{FailureAction, Input, ReflectorState, Request, WatchStats},
        },
    },
};

/// A list is requested after this time although the server answers no probe.
const LONGEST_PROBING: Duration = Duration::from_secs(60);

/// The failure of a state's request.
pub(super) struct Failure {
    pub(super) error: SourceError,
    /// How it ended.
    pub(super) input: Input,
}

impl Failure {
    /// Creates the failure of a response.
    pub(super) fn broken(error: SourceError, stats: WatchStats) -> Self {
        Self { input: Input::Failed(error.class(), Some(stats)), error }
    }
}

/// The failure of a request without a response.
impl From<SourceError> for Failure {
    fn from(error: SourceError) -> Self {
        Self { input: Input::Failed(error.class(), None), error }
    }
}

impl Reflector {
    /// Performs each state, and moves the state machine.
    pub(super) async fn run_states(mut self) -> Infallible {
        // The watch that was opened for the next state.
        let mut opened = None;
        let mut last_failure = None;
        loop {
            let done = match self.machine.state() {
                ReflectorState::CheckingKind => Ok(self.check_kind().await),
                ReflectorState::CheckingHistory => Ok(self.check_history().await),
                ReflectorState::StreamedList => self.stream_list(&mut opened).await,
                ReflectorState::List => self.list().await,
                ReflectorState::OpeningWatch => self.open_watch(&mut opened).await,
                ReflectorState::CheckingWatch => self.check_opened_watch(&mut opened).await,
                ReflectorState::Watch => match opened.take() {
                    Some(reader) => Err(OpenWatch::new(reader, &mut self).run().await),
                    None => Ok(Input::Earlier),
                },
                ReflectorState::Backoff { before } => Ok(self.wait(last_failure.take(), before).await),
                ReflectorState::KindGone => Ok(self.wait(last_failure.take(), Request::List).await),
            };
            last_failure = self.enter_next_state(done);
            // If each request ends at once, this loop must not keep other tasks from running.
            consume_budget().await;
        }
    }

    /// Asks the source whether it serves the kind.
    async fn check_kind(&mut self) -> Input {
        self.shared.reporter.set(Activity::Listing { objects: 0 });
        match self.requests.is_served().await {
            Served::No => Input::NotSupported,
            Served::Yes | Served::Unknown => Input::Done,
        }
    }

    /// Checks the history before a list.
    async fn check_history(&mut self) -> Input {
        let checked = self.history.check(&mut self.intake, &mut self.requests, &mut self.retry).await;
        // The next list takes a history change into account. Any other result does not matter for a list.
        if let Err(error) = checked
            && error.class() == ErrorClass::HistoryChanged
        {
            self.note_failure(Operation::CheckHistory, error);
        }
        Input::Done
    }

    /// Receives a streamed list. The watch that continues it stays open.
    async fn stream_list(&mut self, opened: &mut Option<EventReader>) -> Result<Input, Failure> {
        let may_try = self.streaming.as_ref().is_some_and(|support| support.may_try(Instant::now()));
        if !may_try || !self.shared.source.can_stream_lists() {
            return Ok(Input::NotSupported);
        }
        let asked = self.intake.resume.streamed_list_version();
        let permit = self.begin_list(Activity::Streaming { objects: 0 }).await;
        let asked_at = Instant::now();
        let mut reader = self.requests.watch(asked.clone(), true).await?;
        self.retry.note_begun_list();
        let mut received = ReceivedStream::default();
        let (decoder, reporter) = (&mut self.intake.decoder, &*self.shared.reporter);
        let version = read_streamed_list(&mut reader, decoder, &mut received, reporter).await;
        drop(permit);
        let since_asked = asked_at.elapsed();
        let stats = WatchStats { has_moved: received.has_events, since_asked, since_opened: since_asked };
        let broken = |error| Failure::broken(error, stats);
        let Some(version) = version.map_err(broken)? else {
            return Err(Failure { error: SourceError::EndedEarly, input: Input::Ended(stats) });
        };
        self.accept(&asked, received.into_list(version)).map_err(broken)?;
        *opened = Some(reader);
        Ok(Input::Done)
    }

    /// Receives a list.
    async fn list(&mut self) -> Result<Input, Failure> {
        let request = self.intake.resume.list_request();
        let permit = self.begin_list(Activity::Listing { objects: 0 }).await;
        let mut list = ReceivedList::default();
        let read = match self.requests.read_list(&request, &mut self.intake.decoder, &mut list, &mut self.retry).await {
            Err(error) if list.pages > 0 && error.class() == ErrorClass::Expired && self.machine.page_expired() => {
                // The server no longer has the other pages, but may have the list without pages.
                self.note_failure(Operation::List, error);
                list = ReceivedList::default();
                let unpaged = ListRequest { limit: None, ..request.clone() };
                self.requests.read_list(&unpaged, &mut self.intake.decoder, &mut list, &mut self.retry).await
            }
            read => read,
        };
        drop(permit);
        read?;
        self.accept(&request.version, list)?;
        Ok(Input::Done)
    }

    /// Waits for the permit to list, if one is needed.
    async fn begin_list(&mut self, activity: Activity) -> Option<OwnedSemaphorePermit> {
        self.shared.reporter.set(activity);
        self.intake.decoder.begin(self.intake.resume.may_reuse());
        self.shared.health.list_permit(self.retry.is_server_starting()).await
    }

    /// Passes on a complete list, which ends an outage.
    fn accept(&mut self, asked: &ResourceVersion, list: ReceivedList) -> Result<(), SourceError> {
        self.intake.accept(asked, list, &mut self.history)?;
        let now = self.retry.note_list();
        self.history.outage.end_outage(now);
        self.watches.restart_resyncs(now);
        self.shared.reporter.note_list(self.intake.resume.watch_version(), now);
        Ok(())
    }

    async fn open_watch(&mut self, opened: &mut Option<EventReader>) -> Result<Input, Failure> {
        let version = self.intake.resume.watch_version();
        let reporter = &self.shared.reporter;
        reporter.set(Activity::Opening);
        debug!(rv = %version, "opening a watch");
        *opened = Some(self.requests.watch(version, false).await?);
        self.retry.note_watch();
        Ok(Input::Done)
    }

    /// Checks the history before the events of an open watch are read. Drops the watch if it must begin earlier, or if the check fails.
    async fn check_opened_watch(&mut self, opened: &mut Option<EventReader>) -> Result<Input, Failure> {
        let version = self.intake.resume.watch_version();
        let reader = opened.take();
        let is_unchecked = self.history.check(&mut self.intake, &mut self.requests, &mut self.retry).await?;
        self.shared.reporter.update_silently(|status| status.unchecked_outages += u64::from(is_unchecked));
        self.retry.note_checked_watch();
        if self.intake.resume.watch_version() != version {
            return Ok(Input::Earlier);
        }
        *opened = reader;
        Ok(Input::Done)
    }

    /// Waits before the next attempt. If a list was refused, and the requests of other reflectors may be refused as well, the server must first answer a
    /// probe, for up to a minute: lists are expensive.
    async fn wait(&mut self, mut failure: Option<Arc<ListWatchError>>, next: Request) -> Input {
        let begun = Instant::now();
        while let Some(because) = failure.take() {
            self.retry.wait(&because).await;
            let is_list = next != Request::Watch && because.operation != Operation::CheckHistory;
            let is_shared = matches!(because.retry_rule(), RetryRule::OfClient | RetryRule::OfStorage);
            if is_list
                && is_shared
                && begun.elapsed() < LONGEST_PROBING
                && let Err(error) = self.retry.probe().await
            {
                failure = Some(self.note_failure(because.operation, error));
            }
        }
        Input::Done
    }

    /// Moves the state machine, and notes a failure as it decides. Returns the failure.
    fn enter_next_state(&mut self, done: Result<Input, Failure>) -> Option<Arc<ListWatchError>> {
        let operation = operation_of(self.machine.state());
        let (input, error) = match done {
            Ok(input) => (input, None),
            Err(failure) => (failure.input, Some(failure.error)),
        };
        match self.machine.next(input, &mut self.intake.resume, Instant::now()) {
            FailureAction::Nothing => return None,
            FailureAction::Publish => {}
            FailureAction::StopStreaming => {
                info!("the server does not support streamed lists of this kind; using ordinary lists");
                self.streaming.iter().for_each(|support| support.note_refusal(Instant::now()));
            }
            FailureAction::DeleteObjects => self.intake.delete_all(),
        }
        let error = error?;
        // A watch that opened and broke at once is a failed attempt.
        if operation == Operation::Watch && self.machine.state() == (ReflectorState::Backoff { before: Request::Watch })
        {
            self.history.outage.note_failed_attempt(error.class());
        }
        Some(self.note_failure(operation, error))
    }

    /// Notes a failed request.
    fn note_failure(&mut self, operation: Operation, source: SourceError) -> Arc<ListWatchError> {
        let class = source.class();
        // The next connection may be to another server.
        if let (ErrorClass::Unreachable | ErrorClass::ConnectionLost, Some(support)) = (class, &self.streaming) {
            support.forget_refusal();
        }
        let server_may_be_starting = self.retry.is_server_starting();
        let resource = Arc::clone(&self.shared.reporter.informer);
        let failure = Arc::new(ListWatchError { operation, resource, source, server_may_be_starting });
        if operation != Operation::Watch {
            self.history.outage.note_failed_attempt(class);
            self.retry.note_failure(&failure);
        }
        self.shared.reporter.note_failure(&failure);
        failure
    }
}

/// Returns the operation that fails in a state.
fn operation_of(state: ReflectorState) -> Operation {
    match state {
        ReflectorState::CheckingKind | ReflectorState::CheckingHistory | ReflectorState::CheckingWatch => {
            Operation::CheckHistory
        }
        ReflectorState::StreamedList => Operation::StreamList,
        ReflectorState::List | ReflectorState::Backoff { .. } | ReflectorState::KindGone => Operation::List,
        ReflectorState::OpeningWatch => Operation::OpenWatch,
        ReflectorState::Watch => Operation::Watch,
    }
}
