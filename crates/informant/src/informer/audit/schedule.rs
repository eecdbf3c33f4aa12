//! Decides when an informer is audited.
//!
//! - **In:** the period; history changes; how each audit ended.
//! - **Out:** the time of the next audit.
//! - **Knows nothing of:** what an audit does; the clock; chance, which the caller passes as a number between 0 and 1.

use std::time::Duration;

use tokio::time::Instant;

use crate::listwatch::SUSPICIOUS;

/// When an informer is audited.
#[derive(Debug)]
pub(super) struct Schedule {
    period: Option<Duration>,
    /// The next audit because of the period.
    periodic: Option<Instant>,
    /// The next audit because of a history change or a finding.
    extra: Option<Instant>,
    /// When the last audit began.
    begun: Instant,
    /// No audit begins before.
    earliest: Instant,
    /// The number of failed audits in a row.
    failures: u32,
}

/// The least time between two audits of an informer.
pub(crate) const SHORTEST_PERIOD: Duration = Duration::from_secs(300);

/// The longest period: practically never, and small enough that adding it to an `Instant` does not overflow.
pub(crate) const LONGEST_PERIOD: Duration = Duration::from_secs(366 * 24 * 3600);

/// Within this time, all informers of a client are audited, once the history is not suspicious any more.
const SPREAD: Duration = Duration::from_secs(60);

/// How long after an audit that found something another one follows.
const AFTER_FINDING: Duration = Duration::from_secs(600);

/// How long after an audit that failed another one follows, at most.
const LONGEST_RETRY: Duration = Duration::from_secs(3600);

impl Schedule {
    /// Creates the schedule of an informer that is started now.
    pub(super) fn new(period: Option<Duration>, now: Instant, chance: f64) -> Self {
        let mut schedule = Self { period, periodic: None, extra: None, begun: now, earliest: now, failures: 0 };
        schedule.periodic = schedule.after_period(now, chance);
        schedule
    }

    /// Returns the time of the next audit.
    pub(super) fn next(&self) -> Option<Instant> {
        let next = self.periodic.into_iter().chain(self.extra).min()?;
        Some(next.max(self.earliest))
    }

    /// Notes that the server's history changed. The extra audit follows the last one of several changes.
    pub(super) fn note_history_change(&mut self, now: Instant, chance: f64) {
        self.extra = Some(now + SUSPICIOUS + SPREAD.mul_f64(chance));
        // What made audits fail may be gone.
        self.failures = 0;
        self.earliest = self.earliest.min(now + SHORTEST_PERIOD);
    }

    /// Notes that an audit begins.
    pub(super) fn note_begin(&mut self, now: Instant) {
        (self.begun, self.earliest) = (now, now + SHORTEST_PERIOD);
    }

    /// Notes that an audit failed. It stays due. Returns how long after this the next one follows.
    pub(super) fn note_failure(&mut self, now: Instant) -> Duration {
        let delay = SHORTEST_PERIOD.saturating_mul(1 << self.failures.min(10)).min(LONGEST_RETRY);
        self.failures += 1;
        self.earliest = now + delay;
        delay
    }

    /// Notes the end of an audit.
    pub(super) fn note_end(&mut self, has_found: bool, now: Instant, chance: f64) {
        self.failures = 0;
        self.earliest = now + SHORTEST_PERIOD;
        self.periodic = self.after_period(now, chance);
        self.extra = match has_found {
            true => Some(now + AFTER_FINDING),
            // An audit that began before the extra one was due does not replace it.
            false => self.extra.filter(|extra| *extra > self.begun),
        };
    }

    /// Returns a time one period from now, 10 % earlier or later.
    fn after_period(&self, now: Instant, chance: f64) -> Option<Instant> {
        Some(now + self.period?.mul_f64(0.9 + 0.2 * chance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn audits_follow_each_other_after_the_period_with_a_tenth_more_or_less() {
        let now = Instant::now();
        for (chance, expected) in [(0.0, 3240), (0.5, 3600), (1.0, 3960)] {
            let schedule = Schedule::new(Some(HOUR), now, chance);
            assert_eq!(schedule.next().unwrap().duration_since(now).as_secs_f64().round() as u64, expected);
        }
        let mut schedule = Schedule::new(Some(HOUR), now, 0.5);
        schedule.note_end(false, now, 0.5);
        assert_eq!(schedule.next(), Some(now + HOUR));
        schedule.note_end(true, now, 0.5);
        assert_eq!(schedule.next(), Some(now + AFTER_FINDING));
    }

    #[test]
    fn audits_that_fail_are_repeated_after_five_minutes_and_then_less_often() {
        let now = Instant::now();
        for period in [Some(HOUR), None] {
            let mut schedule = Schedule::new(period, now, 0.5);
            schedule.note_history_change(now, 0.5);
            let failed = now + 2 * HOUR;
            for minutes in [5, 10, 20, 40, 60, 60] {
                schedule.note_begin(now + HOUR);
                let delay = schedule.note_failure(failed);
                assert_eq!((delay, schedule.next()), (minutes * SPREAD, Some(failed + delay)), "{period:?}");
            }
            schedule.note_history_change(failed, 0.0);
            assert_eq!(schedule.next(), Some(failed + period.map_or(SUSPICIOUS, |_| SHORTEST_PERIOD)));
            schedule.note_end(false, failed + HOUR, 0.5);
            schedule.note_begin(failed + HOUR);
            assert_eq!(schedule.note_failure(failed + HOUR), SHORTEST_PERIOD, "failures before a result do not count");
        }
    }

    #[test]
    fn without_a_period_only_history_changes_and_findings_lead_to_an_audit() {
        let now = Instant::now();
        let mut schedule = Schedule::new(None, now, 0.5);
        assert_eq!(schedule.next(), None);
        schedule.note_history_change(now, 0.5);
        let extra = now + Duration::from_secs(630);
        assert_eq!(schedule.next(), Some(extra));
        schedule.note_end(true, extra, 0.5);
        let repeated = extra + AFTER_FINDING;
        assert_eq!(schedule.next(), Some(repeated));
        schedule.note_begin(repeated);
        schedule.note_end(false, repeated, 0.5);
        assert_eq!(schedule.next(), None);
    }

    #[test]
    fn the_extra_audit_follows_the_last_of_several_history_changes_and_periodic_ones_are_not_postponed() {
        let now = Instant::now();
        let mut schedule = Schedule::new(Some(HOUR), now, 0.5);
        schedule.note_history_change(now, 0.0);
        schedule.note_history_change(now + SPREAD, 0.0);
        assert_eq!(schedule.next(), Some(now + SPREAD + SUSPICIOUS));

        for minute in 1..=60 {
            schedule.note_history_change(now + minute * SPREAD, 0.0);
        }
        assert_eq!(schedule.next(), Some(now + HOUR));
        schedule.note_begin(now + HOUR);
        schedule.note_end(false, now + HOUR, 0.5);
        assert_eq!(schedule.next(), Some(now + HOUR + SUSPICIOUS), "the extra audit is not forgotten");
    }

    #[test]
    fn an_audit_that_begins_before_the_extra_one_is_due_does_not_replace_it() {
        let now = Instant::now();
        let mut schedule = Schedule::new(Some(HOUR), now, 0.5);
        schedule.note_history_change(now, 0.0);
        schedule.note_begin(now + SUSPICIOUS - SPREAD);
        let ended = now + SUSPICIOUS + SPREAD;
        schedule.note_end(false, ended, 0.5);
        assert_eq!(schedule.next(), Some(ended + SHORTEST_PERIOD));
    }
}
