//! Tracks the contact with the server: whether there was an outage, and whether the server is starting.
//!
//! - **In:** how watches ended, and which requests failed.
//! - **Out:** whether the server's history must be checked; whether the server may be starting, which explains some errors.
//! - **Knows nothing of:** how the history is checked.

use std::time::Duration;

use tokio::time::Instant;

use super::error_class::ErrorClass;

/// The contact of one reflector with its server.
#[derive(Debug)]
pub(crate) struct Contact {
    /// When the last watch, list or check ended.
    last: Instant,
    /// When the last watch broke, if the server's history was not checked since.
    broken_at: Option<Instant>,
    /// True if an attempt to reach the server has failed since the history was last known to be the same.
    has_failed: bool,
    /// Since when no request has reached the server.
    unreachable_since: Option<Instant>,
    /// When the server answered first after it could not be reached.
    first_answer: Option<Instant>,
    /// How many requests in a row did not reach the server although the server answered requests of other reflectors.
    lone_failures: u32,
}

/// How the lifetime of a watch that the server ended compares with the timeout that was requested.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WatchLife {
    /// The requested timeout.
    pub(crate) timeout: Duration,
    /// The lifetime by the monotonic clock, which stands still while the machine sleeps.
    pub(crate) monotonic: Duration,
    /// The lifetime by the wall clock.
    pub(crate) wall: Duration,
}

/// A restore of a backup takes longer than this.
pub(crate) const SHORTEST_RESTORE: Duration = Duration::from_secs(2);

/// A watch ended on time if it did so between this long before the end of its timeout …
const EARLY: Duration = Duration::from_secs(1);

/// … and this long after it.
const LATE: Duration = Duration::from_secs(5);

/// How long a server counts as starting after its first answer. It may refuse requests that it allows a moment later.
const STARTING: Duration = Duration::from_secs(30);

/// The number of attempts with short delays if the server answers other reflectors but not this one.
const QUICK_LONE_FAILURES: u32 = 5;

impl Contact {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            last: now,
            broken_at: None,
            has_failed: false,
            unreachable_since: None,
            first_answer: None,
            lone_failures: 0,
        }
    }

    /// Ends the outage, because a list was accepted or the history checked.
    pub(crate) fn end_outage(&mut self, now: Instant) {
        (self.last, self.broken_at, self.has_failed) = (now, None, false);
    }

    /// Notes that a watch ended: `life` is `None` if it broke.
    pub(crate) fn note_watch_end(&mut self, life: Option<WatchLife>, now: Instant) {
        self.last = now;
        if !life.is_some_and(|life| life.is_on_time()) {
            self.broken_at.get_or_insert(now);
        }
    }

    /// Notes a failed attempt.
    pub(crate) fn note_failed_attempt(&mut self, class: ErrorClass) {
        self.has_failed |=
            matches!(class, ErrorClass::Unreachable | ErrorClass::ConnectionLost | ErrorClass::ServerError);
    }

    /// Returns since when the server may have been restored, if a watch was opened now; `None` if it cannot have been. That needs no check only if the
    /// watch before ended on time, or a list ended, and this one followed within two seconds.
    pub(crate) fn lost_at(&self, now: Instant) -> Option<Instant> {
        let is_lost = self.has_failed || now - self.last > SHORTEST_RESTORE;
        self.broken_at.or_else(|| is_lost.then_some(self.last))
    }

    /// As [`lost_at`](Self::lost_at), but never `None` if the history is suspicious.
    pub(crate) fn check_since(&self, now: Instant, is_suspicious: bool) -> Option<Instant> {
        self.lost_at(now).or_else(|| is_suspicious.then_some(self.last))
    }

    /// Returns true if a request has failed since the history was last known to be the same. A server that was restored without that is rare, but proxies
    /// that cut connections are not: without a failed request, a history that cannot be proven is not listed again.
    pub(crate) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Returns true if a watch broke, and the server's history was not checked since.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken_at.is_some()
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

impl WatchLife {
    fn is_on_time(&self) -> bool {
        let latest = self.timeout + LATE;
        self.monotonic + EARLY >= self.timeout && self.monotonic <= latest && self.wall <= latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_history_is_checked_unless_a_watch_that_ended_on_time_was_opened_again_within_two_seconds() {
        let begun = Instant::now();
        let at = |seconds: u32| begun + seconds * SECOND;
        let life = |monotonic: u32, wall: u32| {
            Some(WatchLife { timeout: 300 * SECOND, monotonic: monotonic * SECOND, wall: wall * SECOND })
        };
        let table = [
            (life(300, 300), 302, None),
            (life(299, 0), 301, None),
            (life(305, 305), 302, None),
            (life(300, 300), 303, Some(300)),
            (life(298, 298), 300, Some(300)),
            (life(306, 306), 300, Some(300)),
            (life(300, 400), 300, Some(300)),
            (None, 300, Some(300)),
        ];
        for (life, opened, lost_at) in table {
            let mut contact = Contact::new(begun);
            contact.note_watch_end(life, at(300));
            assert_eq!(contact.lost_at(at(opened)), lost_at.map(at), "{life:?} {opened}");
        }
    }

    #[test]
    fn a_broken_watch_or_a_failed_attempt_needs_a_check_until_a_list_or_check_ends() {
        let begun = Instant::now();
        let at = |seconds: u32| begun + seconds * SECOND;
        let mut contact = Contact::new(begun);
        assert_eq!(contact.lost_at(at(1)), None);
        contact.note_failed_attempt(ErrorClass::Expired);
        assert_eq!(contact.lost_at(at(1)), None, "the server answered");
        contact.note_failed_attempt(ErrorClass::ConnectionLost);
        assert_eq!(contact.lost_at(at(1)), Some(begun));

        contact.end_outage(at(2));
        assert_eq!((contact.lost_at(at(3)), contact.check_since(at(3), true)), (None, Some(at(2))));
        contact.note_watch_end(None, at(3));
        contact.note_watch_end(None, at(5));
        assert_eq!(contact.lost_at(at(5)), Some(at(3)), "the first break counts");
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
