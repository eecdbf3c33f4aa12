//! The state that an informer's task and its handles share.
//!
//! - **In:** the settings, a cache and a processor of events.
//! - **Out:** the cache, the listeners, the phase and the wake-ups of one informer, each behind its own lock or signal.
//! - **Knows nothing of:** the queue, and the type of the objects.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering;
use std::time::Duration;

use parking_lot::Mutex;
use parking_lot::ReentrantMutex;
use tokio::sync::Notify;
use tokio::sync::SetOnce;
use tokio::sync::watch;
use tracing::error;

use crate::ResourceVersion;
use crate::listwatch::ListWatchError;
use crate::listwatch::ReflectorHandle;
use crate::listwatch::ReflectorStatus;
use crate::metrics::InformerMetrics;
use crate::object::Erased;
use crate::panics;
use crate::store::Indexer;
use crate::store::Lister;
use crate::subscribers::Caller;
use crate::subscribers::Ended;
use crate::subscribers::Leftovers;
use crate::subscribers::Listener;
use crate::subscribers::SharedProcessor;
use crate::subscribers::Workers;
use crate::subscribers::do_as;

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
    /// cell detects this and `in_turn` returns [`InsideTurn`].
    turn: ReentrantMutex<RefCell<SharedProcessor>>,
    /// Unique among all informers of the process.
    pub(super) id: u64,
    /// Listeners whose worker has not finished, including removed ones. Has its own lock: `status()` and `stop()` must not wait for `turn`.
    roster: Mutex<Vec<Arc<Listener>>>,
    /// The period at which the informer checks which listeners are due for a resync. Has its own lock, as `roster`.
    check_period: Mutex<Option<Duration>>,
    pub(super) workers: Workers,
    pub(super) metrics: InformerMetrics,
    /// Set when the informer starts.
    pub(super) source: OnceLock<Source>,
    /// Set when the first list has been applied to the cache; an error if the informer stopped before.
    pub(super) sync: SetOnce<Result<(), Unsynced>>,
    /// The last list error that retrying cannot fix, while the reflector is in backoff. Read only if `fails_fast` is set.
    pub(super) hopeless: watch::Sender<Option<Arc<ListWatchError>>>,
    pub(super) fails_fast: bool,
    /// Notified after each cache write, and once when the informer stops.
    pub(super) moved: Notify,
    /// The number of relists after a history change that have been applied to the cache.
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

/// The error of taking the lock `turn` inside an index function, which runs while it is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InsideTurn;

impl Core {
    pub(super) fn new(plan: Plan, indexer: Indexer<Erased>, processor: SharedProcessor) -> Self {
        let Plan { name, cluster, namespace, fails_fast } = plan;
        Self {
            metrics: InformerMetrics::new(&name),
            name,
            cluster,
            namespace,
            fails_fast,
            hopeless: watch::Sender::new(None),
            lister: indexer.lister(),
            indexer,
            id: processor.id(),
            roster: Mutex::default(),
            check_period: Mutex::new(processor.check_period()),
            turn: ReentrantMutex::new(RefCell::new(processor)),
            workers: Workers::default(),
            source: OnceLock::new(),
            sync: SetOnce::new(),
            moved: Notify::new(),
            history_changes: AtomicU64::new(0),
            stop: SetOnce::new(),
            stopped: SetOnce::new(),
            crash: OnceLock::new(),
            is_closed: AtomicBool::new(false),
        }
    }

    /// The caller under which the informer's own code runs.
    pub(super) fn caller(&self) -> Caller {
        Caller { informer: self.id, listener: None }
    }

    /// Runs `act` while the lock `turn` is held.
    pub(super) fn in_turn<R>(&self, act: impl FnOnce(&mut SharedProcessor) -> R) -> Result<R, InsideTurn> {
        let turn = self.turn.lock();
        let mut processor = turn.try_borrow_mut().map_err(|_| InsideTurn)?;
        let result = do_as(self.caller(), || act(&mut processor));
        *self.check_period.lock() = processor.check_period();
        let Leftovers { listeners, events } = processor.take_leftovers();
        drop(processor);
        drop(turn);
        self.let_go(listeners);
        self.let_go(events);
        Ok(result)
    }

    /// Drops values that hold users' code, one by one; a panic of a destructor is logged. Call it without a lock.
    pub(super) fn let_go<T>(&self, values: impl IntoIterator<Item = T>) {
        for value in values {
            panics::drop_catching(value, |panic| {
                error!(informer = &*self.name, error = panic, "an object or a handler panicked when it was dropped");
            });
        }
    }

    pub(super) fn check_period(&self) -> Option<Duration> {
        *self.check_period.lock()
    }

    pub(super) fn enlist(&self, listener: Arc<Listener>) {
        self.roster.lock().push(listener);
    }

    /// The listeners whose worker has not finished.
    pub(super) fn roster(&self) -> Vec<Arc<Listener>> {
        let mut roster = self.roster.lock();
        let ended: Vec<_> = roster.extract_if(.., |listener| listener.has_ended()).collect();
        let left = roster.clone();
        drop(roster);
        self.let_go(ended);
        left
    }

    /// Returns true if every listener's worker has finished.
    pub(super) fn is_deserted(&self) -> bool {
        self.roster.lock().iter().all(|listener| listener.has_ended())
    }

    /// Returns the name, with a number appended if another listener has it.
    pub(super) fn unique(&self, name: Arc<str>) -> Arc<str> {
        let roster = self.roster.lock();
        let is_taken = |name: &str| roster.iter().any(|listener| **listener.name() == *name && !listener.is_closed());
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

    /// The time since the server last confirmed that the cache is current.
    pub(super) fn confirmed_age(&self) -> Option<Duration> {
        let confirmed = self.source.get()?.reflector.look(|status| status.confirmed)?;
        Some(confirmed.elapsed())
    }

    pub(super) fn queued(&self) -> usize {
        self.source.get().map_or(0, |source| (source.queued)())
    }

    /// The version of the cache.
    pub(super) fn version(&self) -> Option<ResourceVersion> {
        self.lister.version()
    }

    /// Closes all listeners and the cache: no event is delivered and no write happens any more.
    pub(super) fn close(&self) {
        let listeners = self.in_turn(SharedProcessor::close).unwrap_or_default();
        listeners.iter().for_each(|listener| listener.close(Ended::Stopped));
        self.let_go(listeners);
        let _ = self.sync.set(Err(Unsynced));
        let was_closed = self.is_closed.swap(true, Ordering::AcqRel);
        self.indexer.stop();
        self.moved.notify_waiters();
        // Only once: at a second call, another informer of the same name may be recording.
        if !was_closed {
            self.metrics.stopped();
        }
    }

    /// Called when the informer's task has ended.
    pub(super) fn end(&self) {
        self.close();
        let _ = self.stopped.set(());
        self.let_go(self.roster());
    }
}
