//! Lets the reflectors whose requests fail take turns, so that one of them at a time tries again.
//!
//! - **In:** the failures and successes of the reflectors' requests.
//! - **Out:** when each reflector may retry.
//! - **Knows nothing of:** the requests, and why they fail.

use std::{pin::pin, time::Duration};

use futures_util::future::select;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// A gate is closed while requests fail. The reflectors that wait at it take turns: the shortest of their delays decides when one tries next, and who
/// that is the time at which each of them would have tried alone. When a request succeeds, all of them try.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
    /// Notified when the gate opens, and when the next turn has changed.
    changed: Notify,
}

/// Names one of the reflectors of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReflectorId(pub(super) u64);

/// The state of a gate. It has no lock and no clock: its callers lock it, and pass the time.
#[derive(Debug, Default)]
struct GateState {
    is_closed: bool,
    /// When a request of any reflector last succeeded.
    last_success: Option<Instant>,
    /// The reflectors that wait, each with the time at which it would have tried alone.
    waiting: Vec<(ReflectorId, Instant)>,
    /// When the next one tries; `None` if none has asked since the last turn.
    next_turn: Option<Instant>,
    /// Whose request failed last since the last success.
    failed: Option<ReflectorId>,
    /// True if requests of several reflectors have failed since the last success.
    has_failed_several: bool,
    /// The same, when the gate last opened.
    had_failed_several: bool,
}

/// What a reflector does at a gate.
#[derive(Debug, PartialEq, Eq)]
enum Turn {
    /// It tries at this time.
    At(Instant),
    /// It waits, because another reflector tries before. That one has to look again if its turn comes earlier now.
    OfAnother { is_earlier: bool },
    /// It proceeds, because the gate is open.
    Over,
}

/// How long to wait before an attempt at a closed gate.
pub(crate) struct RetryDelays {
    /// The delay of the reflector that tries next.
    pub(crate) turn: Duration,
    /// The delay after another reflector has succeeded.
    pub(crate) after_success: Duration,
    /// The least delay, which the server asked for.
    pub(crate) least: Duration,
}

/// The turn of a reflector that waits at a gate. When it is dropped, another reflector has the next turn.
struct HeldTurn<'a> {
    gate: &'a Gate,
    id: ReflectorId,
}

/// A reflector that has had no turn for this long tries all the same: many others may fail for reasons of their own.
const LONGEST_CLOSED: Duration = Duration::from_secs(60);

impl Gate {
    /// Notes that a request of this reflector failed.
    pub(crate) fn close(&self, id: ReflectorId) {
        self.state.lock().close(id);
    }

    /// Notes that a request succeeded at the time `success`; `None` if only its response began. Then all can retry, but the response may still
    /// break, so it does not count as a success.
    pub(crate) fn open(&self, success: Option<Instant>) {
        if self.state.lock().open(success) {
            self.changed.notify_waiters();
        }
    }

    /// Returns true if a request has succeeded since the time `since`, and requests of several reflectors have not failed after that.
    pub(crate) fn is_open_for_others_since(&self, since: Instant) -> bool {
        self.state.lock().is_open_for_others_since(since)
    }

    /// Waits until it is this reflector's turn, or the gate opens.
    ///
    /// Cancel safe.
    pub(crate) async fn wait(&self, id: ReflectorId, delays: RetryDelays) {
        let begun = Instant::now();
        let (earliest, latest) = (begun + delays.least, begun + delays.least.max(LONGEST_CLOSED));
        let _turn = HeldTurn { gate: self, id };
        loop {
            let mut changed = pin!(self.changed.notified());
            changed.as_mut().enable();
            let now = Instant::now();
            let turn = self.state.lock().turn(id, now + delays.turn, earliest);
            let until = match turn {
                Turn::At(time) => time.min(latest),
                Turn::OfAnother { is_earlier } => {
                    if is_earlier {
                        self.changed.notify_waiters();
                    }
                    latest
                }
                Turn::Over => return sleep_until(earliest.max(now + delays.after_success)).await,
            };
            if until <= now {
                return;
            }
            // Looks again at the time of its turn: another reflector may have taken the turn before.
            select(pin!(sleep_until(until)), changed).await;
        }
    }
}

