//! The state that an informer's task and its handles share.
//!
//! - **In:** the settings, a cache and a processor of events.
//! - **Out:** the cache, the listeners, the phase and the wake-ups of one informer, each behind its own lock or signal.
//! - **Knows nothing of:** the queue, and the type of the objects.

use std::{
    cell::RefCell,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Mutex, ReentrantMutex};
use tokio::sync::{Notify, SetOnce, watch};
use tracing::error;

use crate::{
    ResourceVersion,
    listwatch::{ListWatchError, ReflectorHandle, ReflectorStatus},
    metrics::InformerMetrics,
    object::Erased,
    panics,
    store::{Indexer, Lister},
    subscribers::{Caller, CloseReason, Listener, SharedProcessor, Workers, do_as},
};

/// The state of one informer that its handles, its task and its listeners' registrations share.
pub(super) struct Core {
    pub(super) name: Arc<str>,
    /// The cluster of the objects, if the source names it.
    pub(super) cluster: Option<Arc<str>>,
    /// The namespace of the objects, if the source is restricted to one.
    pub(super) namespace: Option<Arc<str>>,
    pub(super) indexer: Indexer<Erased>,
    pub(super) lister: Lister<Erased>,
    /// Held while a batch is applied to the cache and its events are distributed, and while a listener is added: so each listener
    /// receives every change exactly once.
    ///
    /// Index functions run while the lock is held. One that takes the lock again would wait for itself; the lock is reentrant, so the
    /// cell detects this and `with_apply_lock` returns [`InsideApplyLock`].
    apply_lock: ReentrantMutex<RefCell<SharedProcessor>>,
    /// Unique among all informers of the process.
    pub(super) id: u64,
    /// Listeners whose worker has not finished, including removed ones. Has its own lock: `status()` and `stop()` must not wait for `apply_lock`.
    listeners: Mutex<Vec<Arc<Listener>>>,
    /// The period at which the informer checks which listeners are due for a resync. Has its own lock, as `listeners`.
    check_period: Mutex<Option<Duration>>,
    pub(super) workers: Workers,
    pub(super) metrics: InformerMetrics,
    /// Set when the informer starts.
    pub(super) source: OnceLock<Source>,
    /// Set when the first list has been applied to the cache; an error if the informer stopped before.
    pub(super) sync: SetOnce<Result<(), Unsynced>>,
    /// The last list error that retrying cannot fix, while the reflector is in backoff. Read only if `fails_fast` is set.
    pub(super) permanent_failure: watch::Sender<Option<Arc<ListWatchError>>>,
    pub(super) fails_fast: bool,
    /// Notified after each cache write, and once when the informer stops.
    pub(super) cache_changed: Notify,
    /// Changes before and after each relist of a changed history is applied to the cache.
    pub(super) history_changes: AtomicU64,
    /// Set when the informer is asked to stop.
    pub(super) stop: SetOnce<()>,
    /// Set when the informer's task has ended.
    pub(super) stopped: SetOnce<()>,
    /// The reason why the informer stopped without being asked.
    pub(super) crash: OnceLock<Arc<str>>,
    /// True once no further write to the cache can happen.
    is_closed: AtomicBool,
}

/// The settings that do not change after the informer is built.
pub(super) struct Plan {
    pub(super) name: Arc<str>,
    pub(super) cluster: Option<Arc<str>>,
    pub(super) namespace: Option<Arc<str>>,
    pub(super) fails_fast: bool,
}

/// The informer stopped before it was synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unsynced;

/// The running reflector and its queue, as the status shows them.
pub(super) struct Source {
    pub(super) reflector: ReflectorHandle,
    pub(super) queued: Box<dyn Fn() -> usize + Send + Sync>,
}

/// The error of taking the lock `apply_lock` inside an index function, which runs while it is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InsideApplyLock;

