//! State that the reflectors of one client share about its server: whether it answers or is silent, and whether its history changed.
//!
//! - **In:** the outcome of each reflector's requests.
//! - **Out:** when each reflector may retry ([`gate`]); what is known of the server's history ([`storage`]); whether lists can be streamed
//!   ([`streaming`]); permits to list and to audit.
//! - **Knows nothing of:** how lists, watches and checks are done.

mod gate;
mod storage;
mod streaming;

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use derive_where::derive_where;
use hashbrown::HashMap;
use kube::core::TypeMeta;
use parking_lot::Mutex;
use tokio::{
    sync::{MutexGuard, OwnedSemaphorePermit, Semaphore, watch},
    time::{Instant, timeout},
};

pub(crate) use self::{
    gate::{Gate, ReflectorId, RetryDelays},
    storage::{Storage, covers},
    streaming::StreamingSupport,
};
use super::any_source::DynSource;

/// State that the reflectors of one client share about its server. Cheap to clone; all clones share one state.
///
/// - While the server cannot be reached or answers every request with an error, the reflectors take turns: one of them retries about every second.
///   When it succeeds, the others follow within two seconds. At most four list at a time after an outage; a reflector that has waited 5 s proceeds as well.
/// - After an outage, one reflector checks the server's history for all kinds that the server keeps in the same storage.
/// - When one reflector finds that the server's history changed, all of them list again.
///
/// All informers of a [factory](crate::SharedInformerFactory) share one `ServerHealth`. Without a factory, pass the same one to all informers that
/// share a client.
#[derive(Clone)]
#[derive_where(Debug)]
pub struct ServerHealth {
    #[derive_where(skip(Debug))]
    shared: Arc<HealthState>,
    #[derive_where(skip(Debug))]
    lists: Arc<Semaphore>,
    /// When the health was created, from which the times of the shared state count, in milliseconds.
    created: Instant,
}

#[derive(Default)]
struct HealthState {
    /// Closed while requests do not reach the server.
    reach: Gate,
    /// Closed while the server refuses all requests of the client (401, 429).
    acceptance: Gate,
    storages: Mutex<HashMap<String, Arc<Storage>>>,
    /// Whether the lists of each kind can be streamed.
    streaming: Mutex<HashMap<TypeMeta, StreamingSupport>>,
    /// The number of reflectors so far.
    reflectors: AtomicU64,
    /// The sources of the client's reflectors, with their kinds. Those of a kind that did not answer a question are the last.
    sources: Mutex<Vec<(TypeMeta, Weak<dyn DynSource>)>>,
    history_changes: watch::Sender<u64>,
    /// When the history last changed.
    last_history_change: Mutex<Option<Instant>>,
    /// Permits one audit at a time.
    audits: tokio::sync::Mutex<()>,
    /// When a watch of any reflector last received a byte, or the server answered a question.
    last_byte: AtomicU64,
    /// When a reflector last asked for the server's version because no watch received a byte, or a request got no response.
    last_question: AtomicU64,
    /// True if the last such question was not answered.
    is_silent: AtomicBool,
    /// When such a question last got no answer.
    last_unanswered: AtomicU64,
}

/// How many reflectors list after an outage at the same time.
const AT_ONCE: usize = 4;

/// How often the reflectors of a client ask for the server's version, because none of their watches receives a byte, or a request gets no response.
const QUESTION_EVERY: Duration = Duration::from_secs(3);

/// For this long after a history change, the history is checked before every watch: another server behind the same address may still have the
/// old one.
pub(crate) const SUSPICIOUS: Duration = Duration::from_secs(600);

/// How long a reflector waits for a permit to list. Four requests that hang must not block all reflectors.
const LONGEST_PERMIT_WAIT: Duration = Duration::from_secs(5);

impl ServerHealth {
    /// Creates the shared state for a server that counts as reachable.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the gate that is closed while requests do not reach the server.
    pub(crate) fn reach(&self) -> &Gate {
        &self.shared.reach
    }

    /// Returns the gate that is closed while the server refuses all requests of the client.
    pub(crate) fn acceptance(&self) -> &Gate {
        &self.shared.acceptance
    }

    /// Returns the state of a storage.
    pub(crate) fn storage(&self, name: &str) -> Arc<Storage> {
        Arc::clone(self.shared.storages.lock().entry_ref(name).or_default())
    }

    /// Returns whether the lists of a kind can be streamed. Sources that declare no kind share nothing.
    pub(crate) fn streaming_support(&self, kind: &TypeMeta) -> StreamingSupport {
        match *kind == TypeMeta::default() {
            true => StreamingSupport::default(),
            false => self.shared.streaming.lock().entry_ref(kind).or_default().clone(),
        }
    }

    /// Adds a reflector, with its source, which has this kind. Returns the reflector's name at the gates.
    pub(crate) fn add_reflector(&self, source: &Arc<dyn DynSource>, kind: TypeMeta) -> ReflectorId {
        let mut sources = self.shared.sources.lock();
        sources.retain(|(_, source)| source.strong_count() > 0);
        sources.push((kind, Arc::downgrade(source)));
        ReflectorId(self.shared.reflectors.fetch_add(1, Ordering::Relaxed))
    }

    /// Returns a source of another reflector, because this source does not answer a question: one of another kind if there is one, and preferably of
    /// a kind that has answered.
    pub(crate) fn another_source(&self, than: &Arc<dyn DynSource>) -> Option<Arc<dyn DynSource>> {
        self.move_to_end(than);
        let sources = self.shared.sources.lock();
        sources.iter().filter_map(|(_, source)| source.upgrade()).find(|source| !Arc::ptr_eq(source, than))
    }

