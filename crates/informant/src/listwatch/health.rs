//! State that the reflectors of one client share about its server: whether it can be reached, and whether its history changed.
//!
//! - **In:** the outcome of each reflector's requests.
//! - **Out:** when each reflector may retry.
//! - **Knows nothing of:** how lists, watches and checks are done.

use std::{fmt, sync::Arc, time::Duration};

use futures_util::future::{Either, select};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, Semaphore, SemaphorePermit, watch},
    time::{Instant, sleep, sleep_until, timeout},
};

/// State that the reflectors of one client share about its server. Cheap to clone; all clones share one state.
///
/// - While the server cannot be reached, one reflector retries about every second. When it succeeds, the others follow within two
///   seconds. At most four check the server's history and four list at a time; a reflector that has waited 5 s proceeds as well.
/// - When one reflector finds that the server's history changed, all of them list again.
///
/// All informers of a [factory](crate::SharedInformerFactory) share one `ServerHealth`. Without a factory, pass the same one to all informers that
/// share a client.
#[derive(Clone, Default)]
pub struct ServerHealth {
    shared: Arc<HealthState>,
}

struct HealthState {
    reachability: Mutex<Reachability>,
    /// Notified when the server can be reached again, and when the prober is dropped.
    changed: Notify,
    history_changes: watch::Sender<u64>,
    checks: Semaphore,
    lists: Semaphore,
}

/// Whether the server can be reached, and which reflector probes it. It has no lock and no clock: its callers lock it, and pass the time.
#[derive(Debug, Default)]
struct Reachability {
    /// `None` while the server can be reached.
    unreachable_since: Option<Instant>,
    /// When the server last answered a request of any reflector.
    last_answer: Option<Instant>,
    has_prober: bool,
    /// True if requests of several reflectors have not reached the server since its last answer.
    has_failed_several: bool,
}

/// What a reflector does while the server cannot be reached.
#[derive(Debug, PartialEq, Eq)]
enum Role {
    /// It retries soon.
    Probe,
    /// It waits until the prober succeeds.
    Wait,
    /// The server can be reached again.
    Proceed,
}

/// The role of the one reflector that retries. When it is dropped, another reflector takes the role.
pub(crate) struct Prober {
    shared: Arc<HealthState>,
}

/// How long to wait before an attempt on a server that cannot be reached.
pub(crate) struct RetryDelays {
    /// The delay of the prober.
    pub(crate) probe: Duration,
    /// The delay of all other reflectors, if the prober does not succeed before.
    pub(crate) other: Duration,
    /// The delay of all other reflectors after the prober has succeeded.
    pub(crate) spread: Duration,
}

/// How many reflectors check the history, or list after an outage, at the same time.
const AT_ONCE: usize = 4;

/// How long a reflector waits for a permit to check or to list. Four requests that hang must not block all reflectors.
const LONGEST_PERMIT_WAIT: Duration = Duration::from_secs(5);

impl ServerHealth {
    /// Creates the shared state for a server that counts as reachable.
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes that a request of the prober, or of another reflector, did not reach the server. Returns for how long no request has reached it.
    pub(crate) fn note_unreachable(&self, now: Instant, is_prober: bool) -> Duration {
        self.shared.reachability.lock().note_unreachable(now, is_prober)
    }

    /// Notes that the server answered.
    pub(crate) fn note_reachable(&self, now: Instant) {
        let was_unreachable = {
            let mut reachability = self.shared.reachability.lock();
            (reachability.last_answer, reachability.has_failed_several) = (Some(now), false);
            reachability.unreachable_since.take().is_some()
        };
        if was_unreachable {
            self.shared.changed.notify_waiters();
        }
    }

    /// Returns true if the server has answered another reflector since the time `since` and has not failed another one after that.
    pub(crate) fn answers_others_since(&self, since: Instant) -> bool {
        self.shared.reachability.lock().answers_others_since(since)
    }

    /// Waits until the next attempt on a server that could not be reached: the prober waits a short time, the others wait until the prober
    /// succeeds.
    ///
    /// Cancel safe.
    pub(crate) async fn wait(&self, prober: &mut Option<Prober>, waits: RetryDelays) {
        let deadline = Instant::now() + waits.other;
        loop {
            let mut changed = std::pin::pin!(self.shared.changed.notified());
            changed.as_mut().enable();
            let role = self.shared.reachability.lock().role(prober.is_some());
            match role {
                Role::Probe => {
                    prober.get_or_insert_with(|| Prober { shared: Arc::clone(&self.shared) });
                    return sleep(waits.probe).await;
                }
                Role::Proceed => return sleep(waits.spread).await,
                Role::Wait => match select(std::pin::pin!(sleep_until(deadline)), changed).await {
                    Either::Left(_) => return,
                    Either::Right(_) => {}
                },
            }
        }
    }

