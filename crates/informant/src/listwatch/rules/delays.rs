//! The delays before the next attempt after a failure.

use std::time::Duration;

use tokio::time::Instant;

/// The delays after failures: each is twice the previous delay, up to a cap. A random jitter of up to the same length is added, so that clients do not
/// retry at the same time.
///
/// The default is that of client-go: 0.8 s, 1.6 s, 3.2 s … 30 s, plus jitter. The delays start again from the first after a watch that
/// delivered a newer version or was open for 10 s, and after two minutes without a failure.
///
/// Some attempts are made sooner. While the server cannot be reached, one reflector of each client retries every 0.8 to 2 s, and
/// less often in outages of more than two minutes. While the server refuses requests (401, 403, 404, 429, 5xx), they are retried as often for a
/// minute, and then less often; for 401 and 429 one reflector of each client does that, and for 5xx one of each API group. After an expired version
/// (410), the first list follows within a second. The `Retry-After` of a server is obeyed in all cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    cap: Duration,
    is_random: bool,
    seed: Option<u64>,
}

/// The delays of one reflector.
#[derive(Debug)]
pub(crate) struct Delays {
    backoff: Backoff,
    /// The next delay, without jitter.
    next: Duration,
    /// Since when no request has failed.
    healthy_since: Option<Instant>,
    random: fastrand::Rng,
}

/// After this time without a failure, the delays start again from the first.
const HEALTHY_AFTER: Duration = Duration::from_secs(120);

/// While the server cannot be reached, for up to this time, one reflector of the client retries every 0.5 to 2 s, but never sooner than the first delay.
pub(crate) const SHORT_OUTAGE: Duration = Duration::from_secs(120);

/// While the server refuses requests, for up to this time, they are retried as often.
pub(crate) const SHORT_REFUSAL: Duration = Duration::from_secs(60);

/// Lower bound on delays: a delay of zero would stay zero when doubled, and the reflector would retry without a pause.
const SHORTEST_DELAY: Duration = Duration::from_millis(1);

/// Upper bound on delays; guards against overflow.
const LONGEST_DELAY: Duration = Duration::from_secs(24 * 3600);

/// Upper bound on the `Retry-After` that is obeyed.
const LONGEST_RETRY_AFTER: Duration = Duration::from_secs(60);

impl Backoff {
    /// Creates delays that double from `first` up to `cap`, both between a millisecond and a day, with jitter.
    pub fn new(first: Duration, cap: Duration) -> Self {
        let cap = cap.clamp(SHORTEST_DELAY, LONGEST_DELAY);
        Self { first: first.clamp(SHORTEST_DELAY, cap), cap, is_random: true, seed: None }
    }

    /// Adds no jitter, so that tests can predict the delays.
    #[must_use]
    pub fn without_jitter(mut self) -> Self {
        self.is_random = false;
        self
    }

    /// Seeds the random numbers of the jitter, for tests that must be repeatable. Default: a random seed.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }
}

impl Delays {
    pub(crate) fn new(backoff: Backoff) -> Self {
        let random = backoff.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        Self { backoff, next: backoff.first, healthy_since: None, random }
    }

    /// Starts again from the first delay, after a watch that delivered a newer version or was open for 10 s.
    pub(crate) fn restart(&mut self) {
        self.next = self.backoff.first;
    }

    /// Returns a random time between `shortest` and `longest`; without jitter, their mean.
    pub(crate) fn between(&mut self, shortest: Duration, longest: Duration) -> Duration {
        let part = if self.backoff.is_random { self.random.f64() } else { 0.5 };
        shortest + longest.saturating_sub(shortest).mul_f64(part)
    }

    /// Returns how long the reflector that tries next waits, after an outage of this length: 0.5 to 2 s, and longer in outages
    /// that are not `short`. The result is never longer than `delay`, and not shorter than the first delay.
    pub(crate) fn until_probe(&mut self, outage: Duration, short: Duration, delay: Duration) -> Duration {
        let factor = (outage.as_secs_f64() / short.as_secs_f64()).max(1.0);
        let probe = self.short().mul_f64(factor);
        probe.max(self.backoff.first).min(delay)
    }

    /// Returns a random delay of 0.5 to 2 s.
    pub(crate) fn short(&mut self) -> Duration {
        self.between(Duration::from_millis(500), Duration::from_secs(2))
    }

    /// Notes a success: a complete list, or an open watch.
    pub(crate) fn note_success(&mut self, now: Instant) {
        self.healthy_since.get_or_insert(now);
    }

    /// Notes a failure, and returns how long to wait: at least as long as the server asked for, up to a minute.
    pub(crate) fn after_failure(&mut self, now: Instant, retry_after: Option<Duration>) -> Duration {
        // The healthy time is counted from the first success after the last failure, not from the last restart: delays do not become short within an outage.
        if self.healthy_since.take().is_some_and(|since| now - since >= HEALTHY_AFTER) {
            self.next = self.backoff.first;
        }
        let delay = self.next;
        self.next = (2 * delay).min(self.backoff.cap);
        let jitter = if self.backoff.is_random { delay.mul_f64(self.random.f64()) } else { Duration::ZERO };
        (delay + jitter).max(obeyed(retry_after))
    }
}

