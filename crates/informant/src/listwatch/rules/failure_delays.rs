//! Decides how long a reflector waits after a failure.
//!
//! - **In:** the class of the failure, and what earlier watches achieved.
//! - **Out:** how long the backoff lasts.
//! - **Knows nothing of:** which request follows, and of other reflectors.
//!
//! The table is the specification, like those of the [states](super::state).
//!
//! "Backoff" is the next delay of [`Delays`]. "First" means the first time since a watch delivered a newer version or was
//! open for ten seconds. While the server cannot be reached or refuses requests, [`RetryRule`](super::error_class::RetryRule) decides instead.
//!
//! | error | if | delay |
//! | --- | --- | --- |
//! | history changed | no other change in the last minute | none |
//! | history changed | | 1 s, then 2 s, 4 s, 5 s, 5 s … |
//! | expired | first | 0 to 1 s |
//! | expired | server starting | 0.5 to 1 s |
//! | any | server starting | backoff, at most 0.5 to 2 s |
//! | any | | backoff |

use std::time::Duration;

use tokio::time::Instant;

use super::{
    delays::{Backoff, Delays, obeyed},
    error_class::ErrorClass,
    state::WatchStats,
};

/// The delays of a reflector after failures.
#[derive(Debug)]
pub(crate) struct FailureDelays {
    pub(crate) delays: Delays,
    /// The delays of a request that is refused, and at a closed [gate](crate::listwatch::health::Gate). They do not make others longer: a failure that
    /// follows when requests are accepted again is a new one.
    pub(crate) while_refused: Delays,
    /// True if the reflector has listed at once after an expired version since a watch last delivered a newer version or was open for ten seconds.
    has_relisted_at_once: bool,
    /// When the history last changed, and how often it did within a minute of the change before.
    last_history_change: Option<(Instant, u32)>,
}

/// A watch that was open for this long resets the delays, even if nothing changed.
const STEADY: Duration = Duration::from_secs(10);

/// The longest delay of the first list after a version expired.
const LONGEST_RELIST_DELAY: Duration = Duration::from_secs(1);

/// History changes that follow each other within this time delay the lists.
const FREQUENT_HISTORY_CHANGES: Duration = Duration::from_secs(60);

impl FailureDelays {
    pub(crate) fn new(backoff: Backoff) -> Self {
        let (delays, while_refused) = (Delays::new(backoff), Delays::new(backoff));
        Self { delays, while_refused, has_relisted_at_once: false, last_history_change: None }
    }

    /// Starts again from the first delay, if a watch that has ended worked.
    pub(crate) fn note_watch(&mut self, watch: WatchStats) {
        if watch.has_moved || watch.since_opened >= STEADY {
            self.delays.restart();
            self.while_refused.restart();
            self.has_relisted_at_once = false;
        }
    }

    /// Notes a success: a complete list, or an open watch.
    pub(crate) fn note_success(&mut self, now: Instant) {
        self.delays.note_success(now);
        self.while_refused.note_success(now);
    }

    /// Returns how long the backoff after a failure lasts. `is_startup_error` means that a starting server may have caused the failure;
    /// `retry_after` is the least delay that the server asks for.
    pub(crate) fn after(
        &mut self,
        class: ErrorClass,
        is_startup_error: bool,
        retry_after: Option<Duration>,
        now: Instant,
    ) -> Duration {
        if class == ErrorClass::HistoryChanged {
            return self.after_history_change(now);
        }
        if class == ErrorClass::Expired {
            if !std::mem::replace(&mut self.has_relisted_at_once, true) {
                return self.delays.between(Duration::ZERO, LONGEST_RELIST_DELAY);
            }
            if is_startup_error {
                return self.delays.between(LONGEST_RELIST_DELAY / 2, LONGEST_RELIST_DELAY);
            }
        }
        let delay = self.delays.after_failure(now, retry_after);
        match is_startup_error {
            true => delay.min(self.delays.short().max(obeyed(retry_after))),
            false => delay,
        }
    }

