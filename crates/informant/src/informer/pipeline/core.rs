//! The state that an informer's task and its handles share.
//!
//! - **In:** the settings of a new informer.
//! - **Out:** the cache, the listeners, the [phase](super::phase) and the wake-ups of one informer, each behind its own lock or signal.
//! - **Knows nothing of:** the type of the objects.

use std::{
    cell::RefCell,
    pin::pin,
    sync::{Arc, OnceLock, atomic::AtomicU64},
    time::Duration,
};

use futures_util::future::{BoxFuture, Shared};
use parking_lot::{Mutex, ReentrantMutex};
use tokio::{sync::Notify, task::yield_now};

use super::{phase::Phase, run::Unstarted};
use crate::{
    ResourceVersion,
    listwatch::{Activity, KubeSelection, ListWatchError, ReflectorHandle, ReflectorStatus},
    metrics::InformerMetrics,
    object::{Erased, ObjectMemory},
    queue::DeltaFifo,
    store::{Lister, WRITES_INSIDE_INDEX_FUNCTION, Writer},
    subscribers::{CloseReason, Listener, SharedProcessor, WorkOwner, Workers, run_as_work_of},
};

/// The state of one informer that its handles, its task and its listeners' registrations share.
pub(crate) struct Core {
    pub(crate) name: Arc<str>,
    /// The cluster of the objects, if the source names it.
    pub(crate) cluster: Option<Arc<str>>,
    /// The namespace of the objects, if the source is restricted to one.
    pub(crate) namespace: Option<Arc<str>>,
    /// The objects that the source requests from an API server; `None` for a custom source.
    pub(crate) selection: Option<KubeSelection>,
    pub(crate) lister: Lister<Erased>,
    /// Counts the bytes of the objects and of the cache's tables.
    pub(crate) memory: Arc<ObjectMemory>,
    /// Held while a batch is applied to the cache and its events are distributed, and while a listener is added: so each listener
    /// receives every change exactly once.
    ///
    /// Index functions run while the lock is held. An index function that takes the lock again would wait for itself. So the lock is reentrant:
    /// the cell detects the second borrow, and `with_apply_lock` returns [`InsideApplyLock`].
    apply_lock: ReentrantMutex<RefCell<ApplyState>>,
    /// Unique among all informers of the process.
    pub(crate) id: u64,
    /// Listeners whose worker has not finished, including removed ones. Has its own lock: `status()` and `stop()` must not wait for `apply_lock`.
    listeners: Mutex<Vec<Arc<Listener>>>,
    /// The period at which the informer checks which listeners are due for a resync. Has its own lock, as `listeners`.
    check_period: Mutex<Option<Duration>>,
    pub(crate) workers: Workers,
    pub(crate) metrics: InformerMetrics,
    /// The phase of the informer. No other lock is taken while it is held, and no code of users runs.
    pub(crate) phase: Mutex<Phase>,
    /// Notified after each change of the phase except the start.
    phase_changed: Notify,
    /// Completes when the informer's task has ended; set when the phase becomes `Running`.
    pub(crate) task: OnceLock<Shared<BoxFuture<'static, ()>>>,
    /// Set by the start. It is not part of the phase, because it is read for each batch, without a lock, and the status shows it after the stop too.
    pub(crate) started: OnceLock<Started>,
    pub(crate) fails_fast: bool,
    /// Notified after each cache write, after each list error that retrying cannot fix, and once when the informer stops.
    pub(crate) cache_changed: Notify,
    /// Incremented before and after each relist of a changed history is applied to the cache.
    pub(crate) history_changes: AtomicU64,
    /// The number of audits that ended.
    pub(crate) audits: AtomicU64,
    /// The number of objects that audits found to be wrong in the cache.
    pub(crate) wrong_objects: AtomicU64,
}

/// What one thread at a time may change.
pub(crate) struct ApplyState {
    pub(crate) writer: Writer,
    pub(crate) processor: SharedProcessor,
}

/// The reflector and its queue, which the start creates.
pub(crate) struct Started {
    pub(crate) reflector: ReflectorHandle,
    pub(crate) queue: DeltaFifo<Erased>,
}

/// The error of taking the lock `apply_lock` inside an index function, which runs while it is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InsideApplyLock;

