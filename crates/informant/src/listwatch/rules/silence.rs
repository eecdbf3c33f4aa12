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
//! | quiet | no watch of the client received a byte for 30 s, and no other reflector asks | asked | ask |
//! | quiet | no watch of the client received a byte for 36 s, and the server did not answer the question | unanswered | report as stale |
//! | asked | the watch has delivered that version | quiet | confirm |
//! | asked | a newer version | lagging | |
//! | lagging | the bookmark interval has passed | | reopen |
//! | asked | no answer | unanswered | report as stale |
//! | unanswered | 5 s have passed, and a watch of the client received a byte meanwhile, or no other reflector asks | asked again | ask |
//! | unanswered | 5 s have passed, and another reflector asks | unanswered | |
//! | asked | a refusal | quiet | |
//! | asked again | any version, a refusal | | reopen |
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
    Lagging {
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
    /// An error that does not show the version, such as 403 or 429.
    Refused,
    /// The source does not support the question.
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

/// If no watch of a client receives a byte for this long, one reflector asks for all.
const CLIENT_ASKS_AFTER: Duration = Duration::from_secs(30);

/// If the question is not answered by then, all reflectors of the client report it: five seconds later, and one for the answer to be noted.
const CLIENT_STALE_AFTER: Duration = Duration::from_secs(36);

/// How often a reflector looks whether the question of another one was answered.
const RECHECKED_AFTER: Duration = Duration::from_secs(1);

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

    /// Returns when to call [`wake`](Self::wake), if no bytes or answer arrive before. `client_last_byte` is when a watch of the client last received a byte.
    pub(crate) fn wakes_at(&self, now: Instant, client_last_byte: Instant) -> Option<Instant> {
        match self.state {
            WatchSilence::Quiet { until } => {
                let (ask_at, report_at) = (client_last_byte + CLIENT_ASKS_AFTER, client_last_byte + CLIENT_STALE_AFTER);
                Some(until.min(if now < ask_at { ask_at } else { report_at.max(now + RECHECKED_AFTER) }))
            }
            WatchSilence::Lagging { until } => Some(until),
            WatchSilence::Unanswered { ask_at } => Some(ask_at),
            WatchSilence::Asked { .. } | WatchSilence::Off => None,
        }
    }

    /// Decides the next step at a time that [`wakes_at`](Self::wakes_at) returned. `begin_question` returns true if no other reflector of the client asks, and reserves the question;
    /// `is_unanswered` is true if the server did not answer the last question of any of them.
    pub(crate) fn wake(
        &mut self,
        now: Instant,
        client_last_byte: Instant,
        is_unanswered: bool,
        begin_question: impl Fn() -> bool,
    ) -> SilenceStep {
        let client_silence = now - client_last_byte;
        match self.state {
            WatchSilence::Quiet { until } if until <= now => self.ask(now, false),
            WatchSilence::Quiet { .. } if client_silence >= CLIENT_STALE_AFTER && is_unanswered => {
                self.state = WatchSilence::Unanswered { ask_at: now + TOLERANCE };
                SilenceStep::ReportStale
            }
            WatchSilence::Quiet { .. } if client_silence >= CLIENT_ASKS_AFTER && begin_question() => {
                self.ask(now, false)
            }
            // While the server answers no question, one reflector asks for all.
            WatchSilence::Unanswered { ask_at } if ask_at <= now => {
                match client_silence <= TOLERANCE || begin_question() {
                    true => self.ask(now, true),
                    false => {
                        self.state = WatchSilence::Unanswered { ask_at: now + TOLERANCE };
                        SilenceStep::Nothing
                    }
                }
            }
            WatchSilence::Lagging { until } if until <= now => SilenceStep::Reopen,
            WatchSilence::Quiet { .. }
            | WatchSilence::Unanswered { .. }
            | WatchSilence::Lagging { .. }
            | WatchSilence::Asked { .. }
            | WatchSilence::Off => SilenceStep::Nothing,
        }
    }

    fn ask(&mut self, now: Instant, is_again: bool) -> SilenceStep {
        self.state = WatchSilence::Asked { at: now, is_again };
        SilenceStep::Ask
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
            VersionAnswer::Same | VersionAnswer::Newer | VersionAnswer::Refused if is_again => SilenceStep::Reopen,
            VersionAnswer::Same | VersionAnswer::Refused => {
                self.state = WatchSilence::Quiet { until: now + self.interval + TOLERANCE };
                if answer == VersionAnswer::Same { SilenceStep::Confirm(at) } else { SilenceStep::Nothing }
            }
            VersionAnswer::Newer => {
                self.state = WatchSilence::Lagging { until: now + self.interval };
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

    /// When a reflector wakes up whose client has just received a byte in another watch.
    fn wakes_at(silence: &Silence) -> Option<Instant> {
        let far = Instant::now() + Duration::from_secs(1000);
        silence.wakes_at(far, far)
    }

    #[test]
    fn if_no_watch_of_a_client_receives_a_byte_one_reflector_asks_after_thirty_seconds_and_all_are_stale_if_it_gets_no_answer()
     {
        let begun = Instant::now();
        let mut asking = Silence::new(begun, None);
        let mut other = Silence::new(begun, None);
        assert_eq!(asking.wakes_at(begun, begun), Some(after(begun, 30)));
        assert_eq!(asking.wake(after(begun, 30), begun, false, || true), SilenceStep::Ask);
        assert_eq!(other.wake(after(begun, 30), begun, false, || false), SilenceStep::Nothing);
        assert_eq!(other.wakes_at(after(begun, 30), begun), Some(after(begun, 36)));
        assert_eq!(other.wake(after(begun, 36), begun, false, || false), SilenceStep::Nothing, "nothing is known yet");

        assert_eq!(asking.answer(after(begun, 36), VersionAnswer::Nothing), SilenceStep::ReportStale);
        assert_eq!(other.wake(after(begun, 36), begun, true, || false), SilenceStep::ReportStale);
        assert_eq!(
            other.wake(after(begun, 41), begun, true, || false),
            SilenceStep::Nothing,
            "the first one asks again"
        );
        let answered = after(begun, 42);
        assert_eq!(other.wake(after(begun, 46), answered, false, || false), SilenceStep::Ask, "the server answers");
        assert_eq!(other.answer(after(begun, 47), VersionAnswer::Same), SilenceStep::Reopen);
    }

    #[test]
    fn a_silent_watch_is_confirmed_by_the_server_about_once_a_minute() {
        let begun = Instant::now();
        let mut silence = Silence::new(begun, None);
        assert_eq!(
            (silence.wake(after(begun, 64), after(begun, 64), false, || true), wakes_at(&silence)),
            (SilenceStep::Nothing, Some(after(begun, 65)))
        );
        assert_eq!(
            (silence.wake(after(begun, 65), after(begun, 65), false, || true), wakes_at(&silence)),
            (SilenceStep::Ask, None)
        );

        assert_eq!(silence.answer(after(begun, 66), VersionAnswer::Same), SilenceStep::Confirm(after(begun, 65)));

        assert_eq!(wakes_at(&silence), Some(after(begun, 131)));
    }

    #[test]
    fn a_silent_watch_that_does_not_deliver_a_newer_version_within_the_bookmark_interval_is_reopened() {
        let begun = Instant::now();
        let mut silence = Silence::new(begun, Some(Duration::from_secs(100)));
        assert_eq!(silence.wake(after(begun, 105), after(begun, 105), false, || true), SilenceStep::Ask);
        assert_eq!(silence.answer(after(begun, 106), VersionAnswer::Newer), SilenceStep::Nothing);
        assert_eq!(silence.wake(after(begun, 205), after(begun, 205), false, || true), SilenceStep::Nothing);
        assert_eq!(silence.wake(after(begun, 206), after(begun, 206), false, || true), SilenceStep::Reopen);
    }

    #[test]
    fn a_silent_server_that_does_not_answer_is_reported_and_asked_again_and_its_watch_reopened_when_it_answers() {
        let begun = Instant::now();
        let mut silence = Silence::new(begun, None);
        silence.wake(after(begun, 65), after(begun, 65), false, || true);
        assert_eq!(silence.answer(after(begun, 70), VersionAnswer::Nothing), SilenceStep::ReportStale);
        assert_eq!(
            (
                silence.wake(after(begun, 74), after(begun, 74), false, || true),
                silence.wake(after(begun, 75), after(begun, 75), false, || true)
            ),
            (SilenceStep::Nothing, SilenceStep::Ask)
        );
        assert_eq!(silence.answer(after(begun, 80), VersionAnswer::Nothing), SilenceStep::ReportStale);
        assert_eq!(silence.wake(after(begun, 85), after(begun, 85), false, || true), SilenceStep::Ask);
        assert_eq!(silence.answer(after(begun, 86), VersionAnswer::Same), SilenceStep::Reopen);
    }

    #[test]
    fn received_bytes_reset_the_silence_in_every_state() {
        let begun = Instant::now();
        for answers in [vec![], vec![VersionAnswer::Nothing], vec![VersionAnswer::Newer], vec![VersionAnswer::Same]] {
            let mut silence = Silence::new(begun, None);
            silence.wake(after(begun, 65), after(begun, 65), false, || true);
            for answer in answers {
                silence.answer(after(begun, 66), answer);
            }

            silence.reset(after(begun, 67));

            assert_eq!(wakes_at(&silence), Some(after(begun, 132)));
            assert_eq!(
                silence.answer(after(begun, 68), VersionAnswer::Nothing),
                SilenceStep::Nothing,
                "the answer came too late"
            );
        }
    }

    #[test]
    fn a_server_that_refuses_the_question_is_asked_again_and_one_that_was_silent_before_is_watched_again() {
        let begun = Instant::now();
        let mut silence = Silence::new(begun, None);
        silence.wake(after(begun, 65), after(begun, 65), false, || true);
        assert_eq!(silence.answer(after(begun, 66), VersionAnswer::Refused), SilenceStep::Nothing);
        assert_eq!(silence.wake(after(begun, 131), after(begun, 131), false, || true), SilenceStep::Ask);
        silence.answer(after(begun, 136), VersionAnswer::Nothing);
        assert_eq!(silence.wake(after(begun, 141), after(begun, 141), false, || true), SilenceStep::Ask);
        assert_eq!(silence.answer(after(begun, 142), VersionAnswer::Refused), SilenceStep::Reopen);
    }

    #[test]
    fn a_source_that_does_not_support_the_question_is_not_asked_again_when_silent() {
        let begun = Instant::now();
        let mut silence = Silence::new(begun, None);
        silence.wake(after(begun, 65), after(begun, 65), false, || true);
        assert_eq!(silence.answer(after(begun, 66), VersionAnswer::Unsupported), SilenceStep::Nothing);
        silence.reset(after(begun, 67));
        assert_eq!(wakes_at(&silence), None);
    }
}
