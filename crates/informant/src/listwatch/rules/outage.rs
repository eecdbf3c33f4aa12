//! Tracks whether there was an outage, after which the server's history must be checked.
//!
//! - **In:** how watches ended, and which requests failed.
//! - **Out:** since when the server may have been restored from a backup.
//! - **Knows nothing of:** how the history is checked.

use std::time::Duration;

use tokio::time::Instant;

use super::error_class::ErrorClass;

/// The outages of one reflector since its server's history was last known to be the same.
#[derive(Debug)]
pub(crate) struct Outage {
    /// When the last watch, list or check ended.
    last: Instant,
    /// When the last watch broke, if the server's history was not checked since.
    broken_at: Option<Instant>,
    /// True if an attempt to reach the server has failed since the history was last known to be the same.
    has_failed: bool,
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

impl Outage {
    pub(crate) fn new(now: Instant) -> Self {
        Self { last: now, broken_at: None, has_failed: false }
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
        self.has_failed |= class.is_outage();
    }

    /// Returns since when the server may have been restored, if a watch was opened now; `None` if it cannot have been. That needs no check only if the
    /// watch before ended on time, or a list ended, and this one followed within two seconds.
    pub(crate) fn restorable_since(&self, now: Instant) -> Option<Instant> {
        let is_lost = self.has_failed || now - self.last > SHORTEST_RESTORE;
        self.broken_at.or_else(|| is_lost.then_some(self.last))
    }

    /// As [`restorable_since`](Self::restorable_since), but never `None` if the history is suspicious.
    pub(crate) fn needs_check_since(&self, now: Instant, is_suspicious: bool) -> Option<Instant> {
        self.restorable_since(now).or_else(|| is_suspicious.then_some(self.last))
    }

    /// Returns true if a history that cannot be proven must be listed again: a request has failed since the history was last known to be the same.
    /// A server that was restored without that is rare, but proxies that cut connections are not. While the history is suspicious, a broken watch
    /// is enough.
    pub(crate) fn needs_proof(&self, is_suspicious: bool) -> bool {
        self.has_failed || (is_suspicious && self.broken_at.is_some())
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
            let mut outage = Outage::new(begun);
            outage.note_watch_end(life, at(300));
            assert_eq!(outage.restorable_since(at(opened)), lost_at.map(at), "{life:?} {opened}");
        }
    }

    #[test]
    fn a_broken_watch_or_a_failed_attempt_needs_a_check_until_a_list_or_check_ends() {
        let begun = Instant::now();
        let at = |seconds: u32| begun + seconds * SECOND;
        let mut outage = Outage::new(begun);
        assert_eq!(outage.restorable_since(at(1)), None);
        outage.note_failed_attempt(ErrorClass::Expired);
        assert_eq!(outage.restorable_since(at(1)), None, "the server answered");
        outage.note_failed_attempt(ErrorClass::ConnectionLost);
        assert_eq!(outage.restorable_since(at(1)), Some(begun));

        outage.end_outage(at(2));
        assert_eq!((outage.restorable_since(at(3)), outage.needs_check_since(at(3), true)), (None, Some(at(2))));
        outage.note_watch_end(None, at(3));
        outage.note_watch_end(None, at(5));
        assert_eq!(outage.restorable_since(at(5)), Some(at(3)), "the first break counts");
    }
}
