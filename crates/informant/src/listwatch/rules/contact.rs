//! Tracks the contact with the server: whether there was an outage, and whether the server is starting.
//!
//! - **In:** when bytes arrived, and which requests failed.
//! - **Out:** whether the server's history must be checked; whether the server may be starting, which explains some errors.
//! - **Knows nothing of:** how the history is checked.

use std::time::Duration;

use tokio::time::Instant;

use super::error_class::ErrorClass;

/// The contact of one reflector with its server.
#[derive(Debug)]
pub(crate) struct Contact {
    /// When the last byte arrived.
    last: Instant,
    /// True if an attempt to reach the server has failed since the last byte arrived.
    has_failed: bool,
    /// Since when no request has reached the server.
    unreachable_since: Option<Instant>,
    /// When the server answered first after it could not be reached.
    first_answer: Option<Instant>,
    /// How many requests in a row did not reach the server although the server answered requests of other reflectors.
    lone_failures: u32,
}

/// A gap of this length counts as an outage, even if the first attempt to open another watch succeeds. A restore of a backup takes longer than a
/// reconnect.
const LONGEST_GAP: Duration = Duration::from_secs(10);

/// How long a server counts as starting after its first answer. It may refuse requests that it allows a moment later.
const STARTING: Duration = Duration::from_secs(30);

/// The number of attempts with short delays if the server answers other reflectors but not this one.
const QUICK_LONE_FAILURES: u32 = 5;

impl Contact {
    pub(crate) fn new(now: Instant) -> Self {
        Self { last: now, has_failed: false, unreachable_since: None, first_answer: None, lone_failures: 0 }
    }

    /// Ends the outage, because a list was accepted, a watch opened or the history checked.
    pub(crate) fn end_outage(&mut self, now: Instant) {
        (self.last, self.has_failed) = (now, false);
    }

    /// Notes that a watch ended, whose last byte arrived at this time.
    pub(crate) fn note_watch_end(&mut self, last_byte: Instant) {
        self.last = last_byte;
    }

    /// Notes a failed attempt.
    pub(crate) fn note_failed_attempt(&mut self, class: ErrorClass) {
        self.has_failed |=
            matches!(class, ErrorClass::Unreachable | ErrorClass::ConnectionLost | ErrorClass::ServerError);
    }

    /// Returns true if there was an outage since the last contact.
    pub(crate) fn was_lost(&self, now: Instant) -> bool {
        self.has_failed || now - self.last > LONGEST_GAP
    }

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

    /// Returns since when no request has reached the server.
    pub(crate) fn unreachable_since(&self) -> Option<Instant> {
        self.unreachable_since
    }

    /// Returns true if the next attempt is made soon. If the server answers other reflectors, the cause is not an outage, so only the first attempts
    /// are made soon.
    pub(crate) fn may_retry_soon(&mut self, answers_others: bool) -> bool {
        self.lone_failures = if answers_others { self.lone_failures + 1 } else { 0 };
        self.lone_failures < QUICK_LONE_FAILURES
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
    fn contact_was_lost_after_ten_seconds_or_a_failed_attempt_until_it_is_restored() {
        let begun = Instant::now();
        let mut contact = Contact::new(begun);
        assert!(!contact.was_lost(begun + 10 * SECOND) && contact.was_lost(begun + 11 * SECOND));
        contact.note_watch_end(begun + 5 * SECOND);
        assert!(!contact.was_lost(begun + 15 * SECOND));

        contact.note_failed_attempt(ErrorClass::Expired);
        assert!(!contact.was_lost(begun + 6 * SECOND), "the server answered");
        contact.note_failed_attempt(ErrorClass::ConnectionLost);
        assert!(contact.was_lost(begun + 6 * SECOND));

        contact.end_outage(begun + 7 * SECOND);
        assert!(!contact.was_lost(begun + 7 * SECOND));
    }

    #[test]
    fn a_server_counts_as_starting_until_thirty_seconds_after_its_first_answer() {
        let begun = Instant::now();
        let mut contact = Contact::new(begun);
        contact.note_answer(begun);
        assert!(!contact.is_server_starting(begun), "it could be reached all the time");

        contact.note_unreachable(begun);
        contact.note_unreachable(begun + 50 * SECOND);
        assert_eq!((contact.is_server_starting(begun + 99 * SECOND), contact.unreachable_since()), (true, Some(begun)));

        contact.note_answer(begun + 100 * SECOND);
        contact.note_answer(begun + 120 * SECOND);
        let is_starting = |seconds| contact.is_server_starting(begun + seconds * SECOND);
        assert_eq!((is_starting(129), is_starting(130)), (true, false));
    }

    #[test]
    fn only_the_first_four_attempts_are_made_soon_while_the_server_answers_only_other_reflectors() {
        let mut contact = Contact::new(Instant::now());
        let soon = [(); 6].map(|()| contact.may_retry_soon(true));
        assert_eq!(soon, [true, true, true, true, false, false]);
        assert!(contact.may_retry_soon(false), "the server does not answer the others either");

        contact.note_answer(Instant::now());
        assert!(contact.may_retry_soon(true) && contact.may_retry_soon(false));
    }
}
