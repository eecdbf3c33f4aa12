//! What a shared informer, its task and its handles share.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;

use parking_lot::Mutex;
use parking_lot::ReentrantMutex;
use tokio::sync::Notify;
use tokio::sync::SetOnce;

use crate::ResourceVersion;
use crate::listwatch::ReflectorHandle;
use crate::listwatch::ReflectorStatus;
use crate::metrics::InformerMetrics;
use crate::store::Indexer;
use crate::store::Lister;
use crate::subscribers::Listener;
use crate::subscribers::SharedProcessor;
use crate::subscribers::Workers;

/// One informer without its handle: what lives as long as anybody needs it.
pub(super) struct Core<O> {
    pub(super) name: Arc<str>,
    pub(super) indexer: Indexer<O>,
    pub(super) lister: Lister<O>,
    /// Writing the cache, telling of it and joining take turns: so whoever joins hears of everything exactly once.
    ///
    /// Index functions run in a turn. One that wants a turn of its own would wait for itself; the lock lets it in again, and
    /// the cell refuses.
    turn: ReentrantMutex<RefCell<SharedProcessor<O>>>,
    /// Tells its processor from all others.
    pub(super) processor: u64,
    /// All followers that have not ended, removed ones among them. Can be looked at without a turn.
    roster: Mutex<Vec<Arc<Listener<O>>>>,
    pub(super) workers: Workers,
    pub(super) metrics: InformerMetrics,
    /// Set when it starts.
    pub(super) source: OnceLock<Source>,
    /// Whether the first list is in the cache; an error if it will never be.
    pub(super) sync: SetOnce<Result<(), Unsynced>>,
    /// The cache was written, or will not be any more.
    pub(super) moved: Notify,
    /// How often the server had gone back when the cache was last written.
    pub(super) rewinds: AtomicU64,
    pub(super) stop: SetOnce<()>,
    pub(super) stopped: SetOnce<()>,
    /// What went wrong inside, if anything did.
    pub(super) crash: OnceLock<Arc<str>>,
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

impl<O: Send + Sync + 'static> Core<O> {
    pub(super) fn new(name: Arc<str>, indexer: Indexer<O>, processor: SharedProcessor<O>) -> Self {
        Self {
            metrics: InformerMetrics::new(&name),
            name,
            lister: indexer.lister(),
            indexer,
            processor: processor.id(),
            turn: ReentrantMutex::new(RefCell::new(processor)),
            roster: Mutex::default(),
            workers: Workers::default(),
            source: OnceLock::new(),
            sync: SetOnce::new(),
            moved: Notify::new(),
            rewinds: AtomicU64::new(0),
            stop: SetOnce::new(),
            stopped: SetOnce::new(),
            crash: OnceLock::new(),
        }
    }

    /// Waits for a turn.
    pub(super) fn in_turn<R>(&self, act: impl FnOnce(&mut SharedProcessor<O>) -> R) -> Result<R, InsideTurn> {
        let turn = self.turn.lock();
        let mut processor = turn.try_borrow_mut().map_err(|_| InsideTurn)?;
        Ok(act(&mut processor))
    }

    pub(super) fn enlist(&self, listener: Arc<Listener<O>>) {
        let mut roster = self.roster.lock();
        roster.retain(|listener| !listener.has_ended());
        roster.push(listener);
    }

    /// All followers that have not ended.
    pub(super) fn roster(&self) -> Vec<Arc<Listener<O>>> {
        self.roster.lock().iter().filter(|listener| !listener.has_ended()).cloned().collect()
    }

    pub(super) fn is_synced(&self) -> bool {
        self.sync.get() == Some(&Ok(()))
    }

    pub(super) fn source_status(&self) -> ReflectorStatus {
        self.source.get().map(|source| source.reflector.status()).unwrap_or_default()
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
        // From inside an index function there is nobody to wait for: that turn ends before the informer does.
        let _ = self.in_turn(SharedProcessor::close);
        let _ = self.sync.set(Err(Unsynced));
        self.metrics.stopped();
    }

    /// Everything has ended.
    pub(super) fn end(&self) {
        self.close();
        let _ = self.stopped.set(());
        self.moved.notify_waiters();
    }
}