impl GateState {
    fn close(&mut self, id: ReflectorId) {
        self.has_failed_several |= self.failed.is_some_and(|failed| failed != id);
        (self.is_closed, self.failed) = (true, Some(id));
    }

    /// Returns true if the gate was closed. `success` is when a request succeeded; `None` if its response has only begun.
    fn open(&mut self, success: Option<Instant>) -> bool {
        let had_failed_several = std::mem::take(&mut self.has_failed_several);
        (self.failed, self.last_success) = (None, success.or(self.last_success));
        let was_closed = std::mem::take(&mut self.is_closed);
        if was_closed {
            self.had_failed_several = had_failed_several;
        }
        was_closed
    }

    fn is_open_for_others_since(&self, since: Instant) -> bool {
        !self.has_failed_several && self.last_success.is_some_and(|last| last > since)
    }

    /// Returns what a reflector does that could try at the time `own`, but not before `earliest`.
    fn turn(&mut self, id: ReflectorId, own: Instant, earliest: Instant) -> Turn {
        // If only its own requests fail, the success of another reflector changes nothing for it.
        if !self.is_closed && self.had_failed_several {
            return Turn::Over;
        }
        if self.waiting.iter().all(|(other, _)| *other != id) {
            self.waiting.push((id, own.max(earliest)));
        }
        let is_earlier = self.next_turn.is_none_or(|next| own < next);
        let next = *self.next_turn.insert(self.next_turn.map_or(own, |next| next.min(own)));
        match self.first() == Some(id) {
            true => Turn::At(next.max(earliest)),
            false => Turn::OfAnother { is_earlier },
        }
    }

    /// Returns who has the next turn.
    fn first(&self) -> Option<ReflectorId> {
        self.waiting.iter().min_by_key(|(_, own)| *own).map(|(id, _)| *id)
    }

    /// Notes that a reflector waits no more. Returns true if it had the next turn, so that another one has it now.
    fn leave(&mut self, id: ReflectorId) -> bool {
        let was_first = self.first() == Some(id);
        self.waiting.retain(|(other, _)| *other != id);
        if was_first {
            self.next_turn = None;
        }
        was_first
    }
}

