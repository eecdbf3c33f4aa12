//! Decides when a handler is reported because its events wait too long.
//!
//! - **In:** from time to time, how many events were pushed for the handler, and how many of them it has claimed.
//! - **Out:** how long the oldest waiting event has waited, when that is to be reported.
//! - **Knows nothing of:** events.

use std::time::Duration;

use tokio::time::Instant;

/// Measures how long events wait for one handler or stream, without a time for each event: it remembers one position, and checks later
/// whether the events before it were claimed.
#[derive(Default)]
pub(super) struct Lateness {
    /// A number of pushed events, and the time at which it was noted: the events before that position are at least as old.
    mark: Option<(u64, Instant)>,
    reported: Option<Instant>,
}

/// An event that waits longer than this is reported.
const LATE: Duration = Duration::from_secs(10);
const REPORT_AGAIN: Duration = Duration::from_secs(60);

impl Lateness {
    /// Returns how long the oldest waiting event has waited, at least, if that is to be reported. `first_unclaimed` and `pushed` are positions,
    /// as in the buffer.
    pub(super) fn check(&mut self, first_unclaimed: u64, pushed: u64, now: Instant) -> Option<Duration> {
        let Some((_, since)) = self.mark.filter(|(position, _)| first_unclaimed < *position) else {
            self.mark = Some((pushed, now));
            return None;
        };
        let waited = now - since;
        let may_report = self.reported.is_none_or(|reported| now - reported >= REPORT_AGAIN);
        (waited > LATE && may_report).then(|| {
            self.reported = Some(now);
            waited
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Checks once a second. Ten events are pushed in each second, and claimed `behind` seconds later. Returns the seconds of the reports.
    fn reports(behind: u64, seconds: u64) -> Vec<u64> {
        let (mut lateness, start) = (Lateness::default(), Instant::now());
        let mut is_reported = |second: u64| {
            let claimed = 10 * second.saturating_sub(behind);
            lateness.check(claimed, 10 * second, start + SECOND * u32::try_from(second).unwrap()).is_some()
        };
        (1..=seconds).filter(|second| is_reported(*second)).collect()
    }

    #[test]
    fn a_handler_is_reported_once_a_minute_while_its_oldest_event_is_older_than_ten_seconds() {
        assert_eq!(reports(100, 150), [12, 72, 132]);
        assert_eq!(reports(12, 40), [12]);
        assert!(reports(9, 1000).is_empty());
    }

    #[test]
    fn a_handler_without_waiting_events_is_not_late() {
        let (mut lateness, start) = (Lateness::default(), Instant::now());
        assert!((0..1000).all(|second| lateness.check(7, 7, start + SECOND * second).is_none()));
    }
}
