//! Events per second: over the last seconds, and over the whole run.
//!
//! - **In:** stats, one after the other.
//! - **Out:** rates. The initial list does not count, and neither does the time after the load has stopped.

use std::{collections::VecDeque, fmt};

use serde::Serialize;

use super::{recorder::Counts, scenario::SCHEDULER, stats::DemoStats};

/// Events per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Rate {
    pub added: u64,
    pub updated: u64,
    pub deleted: u64,
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { added, updated, deleted } = self;
        write!(f, "+{added} ~{updated} -{deleted} events/s")
    }
}

/// The seconds that the current rate covers: longer than the pauses after the demo's faults.
pub const WINDOW: f64 = 5.0;

/// A shorter time gives no rate: one event more or less would change it too much.
const SHORTEST: f64 = 0.9;

/// The counts from which rates are computed.
#[derive(Default)]
pub struct Rates {
    first: Option<Sample>,
    /// At most one is older than the window.
    recent: VecDeque<Sample>,
}

/// The events that the first handlers had received at one moment.
#[derive(Clone, Copy)]
struct Sample {
    seconds: f64,
    counts: Counts,
}

impl Rates {
    /// Takes in the newest stats.
    pub fn add(&mut self, stats: &DemoStats) {
        if !stats.is_loaded {
            return;
        }
        let first = stats.handlers.iter().filter(|handler| handler.name == SCHEDULER);
        let counts = first.fold(Counts::default(), |sum, handler| Counts {
            added: sum.added + handler.counts.added - handler.counts.initial,
            updated: sum.updated + handler.counts.updated,
            deleted: sum.deleted + handler.counts.deleted + handler.counts.missed,
            ..sum
        });
        let sample = Sample { seconds: stats.seconds, counts };
        self.first.get_or_insert(sample);
        self.recent.push_back(sample);
        while self.recent.get(1).is_some_and(|second| sample.seconds - second.seconds >= WINDOW) {
            self.recent.pop_front();
        }
    }

    /// The rate over the last [`WINDOW`]; `None` in the first second.
    pub fn current(&self) -> Option<Rate> {
        self.since(*self.recent.front()?)
    }

    /// The rate over the whole run.
    pub fn average(&self) -> Option<Rate> {
        self.since(self.first?)
    }

    fn since(&self, then: Sample) -> Option<Rate> {
        let now = self.recent.back()?;
        let passed = Some(now.seconds - then.seconds).filter(|passed| *passed >= SHORTEST)?;
        let per_second = |now: u64, then: u64| (now.saturating_sub(then) as f64 / passed).round() as u64;
        Some(Rate {
            added: per_second(now.counts.added, then.counts.added),
            updated: per_second(now.counts.updated, then.counts.updated),
            deleted: per_second(now.counts.deleted, then.counts.deleted),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{super::stats::HandlerStats, *};

    /// Stats with one handler that has received so many objects of the first list, other adds and updates.
    fn stats(seconds: f64, initial: u64, added: u64, updated: u64) -> DemoStats {
        let counts = Counts { added: initial + added, initial, updated, ..Counts::default() };
        let (name, kind) = (SCHEDULER.to_owned(), "pods");
        let handler = HandlerStats { name, kind, is_synced: true, backlog: 0, lag_ms: 0, coalesced: 0, counts };
        DemoStats { seconds, is_loaded: true, handlers: vec![handler], ..DemoStats::default() }
    }

    fn updates(rate: Option<Rate>) -> Option<u64> {
        rate.map(|rate| rate.updated)
    }

    #[test]
    fn the_initial_list_is_no_rate() {
        let mut rates = Rates::default();

        rates.add(&stats(0.0, 1, 0, 0));
        rates.add(&stats(0.2, 496, 0, 0));
        assert_eq!(rates.current(), None, "less than a second");
        rates.add(&stats(1.0, 500, 20, 180));

        assert_eq!(rates.current(), Some(Rate { added: 20, updated: 180, deleted: 0 }));
    }

    #[test]
    fn a_rate_covers_the_last_seconds_and_the_average_everything() {
        let mut rates = Rates::default();
        for second in 0..=20_u32 {
            // 10 a second, then 200 a second.
            let updated = 10 * second.min(10) + 200 * second.saturating_sub(10);
            rates.add(&stats(second.into(), 500, 0, updated.into()));
        }

        assert_eq!((updates(rates.current()), updates(rates.average())), (Some(200), Some(105)));
        assert_eq!(rates.recent.len(), 6, "older samples are dropped");
    }

    /// A frame without events is no rate of zero.
    #[test]
    fn a_steady_load_has_a_steady_rate_in_every_frame() {
        let mut rates = Rates::default();
        for frame in 0..100_u32 {
            let seconds = f64::from(frame) / 5.0;
            rates.add(&stats(seconds, 500, 0, 200 * u64::from(frame / 5)));
            assert!(updates(rates.current()).is_none_or(|rate| (100..=200).contains(&rate)), "{frame}");
        }
    }

    #[test]
    fn the_time_after_the_load_does_not_count() {
        let mut rates = Rates::default();
        rates.add(&stats(0.0, 500, 0, 0));
        rates.add(&stats(4.0, 500, 0, 800));

        rates.add(&DemoStats { is_loaded: false, ..stats(60.0, 500, 0, 800) });

        assert_eq!((updates(rates.current()), updates(rates.average())), (Some(200), Some(200)));
    }
}
