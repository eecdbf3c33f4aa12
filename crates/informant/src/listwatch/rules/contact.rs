//! Tracks the contact with the server: whether it can be reached, and whether it is starting.
//!
//! - **In:** which requests the server answered, of this reflector and of others.
//! - **Out:** whether the next attempt is made soon; whether the server may be starting, which explains some errors.
//! - **Knows nothing of:** what was requested.

use std::time::Duration;

use tokio::time::Instant;

/// The contact of one reflector with its server.
#[derive(Debug, Default)]
pub(crate) struct Contact {
    /// Since when no request has reached the server.
    pub(crate) unreachable_since: Option<Instant>,
    /// When the server answered first after it could not be reached.
    pub(crate) first_answer: Option<Instant>,
    /// How many requests in a row did not reach the server although the server answered requests of other reflectors.
    lone_failures: u32,
}

/// How long a server counts as starting after its first answer. It may refuse requests that it allows a moment later.
pub(crate) const STARTING: Duration = Duration::from_secs(30);

/// The number of attempts with short delays if the server answers other reflectors but not this one.
const QUICK_LONE_FAILURES: u32 = 4;

impl Contact {
    /// Notes that the server answered a request, successfully or not.
    pub(crate) fn note_answer(&mut self, now: Instant) {
        if self.unreachable_since.take().is_some() {
            self.first_answer = Some(now);
        }
        self.lone_failures = 0;
    }

    /// Notes that a request did not reach the server.
    pub(crate) fn note_unreachable(&mut self, now: Instant) {
        self.unreachable_since.get_or_insert(now);
    }

    /// Returns true if the next attempt is made soon. If the server answers other reflectors, the cause is not an outage, so only the first attempts
    /// are made soon.
    pub(crate) fn may_retry_soon(&mut self, answers_others: bool) -> bool {
        self.lone_failures = if answers_others { self.lone_failures + 1 } else { 0 };
        self.lone_failures <= QUICK_LONE_FAILURES
    }

    /// Returns true while the server cannot be reached, and for 30 s after its first answer.
    pub(crate) fn is_server_starting(&self, now: Instant) -> bool {
        self.unreachable_since.is_some() || self.first_answer.is_some_and(|first| now - first < STARTING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_server_counts_as_starting_until_thirty_seconds_after_its_first_answer() {
        let begun = Instant::now();
        let mut contact = Contact::default();
        contact.note_answer(begun);
        assert!(!contact.is_server_starting(begun), "it could be reached all the time");

        contact.note_unreachable(begun);
        contact.note_unreachable(begun + 50 * SECOND);
        assert_eq!((contact.is_server_starting(begun + 99 * SECOND), contact.unreachable_since), (true, Some(begun)));

        contact.note_answer(begun + 100 * SECOND);
        contact.note_answer(begun + 120 * SECOND);
        let is_starting = |seconds| contact.is_server_starting(begun + seconds * SECOND);
        assert_eq!((is_starting(129), is_starting(130)), (true, false));
    }

    #[test]
    fn only_the_first_four_attempts_are_made_soon_while_the_server_answers_only_other_reflectors() {
        let mut contact = Contact::default();
        let soon = [(); 6].map(|()| contact.may_retry_soon(true));
        assert_eq!(soon, [true, true, true, true, false, false]);
        assert!(contact.may_retry_soon(false), "the server does not answer the others either");

        contact.note_answer(Instant::now());
        assert!(contact.may_retry_soon(true) && contact.may_retry_soon(false));
    }
}
