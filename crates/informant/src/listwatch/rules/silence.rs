//! Decides what to do about a watch that is open and delivers nothing.
//!
//! - **In:** the times at which bytes arrived, and the server's answers to the question for its newest version.
//! - **Out:** when to ask, when the cache counts as stale, and when to open another watch.
//! - **Knows nothing of:** how the server is asked.
//!
//! | state | input | next state | step |
//! | --- | --- | --- | --- |
//! | any but off | bytes | quiet | |
//! | quiet | the bookmark interval and 5 s have passed | asked | ask |
//! | asked | the watch has delivered that version | quiet | confirm |
//! | asked | a newer version | behind | |
//! | behind | the bookmark interval has passed | | reopen |
//! | asked | no answer | unanswered | report as stale |
//! | unanswered | 5 s have passed | asked again | ask |
//! | asked again | any version | | reopen |
//! | asked again | no answer | unanswered | report as stale |
//! | asked, asked again | the source does not support the question | off | |

use std::time::Duration;

use tokio::time::Instant;

/// The examination of a silent watch.
#[derive(Debug)]
pub(crate) struct Silence {
    state: WatchSilence,
    /// The longest pause between two bookmarks of a healthy watch.
    interval: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchSilence {
    /// No bytes have arrived since the last ones, which is normal until this time.
    Quiet {
        until: Instant,
    },
    Asked {
        at: Instant,
        is_again: bool,
    },
    /// The server has a newer version, which the watch must deliver before this time.
    Behind {
        until: Instant,
    },
    /// The server did not answer.
    Unanswered {
        ask_at: Instant,
    },
    Off,
}

/// What the server answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum VersionAnswer {
    /// The version that the watch has delivered.
    Same,
    /// A newer version.
    Newer,
    /// Nothing, in time.
    Nothing,
    /// The source does not support the question, or refuses it.
    Unsupported,
}

/// What the reflector has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SilenceStep {
    Nothing,
    /// Ask the server for its version.
    Ask,
    /// The cache was current at this time.
    Confirm(Instant),
    /// Report that the server does not answer.
    ReportStale,
    /// Open another watch.
    Reopen,
}

/// The bookmark interval of kube-apiserver, used until a longer one is observed.
const USUAL_INTERVAL: Duration = Duration::from_secs(60);

/// How much later than usual a bookmark may come; also the pause between two questions that get no answer.
const TOLERANCE: Duration = Duration::from_secs(5);

impl Silence {
    /// Begins to examine a watch that was opened now. `interval` is the longest known pause between two bookmarks.
    pub(crate) fn new(now: Instant, interval: Option<Duration>) -> Self {
        let interval = interval.unwrap_or_default().max(USUAL_INTERVAL);
        Self { state: WatchSilence::Quiet { until: now + interval + TOLERANCE }, interval }
    }

    /// Starts the interval again after received bytes.
    pub(crate) fn reset(&mut self, now: Instant) {
        if self.state != WatchSilence::Off {
            self.state = WatchSilence::Quiet { until: now + self.interval + TOLERANCE };
        }
    }

    /// Returns when to call [`wake`](Self::wake), if no bytes or answer arrive before.
    pub(crate) fn wakes_at(&self) -> Option<Instant> {
        match self.state {
            WatchSilence::Quiet { until } | WatchSilence::Behind { until } => Some(until),
            WatchSilence::Unanswered { ask_at } => Some(ask_at),
            WatchSilence::Asked { .. } | WatchSilence::Off => None,
        }
    }

    /// Decides the next step at a time that [`wakes_at`](Self::wakes_at) returned.
    pub(crate) fn wake(&mut self, now: Instant) -> SilenceStep {
        match self.state {
            WatchSilence::Quiet { until } if until <= now => {
                self.state = WatchSilence::Asked { at: now, is_again: false };
                SilenceStep::Ask
            }
            WatchSilence::Unanswered { ask_at } if ask_at <= now => {
                self.state = WatchSilence::Asked { at: now, is_again: true };
                SilenceStep::Ask
            }
            WatchSilence::Behind { until } if until <= now => SilenceStep::Reopen,
            WatchSilence::Quiet { .. }
            | WatchSilence::Unanswered { .. }
            | WatchSilence::Behind { .. }
            | WatchSilence::Asked { .. }
            | WatchSilence::Off => SilenceStep::Nothing,
        }
    }

