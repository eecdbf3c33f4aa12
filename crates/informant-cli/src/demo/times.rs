//! When the server came to which version: so that it can be said how long ago that was.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use informant_apiserver::ApiServer;
use parking_lot::Mutex;
use tokio::time::Instant;
use tokio::time::MissedTickBehavior;
use tokio::time::interval;

/// When the server was seen at which version, to ten milliseconds. Clones are of the same.
#[derive(Clone, Default)]
pub struct Times {
    seen: Arc<Mutex<VecDeque<(u64, Instant)>>>,
}

const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Of the last minutes only.
const REMEMBERED: usize = 20_000;

impl Times {
    /// Looks at the server, for ever.
    pub async fn look_at(self, server: ApiServer) {
        let mut ticks = interval(LOOK_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        loop {
            ticks.tick().await;
            self.note(server.version(), Instant::now());
        }
    }

    fn note(&self, version: u64, now: Instant) {
        let mut seen = self.seen.lock();
        if seen.back().is_some_and(|(last, _)| *last == version) {
            return;
        }
        seen.push_back((version, now));
        if seen.len() > REMEMBERED {
            seen.pop_front();
        }
    }

    /// How long ago the server came to a version; zero if that was just now.
    pub fn since(&self, version: u64) -> Duration {
        let seen = self.seen.lock();
        let first = seen.partition_point(|(other, _)| *other < version);
        seen.get(first).map_or(Duration::ZERO, |(_, then)| then.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_time_of_a_version_is_that_of_the_first_look_that_saw_it() {
        let times = Times::default();
        let second = Duration::from_secs(1);
        times.note(5, Instant::now());
        tokio::time::advance(second).await;
        times.note(5, Instant::now());
        times.note(9, Instant::now());
        tokio::time::advance(second).await;

        assert_eq!((times.since(3), times.since(5)), (second * 2, second * 2));
        assert_eq!((times.since(6), times.since(9)), (second, second));
        assert_eq!(times.since(10), Duration::ZERO);
    }
}