    /// Waits for one of four permits to check the history; `None` after five seconds.
    pub(crate) async fn check_permit(&self) -> Option<SemaphorePermit<'_>> {
        permit(&self.shared.checks).await
    }

    /// Waits for one of four permits to list on a server that is starting; `None` after five seconds, and at once if the server is not starting.
    pub(crate) async fn list_permit(&self, is_starting: bool) -> Option<SemaphorePermit<'_>> {
        match is_starting {
            true => permit(&self.shared.lists).await,
            false => None,
        }
    }

    /// Returns a receiver of the number of history changes.
    pub(crate) fn history_changes(&self) -> watch::Receiver<u64> {
        self.shared.history_changes.subscribe()
    }

    /// Notes a history change that a reflector found. `seen` is the number of changes that the reflector knew of: if the count is
    /// higher by now, another reflector has found the same change. Returns the number of changes.
    pub(crate) fn note_history_change(&self, seen: u64) -> u64 {
        let mut count = seen;
        self.shared.history_changes.send_if_modified(|changes| {
            let is_new = *changes == seen;
            *changes += u64::from(is_new);
            count = *changes;
            is_new
        });
        count
    }
}

async fn permit(permits: &Semaphore) -> Option<SemaphorePermit<'_>> {
    timeout(LONGEST_PERMIT_WAIT, permits.acquire()).await.ok()?.ok()
}

impl Reachability {
    fn note_unreachable(&mut self, now: Instant, is_prober: bool) -> Duration {
        self.has_failed_several |= self.has_prober && !is_prober;
        now - *self.unreachable_since.get_or_insert(now)
    }

    fn answers_others_since(&self, since: Instant) -> bool {
        !self.has_failed_several && self.last_answer.is_some_and(|last| last > since)
    }

    fn role(&mut self, is_prober: bool) -> Role {
        match (self.unreachable_since, is_prober || !self.has_prober) {
            (None, _) => Role::Proceed,
            (Some(_), true) => {
                self.has_prober = true;
                Role::Probe
            }
            (Some(_), false) => Role::Wait,
        }
    }
}

impl Default for HealthState {
    fn default() -> Self {
        Self {
            reachability: Mutex::default(),
            changed: Notify::new(),
            history_changes: watch::Sender::new(0),
            checks: Semaphore::new(AT_ONCE),
            lists: Semaphore::new(AT_ONCE),
        }
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        self.shared.reachability.lock().has_prober = false;
        self.shared.changed.notify_waiters();
    }
}

impl fmt::Debug for ServerHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let reachability = self.shared.reachability.lock();
        f.debug_struct("ServerHealth")
            .field("is_reachable", &reachability.unreachable_since.is_none())
            .field("history_changes", &*self.shared.history_changes.borrow())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn waits() -> RetryDelays {
        RetryDelays { probe: SECOND, other: 30 * SECOND, spread: 2 * SECOND }
    }

    #[tokio::test(start_paused = true)]
    async fn one_reflector_probes_and_the_others_follow_when_it_succeeds() {
        let health = ServerHealth::new();
        let begun = Instant::now();
        health.note_unreachable(begun, false);
        let (mut first, mut second) = (None, None);

        health.wait(&mut first, waits()).await;
        assert_eq!(begun.elapsed(), SECOND);
        let mut other = Box::pin(health.wait(&mut second, waits()));
        assert!(other.as_mut().now_or_never().is_none());
        tokio::time::advance(10 * SECOND).await;
        assert!(other.as_mut().now_or_never().is_none(), "it waits for the prober");

        health.note_reachable(Instant::now());
        drop(first.take());
        other.await;
        assert_eq!(begun.elapsed(), 13 * SECOND, "two seconds after the prober succeeded");
        assert!(second.is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn another_reflector_probes_when_the_first_one_is_gone() {
        let health = ServerHealth::new();
        let begun = Instant::now();
        health.note_unreachable(begun, false);
        let (mut first, mut second) = (None, None);
        health.wait(&mut first, waits()).await;
        let mut other = Box::pin(health.wait(&mut second, waits()));
        assert!(other.as_mut().now_or_never().is_none());

        drop(first);
        other.await;

        assert_eq!(begun.elapsed(), 2 * SECOND);
        assert!(second.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn other_reflectors_try_after_their_own_delay_if_the_prober_hangs() {
        let health = ServerHealth::new();
        let begun = Instant::now();
        health.note_unreachable(begun, false);
        let (mut first, mut second) = (None, None);
        health.wait(&mut first, waits()).await;

        health.wait(&mut second, waits()).await;

        assert_eq!(begun.elapsed(), 31 * SECOND);
    }

    #[test]
    fn a_history_change_that_two_reflectors_find_is_counted_once() {
        let health = ServerHealth::new();
        assert_eq!((health.note_history_change(0), health.note_history_change(0)), (1, 1));
        assert_eq!(health.note_history_change(1), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn four_lists_run_at_once_after_an_outage_and_any_number_at_other_times() {
        let health = ServerHealth::new();
        assert!(health.list_permit(false).await.is_none(), "no permit is needed");

        let mut permits = Vec::new();
        for _ in 0..4 {
            permits.push(health.list_permit(true).await.expect("a permit is free"));
        }
        let mut fifth = std::pin::pin!(health.list_permit(true));
        assert!(fifth.as_mut().now_or_never().is_none());
        permits.pop();
        assert!(fifth.await.is_some());
    }
}