impl Core {
    pub(super) fn new(plan: Plan, indexer: Indexer<Erased>, processor: SharedProcessor) -> Self {
        let Plan { name, cluster, namespace, fails_fast } = plan;
        Self {
            metrics: InformerMetrics::new(&name),
            name,
            cluster,
            namespace,
            fails_fast,
            permanent_failure: watch::Sender::new(None),
            lister: indexer.lister(),
            indexer,
            id: processor.id(),
            listeners: Mutex::default(),
            check_period: Mutex::new(processor.check_period()),
            apply_lock: ReentrantMutex::new(RefCell::new(processor)),
            workers: Workers::default(),
            source: OnceLock::new(),
            sync: SetOnce::new(),
            cache_changed: Notify::new(),
            history_changes: AtomicU64::new(0),
            stop: SetOnce::new(),
            stopped: SetOnce::new(),
            crash: OnceLock::new(),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Returns the caller under which the informer's own code runs.
    pub(super) fn caller(&self) -> Caller {
        Caller { informer: self.id, listener: None }
    }

    /// Runs `act` while the lock `apply_lock` is held.
    pub(super) fn with_apply_lock<R>(&self, act: impl FnOnce(&mut SharedProcessor) -> R) -> Result<R, InsideApplyLock> {
        let apply_lock = self.apply_lock.lock();
        let mut processor = apply_lock.try_borrow_mut().map_err(|_| InsideApplyLock)?;
        let result = do_as(self.caller(), || act(&mut processor));
        *self.check_period.lock() = processor.check_period();
        let removed = processor.take_removed();
        drop(processor);
        drop(apply_lock);
        removed.drop_catching(|panic| self.log_drop_panic(panic));
        Ok(result)
    }

    /// Drops values that hold users' code, one by one; a panic of a destructor is logged. Call it without a lock.
    pub(super) fn drop_catching_panics<T>(&self, values: impl IntoIterator<Item = T>) {
        for value in values {
            panics::drop_catching(value, |panic| self.log_drop_panic(panic));
        }
    }

    fn log_drop_panic(&self, panic: &str) {
        error!(informer = &*self.name, error = panic, "an object or a handler panicked when it was dropped");
    }

    pub(super) fn check_period(&self) -> Option<Duration> {
        *self.check_period.lock()
    }

    pub(super) fn register(&self, listener: Arc<Listener>) {
        self.listeners.lock().push(listener);
    }

    /// Returns the listeners whose worker has not finished.
    pub(super) fn listeners(&self) -> Vec<Arc<Listener>> {
        let mut listeners = self.listeners.lock();
        let ended: Vec<_> = listeners.extract_if(.., |listener| listener.has_ended()).collect();
        let left = listeners.clone();
        drop(listeners);
        self.drop_catching_panics(ended);
        left
    }

    /// Returns true if every listener's worker has finished.
    pub(super) fn all_listeners_finished(&self) -> bool {
        self.listeners.lock().iter().all(|listener| listener.has_ended())
    }

    /// Returns the name, with a number appended if another listener has it.
    pub(super) fn unique(&self, name: Arc<str>) -> Arc<str> {
        let listeners = self.listeners.lock();
        let is_taken =
            |name: &str| listeners.iter().any(|listener| **listener.name() == *name && !listener.is_closed());
        if !is_taken(&name) {
            return name;
        }
        let mut numbered = (2..).map(|number| format!("{name} ({number})"));
        numbered.find(|name| !is_taken(name)).map_or(name, Into::into)
    }

    /// Returns true once no further write to the cache can happen.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    pub(super) fn is_synced(&self) -> bool {
        self.sync.get() == Some(&Ok(()))
    }

    pub(super) fn source_status(&self) -> ReflectorStatus {
        self.source.get().map(|source| source.reflector.status()).unwrap_or_default()
    }

    /// Returns the time since the server last confirmed that the cache is current.
    pub(super) fn confirmed_age(&self) -> Option<Duration> {
        let confirmed = self.source.get()?.reflector.look(|status| status.confirmed)?;
        Some(confirmed.elapsed())
    }

    pub(super) fn queued(&self) -> usize {
        self.source.get().map_or(0, |source| (source.queued)())
    }

    /// Returns the version of the cache.
    pub(super) fn version(&self) -> Option<ResourceVersion> {
        self.lister.version()
    }

    /// Closes all listeners and the cache: no event is delivered and no write happens any more.
    pub(super) fn close(&self) {
        let listeners = self.with_apply_lock(SharedProcessor::close).unwrap_or_default();
        listeners.iter().for_each(|listener| listener.close(CloseReason::Stopped));
        self.drop_catching_panics(listeners);
        let _ = self.sync.set(Err(Unsynced));
        let was_closed = self.is_closed.swap(true, Ordering::AcqRel);
        self.indexer.stop();
        self.cache_changed.notify_waiters();
        // Only once: at a second call, another informer of the same name may be recording.
        if !was_closed {
            self.metrics.stopped();
        }
    }

    /// Called when the informer's task has ended.
    pub(super) fn end(&self) {
        self.close();
        let _ = self.stopped.set(());
        self.drop_catching_panics(self.listeners());
    }
}
