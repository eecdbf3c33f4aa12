//! Decides whether a watch that failed with an error of the server (5xx) is opened again, or everything is listed.

use std::time::Duration;

use tokio::time::Instant;

/// The time, from the first error of the server, in which a watch is opened again without a list.
#[derive(Debug)]
pub(crate) struct RetryWindow {
    length: Duration,
    first: Option<Instant>,
    last: Option<Instant>,
}

/// After this time without an error, the next error begins a new window.
const NEW_WINDOW_AFTER: Duration = Duration::from_secs(60);

impl RetryWindow {
    /// Creates a window of this length; with a length of zero, no error is retried.
    pub(crate) fn new(length: Duration) -> Self {
        Self { length, first: None, last: None }
    }

    /// Notes an error of the server. Returns true if the watch may be opened again.
    pub(crate) fn allows(&mut self, now: Instant) -> bool {
        if self.length.is_zero() {
            return false;
        }
        let is_new = self.last.replace(now).is_none_or(|last| now - last >= NEW_WINDOW_AFTER);
        let first = match self.first {
            Some(first) if !is_new => first,
            Some(_) | None => *self.first.insert(now),
        };
        if now - first <= self.length {
            return true;
        }
        (self.first, self.last) = (None, None);
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Returns how often in a row the window allows another attempt, one second apart, with a gap before the tenth.
    fn allowed(length: Duration, gap: Duration) -> usize {
        let mut window = RetryWindow::new(length);
        let mut now = Instant::now();
        let mut count = 0;
        while window.allows(now) {
            count += 1;
            now += if count == 9 { gap } else { SECOND };
        }
        count
    }

    /// RE-43, HC-28
    #[test]
    fn the_retry_window_allows_attempts_until_it_ends_and_begins_again_after_a_minute_without_errors() {
        assert_eq!(allowed(30 * SECOND, SECOND), 31);
        assert_eq!(allowed(30 * SECOND, 60 * SECOND), 40);
        assert_eq!(allowed(30 * SECOND, 59 * SECOND), 9);
        assert_eq!(allowed(Duration::ZERO, SECOND), 0);
    }

    /// RE-43
    #[test]
    fn the_first_error_after_the_end_of_a_retry_window_begins_a_new_one() {
        let mut window = RetryWindow::new(SECOND);
        let now = Instant::now();
        assert!(window.allows(now));
        assert!(!window.allows(now + 2 * SECOND));

        assert!(window.allows(now + 3 * SECOND));
    }
}