/// Returns the least delay that a server asks for, up to a minute.
pub(crate) fn obeyed(retry_after: Option<Duration>) -> Duration {
    retry_after.unwrap_or_default().min(LONGEST_RETRY_AFTER)
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(Duration::from_millis(800), Duration::from_secs(30))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENTH: Duration = Duration::from_millis(100);

    fn seconds(delay: Duration) -> f64 {
        (delay.as_secs_f64() * 10.0).round() / 10.0
    }

    /// RE-02, HC-25
    #[test]
    fn delays_double_up_to_the_cap_each_up_to_twice_as_long() {
        for seed in 0..200 {
            let now = Instant::now();
            let mut delays = Delays::new(Backoff::default().seed(seed));
            for least in [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30.0, 30.0, 30.0] {
                let delay = delays.after_failure(now, None).as_secs_f64();
                assert!((least - 0.001..least * 2.0 + 0.001).contains(&delay), "{delay} for {least}, seed {seed}");
            }
        }
    }

    /// RE-05
    #[test]
    fn the_first_delay_and_the_cap_can_be_configured() {
        let now = Instant::now();
        let mut delays = Delays::new(Backoff::new(Duration::from_millis(10), TENTH).without_jitter());

        let total: Duration = (0..5).map(|_| delays.after_failure(now, None)).sum();

        assert_eq!((total.as_secs_f64() * 1e4).round(), 2500.0);
    }

    #[test]
    fn the_reflector_that_tries_next_does_so_at_least_every_two_seconds_and_more_rarely_in_long_outages() {
        let second = Duration::from_secs(1);
        for seed in 0..200 {
            let mut delays = Delays::new(Backoff::default().seed(seed));
            for (outage, shortest, longest) in [(0, 0.8, 2.0), (120, 0.8, 2.0), (1200, 5.0, 20.0), (86_400, 30.0, 30.0)]
            {
                let probe = delays.until_probe(outage * second, SHORT_OUTAGE, 30 * second).as_secs_f64();
                assert!((shortest..=longest).contains(&probe), "{probe} after {outage} s, seed {seed}");
            }
            assert_eq!(delays.until_probe(second, SHORT_OUTAGE, TENTH), TENTH, "not later than the other reflectors");
        }
        let mut patient = Delays::new(Backoff::new(10 * second, 60 * second).without_jitter());
        assert_eq!(
            patient.until_probe(second, SHORT_OUTAGE, 40 * second),
            10 * second,
            "not sooner than the first delay"
        );
    }

    /// Differs from HC-25 and RE-03.
    #[test]
    fn delays_start_again_from_the_first_after_a_watch_that_delivered_an_event() {
        let now = Instant::now();
        let mut delays = Delays::new(Backoff::default().without_jitter());
        for _ in 0..60 {
            delays.after_failure(now, None);
        }
        assert_eq!(seconds(delays.after_failure(now, None)), 30.0);

        delays.restart();

        assert_eq!(seconds(delays.after_failure(now, None)), 0.8);
    }

    /// Differs from HC-25 and RE-03.
    #[test]
    fn delays_start_again_from_the_first_after_two_minutes_without_a_failure_and_never_within_an_outage() {
        let mut now = Instant::now();
        let mut delays = Delays::new(Backoff::default().without_jitter());
        delays.note_success(now);
        for _ in 0..60 {
            now += delays.after_failure(now, None);
        }
        assert_eq!(seconds(delays.after_failure(now, None)), 30.0, "half an hour of failures");

        delays.note_success(now);
        now += Duration::from_secs(119);
        assert_eq!(seconds(delays.after_failure(now, None)), 30.0, "not yet healthy");

        delays.note_success(now);
        now += Duration::from_secs(60);
        delays.note_success(now);
        now += Duration::from_secs(60);
        assert_eq!(seconds(delays.after_failure(now, None)), 0.8, "healthy for two minutes");
        now += Duration::from_secs(3600);
        assert_eq!(seconds(delays.after_failure(now, None)), 1.6, "an hour without a success");
    }

    #[test]
    fn retry_after_of_the_server_lengthens_a_delay_up_to_a_minute() {
        let now = Instant::now();
        let mut delays = Delays::new(Backoff::default().without_jitter());

        assert_eq!(delays.after_failure(now, Some(Duration::from_secs(7))), Duration::from_secs(7));
        assert_eq!(seconds(delays.after_failure(now, Some(TENTH))), 1.6, "a shorter Retry-After has no effect");
        assert_eq!(delays.after_failure(now, Some(Duration::from_secs(86_400))), Duration::from_secs(60));
    }
}
