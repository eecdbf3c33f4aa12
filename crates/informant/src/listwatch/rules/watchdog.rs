//! How long a watch may say nothing before it is taken for dead.

use std::time::Duration;

use tokio::time::Instant;

/// Learns from the bookmarks how often a healthy server speaks.
#[derive(Debug, Default)]
pub(crate) struct Watchdog {
    /// The longest time between two bookmarks of one watch.
    longest: Option<Duration>,
    /// When the last one of this watch came.
    last: Option<Instant>,
}

/// The least idle timeout for a server that sends bookmarks.
const LEAST: Duration = Duration::from_secs(180);

/// How much longer than it was asked to a watch may last.
const OVERTIME: Duration = Duration::from_secs(30);

impl Watchdog {
    /// A watch began.
    pub(crate) fn opened(&mut self) {
        self.last = None;
    }

    /// A bookmark came.
    pub(crate) fn bookmark(&mut self, now: Instant) {
        if let Some(last) = self.last.replace(now) {
            self.longest = self.longest.max(Some(now - last));
        }
    }

    /// The longest pause between two bookmarks of one watch, once there were two.
    pub(crate) fn longest_pause(&self) -> Option<Duration> {
        self.longest
    }

    /// How long nothing may come from a watch that was asked to last `timeout`.
    pub(crate) fn idle_timeout(&self, timeout: Duration) -> Duration {
        let longest_life = timeout + OVERTIME;
        match self.longest {
            Some(longest) => (3 * longest).max(LEAST).min(longest_life),
            None => longest_life,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_is_three_times_the_longest_pause_between_bookmarks_but_at_least_three_minutes() {
        let timeout = Duration::from_secs(400);
        let mut now = Instant::now();
        let mut bookmark_after = |watchdog: &mut Watchdog, seconds| {
            now += Duration::from_secs(seconds);
            watchdog.bookmark(now);
        };
        let mut watchdog = Watchdog::default();
        watchdog.opened();
        bookmark_after(&mut watchdog, 500);
        assert_eq!(watchdog.idle_timeout(timeout).as_secs(), 430, "no pause is known yet");

        bookmark_after(&mut watchdog, 10);
        assert_eq!(watchdog.idle_timeout(timeout).as_secs(), 180);
        bookmark_after(&mut watchdog, 100);
        bookmark_after(&mut watchdog, 1);
        assert_eq!(watchdog.idle_timeout(timeout).as_secs(), 300);

        watchdog.opened();
        bookmark_after(&mut watchdog, 10_000);
        assert_eq!(watchdog.idle_timeout(timeout).as_secs(), 300, "the time between two watches is no pause");
        bookmark_after(&mut watchdog, 200);
        assert_eq!(watchdog.idle_timeout(timeout).as_secs(), 430, "no watch lives longer than that");
    }
}
