//! Lets one reflector retry a request that fails for several of them.
//!
//! - **In:** the failures and successes of the reflectors' requests.
//! - **Out:** when each reflector may retry.
//! - **Knows nothing of:** the requests, and why they fail.

use std::{sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// A gate is closed while requests fail. One reflector, the prober, retries; the others wait until a request succeeds.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<GateState>,
    /// Notified when the gate opens, and when the prober is dropped.
    changed: Notify,
}

/// The state of a gate. It has no lock and no clock: its callers lock it, and pass the time.
#[derive(Debug, Default)]
struct GateState {
    /// `None` while the gate is open.
    closed_since: Option<Instant>,
    /// When a request of any reflector last succeeded.
    last_success: Option<Instant>,
    has_prober: bool,
    /// True if requests of several reflectors have failed since the last success.
    has_failed_several: bool,
    /// The same, when the gate last opened.
    had_failed_several: bool,
}

/// What a reflector does at a gate.
#[derive(Debug, PartialEq, Eq)]
enum Role {
    /// It retries soon.
    Probe,
    /// It waits until the prober succeeds.
    Wait,
    /// The gate is open.
    Proceed,
}

/// The role of the one reflector that retries. When it is dropped, another reflector takes the role.
#[derive(Debug)]
pub(crate) struct Prober {
    gate: Arc<Gate>,
}

/// How long to wait before an attempt at a closed gate.
pub(crate) struct RetryDelays {
    /// The delay of the prober.
    pub(crate) probe: Duration,
    /// The delay of all other reflectors, if the prober does not succeed before.
    pub(crate) other: Duration,
    /// The delay of all other reflectors after the prober has succeeded.
    pub(crate) after_success: Duration,
    /// The least delay, which the server asked for.
    pub(crate) least: Duration,
}

impl Gate {
    /// Notes that a request failed, of the reflector that has this role. Returns how long the gate has been closed.
    pub(crate) fn close(self: &Arc<Self>, now: Instant, prober: &mut Option<Prober>) -> Duration {
        // A reflector waits at one gate at a time.
        prober.take_if(|prober| !prober.is_at(self));
        self.state.lock().close(now, prober.is_some())
    }

    /// Notes that a request succeeded.
    pub(crate) fn open(self: &Arc<Self>, now: Instant, prober: &mut Option<Prober>) {
        self.open_after(Some(now), prober);
    }

    /// Notes that the response to a request began. The others can retry, but the response may still break, so it does not count as a success.
    pub(crate) fn open_for_others(self: &Arc<Self>, prober: &mut Option<Prober>) {
        self.open_after(None, prober);
    }

    fn open_after(self: &Arc<Self>, success: Option<Instant>, prober: &mut Option<Prober>) {
        let was_closed = self.state.lock().open(success);
        prober.take_if(|prober| prober.is_at(self));
        if was_closed {
            self.changed.notify_waiters();
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state.lock().closed_since.is_none()
    }

    /// Returns true if a request has succeeded since the time `since`, and requests of several reflectors have not failed after that.
    pub(crate) fn is_open_for_others_since(&self, since: Instant) -> bool {
        self.state.lock().is_open_for_others_since(since)
    }

    /// Waits before the next attempt: the prober waits a short time, the others wait until the prober succeeds.
    ///
    /// Cancel safe.
    pub(crate) async fn wait(self: &Arc<Self>, prober: &mut Option<Prober>, waits: RetryDelays) {
        let now = Instant::now();
        let (deadline, earliest) = (now + waits.other.max(waits.least), now + waits.least);
        let mut probe_at = None;
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            let role = self.state.lock().role(prober.is_some());
            let until = match role {
                Role::Probe => {
                    prober.get_or_insert_with(|| Prober { gate: Arc::clone(self) });
                    *probe_at.get_or_insert_with(|| Instant::now() + waits.probe.max(waits.least))
                }
                Role::Proceed => return sleep_until(earliest.max(Instant::now() + waits.after_success)).await,
                Role::Wait => deadline,
            };
            match select(std::pin::pin!(sleep_until(until)), changed).await {
                Either::Left(_) => return,
                Either::Right(_) => {}
            }
        }
    }
}

impl GateState {
    fn close(&mut self, now: Instant, is_prober: bool) -> Duration {
        self.has_failed_several |= self.has_prober && !is_prober;
        now - *self.closed_since.get_or_insert(now)
    }

    /// Returns true if the gate was closed. `success` is when a request succeeded; `None` if its response has only begun.
    fn open(&mut self, success: Option<Instant>) -> bool {
        let had_failed_several = std::mem::take(&mut self.has_failed_several);
        self.last_success = success.or(self.last_success);
        let was_closed = self.closed_since.take().is_some();
        if was_closed {
            self.had_failed_several = had_failed_several;
        }
        was_closed
    }

