//! Decides which handlers are due for a resync.
//!
//! - **In:** the periods that handlers request, and ticks of a clock.
//! - **Out:** whether a handler is due at a tick.
//! - **Knows nothing of:** objects.

use std::time::Duration;

use tokio::time::Instant;

/// The period at which an informer checks which handlers are due for a resync; `None` means never.
pub(super) struct CheckPeriod {
    period: Option<Duration>,
    default: Option<Duration>,
    /// True after the start: the period does not change any more.
    is_fixed: bool,
}

/// When one handler is due for a resync.
pub(super) struct ResyncSchedule {
    period: Option<Duration>,
    next: Option<Instant>,
}

/// The shortest resync period.
pub(super) const SHORTEST: Duration = Duration::from_secs(1);

impl CheckPeriod {
    pub(super) fn new(default: Option<Duration>) -> Self {
        let default = at_least_shortest(default);
        Self { period: default, default, is_fixed: false }
    }

    pub(super) fn period(&self) -> Option<Duration> {
        self.period
    }

    pub(super) fn fix(&mut self) {
        self.is_fixed = true;
    }

    /// Returns the period that a handler gets that requests this one: zero means never, `None` the informer's. Before the start, a request that is
    /// shorter than the check period shortens the check period.
    pub(super) fn grant(&mut self, requested: Option<Duration>) -> Option<Duration> {
        let wanted = if requested.is_some() { at_least_shortest(requested) } else { self.default }?;
        let check = self.period?;
        if wanted >= check {
            return Some(wanted);
        }
        if self.is_fixed {
            return Some(check);
        }
        self.period = Some(wanted);
        Some(wanted)
    }
}

fn at_least_shortest(period: Option<Duration>) -> Option<Duration> {
    period.filter(|period| !period.is_zero()).map(|period| period.max(SHORTEST))
}

impl ResyncSchedule {
    pub(super) fn new(period: Option<Duration>, now: Instant) -> Self {
        Self { period, next: period.and_then(|period| now.checked_add(period)) }
    }

    pub(super) fn has_period(&self) -> bool {
        self.period.is_some()
    }

    /// Whether the handler is due at this tick. If it is, it is due again a period later.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.next.is_some_and(|next| now >= next);
        if is_due {
            self.next = self.period.and_then(|period| now.checked_add(period));
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn every(period: u64) -> Option<Duration> {
        Some(seconds(period))
    }

    /// SI-19, HC-12
    #[test]
    fn before_the_start_the_most_eager_handler_sets_the_check_period() {
        let mut check = CheckPeriod::new(Some(seconds(12 * 3600)));
        let mut granted = Vec::new();
        for (wish, expected) in [(every(0), 12 * 3600), (every(60), 60), (every(55), 55), (every(5), 5)] {
            granted.push(check.grant(wish));
            assert_eq!(check.period(), Some(seconds(expected)));
        }
        assert_eq!(granted, [None, Some(seconds(60)), Some(seconds(55)), Some(seconds(5))]);
        assert_eq!(check.grant(None), Some(seconds(12 * 3600)));
    }

    /// SI-18, HC-12
    #[test]
    fn no_handler_is_resynced_more_often_than_once_a_second() {
        let mut check = CheckPeriod::new(Some(seconds(3600)));
        assert_eq!(check.grant(Some(Duration::from_millis(200))), Some(seconds(1)));
        assert_eq!(check.period(), Some(seconds(1)));
        assert_eq!(CheckPeriod::new(Some(Duration::from_millis(1))).period(), Some(seconds(1)));
    }

    /// SI-20, HC-12
    #[test]
    fn after_the_start_a_handler_gets_no_less_than_the_check_period() {
        let mut check = CheckPeriod::new(Some(seconds(10)));
        check.fix();
        assert_eq!(check.grant(every(3)), Some(seconds(10)));
        assert_eq!(check.grant(every(15)), Some(seconds(15)));
        assert_eq!(check.period(), Some(seconds(10)));
    }

    /// SI-18, SI-21, HC-12
    #[test]
    fn an_informer_that_never_resyncs_never_does() {
        for default in [None, Some(Duration::ZERO)] {
            let mut check = CheckPeriod::new(default);
            assert_eq!(check.grant(every(3)), None);
            assert_eq!(check.grant(None), None);
            assert_eq!(check.period(), None);
        }
        assert_eq!(CheckPeriod::new(Some(seconds(5))).grant(every(0)), None);
    }

    /// SI-22, PL-10
    #[test]
    fn a_handler_is_due_at_the_first_tick_that_is_not_earlier_than_its_next_time() {
        let start = Instant::now();
        let mut schedule = ResyncSchedule::new(Some(Duration::from_millis(2500)), start);
        let due: Vec<_> = (1..=9).filter(|tick| schedule.is_due(start + seconds(*tick))).collect();
        assert_eq!(due, [3, 6, 9]);
        assert!(!ResyncSchedule::new(None, start).is_due(start + seconds(1_000_000)));
        assert!(!ResyncSchedule::new(Some(Duration::MAX), start).is_due(start + seconds(1_000_000)));
    }
}
