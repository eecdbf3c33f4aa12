//! For how long a watch is opened again after the server's own errors, before everything is listed anew.

use std::time::Duration;

use tokio::time::Instant;

/// A time in which errors of the server are taken as passing.
#[derive(Debug)]
pub(crate) struct RetryWindow {
    length: Duration,
    first: Option<Instant>,
    last: Option<Instant>,
}

/// After so long without an error the next one opens the window anew.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

impl RetryWindow {
    /// Of no length: never.
    pub(crate) fn new(length: Duration) -> Self {
        Self { length, first: None, last: None }
    }

    /// An error of the server: whether to try once more.
    pub(crate) fn allows(&mut self, now: Instant) -> bool {
        if self.length.is_zero() {
            return false;
        }
        let is_new = self.last.replace(now).is_none_or(|last| now - last >= FORGOTTEN_AFTER);
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

    /// How often in a row the window allows another try, if each takes a second, and there is a gap before the tenth.
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
    fn errors_are_retried_while_the_window_lasts_and_a_quiet_minute_opens_it_anew() {
        assert_eq!(allowed(30 * SECOND, SECOND), 31);
        assert_eq!(allowed(30 * SECOND, 60 * SECOND), 40);
        assert_eq!(allowed(30 * SECOND, 59 * SECOND), 9);
        assert_eq!(allowed(Duration::ZERO, SECOND), 0);
    }

    /// RE-43
    #[test]
    fn a_window_that_was_exceeded_is_forgotten() {
        let mut window = RetryWindow::new(SECOND);
        let now = Instant::now();
        assert!(window.allows(now));
        assert!(!window.allows(now + 2 * SECOND));

        assert!(window.allows(now + 3 * SECOND));
    }
}