    /// Decides the next step after the server answered, or did not in time.
    pub(crate) fn answer(&mut self, now: Instant, answer: VersionAnswer) -> SilenceStep {
        let WatchSilence::Asked { at, is_again } = self.state else { return SilenceStep::Nothing };
        match answer {
            VersionAnswer::Nothing => {
                self.state = WatchSilence::Unanswered { ask_at: now + TOLERANCE };
                SilenceStep::ReportStale
            }
            VersionAnswer::Unsupported => {
                self.state = WatchSilence::Off;
                SilenceStep::Nothing
            }
            VersionAnswer::Same | VersionAnswer::Newer if is_again => SilenceStep::Reopen,
            VersionAnswer::Same => {
                self.state = WatchSilence::Quiet { until: now + self.interval + TOLERANCE };
                SilenceStep::Confirm(at)
            }
            VersionAnswer::Newer => {
                self.state = WatchSilence::Behind { until: now + self.interval };
                SilenceStep::Nothing
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(begun: Instant, seconds: u64) -> Instant {
        begun + Duration::from_secs(seconds)
    }

    #[test]
    fn a_silent_watch_is_confirmed_by_the_server_about_once_a_minute() {
        let begun = Instant::now();
        let mut silence = Silence::new(begun, None);
        assert_eq!(
            (silence.wake(after(begun, 64)), silence.wakes_at()),
            (SilenceStep::Nothing, Some(after(begun, 65)))
        );
        assert_eq!((silence.wake(after(begun, 65)), silence.wakes_at()), (SilenceStep::Ask, None));

        assert_eq!(silence.answer(after(begun, 66), VersionAnswer::Same), SilenceStep::Confirm(after(begun, 65)));

        assert_eq!(silence.wakes_at(), Some(after(begun, 131)));
    }

    #[test]
    fn a_silent_watch_that_does_not_deliver_a_newer_version_within_the_bookmark_interval_is_reopened() {
        let begun = Instant::now();
        let mut silence = Silence::new(begun, Some(Duration::from_secs(100)));
        assert_eq!(silence.wake(after(begun, 105)), SilenceStep::Ask);
        assert_eq!(silence.answer(after(begun, 106), VersionAnswer::Newer), SilenceStep::Nothing);
        assert_eq!(silence.wake(after(begun, 205)), SilenceStep::Nothing);
        assert_eq!(silence.wake(after(begun, 206)), SilenceStep::Reopen);
    }

    #[test]
    fn a_silent_server_that_does_not_answer_is_reported_and_asked_again_and_its_watch_reopened_when_it_answers() {
        let begun = Instant::now();
        let mut silence = Silence::new(begun, None);
        silence.wake(after(begun, 65));
        assert_eq!(silence.answer(after(begun, 70), VersionAnswer::Nothing), SilenceStep::ReportStale);
        assert_eq!(
            (silence.wake(after(begun, 74)), silence.wake(after(begun, 75))),
            (SilenceStep::Nothing, SilenceStep::Ask)
        );
        assert_eq!(silence.answer(after(begun, 80), VersionAnswer::Nothing), SilenceStep::ReportStale);
        assert_eq!(silence.wake(after(begun, 85)), SilenceStep::Ask);
        assert_eq!(silence.answer(after(begun, 86), VersionAnswer::Same), SilenceStep::Reopen);
    }

    #[test]
    fn received_bytes_reset_the_silence_in_every_state() {
        let begun = Instant::now();
        for answers in [vec![], vec![VersionAnswer::Nothing], vec![VersionAnswer::Newer], vec![VersionAnswer::Same]] {
            let mut silence = Silence::new(begun, None);
            silence.wake(after(begun, 65));
            for answer in answers {
                silence.answer(after(begun, 66), answer);
            }

            silence.reset(after(begun, 67));

            assert_eq!(silence.wakes_at(), Some(after(begun, 132)));
            assert_eq!(
                silence.answer(after(begun, 68), VersionAnswer::Nothing),
                SilenceStep::Nothing,
                "the answer came too late"
            );
        }
    }

    #[test]
    fn a_source_that_does_not_support_the_question_is_not_asked_again_when_silent() {
        let begun = Instant::now();
        let mut silence = Silence::new(begun, None);
        silence.wake(after(begun, 65));
        assert_eq!(silence.answer(after(begun, 66), VersionAnswer::Unsupported), SilenceStep::Nothing);
        silence.reset(after(begun, 67));
        assert_eq!(silence.wakes_at(), None);
    }
}
