//! What a shared informer, its task and its handles share.

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
use crate::subscribers::Listener;
use crate::subscribers::SharedProcessor;
use crate::subscribers::Workers;
use crate::subscribers::do_as;

/// One informer without its handle: what lives as long as anybody needs it.
pub(super) struct Core {
    pub(super) name: Arc<str>,
    /// The cluster of its objects.
    pub(super) cluster: Option<Arc<str>>,
    /// The namespace of its objects, if it has only one.
    pub(super) namespace: Option<Arc<str>>,
    pub(super) indexer: Indexer<Erased>,
    pub(super) lister: Lister<Erased>,
    /// Writing the cache, telling of it and joining take turns: so whoever joins hears of everything exactly once.
    ///
    /// Index functions run in a turn. One that wants a turn of its own would wait for itself; the lock lets it in again, and
    /// the cell refuses.
    turn: ReentrantMutex<RefCell<SharedProcessor>>,
    /// Tells it from all others.
    pub(super) id: u64,
    /// All followers that have not ended, removed ones among them. Can be looked at without a turn.
    roster: Mutex<Vec<Arc<Listener>>>,
    /// How often to look who is due for a resync. Can be looked at without a turn.
    check_period: Mutex<Option<Duration>>,
    pub(super) workers: Workers,
    pub(super) metrics: InformerMetrics,
    /// Set when it starts.
    pub(super) source: OnceLock<Source>,
    /// Whether the first list is in the cache; an error if it will never be.
    pub(super) sync: SetOnce<Result<(), Unsynced>>,
    /// While it waits before it tries again: what failed, if waiting will not help. Nobody looks if it is to keep trying.
    pub(super) hopeless: watch::Sender<Option<Arc<ListWatchError>>>,
    pub(super) fails_fast: bool,
    /// The cache was written, or will not be any more.
    pub(super) moved: Notify,
    /// How many relists of a changed history the cache has taken.
    pub(super) history_changes: AtomicU64,
    pub(super) stop: SetOnce<()>,
    pub(super) stopped: SetOnce<()>,
    /// What went wrong inside, if anything did.
    pub(super) crash: OnceLock<Arc<str>>,
    /// The cache is not written any more.
    is_closed: AtomicBool,
}

/// What is settled when it is made.
pub(super) struct Plan {
    pub(super) name: Arc<str>,
    pub(super) cluster: Option<Arc<str>>,
    pub(super) namespace: Option<Arc<str>>,
    pub(super) fails_fast: bool,
}

/// It stopped before it was synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unsynced;

/// What is known of the source side once it runs.
pub(super) struct Source {
    pub(super) reflector: ReflectorHandle,
    pub(super) queued: Box<dyn Fn() -> usize + Send + Sync>,
}

/// Somebody inside a turn, that is an index function, wants another one.
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

    /// What runs on behalf of the informer itself.
    pub(super) fn caller(&self) -> Caller {
        Caller { informer: self.id, listener: None }
    }

    /// Waits for a turn.
    pub(super) fn in_turn<R>(&self, act: impl FnOnce(&mut SharedProcessor) -> R) -> Result<R, InsideTurn> {
        let turn = self.turn.lock();
        let mut processor = turn.try_borrow_mut().map_err(|_| InsideTurn)?;
        let result = do_as(self.caller(), || act(&mut processor));
        *self.check_period.lock() = processor.check_period();
        let left = processor.take_left();
        drop(processor);
        drop(turn);
        self.let_go(left);
        Ok(result)
    }

    /// Drops values that hold users' code, one by one; a panic of a destructor is logged. Call it without a lock.
    pub(super) fn let_go<T>(&self, values: impl IntoIterator<Item = T>) {
        for value in values {
            panics::drop_catching(value, |panic| {
                error!(kind = &*self.name, error = panic, "something panicked when it was dropped");
            });
        }
    }

    pub(super) fn check_period(&self) -> Option<Duration> {
        *self.check_period.lock()
    }

    pub(super) fn enlist(&self, listener: Arc<Listener>) {
        self.roster.lock().push(listener);
    }

    /// All followers that have not ended.
    pub(super) fn roster(&self) -> Vec<Arc<Listener>> {
        let mut roster = self.roster.lock();
        let ended: Vec<_> = roster.extract_if(.., |listener| listener.has_ended()).collect();
        let left = roster.clone();
        drop(roster);
        self.let_go(ended);
        left
    }

    /// Whether nobody is left whose end is to be waited for.
    pub(super) fn is_deserted(&self) -> bool {
        self.roster.lock().iter().all(|listener| listener.has_ended())
    }

    /// The name, with a number if somebody who follows has it already.
    pub(super) fn unique(&self, name: Arc<str>) -> Arc<str> {
        let roster = self.roster.lock();
        let is_taken = |name: &str| roster.iter().any(|listener| **listener.name() == *name && !listener.is_closed());
        if !is_taken(&name) {
            return name;
        }
        let mut numbered = (2..).map(|number| format!("{name} ({number})"));
        numbered.find(|name| !is_taken(name)).map_or(name, Into::into)
    }

    /// Whether the cache is not written any more.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Acquire)
    }

    pub(super) fn is_synced(&self) -> bool {
        self.sync.get() == Some(&Ok(()))
    }

    pub(super) fn source_status(&self) -> ReflectorStatus {
        self.source.get().map(|source| source.reflector.status()).unwrap_or_default()
    }

    /// How long ago the server confirmed that the cache is current.
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

    /// Followers are told nothing any more.
    pub(super) fn close(&self) {
        let followers = self.in_turn(SharedProcessor::close).unwrap_or_default();
        followers.iter().for_each(|listener| listener.close(Ended::Stopped));
        self.let_go(followers);
        let _ = self.sync.set(Err(Unsynced));
        let was_closed = self.is_closed.swap(true, Ordering::AcqRel);
        self.indexer.stop();
        self.moved.notify_waiters();
        // Once: by the second time, another one of the same name may be at work.
        if !was_closed {
            self.metrics.stopped();
        }
    }

    /// The informer's own work has ended.
    pub(super) fn end(&self) {
        self.close();
        let _ = self.stopped.set(());
        self.let_go(self.roster());
    }
}
