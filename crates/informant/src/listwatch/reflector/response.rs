//! Waits for the header of a response, and finds out whether the server answers other requests meanwhile.
//!
//! - **In:** a request that was sent.
//! - **Out:** its response, or an error after a time limit; the pending request, in the status.
//! - **Knows nothing of:** the request, and what follows.

use std::{pin::pin, time::Duration};

use futures_util::future::{Either, select};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::debug;

use super::{
    super::{Operation, SourceError, witness::ask_for_version},
    Reflector,
    status::PendingRequest,
};

/// How long a watch may take to begin. A busy server may let a request wait for 15 s.
pub(super) const WATCH_WITHIN: Duration = Duration::from_secs(20);

/// How long a list may take to begin. An API server gives up after a minute.
pub(super) const LIST_WITHIN: Duration = Duration::from_secs(65);

/// A request without a response for this long is shown in the status, and the server is asked for its version.
const SLOW: Duration = Duration::from_secs(10);

/// The time limit for the answer to that question.
const ANSWER_WITHIN: Duration = Duration::from_millis(2500);

/// How often the reflector looks whether the server answers others.
const TICK: Duration = Duration::from_secs(1);

impl Reflector {
    /// Waits until the response begins. The time limit is `within`; it doubles after each request in a row without a response, up to the idle timeout.
    ///
    /// After ten seconds, one reflector of the client asks the server for its version, on another connection if the client has more than one. If the
    /// server did not answer that at first and then does, the request is made again at once: it is lost, or a layer of the client retries it with a long delay.
    ///
    /// # Errors
    ///
    /// If there is no response in time, or the request fails.
    pub(super) async fn response<T, F>(
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
            let asked_at = Instant::now();
            let limit = within.saturating_mul(1 << self.unanswered_requests.min(10)).min(self.settings.idle_timeout);
            let mut response = pin!(request());
            if let Ok(response) = timeout(SLOW.min(limit), &mut response).await {
                self.unanswered_requests = 0;
                return response;
            }
            let pending = PendingRequest { operation, since: asked_at, server_answers: None };
            self.status.update(|status| status.pending = Some(pending));
            let response = {
                let (is_late, answers_again) =
                    (pin!(sleep_until(asked_at + limit)), pin!(self.answers_again(asked_at, may_repeat)));
                match select(response, select(is_late, answers_again)).await {
                    Either::Left((response, _)) => Some(response),
                    Either::Right(_) => None,
                }
            };
            self.status.update(|status| status.pending = None);
            match response {
                Some(response) => {
                    self.unanswered_requests = 0;
                    return response;
                }
                None if asked_at.elapsed() >= limit => {
                    self.unanswered_requests += 1;
                    return Err(SourceError::Silent { after: limit });
                }
                None => {
                    may_repeat = false;
                    debug!(informer = %self.resource, "the server answers again; repeating the request");
                }
            }
        }
    }

    /// Waits until the server answers a question after it did not answer one. Shows in the status whether it has answered one since `asked_at`.
    async fn answers_again(&self, asked_at: Instant, may_repeat: bool) {
        let (source, health) = (&self.settings.source, &self.settings.health);
        let mut was_silent = false;
        loop {
            if health.may_ask(Instant::now()) {
                let answer = timeout(ANSWER_WITHIN, ask_for_version(&**source)).await;
                let is_answered = match answer {
                    // The source does not support the question.
                    Ok(Ok(None)) => return std::future::pending().await,
                    Ok(Ok(Some(_))) => true,
                    Ok(Err(error)) => error.code().is_some(),
                    Err(_) => false,
                };
                health.note_question(is_answered, Instant::now());
            }
            let (is_silent, has_answered) = (health.is_silent(), health.last_byte() > asked_at);
            if may_repeat && has_answered && was_silent && !is_silent {
                return;
            }
            was_silent |= is_silent;
            let server_answers = (is_silent || has_answered).then_some(!is_silent);
            self.status.update(|status| {
                status.pending.iter_mut().for_each(|pending| pending.server_answers = server_answers);
            });
            sleep(TICK).await;
        }
    }
}
