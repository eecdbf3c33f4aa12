//! Records when the server reached which version, so that the age of a version can be computed.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use informant_apiserver::ApiServer;
use parking_lot::Mutex;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// When the server reached which version, with a precision of 10 ms. Cheap to clone; all clones share one record.
#[derive(Clone, Default)]
pub struct VersionTimes {
    reached: Arc<Mutex<VecDeque<(u64, Instant)>>>,
}

const POLL_EVERY: Duration = Duration::from_millis(10);
/// The number of versions that are kept: those of the last minutes.
const KEPT_VERSIONS: usize = 20_000;

impl VersionTimes {
    /// Polls the version of the server, forever.
    pub async fn poll(self, server: ApiServer) {
        let mut ticks = interval(POLL_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            self.record(server.version(), Instant::now());
        }
    }

    fn record(&self, version: u64, now: Instant) {
        let mut reached = self.reached.lock();
        if reached.back().is_some_and(|(last, _)| *last == version) {
            return;
        }
        reached.push_back((version, now));
        if reached.len() > KEPT_VERSIONS {
            reached.pop_front();
        }
    }

    /// How long ago the server reached a version; zero if that has not been recorded yet.
    pub fn age(&self, version: u64) -> Duration {
        let reached = self.reached.lock();
        let first = reached.partition_point(|(other, _)| *other < version);
        reached.get(first).map_or(Duration::ZERO, |(_, then)| then.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_age_of_a_version_counts_from_the_first_poll_that_found_it() {
        let times = VersionTimes::default();
        let second = Duration::from_secs(1);
        times.record(5, Instant::now());
        tokio::time::advance(second).await;
        times.record(5, Instant::now());
        times.record(9, Instant::now());
        tokio::time::advance(second).await;

        assert_eq!((times.age(3), times.age(5)), (second * 2, second * 2));
        assert_eq!((times.age(6), times.age(9)), (second, second));
        assert_eq!(times.age(10), Duration::ZERO);
    }
}