impl Core {
    pub(crate) fn new(
        name: Arc<str>,
        settings: Unstarted,
        memory: Arc<ObjectMemory>,
        resync: Option<Duration>,
        fails_fast: bool,
    ) -> Self {
        let writer = Writer::counted_in(Some(Arc::clone(&memory)), Arc::clone(&name));
        let processor = SharedProcessor::new(resync);
        writer.lister::<Erased>().set_synced(false);
        Self {
            metrics: InformerMetrics::new(&name),
            name,
            cluster: settings.reflector.source.cluster(),
            namespace: settings.reflector.source.namespace(),
            selection: settings.reflector.selection.clone(),
            lister: writer.lister(),
            memory,
            id: processor.id(),
            listeners: Mutex::default(),
            check_period: Mutex::new(processor.check_period()),
            apply_lock: ReentrantMutex::new(RefCell::new(ApplyState { writer, processor })),
            workers: Workers::default(),
            phase: Mutex::new(Phase::New(Box::new(settings))),
            phase_changed: Notify::new(),
            task: OnceLock::new(),
            started: OnceLock::new(),
            fails_fast,
            cache_changed: Notify::new(),
            history_changes: AtomicU64::new(0),
            audits: AtomicU64::new(0),
            wrong_objects: AtomicU64::new(0),
        }
    }

    /// Returns the owner of the informer's own work: index functions and callbacks of its reflector.
    pub(crate) fn work_owner(&self) -> WorkOwner {
        WorkOwner { informer: self.id, listener: None }
    }

    /// Runs `act` while the lock `apply_lock` is held.
    pub(crate) fn with_apply_lock<R>(&self, act: impl FnOnce(&mut ApplyState) -> R) -> Result<R, InsideApplyLock> {
        let apply_lock = self.apply_lock.lock();
        let mut state = apply_lock.try_borrow_mut().map_err(|_| InsideApplyLock)?;
        let result = run_as_work_of(self.work_owner(), || act(&mut state));
        let removed = state.processor.take_removed();
        drop(state);
        drop(apply_lock);
        drop(removed);
        Ok(result)
    }

    /// Adds indexes.
    pub(crate) fn with_writer<R>(&self, add: impl FnOnce(&mut Writer) -> R) -> R {
        let added = self.with_apply_lock(|state| add(&mut state.writer));
        added.unwrap_or_else(|InsideApplyLock| panic!("{WRITES_INSIDE_INDEX_FUNCTION}"))
    }

    pub(crate) fn check_period(&self) -> Option<Duration> {
        *self.check_period.lock()
    }

    /// Adds a listener, which `processor` has already, to the list.
    pub(crate) fn add_listener(&self, listener: Arc<Listener>, processor: &SharedProcessor) {
        self.listeners.lock().push(listener);
        *self.check_period.lock() = processor.check_period();
    }

    /// Returns the listeners whose worker has not finished. Removes the others from the list.
    pub(crate) fn listeners(&self) -> Vec<Arc<Listener>> {
        let mut listeners = self.listeners.lock();
        let ended: Vec<_> = listeners.extract_if(.., |listener| listener.has_ended()).collect();
        let left = listeners.clone();
        // A listener is dropped without the lock: it may hold users' code.
        drop(listeners);
        drop(ended);
        left
    }

    /// Returns true if every listener's worker has finished.
    pub(crate) fn all_listeners_finished(&self) -> bool {
        self.listeners.lock().iter().all(|listener| listener.has_ended())
    }

    /// Returns the name, with a number appended if another listener has it.
    pub(crate) fn unique_name(&self, name: Arc<str>) -> Arc<str> {
        let listeners = self.listeners.lock();
        let is_taken =
            |name: &str| listeners.iter().any(|listener| **listener.name() == *name && !listener.is_closed());
        if !is_taken(&name) {
            return name;
        }
        let mut numbered = (2..).map(|number| format!("{name} ({number})"));
        numbered.find(|name| !is_taken(name)).map_or(name, Into::into)
    }

    /// Whether the first list has been applied to the cache. Stays true after the stop.
    pub(crate) fn is_synced(&self) -> bool {
        self.lister.is_synced()
    }