    fn is_open_for_others_since(&self, since: Instant) -> bool {
        !self.has_failed_several && self.last_success.is_some_and(|last| last > since)
    }

    fn role(&mut self, is_prober: bool) -> Role {
        match (self.closed_since, is_prober || !self.has_prober) {
            // Only its own requests fail, so the success of another one changes nothing for it.
            (None, true) if is_prober && !self.had_failed_several => Role::Probe,
            (None, _) => Role::Proceed,
            (Some(_), true) => {
                self.has_prober = true;
                Role::Probe
            }
            (Some(_), false) => Role::Wait,
        }
    }
}

impl Prober {
    /// Returns true if it retries at this gate.
    pub(crate) fn is_at(&self, gate: &Arc<Gate>) -> bool {
        Arc::ptr_eq(&self.gate, gate)
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.gate.state.lock().has_prober = false;
        self.gate.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn waits() -> RetryDelays {
        RetryDelays { probe: SECOND, other: 30 * SECOND, after_success: 2 * SECOND, least: Duration::ZERO }
    }

    fn closed(now: Instant) -> Arc<Gate> {
        let gate = Arc::<Gate>::default();
        gate.close(now, &mut None);
        gate
    }

    #[tokio::test(start_paused = true)]
    async fn one_reflector_probes_and_the_others_follow_when_it_succeeds() {
        let begun = Instant::now();
        let gate = closed(begun);
        let (mut first, mut second) = (None, None);

        gate.wait(&mut first, waits()).await;
        assert_eq!(begun.elapsed(), SECOND);
        let mut other = Box::pin(gate.wait(&mut second, waits()));
        assert!(other.as_mut().now_or_never().is_none());
        tokio::time::advance(10 * SECOND).await;
        assert!(other.as_mut().now_or_never().is_none(), "it waits for the prober");

        gate.open(Instant::now(), &mut first);
        other.await;
        assert_eq!(begun.elapsed(), 13 * SECOND, "two seconds after the prober succeeded");
        assert!(first.is_none() && second.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_prober_follows_another_reflector_that_succeeds_unless_only_its_own_requests_fail() {
        for (fails_several, seconds) in [(true, 3), (false, 20)] {
            let begun = Instant::now();
            let gate = closed(begun);
            let late = || RetryDelays { probe: 20 * SECOND, ..waits() };
            let (mut first, mut second) = (None, None);
            let mut prober = Box::pin(gate.wait(&mut first, late()));
            assert!(prober.as_mut().now_or_never().is_none());
            if fails_several {
                gate.close(begun, &mut second);
            }

            tokio::time::advance(SECOND).await;
            gate.open(Instant::now(), &mut second);
            gate.open(Instant::now(), &mut second);
            prober.await;

            assert_eq!(begun.elapsed(), seconds * SECOND, "{fails_several}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn another_reflector_probes_when_the_first_one_is_gone() {
        let begun = Instant::now();
        let gate = closed(begun);
        let (mut first, mut second) = (None, None);
        gate.wait(&mut first, waits()).await;
        let mut other = Box::pin(gate.wait(&mut second, waits()));
        assert!(other.as_mut().now_or_never().is_none());

        drop(first);
        other.await;

        assert_eq!(begun.elapsed(), 2 * SECOND);
        assert!(second.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn other_reflectors_try_after_their_own_delay_if_the_prober_hangs() {
        let begun = Instant::now();
        let gate = closed(begun);
        let (mut first, mut second) = (None, None);
        gate.wait(&mut first, waits()).await;

        gate.wait(&mut second, waits()).await;

        assert_eq!(begun.elapsed(), 31 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn no_reflector_tries_before_the_delay_that_the_server_asked_for() {
        let begun = Instant::now();
        let gate = closed(begun);
        let patient = || RetryDelays { least: 10 * SECOND, ..waits() };
        let (mut first, mut second) = (None, None);

        gate.wait(&mut first, patient()).await;
        assert_eq!(begun.elapsed(), 10 * SECOND);
        let mut other = Box::pin(gate.wait(&mut second, patient()));
        assert!(other.as_mut().now_or_never().is_none());
        gate.open(Instant::now(), &mut first);
        other.await;
        assert_eq!(begun.elapsed(), 20 * SECOND, "although the prober succeeded at once");
    }

    #[test]
    fn a_failure_is_a_reflectors_own_only_if_another_one_succeeded_and_none_has_failed_since() {
        let begun = Instant::now();
        let at = |seconds: u32| begun + seconds * SECOND;
        let mut state = GateState::default();
        state.close(at(1), false);
        assert_eq!(state.role(false), Role::Probe);
        assert!(!state.is_open_for_others_since(at(1)));

        state.open(Some(at(2)));
        state.close(at(3), true);
        assert!(state.is_open_for_others_since(at(1)));
        state.close(at(4), false);
        assert!(!state.is_open_for_others_since(at(1)), "another reflector failed after the success");
    }
}
