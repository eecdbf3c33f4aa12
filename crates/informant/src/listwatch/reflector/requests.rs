//! Makes requests: waits for the header of a response, and finds out whether the server answers other requests meanwhile.
//!
//! - **In:** a request.
//! - **Out:** its response, or an error after a time limit; the pending request, in the status.
//! - **Knows nothing of:** what is in a response, and what follows.

use std::{pin::pin, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::debug;

use super::{Shared, reader::EventReader, status::PendingRequest};
use crate::{
    ResourceVersion,
    listwatch::{
        ListRequest, ListStream, Operation, Served, SourceError, WatchRequest,
        any_source::DynSource,
        source::IDLE_TIMEOUT,
        witness::{HistoryAnswer, Verdict, Witness, ask_for_version},
    },
    object::Erased,
};

/// Makes the requests of one reflector.
pub(super) struct Requests {
    pub(super) shared: Shared,
    /// The largest accepted object, in bytes of JSON.
    pub(super) size_limit: usize,
    /// The operation that last got no response, and how many of its requests in a row got none. Requests of other operations may be answered
    /// meanwhile.
    unanswered: Option<(Operation, u32)>,
}

/// The shortest timeout that a watch is requested with, in seconds; the longest one is twice as long.
const SHORTEST_WATCH: u64 = 300;

/// How long a watch may take to begin. A busy server may let a request wait for 15 s.
const WATCH_WITHIN: Duration = Duration::from_secs(20);

/// How long the answer whether the kind is served may take.
const SERVED_WITHIN: Duration = Duration::from_secs(20);

/// How long a list may take to begin. An API server gives up after a minute.
const LIST_WITHIN: Duration = Duration::from_secs(65);

/// How long the lookups about one event may take. The events of the watch are held meanwhile.
const CHECKED_WITHIN: Duration = Duration::from_secs(30);

/// A request without a response for this long is shown in the status, and the server is asked for its version.
const SLOW: Duration = Duration::from_secs(10);

/// The time limit for the answer to that question.
const ANSWER_WITHIN: Duration = Duration::from_millis(2500);

/// How often the reflector looks whether the server answers others.
const TICK: Duration = Duration::from_secs(1);

impl Requests {
    pub(super) fn new(shared: Shared, size_limit: usize) -> Self {
        Self { shared, size_limit, unanswered: None }
    }

    /// Asks the source whether it serves the kind. A list follows in any case, so the answer is not worth a long wait.
    pub(super) async fn is_served(&self) -> Served {
        timeout(SERVED_WITHIN, self.shared.source.is_served()).await.unwrap_or(Served::Unknown)
    }

    /// Requests a page of a list.
    pub(super) async fn list(&mut self, request: &ListRequest) -> Result<ListStream<Erased>, SourceError> {
        let source = Arc::clone(&self.shared.source);
        self.response(Operation::List, LIST_WITHIN, || source.list(request.clone())).await
    }

    /// Requests a watch, or a streamed list. Its timeout is random, so that not all watches of a server end at the same time.
    pub(super) async fn watch(
        &mut self,
        version: ResourceVersion,
        sends_initial_events: bool,
    ) -> Result<EventReader, SourceError> {
        let timeout = Duration::from_secs(fastrand::u64(SHORTEST_WATCH..2 * SHORTEST_WATCH));
        let request = WatchRequest { version, sends_initial_events, timeout };
        let asked_at = Instant::now();
        let source = Arc::clone(&self.shared.source);
        let operation = if sends_initial_events { Operation::StreamList } else { Operation::OpenWatch };
        let stream = self.response(operation, WATCH_WITHIN, || source.watch(request.clone())).await?;
        Ok(EventReader::new(stream, &request, asked_at, self.size_limit))
    }

    /// Asks the source about the events of a witness or, without one, for its version; `None` if the source does not support lookups.
    pub(super) async fn check_history(
        &mut self,
        witness: Option<&Arc<Witness>>,
    ) -> Result<Option<HistoryAnswer>, SourceError> {
        let source = Arc::clone(&self.shared.source);
        let question = || async {
            match witness {
                Some(witness) => witness.ask().await,
                None => {
                    let newest = ask_for_version(&*source).await?;
                    Ok(newest.map(|newest| HistoryAnswer { newest, verdict: Verdict::Unproven }))
                }
            }
        };
        self.response(Operation::CheckHistory, CHECKED_WITHIN, question).await
    }

    /// Waits until the response begins. The time limit is `within`; it doubles after each request in a row without a response, up to two minutes.
    ///
    /// After ten seconds, one reflector of the client asks the server for its version, on another connection if the client has more than one. If the
    /// server did not answer that at first and then does, the request is made again at once: it is lost, or a layer of the client retries it with a long delay.
    ///
    /// # Errors
    ///
    /// If there is no response in time, or the request fails.
    async fn response<T, F>(
        &mut self,
        operation: Operation,
        within: Duration,
        request: impl Fn() -> F,
    ) -> Result<T, SourceError>
    where
        F: Future<Output = Result<T, SourceError>>,
    {
        let mut may_repeat = true;
        loop {
            let (asked_at, was_silent) = (Instant::now(), self.shared.health.is_silent());
            let unanswered = self.unanswered.filter(|(last, _)| *last == operation).map_or(0, |(_, count)| count);
            let limit = within.saturating_mul(1 << unanswered.min(10)).min(IDLE_TIMEOUT);
            let mut response = pin!(request());
            if let Ok(response) = timeout(SLOW.min(limit), &mut response).await {
                self.unanswered.take_if(|(last, _)| *last == operation);
                return response;
            }
            let pending = PendingRequest { operation, since: asked_at, server_answers: None };
            self.shared.reporter.update(|status| status.pending = Some(pending));
            let response = {
                let (is_late, answers_again) =
                    (pin!(sleep_until(asked_at + limit)), pin!(self.answers_again(asked_at, was_silent, may_repeat)));
                match select(response, select(is_late, answers_again)).await {
                    Either::Left((response, _)) => Some(response),
                    Either::Right(_) => None,
                }
            };
            self.shared.reporter.update(|status| status.pending = None);
            match response {
                Some(response) => {
                    self.unanswered.take_if(|(last, _)| *last == operation);
                    return response;
                }
                None if asked_at.elapsed() >= limit => {
                    self.unanswered = Some((operation, unanswered + 1));
                    return Err(SourceError::Silent { after: limit });
                }
                None => {
                    may_repeat = false;
                    debug!("the server answers again; repeating the request");
                }
            }
        }
    }

    /// Waits until the server answers a question after it did not answer one; `was_silent` if it had not answered one at `asked_at`. Shows in the status
    /// whether it has answered one since then.
    async fn answers_again(&self, asked_at: Instant, was_silent: bool, may_repeat: bool) {
        let Shared { health, reporter, .. } = &self.shared;
        let mut was_silent = was_silent || health.has_been_silent_since(asked_at);
        loop {
            if health.begin_question(Instant::now())
                && let Ok(None) = ask_server(&self.shared, ANSWER_WITHIN).await
            {
                // The source does not support the question.
                return std::future::pending().await;
            }
            let (is_silent, has_answered) = (health.is_silent(), health.last_byte() > asked_at);
            if may_repeat && has_answered && was_silent && !is_silent {
                return;
            }
            was_silent |= is_silent;
            let server_answers = (is_silent || has_answered).then_some(!is_silent);
            reporter.update(|status| {
                status.pending.iter_mut().for_each(|pending| pending.server_answers = server_answers);
            });
            sleep(TICK).await;
        }
    }
}

/// Asks the source for its version, and notes for all reflectors of the client whether the server works. If the source does not answer within a fifth
/// of the time, or fails, another reflector's source is asked as well: perhaps only this kind hangs or fails. Returns the answer of this source.
pub(super) async fn ask_server(shared: &Shared, within: Duration) -> Result<Option<ResourceVersion>, SourceError> {
    let Shared { source, health, .. } = shared;
    let asked = pin!(ask_within(&**source, within));
    let asked_another = pin!(async {
        sleep(within / 5).await;
        match health.another_source(source) {
            Some(another) => {
                let is_working = shows_working_server(&ask_within(&*another, within * 4 / 5).await);
                if !is_working {
                    health.move_to_end(&another);
                }
                is_working
            }
            None => false,
        }
    });
    let (answer, is_working) = match select(asked, asked_another).await {
        Either::Left((Ok(None), _)) => return Ok(None),
        Either::Left((answer, _)) if shows_working_server(&answer) => (answer, true),
        Either::Left((answer, asked_another)) => (answer, asked_another.await),
        Either::Right((is_working, asked)) => {
            let answer = asked.await;
            let is_working = is_working || shows_working_server(&answer);
            (answer, is_working)
        }
    };
    health.note_question(is_working, Instant::now());
    answer
}

async fn ask_within(source: &dyn DynSource, within: Duration) -> Result<Option<ResourceVersion>, SourceError> {
    timeout(within, ask_for_version(source)).await.unwrap_or(Err(SourceError::Silent { after: within }))
}

/// Returns true if the server answered, and not with a failure of its own.
fn shows_working_server(answer: &Result<Option<ResourceVersion>, SourceError>) -> bool {
    match answer {
        Ok(version) => version.is_some(),
        Err(error) => !error.class().is_outage(),
    }
}
