//! Decides how long a watch may be silent before it counts as broken.

use std::time::Duration;

use tokio::time::Instant;

/// Measures the pauses between bookmarks, from which the idle timeout follows.
#[derive(Debug, Default)]
pub(crate) struct Watchdog {
    /// The longest time between two bookmarks of one watch; `None` before the second bookmark.
    pub(crate) longest: Option<Duration>,
    /// When the last bookmark of the current watch arrived.
    last: Option<Instant>,
}

/// The shortest idle timeout for a server that sends bookmarks.
const LEAST: Duration = Duration::from_secs(180);

/// How much longer than its requested timeout a watch may last.
const OVERTIME: Duration = Duration::from_secs(30);

impl Watchdog {
    /// Notes that a watch was opened.
    pub(crate) fn note_opened_watch(&mut self) {
        self.last = None;
    }

    /// Notes a bookmark.
    pub(crate) fn note_bookmark(&mut self, now: Instant) {
        if let Some(last) = self.last.replace(now) {
            self.longest = self.longest.max(Some(now - last));
        }
    }

    /// Returns how long a watch with this requested timeout may be silent.
    pub(crate) fn idle_timeout(&self, timeout: Duration) -> Duration {
        let longest_watch = timeout + OVERTIME;
        match self.longest {
            Some(longest) => (3 * longest).max(LEAST).min(longest_watch),
            None => longest_watch,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_idle_timeout_is_three_times_the_longest_pause_between_bookmarks_but_at_least_three_minutes() {
        let timeout = Duration::from_secs(400);
        let mut now = Instant::now();
        let mut bookmark_after = |watchdog: &mut Watchdog, seconds| {
            now += Duration::from_secs(seconds);
            watchdog.note_bookmark(now);
        };
        let mut watchdog = Watchdog::default();
        watchdog.note_opened_watch();
        bookmark_after(&mut watchdog, 500);
        assert_eq!(watchdog.idle_timeout(timeout).as_secs(), 430, "no pause is known yet");

        bookmark_after(&mut watchdog, 10);
        assert_eq!(watchdog.idle_timeout(timeout).as_secs(), 180);
        bookmark_after(&mut watchdog, 100);
        bookmark_after(&mut watchdog, 1);
        assert_eq!(watchdog.idle_timeout(timeout).as_secs(), 300);

        watchdog.note_opened_watch();
        bookmark_after(&mut watchdog, 10_000);
        assert_eq!(watchdog.idle_timeout(timeout).as_secs(), 300, "the time between two watches is not a pause");
        bookmark_after(&mut watchdog, 200);
        assert_eq!(watchdog.idle_timeout(timeout).as_secs(), 430, "not longer than the watch may last");
    }
}