    /// Makes the sources of this source's kind, and then this source, the last ones that are asked for others.
    pub(crate) fn move_to_end(&self, source: &Arc<dyn DynSource>) {
        let kind = source.types();
        let is_source = |other: &Weak<_>| std::ptr::addr_eq(other.as_ptr(), Arc::as_ptr(source));
        self.shared.sources.lock().sort_by_key(|(other_kind, other)| (*other_kind == kind, is_source(other)));
    }

    /// Notes that a watch received a byte, or that the server answered a question.
    pub(crate) fn note_byte(&self, now: Instant) {
        self.shared.is_silent.store(false, Ordering::Relaxed);
        self.shared.last_byte.fetch_max(self.millis(now), Ordering::Relaxed);
    }

    /// Returns when a watch of any reflector was opened or received a byte, or the server answered a question.
    pub(crate) fn last_byte(&self) -> Instant {
        self.created + Duration::from_millis(self.shared.last_byte.load(Ordering::Relaxed))
    }

    /// Notes whether the server answered a question.
    pub(crate) fn note_question(&self, is_answered: bool, now: Instant) {
        match is_answered {
            true => self.note_byte(now),
            false => {
                self.shared.is_silent.store(true, Ordering::Relaxed);
                self.shared.last_unanswered.store(self.millis(now), Ordering::Relaxed);
            }
        }
    }

    /// Returns true if a question has got no answer since the time `since`.
    pub(crate) fn has_been_silent_since(&self, since: Instant) -> bool {
        self.shared.last_unanswered.load(Ordering::Relaxed) > self.millis(since)
    }

    /// Returns true if the server did not answer the last question.
    pub(crate) fn is_silent(&self) -> bool {
        self.shared.is_silent.load(Ordering::Relaxed)
    }

    /// Returns true if the caller is to ask for the server's version for all, because no reflector has done so in the last three seconds. The call counts
    /// as the question.
    pub(crate) fn begin_question(&self, now: Instant) -> bool {
        let now = self.millis(now);
        let is_free = |last: u64| (last == 0 || now >= last + QUESTION_EVERY.as_millis() as u64).then_some(now.max(1));
        self.shared.last_question.fetch_update(Ordering::Relaxed, Ordering::Relaxed, is_free).is_ok()
    }

    fn millis(&self, now: Instant) -> u64 {
        now.saturating_duration_since(self.created).as_millis().try_into().unwrap_or(u64::MAX)
    }

    /// Waits for one of four permits to list on a server that is starting; `None` after five seconds, and at once if the server is not starting.
    pub(crate) async fn list_permit(&self, is_starting: bool) -> Option<OwnedSemaphorePermit> {
        match is_starting {
            true => timeout(LONGEST_PERMIT_WAIT, Arc::clone(&self.lists).acquire_owned()).await.ok()?.ok(),
            false => None,
        }
    }

    /// Waits until no other informer of the client is audited.
    pub(crate) async fn audit_permit(&self) -> MutexGuard<'_, ()> {
        self.shared.audits.lock().await
    }

    /// Returns the number of history changes.
    pub(crate) fn history_changes(&self) -> u64 {
        *self.shared.history_changes.borrow()
    }

    /// Completes when the number of history changes is not `seen`.
    pub(crate) async fn history_change_after(self, seen: u64) {
        // The channel cannot close: `self` holds its sender.
        let _ = self.shared.history_changes.subscribe().wait_for(|changes| *changes != seen).await;
    }

    /// Notes a history change that a reflector found. `seen` is the number of changes that the reflector knew of: if the count is
    /// higher by now, another reflector has found the same change. Returns the number of changes.
    pub(crate) fn note_history_change(&self, seen: u64, now: Instant) -> u64 {
        *self.shared.last_history_change.lock() = Some(now);
        let mut count = seen;
        self.shared.history_changes.send_if_modified(|changes| {
            let is_new = *changes == seen;
            *changes += u64::from(is_new);
            count = *changes;
            is_new
        });
        count
    }

    /// Returns true for ten minutes after a history change. Two servers behind one address may have different histories, so that what one reflector
    /// received proves nothing for another one.
    pub(crate) fn is_suspicious(&self, now: Instant) -> bool {
        self.shared.last_history_change.lock().is_some_and(|last| now - last < SUSPICIOUS)
    }
}

impl Default for ServerHealth {
    fn default() -> Self {
        Self { shared: Arc::default(), lists: Arc::new(Semaphore::new(AT_ONCE)), created: Instant::now() }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_history_change_that_two_reflectors_find_is_counted_once_and_makes_the_history_suspicious_for_ten_minutes() {
        let (health, now) = (ServerHealth::new(), Instant::now());
        assert!(!health.is_suspicious(now));
        assert_eq!((health.note_history_change(0, now), health.note_history_change(0, now)), (1, 1));
        assert_eq!(health.note_history_change(1, now), 2);
        let is_suspicious = |seconds| health.is_suspicious(now + Duration::from_secs(seconds));
        assert_eq!((is_suspicious(599), is_suspicious(600)), (true, false));
    }

    #[test]
    fn one_reflector_asks_for_all_once_in_three_seconds() {
        let health = ServerHealth::new();
        let asks = [1, 1, 3, 4, 5, 7].map(|second| health.begin_question(health.created + Duration::from_secs(second)));
        assert_eq!(asks, [true, false, false, true, false, true]);
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