    /// Returns the list error that retrying cannot fix, while the reflector is in backoff because of it; `None` if the informer has stopped.
    pub(crate) fn permanent_failure(&self) -> Option<Arc<ListWatchError>> {
        let started = self.started.get().filter(|_| !self.phase.lock().is_closed())?;
        started.reflector.with_status(|status| {
            // In any other activity a new attempt is in progress, so the last error may not apply any more.
            let Activity::BackingOff { because, .. } = &status.activity else { return None };
            (!because.is_transient()).then(|| Arc::clone(because))
        })
    }

    /// Waits until the first list has been applied to the cache, or failed with an error that retrying cannot fix if `fails_fast`; `None` if the
    /// informer stops first.
    pub(crate) async fn first_list(&self, fails_fast: bool) -> Option<Result<(), Arc<ListWatchError>>> {
        // Once the informer is synced, earlier failures do not matter.
        let ended = self.wait_for_cache(|| match self.is_synced() {
            true => Some(Ok(())),
            false => self.permanent_failure().filter(|_| fails_fast).map(Err),
        });
        let ended = ended.await;
        if matches!(ended, Some(Err(_))) {
            // A task that calls this in a loop must not keep the informer from working.
            yield_now().await;
        }
        ended
    }

    pub(crate) fn source_status(&self) -> ReflectorStatus {
        self.started.get().map(|started| started.reflector.status()).unwrap_or_default()
    }

    /// Returns the time since the server last confirmed that the cache is current.
    pub(crate) fn confirmed_age(&self) -> Option<Duration> {
        let confirmed = self.started.get()?.reflector.with_status(|status| status.confirmed)?;
        Some(confirmed.elapsed())
    }

    /// Returns the version of the cache.
    pub(crate) fn version(&self) -> Option<ResourceVersion> {
        self.lister.version()
    }

    /// Asks the informer to stop, without waiting.
    pub(crate) fn ask_to_stop(&self) {
        let unstarted = self.phase.lock().ask_to_stop();
        self.phase_changed.notify_waiters();
        // An informer that never started has no task that would end it.
        if unstarted.is_some() {
            self.end();
        }
    }

    /// Stops the informer because of an error, unless it is stopping already.
    pub(crate) fn crash(&self, cause: &str) {
        self.phase.lock().crash(cause.into());
        self.phase_changed.notify_waiters();
    }

    /// Closes all listeners and the cache: no event is delivered and no write happens any more. The informer is stopping.
    pub(crate) fn close(&self) {
        let listeners = self.with_apply_lock(|state| state.processor.close()).unwrap_or_default();
        listeners.iter().for_each(|listener| listener.close(CloseReason::Stopped));
        let was_open = self.phase.lock().close();
        self.lister.stop();
        self.cache_changed.notify_waiters();
        // Reset only once: at a second call, another informer of the same name may be recording its metrics.
        if was_open {
            self.metrics.reset();
        }
    }

    /// Called when the informer's task has ended.
    pub(crate) fn end(&self) {
        self.close();
        self.phase.lock().end();
        self.phase_changed.notify_waiters();
        drop(self.listeners());
    }

    /// Waits until the informer is in one of the phases that `is_reached` accepts.
    pub(crate) async fn wait_for_phase(&self, is_reached: impl Fn(&Phase) -> bool) {
        wait_until(&self.phase_changed, || is_reached(&self.phase.lock()).then_some(())).await;
    }

    /// Calls `look` now and after each change of the cache, until it returns a value; `None` if the informer stops first.
    pub(crate) async fn wait_for_cache<R>(&self, mut look: impl FnMut() -> Option<R>) -> Option<R> {
        wait_until(&self.cache_changed, || {
            // Read before `look` is called, so that `look` sees the last write.
            let is_closed = self.phase.lock().is_closed();
            let found = look();
            (found.is_some() || is_closed).then_some(found)
        })
        .await
    }
}

/// Calls `look` now and after each notification, until it returns a value.
async fn wait_until<R>(changed: &Notify, mut look: impl FnMut() -> Option<R>) -> R {
    loop {
        let mut notified = pin!(changed.notified());
        // Enabled before `look` is called, so that a notification after it wakes this task.
        notified.as_mut().enable();
        if let Some(found) = look() {
            return found;
        }
        notified.await;
    }
}