    /// Returns how long to wait after a history change. A proxy that alternates between two servers can change the history with each request, and each
    /// change makes all informers of the client list.
    fn after_history_change(&mut self, now: Instant) -> Duration {
        let last = self.last_history_change.filter(|(last, _)| now - *last < FREQUENT_HISTORY_CHANGES);
        let changes = last.map_or(0, |(_, changes)| changes + 1);
        self.last_history_change = Some((now, changes));
        match changes {
            0 => Duration::ZERO,
            1..=3 => Duration::from_secs(1 << (changes - 1)),
            4.. => Duration::from_secs(5),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::state::{
            WatchStats,
            tests::{CLASSES, rows, value},
        },
        *,
    };

    fn delays() -> FailureDelays {
        FailureDelays::new(Backoff::default().without_jitter())
    }

    #[test]
    fn each_row_of_the_delay_table_is_how_long_a_reflector_waits() {
        let rows = rows(include_str!("failure_delays.rs"), "| error | if | delay |");
        // Without jitter, a random delay is the mean.
        let lengths = [
            ("none", [0, 0]),
            ("1 s, then 2 s, 4 s, 5 s, 5 s …", [1000, 2000]),
            ("0 to 1 s", [500, 500]),
            ("0.5 to 1 s", [750, 750]),
            ("backoff, at most 0.5 to 2 s", [800, 1250]),
            ("backoff", [800, 1600]),
        ];
        let mut uses = vec![0; rows.len()];

        for (name, class) in CLASSES {
            for (is_first, is_starting) in [(false, false), (false, true), (true, false), (true, true)] {
                let fits = |row: &Vec<&str>| {
                    let is_condition = match row[1] {
                        "" => true,
                        "first" | "no other change in the last minute" => is_first,
                        "server starting" => is_starting,
                        unknown => panic!("unknown condition: {unknown:?}"),
                    };
                    is_condition && (row[0] == "any" || row[0] == name)
                };
                let position = rows.iter().position(fits).expect("a row for each error");
                uses[position] += 1;
                let mut delays = delays();
                let now = Instant::now();
                delays.last_history_change = Some((now, 0));
                let delay = [(); 2].map(|()| {
                    delays.has_relisted_at_once = !is_first;
                    delays.last_history_change.take_if(|_| is_first);
                    delays.after(class, is_starting, None, now).as_millis()
                });
                assert_eq!(delay, value(&lengths, rows[position][2]), "{:?}: {name}", rows[position]);
            }
        }

        assert!(rows.len() > 3 && uses.iter().all(|uses| *uses > 0), "rows that never apply: {uses:?}");
    }

    #[test]
    fn a_list_at_once_after_an_expired_version_happens_once_until_a_watch_was_open_for_ten_seconds_or_delivered_a_newer_version()
     {
        for (has_moved, seconds, is_reset) in [(false, 9.999, false), (false, 10.0, true), (true, 0.0, true)] {
            let lasted = Duration::from_secs_f64(seconds);
            let watch = WatchStats { has_moved, since_asked: lasted, since_opened: lasted };
            let mut delays = delays();
            let is_at_once = |delays: &mut FailureDelays| {
                delays.after(ErrorClass::Expired, false, None, Instant::now()) < Duration::from_millis(501)
            };
            let first = is_at_once(&mut delays);
            delays.note_watch(watch);
            assert_eq!((first, is_at_once(&mut delays)), (true, is_reset), "{watch:?}");
        }
    }

    #[test]
    fn lists_wait_longer_after_each_history_change_within_a_minute_of_the_one_before() {
        let mut delays = delays();
        let mut now = Instant::now();
        let table = [(0, 0), (59, 1), (59, 2), (0, 4), (59, 5), (59, 5), (60, 0), (1, 1)];
        for (pause, delay) in table {
            now += Duration::from_secs(pause);
            let found = delays.after(ErrorClass::HistoryChanged, true, None, now);
            assert_eq!(found, Duration::from_secs(delay), "after {pause} s");
        }
    }

    #[test]
    fn a_backoff_lasts_at_least_as_long_as_the_server_asks_for() {
        let retry_after = Some(Duration::from_secs(5));
        for is_starting in [false, true] {
            let delay = delays().after(ErrorClass::Overloaded, is_starting, retry_after, Instant::now());
            assert_eq!(delay, Duration::from_secs(5), "{is_starting}");
        }
    }
}