impl Drop for HeldTurn<'_> {
    fn drop(&mut self) {
        if self.gate.state.lock().leave(self.id) {
            self.gate.changed.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    const FIRST: ReflectorId = ReflectorId(1);
    const OTHER: ReflectorId = ReflectorId(2);

    fn delays(turn: u32) -> RetryDelays {
        RetryDelays { turn: turn * SECOND, after_success: 2 * SECOND, least: Duration::ZERO }
    }

    #[tokio::test(start_paused = true)]
    async fn one_reflector_tries_and_the_others_follow_when_it_succeeds() {
        let (begun, gate) = (Instant::now(), Gate::default());
        gate.close(FIRST);
        gate.close(OTHER);
        let mut other = Box::pin(gate.wait(OTHER, delays(10)));

        gate.wait(FIRST, delays(1)).await;
        assert_eq!(begun.elapsed(), SECOND);
        assert!(other.as_mut().now_or_never().is_none());

        gate.open(Some(Instant::now()));
        other.await;
        assert_eq!(begun.elapsed(), 3 * SECOND, "two seconds after the first one succeeded");
    }

    #[tokio::test(start_paused = true)]
    async fn reflectors_whose_attempts_fail_or_hang_take_turns() {
        let (begun, gate) = (Instant::now(), Gate::default());
        let mut attempts = Vec::new();
        let tries = async |id: ReflectorId, hangs: Duration, attempts: &Mutex<Vec<(u64, u64)>>| {
            for _ in 0..3 {
                gate.close(id);
                gate.wait(id, delays(1)).await;
                attempts.lock().push((begun.elapsed().as_secs(), id.0));
                tokio::time::sleep(hangs).await;
            }
        };
        let shared = Mutex::new(std::mem::take(&mut attempts));
        tokio::join!(tries(FIRST, 20 * SECOND, &shared), tries(OTHER, SECOND / 2, &shared));

        let attempts = shared.into_inner();
        assert_eq!(attempts[..4], [(1, 1), (2, 2), (3, 2), (5, 2)], "one at a time, although the first one's hangs");
    }

    #[tokio::test(start_paused = true)]
    async fn reflectors_that_fail_again_and_again_with_short_delays_do_not_keep_the_turn_from_another() {
        let (begun, gate) = (Instant::now(), Gate::default());
        let fails = async |id: ReflectorId| {
            loop {
                gate.close(id);
                gate.wait(id, delays(4)).await;
            }
        };
        gate.close(OTHER);

        let tried = async {
            gate.wait(OTHER, delays(9)).await;
            begun.elapsed()
        };
        let tried = tokio::select! {
            () = fails(FIRST) => Duration::ZERO,
            () = fails(ReflectorId(3)) => Duration::ZERO,
            after = tried => after,
        };

        assert_eq!(tried, 16 * SECOND, "after those that would have tried before the ninth second");
    }

    #[tokio::test(start_paused = true)]
    async fn a_reflector_with_a_shorter_delay_tries_before_one_with_a_longer_delay() {
        let (begun, gate) = (Instant::now(), Gate::default());
        gate.close(FIRST);
        let mut slow = Box::pin(gate.wait(FIRST, delays(30)));
        assert!(slow.as_mut().now_or_never().is_none());
        gate.close(OTHER);

        gate.wait(OTHER, delays(1)).await;

        assert_eq!(begun.elapsed(), SECOND);
        slow.await;
        assert_eq!(begun.elapsed(), 31 * SECOND, "its delay after the turn of the other one");
    }

    #[tokio::test(start_paused = true)]
    async fn a_success_changes_nothing_for_a_reflector_if_only_its_own_requests_fail() {
        for (fails_several, seconds) in [(true, 3), (false, 20)] {
            let (begun, gate) = (Instant::now(), Gate::default());
            gate.close(FIRST);
            let mut first = Box::pin(gate.wait(FIRST, delays(20)));
            assert!(first.as_mut().now_or_never().is_none());
            if fails_several {
                gate.close(OTHER);
            }

            tokio::time::advance(SECOND).await;
            gate.open(Some(Instant::now()));
            gate.open(Some(Instant::now()));
            first.await;

            assert_eq!(begun.elapsed(), seconds * SECOND, "{fails_several}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_turn_of_a_reflector_that_stops_waiting_passes_to_another() {
        let (begun, gate) = (Instant::now(), Gate::default());
        gate.close(FIRST);
        gate.close(OTHER);
        let mut first = Box::pin(gate.wait(FIRST, delays(5)));
        assert!(first.as_mut().now_or_never().is_none());
        let mut other = Box::pin(gate.wait(OTHER, delays(7)));
        assert!(other.as_mut().now_or_never().is_none());

        drop(first);
        other.await;

        assert_eq!(begun.elapsed(), 7 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn no_reflector_tries_before_the_delay_that_the_server_asked_for() {
        let (begun, gate) = (Instant::now(), Gate::default());
        let patient = || RetryDelays { least: 10 * SECOND, ..delays(1) };
        gate.close(FIRST);
        gate.close(OTHER);

        gate.wait(FIRST, patient()).await;
        assert_eq!(begun.elapsed(), 10 * SECOND);
        let mut other = Box::pin(gate.wait(OTHER, patient()));
        assert!(other.as_mut().now_or_never().is_none());
        gate.open(Some(Instant::now()));
        other.await;
        assert_eq!(begun.elapsed(), 20 * SECOND, "although the first one succeeded at once");
    }

    #[test]
    fn a_failure_is_a_reflectors_own_only_if_another_one_succeeded_and_none_has_failed_since() {
        let begun = Instant::now();
        let at = |seconds: u32| begun + seconds * SECOND;
        let mut state = GateState::default();
        state.close(FIRST);
        assert!(!state.is_open_for_others_since(at(1)));

        state.open(Some(at(2)));
        state.close(FIRST);
        assert!(state.is_open_for_others_since(at(1)));
        state.close(OTHER);
        assert!(!state.is_open_for_others_since(at(1)), "another reflector failed after the success");
    }
}
